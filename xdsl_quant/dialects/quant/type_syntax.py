"""
Grammar and parser of quantized types; error messages and their columns are MLIR's.

```
type        ::= `!quant.` body | `!quant` `<` body `>`
body        ::= any | uniform | fixed-point | calibrated | none
any         ::= `any` `<` storage (`:` float-type)? `>`
storage     ::= storage-type (`<` int `:` int `>`)?
storage-type::= integer-type | `u` digits | `f8E5M2` | `f8E4M3FN` | `f4E2M1FN` | quantile
quantile    ::= `!quant.quantile` `<` number-type `:` number-type `,` values
                (`,` `<` int `:` int `>`)? `>`
number-type ::= integer-type | float-type
values      ::= `{` (float (`,` float)*)? `}`
uniform     ::= `uniform` `<` storage `:` float-type (`:` (int | blocks))? `,` params `>`
blocks      ::= `{` (int `:` int (`,` int `:` int)*)? `}`
params      ::= scale (`:` int)?                     without a dimension or blocks
              | list                                 with them
list        ::= `{` element (`,` element)* `}`
element     ::= scale (`:` int)? | list
calibrated  ::= `calibrated` `<` float-type `<` float `:` float `>` `>`
```

MLIR does not have these types:

```
none        ::= `none` `<` float-type `>`
fixed-point ::= `fixed_point` `<` storage `:` float-type `,` integers `>`
              | `fixed_point` `<` storage `:` float-type `:` int `,`
                `{` integers (`,` integers)* `}` `>`
integers    ::= multiplier `p-` shift (`:` int)?
```

`multiplier` and `shift` are decimal integers. `p` marks a power of two, as in hexadecimal
floats: `12p-3` is `12 * 2**-3`.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

from xdsl.dialects.builtin import AnyFloat, FloatData, IntAttr, IntegerType, NoneAttr
from xdsl.ir import Attribute
from xdsl.utils.lexer import Location
from xdsl.utils.mlir_lexer import MLIRTokenKind

from .float_formats import float_format
from .storage_types import (
    MAX_STORAGE_BITS,
    SIGNED_FLAG,
    MLIRStorageType,
    StorageType,
    default_storage_range,
    is_signed_by_default,
)
from .type_tokens import (
    FIXED_POINT,
    MAX_DEPTH,
    UNIFORM,
    Columns,
    TypeTokens,
    integer_value,
)

_PLAIN_TYPES = re.compile(r"((?:[su]?i|u)[0-9]{1,2}:b?f[0-9]{2})(?![\w.$])", re.ASCII)

_PLAIN_NUMBERS = r", ([0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?)(?::(-?[0-9]{1,18}))?"

PER_TENSOR = re.compile(f"<{_PLAIN_TYPES.pattern}{_PLAIN_NUMBERS}>", re.ASCII)
"""Plain types, a decimal scale and a zero point: read without tokens, which are slow."""

plain_types: dict[str, tuple[AnyFloat, tuple[Attribute, ...]]] = {}
"""
Cache of the expressed type and the leading parameters by text: parsing them takes a third
of the time of a type.
"""

_UNSIGNED_STORAGE = re.compile(r"u([0-9]*)")


class ScalesText(NamedTuple):
    """The parsed parameters of a type with scales."""

    common: tuple[Attribute, ...]
    """The expressed type and the storage parameters."""

    columns: Sequence[array[Any]]
    """Arrays of scales and zero points, or of multipliers, shifts and zero points."""

    shape: Sequence[int]
    """The shape of a list; empty for a per-tensor type."""

    dimension: int | None = None
    """The quantized dimension of a per-axis type."""

    blocks: tuple[list[int], list[int]] | None = None
    """Dimensions and block sizes of a sub-channel type."""

    location: Location | None = None
    """The location of the scales of a sub-channel type."""


class TypeSyntax(TypeTokens):
    """Parser of one quantized type."""

    STORAGE_TYPES: ClassVar = MLIRStorageType

    def _storage(self) -> tuple[StorageType, IntAttr, IntAttr, IntAttr]:
        position = self.parser.pos
        storage_type = self._optional_type()
        if storage_type is None:
            storage_type = self._unsigned_storage_type()
            is_signed = False
        elif isinstance(storage_type, self.STORAGE_TYPES):
            storage_type = cast(StorageType, storage_type)
            is_signed = is_signed_by_default(storage_type)
        else:
            self.parser.raise_error("illegal storage type prefix", position)
        width = storage_type.bitwidth
        if not 0 < width <= MAX_STORAGE_BITS:
            self.parser.raise_error(f"illegal storage type size: {width}", position)
        low, high = self._storage_range(*default_storage_range(storage_type, is_signed))
        flags = IntAttr(SIGNED_FLAG if is_signed else 0)
        return storage_type, flags, IntAttr(low), IntAttr(high)

    def _unsigned_storage_type(self) -> IntegerType:
        token = self._token
        if token.kind is not MLIRTokenKind.BARE_IDENT:
            self.parser.raise_error("expected valid keyword")
        if not token.text.startswith("u"):
            self.parser.raise_error("illegal storage type prefix")
        match = _UNSIGNED_STORAGE.fullmatch(token.text)
        if match is None or not match[1] or integer_value(match[1]) >= 1 << 32:
            self.parser.raise_error("expected storage type width")
        position = self.parser.pos
        if (width := integer_value(match[1])) >= 1 << 24:
            self.parser.raise_error(f"illegal storage type size: {width}", position)
        self._next()
        return IntegerType(width)

    def _storage_range(self, default_min: int, default_max: int) -> tuple[int, int]:
        if self._token.text != "<":
            return default_min, default_max
        (low, low_position), (high, high_position) = self._range()
        if low < default_min:
            self.parser.raise_error(
                f"illegal storage type minimum: {low}", low_position
            )
        if high > default_max:
            self.parser.raise_error(
                f"illegal storage type maximum: {high}", high_position
            )
        return low, high

    # Bodies

    def any(self) -> Sequence[Attribute]:
        """Parse the parameters of a `!quant.any` type."""
        storage = self._storage()
        expressed_type = self._float_type() if self._optional(":") else NoneAttr()
        return expressed_type, *storage

    def calibrated(self) -> Sequence[Attribute]:
        """Parse the parameters of a `!quant.calibrated` type."""
        expressed_type = self._float_type()
        self._expect("<")
        low = self._float()
        self._expect(":")
        high = self._float()
        self._expect(">")
        return expressed_type, FloatData(low), FloatData(high)

    def none(self) -> Sequence[Attribute]:
        """Parse the parameters of a `!quant.none` type."""
        return (self._float_type(),)

    def _storage_and_expressed_type(self) -> tuple[AnyFloat, tuple[Attribute, ...]]:
        """Parse e.g. `i8:f32`; return the expressed type and the leading parameters."""
        plain = _PLAIN_TYPES.match(self.content, self.parser.pos)
        if plain and (known := plain_types.get(plain[0])):
            self._resume_from(plain.end())
            return known
        storage = self._storage()
        self._expect(":")
        expressed_type = self._float_type()
        parsed = expressed_type, (expressed_type, *storage)
        if plain:
            plain_types[plain[0]] = parsed
        return parsed

    def uniform(self) -> ScalesText:
        """Parse the parameters of a `!quant.uniform` type."""
        expressed_type, common = self._storage_and_expressed_type()
        if not self._optional(":"):
            self._expect(",")
            scale, zero_point = self._scale_and_zero_point(expressed_type)
            columns = array("d", (scale,)), array("q", (zero_point,))
            return ScalesText(common, columns, ())
        if self._token.text == "{":
            blocks = self._blocks()
            self._expect(",")
            location = self._token.span.get_location()
            columns, shape = self._scales(expressed_type, exact=True)
            return ScalesText(common, columns, shape, blocks=blocks, location=location)
        dimension = self._integer(32)
        self._expect(",")
        return ScalesText(common, *self._scales(expressed_type), dimension)

    def fixed_point(self) -> ScalesText:
        """Parse the parameters of a `!quant.fixed_point` type."""
        _, common = self._storage_and_expressed_type()
        if not self._optional(":"):
            self._expect(",")
            element = self._fixed_point_element()
            return ScalesText(common, [array("q", (number,)) for number in element], ())
        dimension = self._integer(32)
        self._expect(",")
        written = self._plain_list(FIXED_POINT) or self._list(
            FIXED_POINT, self._fixed_point_element
        )
        return ScalesText(common, *written, dimension)

    def _blocks(self) -> tuple[list[int], list[int]]:
        dimensions: list[int] = []
        block_sizes: list[int] = []
        self._expect("{")
        if self._optional("}"):
            return dimensions, block_sizes
        while True:
            dimensions.append(self._integer(32))
            self._expect(":")
            block_sizes.append(self._integer())
            if not self._optional(","):
                self._expect("}")
                return dimensions, block_sizes

    # Scales and zero points

    def _scale_and_zero_point(
        self, expressed_type: AnyFloat, exact: bool = False
    ) -> tuple[float, int]:
        """
        Parse a scale and its zero point. With `exact`, the scale may be written as the
        bits of the expressed type, as MLIR prints some scales of sub-channel types.
        """
        scale_format = float_format(expressed_type)
        text = self._token.text
        scale = self._float()
        if scale_format.out_of_range((scale,)) is not None:
            bits = _float_from_bits(text, expressed_type) if exact else None
            if bits is None or scale_format.out_of_range((bits,)) is not None:
                self.parser.raise_error(scale_format.range_error(scale))
            scale = bits
        return scale, self._integer() if self._optional(":") else 0

    def _fixed_point_element(self) -> tuple[int, int, int]:
        if self._token.kind is MLIRTokenKind.FLOAT_LIT:
            self.parser.raise_error(
                "expected an integer times a power of two, e.g. '1610612736p-38', but got "
                f"'{self._token.text}'"
            )
        multiplier = self._integer()
        # The lexer reads `p` and following letters or digits as one identifier.
        if self._token.text != "p":
            self._wrong_token(
                "expected 'p-' and a shift after the multiplier, e.g. '1610612736p-38'"
            )
        self._next()
        self._expect("-")
        shift = self._integer()
        return multiplier, shift, self._integer() if self._optional(":") else 0

    def _scales(self, expressed_type: AnyFloat, exact: bool = False) -> Columns:
        """Parse a nested list of scales and zero points."""
        start = self.parser.pos
        if (plain := self._plain_list(UNIFORM)) is not None:
            (scales, _), _ = plain
            if float_format(expressed_type).out_of_range(scales) is None:
                return plain
            self._resume_from(start)
        read = partial(self._scale_and_zero_point, expressed_type, exact)
        return self._list(UNIFORM, read)

    def _list(self, typecodes: str, read: Callable[[], Sequence[float]]) -> Columns:
        """Parse a nested list; `read` parses an element: one number per type code."""
        columns: list[array[Any]] = [array(typecode) for typecode in typecodes]
        max_depth = MAX_DEPTH[typecodes]

        def parsed_shape(depth: int) -> tuple[int, ...]:
            count, shape = 0, ()
            self._expect("{")
            while True:
                element_shape: tuple[int, ...] = ()
                if max_depth > 1 and self._token.text == "{":
                    if depth == max_depth:
                        self.parser.raise_error(
                            f"scales must not be nested deeper than {max_depth} levels"
                        )
                    element_shape = parsed_shape(depth + 1)
                else:
                    for column, number in zip(columns, read(), strict=True):
                        column.append(number)
                if count and shape != element_shape:
                    self.parser.raise_error(
                        "tensor literal is invalid; ranks are not consistent between "
                        "elements"
                    )
                count, shape = count + 1, element_shape
                if not self._optional(","):
                    self._expect("}")
                    return count, *shape

        return columns, parsed_shape(1)


def _float_from_bits(text: str, expressed_type: AnyFloat) -> float | None:
    """Return the float whose bits a hexadecimal literal gives; `None` for other text."""
    if not text.startswith("0x") or len(text) > 2 + expressed_type.bitwidth // 4:
        return None
    bits = int(text, 16)
    scale_format = float_format(expressed_type)
    fraction_bits = scale_format.precision - 1
    if scale_format.holds_doubles or not fraction_bits:
        return None
    biased_exponent = bits >> fraction_bits
    fraction = bits & ((1 << fraction_bits) - 1)
    if biased_exponent:
        fraction |= 1 << fraction_bits
    exponent = scale_format.min_exponent + max(biased_exponent, 1) - 1 - fraction_bits
    return math.ldexp(fraction, exponent)
