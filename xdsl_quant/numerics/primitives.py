"""
The named primitives of quantization arithmetic, each with its definition in NumPy.

A formula is a function of arrays that uses NumPy functions and these primitives. Machines
take its arrays as expressions: they use an op of their own for a primitive, or trace the
definition here. Integers are unbounded: those of arrays have 64 bits.
"""

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Integers: TypeAlias = NDArray[np.int64]

Operand: TypeAlias = "Integers | np.int64 | int"
"""Integers of an array, or one for all."""

Definition = TypeVar("Definition", bound=Callable[..., object])

INT32_MAX = 2**31 - 1

PRIMITIVES: dict[str, Callable[..., object]] = {}
"""All primitives by name."""


def primitive(definition: Definition) -> Definition:
    """
    Register a function as a primitive. An operand that is no array may have a method
    `primitive`, which returns the form of its machine for a name, or `None`.
    """
    name = definition.__name__

    @wraps(definition)
    def dispatched(*args: object) -> object:
        for argument in args:
            forms = getattr(argument, "primitive", None)
            if forms is not None and (form := forms(name)) is not None:
                return form(*args)
        return definition(*args)

    PRIMITIVES[name] = dispatched
    return cast(Definition, dispatched)


# Integers


@primitive
def wrapped(values: Integers, bits: int = 32) -> Integers:
    """Return the lowest bits of integers, as signed ones."""
    half = 1 << (bits - 1)
    return ((values + half) & (2 * half - 1)) - half


@primitive
def saturated(values: Integers, bits: int = 32) -> Integers:
    """Integers limited to the range of signed ones with this number of bits."""
    return np.clip(values, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


@primitive
def saturating_shift(values: Integers, exponent: Operand, bits: int = 32) -> Integers:
    """`values * 2**exponent`, limited to the range of signed integers."""
    return saturated(values << exponent, bits)


@primitive
def rounded_product(lhs: Integers, rhs: Operand, exponent: Operand) -> Integers:
    """`lhs * rhs / 2**exponent` for exponents from 1, rounded half up."""
    return (lhs * rhs + (1 << (exponent - 1))) >> exponent


@primitive
def doubling_high_product(lhs: Integers, rhs: Operand) -> Integers:
    """
    `SaturatingRoundingDoublingHighMul`: `lhs * rhs / 2**31`, rounded half up. Two times
    `-2**31` is limited to `2**31 - 1`.
    """
    return np.minimum(rounded_product(lhs, rhs, 31), INT32_MAX)


@primitive
def rounding_divide(values: Integers, exponent: Operand) -> Integers:
    """`RoundingDivideByPOT`: `values / 2**exponent`, rounded half away from zero."""
    if isinstance(exponent, int | np.integer) and exponent == 0:
        return values
    # What is added before the shift is 1 less for negative values.
    half = (1 << exponent) >> 1
    return (values + half - ((values < 0) & (exponent > 0))) >> exponent


@primitive
def half_sum(lhs: Integers, rhs: Operand) -> Integers:
    """`RoundingHalfSum`: `(lhs + rhs) / 2`, rounded half away from zero."""
    return rounding_divide(lhs + rhs, 1)


@primitive
def rescaled(values: Integers, multiplier: tuple[Operand, Operand]) -> Integers:
    """
    `MultiplyByQuantizedMultiplier` of 32 bits: the product with a value and a power of two,
    `values * value * 2**(exponent - 31)`, rounded after each of two shifts.
    """
    value, exponent = multiplier
    # After 32 bits nothing is left.
    shifted = wrapped(values << np.clip(exponent, 0, 32))
    product = doubling_high_product(shifted, value)
    return rounding_divide(product, np.maximum(-exponent, 0))


@primitive
def stored_values(
    corrected: Integers, zero_point: int, low: int, high: int
) -> Integers:
    """Zero-point-corrected values as stored values of a range, which saturate."""
    return np.clip(corrected + zero_point, low, high)


@primitive
def leading_zeros(values: Integers) -> Integers:
    """Return the zeros before the first one of the 32 bits of integers from 0."""
    return 32 - np.frexp(np.asarray(values, np.float64))[1].astype(np.int64)


@primitive
def lookup(table: Integers, indices: Integers) -> Integers:
    """
    Return the entries of a known table of one dimension at indices that are within it.
    """
    return table[indices]


# Along dimensions


@primitive
def below_largest(values: Array) -> Array:
    """Return the differences from the largest element along the last dimension."""
    return values - values.max(axis=-1, keepdims=True)


@primitive
def folded(rows: Integers, step: Callable[[Integers, Integers], Integers]) -> Integers:
    """
    Return the result of a function of two integers of 32 bits, applied to the elements
    of each row one after the other.
    """
    result = rows[..., 0]
    for index in range(1, rows.shape[-1]):
        result = step(result, rows[..., index])
    return result


@primitive
def top_k(values: Array, count: int) -> tuple[Array, Array]:
    """
    Return the largest elements along the last dimension and their indices, lower ones
    first.
    """
    last = values.shape[-1] - 1
    # Of equal elements, the last one in the reversed order comes first.
    reversed_order = np.argsort(values[..., ::-1], axis=-1, kind="stable")
    order = last - reversed_order[..., ::-1][..., :count]
    return np.take_along_axis(values, order, -1), order.astype(np.int32)


@primitive
def with_part(values: Array, update: Array, start: Array | Sequence[int]) -> Array:
    """
    Return an array with a part replaced; the start is clamped so that the part fits.
    """
    result = values.copy()
    parts = [
        slice(first := min(max(int(s), 0), size - part), first + part)
        for s, size, part in zip(start, values.shape, update.shape, strict=True)
    ]
    result[tuple(parts)] = update
    return result


# Elements that are known


@primitive
def exact_factors(lhs: Array, rhs: Array, terms: int) -> tuple[Array, Array]:
    """
    Factors of sums of products: floats of 64 bits, which NumPy multiplies many times
    faster, in the place of integers whose sums they have exactly.

    Args:
        lhs: the first factors.
        rhs: the second ones.
        terms: the number of products of a sum.
    """
    if lhs.dtype.kind == "f":
        return lhs, rhs
    largest = [int(np.abs(factor).max(initial=0)) for factor in (lhs, rhs)]
    if largest[0] * largest[1] * terms >= 1 << 53:
        return lhs, rhs
    return lhs.astype(np.float64), rhs.astype(np.float64)


@primitive
def radicand(values: Array) -> Array:
    """
    Integers to take the square root of; a machine takes 0 for negative ones.

    Raises:
        ValueError: if an element is negative.
    """
    if np.any(values < 0):
        raise ValueError("square root of a negative number")
    return values


@primitive
def divisor(values: Array) -> Array:
    """
    Integers to divide by, which a machine does not check.

    Raises:
        ValueError: if an element is zero.
    """
    if not np.all(values):
        raise ValueError("division by zero")
    return values


# Floats

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


@primitive
def erfc(values: Array) -> Array:
    """Return the complementary error function."""
    return _erfc(values)
