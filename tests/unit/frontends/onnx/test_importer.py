"""Unknown sizes of inputs, and dtypes of results."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx
from xdsl_quant.machines.numpy import run_function

_WINE = Path(__file__).parents[4] / "docs" / "examples" / "wine.onnx"


def model(
    op_type: str, shape: Sequence[int | str] = ("n", 2), **attributes: Any
) -> bytes:
    """Return the bytes of a model of one node with an operand of unknown size."""
    node = helper.make_node(op_type, ["x"], ["y"], name="n", **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [*"abcd"][: len(shape)])
    graph = helper.make_graph([node], "g", [x], [y])
    opset = helper.make_opsetid("", 17)
    content: bytes = helper.make_model(graph, opset_imports=[opset]).SerializeToString()
    return content


def test_sizes_that_ops_do_not_need_stay_unknown():
    module = read_onnx(model("Exp"))
    assert "tensor<?x2xf32>" in str(module)
    (result,) = run_function(module, None, np.zeros((3, 2), np.float32))
    np.testing.assert_array_equal(result, np.ones((3, 2), np.float32))


def test_sizes_that_ops_need_become_1():
    message = (
        "<bytes>: unknown sizes are 1, as not all ops support '?': input 'x' has shape "
        "?x2; set other sizes with --shape or 'shapes'"
    )
    with pytest.warns(UserWarning, match=re.escape(message)):
        module = read_onnx(model("ReduceMean", keepdims=0))
    assert "tensor<1x2xf32>" in str(module)
    assert "?" not in str(module)


def test_errors_of_size_1_say_so():
    with pytest.raises(ONNXFileError) as e:
        read_onnx(model("SpaceToDepth", blocksize=2))
    assert str(e.value).endswith(
        " (unknown sizes are 1, as not all ops support '?': input 'x' has shape ?x2; set "
        "other sizes with --shape)"
    )


def test_given_shapes():
    module = read_onnx(_WINE, shapes={"x": [4, 13]})
    assert "tensor<4x13xf32>" in str(module)


@pytest.mark.parametrize(
    ("shape", "text"), [((), "()"), ((13,), "13"), ((2, 3), "2x3")]
)
def test_shapes_that_do_not_match(shape: tuple[int, ...], text: str):
    with pytest.raises(ONNXFileError) as e:
        read_onnx(_WINE, shapes={"x": shape})
    assert str(e.value).endswith(f"input 'x' cannot have shape {text}; expected ?x13")


def test_sizes_of_images_do_not_become_1_silently():
    content = model("Relu", ("n", 3, "h", "w"))
    with pytest.warns(UserWarning, match="unknown") as warnings:
        read_onnx(content, static=True)
    (warning,) = warnings
    assert str(warning.message) == (
        "<bytes>: unknown sizes other than the batch are 1: input 'x' has shape "
        "?x3x?x?; set them with --shape or 'shapes'"
    )
    # The batch becomes 1 silently.
    assert "tensor<1x2xf32>" in str(read_onnx(model("Relu"), static=True))


def test_unsigned_results():
    module = read_onnx(model("Cast", to=TensorProto.UINT8), static=True)
    (result,) = run_function(module, None, np.array([[200, 3]], np.float32))
    assert result.dtype == np.uint8
    assert result.tolist() == [[200, 3]]
