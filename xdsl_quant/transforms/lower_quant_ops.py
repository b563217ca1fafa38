"""
Lower `quant.qcast` and `quant.dcast` to arith, math, tensor, linalg and shape.

By default the ops are those of MLIR's pass, in the same order. They divide and add in the
expressed type, convert to an integer by truncation, and clamp that integer only if the
storage range is narrowed. A value that does not fit the storage type is undefined.

With another rounding mode every input has a defined result,
`clamp(round(expressed / scale + zero_point), storage_min, storage_max)`:

* It is computed in the expressed type, or in the narrower one of f32 and f64 that holds
  all stored values, the zero point and their differences exactly.
* The clamp comes before the conversion, so nothing out of range is ever converted. NaN
  becomes the smallest stored value and infinities saturate.

The code for an op has three layers, each with one place:

* `_Arithmetic` knows how a scale and a zero point become ops on numbers.
* `_Code` collects these ops for scalars, for whole tensors or for the body of a
  `linalg.generic`.
* `LowerQuantCast` knows how the tensor is traversed: which scale belongs to which
  element, and how an unranked tensor is reshaped to a ranked one and back.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Literal, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects import arith, cf, tensor
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    Signedness,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    f32,
    f64,
    i32,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.linalg.ops import YieldOp as LinalgYieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from xdsl_quant import compat
from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.dialects.quant.types import (
    UniformType,
    default_storage_max,
    default_storage_min,
    float_array,
    int_array,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.dialects.shape import NumElementsOp, ShapeOfOp, SplitAtOp

from .diagnostics import fail

compat.apply_all()

RoundingMode = Literal["truncate", "nearest-even", "nearest-away"]
"""How an expressed value between two stored ones is rounded."""

CastOp = QuantizeCastOp | DequantizeCastOp

_INDEX = IndexType()
_NO_PROPERTIES: Mapping[str, Attribute] = {}
_FASTMATH: Mapping[str, Attribute] = {"fastmath": arith.FastMathFlagsAttr("none")}
_SHAPE_TYPE = TensorType(_INDEX, [DYNAMIC_INDEX])


# Types and attributes that recur


@lru_cache(maxsize=1024)
def _tensor_type(
    element_type: Attribute, shape: ArrayAttr[IntAttr], encoding: Attribute
) -> TensorType:
    return TensorType(element_type, shape, encoding)


@cache
def _index_attr(value: int) -> IntegerAttr:
    return IntegerAttr(value, _INDEX)


@cache
def _parallel(rank: int) -> ArrayAttr[IteratorTypeAttr]:
    return ArrayAttr([IteratorTypeAttr.parallel()] * rank)


@cache
def _indexing_maps(
    rank: int, parameter_exprs: tuple[AffineExpr, ...], parameter_count: int
) -> ArrayAttr[AffineMapAttr]:
    """The maps of a generic with one input, some parameter tensors and one output."""
    identity = AffineMapAttr(AffineMap.identity(rank))
    parameters = AffineMapAttr(AffineMap(rank, 0, parameter_exprs))
    return ArrayAttr([identity, *[parameters] * parameter_count, identity])


def _float_bytes(values: Sequence[float], float_type: AnyFloat) -> bytes:
    """The numbers, each rounded to the float type, as in a dense attribute."""
    return float_type.pack(values)


# Ops under construction


@dataclass
class _Code:
    """Ops under construction, on scalars. All of them have one location."""

    location: LocationAttr
    ops: list[Operation] = field(default_factory=list[Operation])

    def op(
        self,
        op_type: type[Operation],
        operands: Sequence[SSAValue],
        result_type: Attribute,
        properties: Mapping[str, Attribute] = _NO_PROPERTIES,
    ) -> SSAValue:
        """Add an op with one result."""
        # `create` takes a third of the time of a constructor.
        op = op_type.create(
            operands=operands,
            result_types=(result_type,),
            properties=properties,
            location=self.location,
        )
        self.ops.append(op)
        return op.results[0]

    def constant(self, value: Attribute, type_: Attribute) -> SSAValue:
        """Add a constant."""
        return self.op(arith.ConstantOp, (), type_, {"value": value})

    def index(self, value: int) -> SSAValue:
        """Add an index constant."""
        return self.constant(_index_attr(value), _INDEX)

    # What differs for tensors

    @property
    def is_scalar(self) -> bool:
        """Whether numbers are computed one by one."""
        return True

    def type(self, element_type: Attribute) -> Attribute:
        """The type of numbers of this element type."""
        return element_type

    def lift(self, scalar: SSAValue) -> SSAValue:
        """A scalar as an operand of elementwise ops."""
        return scalar

    def elementwise(
        self,
        op_type: type[Operation],
        operands: Sequence[SSAValue],
        element_type: Attribute,
        properties: Mapping[str, Attribute] = _NO_PROPERTIES,
    ) -> SSAValue:
        """Add an op on numbers."""
        return self.op(op_type, operands, self.type(element_type), properties)


@dataclass
class _TensorCode(_Code):
    """Ops under construction, on whole ranked tensors of one shape."""

    container: TensorType = field(kw_only=True)
    """A tensor type with the shape and encoding of the operands."""

    dynamic_sizes: Sequence[SSAValue] = field(kw_only=True)

    @property
    def is_scalar(self) -> bool:
        return False

    def type(self, element_type: Attribute) -> Attribute:
        container = self.container
        return _tensor_type(element_type, container.shape, container.encoding)

    def lift(self, scalar: SSAValue) -> SSAValue:
        return self.op(
            tensor.SplatOp, (scalar, *self.dynamic_sizes), self.type(scalar.type)
        )


# Arithmetic


class _ParameterTensors(NamedTuple):
    """The scales and zero points of a type as constants, and where to look in them."""

    scales: DenseIntOrFPElementsAttr
    zero_points: DenseIntOrFPElementsAttr | None
    exprs: tuple[AffineExpr, ...]
    """Index of the parameters of an element, in terms of the indices of the element."""


@dataclass(eq=False)
class _Arithmetic:
    """How the scales and zero points of one type become ops and constants."""

    quantized_type: UniformType
    rounding_mode: RoundingMode
    fuse: bool

    # What the type says

    @property
    def _min(self) -> int:
        return self.quantized_type.storage_type_min.data

    @property
    def _max(self) -> int:
        return self.quantized_type.storage_type_max.data

    @cached_property
    def zero_points(self) -> Sequence[int]:
        """All zero points."""
        if isinstance(self.quantized_type, UniformQuantizedType):
            return (self.quantized_type.zero_point.data,)
        return int_array(self.quantized_type.zero_points)

    @cached_property
    def scales(self) -> Sequence[float]:
        """All scales, rounded to the expressed type."""
        if isinstance(self.quantized_type, UniformQuantizedType):
            scale_format = float_format(self.expressed)
            return (scale_format.nearest(self.quantized_type.scale.data),)
        return float_format(self.expressed).nearest_all(
            float_array(self.quantized_type.scales)
        )

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
        return self.rounding_mode == "truncate" and not self.fuse

    @cached_property
    def _compute(self) -> AnyFloat:
        """
        The float type to compute in. All stored values, zero points and their
        differences are exact in it, unless the mode is MLIR's.
        """
        if self.rounding_mode == "truncate":
            return self.expressed
        low, high = min(self.zero_points), max(self.zero_points)
        bounds = (self._min, self._max, low, high, self._min - high, self._max - low)
        largest = max(map(abs, bounds))
        for float_type in (self.expressed, f32):
            if largest <= 1 << float_format(float_type).precision:
                return float_type
        return f64

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

    # Constants

    def _float_attr(self, value: float) -> FloatAttr:
        return FloatAttr(value, self._compute)

    def _integer_attr(self, value: int, width: int) -> IntegerAttr:
        # Arithmetic is signless: the attribute holds the number with the same bits.
        half = 1 << (width - 1)
        return IntegerAttr((value + half) % (2 * half) - half, IntegerType(width))

    def _scales_of(self, quantizing: bool) -> Sequence[float]:
        if not (quantizing and self._has_exact_reciprocals):
            return self.scales
        return [1.0 / scale for scale in self.scales]

    @cached_property
    def _scale_attrs(self) -> tuple[Attribute, Attribute]:
        """The scale as an operand in a dequantization and in a quantization."""
        dequantizing, quantizing = (
            self._float_attr(self._scales_of(quantizing)[0])
            for quantizing in (False, True)
        )
        return dequantizing, quantizing

    @cached_property
    def _zero_point_attr(self) -> IntegerAttr | FloatAttr:
        zero_point = self.zero_points[0]
        if self.rounding_mode == "truncate":
            return self._integer_attr(zero_point, self.storage.width.data)
        return self._float_attr(float(zero_point))

    @cached_property
    def has_zero_points(self) -> bool:
        """Whether any zero point is not 0."""
        return not self.quantized_type.is_fixed_point

    def scale_constant(self, code: _Code, quantizing: bool) -> SSAValue:
        """The scale of a per-layer type."""
        attr = cast(FloatAttr, self._scale_attrs[quantizing])
        return code.constant(attr, attr.type)

    def zero_point_constant(self, code: _Code) -> SSAValue | None:
        """The zero point of a per-layer type; `None` if it is not to be used."""
        if not self.has_zero_points and not self._as_mlir:
            return None
        zero_point = code.constant(self._zero_point_attr, self._zero_point_attr.type)
        return zero_point if self.has_zero_points else None

    def parameter_tensors(
        self, quantizing: bool, shape: Sequence[int], exprs: tuple[AffineExpr, ...]
    ) -> _ParameterTensors:
        """Scales and zero points of this shape as constants."""
        scales = DenseIntOrFPElementsAttr(
            TensorType(self._compute, shape),
            BytesAttr(_float_bytes(self._scales_of(quantizing), self._compute)),
        )
        zero_points = None
        if self.rounding_mode != "truncate":
            if self.has_zero_points:
                zero_points = DenseIntOrFPElementsAttr(
                    TensorType(self._compute, shape),
                    BytesAttr(
                        _float_bytes([*map(float, self.zero_points)], self._compute)
                    ),
                )
        elif self.has_zero_points or not self.fuse:
            zero_points = DenseIntOrFPElementsAttr(
                TensorType(self.storage, shape), BytesAttr(self._zero_point_bytes())
            )
        return _ParameterTensors(scales, zero_points, exprs)

    def _zero_point_bytes(self) -> bytes:
        signed = (1 << (self.storage.width.data - 1)) - 1
        values = self.zero_points
        if not self._is_signed and max(values) > signed:
            values = [
                self._integer_attr(z, self.storage.width.data).value.data
                for z in values
            ]
        return self.storage.pack(values)

    # Ops

    def _zero_point_operand(self, code: _Code, zero_point: SSAValue) -> SSAValue:
        """A zero point as a float."""
        operand = code.lift(zero_point)
        if self.rounding_mode != "truncate":
            return operand
        return code.elementwise(self._int_to_float, (operand,), self._compute)

    @property
    def _int_to_float(self) -> type[Operation]:
        return arith.SIToFPOp if self._is_signed else arith.UIToFPOp

    def quantize(
        self,
        code: _Code,
        value: SSAValue,
        scale: SSAValue,
        zero_point: SSAValue | None,
    ) -> SSAValue:
        """The stored value for an expressed one."""
        if self._compute != self.expressed:
            value = code.elementwise(arith.ExtFOp, (value,), self._compute)
        divide = arith.MulfOp if self._has_exact_reciprocals else arith.DivfOp
        value = code.elementwise(divide, (value, scale), self._compute, _FASTMATH)
        if zero_point is not None:
            offset = self._zero_point_operand(code, zero_point)
            value = code.elementwise(
                arith.AddfOp, (value, offset), self._compute, _FASTMATH
            )
        if self.rounding_mode == "truncate":
            return self._truncate(code, value)
        return self._round_and_clamp(code, value)

    def _round_and_clamp(self, code: _Code, value: SSAValue) -> SSAValue:
        compute = self._compute
        round_op = (
            math_dialect.RoundEvenOp
            if self.rounding_mode == "nearest-even"
            else math_dialect.RoundOp
        )
        value = code.elementwise(round_op, (value,), compute, _FASTMATH)
        bounds = [
            code.constant(self._float_attr(float(bound)), compute)
            for bound in (self._min, self._max)
        ]
        low, high = map(code.lift, bounds)
        # The maximum of NaN and a number is the number.
        value = code.elementwise(arith.MaxnumfOp, (value, low), compute, _FASTMATH)
        value = code.elementwise(arith.MinnumfOp, (value, high), compute, _FASTMATH)
        return self._convert(code, value)

    def _truncate(self, code: _Code, value: SSAValue) -> SSAValue:
        if not self.quantized_type.has_storage_type_bounds:
            return self._convert(code, value)
        if self._converts_by_i32(code):
            value = code.elementwise(arith.FPToSIOp, (value,), i32)
            value = self._clamp(code, value, i32, True)
            return code.elementwise(arith.TruncIOp, (value,), self.storage)
        value = self._convert(code, value)
        return self._clamp(code, value, self.storage, self._is_signed)

    def _clamp(
        self, code: _Code, value: SSAValue, type_: IntegerType, is_signed: bool
    ) -> SSAValue:
        bounds = [
            code.constant(self._integer_attr(bound, type_.width.data), type_)
            for bound in (self._min, self._max)
        ]
        low, high = map(code.lift, bounds)
        max_op, min_op = (
            (arith.MaxSIOp, arith.MinSIOp)
            if is_signed
            else (arith.MaxUIOp, arith.MinUIOp)
        )
        value = code.elementwise(max_op, (value, low), type_)
        return code.elementwise(min_op, (value, high), type_)

    def _converts_by_i32(self, code: _Code) -> bool:
        """
        Whether floats are converted to i32 and then truncated: unlike a conversion to i8
        or i16 this becomes vector instructions.
        """
        return not self._as_mlir and code.is_scalar and self.storage.width.data <= 16

    def _convert(self, code: _Code, value: SSAValue) -> SSAValue:
        if self._converts_by_i32(code):
            value = code.elementwise(arith.FPToSIOp, (value,), i32)
            return code.elementwise(arith.TruncIOp, (value,), self.storage)
        float_to_int = arith.FPToSIOp if self._is_signed else arith.FPToUIOp
        return code.elementwise(float_to_int, (value,), self.storage)

    def dequantize(
        self,
        code: _Code,
        stored: SSAValue,
        scale: SSAValue,
        zero_point: SSAValue | None,
    ) -> SSAValue:
        """The expressed value of a stored one."""
        compute = self._compute
        value = code.elementwise(self._int_to_float, (stored,), compute)
        if zero_point is not None:
            offset = self._zero_point_operand(code, zero_point)
            value = code.elementwise(arith.SubfOp, (value, offset), compute, _FASTMATH)
        value = code.elementwise(arith.MulfOp, (value, scale), compute, _FASTMATH)
        if compute == self.expressed:
            return value
        return code.elementwise(arith.TruncFOp, (value,), self.expressed)


def _why_not_lowerable(quantized_type: Attribute) -> str | None:
    """Why there are no ops for casts to or from this type; `None` if there are."""
    if not isinstance(quantized_type, UniformType):
        return f"type '{quantized_type}' has no scale"
    if quantized_type.storage_type.signedness.data is not Signedness.SIGNLESS:
        width = quantized_type.storage_type_integral_width
        return (
            f"storage type '{quantized_type.storage_type_name}' is not signless, use "
            f"'{'i' if quantized_type.is_signed else 'u'}{width}'"
        )
    width = quantized_type.storage_type_integral_width
    low = default_storage_min(width, quantized_type.is_signed)
    high = default_storage_max(width, quantized_type.is_signed)
    zero_points = (
        (quantized_type.zero_point.data,)
        if isinstance(quantized_type, UniformQuantizedType)
        else int_array(quantized_type.zero_points)
    )
    for zero_point in (min(zero_points), max(zero_points)):
        if not low <= zero_point <= high:
            return (
                f"zero point {zero_point} does not fit storage type "
                f"'{quantized_type.storage_type_name}', whose values are {low} to {high}"
            )
    return None


# Traversal


class _Layout(NamedTuple):
    """Which scale belongs to which element of a ranked tensor."""

    shape: tuple[int, ...]
    """Shape of the scales."""

    exprs: tuple[AffineExpr, ...]
    """Index of a scale, in terms of the indices of an element."""

    sizes: Mapping[int, tuple[int, str]]
    """
    The size that each dimension with several scales must have, and how it comes about.
    """


def _block_index(axis: int, block_size: int) -> AffineExpr:
    index = AffineExpr.dimension(axis)
    return index if block_size == 1 else index // block_size


def _per_axis_layout(quantized_type: UniformQuantizedPerAxisType) -> _Layout:
    axis = quantized_type.quantized_dimension.data
    count = len(quantized_type.scales)
    return _Layout(
        (count,),
        (AffineExpr.dimension(axis),),
        {axis: (count, "the number of scales")},
    )


def _block_size_of(count: int, block_size: int) -> tuple[int, str]:
    return count * block_size, f"{count} blocks of {block_size}"


def _sub_channel_layout(quantized_type: UniformQuantizedSubChannelType) -> _Layout:
    shape = quantized_type.scales_shape.get_values()
    block_sizes = dict(quantized_type.block_size_info)
    return _Layout(
        shape,
        tuple(
            _block_index(axis, block_sizes[axis])
            if axis in block_sizes
            else AffineConstantExpr(0)
            for axis in range(len(shape))
        ),
        {axis: _block_size_of(shape[axis], size) for axis, size in block_sizes.items()},
    )


def _flattened_layout(
    quantized_type: UniformQuantizedPerAxisType | UniformQuantizedSubChannelType,
) -> tuple[Sequence[int], _Layout]:
    """
    The axes that an unranked tensor is flattened around, and which scale belongs to which
    element of the flattened tensor: the axes are its odd dimensions.
    """
    if isinstance(quantized_type, UniformQuantizedPerAxisType):
        layout = _per_axis_layout(quantized_type)
        axis = quantized_type.quantized_dimension.data
        flat = layout._replace(
            exprs=(AffineExpr.dimension(1),), sizes={1: layout.sizes[axis]}
        )
        return (axis,), flat
    block_sizes = dict(quantized_type.block_size_info)
    axes = sorted(block_sizes)
    shape = quantized_type.scales_shape.get_values()
    if len(shape) != len(axes):
        shape = tuple(shape[axis] for axis in axes)
    return axes, _Layout(
        shape,
        tuple(
            _block_index(2 * i + 1, block_sizes[axis]) for i, axis in enumerate(axes)
        ),
        {
            2 * i + 1: _block_size_of(shape[i], block_sizes[axis])
            for i, axis in enumerate(axes)
        },
    )


@dataclass(frozen=True)
class LowerQuantCast(RewritePattern):
    """
    Lower one `quant.qcast` or `quant.dcast`.

    The pattern does not fold casts away. It raises `PassFailedException` for a type that
    has no lowering.
    """

    rounding_mode: RoundingMode = "truncate"
    """How a value between two stored ones is rounded."""

    fuse: bool = False
    """Whether a ranked tensor is computed by one `linalg.generic`."""

    runtime_checks: bool = False
    """Whether sizes that are not known before run time are asserted."""

    _arithmetic: dict[Attribute, _Arithmetic] = field(
        default_factory=dict[Attribute, _Arithmetic], init=False, compare=False
    )
    """One for each type that was lowered."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        if not isinstance(op, CastOp):
            return
        code = _Code(op.location)
        if isinstance(op, QuantizeCastOp):
            arithmetic = self._arithmetic_of(op, op.result.type)
            result = self._quantize(code, arithmetic, op.input, op.result.type)
        else:
            arithmetic = self._arithmetic_of(op, op.input.type)
            result = self._dequantize(code, arithmetic, op.input, op.result.type)
        rewriter.insert(code.ops)
        rewriter.replace(op, (), (result,))

    def check(self, op: CastOp) -> None:
        """
        Raise if there is no lowering.

        Raises:
            PassFailedException: with the reason and the location of the op.
        """
        quantized = op.result if isinstance(op, QuantizeCastOp) else op.input
        self._arithmetic_of(op, quantized.type)

    def _arithmetic_of(self, op: CastOp, type_: Attribute) -> _Arithmetic:
        quantized_type = scalar_or_element_type(type_)
        if (known := self._arithmetic.get(quantized_type)) is not None:
            return known
        if (reason := _why_not_lowerable(quantized_type)) is not None:
            fail(op, f"'{op.name}' op cannot be lowered: {reason}")
        arithmetic = _Arithmetic(
            cast(UniformType, quantized_type), self.rounding_mode, self.fuse
        )
        self._arithmetic[quantized_type] = arithmetic
        return arithmetic

    def _quantize(
        self, code: _Code, arithmetic: _Arithmetic, value: SSAValue, type_: Attribute
    ) -> SSAValue:
        stored = self._convert(code, arithmetic, value, value.type, True)
        return code.op(StorageCastOp, (stored,), type_)

    def _dequantize(
        self, code: _Code, arithmetic: _Arithmetic, value: SSAValue, type_: Attribute
    ) -> SSAValue:
        # The encoding of the result and not of the operand: see `_convert`.
        stored_type = with_element_type(type_, arithmetic.storage)
        stored = code.op(StorageCastOp, (value,), stored_type)
        return self._convert(code, arithmetic, stored, type_, False)

    def _convert(
        self,
        code: _Code,
        arithmetic: _Arithmetic,
        value: SSAValue,
        container: Attribute,
        quantizing: bool,
    ) -> SSAValue:
        """
        The stored values of expressed ones or the other way round.

        All tensors have the shape and encoding of `container`. A storage cast does not
        mind another encoding, so it is the place where encodings change.
        """
        if isinstance(container, UnrankedTensorType):
            return self._convert_unranked(code, arithmetic, value, quantizing)
        if isinstance(container, TensorType):
            layout = _ranked_layout(arithmetic.quantized_type)
            return self._convert_ranked(code, arithmetic, value, layout, quantizing)
        return _convert_numbers(code, arithmetic, value, quantizing)

    # Ranked tensors

    def _convert_ranked(
        self,
        code: _Code,
        arithmetic: _Arithmetic,
        value: SSAValue,
        layout: _Layout | None,
        quantizing: bool,
    ) -> SSAValue:
        container = cast(TensorType, value.type)
        if layout is not None:
            self._check_sizes(code, value, layout)
            return _convert_by_generic(code, arithmetic, value, layout, quantizing)
        if self.fuse:
            return _convert_by_generic(code, arithmetic, value, None, quantizing)
        return _convert_elementwise(code, arithmetic, value, container, quantizing)

    def _check_sizes(self, code: _Code, value: SSAValue, layout: _Layout) -> None:
        if not self.runtime_checks:
            return
        shape = cast(TensorType, value.type).get_shape()
        for dimension, (size, reason) in sorted(layout.sizes.items()):
            if shape[dimension] == DYNAMIC_INDEX:
                index = code.index(dimension)
                actual = code.op(tensor.DimOp, (value, index), _INDEX)
                message = f"size of dimension {dimension} must be {size}: {reason}"
                _assert_equal(code, actual, size, message)

    # Unranked tensors

    def _convert_unranked(
        self, code: _Code, arithmetic: _Arithmetic, value: SSAValue, quantizing: bool
    ) -> SSAValue:
        shape = code.op(ShapeOfOp, (value,), _SHAPE_TYPE)
        quantized_type = arithmetic.quantized_type
        if isinstance(quantized_type, UniformQuantizedType):
            layout = None
            flat = _flatten_all(code, value, shape)
        else:
            axes, layout = _flattened_layout(quantized_type)
            self._check_extents(code, shape, axes, layout)
            sizes = tuple(layout.sizes[2 * i + 1][0] for i in range(len(axes)))
            if isinstance(quantized_type, UniformQuantizedPerAxisType):
                flat = _flatten_around_axis(code, value, shape, axes[0], sizes[0])
            elif axes:
                flat = _flatten_around_axes(code, value, shape, axes, sizes)
            else:
                flat = _flatten_all(code, value, shape)
        # Sizes are already checked, in terms of the axes that the user knows.
        result = (
            _convert_by_generic(code, arithmetic, flat, layout, quantizing)
            if layout is not None
            else self._convert_ranked(code, arithmetic, flat, None, quantizing)
        )
        element_type = arithmetic.storage if quantizing else arithmetic.expressed
        return code.op(
            tensor.ReshapeOp, (result, shape), UnrankedTensorType(element_type)
        )

    def _check_extents(
        self, code: _Code, shape: SSAValue, axes: Sequence[int], layout: _Layout
    ) -> None:
        if not self.runtime_checks or not axes:
            return
        rank = code.op(tensor.DimOp, (shape, code.index(0)), _INDEX)
        _assert(
            code,
            "ugt",
            rank,
            code.index(axes[-1]),
            f"rank must be greater than {axes[-1]}, the last quantized dimension",
        )
        for i, axis in enumerate(axes):
            size, reason = layout.sizes[2 * i + 1]
            actual = code.op(tensor.ExtractOp, (shape, code.index(axis)), _INDEX)
            message = f"size of dimension {axis} must be {size}: {reason}"
            _assert_equal(code, actual, size, message)


