"""
The arith dialect on NumPy arrays and scalars.

Integers wrap around and floats are rounded once, to their own type. What MLIR leaves
undefined is defined here:

* A division of integers by zero is an error. That of the smallest number by -1 wraps
  around.
* A shift by the width or more shifts all bits out.
* A float becomes the nearest integer that the type has once its fraction is cut off, and
  NaN becomes the smallest one.
* `maxnumf` and `minnumf` of zeros with different signs are either of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    ShapedType,
)
from xdsl.ir import Attribute, Operation

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics.float_dtypes import rounded
from xdsl_quant.runtime.array_types import integer_dtype, numpy_dtype
from xdsl_quant.xdsl_patches.arith import RemFOp
from xdsl_quant.xdsl_patches.resources import resource_data

from .implementations import Implementation, interpreter_functions
from .values import Load, failure, numbers, resized, signed, unsigned, width_of, wrapped

Binary = Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]

# Constants


def _constant(op: arith.ConstantOp) -> Any:
    value = op.value
    if isinstance(value, IntegerAttr):
        return _integer(value.value.data, value.type)
    if isinstance(value, FloatAttr):
        double = np.array(value.value.data, np.float64)
        return rounded(double, numpy_dtype(value.type))[()]
    if isinstance(value, DenseIntOrFPElementsAttr):
        return _tensor(value.data.data, value.type)
    return _tensor(_resource(op, value), value.type)


def _integer(value: int, type_: Attribute) -> NDArray[Any]:
    # An attribute may have either of the numbers with the same bits, -1 or 255 : i8.
    bits = np.array(value & ((1 << 64) - 1), np.uint64)
    return resized(bits, type_)[()]


def _tensor(data: bytes, type_: ShapedType) -> NDArray[Any]:
    element_type = scalar_or_element_type(type_)
    dtype = numpy_dtype(element_type)
    if isinstance(element_type, AnyFloat):
        return np.frombuffer(data, dtype).reshape(type_.get_shape())
    size = 1 if dtype == np.bool_ else dtype.itemsize
    integers = np.frombuffer(data, f"int{8 * size}")
    return wrapped(integers, element_type).reshape(type_.get_shape())


def _resource(op: Operation, value: DenseResourceAttr) -> bytes:
    if (data := resource_data(value)) is None:
        key = value.resource_handle.data
        raise failure(op, f"has no data for the resource '{key}'")
    return data


# Integers


def _integers(function: Binary, load: Load = signed) -> Implementation:
    """Both operands and the result have the same type."""

    def run(op: Operation, lhs: Any, rhs: Any) -> Any:
        type_ = op.results[0].type
        return wrapped(function(load(lhs, type_), load(rhs, type_)), type_)

    return run


def _divisions(function: Binary, load: Load) -> Implementation:
    quotient = _integers(function, load)

    def run(op: Operation, lhs: Any, rhs: Any) -> Any:
        if np.any(rhs == 0):
            raise failure(op, "divides by zero")
        return quotient(op, lhs, rhs)

    return run


def _truncated_quotient(lhs: NDArray[Any], rhs: NDArray[Any]) -> NDArray[Any]:
    quotient = np.floor_divide(lhs, rhs)
    is_below = (np.fmod(lhs, rhs) != 0) & ((lhs < 0) != (rhs < 0))
    return quotient + is_below.astype(quotient.dtype)


def _raised_quotient(lhs: NDArray[Any], rhs: NDArray[Any]) -> NDArray[Any]:
    quotient = np.floor_divide(lhs, rhs)
    return quotient + (np.fmod(lhs, rhs) != 0).astype(quotient.dtype)


def _shift_right_signed(op: arith.ShRSIOp, lhs: Any, rhs: Any) -> Any:
    type_ = op.result.type
    value, amount = signed(lhs, type_), unsigned(rhs, type_)
    most = amount.dtype.type(8 * amount.dtype.itemsize - 1)
    amount = np.minimum(amount, most).view(value.dtype)
    return wrapped(np.right_shift(value, amount), type_)


def _add_extended(op: arith.AddUIExtendedOp, lhs: Any, rhs: Any) -> Any:
    type_ = op.sum.type
    lhs = unsigned(lhs, type_)
    total = wrapped(lhs + unsigned(rhs, type_), type_)
    return total, unsigned(total, type_) < lhs


def _upper_half(lhs: NDArray[Any], rhs: NDArray[Any]) -> NDArray[Any]:
    """The upper 64 bits of the products of unsigned numbers of 64 bits."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    lhs_low, lhs_high = lhs & mask, lhs >> half
    rhs_low, rhs_high = rhs & mask, rhs >> half
    middle = lhs_high * rhs_low + (lhs_low * rhs_low >> half)
    other = lhs_low * rhs_high + (middle & mask)
    return lhs_high * rhs_high + (middle >> half) + (other >> half)


