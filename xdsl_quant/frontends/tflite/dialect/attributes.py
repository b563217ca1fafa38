"""The attributes of TensorFlow Lite's ops, and the element types of TensorFlow."""

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
    "MirrorPad",
    "MirrorPadAttr",
    "Quint8Type",
    "ResourceType",
    "StringType",
    "TFType",
]


@irdl_attr_definition
class StringType(ParametrizedAttribute, TypeAttribute):
    """`!tf_type.string`: the type of elements that are texts."""

    name = "tf_type.string"


@irdl_attr_definition
class ResourceType(ParametrizedAttribute, TypeAttribute):
    """`!tf_type.resource`: the type of handles of variables."""

    name = "tf_type.resource"


@irdl_attr_definition
class Quint8Type(ParametrizedAttribute, TypeAttribute):
    """`!tf_type.quint8`: TensorFlow's own quantized type, whose scale is elsewhere."""

    name = "tf_type.quint8"


TFType = Dialect("tf_type", [], [StringType, ResourceType, Quint8Type])
"""The part of TensorFlow's types that TensorFlow Lite has."""


def _half_byte(digit: int) -> int:
    """Return the value of a digit; what is no hexadecimal digit counts as 0."""
    character = chr(digit)
    return int(character, 16) if character in "0123456789abcdefABCDEF" else 0


@irdl_attr_definition
class ConstBytesAttr(ParametrizedAttribute, SpacedOpaqueSyntaxAttribute):
    """`#tfl<const_bytes : "0x616263">`: the options of a custom operator."""

    name = "tfl.const_bytes"

    value: BytesAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse hexadecimal digits after `0x`, or other text as it is."""
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
    """True if padding repeats the elements at the edges, too."""

    REFLECT = "REFLECT"
    SYMMETRIC = "SYMMETRIC"


@irdl_attr_definition
class MirrorPadAttr(EnumAttribute[MirrorPad], SpacedOpaqueSyntaxAttribute):
    """`#tfl<mirror_pad_attr REFLECT>`"""

    name = "tfl.mirror_pad_attr"