def _ranked_layout(quantized_type: UniformType) -> _Layout | None:
    match quantized_type:
        case UniformQuantizedPerAxisType():
            return _per_axis_layout(quantized_type)
        case UniformQuantizedSubChannelType():
            return _sub_channel_layout(quantized_type)
        case _:
            return None


def _dynamic_sizes(code: _Code, value: SSAValue) -> list[SSAValue]:
    return [
        code.op(tensor.DimOp, (value, code.index(dimension)), _INDEX)
        for dimension, size in enumerate(cast(TensorType, value.type).get_shape())
        if size == DYNAMIC_INDEX
    ]


def _convert_with(
    code: _Code,
    arithmetic: _Arithmetic,
    value: SSAValue,
    scale: SSAValue,
    zero_point: SSAValue | None,
    quantizing: bool,
) -> SSAValue:
    if quantizing:
        return arithmetic.quantize(code, value, scale, zero_point)
    return arithmetic.dequantize(code, value, scale, zero_point)


def _convert_numbers(
    code: _Code, arithmetic: _Arithmetic, value: SSAValue, quantizing: bool
) -> SSAValue:
    """Convert by a per-layer type, with its parameters as constants in the code."""
    scale = arithmetic.scale_constant(code, quantizing)
    zero_point = arithmetic.zero_point_constant(code)
    return _convert_with(code, arithmetic, value, scale, zero_point, quantizing)