def _multiply_extended(load: Load) -> Implementation:
    def run(op: arith.MulExtendedBase, lhs: Any, rhs: Any) -> Any:
        type_ = op.low.type
        lhs, rhs = load(lhs, type_), load(rhs, type_)
        wide = np.dtype(f"{lhs.dtype.kind}8")
        lhs, rhs = (v.astype(wide).view(np.uint64) for v in (lhs, rhs))
        upper = _upper_half(lhs, rhs)
        if wide.kind == "i":
            zero = np.uint64(0)
            for value, other in ((lhs, rhs), (rhs, lhs)):
                upper = upper - np.where(value.view(np.int64) < 0, other, zero)
        lower = lhs * rhs
        if (width := width_of(type_)) < 64:
            upper = upper << np.uint64(64 - width) | lower >> np.uint64(width)
        return resized(lower, type_), resized(upper, type_)

    return run


_ORDER = operator.lt, operator.le, operator.gt, operator.ge

_INTEGER_PREDICATES: Sequence[tuple[Callable[[Any, Any], Any], Load]] = (
    (operator.eq, signed),
    (operator.ne, signed),
    *((compare, signed) for compare in _ORDER),
    *((compare, unsigned) for compare in _ORDER),
)
"""In the order of the numbers that MLIR gives them."""


def _compare_integers(op: arith.CmpiOp, lhs: Any, rhs: Any) -> Any:
    compare, load = _INTEGER_PREDICATES[op.predicate.value.data]
    return compare(load(lhs, op.lhs.type), load(rhs, op.lhs.type))


def _select(op: arith.SelectOp, condition: Any, lhs: Any, rhs: Any) -> Any:
    if not np.ndim(condition):
        return lhs if condition else rhs
    type_ = op.result.type
    return np.where(condition, numbers(lhs, type_), numbers(rhs, type_))


# Floats


def floats(function: Callable[..., NDArray[Any]]) -> Implementation:
    """A function whose results are floats of the type of its operands."""

    def run(op: Operation, *args: Any) -> Any:
        type_ = op.results[0].type
        return function(*(numbers(arg, type_) for arg in args))

    return run


def maximum(lhs: NDArray[Any], rhs: NDArray[Any]) -> NDArray[Any]:
    """The maximum of floats; NaN if one is NaN, and 0.0 is more than -0.0."""
    # The sum of zeros is -0.0 only if both are.
    return np.where((lhs == 0) & (rhs == 0), lhs + rhs, np.maximum(lhs, rhs))[()]


def minimum(lhs: NDArray[Any], rhs: NDArray[Any]) -> NDArray[Any]:
    """The minimum of floats; NaN if one is NaN, and -0.0 is less than 0.0."""
    return -maximum(-lhs, -rhs)


def _are_never(lhs: NDArray[Any], rhs: NDArray[Any]) -> NDArray[np.bool_]:
    return (lhs == rhs) & np.False_


def _are_numbers(lhs: NDArray[Any], rhs: NDArray[Any]) -> NDArray[np.bool_]:
    return (lhs == lhs) & (rhs == rhs)


def _are_apart(lhs: NDArray[Any], rhs: NDArray[Any]) -> NDArray[np.bool_]:
    return (lhs < rhs) | (lhs > rhs)


