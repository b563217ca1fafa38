"""
The quantized types: their parameters, what one can ask them, and when they are valid.

The text of a type is in [`type_syntax`][xdsl_quant.dialects.quant.type_syntax].
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self, cast

from xdsl.dialects.builtin import (
    I32,
    I64,
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    Float64Type,
    FloatData,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
    UnrankedTensorType,
    f64,
    i32,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .constructor_arguments import (
    bool_argument,
    checked_expressed_type,
    float_argument,
    float_elements,
    float_vector,
    int_argument,
    int_elements,
    int_vector,
    type_text,
)
from .float_formats import MANY, FloatFormat, float_format

MAX_STORAGE_BITS = 32
"""Widest storage type."""

SIGNED_FLAG = 1
"""The bit of `flags` that is set if stored values are signed."""


def default_storage_min(width: int, is_signed: bool) -> int:
    """Smallest integer of `width` bits."""
    return -(1 << (width - 1)) if is_signed else 0


def default_storage_max(width: int, is_signed: bool) -> int:
    """Largest integer of `width` bits."""
    return (1 << (width - is_signed)) - 1


def with_element_type(type_: Attribute, element_type: TypeAttribute) -> TypeAttribute:
    """
    A tensor type with another element type, or that type itself in place of a scalar.
    """
    if isinstance(type_, TensorType):
        return TensorType(element_type, type_.shape, type_.encoding)
    if isinstance(type_, UnrankedTensorType):
        return UnrankedTensorType(element_type)
    return element_type


def scalar_or_element_type(type_: Attribute) -> Attribute:
    """The element type of a tensor type, or the type itself."""
    if isinstance(type_, TensorType | UnrankedTensorType):
        return cast(Attribute, type_.element_type)
    return type_


@dataclass(frozen=True, init=False)
class QuantizedType(ParametrizedAttribute, TypeAttribute, ABC):
    """
    Any quantized type.

    This class and its abstract subclasses are dataclasses so that the parameters that
    they declare count for equality and hash.

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/).
    """

    name = "quant.quantized"

    expressed_type: AnyFloat | NoneAttr
    """The floating-point type of the values that are approximated."""

    @abstractmethod
    def text(self) -> str:
        """The parameters as MLIR prints them, e.g. `<i8:f32, 5.000000e-01>`."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        from .type_syntax import parse_quantized_type

        # The parser makes the type, as only it can point at the text of a mistake.
        return (parse_quantized_type(parser, cls.name),)

    @classmethod
    def new(cls, params: Sequence[Attribute]) -> Self:
        if len(params) == 1 and isinstance(parsed := params[0], QuantizedType):
            return cast(Self, parsed)
        return super().new(params)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(self._cached_text)

    @property
    def _cached_text(self) -> str:
        # A type may have a million scales and is printed once for each of its uses.
        # The cache is no field: equality and hash do not see it.
        if (text := self.__dict__.get("_text")) is None:
            text = self.text()
            object.__setattr__(self, "_text", text)
        return text

    def _repr_html_(self) -> str:
        from .type_html import type_html

        return type_html(self)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        # A notebook stores this text beside the HTML: it must not have a million scales.
        from .type_html import short_text

        return {"text/plain": short_text(self)}

    def __hash__(self) -> int:
        # CSE and every cache hash the type of a value over and over again.
        if (known := self.__dict__.get("_hash")) is None:
            known = hash((type(self), *self.parameters))
            object.__setattr__(self, "_hash", known)
        return known

    def __getstate__(self) -> dict[str, object]:
        # Hashes differ from process to process.
        return {k: v for k, v in self.__dict__.items() if k not in ("_hash", "_text")}

    @staticmethod
    def get_quantized_element_type(type_: Attribute) -> QuantizedType | None:
        """
        The quantized type that `type_` is, or that it is a tensor of; `None` otherwise.
        """
        element_type = scalar_or_element_type(type_)
        return element_type if isinstance(element_type, QuantizedType) else None

    def is_compatible_expressed_type(self, candidate: Attribute) -> bool:
        """
        Whether `candidate` is the expressed type of this type, or a tensor of it.
        """
        return scalar_or_element_type(candidate) == self.expressed_type

    def cast_from_expressed_type(self, candidate: Attribute) -> TypeAttribute | None:
        """
        The counterpart of an expressed type: `f32` -> `!quant...`, `tensor<4xf32>` ->
        `tensor<4x!quant...>`, unranked tensors likewise. `None` if `candidate` does not
        have the expressed type of this type.
        """
        if not self.is_compatible_expressed_type(candidate):
            return None
        return with_element_type(candidate, self)

    @staticmethod
    def cast_to_expressed_type(quantized: Attribute) -> TypeAttribute | None:
        """
        The counterpart of a quantized type: `!quant...` -> `f32`, `tensor<4x!quant...>`
        -> `tensor<4xf32>`, unranked tensors likewise. `None` if `quantized` is not such
        a type, or has no expressed type.
        """
        element_type = QuantizedType.get_quantized_element_type(quantized)
        if element_type is None or isinstance(element_type.expressed_type, NoneAttr):
            return None
        return with_element_type(quantized, element_type.expressed_type)


