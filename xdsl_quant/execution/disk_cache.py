"""
Disk cache of compilation results, shared by processes.

Each file holds one result. Its name contains the key: a digest of everything that the
result depends on. Files start with a digest of their content; files that do not match it
are ignored. Files are replaced atomically, so any number of processes may share a folder.
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
"""Environment variable that holds the cache folder, or `off` to disable the cache."""

MAX_BYTES = 1 << 30
"""Maximum size of all files; the least recently used ones are removed."""

_PREFIX = "xdsl-quant-"
"""Prefix of file names; a dot precedes it in temporary files."""

_DIGEST_SIZE = 32


class Entry(NamedTuple):
    """Content of a cached file."""

    header: Mapping[str, Any]  # JSON values
    """Metadata as a JSON object."""

    content: bytes


def key_of(*parts: object) -> str | None:
    """
    Return the cache key of a result, or `None` if caching is off or unavailable. The
    key is a digest of `parts` (as text), the versions of all packages, and the CPU.
    """
    if _is_off() or (versions := _versions()) is None:
        return None
    return _digest(versions, *(str(part).encode() for part in parts)).hex()


def read(key: str) -> Entry | None:
    """Return the cached entry of a key, or `None` if it is missing or damaged."""
    if (folder := _folder()) is None:
        return None
    path = folder / f"{_PREFIX}{key}"
    try:
        with open(path, "rb", opener=_open_at_once) as stream:
            # Check the owner: others may have added files while the folder allowed it.
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode) or not _is_own(status):
                return None
            data = stream.read()
    except OSError:
        return None
    # Access times serve eviction: a read-only folder does not need them.
    with suppress(OSError):
        os.utime(path)
    digest, rest = data[:_DIGEST_SIZE], data[_DIGEST_SIZE:]
    if digest != _digest(key.encode(), rest):
        return None
    header, _, content = rest.partition(b"\n")
    return Entry(json.loads(header), content)


def _open_at_once(path: str, flags: int) -> int:
    """Open a file, without waiting if it is a named pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def write(key: str, entry: Entry) -> None:
    """Store an entry; ignore errors of the file system."""
    if (folder := _folder()) is None:
        return
    data = b"\n".join((json.dumps(entry.header).encode(), entry.content))
    with suppress(OSError):
        path = folder / f"{_PREFIX}{key}"
        # Remove a file of another user: overwriting would not change its owner.
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
    """Remove the least recently used files, temporary ones too, down to `MAX_BYTES`."""
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
    """Create and return the folder; `None` if caching is off or would be unsafe."""
    if _is_off():
        return None
    given = os.environ.get(VARIABLE)
    try:
        folder = Path(given).expanduser() if given else _default_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError) as e:
        # Do not warn users without a home folder, or with a read-only one.
        if given:
            _warn_uncached(
                f"cannot create folder '{given}': {getattr(e, 'strerror', e)}"
            )
        return None
    # Loading a file of another user would run their code.
    if status.st_uid != os.geteuid():
        _warn_uncached(f"'{folder}' belongs to another user")
        return None
    if not _is_own(status):
        _warn_uncached(
            f"other users can write to '{folder}' (chmod go-w prevents that)"
        )
        return None
    return folder


def _is_own(status: os.stat_result) -> bool:
    """Return True if this user owns a file and nobody else can write to it."""
    others = stat.S_IWGRP | stat.S_IWOTH
    return status.st_uid == os.geteuid() and not status.st_mode & others


def _default_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "xdsl-quant"


def _warn_uncached(reason: str) -> None:
    warnings.warn(
        f"compiled code is not cached: {reason}; set {VARIABLE} to another folder or "
        "'off'",
        RuntimeWarning,
        stacklevel=2,
    )


# Key


@cache
def _versions() -> bytes | None:
    """Return a digest of the CPU and all package versions; `None` if unknown."""
    machine, mlir = machine_description(), libraries()
    if machine is None or not mlir:
        return None
    # A checkout changes without a new version number. Size and modification time are
    # also Python's criteria for stale bytecode files.
    roots = Path(__file__).parents[1], Path(xdsl.__file__).parent
    sources = (path for root in roots for path in root.rglob("*.py"))
    statuses = [(str(path), path.stat()) for path in (*mlir, *sources)]
    files = sorted((path, s.st_size, s.st_mtime_ns) for path, s in statuses)
    return _digest(f"{sys.version} {np.__version__} {machine} {files}".encode())
