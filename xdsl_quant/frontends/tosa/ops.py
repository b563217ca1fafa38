"""
TOSA ops, attributes and types of MLIR 22 that the dialect in xDSL lacks.

As in MLIR, verifiers check element types, ranks, and the shapes of broadcasts,
reductions and convolutions. They do not check MLIR's other rules for shapes. Tensors are
ranked, as in xDSL's own ops.

MLIR documentation: <https://mlir.llvm.org/docs/Dialects/TOSA/>
"""

import math
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, cast

from typing_extensions import TypeVar
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I32,
    I64,
    AnyFloat,
    BoolAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.tosa import NanMode, NanModeAttr, RoundingMode, RoundingModeAttr
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import (
    Attribute,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    AttrConstraint,
    BaseAttr,
    IntConstraint,
    IRDLOperation,
    ParsePropInAttrDict,
    VerificationContext,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Commutative, ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

# Attributes and types


class ResizeMode(StrEnum):
    """Interpolation of `tosa.resize`."""

    NEAREST_NEIGHBOR = "NEAREST_NEIGHBOR"
    BILINEAR = "BILINEAR"


@irdl_attr_definition
class ResizeModeAttr(EnumAttribute[ResizeMode]):
    """Mode of `tosa.resize`: `#tosa.resize_mode<BILINEAR>`."""

    name = "tosa.resize_mode"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ResizeMode:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(ResizeMode)


class BlockSize(StrEnum):
    """Number of elements along the last dimension that share a scale."""

    BLOCK_SIZE_32 = "BLOCK_SIZE_32"


@irdl_attr_definition
class BlockSizeAttr(EnumAttribute[BlockSize]):
    """Block size of block-scaled ops: `#tosa.block_size<BLOCK_SIZE_32>`."""

    name = "tosa.block_size"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> BlockSize:
        with parser.in_angle_brackets():
            return parser.parse_str_enum(BlockSize)


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


# Syntax


_KEYWORDS: Mapping[str, Callable[[Parser], Attribute]] = {
    "block_size": lambda parser: BlockSizeAttr(parser.parse_str_enum(BlockSize)),
    "mode": lambda parser: ResizeModeAttr(parser.parse_str_enum(ResizeMode)),
    "nan_mode": lambda parser: NanModeAttr(parser.parse_str_enum(NanMode)),
    "rounding_mode": lambda parser: RoundingModeAttr(
        parser.parse_str_enum(RoundingMode)
    ),
}
"""Parser of each property that is printed as a keyword, by property name."""


def parse_with_keywords(cls: type[IRDLOperation], parser: Parser) -> IRDLOperation:
    """Parse an op with enum keywords: `{axis = 1 : i32, nan_mode = IGNORE}`."""

    def parse_entry() -> tuple[str, Attribute]:
        name = parser.parse_optional_str_literal() or parser.parse_identifier()
        parser.parse_punctuation("=")
        attribute = parser.parse_optional_attribute()
        if attribute is None:
            attribute = _KEYWORDS.get(name, Parser.parse_attribute)(parser)
        return name, attribute

    position = parser.pos
    operands = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_unresolved_operand
    )
    entries = parser.parse_optional_comma_separated_list(
        parser.Delimiter.BRACES, parse_entry
    )
    parser.parse_punctuation(":")
    type_ = parser.parse_function_type()
    attributes = dict(entries or ())
    # Keep properties in the order of the text.
    names = [*filter(cls.get_irdl_definition().properties.__contains__, attributes)]
    return cls.create(
        operands=parser.resolve_operands(operands, type_.inputs.data, position),
        result_types=type_.outputs.data,
        properties={name: attributes.pop(name) for name in names},
        attributes=attributes,
    )


def print_with_keywords(self: IRDLOperation, printer: Printer) -> None:
    """Print an op with enum keywords; omit properties that have their default value."""
    definitions = self.get_irdl_definition().properties
    attributes = dict(self.attributes)
    for name, value in self.properties.items():
        if value != definitions[name].default_value:
            attributes[name] = value

    def print_entry(name: str) -> None:
        value = attributes[name]
        printer.print_identifier_or_string_literal(name)
        printer.print_string(" = ")
        if isinstance(
            value, BlockSizeAttr | NanModeAttr | ResizeModeAttr | RoundingModeAttr
        ):
            printer.print_string(value.data)
        else:
            printer.print_attribute(value)

    printer.print_string(" ")
    printer.print_list(self.operands, printer.print_ssa_value)
    if attributes:
        printer.print_string(" ")
        with printer.in_braces():
            printer.print_list(sorted(attributes), print_entry)
    printer.print_string(" : ")
    printer.print_function_type(self.operand_types, self.result_types)


