"""
Checkpoint file of a calibration, from which an interrupted run resumes, and its lock:
only one run may use the file at a time.

The lock is held on a file `<checkpoint>.lock`, which names the holder. The system
releases the lock when the process ends, so a leftover lock file does not block a run.
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
"""Flags to open a lock file; they refuse links, whose target would be overwritten."""

_START = "by process "
"""First bytes of every lock file that is not empty."""

_guard = threading.Lock()
"""Lock around acquiring and releasing: file locks do not exclude other threads."""

_held: dict[Path, str] = {}
"""Lock files that this process holds, with the text that names the holder."""


class CheckpointError(ValueError):
    """Raised for a checkpoint that is damaged, or belongs to another run."""


@contextmanager
def locked(checkpoint: Path) -> Generator[None]:
    """
    Hold the lock of a checkpoint inside a `with` statement. If the file system does not
    support locks, warn and hold none.

    Raises:
        BlockingIOError: if another run holds the lock; the message names that run.
        FileExistsError: if the file `<checkpoint>.lock` is not a lock file.
        OSError: if the lock file cannot be opened.
    """
    # Links may give a checkpoint several names, so resolve them.
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
        # The content is for messages only.
        with suppress(OSError):
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, holder.encode())
        yield
    finally:
        with _guard:
            del _held[lock]
            _release_lock(lock, descriptor)


def _holder(lock: Path) -> str:
    # Opening and closing the file would release the lock of this process.
    if (holder := _held.get(lock)) is not None:
        return holder
    with suppress(OSError, ValueError):
        if text := lock.read_text(encoding="utf-8"):
            return text
    return "by another process"


def _locked_descriptor(lock: Path) -> int | None:
    """Lock a lock file and return its descriptor; `None` if another run holds it."""
    _check_is_lock_file(lock)
    try:
        import fcntl
    except ImportError:
        return _create_lock_file(lock)
    while True:
        descriptor = os.open(lock, _FLAGS, 0o666)
        try:
            # Unlike `flock`, child processes do not inherit these locks.
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
        # The previous holder has removed the file in between: try again.
        os.close(descriptor)


def _check_is_lock_file(lock: Path) -> None:
    start = _START.encode()
    with suppress(FileNotFoundError, PermissionError), open(lock, "rb") as stream:
        if stream.read(len(start)) not in (b"", start):
            raise FileExistsError(
                f"{lock} is not a lock file; move it, or use another checkpoint"
            )


def _create_lock_file(lock: Path) -> int | None:
    """Create a lock file on Windows; return `None` if another run has it open."""
    try:
        lock.unlink(missing_ok=True)
        return os.open(lock, _FLAGS | os.O_EXCL, 0o666)
    except (FileExistsError, PermissionError):
        return None


def _release_lock(lock: Path, descriptor: int) -> None:
    try:
        # Remove it while locked, so that no run locks a file about to be removed.
        lock.unlink(missing_ok=True)
    except PermissionError:
        os.close(descriptor)
        with suppress(OSError):
            lock.unlink()
    else:
        os.close(descriptor)


_SECONDS = 10.0
"""Interval between writes in seconds; the last write happens after errors too."""


def chain_digest(before: str, digest: str) -> str:
    """Extend the digest of earlier batches by the digest of the next batch."""
    return hashlib.blake2b(f"{before} {digest}".encode()).hexdigest()


class Checkpoint:
    """
    File with the statistics of the first batches and a digest of the task and inputs.
    Without a path, all methods do nothing.
    """

    def __init__(self, path: str | os.PathLike[str] | None, task: BatchTask):
        self._path = None if path is None else Path(path)
        self._task = "" if path is None else task.digest()
        self._time = monotonic()

    def locked(self) -> AbstractContextManager[None]:
        """
        Return a context manager that holds the lock of the file.

        Raises:
            BlockingIOError: if another run uses the file.
            OSError: if the directory is missing or not writable.
        """
        return nullcontext() if self._path is None else locked(self._path)

    @property
    def is_old(self) -> bool:
        return self._path is not None and monotonic() - self._time > _SECONDS

    def read(self, observer: str, histograms: bool) -> tuple[Statistics, str]:
        """
        Return the statistics in the file and the digest of their batches; empty
        statistics and an empty digest if the file does not exist.

        Raises:
            OSError: if the file cannot be read.
            CheckpointError: if the file is damaged, or belongs to another task or
                observer, or exactly one of this run and the earlier run collects
                histograms.
        """
        if self._path is None or not self._path.exists():
            return Statistics(observer), ""
        try:
            return self._read(self._path, observer, histograms)
        except ValueError as e:
            raise CheckpointError(str(e)) from None

    def _read(
        self, path: Path, observer: str, histograms: bool
    ) -> tuple[Statistics, str]:
        content = read_content(
            path,
            "delete it",
            needs_digest=True,
            other_file="; use another file for the checkpoint",
        )
        statistics = Statistics.from_content(content, str(path))
        if content.get("task") != self._task:
            raise ValueError(
                f"checkpoint {path} belongs to another module, function or "
                "channel dimension; delete it, or use another file"
            )
        if parse_observer(statistics.observer) != parse_observer(observer):
            raise ValueError(
                f"checkpoint {path} belongs to observer '{statistics.observer}', not "
                f"'{observer}'; delete it, or use the same observer"
            )
        kind = parse_observer(observer).OBSERVATION
        are_beside = histograms and not issubclass(kind, Histogram)
        for known in statistics.observations.values():
            if are_beside != (known.extra_histogram is not None):
                other, this = ("without", "with") if are_beside else ("with", "without")
                raise ValueError(
                    f"checkpoint {path} belongs to a run {other} histograms, "
                    f"expected one {this} histograms; delete it, or use another file"
                )
        return statistics, cast("str", content["inputs"])

    def skip(self, batches: Iterator[NumberedBatch], count: int, inputs: str) -> None:
        """
        Skip the first `count` batches, which the statistics already cover.

        Raises:
            CheckpointError: if there are fewer batches, or their digest is not `inputs`.
        """
        given, skipped = "", 0
        for skipped, (_, batch) in enumerate(islice(batches, count), 1):
            try:
                given = chain_digest(given, digest_of(batch))
            except (TypeError, ValueError):
                raise self._mismatch("other inputs") from None
        if skipped < count:
            raise self._mismatch(f"{count} batches, found {skipped}")
        if given != inputs:
            raise self._mismatch("other inputs")

    def _mismatch(self, content: str) -> CheckpointError:
        return CheckpointError(
            f"checkpoint {self._path} belongs to {content}; delete it, or pass the same "
            "inputs in the same batches"
        )

    def write(self, statistics: Statistics, inputs: str) -> None:
        """
        Write the statistics to the file, if there is a path.

        Raises:
            OSError: if the file cannot be written; the old content is kept.
        """
        if self._path is not None:
            text = statistics.state_text(task=self._task, inputs=inputs)
            write_text_atomically(self._path, text)
            self._time = monotonic()
