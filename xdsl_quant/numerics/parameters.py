"""What turns expressed values into stored ones and back: `QuantizationParameters`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arguments import numbers
from .float_dtypes import float_dtype, float_info
from .storage import storage_range

if TYPE_CHECKING:
    from xdsl_quant.dialects.quant.types import QuantizedType, UniformType


@dataclass(frozen=True, init=False, eq=False)
class QuantizationParameters:
    """
    How expressed values become stored ones: `stored = expressed / scale + zero_point`,
    rounded and limited to the storage range.

    Parameters are equal if all their fields are. The arrays are read-only.
    """

    scales: NDArray[np.float64]
    """
    One scale for all values (shape `()`), one for each index of the quantized dimension
    (shape `(n,)`), or one for each block (a dimension for each one of the tensor, or for
    each one that has a block size).
    """

    zero_points: NDArray[np.int64]
    """The stored values that express 0, in the shape of `scales`."""

    storage: str
    """The storage type, e.g. `i8` or `u4`."""

    storage_min: int
    """Smallest stored value."""

    storage_max: int
    """Largest stored value."""

    expressed: str
    """The expressed type, e.g. `f32` or `bf16`."""

    quantized_dimension: int | None
    """The dimension along which the scale changes, for one scale an index."""

    block_sizes: tuple[tuple[int, int], ...] | None
    """
    Pairs of a dimension and the size of a block along it, for one scale a block. A
    dimension that has no block size is one block.
    """

    def __init__(
        self,
        scales: ArrayLike,
        zero_points: ArrayLike = 0,
        *,
        storage: str = "i8",
        storage_min: int | None = None,
        storage_max: int | None = None,
        expressed: str = "f32",
        quantized_dimension: int | None = None,
        block_sizes: Mapping[int, int] | Iterable[tuple[int, int]] | None = None,
    ):
        """
        Args:
            scales: positive numbers in the range of the expressed type.
            zero_points: integers of the storage type, one or as many as scales.
            storage: `i1` to `i32`, `u1` to `u32`, or `si8` and the like.
            storage_min: smallest stored value, by default that of `storage`.
            storage_max: largest stored value, by default that of `storage`.
            expressed: an MLIR float type, e.g. `f32`.
            quantized_dimension: for one-dimensional `scales`, unless they are blocks.
            block_sizes: the size of a block along each dimension that is cut into
                blocks; `scales` has as many dimensions as the tensor then.

        Raises:
            ValueError: if the parameters contradict each other or are out of range.
            TypeError: if an argument is of the wrong type, e.g. zero points that are no
                integers.
            ImportError: if the expressed type needs `ml_dtypes`.
        """
        low, high = storage_range(storage)
        if not isinstance(cast(object, expressed), str):
            raise TypeError(
                f"expressed type is {expressed!r}, but must be a text, e.g. 'f32'"
            )
        fields: dict[str, Any] = {
            "storage": storage,
            "storage_min": low if storage_min is None else storage_min,
            "storage_max": high if storage_max is None else storage_max,
            "expressed": expressed,
            "quantized_dimension": quantized_dimension,
            "block_sizes": None if block_sizes is None else _pairs(block_sizes),
        }
        for name in ("storage_min", "storage_max", "quantized_dimension"):
            if (value := fields[name]) is not None:
                fields[name] = _integer(value, name)
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        self._check_storage_range(low, high)
        scale_array = numbers(scales, "scales", "iuf").astype(np.float64)
        zero_point_array = _integers(zero_points, low, high, storage)
        if zero_point_array.ndim == 0:
            zero_point_array = np.full(scale_array.shape, zero_point_array)
        for array in (scale_array, zero_point_array):
            array.setflags(write=False)
        object.__setattr__(self, "scales", scale_array)
        object.__setattr__(self, "zero_points", zero_point_array)
        self._check_shapes()
        self._check_scales()

    # Checks

    def _check_storage_range(self, low: int, high: int) -> None:
        if not low <= self.storage_min < self.storage_max <= high:
            raise ValueError(
                f"storage range {self.storage_min} to {self.storage_max} is no part of "
                f"'{self.storage}', whose values are {low} to {high}"
            )

    def _check_shapes(self) -> None:
        shape = self.scales.shape
        if self.zero_points.shape != shape:
            raise ValueError(
                f"zero points have shape {self.zero_points.shape}, but scales have shape "
                f"{shape}"
            )
        if not self.scales.size:
            raise ValueError("there are no scales, at least one is needed")
        if self.block_sizes is not None:
            return self._check_block_sizes(self.block_sizes)
        if self.quantized_dimension is None:
            if shape:
                raise ValueError(
                    f"scales of shape {shape} need a quantized_dimension or block_sizes"
                )
            return None
        if self.quantized_dimension < 0:
            raise ValueError(
                f"quantized dimension {self.quantized_dimension} is negative, count "
                "dimensions from 0"
            )
        if len(shape) != 1:
            raise ValueError(
                f"scales along a quantized dimension have one dimension, not shape {shape}"
            )
        return None

    def _check_block_sizes(self, block_sizes: tuple[tuple[int, int], ...]) -> None:
        if self.quantized_dimension is not None:
            raise ValueError(
                "parameters have a quantized_dimension or block_sizes, not both"
            )
        shape = self.scales.shape
        dimensions = {dimension for dimension, _ in block_sizes}
        if len(dimensions) != len(block_sizes) or min(dimensions, default=0) < 0:
            raise ValueError(
                f"block sizes {block_sizes} must have different dimensions from 0"
            )
        for _, size in block_sizes:
            if size <= 0:
                raise ValueError(f"block size {size} is not positive")
        if len(shape) == len(dimensions):
            # Compact scales have no dimension for what is not cut into blocks.
            return
        if max(dimensions, default=0) >= len(shape):
            raise ValueError(
                f"scales have shape {shape}, but must have a dimension for each one of "
                f"the tensor or for each one with a block size, {sorted(dimensions)}"
            )
        for dimension, count in enumerate(shape):
            if dimension not in dimensions and count != 1:
                raise ValueError(
                    f"dimension {dimension} has {count} scales, but no block size"
                )

    def _check_scales(self) -> None:
        info = float_info(self.expressed_dtype)
        smallest, largest = float(info.smallest_subnormal), float(info.max)
        # Comparisons with NaN are false.
        if self.scales.min() >= smallest and self.scales.max() <= largest:
            return
        wrong = ~((self.scales >= smallest) & (self.scales <= largest))
        position = np.unravel_index(int(wrong.argmax()), self.scales.shape)
        where = f" at index {tuple(map(int, position))}" if position else ""
        raise ValueError(
            f"scale {self.scales[position]}{where} is out of the range of expressed type "
            f"'{self.expressed}', {smallest:g} to {largest:g}"
        )

    # What follows from the fields

    @cached_property
    def is_signed(self) -> bool:
        """Whether stored values are signed."""
        return not self.storage.startswith("u")

    @cached_property
    def storage_width(self) -> int:
        """Number of bits of a stored value."""
        return int(self.storage.lstrip("siu"))

    @cached_property
    def storage_dtype(self) -> np.dtype[Any]:
        """
        The smallest integer dtype that holds stored values: `int8` or `uint8` up to 8
        bits, then 16 and 32. Narrow values are sign or zero extended in it.
        """
        bits = next(bits for bits in (8, 16, 32) if self.storage_width <= bits)
        return np.dtype(f"{'int' if self.is_signed else 'uint'}{bits}")

    @cached_property
    def has_zero_points(self) -> bool:
        """Whether any zero point is not 0."""
        return bool(self.zero_points.any())

    @cached_property
    def expressed_dtype(self) -> np.dtype[Any]:
        """The dtype of expressed values; `ml_dtypes` has those that NumPy lacks."""
        return float_dtype(self.expressed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuantizationParameters):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return (
            self.scales.shape,
            self.scales.tobytes(),
            self.zero_points.tobytes(),
            self.storage,
            self.storage_min,
            self.storage_max,
            self.expressed,
            self.quantized_dimension,
            self.block_sizes,
        )

    # Conversion

    @classmethod
    def from_type(cls, quantized_type: QuantizedType) -> Self:
        """
        The parameters of a type.

        Raises:
            TypeError: if it is no type.
            ValueError: if it is not a `!quant.uniform` or `!quant.fixed_point` type, or
                what it says is not possible in NumPy, e.g. expressed values of type
                `f80`.
        """
        from .type_conversion import parameters_of_type

        return cls(**parameters_of_type(quantized_type))

    def to_type(self) -> UniformType:
        """
        The `!quant.uniform` type with these parameters. This needs xDSL, unlike all else
        here.
        """
        from .type_conversion import type_of_parameters

        return type_of_parameters(self)


def check_parameters(value: object) -> None:
    """Raise a `TypeError` if a value is no `QuantizationParameters`."""
    if isinstance(value, QuantizationParameters):
        return
    # Types are known by their name, so that xDSL is not imported for them.
    is_type = str(getattr(value, "name", "")).startswith("quant.")
    hint = "; use QuantizationParameters.from_type" if is_type else ""
    raise TypeError(
        f"parameters must be QuantizationParameters, not {type(value).__name__}{hint}"
    )


def _integer(value: SupportsIndex, what: str) -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{what} is {value!r}, but must be an integer") from None


def _pairs(
    block_sizes: Mapping[int, int] | Iterable[tuple[int, int]],
) -> tuple[tuple[int, int], ...]:
    pairs: Iterable[tuple[int, int]] = (
        cast("Mapping[int, int]", block_sizes).items()
        if isinstance(block_sizes, Mapping)
        else block_sizes
    )
    try:
        pairs = [(dimension, size) for dimension, size in pairs]
    except (TypeError, ValueError):
        raise TypeError(
            f"block sizes are {block_sizes!r}, but must be a mapping, or pairs, of a "
            "dimension and a size"
        ) from None
    return tuple(
        (
            _integer(dimension, "dimension of a block size"),
            _integer(size, "block size"),
        )
        for dimension, size in pairs
    )


def _integers(values: ArrayLike, low: int, high: int, storage: str) -> NDArray[Any]:
    array = numbers(values, "zero points", "iu")
    for zero_point in (int(array.min()), int(array.max())) if array.size else ():
        if not low <= zero_point <= high:
            raise ValueError(
                f"zero point {zero_point} does not fit storage type '{storage}', whose "
                f"values are {low} to {high}"
            )
    return array.astype(np.int64)
