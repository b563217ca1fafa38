"""
Stored values that do not stand for themselves: codes of small floats, and indices of a
table of numbers.

A number becomes the nearest one that has a code. Of two that are equally near it is the
one with the even code for floats, and the one with the smaller index for tables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.rounding_mode import NanResult

from .arrays import Array, Floats
from .float_dtypes import rounded
from .small_floats import SmallFloat

if TYPE_CHECKING:
    from .parameters import QuantizationParameters


class Codec(ABC):
    """How numbers, which are quotients of expressed values and scales, are stored."""

    limits: tuple[float, float]
    """The numbers beyond which a number does not become the one that is nearest to it."""

    numbers: Floats
    """What stored values of the storage range stand for, in ascending order."""

    @abstractmethod
    def store(self, numbers: Array, out: Array) -> None:
        """Write the stored values of a one-dimensional array, which is overwritten."""

    @abstractmethod
    def load(self, stored: Array, out: Array) -> None:
        """Write the numbers that stored values stand for; all are exact."""


class FloatCodec(Codec):
    """Codes of a small float."""

    def __init__(self, format: SmallFloat, storage_range: tuple[int, int], nan: float):
        """
        Args:
            format: the small float.
            storage_range: smallest and largest stored number.
            nan: the number in place of NaN.
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
            # Either of both zeros may be the limit of the other one.
            numbers += 0.0
        out.view(np.uint8)[...] = self.format.encode(numbers).reshape(out.shape)

    def load(self, stored: Array, out: Array) -> None:
        np.copyto(out, self.format.values[stored.view(np.uint8)])


def float_bounds(
    format: SmallFloat, storage_range: tuple[int, int]
) -> tuple[float, float]:
    """
    The smallest and the largest number of a format in a storage range.

    A range that cannot be larger stands for all numbers, also if the largest of them is
    no integer.
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
    """Indices of a table."""

    def __init__(
        self, parameters: QuantizationParameters, dtype: np.dtype[Any], nan: int
    ):
        """
        Args:
            parameters: what says which table and storage range it is.
            dtype: the float type that numbers have.
            nan: the index that is stored for NaN.
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
        indices = self._indices[np.searchsorted(self._starts, numbers)]
        indices[np.isnan(numbers)] = self._nan
        out[...] = indices.reshape(out.shape)

    def load(self, stored: Array, out: Array) -> None:
        np.copyto(out, self._table[stored.astype(np.int64) - self._first])


def codec_of(
    parameters: QuantizationParameters,
    dtype: np.dtype[Any],
    nan: NanResult = "storage-min",
) -> Codec | None:
    """
    How numbers are stored; `None` if they are rounded to integers.

    Args:
        parameters: what says which storage it is.
        dtype: the float type that numbers have.
        nan: what NaN becomes.
    """
    storage_range = parameters.storage_min, parameters.storage_max
    number = 0 if nan == "stored-zero" else parameters.storage_min
    if (format := parameters.small_float) is not None:
        return FloatCodec(format, storage_range, number)
    if parameters.table is not None:
        return TableCodec(parameters, dtype, number)
    return None


def nearest_steps(
    table: Floats, dtype: np.dtype[Any]
) -> tuple[Floats, NDArray[np.int64]]:
    """
    Which number of a table is nearest, as a function with steps.

    Args:
        table: finite numbers in any order, which are numbers of `dtype`.
        dtype: the float type of what is looked for.

    Returns:
        the numbers of `dtype`, in ascending order, that are the last ones before a step;
        and the index of the nearest number before the first step, after it, and so on. Of
        two that are equally near it is the smaller index.
    """
    numbers, indices = np.unique(table, return_index=True)
    steps: list[float] = []
    for (low, high), is_up in zip(
        pairwise(numbers.tolist()), np.diff(indices) < 0, strict=True
    ):
        middle = (Fraction(low) + Fraction(high)) / 2
        last = rounded(np.array(float(middle)), dtype)
        value = Fraction(float(last))
        if value > middle or (value == middle and is_up):
            last = np.nextafter(last, dtype.type(-np.inf))
        steps.append(float(last))
    return np.array(steps, np.float64), indices.astype(np.int64)
