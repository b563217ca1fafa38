"""
The machine of tensors: expressions as ops of TOSA on tensors of `i32` and `f32`.

The integers of formulas are unbounded; TOSA has 32 bits. What exceeds 32 bits is refused,
but for primitives, which have forms with `tosa.rescale`, `tosa.mul` and 32 bits. Ops are
built where a value is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Self, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tosa
from xdsl.dialects.builtin import AnyFloat, BoolAttr, f32, i1, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.frontends.tflite.formulas.fixed_point import Multiplier
from xdsl_quant.frontends.tflite.formulas.quantized import Quantized
from xdsl_quant.frontends.tosa import ops as tosa_ops
from xdsl_quant.machines.expression import (
    UNBOUNDED,
    Bounds,
    Direction,
    Expression,
    FloatBounds,
    Integer,
    IntegerOperation,
    Number,
    Real,
    RealNumber,
    Truth,
    are_within,
    bounds_of,
    chosen_bounds,
    combined,
    signed_bounds,
    union,
)
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .building import Operand, TosaBuilder

INT32 = signed_bounds(32)

_INTEGER_OPS: Mapping[IntegerOperation, type[Operation]] = {
    "add": tosa.AddOp,
    "and": tosa_ops.BitwiseAndOp,
    "maximum": tosa_ops.MaximumOp,
    "minimum": tosa_ops.MinimumOp,
    "shift_left": tosa_ops.LogicalLeftShiftOp,
    "subtract": tosa.SubOp,
}

_FLOAT_OPS: Mapping[str, type[Operation]] = {
    "absolute": tosa_ops.AbsOp,
    "add": tosa.AddOp,
    "ceil": tosa_ops.CeilOp,
    "cos": tosa.CosOp,
    "erf": tosa_ops.ErfOp,
    "exp": tosa_ops.ExpOp,
    "floor": tosa_ops.FloorOp,
    "log": tosa_ops.LogOp,
    "maximum": tosa_ops.MaximumOp,
    "minimum": tosa_ops.MinimumOp,
    "power": tosa_ops.PowOp,
    "sin": tosa.SinOp,
    "subtract": tosa.SubOp,
    "tanh": tosa_ops.TanhOp,
}

_COMPARISONS: Mapping[Direction, type[Operation]] = {
    "eq": tosa_ops.EqualOp,
    "ne": tosa_ops.EqualOp,
    "gt": tosa_ops.GreaterOp,
    "lt": tosa_ops.GreaterOp,
    "ge": tosa_ops.GreaterEqualOp,
    "le": tosa_ops.GreaterEqualOp,
}


class Tensor(Expression):
    """A tensor whose ops are built where it is used first."""

    builder: TosaBuilder
    shape: tuple[int, ...]

    def _set(
        self, builder: TosaBuilder, build: Callable[[], SSAValue], shape: Sequence[int]
    ) -> None:
        self.builder = builder
        self.shape = tuple(shape)
        self._build = build
        self._low: SSAValue | None = None

    @property
    def low(self) -> SSAValue:
        """The elements, of integers the lowest 32 bits as signed numbers."""
        if self._low is None:
            self._low = self._build()
        return self._low

    @property
    def value(self) -> SSAValue:
        """The elements."""
        return self.low

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> Any:
        lifted = [lifted_array(self.builder, x) for x in inputs]
        return super().__array_ufunc__(ufunc, method, *lifted, **kwargs)

    def _compared(self, direction: Direction, other: Any) -> TosaTruth:
        return _comparison(self, direction, other)


def _operand(number: Any, like: Tensor, element_type: Attribute) -> SSAValue:
    """An operand of an op on tensors that are broadcast."""
    if isinstance(number, TosaTruth):
        number = number.number
    if isinstance(number, TosaInteger) and element_type == f32:
        number = number.as_float(f32)
    if isinstance(number, Tensor):
        return number.value
    if element_type == i32:
        number = (int(number) + (1 << 31)) % (1 << 32) - (1 << 31)
    return like.builder.array(np.full((1,) * like.ndim, number), element_type)


def lifted_array(builder: TosaBuilder, number: Any) -> Any:
    """An array of numbers as an expression, and anything else as it is."""
    if not isinstance(number, np.ndarray) or not number.ndim:
        return cast(Any, number)
    array = cast("NDArray[Any]", number)
    low, high = array.min(), array.max()
    if array.dtype.kind == "f":
        values = array.astype(np.float32)
        bounds = float(low), float(high)
        return TosaReal(
            builder, lambda: builder.array(values, f32), array.shape, bounds
        )
    bounds = int(low), int(high)
    return TosaInteger(builder, lambda: builder.array(array, i32), bounds, array.shape)


def _comparison(x: Tensor, direction: Direction, other: Any) -> TosaTruth:
    builder, shape = x.builder, _shape(x, other)
    element_type = f32 if isinstance(x, TosaReal) else i32

    def build() -> SSAValue:
        pair = [_operand(number, x, element_type) for number in (x, other)]
        if direction in ("lt", "le"):
            pair.reverse()
        operands = [builder.with_rank(value, len(shape)) for value in pair]
        value = builder.tosa(_COMPARISONS[direction], operands, shape, i1)
        if direction == "ne":
            value = builder.tosa(tosa_ops.LogicalNotOp, (value,), shape, i1)
        return value

    return TosaTruth(builder, build, shape)


class TosaTruth(Tensor, Truth):
    """A tensor of truth values."""

    def __init__(
        self, builder: TosaBuilder, build: Callable[[], SSAValue], shape: Sequence[int]
    ):
        self._set(builder, build, shape)

    def _logical(self, operation: str, other: Any) -> TosaTruth:
        if operation != "and":
            raise Unsupported(f"has no form of '{operation}' of truth values in TOSA")

        def build() -> SSAValue:
            operands = self.value, other.value
            return self.builder.binary(tosa_ops.LogicalAndOp, *operands)

        return TosaTruth(self.builder, build, _shape(self, other))

    @property
    def number(self) -> TosaInteger:
        def build() -> SSAValue:
            return self.builder.with_elements(self.value, i32)

        return TosaInteger(self.builder, build, (0, 1), self.shape)

    def chosen(self, a: Any, b: Any) -> Any:
        builder = self.builder
        a, b = lifted_array(builder, a), lifted_array(builder, b)
        shape = _shape(self, a, b)
        is_float = any(isinstance(x, TosaReal) for x in (a, b))
        element_type: Attribute = f32 if is_float else i32

        def build() -> SSAValue:
            like = TosaTruth(builder, lambda: self.value, shape)
            values = self.value, *(_operand(x, like, element_type) for x in (a, b))
            operands = [builder.with_rank(value, len(shape)) for value in values]
            return builder.tosa(tosa_ops.SelectOp, operands, shape, element_type)

        if is_float:
            bounds, _ = chosen_bounds(a, b)
            return TosaReal(builder, build, shape, bounds)
        return TosaInteger(builder, build, union(bounds_of(a), bounds_of(b)), shape)


class Parts(NamedTuple):
    """Facts about a number, for ops that fuse several functions."""

    stored: SSAValue | None = None
    """Stored values."""

    shifted: tuple[TosaInteger, int] | None = None
    """A number, and by how many bits it is shifted to the left."""

    rescale: Rescaling | None = None
    """A product with a multiplier that is shifted to the right."""

    saturated: tuple[Rescaling, int, int, int] | None = None
    """A product, a zero point that is added, and a range that limits the sum."""


class TosaInteger(Tensor, Integer):
    """A tensor of integers."""

    is_lazy = True
    dtype = np.dtype(np.int64)

    def __init__(
        self,
        builder: TosaBuilder,
        build: Callable[[], SSAValue],
        bounds: Bounds,
        shape: Sequence[int],
        parts: Parts = Parts(),
    ):
        """
        Args:
            builder: builds the ops.
            build: builds the lowest 32 bits of the value.
            bounds: what the value is within.
            shape: the shape of the tensor.
            parts: what ops that fuse several functions are built from.
        """
        self._set(builder, build, shape)
        self.bounds = bounds
        self.parts = parts

    @classmethod
    def stored(cls, operand: Operand) -> TosaInteger:
        """The stored values of an operand."""
        builder, value = operand.builder, operand.value
        bounds = INT32
        if operand.is_quantized:
            parameters = operand.parameters
            bounds = parameters.storage_min, parameters.storage_max
        build = partial(builder.widened, value)
        return cls(builder, build, bounds, shape_of(value), Parts(stored=value))

    @property
    def value(self) -> SSAValue:
        """
        Raises:
            Unsupported: if it needs more than 32 bits.
        """
        if not _fits(self.bounds) and not self.builder.assumes_32_bits:
            raise Unsupported(
                f"has numbers from {self.bounds[0]} to {self.bounds[1]}, which need "
                "more than 32 bits"
            )
        return self.low

    def __getitem__(self, index: Any) -> TosaInteger:
        """Some of the elements, as NumPy takes them."""
        build, shape = _picked(self, index)
        return TosaInteger(self.builder, build, self.bounds, shape)

    def low_operand(self, number: Number) -> SSAValue:
        """The lowest 32 bits of an operand of an op with this one."""
        if isinstance(number, TosaInteger):
            return number.low
        return _operand(number, self, i32)

    def _combined(
        self, operation: IntegerOperation, lhs: Number, rhs: Number, bounds: Bounds
    ) -> TosaInteger:
        builder = self.builder

        def build() -> SSAValue:
            low, value = (
                self.low_operand,
                partial(_operand, like=self, element_type=i32),
            )
            match operation:
                case "multiply":
                    return self.product(lhs, rhs, 0)
                case "maximum" | "minimum":
                    # The limit is built first.
                    limit = value(rhs)
                    return builder.binary(_INTEGER_OPS[operation], value(lhs), limit)
                case "shift_right":
                    op_type = tosa_ops.ArithmeticRightShiftOp
                    operands = value(lhs), low(rhs)
                    return builder.binary(
                        op_type, *operands, round=BoolAttr.from_bool(False)
                    )
                case _:
                    return builder.binary(_INTEGER_OPS[operation], low(lhs), low(rhs))

        return TosaInteger(builder, build, bounds, _shape(lhs, rhs))

    # Operators

    def __add__(self, other: Number) -> Self:
        return super().__add__(lifted_array(self.builder, other))

    def __sub__(self, other: Number) -> Self:
        low, high = bounds_of(other)
        if not _fits((low, high)) and _fits((-high, -low)) and _fits(self.bounds):
            # The sum with what is as far from 0 does not overflow.
            bounds = self.bounds[0] - high, self.bounds[1] - low
            return cast("Self", self._combined("add", self, -low, bounds))
        return super().__sub__(other)

    def __mul__(self, other: Number) -> Self:
        return super().__mul__(lifted_array(self.builder, other))

    def product(self, lhs: Number, rhs: Number, shift: int) -> SSAValue:
        """A product of 64 bits, shifted to the right and rounded half up."""
        return product(
            self.builder, self.low_operand(lhs), self.low_operand(rhs), shift
        )

    def __floordiv__(self, other: Number) -> Self:
        """A quotient by a power of two."""
        divisor = int(cast(SupportsIndex, other))
        if divisor & (divisor - 1):
            raise Unsupported(f"divides by {divisor}")
        return self >> (divisor.bit_length() - 1)

    def __lshift__(self, other: Number) -> Self:
        if isinstance(other, Expression):
            return super().__lshift__(other)
        result = super().__lshift__(int(other))
        if result is not self:
            result.parts = Parts(shifted=(self, int(other)))
        return result

    def bits(self, mask: TosaInteger) -> TosaInteger:
        """The bits that a mask has."""
        return self._combined("and", self, cast(SupportsIndex, mask), mask.bounds)

    # Functions

    def primitive(self, name: str) -> Callable[..., Any] | None:
        return _PRIMITIVES.get(name)

    def absolute(self) -> TosaInteger:
        low, high = self.bounds

        def build() -> SSAValue:
            return self.builder.tosa(tosa_ops.AbsOp, (self.value,), self.shape, i32)

        return TosaInteger(self.builder, build, (0, max(-low, high)), self.shape)

    def sign(self) -> TosaInteger:
        return (self > 0).chosen(1, (self >> 31).maximum(-1))

    def wrapped(self, bits: int = 32) -> TosaInteger:
        bounds = signed_bounds(bits)
        if are_within(self.bounds, bounds):
            return self
        if bits == 32:
            return TosaInteger(
                self.builder, lambda: self.low, bounds, self.shape, self.parts
            )
        shifted = (self << (32 - bits)).wrapped(32)
        return TosaInteger(
            self.builder, lambda: (shifted >> (32 - bits)).low, bounds, self.shape
        )

    def leading_zeros(self) -> TosaInteger:
        low, high = (32 - bound.bit_length() for bound in reversed(self.bounds))

        def build() -> SSAValue:
            return self.builder.tosa(tosa_ops.ClzOp, (self.value,), self.shape, i32)

        return TosaInteger(self.builder, build, (low, high), self.shape)

    def max(self, axis: int, keepdims: bool) -> TosaInteger:
        """The largest number along a dimension, which is kept."""
        build, shape = _reduced(self, tosa.ReduceMaxOp, (axis,))
        return TosaInteger(self.builder, build, self.bounds, shape)

    def sum(self, axis: int, keepdims: bool) -> TosaInteger:
        """The sum along a dimension, which is kept."""
        size = self.shape[axis]
        low, high = self.bounds
        build, shape = _reduced(self, tosa.ReduceSumOp, (axis,))
        return TosaInteger(self.builder, build, (low * size, high * size), shape)

    def as_float(self, type_: AnyFloat) -> TosaReal:
        build = partial(_converted, self, type_)
        low, high = map(float, self.bounds)
        return TosaReal(self.builder, build, self.shape, (low, high))

    def astype(self, dtype: Any) -> TosaInteger | TosaReal:
        """The elements as integers or floats of 32 bits."""
        return self if np.dtype(dtype).kind == "i" else self.as_float(f32)

    # Results

    def stored_as(self, element_type: Attribute) -> SSAValue:
        """The value with the type of stored values, which its bounds fit."""
        if element_type == i32:
            return self.value
        if self.parts.saturated is not None:
            rescaling, zero_point, low, high = self.parts.saturated
            if not zero_point or element_type == i8:
                result = rescaling.build(self.builder, element_type, zero_point)
                return self.builder.bounded(result, low, high)
        return self.builder.with_elements(self.value, element_type)


class TosaReal(Tensor, Real):
    """
    A tensor of `f32`. A division is a product with the reciprocal, so results may differ
    from quotients in their last bit.
    """

    dtype = np.dtype(np.float32)

    def __init__(
        self,
        builder: TosaBuilder,
        build: Callable[[], SSAValue],
        shape: Sequence[int],
        bounds: FloatBounds = UNBOUNDED,
    ):
        self._set(builder, build, shape)
        self.bounds = bounds

    @classmethod
    def of(cls, builder: TosaBuilder, value: SSAValue) -> TosaReal:
        """A tensor as an expression."""
        return cls(builder, lambda: value, shape_of(value))

    @property
    def type(self) -> AnyFloat:
        return f32

    def __getitem__(self, index: Any) -> TosaReal:
        """Some of the elements, as NumPy takes them."""
        return TosaReal(self.builder, *_picked(self, index), self.bounds)

    def _arithmetic(self, name: str, lhs: RealNumber, rhs: RealNumber) -> Self:
        lifted = (lifted_array(self.builder, x) for x in (lhs, rhs))
        return super()._arithmetic(name, *lifted)

    def _function(
        self,
        name: str,
        operands: Sequence[RealNumber],
        bounds: FloatBounds,
        may_be_nan: bool,
    ) -> TosaReal:
        build = partial(self._built, name, operands)
        return TosaReal(self.builder, build, _shape(*operands), bounds)

    def _built(self, name: str, operands: Sequence[RealNumber]) -> SSAValue:
        builder = self.builder
        match name:
            case "negative":
                return (self * -1.0).value
            case "sqrt":
                return self.power(0.5).value
            case "expm1":
                return (self.unary(tosa_ops.ExpOp) - 1.0).value
            case "rint":
                return builder.with_elements(_converted(self, i32), f32)
            case "divide":
                lhs, rhs = operands
                if not isinstance(rhs, Expression):
                    return (self * (1 / float(rhs))).value
                inverse = cast(TosaReal, rhs).unary(tosa.ReciprocalOp)
                is_one = not isinstance(lhs, Expression) and lhs == 1
                return inverse.value if is_one else (inverse * lhs).value
            case _:
                pass
        values = [_operand(x, self, f32) for x in operands]
        if name == "multiply":
            return product(builder, values[0], values[1])
        if name not in _FLOAT_OPS:
            raise Unsupported(f"has no form of '{name}' in TOSA")
        op_type = _FLOAT_OPS[name]
        if len(values) == 1:
            return builder.tosa(op_type, values, self.shape, f32)
        return builder.binary(op_type, *values)

    def unary(self, op_type: type[Operation]) -> TosaReal:
        """An op on each element."""

        def build() -> SSAValue:
            return self.builder.tosa(op_type, (self.value,), self.shape, f32)

        return TosaReal(self.builder, build, self.shape)

    def clipped(self, low: RealNumber, high: RealNumber) -> TosaReal:
        bounds = float(cast(float, low)), float(cast(float, high))

        def build() -> SSAValue:
            return self.builder.clamped(self.value, *bounds)

        return TosaReal(self.builder, build, self.shape, bounds)

    def reduced(self, op_type: type[Operation], axes: Sequence[int]) -> TosaReal:
        """A reduction along dimensions, which get size 1."""
        return TosaReal(self.builder, *_reduced(self, op_type, axes))

    def max(self, axis: int, keepdims: bool) -> TosaReal:
        """The largest number along a dimension, which is kept."""
        return self.reduced(tosa.ReduceMaxOp, (axis,))

    def sum(self, axis: int, keepdims: bool) -> TosaReal:
        """The sum along a dimension, which is kept."""
        return self.reduced(tosa.ReduceSumOp, (axis,))

    def as_float(self, type_: AnyFloat) -> Self:
        return self

    def as_integer(self) -> TosaInteger:
        # `tosa.cast` rounds to the nearest integer.
        down, up = self.unary(tosa_ops.FloorOp), self.unary(tosa_ops.CeilOp)
        return (self > 0).chosen(down, up).nearest_integer()

    def nearest_integer(self) -> TosaInteger:
        """The nearest integers, of halves the even ones."""
        build = partial(_converted, self, i32)
        low, high = (int(np.clip(bound, *INT32)) for bound in self.bounds)
        return TosaInteger(self.builder, build, (low, high), self.shape)

    def astype(self, dtype: Any) -> TosaReal | TosaInteger:
        """The elements as integers or floats of 32 bits."""
        if np.dtype(dtype) == np.float64:
            raise Unsupported("has floats of 64 bits, expected at most 32 bits")
        return self if np.dtype(dtype).kind == "f" else self.as_integer()


def _converted(x: Tensor, element_type: Attribute) -> SSAValue:
    return x.builder.with_elements(x.value, element_type)


def product(
    builder: TosaBuilder, lhs: SSAValue, rhs: SSAValue, shift: int = 0
) -> SSAValue:
    """A product of tensors, of integers shifted to the right and rounded half up."""
    shape = np.broadcast_shapes(shape_of(lhs), shape_of(rhs))
    operands = [builder.with_rank(operand, len(shape)) for operand in (lhs, rhs)]
    type_ = element_type_of(lhs)
    return builder.tosa(tosa.MulOp, (*operands, builder.one(shift, i8)), shape, type_)


def _picked(x: Tensor, index: Any) -> tuple[Callable[[], SSAValue], tuple[int, ...]]:
    positions: NDArray[np.int64] = np.arange(math.prod(x.shape)).reshape(x.shape)[index]
    return lambda: x.builder.gathered(x.value, positions), positions.shape


def _reduced(
    x: Tensor, op_type: type[Operation], axes: Sequence[int]
) -> tuple[Callable[[], SSAValue], tuple[int, ...]]:
    reduced = [axis % x.ndim for axis in axes]
    shape = tuple(1 if d in reduced else size for d, size in enumerate(x.shape))

    def build() -> SSAValue:
        value = x.value
        for axis in reduced:
            value = x.builder.reduced(op_type, value, axis)
        return value

    return build, shape


class Rescaling(NamedTuple):
    """A product with a multiplier that is shifted, rounded after each shift."""

    x: TosaInteger
    value: int
    shift: int

    @classmethod
    def of(cls, x: TosaInteger, value: int) -> Rescaling:
        """The upper half of a product with a multiplier."""
        if x.parts.shifted is None:
            return cls(x, value, 31)
        source, left = x.parts.shifted
        return cls(source, value, 31 - left)

    @property
    def is_valid(self) -> bool:
        """Whether TOSA defines it."""
        limit = 1 << (self.shift - 1) if self.shift > 1 else 0
        low, high = self.x.bounds
        return self.value >= 0 and -limit <= low and high < limit

    def build(
        self, builder: TosaBuilder, element_type: Attribute = i32, output_zp: int = 0
    ) -> SSAValue:
        """The op, whose result has a zero point and saturates."""
        multiplier = Multiplier(self.value, 31 - self.shift)
        x, factor, constant = self.x.linear or (self.x, 1, 0)
        stored = x.parts.stored if factor == 1 else None
        if stored is None or (constant and element_type_of(stored) != i8):
            stored, constant = self.x.value, 0
        return builder.rescaled(stored, multiplier, element_type, -constant, output_zp)

    def expression(self, bounds: Bounds) -> TosaInteger:
        """The product as an expression."""
        builder = self.x.builder
        return TosaInteger(
            builder,
            lambda: self.build(builder),
            bounds,
            self.x.shape,
            Parts(rescale=self),
        )


# Primitives


def _ordered(lhs: Number, rhs: Number) -> tuple[TosaInteger, Number]:
    """The operands of a function that does not depend on their order, a tensor first."""
    if isinstance(lhs, TosaInteger):
        return lhs, rhs
    return cast(TosaInteger, rhs), lhs


def _rounded_product(lhs: Number, rhs: Number, exponent: Number) -> TosaInteger:
    x, factor = _ordered(lhs, rhs)
    product = x * factor
    if isinstance(exponent, TosaInteger):
        return (product + (1 << (exponent - 1))) >> exponent
    bits = int(cast(SupportsIndex, exponent))
    low, high = ((bound + (1 << (bits - 1))) >> bits for bound in product.bounds)
    # Of two numbers of which one at least is not the smallest one.
    bounds = max(low, INT32[0]), min(high, INT32[1])
    build = partial(x.product, x, factor, bits)
    return TosaInteger(product.builder, build, bounds, product.shape)


def _doubling_high_product(lhs: Number, rhs: Number) -> TosaInteger:
    x, factor = _ordered(lhs, rhs)
    result = _rounded_product(x, factor, 31)
    if not isinstance(factor, Expression):
        rescaling = Rescaling.of(x, int(factor))
        if rescaling.is_valid:
            return rescaling.expression(result.bounds)
    return result


def _rounding_divide(values: Number, exponent: Number) -> Number:
    if bounds_of(exponent) == (0, 0):
        return values
    x = _lifted(values, exponent)
    is_away = x.bounds[0] < 0
    low, high = (
        combined(lambda end, bits: (end + (1 << bits >> 1)) >> bits, bound, exponent)
        for bound in (x.bounds[0], x.bounds[1])
    )
    bounds = low[0], high[1]
    if isinstance(exponent, TosaInteger):
        divided = _divided_by_power if is_away else _rounded_up
        result = divided(x, exponent)
        return TosaInteger(x.builder, lambda: result.value, bounds, result.shape)
    bits = int(cast(SupportsIndex, exponent))
    if (rescaling := x.parts.rescale) is not None and rescaling.shift == 31:
        return rescaling._replace(shift=31 + bits).expression(bounds)
    half = 1 << (bits - 1)
    if not _fits((x.bounds[0] + half - is_away, x.bounds[1] + half)):
        result = _divided(x, bits, is_away)
    else:
        moved = x + half
        if is_away:
            moved = moved - (x < 0)
        result = moved >> bits
    return TosaInteger(x.builder, lambda: result.value, bounds, x.shape)


def _half_sum(lhs: Number, rhs: Number) -> TosaInteger:
    x, other = _ordered(lhs, rhs)
    total = x + other
    if _fits((total.bounds[0], total.bounds[1] + 1)):
        return cast(TosaInteger, _rounding_divide(total, 1))
    mean = _mean(x, other, total.bounds[0] < 0)
    low, high = ((bound + 1) >> 1 for bound in total.bounds)
    return TosaInteger(total.builder, lambda: mean.value, (low, high), total.shape)


def _saturating_shift(values: Number, left: Number, bits: int = 32) -> TosaInteger:
    x = _lifted(values, left)
    shifted = x << left
    low, high = signed_bounds(bits)
    if bits < 32 or _fits(shifted.bounds):
        return shifted.clipped(low, high)

    def limit(bound: int) -> Number:
        if not isinstance(left, TosaInteger):
            return bound >> int(cast(SupportsIndex, left))
        return _lifted(bound, left) >> left

    builder, shape = shifted.builder, shifted.shape
    result = TosaInteger(builder, lambda: shifted.low, INT32, shape)
    if shifted.bounds[1] > high:
        result = (x > limit(high)).chosen(high, result)
    if shifted.bounds[0] < low:
        result = (x >= limit(low)).chosen(result, low)
    bounds = max(shifted.bounds[0], low), min(shifted.bounds[1], high)
    return TosaInteger(builder, lambda: result.low, bounds, shape)


def _stored_values(x: TosaInteger, zero_point: int, low: int, high: int) -> TosaInteger:
    moved = x + zero_point
    clipped = moved.clipped(low, high)
    if x.parts.rescale is None:
        return clipped
    parts = Parts(saturated=(x.parts.rescale, zero_point, low, high))
    return TosaInteger(
        x.builder, lambda: clipped.value, clipped.bounds, clipped.shape, parts
    )


def _lookup(table: NDArray[Any], indices: TosaInteger) -> TosaInteger:
    builder, shape = indices.builder, indices.shape
    count = math.prod(shape)

    def build() -> SSAValue:
        entries = builder.array(table.reshape(1, -1, 1), i32)
        rows = builder.with_shape(indices.value, (1, count))
        return builder.with_shape(builder.rows(entries, rows), shape)

    bounds = int(table.min()), int(table.max())
    return TosaInteger(builder, build, bounds, shape)


def _below_largest(values: TosaInteger) -> TosaInteger:
    result = values - values.max(axis=-1, keepdims=True)
    result.bounds = result.bounds[0], 0
    return result


def _lifted(number: Number, like: Number) -> TosaInteger:
    """A number as an expression, broadcast to another one if it is known."""
    if isinstance(number, TosaTruth):
        return number.number
    if isinstance(number, TosaInteger):
        return number
    tensor = cast(TosaInteger, like)
    array = np.full((1,) * tensor.ndim, bounds_of(number)[0])
    return lifted_array(tensor.builder, array)


def _mean(a: TosaInteger, b: Number, is_away: bool) -> TosaInteger:
    """Half of a sum, which may have more than 32 bits, rounded up or away from zero."""
    parity = b & 1 if isinstance(b, TosaInteger) else int(cast(SupportsIndex, b)) & 1
    half = b >> 1 if isinstance(b, TosaInteger) else int(cast(SupportsIndex, b)) >> 1
    parities = (a & 1) + parity
    mean = (a >> 1) + half + ((parities + 1) >> 1)
    if not is_away:
        return mean
    # Of a negative odd sum, it is one less.
    is_less = (mean <= 0) & (parities == 1)
    return mean - cast(TosaTruth, is_less)


def _divided(x: TosaInteger, bits: int, is_away: bool) -> TosaInteger:
    """
    `x / 2**bits`, where half is too much for 32 bits: rounded down, and one more if the
    remainder is large.
    """
    mask = (1 << bits) - 1
    threshold: Number = mask >> 1
    if is_away:
        threshold = (x < 0).number + threshold
    return (x >> bits) + ((x & mask) > threshold).number


def _divided_by_power(x: TosaInteger, bits: TosaInteger) -> TosaInteger:
    """
    `x / 2**bits` rounded half away from zero: rounded down, and one more if the remainder
    is large. With more than 31 bits it is 0.
    """
    inside = bits.minimum(31)
    mask = TosaInteger(
        x.builder, lambda: ((1 << inside) - 1).low, (0, INT32[1]), bits.shape
    )
    threshold = (mask >> 1) + (x < 0).number
    remainder = x.bits(mask)
    quotient = (x >> inside) + (remainder > threshold).number
    return quotient if bits.bounds[1] <= 31 else (bits > 31).chosen(0, quotient)


def _rounded_up(x: TosaInteger, bits: TosaInteger) -> TosaInteger:
    """
    `x / 2**bits` rounded half up, for `x` from 0: half of it is what is left without the
    last bit, and more than 31 bits leave nothing.
    """
    twice = x >> (bits - 1).minimum(31)
    return (twice + 1) >> 1


def _fits(bounds: Bounds) -> bool:
    return are_within(bounds, INT32)


def _shape(*numbers: object) -> tuple[int, ...]:
    shapes = [number.shape for number in numbers if isinstance(number, Tensor)]
    return np.broadcast_shapes(*shapes)


_PRIMITIVES: Mapping[str, Callable[..., Any]] = {
    "wrapped": TosaInteger.wrapped,
    "saturating_shift": _saturating_shift,
    "rounded_product": _rounded_product,
    "doubling_high_product": _doubling_high_product,
    "rounding_divide": _rounding_divide,
    "half_sum": _half_sum,
    "stored_values": _stored_values,
    "leading_zeros": TosaInteger.leading_zeros,
    "lookup": _lookup,
    "below_largest": _below_largest,
}


def quantized(operand: Operand) -> Quantized:
    """An operand for the formulas."""
    return Quantized(TosaInteger.stored(operand), operand.parameters)  # pyright: ignore[reportArgumentType] in the place of an array
