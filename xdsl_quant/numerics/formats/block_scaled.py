"""Arrays in blocks with scales that are stored values themselves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, Floats, check_bounds, check_unmasked
from ..parameters import MAX_STORAGE_BITS, storage_range
from ..small_floats import SMALL_FLOATS

F32 = NDArray[np.float32]
Shape = tuple[int, ...]

ParameterTypes = Mapping[str, tuple[str, ...]]
"""Types of block parameters, e.g. `scales`, by name: see `Stored.types`."""

_FLOAT_DTYPES = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}


@dataclass(frozen=True, eq=False)
class Stored:
    """Stored numbers: an array of codes, and the type of the codes."""

    codes: Array
    """Unpacked codes: integers, floats, or the bits of floats up to 8 bits as `uint8`."""

    type: str
    """MLIR name of an integer or float type, e.g. `i4`, `u6`, `f16` or `f8E4M3FN`."""

    table: tuple[float, ...] | None = None
    """Table of numbers if codes are indices (see `!quant.quantile`), otherwise `None`."""

    def __post_init__(self):
        if not isinstance(cast(object, self.codes), np.ndarray):
            raise TypeError(
                f"expected an array of codes, found {type(self.codes).__name__}"
            )
        check_unmasked(self.codes, "codes")
        name, width = self.codes.dtype.name, code_width(self.type)
        if (expected := _FLOAT_DTYPES.get(self.type)) is not None:
            is_right = name == expected
        elif self.type in SMALL_FLOATS:
            is_right, expected = name == "uint8", "uint8"
        else:
            is_right, expected = self.codes.dtype.kind in "iu", "integers"
        if not is_right:
            raise ValueError(
                f"expected {expected} for codes of type {self.type}, found {name}"
            )
        if self.table is not None:
            self._check_codes(0, min(len(self.table), 1 << width) - 1)
        elif self.type in SMALL_FLOATS:
            self._check_codes(0, (1 << width) - 1)
        elif expected == "integers":
            self._check_codes(*storage_range(self.type))

    def _check_codes(self, low: int, high: int) -> None:
        what = self.type if self.table is None else f"{self.type} in a table"
        check_bounds(
            self.codes,
            low,
            high,
            f"expected codes of type {what} from {low} to {high}, found {{}}",
        )

    @property
    def types(self) -> tuple[str, ...]:
        """Type of the codes, of their scales, of the scales' scales, and so on."""
        return (self.type,)

    @property
    def shape(self) -> Shape:
        """Shape of the codes and of the numbers."""
        return self.codes.shape

    def elements(self) -> F32:
        """Return the unscaled numbers that the codes represent."""
        if self.table is not None:
            return np.array(self.table, np.float32)[self.codes]
        if (small := SMALL_FLOATS.get(self.type)) is not None:
            return small.decode(self.codes)
        return self.codes.astype(np.float32)

    def dequantize(self) -> F32:
        """Return the stored numbers, as a new array with dtype `float32`."""
        return self.elements()


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockScaled(Stored):
    """
    Numbers `(element - zero point) * scale + offset` in blocks. Each block has a scale and,
    optionally, a zero point and an offset.

    The result of each operation is rounded to f32. Scales and offsets may be block-scaled
    themselves, as in super-blocks.
    """

    block_shape: Shape
    """Shape of a block, one size per dimension. Last blocks may be shorter."""

    scales: Stored
    """Scale of each block; the shape is the number of blocks along each dimension."""

    zero_points: Stored | None = None
    """Integers in the shape of `scales`."""

    offsets: Stored | None = None
    """Offsets in the shape of `scales`."""

    def __post_init__(self):
        super().__post_init__()
        counts = block_counts(self.shape, self.block_shape)
        for name in ("scales", "zero_points", "offsets"):
            numbers = cast(object, getattr(self, name))
            if numbers is None and name != "scales":
                continue
            if not isinstance(numbers, Stored):
                raise TypeError(
                    f"expected Stored or BlockScaled as {name}, found "
                    f"{type(numbers).__name__}; use Stored(array, type)"
                )
            if numbers.shape != counts:
                raise ValueError(
                    f"expected {name} of shape {counts} for codes of shape {self.shape} in "
                    f"blocks of shape {self.block_shape}, found {numbers.shape}"
                )

    @property
    def types(self) -> tuple[str, ...]:
        return (self.type, *self.scales.types)

    @property
    def parameter_types(self) -> ParameterTypes:
        """Types of scales and, if present, zero points and offsets."""
        parts = {
            "scales": self.scales,
            "zero points": self.zero_points,
            "offsets": self.offsets,
        }
        return {name: part.types for name, part in parts.items() if part is not None}

    def dequantize(self) -> F32:
        """Return the dequantized numbers, as a new array with dtype `float32`."""
        numbers = self.elements()
        # Stored numbers may be infinite or NaN.
        with np.errstate(all="ignore"):
            if self.zero_points is not None:
                numbers -= self.repeat_along_blocks(self.zero_points.dequantize())
            numbers *= self.repeat_along_blocks(self.scales.dequantize())
            if self.offsets is not None:
                numbers += self.repeat_along_blocks(self.offsets.dequantize())
        return numbers

    def repeat_along_blocks(self, numbers: Array) -> Array:
        """Repeat each block's parameter for its elements; the result broadcasts."""
        return repeat_along_blocks(numbers, self.shape, self.block_shape)

    @property
    def bits(self) -> float:
        """Average bits per element, with scales, zero points and offsets included."""
        return stored_bits(self) / self.codes.size


