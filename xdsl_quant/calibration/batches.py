"""Running a function on batches, here or on workers, with a checkpoint."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import nullcontext, suppress
from operator import index
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.numerics.observers import EndsObserver, parse_observer
from xdsl_quant.runtime.entry_function import check_function_name
from xdsl_quant.runtime.loading import parse_module

from .checkpoint import Checkpoint, chained
from .instrumented_function import InstrumentedFunction
from .recording import Batch, BatchTask, NumberedBatch, Seen
from .statistics import KeyObservation, Statistics

_MAX_WAITING = 32
"""Batches that are with the workers at once."""


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
    value. In a batch that does not get there, it has none. A batch with an argument that
    has no elements, although its type allows some, is left out with a warning.

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
            observer that has none itself. They take 59 KB for each channel and do not
            change ranges.
        missing: what if no batch has a value for a key: `keep` the statistics without it.

    Raises:
        ValueError: if a batch has NaN or infinite values, which the message says where; if
            there are no batches but empty ones; if no batch has a value for a key, unless
            `missing` is `keep`; if a `quant.stats_ref` is at a place of which there are no
            statistics; if the function cannot be run; if the checkpoint is of another run
            or damaged.
        TypeError: if `batches` is no iterable, or another argument or one of the function
            is of a wrong type.
        OSError: if the checkpoint cannot be read or written, or another run uses it.
    """
    _check_arguments(module, entry, executor, missing)
    axes = _dimensions({} if axes is None else axes)
    if isinstance(module, str):
        module = parse_module(module)
    kind = parse_observer(observer)
    function = InstrumentedFunction.of(module, entry)
    if unknown := sorted(axes.keys() - set(function.keys)):
        raise ValueError(
            f"there is a dimension for key '{unknown[0]}', which no op has"
        )
    numbered = _not_empty(_iterator(batches), function)
    task = BatchTask(function, kind, axes, histograms, checkpoint is not None)
    saved = None if checkpoint is None else Checkpoint(Path(checkpoint), task.digest())
    with nullcontext() if saved is None else saved.locked():
        statistics = _gathered(task, Statistics(observer), numbered, executor, saved)
    if not statistics.batch_count:
        raise ValueError("there are no batches")
    for key in function.keys:
        if missing != "keep" and key not in statistics.observations:
            raise ValueError(
                f"no batch reached key '{key}'; add inputs that take this path"
            )
    return statistics


def _check_arguments(
    module: object, entry: object, executor: object, missing: object
) -> None:
    if not isinstance(module, ModuleOp | str):
        raise TypeError(
            f"module must be a ModuleOp or MLIR text, not {type(module).__name__}"
        )
    check_function_name(entry, "entry")
    if executor is not None and not hasattr(executor, "submit"):
        raise TypeError(
            "executor must have a method 'submit', like those of concurrent.futures, but "
            f"it is of type {type(executor).__name__}"
        )
    if missing not in ("error", "keep"):
        raise ValueError(f"missing must be 'error' or 'keep', not {missing!r}")


def _dimensions(axes: object) -> dict[str, int]:
    """Dimensions by keys; they may be integers of NumPy."""
    if isinstance(axes, Mapping):
        given = cast("Mapping[Any, Any]", axes)
        with suppress(TypeError):
            dimensions = {key: index(dimension) for key, dimension in given.items()}
            if all(isinstance(key, str) for key in dimensions):
                return dimensions
    raise TypeError(f"axes must be a dict of dimensions by keys, not {axes!r}")


def _not_empty(
    batches: Iterator[Batch], function: InstrumentedFunction
) -> Iterator[NumberedBatch]:
    """The batches that have values, with their numbers among all."""
    for number, batch in enumerate(batches):
        if (argument := function.empty_argument(batch)) is None:
            yield number, batch
            continue
        warnings.warn(
            f"batch {number} is left out, its argument {argument} has no elements",
            stacklevel=2,
        )


def _gathered(
    task: BatchTask,
    nothing: Statistics,
    batches: Iterator[NumberedBatch],
    executor: Executor | None,
    saved: Checkpoint | None,
) -> Statistics:
    """The statistics of all batches: of those in the checkpoint, and of the others."""
    gathered = _Gathered(task, nothing, "")
    if saved is not None:
        gathered = _Gathered(task, *saved.read(nothing.observer, task.histograms))
        saved.skip(batches, gathered.statistics.batch_count, gathered.inputs)
    try:
        for seen in _results(task, batches, executor):
            gathered.add(seen)
            if saved is not None and saved.is_old:
                gathered.write(saved)
    finally:
        if saved is not None:
            gathered.write(saved)
    return gathered.statistics


class _Gathered:
    """What was seen in all batches so far."""

    def __init__(self, task: BatchTask, statistics: Statistics, inputs: str):
        self._task = task
        # One attribute, so that it is of the same batches if the run is interrupted.
        self._state = _State(statistics, inputs, [])

    @property
    def statistics(self) -> Statistics:
        return self._merged().statistics

    @property
    def inputs(self) -> str:
        """The digest of all batches, if there is a checkpoint."""
        return self._merged().inputs

    def add(self, seen: Seen) -> None:
        """
        Add what was seen in the next batch.

        Raises:
            ValueError: if it does not merge with what was seen before, which stays.
        """
        waiting = self._state.waiting
        # Histograms are large.
        if not seen.observations and len(waiting) < self._task.layout.max_batches:
            waiting.append(seen)
            return
        statistics, inputs, _ = self._merged()
        of_batch = {**self._of_ends([seen]), **seen.observations}
        try:
            merged = statistics.merge(Statistics(statistics.observer, of_batch, 1))
        except ValueError as e:
            raise ValueError(f"batch {seen.batch}, {e}") from None
        self._state = _State(merged, chained(inputs, seen.digest), [])

    def write(self, saved: Checkpoint) -> None:
        """Write a checkpoint."""
        state = self._merged()
        saved.write(state.statistics, state.inputs)

    def _merged(self) -> _State:
        """The state with no batches that are waiting."""
        statistics, inputs, waiting = self._state
        if waiting:
            of_batches = self._of_ends(waiting)
            merged = Statistics(statistics.observer, of_batches, len(waiting))
            for seen in waiting:
                inputs = chained(inputs, seen.digest)
            self._state = _State(statistics.merge(merged), inputs, [])
        return self._state

    def _of_ends(self, waiting: Sequence[Seen]) -> dict[str, KeyObservation]:
        if not isinstance(observer := self._task.observer, EndsObserver):
            return {}
        batches = [seen.batch for seen in waiting]
        ends = [seen.ends for seen in waiting]
        return dict(self._task.layout.observations(observer, batches, ends))


class _State(NamedTuple):
    """What was seen in some batches."""

    statistics: Statistics
    """What was observed in the first of them."""

    inputs: str
    """The digest of these, if there is a checkpoint."""

    waiting: list[Seen]
    """What was seen in the others."""


def _iterator(batches: Iterable[Batch]) -> Iterator[Batch]:
    try:
        return iter(batches)
    except TypeError:
        raise TypeError(
            f"batches are of type {type(batches).__name__}, but must be an iterable, e.g. "
            "a list with the arguments of each batch"
        ) from None


def _results(
    task: BatchTask, batches: Iterator[NumberedBatch], executor: Executor | None
) -> Iterator[Seen]:
    """What was seen in each batch, in their order."""
    if executor is None:
        yield from (task(number, batch) for number, batch in batches)
        return
    waiting: deque[Future[Seen]] = deque()
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
