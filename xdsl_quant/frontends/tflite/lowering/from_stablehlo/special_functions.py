"""Functions that TensorFlow Lite lacks, built from its ops, and recognition of ELU."""

from collections.abc import Mapping

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect import ComparisonDirection
from xdsl_quant.frontends.stablehlo.dialect.chlo import ErfOp
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.transforms.building.builder import element_type_of, shape_of

from .building import Conversion, TFLBuilder, filling_number, is_float


def _arithmetic_with(
    b: TFLBuilder, op_type: type[Operation], x: SSAValue, y: SSAValue | float
) -> SSAValue:
    y = y if isinstance(y, SSAValue) else b.scalar(y, element_type_of(x))
    return b.build(op_type, (x, y), x.type, fused_activation_function="NONE")


def _compare_with(
    b: TFLBuilder, op_type: type[Operation], x: SSAValue, y: SSAValue | float
) -> SSAValue:
    y = y if isinstance(y, SSAValue) else b.scalar(y, element_type_of(x))
    return b.op(op_type, (x, y), TensorType(i1, shape_of(x)))


def _select(b: TFLBuilder, condition: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.op(tfl.SelectV2Op, (condition, x, y), x.type)


def _function_of(b: TFLBuilder, op_type: type[Operation], x: SSAValue) -> SSAValue:
    return b.op(op_type, (x,), x.type)


# Exponentials and logarithms


def _exponential_minus_one(
    b: TFLBuilder, op: stablehlo.ExponentialMinusOneOp
) -> SSAValue:
    """
    Build `exp(x) - 1` without cancellation: ELU computes it if `x <= 0`, and
    `exp(x) - 1 = -exp(x) * (exp(-x) - 1)`.
    """
    x = op.operand
    below = _function_of(
        b, tfl.EluOp, _function_of(b, tfl.NegOp, _function_of(b, tfl.AbsOp, x))
    )
    power = _function_of(b, tfl.ExpOp, _function_of(b, tfl.ReluOp, x))
    above = _function_of(b, tfl.NegOp, _arithmetic_with(b, tfl.MulOp, below, power))
    return _select(b, _compare_with(b, tfl.GreaterOp, x, 0), above, below)


def _log_plus_one(b: TFLBuilder, op: stablehlo.LogPlusOneOp) -> SSAValue:
    """
    Build `log(1 + x)` as `log(u) + (x - (u - 1)) / u` with the rounded `u = 1 + x`. The
    second term corrects the rounding; it is left out if `u` is exact.
    """
    x = op.operand
    rounded = _arithmetic_with(b, tfl.AddOp, x, 1)
    without_one = _arithmetic_with(b, tfl.SubOp, rounded, 1)
    logarithm = _function_of(b, tfl.LogOp, rounded)
    rest = _arithmetic_with(b, tfl.SubOp, x, without_one)
    correction = _arithmetic_with(b, tfl.DivOp, rest, rounded)
    corrected = _arithmetic_with(b, tfl.AddOp, logarithm, correction)
    is_exact = _compare_with(b, tfl.EqualOp, without_one, x)
    return _select(b, is_exact, logarithm, corrected)


_ERF_COEFFICIENTS = (
    1.128379225730896,
    0.6366164088249207,
    0.10281487554311752,
    -0.01932302489876747,
    0.0002075082593364641,
    0.001250486122444272,
    -0.00038056602352298796,
    4.065004759468138e-05,
)
"""
Polynomial `p` with `1 - erf(x) = exp(-x * p(x))` for `x >= 0`, fitted so that erf has a
relative error below 3e-7 in `f32`.
"""


def _erf(b: TFLBuilder, op: ErfOp) -> SSAValue:
    """Build erf as `1 - exp(-x * p(x))`, which ELU computes without cancellation."""
    x = op.operand
    magnitude = _function_of(b, tfl.AbsOp, x)
    *others, last = _ERF_COEFFICIENTS
    exponent = _arithmetic_with(b, tfl.MulOp, magnitude, last)
    for coefficient in reversed(others):
        exponent = _arithmetic_with(b, tfl.AddOp, exponent, coefficient)
        exponent = _arithmetic_with(b, tfl.MulOp, exponent, magnitude)
    below = _function_of(b, tfl.EluOp, _function_of(b, tfl.NegOp, exponent))
    is_positive = _compare_with(b, tfl.GreaterOp, x, 0)
    return _select(b, is_positive, _function_of(b, tfl.NegOp, below), below)


# Remainders


def _remainder(b: TFLBuilder, op: stablehlo.RemainderOp) -> SSAValue:
    """Build a remainder with the sign of the dividend; that of TFL has the divisor's."""
    x, y = op.operands
    if is_float(op.result):
        # Adding the divisor to a remainder would round it.
        magnitudes = _function_of(b, tfl.AbsOp, x), _function_of(b, tfl.AbsOp, y)
        rest = b.op(tfl.FloorModOp, magnitudes, x.type)
        is_negative = _compare_with(b, tfl.LessOp, x, 0)
        return _select(b, is_negative, _function_of(b, tfl.NegOp, rest), rest)
    rest = b.op(tfl.FloorModOp, (x, y), x.type)
    signs = [_compare_with(b, tfl.LessOp, value, 0) for value in (x, y)]
    flags = (
        b.op(tfl.NotEqualOp, signs, signs[0].type),
        _compare_with(b, tfl.NotEqualOp, rest, 0),
    )
    is_wrong = b.op(tfl.LogicalAndOp, flags, flags[0].type)
    return _select(b, is_wrong, _arithmetic_with(b, tfl.SubOp, rest, y), rest)


# ELU


def positive_operand(condition: SSAValue) -> SSAValue | None:
    """Return `x` if a condition is `x > 0` or `x >= 0`, else `None`."""
    compare = condition.owner
    if not isinstance(compare, stablehlo.CompareOp) or filling_number(compare.rhs) != 0:
        return None
    is_positive = compare.comparison_direction.data in (
        ComparisonDirection.GT,
        ComparisonDirection.GE,
    )
    return compare.lhs if is_positive else None


def _is_negative_with(value: SSAValue, x: SSAValue) -> bool:
    """Return True if a value is `x`, also if it is scaled or 0 for positive `x`."""
    op = value.owner
    match op:
        case stablehlo.MultiplyOp() | stablehlo.DivideOp():
            factor = filling_number(op.rhs)
            return op.lhs is x and factor is not None and factor > 0
        case stablehlo.SelectOp():
            is_zero = filling_number(op.on_true) == 0
            return is_zero and op.on_false is x is positive_operand(op.pred)
        case _:
            return value is x


def match_elu(b: TFLBuilder, op: stablehlo.SelectOp) -> SSAValue | None:
    """
    Build `x > 0 ? x : alpha * (exp(x / beta) - 1)` with ELU. Return `None` for other
    selections.
    """
    x, below, scale = op.on_true, op.on_false, None
    if positive_operand(op.pred) is not x:
        return None
    if isinstance(product := below.owner, stablehlo.MultiplyOp):
        for factor, value in (product.operands, product.operands[::-1]):
            if (number := filling_number(factor)) is not None:
                below, scale = value, number
    if not isinstance(inner := below.owner, stablehlo.ExponentialMinusOneOp):
        return None
    if not _is_negative_with(inner.operand, x):
        return None
    is_select = isinstance(inner.operand.owner, stablehlo.SelectOp)
    source = x if is_select else inner.operand
    value = _function_of(b, tfl.EluOp, source)
    if scale is None and source is x:
        return value
    if scale is not None:
        value = _arithmetic_with(b, tfl.MulOp, value, scale)
    return _select(b, op.pred, x, value)


CONVERSIONS: Mapping[type[Operation], Conversion] = {
    stablehlo.ExponentialMinusOneOp: _exponential_minus_one,
    stablehlo.LogPlusOneOp: _log_plus_one,
    stablehlo.RemainderOp: _remainder,
    ErfOp: _erf,
}
"""Conversions of functions that TensorFlow Lite lacks, by op class."""
