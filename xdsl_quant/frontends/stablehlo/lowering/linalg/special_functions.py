"""
Formulas of CHLO's special functions, as NumPy functions of floats.

Coefficients: C. Lanczos, "A Precision Approximation of the Gamma Function", 1964, for
g = 7; S. Moshier, "Methods and Programs for Mathematical Functions" (Cephes), 1989; M.
Giles, "Approximating the erfinv function", GPU Computing Gems, 2012.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, f64
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.machines.arith import Condition, FloatExpression
from xdsl_quant.machines.expression import UNBOUNDED
from xdsl_quant.numerics.primitives import Array
from xdsl_quant.transforms.building.builder import LoweringBuilder

from .lowering import Values, bit_width, is_unsigned_type, without_linalg

Formula = Callable[[LoweringBuilder, Operation, Values], SSAValue]


def float_formula(function: Callable[..., Array], *, has_f64: bool = True) -> Formula:
    """Return the formula of a function of floats, which is computed in `f32` or `f64`."""

    def formula(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
        type_ = cast(AnyFloat, args[0].type)
        if type_ == f64 and not has_f64:
            raise without_linalg("has f64 operands")
        wide = f32 if bit_width(type_) < 32 else type_
        values = [FloatExpression(builder, value).as_float(wide) for value in args]
        result = function(*cast(Sequence[Array], values))
        return cast(FloatExpression, result).as_value(type_)

    return formula


def _log1p(x: Array) -> Array:
    expression = cast(FloatExpression, x)
    value = expression.builder.add(math_dialect.Log1pOp(expression.value))
    return cast(
        Array, replace(expression, value=value, bounds=UNBOUNDED, may_be_nan=True)
    )


def _horner_sum(coefficients: Sequence[float], x: Array) -> Array:
    """Return a polynomial; coefficients begin with the highest power."""
    return reduce(lambda total, c: total * x + c, coefficients)


# Gamma function

_G = 7
_BASE = 0.99999999999980993227684700473478
_LANCZOS = (
    *(676.520368121885098567009190444019, -1259.13921672240287047156078755283),
    *(771.3234287776530788486528258894, -176.61502916214059906584551354),
    *(12.507343278686904814458936853, -0.13857109526572011689554707),
    *(9.984369578019570859563e-6, 1.50563273514931155834e-7),
)


def _lanczos(x: Array) -> tuple[Array, Array]:
    """Return the terms' sum and its derivative, at the positive argument `x + 1`."""
    denominators = [x + (index + 1.0) for index in range(len(_LANCZOS))]
    terms = [c / d for c, d in zip(_LANCZOS, denominators, strict=True)]
    slopes = [-term / d for term, d in zip(terms, denominators, strict=True)]
    return cast(Array, sum(terms, _BASE)), reduce(add, slopes)


def log_gamma(x: Array) -> Array:
    """Return the logarithm of the absolute value of the gamma function."""
    is_reflected = x < 0.5
    z = np.where(is_reflected, -x, x - 1.0)
    total, _ = _lanczos(z)
    log_t = math.log(_G + 0.5) + _log1p(z / (_G + 0.5))
    # `t * log(t) - t` in factors that do not overflow.
    t = z + (_G + 0.5)
    log_y = (z + 0.5 - t / log_t) * log_t + (
        0.5 * math.log(2 * math.pi) + np.log(total)
    )
    size = np.abs(x)
    fraction = size - np.floor(size)
    fraction = np.minimum(fraction, 1.0 - fraction)
    sine = np.sin(math.pi * fraction)
    reflected = math.log(math.pi) - np.log(sine) - log_y
    # At poles, the logarithm of the sine is negative infinity.
    result = np.where(is_reflected, np.where(sine > 0, reflected, math.inf), log_y)
    return np.where(size == math.inf, math.inf, result)


