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

from .linear_maps import Floats, Gathering, Indices, Path

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
