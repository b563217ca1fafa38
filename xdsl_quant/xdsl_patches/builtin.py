"""Patches of the parser and printer of strings, constants and resources."""

import math
import re
from contextlib import suppress
from typing import Any, TypeGuard, cast

from xdsl.context import Context
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import (
    AnyDenseElement,
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    MemRefType,
    RankedStructure,
    Signedness,
    TensorType,
    VectorType,
    f32,
    i1,
)
from xdsl.ir import Attribute
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.lexer import Input, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from .element_types import refuse_quantized_elements
from .locations import (
    read_location_aliases_before_definition,
    read_ranges_and_metadata_of_locations,
)
from .resources import (
    decode_digits,
    keep_resources_as_bytes,
    read_digits_without_copies,
)

_DENSE_ELEMENTS = IntegerType | IndexType | AnyFloat | ComplexType


def read_unclosed_strings_in_linear_time() -> None:
    """
    Match the characters of a string literal with a possessive quantifier.

    xDSL's regular expression backtracks exponentially on an unclosed literal.

    MLIR: reads strings in linear time.
    Obsolete with: `docs/upstream/unclosed-strings.md`.
    """
    pattern = MLIRLexer._unescaped_characters_regex.pattern  # pyright: ignore[reportPrivateUsage] no public way
    if "]+|" in pattern:
        MLIRLexer._unescaped_characters_regex = re.compile(  # pyright: ignore[reportPrivateUsage] no public way
            pattern.replace("]+|", "]++|")
        )


def read_text_beyond_ascii() -> None:
    """
    Read string literals with escaped UTF-8 as text, not as bytes.

    xDSL prints text beyond ASCII with escapes, which its lexer takes for bytes.

    MLIR: reads text.
    Obsolete with: `docs/upstream/text-beyond-ascii.md`.
    """
    if MLIRLexer(Input(r'"\C3\A4"', "")).lex().kind is MLIRTokenKind.STRING_LIT:
        return
    lex = MLIRLexer._lex_string_literal  # pyright: ignore[reportPrivateUsage] no public way

    def lex_string_literal(self: MLIRLexer, start_pos: int) -> MLIRToken:
        token = lex(self, start_pos)
        with suppress(UnicodeDecodeError):
            if token.kind is MLIRTokenKind.BYTES_LIT:
                StringLiteral.from_span(token.span).bytes_contents.decode()
                return Token(MLIRTokenKind.STRING_LIT, token.span)
        return token

    MLIRLexer._lex_string_literal = lex_string_literal  # pyright: ignore[reportPrivateUsage] no public way


def compare_splats_by_bits() -> None:
    """
    Print both elements of `dense<[0.0, -0.0]>`.

    The two zeros compare equal, so xDSL prints a splat and loses a sign.

    MLIR: compares the bits of elements.
    Obsolete with: `docs/upstream/dense-splats.md`.
    """
    zeros = DenseIntOrFPElementsAttr.from_list(TensorType(f32, (2,)), (0.0, -0.0))
    if not zeros.is_splat():
        return

    def is_splat(self: DenseIntOrFPElementsAttr) -> bool:
        data = self.data.data
        first = data[: self.type.element_type.compile_time_size]
        return first * len(self) == data

    DenseIntOrFPElementsAttr.is_splat = is_splat


def parse_dense_hexadecimal_floats() -> None:
    """
    Parse hexadecimal elements of a dense float constant as bits, not as integers. Elements
    with more bits than the type are left to xDSL.

    MLIR: parses them as bits, and refuses elements with too many bits.
    Obsolete with: `docs/upstream/dense-hexadecimal-floats.md`.
    """
    infinity = DenseIntOrFPElementsAttr.from_list(TensorType(f32, (1,)), (math.inf,))
    text = "dense<0x7F800000> : tensor<1xf32>"
    if Parser(Context(), text).parse_attribute() == infinity:
        return

    # xDSL parses `[...]` to objects of this class before it parses the type.
    element_class = AttrParser._TensorLiteralElement  # pyright: ignore[reportPrivateUsage] no public way
    to_type = element_class.to_type

    def to_type_by_bits(
        self: AttrParser._TensorLiteralElement,  # pyright: ignore[reportPrivateUsage] no public way
        parser: AttrParser,
        type: AnyDenseElement,
    ) -> float | tuple[int, int] | tuple[float, float]:
        is_hexadecimal = self.span.text.startswith("0x")
        if not is_hexadecimal or not isinstance(type, AnyFloat):
            return to_type(self, parser, type)
        bits = self.to_int(parser)
        if bits >> type.bitwidth:
            return to_type(self, parser, type)
        return next(type.iter_unpack(bits.to_bytes(type.compile_time_size, "little")))

    element_class.to_type = to_type_by_bits


