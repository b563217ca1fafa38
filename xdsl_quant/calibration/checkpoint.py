"""
A file from which an interrupted calibration is resumed, and its lock: only one run may use
it at a time.

The lock is a file `<checkpoint>.lock` that says who holds it. What counts is not that this
file exists but that its holder lives: a process that ends, however it ends, loses its
locks.
"""

import hashlib
import os
import socket
import threading
import warnings
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import cast

from xdsl_quant.numerics.histogram import Histogram
from xdsl_quant.numerics.observers import parse_observer
from xdsl_quant.runtime.atomic_files import write_text_atomically
from xdsl_quant.transforms.statistics.ranges.statistics_file import read_content

from .recording import BatchTask, NumberedBatch, digest_of
from .statistics import Statistics

_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
"""A lock file is no symbolic link: what that names would be written to."""

_START = "by process "
"""How a lock file begins, unless it is empty."""

_guard = threading.Lock()
"""Held while a lock is taken or given back: the system does not tell threads apart."""

_held: dict[Path, str] = {}
"""The lock files of this process, with their holders."""


@contextmanager
def locked(checkpoint: Path) -> Generator[None]:
    """
    A context in which no other run has the lock of a checkpoint. If the file system has no
    locks, there is only a warning.

    Raises:
        BlockingIOError: if another run has it; the message says which one.
        FileExistsError: if there is a file of this name that is no lock file.
        OSError: if the lock file cannot be opened.
    """
    # A file may be known by several names.
    lock = Path(f"{os.path.realpath(checkpoint)}.lock")
    with _guard:
        descriptor = None if lock in _held else _locked_descriptor(lock)
        if descriptor is None:
            raise BlockingIOError(
                f"checkpoint {checkpoint} is in use, {_holder(lock)}; wait until it ends, "
                "or use another file"
            )
        since = datetime.now().astimezone().isoformat(" ", "seconds")
        process = f"{os.getpid()} on host '{socket.gethostname()}'"
        holder = _held[lock] = f"{_START}{process} since {since}"
    try:
        # It is for messages only.
        with suppress(OSError):
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, holder.encode())
        yield
    finally:
        with _guard:
            del _held[lock]
            _give_back(lock, descriptor)


def _holder(lock: Path) -> str:
    # A process that closes a file loses its locks on it.
    if (holder := _held.get(lock)) is not None:
        return holder
    with suppress(OSError, ValueError):
        if text := lock.read_text(encoding="utf-8"):
            return text
    return "by another process"


def _locked_descriptor(lock: Path) -> int | None:
    """
    Return the descriptor of a lock file that this run has now, unless another one has
    it.
    """
    _check_is_lock_file(lock)
    try:
        import fcntl
    except ImportError:
        return _created(lock)
    while True:
        descriptor = os.open(lock, _FLAGS, 0o666)
        try:
            # Unlike locks of `flock`, these are not passed on to worker processes.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(descriptor)
            return None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            warnings.warn(
                f"{lock} cannot be locked, {reason}; let no other run use the checkpoint "
                "at the same time",
                stacklevel=5,
            )
            return descriptor
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(lock)):
                return descriptor
        # Its holder has removed it in between.
        os.close(descriptor)


def _check_is_lock_file(lock: Path) -> None:
    """
    Raises:
        FileExistsError: if there is a file that is not empty, but was written by no run.
    """
    start = _START.encode()
    with suppress(FileNotFoundError, PermissionError), open(lock, "rb") as stream:
        if stream.read(len(start)) not in (b"", start):
            raise FileExistsError(
                f"{lock} is needed as a lock file, but is another file; move it, or use "
                "another checkpoint"
            )


def _created(lock: Path) -> int | None:
    """Return the same on Windows, where no file is removed that a process has open."""
    try:
        lock.unlink(missing_ok=True)
        return os.open(lock, _FLAGS | os.O_EXCL, 0o666)
    except (FileExistsError, PermissionError):
        return None


def _give_back(lock: Path, descriptor: int) -> None:
    try:
        # While it is locked, so that nobody takes a lock file that is about to go.
        lock.unlink(missing_ok=True)
    except PermissionError:
        os.close(descriptor)
        with suppress(OSError):
            lock.unlink()
    else:
        os.close(descriptor)


_SECONDS = 10.0
"""From one checkpoint to the next. There is always one at the end, also after an error."""


def chained(before: str, digest: str) -> str:
    """Return the digest of some batches and the one after them."""
    return hashlib.blake2b(f"{before} {digest}".encode()).hexdigest()


class Checkpoint:
    """
    A file with the statistics of the batches so far, and what they are of. Without a path
    nothing is read or written.
    """

    def __init__(self, path: str | os.PathLike[str] | None, task: BatchTask):
        self._path = None if path is None else Path(path)
        self._task = "" if path is None else task.digest()
        self._time = monotonic()

    def locked(self) -> AbstractContextManager[None]:
        """
        Return a context in which no other run uses the file.

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
        Return the statistics in the file and the digest of the batches that they are
        of; if there is no file, those of no batches.

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
