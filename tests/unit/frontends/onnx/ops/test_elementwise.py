"""Elementwise ops, compared with onnxruntime where ONNX's node cases do not reach."""

from collections.abc import Sequence
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
    node_model,
)
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.numerics.arrays import Array

INF, NAN = np.inf, np.nan

SPECIAL = np.array(
    [
        0.0,
        -0.0,
        1e-30,
        -1e-8,
        0.3,
        -0.3,
        1,
        -1,
        1.5,
        -2.5,
        5,
        -20,
        80,
        -80,
        INF,
        -INF,
        NAN,
    ],
    np.float32,
)
FINITE = SPECIAL[:-3]


def signed(shape: Sequence[int], dtype: DTypeLike = np.float32) -> Array:
    """Return seeded values from -4 to 4, from 0 for unsigned types."""
    return drawn(shape, dtype, low=0 if np.dtype(dtype).kind == "u" else -4)


@pytest.mark.parametrize(
    "op_type",
    """
    Abs Ceil Celu Elu Erf Exp Floor HardSigmoid IsInf IsNaN LeakyRelu Neg Reciprocal Relu
    Round Selu Shrink Sigmoid Sign Softplus Sqrt Tanh ThresholdedRelu
    """.split(),
)
def test_special_floats(op_type: str):
    check_node(op_type, SPECIAL)


@pytest.mark.parametrize(
    "op_type", "Cos Gelu HardSwish Mish Sin Softsign Tan Acos Asin Atan".split()
)
def test_finite_floats(op_type: str):
    opset = 22 if op_type in ("HardSwish", "Mish") else 20
    check_node(op_type, signed((50,)), opset=opset, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("op_type", "Acosh Asinh Atanh Cosh Sinh Log".split())
def test_hyperbolic_functions(op_type: str):
    values = signed((50,)) / 4
    if op_type in ("Acosh", "Log"):
        values = abs(values) + np.float32(1)
    check_node(op_type, values, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Celu", {"alpha": 2.5}),
        ("Elu", {"alpha": 0.3}),
        ("Gelu", {"approximate": "tanh"}),
        ("HardSigmoid", {"alpha": 0.5, "beta": 0.6}),
        ("LeakyRelu", {"alpha": 0.3}),
        ("LeakyRelu", {"alpha": 1.5}),
        ("Selu", {"alpha": 1.5, "gamma": 2.0}),
        ("Shrink", {"lambd": 1.5, "bias": 0.7}),
        ("ThresholdedRelu", {"alpha": 0.5}),
        ("IsInf", {"detect_negative": 0}),
        ("IsInf", {"detect_positive": 0}),
        ("IsInf", {"detect_positive": 0, "detect_negative": 0}),
    ],
)
def test_attributes(op_type: str, attributes: dict[str, Any]):
    values = SPECIAL if op_type == "IsInf" else signed((40,))
    check_node(op_type, values, atol=5e-7, **attributes)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
@pytest.mark.parametrize("op_type", ["Add", "Mul", "Sub", "Div", "Max", "Min", "Pow"])
def test_other_float_types(op_type: str, dtype: DTypeLike):
    if op_type == "Pow" and dtype == np.float16:
        pytest.skip("onnxruntime has no f16 kernel")
    x, y = abs(signed((3, 1, 4), dtype)), signed((2, 1), dtype)
    check_node(op_type, x, y, rtol=1e-3 if dtype == np.float16 else 1e-14)


@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
def test_variadic(op_type: str):
    values = [signed(shape) for shape in ((3, 4), (4,), (3, 1), ())]
    check_node(op_type, *values)
    check_node(op_type, values[0])


@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float64]
)
@pytest.mark.parametrize("op_type", ["Max", "Min", "Abs", "Sign"])
def test_element_types(op_type: str, dtype: DTypeLike):
    x = signed((5,), dtype)
    check_node(op_type, *([x, x[::-1]] if op_type in ("Max", "Min") else [x]))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_quotient_and_remainder_of_integers(dtype: DTypeLike):
    x, y = (
        np.array([7, -7, 7, -7, 6, -6, 0, 1], dtype=np.int64),
        np.array([2, 2, -2, -2] * 2),
    )
    if np.dtype(dtype).kind == "u":
        x, y = abs(x), abs(y)
    x, y = x.astype(dtype), y.astype(dtype)
    check_node("Div", x, y)
    check_node("Mod", x, y)
    check_node("Mod", x, y, fmod=1)


def test_remainder_of_floats():
    x, y = (
        np.array([5.5, -5.5, 5.5, -5.5, INF], np.float32),
        floats([2, 2, -2, -2, 2]),
    )
    check_node("Mod", x, y, fmod=1)


