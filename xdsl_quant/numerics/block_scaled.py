"""Quantize and dequantize arrays whose block scales are stored in a narrow type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from xdsl_quant.rounding_mode import Rounding

from .arithmetic import check_rounding
from .arrays import Array, DType, Floats, check_unmasked
from .float_dtypes import float_dtype, rounded
from .parameters import NamedType, QuantizationParameters
from .quantization import dequantize, quantize


class TypeWithBlockScales(Protocol):
    """A type with block scales, as far as parameters need it."""

    @property
    def expressed_type(self) -> NamedType: ...
    @property
    def element_quantized_type(self) -> NamedType: ...
    @property
    def block_size_info(self) -> tuple[tuple[int, int], ...]: ...
    def get_numbers(self) -> Mapping[str, Floats]: ...


@dataclass(frozen=True, eq=False)
class BlockScaledParameters:
    """
    Parameters of values in blocks that have a scale each:
    `expressed = (stored - zero_point) * scale + offset`.
    """

    scales: Floats
    """A scale for each block, with a dimension for each of `block_sizes`."""

    zero_points: Floats | None
    """Zero points in the shape of `scales`."""

    offsets: Floats | None
    """Offsets in the shape of `scales`."""

    block_sizes: tuple[tuple[int, int], ...]
    """
    Pairs of a dimension and the size of a block along it, in ascending order. The last
    block may be shorter.
    """

    elements: QuantizationParameters
    """
    The parameters of elements, which stored values stand for before scaling: the scale is
    1, and the expressed type is the one to which the result of each operation is rounded.
    """

    expressed: str
    """The expressed type, e.g. `f32`."""

    @classmethod
    def from_type(cls, quantized_type: TypeWithBlockScales) -> Self:
        """
        The parameters of a type.

        Raises:
            ValueError: if its numbers are in a resource that is missing or damaged.
        """
        numbers = quantized_type.get_numbers()
        return cls(
            numbers["scales"],
            numbers.get("zero_points"),
            numbers.get("offsets"),
            quantized_type.block_size_info,
            QuantizationParameters.from_type(quantized_type.element_quantized_type),
            quantized_type.expressed_type.name,
        )

    @property
    def expressed_dtype(self) -> DType:
        """The dtype of expressed values."""
        return float_dtype(self.expressed)


class _Blocks:
    """Cuts arrays of one shape into blocks, and broadcasts the parameters of blocks."""

    def __init__(self, parameters: BlockScaledParameters, shape: tuple[int, ...]):
        self._dtype = parameters.elements.expressed_dtype
        self._block_sizes = dict(parameters.block_sizes)
        counts = parameters.scales.shape
        expected = [*shape]
        for (axis, size), count in zip(parameters.block_sizes, counts, strict=True):
            if axis >= len(shape) or -(-shape[axis] // size) != count:
                raise ValueError(
                    f"values of shape {shape} do not have {count} blocks of size {size} "
                    f"along dimension {axis}"
                )
            expected[axis] = count
        self._counts = [
            count if axis in self._block_sizes else 1
            for axis, count in enumerate(expected)
        ]
        # Dimensions of whole blocks are split, so that scales broadcast without a copy.
        self._split: list[int] = []
        for axis, (size, count) in enumerate(zip(shape, self._counts, strict=True)):
            self._split += self._split_size(axis, size, count)
        self._shape = shape

    def _split_size(self, axis: int, size: int, count: int) -> tuple[int, int]:
        if axis not in self._block_sizes:
            return 1, size
        is_whole = size == count * self._block_sizes[axis]
        return (count, self._block_sizes[axis]) if is_whole else (size, 1)

    def split(self, array: Array) -> Array:
        """A view of an array with two dimensions in place of each."""
        return array.reshape(self._split)

    def numbers(self, numbers: Floats) -> Array:
        """Numbers, one for each block, as an operand that broadcasts to a split array."""
        numbers = rounded(numbers, self._dtype).reshape(self._counts)
        shape: list[int] = []
        for axis, size in enumerate(self._shape):
            count = numbers.shape[axis]
            if count > 1 and count * (block := self._block_sizes[axis]) != size:
                numbers = numbers.repeat(block, axis).take(range(size), axis)
            shape += (numbers.shape[axis], 1)
        return numbers.reshape(shape)


def dequantize_blocks(
    stored_values: ArrayLike, parameters: BlockScaledParameters
) -> Array:
    """
    Expressed values of stored ones: `(stored - zero_point) * scale + offset`.

    Args:
        stored_values: an array of a shape that the blocks fit, as
            [`dequantize`][xdsl_quant.numerics.dequantize] takes it for
            `parameters.elements`.
        parameters: the parameters.

    Returns:
        a new array with dtype `parameters.expressed_dtype`.

    Raises:
        TypeError: if an array has the wrong dtype, or is masked.
        ValueError: if a value is outside of the storage type, or the number of blocks does
            not match.
    """
    values = dequantize(stored_values, parameters.elements)
    shape = values.shape
    blocks = _Blocks(parameters, shape)
    values = blocks.split(values)
    with np.errstate(all="ignore"):
        if parameters.zero_points is not None:
            values -= blocks.numbers(parameters.zero_points)
        values *= blocks.numbers(parameters.scales)
        if parameters.offsets is not None:
            values += blocks.numbers(parameters.offsets)
    return rounded(values, parameters.expressed_dtype).reshape(shape)


def quantize_blocks(
    expressed_values: ArrayLike,
    parameters: BlockScaledParameters,
    rounding: Rounding = Rounding(),
) -> Array:
    """
    Stored values of expressed ones:
    `clamp(round((expressed - offset) / scale + zero_point), min, max)`, or with the zero
    point added after rounding. Where a scale is 0, the quotient is defined as 0.

    Args:
        expressed_values: an array with dtype `parameters.expressed_dtype`, of a shape that
            the blocks fit.
        parameters: the parameters.
        rounding: how a number between two stored ones is rounded, and what NaN becomes.

    Returns:
        a new array with the dtype of `parameters.elements.storage_dtype`.

    Raises:
        TypeError: if values have another dtype, or are a masked array.
        ValueError: if the number of blocks does not match, or there is no such rounding.
    """
    return quantize(
        scaled_blocks(expressed_values, parameters, rounding),
        parameters.elements,
        rounding_mode=rounding.mode,
        nan=rounding.nan,
    )


def scaled_blocks(
    expressed_values: ArrayLike, parameters: BlockScaledParameters, rounding: Rounding
) -> Array:
    """
    Expressed values in units of stored ones, `(expressed - offset) / scale + zero_point`,
    with the quotient rounded if the zero point is added after rounding; for arguments and
    errors see [`quantize_blocks`][xdsl_quant.numerics.block_scaled.quantize_blocks].

    Returns:
        a new array with the dtype of `parameters.elements.expressed_dtype`.
    """
    check_unmasked(expressed_values, "expressed values")
    array = np.asarray(expressed_values)
    elements = parameters.elements
    if array.dtype != parameters.expressed_dtype:
        raise TypeError(
            f"expressed values have dtype {array.dtype}, but must have "
            f"{parameters.expressed_dtype}"
        )
    check_rounding(rounding)
    has_zero_points = parameters.zero_points is not None
    is_integer = not elements.has_codes
    if reason := rounding.unsupported(elements.storage, is_integer, has_zero_points):
        raise ValueError(reason)
    blocks = _Blocks(parameters, array.shape)
    values = blocks.split(np.array(array, elements.expressed_dtype))
    scales = blocks.numbers(parameters.scales)
    with np.errstate(all="ignore"):
        if parameters.offsets is not None:
            values -= blocks.numbers(parameters.offsets)
        values /= scales
        values[np.broadcast_to(scales == 0, values.shape)] = 0
        if parameters.zero_points is not None:
            if rounding.zero_point_order == "after-rounding":
                values = _rounded_quotients(values, rounding)
            values += blocks.numbers(parameters.zero_points)
    return values.reshape(array.shape)


def _rounded_quotients(values: Array, rounding: Rounding) -> Array:
    if rounding.mode == "nearest-even":
        return np.rint(values)
    truncated = np.trunc(values)
    # The difference is exact.
    is_half = np.abs(values - truncated) >= 0.5
    return truncated + np.copysign(is_half.astype(values.dtype), values)
