"""
Expressions: integers, floats and truth values in place of NumPy arrays.

A formula written for arrays, with operators, NumPy functions and
[primitives][xdsl_quant.numerics.primitives], builds ops when called with expressions. This
module computes bounds and skips redundant ops; each machine has subclasses that build the
ops.

Integer arithmetic is exact. It wraps around only if an operand has the bounds
`ANY_INTEGER`, i.e. an unknown range.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, SupportsIndex, TypeAlias, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from xdsl.dialects.builtin import AnyFloat

from xdsl_quant.unsupported import Unsupported

Bounds: TypeAlias = tuple[int, int]
"""Smallest and largest value, inclusive."""

FloatBounds: TypeAlias = tuple[float, float]

Number: TypeAlias = "Integer | Truth | SupportsIndex"
"""Integer operand: an expression, a truth value (0 or 1), or a constant."""

RealNumber: TypeAlias = "Real | Integer | Truth | float"
"""Operand of a float function."""

Form: TypeAlias = Callable[..., Any]
"""Function on expressions that implements a NumPy function or a primitive."""

IntegerOperation: TypeAlias = Literal[
    "add",
    "and",
    "divide",
    "floor_divide",
    "left_shift",
    "maximum",
    "minimum",
    "multiply",
    "remainder",
    "right_shift",
    "subtract",
]
"""Binary integer ops that a machine builds; `divide` requires non-negative operands."""

Direction: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]

NO_FORM = "has no conversion to linalg for these element types"


# Bounds


def signed_bounds(bits: int) -> Bounds:
    """Return the bounds of signed integers of the given width."""
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


ANY_INTEGER = signed_bounds(64)
"""Bounds of integers of unknown range, whose arithmetic wraps around."""

UNBOUNDED: FloatBounds = (-math.inf, math.inf)

_SLACK = 2.0**-7
"""Relative amount by which float bounds are widened: the rounding error of `bf16`."""


def are_within(bounds: Bounds, limits: Bounds) -> bool:
    """Return True if `bounds` are within `limits`."""
    return limits[0] <= bounds[0] and bounds[1] <= limits[1]


def union(*bounds: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the smallest bounds that contain all of the given bounds."""
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def bounds_of(number: Number) -> Bounds:
    if isinstance(number, Integer | Truth):
        return number.bounds
    if isinstance(number, float):
        raise TypeError(
            f"expected an integer operand of an integer expression, found {number}"
        )
    return int(number), int(number)


def combined(function: Callable[[int, int], int], a: Number, b: Number) -> Bounds:
    """Return the bounds of `function(a, b)`, which is monotonic in each operand."""
    ends = [function(x, y) for x in bounds_of(a) for y in bounds_of(b)]
    return min(ends), max(ends)


def widened_bounds(*values: float) -> FloatBounds:
    """
    Return the minimum and maximum of the values, widened by a relative rounding error.

    The bounds are infinite if a value is NaN, or if all values are the same infinity.
    """
    low, high = min(values), max(values)
    is_one_infinity = low == high and math.isinf(low)
    if is_one_infinity or any(map(math.isnan, values)):
        return UNBOUNDED
    return low - _SLACK * abs(low), high + _SLACK * abs(high)


def float_bounds_of(number: RealNumber) -> FloatBounds:
    """Return the bounds of an operand of a float function."""
    if isinstance(number, Real):
        return number.bounds
    if isinstance(number, Integer | Truth):
        low, high = number.bounds
        return float(low), float(high)
    return float(number), float(number)


def may_be_nan(number: RealNumber) -> bool:
    """Return True if an operand may be NaN."""
    if isinstance(number, Real):
        return number.may_be_nan
    return isinstance(number, float) and math.isnan(number)


# Expressions


