"""Pooling: reductions over windows and over whole images."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from math import prod

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, i64
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


def _max_windows(
    b: GraphBuilder, node: Node, x: SSAValue
) -> SSAValue | tuple[SSAValue, SSAValue]:
    windows = _pooling_windows(b, node, x)
    windows = _with_last_windows(b, node, windows, shape_of(x)[2:])
    if any(node.result_names[1:]):
        return _max_windows_with_positions(b, node, x, windows)
    return _over_windows(b, stablehlo.MaximumOp, x, -np.inf, windows)


# Maxima with positions


def _max_windows_with_positions(
    b: GraphBuilder, node: Node, x: SSAValue, windows: Sequence[WindowDimension]
) -> tuple[SSAValue, SSAValue]:
    """
    Build the first maximum of each window, and its position in the flattened tensor.

    Each element of the window is a strided slice of the padded images, compared with the
    largest one so far. Elements in the padding have the position -1.
    """
    batch, features, *sizes = b.static_shape(x)
    if (count := prod(along.size for along in windows)) > _MAX_POSITIONS:
        raise Unsupported(
            f"result 'Indices' of windows of {count} elements; expected at most "
            f"{_MAX_POSITIONS}"
        )
    # Partial windows that are dropped may end before the image.
    pads = [(along.padding.low, max(along.padding.high, 0)) for along in windows]
    if any(low < 0 for low, _ in pads):
        raise Unsupported("result 'Indices' of windows with negative padding")
    least = b.scalar(-np.inf, element_type_of(x))
    padded = b.pad(x, least, *zip((0, 0), (0, 0), *pads, strict=True))
    order = "F" if node.flag("storage_order") else "C"
    places = np.arange(prod(sizes)).reshape(sizes, order=order)
    places = np.pad(places, pads, constant_values=-1)
    elements: list[tuple[SSAValue, SSAValue]] = []
    for offsets in np.ndindex(*(along.size for along in windows)):
        bounds = _slice_bounds(windows, offsets, sizes)
        starts, limits, strides = zip(*bounds, strict=True)
        value = b.slice(
            padded, [0, 0, *starts], [batch, features, *limits], [1, 1, *strides]
        )
        place = b.tensor(places[tuple(slice(*bound) for bound in bounds)])
        place = b.broadcast(place, shape_of(value), range(2, len(sizes) + 2))
        elements.append((value, place))
    value, place = reduce(partial(_better, b), elements)
    return value, _with_image_offsets(b, place, prod(sizes), features)


_MAX_POSITIONS = 256
"""Maximum element count of windows whose positions are computed."""


def _slice_bounds(
    windows: Sequence[WindowDimension], offsets: Sequence[int], sizes: Sequence[int]
) -> Sequence[tuple[int, int, int]]:
    """Return start, limit and stride of an element of all windows, by dimension."""
    bounds: list[tuple[int, int, int]] = []
    for along, offset, size in zip(windows, offsets, sizes, strict=True):
        start = offset * along.dilation
        last = start + (along.positions(size) - 1) * along.stride
        bounds.append((start, max(last + 1, start), along.stride))
    return bounds


def _better(
    b: GraphBuilder, best: tuple[SSAValue, SSAValue], other: tuple[SSAValue, SSAValue]
) -> tuple[SSAValue, SSAValue]:
    """Select larger elements, and elements of the image rather than padding."""
    is_larger = b.compare(stablehlo.ComparisonDirection.GT, other[0], best[0])
    is_first = b.compare(stablehlo.ComparisonDirection.LT, best[1], 0)
    is_inside = b.compare(stablehlo.ComparisonDirection.GE, other[1], 0)
    is_better = b.add(
        stablehlo.AndOp(b.add(stablehlo.OrOp(is_larger, is_first)), is_inside)
    )
    value, place = (
        b.select(is_better, new, old) for new, old in zip(other, best, strict=True)
    )
    return value, place


def _with_image_offsets(
    b: GraphBuilder, places: SSAValue, size: int, features: int
) -> SSAValue:
    """Add the position of the image to positions in it."""
    shape = shape_of(places)
    images, channels = (b.iota(shape, axis, i64) for axis in (0, 1))
    number = b.compute(stablehlo.MultiplyOp, images, features)
    number = b.compute(stablehlo.AddOp, number, channels)
    start = b.compute(stablehlo.MultiplyOp, number, size)
    return b.compute(stablehlo.AddOp, start, places)


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
    divisor = b.broadcast_like(divisor, total, dimensions)
    return b.add(stablehlo.DivideOp(total, divisor))


def _global_average_pool(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    count = b.known_count(x, range(2, len(shape_of(x))))
    total = _over_spatial(b, stablehlo.AddOp, b.single(x), 0)
    mean = b.compute(stablehlo.DivideOp, total, count)
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


# Sums of blocks


def _columns_to_image(
    b: GraphBuilder, node: Node, x: SSAValue, image: SSAValue, block: SSAValue
) -> SSAValue:
    """Add the blocks of an image, of which each column has one; see `Fold` of PyTorch."""
    sizes, kernel = b.integers(image, "image sizes"), b.integers(block, "block sizes")
    rank, shape = len(sizes), b.static_shape(x)
    if not rank or len(shape) != 3:
        raise Unsupported(
            f"has columns of rank {len(shape)} and {rank} image sizes; expected rank 3 and "
            "at least one size"
        )
    samples, rows, _ = shape
    strides = node.integers("strides") or [1] * rank
    dilations = node.integers("dilations") or [1] * rank
    pads = node.integers("pads") or [0] * 2 * rank
    if {*map(len, (kernel, strides, dilations)), len(pads) / 2} != {rank}:
        raise Unsupported("has block sizes or attributes of different lengths")
    if min(*sizes, *kernel, *strides, *dilations) < 1 or rows % prod(kernel):
        raise Unsupported(f"cannot divide {rows} rows into blocks of {[*kernel]}")
    counts = [
        (size + sum(pads[d::rank]) - (n - 1) * dilations[d] - 1) // strides[d] + 1
        for d, (size, n) in enumerate(zip(sizes, kernel, strict=True))
    ]
    shape = samples, rows // prod(kernel), *counts
    blocks = b.reshape_to(x, (*shape[:2], *kernel, *counts))
    parts: list[SSAValue] = []
    for position in np.ndindex(*kernel):
        limits = (*shape[:2], *(p + 1 for p in position), *counts)
        part = b.slice(blocks, [0, 0, *position, *[0] * rank], limits)
        low = [position[d] * dilations[d] - pads[d] for d in range(rank)]
        parts.append(_spread_block(b, b.reshape_to(part, shape), sizes, low, strides))
    return reduce(lambda x, y: b.add(stablehlo.AddOp(x, y)), parts)


def _spread_block(
    b: GraphBuilder,
    part: SSAValue,
    sizes: Sequence[int],
    low: Sequence[int],
    strides: Sequence[int],
) -> SSAValue:
    """Return an image with these elements at `low` and every stride, and zeros between."""
    _, _, *counts = shape_of(part)
    last = [
        start + (count - 1) * stride
        for start, count, stride in zip(low, counts, strides, strict=True)
    ]
    padded = stablehlo.PadOp(
        part,
        b.scalar(0, element_type_of(part)),
        edge_padding_low=[0, 0, *low],
        edge_padding_high=[
            0,
            0,
            *(n - p - 1 for n, p in zip(sizes, last, strict=True)),
        ],
        interior_padding=[0, 0, *(stride - 1 for stride in strides)],
    )
    return b.add(padded)


WINDOWS: Mapping[str, Conversion] = {
    "AveragePool": _average_windows,
    "Col2Im": _columns_to_image,
    "GlobalAveragePool": _global_average_pool,
    "GlobalLpPool": _global_lp_pool,
    "GlobalMaxPool": _global_max_pool,
    "LpPool": _lp_pool,
    "MaxPool": _max_windows,
}
"""Conversions of pooling ops, by op."""
