"""
Networks as graphs of values, in real numbers: sums, clamps, functions, roundings.

A quantized network computes the same kinds of values as a float network, and roundings to
stored values. Each value is a flattened tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Attribute, Operation

from xdsl_quant.dialects.quant.types import (
    ScaledQuantizedType,
    scalar_or_element_type,
)
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import shape_of

from .linear_maps import FLOAT_UNIT, SMALLEST, Floats, Gathering, Indices, Path, growth

SUM_LIMIT = 2.0**127
"""Numbers from here on might exceed `f32`."""


@dataclass(eq=False)
class Value:
    """A flattened tensor of a network."""

    op: Operation | None
    """The op that computes the value; `None` for arguments."""

    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    @property
    def operands(self) -> Sequence[Value]:
        """Values from which this one is computed."""
        return ()


@dataclass(eq=False)
class Argument(Value):
    """The argument of the network."""


@dataclass(eq=False)
class Sum(Value):
    """Sum of linear maps of values and a constant; without terms, a constant."""

    terms: Sequence[tuple[Value, Path]]
    constant: Floats

    @property
    def operands(self) -> Sequence[Value]:
        return [value for value, _ in self.terms]


@dataclass(eq=False)
class Clamp(Value):
    """Values clamped to `low` and `high`, which have one or all elements."""

    operand: Value
    low: Floats
    high: Floats

    @property
    def operands(self) -> Sequence[Value]:
        return [self.operand]


@dataclass(eq=False)
class StoredRounding(Value):
    """
    Quantization of real numbers: values with an error of at most `error`, clamped to
    `low` and `high`.
    """

    operand: Value
    error: Floats
    low: Floats
    high: Floats

    limit: Floats = field(default_factory=lambda: np.array(SUM_LIMIT))
    """Largest absolute value of the operand that the accumulator or `f32` holds."""

    @property
    def operands(self) -> Sequence[Value]:
        return [self.operand]


@dataclass(frozen=True)
class Table:
    """Results of a function for each stored value, as real numbers."""

    inputs: Floats
    """Real numbers of the stored values, ascending, with equal distances."""

    results: Floats


@dataclass(eq=False)
class Function(Value):
    """An elementwise function; a table of results in a quantized network."""

    operand: Value
    name: str
    table: Table | None = None

    @property
    def operands(self) -> Sequence[Value]:
        return [self.operand]


@dataclass(eq=False)
class Largest(Value):
    """Largest elements of groups, which are rows of indices `[elements, group]`."""

    operand: Value
    groups: Indices

    @property
    def operands(self) -> Sequence[Value]:
        return [self.operand]


@dataclass(eq=False)
class ElementProduct(Value):
    """Products of elements of two values of the same size."""

    lhs: Value
    rhs: Value

    @property
    def operands(self) -> Sequence[Value]:
        return [self.lhs, self.rhs]


@dataclass(eq=False)
class Softmax(Value):
    """Exponentials of groups of consecutive elements, divided by their sum."""

    operand: Value

    length: int
    """Number of elements of a group."""

    @property
    def operands(self) -> Sequence[Value]:
        return [self.operand]


@dataclass(frozen=True)
class Network:
    """Values of a network in execution order, and its result."""

    values: Sequence[Value]
    argument: Argument
    result: Value

    def users(self) -> Mapping[Value, Sequence[Value]]:
        """Return the values that are computed from each value."""
        users: dict[Value, list[Value]] = {value: [] for value in self.values}
        for value in self.values:
            for operand in value.operands:
                users.setdefault(operand, []).append(value)
        return users

    def stored_argument(self) -> StoredRounding | None:
        """Return the quantization of the argument, if nothing else uses the argument."""
        users = self.users()[self.argument]
        if len(users) != 1 or not isinstance(found := users[0], StoredRounding):
            return None
        if found.op is None or scaled_type(found.op.results[0].type) is None:
            return None
        return found


def moves_only(
    terms: Sequence[tuple[Value, Path]], counts: Floats | float = 0.0
) -> bool:
    """
    Return True if each element of a sum has at most one summand, with a factor of 1.

    Args:
        counts: numbers of further summands.
    """
    for value, path in terms:
        if not all(isinstance(each, Gathering) for each in path.maps):
            return False
        counts = counts + path.apply(np.ones(value.size))
    return bool(np.all(counts <= 1))


# Affine functions


@dataclass(frozen=True)
class Affine:
    """A value as a sum of linear maps of other values, and a constant."""

    terms: Sequence[tuple[Value, Path]]
    constant: Floats

    magnitude: Floats
    """Sum of the absolute values of the constants that are added."""

    roundings: int
    """Bound of the number of roundings of an element, in any order of the additions."""

    @property
    def bases(self) -> set[Value]:
        """Values from which the value is computed."""
        return {base for base, _ in self.terms}

    def apply(self, probes: Mapping[Value, Floats]) -> Floats:
        """Return the values for drawn values of the bases."""
        return self.constant + sum(
            path.apply(probes[base]) for base, path in self.terms
        )

    def float_error(self, sizes: Sequence[Floats]) -> Floats:
        """
        Return the error of the sum in `f32`, for any order of the additions.

        Args:
            sizes: largest absolute values of the terms.
        """
        summed = self.magnitude
        for (_, path), size in zip(self.terms, sizes, strict=True):
            summed = summed + path.magnitude.apply(size + SMALLEST)
        if moves_only(self.terms, (self.magnitude > 0).astype(np.float64)):
            return np.zeros_like(summed)
        # Constants may be products of scales and integers in `f32`.
        return growth(self.roundings + 4, FLOAT_UNIT) * summed + SMALLEST


def expand(value: Value, bases: set[Value] | Mapping[Value, object]) -> Affine | None:
    """Return a value in terms of `bases`; `None` if it is not affine in them."""
    if value in bases:
        zeros = np.zeros(value.size)
        return Affine([(value, Path())], zeros, zeros, 0)
    if not isinstance(value, Sum):
        return None
    terms: list[tuple[Value, Path]] = []
    constant, magnitude, roundings = value.constant, np.abs(value.constant), 0
    for operand, path in value.terms:
        inner = expand(operand, bases)
        if inner is None:
            return None
        terms += [(base, first.then(path)) for base, first in inner.terms]
        constant = constant + path.apply(inner.constant)
        magnitude = magnitude + path.magnitude.apply(inner.magnitude)
        roundings = max(roundings, inner.roundings + path.roundings)
    return Affine(terms, constant, magnitude, roundings + len(value.terms))


# Quantized types as real numbers


def scaled_type(type_: Attribute) -> ScaledQuantizedType | None:
    """Return the element type if it has scales, else `None`."""
    element = scalar_or_element_type(type_)
    return element if isinstance(element, ScaledQuantizedType) else None


def _spread_over(
    numbers: Array, type_: ScaledQuantizedType, shape: Sequence[int]
) -> Array:
    if type_.axis is not None:
        sizes = [1] * len(shape)
        sizes[type_.axis] = -1
        numbers = numbers.reshape(sizes)
    return np.broadcast_to(numbers, shape)


def element_scales(type_: ScaledQuantizedType, shape: Sequence[int]) -> Floats:
    """Return the scale of each element of a tensor of the given shape."""
    return _spread_over(type_.get_scales(), type_, shape)


def real_numbers(stored: Array, type_: ScaledQuantizedType) -> Floats:
    """Return the numbers that stored values represent, in the shape of `stored`."""
    zero_points = _spread_over(type_.get_zero_points(), type_, stored.shape)
    corrected = stored.astype(np.float64) - zero_points
    return corrected * element_scales(type_, stored.shape)


def stored_numbers(numbers: Floats, type_: ScaledQuantizedType) -> Floats:
    """Return the stored values that represent numbers, in the shape of `numbers`."""
    corrected = np.rint(numbers / element_scales(type_, numbers.shape))
    return corrected + _spread_over(type_.get_zero_points(), type_, numbers.shape)


def real_bounds(
    type_: ScaledQuantizedType,
    shape: Sequence[int],
    stored: tuple[int, int] | None = None,
) -> tuple[Floats, Floats]:
    """Return the numbers of two stored values: by default, of the storage range."""
    low, high = type_.storage_range if stored is None else stored
    ends = (real_numbers(np.full(shape, end), type_).ravel() for end in (low, high))
    first, last = ends
    return first, last


def shape_of_result(op: Operation) -> tuple[int, ...]:
    """Return the shape of the only result of an op."""
    return tuple(shape_of(op.results[0].type))
