"""Choose parameters from ranges, constants, and other parameters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.dialects.builtin import AnyFloat

from xdsl_quant.dialects.quant.traits import FixedResultUniformScale
from xdsl_quant.dialects.quant.types import AnyQuantizedType, UniformType, uniform_type
from xdsl_quant.numerics import QuantizationParameters, RangeRule, choose_parameters
from xdsl_quant.numerics.arrays import Array


@dataclass(frozen=True)
class ParameterChoice:
    """Settings for choosing the parameters of a port."""

    storage: AnyQuantizedType
    expressed_type: AnyFloat
    rule: RangeRule
    is_symmetric: bool = False
    """True if the zero point is the middle of the storage range."""

    is_power_of_two: bool = False
    """True if scales are rounded up to powers of two."""

    block_sizes: Sequence[tuple[int, int]] = ()
    """Pairs of dimension and block size for constants; empty without blocks."""

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
        Return the parameters for a range, or for one range per index of `axis`.
        Symmetric parameters have the middle of the storage range as zero point. Signed
        weights are symmetric, and weights do not use the smallest stored value.

        Raises:
            ValueError: if a range is not finite, or the expressed type cannot represent
                the scale.
        """
        storage = self.storage
        first, last = storage.storage_range
        if is_weight and storage.has_integer_storage:
            first = max(first, storage.full_storage_range[0] + 1)
        is_symmetric |= self.is_symmetric or (is_weight and storage.is_signed)
        # Float storage has no zero point.
        is_symmetric |= not storage.has_integer_storage
        chosen = choose_parameters(
            # Rules `exact` and `mlir` shift a range without 0, which clamps values.
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
        Return the parameters for a constant: with one scale per block, or per index of
        `axis` if given.

        Raises:
            ValueError: if the constant is empty or not finite, blocks do not divide it,
                or the expressed type cannot represent the scale.
        """
        if not content.size:
            raise ValueError("the constant has no elements")
        if self.block_sizes:
            return self._for_blocks(content, is_weight)
        reduced_axes = None
        if axis is not None:
            reduced_axes = tuple(i for i in range(content.ndim) if i != axis)
        low, high = (
            np.asarray(end, np.float64)
            for end in (content.min(reduced_axes), content.max(reduced_axes))
        )
        if self.rule == "tflite":
            low, high = _widened(low, high, is_weight and self.storage.is_signed)
        return self.for_range(low, high, is_weight=is_weight, axis=axis)

    def _for_blocks(self, content: Array, is_weight: bool) -> UniformType:
        block_sizes = dict(self.block_sizes)
        if max(block_sizes) >= content.ndim:
            raise ValueError(
                f"the constant of shape {content.shape} lacks dimension {max(block_sizes)}"
            )
        sizes: tuple[int, ...] = content.shape
        divided: list[int] = []
        for dimension, size in enumerate(sizes):
            block_size = block_sizes.get(dimension, size)
            if size % block_size:
                raise ValueError(
                    f"blocks of {block_size} do not divide {size} elements"
                )
            divided += [size // block_size, block_size]
        # One row for each block.
        blocks = np.moveaxis(
            content.reshape(divided),
            [*range(1, len(divided), 2)],
            range(-content.ndim, 0),
        )
        shape = blocks.shape[: content.ndim]
        without_blocks = replace(self, block_sizes=())
        per_row = QuantizationParameters.from_type(
            without_blocks.for_content(
                blocks.reshape(math.prod(shape), -1), is_weight=is_weight, axis=0
            )
        )
        parameters = replace(
            per_row,
            scales=per_row.scales.reshape(shape),
            zero_points=per_row.zero_points.reshape(shape),
            quantized_dimension=None,
            block_sizes=tuple(self.block_sizes),
        )
        return uniform_type(parameters, self.expressed_type)

    def for_fixed_result(self, trait: FixedResultUniformScale) -> UniformType:
        """
        Return the parameters of a result with a fixed range.

        Raises:
            ValueError: if the expressed type cannot represent the scale, or the storage
                range excludes the zero point.
        """
        if not self.storage.has_integer_storage:
            return self.for_range(trait.minimum, trait.maximum)
        scale, zero_point = trait.parameters(self.storage)
        return self._with(np.asarray(scale), zero_point)

    def for_product(
        self, factors: Sequence[UniformType], axis: int
    ) -> UniformType | None:
        """
        Return parameters with zero point 0, and with the product of the scales of
        `factors`. They are per-axis along `axis` if a factor has several scales, else
        per-tensor. Return `None` if factors have different numbers of scales, or are
        sub-channel quantized.

        Raises:
            ValueError: if the expressed type cannot represent the scale.
        """
        shapes = {shape for f in factors if (shape := f.get_scales_shape())}
        if len(shapes) > 1 or any(len(shape) > 1 for shape in shapes):
            return None
        product = np.ones(())
        for factor in factors:
            product = product * factor.get_scales()
        if product.size == 1:
            # In TensorFlow Lite, a bias of a single channel has a per-tensor type.
            return self._with(product.reshape(()), 0)
        return self._with(product, 0, axis)

    def for_range_of(self, parameters: UniformType) -> UniformType:
        """
        Return parameters of this storage type for the range that other parameters cover.

        Raises:
            ValueError: if the expressed type cannot represent the scale.
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
"""Minimum width of a constant's range in TensorFlow Lite."""


def _widened(
    low: NDArray[np.float64], high: NDArray[np.float64], is_symmetric: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """
    Widen narrow ranges of constants around 0, as TensorFlow Lite does before it chooses
    parameters. The minimum width is smaller than for statistics.
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
    Replace the scales of parameters, keeping their number.

    Raises:
        ValueError: if the expressed type cannot represent a scale.
    """
    changed = QuantizationParameters.from_type(parameters)
    return uniform_type(replace(changed, scales=scales), parameters.expressed_type)


def with_axis(parameters: UniformType, axis: int) -> UniformType:
    """Replace the axis of per-axis parameters."""
    changed = QuantizationParameters.from_type(parameters)
    return uniform_type(
        replace(changed, quantized_dimension=axis), parameters.expressed_type
    )
