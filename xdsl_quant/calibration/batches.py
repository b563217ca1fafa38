"""The calibration loop over batches, in this process or on workers."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from operator import index
from typing import Literal, NamedTuple, SupportsIndex, cast

from xdsl_quant.numerics.observers import BatchMinMaxObserver, parse_observer
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.runtime.loading import Model, as_module

from .checkpoint import Checkpoint, chain_digest
from .instrumented_function import InstrumentedFunction
from .recording import BatchObservation, BatchTask, NumberedBatch
from .statistics import KeyObservation, Statistics

_MAX_WAITING = 32
"""Maximum number of submitted batches that are not finished."""


def calibrate(
    module: Model,
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
    Run a function on batches and collect the ranges of the operands of its
    `quant.stats_ref` ops, by key. The function is compiled if the extra `mlir` is
    installed, and interpreted otherwise.

    If a `quant.stats_ref` runs several times in one batch, in loop iterations or calls,
    its operands are observed together. A batch with an empty argument of a dynamic
    shape is skipped with a warning. Fake-quantization ops quantize to their exact bit
    width; other instrumentation ops return their operand.

    Statistics do not depend on the number of workers. Only `moving-average` depends on
    the order of batches.

    Args:
        module: module (not changed), its text or bytes, or the path of a file.
        batches: argument tuples of the function, or its only argument, one per batch. A
            generator advances only when a worker is free.
        entry: name of the function; by default the only public function, or `main`.
        observer: one of the [`observers`][xdsl_quant.numerics.observers]: `min-max`,
            `moving-average=0.9`, `percentile=99.99`, `entropy=8` or `mse=8`.
        axes: channel dimension by key, for keys with per-channel ranges.
        executor: executor of the batches, e.g. a process pool (tasks are picklable).
        checkpoint: file from which an interrupted run with the same arguments resumes.
        histograms: True to collect histograms too (59 KB per channel).
        missing: `keep` to accept keys that no batch reaches, `error` to refuse them.

    Raises:
        ValueError: if a value is not finite, no batch reaches a key, a
            `quant.stats_ref` is inside an unsupported op, the function cannot be run,
            or the checkpoint is damaged or belongs to another run.
        TypeError: if an argument or an element of a batch has a wrong type.
        OSError: if the checkpoint cannot be read or written, or is in use.
    """
    module = as_module(module)
    _check_executor(executor, missing)
    kind = parse_observer(observer)
    function = InstrumentedFunction.of(module, entry)
    axes = _dimensions({} if axes is None else axes, function)
    numbered = _skip_empty(_iterator(batches), function)
    task = BatchTask(function, kind, axes, histograms, checkpoint is not None)
    with (saved := Checkpoint(checkpoint, task)).locked():
        before = _RunningStatistics(task, *saved.read(observer, histograms), [])
        saved.skip(numbered, before.statistics.batch_count, before.inputs)
        statistics = _collect_statistics(
            before, _observed_batches(task, numbered, executor), saved
        )
    _check_reached(statistics, function.keys if missing == "error" else ())
    return statistics


def _check_reached(statistics: Statistics, keys: Iterable[str]) -> None:
    if not statistics.batch_count:
        raise ValueError("expected at least one batch, found none")
    for key in keys:
        if key not in statistics.observations:
            raise ValueError(
                f"no batch reached key '{key}'; add inputs that take this path"
            )


def _check_executor(executor: object, missing: object) -> None:
    if executor is not None and not hasattr(executor, "submit"):
        raise TypeError(
            "executor must have a method 'submit', like those of concurrent.futures, but "
            f"it is of type {type(executor).__name__}"
        )
    if missing not in ("error", "keep"):
        raise ValueError(f"missing must be 'error' or 'keep', not {missing!r}")