# Tensor constraints


def is_number(type_: Attribute) -> bool:
    """Return True if TOSA supports tensors with this element type."""
    if isinstance(type_, IntegerType):
        return cast(IntegerType, type_).signedness.data != Signedness.SIGNED
    return isinstance(type_, AnyFloat) or _is_other_number(type_)


def _is_other_number(type_: Attribute) -> bool:
    is_of_tosa = isinstance(type_, BlockScaledType | MXInt8Type)
    return is_of_tosa or type_.name == "quant.uniform"


def _is_plain_number(type_: Attribute) -> bool:
    return is_number(type_) and not _is_other_number(type_)


@dataclass(frozen=True)
class TensorKind(AttrConstraint[TensorType[Attribute]]):
    """Constraint for ranked, non-empty tensors by element type and shape."""

    words: str

    has_element: Callable[[Attribute], bool] = is_number

    ranks: Sequence[int] | None = None

    shape: Sequence[int] | None = None

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(attr, TensorType) or not self._has(
            cast(TensorType[Attribute], attr)
        ):
            raise VerifyException(f"must be {self.words}, but got '{attr}'")

    def _has(self, type_: TensorType[Attribute]) -> bool:
        shape = type_.get_shape()
        return (
            0 not in shape
            and self.has_element(type_.element_type)
            and (self.ranks is None or len(shape) in self.ranks)
            and (self.shape is None or shape == self.shape)
        )

    def mapping_type_vars(
        self, type_var_mapping: Mapping[TypeVar, AttrConstraint | IntConstraint]
    ) -> Self:
        return self


def _tosa_elements(*types: Attribute) -> TensorKind:
    words = " or ".join(map(str, types))
    return TensorKind(f"tosa-conformant tensor of {words} values", types.__contains__)


def _of_rank(*ranks: int) -> TensorKind:
    words = " or ".join(f"{rank}-d" for rank in ranks)
    return TensorKind(f"{words} tosa-conformant tensor", ranks=ranks)


_NUMBERS = TensorKind("tosa-conformant tensor of number values")
_FLOATS = TensorKind(
    "tosa-conformant tensor of floating-point values",
    lambda type_: isinstance(type_, AnyFloat),
)
_BOOLEANS = _tosa_elements(i1)
_NON_SCALAR = TensorKind(
    "tosa-conformant tensor of at least rank 1", ranks=range(1, 1 << 16)
)
_BLOCK_ELEMENTS = TensorKind(
    "tosa-conformant tensor of at least rank 1 of micro-scaling format values",
    lambda type_: isinstance(type_, BLOCK_ELEMENT_TYPES),
    range(1, 1 << 16),
)
_BLOCK_SCALES = TensorKind(
    "tosa-conformant tensor of at least rank 1 of micro-scaling format scale values",
    lambda type_: isinstance(type_, Float8E8M0FNUType),
    range(1, 1 << 16),
)
_ONE_NUMBER = TensorKind(
    "tosa-conformant scalar tensor of integer or floating-point values",
    _is_plain_number,
    shape=(1,),
)
_ONE = TensorKind("tosa-conformant scalar tensor of number values", shape=(1,))
_SHAPE = BaseAttr(ShapeType)


# Helpers of verifiers


def _tosa_error(op: IRDLOperation, message: str) -> VerifyException:
    return VerifyException(f"'{op.name}' op {message}")


def _tosa_tensor_type(value: SSAValue) -> TensorType[Attribute]:
    return cast(TensorType[Attribute], value.type)


def _tosa_element_type(value: SSAValue) -> Attribute:
    return _tosa_tensor_type(value).element_type


def _tosa_shape(value: SSAValue) -> Sequence[int]:
    return _tosa_tensor_type(value).get_shape()


def _verify_same_elements(op: IRDLOperation, *values: SSAValue) -> None:
    if len({_tosa_element_type(value) for value in values}) > 1:
        raise _tosa_error(
            op, "requires the same element type for all operands and results"
        )


def _verify_zero_point(
    op: IRDLOperation, value: SSAValue, zero_point: SSAValue
) -> None:
    type_ = _tosa_element_type(value)
    # For a quantized type, compare its storage type.
    if getattr(type_, "storage_type", type_) != _tosa_element_type(zero_point):
        raise _tosa_error(op, f"expect zero point to have the element type of {type_}")


def _are_compatible_sizes(a: int, b: int) -> bool:
    return a == b or DYNAMIC_INDEX in (a, b)