def _convert_elementwise(
    code: _Code,
    arithmetic: _Arithmetic,
    value: SSAValue,
    container: TensorType,
    quantizing: bool,
) -> SSAValue:
    """Convert by a per-layer type with elementwise ops on tensors, as MLIR does."""
    scale = arithmetic.scale_constant(code, quantizing)
    zero_point = arithmetic.zero_point_constant(code)
    tensors = _TensorCode(
        code.location,
        code.ops,
        container=container,
        dynamic_sizes=_dynamic_sizes(code, value),
    )
    scale = tensors.lift(scale)
    return _convert_with(tensors, arithmetic, value, scale, zero_point, quantizing)


def _convert_by_generic(
    code: _Code,
    arithmetic: _Arithmetic,
    value: SSAValue,
    layout: _Layout | None,
    quantizing: bool,
) -> SSAValue:
    """Convert by one `linalg.generic`; without a layout the type is per-layer."""
    container = cast(TensorType, value.type)
    parameters: list[SSAValue] = []
    exprs: tuple[AffineExpr, ...] = ()
    if layout is not None:
        tensors = arithmetic.parameter_tensors(quantizing, layout.shape, layout.exprs)
        exprs = tensors.exprs
        for attr in (tensors.scales, tensors.zero_points):
            if attr is not None:
                parameters.append(code.constant(attr, attr.type))
    element_type = arithmetic.storage if quantizing else arithmetic.expressed
    result_type = _tensor_type(element_type, container.shape, container.encoding)
    empty = code.op(tensor.EmptyOp, _dynamic_sizes(code, value), result_type)

    inputs = (value, *parameters)
    block = Block(arg_types=[scalar_or_element_type(v.type) for v in (*inputs, empty)])
    for argument, hint in zip(block.args, _BODY_HINTS[len(inputs)], strict=True):
        argument.name_hint = hint
    number, *numbers, _ = block.args
    body = _Code(code.location)
    if layout is None:
        result = _convert_numbers(body, arithmetic, number, quantizing)
    else:
        zero_point = numbers[1] if len(numbers) > 1 else None
        result = _convert_with(
            body, arithmetic, number, numbers[0], zero_point, quantizing
        )
    body.ops.append(LinalgYieldOp.create(operands=(result,), location=code.location))
    block.add_ops(body.ops)

    rank = len(container.get_shape())
    generic = GenericOp.create(
        operands=(*inputs, empty),
        result_types=(result_type,),
        properties={
            "indexing_maps": _indexing_maps(rank, exprs, len(parameters)),
            "iterator_types": _parallel(rank),
            "operandSegmentSizes": _segment_sizes(len(inputs)),
        },
        regions=(Region(block),),
        location=code.location,
    )
    code.ops.append(generic)
    return generic.results[0]


