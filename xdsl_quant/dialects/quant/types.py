"""
Quantized types: parameters, accessors, conversions, verification and printing.

The parser is in [`type_syntax`][xdsl_quant.dialects.quant.type_syntax].
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import add
from types import UnionType
from typing import TYPE_CHECKING, Literal, Self, TypedDict, Unpack, cast, get_args

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I32,
    AnyFloat,
    DenseArrayBase,
    FloatData,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
    UnrankedTensorType,
    f64,
    i32,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.lexer import Location

from xdsl_quant.diagnostics import warn
from xdsl_quant.rounding_mode import RepresentedNumbers

from .constructor_arguments import (
    FLOATS,
    INTEGERS,
    Floats,
    Ints,
    bool_argument,
    checked_expressed_type,
    elements,
    float_argument,
    float_array,
    floats_attr,
    int_argument,
    int_array,
    ints_attr,
    short_text,
    type_text,
    vector,
    zero_array,
)
from .float_formats import FLOAT_FORMATS, float_format, range_text
from .float_text import float_text, float_texts
from .storage_types import (
    MAX_STORAGE_BITS,
    SIGNED_FLAG,
    FloatStorageType,
    MLIRStorageType,
    QuantileType,
    StorageType,
    default_storage_range,
    is_signed_by_default,
)
from .type_syntax import PER_TENSOR, ScalesText, TypeSyntax, plain_types

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from xdsl_quant.numerics import QuantizationParameters

_signless_integer = cache(IntegerType)

_attribute_text = lru_cache(64)(str)


def numeric():
    """Import and return the module `numeric`."""
    # Imported lazily: NumPy takes longer to import than `xdsl-opt` to start.
    from . import numeric

    return numeric


def with_element_type(type_: Attribute, element_type: TypeAttribute) -> TypeAttribute:
    """Return a tensor type with another element type; for a scalar, `element_type`."""
    if isinstance(type_, TensorType):
        return TensorType(element_type, type_.shape, type_.encoding)
    if isinstance(type_, UnrankedTensorType):
        return UnrankedTensorType(element_type)
    return element_type


def _with_replaced_element_type(
    type_: Attribute, old: Attribute, new: TypeAttribute
) -> TypeAttribute | None:
    """Replace the scalar or element type `old` by `new`; return `None` for other types."""
    if scalar_or_element_type(type_) != old:
        return None
    return with_element_type(type_, new)


def scalar_or_element_type(type_: Attribute) -> Attribute:
    """Return the element type of a tensor type, or the type itself."""
    if isinstance(type_, TensorType | UnrankedTensorType):
        return cast(Attribute, type_.element_type)
    return type_


_CACHES = ("_hash", "_text", "_zero_point_range")


@dataclass(frozen=True, init=False)
class QuantizedType(ParametrizedAttribute, TypeAttribute, ABC):
    """
    Base class of quantized types.

    Abstract subclasses are dataclasses too, so that equality and hash include the
    parameters that they declare.

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/).
    """

    name = "quant.quantized"

    expressed_type: AnyFloat | NoneAttr

    def __init_subclass__(cls) -> None:
        # Dataclasses would generate a hash that is not cached.
        cls.__hash__ = QuantizedType.__hash__

    @abstractmethod
    def text(self) -> str:
        """Return the parameters as MLIR prints them, e.g. `<i8:f32, 5.000000e-01>`."""

    @classmethod
    def new(cls, params: Sequence[Attribute]) -> Self:
        # The parser has already built the type, to report errors with a location.
        if len(params) == 1 and isinstance(parsed := params[0], QuantizedType):
            return cast(Self, parsed)
        return super().new(params)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(self._cached_text)

    @property
    def _cached_text(self) -> str:
        # A type may have a million scales and is printed once per use. The cache is not
        # a field: equality and hash ignore it.
        if (text := self.__dict__.get("_text")) is None:
            text = self.text()
            object.__setattr__(self, "_text", text)
        return text

    def description(self) -> Iterator[tuple[str, object]]:
        """
        Yield names and values of the parameters for display: strings, numbers, and arrays
        of scales and zero points.
        """
        yield "kind", self.name.removeprefix("quant.").replace("_", "-")

    def verify_container(self, container: Attribute) -> None:
        """
        Verify the type of a value: this type itself, or a tensor of it.

        Raises:
            VerifyException: if the scales do not match the shape.
        """

    def _repr_html_(self) -> str:
        from .type_html import type_html

        return type_html(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        # Notebooks store this text beside the HTML: keep it short.
        return {"text/plain": short_text(self)}

    def __hash__(self) -> int:
        # Cached, because CSE and other caches hash types repeatedly.
        if (cached := self.__dict__.get("_hash")) is None:
            cached = hash((type(self), *self.parameters))
            object.__setattr__(self, "_hash", cached)
        return cached

    def __getstate__(self) -> dict[str, object]:
        # Do not pickle cached hashes, which differ between processes.
        return {k: v for k, v in self.__dict__.items() if k not in _CACHES}

    @staticmethod
    def get_quantized_element_type(type_: Attribute) -> QuantizedType | None:
        """Return the type itself, or its element type, if quantized; otherwise `None`."""
        element_type = scalar_or_element_type(type_)
        return element_type if isinstance(element_type, QuantizedType) else None

    def is_compatible_expressed_type(self, candidate: Attribute) -> bool:
        """Return True if `candidate` is the expressed type or a tensor of it."""
        return scalar_or_element_type(candidate) == self.expressed_type

    def cast_from_expressed_type(self, candidate: Attribute) -> TypeAttribute | None:
        """
        Replace the expressed type by this type: `f32` -> `!quant...`, `tensor<4xf32>` ->
        `tensor<4x!quant...>`. Return `None` if `candidate` has another element type.
        """
        return _with_replaced_element_type(candidate, self.expressed_type, self)

    @staticmethod
    def cast_to_expressed_type(quantized: Attribute) -> TypeAttribute | None:
        """
        Replace a quantized type by its expressed type: `!quant...` -> `f32`,
        `tensor<4x!quant...>` -> `tensor<4xf32>`. Return `None` if the type is not quantized
        or has no expressed type.
        """
        element_type = QuantizedType.get_quantized_element_type(quantized)
        if element_type is None or isinstance(element_type.expressed_type, NoneAttr):
            return None
        return with_element_type(quantized, element_type.expressed_type)


@dataclass(frozen=True, init=False)
class StoredQuantizedType(QuantizedType, ABC):
    """
    Base class of quantized types with a storage type: all except `!quant.calibrated` and
    `!quant.none`.
    """

    storage_type: StorageType
    """
    The storage type: an integer, `f8E5M2`, `f8E4M3FN`, `f4E2M1FN` or a
    [`QuantileType`][xdsl_quant.dialects.quant.QuantileType]. Integers spelled `i8` and `u8`
    are signless, `si8` is signed and `ui8` unsigned.
    """

    flags: IntAttr
    """`SIGNED_FLAG` for signed stored values, otherwise 0."""

    storage_type_min: IntAttr

    storage_type_max: IntAttr

    @property
    def common_parameters(self) -> tuple[Attribute, ...]:
        """The leading parameters that all subclasses share."""
        return self.parameters[:5]

    @property
    def is_signed(self) -> bool:
        """True if stored values are signed."""
        return bool(self.flags.data & SIGNED_FLAG)

    @property
    def storage_type_integral_width(self) -> int:
        """Width of a stored value in bits."""
        return self.storage_type.bitwidth

    @property
    def has_integer_storage(self) -> bool:
        """True if the storage type is an integer type."""
        return isinstance(self.storage_type, IntegerType)

    @property
    def short_storage_name(self) -> str:
        """Spelling of the storage type, without the table of a quantile type."""
        type_ = self.storage_type
        if isinstance(type_, QuantileType):
            return f"!{type_.name}<{type_.storage_type}:{type_.quantile_type}, ...>"
        return self.storage_type_name

    @property
    def unsupported_storage(self) -> str | None:
        """Error message if integer ops do not support the storage type, else `None`."""
        if self.has_integer_storage:
            return None
        return (
            f"unsupported storage type '{self.short_storage_name}', expected an integer "
            "type"
        )

    @property
    def storage_range(self) -> tuple[int, int]:
        """Smallest and largest stored value."""
        return self.storage_type_min.data, self.storage_type_max.data

    @property
    def full_storage_range(self) -> tuple[int, int]:
        """Smallest and largest value, or table index, of the storage type."""
        return default_storage_range(self.storage_type, self.is_signed)

    @property
    def has_storage_type_bounds(self) -> bool:
        """True if the storage range is narrower than the storage type."""
        return self.storage_range != self.full_storage_range

    @property
    def represented_numbers(self) -> RepresentedNumbers:
        """The numbers that stored values represent: integers, floats or table entries."""
        if self.has_integer_storage:
            return RepresentedNumbers.integers(self.storage_range)
        return numeric().numbers_of_type(self)

    @property
    def signless_storage_type(self) -> IntegerType:
        """The signless integer type of the storage width, e.g. `i8` for `f8E4M3FN`."""
        return _signless_integer(self.storage_type_integral_width)

    @property
    def stored_type(self) -> IntegerType | FloatStorageType:
        """Type of stored values in `quant.scast`: a float or signless integer type."""
        if isinstance(self.storage_type, FloatStorageType):
            return self.storage_type
        return self.signless_storage_type

    @property
    def storage_type_name(self) -> str:
        """Spelling of the storage type: `i8`, `u8`, `si8`, `ui8`, a float or table type."""
        if not self.is_signed and self.storage_type == self.signless_storage_type:
            return f"u{self.storage_type_integral_width}"
        return _attribute_text(self.storage_type)

    def cast_from_storage_type(self, candidate: Attribute) -> TypeAttribute | None:
        """
        Replace the storage type by this type: `i8` -> `!quant...`, `tensor<4xi8>` ->
        `tensor<4x!quant...>`. Return `None` if `candidate` has another element type.
        """
        return _with_replaced_element_type(candidate, self.storage_type, self)

    @staticmethod
    def cast_to_storage_type(quantized: Attribute) -> TypeAttribute | None:
        """
        Replace a quantized type by its storage type: `!quant...` -> `i8`,
        `tensor<4x!quant...>` -> `tensor<4xi8>`. Return `None` if the type is not quantized
        or has no storage type.
        """
        element_type = QuantizedType.get_quantized_element_type(quantized)
        if not isinstance(element_type, StoredQuantizedType):
            return None
        return with_element_type(quantized, element_type.storage_type)

    @staticmethod
    def cast_to_signless_storage_type(quantized: Attribute) -> TypeAttribute | None:
        """
        Return the result type of `quant.scast`: like `cast_to_storage_type`, but signless
        for `si8` and `ui8`, and integers for a quantile type. Return `None` if the type is
        not quantized or has no storage type.
        """
        element_type = QuantizedType.get_quantized_element_type(quantized)
        if not isinstance(element_type, StoredQuantizedType):
            return None
        return with_element_type(quantized, element_type.stored_type)

    def cast_expressed_to_storage_type(
        self, candidate: Attribute
    ) -> TypeAttribute | None:
        """
        Replace the expressed type by the storage type: `f32` -> `i8`, `tensor<4xf32>` ->
        `tensor<4xi8>`. Return `None` if `candidate` has another element type.
        """
        return _with_replaced_element_type(
            candidate, self.expressed_type, self.storage_type
        )

    def verify(self) -> None:
        width = self.storage_type_integral_width
        if not 0 < width <= MAX_STORAGE_BITS:
            raise VerifyException(f"illegal storage type size: {width}")
        is_signless = self.storage_type == self.signless_storage_type
        if self.flags.data not in (0, SIGNED_FLAG) or (
            not is_signless
            and self.is_signed is not is_signed_by_default(self.storage_type)
        ):
            raise VerifyException(
                f"signedness of storage type '{self.storage_type}' contradicts flags "
                f"{self.flags.data}"
            )
        (low, high), (least, most) = self.storage_range, self.full_storage_range
        if not least <= low < high <= most:
            raise VerifyException(
                f"illegal storage min and storage max: ({low}:{high})"
            )

    # Text

    @property
    def storage_text(self) -> str:
        """Text of the storage type, with the storage range if it is not the full one."""
        if not self.has_storage_type_bounds:
            return self.storage_type_name
        return "{}<{}:{}>".format(self.storage_type_name, *self.storage_range)

    def description(self) -> Iterator[tuple[str, object]]:
        yield from super().description()
        low, high = self.storage_range
        storage_type = self.storage_type
        if isinstance(storage_type, QuantileType):
            yield "storage", f"indices in {storage_type.storage_type}, {low} to {high}"
            yield f"values, {storage_type.quantile_type}", storage_type.quantile_array()
        else:
            if not isinstance(storage_type, IntegerType):
                low, high = _float_limits(storage_type, low, high)
            yield "storage", f"{self.storage_type_name}, {low} to {high}"
        if not isinstance(self.expressed_type, NoneAttr):
            yield "expressed", str(self.expressed_type)


def _float_limits(
    storage_type: FloatStorageType, low: int, high: int
) -> tuple[str, str]:
    """
    Format the storage range of a float type, whose bounds are stored as integers. Bounds of
    the full range are formatted exactly: 7.5, not 7.
    """
    largest = float_format(storage_type).largest
    limits = (
        math.copysign(largest, limit) if abs(limit) == int(largest) else limit
        for limit in (low, high)
    )
    first, last = (f"{limit:g}" for limit in limits)
    return first, last


# Arguments of constructors


class StorageOptions(TypedDict, total=False):
    """Storage keywords of all type constructors, in addition to the storage type."""

    storage_type_min: int | None
    """Smallest stored value; defaults to that of the storage type."""

    storage_type_max: int | None
    """Largest stored value; defaults to that of the storage type."""

    is_signed: bool | None
    """True if stored values are signed; defaults to the signedness of the storage type."""


def storage_parameters(
    storage_type: StorageType,
    storage_type_min: int | None = None,
    storage_type_max: int | None = None,
    is_signed: bool | None = None,
    storage_types: UnionType = MLIRStorageType,
) -> tuple[StorageType, IntAttr, IntAttr, IntAttr]:
    """
    Return the storage parameters of a type, with defaults for missing ones.

    Raises:
        TypeError: if an argument is of the wrong type, or the storage type not in
            `storage_types`.
        VerifyException: if the storage type has too many bits.
    """
    if not isinstance(cast(object, storage_type), storage_types):
        raise TypeError(
            "storage type must be an integer type such as i8, f8E5M2, f8E4M3FN, f4E2M1FN "
            f"or a quantile type, not {type_text(storage_type)}"
        )
    if is_signed is None:
        is_signed = is_signed_by_default(storage_type)
    is_signed = bool_argument(is_signed, "is_signed")
    width = storage_type.bitwidth
    if not 0 < width <= MAX_STORAGE_BITS:
        raise VerifyException(f"illegal storage type size: {width}")
    low, high = default_storage_range(storage_type, is_signed)
    if storage_type_min is None:
        storage_type_min = low
    if storage_type_max is None:
        storage_type_max = high
    return (
        storage_type,
        IntAttr(SIGNED_FLAG if is_signed else 0),
        int_argument(storage_type_min, "storage_type_min"),
        int_argument(storage_type_max, "storage_type_max"),
    )


def common_arguments(
    storage_type: StorageType,
    expressed_type: AnyFloat,
    options: StorageOptions,
    storage_types: UnionType = MLIRStorageType,
) -> tuple[Attribute, ...]:
    """Return the leading parameters of types with scales."""
    storage = storage_parameters(storage_type, **options, storage_types=storage_types)
    return checked_expressed_type(expressed_type), *storage


# Types without scales


@irdl_attr_definition
class AnyQuantizedType(StoredQuantizedType):
    """
    Quantized type with a storage type and an optional expressed type, without scales.

    Example:

    ```mlir
    !quant.any<i8<-8:7>:f32>
    !quant.any<u8>
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#anyquantizedtype).
    """

    name = "quant.any"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        syntax = TypeSyntax(parser, cls.name)
        return syntax.parse(syntax.any, cls.new)

    def __init__(
        self,
        storage_type: StorageType,
        expressed_type: AnyFloat | NoneAttr | None = None,
        **options: Unpack[StorageOptions],
    ):
        storage = storage_parameters(storage_type, **options)
        if expressed_type is not None and not isinstance(expressed_type, NoneAttr):
            expressed_type = checked_expressed_type(expressed_type)
        super().__init__(expressed_type or NoneAttr(), *storage)

    def text(self) -> str:
        has_expressed_type = not isinstance(self.expressed_type, NoneAttr)
        suffix = f":{self.expressed_type}" if has_expressed_type else ""
        return f"<{self.storage_text}{suffix}>"


@irdl_attr_definition
class NoQuantizedType(QuantizedType):
    """
    Type of values that must not be quantized.

    MLIR does not have this type.

    Example:

    ```mlir
    !quant.none<f32>
    ```
    """

    name = "quant.none"

    expressed_type: AnyFloat

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        syntax = TypeSyntax(parser, cls.name)
        return syntax.parse(syntax.none, cls.new)

    def __init__(self, expressed_type: AnyFloat):
        super().__init__(checked_expressed_type(expressed_type))

    def text(self) -> str:
        return f"<{self.expressed_type}>"

    def description(self) -> Iterator[tuple[str, object]]:
        yield from super().description()
        yield "expressed", str(self.expressed_type)


_DOUBLE = float_format(f64)


@irdl_attr_definition
class CalibratedQuantizedType(QuantizedType):
    """
    Quantized type with only the min/max range from calibration.

    Example:

    ```mlir
    !quant.calibrated<f32<-0.998:1.232100e+00>>
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#calibratedquantizedtype).
    """

    name = "quant.calibrated"

    expressed_type: AnyFloat

    min: FloatData
    """Smallest expressed value."""

    max: FloatData
    """Largest expressed value."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        syntax = TypeSyntax(parser, cls.name)
        return syntax.parse(syntax.calibrated, cls.new)

    def __init__(self, expressed_type: AnyFloat, min: float, max: float):
        super().__init__(
            checked_expressed_type(expressed_type),
            float_argument(min, "min"),
            float_argument(max, "max"),
        )

    def verify(self) -> None:
        if not self.min.data < self.max.data:
            raise VerifyException(
                f"illegal min and max: ({range_text(self.min.data)}:"
                f"{range_text(self.max.data)})"
            )

    def text(self) -> str:
        low = float_text(self.min.data, _DOUBLE)
        high = float_text(self.max.data, _DOUBLE)
        return f"<{self.expressed_type}<{low}:{high}>>"

    def description(self) -> Iterator[tuple[str, object]]:
        yield from super().description()
        yield "expressed", str(self.expressed_type)
        yield "range", f"{self.min.data:.6g} to {self.max.data:.6g}"