class Expression(NDArrayOperatorsMixin, ABC):
    """Value known only at run time; operators and NumPy functions on it build ops."""

    PRIMITIVES: ClassVar[Mapping[str, Form]] = {}
    """The machine's implementations of primitives."""

    # `==` builds an op, so hash by identity.
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType] NumPy's has none

    def primitive(self, name: str) -> Form | None:
        """Return the machine's implementation of a primitive; `None` if it has none."""
        return self.PRIMITIVES.get(name)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> Any:
        # Support `x += 1` as `x = x + 1`.
        (out,) = cast("tuple[object, ...]", kwargs.pop("out", (self,)))
        if method != "__call__" or kwargs or out is not self:
            return NotImplemented
        if ufunc not in FUNCTIONS:
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
    """Convert a NumPy scalar to a Python number; return other values unchanged."""
    if isinstance(value, np.generic | np.ndarray) and not value.ndim:
        return cast(Any, value).item()
    return cast(Any, value)


class Truth(Expression):
    """Truth value known only at run time."""

    bounds: Bounds = (0, 1)

    @abstractmethod
    def _logical(
        self, operation: Literal["and", "or", "xor"], other: Self | bool
    ) -> Self:
        """Build a logical op."""

    @property
    @abstractmethod
    def number(self) -> Integer:
        """The value as an integer, 0 or 1."""

    @abstractmethod
    def chosen(self, a: Any, b: Any) -> Any:
        """Build a selection: `a` if this value is true, else `b`."""

    def conjunction(self, other: Self | bool) -> Self | int:
        if not isinstance(other, Truth):
            return self if other else 0
        return self._logical("and", other)

    def disjunction(self, other: Self | bool) -> Self:
        return self._logical("or", other)

    def negation(self) -> Self:
        return self._logical("xor", True)

    def compared(self, direction: Direction, other: object) -> Truth:
        if direction not in ("eq", "ne"):
            return self.number.compared(direction, cast(Number, other))
        is_different = self._logical("xor", cast("Self | bool", other))
        return is_different.negation() if direction == "eq" else is_different

    def arithmetic(self, name: IntegerOperation, lhs: Number, rhs: Number) -> Integer:
        """Build an arithmetic op in which this value counts as 0 or 1."""
        number = self.number
        pair = (number, rhs) if lhs is self else (lhs, number)
        return number.arithmetic(name, *pair)

    def as_float(self, type_: AnyFloat) -> Real:
        """Return 0 or 1 as a float."""
        return self.number.as_float(type_)


_OPERATORS: Mapping[IntegerOperation, tuple[Callable[[int, int], int], int]] = {
    "add": (int.__add__, 0),
    "subtract": (int.__sub__, 0),
    "multiply": (int.__mul__, 1),
    "left_shift": (int.__lshift__, 0),
    "right_shift": (int.__rshift__, 0),
}
"""Python operator of each operation, and its neutral second operand (0 in `x + 0`)."""


