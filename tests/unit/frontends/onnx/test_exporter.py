"""Modules of StableHLO and tfl ops as ONNX files, and back."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime  # pyright: ignore[reportMissingTypeStubs] it has none
import pytest

from tests.unit.frontends.onnx.node_cases import (
    NodeCase,
    array_of_value,
    check_close,
    imported_case,
    node_cases,
)
from tests.unit.frontends.onnx.writers.written_models import (
    check,
    file_results,
    floats,
    function,
    op_types,
    refusal,
    written,
)
from xdsl_quant.frontends.onnx import exporter, read_onnx, write_onnx
from xdsl_quant.frontends.onnx.graph_writer import OPSET
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, as_module
from xdsl_quant.runtime.plugins import ModelFileError

_EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"

_LACKS = (
    "NOT_IMPLEMENTED",
    "No corresponding Numpy type",
    "can't be converted to MLDataType",
    "Int4x2",
    "Int2x4",
    # `Cast` of floats of 4 bits.
    "Type 'tensor(float",
    # Zero points of each channel of `ConvInteger`.
    "Non per-tensor quantization is not supported",
)
"""Messages of onnxruntime for element types that its kernels or its Python API lack."""

_REFUSED = (
    # Ops without conversion, whose definition has changed.
    f"otherwise than {OPSET}",
    "ImageDecoder",
    "is not a registered function/op",
    "sequence_type",
    "optional_type",
    "STRING",
)
"""Parts of the messages for ops and types that are not written."""

_PARTS = 40


def _cases(part: int) -> Iterator[NodeCase]:
    for case in node_cases()[part::_PARTS]:
        if case.left_out is None:
            yield case


@pytest.mark.sampled(40)
@pytest.mark.parametrize("part", range(_PARTS))
def test_node_cases_are_written_again(part: int):
    """
    ONNX's node tests: import, write, and compare onnxruntime's results with the case; those
    of the interpreter if onnxruntime lacks the types.
    """
    failures: list[str] = []
    for case in _cases(part):
        for inputs, outputs in case.data:
            try:
                _check_case(case, inputs, outputs)
            except Exception as e:
                if not any(text in str(e) for text in _REFUSED):
                    failures.append(f"{case.name}: {type(e).__name__}: {e}")
    assert not failures, "\n".join(failures)


def _check_case(case: NodeCase, inputs: Any, outputs: Any) -> None:
    arrays = [array_of_value(value) for value in inputs]
    module, arguments = imported_case(case.model, arrays)
    proto = onnx.load_from_string(write_onnx(module))
    try:
        results = file_results(proto, arguments)
    except Exception as e:  # of many classes
        if not any(text in str(e) for text in _LACKS):
            raise
        again = read_onnx(proto.SerializeToString())
        case.check_results(run_function(again, None, *arguments), arrays, outputs)
        return
    for found, value in zip(results, outputs, strict=True):
        expected = array_of_value(value)
        if expected.dtype.itemsize == 1 and expected.dtype.kind not in "biu":
            # onnxruntime returns the bits of 8-bit floats.
            found = found.view(expected.dtype)
        # Of f32 sums in another order.
        is_integer = expected.dtype.kind in "biu"
        finite = expected[np.isfinite(expected)]
        size = 1 if is_integer else np.abs(finite).max(initial=1)
        check_close(found, expected, max(case.rtol, 1e-5), max(case.atol, 2e-6 * size))


def test_a_read_file_is_written_with_the_same_results():
    text = function(
        "%x: tensor<2x6xf32>",
        "tensor<2xf32>",
        "%c = stablehlo.constant dense<0.0> : tensor<f32>",
        "%0 = stablehlo.logistic %x : tensor<2x6xf32>",
        "%1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [1]"
        " : (tensor<2x6xf32>, tensor<f32>) -> tensor<2xf32>",
        "%1",
    )
    proto = written(text)
    again = written(read_onnx(proto.SerializeToString()))
    assert op_types(again) == op_types(proto) == ["Sigmoid", "ReduceSum"]
    for each in (proto, again):
        assert [value.name for value in each.graph.input] == ["x"]
        assert [value.name for value in each.graph.output] == ["output_0"]


@pytest.mark.parametrize(
    "name", ["wine.tflite", "streaming.tflite", "layers_int8.tflite"]
)
def test_models_of_tensorflow_lite(name: str):
    module = as_module(_EXAMPLES / name, static=True)
    proto = written(module)
    apply_passes(
        module, "tfl-variables-to-arguments,convert-tfl-to-stablehlo", is_routine=True
    )
    random = np.random.default_rng(0)
    arguments = [
        random.integers(-128, 128, type_.get_shape(), np.int8)
        if "i8" in str(type_)
        else floats(*type_.get_shape())
        for type_ in cast(Any, module.body.block.first_op).function_type.inputs
    ]
    expected = run_function(module, None, *arguments)
    for found, array in zip(file_results(proto, arguments), expected, strict=True):
        np.testing.assert_allclose(found, array, rtol=0, atol=1e-5)


def test_the_optimizer_of_onnxruntime_fuses_the_casts(tmp_path: Path):
    text = """
