"""Tensors of ONNX files as arrays and constants, and back."""

import os
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects import builtin
from xdsl.dialects.builtin import DenseResourceAttr, IntegerType, Signedness
from xdsl.ir import Attribute

from tests.unit.frontends.onnx.files.models import external
from xdsl_quant.frontends.onnx.files.model_files import ONNXFileError
from xdsl_quant.frontends.onnx.files.tensors import (
    array_of,
    constant_attribute,
    data_type_of_element,
    element_type_of_data,
    tensor_proto,
)
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import dense_elements, numpy_dtype

UNSUPPORTED = (
    "UNDEFINED",
    "STRING",
    "COMPLEX64",
    "COMPLEX128",
    "FLOAT6E2M3",
    "FLOAT6E3M2",
)

NAMES = [name for name in TensorProto.DataType.keys() if name not in UNSUPPORTED]


def test_element_types():
    found = {
        name: str(element_type_of_data(getattr(TensorProto, name))) for name in NAMES
    }
    assert found == {
        "FLOAT": "f32",
        "UINT8": "ui8",
        "INT8": "i8",
        "UINT16": "ui16",
        "INT16": "i16",
        "INT32": "i32",
        "INT64": "i64",
        "BOOL": "i1",
        "FLOAT16": "f16",
        "DOUBLE": "f64",
        "UINT32": "ui32",
        "UINT64": "ui64",
        "BFLOAT16": "bf16",
        "FLOAT8E4M3FN": "f8E4M3FN",
        "FLOAT8E4M3FNUZ": "f8E4M3FNUZ",
        "FLOAT8E5M2": "f8E5M2",
        "FLOAT8E5M2FNUZ": "f8E5M2FNUZ",
        "UINT4": "ui4",
        "INT4": "i4",
        "FLOAT4E2M1": "f4E2M1FN",
        "FLOAT8E8M0": "f8E8M0FNU",
        "UINT2": "ui2",
        "INT2": "i2",
    }


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported_element_types(name: str):
    with pytest.raises(ONNXFileError, match=f"^unsupported element type {name}$"):
        element_type_of_data(getattr(TensorProto, name))


@pytest.mark.parametrize("type_", [IntegerType(3), builtin.IndexType(), builtin.f80])
def test_element_types_that_onnx_lacks(type_: Attribute):
    with pytest.raises(ONNXFileError, match=f"^ONNX has no element type '{type_}'$"):
        data_type_of_element(type_)


def numbers(name: str, count: int) -> Array:
    """Return numbers that the type represents, some of them negative if possible."""
    is_unsigned = name == "BOOL" or name.startswith("U")
    values = np.arange(count) % 4 - (0 if is_unsigned else 2)
    dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name))
    if name == "BOOL":
        values %= 2
    if name == "FLOAT8E8M0":
        values = np.exp2(values)
    return values.astype(dtype)


@pytest.mark.parametrize("count", [0, 1, 6, 7])
@pytest.mark.parametrize("name", NAMES)
def test_elements(name: str, count: int):
    array = numbers(name, count)
    data_type = getattr(TensorProto, name)
    type_ = element_type_of_data(data_type)
    raw = numpy_helper.from_array(array, "t")
    for tensor in (raw, helper.make_tensor("t", data_type, [count], array)):
        found = array_of(tensor, None)
        assert found.dtype == numpy_dtype(type_)
        np.testing.assert_array_equal(
            found.astype(np.float64), array.astype(np.float64)
        )
        constant = constant_attribute(found, type_)
        assert constant.get_type() == builtin.TensorType(type_, [count])
        assert tensor_proto("t", constant) == raw


def test_shapes():
    array = np.arange(6, dtype=np.int16).reshape(1, 2, 3)
    np.testing.assert_array_equal(array_of(numpy_helper.from_array(array), None), array)
    scalar = array_of(numpy_helper.from_array(np.array(3.5, np.float32)), None)
    assert scalar.shape == ()
    assert scalar == 3.5


