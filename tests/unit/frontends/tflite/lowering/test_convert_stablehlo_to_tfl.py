"""StableHLO and ONNX models as TensorFlow Lite ops and files."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.unit.frontends.tflite.files.litert import LiteRT
from tests.unit.frontends.tflite.files.litert_process import LiteRTProcess, runs
from xdsl_quant.diagnostics import op_name
from xdsl_quant.frontends.tflite import TFLiteFileError, read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.reader import read_tflite_model
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.loading import IRError, apply_passes, as_module
from xdsl_quant.tools.import_model import main as import_model

_EXAMPLES = Path(__file__).parents[5] / "docs" / "examples"

_X = "!quant.uniform<i8:f32, 0.1:3>"
_Y = "!quant.uniform<i8:f32, 0.25:-7>"


@pytest.fixture(scope="module")
def litert() -> Iterator[LiteRTProcess]:
    pytest.importorskip("ai_edge_litert", reason="pip install ai-edge-litert")
    with LiteRTProcess() as process:
        yield process


def _converted(text: str, passes: str = "convert-stablehlo-to-tfl") -> ModuleOp:
    module = as_module(text)
    apply_passes(module, passes)
    return module


def _function(arguments: str, result: str, *lines: str) -> str:
    body = "\n  ".join(lines[:-1])
    return (
        f"func.func @main({arguments}) -> {result} {{\n  {body}\n"
        f"  return {lines[-1]} : {result}\n}}\n"
    )


def _op_counts(module: ModuleOp) -> dict[str, int]:
    """Return the number of ops that are not constants, by name."""
    names = map(op_name, module.walk())
    counts = Counter(name for name in names if name.startswith("tfl."))
    return {k: v for k, v in counts.items() if "const" not in k and "no_value" not in k}


def _stored_constants(file: bytes) -> Counter[object]:
    """Return shapes, scales, zero points and data of quantized constants, with counts."""
    (graph,) = read_tflite_model(file, "file").subgraphs
    return Counter(
        (
            tensor.type,
            (*tensor.shape,),
            (*np.asarray(tensor.quantization.scales, np.float32).tolist(),),
            (*tensor.quantization.zero_points.tolist(),),
            bytes(tensor.data),
        )
        for tensor in graph.tensors
        if tensor.data is not None and tensor.quantization is not None
    )


def _random_arguments(module: ModuleOp, seed: int = 0) -> Sequence[Array]:
    function: Any = module.body.block.first_op
    random = np.random.default_rng(seed)
    arrays: list[Array] = []
    for type_ in function.function_type.inputs:
        shape: tuple[int, ...] = type_.get_shape()
        if "i8" in str(type_):
            arrays.append(random.integers(-128, 128, shape, np.int8))
        else:
            arrays.append(random.normal(size=shape).astype(np.float32))
    return arrays


# Ways round


@pytest.mark.parametrize("name", ["layers_int8.tflite", "streaming.tflite"])
def test_files_by_way_of_onnx_keep_constants_and_results(name: str):
    onnx = pytest.importorskip("xdsl_quant.frontends.onnx")
    module = as_module(_EXAMPLES / name, static=True)
    apply_passes(module, "tfl-variables-to-arguments", is_routine=True)
    back = write_tflite(onnx.read_onnx(onnx.write_onnx(module)))
    assert _stored_constants(back) == _stored_constants(write_tflite(module))
    arguments = _random_arguments(module)
    for found, expected in zip(
        run_function(read_tflite(back), None, *arguments),
        run_function(module, None, *arguments),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


def test_file_of_the_quantizer_of_onnxruntime():
    pytest.importorskip("onnx", reason="pip install onnx")
    module = as_module(_EXAMPLES / "wine_int8.onnx", static=True)
    file = write_tflite(module)
    counts = _op_counts(read_tflite(file))
    assert counts["tfl.fully_connected"] == 3
    assert counts["tfl.quantize"] == counts["tfl.dequantize"] == 1
    x = np.load(_EXAMPLES / "wine_test.npz")["x"][:1].astype(np.float32)
    (expected,) = run_function(module, None, x)
    (run,) = runs([(file, [x])])
    assert run.outcome == "runs", run.message
    np.testing.assert_allclose(run.results[0], expected, rtol=0, atol=0.06)


def test_float_file():
    pytest.importorskip("onnx", reason="pip install onnx")
    module = as_module(_EXAMPLES / "wine.onnx", static=True)
    file = write_tflite(module)
    assert _op_counts(read_tflite(file)) == {"tfl.fully_connected": 3}
    x = np.load(_EXAMPLES / "wine_test.npz")["x"][:1].astype(np.float32)
    (expected,) = run_function(module, None, x)
    (found,) = run_function(read_tflite(file), None, x)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_command_imports_to_a_file(tmp_path: Path):
    output = tmp_path / "layers.tflite"
    assert import_model([str(_EXAMPLES / "jax_layers.mlir"), "-o", str(output)]) == 0
    assert _op_counts(read_tflite(output)) == {
        "tfl.fully_connected": 2,
        "tfl.softmax": 1,
    }


def test_command_sets_unknown_sizes_of_onnx_files_to_1(tmp_path: Path):
    pytest.importorskip("onnx", reason="pip install onnx")
    output, source = tmp_path / "wine.tflite", _EXAMPLES / "wine.onnx"
    assert import_model([str(source), "-o", str(output)]) == 0
    assert output.read_bytes() == write_tflite(as_module(source, static=True))


@pytest.mark.parametrize(
    "lines",
    [
        (
            "%1 = stablehlo.multiply %x, %half : tensor<4xf32>",
            "%2 = stablehlo.multiply %1, %weight : tensor<4xf32>",
        ),
        (
            "%1 = stablehlo.multiply %weight, %x : tensor<4xf32>",
            "%2 = stablehlo.multiply %half, %1 : tensor<4xf32>",
        ),
    ],
)
def test_gelu(lines: Sequence[str]):
    text = _function(
        "%x: tensor<4xf32>",
        "tensor<4xf32>",
        "%half = stablehlo.constant dense<0.5> : tensor<4xf32>",
        "%one = stablehlo.constant dense<1.0> : tensor<4xf32>",
        "%root = stablehlo.constant dense<1.41421354> : tensor<4xf32>",
        "%scaled = stablehlo.divide %x, %root : tensor<4xf32>",
        "%odd = chlo.erf %scaled : tensor<4xf32> -> tensor<4xf32>",
        "%weight = stablehlo.add %odd, %one : tensor<4xf32>",
        *lines,
        "%2",
    )
    assert _op_counts(_converted(text)) == {"tfl.gelu": 1}
    x = np.array([-3, -0.5, 0.1, 2], np.float32)
    file = write_tflite(as_module(text))
    (run,) = runs([(file, [x])])
    (expected,) = run_function(as_module(text), None, x)
    np.testing.assert_allclose(run.results[0], expected, rtol=1e-5, atol=1e-6)
    other = _converted(text.replace("dense<0.5>", "dense<0.6>"))
    assert "tfl.gelu" not in _op_counts(other)
    (found,) = run_function(other, None, x)
    np.testing.assert_allclose(found, 1.2 * expected, rtol=1e-5, atol=1e-6)


# Functions that TensorFlow Lite lacks


_EDGES = np.array([-np.inf, -1e-7, -0.0, 1e-7, 3, 80, np.nan, -0.5], np.float32)


@pytest.mark.parametrize(
    ("op", "smallest"),
    [
        ("stablehlo.exponential_minus_one", -np.inf),
        ("stablehlo.log_plus_one", -1),
        ("chlo.erf", -np.inf),
    ],
)
def test_edges_of_functions(op: str, smallest: float, litert: LiteRTProcess):
    type_ = "tensor<8xf32>"
    result = f"{type_} -> {type_}" if op == "chlo.erf" else type_
    text = _function(f"%x: {type_}", type_, f"%0 = {op} %x : {result}", "%0")
    x = np.maximum(_EDGES, np.float32(smallest))
    run = litert.run(write_tflite(as_module(text)), [x], is_reference=False)
    (expected,) = run_function(as_module(text), None, x)
    np.testing.assert_allclose(run.results[0], expected, rtol=4e-7, atol=0)


@pytest.mark.parametrize("type_", ["i32", "f32"])
def test_remainders_have_the_sign_of_the_dividend(type_: str, litert: LiteRTProcess):
    tensor = f"tensor<8x{type_}>"
    text = _function(
        f"%x: {tensor}, %y: {tensor}",
        tensor,
        f"%0 = stablehlo.remainder %x, %y : {tensor}",
        "%0",
    )
    dtype = np.dtype("i4" if type_ == "i32" else "f4")
    x = np.array([-7, 7, -7, 7, -(2**31), 0, 5, -5], dtype)
    y = np.array([3, 3, -3, -3, 7, 4, 5, -5], dtype)
    run = litert.run(write_tflite(as_module(text)), [x, y])
    np.testing.assert_array_equal(run.results[0], np.fmod(x, y))


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        ("%below", {"tfl.elu": 1}),
        ("%scaled", {"tfl.greater": 1, "tfl.elu": 1, "tfl.mul": 1, "tfl.select_v2": 1}),
    ],
)
def test_elu(below: str, expected: dict[str, int]):
    type_ = "tensor<4xf32>"
    text = _function(
        f"%x: {type_}",
        type_,
        f"%zero = stablehlo.constant dense<0.0> : {type_}",
        f"%alpha = stablehlo.constant dense<1.67> : {type_}",
        f"%p = stablehlo.compare GT, %x, %zero : ({type_}, {type_}) -> tensor<4xi1>",
        f"%below = stablehlo.exponential_minus_one %x : {type_}",
        f"%scaled = stablehlo.multiply %below, %alpha : {type_}",
        f"%0 = stablehlo.select %p, %x, {below} : tensor<4xi1>, {type_}",
        "%0",
    )
    assert _op_counts(_converted(text)) == expected


# Control flow


def test_regions_become_functions(litert: LiteRTProcess):
    type_ = "tensor<4xf32>"
    text = _function(
        f"%x: {type_}, %n: tensor<i32>",
        type_,
        "%one = stablehlo.constant dense<1> : tensor<i32>",
        "%zero = stablehlo.constant dense<0> : tensor<i32>",
        f"%y = stablehlo.tanh %x : {type_}",
        f"%0:2 = stablehlo.while(%i = %zero, %s = %x) : tensor<i32>, {type_}",
        "cond {",
        "  %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>",
        "  stablehlo.return %p : tensor<i1>",
        "} do {",
        "  %1 = stablehlo.add %i, %one : tensor<i32>",
        "  %q = stablehlo.compare GT, %i, %one"
        " : (tensor<i32>, tensor<i32>) -> tensor<i1>",
        '  %2 = "stablehlo.if"(%q) ({',
        f"    %3 = stablehlo.add %s, %y : {type_}",
        f"    stablehlo.return %3 : {type_}",
        "  }, {",
        f"    %3 = stablehlo.multiply %s, %x : {type_}",
        f"    stablehlo.return %3 : {type_}",
        f"  }}) : (tensor<i1>) -> {type_}",
        f"  stablehlo.return %1, %2 : tensor<i32>, {type_}",
        "}",
        "%0#1",
    )
    module = _converted(text)
    counts = _op_counts(module)
    assert counts["tfl.while"] == counts["tfl.if"] == 1
    # Constants are copied into the loop; other values become arguments.
    (loop,) = (op for op in module.walk() if op.name == "tfl.while")
    assert len(loop.operands) == 5
    x, file = np.array([-2, 0.5, 3, 1], np.float32), write_tflite(as_module(text))
    for n in (np.array(count, np.int32) for count in (0, 1, 4)):
        run = litert.run(file, [x, n])
        (expected,) = run_function(as_module(text), None, x, n)
        np.testing.assert_allclose(run.results[0], expected, rtol=1e-6)


@pytest.mark.parametrize("start", [1, -3, 9])
def test_clamped_dynamic_slices(start: int, litert: LiteRTProcess):
    x, u = "tensor<4x5xf32>", "tensor<2x2xf32>"
    index = "tensor<i32>"
    text = _function(
        f"%x: {x}, %u: {u}, %i: {index}",
        x,
        f"%one = stablehlo.constant dense<1> : {index}",
        "%0 = stablehlo.dynamic_slice %x, %i, %one, sizes = [2, 2]"
        f" : ({x}, {index}, {index}) -> {u}",
        f"%1 = stablehlo.add %0, %u : {u}",
        "%2 = stablehlo.dynamic_update_slice %x, %1, %one, %i"
        f" : ({x}, {u}, {index}, {index}) -> {x}",
        "%2",
    )
    arguments = [
        np.arange(20, dtype=np.float32).reshape(4, 5),
        np.full((2, 2), 0.5, np.float32),
        np.array(start, np.int32),
    ]
    run = litert.run(write_tflite(as_module(text)), arguments)
    (expected,) = run_function(as_module(text), None, *arguments)
    np.testing.assert_array_equal(run.results[0], expected)


# Casts


def test_float_and_absent_biases_are_quantized():
    x = f"tensor<1x2x{_X}>"
    text = _function(
        f"%x: {x}",
        f"tensor<1x2x{_Y}>",
        "%c = stablehlo.constant() <{value = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>}>"
        " : () -> tensor<2x2x!quant.uniform<i8:f32, 0.5>>",
        "%b = stablehlo.constant dense<[[1.0, -0.26]]> : tensor<1x2xf32>",
        f"%0 = quant.dcast %x : {x} to tensor<1x2xf32>",
        "%1 = quant.dcast %c : tensor<2x2x!quant.uniform<i8:f32, 0.5>>"
        " to tensor<2x2xf32>",
        "%2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [1]"
        " : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>",
        "%3 = stablehlo.add %2, %b : tensor<1x2xf32>",
        f"%4 = quant.qcast %3 : tensor<1x2xf32> to tensor<1x2x{_Y}>",
        "%4",
    )
    module = _converted(text)
    assert _op_counts(module) == {"tfl.fully_connected": 1}
    # The scale is 0.1 * 0.5.
    assert "dense<[20, -5]> : tensor<2xi32>" in str(module)
    assert "dense<0> : tensor<2xi32>" in str(_converted(text.replace("%3 :", "%2 :")))


def test_convolutions_of_one_dimension_are_fused():
    q = "!quant.uniform<i8:f32, 0.1:-128>"
    w = "!quant.uniform<i8:f32, 0.5>"
    text = _function(
        f"%x: tensor<1x2x5x{q}>",
        f"tensor<1x3x5x{q}>",
        f"%c = stablehlo.constant() <{{value = dense<3> : tensor<3x2x1xi8>}}>"
        f" : () -> tensor<3x2x1x{w}>",
        "%b = stablehlo.constant dense<[[[1.0], [0.5], [-0.3]]]> : tensor<1x3x1xf32>",
        "%z = stablehlo.constant dense<0.0> : tensor<1x3x5xf32>",
        f"%0 = quant.dcast %x : tensor<1x2x5x{q}> to tensor<1x2x5xf32>",
        f"%1 = quant.dcast %c : tensor<3x2x1x{w}> to tensor<3x2x1xf32>",
        "%2 = stablehlo.convolution(%0, %1) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0]"
        ", window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
        " : (tensor<1x2x5xf32>, tensor<3x2x1xf32>) -> tensor<1x3x5xf32>",
        "%3 = stablehlo.broadcast_in_dim %b, dims = [0, 1, 2]"
        " : (tensor<1x3x1xf32>) -> tensor<1x3x5xf32>",
        "%4 = stablehlo.add %2, %3 : tensor<1x3x5xf32>",
        "%5 = stablehlo.maximum %4, %z : tensor<1x3x5xf32>",
        f"%6 = quant.qcast %5 : tensor<1x3x5xf32> to tensor<1x3x5x{q}>",
        "%6",
    )
    counts = _op_counts(_converted(text))
    assert counts.pop("tfl.conv_2d") == 1
    assert {*counts} <= {"tfl.reshape", "tfl.transpose"}


def test_u16_values_are_stored_as_i16():
    u16 = "!quant.uniform<u16:f32, 0.25:32768>"
    text = _function(
        "%x: tensor<1x2xf32>",
        "tensor<1x2xf32>",
        f"%0 = quant.qcast %x : tensor<1x2xf32> to tensor<1x2x{u16}>",
        f"%1 = quant.dcast %0 : tensor<1x2x{u16}> to tensor<1x2xf32>",
        "%1",
    )
    x = np.array([[3.3, -7.9]], np.float32)
    (found,) = LiteRT(write_tflite(as_module(text))).run(x)
    np.testing.assert_array_equal(found, [[3.25, -8]])
    with pytest.raises(TFLiteFileError, match="16-bit values without zero point only"):
        write_tflite(as_module(text.replace("32768", "30000")))


@pytest.mark.parametrize(
    ("weights", "expected"), [("i8:f32, 0.5", "i8:f32"), ("u8:f32, 0.5:3", "u8:f32")]
)
def test_u8_values_are_stored_as_i8_if_the_weights_are(weights: str, expected: str):
    u8 = "!quant.uniform<u8:f32, 0.5:130>"
    text = _function(
        "%x: tensor<1x2xf32>",
        "tensor<1x2xf32>",
        "%c = stablehlo.constant() <{value = dense<[[1, 2], [3, 4]]>"
        f" : tensor<2x2xi8>}}> : () -> tensor<2x2x!quant.uniform<{weights}>>",
        f"%0 = quant.qcast %x : tensor<1x2xf32> to tensor<1x2x{u8}>",
        f"%1 = quant.dcast %0 : tensor<1x2x{u8}> to tensor<1x2xf32>",
        f"%2 = quant.dcast %c : tensor<2x2x!quant.uniform<{weights}>> to tensor<2x2xf32>",
        "%3 = stablehlo.dot_general %1, %2, contracting_dims = [1] x [1]"
        " : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>",
        f"%4 = quant.qcast %3 : tensor<1x2xf32> to tensor<1x2x{u8}>",
        f"%5 = quant.dcast %4 : tensor<1x2x{u8}> to tensor<1x2xf32>",
        "%5",
    )
    module = _converted(text)
    counts = dict.fromkeys(("tfl.quantize", "tfl.fully_connected", "tfl.dequantize"), 1)
    assert _op_counts(module) == counts
    (cast,) = (op for op in module.walk() if op.name == "tfl.quantize")
    assert expected in str(cast.results[0].type)
    x = np.array([[3.2, -7.9]], np.float32)
    (found,), (exact,) = (run_function(m, None, x) for m in (module, as_module(text)))
    np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("dense", ["[-1, 3]", "-1"])
def test_broadcast_constants_of_u8(dense: str):
    u8 = "!quant.uniform<u8:f32, 0.5:130>"
    text = _function(
        f"%x: tensor<3x2x{u8}>",
        f"tensor<3x2x{u8}>",
        f"%c = stablehlo.constant() <{{value = dense<{dense}>"
        f" : tensor<2xi8>}}> : () -> tensor<2x{u8}>",
        f"%0 = quant.dcast %x : tensor<3x2x{u8}> to tensor<3x2xf32>",
        f"%1 = quant.dcast %c : tensor<2x{u8}> to tensor<2xf32>",
        "%2 = stablehlo.broadcast_in_dim %1, dims = [1]"
        " : (tensor<2xf32>) -> tensor<3x2xf32>",
        "%3 = stablehlo.add %0, %2 : tensor<3x2xf32>",
        f"%4 = quant.qcast %3 : tensor<3x2xf32> to tensor<3x2x{u8}>",
        "%4",
    )
    module = _converted(text)
    x = np.array([[0, 255], [130, 5], [90, 200]], np.uint8)
    (found,), (exact,) = (run_function(m, None, x) for m in (module, as_module(text)))
    np.testing.assert_array_equal(found, exact)


def test_casts_without_other_ops():
    text = _function(
        "%x: tensor<4xf32>",
        "tensor<4xf32>",
        f"%0 = quant.qcast %x : tensor<4xf32> to tensor<4x{_X}>",
        f"%1 = quant.dcast %0 : tensor<4x{_X}> to tensor<4xf32>",
        "%1",
    )
    counts = {"tfl.quantize": 1, "tfl.dequantize": 1}
    assert _op_counts(read_tflite(write_tflite(as_module(text)))) == counts


def test_concatenation_of_several_scales():
    text = _function(
        f"%x: tensor<2x{_X}>, %y: tensor<2x{_Y}>",
        f"tensor<4x{_Y}>",
        f"%0 = quant.dcast %x : tensor<2x{_X}> to tensor<2xf32>",
        f"%1 = quant.dcast %y : tensor<2x{_Y}> to tensor<2xf32>",
        "%2 = stablehlo.concatenate %0, %1, dim = 0"
        " : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>",
        f"%3 = quant.qcast %2 : tensor<4xf32> to tensor<4x{_Y}>",
        "%3",
    )
    assert _op_counts(_converted(text)) == {"tfl.quantize": 1, "tfl.concatenation": 1}


@pytest.mark.parametrize(
    ("op", "scale", "expected"),
    [
        ("logistic", "0.01:3", {"tfl.logistic": 1, "tfl.quantize": 1}),
        ("logistic", "0.00390625:-128", {"tfl.logistic": 1}),
        ("tanh", "0.01:3", {"tfl.tanh": 1}),
    ],
)
def test_results_of_fixed_scales_are_requantized(
    op: str, scale: str, expected: dict[str, int], litert: LiteRTProcess
):
    y = f"!quant.uniform<i8:f32, {scale}>"
    text = _function(
        f"%x: tensor<4x{_X}>",
        f"tensor<4x{y}>",
        f"%0 = quant.dcast %x : tensor<4x{_X}> to tensor<4xf32>",
        f"%1 = stablehlo.{op} %0 : tensor<4xf32>",
        f"%2 = quant.qcast %1 : tensor<4xf32> to tensor<4x{y}>",
        "%2",
    )
    assert _op_counts(_converted(text)) == expected
    x = np.array([-100, -3, 20, 127], np.int8)
    run = litert.run(write_tflite(as_module(text)), [x])
    (exact,) = run_function(as_module(text), None, x)
    assert np.abs(run.results[0].astype(int) - exact).max() <= 1


def test_quantized_ops_with_accumulators():
    text = (_EXAMPLES / "stablehlo_dot_general.mlir").read_text()
    module = as_module(text)
    arguments = _random_arguments(module)
    (expected,) = run_function(module, None, *arguments)
    (found,) = run_function(read_tflite(write_tflite(module)), None, *arguments)
    np.testing.assert_array_equal(found, expected)


def test_maximum_of_stored_values_from_the_lowest_one():
    text = _function(
        f"%x: tensor<2x3x{_X}>",
        f"tensor<2x{_X}>",
        f"%c = stablehlo.constant() <{{value = dense<-128> : tensor<i8>}}>"
        f" : () -> tensor<{_X}>",
        f"%0 = stablehlo.reduce(%x init: %c) applies stablehlo.maximum across dimensions"
        f" = [1] : (tensor<2x3x{_X}>, tensor<{_X}>) -> tensor<2x{_X}>",
        "%0",
    )
    assert _op_counts(_converted(text)) == {"tfl.reduce_max": 1}


# Functions and messages


def test_calls_are_inlined_and_the_entry_function_becomes_main():
    text = """
    func.func private @relu(%x: tensor<4xf32>) -> tensor<4xf32> {
      %c = stablehlo.constant dense<0.0> : tensor<4xf32>
      %0 = stablehlo.maximum %x, %c : tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    func.func @net(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = call @relu(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }
    """
    assert _op_counts(read_tflite(write_tflite(as_module(text)))) == {"tfl.relu": 1}


_UNSUPPORTED = _function(
    "%x: tensor<4xf32>",
    "tensor<4xf32>",
    "%0 = stablehlo.tanh %x : tensor<4xf32>",
    "%1 = stablehlo.cbrt %0 : tensor<4xf32>",
    "%1",
)


def test_unsupported_ops_leave_the_module_unchanged():
    module = as_module(_UNSUPPORTED)
    with pytest.raises(IRError, match=r"'stablehlo\.cbrt' op has no conversion"):
        apply_passes(module, "convert-stablehlo-to-tfl")
    assert str(module) == str(as_module(_UNSUPPORTED))
    with pytest.raises(TFLiteFileError, match=r"3:3: error: 'stablehlo\.cbrt' op"):
        write_tflite(module)


def test_unsupported_ops_may_stay(capsys: pytest.CaptureFixture[str]):
    module = _converted(_UNSUPPORTED, "convert-stablehlo-to-tfl{partial=true}")
    assert [op.name for op in module.walk()][2:4] == ["tfl.tanh", "stablehlo.cbrt"]
    assert "1 'stablehlo.cbrt' left" in capsys.readouterr().err


def test_unused_unsupported_ops_are_erased():
    text = _UNSUPPORTED.replace("return %1", "return %0")
    assert _op_counts(_converted(text)) == {"tfl.tanh": 1}
