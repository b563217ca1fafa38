"""Layout of an array with the min/max of all keys, so that NumPy merges them at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.observers import BatchMinMaxObserver

from .statistics import KeyObservation

_MAX_POSITIONS = 1 << 17
"""Maximum number of array positions, summed over batches, to merge at once."""

_MAX_BATCHES = 1 << 10
"""Maximum number of batches to merge at once; limits memory."""


@dataclass(frozen=True)
class MinMaxLayout:
    """Mapping from keys to slices of the min/max array."""

    keys: tuple[str, ...]

    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the values in the order of `keys`; dynamic sizes are negative."""

    axes: tuple[int | None, ...]
    """Channel dimension by key, not checked against the rank; `None` for one range."""

    @cached_property
    def counts(self) -> Sequence[int]:
        """Number of array positions by key; 0 if the number of channels is unknown."""
        return [*map(_count, self.shapes, self.axes)]

    @cached_property
    def positions(self) -> Sequence[int]:
        """Array position of each key, or of its first channel."""
        return [*accumulate(self.counts, initial=0)][:-1]

    @cached_property
    def max_batches(self) -> int:
        """Maximum number of batches to merge at once."""
        return max(1, min(_MAX_BATCHES, _MAX_POSITIONS // max(1, sum(self.counts))))

    def empty(self) -> NDArray[np.float64]:
        """Return the array for no values: all minima `inf`, all maxima `-inf`."""
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
        Yield the observations of the keys that have values.

        Args:
            observer: observer of min/max.
            batches: numbers of the batches.
            arrays: min/max array of each batch.
        """
        # Adding 0.0 removes -0.0, which would depend on the order of values.
        lows, highs = np.stack(arrays, axis=1) + 0.0
        numbers = np.array(batches)
        fields = zip(self.keys, self.axes, self.positions, self.counts, strict=True)
        for key, axis, first, count in fields:
            is_reached = (lows[:, first : first + count] < np.inf).any(axis=1)
            if not is_reached.any():
                continue
            key_slice = first if axis is None else slice(first, first + count)
            observation = observer.observe_min_max(
                lows[is_reached, key_slice],
                highs[is_reached, key_slice],
                numbers[is_reached],
            )
            yield key, KeyObservation(axis, observation)


def _count(shape: tuple[int, ...], axis: int | None) -> int:
    if axis is None:
        return 1
    return max(0, shape[axis]) if 0 <= axis < len(shape) else 0