# Scales


def verify_dimension(dimension: int) -> None:
    """Raise a `VerifyException` for a negative dimension, or one that exceeds i32."""
    if not 0 <= dimension < 1 << 31:
        raise VerifyException(f"illegal quantized dimension: {dimension}")


def verify_blocks(dimensions: Sequence[int], sizes: Sequence[int]) -> None:
    """Raise a `VerifyException` for invalid dimensions and block sizes."""
    if len(dimensions) != len(sizes):
        raise VerifyException(
            f"number of quantized dimensions and block sizes ({len(dimensions)}, "
            f"{len(sizes)}) does not match"
        )
    for dimension in dimensions:
        verify_dimension(dimension)
    for size in sizes:
        if size <= 0:
            raise VerifyException(f"illegal block size: {size}")


def block_counts_text(counts: Sequence[int], sizes: Iterable[tuple[int, int]]) -> str:
    """Format the number of blocks along each dimension, and their sizes by dimension."""
    texts = (f"size {size} along dimension {axis}" for axis, size in sizes)
    return ", ".join((" x ".join(map(str, counts)), *texts))


def zero_points_attr(values: Iterable[int] | None, count: int) -> Ints:
    """Convert the zero points of a constructor; `None` stands for `count` zeros."""
    if values is None:
        return ints_attr(zero_array(count))
    return ints_attr(vector(values, "zero points", INTEGERS))