def _not(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda lhs, rhs: ~compare(lhs, rhs)


# Compared with NaN everything but "not equal" is false: an ordered predicate is the
# comparison, an unordered one is the opposite of the opposite comparison.
_FLOAT_PREDICATES: tuple[Callable[[Any, Any], Any], ...] = (
    _are_never,
    operator.eq,
    operator.gt,
    operator.ge,
    operator.lt,
    operator.le,
    _are_apart,
    _are_numbers,
    _not(_are_apart),
    _not(operator.le),
    _not(operator.lt),
    _not(operator.ge),
    _not(operator.gt),
    operator.ne,
    _not(_are_numbers),
    _not(_are_never),
)
"""In the order of the numbers that MLIR gives them."""


def _compare_floats(op: arith.CmpfOp, lhs: Any, rhs: Any) -> Any:
    compare, type_ = _FLOAT_PREDICATES[op.predicate.value.data], op.lhs.type
    return compare(numbers(lhs, type_), numbers(rhs, type_))


# Conversions


def _int_to_float(load: Load) -> Implementation:
    def run(op: Operation, value: Any) -> Any:
        integers = load(value, op.operands[0].type)
        dtype = numpy_dtype(op.results[0].type)
        # NumPy rounds to bf16 twice, the first time to f32.
        if dtype.name == "bfloat16" and integers.dtype.itemsize > 2:
            return rounded(_to_odd_f64(integers), dtype)
        return integers.astype(dtype)

    return run


def _to_odd_f64(integers: NDArray[Any]) -> NDArray[Any]:
    """Integers as f64, with the last bit set wherever that is not exact."""
    if integers.dtype.itemsize < 8:
        return integers.astype(np.float64)
    dtype = integers.dtype.type
    lowest = integers & dtype(0xFFF)
    # A number of less than 53 bits stays as it is.
    is_large = integers != (integers << dtype(11) >> dtype(11))
    sticky = (integers ^ lowest) | (lowest != 0).astype(integers.dtype) << dtype(12)
    return np.where(is_large, sticky, integers).astype(np.float64)


def _float_to_int(is_signed: bool) -> Implementation:
    def run(op: Operation, value: Any) -> Any:
        floats = numbers(value, op.operands[0].type)
        type_ = op.results[0].type
        width = width_of(type_)
        if floats.dtype.itemsize < 4:
            # The bounds of the integer may be too large for the type.
            floats = floats.astype(np.float32)
        low = -(2.0 ** (width - 1)) if is_signed else 0.0
        end = 2.0 ** (width - is_signed)
        dtype = integer_dtype(width, is_signed=is_signed)
        if not floats.size or (floats.min() >= low and floats.max() < end):
            return wrapped(floats.astype(dtype), type_)
        is_inside = (floats > low) & (floats < end)
        integers = np.where(is_inside, floats, low).astype(dtype)
        largest = dtype.type((1 << (width - is_signed)) - 1)
        return wrapped(np.where(floats >= end, largest, integers)[()], type_)

    return run


def _float_to_float(op: Operation, value: Any) -> Any:
    floats = numbers(value, op.operands[0].type)
    return rounded(floats, numpy_dtype(op.results[0].type))


def _resize(load: Load) -> Implementation:
    def run(op: Operation, value: Any) -> Any:
        return resized(load(value, op.operands[0].type), op.results[0].type)

    return run


def _bitcast(op: arith.BitcastOp, value: Any) -> Any:
    source_type, result_type = op.input.type, op.result.type
    values = numbers(value, source_type)
    dtype = numpy_dtype(result_type)
    if values.dtype == dtype:
        return values
    is_same_size = values.dtype.itemsize == dtype.itemsize
    if not is_same_size or np.dtype(np.bool_) in (values.dtype, dtype):
        raise failure(op, f"from '{source_type}' to '{result_type}' is not supported")
    return values.view(dtype)


ARITH = interpreter_functions(
    {
        arith.ConstantOp: _constant,
        # Integers
        arith.AddiOp: _integers(np.add),
        arith.SubiOp: _integers(np.subtract),
        arith.MuliOp: _integers(np.multiply),
        arith.DivSIOp: _divisions(_truncated_quotient, signed),
        arith.DivUIOp: _divisions(np.floor_divide, unsigned),
        arith.CeilDivSIOp: _divisions(_raised_quotient, signed),
        arith.CeilDivUIOp: _divisions(_raised_quotient, unsigned),
        arith.FloorDivSIOp: _divisions(np.floor_divide, signed),
        arith.RemSIOp: _divisions(np.fmod, signed),
        arith.RemUIOp: _divisions(np.fmod, unsigned),
        arith.MaxSIOp: _integers(np.maximum),
        arith.MaxUIOp: _integers(np.maximum, unsigned),
        arith.MinSIOp: _integers(np.minimum),
        arith.MinUIOp: _integers(np.minimum, unsigned),
        arith.AndIOp: _integers(np.bitwise_and),
        arith.OrIOp: _integers(np.bitwise_or),
        arith.XOrIOp: _integers(np.bitwise_xor),
        arith.ShLIOp: _integers(np.left_shift, unsigned),
        arith.ShRUIOp: _integers(np.right_shift, unsigned),
        arith.ShRSIOp: _shift_right_signed,
        arith.AddUIExtendedOp: _add_extended,
        arith.MulSIExtendedOp: _multiply_extended(signed),
        arith.MulUIExtendedOp: _multiply_extended(unsigned),
        arith.CmpiOp: _compare_integers,
        arith.SelectOp: _select,
        # Floats
        arith.AddfOp: floats(np.add),
        arith.SubfOp: floats(np.subtract),
        arith.MulfOp: floats(np.multiply),
        arith.DivfOp: floats(np.divide),
        RemFOp: floats(np.fmod),
        arith.NegfOp: floats(np.negative),
        arith.MaximumfOp: floats(maximum),
        arith.MinimumfOp: floats(minimum),
        arith.MaxnumfOp: floats(np.fmax),
        arith.MinnumfOp: floats(np.fmin),
        arith.CmpfOp: _compare_floats,
        # Conversions
        arith.SIToFPOp: _int_to_float(signed),
        arith.UIToFPOp: _int_to_float(unsigned),
        arith.FPToSIOp: _float_to_int(True),
        arith.FPToUIOp: _float_to_int(False),
        arith.ExtFOp: _float_to_float,
        arith.TruncFOp: _float_to_float,
        arith.ExtSIOp: _resize(signed),
        arith.ExtUIOp: _resize(unsigned),
        arith.TruncIOp: _resize(signed),
        arith.IndexCastOp: _resize(signed),
        arith.BitcastOp: _bitcast,
    }
)
"""The ops of the dialect."""
