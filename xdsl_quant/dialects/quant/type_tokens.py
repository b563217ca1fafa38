"""
Parser of the tokens, numbers, lists and inner types of quantized types; error messages and
their columns are MLIR's.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NoReturn, TypeAlias, TypeVar

from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness
from xdsl.ir import Attribute
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.mlir_lexer import MLIRTokenKind

from .constructor_arguments import flatten_sequence, zero_array
from .float_formats import FLOAT_FORMATS

Columns: TypeAlias = "tuple[Sequence[array[Any]], Sequence[int]]"
"""
The numbers of a parsed list in row-major order, and its shape. The arrays are scales and
zero points, or multipliers, shifts and zero points.
"""

ParsedT = TypeVar("ParsedT")
TypeT = TypeVar("TypeT", bound=Attribute)

_POINTLESS = re.compile(r"(-?[0-9]+)([eE][-+]?[0-9]+)?(?![\w.$])", re.ASCII)


def float_spelling_hint(content: str, position: int) -> str:
    """
    Return the end of an error message about a float without a decimal point: MLIR does not
    parse Python's `1e-17`.
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
_FLOAT_TYPES = {cls.name: cls for cls in FLOAT_FORMATS}
_OTHER_TYPES = {"complex", "index", "memref", "none", "tensor", "tuple", "vector"}


# Maximum length of the text of a type that is parsed only once.
_SHORT = 200

# Types without aliases, whose meaning depends on nothing else.
_SHORT_TYPE = re.compile(r'<[^<>"!/]*(?:<[^<>"!/]*>[^<>"!/]*)*>')


