"""
Access to the data of `dense_resource` attributes.

xDSL keeps the hexadecimal text of the data. This module keeps bytes, which take half the
memory, and prints the text on demand.
"""

from __future__ import annotations

import re
from binascii import unhexlify
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    Builtin,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind

from . import are_on

if TYPE_CHECKING:
    from xdsl_quant.numerics.arrays import Array

RESOURCE_BYTES = 1 << 16
"""Minimum size in bytes of a constant that passes store as a resource."""

_PREFIX = "0x"

_HEADER_SIZE = 4
"""Size in bytes of the header, which holds the alignment of the data."""

_CHUNK = 1 << 16
"""Number of hexadecimal digits to decode at a time; must be even."""


ResourceData: TypeAlias = bytes | memoryview
"""Read-only bytes of all elements of a resource."""


def decode_digits(text: str, start: int, stop: int) -> bytes:
    """Decode hexadecimal digits of a text; raise a `ValueError` if they are invalid."""
    # Slicing a large text copies it, and joining chunks copies them.
    data = BytesIO()
    for i in range(start, stop, _CHUNK):
        data.write(unhexlify(text[i : min(i + _CHUNK, stop)]))
    return data.getvalue()


class _Blob(NamedTuple):
    """The decoded content of a resource."""

    header: bytes

    read: Callable[[], ResourceData]
    """Return the data, which may be a view of a file or computed at each call."""

    is_upper_case: bool
    """True if the hexadecimal text has upper-case letters."""

    @staticmethod
    def of(text: str, start: int = 0, stop: int | None = None) -> _Blob:
        """
        Decode `text[start:stop]`; raise a `ValueError` if it is not hexadecimal or too
        short.
        """
        stop = len(text) if stop is None else stop
        start += len(_PREFIX)
        first = min(start + 2 * _HEADER_SIZE, stop)
        try:
            header = unhexlify(text[start:first])
            data = decode_digits(text, first, stop)
        except ValueError as e:
            raise ValueError(f"data is not hexadecimal: {e}") from None
        if len(header) < _HEADER_SIZE:
            raise ValueError("missing header of four bytes")
        is_upper_case = _has_letter("ABCDEF", text, start, stop)
        return _Blob(header, lambda: data, is_upper_case)

    @property
    def text(self) -> str:
        digits = f"{self.header.hex()}{self.read().hex()}"
        return _PREFIX + (digits.upper() if self.is_upper_case else digits)


def _has_letter(letters: str, text: str, start: int, stop: int) -> bool:
    return any(text.find(letter, start, stop) >= 0 for letter in letters)


class _Resources(OpAsmDialectInterface):
    """The resources of a dialect: bytes, or a text if bytes cannot reproduce the text."""

    def __init__(self, texts: dict[str, str]):
        super().__init__()
        self._blob_storage = texts
        self.blobs: dict[str, _Blob] = {}

    def parse_resource(self, key: str, val: str):
        if self.decode_resource(key, val, 0, len(val)):
            return
        # Keep the text; `resource_data` reports errors in it.
        super().parse_resource(key, val)
        # A file may define the same name twice.
        self.blobs.pop(key, None)

    def decode_resource(self, key: str, text: str, start: int, stop: int) -> bool:
        """Keep `text[start:stop]` as bytes; return False if bytes cannot reproduce it."""
        if (
            key not in self._blob_storage
            or not text.startswith(_PREFIX, start, stop)
            or all(
                _has_letter(letters, text, start, stop)
                for letters in ("abcdef", "ABCDEF")
            )
        ):
            return False
        try:
            self.keep(key, _Blob.of(text, start, stop))
        except ValueError:
            return False
        return True

    def lookup(self, key: str) -> str | None:
        if (blob := self.blobs.get(key)) is not None:
            return blob.text
        return super().lookup(key)

    def build_resources(self, keys: Iterable[str]) -> dict[str, str]:
        return {key: text for key in keys if (text := self.lookup(key))}

    def keep(self, key: str, blob: _Blob) -> None:
        self.blobs[key] = blob
        # Mark the name as defined; `lookup` formats the text.
        self._blob_storage[key] = ""


def read_digits_without_copies() -> None:
    """
    Read string literals without escape sequences, and resources, without slicing the text.
    xDSL copies each literal, which takes twice the memory of a large constant.

    MLIR: refers to the text.
    Obsolete with: `docs/upstream/resource-bytes.md`.
    """
    lex = MLIRLexer._lex_string_literal  # pyright: ignore[reportPrivateUsage] no public way
    # Only memory differs, so test the code, not the behaviour.
    if "text" not in lex.__code__.co_names:
        return

    def lex_string_literal(self: MLIRLexer, start_pos: int) -> MLIRToken:
        text = self.input.content
        literal = self._unescaped_characters_regex.match(text, start_pos)  # pyright: ignore[reportPrivateUsage] no public way
        if literal is None or text.find("\\", *literal.span()) >= 0:
            return lex(self, start_pos)
        self.pos = literal.end()
        return self._form_token(MLIRTokenKind.STRING_LIT, start_pos)  # pyright: ignore[reportPrivateUsage] no public way

    MLIRLexer._lex_string_literal = lex_string_literal  # pyright: ignore[reportPrivateUsage] no public way
    _decode_resources_in_place()


