"""
Formulas of integers as ops of TOSA on tensors of `i32`.

The functions of `frontends.tflite.formulas` build ops if they are given an
[`Expression`][xdsl_quant.frontends.tflite.lowering.tosa.expressions.Expression] for an
array. Their numbers are unbounded; TOSA has 32 bits. Each expression knows the bounds of
its value and how it was made: a product with a multiplier that is rounded and shifted
becomes `tosa.rescale` or a `tosa.mul` with a shift, and what else exceeds 32 bits is
refused. Ops are built where a value is used.
"""

from __future__ import annotations

import math
import operator
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, SupportsIndex, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tosa
from xdsl.dialects.builtin import BoolAttr, i1, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.frontends.tflite.formulas.fixed_point import Multiplier
from xdsl_quant.frontends.tflite.formulas.quantized import Quantized
from xdsl_quant.transforms.building.bounded_integers import (
    ArrayLike,
    Bounded,
    BoundedInteger,
    Bounds,
    IntegerOperation,
    Number,
    are_within,
    bounds_of,
    combined,
    signed_bounds,
    union,
)
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported
from xdsl_quant.xdsl_patches import tosa_ops

from .building import Operand, TosaBuilder

INT32 = signed_bounds(32)


class _Expression(ArrayLike, ABC):
    @classmethod
    def functions(cls) -> Mapping[Any, Callable[..., Any]]:
        return _FUNCTIONS


class Parts(NamedTuple):
    """What a number is known to be, for ops that fuse several functions."""

    stored: SSAValue | None = None
    """Stored values."""

    shifted: tuple[Expression, int] | None = None
    """A number, and by how many bits it is shifted to the left."""

    rescale: Rescaling | None = None
    """A product with a multiplier that is shifted to the right."""

    saturated: tuple[Rescaling, int, int, int] | None = None
    """A product, a zero point that is added, and a range that limits the sum."""


class Condition(_Expression, Bounded):
    """A tensor of truth values."""

    bounds = 0, 1

    def __init__(
        self,
        builder: TosaBuilder,
        build: Callable[[], SSAValue],
        shape: Sequence[int],
    ):
        """
        Args:
            builder: builds the ops.
            build: builds the truth values.
            shape: the shape of the tensor.
        """
        self.builder = builder
        self._build = build
        self.shape = tuple(shape)
        self._value: SSAValue | None = None

    @property
    def value(self) -> SSAValue:
        """The truth values."""
        if self._value is None:
            self._value = self._build()
        return self._value

    def __and__(self, other: Condition | bool) -> Condition | int:
        if not isinstance(other, Condition):
            return self if other else 0

        def build() -> SSAValue:
            operands = self.value, other.value
            return self.builder.binary(tosa_ops.LogicalAndOp, *operands)

        shape = np.broadcast_shapes(self.shape, other.shape)
        return Condition(self.builder, build, shape)

    __rand__ = __and__

    def __add__(self, other: Number) -> Expression:
        return self.number + other

    __radd__ = __add__

    @property
    def number(self) -> Expression:
        """0 or 1."""

        def build() -> SSAValue:
            return self.builder.tosa(tosa_ops.CastOp, (self.value,), self.shape, i32)

        return Expression(self.builder, build, (0, 1), self.shape)


