"""Constants, sizes, and ops that move elements to positions known at import."""

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np
import onnx
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, f32, f64, i64
from xdsl.ir import SSAValue

from xdsl_quant.frontends.onnx.files.tensors import array_of, element_type_of_data
from xdsl_quant.frontends.onnx.graph_builder import (
    Conversion,
    GraphBuilder,
    Number,
    Size,
)
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect import ComparisonDirection
from xdsl_quant.runtime.arrays import shape_text
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .indexing import crop, take, wrapped_indices

# Constants and sizes

_CONSTANT_DTYPES: Mapping[str, type[np.number]] = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}
"""Dtype of a constant, by the attribute that has its elements."""


def _constant(b: GraphBuilder, node: Node) -> SSAValue:
    if (tensor := node.tensor("value")) is not None:
        element_type = element_type_of_data(tensor.data_type)
        return b.tensor(array_of(tensor, b.folder), element_type)
    for name, attribute in node.attributes.items():
        if (dtype := _CONSTANT_DTYPES.get(name)) is not None:
            elements = onnx.helper.get_attribute_value(attribute)
            return b.tensor(np.array(elements, dtype))
    names = ", ".join(f"'{name}'" for name in node.attributes)
    expected = ", ".join(f"'{name}'" for name in ("value", *_CONSTANT_DTYPES))
    raise Unsupported(
        f"unsupported constant: found {names or 'no attribute'}; expected {expected}"
    )


def _constant_of_shape(b: GraphBuilder, node: Node, shape: SSAValue) -> SSAValue:
    sizes = _result_sizes(b, shape)
    if (tensor := node.tensor("value")) is None:
        return b.broadcast(b.scalar(0, f32), sizes)
    elements = array_of(tensor, b.folder)
    if elements.size != 1:
        raise Unsupported(f"value has {elements.size} elements; expected 1")
    scalar = b.tensor(elements.reshape(()), element_type_of_data(tensor.data_type))
    return b.broadcast(scalar, sizes)


def _result_sizes(b: GraphBuilder, shape: SSAValue) -> Sequence[int]:
    """Return the sizes in a constant shape."""
    sizes = b.integers(shape, "sizes")
    if min(sizes, default=0) < 0:
        raise Unsupported(f"shape {shape_text(sizes)} has a negative size")
    return sizes