@pytest.mark.parametrize(
    ("base", "exponent"),
    [
        (floats([2, 0.5, 9]), integers([3, -2, 0])),
        (floats([2, 0.5, 9]), np.array([3, 0.1, 1 / 3], np.float64)),
        (np.array([2, 0.5, 9], np.float64), floats([3, 0.1, 0.5])),
        (np.array([2, 3, -2], np.int32), floats([0.5, 2.5, 3])),
        (integers([2, 3, -2]), np.array([5, 4, 3], np.int32)),
    ],
)
def test_powers(base: Array, exponent: Array):
    check_node("Pow", base, exponent)


@pytest.mark.parametrize("exponent", [2, 3, 0.5, -1])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_constant_exponents(exponent: float, shape: tuple[int, ...]):
    check_node(
        "Pow",
        floats([1, 2, 5]),
        np.full(shape, exponent, np.float32),
        constants=[1],
    )


def test_square_is_a_product():
    model = node_model(
        "Pow",
        {"x": np.ones(3, np.float32)},
        operands=["x", "two"],
        constants={"two": floats(2)},
    )
    assert "stablehlo.power" not in (text := str(read_onnx(model)))
    assert "stablehlo.multiply" in text


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
def test_bit_shifts(direction: str, dtype: DTypeLike):
    x = np.array([1, 200, 255, 16], dtype)
    check_node("BitShift", x, np.array([0, 3, 7, 1], dtype), direction=direction)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32])
@pytest.mark.parametrize("op_type", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bitwise_ops(op_type: str, dtype: DTypeLike):
    check_node(op_type, np.array([[1], [100]], dtype), np.array([3, 77, 5], dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.int64, np.bool_])
def test_comparisons(dtype: DTypeLike):
    x, y = (
        np.array([[1], [200], [0]]).astype(dtype),
        np.array([1, 5, 200]).astype(dtype),
    )
    check_node("Equal", x, y)
    if dtype != np.bool_:
        for op_type in ("Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
            check_node(op_type, x, y)


def test_where_broadcasts_all_operands():
    condition = np.array([[True], [False]])
    check_node("Where", condition, signed((3, 1, 1)), signed((4,)))
    check_node(
        "Where", np.array(True), signed((2,), np.int64), signed((2, 1), np.int64)
    )


@pytest.mark.parametrize(
    ("low", "high"), [(-1, 1), (None, 1), (-1, None), (None, None), (3, 2)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int64])
def test_clip(low: float | None, high: float | None, dtype: DTypeLike):
    bounds = [
        None if bound is None else np.array(bound, dtype) for bound in (low, high)
    ]
    while bounds and bounds[-1] is None:
        del bounds[-1]
    # onnxruntime clips infinities to the largest float if a bound is absent; the function
    # that defines the op does not.
    special = SPECIAL if len(bounds) == 2 and None not in bounds else FINITE
    values = special if dtype == np.float32 else signed((9,), dtype)
    check_node("Clip", values, *bounds)


def test_prelu_broadcasts_its_slope():
    check_node("PRelu", signed((2, 3, 4)), signed((3, 1)))
    check_node("PRelu", signed((2, 3)), signed((1,)))


def test_dropout_for_inference():
    check_node("Dropout", signed((4,)), np.float32(0.3), result_count=2, constants=[1])
    check_node(
        "Dropout",
        signed((4,)),
        np.float32(0.3),
        np.array(False),
        result_count=2,
        constants=[1, 2],
    )
    check_node("Dropout", signed((4,)), opset=11, ratio=0.3)


def test_compiled():
    x, y = signed((3, 4)), signed((4,))
    for op_type in ("Gelu", "HardSigmoid", "Softplus", "Elu", "LeakyRelu", "Erf"):
        check_node(op_type, x, is_compiled=True, atol=1e-6)
    check_node("Mod", signed((6,), np.int32), np.int32(3), is_compiled=True)
    check_node("Where", x > 0, x, y, is_compiled=True)
    check_node("Clip", x, np.float32(-1), np.float32(2), is_compiled=True)


def test_errors():
    x = np.ones((2, 3), np.float32)
    assert import_error("Add", x, np.ones(2, np.float32)) == (
        "shapes 2x3 and 2 cannot be broadcast together"
    )
    assert import_error(
        "Dropout", x, np.float32(0.5), np.array(True), constants=[1, 2]
    ) == ("training mode is unsupported; export for inference")
    assert import_error("Max", None, x) == (
        "an operand is missing; expected the name of a value"
    )
