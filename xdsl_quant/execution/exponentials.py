"""
Exponential functions of f32 as arithmetic, which LLVM vectorizes; libm calls are not.

Results are within 1 ulp of the exact ones and do not depend on the CPU: multiplications
and additions are not fused.
"""

import math
from collections.abc import Sequence
from functools import reduce

from . import mlir_bindings as mlir
from .mlir_bindings import arith, ir

_LOW, _HIGH = -104.0, 89.0
"""Arguments outside this range have the result 0 or infinity."""

_ROUNDING = 1.5 * 2.0**23 + 2 * 127
"""
Addend that rounds an f32 to an integer, whose last bits become those of the sum, plus
twice the exponent bias of f32.
"""

_LN2_HIGH = 0.693359375
"""Upper 10 bits of log(2): multiplication by an integer below 2**14 is exact."""

_EXP = (
    0.4999999325363821,
    0.16666517761564198,
    0.04166842182593282,
    0.008369063559112497,
    0.0013813880598379739,
)
"""
Coefficients of `(exp(x) - 1 - x) / x**2` for `abs(x) <= log(2) / 2`: least squares with
weights that equalize the relative error of `exp(x)`, at most 2**-28.
"""


def expand_exponentials(module: ir.Module) -> None:
    """Replace `math.exp` on f32 by arithmetic."""
    for op in mlir.ops_in(module, "math.exp"):
        (operand,) = op.operands
        if isinstance(operand.type, ir.F32Type):
            with ir.InsertionPoint(op), op.location:
                mlir.replace_op(op, _exp(operand))


def _f32_constant(value: float) -> ir.Value:
    return arith.constant(ir.F32Type.get(), float(value))


def _i32_constant(value: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(32), value)


def _exp(value: ir.Value) -> ir.Value:
    """
    Return `exp(x)` as `2**n * exp(r)`, where `n` is an integer and `r` the rest. NaN is
    kept, as all comparisons with it are false.
    """
    ordered = arith.CmpFPredicate
    for predicate, bound in ((ordered.OLT, _LOW), (ordered.OGT, _HIGH)):
        is_outside = arith.cmpf(predicate, value, _f32_constant(bound))
        value = arith.select(is_outside, _f32_constant(bound), value)
    shifted = arith.addf(
        arith.mulf(value, _f32_constant(1 / math.log(2))), _f32_constant(_ROUNDING)
    )
    n = arith.subf(shifted, _f32_constant(_ROUNDING))
    r = arith.subf(value, arith.mulf(n, _f32_constant(_LN2_HIGH)))
    r = arith.subf(r, arith.mulf(n, _f32_constant(math.log(2) - _LN2_HIGH)))
    curve = arith.mulf(_polynomial(r, _EXP), arith.mulf(r, r))
    # Keep the rounding error of `1 + r`.
    one = _f32_constant(1)
    line = arith.addf(r, one)
    line_error = arith.subf(r, arith.subf(line, one))
    result = arith.addf(line, arith.addf(line_error, curve))
    # The last bits are n + 254. Two factors, as 2**n may exceed f32 where the result
    # does not: their biased exponents add up to n + 254.
    bits = arith.bitcast(ir.IntegerType.get_signless(32), shifted)
    half = arith.shrsi(bits, _i32_constant(1))
    factors = map(_with_exponent, (half, arith.subi(bits, half)))
    return reduce(arith.mulf, factors, result)


def _polynomial(x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Return a polynomial by Horner's rule; `coefficients` start with the constant."""
    *others, result = map(_f32_constant, coefficients)
    for coefficient in reversed(others):
        result = arith.addf(arith.mulf(result, x), coefficient)
    return result


def _with_exponent(exponent: ir.Value) -> ir.Value:
    """Return the f32 whose biased exponent are the last 8 bits of an integer."""
    return arith.bitcast(ir.F32Type.get(), arith.shli(exponent, _i32_constant(23)))