_BODY_HINTS = {
    1: ("in", "out"),
    2: ("in", "scale", "out"),
    3: ("in", "scale", "zero_point", "out"),
}


@cache
def _segment_sizes(input_count: int) -> Attribute:
    return DenseArrayBase.from_list(i32, [input_count, 1])


# Shapes


def _reshape(
    code: _Code, value: SSAValue, sizes: Sequence[SSAValue], shape: Sequence[int]
) -> SSAValue:
    shape_value = code.op(
        tensor.FromElementsOp, sizes, TensorType(_INDEX, [len(sizes)])
    )
    result_type = TensorType(scalar_or_element_type(value.type), shape)
    return code.op(tensor.ReshapeOp, (value, shape_value), result_type)


def _num_elements(code: _Code, shape: SSAValue) -> SSAValue:
    return code.op(NumElementsOp, (shape,), _INDEX)


def _split(code: _Code, shape: SSAValue, index: SSAValue) -> tuple[SSAValue, SSAValue]:
    split = SplitAtOp.create(
        operands=(shape, index),
        result_types=(_SHAPE_TYPE, _SHAPE_TYPE),
        location=code.location,
    )
    code.ops.append(split)
    head, tail = split.results
    return head, tail


def _flatten_all(code: _Code, value: SSAValue, shape: SSAValue) -> SSAValue:
    return _reshape(code, value, [_num_elements(code, shape)], [DYNAMIC_INDEX])


