"""Casts, compared with onnxruntime where ONNX's node cases do not reach."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike
from onnx import TensorProto, helper

from tests.unit.frontends.onnx.onnxruntime_results import (
    check_node,
    floats,
    import_error,
    runtime_results,
)
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array

FLOATS = [
    *(
        0.0,
        -0.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.9,
        127.9,
        -128.9,
        300,
        -300,
        40000,
        -40000,
        70000,
    ),
    *(
        2.0**31 - 128,
        2.0**31,
        -(2.0**31),
        -(2.0**31) - 256,
        3e9,
        2.0**32,
        2.0**63,
        1.5e19,
    ),
    *(-1e19, 1e30, -1e30, np.inf, -np.inf, np.nan),
]

INTEGERS = """
INT8 UINT8 INT16 UINT16 INT32 UINT32 INT64 UINT64 BOOL
""".split()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", INTEGERS)
def test_floats_out_of_range_become_integers(name: str, dtype: DTypeLike):
    with np.errstate(over="ignore"):
        values = np.array(FLOATS).astype(dtype)
    if dtype == np.float16 and name == "UINT32":
        # onnxruntime converts f16 one by one, with another result for infinities and NaN.
        values = values[np.isfinite(values)]
    check_node("Cast", values, to=TensorProto.DataType.Value(name))


@pytest.mark.parametrize(
    "name", ["INT8", "UINT16", "INT32", "UINT64", "FLOAT16", "DOUBLE"]
)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.bool_])
def test_integers(name: str, dtype: DTypeLike):
    values = np.array([0, 1, -1, 127, 200, -129, 65535, 2**31 + 1, 2**53 + 1]).astype(
        dtype
    )
    check_node("Cast", values, to=TensorProto.DataType.Value(name))


def check_through(values: Array, name: str, back: int, **attributes: Any) -> None:
    """Compare a cast to a type that onnxruntime does not return with its values."""
    middle = TensorProto.DataType.Value(name)
    nodes = [
        helper.make_node("Cast", ["x"], ["q"], to=middle, **attributes),
        helper.make_node("Cast", ["q"], ["y"], to=back),
    ]
    type_ = helper.np_dtype_to_tensor_dtype(values.dtype)
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", type_, values.shape)],
        [helper.make_tensor_value_info("y", back, values.shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    model.ir_version = 11
    data = model.SerializeToString()
    (expected,) = runtime_results(data, {"x": values})
    (result,) = run_function(read_onnx(data), None, values)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", ["INT4", "UINT4", "INT2", "UINT2"])
def test_narrow_integers(name: str, dtype: DTypeLike):
    values = np.array([-20, -8.5, -1.5, -0.5, 0.5, 2.5, 7.5, 15.5, 300, np.inf, np.nan])
    check_through(values.astype(dtype), name, TensorProto.INT8)


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("name", ["E4M3FN", "E4M3FNUZ", "E5M2", "E5M2FNUZ"])
def test_small_floats(name: str, saturate: int):
    values = np.array(
        [0.3, -1.7, 240, 248, 449, 465, -5e4, 7e4, np.inf, -np.inf, np.nan]
    )
    name = f"FLOAT8{name}"
    check_through(values.astype(np.float32), name, TensorProto.FLOAT, saturate=saturate)
    integers = np.array([0, 3, 19, -5, 1000000], np.int32)
    check_through(integers, name, TensorProto.FLOAT, saturate=saturate)


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("round_mode", ["up", "down", "nearest"])
def test_powers_of_two(round_mode: str, saturate: int):
    values = np.array(
        [
            0,
            -3,
            0.7,
            1.5,
            3,
            5.7,
            6,
            3e38,
            2.0**127,
            2.0**-127,
            7e-39,
            1e-45,
            np.inf,
            np.nan,
        ],
        np.float32,
    )
    check_through(
        values,
        "FLOAT8E8M0",
        TensorProto.FLOAT,
        round_mode=round_mode,
        saturate=saturate,
    )


def test_compiled():
    for name in ("INT8", "UINT32", "UINT64", "FLOAT16"):
        to = TensorProto.DataType.Value(name)
        with np.errstate(over="ignore"):
            check_node("Cast", floats(FLOATS), to=to, is_compiled=True)


def test_errors():
    message = import_error(
        "Cast", floats([1]), opset=25, to=TensorProto.FLOAT8E8M0, round_mode="odd"
    )
    assert message == "unknown round_mode 'odd'; expected one of up, down, nearest"