def test_unsigned_elements_of_signless_constants():
    stored = np.array([1, -1, -128], np.int8)
    constant = constant_attribute(stored, builtin.i8)
    tensor = tensor_proto("w", constant, IntegerType(8, Signedness.UNSIGNED))
    assert array_of(tensor, None).tolist() == [1, 255, 128]
    nibbles = constant_attribute(np.array([1, -1, -8], np.int8), IntegerType(4))
    tensor = tensor_proto("w", nibbles, IntegerType(4, Signedness.UNSIGNED))
    assert array_of(tensor, None).tolist() == [1, 15, 8]


def set_dims(*dims: int) -> Callable[[TensorProto], None]:
    """Return a change of a shape."""

    def change(tensor: TensorProto) -> None:
        tensor.dims[:] = dims

    return change


def set_field(name: str, value: Any) -> Callable[[TensorProto], None]:
    """Return a change of one field, whose type is any one."""
    return lambda tensor: setattr(tensor, name, value)


def set_segment(tensor: TensorProto) -> None:
    """Make the tensor a part of a larger one."""
    tensor.segment.begin = 0


def clear_elements(tensor: TensorProto) -> None:
    """Remove the elements."""
    tensor.ClearField("raw_data")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_dims(3), "the shape requires 12 bytes, found 16"),
        (set_dims(5), "the shape requires 20 bytes, found 16"),
        (set_dims(2**40), "the shape requires 4398046511104 bytes, found 16"),
        (set_dims(-4), "unsupported shape [-4]"),
        (set_dims(-2, -2), "unsupported shape [-2, -2]"),
        (
            set_dims(2**62, 2**62),
            "unsupported shape [" + ", ".join([str(2**62)] * 2) + "]",
        ),
        (
            set_dims(*[2**62] * 1000),
            "unsupported shape [4611686018427387904, 46116860...27387904, "
            "4611686018427387904]",
        ),
        (set_dims(4, *[1] * 64), "unsupported shape [4" + ", 1" * 9),
        (set_field("data_type", 999), "unsupported element type 999"),
        (set_field("data_type", TensorProto.STRING), "unsupported element type STRING"),
        (
            set_field("data_type", TensorProto.INT64),
            "the shape requires 32 bytes, found 16",
        ),
        (
            set_segment,
            "unsupported segment of a tensor",
        ),
        (
            clear_elements,
            "the shape requires 4 float_data values, found 0",
        ),
    ],
)
def test_damaged_tensors(change: Callable[[TensorProto], None], message: str):
    tensor = numpy_helper.from_array(np.ones(4, np.float32), "w")
    change(tensor)
    with pytest.raises(ONNXFileError, match="^" + re.escape(f"tensor 'w': {message}")):
        array_of(tensor, None)


def test_large_shapes_without_elements():
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[0, 2**62, 2**62])
    with pytest.raises(ONNXFileError, match=r"^tensor 'w': unsupported shape \[0, "):
        array_of(tensor, None)


@pytest.mark.parametrize(
    ("data_type", "number", "message"),
    [
        (TensorProto.INT8, 128, "int32_data value 128 exceeds int8"),
        (TensorProto.UINT8, -1, "int32_data value -1 exceeds uint8"),
        (TensorProto.FLOAT16, 65536, "int32_data value 65536 exceeds uint16"),
        (TensorProto.BOOL, 2, "int32_data value 2 exceeds bool"),
        (TensorProto.INT4, 256, "int32_data value 256 exceeds uint8"),
    ],
)
def test_numbers_out_of_range(data_type: int, number: int, message: str):
    tensor = TensorProto(name="w", data_type=data_type, dims=[1], int32_data=[number])
    with pytest.raises(ONNXFileError, match=f"^tensor 'w': {message}$"):
        array_of(tensor, None)


# External data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with `w.bin` (five floats), a folder, and links."""
    model = tmp_path / "model"
    (model / "inner").mkdir(parents=True)
    for path in (tmp_path / "outside.bin", model / "w.bin", model / "inner" / "w.bin"):
        np.arange(5, dtype=np.float32).tofile(path)
    (model / "link.bin").symlink_to(model / "w.bin")
    (model / "linked").symlink_to(model / "inner")
    (model / "loop").symlink_to(model / "loop")
    os.mkfifo(model / "pipe")
    return model


