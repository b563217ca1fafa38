"""
Expressions: integers, floats and truth values in the place of NumPy arrays.

A formula that is written for arrays, with operators, NumPy functions and
[primitives][xdsl_quant.numerics.primitives], builds ops if it is given expressions. The
bounds of results, and which results need no op, are here; a machine has a subclass of each
class, which builds the ops.

The integers of a formula are unbounded. Only integers of which nothing is known, with the
bounds `ANY_INTEGER`, wrap around.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    Self,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    cast,
)

import numpy as np
from xdsl.dialects.builtin import AnyFloat

from xdsl_quant.unsupported import Unsupported

Bounds: TypeAlias = tuple[int, int]
"""The smallest and the largest value."""

FloatBounds: TypeAlias = tuple[float, float]

Number: TypeAlias = "Integer | Truth | SupportsIndex"
"""An operand: an expression, a truth value as 0 or 1, or a number that is known."""

RealNumber: TypeAlias = "Real | Integer | Truth | float"
"""An operand of a function of floats."""

IntegerOperation: TypeAlias = Literal[
    "add",
    "and",
    "divide",
    "floor_divide",
    "maximum",
    "minimum",
    "multiply",
    "remainder",
    "shift_left",
    "shift_right",
    "subtract",
]
"""A machine's ops on two integers; `divide` is for integers that are not negative."""

Direction: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]

NO_FORM = "has no conversion to linalg for these element types"


# Bounds


def signed_bounds(bits: int) -> Bounds:
    """Return the bounds of signed integers with this number of bits."""
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


ANY_INTEGER = signed_bounds(64)
"""The bounds of integers of which nothing is known, and whose arithmetic wraps around."""

UNBOUNDED: FloatBounds = (-math.inf, math.inf)

_SLACK = 2.0**-7
"""How far rounding may go beyond a bound, relatively: that of `bf16`."""


def are_within(bounds: Bounds, limits: Bounds) -> bool:
    """Return whether all numbers of some bounds are within other ones."""
    return limits[0] <= bounds[0] and bounds[1] <= limits[1]