@dataclass(frozen=True, init=False)
class StoredQuantizedType(QuantizedType, ABC):
    """
    A quantized type that knows how its values are stored: any but a calibrated type.
    """

    storage_type: IntegerType
    """
    The integer type of stored values. It is signless for the spellings `i8` and `u8`,
    and carries its signedness for `si8` and `ui8`.
    """

    flags: IntAttr
    """`SIGNED_FLAG` if stored values are signed, else 0."""

    storage_type_min: IntAttr
    """Smallest stored value."""

    storage_type_max: IntAttr
    """Largest stored value."""

    @property
    def is_signed(self) -> bool:
        """Whether stored values are signed."""
        return bool(self.flags.data & SIGNED_FLAG)

    @property
    def storage_type_integral_width(self) -> int:
        """Number of bits of a stored value."""
        return self.storage_type.width.data

    @property
    def has_storage_type_bounds(self) -> bool:
        """Whether the stored values use less than the full range of their type."""
        width = self.storage_type_integral_width
        return (
            self.storage_type_min.data != default_storage_min(width, self.is_signed)
        ) or (self.storage_type_max.data != default_storage_max(width, self.is_signed))

    @property
    def signless_storage_type(self) -> IntegerType:
        """The storage type in which arithmetic is done."""
        return IntegerType(self.storage_type_integral_width)

    @property
    def storage_type_name(self) -> str:
        """The storage type as it is spelled in the text: `i8`, `u8`, `si8` or `ui8`."""
        storage_type = self.storage_type
        if storage_type.signedness.data is Signedness.SIGNLESS and not self.is_signed:
            return f"u{self.storage_type_integral_width}"
        return str(storage_type)

    def cast_from_storage_type(self, candidate: Attribute) -> TypeAttribute | None:
        """
        The counterpart of a storage type: `i8` -> `!quant...`, `tensor<4xi8>` ->
        `tensor<4x!quant...>`, unranked tensors likewise. `None` if `candidate` does not
        have the storage type of this type.
        """
        if scalar_or_element_type(candidate) != self.storage_type:
            return None
        return with_element_type(candidate, self)

    @staticmethod
    def cast_to_storage_type(quantized: Attribute) -> TypeAttribute | None:
        """
        The counterpart of a quantized type: `!quant...` -> `i8`, `tensor<4x!quant...>`
        -> `tensor<4xi8>`, unranked tensors likewise. `None` if `quantized` is not such a
        type, or has no storage type.
        """
        element_type = QuantizedType.get_quantized_element_type(quantized)
        if not isinstance(element_type, StoredQuantizedType):
            return None
        return with_element_type(quantized, element_type.storage_type)

    @staticmethod
    def cast_to_signless_storage_type(quantized: Attribute) -> TypeAttribute | None:
        """
        What `quant.scast` makes of a quantized type: `cast_to_storage_type` without the
        signedness of `si8` and `ui8`. `None` if there is no storage type.
        """
        element_type = QuantizedType.get_quantized_element_type(quantized)
        if not isinstance(element_type, StoredQuantizedType):
            return None
        return with_element_type(quantized, element_type.signless_storage_type)

    def cast_expressed_to_storage_type(
        self, candidate: Attribute
    ) -> TypeAttribute | None:
        """
        The storage type in place of the expressed type: `f32` -> `i8`, `tensor<4xf32>`
        -> `tensor<4xi8>`, unranked tensors likewise. `None` if `candidate` does not have
        the expressed type of this type.
        """
        if not self.is_compatible_expressed_type(candidate):
            return None
        return with_element_type(candidate, self.storage_type)

    def verify(self) -> None:
        width = self.storage_type_integral_width
        if not 0 < width <= MAX_STORAGE_BITS:
            raise VerifyException(f"illegal storage type size: {width}")
        signedness = self.storage_type.signedness.data
        if self.flags.data not in (0, SIGNED_FLAG) or (
            signedness is not Signedness.SIGNLESS
            and self.is_signed != (signedness is Signedness.SIGNED)
        ):
            raise VerifyException(
                f"signedness of storage type '{self.storage_type}' contradicts flags "
                f"{self.flags.data}"
            )
        low, high = self.storage_type_min.data, self.storage_type_max.data
        if low >= high or low < default_storage_min(width, self.is_signed):
            raise VerifyException(
                f"illegal storage min and storage max: ({low}:{high})"
            )
        if high > default_storage_max(width, self.is_signed):
            raise VerifyException(
                f"illegal storage min and storage max: ({low}:{high})"
            )


