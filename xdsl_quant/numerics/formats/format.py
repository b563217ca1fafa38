"""What all named formats have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from ..arrays import Array
from .block_scaled import BlockScaled, Shape


@dataclass(frozen=True)
class Format(ABC):
    """A format: how values become codes with scales, and how these become bytes."""

    name: str
    """The name that its users know, e.g. `MXFP4` or `Q4_K`."""

    type: str
    """The type of an element: see `Stored.type`."""

    block: int
    """How many elements a block has, along the last dimension unless it says otherwise."""

    @abstractmethod
    def quantize(self, values: ArrayLike) -> BlockScaled:
        """
        Store values in this format.

        Args:
            values: an array of at least one dimension, which is rounded to f32.

        Raises:
            TypeError: if values are no numbers.
            ValueError: if the format has no such values or no such shape.
        """

    @abstractmethod
    def pack(self, stored: BlockScaled) -> dict[str, Array]:
        """
        The bytes of what is stored in this format, as its files or its library have them.

        Returns:
            arrays by their names in that library.

        Raises:
            ValueError: if it is stored in another format.
        """

    @abstractmethod
    def unpack(self, packed: Mapping[str, Array]) -> BlockScaled:
        """
        What is stored in arrays as [`pack`][xdsl_quant.numerics.formats.Format.pack]
        returns them.

        Raises:
            ValueError: if an array is missing or of another shape than the format has.
        """

    def block_shape(self, rank: int) -> Shape:
        """The shape of a block of an array of a rank."""
        return (*(1,) * (rank - 1), self.block)

    def check(self, stored: BlockScaled):
        """Raise a `ValueError` if something is stored in another format."""
        expected = self.block_shape(len(stored.shape))
        if (stored.type, stored.block_shape) != (self.type, expected):
            raise ValueError(
                f"{self.name} has elements of type {self.type} in blocks of shape "
                f"{expected}, found {stored.type} in blocks of shape "
                f"{stored.block_shape}"
            )

    def arrays(self, packed: Mapping[str, Array], *names: str) -> list[Array]:
        """
        Packed arrays by their names.

        Raises:
            ValueError: if one is missing.
        """
        if missing := [name for name in names if name not in packed]:
            raise ValueError(
                f"{self.name} is packed into {', '.join(names)}, missing "
                f"{', '.join(missing)}"
            )
        return [packed[name] for name in names]
