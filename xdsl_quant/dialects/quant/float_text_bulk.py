"""
Formatting of large arrays of floats: the algorithm of
[`float_text`][xdsl_quant.dialects.quant.float_text] on NumPy arrays, which takes a third of
the time for a million scales. NumPy is imported lazily.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING

from .float_formats import FloatFormat

if TYPE_CHECKING:
    from array import array

    from numpy import bool_, float64, int64, object_
    from numpy.typing import NDArray

    Integers = NDArray[int64]
    Floats = NDArray[float64]

_SHORT_DIGITS = 6
_LEAST, _MOST = 1e-30, 1e15
"""Exclusive bounds of the numbers that this module formats, to limit powers of 10."""


def decimal_texts(
    values: array[float], float_format: FloatFormat
) -> tuple[list[str], list[int]]:
    """
    Return MLIR's text of each number, and the indices of numbers with an empty text:
    numbers that are out of range, or that MLIR prints in hexadecimal.
    """
    import numpy as np

    distinct, positions = np.unique(
        np.frombuffer(values, dtype=np.float64), return_inverse=True
    )
    missing = ""
    texts = np.full(len(distinct), missing, dtype=object)
    inside = np.flatnonzero(
        (distinct > max(_LEAST, float_format.smallest))
        & (distinct < min(_MOST, float_format.largest))
    )
    numbers = distinct[inside]
    is_short, short_texts = _short_texts(numbers, float_format)
    texts[inside[is_short]] = short_texts
    texts[inside[~is_short]] = _long_texts(
        numbers[~is_short], 2 + float_format.precision * 59 // 196
    )
    all_texts = texts[positions.ravel()]
    return all_texts.tolist(), np.flatnonzero(all_texts == missing).tolist()


@cache
def _powers(base: int) -> NDArray[object_]:
    """Return the first 200 powers of a base as Python integers."""
    import numpy as np

    powers = np.empty(200, dtype=object)
    powers[:] = [base**exponent for exponent in range(200)]
    return powers


@cache
def _small_powers_of_10() -> Integers:
    import numpy as np

    return 10 ** np.arange(19, dtype=np.int64)


def _digit_count(integers: Integers) -> Integers:
    import numpy as np

    return np.searchsorted(_small_powers_of_10(), integers, side="right")


def _digits_in_bulk(values: Floats, count: int) -> tuple[Integers, Integers]:
    """
    Return at most `count` decimal digits of each positive number as an integer, and the
    power of ten of the last digit, as `APFloat::toString` computes them.
    """
    import numpy as np

    fractions, binary_exponents = np.frexp(values)
    significands = np.ldexp(fractions, 53).astype(np.int64)
    lowest_bits = (significands & -significands).astype(np.float64)
    zeros = np.frexp(lowest_bits)[1] - 1
    exponents = binary_exponents.astype(np.int64) - 53 + zeros
    negative = np.maximum(-exponents, 0)
    positive = np.maximum(exponents, 0)
    exact = (significands >> zeros).astype(object) * _powers(5)[negative]
    exact *= _powers(2)[positive]
    bits = np.fromiter(map(int.bit_length, exact), np.int64, len(exact))
    needed_bits = (count * 196 + 58) // 59
    removable = np.maximum((bits - needed_bits) * 59 // 196, 0)
    integers = (exact // _powers(10)[removable]).astype(np.int64)
    excess = np.maximum(_digit_count(integers) - count, 0)
    divisors = _small_powers_of_10()[excess]
    digits, dropped = np.divmod(integers, divisors)
    # Round half up; nothing is dropped if the divisor is 1.
    digits += (2 * dropped >= divisors) & (excess > 0)
    return digits, removable + excess - negative


def _formatted(template: str, *columns: Integers) -> list[str]:
    """Return one text per row: the `%` template, filled with the row of the columns."""
    import numpy as np

    rows = np.column_stack(columns)
    return (f"{template}\n" * len(rows) % tuple(rows.ravel().tolist())).splitlines()


def _short_texts(
    numbers: Floats, float_format: FloatFormat
) -> tuple[NDArray[bool_], NDArray[object_]]:
    """Return a mask of the numbers that six digits represent, and the texts for these."""
    import numpy as np

    is_short = _are_nearly_short(numbers, float_format)
    candidates = numbers[is_short]
    digits, exponents = _digits_in_bulk(candidates, _SHORT_DIGITS)
    counts = _digit_count(digits)
    digits *= _small_powers_of_10()[_SHORT_DIGITS + 1 - counts]
    leading, fraction = np.divmod(digits, 10**_SHORT_DIGITS)
    texts = _formatted("%d.%06de%+03d", leading, fraction, exponents + counts - 1)
    read_back = _nearest_texts(map(float, texts), float_format) == candidates
    is_short[is_short] = read_back
    return is_short, np.array(texts, dtype=object)[read_back]


def _are_nearly_short(values: Floats, float_format: FloatFormat) -> NDArray[bool_]:
    """Return a mask of the numbers that six digits represent, and maybe of others."""
    import numpy as np

    powers = np.floor(np.log10(values))
    scaled = values * 10.0 ** (_SHORT_DIGITS - 1 - powers)
    tolerance = 2.0 ** (1 - min(float_format.precision, 50))
    nearly: NDArray[bool_] = np.abs(scaled - np.rint(scaled)) <= scaled * tolerance
    return nearly


def _nearest_texts(values: Iterable[float], float_format: FloatFormat) -> Floats:
    from array import array

    import numpy as np

    return np.frombuffer(float_format.nearest_all(array("d", values)))


def _long_texts(numbers: Floats, count: int) -> NDArray[object_]:
    """Return texts of up to `count` digits; empty if MLIR's text has no decimal point."""
    import numpy as np

    digits, exponents = _digits_in_bulk(numbers, count)
    counts = _digit_count(digits)
    powers = exponents + counts - 1
    is_scientific = powers < -3
    decimals = np.where(is_scientific, counts - 1, -exponents)
    divisors = _small_powers_of_10()[np.clip(decimals, 0, 18)]
    whole, fraction = np.divmod(digits, divisors)
    texts = _formatted("%d.%0*d", whole, np.maximum(decimals, 0), fraction)
    stripped = map(str.rstrip, texts, repeat("0"))
    plain = np.fromiter(stripped, dtype=object, count=len(texts))
    has_no_fraction = np.fromiter(
        map(str.endswith, plain, repeat(".")), dtype=np.bool_, count=len(texts)
    )
    suffixes = map("E%+d".__mod__, powers[is_scientific].tolist())
    plain[is_scientific] += np.fromiter(
        suffixes, dtype=object, count=np.count_nonzero(is_scientific)
    )
    plain[has_no_fraction | (decimals <= 0)] = ""
    return plain