# Arguments of constructors


def storage_parameters(
    storage_type: IntegerType,
    is_signed: bool | None,
    storage_type_min: int | None,
    storage_type_max: int | None,
) -> tuple[IntegerType, IntAttr, IntAttr, IntAttr]:
    """
    The storage parameters of a type, with what is not given filled in.

    Raises:
        TypeError: if an argument is of the wrong type.
        VerifyException: if the storage type has too many bits.
    """
    if not isinstance(cast(object, storage_type), IntegerType):
        raise TypeError(
            "storage type must be an integer type such as i8, not "
            f"{type_text(storage_type)}"
        )
    if is_signed is None:
        is_signed = storage_type.signedness.data is not Signedness.UNSIGNED
    is_signed = bool_argument(is_signed, "is_signed")
    width = storage_type.width.data
    if not 0 < width <= MAX_STORAGE_BITS:
        raise VerifyException(f"illegal storage type size: {width}")
    if storage_type_min is None:
        storage_type_min = default_storage_min(width, is_signed)
    if storage_type_max is None:
        storage_type_max = default_storage_max(width, is_signed)
    return (
        storage_type,
        IntAttr(SIGNED_FLAG if is_signed else 0),
        int_argument(storage_type_min, "storage_type_min"),
        int_argument(storage_type_max, "storage_type_max"),
    )


# Types


@irdl_attr_definition
class AnyQuantizedType(StoredQuantizedType):
    """
    A quantized type of which only the storage type and, perhaps, the expressed type are
    known.

    Example:

    ```mlir
    !quant.any<i8<-8:7>:f32>
    !quant.any<u8>
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#anyquantizedtype).
    """

    name = "quant.any"

    __hash__ = QuantizedType.__hash__  # a dataclass makes one of its own otherwise

    def __init__(
        self,
        storage_type: IntegerType,
        expressed_type: AnyFloat | NoneAttr | None = None,
        *,
        storage_type_min: int | None = None,
        storage_type_max: int | None = None,
        is_signed: bool | None = None,
    ):
        storage = storage_parameters(
            storage_type, is_signed, storage_type_min, storage_type_max
        )
        if expressed_type is None or isinstance(expressed_type, NoneAttr):
            super().__init__(NoneAttr(), *storage)
        else:
            super().__init__(checked_expressed_type(expressed_type), *storage)

    def text(self) -> str:
        from .type_syntax import any_text

        return any_text(self)


def _range_text(value: float) -> str:
    return f"{value:e}".replace("inf", "INF")


def scale_range_error(scale: float, scale_format: FloatFormat) -> str:
    """The message about a scale that its expressed type cannot hold."""
    return (
        f"scale {_range_text(scale)} out of expressed type range "
        f"[{_range_text(scale_format.smallest)}, {_range_text(scale_format.largest)}]"
    )


def out_of_range(
    scales: array[float] | Sequence[float], scale_format: FloatFormat
) -> float | None:
    """One of the scales that does not fit the format, or `None` if all of them do."""
    if not scales:
        return None
    if len(scales) >= MANY:
        import numpy as np

        doubles = np.asarray(scales, dtype=np.float64)
        fits = (doubles >= scale_format.smallest) & (doubles <= scale_format.largest)
        return None if fits.all() else float(doubles[~fits][0])
    # Comparisons do not see a NaN; a sum does.
    if math.isnan(sum(scales)):
        return next((s for s in scales if math.isnan(s)), math.inf)
    if (smallest := min(scales)) < scale_format.smallest:
        return smallest
    if (largest := max(scales)) > scale_format.largest:
        return largest
    return None


