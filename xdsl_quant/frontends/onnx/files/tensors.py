"""Elements of tensors in `.onnx` files as arrays and constants, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto
from xdsl.dialects import builtin
from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness, TensorType
from xdsl.ir import Attribute

from xdsl_quant.diagnostics import shortened_text
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics.arrays import Array, DType, bytes_of
from xdsl_quant.runtime.arrays import (
    ElementsAttr,
    dense_elements,
    elements_attr,
    numpy_dtype,
)
from xdsl_quant.xdsl_patches.resources import RESOURCE_BYTES, new_resource

from .model_files import ONNXFileError

_ELEMENT_TYPES: Mapping[int, IntegerType | AnyFloat] = {
    TensorProto.FLOAT: builtin.f32,
    TensorProto.UINT8: IntegerType(8, Signedness.UNSIGNED),
    TensorProto.INT8: builtin.i8,
    TensorProto.UINT16: IntegerType(16, Signedness.UNSIGNED),
    TensorProto.INT16: builtin.i16,
    TensorProto.INT32: builtin.i32,
    TensorProto.INT64: builtin.i64,
    TensorProto.BOOL: builtin.i1,
    TensorProto.FLOAT16: builtin.f16,
    TensorProto.DOUBLE: builtin.f64,
    TensorProto.UINT32: IntegerType(32, Signedness.UNSIGNED),
    TensorProto.UINT64: IntegerType(64, Signedness.UNSIGNED),
    TensorProto.BFLOAT16: builtin.bf16,
    TensorProto.FLOAT8E4M3FN: builtin.Float8E4M3FNType(),
    TensorProto.FLOAT8E4M3FNUZ: builtin.Float8E4M3FNUZType(),
    TensorProto.FLOAT8E5M2: builtin.Float8E5M2Type(),
    TensorProto.FLOAT8E5M2FNUZ: builtin.Float8E5M2FNUZType(),
    TensorProto.UINT4: IntegerType(4, Signedness.UNSIGNED),
    TensorProto.INT4: IntegerType(4),
    # Older releases of `onnx` lack names for these.
    23: builtin.Float4E2M1FNType(),
    24: builtin.Float8E8M0FNUType(),
    25: IntegerType(2, Signedness.UNSIGNED),
    26: IntegerType(2),
}

_DATA_TYPES: Mapping[Attribute, int] = {
    type_: number for number, type_ in _ELEMENT_TYPES.items()
}


def element_type_of_data(data_type: int) -> IntegerType | AnyFloat:
    """
    Return the element type of a `TensorProto.DataType`: signless for signed integers, `ui8`
    and the like for unsigned ones, `i1` for booleans.

    Raises:
        ONNXFileError: if tensors of this type are unsupported (strings, complex numbers,
            6-bit floats).
    """
    if (type_ := _ELEMENT_TYPES.get(data_type)) is None:
        names = {number: name for name, number in TensorProto.DataType.items()}
        raise ONNXFileError(
            f"unsupported element type {names.get(data_type, data_type)}"
        )
    return type_


def data_type_of_element(element_type: Attribute) -> int:
    """
    Return the `TensorProto.DataType` of an element type, see
    [`element_type_of_data`][xdsl_quant.frontends.onnx.files.tensors.element_type_of_data].

    Raises:
        ONNXFileError: if ONNX has no such type.
    """
    if (data_type := _DATA_TYPES.get(element_type)) is None:
        raise ONNXFileError(f"ONNX has no element type '{element_type}'")
    return data_type


# Reading


def array_of(tensor: TensorProto, folder: Path | None) -> Array:
    """
    Return the elements of a tensor, with the dtype of
    [`numpy_dtype`][xdsl_quant.runtime.arrays.numpy_dtype] for its element type: one element
    per array item, e.g. `int8` for 4 bits.

    Args:
        tensor: the tensor, whose data may be external.
        folder: folder of the model file; `None` if external data is unavailable.

    Raises:
        ONNXFileError: if the element type is unsupported, sizes disagree, or external data
            is missing or outside of `folder`.
    """
    try:
        return _array(tensor, folder)
    except ONNXFileError as e:
        raise ONNXFileError(f"tensor '{tensor.name}': {e}") from None


def _array(tensor: TensorProto, folder: Path | None) -> Array:
    element_type = element_type_of_data(tensor.data_type)
    if tensor.HasField("segment"):
        raise ONNXFileError("unsupported segment of a tensor")
    shape = _shape(tensor)
    count = math.prod(shape)
    size = (count * _file_bits(element_type) + 7) // 8
    if tensor.data_location == TensorProto.EXTERNAL:
        elements = unpack_elements(_external_bytes(tensor, folder, size), element_type)
    elif tensor.HasField("raw_data"):
        data = np.frombuffer(tensor.raw_data, np.uint8)
        _check_count(data.size, size, "bytes")
        elements = unpack_elements(data, element_type)
    else:
        elements = _typed_elements(tensor, element_type, count)
    try:
        return elements[:count].reshape(shape)
    except ValueError:
        # NumPy limits the rank, and the product of sizes even if one of them is 0.
        raise _unsupported_shape(shape) from None


_MAX_RANK = 64
"""Maximum rank of arrays in NumPy 2."""

_MAX_COUNT = 1 << 59
"""Number of elements whose size in bits exceeds 64 bits."""


def _shape(tensor: TensorProto) -> Sequence[int]:
    shape = [*tensor.dims]
    is_small = len(shape) <= _MAX_RANK and math.prod(shape) < _MAX_COUNT
    if not is_small or min(shape, default=0) < 0:
        raise _unsupported_shape(shape)
    return shape


def _unsupported_shape(shape: Sequence[int]) -> ONNXFileError:
    return ONNXFileError(f"unsupported shape {shortened_text(str(shape))}")


def _check_count(found: int, expected: int, noun: str) -> None:
    if found != expected:
        raise ONNXFileError(f"the shape requires {expected} {noun}, found {found}")


def _file_bits(element_type: IntegerType | AnyFloat) -> int:
    """Return the size of an element in a file; a boolean takes a byte."""
    return 8 if element_type.bitwidth == 1 else element_type.bitwidth


def unpack_elements(
    data: NDArray[np.uint8], element_type: IntegerType | AnyFloat
) -> Array:
    """Return the elements in bytes of a file, and those of padding in the last byte."""
    dtype = numpy_dtype(element_type)
    if dtype == np.bool_:
        return data != 0
    if (bits := _file_bits(element_type)) >= 8:
        return data.view(dtype)
    # The first element is in the lowest bits. The shift back extends the sign.
    high = data[:, None] << np.arange(8 - bits, -1, -bits, dtype=np.uint8)
    if dtype == np.int8:
        high = high.view(np.int8)
    high >>= high.dtype.type(8 - bits)
    return high.reshape(-1).view(dtype)


def _typed_elements(
    tensor: TensorProto, element_type: IntegerType | AnyFloat, count: int
) -> Array:
    dtype = numpy_dtype(element_type)
    match tensor.data_type:
        case TensorProto.FLOAT:
            name, found = "float_data", np.array(tensor.float_data, np.float32)
        case TensorProto.DOUBLE:
            name, found = "double_data", np.array(tensor.double_data, np.float64)
        case TensorProto.INT64:
            name, found = "int64_data", np.array(tensor.int64_data, np.int64)
        case TensorProto.UINT32 | TensorProto.UINT64:
            name, found = "uint64_data", np.array(tensor.uint64_data, np.uint64)
        case _:
            name, found = "int32_data", np.array(tensor.int32_data, np.int32)
    if (bits := _file_bits(element_type)) < 8:
        # Each number is a byte with several elements.
        _check_count(found.size, (count * bits + 7) // 8, f"{name} values")
        return unpack_elements(_in_range(found, np.dtype(np.uint8), name), element_type)
    _check_count(found.size, count, f"{name} values")
    if isinstance(element_type, AnyFloat) and name == "int32_data":
        return _in_range(found, np.dtype(f"uint{bits}"), name).view(dtype)
    return found if found.dtype == dtype else _in_range(found, dtype, name)


def _in_range(values: Array, dtype: DType, name: str) -> Array:
    """Convert integers to a smaller dtype; refuse values that it cannot represent."""
    converted = values.astype(dtype)
    if (is_wrong := converted != values).any():
        raise ONNXFileError(f"{name} value {values[is_wrong][0]} exceeds {dtype}")
    return converted


# External data


def _external_bytes(
    tensor: TensorProto, folder: Path | None, size: int
) -> NDArray[np.uint8]:
    """Read `size` bytes, once their range in the file is known to be valid."""
    if folder is None:
        raise ONNXFileError("the data is external; pass the path of the file")
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    offset = _external_number(entries, "offset", 0)
    _check_count(_external_number(entries, "length", size), size, "external bytes")
    try:
        path = _external_path(folder, location)
        available = path.stat().st_size
        if offset + size > available:
            raise ONNXFileError(
                f"external file '{location}' has {available} bytes; expected "
                f"{offset + size} or more"
            )
        with path.open("rb") as stream:
            stream.seek(offset)
            # Arrays that are views of bytes become resources without a copy.
            data = np.frombuffer(stream.read(size), np.uint8)
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        raise ONNXFileError(f"external file '{location}': {reason}") from None
    _check_count(data.size, size, "external bytes")
    return data


def _external_number(entries: Mapping[str, str], key: str, default: int) -> int:
    text = entries.get(key, str(default))
    if not re.fullmatch("[0-9]{1,18}", text):
        raise ONNXFileError(f"external {key} is '{text}'; expected a number of bytes")
    return int(text)


def _external_path(folder: Path, location: str) -> Path:
    """Return the path of a regular file in a folder, without links on the way."""
    path = PurePosixPath(location)
    if not path.parts or path.is_absolute() or {"..", "\0"} & {*path.parts, *location}:
        raise ONNXFileError(
            f"external file '{location}' is not next to the model; expected a relative "
            "path without '..'"
        )
    found = folder
    for part in path.parts:
        found /= part
        if found.is_symlink():
            raise ONNXFileError(f"external file '{location}' is a symbolic link")
    if not found.is_file():
        raise ONNXFileError(f"external file '{location}' is missing")
    return found


# Constants


def constant_attribute(
    array: Array, element_type: Attribute, name: str = "constant"
) -> ElementsAttr:
    """
    Return the elements of a `stablehlo.constant`, as a resource if they are large.

    Args:
        array: elements with the dtype of `element_type`, see
            [`array_of`][xdsl_quant.frontends.onnx.files.tensors.array_of].
        element_type: an integer or float type.
        name: name of a resource.
    """
    if array.nbytes < RESOURCE_BYTES or array.dtype == np.bool_:
        return elements_attr(array, element_type)
    return new_resource(name, array, TensorType(element_type, array.shape))


def tensor_proto(
    name: str, value: ElementsAttr, element_type: Attribute | None = None
) -> TensorProto:
    """
    Return the elements of a constant as a tensor of a file.

    Args:
        name: name of the tensor.
        value: the elements.
        element_type: element type in the file, by default that of `value`; e.g. `ui8` for
            a signless constant that stores unsigned values. It has the same width.

    Raises:
        ONNXFileError: if ONNX has no such element type.
        ValueError: if a resource has no data.
    """
    array = dense_elements(value)
    type_ = element_type or scalar_or_element_type(value.type)
    data_type = data_type_of_element(type_)
    bits = _file_bits(_ELEMENT_TYPES[data_type])
    data = bytes_of(array) if bits >= 8 else _packed(array, bits)
    return TensorProto(name=name, dims=array.shape, data_type=data_type, raw_data=data)


def _packed(array: Array, bits: int) -> bytes:
    """Return elements of less than 8 bits as bytes, the first one in the lowest bits."""
    count = 8 // bits
    codes = array.reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)
    padded = np.append(codes, np.zeros(-codes.size % count, np.uint8))
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(padded.reshape(-1, count) << shifts, axis=1).tobytes()