def union(*bounds: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the bounds of numbers that are within any of these."""
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def bounds_of(number: Number) -> Bounds:
    """Return the bounds of an operand."""
    if isinstance(number, Integer | Truth):
        return number.bounds
    if isinstance(number, float):
        raise TypeError(f"an integer expression takes no float, found {number}")
    return int(number), int(number)


def combined(function: Callable[[int, int], int], a: Number, b: Number) -> Bounds:
    """Return the bounds of a function that is monotonic in each of its operands."""
    ends = [function(x, y) for x in bounds_of(a) for y in bounds_of(b)]
    return min(ends), max(ends)


def widened_bounds(*values: float) -> FloatBounds:
    """
    Return the bounds of these values after rounding; all numbers if one of them is NaN or
    all of them are one infinity.
    """
    low, high = min(values), max(values)
    is_one_infinity = low == high and math.isinf(low)
    if is_one_infinity or any(map(math.isnan, values)):
        return UNBOUNDED
    return low - _SLACK * abs(low), high + _SLACK * abs(high)


def float_bounds_of(number: RealNumber) -> FloatBounds:
    """Return the bounds of an operand of a function of floats."""
    if isinstance(number, Real):
        return number.bounds
    if isinstance(number, Integer | Truth):
        low, high = number.bounds
        return float(low), float(high)
    return float(number), float(number)


def may_be_nan(number: RealNumber) -> bool:
    """Return whether an operand may be NaN."""
    if isinstance(number, Real):
        return number.may_be_nan
    return isinstance(number, float) and math.isnan(number)


# Expressions


class Expression(ABC):
    """A value that a machine computes later."""

    PRIMITIVES: ClassVar[Mapping[str, Callable[..., Any]]] = {}
    """The machine's own forms of primitives."""

    def primitive(self, name: str) -> Callable[..., Any] | None:
        """The machine's form of a primitive; `None` to trace its definition."""
        return self.PRIMITIVES.get(name)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> Any:
        if method != "__call__" or kwargs or ufunc not in FUNCTIONS:
            return NotImplemented
        return FUNCTIONS[ufunc](*map(_known, inputs))

    def __array_function__(
        self,
        function: Callable[..., object],
        types: Sequence[type],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> Any:
        if kwargs or function not in FUNCTIONS:
            return NotImplemented
        return FUNCTIONS[function](*map(_known, args))


def _known(value: Any) -> Any:
    """Convert a NumPy number to a Python number; return anything else unchanged."""
    if isinstance(value, np.generic | np.ndarray) and not value.ndim:
        return cast(Any, value).item()
    return cast(Any, value)


class Truth(Expression):
    """A truth value."""

    bounds: Bounds = (0, 1)

    @abstractmethod
    def _logical(
        self, operation: Literal["and", "or", "xor"], other: Self | bool
    ) -> Self:
        """Build an op on truth values."""

    @property
    @abstractmethod
    def number(self) -> Integer:
        """0 or 1."""

    @abstractmethod
    def chosen(self, a: Any, b: Any) -> Any:
        """Build the choice of one of two values."""

    def __and__(self, other: Self | bool) -> Self | int:
        if not isinstance(other, Truth):
            return self if other else 0
        return self._logical("and", other)

    __rand__ = __and__

    def __or__(self, other: Self | bool) -> Self:
        return self._logical("or", other)

    __ror__ = __or__

    def __invert__(self) -> Self:
        return self._logical("xor", True)

    def __eq__(self, other: Self | bool) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return ~self._logical("xor", other)

    def __ne__(self, other: Self | bool) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return self._logical("xor", other)

    __hash__ = object.__hash__

    def __add__(self, other: Number) -> Integer:
        return self.number + other

    __radd__ = __add__

    def __sub__(self, other: Number) -> Integer:
        return self.number - other

    def __rsub__(self, other: Number) -> Integer:
        return other - self.number

    def as_float(self, type_: AnyFloat) -> Real:
        """0 or 1 as a float."""
        return self.number.as_float(type_)


OperandT = TypeVar("OperandT", contravariant=True)


class _Ordered(Expression, Generic[OperandT]):
    """A number that can be compared."""

    @abstractmethod
    def _arithmetic(
        self,
        name: Literal["add", "multiply", "subtract"],
        lhs: Any,
        rhs: Any,
    ) -> Self:
        """Build an operator on two numbers, one of which is this one."""

    def __add__(self, other: OperandT) -> Self:
        return self._arithmetic("add", self, other)

    def __radd__(self, other: OperandT) -> Self:
        return self._arithmetic("add", other, self)

    def __sub__(self, other: OperandT) -> Self:
        return self._arithmetic("subtract", self, other)

    def __rsub__(self, other: OperandT) -> Self:
        return self._arithmetic("subtract", other, self)

    def __mul__(self, other: OperandT) -> Self:
        return self._arithmetic("multiply", self, other)

    def __rmul__(self, other: OperandT) -> Self:
        return self._arithmetic("multiply", other, self)

    @abstractmethod
    def _compared(self, direction: Direction, other: OperandT) -> Truth:
        """Build a comparison, which is false for NaN but for `ne`."""

    def __lt__(self, other: OperandT) -> Truth:
        return self._compared("lt", other)

    def __le__(self, other: OperandT) -> Truth:
        return self._compared("le", other)

    def __gt__(self, other: OperandT) -> Truth:
        return self._compared("gt", other)

    def __ge__(self, other: OperandT) -> Truth:
        return self._compared("ge", other)

    def __eq__(self, other: OperandT) -> Truth:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return self._compared("eq", other)

    def __ne__(self, other: OperandT) -> Truth:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return self._compared("ne", other)

    __hash__ = object.__hash__


_OPERATORS: Mapping[IntegerOperation, tuple[Callable[[int, int], int], int]] = {
    "add": (int.__add__, 0),
    "subtract": (int.__sub__, 0),
    "multiply": (int.__mul__, 1),
    "shift_left": (int.__lshift__, 0),
    "shift_right": (int.__rshift__, 0),
}
"""Operators, and the second operand that changes nothing."""


class Integer(_Ordered["Number"]):
    """An integer that is known at run time."""

    bounds: Bounds
    """Bounds of the value, which may be narrower than its type."""

    is_lazy: ClassVar[bool] = False
    """True if ops without uses are not built: sums of constants are merged then."""

    linear: tuple[Self, int, int] | None = None
    """An integer, 1 or -1 as its factor, and a constant that is added."""

    @abstractmethod
    def _combined(
        self, operation: IntegerOperation, lhs: Number, rhs: Number, bounds: Bounds
    ) -> Self:
        """Build an op; the bounds are those of its result."""

    @abstractmethod
    def as_float(self, type_: AnyFloat) -> Real:
        """The nearest float."""

    @abstractmethod
    def wrapped(self, bits: int = 32) -> Self:
        """The lowest bits, at most those of the value, as a signed number."""

    @abstractmethod
    def leading_zeros(self) -> Self:
        """The zeros before the first one of the 32 bits of a number from 0."""

    # Operators

    def plus(self, constant: int, factor: int = 1) -> Self | None:
        """
        The integer times 1 or -1 plus a constant, as one op if it is such a sum itself,
        and `None` otherwise.
        """
        if self.linear is None or not self.is_lazy:
            return None
        base, own_factor, own_constant = self.linear
        constant += factor * own_constant
        return base + constant if factor == own_factor else constant - base

    def _arithmetic(self, name: IntegerOperation, lhs: Number, rhs: Number) -> Self:
        if name in ("add", "multiply") and not isinstance(lhs, Expression):
            lhs, rhs = rhs, lhs
        function, neutral = _OPERATORS[name]
        if lhs is self and bounds_of(rhs) == (neutral, neutral):
            return self
        if name == "add" and self.bounds == (0, 0) and isinstance(rhs, type(self)):
            return rhs
        bounds = combined(function, lhs, rhs)
        constant = rhs if lhs is self else lhs
        if name not in ("add", "subtract") or isinstance(constant, Expression):
            return self._combined(name, lhs, rhs, bounds)
        # This integer or what it is subtracted from is known.
        factor = 1 if lhs is self else -1
        added = int(constant) * (-1 if name == "subtract" and factor == 1 else 1)
        if (merged := self.plus(added, factor)) is not None:
            return merged
        result = self._combined(name, lhs, rhs, bounds)
        result.linear = self, factor, added
        return result

    def __neg__(self) -> Self:
        return 0 - self

    def __lshift__(self, other: Number) -> Self:
        return self._arithmetic("shift_left", self, other)

    def __rlshift__(self, other: Number) -> Self:
        return self._arithmetic("shift_left", other, self)

    def __rshift__(self, other: Number) -> Self:
        return self._arithmetic("shift_right", self, other)

    def __and__(self, other: SupportsIndex) -> Self:
        """The bits that `other` has, which is not negative."""
        mask = int(other)
        low, high = self.bounds
        if low >= 0 and high <= mask and not mask & (mask + 1):
            return self
        bounds = 0, min(high, mask) if low >= 0 else mask
        return self._combined("and", self, mask, bounds)

    __rand__ = __and__

    def __floordiv__(self, other: Number) -> Self:
        """
        The quotient, rounded down.

        Raises:
            ValueError: if the divisor may be 0.
        """
        divisor = _checked_divisor(other)
        if divisor == (1, 1):
            return self
        quotients = [a // b for a in self.bounds for b in divisor]
        bounds = min(quotients), max(quotients)
        is_positive = self.bounds[0] >= 0 and divisor[0] > 0
        operation = "divide" if is_positive else "floor_divide"
        return self._combined(operation, self, other, bounds)

    def __mod__(self, other: Number) -> Self:
        """The rest of a division that rounds down."""
        return self - (self // other) * other

    def remainder(self, divisor: Number) -> Self:
        """
        The rest of a division that rounds towards zero.

        Raises:
            ValueError: if the divisor may be 0.
        """
        low, high = _checked_divisor(divisor)
        largest = max(-low, high) - 1
        bounds = (
            min(max(self.bounds[0], -largest), 0),
            max(min(self.bounds[1], largest), 0),
        )
        return self._combined("remainder", self, divisor, bounds)

    # Functions

    def minimum(self, other: Number) -> Self:
        """The smaller one of two numbers."""
        if self.bounds[1] <= bounds_of(other)[0]:
            return self
        return self._combined("minimum", self, other, combined(min, self, other))

    def maximum(self, other: Number) -> Self:
        """The larger one of two numbers."""
        if self.bounds[0] >= bounds_of(other)[1]:
            return self
        return self._combined("maximum", self, other, combined(max, self, other))

    def clipped(self, low: Number, high: Number) -> Self:
        """The number limited to a range."""
        return self.maximum(low).minimum(high)

    def absolute(self) -> Self:
        """The absolute value."""
        low, high = self.bounds
        if low >= 0:
            return self
        result = (-self).maximum(self)
        result.bounds = 0, max(-low, high)
        return result

    def sign(self) -> Self:
        """-1, 0 or 1."""
        return cast("Self", (self > 0) - (self < 0).number)


def _checked_divisor(number: Number) -> Bounds:
    low, high = bounds_of(number)
    if low <= 0 <= high:
        raise ValueError("an integer may be divided by 0")
    return low, high


class Real(_Ordered["RealNumber"]):
    """A float that is known at run time. Operands have one type."""

    bounds: FloatBounds = UNBOUNDED
    """Bounds of the value if it is not NaN."""

    may_be_nan: bool = True

    @property
    @abstractmethod
    def type(self) -> AnyFloat:
        """The type of the value."""

    @abstractmethod
    def _function(
        self,
        name: str,
        operands: Sequence[RealNumber],
        bounds: FloatBounds,
        may_be_nan: bool,
    ) -> Self:
        """Build a function of floats of this type, by the name that NumPy has for it."""

    @abstractmethod
    def as_float(self, type_: AnyFloat) -> Self:
        """The value, rounded to another type."""

    @abstractmethod
    def as_integer(self) -> Integer:
        """
        The value without its fraction. What is out of the range of 64 bits is its end, NaN
        the smaller one.
        """

    def function(
        self,
        name: str,
        *operands: RealNumber,
        bounds: FloatBounds = UNBOUNDED,
        can_be_nan: bool | None = None,
    ) -> Self:
        """A function of operands that may become NaN if its bounds are not known."""
        if can_be_nan is None:
            # What is infinite, or out of the domain of a function, may become NaN.
            can_be_nan = bounds == UNBOUNDED or any(map(may_be_nan, operands))
        return self._function(name, operands, bounds, can_be_nan)

    def is_nan(self) -> Truth | bool:
        """Whether the value is NaN."""
        return self != self if self.may_be_nan else False

    # Operators

    def _arithmetic(self, name: str, lhs: RealNumber, rhs: RealNumber) -> Self:
        compute = getattr(np, name)
        with np.errstate(all="ignore"):
            ends = [
                float(compute(np.float64(a), np.float64(b)))
                for a in float_bounds_of(lhs)
                for b in float_bounds_of(rhs)
            ]
        return self.function(name, lhs, rhs, bounds=widened_bounds(*ends))

    def __truediv__(self, other: RealNumber) -> Self:
        return self.function("divide", self, other)

    def __rtruediv__(self, other: RealNumber) -> Self:
        return self.function("divide", other, self)

    def __neg__(self) -> Self:
        low, high = self.bounds
        return self.function("negative", self, bounds=(-high, -low))

    # Functions

    def _extreme(self, name: str, other: RealNumber, can_be_nan: bool) -> Self:
        choose = max if name in ("maximum", "fmax") else min
        pairs = zip(self.bounds, float_bounds_of(other), strict=True)
        low, high = (choose(pair) for pair in pairs)
        return self.function(
            name, self, other, bounds=(low, high), can_be_nan=can_be_nan
        )

    def minimum(self, other: RealNumber) -> Self:
        """The smaller one of two numbers; if one is NaN, NaN."""
        return self._extreme("minimum", other, self.may_be_nan or may_be_nan(other))

    def maximum(self, other: RealNumber) -> Self:
        """The larger one of two numbers; if one is NaN, NaN."""
        return self._extreme("maximum", other, self.may_be_nan or may_be_nan(other))

    def number_minimum(self, other: RealNumber) -> Self:
        """The smaller one of two numbers; if one is NaN, the other one."""
        return self._extreme("fmin", other, self.may_be_nan and may_be_nan(other))

    def number_maximum(self, other: RealNumber) -> Self:
        """The larger one of two numbers; if one is NaN, the other one."""
        return self._extreme("fmax", other, self.may_be_nan and may_be_nan(other))

    def clipped(self, low: RealNumber, high: RealNumber) -> Self:
        """The number limited to a range; if it is NaN, NaN."""
        return self.maximum(low).minimum(high)

    def absolute(self) -> Self:
        """The absolute value."""
        low, high = self.bounds
        return self.function("absolute", self, bounds=(0, max(-low, high)))

    def sign(self) -> Self:
        """-1, 0 or 1; of NaN, NaN."""
        sign = ((self > 0) - (self < 0).number).as_float(self.type)
        return cast("Self", _chosen_by_truth(self.is_nan(), self, sign))

    def copysign(self, sign: RealNumber) -> Self:
        """The value with the sign of another one."""
        largest = max(map(abs, self.bounds))
        return self.function("copysign", self, sign, bounds=(-largest, largest))

    def sign_bit(self) -> Truth:
        """Whether the value has a sign."""
        return self.function("copysign", 1.0, self) < 0

    def power(self, exponent: RealNumber) -> Self:
        """The value to the power of another one."""
        return self.function("power", self, exponent)

    def remainder(self, divisor: RealNumber) -> Self:
        """The rest of a division that rounds down."""
        rest = self.function("fmod", self, divisor)
        has_other_sign = (rest * divisor) < 0
        return has_other_sign.chosen(rest + divisor, rest)

    def erfc(self) -> Self:
        """The complementary error function."""
        return 1 - self.function("erf", self, bounds=(-1, 1))

    def rounded(self, name: str) -> Self:
        """The value as an integer, by a function that rounds."""
        low, high = self.bounds
        # Infinity is itself.
        return self.function(name, self, bounds=(low - 1, high + 1))


def chosen_bounds(a: RealNumber, b: RealNumber) -> tuple[FloatBounds, bool]:
    """Return the bounds of one of two floats, and whether it may be NaN."""
    bounds = union(float_bounds_of(a), float_bounds_of(b))
    return bounds, may_be_nan(a) or may_be_nan(b)


# NumPy's functions


def _with_expression_first(method: str) -> Callable[[Any, Any], Any]:
    """A function that does not depend on the order of its operands."""

    def function(a: Any, b: Any) -> Any:
        if isinstance(b, Real) or not isinstance(a, Expression):
            a, b = b, a
        if isinstance(a, Truth):
            a = a.number
        return getattr(a, method)(b)

    return function


def _ufunc_method(name: str) -> Callable[..., Any]:
    """A function that is a method of its first operand."""

    def function(x: Any, *operands: object) -> Any:
        return getattr(x, name)(*operands)

    return function


def _chosen_by_truth(condition: Truth | bool, a: Any, b: Any) -> Any:
    if not isinstance(condition, Truth):
        return a if condition else b
    return condition.chosen(a, b)


def _float(x: object) -> Real:
    if not isinstance(x, Real):
        raise Unsupported(NO_FORM)
    return x


def _float_function(name: str, *bounds: float) -> Callable[[Real], Real]:
    limits = cast("FloatBounds", bounds) or UNBOUNDED
    return lambda x: _float(x).function(name, x, bounds=limits)


def _rounded(name: str) -> Callable[[Real], Real]:
    return lambda x: _float(x).rounded(name)


def _float_power(x: object, exponent: Any) -> Real:
    return _float(x).power(exponent)


def _remainder(x: Any, y: Any) -> Any:
    if any(isinstance(v, Real | float) for v in (x, y)):
        return Real.remainder(x, y)
    return operator.mod(x, y)


# What the annotations of these functions say is not about expressions.
_operator = cast(Any, operator)

FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    np.add: _operator.add,
    np.subtract: _operator.sub,
    np.multiply: _operator.mul,
    np.divide: _operator.truediv,
    np.negative: _operator.neg,
    np.floor_divide: _operator.floordiv,
    np.remainder: _remainder,
    np.fmod: Integer.remainder,
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
    np.absolute: _ufunc_method("absolute"),
    np.sign: _ufunc_method("sign"),
    np.copysign: Real.copysign,
    np.isnan: Real.is_nan,
    np.signbit: Real.sign_bit,
    np.power: _float_power,
    np.floor: _rounded("floor"),
    np.ceil: _rounded("ceil"),
    np.rint: _rounded("rint"),
    np.trunc: _rounded("trunc"),
    np.sqrt: _float_function("sqrt"),
    np.exp: _float_function("exp", 0, math.inf),
    np.expm1: _float_function("expm1", -1, math.inf),
    np.log: _float_function("log"),
    np.tanh: _float_function("tanh", -1, 1),
    np.sin: _float_function("sin", -1, 1),
    np.cos: _float_function("cos", -1, 1),
    np.clip: _ufunc_method("clipped"),
    np.where: _chosen_by_truth,
}
"""The form of each NumPy function on expressions."""