@pytest.mark.parametrize(
    ("entries", "first"),
    [
        ({}, 0),
        ({"offset": "4", "length": "16"}, 1),
        ({"offset": "4", "checksum": "?"}, 1),
        ({"location": "./w.bin"}, 0),
        ({"location": "inner/w.bin"}, 0),
    ],
)
def test_external_data(folder: Path, entries: dict[str, str], first: int):
    found = array_of(external(**entries), folder)
    assert found.tolist() == [*range(first, first + 4)]


NOT_INSIDE = "is not next to the model; expected a relative path without '..'"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"location": "../outside.bin"},
            f"external file '../outside.bin' {NOT_INSIDE}",
        ),
        (
            {"location": "inner/../w.bin"},
            f"external file 'inner/../w.bin' {NOT_INSIDE}",
        ),
        ({"location": "/etc/passwd"}, f"external file '/etc/passwd' {NOT_INSIDE}"),
        ({"location": ""}, f"external file '' {NOT_INSIDE}"),
        ({"location": "."}, f"external file '.' {NOT_INSIDE}"),
        ({"location": "w\0"}, f"external file 'w\ufffd' {NOT_INSIDE}"),
        ({"location": "link.bin"}, "external file 'link.bin' is a symbolic link"),
        (
            {"location": "linked/w.bin"},
            "external file 'linked/w.bin' is a symbolic link",
        ),
        ({"location": "loop"}, "external file 'loop' is a symbolic link"),
        ({"location": "inner"}, "external file 'inner' is missing"),
        ({"location": "pipe"}, "external file 'pipe' is missing"),
        ({"location": "v.bin"}, "external file 'v.bin' is missing"),
        ({"location": "v" * 300}, f"external file '{'v' * 300}': file name too long"),
        ({"offset": "8"}, "external file 'w.bin' has 20 bytes; expected 24 or more"),
        ({"offset": "-4"}, "external offset is '-4'; expected a number of bytes"),
        ({"offset": "9" * 5000}, f"external offset is '{'9' * 5000}'"),
        ({"length": "20"}, "the shape requires 16 external bytes, found 20"),
        ({"length": "0"}, "the shape requires 16 external bytes, found 0"),
        ({"length": "x"}, "external length is 'x'; expected a number of bytes"),
    ],
)
def test_unsafe_external_data(folder: Path, entries: dict[str, str], message: str):
    with pytest.raises(ONNXFileError, match="^" + re.escape(f"tensor 'w': {message}")):
        array_of(external(**entries), folder)


def test_large_external_data(folder: Path):
    tensor = external()
    tensor.dims[:] = [2**40]
    message = "external file 'w.bin' has 20 bytes; expected 4398046511104 or more"
    with pytest.raises(ONNXFileError, match=message):
        array_of(tensor, folder)


def test_external_data_without_folder():
    message = "^tensor 'w': the data is external; pass the path of the file$"
    with pytest.raises(ONNXFileError, match=message):
        array_of(external(), None)


# Memory


@pytest.mark.parametrize("is_external", [False, True])
def test_large_constants_are_copied_once(tmp_path: Path, is_external: bool):
    array = np.arange(1 << 20, dtype=np.float32)
    tensor = external() if is_external else numpy_helper.from_array(array, "w")
    tensor.dims[:] = array.shape
    array.tofile(tmp_path / "w.bin")
    tracemalloc.start()
    constant = constant_attribute(array_of(tensor, tmp_path), builtin.f32, "w")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(constant, DenseResourceAttr)
    assert constant.resource_handle.data.startswith("w")
    np.testing.assert_array_equal(dense_elements(constant), array)
    assert peak < 1.1 * array.nbytes


def test_small_and_boolean_constants_are_no_resources():
    for array, type_ in (
        (np.ones(100, np.float32), builtin.f32),
        (np.ones(1 << 20, np.bool_), builtin.i1),
    ):
        assert not isinstance(constant_attribute(array, type_), DenseResourceAttr)