def _flatten_around_axis(
    code: _Code, value: SSAValue, shape: SSAValue, axis: int, size: int
) -> SSAValue:
    """Reshape to three dimensions, as MLIR does: before the axis, the axis, after it."""
    axis_index, next_index = code.index(axis), code.index(axis + 1)
    before, _ = _split(code, shape, axis_index)
    left = _num_elements(code, before)
    _, after = _split(code, shape, next_index)
    right = _num_elements(code, after)
    sizes = (left, code.index(size), right)
    return _reshape(code, value, sizes, [DYNAMIC_INDEX, size, DYNAMIC_INDEX])


def _flatten_around_axes(
    code: _Code,
    value: SSAValue,
    shape: SSAValue,
    axes: Sequence[int],
    axis_sizes: Sequence[int],
) -> SSAValue:
    """
    Reshape to `2 * len(axes) + 1` dimensions: before the first axis, the first axis,
    between the first two axes, and so on.
    """
    sizes: list[SSAValue] = []
    flat_shape: list[int] = []
    rest = shape
    position = 0
    for axis, size in zip(axes, axis_sizes, strict=True):
        before, from_axis = _split(code, rest, code.index(axis - position))
        _, rest = _split(code, from_axis, code.index(1))
        position = axis + 1
        sizes += (_num_elements(code, before), code.index(size))
        flat_shape += (DYNAMIC_INDEX, size)
    sizes.append(_num_elements(code, rest))
    return _reshape(code, value, sizes, [*flat_shape, DYNAMIC_INDEX])