def _verify_same_shape(op: IRDLOperation, a: SSAValue, b: SSAValue) -> None:
    shapes = _tosa_shape(a), _tosa_shape(b)
    if len({len(shape) for shape in shapes}) > 1 or not all(
        map(_are_compatible_sizes, *shapes)
    ):
        raise _tosa_error(op, "requires the same shape for all operands and results")


def _verify_broadcast(op: IRDLOperation, *operands: SSAValue) -> None:
    result = _tosa_shape(op.results[0])
    shapes = [_tosa_shape(operand) for operand in operands]
    if any(len(shape) != len(result) for shape in shapes):
        raise _tosa_error(op, "operands don't have matching ranks")
    for size, *sizes in zip(result, *shapes, strict=True):
        larger = {other for other in sizes if other not in (1, DYNAMIC_INDEX)}
        if len(larger) > 1:
            raise _tosa_error(op, "operands don't have broadcast-compatible shapes")
        smaller = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else 1
        expected = larger.pop() if larger else smaller
        if not _are_compatible_sizes(size, expected):
            raise _tosa_error(
                op, "result type not broadcast compatible with broadcasted operands"
            )


def _verify_axis(op: IRDLOperation, axis: IntegerAttr, value: SSAValue) -> None:
    rank = len(_tosa_shape(value))
    if not 0 <= axis.value.data < rank:
        raise _tosa_error(op, f"expected axis in [0, {rank}), got {axis.value.data}")


def _verify_result_shape(op: IRDLOperation, expected: Sequence[int]) -> None:
    shape = _tosa_shape(op.results[0])
    if len(shape) != len(expected) or not all(
        map(_are_compatible_sizes, shape, expected)
    ):
        words = "x".join("?" if s == DYNAMIC_INDEX else str(s) for s in expected)
        raise _tosa_error(op, f"expected output shape '{words}'")


def _verify_rank(op: IRDLOperation, operand: SSAValue) -> None:
    if len(_tosa_shape(operand)) != len(_tosa_shape(op.results[0])):
        raise _tosa_error(op, "expect input and output to have the same ranks")


def _static_sizes(value: SSAValue) -> Sequence[int] | None:
    """Return the sizes of a `tosa.const_shape`; `None` for any other value."""
    op = value.owner
    if not isinstance(op, ConstShapeOp):
        return None
    return cast(Sequence[int], op.values.get_values())


# Checks and base classes


def _has_shape_of_operand(op: IRDLOperation) -> None:
    _verify_same_shape(op, op.operands[0], op.results[0])


def _has_elements_of_operand(op: IRDLOperation) -> None:
    _verify_same_elements(op, op.operands[0], op.results[0])


def _has_rank_of_operand(op: IRDLOperation) -> None:
    _verify_rank(op, op.operands[0])


def _has_same_elements(op: IRDLOperation) -> None:
    _verify_same_elements(op, *op.operands, *op.results)


def _compares_same_elements(op: IRDLOperation) -> None:
    _verify_same_elements(op, *op.operands)


def _is_broadcast(op: IRDLOperation) -> None:
    _verify_broadcast(op, *op.operands)


class CheckedOp(IRDLOperation, ABC):
    """Base class of pure ops whose verifier runs `CHECKS`."""

    CHECKS: ClassVar[Sequence[Callable[[IRDLOperation], None]]] = ()

    traits = traits_def(Pure())

    def verify_(self) -> None:
        for check in self.CHECKS:
            check(self)


class TosaOp(CheckedOp, ABC):
    """Base class of ops with the syntax `tosa.name %0, %1 {...} : (...) -> ...`."""

    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = "operands attr-dict `:` functional-type(operands, results)"


class KeywordOp(CheckedOp, ABC):
    """Base class of ops like `TosaOp`, but with enum properties printed as keywords."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse the op after its name."""
        op = parse_with_keywords(cls, parser)
        assert isinstance(op, cls)
        return op

    def print(self, printer: Printer) -> None:
        """Print the op without its name."""
        print_with_keywords(self, printer)


# Unary elementwise ops


class UnaryOp(TosaOp, ABC):
    """Base class of unary elementwise ops."""

    input1 = operand_def(_NUMBERS)
    output = result_def(_NUMBERS)

    CHECKS: ClassVar = (_has_shape_of_operand, _has_elements_of_operand)


@irdl_op_definition
class AbsOp(UnaryOp):
    """Absolute value."""

    name = "tosa.abs"


@irdl_op_definition
class BitwiseNotOp(UnaryOp):
    """Bitwise not."""

    name = "tosa.bitwise_not"


@irdl_op_definition
class CeilOp(UnaryOp):
    """Round up."""

    name = "tosa.ceil"


@irdl_op_definition
class ClzOp(UnaryOp):
    """Number of leading zeros."""

    name = "tosa.clz"