class Expression(_Expression, BoundedInteger):
    """A tensor of integers."""

    is_lazy = True

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
        self.builder = builder
        self._build = build
        self.bounds = bounds
        self.shape = tuple(shape)
        self.parts = parts
        self._low: SSAValue | None = None

    @classmethod
    def stored(cls, operand: Operand) -> Expression:
        """The stored values of an operand."""
        builder, value = operand.builder, operand.value
        if operand.is_quantized:
            parameters = operand.parameters
            bounds = parameters.storage_min, parameters.storage_max
        else:
            bounds = INT32
        return cls(
            builder,
            lambda: builder.widened(value),
            bounds,
            shape_of(value),
            Parts(stored=value),
        )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def low(self) -> SSAValue:
        """The lowest 32 bits, as a signed number."""
        if self._low is None:
            self._low = self._build()
        return self._low

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

    def lifted(self, number: Number | NDArray[Any]) -> Number:
        """An array of numbers as an expression."""
        if isinstance(number, Bounded) or not np.ndim(cast(Any, number)):
            return cast(Number, number)
        values = np.asarray(number)
        return Expression(
            self.builder,
            lambda: self.builder.array(values, i32),
            (int(values.min()), int(values.max())),
            values.shape,
        )

    def __getitem__(self, index: Any) -> Expression:
        """Some of the elements, as NumPy takes them."""
        count = int(np.prod(self.shape, dtype=np.int64))
        positions: NDArray[Any] = np.arange(count).reshape(self.shape)[index]

        def build() -> SSAValue:
            return self.builder.gathered(self.value, positions)

        return Expression(self.builder, build, self.bounds, positions.shape)

    def _operand(self, number: Number) -> SSAValue:
        """The lowest 32 bits of an operand of an op with this one."""
        if isinstance(number, Condition):
            number = number.number
        if isinstance(number, Expression):
            return number.low
        known, _ = bounds_of(number)
        low = (known + (1 << 31)) % (1 << 32) - (1 << 31)
        return self.builder.array(np.full((1,) * self.ndim, low), i32)

    def _binary(
        self,
        op_type: type[Operation],
        lhs: Number,
        rhs: Number,
        bounds: Bounds,
        parts: Parts = Parts(),
        **properties: Attribute,
    ) -> Expression:
        def build() -> SSAValue:
            operands = self._operand(lhs), self._operand(rhs)
            return self.builder.binary(op_type, *operands, **properties)

        return Expression(self.builder, build, bounds, _shape(lhs, rhs), parts)

    def _combined(
        self, operation: IntegerOperation, lhs: Number, rhs: Number, bounds: Bounds
    ) -> Expression:
        match operation:
            case "multiply":
                build = partial(self.product, lhs, rhs, 0)
            case "maximum" | "minimum":
                build = partial(self._extreme, _OPERATIONS[operation], lhs, rhs)
            case _:
                return self._binary(_OPERATIONS[operation], lhs, rhs, bounds)
        return Expression(self.builder, build, bounds, _shape(lhs, rhs))

    def _extreme(self, op_type: type[Operation], lhs: Number, rhs: Number) -> SSAValue:
        limit = self._exact(rhs)
        return self.builder.binary(op_type, self._exact(lhs), limit)

    def _exact(self, number: Number) -> SSAValue:
        """An operand of at most 32 bits."""
        return number.value if isinstance(number, Expression) else self._operand(number)

    # Operators

    def __add__(self, other: Number) -> Expression:
        return super().__add__(self.lifted(other))

    def __sub__(self, other: Number) -> Expression:
        (a, b), (c, d) = self.bounds, bounds_of(other)
        if not _fits((c, d)) and _fits((-d, -c)) and _fits(self.bounds):
            # The sum with what is as far from 0 does not overflow.
            return self._binary(tosa.AddOp, self, -c, (a - d, b - c))
        return super().__sub__(other)

    def __mul__(self, other: Number) -> Expression:
        return super().__mul__(self.lifted(other))

    def product(self, lhs: Number, rhs: Number, shift: int) -> SSAValue:
        """A product of 64 bits, shifted to the right and rounded half up."""
        builder = self.builder
        operands = [self._operand(lhs), self._operand(rhs)]
        shape = np.broadcast_shapes(*map(shape_of, operands))
        operands = [builder.with_rank(operand, len(shape)) for operand in operands]
        return builder.tosa(tosa.MulOp, (*operands, builder.one(shift, i8)), shape, i32)

    def __floordiv__(self, other: SupportsIndex) -> Expression:
        """A quotient by a power of two."""
        divisor = int(cast(Any, other))
        if divisor & (divisor - 1):
            raise Unsupported(f"divides by {divisor}")
        return self >> (divisor.bit_length() - 1)

    def __lshift__(self, other: Number) -> Expression:
        if isinstance(other, Bounded):
            return super().__lshift__(other)
        result = super().__lshift__(int(other))
        if result is not self:
            result.parts = Parts(shifted=(self, int(other)))
        return result

    def __rshift__(self, other: Number) -> Expression:
        if bounds_of(other) == (0, 0):
            return self

        def shifted() -> SSAValue:
            return self.builder.binary(
                tosa_ops.ArithmeticRightShiftOp,
                self.value,
                self._operand(other),
                round=BoolAttr.from_bool(False),
            )

        bounds = combined(operator.rshift, self, other)
        return Expression(self.builder, shifted, bounds, self.shape)

    def bits(self, mask: Expression) -> Expression:
        """The bits that a mask has."""
        return self._binary(tosa_ops.BitwiseAndOp, self, mask, mask.bounds)

    # Comparison

    def _compared(
        self,
        op_type: type[Operation],
        lhs: Number,
        rhs: Number,
    ) -> Condition:
        shape = _shape(lhs, rhs)
        builder = self.builder

        def build() -> SSAValue:
            values = self._exact(lhs), self._exact(rhs)
            operands = [builder.with_rank(value, len(shape)) for value in values]
            return builder.tosa(op_type, operands, shape, i1)

        return Condition(builder, build, shape)

    def __lt__(self, other: Number) -> Condition:
        return self._compared(tosa_ops.GreaterOp, other, self)

    def __le__(self, other: Number) -> Condition:
        return self._compared(tosa_ops.GreaterEqualOp, other, self)

    def __gt__(self, other: Number) -> Condition:
        return self._compared(tosa_ops.GreaterOp, self, other)

    def __ge__(self, other: Number) -> Condition:
        return self._compared(tosa_ops.GreaterEqualOp, self, other)

    def __eq__(self, other: Number) -> Condition:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return self._compared(tosa_ops.EqualOp, self, other)

    def __ne__(self, other: Number) -> Condition:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        equal = self._compared(tosa_ops.EqualOp, self, other)

        def build() -> SSAValue:
            return self.builder.tosa(
                tosa_ops.LogicalNotOp, (equal.value,), equal.shape, i1
            )

        return Condition(self.builder, build, equal.shape)

    __hash__ = object.__hash__

    # Functions

    def primitive(self, name: str) -> Callable[..., Any] | None:
        """TOSA's form of a primitive; `None` to trace its definition."""
        return _PRIMITIVES.get(name)

    def clipped(self, low: SupportsIndex, high: SupportsIndex) -> Expression:
        """A number limited to a range."""
        return self.maximum(low).minimum(high)

    def absolute(self) -> Expression:
        """The absolute value."""
        low, high = self.bounds

        def build() -> SSAValue:
            return self.builder.tosa(tosa_ops.AbsOp, (self.value,), self.shape, i32)

        return Expression(self.builder, build, (0, max(-low, high)), self.shape)

    def wrapped(self, bits: int = 32) -> Expression:
        """The lowest bits as a signed number."""
        bounds = signed_bounds(bits)
        if are_within(self.bounds, bounds):
            return self
        if bits == 32:
            return Expression(
                self.builder, lambda: self.low, bounds, self.shape, self.parts
            )
        shifted = (self << (32 - bits)).wrapped(32)
        return Expression(
            self.builder, lambda: (shifted >> (32 - bits)).low, bounds, self.shape
        )

    def leading_zeros(self) -> Expression:
        """The zeros before the first one of the 32 bits of a number from 0."""
        low, high = (32 - bound.bit_length() for bound in reversed(self.bounds))

        def build() -> SSAValue:
            return self.builder.tosa(tosa_ops.ClzOp, (self.value,), self.shape, i32)

        return Expression(self.builder, build, (low, high), self.shape)

    def max(self, axis: int, keepdims: bool) -> Expression:
        """The largest number along a dimension."""
        return self._reduced(tosa.ReduceMaxOp, axis, self.bounds)

    def sum(self, axis: int, keepdims: bool) -> Expression:
        """The sum along a dimension."""
        size = self.shape[axis]
        low, high = self.bounds
        return self._reduced(tosa.ReduceSumOp, axis, (low * size, high * size))

    def _reduced(
        self,
        op_type: type[Operation],
        axis: int,
        bounds: Bounds,
    ) -> Expression:
        axis %= self.ndim
        shape = [*self.shape]
        shape[axis] = 1

        def build() -> SSAValue:
            return self.builder.reduced(op_type, self.value, axis)

        return Expression(self.builder, build, bounds, shape)

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


