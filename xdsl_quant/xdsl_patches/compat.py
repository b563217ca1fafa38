"""
What xDSL 0.74 does not do yet, and modules of lowered quantized operations need.

MLIR's `lower-quant-ops` writes `arith.sitofp` on tensors, `tensor.reshape` of unranked
tensors and constants of every float type. Such a module has no quantized type left, so
nothing of this package gets loaded when `xdsl-opt` reads it, yet it must be read. Hence
the fixes here change xDSL's own classes in place: each when a `Context` loads the
dialect that it is about (`apply_on_load`), or all at once for code that builds
operations without a context (`apply_all`).

A fix first tries what it is about and does nothing if xDSL already does it. So fixes can
be applied again and again, and vanish when xDSL catches up.

This module is imported at every start of `xdsl-opt`: at module level it imports only what
`xdsl.universe` has imported before.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import TYPE_CHECKING, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    AnyFloatConstr,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    Float80Type,
    Float128Type,
    IndexType,
    IntegerType,
    MemRefType,
    ShapedType,
    Signedness,
    SignlessIntegerConstraint,
    TensorType,
    UnitAttr,
    UnrankedMemRefType,
    UnrankedTensorType,
    VectorType,
    f32,
    f80,
    f128,
    i1,
    i8,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AnyOf,
    AttrConstraint,
    BaseAttr,
    IRDLOperation,
    OperandDef,
    ResultDef,
    irdl_op_definition,
    traits_def,
)
from xdsl.traits import (
    EffectInstance,
    IsTerminator,
    MemoryEffect,
    OpTrait,
    Pure,
    get_effects,
)
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken

if TYPE_CHECKING:
    from xdsl.dialects.arith import FloatingPointLikeBinaryOperation
    from xdsl.dialects.builtin import AnyDenseElement, RankedStructure
    from xdsl.dialects.func import FuncOp
    from xdsl.dialects.tensor import EmptyOp, ReshapeOp
    from xdsl.parser import AttrParser, Parser
    from xdsl.printer import Printer


def _values(*types: Attribute) -> Sequence[SSAValue]:
    """Values of the given types, to try an operation on."""
    return Block(arg_types=types).args


def _verifies(op: Operation) -> bool:
    """Whether `op` is valid, without the diagnostic that `op.verify` would print."""
    try:
        op.verify_()
    except (VerifyException, ValueError):
        return False
    return True


# ------------------------------------------------------------------------------ tokens


def name_prefixes_in_errors() -> None:
    """
    Say which of `%`, `!`, `#` and `^` has no name after it.

    xDSL's message has a placeholder for it, which is not filled.
    """
    placeholder = "{first_char}"
    try:
        MLIRLexer(Input("%", "")).lex()
    except ParseError as error:
        if placeholder not in error.msg:
            return

    lex_prefixed_ident = MLIRLexer._lex_prefixed_ident  # pyright: ignore[reportPrivateUsage] no public way

    def lex(self: MLIRLexer, start_pos: int) -> MLIRToken:
        try:
            return lex_prefixed_ident(self, start_pos)
        except ParseError as error:
            prefix = self.input.content[start_pos]
            message = error.msg.replace(placeholder, prefix)
            raise ParseError(error.span, message) from None

    MLIRLexer._lex_prefixed_ident = lex  # pyright: ignore[reportPrivateUsage] no public way


def read_unclosed_strings_in_linear_time() -> None:
    """
    Make the quantifier of a string literal's characters possessive.

    xDSL tries all ways to divide the characters of a literal that is not closed, and there
    are exponentially many of them.
    """
    pattern = MLIRLexer._unescaped_characters_regex.pattern  # pyright: ignore[reportPrivateUsage] no public way
    if "]+|" in pattern:
        MLIRLexer._unescaped_characters_regex = re.compile(  # pyright: ignore[reportPrivateUsage] no public way
            pattern.replace("]+|", "]++|")
        )


# --------------------------------------------------------------------------- constants


class _WideFloat:
    """
    How the values of a float type that is wider than Python's are stored.

    A value is one of Python's all the same, as xDSL has no other.
    """

    _EXPONENT_MASK = 0x7FFF
    _EXPONENT_BIAS = 0x3FFF

    def __init__(self, size: int, fraction_bits: int, has_integer_bit: bool):
        self.size = size
        self._fraction_bits = fraction_bits
        self._has_integer_bit = has_integer_bit
        self._significand_bits = fraction_bits + has_integer_bit

    def encode(self, value: float) -> bytes:
        integer_bit = 1 << self._fraction_bits
        if math.isnan(value):
            exponent, significand = self._EXPONENT_MASK, integer_bit | integer_bit >> 1
        elif math.isinf(value):
            exponent, significand = self._EXPONENT_MASK, integer_bit
        elif value == 0:
            exponent, significand = 0, 0
        else:
            # All of Python's floats are normal in a type with 15 bits of exponent.
            fraction, power = math.frexp(abs(value))
            exponent = power - 1 + self._EXPONENT_BIAS
            significand = int(fraction * 2**53) << self._fraction_bits - 52
        if not self._has_integer_bit:
            significand &= integer_bit - 1
        negative = math.copysign(1.0, value) < 0
        bits = (negative << 15 | exponent) << self._significand_bits | significand
        return bits.to_bytes(self.size, "little")

    def decode(self, buffer: bytes) -> float:
        """The value, rounded to the nearest that Python has."""
        bits = int.from_bytes(buffer, "little")
        significand = bits & (1 << self._significand_bits) - 1
        sign_and_exponent = bits >> self._significand_bits
        sign = -1.0 if sign_and_exponent >> 15 else 1.0
        exponent = sign_and_exponent & self._EXPONENT_MASK
        integer_bit = 1 << self._fraction_bits
        if exponent == self._EXPONENT_MASK:
            fraction = significand & integer_bit - 1
            return math.copysign(math.nan if fraction else math.inf, sign)
        if exponent and not self._has_integer_bit:
            significand |= integer_bit
        power = max(exponent, 1) - self._EXPONENT_BIAS - self._fraction_bits
        try:
            return sign * math.ldexp(significand, power)
        except OverflowError:
            return sign * math.inf


def store_wide_floats() -> None:
    """Let constants have the types f80 and f128."""
    for type_, layout in (
        (f80, _WideFloat(10, 63, has_integer_bit=True)),
        (f128, _WideFloat(16, 112, has_integer_bit=False)),
    ):
        try:
            type_.pack((1.0,))
        except NotImplementedError:
            _store_wide_float(type(type_), layout)


def _store_wide_float(
    class_: type[Float80Type | Float128Type], layout: _WideFloat
) -> None:
    def iter_unpack(self: object, buffer: bytes, /) -> Iterator[float]:
        view = memoryview(buffer)
        if len(view) % layout.size:
            raise ValueError(
                f"Buffer length {len(view)} not multiple of {class_.name} element size "
                f"{layout.size}."
            )
        return (
            layout.decode(view[start : start + layout.size].tobytes())
            for start in range(0, len(view), layout.size)
        )

    def unpack(self: object, buffer: bytes, num: int, /) -> tuple[float, ...]:
        values = tuple(iter_unpack(self, buffer))
        if len(values) != num:
            raise ValueError(
                f"Buffer length {len(buffer)} not product of {class_.name} element size "
                f"{layout.size} and num {num}."
            )
        return values

    def pack_into(self: object, buffer: bytearray, offset: int, value: float) -> None:
        if len(buffer) < offset + layout.size:
            raise ValueError(
                f"Buffer length {len(buffer)} too small for packing {layout.size} bytes "
                f"at offset {offset}, expected at least {offset + layout.size}."
            )
        memoryview(buffer)[offset : offset + layout.size] = layout.encode(value)

    def pack(self: object, values: Sequence[float]) -> bytes:
        return b"".join(map(layout.encode, values))

    def compile_time_size(self: object) -> int:
        return layout.size

    setattr(class_, "iter_unpack", iter_unpack)
    setattr(class_, "unpack", unpack)
    setattr(class_, "pack_into", pack_into)
    setattr(class_, "pack", pack)
    setattr(class_, "compile_time_size", property(compile_time_size))


def compare_splats_by_bits() -> None:
    """
    Print `dense<[0.0, -0.0]>` with both of its values.

    They are equal, so xDSL takes the first for all of them.
    """
    if not DenseIntOrFPElementsAttr.from_list(
        TensorType(f32, (2,)), (0.0, -0.0)
    ).is_splat():
        return

    def is_splat(self: DenseIntOrFPElementsAttr) -> bool:
        data = self.data.data
        first = data[: self.type.element_type.compile_time_size]
        return first * len(self) == data

    DenseIntOrFPElementsAttr.is_splat = is_splat


def parse_dense_hexadecimal_floats() -> None:
    """Take the hexadecimal elements of a dense float constant for their bits."""
    from xdsl.parser import AttrParser, Parser

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
            parser.raise_error(
                "hexadecimal float constant out of range for type",
                at_position=self.span,
            )
        return next(type.iter_unpack(bits.to_bytes(type.compile_time_size, "little")))

    element_class.to_type = to_type_by_bits


def _is_packed_by_mlir(type_: Attribute) -> bool:
    """Whether MLIR stores elements of the type in other bytes than xDSL."""
    return isinstance(type_, IntegerType) and type_.bitwidth not in (8, 16, 32, 64)


def _mlir_bytes(type_: IntegerType, values: Sequence[int]) -> bytes:
    """
    The bytes that MLIR has for dense integers.

    Eight of `i1` are one byte, the first in its lowest bit. The others have as many bytes
    as they need, with zeros above their bits.
    """
    width = type_.bitwidth
    if width == 1:
        bits = "".join("1" if value & 1 else "0" for value in reversed(values))
        return int(bits, 2).to_bytes((len(values) + 7) // 8, "little")
    mask, size = (1 << width) - 1, (width + 7) // 8
    return b"".join((value & mask).to_bytes(size, "little") for value in values)


def _values_of_mlir_bytes(
    type_: IntegerType, data: bytes, count: int
) -> Sequence[int] | None:
    """Inverse of `_mlir_bytes`, `None` if `data` has not `count` elements."""
    width = type_.bitwidth
    if width == 1:
        if len(data) == 1 and count > 8 and data in (b"\x00", b"\xff"):
            return [data[0] & 1] * count
        if len(data) != (count + 7) // 8:
            return None
        return [data[index // 8] >> index % 8 & 1 for index in range(count)]
    size = (width + 7) // 8
    if len(data) == size:
        data *= count
    if len(data) != size * count:
        return None
    is_unsigned = type_.signedness.data is Signedness.UNSIGNED
    sign, mask = 0 if is_unsigned else 1 << width - 1, (1 << width) - 1
    bits = (
        int.from_bytes(data[start : start + size], "little") & mask
        for start in range(0, len(data), size)
    )
    return [(value ^ sign) - sign for value in bits]


def exchange_packed_integers() -> None:
    """
    Print and parse the bytes of long dense constants of `i1`, `i4`, `i24` as MLIR does.

    From 101 elements on a constant is printed as one hexadecimal string.
    """
    from xdsl.parser import AttrParser

    type_ = TensorType(i1, (101,))
    text = f'dense<"0x01{"00" * 12}"> : {type_}'
    attribute = DenseIntOrFPElementsAttr.from_list(type_, (1, *[0] * 100))
    if str(attribute) == text:
        return

    print_without_type = DenseIntOrFPElementsAttr.print_without_type
    parse_attr = AttrParser.parse_dense_int_or_fp_elements_attr

    def print_(self: DenseIntOrFPElementsAttr, printer: Printer) -> None:
        type_ = self.get_element_type()
        if (
            not isinstance(type_, IntegerType)
            or not _is_packed_by_mlir(type_)
            or len(self) <= 100
            or self.is_splat()
        ):
            print_without_type(self, printer)
            return
        values = cast(Sequence[int], self.get_values())
        printer.print_string(f'dense<"0x{_mlir_bytes(type_, values).hex().upper()}">')

    def parse(
        self: AttrParser, type: RankedStructure[AnyDenseElement] | None
    ) -> DenseIntOrFPElementsAttr:
        start = self.pos
        attribute = _parse_optional_packed_integers(self, type)
        if attribute is not None:
            return attribute
        self._resume_from(start)  # pyright: ignore[reportPrivateUsage] no public way
        return parse_attr(self, type)

    DenseIntOrFPElementsAttr.print_without_type = print_
    AttrParser.parse_dense_int_or_fp_elements_attr = parse


def _parse_optional_packed_integers(
    parser: AttrParser, type_: RankedStructure[AnyDenseElement] | None
) -> DenseIntOrFPElementsAttr | None:
    """Parse a dense constant if its elements are integers that MLIR has packed."""
    if parser.parse_optional_punctuation("<") is None:
        return None
    if (hexadecimal := parser.parse_optional_str_literal()) is None:
        return None
    parser.parse_punctuation(">")
    if type_ is None:
        parser.parse_punctuation(":")
        type_ = parser._parse_dense_literal_type()  # pyright: ignore[reportPrivateUsage] no public way
    element_type = type_.get_element_type()
    if not isinstance(element_type, IntegerType) or not _is_packed_by_mlir(
        element_type
    ):
        return None
    try:
        data = bytes.fromhex(hexadecimal.removeprefix("0x"))
    except ValueError:
        return None
    values = _values_of_mlir_bytes(element_type, data, math.prod(type_.get_shape()))
    if values is None:
        return None
    return DenseIntOrFPElementsAttr.from_list(
        cast("RankedStructure[IntegerType]", type_), values
    )


# ----------------------------------------------------------------------------- arith


class _SameShape(OpTrait):
    """
    A cast of one operand to one result needs both to have the same shape.

    Rules, their order and words are those of MLIR.
    """

    def verify(self, op: Operation) -> None:
        source, result = op.operands[0].type, op.results[0].type
        if _tensor_dimensions(source) != _tensor_dimensions(result):
            raise VerifyException(
                f"'{op.name}' op failed to verify that input and output have the same "
                "tensor dimensions"
            )
        if _container(source) != _container(result):
            raise VerifyException(
                f"'{op.name}' op requires the same shape for all operands and results"
            )
        if _encoding(source) != _encoding(result):
            raise VerifyException(
                f"'{op.name}' op operand type '{source}' and result type '{result}' "
                "are cast incompatible"
            )


def _tensor_dimensions(type_: Attribute) -> Sequence[int]:
    """The dimensions of a tensor, none for everything else."""
    return type_.get_shape() if isinstance(type_, TensorType) else ()


def _container(type_: Attribute) -> Sequence[object]:
    """What a type is besides its element type and encoding."""
    if isinstance(type_, TensorType):
        return "tensor", type_.shape
    if isinstance(type_, VectorType):
        return "vector", type_.shape, type_.scalable_dims
    return ()


def _encoding(type_: Attribute) -> Attribute | None:
    return type_.encoding if isinstance(type_, TensorType) else None


def widen_arith_conversions() -> None:
    """
    Let `arith.sitofp`, `uitofp`, `fptosi` and `fptoui` convert tensors and vectors.

    As in MLIR, operand and result have the same shape and unranked tensors are invalid.
    """
    from xdsl.dialects import arith

    integers = AnyOf.get(
        BaseAttr(IntegerType),
        VectorType.constr(SignlessIntegerConstraint),
        TensorType.constr(SignlessIntegerConstraint),
    )
    floats = AnyOf.get(
        AnyFloatConstr,
        VectorType.constr(AnyFloatConstr),
        TensorType.constr(AnyFloatConstr),
    )
    i8_tensor, f32_tensor = TensorType(i8, (1,)), TensorType(f32, (1,))
    for op_type in (arith.SIToFPOp, arith.UIToFPOp):
        if not _casts(op_type, i8_tensor, f32_tensor):
            _widen_cast(op_type, integers, floats)
    for op_type in (arith.FPToSIOp, arith.FPToUIOp):
        if not _casts(op_type, f32_tensor, i8_tensor):
            _widen_cast(op_type, floats, integers)


def _casts(op_type: type[IRDLOperation], source: Attribute, result: Attribute) -> bool:
    return _verifies(op_type.build(operands=_values(source), result_types=(result,)))


def _widen_cast(
    op_type: type[IRDLOperation], source: AttrConstraint, result: AttrConstraint
) -> None:
    definition = op_type.get_irdl_definition()
    definition.operands[0] = (definition.operands[0][0], OperandDef(source))
    definition.results[0] = (definition.results[0][0], ResultDef(result))
    definition.traits.add_trait(_SameShape())


def widen_arith_width_casts() -> None:
    """Let `arith.extsi`, `extui` and `trunci` convert tensors and vectors."""
    from xdsl.dialects import arith

    integers = AnyOf.get(
        BaseAttr(IntegerType),
        VectorType.constr(SignlessIntegerConstraint),
        TensorType.constr(SignlessIntegerConstraint),
    )
    narrow, wide = TensorType(i8, (1,)), TensorType(i32, (1,))
    for op_type in (arith.ExtSIOp, arith.ExtUIOp):
        if not _casts(op_type, narrow, wide):
            _widen_cast(op_type, integers, integers)
            _verify_widths(op_type)
    if not _casts(arith.TruncIOp, wide, narrow):
        _widen_cast(arith.TruncIOp, integers, integers)
        _verify_widths(arith.TruncIOp)


def _verify_widths(op_type: type[IRDLOperation]) -> None:
    """Let the verifier, which compares the widths of scalars, do so for elements."""
    from xdsl.dialects.arith import TruncIOp
    from xdsl.utils.type import get_element_type_or_self

    definition = op_type.get_irdl_definition()
    verify_scalar = op_type.verify_

    def verify_(self: IRDLOperation) -> None:
        source, result = self.operands[0].type, self.results[0].type
        if not isinstance(source, ShapedType) or not isinstance(result, ShapedType):
            verify_scalar(self)
            return
        definition.verify(self)
        narrow, wide = (
            get_element_type_or_self(source),
            get_element_type_or_self(result),
        )
        if isinstance(self, TruncIOp):
            narrow, wide = wide, narrow
        assert isinstance(narrow, IntegerType)
        assert isinstance(wide, IntegerType)
        if narrow.bitwidth >= wide.bitwidth:
            raise VerifyException(
                f"'{self.name}' op operand type '{source}' and result type '{result}' "
                "are cast incompatible"
            )

    op_type.verify_ = verify_


def make_arith_extsi_pure() -> None:
    """Let a dead or repeated `arith.extsi` be removed, as `arith.extui` is."""
    from xdsl.dialects.arith import ExtSIOp

    if not ExtSIOp.has_trait(MemoryEffect):
        ExtSIOp.traits.add_trait(Pure())


def arith_remf() -> type[FloatingPointLikeBinaryOperation]:
    """
    The class of `arith.remf`, which is added to the dialect if xDSL does not have it.

    The lowering of casts does not need it; that of a remainder on quantized values does.
    """
    from xdsl.dialects import arith

    for op_type in arith.Arith.operations:
        if op_type.name == "arith.remf":
            return cast("type[FloatingPointLikeBinaryOperation]", op_type)

    @irdl_op_definition
    class RemFOp(arith.FloatingPointLikeBinaryOperation):
        """
        Remainder of a division that truncates the quotient.

        See external [documentation](https://mlir.llvm.org/docs/Dialects/ArithOps/#arithremf-arithremfop).
        """

        name = "arith.remf"

        traits = traits_def(Pure())

    # A dialect has no other way of growing.
    arith.Arith._operations.append(RemFOp)  # pyright: ignore[reportPrivateUsage] no public way
    return RemFOp


# ---------------------------------------------------------------------------- tensor


def widen_tensor_reshape() -> None:
    """Let `tensor.reshape` have unranked types and dynamic dimensions."""
    from xdsl.dialects.tensor import ReshapeOp

    unranked, dynamic = UnrankedTensorType(f32), TensorType(f32, (DYNAMIC_INDEX,))
    matrix = TensorType(f32, (DYNAMIC_INDEX, 2))
    pair, pairs = TensorType(IndexType(), (1,)), TensorType(IndexType(), (2,))
    if all(
        _verifies(
            ReshapeOp.build(operands=_values(source, shape), result_types=(result,))
        )
        for source, shape, result in (
            (unranked, pair, dynamic),
            (dynamic, pair, unranked),
            (dynamic, pairs, matrix),
        )
    ):
        return

    tensors = BaseAttr(TensorType) | BaseAttr(UnrankedTensorType)
    definition = ReshapeOp.get_irdl_definition()
    definition.operands[0] = (definition.operands[0][0], OperandDef(tensors))
    definition.results[0] = (definition.results[0][0], ResultDef(tensors))
    verify_static = ReshapeOp.verify_

    def verify_(self: ReshapeOp) -> None:
        types = (self.source.type, self.shape.type, self.result.type)
        if all(isinstance(t, TensorType) and t.has_static_shape() for t in types):
            verify_static(self)
            return
        definition.verify(self)
        _verify_reshape(*types)

    ReshapeOp.verify_ = verify_


def _verify_reshape(source: Attribute, shape: Attribute, result: Attribute) -> None:
    """Verify a `tensor.reshape` that is not wholly static, in the words of MLIR."""
    from xdsl.utils.type import get_element_type_or_self

    assert isinstance(shape, TensorType)
    if get_element_type_or_self(source) != get_element_type_or_self(result):
        raise VerifyException(
            "element types of source and destination tensor types should be the same"
        )
    if shape.get_num_dims() != 1:
        raise VerifyException("shape tensor must have a rank one")
    if not isinstance(result, TensorType):
        return
    (length,) = shape.get_shape()
    if length == DYNAMIC_INDEX:
        raise VerifyException(
            "cannot use shape operand with dynamic length to reshape to "
            "statically-ranked tensor type"
        )
    if length != result.get_num_dims():
        raise VerifyException(
            "length of shape operand differs from the result's tensor rank"
        )


def keep_tensor_empty_attributes() -> None:
    """Print and parse the discardable attributes of `tensor.empty`."""
    from xdsl.dialects.tensor import EmptyOp

    empty = EmptyOp((), TensorType(f32, (1,)))
    empty.attributes["kept"] = UnitAttr()
    if "kept" in str(empty):
        return

    def print_(self: EmptyOp, printer: Printer) -> None:
        with printer.in_parens():
            printer.print_list(self.dynamic_sizes, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.tensor.type)

    def parse(parser: Parser) -> EmptyOp:
        pos = parser.pos
        sizes = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        result_type = parser.parse_type()
        empty = EmptyOp(
            parser.resolve_operands(sizes, [IndexType()] * len(sizes), pos), result_type
        )
        empty.attributes |= attributes
        return empty

    EmptyOp.print = print_
    EmptyOp.parse = staticmethod(parse)


# ---------------------------------------------------------------------------- linalg


class _TensorSemanticsEffect(MemoryEffect):
    """On tensors alone, a structured operation has the effects of its body."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance] | None:
        if any(
            isinstance(operand.type, MemRefType | UnrankedMemRefType)
            for operand in op.operands
        ):
            return None
        effects: set[EffectInstance] = set()
        for body_op in op.regions[0].block.ops:
            if body_op.has_trait(IsTerminator):
                continue
            if (body_effects := get_effects(body_op)) is None:
                return None
            effects |= body_effects
        return effects


def make_linalg_generic_effects_known() -> None:
    """Let a dead or repeated `linalg.generic` on tensors be removed."""
    from xdsl.dialects.linalg.ops import GenericOp

    if not GenericOp.has_trait(MemoryEffect):
        GenericOp.traits.add_trait(_TensorSemanticsEffect())


# ------------------------------------------------------------------------------ func


def keep_declaration_attributes() -> None:
    """Print and parse the attributes of a declaration's arguments and results."""
    from xdsl.dialects.func import FuncOp

    attributes = ArrayAttr((DictionaryAttr({"kept": UnitAttr()}),))
    declaration = FuncOp(
        "f", ((f32,), (f32,)), Region(), arg_attrs=attributes, res_attrs=attributes
    )
    if str(declaration).count("kept") == 2:
        return

    parse_definition, print_definition = FuncOp.parse, FuncOp.print

    def print_(self: FuncOp, printer: Printer) -> None:
        if self.is_declaration and (self.arg_attrs or self.res_attrs):
            _print_declaration(self, printer)
        else:
            print_definition(self, printer)

    def parse(parser: Parser) -> FuncOp:
        start = parser.pos
        func = parse_definition(parser)
        if func.is_declaration and func.function_type.inputs.data:
            # The attributes were parsed and forgotten: go back and read them again.
            end = parser.pos
            parser._resume_from(start)  # pyright: ignore[reportPrivateUsage] no public way
            func.arg_attrs = _parse_argument_attributes(parser)
            parser._resume_from(end)  # pyright: ignore[reportPrivateUsage] no public way
        return func

    FuncOp.print = print_
    FuncOp.parse = staticmethod(parse)


def _parse_argument_attributes(parser: Parser) -> ArrayAttr[DictionaryAttr] | None:
    """Parse a declaration up to the end of its arguments, for their attributes."""

    def parse_argument() -> dict[str, Attribute]:
        if parser.parse_optional_argument() is None:
            parser.parse_type()
        attributes = parser.parse_optional_dictionary_attr_dict()
        parser.parse_optional_location()
        return attributes

    parser.parse_optional_visibility_keyword()
    parser.parse_symbol_name()
    attributes = parser.parse_comma_separated_list(
        parser.Delimiter.PAREN, parse_argument
    )
    return ArrayAttr(map(DictionaryAttr, attributes)) if any(attributes) else None


def _print_declaration(func: FuncOp, printer: Printer) -> None:
    def print_types(
        types: Sequence[Attribute], attributes: ArrayAttr[DictionaryAttr] | None
    ) -> None:
        with printer.in_parens():
            printer.print_list(
                zip(types, attributes or [None] * len(types), strict=True), print_type
            )

    def print_type(pair: tuple[Attribute, DictionaryAttr | None]) -> None:
        type_, attributes = pair
        printer.print_attribute(type_)
        if attributes is not None and attributes.data:
            printer.print_op_attributes(attributes.data)

    if func.sym_visibility:
        printer.print_string(f" {func.sym_visibility.data}")
    printer.print_string(" ")
    printer.print_symbol_name(func.sym_name.data)
    print_types(func.function_type.inputs.data, func.arg_attrs)
    results = func.function_type.outputs.data
    if results:
        printer.print_string(" -> ")
    if len(results) == 1 and not func.res_attrs:
        printer.print_attribute(results[0])
    elif results:
        print_types(results, func.res_attrs)
    printer.print_op_attributes(func.attributes, print_keyword=True)


# --------------------------------------------------------------------------- resources


def name_resources_once() -> None:
    """
    Find the data of a resource whose name is taken, as it is if a text is parsed again.

    Attributes and data of one text then have the same new name.
    """
    from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
    from xdsl.parser import AttrParser, Parser

    def parse_handle(
        self: AttrParser, dialect_name: str, interface: OpAsmDialectInterface
    ) -> str:
        name = self.parse_identifier(" for resource handle")
        handles: dict[tuple[str, str], str] = vars(self).setdefault(
            "_resource_handles", {}
        )
        if (handle := handles.get((dialect_name, name))) is None:
            handle = interface.declare_resource(name)
            handles[dialect_name, name] = handle
            self.dialect_resources.add((dialect_name, handle))
        return handle

    resources = OpAsmDialectInterface()
    resources.declare_resource("a")
    parser = Parser(Context(), "a a")
    parse = parser._parse_dialect_resource_handle  # pyright: ignore[reportPrivateUsage] no public way
    if parse("builtin", resources) != parse("builtin", resources):
        AttrParser._parse_dialect_resource_handle = parse_handle  # pyright: ignore[reportPrivateUsage] no public way


# --------------------------------------------------------------------------- applying

_CONSTANT_FIXES: tuple[Callable[[], None], ...] = (
    store_wide_floats,
    compare_splats_by_bits,
    parse_dense_hexadecimal_floats,
    exchange_packed_integers,
    name_resources_once,
)
"""The fixes of attributes, which operations of every dialect may have."""

_FIXES: dict[str, tuple[Callable[[], object], ...]] = {
    "arith": (
        widen_arith_conversions,
        widen_arith_width_casts,
        make_arith_extsi_pure,
        arith_remf,
    ),
    "func": (keep_declaration_attributes,),
    "linalg": (make_linalg_generic_effects_known,),
    "tensor": (widen_tensor_reshape, keep_tensor_empty_attributes),
}
"""The fixes of each dialect, by its name."""


@cache
def apply_to_constants() -> None:
    """Apply the fixes of attributes, once a process."""
    for fix in _CONSTANT_FIXES:
        fix()


@cache
def apply(dialect_name: str) -> None:
    """Apply the fixes that the named dialect needs, once a process."""
    apply_to_constants()
    for fix in _FIXES.get(dialect_name, ()):
        fix()


def apply_all() -> None:
    """
    Apply all fixes.

    To be called where operations are built or parsed without a `Context` that loads
    their dialects later: it imports the dialects that it fixes.
    """
    name_prefixes_in_errors()
    read_unclosed_strings_in_linear_time()
    for dialect_name in _FIXES:
        apply(dialect_name)


_after_loading: dict[str, Callable[[Context], None]] = {}


def after_loading(dialect_name: str, action: Callable[[Context], None]) -> None:
    """Have something done with each `Context` that has loaded the named dialect."""
    _after_loading[dialect_name] = action


def apply_on_load() -> None:
    """
    Apply the fixes of each dialect when a `Context` loads it.

    Dialects that were imported before are fixed at once, and so is the lexer, which reads
    the first token before any dialect is loaded.
    """
    name_prefixes_in_errors()
    read_unclosed_strings_in_linear_time()
    for dialect_name in _FIXES:
        if f"xdsl.dialects.{dialect_name}" in sys.modules:
            apply(dialect_name)

    load = Context.load_registered_dialect
    if load.__module__ == __name__:
        return

    def load_registered_dialect(self: Context, name: str) -> None:
        # Before the dialect is loaded: a context copies its list of operations.
        apply(name)
        load(self, name)
        if action := _after_loading.get(name):
            action(self)

    Context.load_registered_dialect = load_registered_dialect