def stored_bits(stored: Stored) -> int:
    """Return the number of bits of all codes and of their block parameters."""
    bits = stored.codes.size * code_width(stored.type)
    if not isinstance(stored, BlockScaled):
        return bits
    parts = stored.scales, stored.zero_points, stored.offsets
    return bits + sum(stored_bits(part) for part in parts if part is not None)


def code_width(type_name: str) -> int:
    """
    Return the width of a type, e.g. 6 for `u6`, or raise a `ValueError` if it is unknown.
    """
    if (small := SMALL_FLOATS.get(type_name)) is not None:
        return small.bits
    if type_name in _FLOAT_DTYPES:
        return int(type_name.lstrip("bf"))
    try:
        low, high = storage_range(type_name)
    except ValueError:
        floats = ", ".join((*_FLOAT_DTYPES, *SMALL_FLOATS))
        raise ValueError(
            f"unknown type of codes '{type_name}', available: i1 to "
            f"i{MAX_STORAGE_BITS}, u1 to u{MAX_STORAGE_BITS}, {floats}"
        ) from None
    return (high - low).bit_length()


def block_counts(shape: Shape, block_shape: Shape) -> Shape:
    """
    Return the number of blocks along each dimension.

    Raises:
        ValueError: if a block size is not positive, or the ranks differ.
    """
    is_tuple = isinstance(cast(object, block_shape), tuple)
    if (
        not is_tuple
        or len(shape) != len(block_shape)
        or not all(map(is_positive_integer, block_shape))
    ):
        raise ValueError(
            "expected a tuple of positive block sizes, one for each dimension of shape "
            f"{shape}, found {block_shape!r}"
        )
    return tuple(
        -(-size // block) for size, block in zip(shape, block_shape, strict=True)
    )


def is_positive_integer(size: object) -> bool:
    """Return True for valid block sizes."""
    return isinstance(size, int | np.integer) and bool(cast(Any, size) > 0)


def repeat_along_blocks(numbers: Array, shape: Shape, block_shape: Shape) -> Array:
    """Repeat each block's parameter for its elements; the result broadcasts to `shape`."""
    for axis, (size, block) in enumerate(zip(shape, block_shape, strict=True)):
        if 1 < block and numbers.shape[axis] > 1:
            numbers = numbers.repeat(block, axis).take(range(size), axis)
    return numbers


# Values to quantize


def f32_values(values: ArrayLike) -> F32:
    """
    Convert values to f32.

    Raises:
        TypeError: if values are not numeric.
        ValueError: if values are empty or a scalar.
    """
    check_unmasked(values, "values")
    array: Array = np.asarray(values)
    if array.dtype.kind not in "iuf" and array.dtype.name != "bfloat16":
        raise TypeError(f"expected numbers as values, found dtype {array.dtype}")
    if not array.ndim:
        raise ValueError("expected values with at least one dimension, found a number")
    if not array.size:
        raise ValueError(f"expected at least one value, found shape {array.shape}")
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def blocks_of_rows(values: F32, size: int, name: str) -> F32:
    """Split rows into blocks, or raise a `ValueError` if the last block is shorter."""
    if values.shape[-1] % size:
        raise ValueError(
            f"the last dimension must be a multiple of {size}, the block size of {name}, "
            f"found shape {values.shape}"
        )
    return values.reshape(*values.shape[:-1], values.shape[-1] // size, size)


def to_f16(numbers: F32 | Floats, what: str, first: int = 0) -> NDArray[np.float16]:
    """
    Round block parameters to f16.

    Args:
        numbers: one number per block.
        what: a noun for the numbers, e.g. `a scale of Q4_0`.
        first: the index of the first block, for the error message.

    Raises:
        ValueError: if a number overflows f16.
    """
    with np.errstate(over="ignore"):
        rounded = numbers.astype(np.float16)
    wrong = np.flatnonzero(~np.isfinite(rounded))
    if wrong.size:
        raise ValueError(
            f"{what} is not representable in f16, found {numbers.flat[wrong[0]]} for block "
            f"{first + wrong[0]} in row-major order; divide the values by a constant"
        )
    return rounded


def check_block_scaled(stored: object) -> None:
    """Raise a `TypeError` if `stored` is not a `BlockScaled`."""
    if not isinstance(stored, BlockScaled):
        raise TypeError(
            f"expected a BlockScaled, found {type(stored).__name__}; use the result of "
            "'quantize' or 'unpack' of a format"
        )
