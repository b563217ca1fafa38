"""Ops without conversion that ONNX defines by functions of other ops."""

import numpy as np
import onnx
from onnx import helper
from xdsl.dialects.builtin import TensorType, f32
from xdsl.utils.test_value import create_ssa_value

from tests.unit.frontends.onnx.onnxruntime_results import check_node
from xdsl_quant.frontends.onnx.functions import expanded_nodes
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.onnx.ops import CONVERSIONS


def test_function() -> None:
    """The function has the attributes and the names of the node."""
    proto = helper.make_node("HardSwish", ["x"], ["y"])
    expanded = expanded_nodes(Node(proto, 14), [])
    assert expanded is not None
    nodes, versions = expanded
    assert [(node.op_type, [*node.input]) for node in nodes] == [
        ("HardSigmoid", ["x"]),
        ("Mul", ["x", *nodes[0].output]),
    ]
    assert [*nodes[1].output] == ["y"]
    numbers = [onnx.helper.get_attribute_value(each) for each in nodes[0].attribute]
    np.testing.assert_allclose(numbers, [1 / 6, 0.5])
    assert versions == {"ai.onnx": 14}


def test_default_of_an_attribute() -> None:
    node = Node(helper.make_node("Celu", ["x"], ["y"]), 12)
    expanded = expanded_nodes(node, [])
    assert expanded is not None
    (alpha,) = expanded[0][0].attribute
    assert onnx.numpy_helper.to_array(alpha.t) == 1


def test_ops_without_function() -> None:
    for name in ("Conv", "Unknown"):
        node = Node(helper.make_node(name, ["x", "w"], ["y"]), 21)
        assert expanded_nodes(node, []) is None


def test_function_without_nodes() -> None:
    """ONNX returns an empty function for a key of rank 5."""
    proto = helper.make_node("Attention", ["q", "k", "v"], ["y"], q_num_heads=1)
    query, key = (
        create_ssa_value(TensorType(f32, shape))
        for shape in ((2, 4, 3, 2), (2, 4, 4, 2, 3))
    )
    assert expanded_nodes(Node(proto, 25), [query, key, query]) is None


def test_attention() -> None:
    """The function depends on attributes and on the types of operands."""
    assert "Attention" not in CONVERSIONS
    random = np.random.default_rng(0)
    query = random.normal(size=(1, 4, 3, 8)).astype(np.float32)
    key, value = random.normal(size=(2, 1, 2, 5, 8)).astype(np.float32)
    check_node("Attention", query, key, value, opset=23, is_causal=1, rtol=1e-5)
    check_node("Attention", query[:, :2], key, value, opset=23, rtol=1e-5, softcap=2.0)
