"""
Formulas of numbers as ops of the arith and math dialects.

A formula that is written for NumPy arrays, with operators and some NumPy functions,
builds ops if it is given an expression of this module in the place of an array: so what
numerics computes and what a lowering builds is written once.

The integers of a formula are unbounded. Each expression knows the bounds of its value, and
is computed with 32 bits if these are enough, with 64 bits otherwise. Only what may be any
integer of 64 bits wraps around.

Example:

```python
from xdsl.builder import InsertPoint
from xdsl.dialects.builtin import UnknownLoc, i8
from xdsl.ir import Block

from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.number_expressions import IntegerExpression

block = Block(arg_types=[i8])
builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
x = IntegerExpression(builder, block.args[0], (-128, 127))
print((x - 3 << 20).bounds)
```

prints `(-137363456, 130023424)`.
"""

from __future__ import annotations

import math as python_math
import operator
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeAlias, cast

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, i32, i64
from xdsl.ir import Operation, SSAValue

from xdsl_quant.unsupported import Unsupported
from xdsl_quant.xdsl_patches.arith import RemFOp

from .bounded_integers import (
    ArrayLike,
    Bounded,
    BoundedInteger,
    Bounds,
    IntegerOperation,
    Number,
    are_within,
    bounds_of,
    signed_bounds,
    union,
)
from .builder import INDEX, LoweringBuilder

Real: TypeAlias = "FloatExpression | float"
"""An operand of a function of floats, which all have one type."""


NO_FORM = "has no conversion to linalg for these element types"

ANY_INTEGER = signed_bounds(64)
"""The bounds of integers of which nothing is known, and whose arithmetic wraps around."""


def type_for(*bounds: Bounds) -> IntegerType:
    """
    The type that numbers of these bounds are computed with.

    Raises:
        Unsupported: if it needs more than 64 bits.
    """
    whole = union(*bounds)
    for type_ in (i32, i64):
        if are_within(whole, signed_bounds(type_.bitwidth)):
            return type_
    low, high = whole
    raise Unsupported(f"has numbers from {low} to {high}, which need more than 64 bits")


class _Expression(ArrayLike, ABC):
    @classmethod
    def functions(cls) -> Mapping[Any, Callable[..., Any]]:
        return _FUNCTIONS


@dataclass(eq=False)
class Condition(_Expression, Bounded):
    """A truth value that is known at run time."""

    builder: LoweringBuilder
    value: SSAValue
    bounds: Bounds = (0, 1)

    def _logical(self, op_type: type[Operation], other: Condition | bool) -> Condition:
        builder, type_ = self.builder, self.value.type
        known = not isinstance(other, Condition)
        operand = builder.number(int(other), type_) if known else other.value
        return Condition(builder, builder.op(op_type, (self.value, operand), type_))

    def __and__(self, other: Condition | bool) -> Condition | int:
        if not isinstance(other, Condition):
            return self if other else 0
        return self._logical(arith.AndIOp, other)

    __rand__ = __and__

    def __or__(self, other: Condition | bool) -> Condition:
        return self._logical(arith.OrIOp, other)

    __ror__ = __or__

    def __invert__(self) -> Condition:
        return self._logical(arith.XOrIOp, True)

    def __eq__(self, other: Condition | bool) -> Condition:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return ~self._logical(arith.XOrIOp, other)

    def __ne__(self, other: Condition | bool) -> Condition:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return self._logical(arith.XOrIOp, other)

    @property
    def number(self) -> IntegerExpression:
        """0 or 1."""
        value = self.builder.op(arith.ExtUIOp, (self.value,), i32)
        return IntegerExpression(self.builder, value, (0, 1))

    def __add__(self, other: Number) -> IntegerExpression:
        return self.number + other

    __radd__ = __add__

    def __sub__(self, other: Number) -> IntegerExpression:
        return self.number - other

    def __rsub__(self, other: Number) -> IntegerExpression:
        return other - self.number

    def as_float(self, type_: AnyFloat) -> FloatExpression:
        """0 or 1 as a float."""
        return self.number.as_float(type_)


