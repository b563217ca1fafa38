"""
How the scales and zero points of a quantized type become ops on numbers.

`lower-quant-ops` says in its module documentation what the ops compute; this module is the
one place that knows how.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    PackableType,
    TensorType,
    f32,
    f64,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import ScaledQuantizedType
from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.rounding_mode import Rounding, compute_type

from .builder import LoweringBuilder, TensorwiseBuilder
from .tensor_traversal import ElementConversion, Layout

_FASTMATH: Mapping[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}


@cache
def _integer_attr(value: int, width: int) -> IntegerAttr:
    # Arithmetic is signless: the attribute holds the number with the same bits.
    half = 1 << (width - 1)
    return IntegerAttr((value + half) % (2 * half) - half, IntegerType(width))


@cache
def _float_attr(value: float, float_type: AnyFloat) -> FloatAttr:
    return FloatAttr(value, float_type)


def _dense(
    values: Sequence[float], element_type: AnyFloat | IntegerType, shape: Sequence[int]
) -> DenseIntOrFPElementsAttr:
    """A tensor attribute; a number that is no float of the type is rounded."""
    packed = cast("PackableType[float]", element_type).pack(values)
    return DenseIntOrFPElementsAttr(TensorType(element_type, shape), BytesAttr(packed))


@dataclass(eq=False)
class CastArithmetic(ElementConversion, ABC):
    """
    How the scales and zero points of one type become ops and constants: what
    [`Quantization`][xdsl_quant.transforms.building.quantization_arithmetic.Quantization]
    and
    [`Dequantization`][xdsl_quant.transforms.building.quantization_arithmetic.Dequantization]
    have in common.
    """

    quantized_type: ScaledQuantizedType
    rounding: Rounding
    fuse: bool
    """Whether a per-tensor type is applied by `linalg.generic`, too."""

    _tensors: dict[tuple[int, ...], Mapping[str, DenseIntOrFPElementsAttr]] = field(
        default_factory=dict[tuple[int, ...], Mapping[str, DenseIntOrFPElementsAttr]],
        init=False,
    )
    """The parameters as constants of each shape: there may be a million of them."""

    @abstractmethod
    def compute(
        self,
        builder: LoweringBuilder,
        value: SSAValue,
        scale: SSAValue,
        zero_point: SSAValue | None,
    ) -> SSAValue:
        """Convert numbers, given their scale as a float and their zero point."""

    def convert(
        self, builder: LoweringBuilder, number: SSAValue, parameters: Sequence[SSAValue]
    ) -> SSAValue:
        if not parameters:
            return self.compute(builder, number, *self._constants(builder))
        scale, *others = parameters
        return self.compute(builder, number, scale, others[0] if others else None)

    def convert_tensor(
        self, builder: LoweringBuilder, value: SSAValue, layout: Layout | None
    ) -> SSAValue:
        if layout is not None or self.fuse:
            return super().convert_tensor(builder, value, layout)
        # Elementwise ops on tensors, as MLIR has them.
        scale, zero_point = self._constants(builder)
        sizes = [size for size in builder.sizes(value) if isinstance(size, SSAValue)]
        tensors = TensorwiseBuilder(
            builder.insertion_point,
            location=builder.location,
            container=cast(TensorType, value.type),
            dynamic_sizes=sizes,
        )
        return self.compute(tensors, value, tensors.lift(scale), zero_point)

    # What the type says

    @property
    def layout(self) -> Layout | None:
        return Layout.of(self.quantized_type)

    @cached_property
    def zero_points(self) -> Sequence[int]:
        """All zero points."""
        return self.quantized_type.zero_point_array()

    @cached_property
    def scales(self) -> Sequence[float]:
        """All scales, rounded to the expressed type."""
        scales = self.quantized_type.scale_array()
        return float_format(self.expressed).nearest_all(scales)

    @cached_property
    def storage(self) -> IntegerType:
        """The type of stored values."""
        return self.quantized_type.signless_storage_type

    @cached_property
    def expressed(self) -> AnyFloat:
        """The type of expressed values."""
        return self.quantized_type.expressed_type

    @cached_property
    def _is_signed(self) -> bool:
        return self.quantized_type.is_signed

    @property
    def _as_mlir(self) -> bool:
        """Whether the ops have to be those of MLIR."""
        return self._truncates and not self.fuse

    @property
    def _truncates(self) -> bool:
        return self.rounding.mode == "truncate"

    @cached_property
    def _compute(self) -> AnyFloat:
        """The float type to compute in."""
        return compute_type(
            self.rounding.mode,
            (self.expressed, f32, f64),
            lambda type_: (type_.bitwidth, float_format(type_).precision),
            self.quantized_type.storage_range,
            self.quantized_type.zero_point_range,
        )

    # Constants

    @cached_property
    def _factors(self) -> Sequence[float]:
        """What is multiplied or divided by."""
        return self.scales

    @cached_property
    def _factor_attr(self) -> FloatAttr:
        return _float_attr(self._factors[0], self._compute)

    @cached_property
    def _zero_point_attr(self) -> IntegerAttr | FloatAttr:
        zero_point = self.zero_points[0]
        if self._truncates:
            return _integer_attr(zero_point, self.storage.width.data)
        return _float_attr(float(zero_point), self._compute)

    @cached_property
    def has_zero_points(self) -> bool:
        """Whether any zero point is not 0."""
        return not self.quantized_type.is_fixed_point

    def _constants(self, builder: LoweringBuilder) -> tuple[SSAValue, SSAValue | None]:
        """Scale and zero point of a per-tensor type; `None` if that is not to be used."""
        scale = builder.constant(self._factor_attr, self._compute)
        if not self.has_zero_points and not self._as_mlir:
            return scale, None
        zero_point = builder.constant(self._zero_point_attr, self._zero_point_attr.type)
        return scale, zero_point if self.has_zero_points else None

    def parameters(self, layout: Layout) -> Mapping[str, DenseIntOrFPElementsAttr]:
        shape = layout.shape
        if (known := self._tensors.get(shape)) is not None:
            return known
        tensors = {"scale": _dense(self._factors, self._compute, shape)}
        if self.has_zero_points or self._as_mlir:
            tensors["zero_point"] = (
                _dense(self._signless_zero_points(), self.storage, shape)
                if self._truncates
                else _dense([*map(float, self.zero_points)], self._compute, shape)
            )
        self._tensors[shape] = tensors
        return tensors

    def _signless_zero_points(self) -> Sequence[int]:
        width = self.storage.width.data
        if self._is_signed or max(self.zero_points) < 1 << (width - 1):
            return self.zero_points
        return [_integer_attr(z, width).value.data for z in self.zero_points]

    # Ops

    def _zero_point_operand(
        self, builder: LoweringBuilder, zero_point: SSAValue
    ) -> SSAValue:
        """A zero point as a float."""
        operand = builder.lift(zero_point)
        if not self._truncates:
            return operand
        return builder.elementwise(self._int_to_float, (operand,), self._compute)

    @property
    def _int_to_float(self) -> type[Operation]:
        return arith.SIToFPOp if self._is_signed else arith.UIToFPOp


class Quantization(CastArithmetic):
    """Stored values for expressed ones."""

    @property
    def element_type(self) -> Attribute:
        return self.storage

    @cached_property
    def _has_exact_reciprocals(self) -> bool:
        """Whether multiplying by `1 / scale` is the same as dividing by `scale`."""
        smallest_normal = math.ldexp(1.0, float_format(self._compute).min_exponent)
        return (
            self.fuse
            and all(math.frexp(scale)[0] == 0.5 for scale in {*self.scales})
            and 1.0 / max(self.scales) >= smallest_normal
            and 1.0 / min(self.scales) <= float_format(self._compute).largest
        )

    @cached_property
    def _factors(self) -> Sequence[float]:
        if not self._has_exact_reciprocals:
            return self.scales
        return [1.0 / scale for scale in self.scales]

    def compute(
        self,
        builder: LoweringBuilder,
        value: SSAValue,
        scale: SSAValue,
        zero_point: SSAValue | None,
    ) -> SSAValue:
        if self._compute != self.expressed:
            value = builder.elementwise(arith.ExtFOp, (value,), self._compute)
        divide = arith.MulfOp if self._has_exact_reciprocals else arith.DivfOp
        value = builder.elementwise(divide, (value, scale), self._compute, _FASTMATH)
        if self.rounding.zero_point_order == "after-rounding":
            value = self._round(builder, value)
            # A sum of integers is exact, or beyond the storage range.
            value = self._without_nan(builder, self._add(builder, value, zero_point))
            return self._clamp_and_convert(builder, value)
        value = self._without_nan(builder, self._add(builder, value, zero_point))
        if self._truncates:
            return self._truncate(builder, value)
        return self._clamp_and_convert(builder, self._round(builder, value))

    def _without_nan(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        """A value that is not clamped yet, with 0 in place of NaN if 0 is stored for it."""
        if self.rounding.nan == "storage-min":
            return value
        if self.quantized_type.storage_type_min.data >= 0 and not self._truncates:
            # The clamp makes the smallest stored value of NaN: the nearest one to zero.
            return value
        attr = _float_attr(0.0, self._compute)
        zero = builder.lift(builder.constant(attr, attr.type))
        # Both are zero for NaN. Otherwise one is the value, and the other one is zero.
        parts = [
            builder.elementwise(op_type, (value, zero), self._compute, _FASTMATH)
            for op_type in (arith.MaxnumfOp, arith.MinnumfOp)
        ]
        return builder.elementwise(arith.AddfOp, parts, self._compute, _FASTMATH)

    def _add(
        self, builder: LoweringBuilder, value: SSAValue, zero_point: SSAValue | None
    ) -> SSAValue:
        if zero_point is None:
            return value
        offset = self._zero_point_operand(builder, zero_point)
        return builder.elementwise(
            arith.AddfOp, (value, offset), self._compute, _FASTMATH
        )

    def _round(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        round_op = (
            math_dialect.RoundEvenOp
            if self.rounding.mode == "nearest-even"
            else math_dialect.RoundOp
        )
        return builder.elementwise(round_op, (value,), self._compute, _FASTMATH)

    def _clamp_and_convert(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        compute = self._compute
        bounds = [
            builder.constant(_float_attr(float(bound), self._compute), compute)
            for bound in self.quantized_type.storage_range
        ]
        low, high = map(builder.lift, bounds)
        # The maximum of NaN and a number is the number.
        value = builder.elementwise(arith.MaxnumfOp, (value, low), compute, _FASTMATH)
        value = builder.elementwise(arith.MinnumfOp, (value, high), compute, _FASTMATH)
        return self._convert(builder, value)

    def _truncate(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        if not self.quantized_type.has_storage_type_bounds:
            return self._convert(builder, value)
        if self._converts_by_i32(builder):
            value = builder.elementwise(arith.FPToSIOp, (value,), i32)
            value = self._clamp(builder, value, i32, True)
            return builder.elementwise(arith.TruncIOp, (value,), self.storage)
        value = self._convert(builder, value)
        return self._clamp(builder, value, self.storage, self._is_signed)

    def _clamp(
        self,
        builder: LoweringBuilder,
        value: SSAValue,
        type_: IntegerType,
        is_signed: bool,
    ) -> SSAValue:
        bounds = [
            builder.constant(_integer_attr(bound, type_.width.data), type_)
            for bound in self.quantized_type.storage_range
        ]
        low, high = map(builder.lift, bounds)
        max_op, min_op = (
            (arith.MaxSIOp, arith.MinSIOp)
            if is_signed
            else (arith.MaxUIOp, arith.MinUIOp)
        )
        value = builder.elementwise(max_op, (value, low), type_)
        return builder.elementwise(min_op, (value, high), type_)

    def _converts_by_i32(self, builder: LoweringBuilder) -> bool:
        """
        Whether floats are converted to i32 and then truncated: unlike a conversion to i8
        or i16 this becomes vector instructions.
        """
        return not self._as_mlir and builder.is_scalar and self.storage.width.data <= 16

    def _convert(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        if self._converts_by_i32(builder):
            value = builder.elementwise(arith.FPToSIOp, (value,), i32)
            return builder.elementwise(arith.TruncIOp, (value,), self.storage)
        float_to_int = arith.FPToSIOp if self._is_signed else arith.FPToUIOp
        return builder.elementwise(float_to_int, (value,), self.storage)


class Dequantization(CastArithmetic):
    """Expressed values of stored ones."""

    @property
    def element_type(self) -> Attribute:
        return self.expressed

    def compute(
        self,
        builder: LoweringBuilder,
        value: SSAValue,
        scale: SSAValue,
        zero_point: SSAValue | None,
    ) -> SSAValue:
        compute = self._compute
        value = builder.elementwise(self._int_to_float, (value,), compute)
        if zero_point is not None:
            offset = self._zero_point_operand(builder, zero_point)
            value = builder.elementwise(
                arith.SubfOp, (value, offset), compute, _FASTMATH
            )
        value = builder.elementwise(arith.MulfOp, (value, scale), compute, _FASTMATH)
        if compute == self.expressed:
            return value
        return builder.elementwise(arith.TruncFOp, (value,), self.expressed)


def unsupported_reason(quantized_type: Attribute) -> str | None:
    """Why there are no ops for casts to or from this type; `None` if there are."""
    if not isinstance(quantized_type, ScaledQuantizedType):
        return f"type '{quantized_type}' has no scale"
    try:
        quantized_type.verify_zero_points_are_storable()
    except VerifyException as e:
        return str(e)
    return None
