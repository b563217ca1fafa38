"""Observe the ranges of the values of a model on samples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from xdsl_quant.calibration import Statistics, calibrate
from xdsl_quant.dialects.quant import StatisticsRefOp
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics

from .selection import Selection
from .stages import Request


@dataclass(frozen=True)
class Calibration:
    """Calibration of one model, with an observer for each value."""

    module: ModuleOp
    """The float model, with a `quant.stats_ref` for each value."""

    observer: str
    """The observer of values without one of their own."""

    selection: Selection
    samples: Callable[[], Iterable[Batch]]
    """Returns the batches."""

    request: Request

    def statistics(
        self,
        observer: str,
        keys: Collection[str] | None = None,
        module: ModuleOp | None = None,
    ) -> Statistics:
        """
        Return the statistics of one observer.

        Args:
            keys: the observed values; by default all.
            module: a model to run in the place of this one.
        """
        observed = self.module if module is None else module
        return calibrate(
            observed if keys is None else _with_refs_of(observed, keys),
            self.samples(),
            self.request.entry,
            observer,
            executor=self.request.executor,
            checkpoint=self.request.checkpoint if keys is None else None,
            missing="keep",
        )

    def ranges(self, statistics: Statistics) -> dict[str, KeyStatistics]:
        """
        Return the ranges of all values, by key.

        Args:
            statistics: those of the default observer.
        """
        ranges = {key: statistics.ranges(key) for key in statistics.observations}
        others = [
            key
            for key in ranges
            if self.selection.observer(key, self.observer) != self.observer
        ]
        return ranges | self.ranges_by_observer(others, self.module)

    def ranges_by_observer(
        self, keys: Iterable[str], module: ModuleOp
    ) -> dict[str, KeyStatistics]:
        """Return ranges of values, of which each has the observer that it is selected."""
        by_observer: dict[str, list[str]] = {}
        for key in keys:
            observer = self.selection.observer(key, self.observer)
            by_observer.setdefault(observer, []).append(key)
        ranges: dict[str, KeyStatistics] = {}
        for observer, observed in sorted(by_observer.items()):
            statistics = self.statistics(observer, observed, module)
            ranges |= {key: statistics.ranges(key) for key in observed}
        return ranges


def _with_refs_of(module: ModuleOp, keys: Collection[str]) -> ModuleOp:
    """Return a copy without the `quant.stats_ref`s that have other keys."""
    copy = module.clone()
    for op in [*copy.walk()]:
        if isinstance(op, StatisticsRefOp) and op.stats_key.data not in keys:
            Rewriter.replace_op(op, (), (op.input,))
    return copy
