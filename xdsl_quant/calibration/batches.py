"""Running a function on batches, here or on workers, with a checkpoint."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.loading import parse_module
from xdsl_quant.numerics.observations import Histogram
from xdsl_quant.numerics.observers import Observer, parse_observer

from .instrumented_function import InstrumentedFunction
from .statistics import KeyObservation, Statistics, read_content

Batch = ArrayLike | tuple[ArrayLike, ...]
"""The arguments of a function: a tuple, or the only one of them."""

_MAX_WAITING = 32
"""Batches that are with the workers at once."""

_CHECKPOINT_SECONDS = 10.0
"""From one checkpoint to the next. There is always one at the end, also after an error."""


def calibrate(
    module: ModuleOp | str,
    batches: Iterable[Batch],
    entry: str | None = None,
    observer: str = "min-max",
    *,
    axes: Mapping[str, int] | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    histograms: bool = False,
    missing: Literal["error", "keep"] = "error",
) -> Statistics:
    """
    Run a function with `quant.stats_ref` ops on batches, and gather the ranges of their
    values. It is compiled if the extra `mlir` is installed, and interpreted otherwise.

    Values are looked at where they are computed. A key may have several in a batch, if it
    is in a loop or in a function that is called more than once: they count as one larger
    value. In a batch that does not get there, it has none.

    All other ops for instrumentation are identities, but fake quantization rounds: to
    exactly as many bits as it says.

    Statistics do not depend on the number of workers. Those of all observers but
    `moving-average` do not depend on the order of the batches either.

    Args:
        module: a module, which is not changed, or its text.
        batches: for each batch a tuple of the arguments of the function, or the only
            argument. A generator is asked for a batch when there is a worker for it.
        entry: the name of the function; by default the only public one, or `main`.
        observer: `min-max`, `moving-average=0.9`, `percentile=99.99`, `entropy=8` or
            `mse=8`; see [`observers`][xdsl_quant.numerics.observers].
        axes: for keys whose channels have a range each, the dimension of the channels.
        executor: runs batches, each in a call of a function that can be pickled, with
            arguments that can be.
        checkpoint: a file from which an interrupted run is resumed, if it is there: as many
            batches as it has seen are skipped. It must be of the same module, function and
            options, and these batches must be the same, too.
        histograms: whether values are counted in histograms, too, for a report with an
            observer that has none itself. They take 32 KB for each channel and do not
            change ranges.
        missing: what if no batch has a value for a key: `keep` the statistics without it.

    Raises:
        ValueError: if a batch has NaN or infinite values, which the message says where; if
            there are no batches; if no batch has a value for a key, unless `missing` is
            `keep`; if a `quant.stats_ref` is at a place of which there are no statistics;
            if the function cannot be run; if the checkpoint is of another run.
        TypeError: if `batches` is no iterable, or arguments of the function are wrong.
        OSError: if the checkpoint cannot be read or written.
    """
    if isinstance(module, str):
        module = parse_module(module)
    parse_observer(observer)
    axes = dict(axes or {})
    function = InstrumentedFunction.of(module, entry)
    if unknown := sorted(axes.keys() - set(function.keys)):
        raise ValueError(
            f"there is a dimension for key '{unknown[0]}', which no op has"
        )
    remaining = _iterator(batches)
    task = _Task(function, observer, axes, histograms, checkpoint is not None)
    saved = None if checkpoint is None else _Checkpoint(Path(checkpoint), task.digest())
    statistics, inputs = Statistics(observer), ""
    if saved is not None:
        statistics, inputs = saved.read(observer, histograms)
        saved.skip(remaining, statistics.batch_count, inputs)
    try:
        for seen in _results(task, remaining, statistics.batch_count, executor):
            merged = statistics.merge(Statistics(observer, seen.observations, 1))
            # Both at once, also if the run is interrupted here.
            statistics, inputs = merged, _chained(inputs, seen.digest)
            if saved is not None and saved.is_old:
                saved.write(statistics, inputs)
    finally:
        if saved is not None:
            saved.write(statistics, inputs)
    if not statistics.batch_count:
        raise ValueError("there are no batches")
    for key in function.keys:
        if missing != "keep" and key not in statistics.observations:
            raise ValueError(
                f"key '{key}' has a value in no batch: batches are needed with which the "
                "function gets there"
            )
    return statistics


class _ObservationError(ValueError):
    """What is wrong with the values of a key, which the message names."""


@dataclass(frozen=True)
class _Recorder:
    """Observes the values of one batch. Values that a key has in turn belong together."""

    observer: Observer
    axes: Mapping[str, int]
    batch: int
    histograms: bool
    seen: dict[str, KeyObservation] = field(default_factory=dict[str, KeyObservation])

    def see(self, key: str, value: NDArray[Any]) -> None:
        axis = self.axes.get(key)
        try:
            observed = KeyObservation.of(
                value, axis, self.observer, self.batch, self.histograms
            )
            if (before := self.seen.get(key)) is not None:
                observed = before.extend(observed)
        except ValueError as e:
            raise _ObservationError(f"key '{key}': {e}") from None
        self.seen[key] = observed


class _Seen(NamedTuple):
    """What was seen in one batch."""

    observations: dict[str, KeyObservation]

    digest: str
    """That of the batch, if there is a checkpoint."""


@dataclass(frozen=True)
class _Task:
    """What is done with each batch. It is sent to workers."""

    function: InstrumentedFunction
    observer: str
    axes: Mapping[str, int]
    histograms: bool
    digests: bool

    def __call__(self, index: int, batch: Batch) -> _Seen:
        observer = parse_observer(self.observer)
        keys = self.function.keys
        needs_all = self.histograms or issubclass(observer.OBSERVATION, Histogram)
        run = self.function.runnable(
            None if needs_all else tuple(self.axes.get(key) for key in keys)
        )
        recorder = _Recorder(observer, self.axes, index, self.histograms)
        try:
            run(recorder.see, batch if isinstance(batch, tuple) else (batch,))
        except _ObservationError as e:
            raise ValueError(f"batch {index}, {e}") from None
        except TypeError as e:
            raise TypeError(f"batch {index}: {e}") from None
        except ValueError as e:
            raise ValueError(f"batch {index}: {e}") from None
        return _Seen(recorder.seen, _digest(batch) if self.digests else "")

    def digest(self) -> str:
        """What tells this task from others, wherever the module is."""
        axes = sorted(self.axes.items())
        module = parse_module(self.function.text)
        text = f"{module}\n{self.function.name}\n{self.function.keys}\n{axes}"
        return hashlib.sha256(text.encode()).hexdigest()


# Batches


def _iterator(batches: Iterable[Batch]) -> Iterator[Batch]:
    try:
        return iter(batches)
    except TypeError:
        raise TypeError(
            f"batches are of type {type(batches).__name__}, but must be an iterable, e.g. "
            "a list with the arguments of each batch"
        ) from None


def _results(
    task: _Task, batches: Iterator[Batch], start: int, executor: Executor | None
) -> Iterator[_Seen]:
    """What was seen in each batch, in their order."""
    numbered = enumerate(batches, start)
    if executor is None:
        yield from (task(index, batch) for index, batch in numbered)
        return
    waiting: deque[Future[_Seen]] = deque()
    try:
        for index, batch in numbered:
            waiting.append(executor.submit(task, index, batch))
            if len(waiting) == _MAX_WAITING:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


# Checkpoints


def _digest(batch: Batch) -> str:
    """
    What tells the arguments of a batch from others.

    Raises:
        TypeError, ValueError: if they are no arrays, numbers or lists of numbers.
    """
    digest = hashlib.blake2b()
    for argument in batch if isinstance(batch, tuple) else (batch,):
        array = np.asarray(argument)
        digest.update(f"{array.shape} {array.dtype}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _chained(before: str, digest: str) -> str:
    """The digest of some batches and the one behind them."""
    return hashlib.blake2b(f"{before} {digest}".encode()).hexdigest()


class _Checkpoint:
    """A file with the statistics of the batches so far, and what they are of."""

    def __init__(self, path: Path, task: str):
        self._path = path
        self._task = task
        self._time = monotonic()

    @property
    def is_old(self) -> bool:
        return monotonic() - self._time > _CHECKPOINT_SECONDS

    def read(self, observer: str, histograms: bool) -> tuple[Statistics, str]:
        """
        The statistics in the file and the digest of the batches that they are of; if there
        is no file, those of no batches.

        Raises:
            OSError: if the file cannot be read, or its directory does not exist.
            ValueError: if it is no checkpoint of the same task and observer, only one of
                both has histograms, or there is no digest.
        """
        if not self._path.exists():
            # Now, and not after all batches.
            self._path.absolute().parent.stat()
            return Statistics(observer), ""
        content = read_content(self._path)
        statistics = Statistics.from_content(content, str(self._path))
        if content.get("task") != self._task:
            raise ValueError(
                f"checkpoint {self._path} is of another module, function or dimension of "
                "channels"
            )
        if parse_observer(statistics.observer) != parse_observer(observer):
            raise ValueError(
                f"checkpoint {self._path} is of observer '{statistics.observer}', not of "
                f"'{observer}'"
            )
        kind = parse_observer(observer).OBSERVATION
        are_beside = histograms and not issubclass(kind, Histogram)
        for seen in statistics.observations.values():
            if are_beside != (seen.histogram_beside is not None):
                other, this = ("without", "with") if are_beside else ("with", "without")
                raise ValueError(
                    f"checkpoint {self._path} is of a run {other} histograms, but this one "
                    f"is {this} them"
                )
        if not isinstance(inputs := content.get("inputs"), str):
            raise ValueError(
                f"checkpoint {self._path} does not say of which inputs it is: delete it"
            )
        return statistics, inputs

    def skip(self, batches: Iterator[Batch], count: int, inputs: str) -> None:
        """
        Skip the batches that the statistics are of.

        Raises:
            ValueError: if there are not as many, or they are others.
        """
        given, skipped = "", 0
        for skipped, batch in enumerate(islice(batches, count), 1):
            try:
                given = _chained(given, _digest(batch))
            except (TypeError, ValueError):
                raise self._other("other inputs") from None
        if skipped < count:
            raise self._other(f"{count} batches, but there are only {skipped}")
        if given != inputs:
            raise self._other("other inputs")

    def _other(self, what: str) -> ValueError:
        return ValueError(
            f"checkpoint {self._path} is of {what}: delete it, or give the same inputs in "
            "the same batches"
        )

    def write(self, statistics: Statistics, inputs: str) -> None:
        """Write the file at once: it is either the old or the new one."""
        new = self._path.with_name(f"{self._path.name}.new")
        text = statistics.state_text(task=self._task, inputs=inputs)
        new.write_text(text, encoding="utf-8")
        os.replace(new, self._path)
        self._time = monotonic()
