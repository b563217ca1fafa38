"""Constant folding of shape arithmetic, compared with onnxruntime; bounds of its sizes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.func import ReturnOp

from tests.unit.frontends.onnx.node_models import (
    NodeModel,
    integers,
    node_model,
    refusal,
)
from xdsl_quant.frontends.stablehlo.dialect import ConstantOp
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import constant_elements


def _floats(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def _is_folded(model: NodeModel) -> bool:
    """Return True if the module only returns constants."""
    return all(isinstance(op, ConstantOp | ReturnOp) for op in _body(model))


def _body(model: NodeModel) -> Sequence[object]:
    (function,) = model.module().ops
    return [*function.regions[0].block.ops]


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes"),
    [
        ("Abs", [integers(-(2**63), -3)], {}),
        ("Add", [integers(2**62, 2**63 - 1), integers(2**62, 1)], {}),
        ("Cast", [_floats(300, -300, 1e10, 2.7, -2.7)], {"to": onnx.TensorProto.INT8}),
        ("Cast", [_floats(300, 1e10, -1e10, 2.7)], {"to": onnx.TensorProto.INT32}),
        ("Cast", [_floats(300, 1e30, np.nan, -2.7)], {"to": onnx.TensorProto.INT64}),
        ("Cast", [integers(300, 0, -1)], {"to": onnx.TensorProto.UINT8}),
        ("Cast", [_floats(0, np.nan, 0.1)], {"to": onnx.TensorProto.BOOL}),
        ("Concat", [integers(1), integers(2, 3)], {"axis": 0}),
        ("ConstantOfShape", [integers(2, 0)], {}),
        ("Div", [integers(-7, 7, -7, 7), integers(2, -2, -2, 2)], {}),
        ("Div", [_floats(1, 0, -1), _floats(0, 0, 0)], {}),
        ("Gather", [integers(4, 5, 6), integers(-1, 0)], {}),
        ("Greater", [integers(1, 2), integers(2)], {}),
        ("Max", [_floats(1, np.nan), _floats(2, 2)], {}),
        ("Mod", [integers(-7, 7, -7, 7), integers(2, -3, -3, 2)], {}),
        ("Mod", [integers(-7, 7, -7, 7), integers(2, -3, -3, 2)], {"fmod": 1}),
        ("Mod", [_floats(-7.5, 7), _floats(2, -3)], {"fmod": 1}),
        ("Neg", [integers(-(2**63), 5)], {}),
        ("NonZero", [integers(0, 3, 0, 4)], {}),
        ("Range", [np.array(5), np.array(0), np.array(-2)], {}),
        ("ReduceProd", [integers(2, 3, 4)], {}),
        ("ScatterND", [integers(1, 2), integers(1).reshape(1, 1), integers(7)], {}),
        ("Slice", [integers(1, 2, 3, 4), integers(-1), integers(-(2**63))], {}),
        ("Sqrt", [_floats(2, -1, 9)], {}),
        ("Tile", [integers(1, 2), integers(3)], {}),
        ("Unique", [integers(3, 1, 3)], {}),
        ("Where", [np.array([True, False]), integers(1, 2), integers(3)], {}),
    ],
    ids=str,
)
def test_folded_nodes_equal_those_of_onnxruntime(
    op_type: str, operands: Sequence[Array], attributes: dict[str, Any]
) -> None:
    model = node_model(op_type, operands, range(len(operands)), **attributes)
    assert _is_folded(model)
    model.check()


def test_absent_results_have_no_constant() -> None:
    model = node_model("Unique", [integers(3, 1, 3)], [0], results=4)
    expected = model.expected()
    model.proto.graph.node[0].output[:] = ["y0", "", "y2", ""]
    del model.proto.graph.output[3], model.proto.graph.output[1]
    assert _is_folded(model)
    results = [
        constant for constant in _body(model) if isinstance(constant, ConstantOp)
    ]
    assert [constant.output.name_hint for constant in results] == ["y0", "y2"]
    for constant, index in zip(results, (0, 2), strict=True):
        elements = constant_elements(constant.output)
        np.testing.assert_array_equal(elements, expected[index])


def test_slices_without_steps_are_folded() -> None:
    # Neither the ends nor the axes are steps.
    operands = [integers(1, 2, 3), integers(-5), integers(-1), integers(-1)]
    for count in (3, 4):
        model = node_model("Slice", operands[:count], range(count))
        assert _is_folded(model)
        model.check()


def test_a_slice_backwards_from_before_the_first_element_is_not_folded() -> None:
    # The reference evaluator returns no elements.
    operands = [
        integers(1, 2, 3),
        integers(-5),
        integers(-9),
        integers(0),
        integers(-1),
    ]
    model = node_model("Slice", operands, range(5))
    assert not _is_folded(model)
    model.check()


@pytest.mark.parametrize(
    ("op_type", "operands", "shape"),
    [
        ("ConstantOfShape", [integers(2**40)], "1099511627776xf32"),
        ("Expand", [_floats(0), integers(2**40)], "1099511627776xf32"),
        ("Tile", [_floats(0), integers(2**40)], "1099511627776xf32"),
        ("Range", [np.array(0), np.array(2**40), np.array(1)], "1099511627776xi64"),
        ("Add", [np.zeros((4096, 1)), np.zeros(4096)], "4096x4096xf64"),
        ("Gather", [np.zeros((2, 2048)), np.zeros(4096, np.int64)], "4096x2048xf64"),
    ],
    ids=str,
)
def test_large_results_are_not_folded(
    op_type: str, operands: Sequence[Array], shape: str
) -> None:
    model = node_model(op_type, operands, range(len(operands)))
    assert not _is_folded(model)
    assert f"-> tensor<{shape}>" in str(model.module())


def test_integers_narrower_than_a_byte_are_not_folded() -> None:
    # The array of such a constant has a wider dtype.
    model = node_model("Reshape", [integers(0), integers(2, 1)], [0, 1])
    packed = onnx.helper.make_tensor("x0", onnx.TensorProto.INT4, [2], [3, -4])
    model.proto.graph.initializer[0].CopyFrom(packed)
    assert "tensor<2x1xi4>" in str(model.module())


@pytest.mark.parametrize("op_type", ["Div", "Mod"])
def test_integer_division_by_zero_is_refused(op_type: str) -> None:
    model = node_model(op_type, [integers(1, 2), integers(1, 0)], [0, 1])
    assert refusal(model) == f"node 'y0' ({op_type}): divides an integer by zero"


def test_errors_of_the_evaluator_are_one_sentence() -> None:
    model = node_model("Gather", [integers(1, 2, 3), integers(5)], [0, 1])
    assert refusal(model) == (
        "node 'y0' (Gather): cannot be computed for its constants: index 5 is out of "
        "bounds for axis 0 with size 3"
    )
