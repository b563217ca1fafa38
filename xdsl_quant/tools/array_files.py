"""Arrays in files, and numbers on a command line."""

import json
import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import ArrayLike

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.array_archives import (
    ARCHIVE_ERRORS,
    DAMAGED_ARCHIVE,
    check_members,
)
from xdsl_quant.runtime.atomic_files import has_suffix, open_atomically

from .failures import Failure, reported


def read_values(options: Namespace) -> list[ArrayLike]:
    """
    The values that the inputs of a command stand for: `x.npy`, `all.npz` for all arrays of
    the file in their order, `all.npz:x` for one of them, a number such as `3` or `nan`, or
    a list such as `[1.0, 2.0]`.

    Raises:
        Failure: if one is none of these, or a file cannot be read or has no such array.
    """
    values: list[ArrayLike] = []
    for text in options.inputs:
        with reported(f"input {text}", OSError, ValueError):
            values += _read_input(text)
    return values


def _read_input(text: str) -> list[ArrayLike]:
    path, key = _path_and_key(text)
    if path is None:
        return [_number_or_list(text)]
    if has_suffix(path, ".npy"):
        return [cast("Array", _load(path))]
    return _read_archive(path, key)


def _path_and_key(text: str) -> tuple[str | None, str | None]:
    """The file that an argument of a command names, and the array in it."""
    path, _, key = text.rpartition(":")
    if has_suffix(path, ".npz"):
        return path, key
    return (text if has_suffix(text, ".npy", ".npz") else None), None


def _load(path: str) -> object:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, *ARCHIVE_ERRORS):
        raise ValueError(f"'{path}' is not a NumPy file") from None


def _read_archive(path: str, key: str | None) -> list[ArrayLike]:
    archive = _load(path)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError(f"'{path}' is not a NumPy archive")
    with archive:
        keys = archive.files if key is None else [key]
        if missing := [name for name in keys if name not in archive.files]:
            raise ValueError(
                f"'{path}' has no array '{missing[0]}', but {', '.join(archive.files)}"
            )
        try:
            assert archive.zip is not None
            check_members(archive.zip)
            return [archive[name] for name in keys]
        except ARCHIVE_ERRORS:
            raise ValueError(f"'{path}': {DAMAGED_ARCHIVE}") from None
        except ValueError as e:
            if "Object arrays" not in str(e):
                raise ValueError(f"'{path}': {DAMAGED_ARCHIVE}") from None
            raise ValueError(f"'{path}' has arrays of objects") from None


def _number_or_list(text: str) -> ArrayLike:
    with suppress(json.JSONDecodeError):
        return json.loads(text)
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"'{text}' is not a .npy or .npz file, a number or a list of numbers"
        ) from None


def check_files(
    options: Namespace,
    inputs: str,
    outputs: Mapping[str, str | None],
    modules: Mapping[str, str] | None = None,
) -> None:
    """
    Check before anything runs that files can be written, and are not those that are read.

    Args:
        options: the module, which is in a file unless it is `-`, and the inputs, if the
            command has some.
        inputs: the option for inputs.
        outputs: options with files that are written, and these files.
        modules: names of other files that are read, and their paths.

    Raises:
        Failure: if a directory does not exist, or a file is one or is also another one.
    """
    others = {"the input module": options.module, **(modules or {})}
    others = {name: path for name, path in others.items() if path != "-"}
    for text in getattr(options, "inputs", ()):
        path, _ = _path_and_key(text)
        if path is not None:
            others[f"{inputs} {text}"] = path
    for option, path in outputs.items():
        if path is None:
            continue
        if not Path(path).absolute().parent.is_dir():
            raise Failure(f"{path}: error: missing directory")
        if Path(path).is_dir():
            raise Failure(f"{path}: error: is a directory")
        for name, other in others.items():
            if _is_same_file(path, other):
                raise Failure(
                    f"{option} {path}: error: output would overwrite {name}; use another "
                    "file"
                )
        others[f"{option} {path}"] = path


def _is_same_file(one: str, other: str) -> bool:
    if not (os.path.exists(one) and os.path.exists(other)):
        return os.path.realpath(one) == os.path.realpath(other)
    # Nothing is lost in a device or a pipe.
    return os.path.isfile(one) and os.path.samefile(one, other)


def check_output(path: str, count: int) -> None:
    """
    Check where results are to be written to.

    Raises:
        ValueError: if the file cannot hold this many results.
    """
    if not has_suffix(path, ".npy", ".npz"):
        raise ValueError(f"'{path}' is not called .npy or .npz")
    if has_suffix(path, ".npy") and count != 1:
        raise ValueError(f"a .npy file holds one result, use .npz for {count}")


def write_results(path: str, results: Sequence[Array]) -> None:
    """
    Write results to a .npy file, or to a .npz file as `result0`, `result1`, and so on.

    Floats that NumPy does not have are written as raw bytes, as its files have no names
    for them.

    Raises:
        OSError: if the file cannot be written; it is as it was before.
    """
    arrays = [_storable(np.asarray(result)) for result in results]
    named: dict[str, Any] = {f"result{i}": array for i, array in enumerate(arrays)}
    with open_atomically(path) as stream:
        if has_suffix(path, ".npy"):
            np.save(_Stream(stream), arrays[0])
        else:
            np.savez(stream, **named)


@dataclass(frozen=True)
class _Stream:
    """A stream that NumPy writes to in pieces: of a file it does not say why it cannot."""

    stream: BinaryIO

    def write(self, data: bytes) -> int:
        return self.stream.write(data)


def _storable(array: Array) -> Array:
    if array.dtype.isbuiltin == 1:
        return array
    return array.view(f"V{array.dtype.itemsize}")
