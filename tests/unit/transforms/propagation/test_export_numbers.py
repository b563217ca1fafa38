"""What kernels compute after both exports, compared with floats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.building.type_replacement import defined_values
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


@pytest.mark.sampled(2)
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
        ("maximum", "0.1", "0.03125:5", "0.03125:5", [0.09375, 2.5]),
        ("maximum", "0.1", "0.03125:5", "0.0078125:-128", [13 / 128, 255 / 128]),
        ("minimum", "-0.9", "0.03125:5", "0.03125:5", [-3, -0.90625]),
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
    ("op", "init", "is_clamped"),
    [
        ("maximum", "10.0", True),
        ("maximum", "-10.0", False),
        ("minimum", "-10.0", True),
        ("minimum", "10.0", False),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_results_that_their_type_cuts_off(
    mode: str, op: str, init: str, is_clamped: bool
):
    """They stay in floats: a type that ends at 4 has no 10."""
    text = REDUCTION.replace("OP", op).replace("INIT", init)
    text = text.replace("FROM", "0.03125").replace("TO", "0.03125")
    module = exported(text, mode)
    assert float_kernels(module) == is_clamped * [
        "'k': a constant of 'stablehlo.reduce' exceeds the range of "
        "'!quant.uniform<i8:f32, 3.125000e-02>'"
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", ["2", "?"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("op", "init", "expected"),
    [
        ("add", "0.0", [[-6.5, -0.5], [5.5, 1]]),
        ("maximum", "0xFF800000", [[-1.5, 1], [2.5, 2]]),
        ("maximum", "1.5", [[1.5, 1.5], [2.5, 2]]),
        ("minimum", "0x7F800000", [[-3, -1.5], [1, -1]]),
    ],
)
def test_windows(
    size: str, mode: str, op: str, init: str, expected: Sequence[Sequence[float]]
):
    """Padding is what they begin with."""
    text = WINDOW.replace("?", size).replace("stablehlo.add", f"stablehlo.{op}")
    module = exported(text.replace("dense<0.0>", f"dense<{init}>"), mode)
    assert not float_kernels(module)
    x = np.array([[-3, -2, -1.5, 1], [1, 2.5, 2, -1]], np.float32)
    np.testing.assert_array_equal(computed(module, x), expected)


PAD = """
!q = !quant.uniform<FROM>
!r = !quant.uniform<i8:f32, 0.0625>
func.func @main(%x: tensor<?x2xf32>) -> tensor<?x5xf32> {
  %c = stablehlo.constant dense<VALUE> : tensor<f32>
  %0 = quant.region "k" (%a = %x : tensor<?x2xf32> as !q, %b = %c : tensor<f32>)
      -> (tensor<?x5xf32> as !r) {
    %r = stablehlo.pad %a, %b, low = [0, 1], high = [0, 1], interior = [0, 1]
      : (tensor<?x2xf32>, tensor<f32>) -> tensor<?x5xf32>
    quant.return %r : tensor<?x5xf32>
  }
  func.return %0 : tensor<?x5xf32>
}
"""


@pytest.mark.parametrize("size", ["2", "?"])
@pytest.mark.parametrize(
    ("value", "operand", "expected"),
    [
        ("0.0", "i8:f32, 0.03125:5", 0),
        ("0.5", "i8:f32, 0.03125:5", 0.5),
        ("0.1", "i8:f32, 0.03125:5", 0.125),
        ("5.0", "i8:f32, 0.03125:5", 5),
        ("2.0", "u8:f32, 0.03125:128", 2),
        ("0x7F800000", "i8:f32, 0.03125:5", 3.8125),
        ("0xFF800000", "u8:f32, 0.03125:128", -4),
    ],
)
def test_padding(size: str, value: str, operand: str, expected: float):
    """The constant need not be in the range of the operand."""
    text = PAD.replace("?", size).replace("VALUE", value).replace("FROM", operand)
    module = exported(text, "codegen")
    assert not float_kernels(module)
    x = np.array([[-3, -2], [1, 2.5]], np.float32)
    padded = np.full((2, 5), expected, np.float32)
    padded[:, 1:4:2] = x
    np.testing.assert_array_equal(computed(module, x), padded)
    sizes = [op for op in module.walk() if op.name == "tensor.dim"]
    assert all(op.results[0].first_use is not None for op in sizes)


SELECT = """
!q = !quant.uniform<i8:f32, 0.03125:5>
!r = !quant.uniform<i8:f32, 0.0625>
func.func @main(%p: tensor<?x3xi1>, %x: tensor<?x3xf32>, %y: tensor<?x3xf32>)
    -> tensor<?x3xf32> {
  %c = stablehlo.constant dense<0.5> : tensor<2x3xf32>
  %0 = quant.region "k" (%s = %p : tensor<?x3xi1>, %a = %x : tensor<?x3xf32> as !q,
      OTHER) -> (tensor<?x3xf32> as !r) {
    %r = stablehlo.select %s, %a, %b : tensor<?x3xi1>, tensor<?x3xf32>
    quant.return %r : tensor<?x3xf32>
  }
  func.return %0 : tensor<?x3xf32>
}
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", ["2", "?"])
def test_select(mode: str, size: str):
    text = SELECT.replace("OTHER", "%b = %y : tensor<?x3xf32> as !r").replace("?", size)
    module = exported(text, mode)
    assert not float_kernels(module)
    x = np.array([[-3, -2, -1.5], [1, 2.5, 2]], np.float32)
    y = np.array([[4, 5, -6], [-7, 0.5, 0.25]], np.float32)
    np.testing.assert_array_equal(
        computed(module, x > 0, x, y), [[4, 5, -6], [1, 2.5, 2]]
    )


