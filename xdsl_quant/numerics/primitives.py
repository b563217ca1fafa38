"""
Primitives of quantization arithmetic, defined in NumPy.

A formula is a Python function of arrays that calls NumPy functions and these primitives. A
machine (see `xdsl_quant.machines`) calls it with expressions instead of arrays, and either
replaces a primitive by an op or traces its definition. Integers in expressions have
unlimited precision; integers in arrays have 64 bits.
"""

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from .float_dtypes import fused_multiply_add

Array: TypeAlias = NDArray[Any]
Integers: TypeAlias = NDArray[np.int64]

Operand: TypeAlias = "Integers | np.int64 | int"
"""Array of integers, or a single integer."""

Definition = TypeVar("Definition", bound=Callable[..., object])

INT32_MAX = 2**31 - 1

PRIMITIVES: dict[str, Callable[..., object]] = {}
"""Primitives by name."""

OBSERVERS = ContextVar[tuple[Callable[..., object], ...]]("observers", default=())
"""Functions called with the name and operands of each definition in this thread."""


def primitive(definition: Definition) -> Definition:
    """
    Register a function as a primitive. If the method `primitive` of an operand returns the
    machine's implementation, that is called instead of the function.
    """
    name = definition.__name__

    @wraps(definition)
    def dispatched(*args: object) -> object:
        for argument in args:
            forms = getattr(argument, "primitive", None)
            if forms is not None and (form := forms(name)) is not None:
                return form(*args)
        for observe in OBSERVERS.get():
            observe(name, args)
        return definition(*args)

    PRIMITIVES[name] = dispatched
    return cast(Definition, dispatched)


# Integers


@primitive
def wrapped(values: Integers, bits: int = 32) -> Integers:
    """Return the lowest `bits` bits of integers, sign-extended."""
    half = 1 << (bits - 1)
    return ((values + half) & (2 * half - 1)) - half