class Integer(Expression):
    """Integer known only at run time."""

    bounds: Bounds
    """Bounds of the value, possibly narrower than the range of the type."""

    is_lazy: ClassVar[bool] = False
    """True if the machine omits unused ops, so `(x + 1) + 2` can become `x + 3`."""

    linear: tuple[Self, int, int] | None = None
    """`(x, factor, constant)` of a result `factor * x + constant` with factor 1 or -1."""

    @abstractmethod
    def _combined(
        self, operation: IntegerOperation, lhs: Number, rhs: Number, bounds: Bounds
    ) -> Self:
        """Build a binary op whose result is within the given bounds."""

    @abstractmethod
    def compared(self, direction: Direction, other: Number) -> Truth:
        """Build a comparison."""

    @abstractmethod
    def as_float(self, type_: AnyFloat) -> Real:
        """Convert to a float, rounding to nearest."""

    @abstractmethod
    def wrapped(self, bits: int = 32) -> Self:
        """Return the lowest `bits` bits as a signed integer."""

    @abstractmethod
    def leading_zeros(self) -> Self:
        """Count the leading zeros of a non-negative 32-bit integer."""

    # Operators

    def plus(self, constant: int, factor: int = 1) -> Self | None:
        """
        Return `factor * self + constant`, with this constant and that of `linear` merged
        into one. Return `None` if `linear` is `None`, or the machine is not lazy.
        """
        if self.linear is None or not self.is_lazy:
            return None
        base, own_factor, own_constant = self.linear
        constant += factor * own_constant
        return base + constant if factor == own_factor else constant - base

    def arithmetic(self, name: IntegerOperation, lhs: Number, rhs: Number) -> Self:
        """Build a binary op; this integer is `lhs` or `rhs`."""
        if name in ("add", "multiply") and not isinstance(lhs, Expression):
            lhs, rhs = rhs, lhs
        if name == "floor_divide":
            return self._quotient(lhs, rhs)
        if name not in _OPERATORS:
            raise Unsupported(NO_FORM)
        function, neutral = _OPERATORS[name]
        if lhs is self and bounds_of(rhs) == (neutral, neutral):
            return self
        if name == "add" and self.bounds == (0, 0) and isinstance(rhs, type(self)):
            return rhs
        bounds = combined(function, lhs, rhs)
        constant = rhs if lhs is self else lhs
        if name not in ("add", "subtract") or isinstance(constant, Expression):
            return self._combined(name, lhs, rhs, bounds)
        # One operand is constant: record the result as linear.
        factor = 1 if lhs is self else -1
        added = int(constant) * (-1 if name == "subtract" and factor == 1 else 1)
        if (merged := self.plus(added, factor)) is not None:
            return merged
        result = self._combined(name, lhs, rhs, bounds)
        result.linear = self, factor, added
        return result

    def negative(self) -> Self:
        return 0 - self

    def conjunction(self, other: SupportsIndex) -> Self:
        """Return the bitwise AND of this integer and a non-negative constant."""
        mask = int(other)
        low, high = self.bounds
        if low >= 0 and high <= mask and not mask & (mask + 1):
            return self
        bounds = 0, min(high, mask) if low >= 0 else mask
        return self._combined("and", self, mask, bounds)

    def _quotient(self, lhs: Number, rhs: Number) -> Self:
        """
        Divide, rounding down.

        Raises:
            ValueError: if the divisor may be 0.
        """
        dividend, divisor = bounds_of(lhs), _checked_divisor(rhs)
        if lhs is self and divisor == (1, 1):
            return self
        quotients = [a // b for a in dividend for b in divisor]
        is_positive = dividend[0] >= 0 and divisor[0] > 0
        operation = "divide" if is_positive else "floor_divide"
        return self._combined(operation, lhs, rhs, (min(quotients), max(quotients)))

    def remainder(self, divisor: Number) -> Self:
        """
        Return the remainder of a division that rounds toward zero.

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
        if self.bounds[1] <= bounds_of(other)[0]:
            return self
        return self._combined("minimum", self, other, combined(min, self, other))

    def maximum(self, other: Number) -> Self:
        if self.bounds[0] >= bounds_of(other)[1]:
            return self
        return self._combined("maximum", self, other, combined(max, self, other))

    def clipped(self, low: Number, high: Number) -> Self:
        return self.maximum(low).minimum(high)

    def absolute(self) -> Self:
        low, high = self.bounds
        if low >= 0:
            return self
        result = (-self).maximum(self)
        result.bounds = 0, max(-low, high)
        return result

    def sign(self) -> Self:
        """Return -1, 0 or 1."""
        return cast("Self", (self > 0) - (self < 0).number)


def _checked_divisor(number: Number) -> Bounds:
    low, high = bounds_of(number)
    if low <= 0 <= high:
        raise ValueError("a divisor may be 0")
    return low, high


class Real(Expression):
    """Float known only at run time. Float operands of one op must have the same type."""

    bounds: FloatBounds = UNBOUNDED
    """Bounds of the value if it is not NaN."""

    may_be_nan: bool = True

    @property
    @abstractmethod
    def type(self) -> AnyFloat:
        """Type of the value."""

    @abstractmethod
    def _function(
        self,
        name: str,
        operands: Sequence[RealNumber],
        bounds: FloatBounds,
        may_be_nan: bool,
    ) -> Self:
        """Build the float function with the given NumPy name."""

    @abstractmethod
    def compared(self, direction: Direction, other: RealNumber) -> Truth:
        """Build a comparison. With NaN, only `ne` is true."""

    @abstractmethod
    def as_float(self, type_: AnyFloat) -> Self:
        """Convert to another type, with rounding."""

    @abstractmethod
    def as_integer(self) -> Integer:
        """Round toward zero. Results saturate at 64 bits; NaN becomes the minimum."""

    def function(
        self,
        name: str,
        *operands: RealNumber,
        bounds: FloatBounds = UNBOUNDED,
        can_be_nan: bool | None = None,
    ) -> Self:
        """
        Build the op of a NumPy function. By default, the result may be NaN if an operand
        may be NaN or if `bounds` are `UNBOUNDED`.
        """
        if can_be_nan is None:
            # Infinities and values outside the domain of a function may give NaN.
            can_be_nan = bounds == UNBOUNDED or any(map(may_be_nan, operands))
        return self._function(name, operands, bounds, can_be_nan)

    def is_nan(self) -> Truth | bool:
        return self != self if self.may_be_nan else False

    # Operators

    def arithmetic(self, name: str, lhs: RealNumber, rhs: RealNumber) -> Self:
        """Build a binary op; this float is `lhs` or `rhs`."""
        if name == "divide":
            return self.function(name, lhs, rhs)
        if name not in ("add", "subtract", "multiply"):
            raise Unsupported(NO_FORM)
        compute = getattr(np, name)
        with np.errstate(all="ignore"):
            ends = [
                float(compute(np.float64(a), np.float64(b)))
                for a in float_bounds_of(lhs)
                for b in float_bounds_of(rhs)
            ]
        return self.function(name, lhs, rhs, bounds=widened_bounds(*ends))

    def negative(self) -> Self:
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
        """Return the minimum; NaN if an operand is NaN."""
        return self._extreme("minimum", other, self.may_be_nan or may_be_nan(other))

    def maximum(self, other: RealNumber) -> Self:
        """Return the maximum; NaN if an operand is NaN."""
        return self._extreme("maximum", other, self.may_be_nan or may_be_nan(other))

    def number_minimum(self, other: RealNumber) -> Self:
        """Return the minimum; if one operand is NaN, the other operand."""
        return self._extreme("fmin", other, self.may_be_nan and may_be_nan(other))

    def number_maximum(self, other: RealNumber) -> Self:
        """Return the maximum; if one operand is NaN, the other operand."""
        return self._extreme("fmax", other, self.may_be_nan and may_be_nan(other))

    def clipped(self, low: RealNumber, high: RealNumber) -> Self:
        """Clamp the value to a range; NaN stays NaN."""
        return self.maximum(low).minimum(high)

    def absolute(self) -> Self:
        low, high = self.bounds
        return self.function("absolute", self, bounds=(0, max(-low, high)))

    def sign(self) -> Self:
        """Return -1, 0, 1 or NaN."""
        sign = ((self > 0) - (self < 0).number).as_float(self.type)
        return cast("Self", _chosen_by_truth(self.is_nan(), self, sign))

    def copysign(self, sign: RealNumber) -> Self:
        """Return this float's absolute value with the sign of `sign`."""
        largest = max(map(abs, self.bounds))
        return self.function("copysign", self, sign, bounds=(-largest, largest))

    def sign_bit(self) -> Truth:
        """Return True if the sign bit is set."""
        return self.function("copysign", 1.0, self) < 0

    def power(self, exponent: RealNumber) -> Self:
        return self.function("power", self, exponent)

    def remainder(self, divisor: RealNumber) -> Self:
        """Return the remainder of a division that rounds down."""
        rest = self.function("fmod", self, divisor)
        has_other_sign = (rest * divisor) < 0
        return has_other_sign.chosen(rest + divisor, rest)

    def erfc(self) -> Self:
        """Return the complementary error function."""
        return 1 - self.function("erf", self, bounds=(-1, 1))

    def rounded(self, name: str) -> Self:
        """Round to an integral float with the NumPy function `name`, e.g. `rint`."""
        low, high = self.bounds
        # Infinities stay infinite.
        return self.function(name, self, bounds=(low - 1, high + 1))


def chosen_bounds(a: RealNumber, b: RealNumber) -> tuple[FloatBounds, bool]:
    """Return the bounds of a selection of `a` or `b`, and True if the result may be NaN."""
    bounds = union(float_bounds_of(a), float_bounds_of(b))
    return bounds, may_be_nan(a) or may_be_nan(b)


# NumPy's functions


def _main_operand(*operands: object) -> Any:
    """Return the operand whose method builds the op: a float, or the first expression."""
    expressions = [x for x in operands if isinstance(x, Expression)]
    return next((x for x in expressions if isinstance(x, Real)), expressions[0])


def _bound_method(x: object, name: str) -> Form:
    if not hasattr(x, name):
        raise Unsupported(NO_FORM)
    return getattr(x, name)


def _operator(name: str) -> Form:
    """Return a binary function that calls `arithmetic(name, ...)` of the main operand."""

    def function(lhs: object, rhs: object) -> object:
        return _main_operand(lhs, rhs).arithmetic(name, lhs, rhs)

    return function


def _comparison(direction: Direction, mirrored: Direction) -> Form:
    def function(lhs: object, rhs: object) -> object:
        x = _main_operand(lhs, rhs)
        return x.compared(direction, rhs) if x is lhs else x.compared(mirrored, lhs)

    return function


def _commutative(method: str) -> Form:
    """Return a commutative function that calls `method` of one operand on the other one."""

    def function(a: object, b: object) -> object:
        if isinstance(b, Real) or not isinstance(a, Expression):
            a, b = b, a
        if isinstance(a, Truth) and not hasattr(a, method):
            a = a.number
        return _bound_method(a, method)(b)

    return function


def _ufunc_method(name: str) -> Form:
    """Return a function that calls the method `name` of its first operand."""

    def function(x: object, *operands: object) -> object:
        return _bound_method(x, name)(*operands)

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
    return x - (x // y) * y


FUNCTIONS: Mapping[object, Form] = {
    np.add: _operator("add"),
    np.subtract: _operator("subtract"),
    np.multiply: _operator("multiply"),
    np.divide: _operator("divide"),
    np.floor_divide: _operator("floor_divide"),
    np.left_shift: _operator("left_shift"),
    np.right_shift: _operator("right_shift"),
    np.remainder: _remainder,
    np.fmod: Integer.remainder,
    **dict.fromkeys((np.bitwise_and, np.logical_and), _commutative("conjunction")),
    **dict.fromkeys((np.bitwise_or, np.logical_or), _commutative("disjunction")),
    **dict.fromkeys((np.invert, np.logical_not), _ufunc_method("negation")),
    np.equal: _comparison("eq", "eq"),
    np.not_equal: _comparison("ne", "ne"),
    np.less: _comparison("lt", "gt"),
    np.less_equal: _comparison("le", "ge"),
    np.greater: _comparison("gt", "lt"),
    np.greater_equal: _comparison("ge", "le"),
    np.minimum: _commutative("minimum"),
    np.maximum: _commutative("maximum"),
    np.fmin: _commutative("number_minimum"),
    np.fmax: _commutative("number_maximum"),
    np.negative: _ufunc_method("negative"),
    np.absolute: _ufunc_method("absolute"),
    np.sign: _ufunc_method("sign"),
    np.copysign: Real.copysign,
    np.isnan: Real.is_nan,
    np.signbit: Real.sign_bit,
    np.power: _float_power,
    **{f: _rounded(f.__name__) for f in (np.floor, np.ceil, np.rint, np.trunc)},
    np.sqrt: _float_function("sqrt"),
    np.exp: _float_function("exp", 0, math.inf),
    np.expm1: _float_function("expm1", -1, math.inf),
    np.log: _float_function("log"),
    **{f: _float_function(f.__name__, -1, 1) for f in (np.tanh, np.sin, np.cos)},
    np.clip: _ufunc_method("clipped"),
    np.where: _chosen_by_truth,
}
"""Implementations of NumPy functions on expressions."""
