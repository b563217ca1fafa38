"""A file from which an interrupted calibration is resumed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import cast

from xdsl_quant.numerics.histogram import Histogram
from xdsl_quant.numerics.observers import parse_observer
from xdsl_quant.runtime.atomic_files import write_text_atomically
from xdsl_quant.transforms.statistics.ranges.statistics_file import read_content

from .checkpoint_lock import locked
from .recording import NumberedBatch, digest_of
from .statistics import Statistics

_SECONDS = 10.0
"""From one checkpoint to the next. There is always one at the end, also after an error."""


def chained(before: str, digest: str) -> str:
    """The digest of some batches and the one after them."""
    return hashlib.blake2b(f"{before} {digest}".encode()).hexdigest()


class Checkpoint:
    """
    A file with the statistics of the batches so far, and what they are of. Without a path
    nothing is read or written.
    """

    def __init__(self, path: Path | None, task: str):
        self._path = path
        self._task = task
        self._time = monotonic()

    def locked(self) -> AbstractContextManager[None]:
        """
        A context in which no other run uses the file.

        Raises:
            BlockingIOError: if another run uses it.
            OSError: if its directory does not exist or cannot be written.
        """
        return nullcontext() if self._path is None else locked(self._path)

    @property
    def is_old(self) -> bool:
        return self._path is not None and monotonic() - self._time > _SECONDS

    def read(self, observer: str, histograms: bool) -> tuple[Statistics, str]:
        """
        The statistics in the file and the digest of the batches that they are of; if there
        is no file, those of no batches.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is damaged or no checkpoint of the same task and observer, or
                only one of both has histograms.
        """
        if self._path is None or not self._path.exists():
            return Statistics(observer), ""
        content = read_content(
            self._path,
            "delete it",
            needs_digest=True,
            other_file="; use another file for the checkpoint",
        )
        statistics = Statistics.from_content(content, str(self._path))
        if content.get("task") != self._task:
            raise ValueError(
                f"checkpoint {self._path} is of another module, function or dimension of "
                "channels"
            )
        if parse_observer(statistics.observer) != parse_observer(observer):
            raise ValueError(
                f"checkpoint {self._path} is of observer '{statistics.observer}', not of "
                f"'{observer}'; delete it, or use the same observer"
            )
        kind = parse_observer(observer).OBSERVATION
        are_beside = histograms and not issubclass(kind, Histogram)
        for known in statistics.observations.values():
            if are_beside != (known.histogram_beside is not None):
                other, this = ("without", "with") if are_beside else ("with", "without")
                raise ValueError(
                    f"checkpoint {self._path} is of a run {other} histograms, but this one "
                    f"is {this} them"
                )
        return statistics, cast("str", content["inputs"])

    def skip(self, batches: Iterator[NumberedBatch], count: int, inputs: str) -> None:
        """
        Skip the batches that the statistics are of.

        Raises:
            ValueError: if there are not as many, or they are others.
        """
        given, skipped = "", 0
        for skipped, (_, batch) in enumerate(islice(batches, count), 1):
            try:
                given = chained(given, digest_of(batch))
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
        """
        Raises:
            OSError: if the file cannot be written; it is as it was before.
        """
        if self._path is not None:
            text = statistics.state_text(task=self._task, inputs=inputs)
            write_text_atomically(self._path, text)
            self._time = monotonic()