class Rescaling(NamedTuple):
    """A product with a multiplier that is shifted, rounded after each shift."""

    x: Expression
    value: int
    shift: int

    @classmethod
    def of(cls, x: Expression, value: int) -> Rescaling:
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

    def expression(self, bounds: Bounds) -> Expression:
        """The product as an expression."""
        builder = self.x.builder
        return Expression(
            builder,
            lambda: self.build(builder),
            bounds,
            self.x.shape,
            Parts(rescale=self),
        )


# Primitives


def _rounded_product(lhs: Number, rhs: Number, exponent: Number) -> Expression:
    product = lhs * rhs
    if isinstance(exponent, Bounded):
        return (product + (1 << (exponent - 1))) >> exponent
    bits = int(exponent)
    low, high = ((bound + (1 << (bits - 1))) >> bits for bound in product.bounds)
    # Of two numbers of which one at least is not the smallest one.
    bounds = max(low, INT32[0]), min(high, INT32[1])
    build = partial(product.product, lhs, rhs, bits)
    return Expression(product.builder, build, bounds, product.shape)


def _doubling_high_product(lhs: Number, rhs: Number) -> Expression:
    result = _rounded_product(lhs, rhs, 31)
    x, factor = (lhs, rhs) if isinstance(lhs, Expression) else (rhs, lhs)
    if not isinstance(factor, Bounded):
        rescaling = Rescaling.of(cast(Expression, x), int(factor))
        if rescaling.is_valid:
            return rescaling.expression(result.bounds)
    return result