def check_dense_types_without_constraints() -> None:
    """
    Check the type of a dense constant by its class and the class of its elements.

    xDSL builds a constraint for each constant, which takes longer than parsing several ops.

    MLIR: checks classes.
    Obsolete with: `docs/upstream/dense-type-checks.md`.
    """
    parse = AttrParser._parse_dense_literal_type  # pyright: ignore[reportPrivateUsage] no public way
    # Only speed differs, so test the code, not the behaviour.
    if "base" not in parse.__code__.co_names:
        return

    def parse_dense_literal_type(
        self: AttrParser,
    ) -> RankedStructure[AnyDenseElement]:
        start = self.pos
        type_ = self.parse_optional_type()
        if isinstance(type_, TensorType | VectorType | MemRefType):
            shaped = cast("RankedStructure[Any]", type_)
            is_dense = isinstance(shaped.element_type, _DENSE_ELEMENTS)
            if is_dense and shaped.has_static_shape():
                return shaped
        # Parse the type again: xDSL reports errors in it.
        self._resume_from(start)  # pyright: ignore[reportPrivateUsage] no public way
        return parse(self)

    AttrParser._parse_dense_literal_type = parse_dense_literal_type  # pyright: ignore[reportPrivateUsage] no public way


def _is_packed_by_mlir(type_: Attribute) -> TypeGuard[IntegerType]:
    """Return True if the element bytes of MLIR differ from those of xDSL."""
    return isinstance(type_, IntegerType) and type_.bitwidth not in (8, 16, 32, 64)


def _stride(type_: IntegerType) -> int:
    """
    Return MLIR's number of bits per element: 1 for `i1`, with the first element in the
    lowest bit; otherwise whole bytes, padded with zeros.
    """
    return 1 if type_.bitwidth == 1 else (type_.bitwidth + 7) // 8 * 8


