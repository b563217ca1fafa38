"""Type constraints and checks of TOSA ops, as in MLIR."""

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    Float8E8M0FNUType,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    i1,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import BaseAttr, IRDLOperation
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import StoredQuantizedType
from xdsl_quant.dialects.type_kinds import TypeKind
from xdsl_quant.dialects.verification import are_compatible_shapes, are_compatible_sizes

from .attributes import BLOCK_ELEMENT_TYPES, BlockScaledType, MXInt8Type, ShapeType

# Tensor constraints

TOSATensorKind: TypeAlias = TypeKind[TensorType[Attribute]]

_QUANTIZED_WIDTHS = (4, 8, 16, 32)


def is_number(type_: Attribute) -> bool:
    """Return True if TOSA supports tensors with this element type."""
    if isinstance(type_, IntegerType):
        return cast(IntegerType, type_).signedness.data != Signedness.SIGNED
    return isinstance(type_, AnyFloat) or _is_other_number(type_)


def _is_other_number(type_: Attribute) -> bool:
    if isinstance(type_, StoredQuantizedType):
        width = type_.storage_type_integral_width
        return type_.has_integer_storage and width in _QUANTIZED_WIDTHS
    return isinstance(type_, BlockScaledType | MXInt8Type)


def is_plain_number(type_: Attribute) -> bool:
    return is_number(type_) and not _is_other_number(type_)


def tensor_kind(
    words: str,
    has_element: Callable[[Attribute], bool] = is_number,
    ranks: Sequence[int] | None = None,
    shape: Sequence[int] | None = None,
) -> TOSATensorKind:
    """Return the constraint for ranked, non-empty tensors by element type and shape."""

    def accepts(type_: Attribute) -> bool:
        if not isinstance(type_, TensorType):
            return False
        sizes = type_.get_shape()
        return (
            0 not in sizes
            and has_element(cast(Attribute, type_.element_type))
            and (ranks is None or len(sizes) in ranks)
            and (shape is None or sizes == shape)
        )

    return TypeKind(words, accepts)


def tosa_elements(*types: Attribute) -> TOSATensorKind:
    words = " or ".join(map(str, types))
    return tensor_kind(f"tosa-conformant tensor of {words} values", types.__contains__)


def of_rank(*ranks: int) -> TOSATensorKind:
    words = " or ".join(f"{rank}-d" for rank in ranks)
    return tensor_kind(f"{words} tosa-conformant tensor", ranks=ranks)


NUMBERS = tensor_kind("tosa-conformant tensor of number values")
INTEGERS = tensor_kind(
    "tosa-conformant tensor of integer values",
    lambda type_: is_number(type_) and isinstance(type_, IntegerType),
)
QUANTIZED = tensor_kind(
    "tosa-conformant tensor of quantized values",
    lambda type_: is_number(type_) and isinstance(type_, StoredQuantizedType),
)
BOOLEANS = tosa_elements(i1)
NON_SCALAR = tensor_kind(
    "tosa-conformant tensor of at least rank 1", ranks=range(1, 1 << 16)
)
BLOCK_ELEMENTS = tensor_kind(
    "tosa-conformant tensor of at least rank 1 of micro-scaling format values",
    lambda type_: isinstance(type_, BLOCK_ELEMENT_TYPES),
    range(1, 1 << 16),
)
BLOCK_SCALES = tensor_kind(
    "tosa-conformant tensor of at least rank 1 of micro-scaling format scale values",
    lambda type_: isinstance(type_, Float8E8M0FNUType),
    range(1, 1 << 16),
)
ONE_NUMBER = tensor_kind(
    "tosa-conformant scalar tensor of integer or floating-point values",
    is_plain_number,
    shape=(1,),
)
ONE = tensor_kind("tosa-conformant scalar tensor of number values", shape=(1,))
SHAPE = BaseAttr(ShapeType)


# Helpers of verifiers


def tosa_error(op: IRDLOperation, message: str) -> VerifyException:
    return VerifyException(f"'{op.name}' op {message}")


def tosa_tensor_type(value: SSAValue) -> TensorType[Attribute]:
    return cast(TensorType[Attribute], value.type)


def tosa_element_type(value: SSAValue) -> Attribute:
    return tosa_tensor_type(value).element_type


def tosa_shape(value: SSAValue) -> Sequence[int]:
    return tosa_tensor_type(value).get_shape()


def verify_same_elements(op: IRDLOperation, *values: SSAValue) -> None:
    if len({tosa_element_type(value) for value in values}) > 1:
        raise tosa_error(
            op, "requires the same element type for all operands and results"
        )


def stored_element_type(type_: Attribute) -> Attribute:
    """Return the storage type of a quantized type; unsigned ones are `ui8`, not `i8`."""
    if not isinstance(type_, StoredQuantizedType):
        return type_
    signedness = Signedness.SIGNLESS if type_.is_signed else Signedness.UNSIGNED
    return IntegerType(type_.storage_type_integral_width, signedness)


