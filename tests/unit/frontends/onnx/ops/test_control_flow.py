"""Conditionals and loops compared with onnxruntime."""

from collections.abc import Sequence

import numpy as np
import onnx.parser
import pytest
from numpy.typing import ArrayLike

from tests.unit.frontends.onnx.node_cases import check_close
from tests.unit.frontends.onnx.onnxruntime_results import runtime_results
from xdsl_quant.execution import compile
from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array

_X = np.array([1, -2, 3], np.float32)
_Y = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def _model(text: str) -> bytes:
    header = '<ir_version: 10, opset_import: ["": 21]>'
    return onnx.parser.parse_model(f"{header} agraph {text}").SerializeToString()


def _check(text: str, *values: ArrayLike, is_compiled: bool = False) -> None:
    """Compare a model with onnxruntime."""
    model = _model(text)
    names = [value.name for value in onnx.load_from_string(model).graph.input]
    arrays = dict(zip(names, map(np.asarray, values), strict=True))
    expected = runtime_results(model, arrays)
    module = read_onnx(model)
    all_results: list[Sequence[Array]] = [run_function(module, None, *arrays.values())]
    if is_compiled:
        compiled = compile(module)(*arrays.values())
        all_results.append([compiled] if len(expected) == 1 else compiled)
    for found in all_results:
        for result, array in zip(found, expected, strict=True):
            check_close(result, array, 1e-6, 1e-6)


def _error(text: str) -> str:
    with pytest.raises(ONNXFileError) as error:
        read_onnx(_model(text))
    return str(error.value).partition("): ")[2]


_IF = """
(bool condition, float[3] x) => (float[N] y, float[3] z) {
  y, z = If (condition) <
    then_branch = yes () => (float[3] a, float[3] b) { a = Neg (x) b = Add (x, x) },
    else_branch = no () => (float[3] c, float[3] d) <float[3] w = {4, 5, 6}> {
      c = Mul (x, w) d = Relu (x) }
  >
}
"""


@pytest.mark.parametrize("condition", [True, False])
def test_if(condition: bool) -> None:
    _check(_IF, condition, _X, is_compiled=condition)


def test_if_of_constant() -> None:
    """Only the branch that is taken is converted; its shape may differ."""
    _check(
        """
        (float[3] x) => (float[N] y) <bool condition = {0}> {
          y = If (condition) <
            then_branch = yes () => (float[3] a) { a = Neg (x) },
            else_branch = no () => (float[6] b) { b = Concat <axis = 0> (x, x) }
          >
        }
        """,
        _X,
    )


def test_branches_with_constants_of_one_name() -> None:
    _check(
        """
        (bool condition, float[3] x) => (float[3] y) {
          y = If (condition) <
            then_branch = yes () => (float[3] a) <float[1] w = {2}> { a = Mul (x, w) },
            else_branch = no () => (float[3] b) <float[1] w = {3}> { b = Mul (x, w) }
          >
        }
        """,
        False,
        _X,
    )


def test_branches_of_different_types() -> None:
    assert _error(
        """
        (bool condition, float[3] x) => (float[N] y) {
          y = If (condition) <
            then_branch = yes () => (float[3] a) { a = Neg (x) },
            else_branch = no () => (float[6] b) { b = Concat <axis = 0> (x, x) }
          >
        }
        """
    ) == (
        "has branches that return (tensor<3xf32>) and (tensor<6xf32>); expected equal types"
    )


@pytest.mark.parametrize("type_", ["float", "bool[2]"])
def test_condition_that_is_no_boolean(type_: str) -> None:
    element_type = "f32" if type_ == "float" else "i1"
    shape = "2" if "[" in type_ else "()"
    assert _error(
        _IF.replace("bool condition", f"{type_} condition"),
    ) == (
        f"has a condition of shape {shape} and type '{element_type}'; expected one boolean"
    )


