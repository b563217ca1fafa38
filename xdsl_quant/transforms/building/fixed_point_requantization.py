"""
Lowering of a `quant.qcast` of a `quant.dcast`, both with fixed-point scales, to integer
arithmetic.

Stored values are bit-identical to those of
[`requantize_fixed_point`][xdsl_quant.numerics.requantize_fixed_point]:

    clamp(apply_scale(stored - source zero point) + target zero point, min, max)

Multiplier and shift are computed at compile time, from the exact ratio of the two
scales. Parameters that are the same for all channels become scalar constants.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, i64
from xdsl.ir import Attribute, SSAValue

from xdsl_quant.dialects.quant.fixed_point_types import FixedPointType
from xdsl_quant.numerics import rescale_multiplier
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.runtime.arrays import elements_attr

from .builder import LoweringBuilder
from .fixed_point_arithmetic import (
    add,
    apply_scale,
    clamp_and_truncate,
    extend,
    i64_constant,
    subtract,
)
from .tensor_traversal import ElementConversion, Layout, Operands


@dataclass(eq=False)
class Requantization(ElementConversion):
    """
    Conversion of stored values of one type to those of another.

    Raises:
        ValueError: if the scales cannot be combined, with the reason.
    """

    source: FixedPointType
    target: FixedPointType
    rounding: ScaleRounding = "single"
    """Rounding mode of the ops; multipliers and shifts do not depend on it."""

    def __post_init__(self) -> None:
        # Fail before the rewrite starts.
        _ = self.numbers

    # Parameters

    @cached_property
    def axes(self) -> Sequence[int]:
        """Dimensions along which the source or target type has several scales."""
        axes = {self.source.axis, self.target.axis}
        return sorted(axis for axis in axes if axis is not None)

    @cached_property
    def numbers(self) -> Mapping[str, Array]:
        """Arrays of multipliers, shifts and zero points with dimensions `axes`."""
        scales, source_zero_points = _parameter_arrays(self.source, self.axes)
        target_scales, zero_points = _parameter_arrays(self.target, self.axes)
        if (
            self.source.axis == self.target.axis is not None
            and scales.size != target_scales.size
        ):
            raise ValueError(
                f"dimension {self.axes[0]} has {scales.size} scales in the source type "
                f"and {target_scales.size} in the target type"
            )
        multipliers, shifts = rescale_multiplier([scales], target_scales)
        return {
            name: np.broadcast_to(array, multipliers.shape)
            for name, array in (
                ("multiplier", multipliers),
                ("shift", shifts),
                ("source_zero_point", source_zero_points),
                ("zero_point", zero_points),
            )
        }

    @cached_property
    def _uniform_parameters(self) -> Mapping[str, int]:
        """Parameters that are the same for all channels, by name."""
        return {
            name: int(array.flat[0])
            for name, array in self.numbers.items()
            if (array == array.flat[0]).all()
        }

    @cached_property
    def _tensors(self) -> Mapping[str, DenseIntOrFPElementsAttr]:
        """Parameters that differ between channels, by name."""
        return {
            name: elements_attr(array.astype("<i8"), i64)
            for name, array in self.numbers.items()
            if name not in self._uniform_parameters
        }

    # Ops

    @property
    def element_type(self) -> Attribute:
        return self.target.signless_storage_type

    @property
    def layout(self) -> Layout | None:
        if not self.axes:
            return None
        counts = dict(zip(self.axes, self.numbers["multiplier"].shape, strict=True))
        return Layout(counts, dict.fromkeys(self.axes, 1))

    def parameters(self, builder: LoweringBuilder, layout: Layout) -> Operands:
        return builder.constants(self._tensors)

    def convert(
        self, builder: LoweringBuilder, number: SSAValue, parameters: Operands
    ) -> SSAValue:
        operands = {**parameters}
        for name, value in self._uniform_parameters.items():
            # A zero point of 0 changes nothing; multipliers and shifts are never 0.
            if value:
                operands[name] = i64_constant(builder, value)
        value = extend(builder, number, self.source.is_signed)
        if (zero_point := operands.get("source_zero_point")) is not None:
            value = subtract(builder, value, zero_point)
        value = apply_scale(
            builder, value, operands["multiplier"], operands["shift"], self.rounding
        )
        if (zero_point := operands.get("zero_point")) is not None:
            value = add(builder, value, zero_point)
        return clamp_and_truncate(
            builder,
            value,
            *self.target.storage_range,
            self.target.signless_storage_type,
        )


def _parameter_arrays(
    quantized_type: FixedPointType, axes: Sequence[int]
) -> Sequence[Array]:
    """Return scales and zero points as arrays with a dimension for each axis."""
    shape = [-1 if axis == quantized_type.axis else 1 for axis in axes]
    return [
        array.reshape(shape)
        for array in (quantized_type.get_scales(), quantized_type.get_zero_points())
    ]
