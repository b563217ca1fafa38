"""
Quantized types with fixed-point scales: a multiplier and a right shift.

A scale is `multiplier * 2**-shift`. The multiplier has 31 significant bits, so each scale
has a single representation. Ranges are those of `apply_scale_32` in the
[TOSA specification](https://www.mlplatform.org/tosa/tosa_spec.html).

The grammar is in [`type_syntax`][xdsl_quant.dialects.quant.type_syntax].
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import neg
from typing import TypeVar, Unpack

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
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException

from .constructor_arguments import (
    INTEGERS,
    floats_attr,
    int_argument,
    ints_attr,
    vector,
)
from .storage_types import StorageType
from .type_syntax import ScalesText, TypeSyntax
from .types import (
    PerAxisType,
    PerTensorType,
    ScaledQuantizedType,
    StorageOptions,
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
    common_arguments,
    zero_points_attr,
)

MIN_SHIFT, MAX_SHIFT = 2, 62
MAX_MULTIPLIER = (1 << 31) - 1

_RANGES = {"multiplier": (1 << 30, MAX_MULTIPLIER), "shift": (MIN_SHIFT, MAX_SHIFT)}

Multipliers = DenseArrayBase[I32]
Shifts = DenseArrayBase[I8]


def _range_error(name: str, number: int, hint: str = "") -> VerifyException:
    low, high = _RANGES[name]
    return VerifyException(f"{name} {number} is out of the range {low} to {high}{hint}")


def _verify_multipliers_and_shifts(
    multipliers: Sequence[int], shifts: Sequence[int]
) -> None:
    for name, numbers in (("multiplier", multipliers), ("shift", shifts)):
        low, high = _RANGES[name]
        for number in (min(numbers), max(numbers)):
            if not low <= number <= high:
                hint = ""
                if numbers is multipliers:
                    hint = _same_scale_hint(number, multipliers, shifts)
                raise _range_error(name, number, hint)


def _same_scale_hint(
    multiplier: int, multipliers: Sequence[int], shifts: Sequence[int]
) -> str:
    """Return advice to write the same scale in valid form; empty if there is none."""
    shift = shifts[multipliers.index(multiplier)]
    zeros = MAX_MULTIPLIER.bit_length() - multiplier.bit_length()
    same, rest = divmod(multiplier << max(zeros, 0), 1 << max(-zeros, 0))
    if multiplier < 1 or rest or not MIN_SHIFT <= shift + zeros <= MAX_SHIFT:
        return ""
    return f"; write '{multiplier}p-{shift}' as '{same}p-{shift + zeros}'"


@dataclass(frozen=True, init=False)
class FixedPointType(ScaledQuantizedType, ABC):
    """
    Base class of `!quant.fixed_point` types, whose scales are integers times powers of two.
    """

    name = "quant.fixed_point"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        syntax = TypeSyntax(parser, cls.name)
        return syntax.parse(syntax.fixed_point, _fixed_point_type_from_text)

    @property
    @abstractmethod
    def multipliers_and_shifts(self) -> tuple[Sequence[int], Sequence[int]]:
        """The multipliers and right shifts, as in TOSA's `apply_scale_32`."""

    @property
    def tflite_multipliers_and_shifts(self) -> tuple[Sequence[int], Sequence[int]]:
        """
        The multipliers and left shifts of TensorFlow Lite's kernels, whose scales are
        `multiplier * 2**(shift - 31)`.

        [`multiplier_from_tflite`][xdsl_quant.numerics.multiplier_from_tflite] is the
        inverse.
        """
        multipliers, shifts = self.multipliers_and_shifts
        return multipliers, [31 - shift for shift in shifts]

    @abstractmethod
    def to_uniform(self) -> UniformQuantizedType | UniformQuantizedPerAxisType:
        """Return the `!quant.uniform` type with exactly the same parameters."""

    def scale_array(self) -> array[float]:
        multipliers, shifts = self.multipliers_and_shifts
        return array("d", map(math.ldexp, multipliers, map(neg, shifts)))

    def verify(self) -> None:
        if not self.has_integer_storage:
            raise VerifyException(
                "storage type of fixed-point scales must be an integer type, but got "
                f"'{self.short_storage_name}'"
            )
        _verify_multipliers_and_shifts(*self.multipliers_and_shifts)
        super().verify()
        self.verify_zero_points_are_storable()

    def scale_texts(self) -> list[str]:
        return [*map("%dp-%d".__mod__, zip(*self.multipliers_and_shifts, strict=True))]


