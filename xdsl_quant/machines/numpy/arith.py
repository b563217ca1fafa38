"""
Interpreter functions of the dialect arith, for NumPy arrays and scalars.

Integers wrap around, and floats are rounded once, to their own type. Behavior that MLIR
leaves undefined is defined here:

* Integer division by zero is an error. The smallest integer divided by -1 wraps around.
* Shifts by the bit width or more shift all bits out.
* Float-to-integer conversions round toward zero and saturate; NaN becomes the smallest
  integer.
* `maxnumf` and `minnumf` of zeros with different signs return either.
"""

import operator
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.float_dtypes import rounded
from xdsl_quant.runtime.arrays import integer_dtype, numpy_dtype
from xdsl_quant.xdsl_patches.arith import RemFOp

from .implementations import interpreter_functions
from .values import (
    Load,
    as_numbers,
    bit_width,
    constant_array,
    failure,
    resized,
    signed,
    unsigned,
    wrapped_to,
)

Binary = Callable[[Array, Array], Array]

# Constants


def _constant_elements(op: arith.ConstantOp) -> Array:
    value = op.value
    if isinstance(value, IntegerAttr):
        return _integer_constant(value.value.data, value.type)
    if isinstance(value, FloatAttr):
        double = np.array(value.value.data, np.float64)
        return rounded(double, numpy_dtype(value.type))[()]
    return constant_array(op, value)


def _integer_constant(value: int, type_: Attribute) -> Array:
    # An attribute may hold the signed or unsigned value, -1 or 255 : i8.
    bits = np.array(value & ((1 << 64) - 1), np.uint64)
    return resized(bits, type_)[()]


# Integers


def _integer_result(
    function: Binary, load: Load, op: Operation, lhs: Array, rhs: Array
) -> Array:
    """Apply a function to operands of the result type, and wrap the result to that type."""
    type_ = op.results[0].type
    return wrapped_to(function(load(lhs, type_), load(rhs, type_)), type_)


def _divisions(
    function: Binary, load: Load, op: Operation, lhs: Array, rhs: Array
) -> Array:
    if np.any(rhs == 0):
        raise failure(op, "divides by zero")
    return _integer_result(function, load, op, lhs, rhs)


def _truncated_quotient(lhs: Array, rhs: Array) -> Array:
    quotient = np.floor_divide(lhs, rhs)
    is_below = (np.fmod(lhs, rhs) != 0) & ((lhs < 0) != (rhs < 0))
    return quotient + is_below.astype(quotient.dtype)


def _raised_quotient(lhs: Array, rhs: Array) -> Array:
    quotient = np.floor_divide(lhs, rhs)
    return quotient + (np.fmod(lhs, rhs) != 0).astype(quotient.dtype)


def _shift_right_signed(op: arith.ShRSIOp, lhs: Array, rhs: Array) -> Array:
    type_ = op.result.type
    value, amount = signed(lhs, type_), unsigned(rhs, type_)
    most = amount.dtype.type(8 * amount.dtype.itemsize - 1)
    amount = np.minimum(amount, most).view(value.dtype)
    return wrapped_to(np.right_shift(value, amount), type_)


def _add_extended(
    op: arith.AddUIExtendedOp, lhs: Array, rhs: Array
) -> tuple[Array, Array]:
    type_ = op.sum.type
    lhs = unsigned(lhs, type_)
    total = wrapped_to(lhs + unsigned(rhs, type_), type_)
    return total, unsigned(total, type_) < lhs


def _multiply_extended(
    load: Load, op: arith.MulExtendedBase, lhs: Array, rhs: Array
) -> tuple[Array, Array]:
    type_ = op.low.type
    # Multiply unbounded Python integers.
    factors = [np.asarray(load(arg, type_)).astype(object) for arg in (lhs, rhs)]
    product = factors[0] * factors[1]
    low, high = (
        np.asarray(part & ((1 << 64) - 1), object).astype(np.uint64)[()]
        for part in (product, product >> bit_width(type_))
    )
    return resized(low, type_), resized(high, type_)


_ORDER = operator.lt, operator.le, operator.gt, operator.ge

_INTEGER_PREDICATES: Sequence[tuple[Binary, Load]] = (
    (operator.eq, signed),
    (operator.ne, signed),
    *((compare, signed) for compare in _ORDER),
    *((compare, unsigned) for compare in _ORDER),
)
"""Comparison function, and `signed` or `unsigned` operands, by MLIR predicate number."""


