"""
Bounds of the sums that quantized ops accumulate, and the widths of the accumulators.

For constant weights, the bounds are exact: each weight is multiplied by the activation
(storage minimum or maximum) that gives the smallest or largest product. Accumulators
wrap around, so intermediate sums may overflow as long as the final sum fits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, ModuleOp, ShapedType, i64
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant import ScaledQuantizedType, StorageCastOp
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    AffineOpCoefficient,
    MultipliesAndAccumulates,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import (
    QuantizedType,
    StoredQuantizedType,
    scalar_or_element_type,
)
from xdsl_quant.machines.expression import signed_bounds
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import constant_elements, stored_elements
from xdsl_quant.transforms.propagation.resolution.report import value_names

from .terms import int_width
from .theorems import Theorem

_WITHOUT_WINDOW = ("tfl.fully_connected", "stablehlo.dot_general")
"""Ops without a sliding window, and therefore without padding."""


@dataclass(frozen=True)
class Accumulator:
    """Accumulator of an op: its width, and the bounds of its sums."""

    name: str
    """Text with the names of the op and of its result."""

    width: int
    """Width of the accumulator in bits."""

    low: int
    """Smallest sum, including the bias."""

    high: int
    """Largest sum, including the bias."""

    channel: int | None
    """Output channel with the largest absolute sum; `None` without constant weights."""

    inputs: tuple[int, int]
    """Smallest and largest stored value of the activations."""

    is_reached: bool
    """True if some activations are known to give the sums `low` and `high`."""

    @property
    def fits(self) -> bool:
        """True if the accumulator holds all sums."""
        limit = 1 << self.width - 1
        return -limit <= self.low and self.high < limit

    def theorem(self) -> Theorem:
        """Return the claim that the accumulator holds all sums, with its verdict."""
        part = max(-self.low, self.high) / (1 << self.width - 1)
        sums = f"sums are from {self.low} to {self.high}, {part:.2%} of 2**{self.width - 1}"
        verdict = "proved" if self.fits else "refuted" if self.is_reached else "unknown"
        if verdict != "proved" and self.channel is not None:
            low, high = self.inputs
            is_high = self.high > -self.low
            ends = (high, low) if is_high else (low, high)
            sums += (
                f"; channel {self.channel}, inputs {ends[0]} where weights are positive "
                f"and {ends[1]} where they are negative"
            )
        return Theorem(
            f"sums of {self.name} fit {self.width} bits for all inputs",
            verdict,
            "exact bounds",
            0.0,
            sums,
        )


def accumulators(module: ModuleOp) -> Iterator[Accumulator]:
    """
    Yield the accumulator of each quantized op of a module that sums products:
    `stablehlo` and `tfl` ops, and other ops with the trait `MultipliesAndAccumulates`.

    Args:
        module: module with static weight sizes.
    """
    names = dict(value_names(module))
    for op in module.walk():
        product = quantization_trait(op, MultipliesAndAccumulates)
        if product is None or len(op.results) != 1:
            continue
        lhs, rhs = op.operands[product.lhs], op.operands[product.rhs]
        if _scaled_type(lhs) is None or _scaled_type(rhs) is None:
            continue
        yield _accumulator_of(op, lhs, rhs, names.get(op.results[0], "?"))


def _scaled_type(value: SSAValue) -> ScaledQuantizedType | None:
    type_ = scalar_or_element_type(value.type)
    return type_ if isinstance(type_, ScaledQuantizedType) else None


def _accumulator_of(
    op: Operation, lhs: SSAValue, rhs: SSAValue, name: str
) -> Accumulator:
    type_ = _scaled_type(lhs)
    assert type_ is not None
    low, high = type_.storage_range
    zero_points = type_.zero_point_range
    # A type may have several zero points: take the widest bounds.
    values = low - zero_points[1], high - zero_points[0]
    # Corrected padding is 0, which may be outside these bounds.
    is_padded = op_name(op) not in _WITHOUT_WINDOW and not values[0] <= 0 <= values[1]
    ends = (*values, 0) if is_padded else values
    trait = quantization_trait(op, AffineOpCoefficient)
    contracted = () if trait is None else trait.contracting_dimensions_of(op)
    weights = _corrected_weights(rhs) if contracted else None
    if weights is None:
        smallest, largest = _of_any_weights(rhs, contracted, ends)
    else:
        smallest, largest = _of_weights(weights, contracted, ends)
    biases = _bias_bounds(op, smallest.shape)
    # A sum with its bias may exceed 64 bits.
    smallest = np.asarray(smallest.astype(object) + biases[0], object)
    largest = np.asarray(largest.astype(object) + biases[1], object)
    sizes = np.maximum(-smallest, largest)
    return Accumulator(
        f"'{op_name(op)}' op {name}",
        _accumulator_width(op, type_),
        int(smallest.min()),
        int(largest.max()),
        None if weights is None else int(sizes.argmax()),
        (low, high),
        weights is not None
        and np.array_equal(*biases)
        and zero_points[0] == zero_points[1]
        and not is_padded
        and _has_whole_window(op, lhs, rhs),
    )


def _of_weights(
    weights: Array, contracted: Sequence[int], values: Sequence[int]
) -> tuple[Array, Array]:
    if (
        max(map(abs, values)) * weights.size * int(np.abs(weights).max(initial=0))
        >= 1 << 63
    ):
        # Python integers are unbounded.
        weights = weights.astype(object)
    products = [weights * value for value in values]
    smallest, largest = (
        np.asarray(reduce(function, products).sum(axis=tuple(contracted)))
        for function in (np.minimum, np.maximum)
    )
    return smallest, largest


def _corrected_weights(value: SSAValue) -> Array | None:
    """Return zero-point-corrected weights; `None` if they are not constant."""
    type_ = _scaled_type(value)
    assert type_ is not None
    elements = constant_elements(_without_storage_cast(value))
    if elements is None:
        return None
    stored = stored_elements(elements, type_).astype(np.int64)
    zero_points = np.asarray(type_.zero_point_array(), np.int64)
    if zero_points.size > 1 and type_.axis is not None:
        shape = [1] * stored.ndim
        shape[type_.axis] = zero_points.size
        zero_points = zero_points.reshape(shape)
    elif (zero_points != zero_points[0]).any():
        return None
    else:
        zero_points = zero_points[0]
    return stored - zero_points


def _of_any_weights(
    value: SSAValue, contracted: Sequence[int], values: Sequence[int]
) -> tuple[Array, Array]:
    """Return bounds of the sums of products of `values` and all possible weights."""
    type_ = _scaled_type(value)
    assert type_ is not None
    assert isinstance(value.type, ShapedType)
    shape = value.type.get_shape()
    low, high = type_.storage_range
    zero_points = type_.zero_point_range
    ends = [
        value * weight
        for value in values
        for weight in (low - zero_points[1], high - zero_points[0])
    ]
    sizes = [shape[d] for d in contracted] if contracted else shape
    # Assume 2**31 products if a size is dynamic.
    count = 1 << 31 if DYNAMIC_INDEX in sizes else prod(sizes)
    return np.array(min(ends) * count, object), np.array(max(ends) * count, object)


def _without_storage_cast(value: SSAValue) -> SSAValue:
    owner = value.owner
    return owner.input if isinstance(owner, StorageCastOp) else value


def _bias_operand(op: Operation) -> SSAValue | None:
    trait = quantization_trait(op, AccumulatorUniformScale)
    if trait is None or trait.bias >= len(op.operands):
        return None
    return op.operands[trait.bias]


def _bias_bounds(
    op: Operation, shape: tuple[int, ...]
) -> tuple[Array | int, Array | int]:
    """Return the smallest and the largest bias, per channel if the bias is constant."""
    value = _bias_operand(op)
    if value is None or not isinstance(value.type, ShapedType):
        return 0, 0
    value = _without_storage_cast(value)
    elements = constant_elements(value)
    if elements is None or elements.dtype.kind != "i":
        return _integer_range(value.type)
    channels = elements.astype(object).ravel()
    channels = np.broadcast_to(channels, shape or channels.shape)
    return channels, channels


def _integer_range(type_: Attribute) -> tuple[int, int]:
    element = scalar_or_element_type(type_)
    if isinstance(element, StoredQuantizedType):
        return element.storage_range
    # For a float bias, assume the widest TensorFlow Lite integer: 64 bits.
    is_float = isinstance(element, AnyFloat)
    return signed_bounds(64 if is_float else int_width(element))


def _accumulator_width(op: Operation, type_: StoredQuantizedType) -> int:
    """Return 64 for 16-bit `tfl` ops whose bias has 64 bits or is absent; else 32."""
    if not op_name(op).startswith("tfl.") or type_.storage_type_integral_width <= 8:
        return 32
    if (value := _bias_operand(op)) is None:
        return 64
    bias = scalar_or_element_type(value.type)
    is_wide = bias == i64 or not isinstance(value.type, ShapedType)
    return 64 if is_wide and not isinstance(bias, QuantizedType) else 32


def _has_whole_window(op: Operation, lhs: SSAValue, rhs: SSAValue) -> bool:
    """Return True if some window lies entirely within the unpadded input."""
    name = op_name(op)
    if name in _WITHOUT_WINDOW:
        return True
    if name not in ("tfl.conv_2d", "tfl.depthwise_conv_2d"):
        return False
    assert isinstance(lhs.type, ShapedType)
    assert isinstance(rhs.type, ShapedType)
    # Import late: proofs must work without this frontend.
    from xdsl_quant.frontends.tflite.lowering.windows import window_of

    window = window_of(op)
    for axis in range(2):
        size, extent = (t.get_shape()[axis + 1] for t in (lhs.type, rhs.type))
        if size == DYNAMIC_INDEX:
            continue
        first, _ = window.padding_before(size, extent, axis)
        last = size - ((extent - 1) * window.dilations[axis] + 1)
        stride = window.strides[axis]
        positions = range(
            -first, window.result_size(size, extent, axis) * stride, stride
        )
        if not any(0 <= position <= last for position in positions):
            return False
    return True
