"""Pooling: reductions over windows and over whole images."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.attributes import padding_attr
from xdsl_quant.frontends.stablehlo.dialect.elementwise import BinaryOp
from xdsl_quant.frontends.stablehlo.dialect.rules import Padding, WindowDimension
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import numpy_dtype
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .window_attributes import windows_of


def _pooling_windows(b: GraphBuilder, node: Node, x: SSAValue) -> list[WindowDimension]:
    """Return the window of a pooling node along each spatial dimension."""
    image = shape_of(x)[2:]
    kernel = node.integers("kernel_shape")
    if len(kernel) != len(image):
        raise Unsupported(
            f"has windows of rank {len(kernel)} in images of rank {len(image)}"
        )
    return windows_of(node, kernel, image, b.sizes_hint)


def _with_last_windows(
    b: GraphBuilder,
    node: Node,
    windows: Sequence[WindowDimension],
    sizes: Sequence[int],
) -> Sequence[WindowDimension]:
    """Adjust the padding after the image for `ceil_mode`, which adds a partial window."""
    if not node.flag("ceil_mode"):
        return windows
    if DYNAMIC_INDEX in sizes:
        raise Unsupported(f"'ceil_mode' depends on an unknown size; {b.sizes_hint}")
    return [
        _with_last_window(window, size)
        for window, size in zip(windows, sizes, strict=True)
    ]


def _with_last_window(window: WindowDimension, size: int) -> WindowDimension:
    padding, stride = window.padding, window.stride
    room = padding.padded_size(size) - window.extent
    start = -(-room // stride) * stride
    # A window that starts in the padding after the image is dropped.
    if start >= size + padding.low:
        start -= stride
    high = start + window.extent - size - padding.low
    return window._replace(padding=padding._replace(high=high))


def _over_windows(
    b: GraphBuilder,
    op_type: type[BinaryOp],
    x: SSAValue,
    start: float,
    windows: Sequence[WindowDimension],
) -> SSAValue:
    """Reduce each window of images whose first two dimensions are batch and features."""
    op = stablehlo.ReduceWindowOp(
        [x],
        [b.scalar(start, element_type_of(x))],
        op_type,
        window_dimensions=[1, 1, *(along.size for along in windows)],
        window_strides=[1, 1, *(along.stride for along in windows)],
        window_dilations=[1, 1, *(along.dilation for along in windows)],
        padding=padding_attr(
            [(0, 0), (0, 0), *(along.padding[:2] for along in windows)]
        ),
    )
    return b.add(op)


def _max_windows(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    if any(node.result_names[1:]):
        raise Unsupported("has the unsupported result 'Indices'")
    windows = _pooling_windows(b, node, x)
    windows = _with_last_windows(b, node, windows, shape_of(x)[2:])
    return _over_windows(b, stablehlo.MaximumOp, x, -np.inf, windows)


# Averages


def _average_windows(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    """Divide the sum of each window by the number of its elements in the image."""
    declared, sizes = _pooling_windows(b, node, x), shape_of(x)[2:]
    windows = _with_last_windows(b, node, declared, sizes)
    total = _over_windows(b, stablehlo.AddOp, b.single(x), 0, windows)
    counts: list[Array] = []
    for window, size, (_, _, _, padding) in zip(windows, sizes, declared, strict=True):
        low, high, _ = padding if node.flag("count_include_pad") else Padding()
        counts.append(_element_counts(b, window, size, low, high))
    # Dimensions whose windows all have one count share a factor.
    dimensions = [i + 2 for i, count in enumerate(counts) if count.ndim]
    count = reduce(np.multiply.outer, counts)
    mean = _divided_by_counts(b, total, count, dimensions)
    return b.convert(mean, element_type_of(x))


def _element_counts(
    b: GraphBuilder, window: WindowDimension, size: int, low: int, high: int
) -> Array:
    """
    Return the number of elements in each position of a window; an array of rank 0 if all
    positions have the same.

    Args:
        b: builder with the advice about unknown sizes.
        window: window along one dimension.
        size: size of the dimension.
        low: size of the padding before the dimension that counts as elements.
        high: size of the padding after it that counts.
    """
    if window.padding.low <= low and window.padding.high <= high:
        return np.array(window.size)
    if size == DYNAMIC_INDEX:
        raise Unsupported(f"the padding depends on an unknown size; {b.sizes_hint}")
    starts = np.arange(window.positions(size)) * window.stride - window.padding.low
    elements = np.add.outer(starts, np.arange(window.size) * window.dilation)
    return np.sum((elements >= -low) & (elements < size + high), 1)


def _divided_by_counts(
    b: GraphBuilder, total: SSAValue, counts: Array, dimensions: Sequence[int]
) -> SSAValue:
    element_type = element_type_of(total)
    divisor = b.tensor(counts.astype(numpy_dtype(element_type)), element_type)
    divisor = b.broadcast(divisor, shape_of(total), dimensions)
    return b.add(stablehlo.DivideOp(total, divisor))


def _global_average_pool(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    sizes = shape_of(x)[2:]
    if DYNAMIC_INDEX in sizes:
        raise Unsupported(f"divides by an unknown size; {b.sizes_hint}")
    total = _over_spatial(b, stablehlo.AddOp, b.single(x), 0)
    mean = b.compute(stablehlo.DivideOp, total, prod(sizes))
    return b.convert(mean, element_type_of(x))


def _over_spatial(
    b: GraphBuilder, op_type: type[BinaryOp], x: SSAValue, start: float
) -> SSAValue:
    """Reduce spatial dimensions to size 1."""
    return b.reduce_keeping(op_type, x, start, range(2, len(shape_of(x))))


def _global_max_pool(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    return _over_spatial(b, stablehlo.MaximumOp, x, -np.inf)


# Norms


def _lp_pool(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    windows = _pooling_windows(b, node, x)
    windows = _with_last_windows(b, node, windows, shape_of(x)[2:])
    return _power_norm(
        b, node, x, lambda powers: _over_windows(b, stablehlo.AddOp, powers, 0, windows)
    )


def _global_lp_pool(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    return _power_norm(
        b, node, x, lambda powers: _over_spatial(b, stablehlo.AddOp, powers, 0)
    )


def _power_norm(
    b: GraphBuilder, node: Node, x: SSAValue, total: Callable[[SSAValue], SSAValue]
) -> SSAValue:
    """Build the root of the sum of powers; the exponent is the attribute `p`."""
    absolute, p = b.add(stablehlo.AbsOp(b.single(x))), node.integer("p", 2)
    if p < 1:
        raise Unsupported(f"attribute 'p' is {p}; expected at least 1")
    if p == 1:
        norm = total(absolute)
    elif p == 2:
        squares = b.add(stablehlo.MultiplyOp(absolute, absolute))
        norm = b.add(stablehlo.SqrtOp(total(squares)))
    else:
        powers = b.compute(stablehlo.PowerOp, absolute, p)
        norm = b.compute(stablehlo.PowerOp, total(powers), 1 / p)
    return b.convert(norm, element_type_of(x))


WINDOWS: Mapping[str, Conversion] = {
    "AveragePool": _average_windows,
    "GlobalAveragePool": _global_average_pool,
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": _global_max_pool,
    "LpPool": _lp_pool,
    "MaxPool": _max_windows,
}
"""Conversions of pooling ops, by op."""
