"""Execution of a function on one batch, with an observer of its values."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.arrays import Array, check_unmasked
from xdsl_quant.numerics.observers import BatchMinMaxObserver, Observer
from xdsl_quant.runtime.batches import Arguments, Batch, as_tuple
from xdsl_quant.runtime.loading import parse_module

from .instrumented_function import InstrumentedFunction
from .min_max_layout import MinMaxLayout
from .statistics import KeyObservation

NumberedBatch = tuple[int, Batch]
"""Index of a batch, and the batch."""


_ADVICE = (
    "; leave out the sample, or select other keys with the options 'ops=' or 'keys=' of "
    "quant-insert-stats-refs"
)
"""Advice for a value that is empty or not finite."""


class _ObservationError(ValueError):
    """Raised if values of a key cannot be observed; the message names the key."""


@dataclass
class BatchObservation:
    """Observations of one batch."""

    batch: int
    """Index of the batch."""

    min_max: NDArray[np.float64]
    """Min/max of the values recorded only by min/max, ordered as in `BatchTask.layout`."""

    observations: dict[str, KeyObservation] = field(
        default_factory=dict[str, KeyObservation]
    )
    """Observations of recorded values, by key."""

    digest: str = ""
    """Digest of the arguments, if there is a checkpoint."""


@dataclass(frozen=True)
class _Recorder:
    """Receiver of the values of one batch; merges the observations for a key."""

    task: BatchTask

    observed: BatchObservation

    def needs(self, key: str) -> bool:
        return True

    def record(self, key: str, value: Array) -> None:
        task, batch = self.task, self.observed.batch
        known = self.observed.observations
        try:
            observation = KeyObservation.of(
                value, task.axes.get(key), task.observer, batch, task.histograms
            )
            if (before := known.get(key)) is not None:
                observation = before.extend(observation)
        except ValueError as e:
            advice = "" if value.size and np.isfinite(value).all() else _ADVICE
            raise _ObservationError(f"key '{key}': {e}{advice}") from None
        known[key] = observation

    def reduce_min_max(
        self, positions: NDArray[np.intp], min_max: NDArray[np.float64]
    ) -> None:
        if not (min_max[0] <= min_max[1]).all():
            raise _ObservationError("run again with whole values for the key")
        lows, highs = self.observed.min_max
        # Positions may repeat, so `lows[positions]` would lose values.
        np.minimum.at(lows, positions, min_max[0])
        np.maximum.at(highs, positions, min_max[1])


@dataclass(frozen=True)
class BatchTask:
    """Picklable task that runs the function on a batch and observes its values."""

    function: InstrumentedFunction

    observer: Observer

    axes: Mapping[str, int]
    """Channel dimension by key, for keys with per-channel ranges."""

    histograms: bool
    """True to collect a histogram in addition to observations of other kinds."""

    digests: bool
    """True to compute digests of the arguments."""

    @cached_property
    def layout(self) -> MinMaxLayout:
        """Layout of the min/max array."""
        keys = self.function.keys
        return MinMaxLayout(keys, self.function.shapes, tuple(map(self.axes.get, keys)))

    def __call__(self, batch: int, arguments: Batch) -> BatchObservation:
        try:
            observed = self._observed(batch, as_tuple(arguments))
        except _ObservationError as e:
            raise ValueError(f"batch {batch}, {e}") from None
        except (TypeError, ValueError) as e:
            kind = TypeError if isinstance(e, TypeError) else ValueError
            raise kind(f"batch {batch}: {e}") from None
        if self.digests:
            observed.digest = digest_of(arguments)
        return observed

    def _observed(self, batch: int, arguments: Arguments) -> BatchObservation:
        if isinstance(self.observer, BatchMinMaxObserver) and not self.histograms:
            # After an error, run again with whole values: their error names the key.
            with suppress(_ObservationError):
                return self._run(batch, arguments, self.layout)
        return self._run(batch, arguments, None)

    def _run(
        self, batch: int, arguments: Arguments, layout: MinMaxLayout | None
    ) -> BatchObservation:
        observed = BatchObservation(batch, self.layout.empty())
        sizes = [*map(math.prod, self.function.shapes)]
        # The compilation of thousands of ops takes longer than a few interpreted runs,
        # unless values are large.
        brief = batch < 16 and len(sizes) > 512 and max(sizes) <= 1024
        self.function.runnable(layout, brief)(_Recorder(self, observed), arguments)
        return observed

    def digest(self) -> str:
        """Return a digest of this task that does not depend on source locations."""
        axes = sorted(self.axes.items())
        module = parse_module(self.function.text)
        text = f"{module}\n{self.function.name}\n{self.function.keys}\n{axes}"
        return hashlib.sha256(text.encode()).hexdigest()


def digest_of(batch: Batch) -> str:
    """
    Return a digest of the arguments of a batch.

    Raises:
        TypeError, ValueError: if arguments are not arrays, numbers or number lists, or
            are masked.
    """
    digest = hashlib.blake2b()
    for argument in as_tuple(batch):
        check_unmasked(argument, "an argument")
        array = np.asarray(argument)
        digest.update(f"{array.shape} {array.dtype}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