def _mlir_bytes(type_: IntegerType, data: bytes) -> bytes:
    """Convert element bytes of xDSL to those of MLIR."""
    mask, stride = (1 << type_.bitwidth) - 1, _stride(type_)
    if stride == 8:
        return data.translate(bytes(byte & mask for byte in range(256)))
    values = type_.unpack(data, len(data) // type_.compile_time_size)
    bits = "".join(f"{value & mask:0{stride}b}" for value in reversed(values))
    return int(bits, 2).to_bytes((len(bits) + 7) // 8, "little")


def _xdsl_bytes(type_: IntegerType, data: bytes, count: int) -> bytes:
    """
    Convert element bytes of MLIR to those of xDSL; `data` may be a splat.

    Raises:
        ValueError: if `data` does not hold `count` elements.
    """
    width, stride = type_.bitwidth, _stride(type_)
    size = (count * stride + 7) // 8
    is_splat = data in (b"\x00", b"\xff") if stride == 1 else len(data) == stride // 8
    if is_splat:
        data *= size // len(data)
    if len(data) != size:
        raise ValueError(f"expected {size} bytes, but got {len(data)}")
    is_unsigned = type_.signedness.data is Signedness.UNSIGNED
    sign, mask = 0 if is_unsigned else 1 << width - 1, (1 << width) - 1
    if stride == 8:
        bytes_ = (((byte & mask) ^ sign) - sign & 0xFF for byte in range(256))
        return data.translate(bytes(bytes_))
    # The text starts with the highest bits, so it ends with the first element.
    bits = f"{int.from_bytes(data, 'little'):0{8 * size}b}"
    ends = range(8 * size, 8 * size - count * stride, -stride)
    stored = (int(bits[end - stride : end], 2) & mask for end in ends)
    return type_.pack([(value ^ sign) - sign for value in stored])


def exchange_packed_integers() -> None:
    """
    Use MLIR's byte layout for long dense constants of types such as `i1`, `i4` and `i24`.
    Constants with more than 100 elements are printed as a hexadecimal string.

    MLIR: packs eight `i1` elements into a byte; other elements take whole bytes.
    Obsolete with: `docs/upstream/dense-packed-integers.md`.
    """
    type_ = TensorType(i1, (101,))
    text = f'dense<"0x01{"00" * 12}"> : {type_}'
    attribute = DenseIntOrFPElementsAttr.from_list(type_, (1, *[0] * 100))
    if str(attribute) == text:
        return

    print_without_type = DenseIntOrFPElementsAttr.print_without_type
    parse_attr = AttrParser.parse_dense_int_or_fp_elements_attr

    def print_(self: DenseIntOrFPElementsAttr, printer: Printer) -> None:
        type_ = self.get_element_type()
        is_packed = _is_packed_by_mlir(type_)
        # Avoid xDSL's printer, which decodes all elements even if it prints their bytes.
        has_bytes = is_packed or isinstance(type_, AnyFloat)
        if not has_bytes or len(self) <= 100 or self.is_splat():
            print_without_type(self, printer)
            return
        data = _mlir_bytes(type_, self.data.data) if is_packed else self.data.data
        printer.print_string(f'dense<"0x{data.hex().upper()}">')

    def parse(
        self: AttrParser, type: RankedStructure[AnyDenseElement] | None
    ) -> DenseIntOrFPElementsAttr:
        start = self.pos
        if (attribute := _parse_optional_hexadecimal(self, type)) is not None:
            return attribute
        self._resume_from(start)  # pyright: ignore[reportPrivateUsage] no public way
        return parse_attr(self, type)

    DenseIntOrFPElementsAttr.print_without_type = print_
    AttrParser.parse_dense_int_or_fp_elements_attr = parse


def _parse_optional_hexadecimal(
    parser: AttrParser, type_: RankedStructure[AnyDenseElement] | None
) -> DenseIntOrFPElementsAttr | None:
    # Return `None` after errors: xDSL reports them.
    if parser.parse_optional_punctuation("<") is None:
        return None
    token = parser._current_token  # pyright: ignore[reportPrivateUsage] no public way
    if token.kind is not MLIRTokenKind.STRING_LIT:
        return None
    parser._consume_token()  # pyright: ignore[reportPrivateUsage] no public way
    if parser.parse_optional_punctuation(">") is None:
        return None
    if type_ is None:
        if parser.parse_optional_punctuation(":") is None:
            return None
        type_ = parser._parse_dense_literal_type()  # pyright: ignore[reportPrivateUsage] no public way
    text, start = token.span.input.content, token.span.start
    if not text.startswith('"0x', start):
        return None
    element_type, count = type_.get_element_type(), math.prod(type_.get_shape())
    try:
        data = decode_digits(text, start + len('"0x'), token.span.end - 1)
        if _is_packed_by_mlir(element_type):
            data = _xdsl_bytes(element_type, data, count)
        elif len(data) == element_type.compile_time_size:
            data *= count
    except ValueError:
        return None
    attribute = DenseIntOrFPElementsAttr(type_, BytesAttr(data))
    return attribute if len(attribute) == count else None


def name_resources_once() -> None:
    """
    Rename the data of a resource together with its attributes if the name is taken, e.g.
    because the same text was parsed before. xDSL renames them separately.

    MLIR: renames both.
    Obsolete with: `docs/upstream/resource-names.md`.
    """

    def parse_handle(
        self: AttrParser, dialect_name: str, interface: OpAsmDialectInterface
    ) -> str:
        name = self.parse_identifier(context_msg=" for resource handle")
        names = vars(self).setdefault("_resource_handles", dict[tuple[str, str], str]())
        if (dialect_name, name) not in names:
            names[dialect_name, name] = handle = interface.declare_resource(name)
            self.dialect_resources.add((dialect_name, handle))
        return names[dialect_name, name]

    resources = OpAsmDialectInterface()
    resources.declare_resource("a")
    parser = Parser(Context(), "a a")
    parse = parser._parse_dialect_resource_handle  # pyright: ignore[reportPrivateUsage] no public way
    if parse("builtin", resources) != parse("builtin", resources):
        AttrParser._parse_dialect_resource_handle = parse_handle  # pyright: ignore[reportPrivateUsage] no public way


PATCHES = (
    read_unclosed_strings_in_linear_time,
    compare_splats_by_bits,
    parse_dense_hexadecimal_floats,
    check_dense_types_without_constraints,
    exchange_packed_integers,
    name_resources_once,
    keep_resources_as_bytes,
    read_digits_without_copies,
    read_text_beyond_ascii,
    read_ranges_and_metadata_of_locations,
    read_location_aliases_before_definition,
    refuse_quantized_elements,
)