def _dimensions(axes: object, function: InstrumentedFunction) -> dict[str, int]:
    """Return the channel dimensions by key as Python integers."""
    dimensions: dict[object, int] | None = None
    if isinstance(axes, Mapping):
        given = cast("Mapping[object, SupportsIndex]", axes)
        with suppress(TypeError):
            dimensions = {key: index(dimension) for key, dimension in given.items()}
    if dimensions is None or not all(isinstance(key, str) for key in dimensions):
        raise TypeError(f"axes must be a dict from key to dimension, not {axes!r}")
    known = cast("dict[str, int]", dimensions)
    if unknown := sorted(known.keys() - set(function.keys)):
        raise ValueError(f"unknown key in axes: '{unknown[0]}'")
    return known


def _skip_empty(
    batches: Iterator[Batch], function: InstrumentedFunction
) -> Iterator[NumberedBatch]:
    """Yield each batch without empty arguments, with its index among all batches."""
    for number, batch in enumerate(batches):
        if (argument := function.empty_argument(batch)) is None:
            yield number, batch
            continue
        warnings.warn(
            f"batch {number} skipped: argument {argument} has no elements",
            stacklevel=2,
        )


def _collect_statistics(
    gathered: _RunningStatistics,
    results: Iterator[BatchObservation],
    saved: Checkpoint,
) -> Statistics:
    """Return the merged statistics of the checkpoint and of the remaining batches."""
    try:
        for observed in results:
            gathered = gathered.add(observed)
            if saved.is_old:
                gathered = gathered.merged()
                saved.write(gathered.statistics, gathered.inputs)
    finally:
        gathered = gathered.merged()
        saved.write(gathered.statistics, gathered.inputs)
    return gathered.statistics


class _RunningStatistics(NamedTuple):
    """Statistics of all batches so far. An interruption leaves them consistent."""

    task: BatchTask

    statistics: Statistics
    """Statistics of the merged batches."""

    inputs: str
    """Digest of the merged batches, if there is a checkpoint."""

    waiting: list[BatchObservation]
    """Observations of later batches, not merged yet."""

    def add(self, observed: BatchObservation) -> _RunningStatistics:
        """
        Add the observations of the next batch.

        Raises:
            ValueError: if these observations cannot be merged; the earlier ones are kept.
        """
        # Observations such as histograms are large: merge them immediately.
        if not observed.observations:
            if len(self.waiting) < self.task.layout.max_batches:
                self.waiting.append(observed)
                return self
        before = self.merged()
        try:
            return before._replace(waiting=[observed]).merged()
        except ValueError as e:
            raise ValueError(f"batch {observed.batch}, {e}") from None

    def merged(self) -> _RunningStatistics:
        """Merge the waiting batches."""
        if not self.waiting:
            return self
        observations: dict[str, KeyObservation] = {}
        if isinstance(observer := self.task.observer, BatchMinMaxObserver):
            batches = [observed.batch for observed in self.waiting]
            arrays = [observed.min_max for observed in self.waiting]
            layout = self.task.layout
            observations.update(layout.observations(observer, batches, arrays))
        inputs = self.inputs
        for observed in self.waiting:
            observations |= observed.observations
            inputs = chain_digest(inputs, observed.digest)
        count = len(self.waiting)
        new = Statistics(self.statistics.observer, observations, count)
        return _RunningStatistics(self.task, self.statistics.merge(new), inputs, [])


def _iterator(batches: Iterable[Batch]) -> Iterator[Batch]:
    try:
        return iter(batches)
    except TypeError:
        raise TypeError(
            f"expected an iterable of batches, found {type(batches).__name__}; use e.g. a "
            "list with the arguments of each batch"
        ) from None


def _observed_batches(
    task: BatchTask, batches: Iterator[NumberedBatch], executor: Executor | None
) -> Iterator[BatchObservation]:
    if executor is None:
        yield from (task(number, batch) for number, batch in batches)
        return
    waiting: deque[Future[BatchObservation]] = deque()
    try:
        for number, batch in batches:
            waiting.append(executor.submit(task, number, batch))
            if len(waiting) == _MAX_WAITING:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
