"""Parameters from ranges, contents of constants, and other parameters."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.dialects.builtin import AnyFloat

from xdsl_quant.dialects.quant.traits import FixedResultUniformScale
from xdsl_quant.dialects.quant.types import (
    AnyQuantizedType,
    UniformType,
    uniform_type,
)
from xdsl_quant.numerics import QuantizationParameters, RangeRule, choose_parameters
from xdsl_quant.numerics.arrays import Array


@dataclass(frozen=True)
class ParameterChoice:
    """How parameters are chosen for a port."""

    storage: AnyQuantizedType
    expressed_type: AnyFloat
    rule: RangeRule
    is_symmetric: bool = False
    """True if the zero point is the middle."""

    is_power_of_two: bool = False
    """True if scales are rounded up to powers of two."""

    def for_range(
        self,
        low: ArrayLike,
        high: ArrayLike,
        *,
        is_weight: bool = False,
        is_symmetric: bool = False,
        axis: int | None = None,
    ) -> UniformType:
        """
        Return the parameters for a range, or for one range for each index of `axis`.
        Symmetric ones have the middle as zero point. Weights are symmetric, if they are
        stored with a sign, and do not use the smallest stored value.

        Raises:
            ValueError: if a range is not finite, or the expressed type has no such scale.
        """
        storage = self.storage
        first, last = storage.storage_range
        if is_weight:
            first = max(first, storage.full_storage_range[0] + 1)
        is_symmetric |= self.is_symmetric or (is_weight and storage.is_signed)
        chosen = choose_parameters(
            # The other rules move a range without 0, which cuts values off.
            np.minimum(low, 0.0),
            np.maximum(high, 0.0),
            storage=storage.storage_type_name,
            storage_min=first,
            storage_max=last,
            symmetric=is_symmetric,
            power_of_two=self.is_power_of_two,
            expressed=self.expressed_type.name,
            quantized_dimension=axis,
            rule=self.rule,
        )
        return uniform_type(chosen, self.expressed_type)

    def for_content(
        self, content: Array, *, is_weight: bool, axis: int | None = None
    ) -> UniformType:
        """
        Return the parameters for a constant; with `axis` one scale for each of its
        indices.

        Raises:
            ValueError: if there are no elements, some are not finite, or the expressed type
                has no such scale.
        """
        if not content.size:
            raise ValueError("there are no elements")
        others = None
        if axis is not None:
            others = tuple(i for i in range(content.ndim) if i != axis)
        low, high = (
            np.asarray(end, np.float64)
            for end in (content.min(others), content.max(others))
        )
        if self.rule == "tflite":
            low, high = _wide_enough(low, high, is_weight and self.storage.is_signed)
        return self.for_range(low, high, is_weight=is_weight, axis=axis)

    def for_fixed_result(self, trait: FixedResultUniformScale) -> UniformType:
        """
        Return the parameters of results that lie in a fixed range.

        Raises:
            ValueError: if the expressed type has no such scale, or the storage range no
                such zero point.
        """
        scale, zero_point = trait.parameters(self.storage)
        return self._with(np.asarray(scale), zero_point)

    def for_product(
        self, factors: Sequence[UniformType], axis: int
    ) -> UniformType | None:
        """
        Return the parameters whose scale is the product of those of factors, and whose
        zero point is 0: per-axis along `axis` if a factor has several scales, otherwise
        per-tensor. `None` if the numbers of scales differ, or scales are those of
        blocks.

        Raises:
            ValueError: if the expressed type has no such scale.
        """
        shapes = {shape for f in factors if (shape := f.get_scales_shape())}
        if len(shapes) > 1 or any(len(shape) > 1 for shape in shapes):
            return None
        product = np.ones(())
        for factor in factors:
            product = product * factor.get_scales()
        if product.size == 1:
            # A bias of one channel is per-tensor in TensorFlow Lite.
            return self._with(product.reshape(()), 0)
        return self._with(product, 0, axis)

    def for_range_of(self, parameters: UniformType) -> UniformType:
        """
        Return the parameters for what other parameters can express, e.g. in another
        storage type.

        Raises:
            ValueError: if the expressed type has no such scale.
        """
        scales, zero_points = parameters.get_scales(), parameters.get_zero_points()
        low, high = ((end - zero_points) * scales for end in parameters.storage_range)
        if scales.ndim > 1:
            low, high = low.min(), high.max()
        is_symmetric = parameters.is_fixed_point and parameters.is_signed
        return self.for_range(
            low, high, is_symmetric=is_symmetric, axis=parameters.axis
        )

    def _with(
        self, scales: NDArray[np.float64], zero_point: int, axis: int | None = None
    ) -> UniformType:
        low, high = self.storage.storage_range
        parameters = QuantizationParameters(
            scales,
            zero_point,
            storage=self.storage.storage_type_name,
            storage_min=low,
            storage_max=high,
            expressed=self.expressed_type.name,
            quantized_dimension=axis,
        )
        return uniform_type(parameters, self.expressed_type)


_NARROWEST = 1e-6
"""The least width of the range of a constant in TensorFlow Lite."""


def _wide_enough(
    low: NDArray[np.float64], high: NDArray[np.float64], is_symmetric: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """
    Ranges of constants around 0: narrow ones are widened before parameters are chosen, and
    less than those of statistics are.
    """
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    if is_symmetric:
        high = np.maximum(-low, high)
        low = -high
    is_narrow = high - low < _NARROWEST
    half = _NARROWEST / 2
    return (
        np.where(is_narrow, np.minimum(low, -half), low),
        np.where(is_narrow, np.maximum(high, half), high),
    )


def with_scales(parameters: UniformType, scales: NDArray[np.float64]) -> UniformType:
    """
    Return the same parameters with other scales, as many as there are.

    Raises:
        ValueError: if the expressed type has no such scale.
    """
    changed = QuantizationParameters.from_integer_type(parameters)
    return uniform_type(replace(changed, scales=scales), parameters.expressed_type)


def with_axis(parameters: UniformType, axis: int) -> UniformType:
    """Return the same per-axis parameters for another dimension."""
    changed = QuantizationParameters.from_integer_type(parameters)
    return uniform_type(
        replace(changed, quantized_dimension=axis), parameters.expressed_type
    )
