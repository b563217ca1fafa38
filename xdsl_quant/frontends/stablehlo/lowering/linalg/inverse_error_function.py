"""
Formula of `chlo.erf_inv`: polynomials in the logarithm of `1 - x**2`.

Coefficients: M. Giles, "Approximating the erfinv function", GPU Computing Gems, 2012.
"""

from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Operation, SSAValue

from xdsl_quant.transforms.building.builder import LoweringBuilder

from .lowering import Values, bit_width, without_linalg

_CENTRAL = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
"""Coefficients for `w - 2.5`, from the highest power, if `w = -log(1 - x**2) < 5`."""

_TAIL = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
"""Coefficients for `sqrt(w) - 3`, from the highest power, otherwise."""


def inverse_error_function(
    builder: LoweringBuilder, op: Operation, args: Values
) -> SSAValue:
    """Return the inverse error function with a relative error of about 3 ulp of `f32`."""
    (value,) = args
    type_ = value.type
    if type_ == f64:
        raise without_linalg("has f64 operands")
    if bit_width(type_) < 32:
        value = builder.op(arith.ExtFOp, (value,), f32)
    square = builder.add(arith.MulfOp(value, builder.add(arith.NegfOp(value))))
    w = builder.add(arith.NegfOp(builder.add(math.Log1pOp(square))))
    is_central = builder.add(arith.CmpfOp(w, builder.number(5, f32), "olt"))
    root = builder.add(math.SqrtOp(w))
    central = _by_horner(builder, _CENTRAL, _minus(builder, w, 2.5))
    tail = _by_horner(builder, _TAIL, _minus(builder, root, 3))
    factor = builder.add(arith.SelectOp(is_central, central, tail))
    result = builder.add(arith.MulfOp(factor, value))
    # The polynomial of an infinite argument is NaN: 1 has the inverse infinity.
    is_one = arith.CmpfOp(
        builder.add(math.AbsFOp(value)), builder.number(1, f32), "oeq"
    )
    infinity = builder.number(float("inf"), f32)
    signed = builder.add(arith.MulfOp(value, infinity))
    result = builder.add(arith.SelectOp(builder.add(is_one), signed, result))
    return result if type_ == f32 else builder.op(arith.TruncFOp, (result,), type_)


def _minus(builder: LoweringBuilder, value: SSAValue, number: float) -> SSAValue:
    return builder.add(arith.SubfOp(value, builder.number(number, f32)))


def _by_horner(
    builder: LoweringBuilder, coefficients: Sequence[float], argument: SSAValue
) -> SSAValue:
    first, *others = (builder.number(number, f32) for number in coefficients)
    for coefficient in others:
        product = builder.add(arith.MulfOp(first, argument))
        first = builder.add(arith.AddfOp(product, coefficient))
    return first