def test_select_of_a_constant():
    text = SELECT.replace("OTHER", "%b = %c : tensor<?x3xf32>").replace("?", "2")
    module = exported(text, "codegen")
    assert not float_kernels(module)
    x = np.array([[-3, -2, -1.5], [1, 2.5, 2]], np.float32)
    np.testing.assert_array_equal(
        computed(module, x > 0, x, x), [[0.5, 0.5, 0.5], [1, 2.5, 2]]
    )


ARITH_SELECT = """
!q = !quant.uniform<i8:f32, 0.5>
func.func @main(%p: i1, %x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %0 = quant.region "k" (%s = %p : i1, %a = %x : tensor<3xf32> as !q,
      %b = %y : tensor<3xf32> as !q) -> (tensor<3xf32> as !q) {
    %r = arith.select %s, %a, %b : tensor<3xf32>
    quant.return %r : tensor<3xf32>
  }
  func.return %0 : tensor<3xf32>
}
"""


@pytest.mark.parametrize(
    ("condition", "expected"), [(True, [1, 2, -3]), (False, [1.5, 0.5, 4])]
)
def test_select_of_a_whole_tensor(condition: bool, expected: Sequence[float]):
    module = exported(ARITH_SELECT, "codegen")
    assert not float_kernels(module)
    x, y = np.array([1, 2, -3], np.float32), np.array([1.5, 0.5, 4], np.float32)
    np.testing.assert_array_equal(computed(module, np.array(condition), x, y), expected)


CONCATENATE = """
!q = !quant.uniform<i8:f32, 0.03125:5>
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x3xf32> {
  %c = stablehlo.constant dense<CONSTANT> : tensor<2x1xf32>
  %0 = quant.region "k" (%a = %x : tensor<2x2xf32> as !q, %b = %c : tensor<2x1xf32>)
      -> (tensor<2x3xf32> as !q) {
    %r = stablehlo.concatenate %b, %a, dim = 1
      : (tensor<2x1xf32>, tensor<2x2xf32>) -> tensor<2x3xf32>
    quant.return %r : tensor<2x3xf32>
  }
  func.return %0 : tensor<2x3xf32>
}
"""


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("constant", "stored"), [("0.5", [0.5, 0.5]), ("[[0.5], [0.3]]", [0.5, 0.3125])]
)
def test_concatenation_of_a_constant(mode: str, constant: str, stored: Sequence[float]):
    module = exported(CONCATENATE.replace("CONSTANT", constant), mode)
    assert not float_kernels(module)
    x = np.array([[-3, -2], [1, 2.5]], np.float32)
    np.testing.assert_array_equal(
        computed(module, x), np.column_stack([np.array(stored), x])
    )


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


MAXIMUM = "stablehlo.maximum %a, %a : tensor<2x8421505xf32>"


def test_ops_before_sums_that_need_more_bits():
    text = REDUCTION.replace("OP", "add").replace("INIT", "0.0")
    text = (
        text.replace("2x3x", "2x8421505x").replace("FROM", "0.5").replace("TO", "0.5")
    )
    text = text.replace("%r =", f"%m = {MAXIMUM}\n%r =").replace("(%a init", "(%m init")
    module = exported(text, "fixed")
    assert len(float_kernels(module)) == 1
    values = (value for op in module.walk() for value in defined_values(op))
    users = {use.operation for value in values for use in value.uses}
    assert users <= {*module.walk()}


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
        (
            "0.0078125",
            ":1, {0.0625, 0.015625}",
            "'stablehlo.tanh' does not accept per-",
        ),
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


MOVE = """
!x = !quant.uniform<i8:f32, 0.5:3>
!y = !quant.uniform<i8:f32, 0.25>
func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %0 = quant.region "k" (%a = %x : tensor<2x3xf32> as !x) -> (tensor<6xf32> as !y) {
    %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %r = stablehlo.reshape %t : (tensor<3x2xf32>) -> tensor<6xf32>
    quant.return %r : tensor<6xf32>
  }
  func.return %0 : tensor<6xf32>
}
"""


@pytest.mark.parametrize("mode", MODES)
def test_moves_to_another_type(mode: str):
    """What moves elements knows one type; they are rescaled after it."""
    module = exported(MOVE, mode)
    assert not float_kernels(module)
    x = np.array([[1, 2.5, 60], [-1, -60, 0.5]], np.float32)
    expected = [1, -1, 2.5, -32, 31.75, 0.5]
    np.testing.assert_array_equal(computed(module, x), expected)