@irdl_op_definition
class ExpOp(UnaryOp):
    """Exponential function."""

    name = "tosa.exp"


@irdl_op_definition
class FloorOp(UnaryOp):
    """Round down."""

    name = "tosa.floor"


@irdl_op_definition
class LogOp(UnaryOp):
    """Natural logarithm."""

    name = "tosa.log"


@irdl_op_definition
class RsqrtOp(UnaryOp):
    """1 / sqrt(x)."""

    name = "tosa.rsqrt"


class _UnaryOpOfInput(TosaOp, ABC):
    """Base class of unary elementwise ops whose operand MLIR names `input`."""

    input = operand_def(_NUMBERS)
    output = result_def(_NUMBERS)

    CHECKS: ClassVar = (_has_shape_of_operand, _has_elements_of_operand)


@irdl_op_definition
class ErfOp(_UnaryOpOfInput):
    """Gauss error function."""

    name = "tosa.erf"


@irdl_op_definition
class SigmoidOp(_UnaryOpOfInput):
    """1 / (1 + exp(-x))."""

    name = "tosa.sigmoid"


@irdl_op_definition
class TanhOp(_UnaryOpOfInput):
    """Hyperbolic tangent."""

    name = "tosa.tanh"


@irdl_op_definition
class LogicalNotOp(UnaryOp):
    """Logical not."""

    name = "tosa.logical_not"

    input1 = operand_def(_BOOLEANS)
    output = result_def(_BOOLEANS)


@irdl_op_definition
class CastOp(_UnaryOpOfInput):
    """Convert elements; float to integer rounds half to even and saturates."""

    name = "tosa.cast"

    CHECKS: ClassVar = (_has_shape_of_operand,)


@irdl_op_definition
class IdentityOp(UnaryOp):
    """Return the operand."""

    name = "tosa.identity"

    CHECKS: ClassVar = ()


@irdl_op_definition
class NegateOp(TosaOp):
    """Negation: `output_zp - (x - input1_zp)`."""

    name = "tosa.negate"

    input1 = operand_def(_NUMBERS)
    input1_zp = operand_def(_ONE_NUMBER)
    output_zp = operand_def(_ONE_NUMBER)
    output = result_def(_NUMBERS)

    CHECKS: ClassVar = (_has_same_elements, _has_shape_of_operand)


# Binary and ternary elementwise ops


class BinaryOp(TosaOp, ABC):
    """Base class of binary elementwise ops with broadcasting."""

    input1 = operand_def(_NUMBERS)
    input2 = operand_def(_NUMBERS)
    output = result_def(_NUMBERS)

    CHECKS: ClassVar = (_has_same_elements, _is_broadcast)


@irdl_op_definition
class BitwiseAndOp(BinaryOp):
    """Bitwise and."""

    name = "tosa.bitwise_and"

    traits = traits_def(Commutative())


@irdl_op_definition
class BitwiseOrOp(BinaryOp):
    """Bitwise or."""

    name = "tosa.bitwise_or"

    traits = traits_def(Commutative())


@irdl_op_definition
class BitwiseXorOp(BinaryOp):
    """Bitwise exclusive or."""

    name = "tosa.bitwise_xor"

    traits = traits_def(Commutative())


@irdl_op_definition
class LogicalLeftShiftOp(BinaryOp):
    """Left shift."""

    name = "tosa.logical_left_shift"


@irdl_op_definition
class LogicalRightShiftOp(BinaryOp):
    """Right shift that fills with zeros."""

    name = "tosa.logical_right_shift"


@irdl_op_definition
class PowOp(BinaryOp):
    """`input1` to the power of `input2`."""

    name = "tosa.pow"


@irdl_op_definition
class ArithmeticRightShiftOp(BinaryOp):
    """Right shift that keeps the sign; `round` selects rounding half up."""

    name = "tosa.arithmetic_right_shift"

    round = prop_def(BoolAttr)


@irdl_op_definition
class IntDivOp(BinaryOp):
    """Integer quotient, rounded toward zero."""

    name = "tosa.intdiv"

    input1 = operand_def(_tosa_elements(i32, i64))
    input2 = operand_def(_tosa_elements(i32, i64))
    output = result_def(_tosa_elements(i32, i64))


class LogicalOp(BinaryOp, ABC):
    """Base class of binary logical ops with broadcasting."""

    input1 = operand_def(_BOOLEANS)
    input2 = operand_def(_BOOLEANS)
    output = result_def(_BOOLEANS)

    traits = traits_def(Commutative())


@irdl_op_definition
class LogicalAndOp(LogicalOp):
    """Logical and."""

    name = "tosa.logical_and"


