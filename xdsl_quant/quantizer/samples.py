"""
Samples as batches of arguments, from arrays, files and iterables.

Arrays in files are read batch by batch, so they may exceed memory.
"""

import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import IO, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from xdsl_quant.diagnostics import counted
from xdsl_quant.numerics.arrays import Array, DType, check_unmasked
from xdsl_quant.runtime.array_archives import (
    ARCHIVE_ERRORS,
    DAMAGED_ARCHIVE,
    check_members,
)
from xdsl_quant.runtime.arrays import allows_shape, numpy_dtype, shape_of, shape_text
from xdsl_quant.runtime.atomic_files import has_suffix
from xdsl_quant.runtime.batches import Arguments, Batch, as_tuple

from .user_warnings import warn_user

Data: TypeAlias = (
    "str | os.PathLike[str] | Array | Mapping[str, Array] | Iterable[Batch]"
)
"""
Samples: a `.npy` or `.npz` file, an array, arrays by name, or an iterable of batches.
Arrays have a sample in each row. A batch is a tuple of all arguments, or the only
argument. Arrays with names, as in a `.npz` file, are matched to arguments by name if
every array has the name of an argument, else in order.
"""

LabelData: TypeAlias = "str | os.PathLike[str] | Array"
"""A `.npy` file, a `.npz` file with one array, or an array; a row for each sample."""

Progress: TypeAlias = "Callable[[Iterable[Batch], int | None], Iterable[Batch]]"
"""Function that wraps batches to show progress; takes them and their number or `None`."""

DYNAMIC_BATCH = 32
"""Number of samples per batch if the function takes any number."""

_MOST_BYTES = 1 << 28
"""Maximum size in bytes of the batches that `evenly_spaced_batches` keeps in memory."""


class DataError(ValueError):
    """Raised for samples or labels that cannot be used."""

    message: str

    source: str
    """Name of the file or array; empty if unknown."""

    def __init__(self, message: str, source: str = ""):
        super().__init__(message, source)
        self.message, self.source = message, source

    def __str__(self) -> str:
        return f"{self.source}: {self.message}" if self.source else self.message


