"""
The quantized types whose scales are integers: a multiplier, and a shift to the right.

A scale is `multiplier * 2**-shift`. The multiplier has 31 bits, the first of which is 1, so
there is one way to write a scale, and equal scales are equal types. Both are in the range
that `apply_scale_32` of the
[TOSA specification](https://www.mlplatform.org/tosa/tosa_spec.html) takes.

The text of a type is in
[`fixed_point_syntax`][xdsl_quant.dialects.quant.fixed_point_syntax].
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import neg
from typing import Self, cast

from xdsl.dialects.builtin import (
    I8,
    I32,
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    FloatData,
    IntAttr,
    IntegerType,
    i8,
    i32,
)
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from .constructor_arguments import (
    checked_expressed_type,
    int_argument,
    int_vector,
)
from .types import (
    Ints,
    QuantizedType,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
    default_storage_max,
    default_storage_min,
    floats_attr,
    int_array,
    ints_attr,
    storage_parameters,
    verify_dimension,
    verify_scales,
    zero_array,
)

MIN_MULTIPLIER, MAX_MULTIPLIER = 1 << 30, (1 << 31) - 1
MIN_SHIFT, MAX_SHIFT = 2, 62

Multipliers = DenseArrayBase[I32]
Shifts = DenseArrayBase[I8]


def scale_values(
    multipliers: Sequence[int] | array[int], shifts: Sequence[int] | array[int]
) -> array[float]:
    """The scales as doubles, which hold them exactly."""
    return array("d", map(math.ldexp, multipliers, map(neg, shifts)))


def _verify_multipliers_and_shifts(
    multipliers: Sequence[int] | array[int], shifts: Sequence[int] | array[int]
) -> None:
    for multiplier in (min(multipliers), max(multipliers)):
        if not MIN_MULTIPLIER <= multiplier <= MAX_MULTIPLIER:
            raise VerifyException(
                f"multiplier {multiplier} is not in the range {MIN_MULTIPLIER} to "
                f"{MAX_MULTIPLIER}{_hint(multiplier, multipliers, shifts)}"
            )
    for shift in (min(shifts), max(shifts)):
        if not MIN_SHIFT <= shift <= MAX_SHIFT:
            raise VerifyException(
                f"shift {shift} is not in the range {MIN_SHIFT} to {MAX_SHIFT}"
            )


def _hint(
    multiplier: int,
    multipliers: Sequence[int] | array[int],
    shifts: Sequence[int] | array[int],
) -> str:
    """How to write the same scale, if it is one."""
    shift = shifts[multipliers.index(multiplier)]
    zeros = 31 - multiplier.bit_length()
    if multiplier <= 0 or not MIN_SHIFT <= shift + zeros <= MAX_SHIFT:
        return ""
    # What is shifted out of a multiplier that is too large must be zeros.
    if zeros < 0 and multiplier % (1 << -zeros):
        return ""
    same = multiplier << zeros if zeros > 0 else multiplier >> -zeros
    return f", write '{multiplier}p-{shift}' as '{same}p-{shift + zeros}'"


@dataclass(frozen=True, init=False)
class _FixedPointType(StoredQuantizedType, ABC):
    """What both kinds of `!quant.fixed_point` share."""

    name = "quant.fixed_point"

    expressed_type: AnyFloat

    @abstractmethod
    def to_uniform(self) -> UniformQuantizedType | UniformQuantizedPerAxisType:
        """The `!quant.uniform` type with the same scales, exactly, and all else equal."""

    def _verify_scales_and_zero_points(
        self,
        multipliers: Sequence[int] | array[int],
        shifts: Sequence[int] | array[int],
        zero_points: Sequence[int] | array[int],
    ) -> None:
        _verify_multipliers_and_shifts(multipliers, shifts)
        verify_scales(scale_values(multipliers, shifts), self.expressed_type)
        width = self.storage_type_integral_width
        low = default_storage_min(width, self.is_signed)
        high = default_storage_max(width, self.is_signed)
        for zero_point in (min(zero_points), max(zero_points)):
            if not low <= zero_point <= high:
                raise VerifyException(
                    f"zero point {zero_point} does not fit storage type "
                    f"'{self.storage_type_name}', whose values are {low} to {high}"
                )


@irdl_attr_definition
class FixedPointQuantizedType(_FixedPointType):
    """
    Values approximated by integers at equal distances: with one scale, which is an integer
    times a power of two, and one zero point.

    Example:

    ```mlir
    // The scale is 1288490189 * 2**-37, about 0.009375.
    !quant.fixed_point<i8<-127:127>:f32, 1288490189p-37:3>
    ```

    The class of the mnemonic is this one for
    [`FixedPointQuantizedPerAxisType`][xdsl_quant.dialects.quant.FixedPointQuantizedPerAxisType],
    too: `new` makes an instance of whichever class the parameters belong to.
    """

    multiplier: IntAttr
    """The scale times `2**shift`: from `2**30` to `2**31 - 1`."""

    shift: IntAttr
    """The power of two that the multiplier is divided by: from 2 to 62."""

    zero_point: IntAttr
    """The stored value that expresses 0."""

    __hash__ = QuantizedType.__hash__  # a dataclass makes one of its own otherwise

    def __init__(
        self,
        storage_type: IntegerType,
        expressed_type: AnyFloat,
        multiplier: int,
        shift: int,
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
            int_argument(multiplier, "multiplier"),
            int_argument(shift, "shift"),
            int_argument(zero_point, "zero point"),
        )

    @classmethod
    def new(cls, params: Sequence[Attribute]) -> Self:
        # One mnemonic is one class in a context.
        other = FixedPointQuantizedPerAxisType
        if len(params) == len(other.get_irdl_definition().parameters):
            return cast(Self, other.new(params))
        return super().new(params)

    def to_uniform(self) -> UniformQuantizedType:
        scale = math.ldexp(self.multiplier.data, -self.shift.data)
        return UniformQuantizedType.new(
            (
                self.expressed_type,
                self.storage_type,
                self.flags,
                self.storage_type_min,
                self.storage_type_max,
                FloatData(scale),
                self.zero_point,
            )
        )

    def verify(self) -> None:
        super().verify()
        self._verify_scales_and_zero_points(
            (self.multiplier.data,), (self.shift.data,), (self.zero_point.data,)
        )

    def text(self) -> str:
        from .fixed_point_syntax import fixed_point_text

        return fixed_point_text(self)


def multipliers_attr(values: array[int]) -> Multipliers:
    """
    Multipliers as an attribute that is one block of bytes.

    Raises:
        VerifyException: if one has more than 31 bits.
    """
    try:
        return DenseArrayBase(i32, BytesAttr(array("i", values).tobytes()))
    except OverflowError:
        wrong = max(values, key=abs)
        raise VerifyException(
            f"multiplier {wrong} is not in the range {MIN_MULTIPLIER} to "
            f"{MAX_MULTIPLIER}"
        ) from None


def shifts_attr(values: array[int]) -> Shifts:
    """
    Shifts as an attribute that is one block of bytes.

    Raises:
        VerifyException: if one has more than 8 bits.
    """
    try:
        return DenseArrayBase(i8, BytesAttr(array("b", values).tobytes()))
    except OverflowError:
        wrong = max(values, key=abs)
        raise VerifyException(
            f"shift {wrong} is not in the range {MIN_SHIFT} to {MAX_SHIFT}"
        ) from None


def multiplier_array(attr: Multipliers) -> array[int]:
    """The multipliers, without a Python object for each of them."""
    values = array("i")
    values.frombytes(attr.data.data)
    return values


def shift_array(attr: Shifts) -> array[int]:
    """The shifts, without a Python object for each of them."""
    values = array("b")
    values.frombytes(attr.data.data)
    return values


@irdl_attr_definition
class FixedPointQuantizedPerAxisType(_FixedPointType):
    """
    Values approximated by integers at equal distances: with one scale, which is an integer
    times a power of two, and one zero point for each index of one dimension of the tensor.

    Example:

    ```mlir
    !quant.fixed_point<i8:f32:1, {1288490189p-37:3,1610612736p-38}>
    ```
    """

    multipliers: Multipliers
    """Each scale times `2**shift`, in the order of the indices of the dimension."""

    shifts: Shifts
    """The powers of two that the multipliers are divided by."""

    zero_points: Ints
    """The zero points, as many as scales."""

    quantized_dimension: IntAttr
    """The dimension of the tensor along which the scale changes."""

    __hash__ = QuantizedType.__hash__  # a dataclass makes one of its own otherwise

    def __init__(
        self,
        storage_type: IntegerType,
        expressed_type: AnyFloat,
        multipliers: Iterable[int],
        shifts: Iterable[int],
        zero_points: Iterable[int] | None = None,
        *,
        quantized_dimension: int,
        storage_type_min: int | None = None,
        storage_type_max: int | None = None,
        is_signed: bool | None = None,
    ):
        """
        Multipliers, shifts and zero points are sequences or one-dimensional NumPy arrays;
        zero points default to 0.
        """
        storage = storage_parameters(
            storage_type, is_signed, storage_type_min, storage_type_max
        )
        expressed_type = checked_expressed_type(expressed_type)
        multiplier_values = int_vector(multipliers, "multipliers")
        super().__init__(
            expressed_type,
            *storage,
            multipliers_attr(multiplier_values),
            shifts_attr(int_vector(shifts, "shifts")),
            ints_attr(
                zero_array(len(multiplier_values))
                if zero_points is None
                else int_vector(zero_points, "zero points")
            ),
            int_argument(quantized_dimension, "quantized dimension"),
        )

    def to_uniform(self) -> UniformQuantizedPerAxisType:
        scales = scale_values(
            multiplier_array(self.multipliers), shift_array(self.shifts)
        )
        return UniformQuantizedPerAxisType.new(
            (
                self.expressed_type,
                self.storage_type,
                self.flags,
                self.storage_type_min,
                self.storage_type_max,
                floats_attr(scales),
                self.zero_points,
                self.quantized_dimension,
            )
        )

    def verify(self) -> None:
        super().verify()
        counts = (len(self.multipliers), len(self.shifts), len(self.zero_points))
        if not counts[0] or len({*counts}) != 1:
            raise VerifyException(
                "illegal number of multipliers, shifts and zero points: "
                f"{counts[0]}, {counts[1]}, {counts[2]}"
            )
        self._verify_scales_and_zero_points(
            multiplier_array(self.multipliers),
            shift_array(self.shifts),
            int_array(self.zero_points),
        )
        verify_dimension(self.quantized_dimension.data)

    def text(self) -> str:
        from .fixed_point_syntax import fixed_point_per_axis_text

        return fixed_point_per_axis_text(self)


FixedPointType = FixedPointQuantizedType | FixedPointQuantizedPerAxisType
"""The types whose scales are integers times powers of two."""
