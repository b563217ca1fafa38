"""Base class of the named formats."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array
from .block_scaled import (
    BlockScaled,
    ParameterTypes,
    Shape,
    Stored,
    check_block_scaled,
    is_positive_integer,
)


@dataclass(frozen=True)
class Format(ABC):
    """Named format: it quantizes values to codes and scales, and packs both."""

    name: str
    """Common name, e.g. `MXFP4` or `Q4_K`."""

    type: str
    """Type of an element: see `Stored.type`."""

    block: int
    """Number of elements in a block, along the last dimension by default."""

    def __post_init__(self):
        if not is_positive_integer(self.block):
            raise ValueError(
                f"expected a positive integer as block size of {self.name}, found "
                f"{self.block!r}"
            )

    @abstractmethod
    def quantize(self, values: ArrayLike) -> BlockScaled:
        """
        Quantize values to this format.

        Args:
            values: an array of at least one dimension, which is rounded to f32.

        Warns:
            RuntimeWarning: if nonzero values of a block all become 0.

        Raises:
            TypeError: if values are not numeric.
            ValueError: if the format does not support the shape or a value.
        """

    @abstractmethod
    def pack(self, stored: BlockScaled) -> dict[str, Array]:
        """
        Pack codes and scales into the byte layout of the format's files or library.

        Returns:
            arrays by name, as in the files or library.

        Raises:
            TypeError: if `stored` is not a `BlockScaled`.
            ValueError: if `stored` has another format.
        """

    @abstractmethod
    def unpack(self, packed: Mapping[str, Array]) -> BlockScaled:
        """
        Unpack arrays returned by [`pack`][xdsl_quant.numerics.formats.Format.pack].

        Raises:
            ValueError: if an array is missing or its shape does not match the format.
        """

    @property
    @abstractmethod
    def parameter_types(self) -> Sequence[ParameterTypes]:
        """Supported combinations of the types of block parameters."""

    def block_shape(self, rank: int) -> Shape:
        """Return the shape of a block in an array of the given rank."""
        return (*(1,) * (rank - 1), self.block)

    def stored(
        self,
        codes: Array,
        scales: Stored,
        zero_points: Stored | None = None,
        offsets: Stored | None = None,
    ) -> BlockScaled:
        """Build an array of this format from its codes and block parameters."""
        return BlockScaled(
            codes,
            self.type,
            block_shape=self.block_shape(codes.ndim),
            scales=scales,
            zero_points=zero_points,
            offsets=offsets,
        )

    def independent_block_shape(self, stored: BlockScaled) -> Shape:
        """Return the shape of blocks with independent scales, e.g. super-blocks."""
        return stored.block_shape

    def warn_of_zeros(self, values: ArrayLike, stored: BlockScaled) -> BlockScaled:
        """Warn if nonzero values with a common scale all became 0; return `stored`."""
        shape = self.independent_block_shape(stored)
        largest = _largest_of_blocks(values, shape)
        is_lost = (largest > 0) & (_largest_of_blocks(stored.dequantize(), shape) == 0)
        if is_lost.any():
            warnings.warn(
                f"{self.name} stores values as zeros: their largest magnitude is "
                f"{largest[is_lost].max():.3g}; scale the values or use another format",
                RuntimeWarning,
                stacklevel=3,
            )
        return stored

    def check(self, stored: BlockScaled):
        """
        Check the format of `stored`.

        Raises:
            TypeError: if `stored` is not a `BlockScaled`.
            ValueError: if `stored` has another format.
        """
        check_block_scaled(stored)
        self.check_elements(stored)
        self.check_parameters(stored)

    def check_elements(self, stored: BlockScaled):
        """Raise a `ValueError` if `stored` has another element type or block shape."""
        expected = self.block_shape(len(stored.shape))
        if (stored.type, stored.block_shape) != (self.type, expected):
            raise ValueError(
                f"expected elements of type {self.type} in blocks of shape {expected} for "
                f"{self.name}, found {stored.type} in blocks of shape {stored.block_shape}"
            )

    def check_parameters(self, stored: BlockScaled):
        """Raise a `ValueError` for unsupported types of scales, zero points or offsets."""
        if (types := stored.parameter_types) not in self.parameter_types:
            expected = " or ".join(map(_parameters_text, self.parameter_types))
            raise ValueError(
                f"expected blocks with {expected} for {self.name}, found "
                f"{_parameters_text(types)}"
            )

    def arrays(self, packed: Mapping[str, Array], *names: str) -> list[Array]:
        """Return packed arrays by name, or raise a `ValueError` if an array is missing."""
        if missing := [name for name in names if name not in packed]:
            raise ValueError(
                f"missing arrays of {self.name}: {', '.join(missing)}; expected "
                f"{', '.join(names)}"
            )
        return [np.asarray(packed[name]) for name in names]


def _largest_of_blocks(values: ArrayLike, block_shape: Shape) -> Array:
    largest = np.abs(np.asarray(values))
    for axis, (size, block) in enumerate(zip(largest.shape, block_shape, strict=True)):
        if block > 1:
            largest = np.maximum.reduceat(largest, range(0, size, block), axis)
    return largest.astype(np.float64)


def _parameters_text(types: ParameterTypes) -> str:
    return ", ".join(
        f"{name} of {' times '.join(type_names)}" for name, type_names in types.items()
    )
