"""
Lowering of quantization and dequantization with constant scales and zero points.

The documentation of `lower-quant-ops` defines the results.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    Float80Type,
    Float128Type,
    IntegerType,
    PackableType,
    TensorType,
    f32,
    f64,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import RewritePattern
from xdsl.utils.exceptions import PassFailedException, VerifyException

from xdsl_quant.diagnostics import refuse, refusing
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    ScaledQuantizedType,
    StoredQuantizedType,
)
from xdsl_quant.dialects.quant.float_formats import float_format, float_properties
from xdsl_quant.dialects.quant.ops import ROUNDING_ATTRIBUTES, cast_rounding
from xdsl_quant.rounding_mode import (
    NanResult,
    Rounding,
    RoundingMode,
    ScaleRounding,
    ZeroPointOrder,
    compute_type,
)

from .builder import LoweringBuilder, TensorwiseBuilder, integer_attr
from .tensor_traversal import ElementConversion, Layout, Operands

_FROM_FLOAT = {
    True: (arith.FPToSIOp, arith.MaxSIOp, arith.MinSIOp),
    False: (arith.FPToUIOp, arith.MaxUIOp, arith.MinUIOp),
}
"""Conversion, maximum and minimum ops for signed (True) and unsigned integers."""


def dense(
    values: Sequence[float], element_type: AnyFloat | IntegerType, shape: Sequence[int]
) -> DenseIntOrFPElementsAttr:
    """Return a tensor attribute of values, rounded to a float element type."""
    packed = cast("PackableType[float]", element_type).pack(values)
    return DenseIntOrFPElementsAttr(TensorType(element_type, shape), BytesAttr(packed))


def cast_compute_type(
    quantized_type: StoredQuantizedType,
    zero_point_range: tuple[int, int],
    mode: RoundingMode,
) -> AnyFloat:
    """
    Return the float type to compute casts in.

    Args:
        quantized_type: the type that is cast to or from.
        zero_point_range: the smallest and the largest zero point.
        mode: the rounding mode of the casts.
    """
    expressed = cast(AnyFloat, quantized_type.expressed_type)
    if not quantized_type.has_integer_storage:
        mode = "nearest-even"
    if mode == "truncate":
        # As in MLIR, even if the type is too narrow.
        return expressed
    return compute_type(
        mode,
        (expressed, f32, f64),
        float_properties,
        quantized_type.represented_numbers,
        zero_point_range,
    )


class StorageArithmetic(ABC):
    """Conversion between stored values and the floats that casts compute with."""

    def __init__(self, casts: CastArithmetic):
        self.casts = casts

    @abstractmethod
    def store(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        """Convert the number `expressed / scale + zero_point` to its stored value."""

    @abstractmethod
    def load(self, builder: LoweringBuilder, stored: SSAValue) -> SSAValue:
        """Convert a stored value to a float."""

    def enter_loop(self, builder: LoweringBuilder | None) -> None:
        """Build constants before a loop with the given builder; `None` ends the loop."""


@dataclass(eq=False)
class CastArithmetic(ElementConversion, ABC):
    """Arithmetic shared by quantization and dequantization with one quantized type."""

    quantized_type: StoredQuantizedType
    """Quantized type; dynamic casts ignore its scales and zero points."""

    rounding: Rounding
    fuse: bool
    """True if per-tensor types are lowered to `linalg.generic` as well."""

    storage_kind: type[StorageArithmetic] | None = None

    def __post_init__(self) -> None:
        quantized_type = self.quantized_type
        self.storage = quantized_type.signless_storage_type
        """Integer type with the bit width of stored values."""
        self.expressed = cast(AnyFloat, quantized_type.expressed_type)
        self.has_zero_points = self.zero_point_range != (0, 0)
        """True if any zero point is not 0."""
        self.truncates = self.rounding.mode == "truncate"
        self.saturates = not self.truncates
        """True if values are clamped before they are converted to integers."""
        self.as_mlir = self.truncates and not self.fuse
        """True if the lowering must build the same ops as MLIR."""
        self.computed = self.compute_type(self.rounding.mode)
        """Float type to compute in."""
        self.clamped = self.computed
        """Float type in which values are clamped."""
        self.multiplies = False
        """True if values are multiplied by the reciprocals of scales."""
        self.stored = (self.storage_kind or IntegerStorage)(self)
        self._tensors: dict[
            tuple[int, ...], Mapping[str, DenseIntOrFPElementsAttr]
        ] = {}
        """Parameter constants by shape, cached: a type may have a million scales."""

    def compute_type(self, mode: RoundingMode) -> AnyFloat:
        return cast_compute_type(self.quantized_type, self.zero_point_range, mode)

    @abstractmethod
    def compute(
        self, builder: LoweringBuilder, value: SSAValue, operands: Operands
    ) -> SSAValue:
        """Convert a value with `scale`, `zero_point` and `offset` from `operands`."""

    def convert(
        self, builder: LoweringBuilder, number: SSAValue, parameters: Operands
    ) -> SSAValue:
        operands = parameters or self.constants(builder)
        # Block-scaled types name parameters in the plural: `scales` for `scale`.
        by_role = {name.removesuffix("s"): v for name, v in operands.items()}
        return self.compute(builder, number, by_role)

    def convert_tensor(
        self, builder: LoweringBuilder, value: SSAValue, layout: Layout | None
    ) -> SSAValue:
        if layout is not None or self.fuse:
            self.stored.enter_loop(builder)
            result = super().convert_tensor(builder, value, layout)
            self.stored.enter_loop(None)
            return result
        # Elementwise ops on tensors, as in MLIR.
        constants = {**self.constants(builder)}
        sizes = [size for size in builder.sizes(value) if isinstance(size, SSAValue)]
        tensors = builder.on_tensors(cast(TensorType, value.type), sizes)
        constants["scale"] = tensors.lift(constants["scale"])
        return self.convert(tensors, value, constants)

    # Parameters of the type

    @property
    def _scaled_type(self) -> ScaledQuantizedType:
        return cast(ScaledQuantizedType, self.quantized_type)

    @property
    def layout(self) -> Layout | None:
        return Layout.of(self._scaled_type)

    @property
    def zero_point_range(self) -> tuple[int, int]:
        """Smallest and largest zero point."""
        return self._scaled_type.zero_point_range

    @cached_property
    def zero_points(self) -> Sequence[int]:
        """All zero points; with `truncate` they wrap to signless integers, as in MLIR."""
        zero_points = self._scaled_type.zero_point_array()
        width = self.storage.width.data
        if not self.truncates or max(zero_points) < 1 << (width - 1):
            return zero_points
        return [integer_attr(z, width).value.data for z in zero_points]

    @cached_property
    def scales(self) -> Sequence[float]:
        """All scales, rounded to the expressed type."""
        scales = self._scaled_type.scale_array()
        return float_format(self.expressed).nearest_all(scales)

    # Constants

    @cached_property
    def _factors(self) -> Sequence[float]:
        """Scales to divide by, or the reciprocals to multiply by."""
        if not self.multiplies:
            return self.scales
        return [1.0 / scale for scale in self.scales]

    def number(self, builder: LoweringBuilder, value: float) -> SSAValue:
        return builder.number(value, self.computed)

    def constants(self, builder: LoweringBuilder) -> Operands:
        """Build the scale and, if it is used, the zero point of a per-tensor type."""
        scale = self.number(builder, self._factors[0])
        if not self.has_zero_points and not self.as_mlir:
            return {"scale": scale}
        zero_point = (
            builder.number(self.zero_points[0], self.storage)
            if self.truncates
            else self.number(builder, float(self.zero_points[0]))
        )
        used = {"zero_point": zero_point} if self.has_zero_points else {}
        return {"scale": scale, **used}

    def parameters(self, builder: LoweringBuilder, layout: Layout) -> Operands:
        shape = layout.shape
        if shape not in self._tensors:
            self._tensors[shape] = self.constant_tensors(shape)
        return builder.constants(self._tensors[shape])

    def constant_tensors(
        self, shape: tuple[int, ...]
    ) -> Mapping[str, DenseIntOrFPElementsAttr]:
        """Return the parameters as tensor attributes of a shape, by name."""
        tensors = {"scale": dense(self._factors, self.computed, shape)}
        if self.has_zero_points or self.as_mlir:
            tensors["zero_point"] = (
                dense(self.zero_points, self.storage, shape)
                if self.truncates
                else dense([*map(float, self.zero_points)], self.computed, shape)
            )
        return tensors

    # Ops

    def float_op(
        self, builder: LoweringBuilder, op_type: type[Operation], *operands: SSAValue
    ) -> SSAValue:
        """Build an elementwise op on floats of the type to compute in."""
        return builder.elementwise(op_type, operands, self.computed)

    def as_float(self, builder: LoweringBuilder, integer: SSAValue) -> SSAValue:
        """Convert stored integers to floats."""
        is_signed = self.quantized_type.is_signed
        op_type = arith.SIToFPOp if is_signed else arith.UIToFPOp
        return builder.elementwise(op_type, (integer,), self.computed)

    def zero_point_operand(
        self, builder: LoweringBuilder, zero_point: SSAValue
    ) -> SSAValue:
        """Return a zero point as a float operand; convert it if it is an integer."""
        operand = builder.lift(zero_point)
        if zero_point.type != self.storage:
            return operand
        return self.as_float(builder, operand)


class Quantization(CastArithmetic):
    """Conversion of expressed values to stored values."""

    @property
    def element_type(self) -> Attribute:
        return self.quantized_type.stored_type

    def __post_init__(self) -> None:
        super().__post_init__()
        self.multiplies = self.fuse and self._has_exact_reciprocals()

    def _has_exact_reciprocals(self) -> bool:
        """Return True if multiplying by `1 / scale` is the same as dividing."""
        format_ = float_format(self.computed)
        return (
            all(math.frexp(scale)[0] == 0.5 for scale in {*self.scales})
            and 1.0 / max(self.scales) >= math.ldexp(1.0, format_.min_exponent)
            and 1.0 / min(self.scales) <= format_.largest
        )

    def compute(
        self, builder: LoweringBuilder, value: SSAValue, operands: Operands
    ) -> SSAValue:
        if self.computed != self.expressed:
            value = builder.elementwise(arith.ExtFOp, (value,), self.computed)
        if (offset := operands.get("offset")) is not None:
            value = self.float_op(builder, arith.SubfOp, value, offset)
        value = self.quotient(builder, value, operands["scale"])
        if self.rounding.zero_point_order == "after-rounding":
            value = self.rounded(builder, value)
        if (zero_point := operands.get("zero_point")) is not None:
            # A sum of integers is exact, or exceeds the storage range.
            zero_point = self.zero_point_operand(builder, zero_point)
            value = self.float_op(builder, arith.AddfOp, value, zero_point)
        return self.stored.store(builder, value)

    def quotient(
        self, builder: LoweringBuilder, value: SSAValue, scale: SSAValue
    ) -> SSAValue:
        divide = arith.MulfOp if self.multiplies else arith.DivfOp
        return self.float_op(builder, divide, value, scale)

    def rounded(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        """Build the rounding of floats to integers."""
        is_even = self.rounding.mode == "nearest-even"
        round_op = math_dialect.RoundEvenOp if is_even else math_dialect.RoundOp
        return self.float_op(builder, round_op, value)


class Dequantization(CastArithmetic):
    """Conversion of stored values to expressed values."""

    @property
    def element_type(self) -> Attribute:
        return self.expressed

    def compute(
        self, builder: LoweringBuilder, value: SSAValue, operands: Operands
    ) -> SSAValue:
        value = self.stored.load(builder, value)
        if (zero_point := operands.get("zero_point")) is not None:
            zero_point = self.zero_point_operand(builder, zero_point)
            value = self.float_op(builder, arith.SubfOp, value, zero_point)
        value = self.float_op(builder, arith.MulfOp, value, operands["scale"])
        if (offset := operands.get("offset")) is not None:
            value = self.float_op(builder, arith.AddfOp, value, offset)
        if self.computed == self.expressed:
            return value
        return builder.elementwise(arith.TruncFOp, (value,), self.expressed)


class IntegerStorage(StorageArithmetic):
    """Integers as stored values."""

    def store(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        casts = cast(Quantization, self.casts)
        value = self._without_nan(builder, value)
        if not casts.saturates:
            clamps = casts.quantized_type.has_storage_type_bounds
            return self._converted(builder, value, clamps)
        rounds_first = casts.rounding.zero_point_order == "after-rounding"
        if not rounds_first and not casts.truncates:
            value = casts.rounded(builder, value)
        type_ = casts.clamped
        if type_ != casts.computed:
            value = builder.elementwise(arith.ExtFOp, (value,), type_)
        # `maxnumf` returns the other operand for NaN, so NaN becomes the lower limit.
        value = self._clamped(builder, value, type_, (arith.MaxnumfOp, arith.MinnumfOp))
        return self._converted(builder, value)

    def _without_nan(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        """Replace NaN by 0 before the clamp, if NaN is stored as 0."""
        casts = self.casts
        if casts.rounding.nan == "storage-min":
            return value
        if casts.quantized_type.storage_type_min.data >= 0 and casts.saturates:
            # The clamp turns NaN into the smallest stored value: 0, or the nearest to 0.
            return value
        zero = builder.lift(casts.number(builder, 0.0))
        # Both summands are 0 for NaN; otherwise one is the value, and the other 0.
        larger = casts.float_op(builder, arith.MaxnumfOp, value, zero)
        smaller = casts.float_op(builder, arith.MinnumfOp, value, zero)
        return casts.float_op(builder, arith.AddfOp, larger, smaller)

    def _clamped(
        self,
        builder: LoweringBuilder,
        value: SSAValue,
        type_: AnyFloat | IntegerType,
        op_types: Iterable[type[Operation]],
    ) -> SSAValue:
        """Clamp values to the storage range."""
        storage_range = self.casts.quantized_type.storage_range
        numbers = [builder.number(bound, type_) for bound in storage_range]
        bounds = [*map(builder.lift, numbers)]
        for op_type, bound in zip(op_types, bounds, strict=True):
            value = builder.elementwise(op_type, (value, bound), type_)
        return value

    def _converted(
        self, builder: LoweringBuilder, value: SSAValue, clamps: bool = False
    ) -> SSAValue:
        storage = self.casts.storage
        # Conversions to i32 are vectorized; those to i8 or i16 are not.
        is_wide = (
            not self.casts.as_mlir
            and not isinstance(builder, TensorwiseBuilder)
            and storage.width.data <= 16
        )
        is_signed = is_wide or self.casts.quantized_type.is_signed
        type_ = i32 if is_wide else storage
        to_integer, *limits = _FROM_FLOAT[is_signed]
        value = builder.elementwise(to_integer, (value,), type_)
        if clamps:
            value = self._clamped(builder, value, type_, limits)
        if not is_wide:
            return value
        return builder.elementwise(arith.TruncIOp, (value,), storage)

    def load(self, builder: LoweringBuilder, stored: SSAValue) -> SSAValue:
        return self.casts.as_float(builder, stored)


def unsupported_cast_reason(
    quantized_type: Attribute, *, needs_integers: bool = True
) -> str | None:
    """
    Return the reason why casts of this type cannot be lowered, or `None` if they can.

    Args:
        quantized_type: the type.
        needs_integers: True if types with float or table storage are unsupported.
    """
    if not isinstance(quantized_type, ScaledQuantizedType):
        if isinstance(quantized_type, BlockScaledQuantizedType):
            return "unsupported type '!quant.block_scaled', expected '!quant.uniform'"
        return f"type '{quantized_type}' has no scale"
    if needs_integers and (reason := quantized_type.unsupported_storage) is not None:
        return reason
    try:
        quantized_type.verify_zero_points_are_storable()
    except VerifyException as e:
        return str(e)
    return None


def check_expressed_type(op: Operation, expressed_type: Attribute) -> None:
    """
    Check that arithmetic on the expressed type of an op is supported.

    Raises:
        PassFailedException: with the location of the op.
    """
    if isinstance(expressed_type, Float80Type | Float128Type):
        reason = f"xDSL has no constants of expressed type '{expressed_type}'"
        refuse(op, "cannot be lowered", reason, "use f64")


@dataclass(frozen=True)
class RoundedCastPattern(RewritePattern, ABC):
    """Options of the patterns that lower casts."""

    rounding_mode: RoundingMode | None = None
    """
    Rounding unless the cast has an attribute `quant.rounding_mode`. Default: `truncate` for
    integer storage, else `nearest-even`.
    """

    fuse: bool = False
    """True if a cast of a ranked tensor becomes one `linalg.generic`."""

    runtime_checks: bool = False
    """True to assert at run time that dynamic sizes match the scales."""

    scale_rounding: ScaleRounding = "single"
    """Rounding of products with the multiplier of a fixed-point scale."""

    zero_point_order: ZeroPointOrder = "before-rounding"
    """
    Addition of the zero point before or after rounding, unless the cast has an attribute
    `quant.zero_point_order`.
    """

    nan: NanResult = "storage-min"
    """Stored value for NaN, unless the cast has an attribute `quant.nan`."""

    def __post_init__(self) -> None:
        if (mistake := self._rounding.error_message()) is not None:
            raise PassFailedException(mistake)

    @property
    def _rounding(self) -> Rounding:
        mode = self.rounding_mode or "truncate"
        return Rounding(mode, self.zero_point_order, self.nan)

    def rounding_of(self, op: Operation, quantized_type: Attribute) -> Rounding:
        """
        Return the rounding of a cast to or from a type.

        Raises:
            PassFailedException: with the location of the op, if its attributes are invalid
                or contradict the options.
        """
        rounding = self._rounding
        if (
            self.rounding_mode is None
            and isinstance(quantized_type, StoredQuantizedType)
            and not quantized_type.has_integer_storage
        ):
            rounding = rounding._replace(mode="nearest-even")
        if op.attributes.keys().isdisjoint(ROUNDING_ATTRIBUTES):
            return rounding
        with refusing(op, "cannot be lowered"):
            return cast_rounding(op, rounding)
