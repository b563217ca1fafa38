"""What kernels compute after both exports, compared with floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.interpreters import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.propagation.quant_export import FLOAT_KERNELS

MODES = "fixed", "codegen"


def exported(text: str, mode: str) -> ModuleOp:
    module = parse_module(text, "model.mlir")
    apply_passes(module, f"quant-export{{mode={mode}}}")
    module.verify()
    return module


def float_kernels(module: ModuleOp) -> Sequence[str]:
    """Why kernels stay in floating point, without their locations."""
    reasons: Any = module.attributes.get(FLOAT_KERNELS, ())
    return [reason.data.partition("kernel ")[2] for reason in reasons]


def computed(module: ModuleOp, *inputs: NDArray[Any]) -> NDArray[Any]:
    """The result of `main`, after StableHLO is lowered."""
    apply_passes(
        module, "convert-quantized-stablehlo-to-linalg,convert-stablehlo-to-linalg"
    )
    (result,) = run_function(module, "main", *inputs)
    return result


REDUCTION = """
!q = !quant.uniform<i8:f32, FROM>
!r = !quant.uniform<i8:f32, TO>
func.func @main(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  %c = stablehlo.constant dense<INIT> : tensor<f32>
  %0 = quant.region "k" (%a = %x : tensor<2x3xf32> as !q, %b = %c : tensor<f32>)
      -> (tensor<2xf32> as !r) {
    %r = stablehlo.reduce(%a init: %b) applies stablehlo.OP across dimensions = [1]
      : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
    quant.return %r : tensor<2xf32>
  }
  func.return %0 : tensor<2xf32>
}
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("op", "init", "operand", "result", "expected"),
    [
        ("maximum", "10.0", "0.03125:5", "0.125", [10, 10]),
        ("maximum", "2.25", "0.03125:5", "0.125", [2.25, 2.5]),
        ("maximum", "3.03", "0.03125:5", "0.125", [3, 3]),
        ("maximum", "0xFF800000", "0.03125:5", "0.125", [-1.5, 2.5]),
        ("minimum", "-10.0", "0.03125:5", "0.125", [-10, -10]),
        ("minimum", "0.5", "0.03125:5", "0.25:3", [-3, 0.5]),
        ("minimum", "0x7F800000", "0.03125:5", "0.03125:5", [-3, 1]),
        ("add", "0.0", "0.03125:5", "0.125", [-6.5, 5.5]),
        ("add", "10.0", "0.03125:5", "0.125:-3", [3.5, 15.5]),
        ("add", "1.0", "0.03125:-128", "0.25", [1, 6.5]),
    ],
)
def test_reductions(
    mode: str,
    op: str,
    init: str,
    operand: str,
    result: str,
    expected: Sequence[float],
):
    """They begin with a constant, and sums have more bits than terms."""
    text = REDUCTION.replace("OP", op).replace("INIT", init)
    module = exported(text.replace("FROM", operand).replace("TO", result), mode)
    assert not float_kernels(module)
    x = np.array([[-3, -2, -1.5], [1, 2.5, 2]], np.float32)
    np.testing.assert_array_equal(computed(module, x), expected)