def _rounding_divide(x: Number, exponent: Number) -> Expression | Number:
    if bounds_of(exponent) == (0, 0):
        return x
    if not isinstance(x, Expression):
        x = _lifted(x, cast(Expression, exponent))
    is_away = x.bounds[0] < 0
    low, high = (
        combined(lambda end, bits: (end + (1 << bits >> 1)) >> bits, bound, exponent)
        for bound in (x.bounds[0], x.bounds[1])
    )
    bounds = low[0], high[1]
    if isinstance(exponent, Bounded):
        divided = _divided_by_power if is_away else _rounded_up
        result = divided(x, cast(Expression, exponent))
        return Expression(x.builder, lambda: result.value, bounds, result.shape)
    bits = int(exponent)
    if (rescaling := x.parts.rescale) is not None and rescaling.shift == 31:
        return rescaling._replace(shift=31 + bits).expression(bounds)
    half = 1 << (bits - 1)
    if not _fits((x.bounds[0] + half - is_away, x.bounds[1] + half)):
        result = _divided(x, bits, is_away)
    else:
        moved = x + half
        if is_away:
            moved = moved - cast(Condition, x < 0)
        result = moved >> bits
    return Expression(x.builder, lambda: result.value, bounds, x.shape)


def _half_sum(lhs: Number, rhs: Number) -> Expression:
    total = cast(Expression, lhs + rhs)
    if _fits((total.bounds[0], total.bounds[1] + 1)):
        return cast(Expression, _rounding_divide(total, 1))
    first, second = (lhs, rhs) if isinstance(lhs, Expression) else (rhs, lhs)
    mean = _mean(cast(Expression, first), second, total.bounds[0] < 0)
    low, high = ((bound + 1) >> 1 for bound in total.bounds)
    return Expression(total.builder, lambda: mean.value, (low, high), total.shape)