# Assertions


def _assert(
    code: _Code, predicate: str, left: SSAValue, right: SSAValue, message: str
) -> None:
    comparison = arith.CmpiOp(left, right, predicate)
    comparison.location = code.location
    assertion = cf.AssertOp.create(
        operands=comparison.results,
        properties={"msg": StringAttr(message)},
        location=code.location,
    )
    code.ops += (comparison, assertion)


def _assert_equal(code: _Code, actual: SSAValue, size: int, message: str) -> None:
    _assert(code, "eq", actual, code.index(size), message)


# Pass


def _folds(casts: Sequence[CastOp]) -> dict[SSAValue, SSAValue]:
    """The results of casts that fold away, and the values that they are."""
    folds: dict[SSAValue, SSAValue] = {}
    for op in casts:
        if (folded := op.fold()) is not None:
            value = folded[0]
            folds[op.result] = folds.get(value, value)
    return folds


@contextmanager
def _without_garbage_collection() -> Generator[None]:
    """
    Rewriting makes many objects and no garbage: looking for some would take as long as
    the rewriting itself.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True)
class LowerQuantOpsPass(ModulePass):
    """
    Lower `quant.qcast` and `quant.dcast`; only `quant.scast` is left of the dialect.

    See external [documentation](https://mlir.llvm.org/docs/Passes/#-lower-quant-ops).
    """

    name = "lower-quant-ops"

    rounding_mode: RoundingMode = "truncate"
    """How a value between two stored ones is rounded. MLIR truncates."""

    fuse: bool = False
    """
    Whether each cast of a ranked tensor becomes one `linalg.generic` with the scale and
    the zero point of a per-layer type in its body.
    """

    runtime_checks: bool = False
    """
    Whether a dynamic size that must match the number of scales or blocks is asserted.
    """

    keep_qdq: bool = False
    """Whether a cast is kept even if another one reverses it."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        casts = [o for o in op.walk() if isinstance(o, CastOp)]
        folds = {} if self.keep_qdq else _folds(casts)
        pattern = LowerQuantCast(self.rounding_mode, self.fuse, self.runtime_checks)
        for cast_op in casts:
            if cast_op.result not in folds:
                pattern.check(cast_op)
        with _without_garbage_collection():
            for cast_op in casts:
                if (value := folds.get(cast_op.result)) is not None:
                    cast_op.result.replace_all_uses_with(value)
            for cast_op in casts:
                if cast_op.result in folds:
                    cast_op.detach()
                    cast_op.erase()
                else:
                    pattern.match_and_rewrite(cast_op, PatternRewriter(cast_op))
