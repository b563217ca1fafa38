"""
The text of quantized types: grammar, messages and columns are MLIR's.

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

MLIR does not have scales that are integers, nor a type for values that are not quantized:

```
none        ::= `none` `<` float-type `>`
fixed-point ::= `fixed_point` `<` storage `:` float-type `,` integers `>`
              | `fixed_point` `<` storage `:` float-type `:` int `,`
                `{` integers (`,` integers)* `}` `>`
integers    ::= multiplier `p-` shift (`:` int)?
```

`multiplier` and `shift` are decimal integers. `p` is that of hexadecimal floats: `12p-3` is
12 times 2 to the power of -3.
"""

from __future__ import annotations

import json
import math
import re
import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, ClassVar, NoReturn, TypeAlias, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    FloatData,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
)
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Location
from xdsl.utils.mlir_lexer import MLIRTokenKind

from xdsl_quant.diagnostics import warn

from .constructor_arguments import flattened
from .fixed_point_types import (
    FixedPointQuantizedPerAxisType,
    FixedPointQuantizedType,
    multipliers_attr,
    shifts_attr,
)
from .float_formats import FLOAT_FORMATS, float_format
from .number_arrays import Ints, floats_attr, int_array, ints_attr, zero_array
from .quantile_type import QuantileType
from .storage_types import (
    MAX_STORAGE_BITS,
    SIGNED_FLAG,
    MLIRStorageType,
    StorageType,
    default_storage_range,
    is_signed_by_default,
)
from .types import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    QuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
    out_of_range,
    scale_range_error,
)

_ParsedType: TypeAlias = (
    "tuple[type[QuantizedType | QuantileType], Sequence[Attribute]]"
)
"""A type, and its parameters."""

_Columns: TypeAlias = "tuple[Sequence[array[Any]], Sequence[int]]"
"""
The numbers of a list in row-major order, and its shape: scales and zero points, or
multipliers, shifts and zero points.
"""

_POINTLESS = re.compile(r"(-?[0-9]+)([eE][-+]?[0-9]+)?(?![\w.$])", re.ASCII)


def float_spelling_hint(content: str, position: int) -> str:
    """
    The end of an error message about a number without a decimal point, which says how to
    spell it: Python writes `1e-17`, which is no float of MLIR.
    """
    if (literal := _POINTLESS.match(content, position)) is None:
        return ""
    return f"; write {literal[1]}.0{literal[2] or ''}"


_INTEGER_TYPE = re.compile(r"(s|u|)i([0-9]+)")
_SIGNEDNESS = {
    "": Signedness.SIGNLESS,
    "s": Signedness.SIGNED,
    "u": Signedness.UNSIGNED,
}
_UNSIGNED_STORAGE = re.compile(r"u([0-9]*)")
_FLOAT_TYPES = {cls.name: cls for cls in FLOAT_FORMATS}
_OTHER_TYPES = {"complex", "index", "memref", "none", "tensor", "tuple", "vector"}