@irdl_op_definition
class LogicalOrOp(LogicalOp):
    """Logical or."""

    name = "tosa.logical_or"


@irdl_op_definition
class LogicalXorOp(LogicalOp):
    """Logical exclusive or."""

    name = "tosa.logical_xor"


class ComparisonOp(BinaryOp, ABC):
    """Base class of comparisons with broadcasting."""

    output = result_def(_BOOLEANS)

    CHECKS: ClassVar = (_compares_same_elements, _is_broadcast)


@irdl_op_definition
class EqualOp(ComparisonOp):
    """True if `input1 == input2`."""

    name = "tosa.equal"

    traits = traits_def(Commutative())


@irdl_op_definition
class GreaterOp(ComparisonOp):
    """True if `input1 > input2`."""

    name = "tosa.greater"


@irdl_op_definition
class GreaterEqualOp(ComparisonOp):
    """True if `input1 >= input2`."""

    name = "tosa.greater_equal"


class _ExtremumOp(KeywordOp, ABC):
    input1 = operand_def(_NUMBERS)
    input2 = operand_def(_NUMBERS)
    nan_mode = opt_prop_def(NanModeAttr, default_value=NanModeAttr(NanMode.PROPAGATE))
    output = result_def(_NUMBERS)

    traits = traits_def(Commutative())

    CHECKS: ClassVar = (_has_same_elements, _is_broadcast)


@irdl_op_definition
class MaximumOp(_ExtremumOp):
    """Maximum of two values."""

    name = "tosa.maximum"


@irdl_op_definition
class MinimumOp(_ExtremumOp):
    """Minimum of two values."""

    name = "tosa.minimum"


@irdl_op_definition
class SelectOp(TosaOp):
    """Select one of two values by a condition."""

    name = "tosa.select"

    input1 = operand_def(_BOOLEANS)
    input2 = operand_def(_NUMBERS)
    input3 = operand_def(_NUMBERS)
    output = result_def(_NUMBERS)

    def verify_(self) -> None:
        _verify_same_elements(self, self.input2, self.input3, self.output)
        _verify_broadcast(self, self.input1, self.input2, self.input3)


@irdl_op_definition
class ApplyScaleOp(KeywordOp):
    """Multiply scalars or vectors by a 31-bit multiplier and shift right."""

    name = "tosa.apply_scale"

    value = operand_def()
    multiplier = operand_def()
    shift = operand_def()
    rounding_mode = prop_def(RoundingModeAttr)
    output = result_def()


@irdl_op_definition
class TableOp(TosaOp):
    """Table lookup: 256 entries for `i8`; 513 entries with interpolation for `i16`."""

    name = "tosa.table"

    input1 = operand_def(_NUMBERS)
    table = operand_def(_of_rank(1))
    output = result_def(_NUMBERS)

    CHECKS: ClassVar = (_has_shape_of_operand,)


# Reductions


@irdl_op_definition
class ArgMaxOp(KeywordOp):
    """Index of the first maximum along an axis."""

    name = "tosa.argmax"

    input = operand_def(_NON_SCALAR)
    axis = prop_def(IntegerAttr[I32])
    nan_mode = opt_prop_def(NanModeAttr, default_value=NanModeAttr(NanMode.PROPAGATE))
    output = result_def(
        TensorKind(
            "tosa-conformant tensor of integer values",
            lambda type_: is_number(type_) and isinstance(type_, IntegerType),
        )
    )

    def verify_(self) -> None:
        _verify_axis(self, self.axis, self.input)
        shape, axis = _tosa_shape(self.input), self.axis.value.data
        _verify_result_shape(self, (*shape[:axis], *shape[axis + 1 :]))


# Shapes and data movement


@irdl_op_definition
class ConstShapeOp(IRDLOperation):
    """Constant shape."""

    name = "tosa.const_shape"

    values = prop_def(DenseIntOrFPElementsAttr)
    output = result_def(_SHAPE)

    irdl_options = (ParsePropInAttrDict(),)

    # Two spaces, as in MLIR.
    assembly_format = "` ` attr-dict `:` `(` `)` `->` type($output)"

    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, sizes: Sequence[int]):
        type_ = TensorType(IndexType(), (len(sizes),))
        values = DenseIntOrFPElementsAttr.from_list(type_, sizes)
        super().__init__(
            properties={"values": values}, result_types=(ShapeType(len(sizes)),)
        )

    def verify_(self) -> None:
        type_ = self.values.type
        if not isinstance(type_.element_type, IndexType):
            raise _tosa_error(self, "expected values to be index elements")
        if type_.get_num_dims() != 1:
            raise _tosa_error(self, "expect elements in attribute values with rank 1")
        rank = self.output.type.rank.data
        if type_.get_shape() != (rank,):
            raise _tosa_error(
                self,
                "expect number of elements in attribute values "
                f"({type_.get_shape()[0]}) to be equal to the rank "
                f"({rank}) for the result shape type",
            )


