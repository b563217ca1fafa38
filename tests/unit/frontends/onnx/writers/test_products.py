"""Convolutions and matrix products in ONNX files."""

import numpy as np
import pytest

from .written_models import (
    check,
    floats,
    function,
    integers,
    op_types,
    refusal,
    written,
)


def _convolution(
    shapes: tuple[str, str, str],
    *,
    numbers: str = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
    window: str = "",
    groups: int = 1,
    element_types: tuple[str, str] = ("f32", "f32"),
) -> str:
    x, k, y = shapes
    element, result = element_types
    return function(
        f"%x: tensor<{x}x{element}>, %k: tensor<{k}x{element}>",
        f"tensor<{y}x{result}>",
        f"%0 = stablehlo.convolution(%x, %k) dim_numbers = {numbers}, window = "
        f"{{{window}}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : "
        f"i64}} : (tensor<{x}x{element}>, tensor<{k}x{element}>) -> tensor<{y}x{result}>",
        "%0",
    )


def test_convolutions_in_the_order_of_onnx():
    text = _convolution(
        ("1x4x8x8", "6x2x3x3", "1x6x4x4"),
        window="stride = [2, 2], pad = [[1, 2], [0, 1]]",
        groups=2,
    ).replace("1x6x4x4", "1x6x5x4")
    check(text, floats(1, 4, 8, 8), floats(6, 2, 3, 3), atol=1e-5, nodes=["Conv"])


def test_convolutions_of_images_with_features_last():
    text = _convolution(
        ("1x8x8x3", "3x3x3x4", "1x6x6x4"),
        numbers="[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
    )
    check(
        text,
        floats(1, 8, 8, 3),
        floats(3, 3, 3, 4),
        atol=1e-5,
        nodes=["Transpose", "Transpose", "Conv", "Transpose"],
    )


def test_negative_padding_and_reversed_kernels():
    text = _convolution(
        ("1x2x8x8", "3x2x3x3", "1x3x5x6"),
        window="pad = [[-1, 0], [0, 0]], reverse = [true, true]",
    )
    nodes = ["Slice", "Pad", "Conv"]
    check(text, floats(1, 2, 8, 8), floats(3, 2, 3, 3), atol=1e-5, nodes=nodes)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("reverse", ["", ", reverse = [true, true]"])
def test_transposed_convolutions(groups: int, reverse: str):
    text = _convolution(
        ("1x4x5x5", f"6x{4 // groups}x3x3", "1x6x11x11"),
        window=f"pad = [[2, 2], [2, 2]], lhs_dilate = [2, 2]{reverse}",
        groups=groups,
    )
    x, k = floats(1, 4, 5, 5), floats(6, 4 // groups, 3, 3)
    proto = check(text, x, k, atol=1e-5)
    assert "ConvTranspose" in op_types(proto)


def test_integer_convolutions():
    text = _convolution(("1x3x6x6", "4x3x3x3", "1x4x4x4"), element_types=("i8", "i32"))
    x, k = (integers(*s).astype(np.int8) for s in ((1, 3, 6, 6), (4, 3, 3, 3)))
    check(text, x, k, nodes=["ConvInteger"])


def test_unsupported_convolutions():
    text = _convolution(("1x3x6x6", "4x3x3x3", "1x4x4x4"), element_types=("i32", "i32"))
    assert refusal(text).endswith("integers of more than 8 bits")
    text = _convolution(
        ("1x2x8x8", "3x2x3x3", "1x3x6x6"), window="reverse = [true, false]"
    )
    assert refusal(text).endswith("kernel that is reversed along some dimensions")


_BIASED = """
func.func @main(%x: tensor<2x5xf32>) -> tensor<2x3xf32> {
  %w = stablehlo.constant dense<0.25> : tensor<3x5xf32>
  %c = stablehlo.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [1]
    : (tensor<2x5xf32>, tensor<3x5xf32>) -> tensor<2x3xf32>
  %b = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.add %0, %b : tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}
"""


def test_a_product_with_a_bias_is_a_gemm_without_transposition():
    check(_BIASED, floats(2, 5), atol=1e-5, nodes=["Gemm"])


@pytest.mark.parametrize(
    ("shapes", "dimensions", "nodes"),
    [
        (("2x3x4", "2x4x5", "2x3x5"), "batching_dims = [0] x [0], 2 1", 1),
        (("2x3x4", "4x5", "2x3x5"), "2 0", 1),
        (("3x4", "4", "3"), "1 0", 4),
        (("3x4x2", "2x4x5", "3x5"), "1,2 1,0", 5),
        (("4", "4", ""), "0 0", 4),
    ],
)
def test_matrix_products(shapes: tuple[str, str, str], dimensions: str, nodes: int):
    lhs, rhs, out = (
        f"tensor<{shape}x{'f32'}>" if shape else "tensor<f32>" for shape in shapes
    )
    *batching, contracted = dimensions.split(", ")
    left, right = contracted.split()
    text = function(
        f"%x: {lhs}, %y: {rhs}",
        out,
        f"%0 = stablehlo.dot_general %x, %y, {''.join(f'{b}, ' for b in batching)}"
        f"contracting_dims = [{left}] x [{right}] : ({lhs}, {rhs}) -> {out}",
        "%0",
    )
    x, y = (floats(*map(int, shape.split("x"))) for shape in shapes[:2])
    proto = check(text, x, y, atol=1e-5)
    assert len(proto.graph.node) == nodes


def test_products_of_bytes_are_exact():
    text = function(
        "%x: tensor<2x300xi8>, %y: tensor<300x3xi8>",
        "tensor<2x3xi32>",
        "%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : "
        "(tensor<2x300xi8>, tensor<300x3xi8>) -> tensor<2x3xi32>",
        "%0",
    )
    x, y = (
        integers(*shape, low=-128, high=128).astype(np.int8)
        for shape in ((2, 300), (300, 3))
    )
    check(text, x, y, nodes=["MatMulInteger"])


def test_a_bias_of_other_use_is_not_merged():
    text = _BIASED.replace(
        "return %1", "%2 = stablehlo.multiply %1, %0 : tensor<2x3xf32>\n return %2"
    )
    assert op_types(written(text)) == ["MatMul", "Add", "Mul"]
