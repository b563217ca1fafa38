"""Integer arithmetic of onnxruntime's kernels; an oracle compares both."""

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.loading import apply_passes, as_module

TO_INTEGERS = "stablehlo-legalize-qdq-to-integer"

F32 = np.float32


def results(text: str, *arguments: Array) -> NDArray[np.uint8]:
    """Return the unsigned stored values of the interpreter and the compiler."""
    (found,) = run_function(text, None, *arguments, kernels="onnxruntime")
    compiled = compile(text, kernels="onnxruntime")(*arguments)
    np.testing.assert_array_equal(found, compiled)
    return np.asarray(found).view(np.uint8)


def is_fused(text: str, passes: str = TO_INTEGERS) -> bool:
    """Return True if the pass replaces the float op that computes."""
    module = as_module(text)
    apply_passes(module, passes, is_routine=True)
    module.verify()
    return "linalg.generic" in str(module)


def stored(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def rounded(sums: Array, factor: Array | np.float32, zero_point: int) -> Array:
    """Return the stored values of sums, as onnxruntime computes them."""
    products = sums.astype(F32) * factor
    return np.clip(np.rint(products) + zero_point, 0, 255).astype(np.uint8)


RELU = """%zero = stablehlo.constant dense<0.0> : tensor<16x3xf32>
  %r = stablehlo.maximum %s, %zero : tensor<16x3xf32>"""


def product(bias_scale: str = "2.0e-04", relu: str = "", zero_point: int = 7) -> str:
    return f"""
!x = !quant.uniform<u8:f32, 2.0e-02:120>
!w = !quant.uniform<i8:f32, 1.0e-02>
!b = !quant.uniform<i32:f32, {bias_scale}>
!y = !quant.uniform<u8:f32, 3.1e-02:{zero_point}>
func.func @main(%x: tensor<16x4x!x>) -> tensor<16x3x!y> {{
  %w = stablehlo.constant() <{{value = dense<[[1, -60, 9, 7], [50, 40, 30, -3],
      [-5, 2, 60, 8]]> : tensor<3x4xi8>}}> : () -> tensor<3x4x!w>
  %b = stablehlo.constant() <{{value = dense<[1000, -2000, 30]> : tensor<3xi32>}}>
      : () -> tensor<3x!b>
  %xf = quant.dcast %x : tensor<16x4x!x> to tensor<16x4xf32>
  %wf = quant.dcast %w : tensor<3x4x!w> to tensor<3x4xf32>
  %bf = quant.dcast %b : tensor<3x!b> to tensor<3xf32>
  %t = stablehlo.transpose %wf, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %p = stablehlo.dot_general %xf, %t, contracting_dims = [1] x [0]
      : (tensor<16x4xf32>, tensor<4x3xf32>) -> tensor<16x3xf32>
  %c = stablehlo.broadcast_in_dim %bf, dims = [1] : (tensor<3xf32>) -> tensor<16x3xf32>
  %s = stablehlo.add %p, %c : tensor<16x3xf32>
  {relu}
  %y = quant.qcast {"%r" if relu else "%s"} : tensor<16x3xf32> to tensor<16x3x!y>
  func.return %y : tensor<16x3x!y>
}}
"""


def test_fixed_point_multipliers():
    """Multipliers of 31 bits give other results next to a tie alone."""
    module = as_module(product())
    apply_passes(module, f"{TO_INTEGERS}{{multiplier=fixed-point}}")
    text = str(module)
    assert "linalg.generic" in text
    assert "arith.shrsi" in text
    assert "xf32" not in text
    x = stored((16, 4))
    (found,) = run_function(module, None, x)
    expected = results(product(), x).astype(np.int64)
    assert np.abs(found.view(np.uint8).astype(np.int64) - expected).max() <= 1


WEIGHTS = np.array([[1, -60, 9, 7], [50, 40, 30, -3], [-5, 2, 60, 8]])


def product_sums(x: Array) -> Array:
    return (x.astype(np.int64) - 120) @ WEIGHTS.T + [1000, -2000, 30]


@pytest.mark.parametrize(("relu", "zero_point"), [("", 7), (RELU, 0)])
def test_product_with_bias(relu: str, zero_point: int):
    text = product(relu=relu, zero_point=zero_point)
    x = stored((16, 4))
    factor = F32(0.02) * F32(0.01) / F32(0.031)
    expected = rounded(product_sums(x), factor, zero_point)
    assert is_fused(text)
    np.testing.assert_array_equal(results(text, x), expected)


def test_unsaturated_clamp_stays_float():
    assert not is_fused(product(relu=RELU))


def test_bias_with_another_scale_stays_float(capsys: pytest.CaptureFixture[str]):
    text = product("2.5e-04")
    assert not is_fused(text)
    assert capsys.readouterr().err.endswith(
        "warning: scale of a bias is not the product of scales: found 0.00025, expected "
        "0.0002; the op is computed with floats, while onnxruntime reinterprets the bias\n"
    )
    x = stored((16, 4))
    sums = (x.astype(np.int64) - 120) @ WEIGHTS.T * 2e-4 + 2.5e-4 * np.array(
        [1000, -2000, 30]
    )
    expected = np.clip(np.rint(sums / 0.031) + 7, 0, 255)
    np.testing.assert_array_equal(results(text, x), expected)


def test_convolution_with_scales_per_axis():
    text = """
!x = !quant.uniform<u8:f32, 2.0e-02:120>
!w = !quant.uniform<i8:f32:0, {1.0e-02, 3.0e-03}>
!y = !quant.uniform<u8:f32, 3.1e-02:7>
func.func @main(%x: tensor<1x1x6x6x!x>) -> tensor<1x2x6x6x!y> {
  %w = stablehlo.constant() <{value = dense<[[[[1, 2, 3], [-4, 5, 6], [7, -8, 64]]],
      [[[-9, 8, 7], [6, -5, 40], [3, 2, 1]]]]> : tensor<2x1x3x3xi8>}>
      : () -> tensor<2x1x3x3x!w>
  %xf = quant.dcast %x : tensor<1x1x6x6x!x> to tensor<1x1x6x6xf32>
  %wf = quant.dcast %w : tensor<2x1x3x3x!w> to tensor<2x1x3x3xf32>
  %c = stablehlo.convolution(%xf, %wf)
      dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
      window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64,
      feature_group_count = 1 : i64}
      : (tensor<1x1x6x6xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x6x6xf32>
  %y = quant.qcast %c : tensor<1x2x6x6xf32> to tensor<1x2x6x6x!y>
  func.return %y : tensor<1x2x6x6x!y>
}
"""
    x = stored((1, 1, 6, 6))
    weights = np.array(
        [[[1, 2, 3], [-4, 5, 6], [7, -8, 64]], [[-9, 8, 7], [6, -5, 40], [3, 2, 1]]]
    )
    padded = np.pad(x[0, 0].astype(np.int64) - 120, 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    sums = np.einsum("ijkl,okl->oij", windows, weights)
    factors = F32(0.02) * np.array([0.01, 0.003], F32) / F32(0.031)
    expected = rounded(sums, factors[:, None, None], 7)[None]
    np.testing.assert_array_equal(results(text, x), expected)


def binary(op: str, result: str) -> str:
    return f"""
!a = !quant.uniform<u8:f32, 2.0e-02:120>
!b = !quant.uniform<u8:f32, 5.0e-03:3>
!y = {result}
func.func @main(%a: tensor<256x!a>, %b: tensor<256x!b>) -> tensor<256x!y> {{
  %af = quant.dcast %a : tensor<256x!a> to tensor<256xf32>
  %bf = quant.dcast %b : tensor<256x!b> to tensor<256xf32>
  %s = stablehlo.{op} %af, %bf : tensor<256xf32>
  %y = quant.qcast %s : tensor<256xf32> to tensor<256x!y>
  func.return %y : tensor<256x!y>
}}
"""


def test_elementwise_product_adds_the_zero_point_before_rounding():
    text = binary("multiply", "!quant.uniform<u8:f32, 2.0e-04:9>")
    a, b = stored((256,)), stored((256,), 1)
    products = ((a.astype(int) - 120) * (b.astype(int) - 3)).astype(F32)
    factor = F32(0.02) * F32(0.005) / F32(0.0002)
    # The factor is 1/2, so halves are rounded after the zero point 9 is added.
    assert factor == 0.5
    expected = np.clip(np.rint(products * factor + F32(9)), 0, 255)
    assert (np.rint(products * factor) + 9 != np.rint(products * factor + 9)).any()
    np.testing.assert_array_equal(results(text, a, b), expected)


def test_sum_multiplies_and_adds_with_one_rounding():
    text = binary("add", "!quant.uniform<u8:f32, 1.1e-02:40>")
    a, b = stored((256,)), stored((256,), 1)
    first, second = F32(0.02) / F32(0.011), F32(0.005) / F32(0.011)

    def fused(x: Array | np.float64, y: np.float32, z: Array | np.float32) -> Array:
        return np.asarray(x * np.float64(y) + np.float64(z)).astype(F32)

    offset = F32(40) - fused(np.float64(120), first, second * F32(3))
    total = fused(a.astype(float), first, fused(b.astype(float), second, offset))
    expected = np.clip(np.rint(total), 0, 255)
    np.testing.assert_array_equal(results(text, a, b), expected)


def test_difference_has_no_kernel():
    text = binary("subtract", "!quant.uniform<u8:f32, 1.1e-02:40>")
    assert not is_fused(text)
    a, b = stored((256,)), stored((256,), 1)
    difference = (a.astype(F32) - 120) * F32(0.02) - (b.astype(F32) - 3) * F32(0.005)
    # Casts without attributes add the zero point after rounding, as those of ONNX.
    expected = np.clip(np.rint(difference / F32(0.011)) + 40, 0, 255)
    np.testing.assert_array_equal(results(text, a, b), expected)


MEANS = {
    "reduce": (
        """stablehlo.reduce(%xf init: %zero) applies stablehlo.add across dimensions = [1]
      : (tensor<5x36xf32>, tensor<f32>) -> tensor<5xf32>""",
        "5",
        36,
    ),
    "reduce_window": (
        """"stablehlo.reduce_window"(%xf, %zero) <{window_dimensions = array<i64: 1, 9>,
      window_strides = array<i64: 1, 9>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %t = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %t : tensor<f32>
    }) : (tensor<5x36xf32>, tensor<f32>) -> tensor<5x4xf32>""",
        "5x4",
        9,
    ),
}


@pytest.mark.parametrize("kind", MEANS)
def test_mean(kind: str):
    op, shape, count = MEANS[kind]
    text = f"""
!x = !quant.uniform<u8:f32, {"2.0e-02" if kind == "reduce" else "0.03125"}:120>
!y = !quant.uniform<u8:f32, 3.1e-03:127>
func.func @main(%x: tensor<5x36x!x>) -> tensor<1x{shape}x!y> {{
  %xf = quant.dcast %x : tensor<5x36x!x> to tensor<5x36xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = {op}
  %n = stablehlo.constant dense<{count}.0> : tensor<{shape}xf32>
  %m = stablehlo.divide %s, %n : tensor<{shape}xf32>
  %r = stablehlo.reshape %m : (tensor<{shape}xf32>) -> tensor<1x{shape}xf32>
  %y = quant.qcast %r : tensor<1x{shape}xf32> to tensor<1x{shape}x!y>
  func.return %y : tensor<1x{shape}x!y>
}}
"""
    x = stored((5, 36))
    sums = (x.astype(np.int64) - 120).reshape(5, -1, count).sum(-1)
    if kind == "reduce":
        factor = F32(0.02) / (F32(0.0031) * F32(count))
        expected = rounded(sums, factor, 127)
    else:
        # The scale is a power of two, so that the sum of floats is exact.
        means = sums.astype(F32) * F32(0.03125) / F32(count)
        expected = np.clip(np.rint(means / F32(0.0031) + F32(127)), 0, 255)
    assert is_fused(text) == (kind == "reduce")
    found = results(text, x)
    np.testing.assert_array_equal(found, expected.reshape(found.shape))


def test_signed_tensors_are_fused_on_request():
    text = binary("multiply", "!quant.uniform<i8:f32, 2.0e-04:9>").replace(
        "uniform<u8:f32, 2.0e-02:120>", "uniform<i8:f32, 2.0e-02:120>"
    )
    text = text.replace("<u8", "<i8")
    assert not is_fused(text)
    assert is_fused(text, f"{TO_INTEGERS}{{signed=true}}")


def test_value_with_another_use_stays_float():
    text = binary("multiply", "!quant.uniform<u8:f32, 2.0e-04:9>")
    text = text.replace("-> tensor<256x!y> {", "-> (tensor<256x!y>, tensor<256xf32>) {")
    text = text.replace(
        "return %y : tensor<256x!y>", "return %y, %s : tensor<256x!y>, tensor<256xf32>"
    )
    assert not is_fused(text)


def test_quantized_op():
    # The pass for quantized ops computes the same integers.
    text = """
!a = !quant.uniform<i8:f32, 2.0e-02:20>
!w = !quant.uniform<i8:f32, 1.0e-02>
!y = !quant.uniform<i8:f32, 3.1e-02:7>
func.func @main(%a: tensor<16x4x!a>, %w: tensor<4x3x!w>) -> tensor<16x3x!y> {
  %y = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
      : (tensor<16x4x!a>, tensor<4x3x!w>) -> tensor<16x3x!y>
  func.return %y : tensor<16x3x!y>
}
"""
    a, w = stored((16, 4)).view(np.int8), stored((4, 3), 1).view(np.int8)
    sums = (a.astype(np.int64) - 20) @ w.astype(np.int64)
    factor = F32(0.02) * F32(0.01) / F32(0.031)
    expected = np.clip(np.rint(sums.astype(F32) * factor) + 7, -128, 127)
    found = results(text, a, w).view(np.int8)
    np.testing.assert_array_equal(found, expected)
