"""
The data of `dense_resource` attributes.

xDSL keeps it beside the module, as the hexadecimal text that it read. Here it is kept as
bytes, half as many, and the text is made when it is asked for.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, cast

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

from . import are_on

if TYPE_CHECKING:
    from xdsl_quant.numerics.arrays import Array

RESOURCE_BYTES = 1 << 16
"""The size from which a constant is a resource: not text, which is twice as long."""

_PREFIX = "0x"

_HEADER_SIZE = 4
"""The bytes in front of the data that say how the data is to be aligned."""

_PIECE = 1 << 16
"""Digits that are read together, an even number."""


class _Blob(NamedTuple):
    """What a resource consists of."""

    header: bytes

    data: bytes

    is_upper_case: bool
    """How the text has its letters."""

    @staticmethod
    def of(text: str) -> _Blob:
        """
        Raises:
            ValueError: if the text is not hexadecimal, or has no header.
        """
        start = len(_PREFIX) + 2 * _HEADER_SIZE
        # A copy of a large text takes memory that the system has to find first.
        pieces = (text[i : i + _PIECE] for i in range(start, len(text), _PIECE))
        try:
            header = unhexlify(text[len(_PREFIX) : start])
            data = b"".join(map(unhexlify, pieces))
        except ValueError as e:
            raise ValueError(f"its text is not hexadecimal: {e}") from None
        if len(header) < _HEADER_SIZE:
            raise ValueError("its text has no header of four bytes")
        return _Blob(header, data, any(letter in text for letter in "ABCDEF"))

    @property
    def text(self) -> str:
        digits = f"{self.header.hex()}{self.data.hex()}"
        return _PREFIX + (digits.upper() if self.is_upper_case else digits)


def _has_both_cases(text: str) -> bool:
    return all(any(x in text for x in letters) for letters in ("abcdef", "ABCDEF"))


class _Resources(OpAsmDialectInterface):
    """The resources of a dialect, as bytes wherever their text can be made of these."""

    def __init__(self, texts: dict[str, str]):
        super().__init__()
        self._blob_storage = texts
        self.blobs: dict[str, _Blob] = {}

    def parse_resource(self, key: str, val: str):
        super().parse_resource(key, val)
        # A text may have data for a name twice.
        self.blobs.pop(key, None)
        if _has_both_cases(val):
            return
        try:
            self.keep(key, _Blob.of(val))
        except ValueError:
            # It stays a text, and whoever needs the data is told.
            pass

    def lookup(self, key: str) -> str | None:
        if (blob := self.blobs.get(key)) is not None:
            return blob.text
        return super().lookup(key)

    def build_resources(self, keys: Iterable[str]) -> dict[str, str]:
        return {key: text for key in keys if (text := self.lookup(key))}

    def keep(self, key: str, blob: _Blob) -> None:
        self.blobs[key] = blob
        # It is there, but there is no text of it.
        self._blob_storage[key] = ""


def keep_resources_as_bytes() -> _Resources:
    """
    Let the dialect `builtin` keep all resources as bytes from now on. xDSL keeps the text,
    which has twice as many.

    MLIR: keeps bytes.
    Ends with: `docs/upstream/resource-bytes.md`.
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
    """Return the resources of `builtin`, as text if patches are switched off."""
    if are_on():
        return keep_resources_as_bytes()
    interface = Builtin.get_interface(OpAsmDialectInterface)
    assert interface is not None
    return interface


def resource_data(value: DenseResourceAttr) -> bytes | None:
    """
    Return the bytes of all elements, or `None` if there is no data for the attribute.

    Raises:
        ValueError: if it is damaged.
    """
    interface, key = _interface(), value.resource_handle.data
    if isinstance(interface, _Resources) and key in interface.blobs:
        return interface.blobs[key].data
    text = interface.lookup(key)
    return _Blob.of(text).data if text else None


def new_resource(key: str, array: Array, type_: TensorType) -> DenseResourceAttr:
    """
    Return an attribute with the elements of an array, under `key` or a name like it.
    """
    # Importing NumPy takes longer than starting `xdsl-opt`.
    from xdsl_quant.numerics.arrays import bytes_of

    header = array.itemsize.to_bytes(_HEADER_SIZE, "little")
    blob = _Blob(header, bytes_of(array), is_upper_case=False)
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
    Put the data of resources into the attributes of ops. So the text of an op has it.

    Args:
        module: the module, which is changed.
        data_of: the bytes of an attribute of an op, as many as its type has.
    """
    for op in module.walk():
        for attributes in (op.properties, op.attributes):
            for name, value in attributes.items():
                if isinstance(value, DenseResourceAttr):
                    data = BytesAttr(data_of(op, value))
                    type_ = cast("TensorType[IntegerType]", value.type)
                    attributes[name] = DenseIntOrFPElementsAttr(type_, data)