def _shape(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    end = node.integer("end", 0) if "end" in node.attributes else None
    sizes = b.static_shape(x)[node.integer("start", 0) : end]
    return b.tensor(np.array(sizes, np.int64))


def _size(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    return b.tensor(np.array(math.prod(b.static_shape(x)), np.int64))


# Shapes


def _reshape(b: GraphBuilder, node: Node, x: SSAValue, shape: SSAValue) -> SSAValue:
    old, requested = shape_of(x), b.integers(shape, "sizes")
    if DYNAMIC_INDEX in old:
        return _reshape_unknown(b, node, x, requested)
    sizes = [*requested]
    if not node.flag("allowzero"):
        copied = zip(sizes, (*old, *[0] * len(sizes)), strict=False)
        sizes = [size or old_size for size, old_size in copied]
    if sizes.count(-1) == 1:
        position = sizes.index(-1)
        rest = math.prod(sizes[:position]) * math.prod(sizes[position + 1 :])
        sizes[position] = math.prod(old) // rest if rest else -1
    if min(sizes, default=0) < 0 or math.prod(sizes) != math.prod(old):
        raise Unsupported(
            f"cannot reshape [{shape_text(old)}] to {requested}; expected equal element "
            "counts"
        )
    return b.reshape_to(x, sizes)


def _reshape_unknown(
    b: GraphBuilder, node: Node, x: SSAValue, requested: Sequence[int]
) -> SSAValue:
    """Reshape a tensor of unknown sizes; one size may be -1, which stands for the rest."""
    old, sizes = shape_of(x), list[Size](requested)
    if not node.flag("allowzero"):
        for axis, size in enumerate(requested[: len(old)]):
            sizes[axis] = size or b.size_of(x, axis)
    copied = [axis for axis, size in enumerate(sizes) if isinstance(size, SSAValue)]
    known = math.prod(size for size in sizes if isinstance(size, int) and size != -1)
    rest = [b.size_of(x, axis) for axis in range(len(old)) if axis not in copied]
    if sizes.count(-1) == 1:
        inferred = _quotient_of_sizes(b, rest, known)
        sizes[sizes.index(-1)] = -1 if inferred is None else inferred
    elif b.product_of_sizes(rest) != known or not known:
        sizes.append(-1)
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise Unsupported(
            f"cannot reshape [{shape_text(old)}] to {[*requested]}; {b.sizes_hint}"
        )
    return b.reshape_to_sizes(x, sizes)


def _quotient_of_sizes(
    b: GraphBuilder, sizes: Sequence[Size], divisor: int
) -> Size | None:
    """Return the product of sizes, divided by a number; `None` if that is impossible."""
    total = math.prod(size for size in sizes if isinstance(size, int))
    unknown = [size for size in sizes if isinstance(size, SSAValue)]
    if not divisor:
        return None
    common = math.gcd(total, divisor)
    product = b.product_of_sizes([total // common, *unknown])
    if divisor == common:
        return product
    if isinstance(product, int):
        return None
    number = b.tensor(np.array([divisor // common], np.int32))
    return b.add(stablehlo.DivideOp(product, number))


def _flatten(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    sizes = b.sizes_of(x)
    # The axis may be the rank.
    (axis,) = b.axes([node.integer("axis", 1)], len(sizes) + 1)
    axis -= node.integer("axis", 1) < 0
    parts = sizes[:axis], sizes[axis:]
    return b.reshape_to_sizes(x, [*map(b.product_of_sizes, parts)])


def _given_axes(
    b: GraphBuilder, node: Node, axes: SSAValue | None
) -> Sequence[int] | None:
    """Return the axes in an operand, or in an attribute before opset 13."""
    if axes is not None:
        return b.integers(axes, "axes")
    return node.integers("axes") if "axes" in node.attributes else None


def _squeeze(
    b: GraphBuilder, node: Node, x: SSAValue, axes: SSAValue | None = None
) -> SSAValue:
    if (given := _given_axes(b, node, axes)) is None:
        return b.reshape_to(x, [size for size in b.static_shape(x) if size != 1])
    shape = shape_of(x)
    dropped = b.axes(given, len(shape))
    for axis in dropped:
        if shape[axis] not in (1, DYNAMIC_INDEX):
            raise Unsupported(f"axis {axis} has size {shape[axis]}; expected 1")
    kept = [axis for axis in range(len(shape)) if axis not in dropped]
    return b.reshape_to_sizes(x, [b.size_of(x, axis) for axis in kept])


def _unsqueeze(
    b: GraphBuilder, node: Node, x: SSAValue, axes: SSAValue | None = None
) -> SSAValue:
    sizes = [*b.sizes_of(x)]
    given = _given_axes(b, node, axes) or ()
    added = b.axes(given, len(sizes) + len(given))
    if len({*added}) < len(added):
        raise Unsupported(f"axes {[*given]} have duplicates")
    for axis in sorted(added):
        sizes.insert(axis, 1)
    return b.reshape_to_sizes(x, sizes)


def _transpose(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    backwards = [*reversed(range(len(shape_of(x))))]
    return b.permute(x, node.integers("perm", backwards))


def _expand(b: GraphBuilder, node: Node, x: SSAValue, shape: SSAValue) -> SSAValue:
    result = b.broadcast_shape(b.static_shape(x), _result_sizes(b, shape))
    return b.broadcast_like_numpy(x, result)


def _tile(b: GraphBuilder, node: Node, x: SSAValue, repeats: SSAValue) -> SSAValue:
    shape, counts = b.static_shape(x), b.integers(repeats, "repeats")
    if len(counts) != len(shape) or min(counts, default=0) < 0:
        raise Unsupported(
            f"repeats are {counts}; expected {len(shape)} non-negative numbers"
        )
    sizes, dimensions = list[int](), list[int]()
    for count, size in zip(counts, shape, strict=True):
        # As few dimensions as possible: TensorFlow Lite broadcasts at most 8.
        sizes += [count * size] if 1 in (count, size) else [count, size]
        dimensions.append(len(sizes) - 1)
    repeated = b.broadcast(x, sizes, dimensions)
    return b.reshape_to(repeated, [*map(int.__mul__, counts, shape)])


# Parts


def _concat(b: GraphBuilder, node: Node, *parts: SSAValue) -> SSAValue:
    (axis,) = b.axes([node.integer("axis", 0)], len(shape_of(parts[0])))
    return b.concatenate(parts, axis)


def _split(
    b: GraphBuilder, node: Node, x: SSAValue, sizes: SSAValue | None = None
) -> Sequence[SSAValue]:
    count = len(node.result_names)
    (axis,) = b.axes([node.integer("axis", 0)], len(shape_of(x)))
    size = _known_size(b, x, axis)
    if sizes is not None:
        parts = b.integers(sizes, "sizes")
    else:
        parts = node.integers("split") or _equal_sizes(node, size, count)
    if len(parts) != count or sum(parts) != size or min(parts) < 0:
        raise Unsupported(
            f"cannot split size {size} into {[*parts]} for {count} results"
        )
    ranges = pairwise(accumulate(parts, initial=0))
    return [_slice_along(b, x, {axis: range(*ends)}) for ends in ranges]


def _equal_sizes(node: Node, size: int, count: int) -> Sequence[int]:
    if node.version < 18 and size % count:
        raise Unsupported(f"cannot split size {size} into {count} equal parts")
    largest = -(-size // count)
    return [min(largest, max(size - i * largest, 0)) for i in range(count)]


def _slice(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    starts: SSAValue,
    ends: SSAValue,
    axes: SSAValue | None = None,
    steps: SSAValue | None = None,
) -> SSAValue:
    first, last = b.integers(starts, "starts"), b.integers(ends, "ends")
    rank, count = len(shape_of(x)), len(first)
    along = b.axes(range(count) if axes is None else b.integers(axes, "axes"), rank)
    strides = [1] * count if steps is None else b.integers(steps, "steps")
    if not count == len(last) == len(along) == len(strides) or 0 in strides:
        raise Unsupported(
            f"cannot slice with starts {first}, ends {last}, axes {along} and steps "
            f"{strides}"
        )
    bounds = zip(first, last, strides, strict=True)
    return _slice_along(
        b,
        x,
        {
            axis: _positions(_known_size(b, x, axis), *numbers)
            for axis, numbers in zip(along, bounds, strict=True)
            # Exporters write slices that keep all elements of a dimension.
            if numbers[::2] != (0, 1) or numbers[1] < _ALL_ELEMENTS
        },
    )


_ALL_ELEMENTS = (1 << 31) - 1
"""Smallest end of a slice that is larger than any size: some exporters write it."""


def _known_size(b: GraphBuilder, x: SSAValue, axis: int) -> int:
    if (size := shape_of(x)[axis]) == DYNAMIC_INDEX:
        raise Unsupported(f"slices dimension {axis} of unknown size; {b.sizes_hint}")
    return size


def _positions(size: int, start: int, end: int, step: int) -> range:
    """Return the positions in a slice of a dimension."""
    if step < 0:
        # ONNX clamps a start before the first element to it, Python does not.
        start = max(start, -size)
    return range(*slice(start, end, step).indices(size))


def _slice_along(b: GraphBuilder, x: SSAValue, along: Mapping[int, range]) -> SSAValue:
    """Slice dimensions at positions; other dimensions, of any size, stay whole."""
    reverse = [axis for axis, positions in along.items() if positions.step < 0]
    along = {axis: r[::-1] if axis in reverse else r for axis, r in along.items()}
    if DYNAMIC_INDEX in shape_of(x):
        value = x
        for axis, positions in along.items():
            value = crop(b, value, axis, positions)
    else:
        ranges = [along.get(axis, range(size)) for axis, size in enumerate(shape_of(x))]
        value = b.slice(
            x,
            [positions.start if positions else 0 for positions in ranges],
            [positions[-1] + 1 if positions else 0 for positions in ranges],
            [positions.step if len(positions) > 1 else 1 for positions in ranges],
        )
    if not reverse:
        return value
    return b.add(stablehlo.ReverseOp(value, dimensions=reverse))


# Padding


def _pad(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    pads: SSAValue,
    fill: SSAValue | None = None,
    axes: SSAValue | None = None,
) -> SSAValue:
    rank, numbers = len(shape_of(x)), b.integers(pads, "pads")
    along = b.axes(range(rank) if axes is None else b.integers(axes, "axes"), rank)
    count = len(along)
    if len(numbers) != 2 * count:
        raise Unsupported(f"has {len(numbers)} pads; expected {2 * count}")
    low, high = [0] * rank, [0] * rank
    for axis, before, after in zip(along, numbers[:count], numbers[count:]):
        low[axis], high[axis] = before, after
    mode = node.text("mode", "constant")
    if mode == "constant":
        return _pad_by_value(b, x, fill or b.scalar(0, element_type_of(x)), low, high)
    if mode not in ("reflect", "edge", "wrap"):
        raise Unsupported(
            f"unknown mode '{mode}'; expected constant, reflect, edge or wrap"
        )
    b.static_shape(x)
    removed = [min(number, 0) for number in low], [min(number, 0) for number in high]
    value = _pad_by_value(b, x, b.scalar(0, element_type_of(x)), *removed)
    for axis in range(rank):
        value = _pad_from_itself(b, value, mode, axis, low[axis], high[axis])
    return value


def _pad_by_value(
    b: GraphBuilder,
    x: SSAValue,
    fill: SSAValue,
    low: Sequence[int],
    high: Sequence[int],
) -> SSAValue:
    """Pad a value; negative padding removes elements."""
    if not any(low) and not any(high):
        return x
    return b.pad(x, fill, low, high)


def _pad_from_itself(
    b: GraphBuilder,
    x: SSAValue,
    mode: Literal["reflect", "edge", "wrap"],
    axis: int,
    low: int,
    high: int,
) -> SSAValue:
    """Pad a dimension with elements of the value, as `numpy.pad` does."""
    size, low, high = shape_of(x)[axis], max(low, 0), max(high, 0)
    if not low and not high:
        return x
    if not size or (mode == "reflect" and max(low, high) >= size):
        raise Unsupported(
            f"cannot pad axis {axis} of size {size} by {low} and {high} in mode '{mode}'"
        )
    b.check_count(low + size + high)
    positions = np.pad(np.arange(size), (low, high), mode)
    before, after = (
        [take(b, x, b.tensor(part), axis)] if part.size else []
        for part in (positions[:low], positions[low + size :])
    )
    return b.concatenate([*before, x, *after], axis)


def _center_crop_pad(
    b: GraphBuilder, node: Node, x: SSAValue, shape: SSAValue
) -> SSAValue:
    old, sizes = b.static_shape(x), _result_sizes(b, shape)
    axes = b.axes(node.integers("axes", range(len(old))), len(old))
    if len(axes) != len(sizes):
        raise Unsupported(f"has {len(sizes)} sizes for {len(axes)} axes")
    low, high = [0] * len(old), [0] * len(old)
    for axis, size in zip(axes, sizes, strict=True):
        total = size - old[axis]
        # The odd element is at the end, of the padding or of the elements removed.
        low[axis] = int(total / 2)
        high[axis] = total - low[axis]
    return _pad_by_value(b, x, b.scalar(0, element_type_of(x)), low, high)


# Blocks


def _depth_to_space(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    batch, channels, height, width = _image_shape(b, x)
    block = node.integer("blocksize", 1)
    if block < 1 or channels % (block * block):
        raise Unsupported(f"{channels} channels are not divisible by {block} squared")
    depth = channels // (block * block)
    is_depth_first = _is_depth_first(node)
    split = (block, block, depth) if is_depth_first else (depth, block, block)
    blocks = b.reshape_to(x, (batch, *split, height, width))
    order = (0, 3, 4, 1, 5, 2) if is_depth_first else (0, 1, 4, 2, 5, 3)
    spread = b.permute(blocks, order)
    return b.reshape_to(spread, (batch, depth, height * block, width * block))


def _space_to_depth(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    batch, channels, height, width = _image_shape(b, x)
    block = node.integer("blocksize", 1)
    if block < 1 or height % block or width % block:
        raise Unsupported(f"size {height}x{width} is not divisible by {block}")
    rows, columns = height // block, width // block
    blocks = b.reshape_to(x, (batch, channels, rows, block, columns, block))
    order = (0, 3, 5, 1, 2, 4) if _is_depth_first(node) else (0, 1, 3, 5, 2, 4)
    packed = b.permute(blocks, order)
    return b.reshape_to(packed, (batch, channels * block * block, rows, columns))


def _image_shape(b: GraphBuilder, x: SSAValue) -> tuple[int, int, int, int]:
    shape = b.static_shape(x)
    if len(shape) != 4:
        raise Unsupported(f"operand has rank {len(shape)}; expected 4")
    return shape


def _is_depth_first(node: Node) -> bool:
    mode = node.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise Unsupported(f"unknown mode '{mode}'; expected DCR or CRD")
    return mode == "DCR"


# Indices as elements


def _range(
    b: GraphBuilder, node: Node, start: SSAValue, limit: SSAValue, step: SSAValue
) -> SSAValue:
    first = b.single_number(start, "starts")
    last = b.single_number(limit, "limits")
    stride = b.single_number(step, "steps")
    try:
        count = max(math.ceil((last - first) / stride), 0)
    except (OverflowError, ValueError, ZeroDivisionError):
        raise Unsupported(
            f"range from {first} to {last} with step {stride} has no finite element count"
        ) from None
    element_type = element_type_of(start)
    # Narrow floats cannot represent all indices.
    is_narrow = isinstance(element_type, AnyFloat) and element_type != f64
    positions = b.iota((count,), 0, f32 if is_narrow else element_type)
    offsets = b.compute(stablehlo.MultiplyOp, positions, stride)
    return b.convert(b.compute(stablehlo.AddOp, offsets, first), element_type)


def _diagonal(
    b: GraphBuilder,
    direction: ComparisonDirection,
    shape: Sequence[int],
    offset: Number,
) -> SSAValue:
    """Compare the column of each element of matrices with its row plus an offset."""
    rank = len(shape)
    if rank < 2:
        raise Unsupported(f"operand has rank {rank}; expected a matrix")
    rows, columns = (b.iota(shape, axis, i64) for axis in (rank - 2, rank - 1))
    return b.compare(direction, columns, b.compute(stablehlo.AddOp, rows, offset))


def _trilu(
    b: GraphBuilder, node: Node, x: SSAValue, offset: SSAValue | None = None
) -> SSAValue:
    is_upper = node.flag("upper", default=True)
    direction = ComparisonDirection.GE if is_upper else ComparisonDirection.LE
    offset = None if offset is None else b.reshape_to(offset, ())
    return b.select(_diagonal(b, direction, b.static_shape(x), offset or 0), x, 0)


def _eye_like(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    offset, data_type = node.integer("k", 0), node.integer("dtype", 0)
    is_one = _diagonal(b, ComparisonDirection.EQ, b.static_shape(x), offset)
    element_type = element_type_of_data(data_type) if data_type else element_type_of(x)
    return b.convert(is_one, element_type)


def _one_hot(
    b: GraphBuilder, node: Node, indices: SSAValue, depth: SSAValue, values: SSAValue
) -> SSAValue:
    if (count := int(b.single_number(depth, "depths"))) < 0:
        raise Unsupported(f"depth is {count}; expected a non-negative number")
    shape = [*b.static_shape(indices)]
    (axis,) = b.axes([node.integer("axis", -1)], len(shape) + 1)
    indices = b.convert(indices, i64)
    indices = wrapped_indices(b, indices, [count], is_checked=False)
    kept = [d for d in range(len(shape) + 1) if d != axis]
    shape.insert(axis, count)
    is_on = b.compare(
        ComparisonDirection.EQ,
        b.broadcast(indices, shape, kept),
        b.iota(shape, axis, i64),
    )
    off, on = (
        b.reshape_to(b.slice(values, [position], [position + 1]), ())
        for position in range(2)
    )
    return b.select(is_on, on, off)


DATA_MOVEMENT: Mapping[str, Conversion] = {
    "CenterCropPad": _center_crop_pad,
    "Concat": _concat,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "Reshape": _reshape,
    "Shape": _shape,
    "Size": _size,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
}
"""Conversions of constants, sizes and data movement ops, by op."""