def digamma(x: Array) -> Array:
    """Return the derivative of the logarithm of the gamma function; NaN at its poles."""
    is_reflected = x < 0.5
    z = np.where(is_reflected, -x, x - 1.0)
    total, slope = _lanczos(z)
    t = z + (_G + 0.5)
    log_t = math.log(_G + 0.5) + _log1p(z / (_G + 0.5))
    y = log_t + slope / total - _G / t
    # The period of the tangent is 1: the fraction keeps its precision.
    angle = math.pi * (x + np.abs(np.floor(x + 0.5)))
    reflected = y - math.pi * np.cos(angle) / np.sin(angle)
    is_pole = (x <= 0) & (np.floor(x) == x)
    return np.where(is_pole, math.nan, np.where(is_reflected, reflected, y))


_BERNOULLI = (
    *(12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9),
    *(7.47242496e10, -2.950130727918164224e12, 1.1646782814350067249e14),
    *(-4.5979787224074726105e15, 1.8152105401943546773e17, -7.1661652561756670113e18),
)
"""`(2k)! / B(2k)` for `k` from 1, with Bernoulli numbers `B`."""


def zeta(x: Array, q: Array) -> Array:
    """Return the sum of `(q + k) ** -x` for `k` from 0, by the Euler-Maclaurin formula."""
    total, a = _power(q, x), q
    for _ in range(9):
        a = a + 1.0
        total = total + _power(a, x)
    a = a + 1.0
    last = _power(a, x)
    total = total + last * a / (x - 1.0) + 0.5 * last
    factor, power = 1.0, last / a
    for index, denominator in enumerate(_BERNOULLI):
        factor = factor * (x + 2.0 * index)
        total = total + factor * power / denominator
        factor = factor * (x + (2.0 * index + 1.0))
        power = power / (a * a)
    is_even = 2.0 * np.floor(0.5 * x) == x
    is_pole = (q <= 0) & (np.floor(q) == q)
    # Both sides of a pole have one sign for even `x`, and opposite signs for odd `x`.
    at_pole = np.where(is_even, x * math.inf, math.nan)
    is_undefined = (x < 1) | ((q <= 0) & (np.floor(x) != x))
    result = np.where(is_undefined, math.nan, np.where(is_pole, at_pole, total))
    return np.where(x == 1, math.inf, result)


def _power(base: Array, exponent: Array) -> Array:
    return np.power(base, -exponent)


def polygamma(n: Array, x: Array) -> Array:
    """Return the derivative of order `n` of `digamma`; NaN unless `n` is a whole number."""
    sign = 2.0 * (n - 2.0 * np.floor(0.5 * n)) - 1.0
    order = n + 1.0
    derivative = sign * np.exp(log_gamma(order)) * zeta(order, x)
    result = np.where(n == 0, digamma(x), derivative)
    return np.where((n < 0) | (np.floor(n) != n), math.nan, result)


# Bessel function

_SMALL = (
    *(-2.111421214358166e-17, 1.5536319577362005e-16, -1.1055969477353862e-15),
    *(7.600684294735408e-15, -5.042185504727912e-14, 3.223793365945575e-13),
    *(-1.9839743977649436e-12, 1.1736186298890901e-11, -6.663489723502027e-11),
    *(3.625590281552117e-10, -1.8872497517228294e-09, 9.381537386495773e-09),
    *(-4.445059128796328e-08, 2.0032947535521353e-07, -8.568720264695455e-07),
    *(3.4702513081376785e-06, -1.3273163656039436e-05, 4.781565107550054e-05),
    *(-0.00016176081582589674, 0.0005122859561685758, -0.0015135724506312532),
    *(0.004156422944312888, -0.010564084894626197, 0.024726449030626516),
    *(-0.05294598120809499, 0.1026436586898471, -0.17641651835783406),
    *(0.12629359322181682,),
)
"""Chebyshev coefficients of `i1e(x) / x` from 0 to 8, from the highest order."""

