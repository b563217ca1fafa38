"""Elementwise functions: exponentials, trigonometry, rounding, bits, complex numbers."""

from abc import ABC
from typing import cast

from xdsl.dialects.builtin import AnyFloat, ComplexType, TensorType, i1
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def

from xdsl_quant.dialects.verification import RankedTensor, merged_shape, require

from . import tensor_kinds as kinds
from .base import COMPATIBLE_TYPES, ELEMENTWISE, SAME_SHAPE, InferredTypeOp
from .elementwise import (
    BinaryNumberOp,
    BinaryOp,
    LogicalOp,
    RealResultOp,
    ResultAccuracyOp,
    UnaryOp,
)

__all__ = [
    "Atan2Op",
    "CbrtOp",
    "CeilOp",
    "ComplexOp",
    "CosineOp",
    "CountLeadingZerosOp",
    "ExponentialMinusOneOp",
    "FloorOp",
    "ImagOp",
    "IsFiniteOp",
    "LogOp",
    "LogPlusOneOp",
    "PopcntOp",
    "PowerOp",
    "RealOp",
    "RemainderOp",
    "RoundNearestAfzOp",
    "RoundNearestEvenOp",
    "ShiftLeftOp",
    "ShiftRightArithmeticOp",
    "ShiftRightLogicalOp",
    "SignOp",
    "SineOp",
    "TanOp",
    "XorOp",
]


@irdl_op_definition
class CbrtOp(ResultAccuracyOp):
    """Cube root."""

    name = "stablehlo.cbrt"


@irdl_op_definition
class CosineOp(ResultAccuracyOp):
    """Cosine of an angle in radians."""

    name = "stablehlo.cosine"


@irdl_op_definition
class ExponentialMinusOneOp(ResultAccuracyOp):
    """`exp(x) - 1`, with full precision near zero."""

    name = "stablehlo.exponential_minus_one"


@irdl_op_definition
class LogOp(ResultAccuracyOp):
    """Natural logarithm."""

    name = "stablehlo.log"


@irdl_op_definition
class LogPlusOneOp(ResultAccuracyOp):
    """`log(1 + x)`, with full precision near zero."""

    name = "stablehlo.log_plus_one"


@irdl_op_definition
class SineOp(ResultAccuracyOp):
    """Sine of an angle in radians."""

    name = "stablehlo.sine"


@irdl_op_definition
class TanOp(ResultAccuracyOp):
    """Tangent of an angle in radians."""

    name = "stablehlo.tan"


class RoundingOp(UnaryOp, ABC, elements=kinds.FLOAT_OR_QUANTIZED):
    """Rounding of floats to integers of the same type."""

    traits = traits_def(COMPATIBLE_TYPES)


@irdl_op_definition
class CeilOp(RoundingOp):
    """Rounding toward positive infinity."""

    name = "stablehlo.ceil"


@irdl_op_definition
class FloorOp(RoundingOp):
    """Rounding toward negative infinity."""

    name = "stablehlo.floor"


@irdl_op_definition
class RoundNearestAfzOp(RoundingOp):
    """Rounding to an integer, half away from zero."""

    name = "stablehlo.round_nearest_afz"


@irdl_op_definition
class RoundNearestEvenOp(RoundingOp):
    """Rounding to an integer, half to even."""

    name = "stablehlo.round_nearest_even"


@irdl_op_definition
class SignOp(UnaryOp, elements=kinds.SIGNED_NUMBER):
    """Sign: -1, 0 or 1; zeros and NaN remain."""

    name = "stablehlo.sign"

    traits = traits_def(COMPATIBLE_TYPES)


@irdl_op_definition
class IsFiniteOp(InferredTypeOp, UnaryOp):
    """True for floats that are neither infinite nor NaN."""

    name = "stablehlo.is_finite"

    operand = operand_def(kinds.FLOAT_OR_QUANTIZED)
    result = result_def(kinds.PRED_TENSOR)

    traits = traits_def(ELEMENTWISE)

    def inferred_type(self) -> RankedTensor:
        type_, _ = self.tensor_types
        return TensorType(i1, type_.shape)


class IntegerUnaryOp(UnaryOp, ABC, elements=kinds.INTEGER_TENSOR):
    """Function of the bits of an integer."""

    traits = traits_def(COMPATIBLE_TYPES)


@irdl_op_definition
class CountLeadingZerosOp(IntegerUnaryOp):
    """Number of leading zero bits."""

    name = "stablehlo.count_leading_zeros"


@irdl_op_definition
class PopcntOp(IntegerUnaryOp):
    """Number of one bits."""

    name = "stablehlo.popcnt"


@irdl_op_definition
class PowerOp(BinaryNumberOp):
    """
    Power. Negative exponents of integers give 0, except for the bases 1 and -1; integers
    wrap around.
    """

    name = "stablehlo.power"


@irdl_op_definition
class RemainderOp(BinaryNumberOp):
    """Remainder of a division that rounds toward zero: it has the sign of the dividend."""

    name = "stablehlo.remainder"


@irdl_op_definition
class Atan2Op(BinaryOp, elements=kinds.FLOAT_OR_COMPLEX):
    """Angle in radians between the positive x axis and the point `(rhs, lhs)`."""

    name = "stablehlo.atan2"

    traits = traits_def(COMPATIBLE_TYPES)


class ShiftOp(BinaryOp, ABC, elements=kinds.INTEGER_TENSOR):
    """Shift by the number of bits in `rhs`; the bit width or more shifts out all bits."""

    traits = traits_def(COMPATIBLE_TYPES)


@irdl_op_definition
class ShiftLeftOp(ShiftOp):
    """Shift to the left."""

    name = "stablehlo.shift_left"


@irdl_op_definition
class ShiftRightArithmeticOp(ShiftOp):
    """Shift to the right that repeats the sign bit."""

    name = "stablehlo.shift_right_arithmetic"


@irdl_op_definition
class ShiftRightLogicalOp(ShiftOp):
    """Shift to the right that inserts zeros."""

    name = "stablehlo.shift_right_logical"


@irdl_op_definition
class XorOp(LogicalOp):
    """Logical XOR of booleans, bitwise XOR of integers."""

    name = "stablehlo.xor"


class ComplexPartOp(RealResultOp, ABC):
    """Component of complex numbers."""

    operand = operand_def(kinds.FLOAT_OR_COMPLEX_NOT_QUANTIZED)
    result = result_def(kinds.FLOAT_TENSOR)


@irdl_op_definition
class RealOp(ComplexPartOp):
    """Real part."""

    name = "stablehlo.real"


@irdl_op_definition
class ImagOp(ComplexPartOp):
    """Imaginary part; 0 for floats."""

    name = "stablehlo.imag"


@irdl_op_definition
class ComplexOp(InferredTypeOp, BinaryOp):
    """Complex numbers with real part `lhs` and imaginary part `rhs`."""

    name = "stablehlo.complex"

    lhs = operand_def(kinds.COMPONENT)
    rhs = operand_def(kinds.COMPONENT)
    result = result_def(kinds.COMPLEX_TENSOR)

    assembly_format = (
        "$lhs `,` $rhs attr-dict `:` "
        "custom<ComplexOpType>(type(operands), type(results))"
    )

    def inferred_type(self) -> RankedTensor:
        lhs, rhs, _ = self.tensor_types
        require(
            lhs.element_type == rhs.element_type,
            "op requires the same element type for all operands",
        )
        SAME_SHAPE.verify(self)
        shape = merged_shape((lhs.get_shape(), rhs.get_shape()))
        return TensorType(ComplexType(cast(AnyFloat, lhs.element_type)), shape)