@primitive
def saturated(values: Integers, bits: int = 32) -> Integers:
    """Clamp integers to the range of signed integers of `bits` bits."""
    return np.clip(values, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


@primitive
def saturating_shift(values: Integers, exponent: Operand, bits: int = 32) -> Integers:
    """Return `values * 2**exponent`, saturated to `bits` bits."""
    return saturated(values << exponent, bits)


@primitive
def rounded_product(lhs: Integers, rhs: Operand, exponent: Operand) -> Integers:
    """Return `lhs * rhs / 2**exponent` for exponents of at least 1, rounded half up."""
    return (lhs * rhs + (1 << (exponent - 1))) >> exponent


@primitive
def doubling_high_product(lhs: Integers, rhs: Operand) -> Integers:
    """
    Return `lhs * rhs / 2**31`, rounded half up and saturated, as gemmlowp's
    `SaturatingRoundingDoublingHighMul`.
    """
    return np.minimum(rounded_product(lhs, rhs, 31), INT32_MAX)


@primitive
def rounding_divide(values: Integers, exponent: Operand) -> Integers:
    """Return `values / 2**exponent`, rounded half away from zero: `RoundingDivideByPOT`."""
    if isinstance(exponent, int | np.integer) and exponent == 0:
        return values
    # The summand before the shift is 1 less for negative values.
    half = (1 << exponent) >> 1
    return (values + half - ((values < 0) & (exponent > 0))) >> exponent


@primitive
def half_sum(lhs: Integers, rhs: Operand) -> Integers:
    """Return `(lhs + rhs) / 2`, rounded half away from zero: `RoundingHalfSum`."""
    return rounding_divide(lhs + rhs, 1)


@primitive
def rescaled(values: Integers, multiplier: tuple[Operand, Operand]) -> Integers:
    """
    Return `values * value * 2**(exponent - 31)` for a multiplier `(value, exponent)`,
    rounded after each of two shifts: `MultiplyByQuantizedMultiplier` with 32 bits.
    """
    value, exponent = multiplier
    # Shifts of 32 bits and more give 0.
    shifted = wrapped(values << np.clip(exponent, 0, 32))
    product = doubling_high_product(shifted, value)
    return rounding_divide(product, np.maximum(-exponent, 0))


@primitive
def stored_values(
    corrected: Integers, zero_point: int, low: int, high: int
) -> Integers:
    """Convert zero-point-corrected values to stored values, which saturate."""
    return np.clip(corrected + zero_point, low, high)


@primitive
def leading_zeros(values: Integers) -> Integers:
    """Return the number of leading zeros of non-negative 32-bit integers."""
    return 32 - np.frexp(np.asarray(values, np.float64))[1].astype(np.int64)


@primitive
def lookup(table: Integers, indices: Integers) -> Integers:
    """Return the entries of a constant one-dimensional table at indices in its range."""
    return table[indices]


# Along dimensions


@primitive
def below_largest(values: Array) -> Array:
    """
    Subtract from each element the largest one along the last dimension. Return arrays
    without elements unchanged.
    """
    return values if not values.size else values - values.max(axis=-1, keepdims=True)


@primitive
def folded(rows: Array, step: Callable[[Array, Array], Array]) -> Array:
    """Reduce each row from left to right by a function of two 32-bit integers or floats."""
    result = rows[..., 0]
    for index in range(1, rows.shape[-1]):
        result = step(result, rows[..., index])
    return result


@primitive
def multiply_add(lhs: Array, rhs: Array, addend: Array) -> Array:
    """Return `lhs * rhs + addend` in `f32`, rounded once."""
    return fused_multiply_add(lhs, rhs, addend)


@primitive
def scaled_total(values: Integers, scales: Array, start: Array) -> Array:
    """
    Return `start` plus the products of values and scales along the first dimension.

    Args:
        values: integers, converted to `f32`.
        scales: `f32`, broadcast to the shape of `values`.
        start: `f32`, with the shape of the result.

    Returns:
        `f32`. Products are added one after the other, each with one rounding of product
        and sum: a fused multiplication and addition.
    """
    total = start
    for row, factor in zip(values, scales, strict=True):
        total = fused_multiply_add(row.astype(np.float32), factor, total)
    return total


@primitive
def scanned(
    inputs: Array, step: Callable[..., Sequence[Array]], *states: Array
) -> tuple[Array, ...]:
    """
    Call `states = step(input, *states)` for each element of `inputs` along the first
    dimension. Shapes and dtypes of states stay the same.

    Returns:
        The first state after each step, stacked, and all states after the last step.
    """
    results = np.empty((len(inputs), *states[0].shape), states[0].dtype)
    for index, element in enumerate(inputs):
        states = tuple(step(element, *states))
        results[index] = states[0]
    return results, *states


@primitive
def top_k(values: Array, count: int) -> tuple[Array, Array]:
    """
    Return the `count` largest elements along the last dimension, in descending order, and
    their indices. Equal elements keep their order.
    """
    last = values.shape[-1] - 1
    # The stable order is reversed, so that equal elements keep their order.
    reversed_order = np.argsort(values[..., ::-1], axis=-1, kind="stable")
    order = last - reversed_order[..., ::-1][..., :count]
    return np.take_along_axis(values, order, -1), order.astype(np.int32)


@primitive
def with_part(values: Array, update: Array, start: Array | Sequence[int]) -> Array:
    """Copy `values` and write `update` at `start`; clamp `start` so that `update` fits."""
    result = values.copy()
    parts = [
        slice(first := min(max(int(s), 0), size - part), first + part)
        for s, size, part in zip(start, values.shape, update.shape, strict=True)
    ]
    result[tuple(parts)] = update
    return result


# Elements of NumPy arrays; no-ops on machines


@primitive
def exact_factors(lhs: Array, rhs: Array, terms: int) -> tuple[Array, Array]:
    """
    Convert the factors of sums of products to f64 if f64 represents all sums exactly,
    because NumPy multiplies floats many times faster than integers.

    Args:
        lhs: the first factors.
        rhs: the second factors.
        terms: the number of products per sum.
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
    Return `values` as the operand of a square root. Machines replace negatives by 0.

    Raises:
        ValueError: if an element is negative.
    """
    if np.any(values < 0):
        raise ValueError("square root of a negative number")
    return values


@primitive
def divisor(values: Array) -> Array:
    """
    Return `values`, or raise a `ValueError` if an element is 0. Machines do not check this.
    """
    if not np.all(values):
        raise ValueError("division by zero")
    return values


# Floats

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


@primitive
def erfc(values: Array) -> Array:
    return _erfc(values).astype(values.dtype)
