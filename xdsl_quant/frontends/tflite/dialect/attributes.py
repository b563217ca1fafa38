"""Attributes of TensorFlow Lite's ops, and TensorFlow's element types."""

from collections.abc import Sequence

from xdsl.dialects.builtin import BytesAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import (
    Attribute,
    Dialect,
    ParametrizedAttribute,
    SpacedOpaqueSyntaxAttribute,
    TypeAttribute,
)
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.str_enum import StrEnum

__all__ = [
    "ConstBytesAttr",
    "LSTMKernel",
    "LSTMKernelAttr",
    "MirrorPad",
    "MirrorPadAttr",
    "Quint8Type",
    "ResourceType",
    "StringType",
    "TFType",
]


@irdl_attr_definition
class StringType(ParametrizedAttribute, TypeAttribute):
    """`!tf_type.string`: element type of string tensors."""

    name = "tf_type.string"


@irdl_attr_definition
class ResourceType(ParametrizedAttribute, TypeAttribute):
    """`!tf_type.resource`: element type of variable handles."""

    name = "tf_type.resource"


@irdl_attr_definition
class Quint8Type(ParametrizedAttribute, TypeAttribute):
    """`!tf_type.quint8`: TensorFlow's unsigned 8-bit quantized type, without a scale."""

    name = "tf_type.quint8"


TFType = Dialect("tf_type", [], [StringType, ResourceType, Quint8Type])
"""The TensorFlow types that TensorFlow Lite's dialect uses."""


def _half_byte(digit: int) -> int:
    character = chr(digit)
    return int(character, 16) if character in "0123456789abcdefABCDEF" else 0


@irdl_attr_definition
class ConstBytesAttr(ParametrizedAttribute, SpacedOpaqueSyntaxAttribute):
    """`#tfl<const_bytes : "0x616263">`: options of a custom operator."""

    name = "tfl.const_bytes"

    value: BytesAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse a string: hexadecimal digits if it starts with `0x`, otherwise bytes."""
        parser.parse_punctuation(":")
        if (text := parser.parse_optional_bytes_literal()) is None:
            text = parser.parse_str_literal().encode()
        if not text.startswith(b"0x"):
            return (BytesAttr(text),)
        digits = [_half_byte(digit) for digit in text[2:]]
        pairs = zip(digits[::2], digits[1::2], strict=False)
        return (BytesAttr(bytes(high << 4 | low for high, low in pairs)),)

    def print_parameters(self, printer: Printer) -> None:
        """Print `: "0x616263"`."""
        printer.print_string(f': "0x{self.value.data.hex().upper()}"')


class MirrorPad(StrEnum):
    """Padding mode: `SYMMETRIC` repeats the edge elements, `REFLECT` does not."""

    REFLECT = "REFLECT"
    SYMMETRIC = "SYMMETRIC"


@irdl_attr_definition
class MirrorPadAttr(EnumAttribute[MirrorPad], SpacedOpaqueSyntaxAttribute):
    """`#tfl<mirror_pad_attr REFLECT>`"""

    name = "tfl.mirror_pad_attr"


class LSTMKernel(StrEnum):
    """Kernel of an LSTM: `FULL` has 20 or 24 operands, `BASIC` 5."""

    FULL = "FULL"
    BASIC = "BASIC"


@irdl_attr_definition
class LSTMKernelAttr(EnumAttribute[LSTMKernel], SpacedOpaqueSyntaxAttribute):
    """`#tfl<lstm_kernel_type_attr FULL>`"""

    name = "tfl.lstm_kernel_type_attr"