def verify_scales(
    scales: Sequence[float] | array[float], expressed_type: AnyFloat
) -> None:
    """Raise a `VerifyException` if the expressed type cannot hold a scale."""
    scale_format = float_format(expressed_type)
    if (scale := out_of_range(scales, scale_format)) is not None:
        raise VerifyException(scale_range_error(scale, scale_format))


@dataclass(frozen=True, init=False)
class _UniformType(StoredQuantizedType, ABC):
    """What the three kinds of `!quant.uniform` share."""

    name = "quant.uniform"

    expressed_type: AnyFloat


@irdl_attr_definition
class UniformQuantizedType(_UniformType):
    """
    Values approximated by integers at equal distances: with one scale and one zero point
    for all of them, `expressed = (stored - zero_point) * scale`.

    Example:

    ```mlir
    !quant.uniform<i8:f32, 5.000000e-01>
    !quant.uniform<u16<0:1023>:f32, 1.230000e+00:512>
    ```

    `!quant.uniform` is also the text of
    [`UniformQuantizedPerAxisType`][xdsl_quant.dialects.quant.UniformQuantizedPerAxisType]
    and
    [`UniformQuantizedSubChannelType`][xdsl_quant.dialects.quant.UniformQuantizedSubChannelType],
    and `new` makes an instance of whichever class the parameters belong to.

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#uniformquantizedtype).
    """

    scale: FloatData
    """Difference of the expressed values of two neighbouring stored values."""

    zero_point: IntAttr
    """The stored value that expresses 0."""

    __hash__ = QuantizedType.__hash__  # a dataclass makes one of its own otherwise

    def __init__(
        self,
        storage_type: IntegerType,
        expressed_type: AnyFloat,
        scale: float,
        zero_point: int = 0,
        *,
        storage_type_min: int | None = None,
        storage_type_max: int | None = None,
        is_signed: bool | None = None,
    ):
        """
        Stored values are signed unless `storage_type` is unsigned or `is_signed` is
        `False`. The range defaults to that of the storage type.
        """
        storage = storage_parameters(
            storage_type, is_signed, storage_type_min, storage_type_max
        )
        super().__init__(
            checked_expressed_type(expressed_type),
            *storage,
            float_argument(scale, "scale"),
            int_argument(zero_point, "zero point"),
        )

    @classmethod
    def new(cls, params: Sequence[Attribute]) -> Self:
        # One mnemonic is one class in a context, while MLIR has three behind this one.
        for other in (UniformQuantizedPerAxisType, UniformQuantizedSubChannelType):
            if len(params) == len(other.get_irdl_definition().parameters):
                return cast(Self, other.new(params))
        return super().new(params)

    @property
    def is_fixed_point(self) -> bool:
        """Whether the zero point is 0."""
        return not self.zero_point.data

    def verify(self) -> None:
        super().verify()
        verify_scales((self.scale.data,), self.expressed_type)
        _verify_zero_points((self.zero_point.data,))

    def text(self) -> str:
        from .type_syntax import uniform_text

        return uniform_text(self)


def _verify_zero_points(zero_points: Iterable[int]) -> None:
    for zero_point in zero_points:
        if not -(1 << 63) <= zero_point < 1 << 63:
            raise VerifyException(f"zero point {zero_point} does not fit 64 bits")


Floats = DenseArrayBase[Float64Type]
Ints = DenseArrayBase[I64]


def floats_attr(values: Iterable[float]) -> Floats:
    """Doubles as an attribute that is one block of bytes."""
    doubles = values if isinstance(values, array) else array("d", values)
    return DenseArrayBase(f64, BytesAttr(doubles.tobytes()))


def ints_attr(values: Iterable[int]) -> Ints:
    """64-bit integers as an attribute that is one block of bytes."""
    try:
        ints = values if isinstance(values, array) else array("q", values)
    except OverflowError as e:
        raise VerifyException("zero points must fit 64 bits") from e
    return DenseArrayBase(i64, BytesAttr(ints.tobytes()))


def float_array(attr: Floats) -> array[float]:
    """The numbers of an attribute, without a Python object for each of them."""
    values = array("d")
    values.frombytes(attr.data.data)
    return values


