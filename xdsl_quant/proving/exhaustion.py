"""
Exhaustive tests of a cast in compiled code and in `numerics`.

Quantization to nearest is monotonic, so it is a step function, with 255 steps for 8-bit
storage. Bisection of the formula finds the floats at which the result changes; the
formula need not be evaluated for the floats in between.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Bits = NDArray[np.unsignedinteger]

_CHUNK = 1 << 22
"""Number of inputs in memory at a time, per thread."""


@dataclass(frozen=True)
class FloatOrder:
    """Order of the values of a float type: -inf (position 0) to inf, then all NaNs."""

    exponent_bits: int
    precision: int

    @property
    def width(self) -> int:
        return self.exponent_bits + self.precision

    @property
    def infinity(self) -> int:
        return (1 << self.exponent_bits) - 1 << self.precision - 1

    @property
    def count(self) -> int:
        """Number of floats that are not NaN, including both zeros."""
        return 2 * (self.infinity + 1)

    def bits(self, start: int, stop: int) -> Bits:
        """Return the bits of the floats from position `start` to `stop` (exclusive)."""
        half, sign = self.infinity + 1, 1 << self.width - 1
        # From -inf to -0, from 0 to inf, positive and negative NaNs.
        runs = (
            (half, sign + half - 1, -1),
            (half, 0, 1),
            (sign - half, half, 1),
            (sign - half, sign + half, 1),
        )
        parts: list[Integers] = []
        for size, first, step in runs:
            low, high = max(start, 0), min(stop, size)
            if low < high:
                parts.append(np.arange(first + step * low, first + step * high, step))
            start, stop = start - size, stop - size
        return np.concatenate(parts).astype(f"u{self.width // 8}")


@dataclass(frozen=True)
class StepFunction:
    """Monotonic function from floats to integers."""

    order: FloatOrder
    starts: Integers
    """Positions of the floats at which the result changes; the first is 0."""

    results: Integers
    """Result for the floats from each start to the next start (exclusive)."""

    nan: int
    """Result for NaN."""

    @staticmethod
    def of(order: FloatOrder, function: Callable[[int], int]) -> StepFunction:
        """
        Find the steps of a monotonic function.

        Args:
            order: order of the function's arguments.
            function: returns the integer for the bits of a float.
        """

        def value(place: int) -> int:
            return function(int(order.bits(place, place + 1)[0]))

        first, last = value(0), value(order.count - 1)
        found = {0: first}
        pending = [(0, first, order.count - 1, last)]
        while pending:
            low, below, high, above = pending.pop()
            if below == above:
                continue
            if high - low == 1:
                found[high] = above
                continue
            middle = (low + high) // 2
            between = value(middle)
            pending += [(low, below, middle, between), (middle, between, high, above)]
        starts = np.array(sorted(found))
        results = np.array([found[start] for start in starts.tolist()])
        return StepFunction(order, starts, results, value(order.count))

    def values(
        self, start: int, stop: int, dtype: np.dtype[np.integer]
    ) -> NDArray[np.integer]:
        """Return the results at positions `start` (inclusive) to `stop` (exclusive)."""
        first, end = map(int, np.searchsorted(self.starts, [start, stop - 1], "right"))
        edges = np.append(self.starts[first - 1 : end], stop)
        edges[0] = start
        results = self.results[first - 1 : end].astype(dtype)
        found = np.repeat(results, np.diff(edges))
        found[max(self.order.count - start, 0) :] = self.nan
        return found


def first_difference(
    steps: StepFunction,
    function: Callable[[Bits], NDArray[np.integer]],
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> tuple[int, int, int] | None:
    """
    Return the bits, the actual result and the expected result of the first float whose
    result is wrong; `None` if no result is. Several threads share the work.

    Args:
        steps: expected results.
        function: returns the results for bits of floats; several threads call it.
        progress: wraps the iteration over chunks.
    """
    total = 1 << steps.order.width

    def compared(start: int) -> tuple[int, int, int] | None:
        stop = min(start + _CHUNK, total)
        bits = steps.order.bits(start, stop)
        found = function(bits)
        expected = steps.values(start, stop, found.dtype)
        if np.array_equal(found, expected):
            return None
        place = int(np.argmax(found != expected))
        return int(bits[place]), int(found[place]), int(expected[place])

    with ThreadPoolExecutor(os.cpu_count()) as executor:
        for found in executor.map(compared, progress(range(0, total, _CHUNK))):
            if found is not None:
                return found
    return None


# Former name, kept for compatibility.
Steps = StepFunction
