"""The data of `dense_resource` attributes, which xDSL keeps as text beside the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

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

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER_SIZE = 4
"""The bytes in front of the data that say how the data is to be aligned."""

_PIECE = 1 << 16
"""Digits that are read together, an even number."""


def _resources() -> OpAsmDialectInterface:
    resources = Builtin.get_interface(OpAsmDialectInterface)
    assert resources is not None
    return resources


def resource_data(value: DenseResourceAttr) -> bytes | None:
    """The bytes of all elements, or `None` if there is no data for the attribute."""
    if not (text := _resources().lookup(value.resource_handle.data)):
        return None
    # xDSL only takes it with a prefix.
    header_end = len("0x") + 2 * _HEADER_SIZE
    bytes.fromhex(text[len("0x") : header_end])
    # A copy of a large text takes memory that the system has to find first.
    starts = range(header_end, len(text), _PIECE)
    return b"".join(bytes.fromhex(text[start : start + _PIECE]) for start in starts)


def new_resource(key: str, array: NDArray[Any], type_: TensorType) -> DenseResourceAttr:
    """An attribute with the elements of an array, under `key` or a name like it."""
    resources = _resources()
    key = resources.declare_resource(key)
    header = array.itemsize.to_bytes(_HEADER_SIZE, "little")
    resources.parse_resource(key, f"0x{header.hex()}{array.tobytes().hex()}")
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
