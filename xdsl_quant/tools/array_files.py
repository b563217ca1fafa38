"""Reading inputs of commands (files or numbers), and writing results."""

import io
import json
import os
import sys
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
from xdsl_quant.runtime.atomic_files import has_suffix
from xdsl_quant.runtime.loading import TEXT_SUFFIX, model_format, suffixes

from .failures import Failure, naming_failures, open_output


def read_values(options: Namespace) -> list[ArrayLike]:
    """
    Return the values of the inputs of a command: `x.npy`, `all.npz` for all arrays of the
    file in order, `all.npz:x` for one array, `-` for standard input, a number such as `3`
    or `nan`, or a list such as `[1.0, 2.0]`.

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
    arrays = _read_arrays(path, key)
    if isinstance(arrays, Mapping):
        return [*arrays.values()]
    if has_suffix(path, ".npz"):
        raise ValueError(f"'{path}' is not a NumPy archive")
    return [arrays]


def data_file(options: Namespace) -> str:
    """
    Return the file of `--data`.

    Raises:
        Failure: if several files are given.
    """
    path, *more = options.data
    if more:
        raise Failure(
            f"--data {more[0]}: error: expected one file with samples, found "
            f"{len(options.data)}; a .npz file has an array for each argument"
        )
    return path


def read_samples(path: str) -> str | Array | Mapping[str, Array]:
    """
    Return a path unchanged, but for `-` read the arrays from standard input.

    Raises:
        Failure: if standard input has no arrays.
    """
    if path != "-":
        return path
    with naming_failures(path, ValueError):
        return _read_arrays(path, None)


def _path_and_key(text: str) -> tuple[str | None, str | None]:
    """
    Return the path and the array name. The path is `None` if the text is not a file but
    numbers; the name is `None` if all arrays are meant.
    """
    path, _, key = text.rpartition(":")
    if has_suffix(path, ".npz"):
        return path, key
    is_file = text == "-" or has_suffix(text, ".npy", ".npz")
    return (text if is_file else None), None


def _load(path: str) -> object:
    try:
        source = io.BytesIO(sys.stdin.buffer.read()) if path == "-" else path
        return np.load(source, allow_pickle=False)
    except (ValueError, *ARCHIVE_ERRORS):
        raise ValueError(f"'{path}' is not a NumPy file") from None


def _read_arrays(path: str, key: str | None) -> Array | Mapping[str, Array]:
    """Read an array, or the arrays of an archive by name."""
    archive = _load(path)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        return cast("Array", archive)
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
            return {name: cast("Array", archive[name]) for name in keys}
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
    outputs: Mapping[str, str | None],
    modules: Mapping[str, str] | None = None,
) -> None:
    """
    Check that output files are writable and differ from the input files, and that one
    input at most is standard input.

    Args:
        options: the parsed options, with `module` and, optionally, `inputs` and `data`.
        outputs: path of each output file by flag; `None` if the flag is not set.
        modules: paths of further input files, by the name to use in messages.

    Raises:
        Failure: if a directory is missing, a path is a directory, or files coincide.
    """
    others = _input_files(options) | dict(modules or {})
    standard = [name for name, path in others.items() if path == "-"]
    if len(standard) > 1:
        first, second, *_ = standard
        raise Failure(
            f"-: error: standard input is used twice: for {first} and {second}"
        )
    others = {name: path for name, path in others.items() if path != "-"}
    given = {option: path for option, path in outputs.items() if path is not None}
    for option, path in given.items():
        if option == "--checkpoint" and path == "-":
            raise Failure("--checkpoint -: error: expected a file")
        if path != "-" and not Path(path).absolute().parent.is_dir():
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


def _input_files(options: Namespace) -> dict[str, str]:
    """Return the path of each input file by the name to use in messages."""
    files = {"the input module": options.module}
    for text in getattr(options, "inputs", ()):
        path, _ = _path_and_key(text)
        if path is not None:
            files[f"--input {text}"] = path
    return files | {f"--data {path}": path for path in getattr(options, "data", ())}


def _is_same_file(one: str, other: str) -> bool:
    if not (os.path.exists(one) and os.path.exists(other)):
        return os.path.realpath(one) == os.path.realpath(other)
    # Writing to a device or a pipe destroys nothing.
    return os.path.isfile(one) and os.path.samefile(one, other)


def check_report(path: str | None, *suffixes: str) -> None:
    """
    Check the suffix of a report; `-` and devices need none.

    Raises:
        Failure: if the suffix is not one of `suffixes`.
    """
    if path is None or path == "-" or has_suffix(path, *suffixes):
        return
    if Path(path).is_file() or not Path(path).exists():
        *first, last = suffixes
        raise Failure(
            f"--report {path}: error: unknown kind of report; use {', '.join(first)} or "
            f"{last}"
        )


def check_output(path: str, count: int) -> None:
    """
    Check that the suffix of an output file suits `count` results; `-` needs none.

    Raises:
        Failure: if the file is neither .npy nor .npz, or .npy and `count` is not 1.
    """
    if path != "-" and not has_suffix(path, ".npy", ".npz"):
        raise Failure(f"-o {path}: error: expected a .npy or .npz file")
    if has_suffix(path, ".npy") and count != 1:
        raise Failure(
            f"-o {path}: error: a .npy file holds one result, found {count}; use .npz"
        )


def check_model_output(path: str) -> None:
    """
    Check the suffix of a model file to write; `-` and files without suffix are text.

    Raises:
        Failure: if the suffix is unknown.
    """
    if (
        Path(path).suffix
        and not has_suffix(path, TEXT_SUFFIX)
        and not model_format(path)
    ):
        raise Failure(f"-o {path}: error: expected a {suffixes(TEXT_SUFFIX)} file")


def write_results(path: str, results: Sequence[Array]) -> None:
    """
    Write results to a .npy file, or to a .npz file as `result0`, `result1`, and so on. To
    standard output (`-`), write one result as .npy, others as .npz.

    Floats of `ml_dtypes` are written as raw bytes: .npy files cannot name their dtypes.

    Raises:
        Failure: if the file cannot be written; an existing file stays unchanged.
    """
    arrays = [_storable(np.asarray(result)) for result in results]
    named: dict[str, Any] = {f"result{i}": array for i, array in enumerate(arrays)}
    with open_output(path) as stream:
        if has_suffix(path, ".npy") or (path == "-" and len(arrays) == 1):
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