def test_branch_with_inputs() -> None:
    assert (
        _error(_IF.replace("yes ()", "yes (float[3] i)"))
        == "has a graph with 1 inputs; expected 0"
    )


def test_error_in_a_branch() -> None:
    assert _error(
        """
        (bool condition, float[3] x) => (float[3] y) {
          y = If (condition) <
            then_branch = yes () => (float[3] a) { a = Neg (x) },
            else_branch = no () => (float[3] b) { b = MaxPool <kernel_shape = [2, 2]> (x) }
          >
        }
        """
    ) == (
        "has windows of rank 2 in images of rank 0 (in a branch whose condition depends "
        "on data)"
    )


# Loops

_LOOP = """
(int64 limit, bool condition, float[3] x) => (float[3] y) {
  y = Loop (limit, condition, x) <
    body = step (int64 i, bool c, float[3] a) => (bool d, float[3] b) {
      seven = Constant <value_float = 7.0> ()
      b = Add (a, x)
      total = ReduceSum <keepdims = 0> (b)
      d = Less (total, seven) }
  >
}
"""


@pytest.mark.parametrize(
    ("limit", "condition"), [(10, True), (2, True), (0, True), (5, False)]
)
def test_loop_with_condition(limit: int, condition: bool) -> None:
    _check(_LOOP, np.int64(limit), condition, _X, is_compiled=limit == 10)


def test_loop_without_limit() -> None:
    _check(_LOOP.replace("Loop (limit,", "Loop (,"), np.int64(0), True, _X)


_STACKING = """
(float[3] x) => (float[3] y, int64[N] indices, float[M, 3] values) <int64 limit = {4}> {
  y, indices, values = Loop (limit, , x) <
    body = step (int64 i, bool c, float[3] a)
        => (bool d, float[3] b, int64 index, float[3] value) {
      d = Identity (c)
      index = Identity (i)
      b = Add (a, x)
      value = Mul (b, b) }
  >
}
"""


def test_loop_with_outputs() -> None:
    _check(_STACKING, _X, is_compiled=True)


def test_outputs_of_unknown_length() -> None:
    assert _error(
        _STACKING.replace("(float[3] x) =>", "(int64 limit, float[3] x) =>", 1).replace(
            "<int64 limit = {4}>", ""
        )
    ) == (
        "has outputs of unknown or zero length; set the sizes of the inputs, e.g. with "
        "--shape"
    )


def test_loop_that_changes_a_type() -> None:
    assert (
        _error(
            """
        (int64 limit, float[3] x) => (float[N] y) {
          y = Loop (limit, , x) <
            body = step (int64 i, bool c, float[N] a) => (bool d, float[N] b) {
              d = Identity (c) b = Concat <axis = 0> (a, a) }
          >
        }
        """
        )
        == "carries a value whose type changes from 'tensor<3xf32>' to 'tensor<6xf32>'"
    )


_SCAN = """
(float[2] state, float[3, 2] x) => (float[2] last, float[A, B] y) {{
  last, y = Scan <num_scan_inputs = 1, {attributes},
    body = step (float[2] a, float[2] element) => (float[2] b, float[2] c) {{
      b = Add (a, element) c = Mul (b, element) }}
  > (state, x)
}}
"""


@pytest.mark.parametrize(
    "attributes",
    [
        "scan_input_axes = [0]",
        "scan_input_directions = [1]",
        "scan_output_directions = [1]",
        "scan_output_axes = [1]",
        "scan_output_axes = [-1], scan_input_directions = [1]",
    ],
)
def test_scan(attributes: str) -> None:
    text = _SCAN.format(attributes=attributes)
    _check(text, _X[:2], _Y, is_compiled="-1" in attributes)
    _check(text.replace("float[3, 2]", "float[1, 2]"), _X[:2], _Y[:1])


def test_scan_of_columns() -> None:
    text = _SCAN.format(attributes="scan_input_axes = [-1]")
    _check(text.replace("[3, 2]", "[2, 3]"), _X[:2], _Y.T)