@dataclass(frozen=True, init=False)
class ScaledQuantizedType(StoredQuantizedType, ABC):
    """
    Base class of quantized types with scales and zero points:
    `expressed = (stored - zero_point) * scale`.

    There is one scale for all values (*per-tensor*, MLIR's per-layer), one for each index
    of a dimension (*per-axis*), or one for each block (*sub-channel*). All subclasses have
    the same methods.
    """

    expressed_type: AnyFloat

    # Accessors

    @abstractmethod
    def scale_array(self) -> array[float]:
        """Return the scales in row-major order."""

    @abstractmethod
    def zero_point_array(self) -> array[int]:
        """Return the zero points in row-major order, one per scale."""

    @abstractmethod
    def get_scales_shape(self) -> tuple[int, ...]:
        """
        Return the shape of scales and zero points: `()` for per-tensor, `(n,)` for per-axis
        types, the number of blocks along each dimension for sub-channel types.
        """

    @abstractmethod
    def get_blocks(self) -> Mapping[int, tuple[int, int]]:
        """
        Return the number of blocks and the block size of each quantized dimension, in the
        order of printing. A per-axis type has blocks of size 1.
        """

    def get_scales(self) -> NDArray[np.float64]:
        """Return the scales as a new array of the shape `get_scales_shape()`."""
        import numpy as np

        return np.frombuffer(self.scale_array()).reshape(self.get_scales_shape())

    def get_zero_points(self) -> NDArray[np.int64]:
        """Return the zero points as a new array of the shape `get_scales_shape()`."""
        import numpy as np

        zero_points = np.frombuffer(self.zero_point_array(), np.int64)
        return zero_points.reshape(self.get_scales_shape())

    @property
    def axis(self) -> int | None:
        """The quantized dimension of a per-axis type, otherwise `None`."""
        return None

    @property
    def is_per_tensor(self) -> bool:
        """True if there is one scale for all values."""
        return not self.get_scales_shape()

    @property
    def granularity(self) -> Literal["per-tensor", "per-axis", "sub-channel"]:
        """Extent that shares a scale: the tensor, an index of a dimension, or a block."""
        if self.is_per_tensor:
            return "per-tensor"
        return "sub-channel" if self.axis is None else "per-axis"

    @property
    def block_size_info(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a quantized dimension and its block size."""
        return tuple((axis, size) for axis, (_, size) in self.get_blocks().items())

    @property
    def zero_point_range(self) -> tuple[int, int]:
        """Smallest and largest zero point."""
        # Cached: it is computed for each op, and there may be a million zero points.
        if (cached := self.__dict__.get("_zero_point_range")) is None:
            zero_points = self.zero_point_array()
            cached = min(zero_points), max(zero_points)
            object.__setattr__(self, "_zero_point_range", cached)
        return cached

    @property
    def is_fixed_point(self) -> bool:
        """True if all zero points are 0 (MLIR's definition)."""
        return self.zero_point_range == (0, 0)

    # Verification

    def verify(self) -> None:
        super().verify()
        scale_format = float_format(self.expressed_type)
        if (scale := scale_format.out_of_range(self.scale_array())) is not None:
            raise VerifyException(scale_format.range_error(scale))

    def verify_container(self, container: Attribute) -> None:
        if isinstance(container, UnrankedTensorType):
            self._verify_unranked()
        elif isinstance(container, TensorType):
            self._verify_shape(container.get_shape())
        elif not self.is_per_tensor:
            raise VerifyException(
                f"scalar types may not use {self.granularity} quantization"
            )

    def _verify_shape(self, shape: Sequence[int]) -> None:
        """Verify that the scales match the shape of a tensor."""

    def _verify_unranked(self) -> None:
        """Verify that the scales are valid for an unranked tensor."""

    # Rules of StableHLO

    def has_zero_points_in(self, bounds: tuple[int, int]) -> bool:
        """
        Return True if all zero points are within `bounds` (inclusive). This is StableHLO's
        rule C7 with `storage_range` and C8 with `full_storage_range`.
        """
        low, high = self.zero_point_range
        return bounds[0] <= low and high <= bounds[1]

    def verify_zero_points_are_storable(self) -> None:
        """
        Verify StableHLO's rule C8, which MLIR does not have. Quantile types are exempt:
        their zero points are table entries, not indices.

        Raises:
            VerifyException: if a zero point is out of range for the storage type.
        """
        if isinstance(self.storage_type, QuantileType):
            return
        low, high = self.full_storage_range
        for zero_point in self.zero_point_range:
            if not low <= zero_point <= high:
                raise VerifyException(
                    f"zero point {zero_point} is not representable in "
                    f"'{self.storage_type_name}'; expected {low} to {high}"
                )

    def has_axes_in(self, shape: Sequence[int]) -> bool:
        """Return True if a shape has all quantized dimensions (StableHLO's rule C12)."""
        return all(axis < len(shape) for axis in self.get_blocks())

    def has_matching_sizes(self, shape: Sequence[int]) -> bool:
        """
        Return True if the number of scales matches the sizes of the quantized dimensions
        (StableHLO's rule C13). Dynamic sizes match.
        """
        return all(
            shape[axis] in (DYNAMIC_INDEX, count * size)
            for axis, (count, size) in self.get_blocks().items()
        )

    # Text

    @abstractmethod
    def scale_texts(self) -> list[str]:
        """Format each scale."""

    @abstractmethod
    def _list_text(self, elements: list[str]) -> str:
        """Format the quantized dimensions and the elements: scales with zero points."""

    def text(self) -> str:
        elements = self.scale_texts()
        if not self.is_fixed_point:
            zero_points = self.zero_point_array()
            suffixes = {z: f":{z}" if z else "" for z in set(zero_points)}
            elements = [*map(add, elements, map(suffixes.__getitem__, zero_points))]
        expressed_type = _attribute_text(self.expressed_type)
        return f"<{self.storage_text}:{expressed_type}{self._list_text(elements)}>"

    def description(self) -> Iterator[tuple[str, object]]:
        (_, kind), *rest = super().description()
        yield "kind", f"{kind}, {self.granularity}"
        yield from rest
        yield from self._scale_description()

    def _scale_description(self) -> Iterator[tuple[str, object]]:
        yield "scales", self.scale_array()
        yield "zero points", self.zero_point_array()


@dataclass(frozen=True, init=False)
class PerTensorType(ScaledQuantizedType, ABC):
    """Base class of per-tensor types: one scale and one zero point for all values."""

    zero_point: IntAttr
    """The stored value that expresses 0."""

    def zero_point_array(self) -> array[int]:
        return array("q", (self.zero_point.data,))

    def get_scales_shape(self) -> tuple[int, ...]:
        return ()

    def get_blocks(self) -> Mapping[int, tuple[int, int]]:
        return {}

    def verify(self) -> None:
        super().verify()
        if not -(1 << 63) <= (zero_point := self.zero_point.data) < 1 << 63:
            raise VerifyException(
                f"zero point {zero_point} is not representable in i64"
            )

    def _list_text(self, elements: list[str]) -> str:
        return f", {elements[0]}"

    def _scale_description(self) -> Iterator[tuple[str, object]]:
        yield "scale", self.scale_array()[0]
        yield "zero point", self.zero_point.data


@dataclass(frozen=True, init=False)
class PerAxisType(ScaledQuantizedType, ABC):
    """Base class of per-axis types: a scale and zero point per index of a dimension."""

    zero_points: Ints
    """The zero points, one per scale."""

    quantized_dimension: IntAttr
    """The dimension of the tensor whose indices each have a scale."""

    def zero_point_array(self) -> array[int]:
        return int_array(self.zero_points)

    def get_scales_shape(self) -> tuple[int, ...]:
        return (len(self.zero_points),)

    def get_blocks(self) -> Mapping[int, tuple[int, int]]:
        return {self.quantized_dimension.data: (len(self.zero_points), 1)}

    @property
    def axis(self) -> int | None:
        return self.quantized_dimension.data

    def verify(self) -> None:
        super().verify()
        verify_dimension(self.quantized_dimension.data)

    def _verify_shape(self, shape: Sequence[int]) -> None:
        if not self.has_axes_in(shape):
            raise VerifyException("quantized dimension must be less than tensor rank")
        if not self.has_matching_sizes(shape):
            raise VerifyException(
                "quantized dimension size does not match number of scales"
            )

    def _list_text(self, elements: list[str]) -> str:
        return f":{self.quantized_dimension.data}, {{{','.join(elements)}}}"

    def _scale_description(self) -> Iterator[tuple[str, object]]:
        yield "quantized dimension", self.quantized_dimension.data
        yield from super()._scale_description()


# Uniform types


@dataclass(frozen=True, init=False)
class UniformType(ScaledQuantizedType, ABC):
    """Base class of `!quant.uniform` types, whose scales are floats."""

    name = "quant.uniform"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        syntax = TypeSyntax(parser, cls.name)
        return syntax.parse(syntax.uniform, _uniform_type_from_text, _plain_type)

    def scale_texts(self) -> list[str]:
        return float_texts(self.scale_array(), _DOUBLE)

    def per_tensor_types(self) -> Iterator[UniformQuantizedType]:
        """Yield a per-tensor type for each scale and its zero point."""
        pairs = zip(self.zero_point_array(), self.scale_array(), strict=True)
        for zero_point, scale in pairs:
            numbers = IntAttr(zero_point), FloatData(scale)
            yield UniformQuantizedType.new((*self.common_parameters, *numbers))


@irdl_attr_definition
class UniformQuantizedType(UniformType, PerTensorType):
    """
    Per-tensor uniform quantization: one scale and one zero point,
    `expressed = (stored - zero_point) * scale`.

    Example:

    ```mlir
    !quant.uniform<i8:f32, 5.000000e-01>
    !quant.uniform<u16<0:1023>:f32, 1.230000e+00:512>
    ```

    The parser of this class also parses
    [`UniformQuantizedPerAxisType`][xdsl_quant.dialects.quant.UniformQuantizedPerAxisType]
    and
    [`UniformQuantizedSubChannelType`][xdsl_quant.dialects.quant.UniformQuantizedSubChannelType],
    which have the same mnemonic.

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#uniformquantizedtype).
    """

    scale: FloatData
    """Difference between the expressed values of consecutive stored values."""

    def __init__(
        self,
        storage_type: StorageType,
        expressed_type: AnyFloat,
        scale: float,
        zero_point: int = 0,
        **options: Unpack[StorageOptions],
    ):
        super().__init__(
            *common_arguments(storage_type, expressed_type, options),
            int_argument(zero_point, "zero point"),
            float_argument(scale, "scale"),
        )

    def scale_array(self) -> array[float]:
        return array("d", (self.scale.data,))


@irdl_attr_definition
class UniformQuantizedPerAxisType(UniformType, PerAxisType):
    """
    Per-axis uniform quantization: a scale and zero point for each index of one dimension.

    Example:

    ```mlir
    !quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00:5}>
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#uniformquantizedperaxistype).
    """

    scales: Floats
    """The scales, in index order of the quantized dimension."""

    def __init__(
        self,
        storage_type: StorageType,
        expressed_type: AnyFloat,
        scales: Iterable[float],
        zero_points: Iterable[int] | None = None,
        *,
        quantized_dimension: int,
        **options: Unpack[StorageOptions],
    ):
        """
        Build a type from sequences or one-dimensional NumPy arrays; zero points default
        to 0.
        """
        common = common_arguments(storage_type, expressed_type, options)
        scale_array = vector(scales, "scales", FLOATS)
        super().__init__(
            *common,
            zero_points_attr(zero_points, len(scale_array)),
            int_argument(quantized_dimension, "quantized dimension"),
            floats_attr(scale_array),
        )

    def scale_array(self) -> array[float]:
        return float_array(self.scales)

    def verify(self) -> None:
        counts = len(self.scales), len(self.zero_points)
        if counts[0] != counts[1] or not counts[0]:
            raise VerifyException(
                f"illegal number of scales and zeroPoints: {counts[0]}, {counts[1]}"
            )
        super().verify()


@irdl_attr_definition
class UniformQuantizedSubChannelType(UniformType):
    """
    Sub-channel uniform quantization: a scale and zero point for each block of the tensor.
    A dimension without a block size is not divided.

    Example:

    ```mlir
    tensor<6x4x!quant.uniform<i8:f32:{1:2}, {{1.0:1, 2.0}, ... }>>
    ```

    Scales are rounded to the expressed type.

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#uniformquantizedsubchanneltype).
    """

    scales: Floats
    """The scales in row-major order."""

    zero_points: Ints
    """The zero points in row-major order, one per scale."""

    scales_shape: Ints
    """The number of blocks along each dimension."""

    quantized_dimensions: DenseArrayBase[I32]
    """The dimensions that are divided into blocks."""

    block_sizes: Ints

    def __init__(
        self,
        storage_type: StorageType,
        expressed_type: AnyFloat,
        scales: Iterable[object],
        zero_points: Iterable[object] | None = None,
        *,
        quantized_dimensions: Sequence[int],
        block_sizes: Sequence[int],
        **options: Unpack[StorageOptions],
    ):
        """
        Build a type from nested sequences or NumPy arrays of the same shape; zero points
        default to 0.
        """
        common = common_arguments(storage_type, expressed_type, options)
        scale_array, shape = elements(scales, "scales", FLOATS)
        zero_point_array, zero_point_shape = zero_array(len(scale_array)), shape
        if zero_points is not None:
            zero_point_array, zero_point_shape = elements(
                zero_points, "zero points", INTEGERS
            )
        if shape != zero_point_shape:
            raise VerifyException(
                f"shape of scales and zeroPoints ({shape}, {zero_point_shape}) does not "
                "match"
            )
        dimensions = vector(quantized_dimensions, "quantized dimensions", INTEGERS)
        for dimension in dimensions:
            verify_dimension(dimension)
        sizes = vector(block_sizes, "block sizes", INTEGERS)
        super().__init__(
            *self.canonical_parameters(
                common, scale_array, zero_point_array, shape, dimensions, sizes
            )
        )

    @staticmethod
    def canonical_parameters(
        common: Sequence[Attribute],
        scales: array[float],
        zero_points: array[int],
        shape: Sequence[int],
        quantized_dimensions: Sequence[int],
        block_sizes: Sequence[int],
    ) -> tuple[Attribute, ...]:
        """
        Return the parameters of the type. Round scales to the expressed type, and convert
        negative zero points of unsigned storage to the unsigned integers with the same
        bits: MLIR prints large zero points as negative numbers.
        """
        expressed_type, storage_type, flags, *_ = common
        scale_format = float_format(cast(AnyFloat, expressed_type))
        if scale_format.out_of_range(scales) is None:
            scales = scale_format.nearest_all(scales)
        is_unsigned = isinstance(storage_type, IntegerType) and (
            not cast(IntAttr, flags).data & SIGNED_FLAG
        )
        if is_unsigned and zero_points and min(zero_points) < 0:
            modulus = 1 << cast(IntegerType, storage_type).bitwidth
            zero_points = array(
                "q",
                (z + modulus if -modulus // 2 <= z < 0 else z for z in zero_points),
            )
        return (
            *common,
            floats_attr(scales),
            ints_attr(zero_points),
            ints_attr(shape),
            DenseArrayBase.from_list(i32, quantized_dimensions),
            ints_attr(block_sizes),
        )

    # Accessors

    def scale_array(self) -> array[float]:
        return float_array(self.scales)

    def zero_point_array(self) -> array[int]:
        return int_array(self.zero_points)

    def get_scales_shape(self) -> tuple[int, ...]:
        return tuple(self.scales_shape.get_values())

    @property
    def block_size_info(self) -> tuple[tuple[int, int], ...]:
        dimensions = self.quantized_dimensions.get_values()
        return tuple(zip(dimensions, self.block_sizes.get_values(), strict=True))

    def get_blocks(self) -> Mapping[int, tuple[int, int]]:
        shape, sizes = self.get_scales_shape(), dict(self.block_size_info)
        # On unranked tensors, scales may have only the quantized dimensions.
        axes = sorted(sizes) if len(shape) == len(sizes) else range(len(shape))
        counts = dict(zip(axes, shape, strict=True))
        return {axis: (counts.get(axis, 1), size) for axis, size in sizes.items()}

    # Verification

    def verify(self) -> None:
        shape = self.get_scales_shape()
        counts = len(self.scales), len(self.zero_points)
        if not counts[0] == counts[1] == math.prod(shape):
            raise VerifyException(
                f"shape of scales and zeroPoints ({counts[0]}, {counts[1]}) does not match"
            )
        if not counts[0]:
            raise VerifyException("illegal number of scales and zeroPoints: 0, 0")
        super().verify()
        verify_blocks(
            self.quantized_dimensions.get_values(), self.block_sizes.get_values()
        )

    def _verify_shape(self, shape: Sequence[int]) -> None:
        blocks, rank = self.get_blocks(), len(shape)
        for axis, block_size in self.block_size_info:
            if axis >= rank:
                raise VerifyException(
                    f"quantized dimension {axis} must be less than tensor rank {rank}"
                )
            if shape[axis] != DYNAMIC_INDEX and shape[axis] % block_size:
                raise VerifyException(
                    f"tensor dimension size {shape[axis]} at axis {axis} must be "
                    f"divisible by the corresponding block size {block_size}"
                )
        if 0 in shape:
            raise VerifyException(
                "tensor dimension size of zero is not allowed with sub-channel quantization"
            )
        if (scales_rank := len(counts := self.get_scales_shape())) != rank:
            raise VerifyException(
                f"Rank of scales {scales_rank} must match the rank of the tensor {rank}"
            )
        for axis, (size, count) in enumerate(zip(shape, counts, strict=True)):
            if axis in blocks and size == DYNAMIC_INDEX:
                continue
            expected = size // blocks[axis][1] if axis in blocks else 1
            if count != expected:
                # MLIR prints the expected size in both places too.
                raise VerifyException(
                    f"dimension size {expected} of scales tensor at axis {axis} should "
                    "match (tensor dimension at axis / block sizes at axis) = "
                    f"{expected}"
                )

    def _verify_unranked(self) -> None:
        # Scales have one dimension for each dimension of the tensor, or for each quantized
        # dimension.
        axes, shape = self.get_blocks().keys(), self.get_scales_shape()
        if len(shape) == len(axes):
            return
        if len(shape) <= max(axes, default=0):
            raise VerifyException(
                f"Rank of scales {len(shape)} must match the rank of the tensor or the "
                f"number of quantized dimensions {len(axes)}"
            )
        for axis, count in enumerate(shape):
            if axis not in axes and count != 1:
                raise VerifyException(
                    f"dimension size {count} of scales tensor at axis {axis} should be "
                    "1, as the axis has no block size"
                )

    # Text

    def scale_texts(self) -> list[str]:
        return float_texts(self.scale_array(), float_format(self.expressed_type))

    def _list_text(self, elements: list[str]) -> str:
        for size in reversed(self.get_scales_shape()):
            elements = [
                f"{{{', '.join(elements[i : i + size])}}}"
                for i in range(0, len(elements), size)
            ]
        blocks = ", ".join(f"{axis}:{size}" for axis, size in self.block_size_info)
        return f":{{{blocks}}}, {elements[0]}"

    def _scale_description(self) -> Iterator[tuple[str, object]]:
        yield "blocks", block_counts_text(self.get_scales_shape(), self.block_size_info)
        yield from super()._scale_description()


def _plain_type(text: str) -> UniformQuantizedType | None:
    """
    Parse a per-tensor type of a plain scale and zero point; return `None` for other text.

    The text starts after the name. No verification is needed: the storage was verified
    with an earlier type, and the pattern limits zero points to 18 digits.
    """
    plain = PER_TENSOR.fullmatch(text)
    if plain is None or (known := plain_types.get(plain[1])) is None:
        return None
    scale_format, scale = float_format(known[0]), float(plain[2])
    if not scale_format.smallest <= scale <= scale_format.largest:
        return None
    type_ = UniformQuantizedType.__new__(UniformQuantizedType)
    values = *known[1], IntAttr(int(plain[3] or 0)), FloatData(scale)
    names = (name for name, _ in type_.get_irdl_definition().parameters)
    vars(type_).update(zip(names, values, strict=True))
    return type_


def _uniform_type_from_text(text: ScalesText) -> UniformType:
    scales, zero_points = text.columns
    if text.blocks is not None:
        parameters = UniformQuantizedSubChannelType.canonical_parameters(
            text.common, scales, zero_points, text.shape, *text.blocks
        )
        type_ = UniformQuantizedSubChannelType.new(parameters)
        _warn_of_bits(text.location, zero_points, type_.zero_point_array())
        return type_
    if text.dimension is not None:
        dimension = IntAttr(text.dimension)
        parameters = ints_attr(zero_points), dimension, floats_attr(scales)
        return UniformQuantizedPerAxisType.new((*text.common, *parameters))
    parameters = IntAttr(zero_points[0]), FloatData(scales[0])
    return UniformQuantizedType.new((*text.common, *parameters))


def _warn_of_bits(
    location: Location | None, written: array[int], zero_points: array[int]
) -> None:
    """Warn about zero points that `canonical_parameters` converts to unsigned."""
    if written == zero_points:
        return
    old, new = next(pair for pair in zip(written, zero_points) if pair[0] != pair[1])
    warn(
        f"negative zero point of unsigned storage: found {old}, read as {new}, which MLIR "
        f"prints as {old} in sub-channel types; write {new}",
        f"{location}: ",
    )


def _storage_type_of(parameters: QuantizationParameters) -> StorageType:
    if parameters.small_float is not None:
        types = {type_.name: type_ for type_ in get_args(MLIRStorageType)}
        if (float_type := types.get(parameters.storage)) is None:
            raise VerifyException(f"illegal storage type: {parameters.storage}")
        return float_type()
    width, table = parameters.storage_width, parameters.table
    if table is not None:
        kind = Signedness.SIGNED if parameters.is_signed else Signedness.UNSIGNED
        return QuantileType(
            IntegerType(width, kind),
            f64,
            table.tolist(),
            storage_type_min=parameters.table_min,
            storage_type_max=parameters.table_min + table.size - 1,
        )
    signedness = {"si": Signedness.SIGNED, "ui": Signedness.UNSIGNED}.get(
        parameters.storage[:2], Signedness.SIGNLESS
    )
    return IntegerType(width, signedness)


def uniform_type(
    parameters: QuantizationParameters, expressed_type: AnyFloat | None = None
) -> UniformType:
    """
    Convert quantization parameters to a type; `QuantizationParameters.from_type` is the
    inverse.

    Args:
        parameters: scales, zero points and storage.
        expressed_type: replacement for the expressed type of the parameters.

    Raises:
        VerifyException: if a scale is out of range for the expressed type, or MLIR does not
            have the storage type.
    """
    if expressed_type is None:
        names = {type_.name: type_ for type_ in FLOAT_FORMATS}
        expressed_type = names[parameters.expressed]()
    options: StorageOptions = {
        "storage_type_min": parameters.storage_min,
        "storage_type_max": parameters.storage_max,
        "is_signed": parameters.is_signed,
    }
    types = _storage_type_of(parameters), expressed_type
    scales, zero_points = parameters.scales, parameters.zero_points
    if (blocks := parameters.block_sizes) is not None:
        return UniformQuantizedSubChannelType(
            *types,
            scales,
            zero_points,
            quantized_dimensions=[dimension for dimension, _ in blocks],
            block_sizes=[size for _, size in blocks],
            **options,
        )
    if (dimension := parameters.quantized_dimension) is not None:
        return UniformQuantizedPerAxisType(
            *types, scales, zero_points, quantized_dimension=dimension, **options
        )
    return UniformQuantizedType(*types, float(scales), int(zero_points), **options)
