"""Quantization and dequantization of arrays with block scales stored in narrow types."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from xdsl_quant.rounding_mode import Rounding

from .arithmetic import check_rounding
from .arrays import Array, DType, Floats, check_unmasked
from .blocks import broadcastable_views
from .float_dtypes import float_dtype, rounded
from .parameters import NamedType, QuantizationParameters, whole_blocks
from .quantization import dequantize, quantize


class TypeWithBlockScales(Protocol):
    """Protocol for types with block scales: the members that `from_type` uses."""

    @property
    def expressed_type(self) -> NamedType: ...
    @property
    def element_quantized_type(self) -> NamedType: ...
    @property
    def block_size_info(self) -> tuple[tuple[int, int], ...]: ...
    def get_numbers(self) -> Mapping[str, Floats]: ...


@dataclass(frozen=True, eq=False)
class BlockScaledParameters:
    """Parameters of blocks: `expressed = (stored - zero_point) * scale + offset`."""

    scales: Floats
    """Scale of each block, with a dimension for each of `block_sizes`."""

    zero_points: Floats | None
    """Zero points in the shape of `scales`."""

    offsets: Floats | None
    """Offsets in the shape of `scales`."""

    block_sizes: tuple[tuple[int, int], ...]
    """Pairs of dimension and block size, by dimension. The last block may be shorter."""

    elements: QuantizationParameters
    """Parameters of unscaled elements; their expressed type is the compute type."""

    expressed: str
    """Expressed type, e.g. `f32`."""

    @classmethod
    def from_type(cls, quantized_type: TypeWithBlockScales) -> Self:
        """
        Return the parameters of a type.

        Raises:
            ValueError: if a resource that contains parameters is missing or damaged.
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
        """Dtype of expressed values."""
        return float_dtype(self.expressed)


def _with_numbers(
    values: Array, parameters: BlockScaledParameters
) -> tuple[Array, Mapping[str, Array]]:
    """
    Return a view of `values`, and views of scales, zero points and offsets by name, which
    broadcast to the view of `values`.
    """
    shape, sizes = values.shape, dict(parameters.block_sizes)
    counts = parameters.scales.shape
    for (axis, size), count in zip(sizes.items(), counts, strict=True):
        if axis >= len(shape) or -(-shape[axis] // size) != count:
            raise ValueError(
                f"expected {count} blocks of size {size} along dimension {axis} of "
                f"values, found shape {shape}"
            )
    dtype = parameters.elements.expressed_dtype
    names = "scales", "zero_points", "offsets"
    arrays = {
        name: rounded(numbers, dtype)
        for name in names
        if (numbers := getattr(parameters, name)) is not None
    }
    if not values.size:
        return values, dict.fromkeys(arrays, values)
    whole, sizes = whole_blocks([*arrays.values()], sizes, shape)
    block = tuple(sizes.get(axis, size) for axis, size in enumerate(shape))
    view, *numbers = broadcastable_views([values], [(block, whole)])
    return view, dict(zip(arrays, numbers, strict=True))


def dequantize_blocks(
    stored_values: ArrayLike, parameters: BlockScaledParameters
) -> Array:
    """
    Dequantize block-scaled values: `(stored - zero_point) * scale + offset`.

    Args:
        stored_values: an array in a shape that matches the blocks, with a dtype that
            [`dequantize`][xdsl_quant.numerics.dequantize] supports for
            `parameters.elements`.
        parameters: the parameters.

    Returns:
        a new array with dtype `parameters.expressed_dtype`.

    Raises:
        TypeError: if an array is masked or has the wrong dtype.
        ValueError: if a value is out of range of the storage type, or the block count does
            not match.
    """
    values = dequantize(stored_values, parameters.elements)
    view, numbers = _with_numbers(values, parameters)
    with np.errstate(all="ignore"):
        if "zero_points" in numbers:
            view -= numbers["zero_points"]
        view *= numbers["scales"]
        if "offsets" in numbers:
            view += numbers["offsets"]
    return rounded(values, parameters.expressed_dtype)


def quantize_blocks(
    expressed_values: ArrayLike,
    parameters: BlockScaledParameters,
    rounding: Rounding = Rounding(),
) -> Array:
    """
    Quantize values in blocks: `clamp(round((expressed - offset) / scale + zero_point))`;
    with `after-rounding`, the zero point is added after rounding. Quotients are 0 where the
    scale is 0.

    Args:
        expressed_values: an array with dtype `parameters.expressed_dtype`, in a shape that
            matches the blocks.
        parameters: the parameters.
        rounding: the rounding, and the stored value of NaN.

    Returns:
        a new array with dtype `parameters.elements.storage_dtype`.

    Raises:
        TypeError: if an array is masked or has the wrong dtype.
        ValueError: if the block count does not match, or the rounding is unsupported.
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
    Return `(expressed - offset) / scale + zero_point`, the values before rounding and
    clamping. The quotient is rounded if the zero point is added after rounding. For
    arguments and errors see
    [`quantize_blocks`][xdsl_quant.numerics.block_scaled.quantize_blocks].

    Returns:
        a new array with dtype `parameters.elements.expressed_dtype`.
    """
    check_unmasked(expressed_values, "expressed values")
    array = np.asarray(expressed_values)
    elements = parameters.elements
    if array.dtype != parameters.expressed_dtype:
        raise TypeError(
            f"expected expressed values with dtype {parameters.expressed_dtype}, found "
            f"{array.dtype}"
        )
    check_rounding(rounding)
    has_zero_points = parameters.zero_points is not None
    is_integer = not elements.has_codes
    if reason := rounding.unsupported(elements.storage, is_integer, has_zero_points):
        raise ValueError(reason)
    values = np.array(array, elements.expressed_dtype)
    view, numbers = _with_numbers(values, parameters)
    with np.errstate(all="ignore"):
        if "offsets" in numbers:
            view -= numbers["offsets"]
        view /= numbers["scales"]
        view[np.broadcast_to(numbers["scales"] == 0, view.shape)] = 0
        if has_zero_points:
            if rounding.zero_point_order == "after-rounding":
                view[...] = _rounded_quotients(view, rounding)
            view += numbers["zero_points"]
    return values


def _rounded_quotients(values: Array, rounding: Rounding) -> Array:
    if rounding.mode == "nearest-even":
        return np.rint(values)
    truncated = np.trunc(values)
    # The difference is exact.
    is_half = np.abs(values - truncated) >= 0.5
    return truncated + np.copysign(is_half.astype(values.dtype), values)
