"""Quantization parameters: scales, zero points, and storage types with their ranges."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from functools import cached_property
from operator import index
from typing import Protocol, Self, SupportsIndex, TypedDict, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, DType, Floats, Integers, check_bounds, element_text, numbers
from .float_dtypes import code_dtype, float_dtype, float_info, nearest_floats
from .small_floats import SMALL_FLOATS, SmallFloat

MAX_STORAGE_BITS = 32
"""Maximum width of storage types."""

_STORAGE = re.compile(r"(?P<signedness>i|si|u|ui)(?P<width>[1-9][0-9]?)")


def storage_range(storage: str) -> tuple[int, int]:
    """
    Return the smallest and the largest integer of a storage type, e.g. -8 and 7 for `i4`,
    or -448 and 448 for `f8E4M3FN`.

    Raises:
        ValueError: if `storage` is not a small float or an integer type of 1 to 32 bits.
        TypeError: if `storage` is not a string.
    """
    if not isinstance(cast(object, storage), str):
        raise TypeError(f"expected a storage type, e.g. 'i8', found {storage!r}")
    if (format := SMALL_FLOATS.get(storage)) is not None:
        largest = int(format.largest)
        return -largest if format.is_signed else 0, largest
    match = _STORAGE.fullmatch(storage)
    if match is None or int(match["width"]) > MAX_STORAGE_BITS:
        raise ValueError(
            f"unknown storage type '{storage}', available: 'i1' to 'i{MAX_STORAGE_BITS}', "
            f"'u1' to 'u{MAX_STORAGE_BITS}', and float types, e.g. 'f8E4M3FN'"
        )
    width = int(match["width"])
    if match["signedness"] in ("u", "ui"):
        return 0, (1 << width) - 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def storage_bounds(
    storage: str,
    full_range: tuple[int, int],
    storage_min: SupportsIndex | None,
    storage_max: SupportsIndex | None,
) -> tuple[int, int]:
    """
    Return the storage range, by default the full range.

    Raises:
        ValueError: if the range exceeds the full range, or has fewer than two values.
        TypeError: if a bound is not an integer.
    """
    low, high = full_range
    first = _checked_integer(low if storage_min is None else storage_min, "storage_min")
    last = _checked_integer(high if storage_max is None else storage_max, "storage_max")
    if first >= last:
        raise ValueError(
            f"expected a storage range of at least two values, found {first} to {last}"
        )
    if first < low or last > high:
        raise ValueError(
            f"storage range {first} to {last} exceeds '{storage}'; expected values "
            f"from {low} to {high}"
        )
    return first, last


def check_storable(values: Array, storage: str, what: str) -> None:
    """Raise a `ValueError` if an integer is out of range of a storage type."""
    low, high = storage_range(storage)
    check_bounds(
        values,
        low,
        high,
        f"{what} {{}} is not representable in '{storage}'; expected {low} to {high}",
    )


class NamedType(Protocol):
    @property
    def name(self) -> str:
        """Name of the type, e.g. `f32`."""
        ...


class StoredType(Protocol):
    """Protocol for quantized types: the members that describe the storage."""

    @property
    def name(self) -> str: ...
    @property
    def storage_type(self) -> object: ...
    @property
    def storage_type_name(self) -> str: ...
    @property
    def storage_range(self) -> tuple[int, int]: ...
    @property
    def is_signed(self) -> bool: ...


class ScaledType(StoredType, Protocol):
    """Protocol for types with scales: the members for storage, scales and zero points."""

    @property
    def expressed_type(self) -> NamedType: ...
    @property
    def axis(self) -> int | None: ...
    @property
    def block_size_info(self) -> tuple[tuple[int, int], ...]: ...
    def get_scales(self) -> Floats: ...
    def get_zero_points(self) -> Integers: ...


class TableType(Protocol):
    """Protocol for storage types with table indices: the members for the table."""

    @property
    def quantile_type(self) -> NamedType: ...
    @property
    def bitwidth(self) -> int: ...
    @property
    def storage_range(self) -> tuple[int, int]: ...
    def quantile_array(self) -> Iterable[float]: ...


class StorageArguments(TypedDict, total=False):
    """Arguments of `QuantizationParameters` that describe the storage."""

    storage: str
    storage_min: int | None
    storage_max: int | None
    table: ArrayLike | None
    table_min: int | None


class ParameterOptions(StorageArguments, total=False):
    """Arguments of `QuantizationParameters` after scales and zero points."""

    expressed: str
    quantized_dimension: int | None
    block_sizes: Mapping[int, int] | Iterable[tuple[int, int]] | None


@dataclass(frozen=True, init=False, eq=False)
class QuantizationParameters:
    """
    Parameters of quantization: `stored = expressed / scale + zero_point`, rounded and
    clamped to the storage range.

    Parameters are equal if all their fields are equal. Arrays are read-only.
    """

    scales: Floats
    """
    Scales: one for all values (shape `()`), one per index of the quantized dimension (shape
    `(n,)`), or one per block (with a dimension for each dimension of the tensor, or for
    each dimension with a block size).
    """

    zero_points: Integers
    """Stored values that represent 0, in the shape of `scales`."""

    storage: str
    """Storage type, e.g. `i8`, `u4` or `f8E4M3FN`."""

    storage_min: int
    """Smallest stored value."""

    storage_max: int
    """Largest stored value."""

    table: Floats | None
    """Table of numbers if stored values are indices into it, otherwise `None`."""

    table_min: int
    """Stored value of the first number of the table."""

    expressed: str
    """Expressed type, e.g. `f32` or `bf16`."""

    quantized_dimension: int | None
    """Dimension with one scale per index, otherwise `None`."""

    block_sizes: tuple[tuple[int, int], ...] | None
    """Pairs of dimension and block size, for one scale per block, otherwise `None`."""

    def __init__(
        self,
        scales: ArrayLike,
        zero_points: ArrayLike = 0,
        *,
        storage: str = "i8",
        storage_min: int | None = None,
        storage_max: int | None = None,
        table: ArrayLike | None = None,
        table_min: int | None = None,
        expressed: str = "f32",
        quantized_dimension: int | None = None,
        block_sizes: Mapping[int, int] | Iterable[tuple[int, int]] | None = None,
    ):
        """
        Args:
            scales: positive numbers in the range of the expressed type.
            zero_points: integers of the storage type, one per scale or one for all
                scales; with a table, any integers.
            storage: `i1` to `i32`, `u1` to `u32`, `si8` and the like, or a small float,
                e.g. `f8E4M3FN`.
            storage_min: smallest stored value, by default that of `storage` or of the
                table.
            storage_max: largest stored value, by default that of `storage` or of the table.
            table: finite numbers, if stored values are table indices. `storage` is then the
                integer type of indices.
            table_min: the stored value of the first number of the table, by default the
                smallest one of `storage`.
            expressed: an MLIR float type, e.g. `f32`.
            quantized_dimension: the dimension with one scale per index; `scales` then has
                one dimension.
            block_sizes: the block size by dimension; `scales` then has one dimension for
                each dimension of the tensor, or for each block size.

        Raises:
            ValueError: if the parameters contradict each other or are out of range.
            TypeError: if an argument has the wrong type, e.g. zero points are not integers.
            ImportError: if the expressed type requires `ml_dtypes`.
        """
        # The fields of a frozen dataclass are set through `vars`.
        self._set_storage(storage, storage_min, storage_max, table, table_min)
        self._set_scales(scales, zero_points)
        if not isinstance(cast(object, expressed), str):
            raise TypeError(
                f"expected an expressed type, e.g. 'f32', found {expressed!r}"
            )
        if quantized_dimension is not None:
            quantized_dimension = _checked_integer(
                quantized_dimension, "quantized_dimension"
            )
        vars(self).update(
            expressed=expressed,
            quantized_dimension=quantized_dimension,
            block_sizes=None if block_sizes is None else block_size_pairs(block_sizes),
        )
        self._check_shapes()
        self._check_scales()

    def _set_storage(
        self,
        storage: str,
        storage_min: int | None,
        storage_max: int | None,
        table: ArrayLike | None,
        table_min: int | None,
    ) -> None:
        full_range = storage_range(storage)
        if table is not None:
            full_range, table = _checked_table(table, table_min, storage, full_range)
        first, last = storage_bounds(storage, full_range, storage_min, storage_max)
        vars(self).update(
            storage=storage,
            storage_min=first,
            storage_max=last,
            table=table,
            table_min=full_range[0],
        )

    def _set_scales(self, scales: ArrayLike, zero_points: ArrayLike) -> None:
        scale_array = numbers(scales, "scales", "iuf").astype(np.float64)
        zero_point_array = numbers(zero_points, "zero points", "iu")
        if self.table is None:
            check_storable(zero_point_array, self.storage, "zero point")
        zero_point_array = zero_point_array.astype(np.int64)
        if zero_point_array.ndim == 0:
            zero_point_array = np.full(scale_array.shape, zero_point_array)
        for array in (scale_array, zero_point_array):
            array.setflags(write=False)
        vars(self).update(scales=scale_array, zero_points=zero_point_array)

    # Checks

    def _check_shapes(self) -> None:
        shape, dimension = self.scales.shape, self.quantized_dimension
        if self.zero_points.shape != shape:
            raise ValueError(
                f"expected zero points of shape {shape}, found {self.zero_points.shape}"
            )
        if not self.scales.size:
            raise ValueError(f"expected at least one scale, found shape {shape}")
        if self.block_sizes is not None:
            if dimension is not None:
                raise ValueError(
                    "expected either quantized_dimension or block_sizes, found both"
                )
            _check_block_sizes(self.block_sizes, shape)
        elif dimension is None and shape:
            raise ValueError(
                f"missing quantized_dimension or block_sizes for scales of shape {shape}"
            )
        elif dimension is not None and dimension < 0:
            raise ValueError(
                f"expected a quantized dimension of at least 0, found {dimension}"
            )
        elif dimension is not None and len(shape) != 1:
            raise ValueError(f"expected one-dimensional scales, found shape {shape}")

    def _check_scales(self) -> None:
        info = float_info(self.expressed_dtype)
        smallest, largest = float(info.smallest_subnormal), float(info.max)
        # A NaN is reported below, because comparisons with NaN are false.
        if self.scales.min() >= smallest and self.scales.max() <= largest:
            return
        is_invalid = ~((self.scales >= smallest) & (self.scales <= largest))
        raise ValueError(
            f"scale {element_text(self.scales, is_invalid)} is out of the range of "
            f"expressed type '{self.expressed}', {smallest:g} to {largest:g}"
        )

    # Derived properties

    @cached_property
    def is_signed(self) -> bool:
        """True if stored values are signed."""
        if self.small_float is not None:
            return self.small_float.is_signed
        return not self.storage.startswith("u")

    @cached_property
    def small_float(self) -> SmallFloat | None:
        """Float format if stored values are codes of floats, otherwise `None`."""
        return SMALL_FLOATS.get(self.storage)

    @property
    def has_codes(self) -> bool:
        """True if stored values are codes of floats or table indices."""
        return self.small_float is not None or self.table is not None

    @cached_property
    def storage_width(self) -> int:
        """Number of bits of a stored value."""
        if self.small_float is not None:
            return self.small_float.bits
        return int(self.storage.lstrip("siu"))

    @cached_property
    def storage_dtype(self) -> DType:
        """
        Dtype of stored values: for integers and table indices, the narrowest one from
        `int8` or `uint8` up to 32 bits; for codes of floats, a dtype of `ml_dtypes`, or
        `uint8` if `ml_dtypes` is not installed.
        """
        if self.small_float is not None:
            return code_dtype(self.storage)
        bits = next(bits for bits in (8, 16, 32) if self.storage_width <= bits)
        return np.dtype(f"{'int' if self.is_signed else 'uint'}{bits}")

    @cached_property
    def has_zero_points(self) -> bool:
        """True if any zero point is not 0."""
        return bool(self.zero_points.any())

    @cached_property
    def zero_point_range(self) -> tuple[int, int]:
        """Smallest and largest zero point for which the computation must be exact."""
        return int(self.zero_points.min()), int(self.zero_points.max())

    @cached_property
    def expressed_dtype(self) -> DType:
        """Dtype of expressed values, from NumPy or `ml_dtypes`."""
        return float_dtype(self.expressed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuantizationParameters):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        values = (getattr(self, field.name) for field in fields(self))
        return self.scales.shape, *(
            value.tobytes() if isinstance(value, np.ndarray) else value
            for value in values
        )

    # Conversion

    def for_shape(self, shape: tuple[int, ...]) -> QuantizationParameters:
        """
        Return equivalent parameters for arrays of this shape in which all blocks have full
        size. Only [`DynamicParameters`][xdsl_quant.numerics.DynamicParameters] may change,
        because only they may have shorter last blocks.

        Raises:
            ValueError: if a last block is shorter and the number of scales does not match.
        """
        return self

    @classmethod
    def from_type(cls, quantized_type: NamedType) -> Self:
        """
        Return the parameters of a type. This function is the inverse of
        [`uniform_type`][xdsl_quant.dialects.quant.uniform_type].

        Raises:
            TypeError: if `quantized_type` is not a type.
            ValueError: if the type is not `!quant.uniform` or `!quant.fixed_point`, or is
                not representable in NumPy, e.g. because of expressed type `f80`.
        """
        if not isinstance(getattr(quantized_type, "name", None), str):
            raise TypeError(
                f"expected a '!quant.uniform' type, found {type(quantized_type).__name__}"
            )
        if quantized_type.name == "quant.block_scaled":
            raise ValueError(
                "unsupported type '!quant.block_scaled'; use "
                "BlockScaledParameters.from_type"
            )
        if not hasattr(quantized_type, "get_scales"):
            raise ValueError(
                f"type '{quantized_type}' has no scale; use '!quant.uniform'"
            )
        type_ = cast(ScaledType, quantized_type)
        return cls(
            type_.get_scales(),
            type_.get_zero_points(),
            **storage_arguments(type_),
            expressed=type_.expressed_type.name,
            quantized_dimension=type_.axis,
            # Sub-channel types have block sizes, possibly an empty tuple.
            block_sizes=type_.block_size_info
            if hasattr(type_, "scales_shape")
            else None,
        )

    @classmethod
    def from_integer_type(cls, quantized_type: NamedType) -> Self:
        """
        Return the parameters of a type with integer storage: see
        [`from_type`][xdsl_quant.numerics.QuantizationParameters.from_type].

        Raises:
            TypeError: if `quantized_type` is not a type.
            ValueError: as in `from_type`, or if stored values are floats or table indices.
        """
        if (reason := getattr(quantized_type, "unsupported_storage", None)) is not None:
            raise ValueError(reason)
        return cls.from_type(quantized_type)


def storage_arguments(quantized_type: StoredType) -> StorageArguments:
    """
    Return the storage of a type as arguments of
    [`QuantizationParameters`][xdsl_quant.numerics.QuantizationParameters].
    """
    storage_min, storage_max = quantized_type.storage_range
    bounds = StorageArguments(storage_min=storage_min, storage_max=storage_max)
    if not hasattr(quantized_type.storage_type, "quantile_array"):
        return bounds | StorageArguments(storage=quantized_type.storage_type_name)
    table_type = cast(TableType, quantized_type.storage_type)
    # Parsed numbers are f64; round them, because the table type may be narrower.
    values = np.array(table_type.quantile_array())
    name = table_type.quantile_type.name
    table = nearest_floats(values, name)
    if not (is_finite := np.isfinite(table)).all():
        raise ValueError(
            f"table value {element_text(values, ~is_finite)} is not representable in "
            f"{name}; use a wider type"
        )
    table_min, _ = table_type.storage_range
    storage = f"{'i' if quantized_type.is_signed else 'u'}{table_type.bitwidth}"
    return bounds | StorageArguments(storage=storage, table=table, table_min=table_min)


def _checked_table(
    table: ArrayLike, table_min: int | None, storage: str, full_range: tuple[int, int]
) -> tuple[tuple[int, int], Floats]:
    """Return the first and the last index of a table, and the table."""
    values = numbers(table, "table", "iuf").astype(np.float64)
    if storage in SMALL_FLOATS:
        raise ValueError(
            f"unsupported table for storage type '{storage}'; use an integer type"
        )
    if values.ndim != 1 or values.size < 2:
        raise ValueError(
            "expected a table of at least two numbers in one dimension, found shape "
            f"{values.shape}"
        )
    if not (is_finite := np.isfinite(values)).all():
        found = element_text(values, ~is_finite)
        raise ValueError(f"expected finite table values, found {found}")
    low, high = full_range
    first = low if table_min is None else _checked_integer(table_min, "table_min")
    last = first + values.size - 1
    if not low <= first < last <= high:
        raise ValueError(
            f"table indices {first} to {last} exceed '{storage}'; expected values from "
            f"{low} to {high}"
        )
    values.setflags(write=False)
    return (first, last), values


class DynamicParameters(QuantizationParameters):
    """
    Parameters computed at run time, for `quant.dynamic_qcast` and `quant.dynamic_dcast`.

    Scales may be any floats of the expressed type, including 0, negative numbers,
    infinities and NaN. The compute type is wide enough for every zero point of the storage
    type.
    """

    def __init__(
        self,
        scales: ArrayLike,
        zero_points: ArrayLike | None = None,
        **options: Unpack[ParameterOptions],
    ):
        """
        Args:
            scales: floats.
            zero_points: integers of the storage type, one per scale or one for all
                scales; `None` for symmetric quantization, with zero points 0.
            options: the options of `QuantizationParameters`.

        Raises:
            ValueError: if the parameters contradict each other, or zero points are given
                and stored values are codes of floats or table indices.
            TypeError: if an argument has the wrong type.
            ImportError: if the expressed type requires `ml_dtypes`.
        """
        super().__init__(scales, 0 if zero_points is None else zero_points, **options)
        if zero_points is not None and self.has_codes:
            what = "table" if self.small_float is None else f"'{self.storage}'"
            raise ValueError(
                f"unsupported zero points for {what} storage; expected integer storage"
            )
        # The fields of a frozen dataclass are set once, here.
        vars(self).update(
            has_zero_points=zero_points is not None,
            zero_point_range=(
                (0, 0) if zero_points is None else storage_range(self.storage)
            ),
        )

    def _check_scales(self) -> None:
        pass

    def for_shape(self, shape: tuple[int, ...]) -> DynamicParameters:
        blocks = dict(self.block_sizes or ())
        arrays = [self.scales, self.zero_points]
        (scales, zero_points), whole = whole_blocks(arrays, blocks, shape)
        if whole == blocks:
            return self
        result = copy(self)
        vars(result).update(
            scales=scales, zero_points=zero_points, block_sizes=(*whole.items(),)
        )
        return result


def whole_blocks(
    arrays: Sequence[Array], block_sizes: Mapping[int, int], shape: tuple[int, ...]
) -> tuple[Sequence[Array], Mapping[int, int]]:
    """
    Return equivalent block parameters and block sizes without shorter last blocks: along a
    dimension with a shorter last block, blocks have size 1 and parameters are repeated.

    Args:
        arrays: block parameters, in arrays of one shape.
        block_sizes: the block size by dimension.
        shape: the shape of the values.

    Raises:
        ValueError: if a last block is shorter and the number of scales does not match.
    """
    repeated: list[Array] = [*arrays]
    blocks, rank = dict(block_sizes), arrays[0].ndim
    for position, axis in enumerate(
        sorted(blocks) if rank == len(blocks) else range(rank)
    ):
        size = blocks.get(axis, 0)
        if axis >= len(shape) or not size or shape[axis] % size == 0:
            continue
        count, scale_count = -(-shape[axis] // size), repeated[0].shape[position]
        if scale_count != count:
            raise ValueError(
                f"expected {count} scales for blocks of size {size} along dimension "
                f"{axis} of size {shape[axis]}, found {scale_count}"
            )
        indices = np.arange(shape[axis]) // size
        repeated = [array.take(indices, position) for array in repeated]
        blocks[axis] = 1
    return repeated, blocks


def _check_block_sizes(
    block_sizes: tuple[tuple[int, int], ...], shape: tuple[int, ...]
) -> None:
    dimensions = {dimension for dimension, _ in block_sizes}
    if len(dimensions) != len(block_sizes) or any(d < 0 for d in dimensions):
        raise ValueError(
            "expected distinct, non-negative dimensions in block sizes, found "
            f"{block_sizes}"
        )
    for _, size in block_sizes:
        if size <= 0:
            raise ValueError(f"expected a positive block size, found {size}")
    if len(shape) == len(dimensions):
        # Scales may omit the dimensions that have no block size.
        return
    if max(dimensions, default=0) >= len(shape):
        raise ValueError(
            "expected scales of the tensor's rank, or of rank "
            f"{len(dimensions)} for block sizes of dimensions {sorted(dimensions)}, "
            f"found shape {shape}"
        )
    for dimension, count in enumerate(shape):
        if dimension not in dimensions and count != 1:
            raise ValueError(
                f"missing block size of dimension {dimension} with {count} scales"
            )


def _checked_integer(value: SupportsIndex, what: str) -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"expected an integer as {what}, found {value!r}") from None


def block_size_pairs(
    block_sizes: Mapping[int, int] | Iterable[tuple[int, int]],
) -> tuple[tuple[int, int], ...]:
    """Return pairs of dimension and block size."""
    if isinstance(block_sizes, Mapping):
        block_sizes = cast("Mapping[int, int]", block_sizes).items()
    try:
        pairs = [(dimension, size) for dimension, size in block_sizes]
    except (TypeError, ValueError):
        raise TypeError(
            f"expected pairs of dimension and block size, found {block_sizes!r}"
        ) from None
    return tuple(
        (
            _checked_integer(dimension, "dimension of a block size"),
            _checked_integer(size, "block size"),
        )
        for dimension, size in pairs
    )
