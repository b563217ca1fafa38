"""
Conversions between values of MLIR types and NumPy numbers.

Values have the dtype of [`numpy_dtype`][xdsl_quant.runtime.arrays.numpy_dtype], and narrow
integers are sign-extended. All functions accept and return NumPy arrays or NumPy scalars.
"""

from collections.abc import Callable
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, DenseResourceAttr
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.diagnostics import located_message, op_name
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime import arrays
from xdsl_quant.runtime.arrays import integer_width, numpy_dtype

Load = Callable[[object, Attribute], Array]
"""The function `signed` or `unsigned`: interprets a value of an MLIR type as integers."""


def failure(op: Operation, message: str) -> InterpretationError:
    """Return the exception for an op that cannot be computed."""
    return InterpretationError(located_message(op, f"'{op_name(op)}' op {message}"))


def as_numbers(value: object, type_: Attribute) -> Array:
    """Convert Python numbers, which xDSL's loops yield, to NumPy scalars."""
    if isinstance(value, np.ndarray | np.generic):
        return cast(Array, value)
    return numpy_dtype(type_).type(value)


def bit_width(type_: Attribute) -> int:
    """Return the bit width of an integer type."""
    width = integer_width(type_)
    assert width is not None
    return width


def _lowest_bits(array: Array, type_: Attribute) -> Array:
    """Clear the bits above the type's width; in a signed dtype, sign-extend them."""
    if not (unused := 8 * array.dtype.itemsize - bit_width(type_)):
        return array
    shift = array.dtype.type(unused)
    return array << shift >> shift


def signed(value: object, type_: Attribute) -> Array:
    """Interpret integers as signed; `true` of `i1` is -1."""
    array = as_numbers(value, type_)
    if array.dtype == np.bool_:
        return np.negative(array.view(np.int8))
    return array


def unsigned(value: object, type_: Attribute) -> Array:
    """Interpret integers as unsigned."""
    array = signed(value, type_)
    return _lowest_bits(array.view(f"uint{8 * array.dtype.itemsize}"), type_)


def wrapped_to(array: Array, type_: Attribute) -> Array:
    """Wrap integers to a type whose dtype has the item size of the array."""
    dtype = numpy_dtype(type_)
    if dtype == np.bool_:
        return (array & array.dtype.type(1)).astype(dtype)
    return _lowest_bits(array.view(dtype), type_)


def resized(array: Array, type_: Attribute) -> Array:
    """Wrap integers of any size to a type."""
    dtype = numpy_dtype(type_)
    if array.dtype.itemsize == dtype.itemsize:
        return wrapped_to(array, type_)
    kind = "int" if array.dtype.kind == "i" else "uint"
    return wrapped_to(array.astype(f"{kind}{8 * dtype.itemsize}"), type_)


def constant_array(
    op: Operation, value: DenseIntOrFPElementsAttr | DenseResourceAttr
) -> Array:
    """Return the elements of a constant or resource as a read-only array."""
    try:
        return arrays.dense_elements(value)
    except ValueError as e:
        raise failure(op, f"has {e}") from None