class TypeTokens:
    """Parser of the tokens of one quantized type."""

    def __init__(self, parser: AttrParser, name: str):
        """Start to parse after the name of the type, e.g. `quant.any`."""
        self.parser = parser
        self.content: str = parser.lexer.input.content
        self.mnemonic = name.removeprefix("quant.")
        self.name_pos = max(self.content.rfind(self.mnemonic, 0, parser.pos), 0)

    def parse(
        self,
        read: Callable[[], ParsedT],
        make: Callable[[ParsedT], TypeT],
        make_plain: Callable[[str], TypeT | None] = lambda _: None,
    ) -> tuple[TypeT]:
        """
        Parse the parameters of the type, or raise a `ParseError` with MLIR's message.

        Args:
            read: parses the text between the brackets.
            make: creates the type.
            make_plain: creates the type of a short text, or returns `None`.

        Returns:
            The type in a tuple, where xDSL expects the parameters. Creating the type here
            gives its verification errors a location.
        """
        start = self.parser.pos
        known: dict[str, TypeT] = vars(self.parser).setdefault("_quant_types", {})
        short = _SHORT_TYPE.match(self.content, start, start + _SHORT)
        text = f"{self.mnemonic}{short.group()}" if short else ""
        if short and (plain := known.get(text) or make_plain(short.group())):
            known[text] = plain
            self._resume_from(short.end())
            return (plain,)
        try:
            self._expect("<")
            parsed = read()
            self._expect(">")
            type_ = make(parsed)
        except (ParseError, VerifyException) as e:
            # MLIR matches the brackets of the type before it parses the parameters.
            self.check_brackets(start)
            if isinstance(e, ParseError):
                raise
            self.parser.raise_error(str(e), self.name_pos)
        if short:
            known[text] = type_
        return (type_,)

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
        """Raise an error where MLIR does: at the end of the previous token."""
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
        # xDSL's lexer accepts non-ASCII digits, unlike MLIR's.
        if token.kind is not MLIRTokenKind.INTEGER_LIT or not token.text.isascii():
            if negative:
                self._wrong_token("expected integer value")
            self.parser.raise_error("expected integer value")
        value = integer_value(token.text)
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
        Parse an integer, float or quantized type. Return the text of any other type,
        without consuming it, or `None` if the next token does not start a type.
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
        width = integer_value(digits)
        if width >= 1 << 32:
            self.parser.raise_error("invalid integer width")
        if width >= 1 << 24:
            self.parser.raise_error("integer bitwidth is limited to 16777215 bits")
        return IntegerType(width, _SIGNEDNESS[sign])

    def _range(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Parse two integers, and return each with its position."""
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

    # Lists and brackets

    def _plain_list(self, typecodes: str) -> Columns | None:
        """
        Parse a list of plain decimal numbers without tokenizing it. For any other or
        invalid list, consume nothing and return `None`.
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

    def check_brackets(self, start: int) -> None:
        """Raise MLIR's error if the brackets of the type do not match."""
        if self.content[self.name_pos - 1 : self.name_pos] != ".":
            start = self.content.rfind("<", 0, self.name_pos)
        elif not _NAME_AND_BRACKET.match(self.content, self.name_pos):
            # MLIR only matches brackets that follow the name immediately.
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
                # MLIR reports the error at the last token read, which may be a string.
                position = bracket.start()
        self.parser.raise_error(
            f"unbalanced '{open_brackets[-1]}' character in pretty dialect name",
            position,
        )


_NAME_AND_BRACKET = re.compile(r"[a-z_]+<")
_BRACKETS = re.compile(r"->|\"(?:[^\"\\\n]|\\.)*\"|[<>\[\](){}]")
_CLOSING = {">": "<", "]": "[", ")": "(", "}": "{"}


def integer_value(text: str) -> int:
    """Return the value of a literal's first 4000 digits: Python refuses longer integers."""
    if text.startswith("0x"):
        return int(text, 16)
    return int(text) if len(text) < 4000 else int(text.lstrip("0")[:4000] or "0")


UNIFORM, FIXED_POINT = "dq", "qqq"
"""Type codes (see `array`) of the numbers in a list element; the last is the zero point."""

MAX_DEPTH = {UNIFORM: 256, FIXED_POINT: 1}
_PLAIN_NUMBERS = b"0123456789.eE+-{} \t\r\n"
_NO_ZERO_POINT = re.compile(rb"(?<=[},])(?=[^:,{}]+[,{])")
"""Matches missing zero points in reversed text, because lookbehinds have fixed lengths."""

_AS_JSON = bytes.maketrans(b"{}:", b"[],")
_HEXADECIMAL = re.compile(rb"(?<=[{,\s])0x([0-9A-Fa-f]{1,16})(?=[},:\s])")
"""The digits of a scale written as the bits of a double."""


def _read_plain_list(text: str, typecodes: str) -> Columns | None:
    """
    Parse a list as JSON, because each JSON number is a valid MLIR number; NaN replaces
    hexadecimal scales. Return `None` for ragged lists and other numbers. No Python code
    runs per element: a type may have a million scales.
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
            # JSON calls this with the text `NaN`, which `next` takes as its default.
            parse_constant=partial(next, iter(from_bits)),
        )
        numbers, (*shape, length) = flatten_sequence(nested, "list", "numbers")
        step = len(typecodes) - 1 + has_zero_points
        used = enumerate(typecodes[:step])
        columns = [array(code, numbers[i::step]) for i, code in used]
    except (TypeError, ValueError, OverflowError, RecursionError, VerifyException):
        return None
    if not has_zero_points:
        columns.append(zero_array(len(columns[0])))
    shape.append(length // step)
    # Every scale has a decimal point, and other numbers have none.
    points = len(columns[0]) * typecodes.count("d") - len(from_bits)
    if not numbers or data.count(b".") != points or len(shape) > MAX_DEPTH[typecodes]:
        return None
    return columns, shape


def _doubles(digits: Sequence[bytes]) -> array[float]:
    """Return the doubles with these bits, given as up to 16 hexadecimal digits each."""
    numbers = array(
        "d", bytes.fromhex(b"".join(map(bytes.zfill, digits, repeat(16))).decode())
    )
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