@dataclass(eq=False)
class IntegerExpression(_Expression, BoundedInteger):
    """An integer that is known at run time."""

    builder: LoweringBuilder
    value: SSAValue
    """Of any integer type, which is taken as signed."""

    bounds: Bounds
    """What the value is within, whatever its type could hold."""

    def as_type(self, type_: IntegerType) -> SSAValue:
        """The value with another number of bits, which its bounds must fit."""
        own_type = cast(IntegerType, self.value.type)
        if own_type == type_:
            return self.value
        is_wider = own_type.bitwidth < type_.bitwidth
        op_type = arith.ExtSIOp if is_wider else arith.TruncIOp
        return self.builder.op(op_type, (self.value,), type_)

    def as_index(self) -> SSAValue:
        """The value as an index."""
        return self.builder.op(arith.IndexCastOp, (self.value,), INDEX)

    def as_float(self, type_: AnyFloat) -> FloatExpression:
        """The nearest float."""
        value = self.builder.op(arith.SIToFPOp, (self.value,), type_)
        low, high = map(float, self.bounds)
        bounds = _float_bounds(low, high)
        return FloatExpression(self.builder, value, bounds, may_be_nan=False)

    def _operand(self, number: Number, type_: IntegerType) -> SSAValue:
        if isinstance(number, Condition):
            number = number.number
        if isinstance(number, IntegerExpression):
            return number.as_type(type_)
        return self.builder.number(int(cast(SupportsIndex, number)), type_)

    def _built(
        self, op_type: type[Operation], lhs: Number, rhs: Number, bounds: Bounds
    ) -> IntegerExpression:
        """An op whose operands and result have one type."""
        if ANY_INTEGER in (bounds_of(lhs), bounds_of(rhs)):
            bounds = ANY_INTEGER
        type_ = type_for(bounds, bounds_of(lhs), bounds_of(rhs))
        operands = self._operand(lhs, type_), self._operand(rhs, type_)
        value = self.builder.op(op_type, operands, type_)
        return IntegerExpression(self.builder, value, bounds)

    def bits_as_float(self, type_: AnyFloat) -> FloatExpression:
        """The float that has these bits, which are as many as that has."""
        bits = self.as_type(IntegerType(type_.bitwidth))
        return FloatExpression(
            self.builder, self.builder.op(arith.BitcastOp, (bits,), type_)
        )

    # Operators

    def _combined(
        self, operation: IntegerOperation, lhs: Number, rhs: Number, bounds: Bounds
    ) -> IntegerExpression:
        return self._built(_OPERATIONS[operation], lhs, rhs, bounds)

    def __floordiv__(self, other: Number) -> IntegerExpression:
        """
        The quotient, rounded down.

        Raises:
            ValueError: if the divisor may be 0.
        """
        low, high = divisor = bounds_of(other)
        if divisor == (1, 1):
            return self
        if low <= 0 <= high:
            raise ValueError("an integer may be divided by 0")
        quotients = [a // b for a in self.bounds for b in divisor]
        bounds = min(quotients), max(quotients)
        is_positive = self.bounds[0] >= 0 and low > 0
        op_type = arith.DivSIOp if is_positive else arith.FloorDivSIOp
        return self._built(op_type, self, other, bounds)

    def __rfloordiv__(self, other: int) -> IntegerExpression:
        return IntegerExpression(
            self.builder, self.builder.number(other, i32), (other, other)
        ).__floordiv__(self)

    def __mod__(self, other: Number) -> IntegerExpression:
        """The rest of a division that rounds down."""
        return self - (self // other) * other

    def remainder(self, divisor: Number) -> IntegerExpression:
        """
        The rest of a division that rounds towards zero.

        Raises:
            ValueError: if the divisor may be 0.
        """
        low, high = bounds_of(divisor)
        if low <= 0 <= high:
            raise ValueError("an integer may be divided by 0")
        largest = max(-low, high) - 1
        bounds = max(self.bounds[0], -largest), min(self.bounds[1], largest)
        return self._built(
            arith.RemSIOp, self, divisor, (min(bounds[0], 0), max(bounds[1], 0))
        )

    # Comparison

    def _compared(self, predicate: str, other: Number) -> Condition:
        type_ = type_for(self.bounds, bounds_of(other))
        operands = self.as_type(type_), self._operand(other, type_)
        return Condition(
            self.builder, self.builder.add(arith.CmpiOp(*operands, predicate))
        )

    def __lt__(self, other: Number) -> Condition:
        return self._compared("slt", other)

    def __le__(self, other: Number) -> Condition:
        return self._compared("sle", other)

    def __gt__(self, other: Number) -> Condition:
        return self._compared("sgt", other)

    def __ge__(self, other: Number) -> Condition:
        return self._compared("sge", other)

    def __eq__(self, other: Number) -> Condition:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return self._compared("eq", other)

    def __ne__(self, other: Number) -> Condition:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return self._compared("ne", other)

    # Functions

    def primitive(self, name: str) -> Callable[..., Any] | None:
        """The form of a primitive for one integer; `None` to trace its definition."""
        return _INTEGER_PRIMITIVES.get(name)

    def absolute(self) -> IntegerExpression:
        """The absolute value."""
        low, high = self.bounds
        if low >= 0:
            return self
        value = (-self).maximum(self).value
        return IntegerExpression(self.builder, value, (0, max(-low, high)))

    def sign(self) -> IntegerExpression:
        """-1, 0 or 1."""
        return (self > 0) - (self < 0).number

    def wrapped(self, bits: int = 32) -> IntegerExpression:
        """The lowest bits, at most those of the value, as a signed number."""
        bounds = signed_bounds(bits)
        if are_within(self.bounds, bounds):
            return self
        value = self.as_type(IntegerType(bits))
        return IntegerExpression(self.builder, value, bounds)

    def leading_zeros(self) -> IntegerExpression:
        """The zeros before the first one of the 32 bits of a number from 0."""
        value = self.builder.op(math.CountLeadingZerosOp, (self.as_type(i32),), i32)
        return IntegerExpression(self.builder, value, (0, 32))


_INTEGER_PRIMITIVES: Mapping[str, Callable[..., Any]] = {
    "wrapped": IntegerExpression.wrapped,
    "leading_zeros": IntegerExpression.leading_zeros,
}


# Floats

FloatBounds: TypeAlias = tuple[float, float]

_UNBOUNDED: FloatBounds = (-python_math.inf, python_math.inf)


_SLACK = 2.0**-7
"""How far rounding may go beyond a bound, relatively: that of `bf16`."""


def _float_bounds(*values: float) -> FloatBounds:
    """
    The bounds of these values after rounding; all numbers if one of them is NaN or all of
    them are one infinity.
    """
    low, high = min(values), max(values)
    is_one_infinity = low == high and python_math.isinf(low)
    if is_one_infinity or any(map(python_math.isnan, values)):
        return _UNBOUNDED
    return low - _SLACK * abs(low), high + _SLACK * abs(high)


@dataclass(eq=False)
class FloatExpression(_Expression):
    """A float that is known at run time. Operands have one type."""

    builder: LoweringBuilder
    value: SSAValue
    bounds: FloatBounds = _UNBOUNDED
    """What the value is within if it is not NaN."""

    may_be_nan: bool = True

    @property
    def type(self) -> AnyFloat:
        """The type of the value."""
        return cast(AnyFloat, self.value.type)

    def as_float(self, type_: AnyFloat) -> FloatExpression:
        """The value, rounded to another type."""
        if type_ == self.type:
            return self
        is_wider = self.type.bitwidth < type_.bitwidth
        op_type = arith.ExtFOp if is_wider else arith.TruncFOp
        value = self.builder.op(op_type, (self.value,), type_)
        bounds = self.bounds if is_wider else _float_bounds(*self.bounds)
        return FloatExpression(self.builder, value, bounds, self.may_be_nan)

    def as_integer(self) -> IntegerExpression:
        """
        The value without its fraction. What is out of the range of 64 bits is its end, NaN
        the smaller one.
        """
        if self.type.bitwidth < 32:
            return self.as_float(f32).as_integer()
        low, high = self.bounds
        value = self
        is_bounded = -(2.0**63) <= low and high < 2.0**63
        if not is_bounded:
            low, high = -(2.0**63), 2.0**63 - (2.0**39 if self.type == f32 else 2.0**10)
            value = value.number_maximum(low).number_minimum(high)
        elif self.may_be_nan:
            value = value.number_maximum(low)
        ends = python_math.trunc(low), python_math.trunc(high)
        bounds = ends if is_bounded else ANY_INTEGER
        type_ = type_for(bounds)
        integer = self.builder.op(arith.FPToSIOp, (value.value,), type_)
        return IntegerExpression(self.builder, integer, bounds)

    def bits(self) -> IntegerExpression:
        """The bits of the value as a signed integer."""
        type_ = IntegerType(self.type.bitwidth)
        low, high = signed_bounds(type_.bitwidth)
        bounds = (0 if self.bounds[0] >= 0 else low), high
        value = self.builder.op(arith.BitcastOp, (self.value,), type_)
        return IntegerExpression(self.builder, value, bounds)

    def is_nan(self) -> Condition | bool:
        """Whether the value is NaN."""
        return self != self if self.may_be_nan else False

    def _operand(self, other: Any) -> SSAValue:
        match other:
            case FloatExpression():
                return other.value
            case IntegerExpression() | Condition():
                return other.as_float(self.type).value
            case _:
                return self.builder.number(float(other), self.type)

    def _built(
        self,
        op_type: type[Operation],
        *operands: Any,
        bounds: FloatBounds = _UNBOUNDED,
        may_be_nan: bool | None = None,
    ) -> FloatExpression:
        values = [*map(self._operand, operands)]
        value = self.builder.op(op_type, values, self.type)
        if may_be_nan is None:
            # What is infinite, or out of the domain of a function, may become NaN.
            may_be_nan = bounds == _UNBOUNDED or any(map(_may_be_nan, operands))
        return FloatExpression(self.builder, value, bounds, may_be_nan)

    def _arithmetic(
        self,
        op_type: type[Operation],
        function: Callable[[float, float], float],
        lhs: Real,
        rhs: Real,
    ) -> FloatExpression:
        with np.errstate(all="ignore"):
            ends = [
                float(function(np.float64(a), np.float64(b)))
                for a in _ends(lhs)
                for b in _ends(rhs)
            ]
        return self._built(op_type, lhs, rhs, bounds=_float_bounds(*ends))

    def __add__(self, other: Real) -> FloatExpression:
        return self._arithmetic(arith.AddfOp, operator.add, self, other)

    def __radd__(self, other: Real) -> FloatExpression:
        return self._arithmetic(arith.AddfOp, operator.add, other, self)

    def __sub__(self, other: Real) -> FloatExpression:
        return self._arithmetic(arith.SubfOp, operator.sub, self, other)

    def __rsub__(self, other: Real) -> FloatExpression:
        return self._arithmetic(arith.SubfOp, operator.sub, other, self)

    def __mul__(self, other: Real) -> FloatExpression:
        return self._arithmetic(arith.MulfOp, operator.mul, self, other)

    def __rmul__(self, other: Real) -> FloatExpression:
        return self._arithmetic(arith.MulfOp, operator.mul, other, self)

    def __truediv__(self, other: Real) -> FloatExpression:
        return self._built(arith.DivfOp, self, other)

    def __rtruediv__(self, other: Real) -> FloatExpression:
        return self._built(arith.DivfOp, other, self)

    def __neg__(self) -> FloatExpression:
        low, high = self.bounds
        return self._built(arith.NegfOp, self, bounds=(-high, -low))

    # Comparison

    def _compared(self, predicate: str, other: Real) -> Condition:
        operands = self.value, self._operand(other)
        return Condition(
            self.builder, self.builder.add(arith.CmpfOp(*operands, predicate))
        )

    def __lt__(self, other: Real) -> Condition:
        return self._compared("olt", other)

    def __le__(self, other: Real) -> Condition:
        return self._compared("ole", other)

    def __gt__(self, other: Real) -> Condition:
        return self._compared("ogt", other)

    def __ge__(self, other: Real) -> Condition:
        return self._compared("oge", other)

    def __eq__(self, other: Real) -> Condition:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return self._compared("oeq", other)

    def __ne__(self, other: Real) -> Condition:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return self._compared("une", other)

    # Functions

    def primitive(self, name: str) -> Callable[..., Any] | None:
        """The form of a primitive for one float; `None` to trace its definition."""
        return FloatExpression.erfc if name == "erfc" else None

    def minimum(self, other: Real) -> FloatExpression:
        """The smaller one of two numbers; if one is NaN, NaN."""
        bounds = _smaller(_ends(self), _ends(other))
        return self._built(arith.MinimumfOp, self, other, bounds=bounds)

    def maximum(self, other: Real) -> FloatExpression:
        """The larger one of two numbers; if one is NaN, NaN."""
        bounds = _larger(_ends(self), _ends(other))
        return self._built(arith.MaximumfOp, self, other, bounds=bounds)

    def number_minimum(self, other: Real) -> FloatExpression:
        """The smaller one of two numbers; if one is NaN, the other one."""
        is_nan = self.may_be_nan and _may_be_nan(other)
        bounds = _smaller(_ends(self), _ends(other))
        return self._built(
            arith.MinnumfOp, self, other, bounds=bounds, may_be_nan=is_nan
        )

    def number_maximum(self, other: Real) -> FloatExpression:
        """The larger one of two numbers; if one is NaN, the other one."""
        is_nan = self.may_be_nan and _may_be_nan(other)
        bounds = _larger(_ends(self), _ends(other))
        return self._built(
            arith.MaxnumfOp, self, other, bounds=bounds, may_be_nan=is_nan
        )

    def absolute(self) -> FloatExpression:
        """The absolute value."""
        low, high = self.bounds
        return self._built(math.AbsFOp, self, bounds=(0, max(-low, high)))

    def sign(self) -> FloatExpression:
        """-1, 0 or 1."""
        return ((self > 0) - (self < 0).number).as_float(self.type)

    def copysign(self, sign: Real) -> FloatExpression:
        """The value with the sign of another one."""
        largest = max(map(abs, self.bounds))
        bounds = -largest, largest
        return self._built(math.CopySignOp, self, sign, bounds=bounds)

    def erfc(self) -> FloatExpression:
        """The complementary error function."""
        return 1 - self._built(math.ErfOp, self, bounds=(-1, 1))

    def sign_bit(self) -> Condition:
        """Whether the value has a sign."""
        return self._built(math.CopySignOp, 1.0, self) < 0

    def power(self, exponent: Real) -> FloatExpression:
        """The value to the power of another one."""
        return self._built(math.PowFOp, self, exponent)

    def remainder(self, divisor: Real) -> FloatExpression:
        """The rest of a division that rounds down."""
        rest = self._built(RemFOp, self, divisor)
        has_other_sign = (rest * divisor) < 0
        return _where(has_other_sign, rest + divisor, rest)

    def rounded(self, op_type: type[Operation]) -> FloatExpression:
        """The value as an integer, by an op that rounds."""
        low, high = self.bounds
        # Infinity is itself.
        return self._built(op_type, self, bounds=(low - 1, high + 1))


def _smaller(a: FloatBounds, b: FloatBounds) -> FloatBounds:
    return min(a[0], b[0]), min(a[1], b[1])


def _larger(a: FloatBounds, b: FloatBounds) -> FloatBounds:
    return max(a[0], b[0]), max(a[1], b[1])


def _may_be_nan(number: Any) -> bool:
    if isinstance(number, FloatExpression):
        return number.may_be_nan
    return isinstance(number, float) and python_math.isnan(number)


def _ends(number: Any) -> FloatBounds:
    if isinstance(number, FloatExpression):
        return number.bounds
    if isinstance(number, IntegerExpression | Condition):
        low, high = bounds_of(number)
        return float(low), float(high)
    return float(number), float(number)


_OPERATIONS: Mapping[IntegerOperation, type[Operation]] = {
    "add": arith.AddiOp,
    "and": arith.AndIOp,
    "maximum": arith.MaxSIOp,
    "minimum": arith.MinSIOp,
    "multiply": arith.MuliOp,
    "shift_left": arith.ShLIOp,
    "shift_right": arith.ShRSIOp,
    "subtract": arith.SubiOp,
}


# NumPy's functions


def _with_expression_first(method: str) -> Callable[[Any, Any], Any]:
    """A function that does not depend on the order of its operands."""

    def function(a: Any, b: Any) -> Any:
        if isinstance(b, FloatExpression) or not isinstance(a, _Expression):
            a, b = b, a
        if isinstance(a, Condition):
            a = a.number
        return getattr(a, method)(b)

    return function


def _clip(x: Any, low: Any, high: Any) -> Any:
    return x.maximum(low).minimum(high)


def _where(condition: Condition | bool, a: Any, b: Any) -> Any:
    if not isinstance(condition, Condition):
        return a if condition else b
    builder = condition.builder
    some = next((x for x in (a, b) if isinstance(x, FloatExpression)), None)
    if some is not None:
        operands = [some._operand(x) for x in (a, b)]  # pyright: ignore[reportPrivateUsage] in its module
        value = builder.add(arith.SelectOp(condition.value, *operands))
        bounds = union(_ends(a), _ends(b))
        is_nan = any(map(_may_be_nan, (a, b)))
        return FloatExpression(builder, value, bounds, is_nan)
    if all(isinstance(x, Condition | bool) for x in (a, b)):
        operands = [
            x.value
            if isinstance(x, Condition)
            else builder.number(int(x), condition.value.type)
            for x in (a, b)
        ]
        return Condition(
            builder, builder.add(arith.SelectOp(condition.value, *operands))
        )
    if any(isinstance(x, float) for x in (a, b)):
        raise ValueError("a choice between floats that have no type")
    bounds = union(bounds_of(a), bounds_of(b))
    number = IntegerExpression(builder, condition.value, bounds)
    type_ = type_for(bounds)
    operands = [number._operand(x, type_) for x in (a, b)]  # pyright: ignore[reportPrivateUsage] in its module
    value = builder.add(arith.SelectOp(condition.value, *operands))
    return IntegerExpression(builder, value, bounds)


def _function_of_floats(
    op_type: type[Operation], *bounds: float
) -> Callable[[FloatExpression], FloatExpression]:
    limits = cast(FloatBounds, bounds) or _UNBOUNDED
    return lambda x: _float(x)._built(op_type, x, bounds=limits)  # pyright: ignore[reportPrivateUsage] in its module


def _rounded(op_type: type[Operation]) -> Callable[[FloatExpression], FloatExpression]:
    return lambda x: _float(x).rounded(op_type)


def _float(x: object) -> FloatExpression:
    if not isinstance(x, FloatExpression):
        raise Unsupported(NO_FORM)
    return x


def _power(x: object, exponent: Any) -> FloatExpression:
    return _float(x).power(exponent)


def _of_either(
    reals: Callable[..., Any], integers: Callable[..., Any]
) -> Callable[..., Any]:
    """A function that has one form for floats and another one for integers."""

    def function(*args: Any) -> Any:
        is_float = any(isinstance(x, FloatExpression | float) for x in args)
        return (reals if is_float else integers)(*args)

    return function


def _absolute(x: Any) -> Any:
    return x.absolute()


def _sign(x: Any) -> Any:
    return x.sign()


# What the annotations of these functions say is not about expressions.
_operator = cast(Any, operator)

_FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    np.add: _operator.add,
    np.subtract: _operator.sub,
    np.multiply: _operator.mul,
    np.divide: _operator.truediv,
    np.negative: _operator.neg,
    np.floor_divide: _operator.floordiv,
    np.remainder: _of_either(FloatExpression.remainder, _operator.mod),
    np.fmod: IntegerExpression.remainder,
    np.left_shift: _operator.lshift,
    np.right_shift: _operator.rshift,
    np.bitwise_and: _operator.and_,
    np.bitwise_or: _operator.or_,
    np.invert: _operator.invert,
    np.logical_and: _operator.and_,
    np.logical_or: _operator.or_,
    np.logical_not: _operator.invert,
    np.equal: _operator.eq,
    np.not_equal: _operator.ne,
    np.less: _operator.lt,
    np.less_equal: _operator.le,
    np.greater: _operator.gt,
    np.greater_equal: _operator.ge,
    np.minimum: _with_expression_first("minimum"),
    np.maximum: _with_expression_first("maximum"),
    np.fmin: _with_expression_first("number_minimum"),
    np.fmax: _with_expression_first("number_maximum"),
    np.absolute: _absolute,
    np.sign: _sign,
    np.copysign: FloatExpression.copysign,
    np.isnan: FloatExpression.is_nan,
    np.signbit: FloatExpression.sign_bit,
    np.power: _power,
    np.floor: _rounded(math.FloorOp),
    np.ceil: _rounded(math.CeilOp),
    np.rint: _rounded(math.RoundEvenOp),
    np.trunc: _rounded(math.TruncOp),
    np.sqrt: _function_of_floats(math.SqrtOp),
    np.exp: _function_of_floats(math.ExpOp, 0, python_math.inf),
    np.expm1: _function_of_floats(math.ExpM1Op, -1, python_math.inf),
    np.log: _function_of_floats(math.LogOp),
    np.tanh: _function_of_floats(math.TanhOp, -1, 1),
    np.sin: _function_of_floats(math.SinOp, -1, 1),
    np.cos: _function_of_floats(math.CosOp, -1, 1),
    np.clip: _clip,
    np.where: _where,
}
