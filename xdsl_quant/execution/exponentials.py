"""
Exponential functions as arithmetic, which LLVM vectorizes; libm calls are not.

Results are within 1 ulp (`exp` of f32) or 3 ulp (`tanh`, `expm1` of f32) of the exact
ones, and do not depend on the CPU: multiplications and additions are only fused by an
explicit `math.fma`.
"""

import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import NamedTuple

from . import mlir_bindings as mlir
from .mlir_bindings import arith, ir
from .mlir_bindings import math as math_dialect

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


class _Format(NamedTuple):
    """Constants of `tanh` and `expm1` for a float format."""

    mantissa: int
    """Number of stored mantissa bits."""

    bias: int

    limit: float
    """Number from which on `tanh` is 1."""

    ln2: tuple[float, float]
    """Upper and lower part of log(2)."""

    coefficients: Sequence[float]
    """Coefficients of `(exp(x) - 1 - x) / x**2`."""


_LN2_F64 = math.ldexp(round(math.ldexp(math.log(2), 40)), -40)

_F32 = _Format(23, 127, 10, (_LN2_HIGH, math.log(2) - _LN2_HIGH), _EXP)

_F64 = _Format(
    52,
    1023,
    20,
    (_LN2_F64, math.log(2) - _LN2_F64 + 2.3190468138462996e-17),
    (
        *(0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326084),
        *(0.0013888888888883711, 0.0001984126987500228, 2.480158732567746e-05),
        *(2.755725517000089e-06, 2.755727347871858e-07, 2.5105312729622103e-08),
        2.09147553258932e-09,
    ),
)
"""The polynomial interpolates at Chebyshev nodes; its error is at most 2**-60."""


def expand_exponentials(module: ir.Module) -> None:
    """
    Replace `exp` and `expm1` of f32, `tanh` of f32 and f64, and squares and cubes by
    arithmetic.
    """
    f32_functions = {"math.exp": _exp, "math.expm1": _expm1}
    for op in mlir.ops_in(module, *f32_functions, "math.powf", "math.tanh"):
        value, result = op.operands[0], None
        with ir.InsertionPoint(op), op.location:
            if op.name == "math.powf":
                result = _power(value, mlir.number_of(op.operands[1]))
            elif op.name == "math.tanh":
                result = _tanh(value)
            elif isinstance(value.type, ir.F32Type):
                result = f32_functions[op.name](value)
        if result is not None:
            mlir.replace_op(op, result)


def _power(value: ir.Value, exponent: float | None) -> ir.Value | None:
    """Return `x**2` or `x**3` as products; `None` for other exponents."""
    if exponent not in (2, 3):
        return None
    square = arith.mulf(value, value)
    return square if exponent == 2 else arith.mulf(square, value)


def _tanh(value: ir.Value) -> ir.Value | None:
    """
    Return `t / (t + 1)` with the sign of `x`, where `t` is `expm1(2 * abs(x)) / 2`. Return
    `None` for other types.
    """
    formats = {"f32": _F32, "f64": _F64}
    if (format_ := formats.get(str(value.type))) is None:
        return None
    number = partial(arith.constant, value.type)
    size, limit = math_dialect.absf(value), number(float(format_.limit))
    # NaN is kept, as the comparison is false.
    is_large = arith.cmpf(arith.CmpFPredicate.OGT, size, limit)
    size = arith.select(is_large, limit, size)
    half = _half_expm1(arith.addf(size, size), format_)
    ratio = arith.divf(half, arith.addf(half, number(1.0)))
    return math_dialect.copysign(ratio, value)


def _expm1(value: ir.Value) -> ir.Value:
    """Return `exp(x) - 1` with the sign of `x`. NaN is kept."""
    low, high = _f32_constant(-18), _f32_constant(_HIGH)
    ordered = arith.CmpFPredicate
    is_low = arith.cmpf(ordered.OLT, value, low)
    inside = arith.select(is_low, low, value)
    is_high = arith.cmpf(ordered.OGT, inside, high)
    half = _half_expm1(arith.select(is_high, high, inside), _F32)
    return math_dialect.copysign(arith.addf(half, half), value)


