"""
Codecs of non-integer storage: small floats, and indices into a table.

Numbers are rounded to the nearest representable number. Ties go to the even code for
floats, and to the smaller index for tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.rounding_mode import NanResult, RepresentedNumbers

from .arrays import Array, DType, Floats, counts_below
from .float_dtypes import rounded
from .small_floats import SmallFloat

if TYPE_CHECKING:
    from .parameters import QuantizationParameters


class Codec(ABC):
    """Conversion of numbers (expressed value / scale) to stored values, and back."""

    limits: tuple[float, float]
    """Smallest and largest number that does not saturate."""

    numbers: Floats
    """Numbers represented by stored values in the storage range, in ascending order."""

    @abstractmethod
    def store(self, numbers: Array, out: Array) -> None:
        """Write stored values to `out`. `numbers` is one-dimensional and overwritten."""

    @abstractmethod
    def load(self, stored: Array, out: Array) -> None:
        """Write to `out` the exact numbers that stored values represent."""


class FloatCodec(Codec):
    """Codec of a small float."""

    def __init__(self, format: SmallFloat, storage_range: tuple[int, int], nan: float):
        """
        Args:
            format: the small float.
            storage_range: the smallest and the largest number to store, as integers.
            nan: the number that replaces NaN, clamped to the storage range.
        """
        self.format = format
        numbers = np.unique(format.values[np.isfinite(format.values)])
        low, high = float_bounds(format, storage_range)
        self.bounds = low, high
        self.numbers = numbers[(numbers >= low) & (numbers <= high)].astype(np.float64)
        self._nan = min(max(nan, low), high)
        first, last = np.searchsorted(numbers, (low, high))
        all_numbers = numbers.tolist()
        step = all_numbers[1] - all_numbers[0]
        ends = all_numbers[0] - step, *all_numbers, all_numbers[-1] + step
        self.limits = (low + ends[first]) / 2, (high + ends[last + 2]) / 2

    def store(self, numbers: Array, out: Array) -> None:
        low, high = self.bounds
        np.copyto(numbers, self._nan, where=np.isnan(numbers))
        np.clip(numbers, low, high, out=numbers)
        if not low or not high:
            # Clamping to a bound of 0 may return -0, which this sum replaces by 0.
            numbers += 0.0
        out.view(np.uint8)[...] = self.format.encode(numbers).reshape(out.shape)

    def load(self, stored: Array, out: Array) -> None:
        np.copyto(out, self.format.values[stored.view(np.uint8)])


def float_bounds(
    format: SmallFloat, storage_range: tuple[int, int]
) -> tuple[float, float]:
    """
    Return the smallest and the largest number of a format in a storage range.

    The bounds of the range are integers. A bound that equals the largest integer of the
    format excludes no number, even if the largest number is not an integer.
    """
    low, high = storage_range
    largest = int(format.largest)
    numbers = format.values[np.isfinite(format.values)]
    if low > -largest:
        numbers = numbers[numbers >= low]
    if high < largest:
        numbers = numbers[numbers <= high]
    return float(numbers.min()), float(numbers.max())


class TableCodec(Codec):
    """Codec of indices into a table."""

    def __init__(self, parameters: QuantizationParameters, dtype: DType, nan: int):
        """
        Args:
            parameters: the parameters with the table and the storage range.
            dtype: the float type of the quotients.
            nan: the index stored for NaN, clamped to the storage range.
        """
        table, first = parameters.table, parameters.table_min
        assert table is not None
        self._table = rounded(table, dtype).astype(np.float64)
        self._first = first
        self._nan = min(max(nan, parameters.storage_min), parameters.storage_max)
        part = slice(parameters.storage_min - first, parameters.storage_max - first + 1)
        self._starts, indices = nearest_steps(self._table[part], dtype)
        self._indices = (indices + parameters.storage_min).astype(
            parameters.storage_dtype
        )
        self.numbers = np.unique(self._table[part])
        self.limits = float(self.numbers[0]), float(self.numbers[-1])

    def store(self, numbers: Array, out: Array) -> None:
        indices = self._indices.take(counts_below(self._starts, numbers))
        np.copyto(indices, self._nan, where=np.isnan(numbers))
        out[...] = indices.reshape(out.shape)

    def load(self, stored: Array, out: Array) -> None:
        np.copyto(out, self._table[stored.astype(np.int64) - self._first])


def codec_of(
    parameters: QuantizationParameters,
    dtype: DType,
    nan: NanResult = "storage-min",
) -> Codec | None:
    """
    Return the storage codec, or `None` for integer storage.

    Args:
        parameters: the parameters with the storage type.
        dtype: the float type of the quotients.
        nan: the stored value of NaN.
    """
    storage_range = parameters.storage_min, parameters.storage_max
    is_zero = nan == "stored-zero"
    if (format := parameters.small_float) is not None:
        # `-np.inf`, because the smallest number may be less than the integer bound.
        return FloatCodec(format, storage_range, 0 if is_zero else -np.inf)
    if parameters.table is not None:
        return TableCodec(parameters, dtype, 0 if is_zero else parameters.storage_min)
    return None


def number_range(parameters: QuantizationParameters) -> tuple[float, float]:
    """Return the smallest and the largest number that the storage range represents."""
    storage_range = parameters.storage_min, parameters.storage_max
    if (format := parameters.small_float) is not None:
        return float_bounds(format, storage_range)
    if parameters.table is None:
        return storage_range
    first, last = (bound - parameters.table_min for bound in storage_range)
    numbers = parameters.table[first : last + 1]
    return float(numbers.min()), float(numbers.max())


def represented_numbers(parameters: QuantizationParameters) -> RepresentedNumbers:
    """
    Return bounds, unit and precision of the represented numbers: the integers in the
    storage range, or all numbers of a float format or table, also outside the storage
    range.
    """
    if (format := parameters.small_float) is not None:
        numbers = format.values[np.isfinite(format.values)].astype(np.float64)
    elif parameters.table is not None:
        numbers = parameters.table
    else:
        return RepresentedNumbers.integers(
            (parameters.storage_min, parameters.storage_max)
        )
    fractions, exponents = np.frexp(numbers[numbers != 0])
    integers = np.ldexp(fractions, 53).astype(np.int64)
    _, lowest = np.frexp((integers & -integers).astype(np.float64))
    return RepresentedNumbers(
        float(numbers.min()),
        float(numbers.max()),
        unit=float(np.ldexp(1.0, int((exponents - 54 + lowest).min(initial=0)))),
        precision=int((54 - lowest).max(initial=0)),
    )


def nearest_steps(table: Floats, dtype: DType) -> tuple[Floats, NDArray[np.int64]]:
    """
    Return the step function that maps a number to the index of the nearest table entry.

    Args:
        table: finite numbers in any order, representable in `dtype`.
        dtype: the float type of the function's argument.

    Returns:
        the largest number of `dtype` below each step, in ascending order; and the table
            index below the first step and above each step. Ties go to the smaller index.
    """
    numbers, indices = np.unique(table, return_index=True)
    is_up = np.diff(indices) < 0
    with np.errstate(over="ignore"):
        # Numbers whose sum overflows are so large that their halves are exact.
        unit = np.where(np.isinf(numbers[1:] + numbers[:-1]), 0.5, 1.0)
        sums, errors = _exact_sum(numbers[1:] * unit, numbers[:-1] * unit)
        # The largest number below a step is the rounded midpoint or the next smaller
        # number, because rounding is monotonic.
        last = rounded(sums / (2 * unit), dtype)
        excess = last.astype(np.float64) * (2 * unit) - sums
    # Rounded excesses compare correctly: they are exact if as small as an error.
    is_too_large = (excess > errors) | ((excess == errors) & is_up)
    last[is_too_large] = np.nextafter(last[is_too_large], dtype.type(-np.inf))
    return last.astype(np.float64), indices.astype(np.int64)


def _exact_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """
    Return sums and their rounding errors: Dekker's Fast2Sum (1971).

    Intermediate results overflow only if the sum does.
    """
    is_larger = np.abs(a) > np.abs(b)
    large, small = np.where(is_larger, a, b), np.where(is_larger, b, a)
    sums = a + b
    return sums, small - (sums - large)
