"""Reading inputs of commands (files or numbers), and writing results."""

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

from .failures import Failure, naming_failures


def read_values(options: Namespace) -> list[ArrayLike]:
    """
    Return the values of the inputs of a command: `x.npy`, `all.npz` for all arrays of the
    file in order, `all.npz:x` for one array, a number such as `3` or `nan`, or a list such
    as `[1.0, 2.0]`.

    Raises:
        Failure: if an input is malformed, a file cannot be read, or an array is missing.
    """
    values: list[ArrayLike] = []
    for text in options.inputs:
        with naming_failures(f"input {text}", OSError, ValueError):
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
    """
    Return the path and the array name. The path is `None` if the text is not a file but
    numbers; the name is `None` if all arrays are meant.
    """
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
                f"'{path}' has no array '{missing[0]}', available: "
                f"{', '.join(archive.files)}"
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
            raise ValueError(f"'{path}' has unsupported arrays of objects") from None


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
    Check that output files are writable and differ from the input files.

    Args:
        options: the parsed options, with `module` and, optionally, `inputs`.
        inputs: the flag for inputs, to use in messages.
        outputs: path of each output file by flag; `None` if the flag is not set.
        modules: paths of further input files, by the name to use in messages.

    Raises:
        Failure: if a directory is missing, a path is a directory, or files coincide.
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
    # Writing to a device or a pipe destroys nothing.
    return os.path.isfile(one) and os.path.samefile(one, other)


def check_output(path: str, count: int) -> None:
    """
    Check that the suffix of an output file suits `count` results.

    Raises:
        ValueError: if the file is neither .npy nor .npz, or .npy and `count` is not 1.
    """
    if not has_suffix(path, ".npy", ".npz"):
        raise ValueError(f"unknown file type: '{path}'; use .npy or .npz")
    if has_suffix(path, ".npy") and count != 1:
        raise ValueError(f"a .npy file holds one result, found {count}; use .npz")


def write_results(path: str, results: Sequence[Array]) -> None:
    """
    Write results to a .npy file, or to a .npz file as `result0`, `result1`, and so on.

    Floats of `ml_dtypes` are written as raw bytes: .npy files cannot name their dtypes.

    Raises:
        OSError: if the file cannot be written; an existing file stays unchanged.
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
    """File wrapper: if NumPy writes to it, errors contain the system's reason."""

    stream: BinaryIO

    def write(self, data: bytes) -> int:
        return self.stream.write(data)


def _storable(array: Array) -> Array:
    if array.dtype.isbuiltin == 1:
        return array
    return array.view(f"V{array.dtype.itemsize}")