def _decode_resources_in_place() -> None:
    parse = Parser._parse_resource  # pyright: ignore[reportPrivateUsage] no public way

    def parse_resource(
        self: Parser, dialect_name: str, interface: OpAsmDialectInterface
    ) -> None:
        start = self.pos
        if isinstance(interface, _Resources):
            key = self._parse_dialect_resource_handle(dialect_name, interface)  # pyright: ignore[reportPrivateUsage] no public way
            self.parse_optional_punctuation(":")
            token = self._current_token  # pyright: ignore[reportPrivateUsage] no public way
            first, last, text = token.span.start, token.span.end, token.span.input
            if token.kind is MLIRTokenKind.STRING_LIT and interface.decode_resource(
                key, text.content, first + 1, last - 1
            ):
                self._consume_token()  # pyright: ignore[reportPrivateUsage] no public way
                return
        # xDSL reads escape sequences and reports errors.
        self._resume_from(start)  # pyright: ignore[reportPrivateUsage] no public way
        parse(self, dialect_name, interface)

    Parser._parse_resource = parse_resource  # pyright: ignore[reportPrivateUsage] no public way


def keep_resources_as_bytes() -> _Resources:
    """
    Keep the resources of `builtin` as bytes, decoded from the parsed text. xDSL keeps their
    text, which takes twice the memory, and copies it when it reads the literal.

    MLIR: keeps bytes.
    Obsolete with: `docs/upstream/resource-bytes.md`.
    """
    interface = Builtin.get_interface(OpAsmDialectInterface)
    assert interface is not None
    if isinstance(interface, _Resources):
        return interface
    resources = _Resources(interface._blob_storage)  # pyright: ignore[reportPrivateUsage] no public way
    interfaces = Builtin._interfaces  # pyright: ignore[reportPrivateUsage] no public way
    interfaces[interfaces.index(interface)] = resources
    return resources


def _interface() -> OpAsmDialectInterface:
    if are_on():
        return keep_resources_as_bytes()
    interface = Builtin.get_interface(OpAsmDialectInterface)
    assert interface is not None
    return interface


def resource_data(value: DenseResourceAttr) -> ResourceData | None:
    """
    Return the bytes of all elements, or `None` if the resource is missing.

    Raises:
        ValueError: if the data is damaged.
    """
    interface, key = _interface(), value.resource_handle.data
    if isinstance(interface, _Resources) and key in interface.blobs:
        return interface.blobs[key].read()
    text = interface.lookup(key)
    return _Blob.of(text).read() if text else None


def new_resource(key: str, array: Array, type_: TensorType) -> DenseResourceAttr:
    """Store an array as a resource, under a name like `key`; return the attribute."""
    # Importing NumPy takes longer than starting `xdsl-opt`.
    from xdsl_quant.numerics.arrays import bytes_of

    data = bytes_of(array)
    return new_lazy_resource(key, array.itemsize, lambda: data, type_)


def new_lazy_resource(
    key: str,
    alignment: int,
    read: Callable[[], ResourceData],
    type_: TensorType,
) -> DenseResourceAttr:
    """Store a function that returns the data as a resource, like `new_resource`."""
    # xDSL prints names without quotes.
    key = re.sub(r"^(?![A-Za-z_])|[^\w.$]", "_", key, flags=re.ASCII)
    header = alignment.to_bytes(_HEADER_SIZE, "little")
    blob = _Blob(header, read, is_upper_case=False)
    interface = _interface()
    key = interface.declare_resource(key)
    if isinstance(interface, _Resources):
        interface.keep(key, blob)
    else:
        interface.parse_resource(key, blob.text)
    return DenseResourceAttr.from_params(key, type_)


def replace_resources(
    module: ModuleOp, data_of: Callable[[Operation, DenseResourceAttr], bytes]
) -> None:
    """
    Replace the resource attributes of a module by dense attributes, in place, so that the
    text of an op includes the data.

    Args:
        module: the module to change.
        data_of: function that returns the element bytes of an op's resource attribute.
    """
    for op in module.walk():
        for attributes in (op.properties, op.attributes):
            for name, value in attributes.items():
                if isinstance(value, DenseResourceAttr):
                    data = BytesAttr(data_of(op, value))
                    type_ = cast("TensorType[IntegerType]", value.type)
                    attributes[name] = DenseIntOrFPElementsAttr(type_, data)