def _verify_lengths(op: IRDLOperation, rank: int, *shapes: SSAValue) -> None:
    for value in shapes:
        length = cast(ShapeType, value.type).rank.data
        if length != rank:
            raise _tosa_error(op, f"expected a shape of {rank} sizes, got {length}")


@irdl_op_definition
class ReshapeOp(TosaOp):
    """Reshape a tensor."""

    name = "tosa.reshape"

    input1 = operand_def(_NUMBERS)
    shape = operand_def(_SHAPE)
    output = result_def(_NUMBERS)

    def verify_(self) -> None:
        _verify_same_elements(self, self.input1, self.output)
        _verify_lengths(self, len(_tosa_shape(self.output)), self.shape)
        if (sizes := _static_sizes(self.shape)) is not None:
            _verify_result_shape(self, [DYNAMIC_INDEX if s == -1 else s for s in sizes])
        shapes = _tosa_shape(self.input1), _tosa_shape(self.output)
        if DYNAMIC_INDEX not in (*shapes[0], *shapes[1]):
            before, after = map(math.prod, shapes)
            if before != after:
                raise _tosa_error(
                    self, f"cannot reshape {before} elements into {after}"
                )


class _DataMovementOp(TosaOp, ABC):
    CHECKS: ClassVar = (_has_elements_of_operand, _has_rank_of_operand)


@irdl_op_definition
class TileOp(_DataMovementOp):
    """Repeat a tensor along its dimensions."""

    name = "tosa.tile"

    input1 = operand_def(_NON_SCALAR)
    multiples = operand_def(_SHAPE)
    output = result_def(_NON_SCALAR)

    def verify_(self) -> None:
        super().verify_()
        _verify_lengths(self, len(_tosa_shape(self.input1)), self.multiples)


@irdl_op_definition
class PadOp(_DataMovementOp):
    """Pad a tensor; `padding` has two counts per dimension: elements before and after."""

    name = "tosa.pad"

    input1 = operand_def(_NON_SCALAR)
    padding = operand_def(_SHAPE)
    pad_const = operand_def(_ONE)
    output = result_def(_NON_SCALAR)

    def verify_(self) -> None:
        _verify_same_elements(self, self.input1, self.pad_const, self.output)
        super().verify_()
        shape = _tosa_shape(self.input1)
        _verify_lengths(self, 2 * len(shape), self.padding)
        if (padding := _static_sizes(self.padding)) is not None:
            expected = [
                size if size == DYNAMIC_INDEX else before + size + after
                for size, before, after in zip(
                    shape, padding[::2], padding[1::2], strict=True
                )
            ]
            _verify_result_shape(self, expected)


@irdl_op_definition
class SliceOp(_DataMovementOp):
    """Slice of a tensor from `start` with sizes `size`."""

    name = "tosa.slice"

    input1 = operand_def(_NON_SCALAR)
    start = operand_def(_SHAPE)
    size = operand_def(_SHAPE)
    output = result_def(_NON_SCALAR)

    def verify_(self) -> None:
        super().verify_()
        _verify_lengths(self, len(_tosa_shape(self.input1)), self.start, self.size)


@irdl_op_definition
class TransposeOp(_DataMovementOp):
    """Permute dimensions: dimension k of the result is `perms[k]` of the operand."""

    name = "tosa.transpose"

    input1 = operand_def(_NON_SCALAR)
    perms = prop_def(DenseArrayBase[I32])
    output = result_def(_NON_SCALAR)

    CHECKS: ClassVar = (_has_elements_of_operand,)

    def verify_(self) -> None:
        super().verify_()
        shape, perms = _tosa_shape(self.input1), self.perms.get_values()
        if sorted(perms) != [*range(len(shape))]:
            raise _tosa_error(self, "expected valid permutation indices")
        _verify_result_shape(self, [shape[axis] for axis in perms])


@irdl_op_definition
class ReverseOp(_DataMovementOp):
    """Reverse the elements along an axis."""

    name = "tosa.reverse"

    input1 = operand_def(_NON_SCALAR)
    axis = prop_def(IntegerAttr[I32])
    output = result_def(_NON_SCALAR)

    def verify_(self) -> None:
        super().verify_()
        _verify_axis(self, self.axis, self.input1)