class TypeSyntax:
    """One type that is being parsed."""

    STORAGE_TYPES: ClassVar = MLIRStorageType
    """What a storage type may be."""

    def __init__(self, parser: AttrParser, name: str):
        """`name` is that of the type: `quant.any`, `quant.uniform` and so on."""
        self.parser = parser
        self.content: str = parser.lexer.input.content
        self.name = name
        mnemonic = name.removeprefix("quant.")
        self.name_pos = max(self.content.rfind(mnemonic, 0, parser.pos), 0)

    def parse(self) -> QuantizedType | QuantileType:
        """
        Parse the parameters of the type.

        Raises:
            ParseError: with MLIR's message at the place where MLIR would put it.
        """
        start = self.parser.pos
        try:
            return self.body()
        except ParseError:
            # MLIR looks for the end of the type before it looks into it.
            self.check_brackets(start)
            raise
        except VerifyException as e:
            self.check_brackets(start)
            self.parser.raise_error(str(e), self.name_pos)

    def body(self) -> QuantizedType | QuantileType:
        """Parse what is in the brackets, and these."""
        self._expect("<")
        match self.name:
            case AnyQuantizedType.name:
                parsed = self._any()
            case CalibratedQuantizedType.name:
                parsed = self._calibrated()
            case NoQuantizedType.name:
                parsed = NoQuantizedType, (self._float_type(),)
            case FixedPointQuantizedType.name:
                parsed = self._fixed_point()
            case QuantileType.name:
                parsed = self._quantile()
            case _:
                parsed = self._uniform()
        self._expect(">")
        type_, parameters = parsed
        return type_.new(parameters)

    # Tokens

    @property
    def _token(self):
        return self.parser._current_token  # pyright: ignore[reportPrivateUsage] no public way

    def _next(self) -> None:
        self.parser._consume_token()  # pyright: ignore[reportPrivateUsage] no public way

    def _resume_from(self, position: int) -> None:
        self.parser._resume_from(position)  # pyright: ignore[reportPrivateUsage] no public way

    def _optional(self, text: str) -> bool:
        return self.parser.parse_optional_characters(text) is not None

    def _expect(self, text: str) -> None:
        if not self._optional(text):
            self._wrong_token(f"expected '{text}'")

    def _wrong_token(self, message: str) -> NoReturn:
        """
        Report at the end of the previous token, or before the last character of the text,
        as MLIR does.
        """
        is_at_end = self._token.kind is MLIRTokenKind.EOF
        before = self.content[: self.parser.pos - is_at_end]
        while (stripped := before.rstrip(" \t"))[-1:] in ("\n", "\r"):
            line_start = max(stripped.rfind("\n", 0, -1), stripped.rfind("\r", 0, -1))
            comment = stripped.find("//", line_start + 1)
            before = stripped[: comment if comment >= 0 else -1]
        self.parser.raise_error(message, len(stripped))

    def _integer(self, bits: int = 64) -> int:
        position = self.parser.pos
        negative = self._optional("-")
        token = self._token
        # xDSL's lexer takes the digits of every script for a number.
        if token.kind is not MLIRTokenKind.INTEGER_LIT or not token.text.isascii():
            if negative:
                self._wrong_token("expected integer value")
            self.parser.raise_error("expected integer value")
        value = _integer_value(token.text)
        if negative:
            value = -value
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            self.parser.raise_error("integer value too large", position)
        self._next()
        return value

    def _float(self) -> float:
        sign = -1.0 if self._optional("-") else 1.0
        token = self._token
        is_number = token.kind in (MLIRTokenKind.FLOAT_LIT, MLIRTokenKind.INTEGER_LIT)
        if not is_number or not token.text.isascii():
            self.parser.raise_error("expected floating point literal")
        if token.kind is MLIRTokenKind.FLOAT_LIT:
            self._next()
            return sign * float(token.text)
        if not token.text.startswith("0x"):
            self.parser.raise_error(
                "unexpected decimal integer literal for a floating point value"
                + float_spelling_hint(self.content, token.span.start)
            )
        if sign < 0:
            self.parser.raise_error(
                "hexadecimal float literal should not have a leading minus"
            )
        bits = int(token.text, 16)
        if bits >= 1 << 64:
            self.parser.raise_error("hexadecimal float constant out of range for type")
        self._next()
        return struct.unpack("<d", struct.pack("<Q", bits))[0]

    # Types inside the type

    def _optional_type(self) -> Attribute | str | None:
        """
        The integer, float or quantized type that comes next, the text of another type
        (which is not consumed), or `None` if it is no type.
        """
        token = self._token
        text = token.text
        if token.kind is MLIRTokenKind.BARE_IDENT:
            if match := _INTEGER_TYPE.fullmatch(text):
                integer_type = self._integer_type(match[1], match[2])
                self._next()
                return integer_type
            if (float_type := _FLOAT_TYPES.get(text)) is not None:
                self._next()
                return float_type()
            return text if text in _OTHER_TYPES else None
        if token.kind is MLIRTokenKind.EXCLAMATION_IDENT:
            if text == "!quant" or text.startswith("!quant."):
                return self.parser.parse_type()
            if "." in text:
                return text
            if (aliased := self.parser.attribute_aliases.get(text)) is None:
                self._next()
                self.parser.raise_error(f"undefined symbol alias id '{text[1:]}'")
            self._next()
            return aliased
        return text if text == "(" else None

    def _integer_type(self, sign: str, digits: str) -> IntegerType:
        width = _integer_value(digits)
        if width >= 1 << 32:
            self.parser.raise_error("invalid integer width")
        if width >= 1 << 24:
            self.parser.raise_error("integer bitwidth is limited to 16777215 bits")
        return IntegerType(width, _SIGNEDNESS[sign])

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
        if match is None or not match[1] or _integer_value(match[1]) >= 1 << 32:
            self.parser.raise_error("expected storage type width")
        position = self.parser.pos
        if (width := _integer_value(match[1])) >= 1 << 24:
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

    def _range(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Two integers, each with its position."""
        self._expect("<")
        position = self.parser.pos
        low = self._integer(), position
        self._expect(":")
        position = self.parser.pos
        high = self._integer(), position
        self._expect(">")
        return low, high

    def _float_type(self) -> AnyFloat:
        position = self.parser.pos
        if (float_type := self._optional_type()) is None:
            self._wrong_token("expected non-function type")
        if not isinstance(float_type, AnyFloat):
            self.parser.raise_error("invalid kind of type specified", position)
        return float_type

    # Bodies

    def _any(self) -> _ParsedType:
        storage = self._storage()
        expressed_type = self._float_type() if self._optional(":") else NoneAttr()
        return AnyQuantizedType, (expressed_type, *storage)

    def _calibrated(self) -> _ParsedType:
        expressed_type = self._float_type()
        self._expect("<")
        low = self._float()
        self._expect(":")
        high = self._float()
        self._expect(">")
        return CalibratedQuantizedType, (
            expressed_type,
            FloatData(low),
            FloatData(high),
        )

    def _storage_and_expressed_type(self) -> tuple[AnyFloat, Sequence[Attribute]]:
        """The expressed type, and what all types with scales begin with."""
        storage = self._storage()
        self._expect(":")
        expressed_type = self._float_type()
        return expressed_type, (expressed_type, *storage)

    def _uniform(self) -> _ParsedType:
        expressed_type, common = self._storage_and_expressed_type()
        if not self._optional(":"):
            self._expect(",")
            scale, zero_point = self._scale_and_zero_point(expressed_type)
            parameters = IntAttr(zero_point), FloatData(scale)
            return UniformQuantizedType, (*common, *parameters)
        if self._token.text == "{":
            blocks = self._blocks()
            self._expect(",")
            place = self._token.span.get_location()
            (scales, zero_points), shape = self._scales(expressed_type, exact=True)
            parameters = UniformQuantizedSubChannelType.canonical_parameters(
                common, scales, zero_points, shape, *blocks
            )
            zero_points_attr = cast(Ints, parameters[len(common) + 1])
            _warn_of_bits(place, zero_points, int_array(zero_points_attr))
            return UniformQuantizedSubChannelType, parameters
        dimension = IntAttr(self._integer(32))
        self._expect(",")
        (scales, zero_points), _ = self._scales(expressed_type)
        parameters = ints_attr(zero_points), dimension, floats_attr(scales)
        return UniformQuantizedPerAxisType, (*common, *parameters)

    def _fixed_point(self) -> _ParsedType:
        _, common = self._storage_and_expressed_type()
        if not self._optional(":"):
            self._expect(",")
            multiplier, shift, zero_point = self._fixed_point_element()
            parameters = map(IntAttr, (zero_point, multiplier, shift))
            return FixedPointQuantizedType, (*common, *parameters)
        dimension = IntAttr(self._integer(32))
        self._expect(",")
        (multipliers, shifts, zero_points), _ = self._plain_list(
            _FIXED_POINT
        ) or self._list(_FIXED_POINT, self._fixed_point_element)
        return (
            FixedPointQuantizedPerAxisType,
            (
                *common,
                ints_attr(zero_points),
                dimension,
                multipliers_attr(multipliers),
                shifts_attr(shifts),
            ),
        )

    def _quantile(self) -> _ParsedType:
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
        parameters = storage_type, quantile_type, floats_attr(quantiles), low, high
        return QuantileType, parameters

    def _number_type(self, message: str) -> Attribute:
        if (type_ := self._optional_type()) is None:
            self._wrong_token("expected non-function type")
        if not isinstance(type_, IntegerType | AnyFloat):
            self.parser.raise_error(message, self.name_pos)
        return cast(Attribute, type_)

    def _quantiles(self) -> array[float]:
        start = self.parser.pos
        if (plain := self._plain_list(_UNIFORM)) is not None:
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
        `exact` allows the bits of a number of the expressed type, which is what MLIR
        prints for a scale of a sub-channel type that has no short text.
        """
        scale_format = float_format(expressed_type)
        text = self._token.text
        scale = self._float()
        if out_of_range((scale,), scale_format) is not None:
            bits = _float_from_bits(text, expressed_type) if exact else None
            if bits is None or out_of_range((bits,), scale_format) is not None:
                self.parser.raise_error(scale_range_error(scale, scale_format))
            scale = bits
        return scale, self._integer() if self._optional(":") else 0

    def _fixed_point_element(self) -> tuple[int, int, int]:
        if self._token.kind is MLIRTokenKind.FLOAT_LIT:
            self.parser.raise_error(
                "expected an integer times a power of two, e.g. '1610612736p-38', but got "
                f"'{self._token.text}'"
            )
        multiplier = self._integer()
        # The lexer takes the letter and what follows it for one name.
        if self._token.text != "p":
            self._wrong_token(
                "expected 'p-' and a shift after the multiplier, e.g. '1610612736p-38'"
            )
        self._next()
        self._expect("-")
        shift = self._integer()
        return multiplier, shift, self._integer() if self._optional(":") else 0

    def _scales(self, expressed_type: AnyFloat, exact: bool = False) -> _Columns:
        """A nested list of scales and zero points."""
        start = self.parser.pos
        if (plain := self._plain_list(_UNIFORM)) is not None:
            (scales, _), _ = plain
            if out_of_range(scales, float_format(expressed_type)) is None:
                return plain
            self._resume_from(start)
        read = partial(self._scale_and_zero_point, expressed_type, exact)
        return self._list(_UNIFORM, read)

    def _list(self, typecodes: str, read: Callable[[], Sequence[float]]) -> _Columns:
        """A list of what `read` parses, or of lists of that, in arrays of these types."""
        columns: list[array[Any]] = [array(typecode) for typecode in typecodes]
        max_depth = _MAX_DEPTH[typecodes]

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

    def _plain_list(self, typecodes: str) -> _Columns | None:
        """
        The same without a look at each token, for lists of plain decimal numbers.
        `None`, with nothing consumed, if there is anything else or anything wrong.
        """
        start = self.parser.pos
        end = self.content.rfind("}", start, self.content.find(">", start)) + 1
        if (
            not end
            or (plain := _read_plain_list(self.content[start:end], typecodes)) is None
        ):
            return None
        self._resume_from(end)
        return plain

    # Errors

    def check_brackets(self, start: int) -> None:
        """Raise MLIR's error if the brackets of the type do not match."""
        if self.content[self.name_pos - 1 : self.name_pos] != ".":
            start = self.content.rfind("<", 0, self.name_pos)
        elif not _NAME_AND_BRACKET.match(self.content, self.name_pos):
            # MLIR does so only where the bracket follows the name immediately.
            return
        open_brackets: list[str] = []
        position = start
        for bracket in _BRACKETS.finditer(self.content, start):
            if (text := bracket[0]) in _CLOSING:
                if open_brackets[-1] != _CLOSING[text]:
                    break
                open_brackets.pop()
                if not open_brackets:
                    return
            elif text in _CLOSING.values():
                open_brackets.append(text)
            elif text.startswith('"'):
                # MLIR reads a string as a token, and reports at its last token.
                position = bracket.start()
        self.parser.raise_error(
            f"unbalanced '{open_brackets[-1]}' character in pretty dialect name",
            position,
        )


_NAME_AND_BRACKET = re.compile(r"[a-z_]+<")
_BRACKETS = re.compile(r"->|\"(?:[^\"\\\n]|\\.)*\"|[<>\[\](){}]")
_CLOSING = {">": "<", "]": "[", ")": "(", "}": "{"}


def _integer_value(text: str) -> int:
    """The value of a literal; one with too many digits stands for a huge number."""
    if text.startswith("0x"):
        return int(text, 16)
    return int(text) if len(text) < 4000 else int(text.lstrip("0")[:4000] or "0")


def _float_from_bits(text: str, expressed_type: AnyFloat) -> float | None:
    """
    The number of the expressed type with these bits; `None` for another literal.
    """
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


def _warn_of_bits(
    place: Location, written: array[int], zero_points: array[int]
) -> None:
    """Warn of negative zero points that are read as unsigned ones with the same bits."""
    if written == zero_points:
        return
    old, new = next(pair for pair in zip(written, zero_points) if pair[0] != pair[1])
    warn(
        f"negative zero point of unsigned storage: found {old}, read as {new}, which MLIR "
        f"prints as {old} in sub-channel types; write {new}",
        f"{place}: ",
    )


_UNIFORM, _FIXED_POINT = "dq", "qqq"
"""The types of the numbers of an element, the last of which is the zero point."""

_MAX_DEPTH = {_UNIFORM: 256, _FIXED_POINT: 1}
_PLAIN_NUMBERS = b"0123456789.eE+-{} \t\r\n"
_NO_ZERO_POINT = re.compile(rb"(?<=[},])(?=[^:,{}]+[,{])")
"""The place for it in a reversed text: regular expressions look far ahead, but not back."""

_AS_JSON = bytes.maketrans(b"{}:", b"[],")
_HEXADECIMAL = re.compile(rb"(?<=[{,\s])0x([0-9A-Fa-f]{1,16})(?=[},:\s])")
"""The digits of a scale that is written as the bits of a double."""


def _read_plain_list(text: str, typecodes: str) -> _Columns | None:
    """
    The numbers of a list, in arrays of these types, in which all lists of a level are
    equally long and zero points are decimal; `None` if it is not surely so.

    Numbers of JSON are numbers of MLIR, too; hexadecimal ones take the place of its NaN.
    There is no Python code per element: a type may have a million of them.
    """
    try:
        data, from_bits = text.encode("ascii"), array("d")
        if b"0x" in data:
            from_bits = _doubles(_HEXADECIMAL.findall(data))
            data = _HEXADECIMAL.sub(b"NaN", data)
        has_zero_points = b":" in data
        if has_zero_points and data.count(b":") <= data.count(b","):
            data = _NO_ZERO_POINT.sub(b"0:", data[::-1])[::-1]
        element = b"p" * (len(typecodes) - 2) + b":" * has_zero_points
        elements = b",".join([element] * (data.count(b",") + 1))
        if data.translate(None, _PLAIN_NUMBERS).replace(b"NaN", b"") != elements:
            return None
        if data.count(b"N") != 2 * len(from_bits):
            return None
        nested = json.loads(
            data.replace(b"p-", b",").translate(_AS_JSON),
            # It is called with the text `NaN`, which `next` takes for a default.
            parse_constant=partial(next, iter(from_bits)),
        )
        numbers, (*shape, length) = flattened(nested, "list", "numbers")
        step = len(typecodes) - 1 + has_zero_points
        columns = [
            array(code, numbers[i::step]) for i, code in zip(range(step), typecodes)
        ]
    except (TypeError, ValueError, OverflowError, RecursionError, VerifyException):
        return None
    if not has_zero_points:
        columns.append(zero_array(len(columns[0])))
    shape.append(length // step)
    # A scale has a point, and nothing else has one.
    points = len(columns[0]) * typecodes.count("d") - len(from_bits)
    if not numbers or data.count(b".") != points or len(shape) > _MAX_DEPTH[typecodes]:
        return None
    return columns, shape


def _doubles(digits: Sequence[bytes]) -> array[float]:
    """The numbers with these bits, which are 16 hexadecimal digits or fewer."""
    numbers = array(
        "d", bytes.fromhex(b"".join(map(bytes.zfill, digits, repeat(16))).decode())
    )
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
