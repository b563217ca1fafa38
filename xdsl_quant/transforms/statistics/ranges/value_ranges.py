"""
Read and write ranges of values in statistics ops, calibrated types and attributes:
`quant.axis` and `quant.axis_stats` for per-axis ranges, and `quant.layer_stats` for values
whose type contains no range.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float64Type,
    IntegerAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.hints import isa

from xdsl_quant.dialects.quant import CalibratedQuantizedType, StatisticsOp
from xdsl_quant.numerics.arrays import Floats
from xdsl_quant.runtime.arrays import elements_attr

from .float_constants import float_numbers

AXIS = "quant.axis"
"""Attribute with the dimension of per-axis ranges."""

AXIS_STATS = "quant.axis_stats"
"""Attribute with the per-axis ranges: elements of type f64, shape `[N,2]`."""


LAYER_STATS = "quant.layer_stats"
"""Attribute with the range of all elements: an array of two f64 numbers."""


class ValueRanges(NamedTuple):
    """Ranges of a value as arrays of (minimum, maximum) pairs."""

    layer: Floats
    """Range of all elements, shape `(1, 2)`."""

    axis: int | None = None
    """Dimension with a range for each index."""

    axis_ranges: Floats | None = None
    """Range for each index of `axis`, shape `(n, 2)`."""

    def union(self, other: ValueRanges) -> ValueRanges:
        """Return the union of ranges; per-axis only if both operands have such ranges."""
        layer = _united_pairs(self.layer, other.layer)
        a, b = self.axis_ranges, other.axis_ranges
        if a is None or b is None or self.axis != other.axis or a.shape != b.shape:
            return ValueRanges(layer)
        return ValueRanges(layer, self.axis, _united_pairs(a, b))

    def calibrated_type(self, expressed_type: AnyFloat) -> CalibratedQuantizedType:
        """Return the calibrated type for all elements; widen a range of a single number."""
        low, high = self.layer[0].tolist()
        if low == high:
            # Calibrated types need a positive width; quantized types cover 0 anyway.
            low, high = min(low, 0.0), max(high, 0.0)
        if low == high:
            # All values are 0, which every quantized type represents.
            high = 1.0
        return CalibratedQuantizedType(expressed_type, low, high)

    def layer_attributes(self) -> dict[str, Attribute]:
        return {LAYER_STATS: DenseArrayBase.from_list(f64, self.layer[0].tolist())}

    def axis_attributes(self) -> dict[str, Attribute]:
        """Return the attributes of per-axis ranges; empty without an axis."""
        if self.axis is None or (stats := self.axis_ranges) is None:
            return {}
        return {
            AXIS: IntegerAttr(self.axis, i64),
            AXIS_STATS: elements_attr(stats, f64),
        }


def calibrated_ranges(
    type_: CalibratedQuantizedType, attributes: Mapping[str, Attribute]
) -> ValueRanges:
    """
    Return the ranges of a value with a calibrated type.

    Raises:
        ValueError: if the per-axis attributes are malformed.
    """
    layer = np.array([[type_.min.data, type_.max.data]])
    axis, pairs = axis_ranges(attributes) or (None, None)
    return ValueRanges(layer, axis, pairs)


def axis_ranges(
    attributes: Mapping[str, Attribute],
) -> tuple[int, Floats] | None:
    """
    Return the dimension and ranges, of shape `(n, 2)`, in per-axis attributes, or `None`.

    Raises:
        ValueError: if the attributes are malformed.
    """
    if not attributes.keys() & {AXIS, AXIS_STATS}:
        return None
    axis, stats = attributes.get(AXIS), attributes.get(AXIS_STATS)
    if (
        isinstance(axis, IntegerAttr)
        and isinstance(stats, DenseIntOrFPElementsAttr)
        and stats.get_element_type() == f64
        and stats.get_shape()[1:] == (2,)
    ):
        pairs = np.frombuffer(stats.data.data, np.float64).reshape(-1, 2)
        return axis.value.data, _checked_pairs(pairs)
    raise ValueError(
        f"expects integer '{AXIS}' and '{AXIS_STATS}' with elements of type f64 and shape "
        "[N,2]"
    )


def attribute_ranges(attributes: Mapping[str, Attribute]) -> ValueRanges | None:
    """
    Return the ranges in attributes, or `None` if there are none.

    Raises:
        ValueError: if the attributes are malformed.
    """
    per_axis = axis_ranges(attributes)
    if (stats := attributes.get(LAYER_STATS)) is None:
        return value_ranges_from_axis(*per_axis) if per_axis else None
    if isa(stats, DenseArrayBase[Float64Type]) and len(stats) == 2:
        axis, pairs = per_axis or (None, None)
        return ValueRanges(_checked_pairs(np.array([stats.get_values()])), axis, pairs)
    raise ValueError(f"expects '{LAYER_STATS}' with two numbers of type f64")


def value_ranges_from_axis(axis: int, pairs: Floats) -> ValueRanges:
    """
    Return the ranges of a value from its per-axis ranges, of shape `(n, 2)`.

    Raises:
        ValueError: if there are no ranges.
    """
    if not len(pairs):
        raise ValueError(f"expects '{AXIS_STATS}' with at least one range")
    layer = np.array([[pairs[:, 0].min(), pairs[:, 1].max()]])
    return ValueRanges(layer, axis, pairs)


def recorded_ranges(op: StatisticsOp) -> ValueRanges:
    """
    Return the ranges of a statistics op.

    Raises:
        ValueError: if a range is NaN, infinite or reversed, or NumPy lacks the float
            type.
        ImportError: if the type needs a package that is not installed.
    """
    layer = _recorded_pairs(op.layer_stats)
    if op.axis_stats is None or op.axis is None:
        return ValueRanges(layer)
    pairs, axis = _recorded_pairs(op.axis_stats), op.axis.value.data
    size = cast("TensorType[AnyFloat]", op.input.type).get_shape()[axis]
    if size == DYNAMIC_INDEX:
        return ValueRanges(layer, axis, pairs)
    # There may be one range for each index of the dimensions from the axis on.
    slices = pairs.reshape(size, -1, 2)
    return ValueRanges(
        layer, axis, _united_pairs(slices.min(axis=1), slices.max(axis=1))
    )


def _united_pairs(one: Floats, other: Floats) -> Floats:
    return np.where([True, False], np.minimum(one, other), np.maximum(one, other))


def _recorded_pairs(attr: DenseIntOrFPElementsAttr) -> Floats:
    """Return the ranges in an attribute, checked to be finite and ordered."""
    return _checked_pairs(np.asarray(float_numbers(attr), np.float64).reshape(-1, 2))


def _checked_pairs(pairs: Floats) -> Floats:
    """Check that ranges are finite and ordered."""
    # Comparisons with NaN are false.
    is_range = (pairs[:, 0] <= pairs[:, 1]) & np.isfinite(pairs).all(axis=1)
    if not is_range.all():
        low, high = pairs[int(np.argmin(is_range))].tolist()
        reason = "reversed" if low > high else "not finite"
        raise ValueError(f"range {low} to {high} is {reason}")
    return pairs


# Former name, kept for compatibility.
of_all_indices = value_ranges_from_axis