def int_array(attr: Ints) -> array[int]:
    """The numbers of an attribute, without a Python object for each of them."""
    values = array("q")
    values.frombytes(attr.data.data)
    return values


def zero_array(count: int) -> array[int]:
    """As many zeros."""
    return array("q", bytes(8 * count))


@irdl_attr_definition
class UniformQuantizedPerAxisType(_UniformType):
    """
    Values approximated by integers at equal distances: with one scale and one zero point
    for each index of one dimension of the tensor.

    Example:

    ```mlir
    !quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00:5}>
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#uniformquantizedperaxistype).
    """

    scales: Floats
    """The scales, in the order of the indices of the quantized dimension."""

    zero_points: Ints
    """The zero points, as many as scales."""

    quantized_dimension: IntAttr
    """The dimension of the tensor along which the scale changes."""

    __hash__ = QuantizedType.__hash__  # a dataclass makes one of its own otherwise

    def __init__(
        self,
        storage_type: IntegerType,
        expressed_type: AnyFloat,
        scales: Iterable[float],
        zero_points: Iterable[int] | None = None,
        *,
        quantized_dimension: int,
        storage_type_min: int | None = None,
        storage_type_max: int | None = None,
        is_signed: bool | None = None,
    ):
        """
        `scales` and `zero_points` are sequences or one-dimensional NumPy arrays; zero
        points default to 0.
        """
        storage = storage_parameters(
            storage_type, is_signed, storage_type_min, storage_type_max
        )
        expressed_type = checked_expressed_type(expressed_type)
        scale_array = float_vector(scales, "scales")
        super().__init__(
            expressed_type,
            *storage,
            floats_attr(scale_array),
            ints_attr(
                zero_array(len(scale_array))
                if zero_points is None
                else int_vector(zero_points, "zero points")
            ),
            int_argument(quantized_dimension, "quantized dimension"),
        )

    @property
    def is_fixed_point(self) -> bool:
        """Whether all zero points are 0."""
        return not any(self.zero_points.data.data)

    def verify(self) -> None:
        super().verify()
        if len(self.scales) != len(self.zero_points) or not len(self.scales):
            raise VerifyException(
                "illegal number of scales and zeroPoints: "
                f"{len(self.scales)}, {len(self.zero_points)}"
            )
        verify_scales(float_array(self.scales), self.expressed_type)
        verify_dimension(self.quantized_dimension.data)

    def text(self) -> str:
        from .type_syntax import per_axis_text

        return per_axis_text(self)


def verify_dimension(dimension: int) -> None:
    """Raise a `VerifyException` if no dimension has this number."""
    if not 0 <= dimension < 1 << 31:
        raise VerifyException(f"illegal quantized dimension: {dimension}")


