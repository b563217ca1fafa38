"""Attributes and types of TOSA that the dialect in xDSL lacks."""

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    BytesAttr,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    IntAttr,
    NoneAttr,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from xdsl_quant.frontends.bracketed_attributes import BracketedAttribute


class ResizeMode(StrEnum):
    """Interpolation of `tosa.resize`."""

    NEAREST_NEIGHBOR = "NEAREST_NEIGHBOR"
    BILINEAR = "BILINEAR"


@irdl_attr_definition
class ResizeModeAttr(BracketedAttribute[ResizeMode], EnumAttribute[ResizeMode]):
    name = "tosa.resize_mode"


class BlockSize(StrEnum):
    """Number of elements along the last dimension that share a scale."""

    BLOCK_SIZE_32 = "BLOCK_SIZE_32"


@irdl_attr_definition
class BlockSizeAttr(BracketedAttribute[BlockSize], EnumAttribute[BlockSize]):
    name = "tosa.block_size"


@irdl_attr_definition
class MXInt8Type(ParametrizedAttribute, TypeAttribute):
    """
    Element type of MXINT8, an 8-bit integer multiplied by 1/64: `!tosa.mxint8`.

    See external [documentation](https://mlir.llvm.org/docs/Dialects/TOSA/#mxint8type).
    """

    name = "tosa.mxint8"


@irdl_attr_definition
class ShapeType(ParametrizedAttribute, TypeAttribute):
    """
    Type of a shape with `rank` sizes, e.g. `!tosa.shape<4>`.

    See external [documentation](https://mlir.llvm.org/docs/Dialects/TOSA/#shapetype).
    """

    name = "tosa.shape"

    rank: IntAttr

    def __init__(self, rank: int | IntAttr):
        super().__init__(IntAttr(rank) if isinstance(rank, int) else rank)

    def verify(self) -> None:
        if self.rank.data < 0:
            raise VerifyException(f"invalid rank (must be >= 0): {self.rank.data}")

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_int(self.rank.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (IntAttr(parser.parse_integer()),)


BLOCK_ELEMENT_TYPES = (
    Float8E4M3FNType,
    Float8E5M2Type,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float4E2M1FNType,
    MXInt8Type,
)
"""Element types of blocks that share an `f8E8M0FNU` scale."""

_NAN_SCALE = 255


def _block_scale_codes(texts: Sequence[str]) -> bytes:
    """
    Parse decimal numbers, and return the nearest `f8E8M0FNU` codes.

    Raises:
        ValueError: if a text is not a number, or a number is negative, too large or NaN.
    """
    import numpy as np

    scales = np.array([*map(float, texts)])
    # Text of 2**127 may be rounded up, so accept all numbers whose nearest code is 2**127.
    if (is_illegal := ~((scales >= 0) & (scales < 1.5 * 2.0**127))).any():
        scale = scales[is_illegal][0]
        raise ValueError(f"scale value must be from 0 to 2**127, got {scale:e}")
    fractions, exponents = np.frexp(scales)
    codes = np.maximum(exponents + 126 + (fractions >= 0.75), 0)
    codes[scales == 0] = 0
    return codes.astype(np.uint8).tobytes()


@irdl_attr_definition
class BlockScaledType(ParametrizedAttribute, TypeAttribute):
    """
    Element type of tensors whose blocks of 32 elements share an `f8E8M0FNU` scale, e.g.
    `!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN>`.

    The element type of a constant also holds the scales:
    `!tosa.block_scaled<BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN, {1.0, 2.0}>`.

    MLIR's main branch has this type; MLIR 22 lacks it. MLIR cannot parse NaN scales.
    """

    name = "tosa.block_scaled"

    value_type: TypeAttribute

    scales: BytesAttr | NoneAttr
    """`f8E8M0FNU` codes, one per block in row-major order."""

    def __init__(self, value_type: TypeAttribute, scales: bytes | None = None):
        super().__init__(
            value_type, NoneAttr() if scales is None else BytesAttr(scales)
        )

    def verify(self) -> None:
        if not isinstance(self.value_type, BLOCK_ELEMENT_TYPES):
            raise VerifyException(
                f"expected a micro-scaling format number, got '{self.value_type}'"
            )
        if isinstance(self.scales, BytesAttr) and _NAN_SCALE in self.scales.data:
            raise VerifyException("scale value must not be NaN")

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("BLOCK_SHAPE_32:f8E8M0FNU:")
            printer.print_attribute(self.value_type)
            if isinstance(self.scales, BytesAttr):
                texts = [f"{2.0 ** (code - 127):e}" for code in range(_NAN_SCALE)]
                # Look up the text of each code, as there may be a million scales.
                scales = ", ".join(map(texts.__getitem__, self.scales.data))
                printer.print_string(f", {{{scales}}}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("BLOCK_SHAPE_32")
            parser.parse_punctuation(":")
            if not isinstance(scale_type := parser.parse_type(), Float8E8M0FNUType):
                parser.raise_error(f"expected type 'f8E8M0FNU', got '{scale_type}'")
            parser.parse_punctuation(":")
            value_type = parser.parse_type()
            if parser.parse_optional_punctuation(",") is None:
                return value_type, NoneAttr()
            return value_type, BytesAttr(cls._parse_scales(parser))

    @staticmethod
    def _parse_scales(parser: AttrParser) -> bytes:
        """Parse the scales in braces without the lexer, as there may be a million."""
        start, content = parser.pos, parser.lexer.input.content
        parser.parse_punctuation("{")
        if (end := content.find("}", start)) < 0:
            parser.raise_error("expected '}'")
        try:
            codes = _block_scale_codes(content[start:end].partition("{")[2].split(","))
        except ValueError as e:
            parser.raise_error(str(e), start, end)
        parser._resume_from(end)  # pyright: ignore[reportPrivateUsage] no public way
        parser.parse_punctuation("}")
        return codes


ATTRIBUTES: Sequence[type[Attribute]] = (
    *(BlockSizeAttr, ResizeModeAttr, BlockScaledType, MXInt8Type, ShapeType),
)
"""Attributes and types that xDSL lacks."""
