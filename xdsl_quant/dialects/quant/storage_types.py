"""Storage types of quantized types: integers, small floats and lookup tables."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import Self, TypeAlias, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float64Type,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .constructor_arguments import (
    FLOATS,
    Floats,
    float_array,
    floats_attr,
    int_argument,
    type_text,
    vector,
)
from .float_formats import FLOAT_FORMATS, float_format
from .float_text import float_text
from .type_tokens import UNIFORM, TypeTokens

_DOUBLE = float_format(Float64Type())


def _is_number_type(type_: object) -> bool:
    return isinstance(type_, IntegerType) or type(type_) in FLOAT_FORMATS


class _QuantileSyntax(TypeTokens):
    """Parser of one quantile type."""

    def parameters(self) -> Sequence[Attribute]:
        """Parse the parameters of a `!quant.quantile` type."""
        storage_type = self._number_type(
            "storage type must be an integer or float type"
        )
        self._expect(":")
        quantile_type = self._number_type(
            "quantile type must be a float or integer type"
        )
        self._expect(",")
        quantiles = self._quantiles()
        low, high = NoneAttr(), NoneAttr()
        if self._optional(","):
            (low, _), (high, _) = self._range()
            low, high = IntAttr(low), IntAttr(high)
        return storage_type, quantile_type, floats_attr(quantiles), low, high

    def _number_type(self, message: str) -> Attribute:
        if (type_ := self._optional_type()) is None:
            self._wrong_token("expected non-function type")
        if not isinstance(type_, IntegerType | AnyFloat):
            self.parser.raise_error(message, self.name_pos)
        return cast(Attribute, type_)

    def _quantiles(self) -> array[float]:
        start = self.parser.pos
        if (plain := self._plain_list(UNIFORM)) is not None:
            (quantiles, _), shape = plain
            if len(shape) == 1 and ":" not in self.content[start : self.parser.pos]:
                return quantiles
            self._resume_from(start)
        quantiles = array("d")
        self._expect("{")
        if self._optional("}"):
            return quantiles
        while True:
            quantiles.append(self._float())
            if not self._optional(","):
                self._expect("}")
                return quantiles


@irdl_attr_definition
class QuantileType(ParametrizedAttribute, TypeAttribute):
    """
    Storage type whose stored values are indices into a table, e.g. the 16 values of NF4:
    `table[stored - storage_min]`.

    Quantized types with this storage apply their scale and zero point to table entries:
    `expressed = (table[stored - storage_min] - zero_point) * scale`.

    MLIR has this type since version 23.

    Example:

    ```mlir
    !quant.quantile<i1:f16, {-1.000000e+00,1.000000e+00}>
    !quant.quantile<ui4:f16, {-1.000000e+00,0.000000e+00,1.000000e+00}, <0:2>>
    ```
    """

    name = "quant.quantile"

    storage_type: IntegerType | AnyFloat
    """The type of stored values; only its width and signedness are used."""

    quantile_type: IntegerType | AnyFloat
    """The type of table entries; as in MLIR, entries are not checked against it."""

    quantiles: Floats
    """The table entries, in the order of stored values."""

    storage_type_min: IntAttr | NoneAttr
    """Smallest stored value, if the type has a storage range."""

    storage_type_max: IntAttr | NoneAttr
    """Largest stored value, if the type has a storage range."""

    def __init__(
        self,
        storage_type: IntegerType | AnyFloat,
        quantile_type: IntegerType | AnyFloat,
        quantiles: Iterable[float],
        *,
        storage_type_min: int | None = None,
        storage_type_max: int | None = None,
    ):
        """
        Build a type from a sequence or one-dimensional NumPy array with one table entry
        per stored value. The storage range defaults to that of the storage type.

        Raises:
            TypeError: if an argument is of the wrong type.
            VerifyException: if the numbers of entries and stored values differ.
        """
        for name, type_ in (("storage", storage_type), ("quantile", quantile_type)):
            if not _is_number_type(type_):
                raise TypeError(
                    f"{name} type must be an integer or float type such as i4, not "
                    f"{type_text(type_)}"
                )
        super().__init__(
            storage_type,
            quantile_type,
            floats_attr(vector(quantiles, "quantiles", FLOATS)),
            *(
                NoneAttr() if bound is None else int_argument(bound, name)
                for name, bound in (
                    ("storage_type_min", storage_type_min),
                    ("storage_type_max", storage_type_max),
                )
            ),
        )

    # Accessors

    @property
    def bitwidth(self) -> int:
        """Width of a stored value in bits."""
        return self.storage_type.bitwidth

    @property
    def is_signed(self) -> bool:
        """True if stored values are signed: for `si4` and floats, not for `i4` or `ui4`."""
        storage_type = self.storage_type
        return not isinstance(storage_type, IntegerType) or (
            storage_type.signedness.data is Signedness.SIGNED
        )

    @property
    def has_storage_range(self) -> bool:
        """True if the type specifies a storage range."""
        return not isinstance(self.storage_type_min, NoneAttr)

    @property
    def storage_range(self) -> tuple[int, int]:
        """Smallest and largest stored value, by default those of the storage type."""
        low, high = self.storage_type_min, self.storage_type_max
        if isinstance(low, IntAttr) and isinstance(high, IntAttr):
            return low.data, high.data
        count = 1 << self.bitwidth
        return (-(count >> 1), (count >> 1) - 1) if self.is_signed else (0, count - 1)

    def quantile_array(self) -> array[float]:
        """Return the table entries, in the order of stored values."""
        return float_array(self.quantiles)

    # Verification

    def verify(self) -> None:
        quantiles = self.quantile_array()
        if not quantiles:
            raise VerifyException("quantile values must not be empty")
        if self.has_storage_range is isinstance(self.storage_type_max, NoneAttr):
            raise VerifyException(
                "storage min and max must both be specified or both omitted"
            )
        low, high = self.storage_range
        if self.has_storage_range and low >= high:
            raise VerifyException("storage min must be less than storage max")
        if len(quantiles) != (count := high - low + 1):
            # Python does not format integers with thousands of digits.
            text = str(count) if count.bit_length() <= 65 else f"2**{self.bitwidth}"
            raise VerifyException(
                f"quantile LUT size ({len(quantiles)}) must equal the number of "
                f"representable storage values ({text})"
            )
        if not all(map(math.isfinite, quantiles)):
            raise VerifyException("quantile values must be finite (no NaN or infinity)")

    # Text

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        syntax = _QuantileSyntax(parser, cls.name)
        return syntax.parse(syntax.parameters, cls.new)

    @classmethod
    def new(cls, params: Sequence[Attribute]) -> Self:
        if len(params) == 1 and isinstance(parsed := params[0], QuantileType):
            return cast(Self, parsed)
        return super().new(params)

    def print_parameters(self, printer: Printer) -> None:
        quantiles = ",".join(float_text(q, _DOUBLE) for q in self.quantile_array())
        bounds = ", <{}:{}>".format(*self.storage_range)
        printer.print_string(
            f"<{self.storage_type}:{self.quantile_type}, {{{quantiles}}}"
            f"{bounds if self.has_storage_range else ''}>"
        )


MLIRStorageType: TypeAlias = (
    IntegerType | Float8E5M2Type | Float8E4M3FNType | Float4E2M1FNType | QuantileType
)
"""The storage types of MLIR."""

FloatStorageType: TypeAlias = (
    Float8E5M2Type
    | Float8E4M3FNType
    | Float8E8M0FNUType
    | Float6E2M3FNType
    | Float6E3M2FNType
    | Float4E2M1FNType
)
"""The float storage types; 6-bit and unsigned ones are for block-scaled types only."""

StorageType: TypeAlias = IntegerType | FloatStorageType | QuantileType

MAX_STORAGE_BITS = 32
"""Maximum width of a storage type in bits."""

SIGNED_FLAG = 1
"""Bit of `flags` that is set for signed stored values."""


def default_storage_min(width: int, is_signed: bool) -> int:
    """Return the smallest integer of `width` bits."""
    return -(1 << (width - 1)) if is_signed else 0


def default_storage_max(width: int, is_signed: bool) -> int:
    """Return the largest integer of `width` bits."""
    return (1 << (width - is_signed)) - 1


def is_signed_by_default(storage_type: StorageType) -> bool:
    """Return True if a storage type spelled without the prefix `u` is signed."""
    if isinstance(storage_type, IntegerType):
        return storage_type.signedness.data is not Signedness.UNSIGNED
    if isinstance(storage_type, QuantileType):
        return storage_type.is_signed
    return not isinstance(storage_type, Float8E8M0FNUType)


def default_storage_range(
    storage_type: StorageType, is_signed: bool
) -> tuple[int, int]:
    """
    Return the smallest and largest stored value of a storage type. For a float type, the
    largest is the integer part of the largest finite value; the smallest is the negative of
    this, or 0 for an unsigned type.
    """
    if isinstance(storage_type, QuantileType):
        return storage_type.storage_range
    if not isinstance(storage_type, IntegerType):
        largest = int(float_format(storage_type).largest)
        return -largest if is_signed else 0, largest
    width = storage_type.bitwidth
    return default_storage_min(width, is_signed), default_storage_max(width, is_signed)
