"""Contractions: matrix products, convolutions and `Einsum`."""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.attributes import (
    booleans_attr,
    padding_attr,
)
from xdsl_quant.frontends.stablehlo.dialect.rules import Padding, WindowDimension
from xdsl_quant.runtime.arrays import shape_text
from xdsl_quant.transforms.building.builder import shape_of
from xdsl_quant.unsupported import Unsupported

from .einsum import einsum
from .window_attributes import (
    declared_padding,
    per_dimension,
    split_padding,
    windows_of,
)

# Matrix products


def _dot(
    b: GraphBuilder,
    x: SSAValue,
    y: SSAValue,
    contracting: tuple[int, int],
    batch: int = 0,
) -> SSAValue:
    """Multiply matrices; the first `batch` dimensions are batch dimensions."""
    x_shape, y_shape = shape_of(x), shape_of(y)
    sizes = x_shape[contracting[0]], y_shape[contracting[1]]
    if sizes[0] != sizes[1] and DYNAMIC_INDEX not in sizes:
        raise Unsupported(
            f"multiplies shapes {shape_text(x_shape)} and {shape_text(y_shape)}; expected "
            f"equal sizes along the sum, found {sizes[0]} and {sizes[1]}"
        )
    numbers = stablehlo.DotDimensionNumbersAttr(
        [*range(batch)], [*range(batch)], *([axis] for axis in contracting)
    )
    result = b.add(stablehlo.DotGeneralOp(x, y, dot_dimension_numbers=numbers))
    if DYNAMIC_INDEX in shape_of(result):
        sides = [(x, contracting[0], 0), (y, contracting[1], batch)]
        sizes = [
            b.size_of(value, axis)
            for value, summed, first in sides
            for axis in range(first, len(shape_of(value)))
            if axis != summed
        ]
        b.with_sizes(result, sizes)
    return result


def _mat_mul(b: GraphBuilder, node: Node, x: SSAValue, y: SSAValue) -> SSAValue:
    x_shape, y_shape = shape_of(x), shape_of(y)
    if not x_shape or not y_shape:
        raise Unsupported(
            "has an operand of rank 0; expected vectors, matrices or stacks of matrices"
        )
    if len(y_shape) <= 2:
        # All leading dimensions of `x` are rows.
        return _dot(b, x, y, (len(x_shape) - 1, max(len(y_shape) - 2, 0)))
    if len(x_shape) == 1:
        x = b.reshape_to(x, (1, *x_shape))
        product = _batch_product(b, x, y)
        shape = shape_of(product)
        return b.reshape_to(product, (*shape[:-2], shape[-1]))
    return _batch_product(b, x, y)