@irdl_attr_definition
class UniformQuantizedSubChannelType(_UniformType):
    """
    Values approximated by integers at equal distances: with one scale and one zero point
    for each block of the tensor. A dimension that has no block size is one block.

    Example:

    ```mlir
    tensor<6x4x!quant.uniform<i8:f32:{1:2}, {{1.0:1, 2.0}, ... }>>
    ```

    Scales are numbers of the expressed type: a scale is rounded to it.

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#uniformquantizedsubchanneltype).
    """

    scales: Floats
    """The scales in row-major order."""

    zero_points: Ints
    """The zero points in row-major order, as many as scales."""

    scales_shape: Ints
    """The number of blocks along each dimension."""

    quantized_dimensions: DenseArrayBase[I32]
    """The dimensions that are cut into blocks."""

    block_sizes: Ints
    """The size of a block along each of `quantized_dimensions`."""

    __hash__ = QuantizedType.__hash__  # a dataclass makes one of its own otherwise

    def __init__(
        self,
        storage_type: IntegerType,
        expressed_type: AnyFloat,
        scales: Iterable[object],
        zero_points: Iterable[object] | None = None,
        *,
        quantized_dimensions: Sequence[int],
        block_sizes: Sequence[int],
        storage_type_min: int | None = None,
        storage_type_max: int | None = None,
        is_signed: bool | None = None,
    ):
        """
        `scales` and `zero_points` are nested sequences or NumPy arrays of one shape;
        zero points default to 0.
        """
        storage = storage_parameters(
            storage_type, is_signed, storage_type_min, storage_type_max
        )
        scale_format = float_format(checked_expressed_type(expressed_type))
        scale_array, shape = float_elements(scales, "scales")
        zero_point_array, zero_point_shape = zero_array(len(scale_array)), shape
        if zero_points is not None:
            zero_point_array, zero_point_shape = int_elements(
                zero_points, "zero points"
            )
        if out_of_range(scale_array, scale_format) is None:
            scale_array = scale_format.nearest_all(scale_array)
        if shape != zero_point_shape:
            raise VerifyException(
                f"shape of scales and zeroPoints ({shape}, {zero_point_shape}) does not "
                "match"
            )
        dimensions = int_vector(quantized_dimensions, "quantized dimensions")
        for dimension in dimensions:
            verify_dimension(dimension)
        super().__init__(
            *self.canonical_parameters(
                expressed_type,
                *storage,
                scale_array,
                zero_point_array,
                shape,
                dimensions,
                int_vector(block_sizes, "block sizes"),
            )
        )

    @staticmethod
    def canonical_parameters(
        expressed_type: AnyFloat,
        storage_type: IntegerType,
        flags: IntAttr,
        storage_type_min: IntAttr,
        storage_type_max: IntAttr,
        scales: array[float],
        zero_points: array[int],
        shape: Sequence[int],
        quantized_dimensions: Sequence[int],
        block_sizes: Sequence[int],
    ) -> tuple[Attribute, ...]:
        """
        The parameters of the type. A negative zero point of unsigned storage becomes the
        unsigned number with the same bits: this is how MLIR writes large ones.
        """
        if not flags.data & SIGNED_FLAG and zero_points and min(zero_points) < 0:
            modulus = 1 << storage_type.width.data
            zero_points = array(
                "q",
                (z + modulus if -modulus // 2 <= z < 0 else z for z in zero_points),
            )
        return (
            expressed_type,
            storage_type,
            flags,
            storage_type_min,
            storage_type_max,
            floats_attr(scales),
            ints_attr(zero_points),
            ints_attr(shape),
            DenseArrayBase.from_list(i32, quantized_dimensions),
            ints_attr(block_sizes),
        )

    @property
    def is_fixed_point(self) -> bool:
        """Whether all zero points are 0."""
        return not any(self.zero_points.data.data)

    @property
    def block_size_info(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a quantized dimension and the size of a block along it."""
        return tuple(
            zip(
                self.quantized_dimensions.get_values(),
                self.block_sizes.get_values(),
                strict=True,
            )
        )

    def verify(self) -> None:
        super().verify()
        shape = self.scales_shape.get_values()
        if not len(self.scales) == len(self.zero_points) == math.prod(shape):
            raise VerifyException(
                f"shape of scales and zeroPoints ({len(self.scales)}, "
                f"{len(self.zero_points)}) does not match"
            )
        if not len(self.scales):
            raise VerifyException("illegal number of scales and zeroPoints: 0, 0")
        verify_scales(float_array(self.scales), self.expressed_type)
        dimensions = self.quantized_dimensions.get_values()
        block_sizes = self.block_sizes.get_values()
        if len(dimensions) != len(block_sizes):
            raise VerifyException(
                f"number of quantized dimensions and block sizes ({len(dimensions)}, "
                f"{len(block_sizes)}) does not match"
            )
        for dimension in dimensions:
            verify_dimension(dimension)
        for block_size in block_sizes:
            if block_size <= 0:
                raise VerifyException(f"illegal block size: {block_size}")

    def text(self) -> str:
        from .type_syntax import sub_channel_text

        return sub_channel_text(self)


@irdl_attr_definition
class CalibratedQuantizedType(QuantizedType):
    """
    Values of which only the range is known that they had during calibration.

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

    __hash__ = QuantizedType.__hash__  # a dataclass makes one of its own otherwise

    def __init__(self, expressed_type: AnyFloat, min: float, max: float):
        super().__init__(
            checked_expressed_type(expressed_type),
            float_argument(min, "min"),
            float_argument(max, "max"),
        )

    def verify(self) -> None:
        if not self.min.data < self.max.data:
            raise VerifyException(
                f"illegal min and max: ({_range_text(self.min.data)}:"
                f"{_range_text(self.max.data)})"
            )

    def text(self) -> str:
        from .type_syntax import calibrated_text

        return calibrated_text(self)


UniformType = (
    UniformQuantizedType | UniformQuantizedPerAxisType | UniformQuantizedSubChannelType
)
"""The types that say how an expressed value becomes a stored one."""
