"""Conversion between op options in files and op properties in the dialect."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, StringAttr, i32
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation

from xdsl_quant.frontends.tflite.dialect import property_kinds as kinds
from xdsl_quant.frontends.tflite.dialect.attributes import (
    LSTMKernel,
    LSTMKernelAttr,
    MirrorPad,
    MirrorPadAttr,
)
from xdsl_quant.frontends.tflite.dialect.base import plain_attribute

from .model import OptionValue, TFLiteFileError

_MIRROR_PAD_MODES = [*MirrorPad]
_LSTM_KERNELS = [*LSTMKernel]


def properties_of(
    op_type: type[IRDLOperation], options: Mapping[str, OptionValue], where: str
) -> dict[str, Attribute]:
    """
    Convert the options of an op to properties, sorted by name.

    Raises:
        TFLiteFileError: if the value of an enum option is out of range.
    """
    definitions = op_type.get_irdl_definition().properties
    return {
        name: _attribute(definitions[name].constr, options[name], f"{name} of {where}")
        for name in sorted(definitions.keys() & options.keys())
    }


def _attribute(kind: object, value: OptionValue, where: str) -> Attribute:
    if isinstance(kind, kinds.Enumeration):
        return StringAttr(_member(kind.values, value, where))
    if kind is kinds.MIRROR_PAD:
        return MirrorPadAttr(MirrorPad(_member(_MIRROR_PAD_MODES, value, where)))
    if kind is kinds.LSTM_KERNEL:
        return LSTMKernelAttr(LSTMKernel(_member(_LSTM_KERNELS, value, where)))
    return plain_attribute(value)


def _member(members: Sequence[str], value: OptionValue, where: str) -> str:
    assert isinstance(value, int)
    if not 0 <= value < len(members):
        raise TFLiteFileError(
            f"{where} is {value}; expected a value in [0, {len(members)})"
        )
    return members[value]


def options_of(op: Operation, fields: Collection[str]) -> dict[str, OptionValue]:
    """Convert the properties and attributes of an op to the options in `fields`."""
    constraints: dict[str, object] = {}
    if isinstance(op, IRDLOperation):
        definitions = op.get_irdl_definition().properties
        constraints = {
            name: definition.constr for name, definition in definitions.items()
        }
    return {
        name: _value(constraints.get(name), attribute)
        for name, attribute in (op.attributes | op.properties).items()
        if name in fields
    }


def _value(kind: object, attribute: Attribute) -> OptionValue:
    if isinstance(kind, kinds.Enumeration):
        return kind.values.index(cast(StringAttr, attribute).data)
    if isinstance(attribute, MirrorPadAttr):
        return _MIRROR_PAD_MODES.index(attribute.data)
    if isinstance(attribute, LSTMKernelAttr):
        return _LSTM_KERNELS.index(attribute.data)
    return plain_value(attribute)


def plain_value(attribute: Attribute) -> Any:
    """Return the Python value of an attribute; the inverse of `plain_attribute`."""
    if isinstance(attribute, ArrayAttr):
        elements = cast(ArrayAttr[IntegerAttr], attribute)
        return [element.value.data for element in elements]
    if isinstance(attribute, StringAttr):
        return attribute.data
    number = cast("IntegerAttr | FloatAttr", attribute)
    if number.type == i32 or isinstance(number, FloatAttr):
        return number.value.data
    return bool(number.value.data)
