"""Running a function on batches, here or on workers, with a checkpoint."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from operator import index
from typing import Literal, NamedTuple, SupportsIndex, cast

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.numerics.observers import BatchMinMaxObserver, parse_observer
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.runtime.loading import as_module

from .checkpoint import Checkpoint, chained
from .instrumented_function import InstrumentedFunction
from .recording import BatchObservation, BatchTask, NumberedBatch
from .statistics import KeyObservation, Statistics

_MAX_WAITING = 32
"""Most batches that are submitted to workers at once."""


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

    All values of a key in one batch, of a loop or of several calls, count as one larger
    value. A batch with an argument that has no elements, although its type allows some, is
    left out with a warning. Fake quantization rounds to exactly as many bits as it says;
    other ops for instrumentation are identities.

    Statistics do not depend on the number of workers, and only those of `moving-average`
    depend on the order of the batches.

    Args:
        module: a module, which is not changed, or its text.
        batches: for each batch a tuple of the arguments of the function, or the only one.
            A generator is asked for a batch when there is a worker for it.
        entry: the name of the function; by default the only public one, or `main`.
        observer: one of the [`observers`][xdsl_quant.numerics.observers]: `min-max`,
            `moving-average=0.9`, `percentile=99.99`, `entropy=8` or `mse=8`.
        axes: for keys whose channels have a range each, the dimension of the channels.
        executor: runs batches, each in a call of a function that can be pickled.
        checkpoint: a file from which an interrupted run with the same arguments resumes.
        histograms: whether values are counted in histograms of 59 KB a channel, too.
        missing: `keep` statistics without a key that no batch has a value for.

    Raises:
        ValueError: if a value is not finite, no batch reaches a key, a `quant.stats_ref` is
            at a place without statistics, the function cannot be run, or the checkpoint is
            damaged or of another run.
        TypeError: if an argument, or one of the function, is of a wrong type.
        OSError: if the checkpoint cannot be read or written, or another run uses it.
    """
    module = as_module(module)
    _check_executor(executor, missing)
    kind = parse_observer(observer)
    function = InstrumentedFunction.of(module, entry)
    axes = _dimensions({} if axes is None else axes, function)
    numbered = _not_empty(_iterator(batches), function)
    task = BatchTask(function, kind, axes, histograms, checkpoint is not None)
    with (saved := Checkpoint(checkpoint, task)).locked():
        before = _Gathered(task, *saved.read(observer, histograms), [])
        saved.skip(numbered, before.statistics.batch_count, before.inputs)
        statistics = _gathered(
            before, _observed_batches(task, numbered, executor), saved
        )
    _check_reached(statistics, function.keys if missing == "error" else ())
    return statistics


def _check_reached(statistics: Statistics, keys: Iterable[str]) -> None:
    if not statistics.batch_count:
        raise ValueError("there are no batches")
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
    """Dimensions by keys; they may be NumPy integers."""
    dimensions: dict[object, int] | None = None
    if isinstance(axes, Mapping):
        given = cast("Mapping[object, SupportsIndex]", axes)
        with suppress(TypeError):
            dimensions = {key: index(dimension) for key, dimension in given.items()}
    if dimensions is None or not all(isinstance(key, str) for key in dimensions):
        raise TypeError(f"axes must be a dict of dimensions by keys, not {axes!r}")
    known = cast("dict[str, int]", dimensions)
    if unknown := sorted(known.keys() - set(function.keys)):
        raise ValueError(
            f"there is a dimension for key '{unknown[0]}', which no op has"
        )
    return known


def _not_empty(
    batches: Iterator[Batch], function: InstrumentedFunction
) -> Iterator[NumberedBatch]:
    """Yield the batches that have values, with their numbers among all."""
    for number, batch in enumerate(batches):
        if (argument := function.empty_argument(batch)) is None:
            yield number, batch
            continue
        warnings.warn(
            f"batch {number} is left out, its argument {argument} has no elements",
            stacklevel=2,
        )


def _gathered(
    gathered: _Gathered, results: Iterator[BatchObservation], saved: Checkpoint
) -> Statistics:
    """
    Return the statistics of all batches: of those in the checkpoint, and of the others.
    """
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


class _Gathered(NamedTuple):
    """
    What was observed in all batches so far. A run that is interrupted has the one from
    before or after a batch.
    """

    task: BatchTask

    statistics: Statistics
    """Of the first batches."""

    inputs: str
    """The digest of these, if there is a checkpoint."""

    waiting: list[BatchObservation]
    """The others, which are merged at once."""

    def add(self, observed: BatchObservation) -> _Gathered:
        """
        Add what was observed in the next batch.

        Raises:
            ValueError: if it does not merge with what was observed before, which stays.
        """
        # Histograms are large.
        if not observed.observations:
            if len(self.waiting) < self.task.layout.max_batches:
                self.waiting.append(observed)
                return self
        before = self.merged()
        try:
            return before._replace(waiting=[observed]).merged()
        except ValueError as e:
            raise ValueError(f"batch {observed.batch}, {e}") from None

    def merged(self) -> _Gathered:
        """Return the same with the waiting batches merged."""
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
            inputs = chained(inputs, observed.digest)
        count = len(self.waiting)
        new = Statistics(self.statistics.observer, observations, count)
        return _Gathered(self.task, self.statistics.merge(new), inputs, [])


def _iterator(batches: Iterable[Batch]) -> Iterator[Batch]:
    try:
        return iter(batches)
    except TypeError:
        raise TypeError(
            f"batches are of type {type(batches).__name__}, but must be an iterable, e.g. "
            "a list with the arguments of each batch"
        ) from None


def _observed_batches(
    task: BatchTask, batches: Iterator[NumberedBatch], executor: Executor | None
) -> Iterator[BatchObservation]:
    """Yield the observations of the batches, in order."""
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