def _compare_integers(op: arith.CmpiOp, lhs: Array, rhs: Array) -> Array:
    compare, load = _INTEGER_PREDICATES[op.predicate.value.data]
    return compare(load(lhs, op.lhs.type), load(rhs, op.lhs.type))


def _select(op: arith.SelectOp, condition: Array, lhs: Array, rhs: Array) -> Array:
    if not np.ndim(condition):
        return lhs if condition else rhs
    type_ = op.result.type
    return np.where(condition, as_numbers(lhs, type_), as_numbers(rhs, type_))


# Floats


def floats(function: Callable[..., Array], op: Operation, *args: Array) -> Array:
    """Apply a function to floats of the result type."""
    type_ = op.results[0].type
    return function(*(as_numbers(arg, type_) for arg in args))


def maximum(lhs: Array, rhs: Array) -> Array:
    """Return the maximum of floats; NaN if one is NaN. 0.0 exceeds -0.0."""
    # -0.0 + 0.0 is 0.0.
    return np.where((lhs == 0) & (rhs == 0), lhs + rhs, np.maximum(lhs, rhs))[()]


def minimum(lhs: Array, rhs: Array) -> Array:
    """Return the minimum of floats; NaN if one is NaN. -0.0 is less than 0.0."""
    return -maximum(-lhs, -rhs)


_FLOAT_COMPARISONS = (
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    np.not_equal,
)
"""Comparisons of MLIR's ordered predicates 1 to 6, and unordered predicates 8 to 13."""

_ORDERED, _UNORDERED, _TRUE = 7, 14, 15


def _compare_floats(op: arith.CmpfOp, lhs: Array, rhs: Array) -> Array:
    predicate, type_ = op.predicate.value.data, op.lhs.type
    lhs, rhs = as_numbers(lhs, type_), as_numbers(rhs, type_)
    has_nan = np.not_equal(lhs, lhs) | np.not_equal(rhs, rhs)
    if predicate in (_ORDERED, _UNORDERED):
        return has_nan == (predicate == _UNORDERED)
    if predicate in (0, _TRUE):
        return has_nan & np.False_ | (predicate == _TRUE)
    if predicate < _ORDERED:
        return _FLOAT_COMPARISONS[predicate - 1](lhs, rhs) & ~has_nan
    return _FLOAT_COMPARISONS[predicate - 8](lhs, rhs) | has_nan


# Conversions


def _int_to_float(load: Load, op: Operation, value: Array) -> Array:
    integers = load(value, op.operands[0].type)
    dtype = numpy_dtype(op.results[0].type)
    # NumPy would convert to f32 first, and so round twice.
    if dtype.name == "bfloat16" and integers.dtype.itemsize > 2:
        return rounded(_to_odd_f64(integers), dtype)
    return integers.astype(dtype)


def _to_odd_f64(integers: Array) -> Array:
    """Convert integers to f64, rounding inexact results to odd."""
    if integers.dtype.itemsize < 8:
        return integers.astype(np.float64)
    dtype = integers.dtype.type
    lowest = integers & dtype(0xFFF)
    # Integers of up to 53 bits are exact.
    is_large = integers != (integers << dtype(11) >> dtype(11))
    sticky = (integers ^ lowest) | (lowest != 0).astype(integers.dtype) << dtype(12)
    return np.where(is_large, sticky, integers).astype(np.float64)


def _float_to_int(is_signed: bool, op: Operation, value: Array) -> Array:
    floats = as_numbers(value, op.operands[0].type)
    type_ = op.results[0].type
    width = bit_width(type_)
    if floats.dtype.itemsize < 4:
        # `low` and `end` may overflow narrower types than f32.
        floats = floats.astype(np.float32)
    low = -(2.0 ** (width - 1)) if is_signed else 0.0
    end = 2.0 ** (width - is_signed)
    dtype = integer_dtype(width, is_signed=is_signed)
    if not floats.size or (floats.min() >= low and floats.max() < end):
        return wrapped_to(floats.astype(dtype), type_)
    is_inside = (floats > low) & (floats < end)
    integers = np.where(is_inside, floats, low).astype(dtype)
    largest = dtype.type((1 << (width - is_signed)) - 1)
    return wrapped_to(np.where(floats >= end, largest, integers)[()], type_)


