"""Sampling of images at positions that are data: `GridSample` and `RoiAlign`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod

import numpy as np
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect import ComparisonDirection
from xdsl_quant.frontends.stablehlo.dialect.attributes import GatherDimensionNumbersAttr
from xdsl_quant.frontends.stablehlo.dialect.elementwise import BinaryOp
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .indexing import gather_slices
from .loops import while_loop


@dataclass(frozen=True)
class Tap:
    """Sampled position along one dimension, for all points."""

    index: SSAValue
    """Position in the dimension, a float."""

    weight: SSAValue | None = None
    """Weight of the element; `None` for 1."""

    is_inside: SSAValue | None = None
    """True for positions in the image; `None` if all are."""


def _add(b: GraphBuilder, x: SSAValue, y: SSAValue | float) -> SSAValue:
    return b.compute(stablehlo.AddOp, x, y)


def _multiply(b: GraphBuilder, x: SSAValue, y: SSAValue | float) -> SSAValue:
    return b.compute(stablehlo.MultiplyOp, x, y)


def _pixels(
    b: GraphBuilder, images: SSAValue, batch: SSAValue, indices: Sequence[SSAValue]
) -> SSAValue:
    """
    Gather the pixels of all channels.

    Args:
        b: the builder.
        images: batch, channels and spatial dimensions.
        batch: index of the image of each point, of shape groups x points.
        indices: position of each point in each spatial dimension.

    Returns:
        Groups x channels x points.
    """
    shape, counts = b.static_shape(images), b.static_shape(batch)
    columns = [b.reshape_to(b.convert(i, i32), (*counts, 1)) for i in (batch, *indices)]
    indexed = [0, *range(2, len(shape))]
    numbers = GatherDimensionNumbersAttr([1], indexed, [], [], indexed, 2)
    sizes = [shape[1] if d == 1 else 1 for d in range(len(shape))]
    return gather_slices(b, images, b.concatenate(columns, 2), numbers, sizes)


def _weighted_pixels(
    b: GraphBuilder, images: SSAValue, batch: SSAValue, taps: Sequence[Tap]
) -> SSAValue:
    """Gather the pixels at one tap for each dimension, times the product of weights."""
    value = _pixels(b, images, batch, [tap.index for tap in taps])
    shape = shape_of(value)
    if flags := [tap.is_inside for tap in taps if tap.is_inside is not None]:
        is_inside = reduce(lambda x, y: b.compute(stablehlo.AndOp, x, y), flags)
        value = b.select(b.broadcast(is_inside, shape, [0, 2]), value, 0)
    if weights := [tap.weight for tap in taps if tap.weight is not None]:
        weight = reduce(lambda x, y: _multiply(b, x, y), weights)
        weight = b.convert(weight, element_type_of(images))
        value = _multiply(b, value, b.broadcast(weight, shape, [0, 2]))
    return value


# Grids


def _reflected(b: GraphBuilder, x: SSAValue, low: float, high: float) -> SSAValue:
    """Reflect positions at both ends of a range until they are inside."""
    period = 2 * (high - low)
    if not period:
        return b.broadcast(b.scalar(low, element_type_of(x)), shape_of(x))
    distance = b.add(stablehlo.AbsOp(_add(b, x, -low)))
    distance = b.compute(stablehlo.RemainderOp, distance, period)
    back = b.compute(stablehlo.SubtractOp, period, distance)
    return _add(b, b.compute(stablehlo.MinimumOp, distance, back), low)


@dataclass(frozen=True)
class GridDimension:
    """Spatial dimension of images that a grid samples."""

    size: int
    is_aligned: bool
    """True if -1 and 1 are the centers of the outer pixels, else their outer edges."""

    padding_mode: str

    @property
    def ends(self) -> tuple[float, float]:
        """Positions at which reflections turn."""
        margin = 0 if self.is_aligned else 0.5
        return -margin, self.size - 1 + margin

    def position(self, b: GraphBuilder, x: SSAValue) -> SSAValue:
        """Return positions for coordinates from -1 to 1."""
        moved = _add(b, x, 1)
        if self.is_aligned:
            return _multiply(b, _multiply(b, moved, 0.5), self.size - 1)
        return _multiply(b, _add(b, _multiply(b, moved, self.size), -1), 0.5)

    def padded(self, b: GraphBuilder, x: SSAValue) -> SSAValue:
        """Move positions into the image as the padding mode says."""
        if self.padding_mode == "reflection":
            return _reflected(b, x, *self.ends)
        return x if self.padding_mode == "zeros" else b.clamp(x, 0, self.size - 1)

    def inner(self, b: GraphBuilder, x: SSAValue) -> SSAValue:
        """Move positions beyond the ends into the image."""
        low, high = self.ends
        clamped = b.clamp(x, low, high)
        is_inside = b.compare(ComparisonDirection.EQ, clamped, x)
        return b.select(is_inside, x, self.padded(b, x))

    def tap(self, b: GraphBuilder, x: SSAValue, weight: SSAValue | None = None) -> Tap:
        """Return the tap at whole positions."""
        padded = self.padded(b, x)
        index = b.clamp(padded, 0, self.size - 1)
        if self.padding_mode != "zeros":
            return Tap(index, weight)
        return Tap(index, weight, b.compare(ComparisonDirection.EQ, index, padded))


def _nearest_taps(b: GraphBuilder, along: GridDimension, x: SSAValue) -> Sequence[Tap]:
    return [along.tap(b, along.inner(b, b.add(stablehlo.RoundNearestEvenOp(x))))]


def _linear_taps(b: GraphBuilder, along: GridDimension, x: SSAValue) -> Sequence[Tap]:
    x = along.inner(b, x)
    low = b.add(stablehlo.FloorOp(x))
    rest = b.compute(stablehlo.SubtractOp, x, low)
    weights = b.compute(stablehlo.SubtractOp, 1, rest), rest
    return [along.tap(b, _add(b, low, i), weight) for i, weight in enumerate(weights)]


def _cubic_polynomial(
    b: GraphBuilder, x: SSAValue, coefficients: Sequence[float]
) -> SSAValue:
    """Build a polynomial with the highest coefficient first."""
    first, *others = coefficients
    value = _multiply(b, x, first)
    for coefficient in others[:-1]:
        value = _multiply(b, _add(b, value, coefficient), x)
    return _add(b, value, others[-1])


def _cubic_taps(b: GraphBuilder, along: GridDimension, x: SSAValue) -> Sequence[Tap]:
    """
    Return four taps with the weights of Keys' cubic convolution for `a = -0.75`.

    onnxruntime reflects the position, but moves each tap to the border.
    """
    if along.padding_mode == "reflection":
        x = along.inner(b, x)
    low = b.add(stablehlo.FloorOp(x))
    rest = b.compute(stablehlo.SubtractOp, x, low)
    taps: list[Tap] = []
    for offset in range(-1, 3):
        distance = b.add(stablehlo.AbsOp(_add(b, rest, -offset)))
        is_near = offset in (0, 1)
        coefficients = (1.25, -2.25, 0, 1) if is_near else (-0.75, 3.75, -6, 3)
        weight = _cubic_polynomial(b, distance, coefficients)
        taps.append(along.tap(b, _add(b, low, offset), weight))
    return taps


_TAPS: Mapping[
    str, Callable[[GraphBuilder, GridDimension, SSAValue], Sequence[Tap]]
] = {
    "bicubic": _cubic_taps,
    "bilinear": _linear_taps,
    "cubic": _cubic_taps,
    "linear": _linear_taps,
    "nearest": _nearest_taps,
}
"""Functions that return the taps along a dimension, by mode."""


def _grid_sample(b: GraphBuilder, node: Node, x: SSAValue, grid: SSAValue) -> SSAValue:
    _, channels, *sizes = b.static_shape(x)
    groups, *counts, depth = b.static_shape(grid)
    mode, padding_mode = node.text("mode", "linear"), node.text("padding_mode", "zeros")
    for name, text, known in (
        ("mode", mode, _TAPS),
        ("padding_mode", padding_mode, ("zeros", "border", "reflection")),
    ):
        if text not in known:
            expected = ", ".join(known)
            raise Unsupported(f"unknown {name} '{text}'; expected one of {expected}")
    if depth != len(sizes):
        raise Unsupported(f"has a grid of {depth} coordinates; expected {len(sizes)}")
    points = int(np.prod(counts))
    flat = b.reshape_to(grid, (groups, points, depth))
    taps: list[Sequence[Tap]] = []
    for dimension, size in enumerate(sizes):
        # The first coordinate belongs to the last dimension.
        column = depth - 1 - dimension
        part = b.slice(flat, [0, 0, column], [groups, points, column + 1])
        along = GridDimension(size, node.flag("align_corners"), padding_mode)
        position = along.position(b, b.reshape_to(part, (groups, points)))
        taps.append(_TAPS[mode](b, along, position))
    batch = b.iota((groups, points), 0, i32)
    values = [_weighted_pixels(b, x, batch, chosen) for chosen in product(*taps)]
    total = reduce(lambda x, y: _add(b, x, y), values)
    return b.reshape_to(total, (groups, channels, *counts))


# Regions of interest


@dataclass(frozen=True)
class _Regions:
    """Rectangles of images, divided into bins."""

    images: SSAValue
    batch: SSAValue
    """Index of the image of each region."""

    starts: Sequence[SSAValue]
    """First row and first column of each region."""

    extents: Sequence[SSAValue]
    """Height and width of each region."""

    bins: Sequence[int]
    """Number of rows and columns of bins."""

    op_type: type[BinaryOp]
    """Op that combines the pixels around a sample, and the samples of a bin."""

    @property
    def initial(self) -> float:
        """Neutral element of the op."""
        return -np.inf if self.op_type is stablehlo.MaximumOp else 0

    def samples(self, b: GraphBuilder, steps: Sequence[SSAValue]) -> SSAValue:
        """
        Build samples.

        Args:
            b: the builder.
            steps: positions of rows and columns of samples, from 0 for the start of a
                region to 1 for its end; regions x samples.

        Returns:
            Regions x channels x samples, rows first.
        """
        count, rows, columns = (*shape_of(steps[0]), shape_of(steps[1])[1])
        sizes = b.static_shape(self.images)[2:]
        taps = [
            [
                _spread(b, tap, (count, rows, columns), axis + 1)
                for tap in _region_taps(
                    b, self.starts[axis], self.extents[axis], steps[axis], sizes[axis]
                )
            ]
            for axis in range(2)
        ]
        points = b.broadcast(self.batch, (count, rows * columns), [0])
        # As onnxruntime, take the maximum of products.
        values = [
            _weighted_pixels(b, self.images, points, chosen)
            for chosen in product(*taps)
        ]
        return reduce(lambda x, y: b.compute(self.op_type, x, y), values)


def _region_taps(
    b: GraphBuilder, start: SSAValue, extent: SSAValue, steps: SSAValue, size: int
) -> Sequence[Tap]:
    """Return the taps along a dimension of images: see `_Regions.samples`."""
    shape = shape_of(steps)
    start, extent = (b.broadcast(each, shape, [0]) for each in (start, extent))
    x = _add(b, start, _multiply(b, extent, steps))
    clamped = b.clamp(x, -1, size)
    is_inside = b.compare(ComparisonDirection.EQ, clamped, x)
    x = b.clamp(x, 0, size - 1)
    low = b.add(stablehlo.FloorOp(x))
    high = b.compute(stablehlo.MinimumOp, _add(b, low, 1), size - 1)
    rest = b.compute(stablehlo.SubtractOp, x, low)
    weights = b.compute(stablehlo.SubtractOp, 1, rest), rest
    return [
        Tap(index, weight, is_inside)
        for index, weight in zip((low, high), weights, strict=True)
    ]


def _spread(b: GraphBuilder, tap: Tap, shape: Sequence[int], axis: int) -> Tap:
    """Broadcast a tap to regions x rows x columns, of which it has two dimensions."""

    def spread(value: SSAValue | None) -> SSAValue:
        assert value is not None
        wide = b.broadcast(value, shape, [0, axis])
        return b.reshape_to(wide, (shape[0], shape[1] * shape[2]))

    return Tap(spread(tap.index), spread(tap.weight), spread(tap.is_inside))


def _regions(
    b: GraphBuilder, node: Node, x: SSAValue, regions: SSAValue, batch: SSAValue
) -> _Regions:
    """Return the regions of a node; they are given as x1, y1, x2, y2."""
    count, _ = b.static_shape(regions)
    default = "half_pixel" if node.version >= 16 else "output_half_pixel"
    transform = node.text("coordinate_transformation_mode", default)
    scaled = _multiply(b, regions, node.number("spatial_scale", 1))
    if transform == "half_pixel":
        scaled = _add(b, scaled, -0.5)
    left, top, right, bottom = (
        b.reshape_to(b.slice(scaled, [0, d], [count, d + 1]), (count,))
        for d in range(4)
    )
    extents = [
        b.compute(stablehlo.SubtractOp, *ends)
        for ends in ((bottom, top), (right, left))
    ]
    if transform != "half_pixel":
        extents = [b.compute(stablehlo.MaximumOp, each, 1) for each in extents]
    bins = node.integer("output_height", 1), node.integer("output_width", 1)
    is_maximum = node.text("mode", "avg") == "max"
    op_type = stablehlo.MaximumOp if is_maximum else stablehlo.AddOp
    return _Regions(x, batch, (top, left), extents, bins, op_type)


def _roi_align(
    b: GraphBuilder, node: Node, x: SSAValue, regions: SSAValue, batch: SSAValue
) -> SSAValue:
    _, channels, *sizes = b.static_shape(x)
    if len(sizes) != 2:
        raise Unsupported(f"has images of rank {len(sizes)}; expected 2")
    chosen = _regions(b, node, x, regions, batch)
    (count, _), bins = b.static_shape(regions), chosen.bins
    if (ratio := node.integer("sampling_ratio", 0)) < 1:
        total = _all_samples(b, chosen)
        return b.reshape_to(total, (count, channels, *bins))
    steps = [
        b.broadcast(
            b.convert(
                b.tensor((np.arange(n * ratio) + 0.5) / ratio / n), element_type_of(x)
            ),
            (count, n * ratio),
            [1],
        )
        for n in bins
    ]
    total = chosen.samples(b, steps)
    total = b.reshape_to(total, (count, channels, bins[0], ratio, bins[1], ratio))
    total = b.reduce(chosen.op_type, total, chosen.initial, [3, 5])
    is_maximum = chosen.op_type is stablehlo.MaximumOp
    return total if is_maximum else _multiply(b, total, 1 / ratio**2)


def _single_steps(
    b: GraphBuilder, position: SSAValue, number: SSAValue, bins: int
) -> SSAValue:
    """
    Return the steps of one sample of each bin: see `_Regions.samples`.

    Args:
        b: the builder.
        position: position of the sample in its bin.
        number: number of samples of a bin of each region.
        bins: number of bins.
    """
    part = b.compute(stablehlo.DivideOp, _add(b, position, 0.5), number)
    shape = (*shape_of(number), bins)
    first = b.iota(shape, 1, element_type_of(number))
    part = b.compute(stablehlo.AddOp, b.broadcast(part, shape, [0]), first)
    return _multiply(b, part, 1 / bins)


def _all_samples(b: GraphBuilder, regions: _Regions) -> SSAValue:
    """Combine as many samples as a region has pixels: a loop takes one of each bin."""
    element_type = element_type_of(regions.images)
    channels, bin_count = shape_of(regions.images)[1], prod(regions.bins)
    shape = shape_of(regions.batch)[0], channels, bin_count
    counts = [
        b.add(stablehlo.CeilOp(b.compute(stablehlo.DivideOp, extent, n)))
        for extent, n in zip(regions.extents, regions.bins, strict=True)
    ]
    limits = [
        b.convert(b.reduce(stablehlo.MaximumOp, each, 0, [0]), i64) for each in counts
    ]

    def step(
        b: GraphBuilder, index: SSAValue, states: Sequence[SSAValue]
    ) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
        positions = [
            b.convert(b.compute(op_type, index, limits[1]), element_type)
            for op_type in (stablehlo.DivideOp, stablehlo.RemainderOp)
        ]
        pairs = [*zip(positions, counts, strict=True)]
        flags = [b.compare(ComparisonDirection.LT, *pair) for pair in pairs]
        is_used = b.broadcast(b.compute(stablehlo.AndOp, *flags), shape, [0])
        steps = [
            _single_steps(b, *pair, n)
            for pair, n in zip(pairs, regions.bins, strict=True)
        ]
        value = b.compute(regions.op_type, states[0], regions.samples(b, steps))
        return [b.select(is_used, value, states[0])], []

    start = b.broadcast(b.scalar(regions.initial, element_type), shape)
    ((total,), _) = while_loop(
        b, b.compute(stablehlo.MultiplyOp, *limits), [start], step
    )
    if regions.op_type is stablehlo.MaximumOp:
        # Regions without samples.
        is_empty = b.compare(ComparisonDirection.EQ, total, regions.initial)
        return b.select(is_empty, 0, total)
    number = b.compute(stablehlo.MaximumOp, b.compute(stablehlo.MultiplyOp, *counts), 1)
    return b.compute(stablehlo.DivideOp, total, b.broadcast(number, shape, [0]))


SAMPLING: Mapping[str, Conversion] = {
    "GridSample": _grid_sample,
    "RoiAlign": _roi_align,
}
"""Conversions of ops that sample images, by op."""