def _half_expm1(value: ir.Value, format_: _Format) -> ir.Value:
    """
    Return half of `exp(x) - 1`: the sum of `2**(n - 1) * (exp(r) - 1)` and
    `2**(n - 1) - 1/2`, where `n` is an integer and `r` the rest.
    """
    number = partial(arith.constant, value.type)
    rounding = number(1.5 * 2.0**format_.mantissa + format_.bias - 1)
    shifted = arith.addf(arith.mulf(value, number(1 / math.log(2))), rounding)
    n = arith.subf(shifted, rounding)
    r = value
    for part in format_.ln2:
        r = arith.subf(r, arith.mulf(n, number(part)))
    curve = arith.mulf(_polynomial(r, format_.coefficients), arith.mulf(r, r))
    bits = ir.IntegerType.get_signless(mlir.bits(value.type))
    # The last bits of `shifted` are n - 1 plus the exponent bias.
    exponent = arith.shli(
        arith.bitcast(bits, shifted), arith.constant(bits, format_.mantissa)
    )
    scale = arith.bitcast(value.type, exponent)
    return arith.addf(
        arith.mulf(scale, arith.addf(r, curve)), arith.subf(scale, number(0.5))
    )


def _f32_constant(value: float) -> ir.Value:
    return arith.constant(ir.F32Type.get(), float(value))


def _i32_constant(value: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(32), value)


def _exp(value: ir.Value) -> ir.Value:
    """
    Return `exp(x)` as `2**n * exp(r)`, where `n` is an integer and `r` the rest. NaN is
    kept, as all comparisons with it are false.
    """
    if _is_negated_square(value):
        return _exp_of_negated_square(value)
    ordered, fma = arith.CmpFPredicate, math_dialect.fma
    is_zero = arith.cmpf(ordered.OLT, value, _f32_constant(_LOW))
    is_high = arith.cmpf(ordered.OGT, value, _f32_constant(_HIGH))
    rounding = _f32_constant(_ROUNDING)
    shifted = fma(value, _f32_constant(1 / math.log(2)), rounding)
    n = arith.subf(shifted, rounding)
    r = value
    for part in _LN2_HIGH, math.log(2) - _LN2_HIGH:
        r = fma(n, _f32_constant(-part), r)
    # Keep the rounding error of `1 + r`.
    one = _f32_constant(1)
    line = arith.addf(r, one)
    line_error = arith.subf(r, arith.subf(line, one))
    curve = fma(_polynomial(r, _EXP), arith.mulf(r, r), line_error)
    result = arith.addf(line, curve)
    # The last bits are n + 254. Two factors, as 2**n may exceed f32 where the result
    # does not: their biased exponents add up to n + 254.
    bits = arith.bitcast(ir.IntegerType.get_signless(32), shifted)
    # CPUs take long to round subnormal products to 0.
    bits = arith.select(is_zero, _i32_constant(254), bits)
    half = arith.shrsi(bits, _i32_constant(1))
    factors = map(_with_exponent, (half, arith.subi(bits, half)))
    power = reduce(arith.mulf, factors, result)
    power = arith.select(is_high, _f32_constant(math.inf), power)
    return arith.select(is_zero, _f32_constant(0), power)


def _is_negated_square(value: ir.Value) -> bool:
    """Return True for `-(x * x)`."""
    negated = mlir.defining_op(value, "arith.negf")
    square = negated and mlir.defining_op(negated.operands[0], "arith.mulf")
    return square is not None and square.operands[0] == square.operands[1]


_ZERO = -88.0
"""Argument whose result is 0, as those of smaller arguments: `n` is -127."""


def _exp_of_negated_square(value: ir.Value) -> ir.Value:
    """
    Return `exp(x)` as `_exp`, but 0 below 8.3e-39, and with one part of `log(2)`: the
    relative error is below `2**-23 - x * 2**-28` down to 1.2e-38, the smallest normal
    number. That of rounding `x`, a square, is `-x * 2**-24`.
    """
    fma, zero = math_dialect.fma, _f32_constant(_ZERO)
    # NaN is kept, as the comparison is false.
    is_zero = arith.cmpf(arith.CmpFPredicate.OLT, value, zero)
    value = arith.select(is_zero, zero, value)
    rounding = _f32_constant(1.5 * 2.0**23 + 127)
    shifted = fma(value, _f32_constant(1 / math.log(2)), rounding)
    r = fma(arith.subf(shifted, rounding), _f32_constant(-math.log(2)), value)
    curve = fma(_polynomial(r, _EXP), arith.mulf(r, r), r)
    # The last bits are n plus the exponent bias.
    scale = _with_exponent(arith.bitcast(ir.IntegerType.get_signless(32), shifted))
    return fma(curve, scale, scale)


def _polynomial(x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Return a polynomial by Horner's rule; `coefficients` start with the constant."""
    *others, result = (arith.constant(x.type, float(c)) for c in coefficients)
    for coefficient in reversed(others):
        result = math_dialect.fma(result, x, coefficient)
    return result


def _with_exponent(exponent: ir.Value) -> ir.Value:
    """Return the f32 whose biased exponent are the last 8 bits of an integer."""
    return arith.bitcast(ir.F32Type.get(), arith.shli(exponent, _i32_constant(23)))
