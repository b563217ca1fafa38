"""
Results of compilation in files, for later processes.

A file has one result, under a key: a digest of all that the result depends on. It begins
with a digest of what is in it, so a file that is damaged is no result. Files are replaced
as a whole, so any number of processes can share a folder.
"""

import json
import os
import stat
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xdsl

from xdsl_quant.runtime.atomic_files import open_atomically

from .cpu import machine_description
from .llvm_library import libraries

VARIABLE = "XDSL_QUANT_CACHE"
"""The environment variable with the folder of the cache, or `off`."""

MAX_BYTES = 1 << 30
"""The size of all files. Those that were not used for the longest time go first."""

_PREFIX = "xdsl-quant-"
"""How names of files begin; those of temporary files have a dot in front."""

_DIGEST_SIZE = 32


class Entry(NamedTuple):
    """What is kept under a key."""

    header: Mapping[str, Any]  # As JSON has it
    """What JSON can say."""

    content: bytes


def key_of(*parts: object) -> str | None:
    """
    Return the key of what is made of some values, which have all their content in their
    texts, by this version of the package on this machine. `None` if nothing is kept.
    """
    if _is_off() or (versions := _versions()) is None:
        return None
    return _digest(versions, *(str(part).encode() for part in parts)).hex()


def read(key: str) -> Entry | None:
    """What is kept under a key, if it is there and undamaged."""
    if (folder := _folder()) is None:
        return None
    path = folder / f"{_PREFIX}{key}"
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            # Others may have put files into the folder when they could still write to it.
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode) or not _is_own(status):
                return None
            data = stream.read()
    except OSError:
        return None
    # Where nothing can be written, nothing will be removed, either.
    with suppress(OSError):
        os.utime(path)
    digest, rest = data[:_DIGEST_SIZE], data[_DIGEST_SIZE:]
    if digest != _digest(key.encode(), rest):
        return None
    header, _, content = rest.partition(b"\n")
    return Entry(json.loads(header), content)


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def write(key: str, entry: Entry) -> None:
    """Keep something under a key, if the system lets us."""
    if (folder := _folder()) is None:
        return
    data = b"\n".join((json.dumps(entry.header).encode(), entry.content))
    with suppress(OSError):
        path = folder / f"{_PREFIX}{key}"
        # A file of somebody else would stay theirs.
        path.unlink(missing_ok=True)
        with open_atomically(path) as stream:
            os.chmod(stream.fileno(), 0o600)
            stream.write(_digest(key.encode(), data))
            stream.write(data)
        _trim(folder)


def _digest(*parts: bytes) -> bytes:
    digest = sha256()
    for part in parts:
        digest.update(b"%d\n" % len(part))
        digest.update(part)
    return digest.digest()


def _trim(folder: Path) -> None:
    """Remove files until there are not too many bytes, also those of dead processes."""
    files = [
        (status.st_mtime_ns, status.st_size, entry.path)
        for entry in os.scandir(folder)
        if entry.name.removeprefix(".").startswith(_PREFIX)
        if stat.S_ISREG((status := entry.stat(follow_symlinks=False)).st_mode)
    ]
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= MAX_BYTES:
            return
        with suppress(FileNotFoundError):
            os.unlink(path)
        total -= size


# The folder


def _is_off() -> bool:
    return os.environ.get(VARIABLE, "").lower() in ("off", "0")


def _folder() -> Path | None:
    """Return the folder, which exists and is safe; `None` if there is none."""
    if _is_off():
        return None
    given = os.environ.get(VARIABLE)
    try:
        folder = Path(given).expanduser() if given else _default_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError) as e:
        # A user without a home, or with one that cannot be written, need not know.
        if given:
            _warn_uncached(f"'{given}' cannot be a folder: {getattr(e, 'strerror', e)}")
        return None
    # Code from a file of somebody else would be run.
    if status.st_uid != os.geteuid():
        _warn_uncached(f"'{folder}' belongs to another user")
        return None
    if not _is_own(status):
        _warn_uncached(f"others can write to '{folder}'; run chmod go-w on it")
        return None
    return folder


def _is_own(status: os.stat_result) -> bool:
    """
    Return True if something belongs to this user, and nobody else can write to it.
    """
    others = stat.S_IWGRP | stat.S_IWOTH
    return status.st_uid == os.geteuid() and not status.st_mode & others


def _default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "xdsl-quant"


def _warn_uncached(reason: str) -> None:
    warnings.warn(
        f"compiled code is not cached: {reason}, or set {VARIABLE} to another folder or "
        "'off'",
        RuntimeWarning,
        stacklevel=2,
    )


# What results depend on


@cache
def _versions() -> bytes | None:
    """What all results depend on; `None` if that is not known."""
    machine, mlir = machine_description(), libraries()
    if machine is None or not mlir:
        return None
    # Checkouts change without a new version. Python, too, knows by these numbers that a
    # source is not that of a compiled file.
    roots = Path(__file__).parents[1], Path(xdsl.__file__).parent
    sources = (path for root in roots for path in root.rglob("*.py"))
    statuses = [(str(path), path.stat()) for path in (*mlir, *sources)]
    files = sorted((path, s.st_size, s.st_mtime_ns) for path, s in statuses)
    return _digest(f"{sys.version} {np.__version__} {machine} {files}".encode())
