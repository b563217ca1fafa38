"""
Atomic writes of files, which get their complete new content or keep their old content,
and checks of file suffixes.

The content goes to a temporary file in the same directory, which then replaces the old
file. A full disk, an error or an interruption leaves the old file unchanged, and
readers never see a partial file.
"""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def has_suffix(path: str | os.PathLike[str], *suffixes: str) -> bool:
    """Return True if a file name ends with a suffix such as `.npy`, ignoring case."""
    return os.fspath(path).lower().endswith(suffixes)


_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
"""Flags that create a file and fail if it exists. `O_BINARY` exists on Windows only."""

_MAX_PREFIX = 32
"""Maximum number of characters of a file name in the name of its temporary file."""


def write_text_atomically(path: str | os.PathLike[str], text: str) -> None:
    """
    Write UTF-8 text to a file; see
    [`open_atomically`][xdsl_quant.runtime.atomic_files.open_atomically].

    Raises:
        OSError: if the file cannot be written.
    """
    with open_atomically(path) as stream:
        stream.write(text.encode())


@contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Generator[BinaryIO]:
    """
    Open a stream whose bytes replace the content of a file when the `with` statement
    ends. After an error, the file is unchanged.

    An existing file keeps its permissions and, where the system allows it, its owner.
    For a symbolic link, the file that it points to is replaced. Other hard links keep
    the old content. Pipes, devices and `/dev/stdout` are written directly.

    Raises:
        OSError: if the file cannot be written; its `filename` is `path`, or the
            directory if no file can be created in it.
    """
    status = _status(path)
    if status is not None and not _is_replaceable(path, status):
        with _open_directly(path, status) as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))
    if status is not None:
        # Replacing a file needs no write permission on it, so check this permission.
        os.close(os.open(path, os.O_WRONLY))
    name = f".{target.name[:_MAX_PREFIX]}.{secrets.token_hex(8)}.tmp"
    temporary = target.with_name(name)
    descriptor = _create_temporary(temporary)
    try:
        with open(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(descriptor)
        if status is not None:
            _copy_permissions(status, temporary)
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if not isinstance(error, OSError) or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def _status(path: str | os.PathLike[str]) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_replaceable(path: str | os.PathLike[str], status: os.stat_result) -> bool:
    if not stat.S_ISREG(status.st_mode) or _standard_stream(status) is not None:
        return False
    # /dev/fd/N may be an open file that was removed.
    with suppress(OSError):
        return os.path.samestat(status, os.stat(os.path.realpath(path)))
    return False


def _standard_stream(status: os.stat_result) -> int | None:
    """Return the descriptor of standard output or error, if the file is one of them."""
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(status, os.fstat(descriptor)):
                return descriptor
    return None


def _open_directly(path: str | os.PathLike[str], status: os.stat_result) -> BinaryIO:
    is_file = stat.S_ISREG(status.st_mode)
    if not is_file or (descriptor := _standard_stream(status)) is None:
        return open(path, "wb")
    # Keep the order of this output and of printed text.
    print(end="", flush=True)
    return open(os.dup(descriptor), "wb")


def _create_temporary(temporary: Path) -> int:
    """
    Create a file and return its descriptor.

    Raises:
        OSError: if it cannot be created; its `filename` is the directory.
    """
    try:
        return os.open(temporary, _NEW_FLAGS, 0o666)
    except OSError as error:
        directory = os.fspath(temporary.parent)
        raise OSError(error.errno, error.strerror, directory) from None


def _copy_permissions(status: os.stat_result, temporary: Path) -> None:
    if hasattr(os, "chown"):
        # Only administrators may change owners. `chown` clears set-user-ID bits.
        with suppress(PermissionError):
            os.chown(temporary, status.st_uid, status.st_gid)
    os.chmod(temporary, stat.S_IMODE(status.st_mode))