@dataclass(frozen=True)
class _Source:
    """Rows of an array in memory or in a file."""

    name: str

    shape: tuple[int, ...]
    dtype: DType

    array: Array | None = None
    archive: str | None = None
    """Path of the archive that contains the array; `None` if it is in memory."""

    member: str = ""

    key: str = ""
    """Name of the array in the archive or dict."""

    def batches(self, sizes: Sequence[int]) -> Iterator[Array]:
        """Yield batches with the given numbers of rows."""
        if self.array is not None:
            start = 0
            for size in sizes:
                yield np.asarray(self.array[start : start + size])
                start += size
            return
        assert self.archive is not None
        try:
            yield from self._batches_of_archive(self.archive, sizes)
        except ARCHIVE_ERRORS:
            raise DataError(DAMAGED_ARCHIVE, self.archive) from None

    def _batches_of_archive(self, path: str, sizes: Sequence[int]) -> Iterator[Array]:
        row_length = prod(self.shape[1:]) * self.dtype.itemsize
        with (
            zipfile.ZipFile(path) as archive,
            archive.open(self.member) as file,
        ):
            _header(file)
            for size in sizes:
                data = file.read(size * row_length)
                if len(data) != size * row_length:
                    raise DataError("truncated array: missing rows", self.name)
                array = np.frombuffer(data, self.dtype)
                yield array.reshape(size, *self.shape[1:])
            # Reading to the end verifies the checksum.
            file.read(1)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, DType]:
    """Read shape, order (True for Fortran) and dtype from the header of a `.npy` file."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def batches_of(data: Data, function: FuncOp) -> tuple[Iterable[Batch], int | None]:
    """
    Return batches for a function, and the number of batches (`None` if unknown). The
    batches can be iterated several times.

    Raises:
        DataError: if a file has no arrays or is damaged, or arrays do not match the
            arguments or are not finite; the message names the file, the array and the
            row.
        TypeError: if samples have another type, or an array is masked.
    """
    if isinstance(data, Batches):
        return data, len(data)
    sources = _array_sources(data)
    if sources is None:
        given = cast("Iterable[Batch]", data)
        if not hasattr(given, "__iter__"):
            raise TypeError(
                "data must be a file, an array, a dict of arrays or an iterable of "
                f"batches, not {type(data).__name__}"
            )
        if iter(given) is given:
            # Several observers iterate over the batches.
            given = [*given]
        if isinstance(given, Sequence) and not given:
            raise DataError("expected one or more batches, found none")
        if not isinstance(given, Sequence):
            return _GivenBatches(given), None
        _warn_of_constant_samples("data", given)
        return _GivenBatches(given), len(given)
    if len(sources) == len(function.args):
        sources = _by_name(sources, function)
    sizes = _batch_sizes(sources, function)
    batches = Batches(sources, sizes)
    arrays = zip(*(source.batches(sizes) for source in sources), strict=True)
    _warn_of_constant_samples(sources[0].name, arrays)
    return batches, len(sizes)


def _warn_of_constant_samples(name: str, batches: Iterable[Batch]) -> None:
    """Warn if each argument has one value only. Reads batches until a second value."""
    values: list[object] = []
    count = 0
    for batch in batches:
        arrays = [np.asarray(argument) for argument in as_tuple(batch)]
        count += sum(array.size for array in arrays)
        if not all(array.size for array in arrays):
            return
        values = values or [array.flat[0] for array in arrays]
        pairs = zip(arrays, values, strict=False)
        if any((array != value).any() for array, value in pairs):
            return
    if count > len(values):
        warn_user(
            f"{name}: constant samples: every value is {values[0]}; use real inputs, or "
            "ranges and errors are meaningless"
        )


@dataclass(frozen=True)
class _GivenBatches:
    given: Iterable[Batch]

    def __iter__(self) -> Iterator[Batch]:
        for number, batch in enumerate(self.given):
            for index, argument in enumerate(as_tuple(batch)):
                _check_finite_samples(f"batch {number}, argument {index}", argument, 0)
            yield batch


@dataclass(frozen=True)
class Batches:
    """Batches that are read again in each iteration."""

    sources: Sequence[_Source]
    sizes: Sequence[int]
    """Number of rows of each batch."""

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[Batch]:
        first_row = 0
        streams = [source.batches(self.sizes) for source in self.sources]
        for size, *arrays in zip(self.sizes, *streams, strict=True):
            for source, array in zip(self.sources, arrays, strict=True):
                _check_finite_samples(source.name, array, first_row)
            yield tuple(arrays)
            first_row += size


def evenly_spaced_batches(batches: Iterable[Batch], most: int) -> list[Arguments]:
    """
    Return evenly spaced batches, in a list that fits in memory.

    Args:
        batches: all batches, read once.
        most: the maximum number of batches, at least 2; fewer if batches are large.
    """
    selected: list[Arguments] = []
    distance = 1
    for number, batch in enumerate(batches):
        if number % distance:
            continue
        arguments = as_tuple(batch)
        size = sum(np.asarray(each).nbytes for each in arguments)
        most = max(min(most, _MOST_BYTES // max(size, 1)), 2)
        selected.append(arguments)
        if len(selected) > most:
            selected, distance = selected[::2], 2 * distance
    return selected


def labels_of(labels: LabelData, batches: Iterable[Batch]) -> tuple[str, Array]:
    """
    Return a name of the labels for messages, and the labels as an array with a row for
    each sample in `batches`.

    Raises:
        DataError: if a file does not have exactly one array, or the numbers of rows and
            samples differ.
        TypeError: if labels have another type, or are masked.
    """
    if not isinstance(cast(object, labels), str | os.PathLike | np.ndarray):
        raise TypeError(
            f"labels must be a file or an array, not {type(labels).__name__}"
        )
    sources = _array_sources(labels, "labels") or []
    if len(sources) != 1:
        raise DataError(
            f"expected one array of labels, found {len(sources)}; write the labels to a "
            "separate file",
            str(labels),
        )
    source = sources[0]
    count = source.shape[0]
    if isinstance(batches, Batches):
        samples = batches.sources[0]
        if count != samples.shape[0]:
            raise DataError(
                f"found {count} labels, expected {samples.shape[0]} for the samples of "
                f"{samples.name}",
                source.name,
            )
        # `batches` may lack the last samples: an incomplete batch is left out.
        count = sum(batches.sizes)
    if not count:
        raise DataError("expected one or more labels, found none", source.name)
    (values,) = source.batches([count])
    return source.name, values


def _check_finite_samples(name: str, argument: object, first_row: int) -> None:
    array = np.asarray(argument)
    if array.dtype.kind != "f" or (is_finite := np.isfinite(array)).all():
        return
    place, row = "", ()
    if array.ndim:
        row = int(np.argmin(is_finite.reshape(len(array), -1).all(1)))
        place = f" in row {first_row + row}"
    found = array[row][~is_finite[row]].flat[0]
    raise DataError(f"non-finite value{place}: {found}; leave the sample out", name)


def _array_sources(data: Data, name: str = "data") -> Sequence[_Source] | None:
    """Return the arrays of samples; `None` if samples are batches."""
    if isinstance(data, str | os.PathLike):
        return _file_sources(os.fspath(data))
    if isinstance(data, np.ndarray):
        check_unmasked(cast("Array", data), name)
        return [_array_source(name, cast("Array", data))]
    if isinstance(data, Mapping):
        named = cast("Mapping[str, Array]", data)
        for key in named:
            check_unmasked(named[key], f"'{key}'")
        return [
            replace(_array_source(f"'{key}'", np.asarray(named[key])), key=key)
            for key in named
        ]
    return None


def _array_source(name: str, array: Array) -> _Source:
    if not array.ndim:
        raise DataError("expected an array of numbers with a row for each sample", name)
    return _Source(name, array.shape, array.dtype, array)


def _file_sources(path: str) -> Sequence[_Source]:
    try:
        if has_suffix(path, ".npz") or zipfile.is_zipfile(path):
            return _archive_sources(path)
        return [_array_source(path, np.load(path, mmap_mode="r"))]
    except DataError:
        raise
    except OSError as e:
        raise DataError((e.strerror or str(e)).lower(), path) from None
    except (ValueError, *ARCHIVE_ERRORS) as e:
        if isinstance(e, ARCHIVE_ERRORS) and zipfile.is_zipfile(path):
            raise DataError(DAMAGED_ARCHIVE, path) from None
        raise DataError(
            "expected a NumPy file of numbers, .npy or .npz", path
        ) from None


def _archive_sources(path: str) -> Sequence[_Source]:
    sources: list[_Source] = []
    with zipfile.ZipFile(path) as archive:
        check_members(archive)
        for member in archive.namelist():
            key = member.removesuffix(".npy")
            name = f"{path}:{key}"
            with archive.open(member) as file:
                shape, is_fortran, dtype = _header(file)
            if dtype.hasobject or not shape:
                raise DataError(
                    "expected an array of numbers with a row for each sample", name
                )
            if is_fortran and len(shape) > 1:
                # Rows are not contiguous in the file.
                with np.load(path, allow_pickle=False) as arrays:
                    source = _array_source(name, arrays[key])
                    sources.append(replace(source, key=key))
            else:
                sources.append(_Source(name, shape, dtype, None, path, member, key))
    return sources


def _by_name(sources: Sequence[_Source], function: FuncOp) -> Sequence[_Source]:
    """Return arrays in argument order if their names match, else in the given order."""
    by_key = {source.key: source for source in sources}
    known = [*_names_of_arguments(function)]
    for names in known:
        if {*names} == {*by_key} and len(names) == len(sources):
            return [by_key[name] for name in names]
    for names in known:
        for index, source in enumerate(sources):
            if source.key in names and names.index(source.key) != index:
                raise DataError(
                    f"array {index} has the name of argument {names.index(source.key)} of "
                    f"function '{function.sym_name.data}'; name all arrays after the "
                    f"arguments {', '.join(names)}, or none",
                    source.name,
                )
    return sources


def _names_of_arguments(function: FuncOp) -> Iterator[Sequence[str]]:
    """Yield the argument names from MLIR text, then those from a `.tflite` file."""
    hints = [argument.name_hint or "" for argument in function.args]
    if all(hints):
        yield hints
    entry = function.attributes.get("tf.entry_function")
    inputs = entry.data.get("inputs") if isinstance(entry, DictionaryAttr) else None
    if isinstance(inputs, StringAttr):
        names = inputs.data.split(",")
        yield names
        yield [name.partition(":")[0] for name in names]


def _batch_sizes(sources: Sequence[_Source], function: FuncOp) -> Sequence[int]:
    name, types = function.sym_name.data, function.function_type.inputs.data
    count = _sample_count(sources, function)
    sizes: set[int] = set()
    for index, (source, type_) in enumerate(zip(sources, types, strict=True)):
        _check_argument(source, type_, f"argument {index} of function '{name}'")
        sizes.update(size for size in shape_of(type_)[:1] if size >= 0)
    if len(sizes) > 1:
        raise DataError(
            f"arguments of function '{name}' have different numbers of rows, found "
            f"{sorted(sizes)}; give batches, each a tuple of the arguments"
        )
    size = next(iter(sizes), DYNAMIC_BATCH)
    if not size:
        raise DataError(f"function '{name}' takes 0 rows, expected 1 or more")
    full, rest = divmod(count, size)
    batch_sizes = [size] * full
    if not sizes:
        batch_sizes += [rest] * bool(rest)
    elif full and rest:
        warn_user(
            f"the last {rest} of {count} samples are left out: function '{name}' takes "
            f"batches of {size}"
        )
    if not batch_sizes:
        raise DataError(
            f"found {counted(count, 'sample')}, expected {max(sizes, default=1)} or more",
            sources[0].name,
        )
    return batch_sizes


def _sample_count(sources: Sequence[_Source], function: FuncOp) -> int:
    """Return the common number of rows of the arrays, one for each argument."""
    name, types = function.sym_name.data, function.function_type.inputs.data
    if not types:
        raise DataError(f"function '{name}' has no arguments, expected one for samples")
    if len(sources) != len(types):
        names = ", ".join(each.name for each in sources)
        remedy = "leave out arrays that are not arguments, such as labels"
        if len(sources) < len(types):
            remedy = "write all of them to a .npz file, or give a dict in Python"
        raise DataError(
            f"expected {counted(len(types), 'array')}, one for each argument of function "
            f"'{name}', found {f'{len(sources)}: {names}' if names else 'none'}; {remedy}"
        )
    counts = {source.shape[0] for source in sources}
    if len(counts) > 1:
        found = ", ".join(f"{each.name} with {each.shape[0]}" for each in sources)
        raise DataError(f"expected arrays with equal numbers of rows, found {found}")
    return counts.pop()


def _check_argument(source: _Source, type_: Attribute, argument: str) -> None:
    shape = shape_of(type_)
    if not shape:
        raise DataError(
            f"{argument} has no rows, found {type_}; in Python, give batches, each a tuple "
            "of the arguments"
        )
    # Samples are split into batches, so the number of rows may differ from the type's.
    if not allows_shape(type_, (shape[0], *source.shape[1:])):
        raise DataError(
            f"rows of shape [{shape_text(source.shape[1:])}] do not match {argument} of "
            f"type {type_}, expected rows of shape [{shape_text(shape[1:])}]",
            source.name,
        )
    if not _has_dtype(source.dtype, dtype := numpy_dtype(type_)):
        raise DataError(
            f"unsupported dtype {source.dtype} for {argument}, expected {dtype}; "
            "convert them with astype",
            source.name,
        )


def _has_dtype(found: DType, expected: DType) -> bool:
    """Return True if dtypes match. Signless integers match by width."""
    kinds = {found.kind, expected.kind}
    if kinds <= {"i", "u"} or "V" in kinds:
        # Files store dtypes that NumPy lacks as raw bytes.
        return found.itemsize == expected.itemsize
    return found.newbyteorder("=") == expected


# Former name, kept for compatibility.
spread_batches = evenly_spaced_batches
