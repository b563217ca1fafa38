"""Running a function on one batch and observing its values."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xdsl_quant.numerics.arguments import check_unmasked
from xdsl_quant.numerics.observers import EndsObserver, Observer
from xdsl_quant.runtime.loading import parse_module

from .ends import EndsLayout
from .instrumented_function import InstrumentedFunction
from .statistics import KeyObservation

Batch = ArrayLike | tuple[ArrayLike, ...]
"""The arguments of a function: a tuple, or the only one of them."""


NumberedBatch = tuple[int, Batch]
"""A batch and its number."""


_ADVICE = (
    "; leave out the sample, or select other keys with the options 'ops=' or 'keys=' of "
    "quant-insert-stats-refs"
)
"""What to do with a value that has no range."""


class _ObservationError(ValueError):
    """What is wrong with the values of a key, which the message names."""


class _UnclearEndsError(ValueError):
    """There are ends that are no range, and no values to tell why."""


@dataclass(frozen=True)
class _Recorder:
    """Observes the values of one batch. Values that a key has in turn belong together."""

    task: BatchTask
    batch: int
    ends: NDArray[np.float64]
    """Those of the values of which no more is seen."""

    seen: dict[str, KeyObservation] = field(default_factory=dict[str, KeyObservation])
    """What was observed of others."""

    def see(self, key: str, value: NDArray[Any]) -> None:
        task = self.task
        try:
            observed = KeyObservation.of(
                value, task.axes.get(key), task.observer, self.batch, task.histograms
            )
            if (before := self.seen.get(key)) is not None:
                observed = before.extend(observed)
        except ValueError as e:
            advice = "" if value.size and np.isfinite(value).all() else _ADVICE
            raise _ObservationError(f"key '{key}': {e}{advice}") from None
        self.seen[key] = observed

    def see_ends(self, positions: NDArray[np.intp], ends: NDArray[np.float64]) -> None:
        if not (ends[0] <= ends[1]).all():
            raise _UnclearEndsError("ends are no range")
        # A position may occur twice.
        np.minimum.at(self.ends[0], positions, ends[0])
        np.maximum.at(self.ends[1], positions, ends[1])


class Seen(NamedTuple):
    """What was seen in one batch."""

    batch: int

    ends: NDArray[np.float64]

    observations: dict[str, KeyObservation]

    digest: str
    """That of the batch, if there is a checkpoint."""


@dataclass(frozen=True)
class BatchTask:
    """What is done with each batch. It can be sent to workers."""

    function: InstrumentedFunction

    observer: Observer

    axes: Mapping[str, int]
    """The dimension of the channels, for keys that have a range for each."""

    histograms: bool
    """Whether values are counted in histograms, if the observer does not do so itself."""

    digests: bool
    """Whether the arguments have digests."""

    @cached_property
    def layout(self) -> EndsLayout:
        """Where the ends of values are of which no more is needed."""
        keys = self.function.keys
        axes = [self.axes.get(key) for key in keys]
        return EndsLayout.of(keys, self.function.shapes, axes)

    def __call__(self, batch: int, arguments: Batch) -> Seen:
        try:
            recorder = self._recorded(batch, arguments)
        except _ObservationError as e:
            raise ValueError(f"batch {batch}, {e}") from None
        except TypeError as e:
            raise TypeError(f"batch {batch}: {e}") from None
        except ValueError as e:
            raise ValueError(f"batch {batch}: {e}") from None
        digest = digest_of(arguments) if self.digests else ""
        return Seen(batch, recorder.ends, recorder.seen, digest)

    def _recorded(self, batch: int, arguments: Batch) -> _Recorder:
        if not isinstance(arguments, tuple):
            arguments = (arguments,)
        if isinstance(self.observer, EndsObserver) and not self.histograms:
            try:
                return self._run(batch, arguments, self.layout)
            except (_UnclearEndsError, _ObservationError):
                # The values tell what is wrong with them, in the order of the keys.
                pass
        return self._run(batch, arguments, None)

    def _run(
        self, batch: int, arguments: tuple[ArrayLike, ...], layout: EndsLayout | None
    ) -> _Recorder:
        recorder = _Recorder(self, batch, self.layout.nothing_seen())
        self.function.runnable(layout)(recorder, arguments)
        return recorder

    def digest(self) -> str:
        """What tells this task from others, wherever the module is."""
        axes = sorted(self.axes.items())
        module = parse_module(self.function.text)
        text = f"{module}\n{self.function.name}\n{self.function.keys}\n{axes}"
        return hashlib.sha256(text.encode()).hexdigest()


def digest_of(batch: Batch) -> str:
    """
    What tells the arguments of a batch from others.

    Raises:
        TypeError, ValueError: if they are no arrays, numbers or lists of numbers, or are
            masked.
    """
    digest = hashlib.blake2b()
    for argument in batch if isinstance(batch, tuple) else (batch,):
        check_unmasked(argument, "an argument")
        array = np.asarray(argument)
        digest.update(f"{array.shape} {array.dtype}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