def _saturating_shift(x: Number, left: Number, bits: int = 32) -> Expression:
    shifted = cast(Expression, x << left)
    low, high = signed_bounds(bits)
    if bits < 32 or _fits(shifted.bounds):
        return shifted.clipped(low, high)

    def limit(bound: int) -> Number:
        if not isinstance(left, Expression):
            return bound >> int(left)
        return _lifted(bound, left) >> left

    builder, shape = shifted.builder, shifted.shape
    x = _lifted(x, shifted)
    result = Expression(builder, lambda: shifted.low, INT32, shape)
    if shifted.bounds[1] > high:
        result = _where(x > limit(high), high, result)
    if shifted.bounds[0] < low:
        result = _where(x >= limit(low), result, low)
    bounds = max(shifted.bounds[0], low), min(shifted.bounds[1], high)
    return Expression(builder, lambda: result.low, bounds, shape)


def _stored_values(x: Expression, zero_point: int, low: int, high: int) -> Expression:
    moved = x + zero_point
    clipped = moved.clipped(low, high)
    if x.parts.rescale is None:
        return clipped
    parts = Parts(saturated=(x.parts.rescale, zero_point, low, high))
    return Expression(
        x.builder, lambda: clipped.value, clipped.bounds, clipped.shape, parts
    )


def _lookup(table: NDArray[Any], indices: Expression) -> Expression:
    builder, shape = indices.builder, indices.shape
    count = math.prod(shape)

    def build() -> SSAValue:
        entries = builder.array(table.reshape(1, -1, 1), i32)
        rows = builder.with_shape(indices.value, (1, count))
        return builder.with_shape(builder.rows(entries, rows), shape)

    bounds = int(table.min()), int(table.max())
    return Expression(builder, build, bounds, shape)


def _below_largest(values: Expression) -> Expression:
    result = values - values.max(axis=-1, keepdims=True)
    result.bounds = result.bounds[0], 0
    return result


def _lifted(number: Number, like: Expression) -> Expression:
    """A number as an expression that is broadcast to another one."""
    if isinstance(number, Condition):
        return number.number
    if isinstance(number, Expression):
        return number
    return cast(
        Expression, like.lifted(np.full((1,) * like.ndim, bounds_of(number)[0]))
    )


def _mean(a: Expression, b: Number, is_away: bool) -> Expression:
    """Half of a sum, which may have more than 32 bits, rounded up or away from zero."""
    parity = b & 1 if isinstance(b, Expression) else int(cast(SupportsIndex, b)) & 1
    half = b >> 1 if isinstance(b, Expression) else int(cast(SupportsIndex, b)) >> 1
    parities = (a & 1) + parity
    mean = (a >> 1) + half + ((parities + 1) >> 1)
    if not is_away:
        return mean
    # Of a negative odd sum, it is one less.
    is_less = (mean <= 0) & (parities == 1)
    return mean - cast(Condition, is_less)


def _divided(x: Expression, bits: int, is_away: bool) -> Expression:
    """
    `x / 2**bits`, where half is too much for 32 bits: rounded down, and one more if the
    remainder is large.
    """
    mask = (1 << bits) - 1
    threshold: Number = mask >> 1
    if is_away:
        threshold = (x < 0).number + threshold
    return (x >> bits) + ((x & mask) > threshold).number


def _divided_by_power(x: Expression, bits: Expression) -> Expression:
    """
    `x / 2**bits` rounded half away from zero: rounded down, and one more if the remainder
    is large. With more than 31 bits it is 0.
    """
    inside = bits.minimum(31)
    mask = Expression(
        x.builder, lambda: ((1 << inside) - 1).low, (0, INT32[1]), bits.shape
    )
    threshold = (mask >> 1) + (x < 0).number
    remainder = x.bits(mask)
    quotient = (x >> inside) + (remainder > threshold).number
    return quotient if bits.bounds[1] <= 31 else _where(bits > 31, 0, quotient)