def verify_zero_point(op: IRDLOperation, value: SSAValue, zero_point: SSAValue) -> None:
    type_ = tosa_element_type(value)
    if stored_element_type(type_) != tosa_element_type(zero_point):
        raise tosa_error(op, f"expect zero point to have the element type of {type_}")


def verify_same_shape(op: IRDLOperation, a: SSAValue, b: SSAValue) -> None:
    if not are_compatible_shapes(tosa_shape(a), tosa_shape(b)):
        raise tosa_error(op, "requires the same shape for all operands and results")


def verify_broadcast(op: IRDLOperation, *operands: SSAValue) -> None:
    result = tosa_shape(op.results[0])
    shapes = [tosa_shape(operand) for operand in operands]
    if any(len(shape) != len(result) for shape in shapes):
        raise tosa_error(op, "operands don't have matching ranks")
    for size, *sizes in zip(result, *shapes, strict=True):
        larger = {other for other in sizes if other not in (1, DYNAMIC_INDEX)}
        if len(larger) > 1:
            raise tosa_error(op, "operands don't have broadcast-compatible shapes")
        smaller = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else 1
        expected = larger.pop() if larger else smaller
        if not are_compatible_sizes(size, expected):
            raise tosa_error(
                op, "result type not broadcast compatible with broadcasted operands"
            )


def verify_axis(op: IRDLOperation, axis: IntegerAttr, value: SSAValue) -> None:
    rank = len(tosa_shape(value))
    if not 0 <= axis.value.data < rank:
        raise tosa_error(op, f"expected axis in [0, {rank}), got {axis.value.data}")


def verify_result_shape(op: IRDLOperation, expected: Sequence[int]) -> None:
    if not are_compatible_shapes(tosa_shape(op.results[0]), expected):
        words = "x".join("?" if s == DYNAMIC_INDEX else str(s) for s in expected)
        raise tosa_error(op, f"expected output shape '{words}'")


# Checks and base classes


def has_shape_of_operand(op: IRDLOperation) -> None:
    verify_same_shape(op, op.operands[0], op.results[0])


def has_elements_of_operand(op: IRDLOperation) -> None:
    verify_same_elements(op, op.operands[0], op.results[0])


def has_rank_of_operand(op: IRDLOperation) -> None:
    if len(tosa_shape(op.operands[0])) != len(tosa_shape(op.results[0])):
        raise tosa_error(op, "expect input and output to have the same ranks")


def has_same_elements(op: IRDLOperation) -> None:
    verify_same_elements(op, *op.operands, *op.results)


def compares_same_elements(op: IRDLOperation) -> None:
    verify_same_elements(op, *op.operands)


def is_broadcast(op: IRDLOperation) -> None:
    verify_broadcast(op, *op.operands)


# Checks of xDSL's ops


def verify_sum(op: IRDLOperation) -> None:
    has_same_elements(op)
    is_broadcast(op)


def verify_product(op: IRDLOperation) -> None:
    verify_broadcast(op, *op.operands[:2])
    factors, result = op.operands[:2], tosa_element_type(op.results[0])
    element_type = tosa_element_type(factors[0])
    if not isinstance(result, IntegerType):
        verify_same_elements(op, *factors, *op.results)
        return
    verify_same_elements(op, *factors)
    if (
        not isinstance(element_type, IntegerType)
        or element_type.bitwidth > result.bitwidth
    ):
        raise tosa_error(
            op, f"result elements of {element_type} factors cannot be {result}"
        )


def verify_matmul(op: IRDLOperation) -> None:
    a, b, a_zero_point, b_zero_point = op.operands
    types = tosa_element_type(a), tosa_element_type(b)
    quantized = [type_ for type_ in types if isinstance(type_, StoredQuantizedType)]
    if len(quantized) < 2:
        verify_same_elements(op, a, b)
    elif len({type_.storage_type_integral_width for type_ in quantized}) > 1:
        raise tosa_error(op, "requires operands with the same storage width")
    for value, zero_point in ((a, a_zero_point), (b, b_zero_point)):
        verify_zero_point(op, value, zero_point)
        if tosa_shape(zero_point) != (1,):
            raise tosa_error(op, f"zero point has type '{zero_point.type}'")
    x, y = tosa_shape(a), tosa_shape(b)
    pairs = [(x[0], y[0]), (x[2], y[1])] if len(x) == len(y) == 3 else []
    if not pairs or not all(are_compatible_sizes(*pair) for pair in pairs):
        raise tosa_error(op, f"cannot multiply '{a.type}' and '{b.type}'")


def verify_clamp(op: IRDLOperation) -> None:
    has_shape_of_operand(op)
    has_elements_of_operand(op)
    type_ = stored_element_type(tosa_element_type(op.operands[0]))
    bounds = [cast(IntegerAttr | FloatAttr, op.properties[n]) for n in BOUNDS]
    if any(bound.type != type_ for bound in bounds):
        raise tosa_error(op, f"requires bounds of type '{type_}'")
    low, high = (bound.value.data for bound in bounds)
    if not low <= high:
        raise tosa_error(op, f"requires min_val <= max_val, got {low} and {high}")


BOUNDS = "min_val", "max_val"
"""Properties of `tosa.clamp`."""
