"""
Access to the data of `dense_resource` attributes.

xDSL keeps the hexadecimal text of the data. This module keeps bytes, which take half the
memory, and prints the text on demand.
"""

from __future__ import annotations

import re
from binascii import unhexlify
from collections.abc import Callable, Iterable
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
from xdsl.utils.mlir_lexer import StringLiteral

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
    # In chunks, because slicing a large text copies it.
    starts = range(start, stop, _CHUNK)
    return b"".join(unhexlify(text[i : min(i + _CHUNK, stop)]) for i in starts)


class _Blob(NamedTuple):
    """The decoded content of a resource."""

    header: bytes

    read: Callable[[], ResourceData]
    """Return the data, which may be a view of a file or computed at each call."""

    is_upper_case: bool
    """True if the hexadecimal text has upper-case letters."""

    @staticmethod
    def of(text: str) -> _Blob:
        """Decode a text; raise a `ValueError` if it is not hexadecimal or too short."""
        start = len(_PREFIX) + 2 * _HEADER_SIZE
        try:
            header = unhexlify(text[len(_PREFIX) : start])
            data = decode_digits(text, start, len(text))
        except ValueError as e:
            raise ValueError(f"data is not hexadecimal: {e}") from None
        if len(header) < _HEADER_SIZE:
            raise ValueError("missing header of four bytes")
        is_upper_case = any(letter in text for letter in "ABCDEF")
        return _Blob(header, lambda: data, is_upper_case)

    @property
    def text(self) -> str:
        digits = f"{self.header.hex()}{self.read().hex()}"
        return _PREFIX + (digits.upper() if self.is_upper_case else digits)


def _has_both_cases(text: str) -> bool:
    return all(any(x in text for x in letters) for letters in ("abcdef", "ABCDEF"))


class _Resources(OpAsmDialectInterface):
    """The resources of a dialect: bytes, or a text if bytes cannot reproduce the text."""

    def __init__(self, texts: dict[str, str]):
        super().__init__()
        self._blob_storage = texts
        self.blobs: dict[str, _Blob] = {}

    def parse_resource(self, key: str, val: str):
        super().parse_resource(key, val)
        # A file may define the same name twice.
        self.blobs.pop(key, None)
        if _has_both_cases(val):
            return
        try:
            self.keep(key, _Blob.of(val))
        except ValueError:
            # Keep the text; `resource_data` reports the error.
            pass

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


def _string_contents(self: StringLiteral) -> str:
    text, start, end = self.input.content, self.start, self.end
    if text.isascii() and text.find("\\", start, end) < 0:
        return text[start + 1 : end - 1]
    return self.bytes_contents.decode()


def keep_resources_as_bytes() -> _Resources:
    """
    Keep the resources of `builtin` as bytes. xDSL keeps their text, which takes twice the
    memory, and copies it when it reads the literal.

    MLIR: keeps bytes.
    Obsolete with: `docs/upstream/resource-bytes.md`.
    """
    interface = Builtin.get_interface(OpAsmDialectInterface)
    assert interface is not None
    if isinstance(interface, _Resources):
        return interface
    StringLiteral.string_contents = property(_string_contents)  # pyright: ignore[reportAttributeAccessIssue] patched class
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