@pytest.mark.parametrize(
    ("op", "init", "is_cut_off"),
    [
        ("maximum", "10.0", True),
        ("maximum", "-10.0", False),
        ("minimum", "-10.0", True),
        ("minimum", "10.0", False),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_results_that_their_type_cuts_off(
    mode: str, op: str, init: str, is_cut_off: bool
):
    """They stay in floats: a type that ends at 4 has no 10."""
    text = REDUCTION.replace("OP", op).replace("INIT", init)
    text = text.replace("FROM", "0.03125").replace("TO", "0.03125")
    module = exported(text, mode)
    subject = {
        "fixed": "a constant of 'stablehlo.reduce'",
        "codegen": "a result",
    }
    assert float_kernels(module) == is_cut_off * [
        f"'k': {subject[mode]} exceeds the range of '!quant.uniform<i8:f32, 3.125000e-02>'"
    ]
    x = np.array([[-3, -2, -1.5], [1, 2.5, 2]], np.float32)
    order = {"maximum": np.maximum, "minimum": np.minimum}[op]
    expected = order.reduce(x, axis=1, initial=float(init))
    np.testing.assert_array_equal(computed(module, x), expected)


WINDOW = """
!q = !quant.uniform<i8:f32, 0.03125:5>
!r = !quant.uniform<i8:f32, 0.125:-3>
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = quant.region "k" (%a = %x : tensor<?x4xf32> as !q, %b = %c : tensor<f32>)
      -> (tensor<?x2xf32> as !r) {
    %r = "stablehlo.reduce_window"(%a, %b) <{
      window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 2>,
      padding = dense<[[0, 0], [0, 1]]> : tensor<2x2xi64>
    }> ({
    ^bb0(%l: tensor<f32>, %m: tensor<f32>):
      %n = stablehlo.add %l, %m : tensor<f32>
      stablehlo.return %n : tensor<f32>
    }) : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x2xf32>
    quant.return %r : tensor<?x2xf32>
  }
  func.return %0 : tensor<?x2xf32>
}
"""


def test_sums_of_windows():
    module = exported(WINDOW.replace("?", "2"), "fixed")
    assert not float_kernels(module)
    (total,) = (op for op in module.walk() if op.name == "stablehlo.reduce_window")
    wide = "!quant.uniform<i32:f32, 3.125000e-02>"
    assert [str(value.type) for value in total.operands] == [
        f"tensor<2x4x{wide}>",
        f"tensor<{wide}>",
    ]
    x = np.array([[-3, -2, -1.5, 1], [1, 2.5, 2, -1]], np.float32)
    np.testing.assert_array_equal(computed(module, x), [[-6.5, -0.5], [5.5, 1]])


@pytest.mark.parametrize(
    ("size", "is_quantized"), [("8421504", True), ("8421505", False), ("?", False)]
)
def test_sums_that_need_more_bits(size: str, is_quantized: bool):
    """8421504 * 255 is the largest multiple of 255 that fits 32 bits."""
    text = REDUCTION.replace("OP", "add").replace("INIT", "0.0").replace("2x3x", "2xSx")
    text = text.replace("FROM", "0.5").replace("TO", "0.5").replace("S", size)
    assert float_kernels(exported(text, "fixed")) == (not is_quantized) * [
        "'k': sums of 'stablehlo.reduce' may need more than 32 bits"
    ]


CLAMP = """
!x = !quant.uniform<i8:f32, 0.03125:3>
!y = !quant.uniform<i8:f32, RESULT>
func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {
  %c = stablehlo.constant dense<LOW> : tensor<f32>
  %d = stablehlo.constant dense<HIGH> : tensor<f32>
  %0 = quant.region "k" (%a = %c : tensor<f32>, %b = %x : tensor<5xf32> as !x,
      %e = %d : tensor<f32>) -> (tensor<5xf32> as !y) {
    %r = stablehlo.clamp %a, %b, %e
      : (tensor<f32>, tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
    quant.return %r : tensor<5xf32>
  }
  func.return %0 : tensor<5xf32>
}
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("low", "high", "result", "expected"),
    [
        # 0.1 and 0.9 are 25.6 and 230.4 units of the result.
        (
            "0.1",
            "0.9",
            "0.00390625:-128",
            [26 / 256, 26 / 256, 0.3125, 0.75, 230 / 256],
        ),
        ("0.0", "1.0", "0.0078125:-128", [0, 0, 0.3125, 0.75, 1]),
        ("-1.5", "6.0", "0.03125:-80", [-1.5, -1, 0.3125, 0.75, 2]),
        # It ends before the bound does, which cuts off nothing else.
        ("0.0", "6.0", "0.00390625:-128", [0, 0, 0.3125, 0.75, 255 / 256]),
        ("-8.0", "1.0", "0.0078125", [-1, -1, 0.3125, 0.75, 127 / 128]),
    ],
)
def test_bounds_have_the_scale_of_the_result(
    mode: str, low: str, high: str, result: str, expected: Sequence[float]
):
    text = CLAMP.replace("LOW", low).replace("HIGH", high).replace("RESULT", result)
    module = exported(text, mode)
    assert not float_kernels(module)
    x = np.array([-2, -1, 0.3125, 0.75, 2], np.float32)
    np.testing.assert_array_equal(computed(module, x), np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("low", "high", "is_float"),
    [("2.0", "3.0", True), ("-3.0", "-2.0", True), ("-3.0", "3.0", False)],
)
@pytest.mark.parametrize("mode", MODES)
def test_bounds_that_the_result_cuts_off(
    mode: str, low: str, high: str, is_float: bool
):
    text = CLAMP.replace("LOW", low).replace("HIGH", high)
    module = exported(text.replace("RESULT", "0.0078125"), mode)
    assert bool(float_kernels(module)) == is_float


SUMS_OF_PRODUCTS = """
!x = !quant.uniform<i8:f32, X:3>
!w = !quant.uniform<i8<-127:127>:f32W>
!y = !quant.uniform<i8:f32, 0.0078125>
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = stablehlo.constant dense<[[0.5, 1.0], [-1.5, 0.0625]]> : tensor<2x2xf32>
  %0 = quant.region "k" (%a = %x : tensor<1x2xf32> as !x, %b = %w : tensor<2x2xf32> as !w)
      -> (tensor<1x2xf32> as !y) {
    %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
    %r = stablehlo.tanh %d : tensor<1x2xf32>
    quant.return %r : tensor<1x2xf32>
  }
  func.return %0 : tensor<1x2xf32>
}
"""


@pytest.mark.parametrize(
    ("x_scale", "w_scale", "reason"),
    [
        ("0.0078125", ":1, {0.0625, 0.015625}", "'stablehlo.tanh' takes no scales of"),
        # Sums of products in units of 1/32 are too coarse for results in those of 1/128.
        (
            "0.5",
            ", 0.0625",
            "'stablehlo.tanh' does not accept the types: requires compatible",
        ),
        ("0.0078125", ", 0.015625", None),
    ],
)
def test_functions_of_sums_of_products(x_scale: str, w_scale: str, reason: str | None):
    """The sums have neither the range of the function nor its scale."""
    text = SUMS_OF_PRODUCTS.replace("X", x_scale).replace("W", w_scale)
    module = exported(text, "fixed")
    reasons = float_kernels(module)
    assert len(reasons) == (reason is not None)
    assert not reason or reasons[0].startswith(f"'k': {reason}")
    x = np.array([[0.5, 0.5]], np.float32)
    exact = np.tanh([[-0.5, 0.53125]])
    np.testing.assert_array_equal(computed(module, x) * 128, np.round(exact * 128))
