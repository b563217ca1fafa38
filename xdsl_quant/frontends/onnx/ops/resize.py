"""
Resize: resampling along each axis by constants.

The nearest mode gathers elements. The linear and cubic modes multiply by a matrix of
weights, one row for each result position; they compute integers in f32 and round them
toward zero. Coordinates are computed in f32, as onnxruntime does. As there, an axis with
scale 1 is not resampled, and no axis is if no size changes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, f32, f64
from xdsl.ir import SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.attributes import DotDimensionNumbersAttr
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .indexing import take

Coordinates = NDArray[np.float32]
"""Position in the operand of each result element, along one axis."""


@dataclass(frozen=True)
class ResizedAxis:
    """Sizes of one axis before and after resizing."""

    size: int
    result_size: int
    scale: np.float32
    start: np.float32
    """Start of the region of interest, relative to the size."""
    end: np.float32
    """End of the region of interest, relative to the size."""


# Coordinate transforms, as functions of the indices of the result


def _half_pixel(along: ResizedAxis, index: Coordinates) -> Coordinates:
    return (index + np.float32(0.5)) / along.scale - np.float32(0.5)


def _half_pixel_symmetric(along: ResizedAxis, index: Coordinates) -> Coordinates:
    ratio = np.float32(along.result_size) / (along.scale * np.float32(along.size))
    offset = np.float32(along.size / 2) * (np.float32(1) - ratio)
    # onnxruntime rounds to f32 here, after computing with f64.
    exact = float(offset) + (index.astype(np.float64) + 0.5) / float(along.scale) - 0.5
    return exact.astype(np.float32)


def _pytorch_half_pixel(along: ResizedAxis, index: Coordinates) -> Coordinates:
    return _half_pixel(along, index) if along.result_size > 1 else 0 * index


def _half_pixel_for_nearest(along: ResizedAxis, index: Coordinates) -> Coordinates:
    return (index + np.float32(0.5)) / along.scale


def _scaled_index(along: ResizedAxis, index: Coordinates) -> Coordinates:
    return index / along.scale


def _align_corners(along: ResizedAxis, index: Coordinates) -> Coordinates:
    last = np.float32(along.size - 1)
    return index * last / np.float32(max(along.result_size - 1, 1))


def _crop_and_resize(along: ResizedAxis, index: Coordinates) -> Coordinates:
    last = np.float32(along.size - 1)
    if along.result_size == 1:
        return 0 * index + np.float32(0.5) * (along.start + along.end) * last
    step = (along.end - along.start) * last / np.float32(along.result_size - 1)
    return along.start * last + index * step


_CROP = "tf_crop_and_resize"

_TRANSFORMS: Mapping[str, Callable[[ResizedAxis, Coordinates], Coordinates]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_half_pixel_for_nn": _half_pixel_for_nearest,
    "asymmetric": _scaled_index,
    "align_corners": _align_corners,
    _CROP: _crop_and_resize,
}
"""Functions that return coordinates in the operand, by the name in ONNX."""

_Exact = NDArray[np.float64]

_ROUNDINGS: Mapping[str, Callable[[ResizedAxis, _Exact], _Exact]] = {
    "round_prefer_floor": lambda along, x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda along, x: np.floor(x + 0.5),
    "floor": lambda along, x: np.floor(x),
    "ceil": lambda along, x: np.ceil(x),
    "simple": lambda along, x: np.floor(x) if along.scale >= 1 else np.ceil(x),
}
"""Rounding of coordinates in the nearest mode, by name."""


# Weights


@dataclass(frozen=True)
class ResizeFilter:
    """Interpolation: weights of the elements around a coordinate."""

    radius: int
    """Largest distance of elements with a weight."""

    weight: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    """Function that returns weights for distances."""

    is_antialiased: bool
    excludes_outside: bool

    def weights(self, along: ResizedAxis, center: Coordinates) -> NDArray[np.float64]:
        """Return the matrix of weights, with a row for each result position."""
        shrinking = max(1 / float(along.scale), 1.0) if self.is_antialiased else 1.0
        radius = int(np.ceil(self.radius * shrinking))
        offsets = np.arange(-radius, radius + 1)
        positions = np.floor(center).astype(np.int64)[:, None] + offsets
        distance = np.abs(positions - center[:, None].astype(np.float64)) / shrinking
        weights = np.where(distance < self.radius, self.weight(distance), 0)
        if self.excludes_outside:
            weights[(positions < 0) | (positions >= along.size)] = 0
        if self.excludes_outside or self.is_antialiased:
            weights /= weights.sum(axis=1, keepdims=True)
        matrix = np.zeros((along.result_size, along.size))
        # The border elements stand for those outside.
        columns = np.clip(positions, 0, along.size - 1)
        np.add.at(matrix, (np.arange(along.result_size)[:, None], columns), weights)
        return matrix


def _linear_weight(distance: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 - distance


def _cubic_weight(a: float) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """
    Return the cubic convolution kernel with the parameter `a`.

    Source: R. Keys, "Cubic convolution interpolation for digital image processing", 1981.
    """

    def weight(x: NDArray[np.float64]) -> NDArray[np.float64]:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        return np.where(x <= 1, near, a * (((x - 5) * x + 8) * x - 4))

    return weight


def _filter(node: Node) -> ResizeFilter | None:
    """Return the interpolation; `None` for the nearest element."""
    options = node.flag("antialias"), node.flag("exclude_outside")
    match node.text("mode", "nearest"):
        case "nearest":
            return None
        case "linear" | "bilinear":
            return ResizeFilter(1, _linear_weight, *options)
        case "cubic":
            weight = _cubic_weight(node.number("cubic_coeff_a", -0.75))
            return ResizeFilter(2, weight, *options)
        case mode:
            raise Unsupported(
                f"unknown mode '{mode}'; expected nearest, linear or cubic"
            )


# Sizes


def _resized_axes(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    roi: SSAValue | None,
    scales: SSAValue | None,
    sizes: SSAValue | None,
) -> Mapping[int, ResizedAxis]:
    shape = b.static_shape(x)
    axes = b.axes(node.integers("axes", range(len(shape))), len(shape))
    old = [shape[axis] for axis in axes]
    if sizes is not None and shape_of(sizes) != (0,):
        factors, new = _factors_of_sizes(node, old, b.integers(sizes, "sizes"))
    elif scales is not None:
        factors = b.array(scales, "scales").astype(np.float32).reshape(-1)
        if len(factors) != len(axes) or not ((factors > 0) & (factors < 1 << 31)).all():
            raise Unsupported(
                f"scales are {factors.tolist()}; expected {len(axes)} positive numbers"
            )
        new = np.floor(factors * np.array(old, np.float32)).astype(np.int64).tolist()
    else:
        raise Unsupported("scales and sizes are missing; expected one of them")
    if min((*old, *new), default=1) < 1:
        raise Unsupported(f"cannot resize {old} to {[*new]}; expected positive sizes")
    regions = np.zeros((2, len(axes)), np.float32)
    regions[1] = 1
    if node.text("coordinate_transformation_mode", "half_pixel") == _CROP:
        if roi is None or (region := b.array(roi, "regions")).size != 2 * len(axes):
            raise Unsupported(f"expected a region of {2 * len(axes)} numbers")
        regions = region.reshape(2, -1).astype(np.float32)
    numbers = zip(old, new, factors, *regions, strict=True)
    return dict(zip(axes, (ResizedAxis(*values) for values in numbers), strict=True))


def _factors_of_sizes(
    node: Node, old: Sequence[int], sizes: Sequence[int]
) -> tuple[Sequence[np.float32], Sequence[int]]:
    """Return the scale and the new size of each axis."""
    if len(old) != len(sizes):
        raise Unsupported(f"sizes are {[*sizes]}; expected {len(old)} sizes")
    ratios = np.array(sizes, np.float32) / np.maximum(old, 1).astype(np.float32)
    match node.text("keep_aspect_ratio_policy", "stretch"):
        case "stretch":
            return [*ratios], sizes
        case "not_larger":
            ratio = ratios.min()
        case "not_smaller":
            ratio = ratios.max()
        case policy:
            raise Unsupported(
                f"unknown keep_aspect_ratio_policy '{policy}'; expected stretch, "
                "not_larger or not_smaller"
            )
    return [ratio] * len(old), [int(ratio * size + 0.5) for size in old]


# Conversions


def _resize(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    roi: SSAValue | None = None,
    scales: SSAValue | None = None,
    sizes: SSAValue | None = None,
) -> SSAValue:
    mode = node.text("coordinate_transformation_mode", "half_pixel")
    if (transform := _TRANSFORMS.get(mode)) is None:
        raise Unsupported(f"unknown coordinate_transformation_mode '{mode}'")
    rounding = node.text("nearest_mode", "round_prefer_floor")
    if (rounded := _ROUNDINGS.get(rounding)) is None:
        raise Unsupported(f"unknown nearest_mode '{rounding}'")
    axes = _resized_axes(b, node, x, roi, scales, sizes)
    element_type, interpolation = element_type_of(x), _filter(node)
    if interpolation is not None:
        x = _as_computed(b, x, interpolation)
    is_resized = any(along.size != along.result_size for along in axes.values())
    for axis, along in axes.items():
        if along.scale == 1 or not is_resized:
            # As in onnxruntime, regardless of the region.
            continue
        b.check_count(along.result_size * (along.size if interpolation else 1))
        index = np.arange(along.result_size, dtype=np.float32)
        center = transform(along, index)
        if interpolation is not None:
            x = _multiplied(b, x, interpolation.weights(along, center), axis)
        else:
            nearest = rounded(along, center.astype(np.float64))
            nearest = np.clip(nearest, 0, along.size - 1)
            x = take(b, x, b.tensor(nearest.astype(np.int64)), axis)
        if mode == _CROP:
            x = _extrapolated(
                b, node, x, axis, (center < 0) | (center > along.size - 1)
            )
    return b.convert(x, element_type)


def _as_computed(b: GraphBuilder, x: SSAValue, interpolation: ResizeFilter) -> SSAValue:
    """Convert elements to the type in which they are interpolated."""
    if (element_type := element_type_of(x)) == f64:
        return x
    if interpolation.is_antialiased and not isinstance(element_type, AnyFloat):
        raise Unsupported(
            f"cannot resize '{element_type}' with antialias; expected floats"
        )
    return b.convert(x, f32)


def _multiplied(
    b: GraphBuilder, x: SSAValue, matrix: NDArray[np.float64], axis: int
) -> SSAValue:
    """Multiply the vectors along an axis by a matrix."""
    dtype = np.float64 if element_type_of(x) == f64 else np.float32
    numbers = DotDimensionNumbersAttr([], [], [axis], [1])
    weights = b.tensor(matrix.astype(dtype))
    product = b.add(stablehlo.DotGeneralOp(x, weights, dot_dimension_numbers=numbers))
    others = [*range(len(shape_of(x)) - 1)]
    return b.permute(product, [*others[:axis], len(others), *others[axis:]])


def _extrapolated(
    b: GraphBuilder, node: Node, x: SSAValue, axis: int, is_outside: NDArray[np.bool_]
) -> SSAValue:
    """Replace slices outside the operand by the value for extrapolation."""
    if not is_outside.any():
        return x
    mask = b.broadcast(b.tensor(is_outside), shape_of(x), [axis])
    return b.select(mask, node.number("extrapolation_value", 0), x)


RESIZE: Mapping[str, Conversion] = {"Resize": _resize}
"""Conversion of Resize. Upsample became Resize in opset 10."""
