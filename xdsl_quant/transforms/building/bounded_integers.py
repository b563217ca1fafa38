"""
Integers of which the bounds are known: what expressions of any dialect share.

A subclass of `BoundedInteger` builds the ops. The bounds of their results, and which of
them need no op, are here.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Self, SupportsIndex, TypeAlias, cast

import numpy as np

Bounds: TypeAlias = tuple[int, int]
"""The smallest and the largest value."""

Number: TypeAlias = "Bounded | SupportsIndex"
"""An operand: an expression, a truth value as 0 or 1, or a number that is known."""

IntegerOperation: TypeAlias = Literal[
    "add",
    "and",
    "maximum",
    "minimum",
    "multiply",
    "shift_left",
    "shift_right",
    "subtract",
]
"""What a dialect has an op for."""


def signed_bounds(bits: int) -> Bounds:
    """The bounds of signed integers of so many bits."""
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def are_within(bounds: Bounds, limits: Bounds) -> bool:
    """Whether all numbers of some bounds are within other ones."""
    return limits[0] <= bounds[0] and bounds[1] <= limits[1]


def union(*bounds: tuple[Any, Any]) -> tuple[Any, Any]:
    """The bounds of numbers that are within any of these."""
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def bounds_of(number: Number) -> Bounds:
    """The bounds of an operand."""
    if isinstance(number, Bounded):
        return number.bounds
    return int(number), int(number)


def combined(function: Callable[[int, int], int], a: Number, b: Number) -> Bounds:
    """The bounds of a function that is monotonic in each of its operands."""
    ends = [function(x, y) for x in bounds_of(a) for y in bounds_of(b)]
    return min(ends), max(ends)


class ArrayLike(ABC):
    """What NumPy's functions take in the place of an array."""

    @classmethod
    @abstractmethod
    def functions(cls) -> Mapping[Any, Callable[..., Any]]:
        """What is called instead of a function of NumPy."""

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        if method != "__call__" or kwargs or ufunc not in self.functions():
            return NotImplemented
        return self.functions()[ufunc](*map(_known, inputs))

    def __array_function__(
        self,
        function: Any,
        types: Sequence[type],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        if kwargs or function not in self.functions():
            return NotImplemented
        return self.functions()[function](*map(_known, args))


def _known(value: Any) -> Any:
    """Converts a NumPy number to a Python number; returns anything else unchanged."""
    if isinstance(value, np.generic | np.ndarray) and not value.ndim:
        return cast(Any, value).item()
    return cast(Any, value)


class Bounded(ArrayLike, ABC):
    """A number, or a truth value as 0 or 1, that is known at run time."""

    bounds: Bounds
    """What the value is within, whatever its type could hold."""


class BoundedInteger(Bounded, ABC):
    """An integer that is known at run time."""

    @abstractmethod
    def _combined(
        self, operation: IntegerOperation, lhs: Number, rhs: Number, bounds: Bounds
    ) -> Self:
        """Build an op; the bounds are those of its result."""

    is_lazy: ClassVar[bool] = False
    """True if ops without uses are not built: sums of constants are merged then."""

    linear: tuple[Self, int, int] | None = None
    """An integer, 1 or -1 as its factor, and a constant that is added."""

    def plus(self, constant: int, factor: int = 1) -> Self | None:
        """
        The integer times 1 or -1 plus a constant, as one op if it is such a sum itself,
        and `None` otherwise.
        """
        if self.linear is None or not self.is_lazy:
            return None
        base, own_factor, own_constant = self.linear
        constant += factor * own_constant
        factor *= own_factor
        if factor == 1:
            return base + constant
        return constant - base

    def __add__(self, other: Number) -> Self:
        if bounds_of(other) == (0, 0):
            return self
        if self.bounds == (0, 0) and isinstance(other, type(self)):
            return other
        if isinstance(other, Bounded):
            bounds = combined(operator.add, self, other)
            return self._combined("add", self, other, bounds)
        constant = int(other)
        if (merged := self.plus(constant)) is not None:
            return merged
        bounds = combined(operator.add, self, constant)
        result = self._combined("add", self, constant, bounds)
        result.linear = self, 1, constant
        return result

    def __radd__(self, other: Number) -> Self:
        return self + other

    def __sub__(self, other: Number) -> Self:
        if bounds_of(other) == (0, 0):
            return self
        bounds = combined(operator.sub, self, other)
        if isinstance(other, Bounded):
            return self._combined("subtract", self, other, bounds)
        if (merged := self.plus(-int(other))) is not None:
            return merged
        result = self._combined("subtract", self, other, bounds)
        result.linear = self, 1, -int(other)
        return result

    def __rsub__(self, other: Number) -> Self:
        bounds = combined(operator.sub, other, self)
        if isinstance(other, Bounded):
            return self._combined("subtract", other, self, bounds)
        if (merged := self.plus(int(other), -1)) is not None:
            return merged
        result = self._combined("subtract", other, self, bounds)
        result.linear = self, -1, int(other)
        return result

    def __neg__(self) -> Self:
        return 0 - self

    def __mul__(self, other: Number) -> Self:
        if bounds_of(other) == (1, 1):
            return self
        bounds = combined(operator.mul, self, other)
        return self._combined("multiply", self, other, bounds)

    def __rmul__(self, other: Number) -> Self:
        return self * other

    def __lshift__(self, other: Number) -> Self:
        if bounds_of(other) == (0, 0):
            return self
        bounds = combined(operator.lshift, self, other)
        return self._combined("shift_left", self, other, bounds)

    def __rlshift__(self, other: Number) -> Self:
        bounds = combined(operator.lshift, other, self)
        return self._combined("shift_left", other, self, bounds)

    def __rshift__(self, other: Number) -> Self:
        if bounds_of(other) == (0, 0):
            return self
        bounds = combined(operator.rshift, self, other)
        return self._combined("shift_right", self, other, bounds)

    def __and__(self, other: SupportsIndex) -> Self:
        """The bits that `other` has, which is not negative."""
        mask = int(other)
        low, high = self.bounds
        if low >= 0 and high <= mask and not mask & (mask + 1):
            return self
        bounds = 0, min(high, mask) if low >= 0 else mask
        return self._combined("and", self, mask, bounds)

    __rand__ = __and__

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
