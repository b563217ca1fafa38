"""Data movement, constants and custom calls in ONNX files."""

import numpy as np
import onnx
import pytest

from xdsl_quant.frontends.onnx import read_onnx, write_onnx

from .written_models import (
    check,
    floats,
    function,
    integers,
    op_types,
    refusal,
    written,
)


def test_transposes_are_written_where_an_order_is_needed():
    text = function(
        "%x: tensor<2x3x4xf32>",
        "tensor<2x4x3xf32>",
        "%0 = stablehlo.transpose %x, dims = [0, 2, 1] : (tensor<2x3x4xf32>) -> "
        "tensor<2x4x3xf32>",
        "%1 = stablehlo.tanh %0 : tensor<2x4x3xf32>",
        "%2 = stablehlo.transpose %1, dims = [0, 2, 1] : (tensor<2x4x3xf32>) -> "
        "tensor<2x3x4xf32>",
        "%3 = stablehlo.transpose %2, dims = [0, 2, 1] : (tensor<2x3x4xf32>) -> "
        "tensor<2x4x3xf32>",
        "%3",
    )
    check(text, floats(2, 3, 4), atol=1e-6, nodes=["Tanh", "Transpose"])


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("stablehlo.reshape %x : (tensor<2x6xf32>) ->", "3x4"),
        ("stablehlo.reverse %x, dims = [1] :", "2x6"),
        ("stablehlo.slice %x [0:2, 1:6:2] : (tensor<2x6xf32>) ->", "2x3"),
        ("stablehlo.slice %x [0:2, 0:6] : (tensor<2x6xf32>) ->", "2x6"),
        (
            "stablehlo.concatenate %x, %x, dim = 1 : (tensor<2x6xf32>, tensor<2x6xf32>) "
            "->",
            "2x12",
        ),
        (
            "stablehlo.pad %x, %c, low = [1, -1], high = [0, 2], interior = [0, 2] : "
            "(tensor<2x6xf32>, tensor<f32>) ->",
            "3x17",
        ),
    ],
)
def test_data_movement(line: str, shape: str):
    text = function(
        "%x: tensor<2x6xf32>",
        f"tensor<{shape}xf32>",
        "%c = stablehlo.constant dense<1.5> : tensor<f32>",
        f"%0 = {line} tensor<{shape}xf32>",
        "%0",
    )
    check(text, floats(2, 6))


def test_constants_and_indices():
    text = function(
        "%x: tensor<2x3xi32>",
        "tensor<2x3xi32>, tensor<f32>",
        "%0 = stablehlo.iota dim = 1 : tensor<2x3xi32>",
        "%1 = stablehlo.add %0, %x : tensor<2x3xi32>",
        "%c = stablehlo.constant dense<1.5> : tensor<f32>",
        "%1, %c",
    )
    check(text, integers(2, 3), nodes=["Add", "Identity"])


def test_constants_of_arith():
    text = function(
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
        "%c = arith.constant dense<[1, 3]> : tensor<2xi64>",
        "%0 = stablehlo.convert %c : (tensor<2xi64>) -> tensor<2xf32>",
        "%1 = stablehlo.multiply %x, %0 : tensor<2xf32>",
        "%1",
    )
    check(text, floats(2), nodes=["Cast", "Mul"])


def test_sizes_of_dynamic_dimensions():
    text = function(
        "%x: tensor<2x?xf32>",
        "tensor<i32>, tensor<2x?xf32>",
        "%0 = stablehlo.get_dimension_size %x, dim = 1 : (tensor<2x?xf32>) -> tensor<i32>",
        "%1 = stablehlo.tanh %x : tensor<2x?xf32>",
        "%0, %1",
    )
    proto = check(text, floats(2, 5), atol=1e-6)
    (_, size) = proto.graph.output[1].type.tensor_type.shape.dim
    assert not size.HasField("dim_value")


def _custom_model() -> bytes:
    """Return a model of a node of another domain, with absent operands and results."""
    node = onnx.helper.make_node(
        "Foo",
        ["x", "", "x"],
        ["", "y"],
        domain="custom",
        i=1,
        f=2.5,
        s="t",
        ints=[1, 2],
    )
    node.attribute.append(
        onnx.helper.make_attribute("t", onnx.numpy_helper.from_array(np.ones(2, "f")))
    )
    node.attribute.append(onnx.helper.make_attribute("strings", ["p", "q"]))
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node], "graph", [value("x", 1, [2, 3])], [value("y", 1, [2, 3])]
    )
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("custom", 3)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model.SerializeToString()


def test_custom_calls_become_the_nodes_again():
    model = _custom_model()
    proto = onnx.load_from_string(write_onnx(read_onnx(model)))
    original = onnx.load_from_string(model)
    (node,), (expected,) = proto.graph.node, original.graph.node
    assert [*node.input] == [*expected.input]
    assert [*node.output] == [*expected.output]
    assert (node.op_type, node.domain) == ("Foo", "custom")
    found, known = (
        {a.name: onnx.helper.get_attribute_value(a) for a in each.attribute}
        for each in (node, expected)
    )
    tensor, other = (
        onnx.numpy_helper.to_array(values.pop("t")) for values in (found, known)
    )
    assert found == known
    np.testing.assert_array_equal(tensor, other)
    versions = {opset.domain: opset.version for opset in proto.opset_import}
    assert versions == {"": 20, "custom": 3}


def test_other_custom_calls_are_refused():
    text = function(
        "%x: tensor<4xf32>",
        "tensor<4xf32>",
        "%0 = stablehlo.custom_call @foo(%x) : (tensor<4xf32>) -> tensor<4xf32>",
        "%0",
    )
    assert refusal(text).endswith("op cannot be written as ONNX: call of '@foo'")


def test_reshapes_with_empty_tensors():
    text = function(
        "%x: tensor<0x6xf32>",
        "tensor<2x0x3xf32>",
        "%0 = stablehlo.reshape %x : (tensor<0x6xf32>) -> tensor<2x0x3xf32>",
        "%0",
    )
    check(text, floats(0, 6))


def test_the_inputs_and_results_have_their_names():
    text = """
func.func @main(%x: tensor<4xf32>, %1: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    attributes {tf.entry_function = {inputs = "a,b c", outputs = "y/z,y"}} {
  %y = stablehlo.add %x, %1 : tensor<4xf32>
  return %y, %y : tensor<4xf32>, tensor<4xf32>
}
"""
    proto = check(text, floats(4), floats(4, seed=1), nodes=["Add", "Identity"])
    assert [value.name for value in proto.graph.input] == ["a", "b c"]
    assert [value.name for value in proto.graph.output] == ["y/z", "y"]


def test_arguments_without_names():
    text = function("%x: tensor<4xf32>, %0: tensor<4xf32>", "tensor<4xf32>", "%0")
    proto = written(text)
    assert [value.name for value in proto.graph.input] == ["x", "input_1"]
    assert [value.name for value in proto.graph.output] == ["output_0"]
    assert op_types(proto) == ["Identity"]