def _rounded_up(x: Expression, bits: Expression) -> Expression:
    """
    `x / 2**bits` rounded half up, for `x` from 0: half of it is what is left without the
    last bit, and more than 31 bits leave nothing.
    """
    twice = x >> (bits - 1).minimum(31)
    return (twice + 1) >> 1


def _fits(bounds: Bounds) -> bool:
    return are_within(bounds, INT32)


def _shape(*numbers: Number) -> Sequence[int]:
    shapes = [number.shape for number in numbers if isinstance(number, Expression)]
    return np.broadcast_shapes(*shapes)


_OPERATIONS: Mapping[IntegerOperation, type[Operation]] = {
    "add": tosa.AddOp,
    "and": tosa_ops.BitwiseAndOp,
    "maximum": tosa_ops.MaximumOp,
    "minimum": tosa_ops.MinimumOp,
    "shift_left": tosa_ops.LogicalLeftShiftOp,
    "subtract": tosa.SubOp,
}


def _with_expression_first(
    method: Callable[[Expression, Number], Expression],
) -> Callable[[Number, Number], Expression]:
    """A function that does not depend on the order of its operands."""

    def function(a: Number, b: Number) -> Expression:
        if isinstance(a, Expression):
            return method(a, b)
        assert isinstance(b, Expression)
        return method(b, a)

    return function


def _clip(x: Expression, low: SupportsIndex, high: SupportsIndex) -> Expression:
    return x.clipped(low, high)


def _where(condition: Condition, a: Number, b: Number) -> Expression:
    builder = condition.builder
    shapes = [condition.shape]
    shapes += [x.shape for x in (a, b) if isinstance(x, Expression)]
    shape = np.broadcast_shapes(*shapes)

    def operand(number: Number) -> SSAValue:
        if isinstance(number, Condition):
            number = number.number
        if isinstance(number, Expression):
            return number.value
        return builder.array(np.full((1,) * len(shape), bounds_of(number)[0]), i32)

    def build() -> SSAValue:
        operands = condition.value, operand(a), operand(b)
        operands = [builder.with_rank(value, len(shape)) for value in operands]
        return builder.tosa(tosa_ops.SelectOp, operands, shape, i32)

    return Expression(builder, build, union(bounds_of(a), bounds_of(b)), shape)


def _subtract(a: Number, b: Number) -> Expression:
    if isinstance(a, Expression):
        return a - b
    assert isinstance(b, Expression)
    return b.__rsub__(a)


def _sign(x: Expression) -> Expression:
    negative = (x >> 31).maximum(-1)
    return _where(x > 0, 1, negative)


def _rank(x: Expression) -> int:
    return x.ndim


_PRIMITIVES: Mapping[str, Callable[..., Any]] = {
    "wrapped": Expression.wrapped,
    "saturating_shift": _saturating_shift,
    "rounded_product": _rounded_product,
    "doubling_high_product": _doubling_high_product,
    "rounding_divide": _rounding_divide,
    "half_sum": _half_sum,
    "stored_values": _stored_values,
    "leading_zeros": Expression.leading_zeros,
    "lookup": _lookup,
    "below_largest": _below_largest,
}

_FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    np.minimum: _with_expression_first(Expression.minimum),
    np.maximum: _with_expression_first(Expression.maximum),
    np.absolute: Expression.absolute,
    np.sign: _sign,
    # These if the left operand is a number of NumPy.
    np.add: _with_expression_first(Expression.__add__),
    np.multiply: _with_expression_first(Expression.__mul__),
    np.subtract: _subtract,
    np.clip: _clip,
    np.where: _where,
    np.ndim: _rank,
}


def quantized(operand: Operand) -> Quantized:
    """An operand for the functions of `frontends.tflite.formulas`."""
    return Quantized(Expression.stored(operand), operand.parameters)  # pyright: ignore[reportArgumentType] in the place of an array
