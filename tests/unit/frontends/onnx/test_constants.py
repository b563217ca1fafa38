"""Inputs that become constants."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike
from onnx import TensorProto, helper

from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx, write_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.quantizer import quantize
from xdsl_quant.tools import compare, run


def _branches() -> bytes:
    """Return a model that doubles `x` for the rate 16000, and negates it otherwise."""
    value = helper.make_tensor_value_info
    result = [value("z", TensorProto.FLOAT, [2])]
    branches: dict[str, Any] = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op_type, operands, ["z"])], name, [], result
        )
        for name, op_type, operands in (
            ("then", "Add", ["x", "x"]),
            ("else", "Neg", ["x"]),
        )
    }
    rate = helper.make_tensor("rate", TensorProto.INT64, [], [16000])
    nodes = [
        helper.make_node("Constant", [], ["rate"], value=rate),
        helper.make_node("Equal", ["sr", "rate"], ["is_fast"]),
        helper.make_node("If", ["is_fast"], ["y"], **branches),
    ]
    inputs = [value("x", TensorProto.FLOAT, [2]), value("sr", TensorProto.INT64, [])]
    outputs = [value("y", TensorProto.FLOAT, [2])]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    content: bytes = proto.SerializeToString()
    return content


def _identity(data_type: int, shape: list[int | str]) -> bytes:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [value("x", data_type, shape)],
        [value("y", data_type, shape)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    content: bytes = proto.SerializeToString()
    return content


@pytest.mark.parametrize(("rate", "expected"), [(16000, [2, 4]), (8000, [-1, -2])])
def test_branches_are_chosen_at_import(rate: int, expected: list[float]):
    module = read_onnx(_branches(), constants={"sr": rate})
    assert "stablehlo.if" not in str(module)
    (result,) = run_function(module, None, np.array([1, 2], np.float32))
    assert result.tolist() == expected


def test_the_option_of_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "m.onnx"
    path.write_bytes(_branches())
    arguments = [str(path), "--constant", "sr=16000", "--input", "[1, 2]"]
    assert run.main(arguments) == 0
    assert "[2. 4.]" in capsys.readouterr().out


def test_comparison_of_models_of_which_one_has_the_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source, other, data = (str(tmp_path / name) for name in ("a.onnx", "b.onnx", "x"))
    Path(source).write_bytes(_branches())
    # The branch for the rate 16000, quantized with the input as a constant.
    module = read_onnx(_branches(), constants={"sr": 16000})
    samples = np.arange(8, dtype=np.float32)
    Path(other).write_bytes(write_onnx(quantize(module, samples).module))
    np.save(f"{data}.npy", samples)
    arguments = [source, other, "--data", f"{data}.npy", "--constant"]
    assert compare.main([*arguments, "sr=16000"]) == 0
    assert "SQNR of the results" in capsys.readouterr().out
    assert compare.main([*arguments, "rate=16000"]) == 1
    assert capsys.readouterr().err == (
        "--constant rate=16000: error: unknown input 'rate' in both models; use an input "
        "of an .onnx model\n"
    )


@pytest.mark.parametrize(
    ("data_type", "shape", "value", "text"),
    [
        (TensorProto.BOOL, [2], [True, False], "dense<[true, false]> : tensor<2xi1>"),
        (TensorProto.FLOAT16, [1], [0.5], "dense<5.000000e-01> : tensor<1xf16>"),
        (TensorProto.UINT8, ["n"], [1, 255], "dense<[1, 255]> : tensor<2xui8>"),
        (TensorProto.INT4, [2], [-8, 7], "dense<[-8, 7]> : tensor<2xi4>"),
        (TensorProto.INT64, [], np.int8(3), "dense<3> : tensor<i64>"),
    ],
)
def test_types(data_type: int, shape: list[int | str], value: ArrayLike, text: str):
    module = read_onnx(_identity(data_type, shape), constants={"x": value})
    assert text in str(module)


@pytest.mark.parametrize(
    ("data_type", "shape", "value", "message"),
    [
        (
            TensorProto.INT64,
            [],
            1.5,
            "constant 'x' is 1.5; expected elements of type 'i64'",
        ),
        (
            TensorProto.FLOAT,
            [],
            "a",
            "constant 'x' is 'a'; expected elements of type 'f32'",
        ),
        (
            TensorProto.UINT8,
            [1],
            [-1],
            "constant 'x' is [-1]; expected elements of type 'ui8'",
        ),
        (
            TensorProto.INT4,
            [1],
            [8],
            "constant 'x' is [8]; expected elements of type 'i4'",
        ),
        (
            TensorProto.FLOAT16,
            [],
            1e9,
            "constant 'x' is 1000000000.0; expected elements of type 'f16'",
        ),
        (
            TensorProto.INT64,
            [],
            [1],
            "constant 'x' has shape 1; expected shape ()",
        ),
        (
            TensorProto.INT64,
            ["n", 2],
            [[1]],
            "constant 'x' has shape 1x1; expected shape ?x2",
        ),
        (
            TensorProto.INT64,
            [2],
            [[1], [2, 3]],
            "constant 'x' is not an array: [[1], [2, 3]]",
        ),
    ],
)
def test_values_that_do_not_fit(
    data_type: int, shape: list[int | str], value: ArrayLike, message: str
):
    with pytest.raises(ONNXFileError) as error:
        read_onnx(_identity(data_type, shape), constants={"x": value})
    assert str(error.value) == f"<bytes>: error: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y=1", "unknown input 'y'; available: 'x', 'sr'"),
        (
            "sr",
            "constant 'sr': expected NAME=VALUE with a number or a list, e.g. sr=16000",
        ),
        (
            "sr=fast",
            "constant 'sr=fast': expected NAME=VALUE with a number or a list, e.g. "
            "sr=16000",
        ),
    ],
)
def test_texts_that_are_refused(text: str, message: str):
    with pytest.raises(ONNXFileError) as error:
        read_onnx(_branches(), constants=[text])
    assert str(error.value) == f"<bytes>: error: {message}"


def test_other_files_have_no_constants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text, other = tmp_path / "m.mlir", tmp_path / "m.tflite"
    text.write_text("func.func @main() { return }")
    other.write_bytes(b"1234TFL3")
    assert run.main([str(text), "--constant", "x=1"]) == 1
    assert "--shape, --static and --constant are for" in capsys.readouterr().err
    assert run.main([str(other), "--constant", "x=1"]) == 1
    assert capsys.readouterr().err.endswith(
        "m.tflite: error: inputs of .tflite files cannot become constants, found 'x=1'\n"
    )
