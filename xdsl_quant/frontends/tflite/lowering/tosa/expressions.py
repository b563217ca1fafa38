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

from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, SupportsIndex, cast

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


class Condition(_Expression, Bounded):
    """A tensor of truth values."""

    bounds = 0, 1

    def __init__(
        self,
        builder: TosaBuilder,
        build: Callable[[], SSAValue],
        shape: Sequence[int],
        negative: Expression | None = None,
    ):
        """
        Args:
            builder: builds the ops.
            build: builds the truth values.
            shape: the shape of the tensor.
            negative: the number of which it is whether it is negative.
        """
        self.builder = builder
        self._build = build
        self.shape = tuple(shape)
        self.negative = negative
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
        # Rounding away from zero is for shifts by more than 0 bits: 0 bits round nothing.
        return Condition(self.builder, build, shape, self.negative)

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

    def __init__(
        self,
        builder: TosaBuilder,
        build: Callable[[], SSAValue],
        bounds: Bounds,
        shape: Sequence[int],
        form: tuple[Any, ...] = ("other",),
    ):
        """
        Args:
            builder: builds the ops.
            build: builds the lowest 32 bits of the value.
            bounds: what the value is within.
            shape: the shape of the tensor.
            form: how it was made: a name and operands.
        """
        self.builder = builder
        self._build = build
        self.bounds = bounds
        self.shape = tuple(shape)
        self.form = form
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
            ("stored", value, 0),
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

    def _lifted(self, number: Number | NDArray[Any]) -> Number:
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
        form: tuple[Any, ...] = ("other",),
        **properties: Attribute,
    ) -> Expression:
        def build() -> SSAValue:
            operands = self._operand(lhs), self._operand(rhs)
            return self.builder.binary(op_type, *operands, **properties)

        return Expression(self.builder, build, bounds, _shape(lhs, rhs), form)

    def _combined(
        self, operation: IntegerOperation, lhs: Number, rhs: Number, bounds: Bounds
    ) -> Expression:
        form: tuple[Any, ...] = (_FORMS.get(operation, "other"), lhs, rhs)
        match operation:
            case "multiply":
                build = partial(self.product, lhs, rhs, 0)
            case "maximum" | "minimum":
                build = partial(self._extreme, _OPERATIONS[operation], lhs, rhs)
            case _:
                return self._binary(_OPERATIONS[operation], lhs, rhs, bounds, form)
        return Expression(self.builder, build, bounds, _shape(lhs, rhs), form)

    def _extreme(self, op_type: type[Operation], lhs: Number, rhs: Number) -> SSAValue:
        limit = self._exact(rhs)
        return self.builder.binary(op_type, self._exact(lhs), limit)

    def _exact(self, number: Number) -> SSAValue:
        """An operand of at most 32 bits."""
        return number.value if isinstance(number, Expression) else self._operand(number)

    # Operators

    def __add__(self, other: Number) -> Expression:
        return super().__add__(self._lifted(other))

    def __sub__(self, other: Number) -> Expression:
        (a, b), (c, d) = self.bounds, bounds_of(other)
        if (c, d) == (0, 0):
            return self
        form: tuple[Any, ...] = ("other",)
        match self.form:
            case ("plus", x, half) if isinstance(other, Condition) and (
                other.negative is x
            ):
                form = "plus_away", x, half
            case ("stored", value, zero_point) if not isinstance(other, Bounded):
                form = "stored", value, zero_point + int(other)
            case _:
                pass
        bounds = a - d, b - c
        if isinstance(other, Expression) and other.form == ("largest", self):
            bounds = a - d, 0
        if not _fits((c, d)) and _fits((-d, -c)) and _fits(self.bounds):
            # The sum with what is as far from 0 does not overflow.
            return self._binary(tosa.AddOp, self, -c, bounds)
        return self._binary(tosa.SubOp, self, other, bounds, form)

    def __mul__(self, other: Number) -> Expression:
        return super().__mul__(self._lifted(other))

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
        if isinstance(other, Expression) and other.form == ("zeros", self):
            # The first one becomes the highest of 32 bits: there is one.
            bounds = 1 << 31, (1 << 32) - 1
            return self._combined("shift_left", self, other, bounds)
        return super().__lshift__(other if isinstance(other, Bounded) else int(other))

    def __rshift__(self, other: Number) -> Expression:
        if bounds_of(other) == (0, 0):
            return self
        bounds = combined(lambda a, b: a >> b, self, other)
        if (build := self._rounded(other)) is not None:
            if self.form[1].form[0] == "product":
                # Of two numbers of which one at least is not the smallest one.
                bounds = max(bounds[0], INT32[0]), min(bounds[1], INT32[1])
            form = build.form if isinstance(build, _Rescale) else ("other",)
            return Expression(self.builder, build, bounds, self.shape, form)
        form = ("other",)
        match self.form:
            case ("shifted", 1, bits) if bounds_of(other) == (1, 1):
                form = "half", bits
            case _:
                pass

        def shifted() -> SSAValue:
            return self.builder.binary(
                tosa_ops.ArithmeticRightShiftOp,
                self.value,
                self._operand(other),
                round=BoolAttr.from_bool(False),
            )

        return Expression(self.builder, shifted, bounds, self.shape, form)

    def _rounded(self, bits: Number) -> Callable[[], SSAValue] | None:
        """What builds a number plus half a unit, shifted; `None` for other numbers."""
        match self.form:
            case ("plus", Expression(form=("product", lhs, rhs)), half) if (
                isinstance(half, int) and half == 1 << (int(bits) - 1)  # pyright: ignore[reportArgumentType] a number as half is
            ):
                rescale = None
                if not isinstance(rhs, Expression) and int(bits) == 31:  # pyright: ignore[reportArgumentType] a number as half is
                    rescale = _Rescale.of(self.builder, lhs, int(rhs))
                if rescale is not None and rescale.is_valid:
                    return rescale
                return lambda: self.product(lhs, rhs, int(bits))  # pyright: ignore[reportArgumentType] a number as half is
            case ("plus_away", Expression(form=("rescaled", x, value, 31)), _) if (
                not isinstance(bits, Bounded)
            ):
                return _Rescale(self.builder, x, value, 31 + int(bits))
            case (
                "plus" | "plus_away",
                Expression() as x,
                Expression(form=("half", unit)),
            ) if unit is bits:
                if x.bounds[0] >= 0:
                    return lambda: _rounded_up(x, unit).value
                return lambda: _divided_by_power(x, unit).value
            case ("plus" | "plus_away", Expression(form=("plus", a, b)), 1) if (
                not isinstance(bits, Bounded)
                and int(bits) == 1
                and not _fits(self.bounds)
            ):
                return lambda: _mean(a, b, self.form[0] == "plus_away").value
            case ("plus" | "plus_away", Expression() as x, half) if (
                not isinstance(half, Bounded)
                and not isinstance(bits, Bounded)
                and int(half) == 1 << (int(bits) - 1)
                and not _fits(self.bounds)
            ):
                return lambda: _divided(x, int(bits), self.form[0] == "plus_away").value
            case _:
                return None

    def bits(self, mask: Expression) -> Expression:
        """The bits that a mask has."""
        return self._binary(tosa_ops.BitwiseAndOp, self, mask, mask.bounds)

    # Comparison

    def _compared(
        self,
        op_type: type[Operation],
        lhs: Number,
        rhs: Number,
        negative: Expression | None = None,
    ) -> Condition:
        shape = _shape(lhs, rhs)
        builder = self.builder

        def build() -> SSAValue:
            values = self._exact(lhs), self._exact(rhs)
            operands = [builder.with_rank(value, len(shape)) for value in values]
            return builder.tosa(op_type, operands, shape, i1)

        return Condition(builder, build, shape, negative)

    def __lt__(self, other: Number) -> Condition | bool:
        if bounds_of(other) != (0, 0):
            return self._compared(tosa_ops.GreaterOp, other, self)
        if self.bounds[0] >= 0:
            return False
        return self._compared(tosa_ops.GreaterOp, other, self, self)

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

    def clipped(self, low: SupportsIndex, high: SupportsIndex) -> Expression:
        """A number limited to a range."""
        match self.form:
            case ("shifted", Expression() as x, left) if not _fits(
                self.bounds
            ) and INT32 == (int(low), int(high)):
                return self._saturated(x, left)
            case _:
                result = self.maximum(low).minimum(high)
        if result is self:
            result = Expression(self.builder, lambda: self.low, self.bounds, self.shape)
        result.form = "clipped", self, int(low), int(high)
        return result

    def _saturated(self, x: Expression, left: Expression | SupportsIndex) -> Expression:
        """This number, which is `x << left`, limited to 32 bits."""
        low, high = INT32

        def limit(bound: int) -> Number:
            if not isinstance(left, Expression):
                return bound >> int(left)
            whole = np.full((1,) * self.ndim, bound)
            number = Expression(
                self.builder,
                lambda: self.builder.array(whole, i32),
                (bound, bound),
                whole.shape,
            )
            return number >> left

        inside = Expression(self.builder, lambda: self.low, INT32, self.shape)
        result = inside
        if self.bounds[1] > high:
            result = _where(x > limit(high), high, result)
        if self.bounds[0] < low:
            result = _where(x >= limit(low), result, low)
        bounds = max(self.bounds[0], low), min(self.bounds[1], high)
        return Expression(self.builder, lambda: result.low, bounds, self.shape)

    def absolute(self) -> Expression:
        """The absolute value."""
        low, high = self.bounds

        def build() -> SSAValue:
            return self.builder.tosa(tosa_ops.AbsOp, (self.value,), self.shape, i32)

        return Expression(self.builder, build, (0, max(-low, high)), self.shape)

    def wrapped(self, bits: int) -> Expression:
        """The lowest bits as a signed number."""
        bounds = signed_bounds(bits)
        if are_within(self.bounds, bounds):
            return self
        if bits == 32:
            return Expression(
                self.builder, lambda: self.low, bounds, self.shape, self.form
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

        return Expression(self.builder, build, (low, high), self.shape, ("zeros", self))

    def entries_of(self, table: NDArray[Any]) -> Expression:
        """The entries of a table at indices that are within it."""
        count = int(np.prod(self.shape, dtype=np.int64))

        def build() -> SSAValue:
            builder = self.builder
            entries = builder.array(table.reshape(1, -1, 1), i32)
            indices = builder.with_shape(self.value, (1, count))
            found = builder.tosa(
                tosa_ops.GatherOp, (entries, indices), (1, count, 1), i32
            )
            return builder.with_shape(found, self.shape)

        bounds = int(table.min()), int(table.max())
        return Expression(self.builder, build, bounds, self.shape)

    def max(self, axis: int, keepdims: bool) -> Expression:
        """The largest number along a dimension."""
        form = "largest", self
        return self._reduced(tosa.ReduceMaxOp, axis, self.bounds, form)

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
        form: tuple[Any, ...] = ("other",),
    ) -> Expression:
        axis %= self.ndim
        shape = [*self.shape]
        shape[axis] = 1

        def build() -> SSAValue:
            return self.builder.reduced(op_type, self.value, axis)

        return Expression(self.builder, build, bounds, shape, form)

    # Results

    def stored_as(self, element_type: Attribute) -> SSAValue:
        """The value with the type of stored values, which its bounds fit."""
        if element_type == i32:
            return self.value
        match self.form:
            case ("clipped", Expression(form=("rescaled", x, value, shift)), low, high):
                result = _Rescale(self.builder, x, value, shift)(element_type, 0)
                return self.builder.bounded(result, low, high)
            case (
                "clipped",
                Expression(
                    form=("plus", Expression(form=("rescaled", x, value, shift)), zp)
                ),
                low,
                high,
            ) if element_type == i8:
                result = _Rescale(self.builder, x, value, shift)(element_type, int(zp))
                return self.builder.bounded(result, low, high)
            case _:
                return self.builder.tosa(
                    tosa_ops.CastOp, (self.value,), self.shape, element_type
                )