def _batch_product(b: GraphBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Multiply matrices of tensors of rank 2 or more; broadcast their batch dimensions."""
    x_shape, y_shape = shape_of(x), shape_of(y)
    batch = x_shape[:-2]
    if batch != y_shape[:-2]:
        batch = b.broadcast_shape(x_shape[:-2], y_shape[:-2])
        x = b.broadcast_like_numpy(x, (*batch, *x_shape[-2:]))
        y = b.broadcast_like_numpy(y, (*batch, *y_shape[-2:]))
    rank = len(batch)
    return _dot(b, x, y, (rank + 1, rank), rank)


def _gemm(
    b: GraphBuilder, node: Node, x: SSAValue, y: SSAValue, bias: SSAValue | None = None
) -> SSAValue:
    ranks = len(shape_of(x)), len(shape_of(y))
    if ranks != (2, 2):
        raise Unsupported(
            f"has operands of ranks {ranks[0]} and {ranks[1]}; expected 2"
        )
    contracting = 1 - node.flag("transA"), int(node.flag("transB"))
    product = _with_factor(b, _dot(b, x, y, contracting), node.number("alpha", 1))
    factor = node.number("beta", 1)
    # onnxruntime does not multiply NaN by a factor 0.
    if bias is None or not factor:
        return product
    bias = _with_factor(b, bias, factor)
    bias = b.broadcast_like(bias, product)
    return b.add(stablehlo.AddOp(product, bias))


def _with_factor(b: GraphBuilder, value: SSAValue, factor: float) -> SSAValue:
    return value if factor == 1 else b.compute(stablehlo.MultiplyOp, value, factor)


# Convolutions


def _convolution(
    b: GraphBuilder,
    x: SSAValue,
    weights: SSAValue,
    bias: SSAValue | None,
    windows: Sequence[WindowDimension],
    group_count: int,
    *,
    is_transposed: bool = False,
) -> SSAValue:
    """
    Build a convolution of images whose feature dimension is the second one.

    Args:
        b: insertion point.
        x: images.
        weights: weights with output, then input features; reversed if `is_transposed`.
        bias: element of each output feature.
        windows: window along each spatial dimension; `padding.interior` dilates the images.
        group_count: number of groups of features.
        is_transposed: flip the windows, and read input features before output features.
    """
    rank = len(windows)
    spatial = [*range(2, rank + 2)]
    kernel = (0, 1, spatial) if is_transposed else (1, 0, spatial)
    result = b.add(
        stablehlo.ConvolutionOp(
            x,
            weights,
            dimension_numbers=stablehlo.ConvDimensionNumbersAttr(
                0, 1, spatial, *kernel, 0, 1, spatial
            ),
            window_strides=[along.stride for along in windows],
            padding=padding_attr([along.padding[:2] for along in windows]),
            lhs_dilation=[along.padding.interior + 1 for along in windows]
            if is_transposed
            else None,
            rhs_dilation=[along.dilation for along in windows],
            window_reversal=booleans_attr([1] * rank) if is_transposed else None,
            batch_group_count=1,
            feature_group_count=group_count,
        )
    )
    if shape_of(result).count(DYNAMIC_INDEX) == 1 and shape_of(x)[0] == DYNAMIC_INDEX:
        b.with_sizes(result, [b.size_of(x, 0), *shape_of(result)[1:]])
    if bias is None:
        return result
    bias = b.broadcast_like(bias, result, [1])
    return b.add(stablehlo.AddOp(result, bias))


def _check_ranks(x: SSAValue, weights: SSAValue) -> None:
    ranks = len(shape_of(x)), len(shape_of(weights))
    if ranks[0] != ranks[1] or ranks[0] < 3:
        raise Unsupported(
            f"has an input of rank {ranks[0]} and weights of rank {ranks[1]}; expected "
            "equal ranks of at least 3"
        )


def _conv(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    weights: SSAValue,
    bias: SSAValue | None = None,
) -> SSAValue:
    _check_ranks(x, weights)
    windows = windows_of(node, shape_of(weights)[2:], shape_of(x)[2:], b.sizes_hint)
    return _convolution(b, x, weights, bias, windows, node.integer("group", 1))


def _conv_transpose(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    weights: SSAValue,
    bias: SSAValue | None = None,
) -> SSAValue:
    """Convert to a convolution of the dilated images with the flipped windows."""
    _check_ranks(x, weights)
    group_count = node.integer("group", 1)
    weights = _grouped_weights(b, weights, group_count)
    windows = _transposed_windows(node, shape_of(weights)[2:], shape_of(x)[2:])
    return _convolution(b, x, weights, bias, windows, group_count, is_transposed=True)


def _grouped_weights(b: GraphBuilder, weights: SSAValue, group_count: int) -> SSAValue:
    """Move the groups from input features, the first dimension, to output features."""
    if group_count == 1:
        return weights
    inputs, outputs, *window = shape_of(weights)
    if group_count < 1 or inputs % group_count:
        raise Unsupported(f"{inputs} input features have no {group_count} equal groups")
    inputs //= group_count
    value = b.reshape_to(weights, (group_count, inputs, outputs, *window))
    order = [1, 0, *range(2, len(window) + 3)]
    value = b.permute(value, order)
    return b.reshape_to(value, (inputs, group_count * outputs, *window))


def _transposed_windows(
    node: Node, kernel: Sequence[int], image: Sequence[int]
) -> list[WindowDimension]:
    """Return the windows of the convolution that computes a transposed convolution."""
    rank = len(image)
    auto_pad = node.text("auto_pad", "NOTSET")
    strides = per_dimension(node, "strides", 1, rank)
    output_padding = per_dimension(node, "output_padding", 0, rank)
    # onnxruntime accepts sizes of all dimensions.
    sizes: Sequence[int] = node.integers("output_shape")[-rank:]
    if not sizes and auto_pad.startswith("SAME"):
        sizes = [size * stride for size, stride in zip(image, strides, strict=True)]
    pads = declared_padding(node, rank)
    windows: list[WindowDimension] = []
    for i, (extent, dilation) in enumerate(
        zip(kernel, per_dimension(node, "dilations", 1, rank), strict=True)
    ):
        window = WindowDimension(extent, 1, dilation, Padding())
        low, high = (0, 0) if auto_pad == "VALID" else pads[i]
        reach, end = window.extent - 1, output_padding[i]
        if sizes:
            natural = strides[i] * (image[i] - 1) + end + window.extent
            if "output_shape" in node.attributes:
                largest = strides[i] * image[i] + window.extent - 1
                if sizes[i] > largest:
                    raise Unsupported(
                        f"'output_shape' has size {sizes[i]}; expected at most {largest}"
                    )
                end += max(sizes[i] - natural, 0)
            low, high, _ = split_padding(
                max(natural - sizes[i], 0), is_upper=auto_pad == "SAME_UPPER"
            )
        padding = Padding(reach - low, reach - high + end, strides[i] - 1)
        windows.append(window._replace(padding=padding))
    return windows


def _einstein_sum(b: GraphBuilder, node: Node, *operands: SSAValue | None) -> SSAValue:
    values = [value for value in operands if value is not None]
    if len(values) < len(operands):
        raise Unsupported("has an absent operand; expected a tensor for each term")
    return einsum(b, node.text("equation", ""), values)


PRODUCTS: Mapping[str, Conversion] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Einsum": _einstein_sum,
    "Gemm": _gemm,
    "MatMul": _mat_mul,
}
"""Conversions of contractions, by op."""