!q = !quant.uniform<u8:f32, 0.05:100>
!w = !quant.uniform<i8:f32, 0.01>
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %w = stablehlo.constant() <{value = dense<7> : tensor<4x3xi8>}> : () -> tensor<4x3x!w>
  %d = stablehlo.uniform_dequantize %w : (tensor<4x3x!w>) -> tensor<4x3xf32>
  %0 = stablehlo.uniform_quantize %x : (tensor<2x4xf32>) -> tensor<2x4x!q>
  %1 = stablehlo.uniform_dequantize %0 : (tensor<2x4x!q>) -> tensor<2x4xf32>
  %2 = stablehlo.dot_general %1, %d, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.uniform_quantize %2 : (tensor<2x3xf32>) -> tensor<2x3x!q>
  %4 = stablehlo.uniform_dequantize %3 : (tensor<2x3x!q>) -> tensor<2x3xf32>
  return %4 : tensor<2x3xf32>
}
"""
    proto = check(text, floats(2, 4), atol=1e-6)
    runtime = cast(Any, onnxruntime)
    options = runtime.SessionOptions()
    options.graph_optimization_level = (
        runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    )
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    runtime.InferenceSession(proto.SerializeToString(), options)
    optimized = (tmp_path / "optimized.onnx").read_bytes()
    nodes = onnx.load_from_string(optimized).graph.node
    names = [node.op_type for node in nodes]
    assert names == ["QuantizeLinear", "QLinearMatMul", "DequantizeLinear"]


def test_calls_are_inlined():
    text = """
func.func private @square(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.multiply %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @twice(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @square(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.composite "my.square" %0 {decomposition = @square}
    : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @twice(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
    proto = written(text)
    assert op_types(proto) == ["Mul", "Mul"]
    x = floats(4)
    (found,) = file_results(proto, [x])
    np.testing.assert_allclose(found, x**4, rtol=1e-6)


def test_recursion_is_refused():
    text = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @main(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
    message = "cannot be written as ONNX: function 'main' calls itself"
    assert refusal(text).endswith(message)


def test_unsupported_ops_are_named():
    text = function(
        "%x: tensor<4xf32>, %y: tensor<4xf32>",
        "tensor<4xf32>",
        "%0 = stablehlo.atan2 %x, %y : tensor<4xf32>",
        "%0",
    )
    assert refusal(text).endswith(
        "'stablehlo.atan2' op cannot be written as ONNX: unsupported op"
    )


def test_unsupported_tfl_ops_are_named():
    text = function(
        "%x: tensor<4xf32>",
        "tensor<4xf32>",
        '%0 = "tfl.floor"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
        "%0",
    )
    with pytest.raises(ModelFileError) as error:
        write_onnx(as_module(text))
    assert "'tfl.floor' op has no conversion to StableHLO" in str(error.value)


def test_a_module_without_entry_function():
    assert refusal("func.func private @f() {\n return\n}").startswith(
        "cannot be written as ONNX: "
    )


def test_types_without_tensors():
    text = "func.func @main(%x: index) -> index {\n return %x : index\n}"
    message = "value 'x' has the type 'index'; expected a ranked tensor"
    assert refusal(text) == message


def test_large_models_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exporter, "_LIMIT", 100)
    text = function("%x: tensor<4xf32>", "tensor<4xf32>", "%x")
    assert refusal(text) == (
        "the model exceeds 2 GB, the limit of one file; external data is unsupported"
    )


def test_modules_are_not_changed():
    module = as_module(_EXAMPLES / "wine.tflite", static=True)
    before = str(module)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_onnx(module)
    assert str(module) == before
