"""Ops without conversion: custom calls, and the errors of what computes them."""

from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.utils.exceptions import InterpretationError

from tests.unit.frontends.onnx.node_models import NodeModel, node_model, refusal
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.frontends.onnx import read_onnx, type_inference
from xdsl_quant.machines.numpy import run_function

_X = np.zeros((2, 3), np.float32)


def _unknown(inputs: list[str], outputs: list[str], **attributes: Any) -> NodeModel:
    """Return a model of one op in the domain `custom`, with an input `?x3`."""
    node = onnx.helper.make_node("Foo", inputs, outputs, domain="custom", **attributes)
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node],
        "graph",
        [value("x", onnx.TensorProto.FLOAT, ["n", 3])],
        [value("y", onnx.TensorProto.FLOAT, [2, 3])],
    )
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("custom", 3)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return NodeModel(model, {"x": _X})


def test_a_custom_call_has_the_whole_node() -> None:
    model = _unknown(
        ["x", "", "x"],
        ["", "y"],
        i=1,
        f=2.5,
        s="t",
        ints=[1, 2],
        floats=[1.0, 2.0],
        strings=["p", "q"],
        t=onnx.numpy_helper.from_array(np.ones(2, np.float32)),
    )
    (call,) = [
        line for line in str(model.module()).splitlines() if "custom_call" in line
    ]
    assert call.strip() == (
        "%y = stablehlo.custom_call @onnx.custom.Foo(%x, %x) {api_version = 4 : i32, "
        "backend_config = {attributes = {f = 2.500000e+00 : f32, floats = array<f32: "
        '1.000000e+00, 2.000000e+00>, i = 1 : i64, ints = array<i64: 1, 2>, s = "t", '
        'strings = ["p", "q"], t = dense<1.000000e+00> : tensor<2xf32>}, domain = '
        '"custom", opset_version = 3 : i64, absent_operands = array<i64: 1>, '
        "absent_results = array<i64: 0>}} : (tensor<?x3xf32>, tensor<?x3xf32>) -> "
        "tensor<2x3xf32>"
    )


def test_results_of_unknown_ops_have_the_sizes_of_the_inputs() -> None:
    model = node_model("NonZero", [_X])
    model.proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    module = read_onnx(model.proto.SerializeToString(), shapes={"x0": (2, 3)})
    assert "@onnx.NonZero(%x0)" in str(module)
    assert "(tensor<2x3xf32>) -> tensor<2x?xi64>" in str(module)


@pytest.mark.parametrize(
    "program", ["import os; os.abort()", "import sys; sys.stdout.write('no model')"]
)
def test_an_inference_that_fails(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The inference of invalid nodes may abort its process."""
    monkeypatch.setattr(type_inference, "_PROGRAM", program)
    model = node_model("NonZero", [_X])
    assert "-> tensor<2x?xi64>" in str(model.module())
    del model.proto.graph.output[:], model.proto.graph.value_info[:]
    node = onnx.helper.make_node("Cast", ["y0"], ["y"], to=1)
    model.proto.graph.node.append(node)
    model.proto.graph.output.add(name="y").type.CopyFrom(
        onnx.helper.make_tensor_type_proto(1, [2, None])
    )
    assert refusal(model) == (
        "node 'y0' (NonZero): unsupported op; the type of 'y0' is unknown"
    )


def test_computing_an_unknown_op_names_it() -> None:
    module = node_model("NonZero", [_X]).module()
    message = (
        r"'stablehlo.custom_call' op calls 'onnx.NonZero', which has no conversion"
    )
    with pytest.raises(InterpretationError, match=message):
        run_function(module, None, _X)
    with pytest.raises(CompilationError, match=message):
        compile(module)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            _unknown(["x"], ["y"], g=onnx.helper.make_graph([], "g", [], [])),
            "unsupported op with the attribute 'g' of type GRAPH",
        ),
        (_unknown(["x"], ["y"], s=b"\xff"), r"attribute b'\xff' is not UTF-8"),
        (
            _unknown(["x"], ["y", "z"]),
            "unsupported op; the type of 'z' is unknown",
        ),
    ],
    ids=["graph", "bytes", "type"],
)
def test_what_a_custom_call_cannot_hold_is_refused(
    model: NodeModel, message: str
) -> None:
    note = (
        "unknown sizes are 1, as not all ops support '?': input 'x' has shape ?x3; set "
        "other sizes with --shape"
    )
    assert refusal(model) == f"node 'y' (Foo): {message} ({note})"
