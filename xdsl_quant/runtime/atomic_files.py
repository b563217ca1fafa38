"""
Suffixes of files, and files that are written as a whole or not at all.

The content goes to a temporary file in the same directory, and takes the place of the old
content when it is complete. So a full disk, an error or an interruption leaves the old file
as it was, and nobody reads half a file.
"""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def has_suffix(path: str | os.PathLike[str], *suffixes: str) -> bool:
    """
    Return True if the name of a file ends with one of these, such as `.npy`, in any
    case.
    """
    return os.fspath(path).lower().endswith(suffixes)


_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
"""How a file is opened that must not exist. Only Windows knows text files."""

_MAX_PREFIX = 32
"""Characters of a file's name in that of its temporary file, which must not be long."""


def write_text_atomically(path: str | os.PathLike[str], text: str) -> None:
    """
    Write text to a file, in UTF-8; see
    [`open_atomically`][xdsl_quant.runtime.atomic_files.open_atomically].

    Raises:
        OSError: if it cannot be written.
    """
    with open_atomically(path) as stream:
        stream.write(text.encode())


@contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Generator[BinaryIO]:
    """
    A stream whose bytes become the content of a file at the end of the `with` statement. If
    that ends with an error, the file stays as it was.

    A file that exists keeps its permissions and, where the system allows it, its owner. A
    symbolic link stays one: the file that it names is replaced. Another hard link to the
    file keeps the old content. What is no regular file, like a pipe, a device or
    `/dev/stdout`, is written directly.

    Raises:
        OSError: if the file cannot be written; its `filename` is `path`, or the directory
            if no file can be created there.
    """
    status = _status(path)
    if status is not None and not _is_replaceable(path, status):
        with _open_directly(path, status) as stream:
            yield stream
        return
    target = Path(os.path.realpath(path))
    if status is not None:
        # Who may not write the file may still be allowed to replace it.
        os.close(os.open(path, os.O_WRONLY))
    name = f".{target.name[:_MAX_PREFIX]}.{secrets.token_hex(8)}.tmp"
    temporary = target.with_name(name)
    descriptor = _created_file(temporary)
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
    """What a path leads to, if there is anything."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_replaceable(path: str | os.PathLike[str], status: os.stat_result) -> bool:
    if not stat.S_ISREG(status.st_mode) or _standard_stream(status) is not None:
        return False
    # A file that is open, but was removed, has no name any more.
    with suppress(OSError):
        return os.path.samestat(status, os.stat(os.path.realpath(path)))
    return False


def _standard_stream(status: os.stat_result) -> int | None:
    """
    Return the descriptor of standard output or standard error, if this file is its.
    """
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(status, os.fstat(descriptor)):
                return descriptor
    return None


def _open_directly(path: str | os.PathLike[str], status: os.stat_result) -> BinaryIO:
    is_file = stat.S_ISREG(status.st_mode)
    if not is_file or (descriptor := _standard_stream(status)) is None:
        return open(path, "wb")
    # What is printed before and after goes to the same file, one after the other.
    print(end="", flush=True)
    return open(os.dup(descriptor), "wb")


def _created_file(temporary: Path) -> int:
    """
    Return the descriptor of a new file.

    Raises:
        OSError: if there can be none; its `filename` is the directory.
    """
    try:
        return os.open(temporary, _NEW_FLAGS, 0o666)
    except OSError as error:
        directory = os.fspath(temporary.parent)
        raise OSError(error.errno, error.strerror, directory) from None


def _copy_permissions(status: os.stat_result, temporary: Path) -> None:
    if hasattr(os, "chown"):
        # Only an administrator may give files to others. It takes set-user-ID bits away.
        with suppress(PermissionError):
            os.chown(temporary, status.st_uid, status.st_gid)
    os.chmod(temporary, stat.S_IMODE(status.st_mode))