@irdl_attr_definition
class FixedPointQuantizedType(FixedPointType, PerTensorType):
    """
    Per-tensor quantization with a fixed-point scale: one multiplier, shift and zero point.

    Example:

    ```mlir
    // The scale is 1288490189 * 2**-37, about 0.009375.
    !quant.fixed_point<i8<-127:127>:f32, 1288490189p-37:3>
    ```

    The parser of this class also parses
    [`FixedPointQuantizedPerAxisType`][xdsl_quant.dialects.quant.FixedPointQuantizedPerAxisType].
    """

    multiplier: IntAttr
    """The scale times `2**shift`, from `2**30` to `2**31 - 1`."""

    shift: IntAttr
    """The right shift of the multiplier, from 2 to 62."""

    def __init__(
        self,
        storage_type: StorageType,
        expressed_type: AnyFloat,
        multiplier: int,
        shift: int,
        zero_point: int = 0,
        **options: Unpack[StorageOptions],
    ):
        super().__init__(
            *common_arguments(storage_type, expressed_type, options),
            int_argument(zero_point, "zero point"),
            int_argument(multiplier, "multiplier"),
            int_argument(shift, "shift"),
        )

    @property
    def multipliers_and_shifts(self) -> tuple[Sequence[int], Sequence[int]]:
        return (self.multiplier.data,), (self.shift.data,)

    def to_uniform(self) -> UniformQuantizedType:
        (scale,) = self.scale_array()
        return UniformQuantizedType.new(
            (*self.common_parameters, self.zero_point, FloatData(scale))
        )

    def _scale_description(self) -> Iterator[tuple[str, object]]:
        (text,), (scale,) = self.scale_texts(), self.scale_array()
        yield "scale", f"{text} = {scale:.6g}"
        yield "zero point", self.zero_point.data


def multipliers_attr(values: array[int]) -> Multipliers:
    """
    Build an i32 array attribute.

    Raises:
        VerifyException: if a multiplier exceeds i32.
    """
    return _narrow_array("multiplier", values, "i", i32)


def shifts_attr(values: array[int]) -> Shifts:
    """
    Build an i8 array attribute.

    Raises:
        VerifyException: if a shift exceeds i8.
    """
    return _narrow_array("shift", values, "b", i8)


_IntegerT = TypeVar("_IntegerT", bound=IntegerType)


def _narrow_array(
    name: str, values: array[int], typecode: str, element_type: _IntegerT
) -> DenseArrayBase[_IntegerT]:
    try:
        return DenseArrayBase(
            element_type, BytesAttr(array(typecode, values).tobytes())
        )
    except OverflowError:
        raise _range_error(name, max(values, key=abs)) from None


@irdl_attr_definition
class FixedPointQuantizedPerAxisType(FixedPointType, PerAxisType):
    """
    Per-axis quantization with fixed-point scales: a multiplier, shift and zero point for
    each index of one dimension.

    Example:

    ```mlir
    !quant.fixed_point<i8:f32:1, {1288490189p-37:3,1610612736p-38}>
    ```
    """

    multipliers: Multipliers
    """The scales times `2**shift`, in index order."""

    shifts: Shifts
    """The right shifts of the multipliers."""

    def __init__(
        self,
        storage_type: StorageType,
        expressed_type: AnyFloat,
        multipliers: Iterable[int],
        shifts: Iterable[int],
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
        multiplier_values = vector(multipliers, "multipliers", INTEGERS)
        super().__init__(
            *common,
            zero_points_attr(zero_points, len(multiplier_values)),
            int_argument(quantized_dimension, "quantized dimension"),
            multipliers_attr(multiplier_values),
            shifts_attr(vector(shifts, "shifts", INTEGERS)),
        )

    @property
    def multipliers_and_shifts(self) -> tuple[Sequence[int], Sequence[int]]:
        multipliers, shifts = array("i"), array("b")
        multipliers.frombytes(self.multipliers.data.data)
        shifts.frombytes(self.shifts.data.data)
        return multipliers, shifts

    def to_uniform(self) -> UniformQuantizedPerAxisType:
        return UniformQuantizedPerAxisType.new(
            (
                *self.common_parameters,
                self.zero_points,
                self.quantized_dimension,
                floats_attr(self.scale_array()),
            )
        )

    def verify(self) -> None:
        counts = (len(self.multipliers), len(self.shifts), len(self.zero_points))
        if not counts[0] or len({*counts}) != 1:
            raise VerifyException(
                "illegal number of multipliers, shifts and zero points: "
                f"{counts[0]}, {counts[1]}, {counts[2]}"
            )
        super().verify()


def _fixed_point_type_from_text(text: ScalesText) -> FixedPointType:
    multipliers, shifts, zero_points = text.columns
    if text.dimension is None:
        numbers = map(IntAttr, (zero_points[0], multipliers[0], shifts[0]))
        return FixedPointQuantizedType.new((*text.common, *numbers))
    return FixedPointQuantizedPerAxisType.new(
        (
            *text.common,
            ints_attr(zero_points),
            IntAttr(text.dimension),
            multipliers_attr(multipliers),
            shifts_attr(shifts),
        )
    )