class _Rescale:
    """Builds a product with a multiplier that is shifted, rounded after each shift."""

    def __init__(self, builder: TosaBuilder, x: Expression, value: int, shift: int):
        self.builder = builder
        self.x = x
        self.value = value
        self.shift = shift

    @staticmethod
    def of(builder: TosaBuilder, x: Expression, value: int) -> _Rescale:
        """The upper half of a product with a multiplier."""
        match x.form:
            case ("shifted", source, int(left)):
                return _Rescale(builder, source, value, 31 - left)
            case _:
                return _Rescale(builder, x, value, 31)

    @property
    def is_valid(self) -> bool:
        """Whether TOSA defines it."""
        limit = 1 << (self.shift - 1) if self.shift > 1 else 0
        low, high = self.x.bounds
        return self.value >= 0 and -limit <= low and high < limit

    @property
    def form(self) -> tuple[Any, ...]:
        return "rescaled", self.x, self.value, self.shift

    def __call__(self, element_type: Attribute = i32, output_zp: int = 0) -> SSAValue:
        multiplier = Multiplier(self.value, 31 - self.shift)
        value, zero_point = None, 0
        match self.x.form:
            case ("stored", stored, zero_point) if (
                not zero_point or element_type_of(stored) == i8
            ):
                value = stored
            case _:
                zero_point = 0
        return self.builder.rescaled(
            self.x.value if value is None else value,
            multiplier,
            element_type,
            zero_point,
            output_zp,
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
    if is_away and isinstance(negative := x < 0, Condition):
        threshold = negative.number + threshold
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
    negative = x < 0
    assert isinstance(negative, Condition)
    threshold = (mask >> 1) + negative.number
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

_FORMS: Mapping[IntegerOperation, str] = {
    "add": "plus",
    "multiply": "product",
    "shift_left": "shifted",
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
