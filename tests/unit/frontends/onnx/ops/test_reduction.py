"""Reductions and softmax, compared with onnxruntime where node cases do not reach."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike

from tests.unit.frontends.onnx.onnxruntime_results import (
    check_node,
    drawn,
    floats,
    import_error,
    integers,
)

INF = np.inf

REDUCTIONS = """
L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare
""".split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_axes_are_attributes_before_opset_18(name: str):
    x = drawn((2, 3, 4))
    opset = 11 if name == "Sum" else 17
    check_node(f"Reduce{name}", x, opset=opset, axes=[1])
    check_node(f"Reduce{name}", x, opset=opset, axes=[-1, 0], keepdims=0)
    check_node(f"Reduce{name}", x, opset=opset)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_nothing(name: str):
    x = np.ones((2, 0, 3), np.float32)
    check_node(f"Reduce{name}", x, integers([1]), constants=[1], keepdims=0)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_axes_are_an_operand_since_opset_18(name: str):
    x = drawn((2, 3, 4))
    check_node(f"Reduce{name}", x, integers([-2]), constants=[1], keepdims=0)
    check_node(f"Reduce{name}", x, integers([2, 0]), constants=[1])
    check_node(f"Reduce{name}", x, np.zeros(0, np.int64), constants=[1])
    check_node(f"Reduce{name}", x, keepdims=0)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_no_axes_reduce_nothing_if_told(name: str):
    check_node(f"Reduce{name}", drawn((2, 3)), noop_with_empty_axes=1)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_integers(name: str):
    x = np.array([[1, 2, 5], [4, 4, 9]], np.int32)
    check_node(f"Reduce{name}", x, integers([1]), constants=[1])


@pytest.mark.parametrize("name", ["Max", "Min"])
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int64, np.float64])
def test_extrema_of_other_types(name: str, dtype: DTypeLike):
    x = np.array([[0, 1, 1], [0, 0, 0], [1, 1, 1]]).astype(dtype)
    check_node(f"Reduce{name}", x, integers([1]), constants=[1])


def test_log_sum_exp_does_not_overflow():
    x = floats([[500, 499], [-500, -501], [-INF, -INF], [INF, 1], [-INF, 3]])
    check_node("ReduceLogSumExp", x, integers([1]), constants=[1])


def test_mean_of_f16_does_not_overflow():
    check_node("ReduceMean", np.full(100, 6e4, np.float16), keepdims=0)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("is_last", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.int8])
def test_ties(op_type: str, is_last: int, dtype: DTypeLike):
    x = np.array([[3, 1, 3, 1], [0, 0, 0, 0], [1, 2, 2, 0]]).astype(dtype)
    for axis in (0, -1):
        check_node(op_type, x, axis=axis, select_last_index=is_last)
    check_node(op_type, x, axis=1, keepdims=0, select_last_index=is_last)


def test_position_in_infinities():
    x = floats([[-INF, -INF, INF], [INF, INF, 0]])
    check_node("ArgMax", x, axis=1)
    check_node("ArgMin", x, axis=1)


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax(op_type: str, opset: int):
    x = drawn((2, 3, 4))
    check_node(op_type, x, opset=opset)
    for axis in (0, 1, 2, -1, -2):
        check_node(op_type, x, opset=opset, axis=axis)


def test_softmax_of_f16():
    check_node("Softmax", drawn((2, 5), np.float16), rtol=1e-3)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumulative_sums(exclusive: int, reverse: int):
    attributes: dict[str, Any] = {"exclusive": exclusive, "reverse": reverse}
    for size in (1, 2, 5, 8):
        x = drawn((2, size, 3))
        check_node("CumSum", x, np.int64(1), constants=[1], **attributes)
    x = np.arange(12).reshape(3, 4)
    check_node("CumSum", x, np.array([-1], np.int32), constants=[1], **attributes)


@pytest.mark.parametrize(
    "op_type", ["ReduceL2", "ReduceLogSumExp", "ArgMax", "Softmax", "Hardmax"]
)
def test_compiled(op_type: str):
    check_node(op_type, drawn((3, 5)), is_compiled=True)


def test_compiled_cumulative_sum():
    check_node("CumSum", drawn((3, 5)), np.int64(1), constants=[1], is_compiled=True)


def test_errors():
    x = np.ones((2, 3), np.float32)
    assert import_error("ReduceSum", x, integers([2]), constants=[1]) == (
        "axis 2 is out of range for rank 2"
    )
    assert import_error("ReduceSum", x, integers([1])) == (
        "axes depend on data or on unknown sizes; set the sizes of the inputs, e.g. with "
        "--shape"
    )
    assert import_error("CumSum", x, integers([0, 1]), constants=[1]) == (
        "2 axes are unsupported; expected one axis"
    )