@irdl_op_definition
class GatherOp(TosaOp):
    """Rows of `values` by index, separately for each batch."""

    name = "tosa.gather"

    values = operand_def(_of_rank(3))
    indices = operand_def(
        TensorKind("2-d tensor of i32 or i64", {i32, i64}.__contains__, (2,))
    )
    output = result_def(_of_rank(3))

    def verify_(self) -> None:
        _verify_same_elements(self, self.values, self.output)
        batches, _, channels = _tosa_shape(self.values)
        if not _are_compatible_sizes(batches, _tosa_shape(self.indices)[0]):
            raise _tosa_error(
                self, f"requires indices dimension 0 to have size {batches}"
            )
        _verify_result_shape(self, (batches, _tosa_shape(self.indices)[1], channels))


@irdl_op_definition
class ResizeOp(KeywordOp):
    """Resize images (NHWC)."""

    name = "tosa.resize"

    input = operand_def(_of_rank(4))
    scale = operand_def(_SHAPE)
    offset = operand_def(_SHAPE)
    border = operand_def(_SHAPE)
    mode = prop_def(ResizeModeAttr)
    output = result_def(_of_rank(4))

    def verify_(self) -> None:
        _verify_lengths(self, 4, self.scale)
        _verify_lengths(self, 2, self.offset, self.border)
        constants = [_static_sizes(value) for value in self.operands[1:]]
        if None in constants:
            return
        scale, offset, border = cast(Sequence[Sequence[int]], constants)
        sizes: list[int] = []
        for i, size in enumerate(_tosa_shape(self.input)[1:3]):
            steps = (size - 1) * scale[2 * i] - offset[i] + border[i]
            if size in (1, DYNAMIC_INDEX):
                # MLIR accepts any result size for an image of one pixel.
                sizes.append(DYNAMIC_INDEX)
            elif steps % scale[2 * i + 1]:
                raise _tosa_error(
                    self,
                    f"expected {steps} to be wholly divisible by {scale[2 * i + 1]}",
                )
            else:
                sizes.append(steps // scale[2 * i + 1] + 1)
        shape = _tosa_shape(self.output)
        _verify_result_shape(self, (shape[0], *sizes, shape[3]))


# Contractions

_ACCUMULATORS: Mapping[Attribute, Sequence[Attribute]] = {
    i8: (i32,),
    i16: (IntegerType(48),),
    f16: (f16, f32),
    bf16: (f32,),
    f32: (f32,),
}
"""Accumulator types by element type; other element types are not checked, as in MLIR."""


class ConvolutionOp(TosaOp, ABC):
    """Base class of convolutions of images (NHWC)."""

    input = operand_def(_of_rank(4))
    weight = operand_def(_of_rank(4))
    bias = operand_def(_of_rank(1))
    input_zp = operand_def(_ONE_NUMBER)
    weight_zp = operand_def(_ONE_NUMBER)
    stride = prop_def(DenseArrayBase[I64])
    acc_type = prop_def(TypeAttribute)
    local_bound = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    output = result_def(_of_rank(4))

    KERNEL: ClassVar[Sequence[int]]
    """Weight dimensions that hold the height and the width of the kernel."""

    def verify_(self) -> None:
        _verify_zero_point(self, self.input, self.input_zp)
        _verify_zero_point(self, self.weight, self.weight_zp)
        element_type = _tosa_element_type(self.input)
        types = _ACCUMULATORS.get(element_type, (self.acc_type,))
        if self.acc_type not in types:
            words = "/".join(map(str, types))
            raise _tosa_error(
                self, f"accumulator type for {element_type} tensor is not {words}"
            )
        channels, biases = _tosa_shape(self.output)[3], _tosa_shape(self.bias)[0]
        if biases != 1 and not _are_compatible_sizes(biases, channels):
            raise _tosa_error(
                self,
                f"bias channels expected to be equal to output channels ({channels}) "
                f"or 1, got {biases}",
            )
        kernel = [_tosa_shape(self.weight)[axis] for axis in self.KERNEL]
        image = _tosa_shape(self.input)[1:3]
        if DYNAMIC_INDEX not in (*kernel, *image):
            sizes = [
                self.output_size(dimension, size, kernel[dimension])
                for dimension, size in enumerate(image)
            ]
            shape = _tosa_shape(self.output)
            _verify_result_shape(self, (shape[0], *sizes, shape[3]))

    def output_size(self, dimension: int, size: int, kernel: int) -> int:
        """Return the result height if `dimension` is 0, or the result width if it is 1."""
        raise NotImplementedError


class _PaddedConvolutionOp(ConvolutionOp, ABC):
    pad = prop_def(DenseArrayBase[I64])
    dilation = prop_def(DenseArrayBase[I64])

    def output_size(self, dimension: int, size: int, kernel: int) -> int:
        pads = self.pad.get_values()[2 * dimension : 2 * dimension + 2]
        stride = self.stride.get_values()[dimension]
        extent = (kernel - 1) * self.dilation.get_values()[dimension]
        steps = size - 1 + sum(pads) - extent
        if steps % stride:
            raise _tosa_error(
                self,
                f"expected {steps}, which is input_size - 1 + padding - "
                f"(kernel_size - 1) * dilation, to be wholly divisible by stride {stride}",
            )
        return steps // stride + 1


@irdl_op_definition
class Conv2DOp(_PaddedConvolutionOp):
    """Convolution with weights of shape OHWI."""

    name = "tosa.conv2d"

    KERNEL: ClassVar[Sequence[int]] = (1, 2)


@irdl_op_definition
class DepthwiseConv2DOp(_PaddedConvolutionOp):
    """Depthwise convolution with weights of shape HWCM."""

    name = "tosa.depthwise_conv2d"

    KERNEL: ClassVar[Sequence[int]] = (0, 1)


@irdl_op_definition
class TransposeConv2DOp(ConvolutionOp):
    """Transposed convolution with weights of shape OHWI."""

    name = "tosa.transpose_conv2d"

    out_pad = prop_def(DenseArrayBase[I64])

    KERNEL: ClassVar[Sequence[int]] = (1, 2)

    def output_size(self, dimension: int, size: int, kernel: int) -> int:
        pads = self.out_pad.get_values()[2 * dimension : 2 * dimension + 2]
        return (size - 1) * self.stride.get_values()[dimension] + sum(pads) + kernel


# Block-scaled ops

BLOCK_SIZE = 32
"""Number of elements along the last dimension that share a scale."""


@irdl_op_definition
class CastFromBlockScaledOp(KeywordOp):
    """Multiply each element by the scale of its block."""

    name = "tosa.cast_from_block_scaled"

    input_data = operand_def(_BLOCK_ELEMENTS)
    input_scale = operand_def(_BLOCK_SCALES)
    block_size = prop_def(BlockSizeAttr)
    output_data = result_def(_NON_SCALAR)

    CHECKS: ClassVar = (_has_shape_of_operand,)

    def verify_(self) -> None:
        super().verify_()
        (*sizes, last), scale_shape = (
            _tosa_shape(self.input_data),
            _tosa_shape(self.input_scale),
        )
        if len(scale_shape) != len(sizes) + 1 or not all(
            map(_are_compatible_sizes, sizes, scale_shape)
        ):
            raise _tosa_error(
                self,
                f"require compatible shapes for input_data ('{self.input_data.type}') and "
                f"input_scale ('{self.input_scale.type}') except for the last dimension",
            )
        if last == DYNAMIC_INDEX:
            return
        if last % BLOCK_SIZE:
            raise _tosa_error(
                self,
                f"expect last dimension of input_data ({last}) to be divisible by "
                f"block_size ({BLOCK_SIZE})",
            )
        if not _are_compatible_sizes(scale_shape[-1], last // BLOCK_SIZE):
            raise _tosa_error(
                self,
                f"expect last dimension of input_scale ({scale_shape[-1]}) to be equal to "
                f"last dimension of input_data / block_size ({last // BLOCK_SIZE})",
            )


OPERATIONS: Sequence[type[IRDLOperation]] = (
    *(AbsOp, BitwiseNotOp, CeilOp, ClzOp, ExpOp, FloorOp, LogOp, RsqrtOp),
    *(ErfOp, SigmoidOp, TanhOp, LogicalNotOp, CastOp, IdentityOp, NegateOp),
    *(BitwiseAndOp, BitwiseOrOp, BitwiseXorOp, LogicalLeftShiftOp, LogicalRightShiftOp),
    *(PowOp, ArithmeticRightShiftOp, IntDivOp, LogicalAndOp, LogicalOrOp, LogicalXorOp),
    *(EqualOp, GreaterOp, GreaterEqualOp, MaximumOp, MinimumOp, SelectOp),
    *(ApplyScaleOp, TableOp, ArgMaxOp, ConstShapeOp, ReshapeOp, TileOp, PadOp, SliceOp),
    *(TransposeOp, ReverseOp, GatherOp, ResizeOp),
    *(Conv2DOp, DepthwiseConv2DOp, TransposeConv2DOp),
    CastFromBlockScaledOp,
)
"""Ops that xDSL lacks."""

ATTRIBUTES: Sequence[type[Attribute]] = (
    *(BlockSizeAttr, ResizeModeAttr, BlockScaledType, MXInt8Type, ShapeType),
)
"""Attributes and types that xDSL lacks."""
