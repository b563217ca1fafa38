"""Patches of what a text in any dialect may have: strings, constants and resources."""

import math
import re
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
from xdsl.utils.mlir_lexer import MLIRLexer

from .resources import keep_resources_as_bytes

_DENSE_ELEMENTS = IntegerType | IndexType | AnyFloat | ComplexType


def read_unclosed_strings_in_linear_time() -> None:
    """
    Make the quantifier of a string literal's characters possessive.

    xDSL tries all ways to divide the characters of a literal that is not closed, and there
    are exponentially many of them.

    MLIR: reads a text in linear time.
    Ends with: `docs/upstream/unclosed-strings.md`.
    """
    pattern = MLIRLexer._unescaped_characters_regex.pattern  # pyright: ignore[reportPrivateUsage] no public way
    if "]+|" in pattern:
        MLIRLexer._unescaped_characters_regex = re.compile(  # pyright: ignore[reportPrivateUsage] no public way
            pattern.replace("]+|", "]++|")
        )


def compare_splats_by_bits() -> None:
    """
    Print `dense<[0.0, -0.0]>` with both of its values.

    They are equal, so xDSL takes the first for all of them.

    MLIR: a splat is one element whose bits are repeated.
    Ends with: `docs/upstream/dense-splats.md`.
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
    Take the hexadecimal elements of a dense float constant for their bits, not for an
    integer. An element with more bits than the type is read as xDSL reads it.

    MLIR: takes them for their bits, and refuses elements with more.
    Ends with: `docs/upstream/dense-hexadecimal-floats.md`.
    """
    infinity = DenseIntOrFPElementsAttr.from_list(TensorType(f32, (1,)), (math.inf,))
    text = "dense<0x7F800000> : tensor<1xf32>"
    if Parser(Context(), text).parse_attribute() == infinity:
        return

    # It is the class of what `[...]` is made of while the type is not parsed yet.
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
    Check the type of a dense constant by its class and that of its elements.

    xDSL makes a constraint of unions of generic types for it, again for each constant, and
    that takes as long as to parse several other ops.

    MLIR: checks classes.
    Ends with: `docs/upstream/dense-type-checks.md`.
    """
    parse = AttrParser._parse_dense_literal_type  # pyright: ignore[reportPrivateUsage] no public way
    # It is no behaviour, so the code has to be looked at.
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
        # What is wrong with a type is for xDSL to say.
        self._resume_from(start)  # pyright: ignore[reportPrivateUsage] no public way
        return parse(self)

    AttrParser._parse_dense_literal_type = parse_dense_literal_type  # pyright: ignore[reportPrivateUsage] no public way


def _is_packed_by_mlir(type_: Attribute) -> TypeGuard[IntegerType]:
    """Return True if MLIR stores elements of the type in other bytes than xDSL."""
    return isinstance(type_, IntegerType) and type_.bitwidth not in (8, 16, 32, 64)


def _stride(type_: IntegerType) -> int:
    """
    Bits from one element to the next in MLIR's bytes.

    Eight of `i1` are one byte, the first in its lowest bit. The others have as many bytes
    as they need, with zeros above their bits.
    """
    return 1 if type_.bitwidth == 1 else (type_.bitwidth + 7) // 8 * 8


def _mlir_bytes(type_: IntegerType, data: bytes) -> bytes:
    """Return the bytes that MLIR has for the dense integers of xDSL's bytes."""
    mask, stride = (1 << type_.bitwidth) - 1, _stride(type_)
    if stride == 8:
        return data.translate(bytes(byte & mask for byte in range(256)))
    values = type_.unpack(data, len(data) // type_.compile_time_size)
    bits = "".join(f"{value & mask:0{stride}b}" for value in reversed(values))
    return int(bits, 2).to_bytes((len(bits) + 7) // 8, "little")


def _xdsl_bytes(type_: IntegerType, data: bytes, count: int) -> bytes:
    """
    Inverse of `_mlir_bytes`; one element may stand for all.

    Raises:
        ValueError: if `data` has not `count` elements.
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
    # The first element is in the last bits.
    bits = f"{int.from_bytes(data, 'little'):0{8 * size}b}"
    ends = range(8 * size, 8 * size - count * stride, -stride)
    stored = (int(bits[end - stride : end], 2) & mask for end in ends)
    return type_.pack([(value ^ sign) - sign for value in stored])


def exchange_packed_integers() -> None:
    """
    Print and parse the bytes of long dense constants of `i1`, `i4`, `i24`.

    From 101 elements on a constant is printed as one hexadecimal string.

    MLIR: packs eight of `i1` into a byte; others have as many bytes as they need.
    Ends with: `docs/upstream/dense-packed-integers.md`.
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
        # xDSL decodes all elements, also those of which it prints the bytes.
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
        if (attribute := _parse_optional_packed_integers(self, type)) is not None:
            return attribute
        self._resume_from(start)  # pyright: ignore[reportPrivateUsage] no public way
        return parse_attr(self, type)

    DenseIntOrFPElementsAttr.print_without_type = print_
    AttrParser.parse_dense_int_or_fp_elements_attr = parse


def _parse_optional_packed_integers(
    parser: AttrParser, type_: RankedStructure[AnyDenseElement] | None
) -> DenseIntOrFPElementsAttr | None:
    """Parse a dense constant if its elements are integers that MLIR has packed."""
    # What is wrong with a text is for xDSL to say.
    if (
        parser.parse_optional_punctuation("<") is None
        or (hexadecimal := parser.parse_optional_str_literal()) is None
        or parser.parse_optional_punctuation(">") is None
    ):
        return None
    if type_ is None:
        if parser.parse_optional_punctuation(":") is None:
            return None
        type_ = parser._parse_dense_literal_type()  # pyright: ignore[reportPrivateUsage] no public way
    element_type = type_.get_element_type()
    if not _is_packed_by_mlir(element_type):
        return None
    try:
        data = bytes.fromhex(hexadecimal[2:])
        data = _xdsl_bytes(element_type, data, math.prod(type_.get_shape()))
    except ValueError:
        return None
    return DenseIntOrFPElementsAttr(type_, BytesAttr(data))


def name_resources_once() -> None:
    """
    Find the data of a resource whose name is taken, as it is if a text is parsed again.

    Attributes and data of one text then have the same new name.

    MLIR: renames both.
    Ends with: `docs/upstream/resource-names.md`.
    """

    def parse_handle(
        self: AttrParser, dialect_name: str, interface: OpAsmDialectInterface
    ) -> str:
        name = self.parse_identifier(context_msg=" for resource handle")
        known = vars(self).setdefault("_resource_handles", dict[tuple[str, str], str]())
        if (dialect_name, name) not in known:
            known[dialect_name, name] = handle = interface.declare_resource(name)
            self.dialect_resources.add((dialect_name, handle))
        return known[dialect_name, name]

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
)
