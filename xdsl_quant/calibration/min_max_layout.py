"""
The smallest and largest values of all keys, side by side in one array, so that one call of
NumPy is for all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.observers import BatchMinMaxObserver

from .statistics import KeyObservation

_MAX_POSITIONS = 1 << 17
"""Most positions of all batches that are kept before they are merged."""

_MAX_BATCHES = 1 << 10
"""Most batches that are kept: with few positions, other things take more memory."""


@dataclass(frozen=True)
class MinMaxLayout:
    """Maps each key to its slice of the min/max array."""

    keys: tuple[str, ...]

    shapes: tuple[tuple[int, ...], ...]
    """Those of the values of each key, with negative numbers for dynamic sizes."""

    axes: tuple[int | None, ...]
    """
    For each key the dimension of the channels, if there is a range for each of them. The
    dimension need not exist.
    """

    @cached_property
    def counts(self) -> Sequence[int]:
        """For each key the number of positions: 0 if it has no known number of channels."""
        return [*map(_count, self.shapes, self.axes)]

    @cached_property
    def positions(self) -> Sequence[int]:
        """The position of each key, or of its first channel."""
        return [*accumulate(self.counts, initial=0)][:-1]

    @cached_property
    def max_batches(self) -> int:
        """Of how many batches there should be arrays at most before they are merged."""
        return max(1, min(_MAX_BATCHES, _MAX_POSITIONS // max(1, sum(self.counts))))

    def empty(self) -> NDArray[np.float64]:
        """
        Return the array of no values at all: smallest values, and then the largest.
        """
        return self._empty.copy()

    @cached_property
    def _empty(self) -> NDArray[np.float64]:
        return np.array([[np.inf], [-np.inf]]).repeat(sum(self.counts), axis=1)

    def observations(
        self,
        observer: BatchMinMaxObserver,
        batches: Sequence[int],
        arrays: Sequence[NDArray[np.float64]],
    ) -> Iterator[tuple[str, KeyObservation]]:
        """
        What was observed under each key that has values.

        Args:
            observer: what makes observations of min/max.
            batches: the numbers of batches.
            arrays: the min/max array of each batch.
        """
        # With 0.0 added there is no -0.0, which would depend on the order.
        lows, highs = np.stack(arrays, axis=1) + 0.0
        numbers = np.array(batches)
        fields = zip(self.keys, self.axes, self.positions, self.counts, strict=True)
        for key, axis, first, count in fields:
            is_reached = (lows[:, first : first + count] < np.inf).any(axis=1)
            if not is_reached.any():
                continue
            mine = first if axis is None else slice(first, first + count)
            observation = observer.observe_min_max(
                lows[is_reached, mine], highs[is_reached, mine], numbers[is_reached]
            )
            yield key, KeyObservation(axis, observation)


def _count(shape: tuple[int, ...], axis: int | None) -> int:
    if axis is None:
        return 1
    return max(0, shape[axis]) if 0 <= axis < len(shape) else 0
