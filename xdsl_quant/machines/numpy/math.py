"""
Interpreter functions of the dialect math, for NumPy arrays and scalars.

Absolute values, signs, roundings, square roots and `fma` are exact. Other functions are
computed in f64 by the C library, and rounded once for smaller types. Results of compiled
code may differ from these in the last bit, depending on the platform.
"""

import math as math_of_python
from collections.abc import Callable
from functools import partial

import numpy as np
from xdsl.dialects import math
from xdsl.ir import Operation

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.float_dtypes import fused_multiply_add, rounded

from .arith import floats
from .implementations import interpreter_functions
from .values import as_numbers, bit_width, failure, signed, unsigned, wrapped_to


def _in_f64(function: Callable[..., Array], op: Operation, *args: Array) -> Array:
    """Compute a function in f64, and round the result to the result type."""
    values = [as_numbers(arg, op.results[0].type) for arg in args]
    result = function(*(value.astype(np.float64) for value in values))
    return rounded(result, values[0].dtype)


def round_half_away(values: Array) -> Array:
    """Round floats half away from zero."""
    if values.dtype.itemsize < 4:
        return round_half_away(values.astype(np.float32)).astype(values.dtype)
    # Adding exactly 0.5 would round 0.49999997 to 1.
    half = np.nextafter(values.dtype.type(0.5), values.dtype.type(0.0))
    return np.trunc(values + np.copysign(half, values))


def _fma(op: math.FmaOp, *args: Array) -> Array:
    type_ = op.result.type
    values = [as_numbers(arg, type_) for arg in args]
    if values[0].dtype.itemsize > 4:
        raise failure(op, f"on '{type_}' is unsupported, expected floats up to f32")
    return fused_multiply_add(*values)


def _absolute_integers(op: math.AbsIOp, value: Array) -> Array:
    return wrapped_to(np.abs(signed(value, op.result.type)), op.result.type)


_erf = np.vectorize(math_of_python.erf, otypes=[np.float64])


def _float_to_integer_power(op: math.FPowIOp, lhs: Array, rhs: Array) -> Array:
    base, exponent = as_numbers(lhs, op.lhs.type), signed(rhs, op.rhs.type)
    power = np.power(base.astype(np.float64), exponent.astype(np.float64))
    return rounded(power, base.dtype)


def _reciprocal_root(values: Array) -> Array:
    return 1.0 / np.sqrt(values)


def _leading_zeros(op: math.CountLeadingZerosOp, value: Array) -> Array:
    type_ = op.result.type
    bits = unsigned(value, type_)
    # Each 32-bit half is exact in f64, whose exponent gives the leading one.
    low = bits.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    high = bits.astype(np.uint64) >> np.uint64(32)
    _, exponents = np.frexp(np.where(high > 0, high, low).astype(np.float64))
    used = exponents + np.where(high > 0, 32, 0)
    return wrapped_to((bit_width(type_) - used).astype(bits.dtype), type_)


def _one_bits(op: math.CtPopOp, value: Array) -> Array:
    bits = unsigned(value, op.result.type)
    octets = np.asarray(bits)[..., np.newaxis].view(np.uint8)
    count = np.unpackbits(octets, axis=-1).sum(axis=-1, dtype=bits.dtype)
    return wrapped_to(count, op.result.type)


MATH = interpreter_functions(
    {
        math.AbsFOp: partial(floats, np.abs),
        math.AbsIOp: _absolute_integers,
        math.CeilOp: partial(floats, np.ceil),
        math.CountLeadingZerosOp: _leading_zeros,
        math.CtPopOp: _one_bits,
        math.CopySignOp: partial(floats, np.copysign),
        math.FloorOp: partial(floats, np.floor),
        math.FmaOp: _fma,
        math.RoundEvenOp: partial(floats, np.rint),
        math.RoundOp: partial(floats, round_half_away),
        math.SqrtOp: partial(floats, np.sqrt),
        math.TruncOp: partial(floats, np.trunc),
        math.AcosOp: partial(_in_f64, np.arccos),
        math.AcoshOp: partial(_in_f64, np.arccosh),
        math.AsinOp: partial(_in_f64, np.arcsin),
        math.AsinhOp: partial(_in_f64, np.arcsinh),
        math.Atan2Op: partial(_in_f64, np.arctan2),
        math.AtanOp: partial(_in_f64, np.arctan),
        math.AtanhOp: partial(_in_f64, np.arctanh),
        math.CbrtOp: partial(_in_f64, np.cbrt),
        math.CosOp: partial(_in_f64, np.cos),
        math.CoshOp: partial(_in_f64, np.cosh),
        math.ErfOp: partial(_in_f64, _erf),
        math.Exp2Op: partial(_in_f64, np.exp2),
        math.ExpM1Op: partial(_in_f64, np.expm1),
        math.ExpOp: partial(_in_f64, np.exp),
        math.FPowIOp: _float_to_integer_power,
        math.Log10Op: partial(_in_f64, np.log10),
        math.Log1pOp: partial(_in_f64, np.log1p),
        math.Log2Op: partial(_in_f64, np.log2),
        math.LogOp: partial(_in_f64, np.log),
        math.PowFOp: partial(_in_f64, np.power),
        math.RsqrtOp: partial(_in_f64, _reciprocal_root),
        math.SinOp: partial(_in_f64, np.sin),
        math.SinhOp: partial(_in_f64, np.sinh),
        math.TanOp: partial(_in_f64, np.tan),
        math.TanhOp: partial(_in_f64, np.tanh),
    }
)
"""Interpreter functions of the dialect's ops, except `ipowi` and `cttz`."""
