"""
A lock for a checkpoint, which only one run may use at a time.

It is a file `<checkpoint>.lock` that says who holds it. What counts is not that this file
exists but that its holder lives: a process that ends, however it ends, loses its locks.
"""

from __future__ import annotations

import os
import socket
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

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
        holder = _held[lock] = _this_run()
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


def _this_run() -> str:
    since = datetime.now().astimezone().isoformat(" ", "seconds")
    return f"{_START}{os.getpid()} on host '{socket.gethostname()}' since {since}"


def _holder(lock: Path) -> str:
    # A process that closes a file loses its locks on it.
    if (holder := _held.get(lock)) is not None:
        return holder
    with suppress(OSError, ValueError):
        if text := lock.read_text(encoding="utf-8"):
            return text
    return "by another process"


def _locked_descriptor(lock: Path) -> int | None:
    """The descriptor of a lock file that this run has now, unless another one has it."""
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
    """The same on Windows, where no file is removed that a process has open."""
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