_LARGE = (
    *(-4.650305368489358e-17, -3.209525921993424e-17, 2.96262899764595e-16),
    *(3.3082023109209285e-16, -1.8803547755107825e-15, -3.8144030724370075e-15),
    *(1.0420276984128804e-14, 4.2724400167119517e-14, -2.1015418427726643e-14),
    *(-4.0835511110921974e-13, -7.198551776245908e-13, 2.0356285441470896e-12),
    *(1.412580743661378e-11, 3.2526035830154884e-11, -1.8974958123505413e-11),
    *(-5.589743462196584e-10, -3.835380385964237e-09, -2.6314688468895196e-08),
    *(-2.512236237870209e-07, -3.882564808877691e-06, -0.00011058893876262371),
    *(-0.009761097491361469, 0.38928811750914005),
)
"""Chebyshev coefficients of `i1e(x) * sqrt(x)` from 8, as a function of `32 / x - 2`."""


def _chebyshev(coefficients: Sequence[float], x: Array) -> Array:
    """Return a sum of Chebyshev polynomials of `x / 2` by Clenshaw's recurrence."""
    following, total = 0.0, coefficients[0]
    for coefficient in coefficients[1:]:
        following, total = total, x * total - following + coefficient
    return total - 0.5 * x * following


def bessel_i1e(x: Array) -> Array:
    """Return the modified Bessel function of order 1, times `exp(-abs(x))`."""
    size = np.abs(x)
    small = _chebyshev(_SMALL, size / 2.0 - 2.0) * size
    large = _chebyshev(_LARGE, 32.0 / size - 2.0) / np.sqrt(size)
    result = np.where(size <= 8.0, small, large)
    return np.where(x < 0, -result, result)


# Error function

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


def inverse_error_function(x: Array) -> Array:
    """Return the inverse error function with a relative error of about 3 ulp of `f32`."""
    w = -_log1p(x * -x)
    central = _horner_sum(_CENTRAL, w - 2.5)
    tail = _horner_sum(_TAIL, np.sqrt(w) - 3.0)
    result = np.where(w < 5.0, central, tail) * x
    # The polynomial of an infinite argument is NaN: 1 has the inverse infinity.
    return np.where(np.abs(x) == 1.0, x * math.inf, result)


# Bits


def next_after(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    """Return the next float from `lhs` toward `rhs`; NaN if an operand is NaN."""
    x, y = (cast(Array, FloatExpression(builder, value)) for value in args)
    float_type = args[0].type
    type_ = IntegerType(bit_width(float_type))
    up, down = (builder.number(step, type_) for step in (1, -1))
    is_positive, is_below = (cast(Condition, c).value for c in (x > 0, x < y))
    # The bits of floats of one sign are ordered like their absolute values.
    is_away = builder.add(arith.CmpiOp(is_positive, is_below, "eq"))
    step = builder.add(arith.SelectOp(is_away, up, down))
    bits = builder.add(arith.BitcastOp(args[0], type_))
    moved = builder.add(arith.AddiOp(bits, step))
    result, smallest = (
        cast(
            Array,
            FloatExpression(builder, builder.op(arith.BitcastOp, (v,), float_type)),
        )
        for v in (moved, up)
    )
    result = np.where(x == 0, np.copysign(smallest, y), result)
    # The sum of the operands is NaN if one is.
    result = np.where(x == y, y, np.where((x != x) | (y != y), x + y, result))
    return cast(FloatExpression, result).value


def high_product(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    """Return the high half of the product of integers of up to 32 bits."""
    element_type = cast(IntegerType, scalar_or_element_type(op.operands[0].type))
    width = element_type.bitwidth
    if width > 32:
        raise without_linalg("has 64-bit operands")
    wide = IntegerType(2 * width)
    is_unsigned = is_unsigned_type(element_type)
    extend = arith.ExtUIOp if is_unsigned else arith.ExtSIOp
    shift = arith.ShRUIOp if is_unsigned else arith.ShRSIOp
    lhs, rhs = (builder.op(extend, (value,), wide) for value in args)
    product = builder.add(arith.MuliOp(lhs, rhs))
    high = builder.add(shift(product, builder.number(width, wide)))
    return builder.op(arith.TruncIOp, (high,), args[0].type)