def _float_to_float(op: Operation, value: Array) -> Array:
    floats = as_numbers(value, op.operands[0].type)
    return rounded(floats, numpy_dtype(op.results[0].type))


def _resize(load: Load, op: Operation, value: Array) -> Array:
    return resized(load(value, op.operands[0].type), op.results[0].type)


def _bits_as_type(op: arith.BitcastOp, value: Array) -> Array:
    source_type, result_type = op.input.type, op.result.type
    values = as_numbers(value, source_type)
    dtype = numpy_dtype(result_type)
    if values.dtype == dtype:
        return values
    is_same_size = values.dtype.itemsize == dtype.itemsize
    if not is_same_size or np.dtype(np.bool_) in (values.dtype, dtype):
        raise failure(op, f"from '{source_type}' to '{result_type}' is unsupported")
    # Unused bits of narrow floats are zero; those of integers extend the sign.
    if values.dtype.kind in "iu":
        return unsigned(values, source_type).view(dtype)
    return wrapped_to(values, result_type)


ARITH = interpreter_functions(
    {
        arith.ConstantOp: _constant_elements,
        # Integers
        arith.AddiOp: partial(_integer_result, np.add, signed),
        arith.SubiOp: partial(_integer_result, np.subtract, signed),
        arith.MuliOp: partial(_integer_result, np.multiply, signed),
        arith.DivSIOp: partial(_divisions, _truncated_quotient, signed),
        arith.DivUIOp: partial(_divisions, np.floor_divide, unsigned),
        arith.CeilDivSIOp: partial(_divisions, _raised_quotient, signed),
        arith.CeilDivUIOp: partial(_divisions, _raised_quotient, unsigned),
        arith.FloorDivSIOp: partial(_divisions, np.floor_divide, signed),
        arith.RemSIOp: partial(_divisions, np.fmod, signed),
        arith.RemUIOp: partial(_divisions, np.fmod, unsigned),
        arith.MaxSIOp: partial(_integer_result, np.maximum, signed),
        arith.MaxUIOp: partial(_integer_result, np.maximum, unsigned),
        arith.MinSIOp: partial(_integer_result, np.minimum, signed),
        arith.MinUIOp: partial(_integer_result, np.minimum, unsigned),
        arith.AndIOp: partial(_integer_result, np.bitwise_and, signed),
        arith.OrIOp: partial(_integer_result, np.bitwise_or, signed),
        arith.XOrIOp: partial(_integer_result, np.bitwise_xor, signed),
        arith.ShLIOp: partial(_integer_result, np.left_shift, unsigned),
        arith.ShRUIOp: partial(_integer_result, np.right_shift, unsigned),
        arith.ShRSIOp: _shift_right_signed,
        arith.AddUIExtendedOp: _add_extended,
        arith.MulSIExtendedOp: partial(_multiply_extended, signed),
        arith.MulUIExtendedOp: partial(_multiply_extended, unsigned),
        arith.CmpiOp: _compare_integers,
        arith.SelectOp: _select,
        # Floats
        arith.AddfOp: partial(floats, np.add),
        arith.SubfOp: partial(floats, np.subtract),
        arith.MulfOp: partial(floats, np.multiply),
        arith.DivfOp: partial(floats, np.divide),
        RemFOp: partial(floats, np.fmod),
        arith.NegfOp: partial(floats, np.negative),
        arith.MaximumfOp: partial(floats, maximum),
        arith.MinimumfOp: partial(floats, minimum),
        arith.MaxnumfOp: partial(floats, np.fmax),
        arith.MinnumfOp: partial(floats, np.fmin),
        arith.CmpfOp: _compare_floats,
        # Conversions
        arith.SIToFPOp: partial(_int_to_float, signed),
        arith.UIToFPOp: partial(_int_to_float, unsigned),
        arith.FPToSIOp: partial(_float_to_int, True),
        arith.FPToUIOp: partial(_float_to_int, False),
        arith.ExtFOp: _float_to_float,
        arith.TruncFOp: _float_to_float,
        arith.ExtSIOp: partial(_resize, signed),
        arith.ExtUIOp: partial(_resize, unsigned),
        arith.TruncIOp: partial(_resize, signed),
        arith.IndexCastOp: partial(_resize, signed),
        arith.BitcastOp: _bits_as_type,
    }
)
