"""
NumPy dtypes and arrays for MLIR types and constants, and checks of arguments.

The interpreter and compiled code take and return these arrays:

| element type | dtype | values |
|---|---|---|
| `f32` and other floats | `float32`, ...; from `ml_dtypes` if NumPy lacks them | |
| `i1` | `bool` | |
| `i4`, `i8`, ... | the smallest of `int8` to `int64` that is wide enough | sign extended |
| `index` | `int64` | |
| `f8E4M3FN`, ..., also as storage | from `ml_dtypes` | `uint8` arrays are bit patterns |
| quantized, table storage | like `i` or `u` storage | table indices |
| quantized, `i` storage | like the signless type, `int8` for one bit | sign extended |
| quantized, `u` storage | `uint8`, `uint16` or `uint32` | zero extended |

A scalar is an array of rank 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IndexType,
    IntegerType,
    ShapedType,
    Signedness,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.diagnostics import shortened_text
from xdsl_quant.dialects.quant.ops import has_signless_integers
from xdsl_quant.dialects.quant.types import StoredQuantizedType, scalar_or_element_type
from xdsl_quant.numerics.arrays import Array, DType, check_unmasked, sign_extended
from xdsl_quant.numerics.float_dtypes import code_dtype, float_dtype, rounded
from xdsl_quant.numerics.small_floats import SMALL_FLOATS, SmallFloat
from xdsl_quant.xdsl_patches.resources import resource_data


def shortened(type_: Attribute) -> str:
    """Return the text of a type, with the middle of a long text left out."""
    # A type may have a million scales.
    return shortened_text(str(type_))


class UnsupportedTypeError(TypeError):
    """
    Raised when values of a type have no NumPy dtype, or when the NumPy implementation
    of an op does not support the type.

    Any other `TypeError` from such an implementation is a bug.
    """


def integer_dtype(width: int, *, is_signed: bool) -> DType:
    """
    Return the smallest integer dtype with at least `width` bits.

    Raises:
        UnsupportedTypeError: if no dtype is wide enough.
    """
    for size in (8, 16, 32, 64):
        if width <= size:
            return np.dtype(f"{'int' if is_signed else 'uint'}{size}")
    raise UnsupportedTypeError(f"unsupported width {width}; expected at most 64 bits")


def numpy_dtype(type_: Attribute) -> DType:
    """
    Return the dtype of the values of a type, or of the elements of a tensor type.

    Raises:
        UnsupportedTypeError: if values of the type have no NumPy dtype.
        ImportError: if `ml_dtypes` is needed but not installed.
    """
    element_type = scalar_or_element_type(type_)
    if isinstance(element_type, IndexType):
        return np.dtype(np.int64)
    if isinstance(element_type, AnyFloat):
        try:
            return float_dtype(element_type.name)
        except ValueError:
            reason = f"NumPy has no dtype for values of type '{element_type}'"
            raise UnsupportedTypeError(reason) from None
    if isinstance(element_type, StoredQuantizedType):
        if isinstance(element_type.stored_type, AnyFloat):
            return code_dtype(element_type.stored_type.name)
        width = element_type.storage_type_integral_width
        return integer_dtype(width, is_signed=element_type.is_signed)
    if not isinstance(element_type, IntegerType):
        raise UnsupportedTypeError(
            f"values of type '{shortened(type_)}' have no NumPy dtype"
        )
    width = element_type.bitwidth
    signedness = cast(IntegerType, element_type).signedness.data
    if width == 1 and signedness is Signedness.SIGNLESS:
        return np.dtype(np.bool_)
    return integer_dtype(width, is_signed=signedness is not Signedness.UNSIGNED)


def integer_width(type_: Attribute) -> int | None:
    """Return the bit width of integers, `index` or stored values; `None` for floats."""
    element_type = scalar_or_element_type(type_)
    if isinstance(element_type, IndexType):
        return 64
    if isinstance(element_type, IntegerType):
        return element_type.bitwidth
    if isinstance(element_type, StoredQuantizedType) and not isinstance(
        element_type.stored_type, AnyFloat
    ):
        return element_type.storage_type_integral_width
    return None


def dense_elements(
    value: DenseIntOrFPElementsAttr | DenseResourceAttr,
) -> Array:
    """
    Return the elements of a constant or resource as a read-only array.

    Raises:
        ValueError: if a resource has no data, or data of another size.
        UnsupportedTypeError: if the element type has no NumPy dtype.
    """
    if isinstance(value, DenseIntOrFPElementsAttr):
        data = value.data.data
    elif (data := resource_data(value)) is None:
        raise ValueError(f"missing data of resource '{value.resource_handle.data}'")
    type_ = cast(ShapedType, value.type)
    element_type = scalar_or_element_type(value.type)
    dtype = numpy_dtype(element_type)
    if dtype == np.bool_:
        elements = np.frombuffer(data, np.int8) & 1 != 0
    elif isinstance(element_type, AnyFloat):
        elements = np.frombuffer(data, dtype)
    else:
        width = cast(int, integer_width(element_type))
        stored = np.frombuffer(data, f"int{8 * dtype.itemsize}")
        elements = sign_extended(stored, width).view(dtype)
        if dtype.kind == "u" and width < 8 * dtype.itemsize:
            elements = elements & dtype.type((1 << width) - 1)
    shape = type_.get_shape()
    # A splat may store a single element.
    is_splat = isinstance(value, DenseIntOrFPElementsAttr) and elements.size == 1
    if not is_splat and (size := math.prod(shape) * dtype.itemsize) != len(data):
        expected = f"expected {size} for '{shortened(value.type)}'"
        raise ValueError(f"data of {len(data)} bytes; {expected}")
    return np.broadcast_to(elements[0], shape) if is_splat else elements.reshape(shape)


def elements_attr(array: Array, element_type: Attribute) -> DenseIntOrFPElementsAttr:
    """Build a constant from an array that has the dtype of `element_type`."""
    type_ = TensorType(cast("IntegerType | AnyFloat", element_type), array.shape)
    return DenseIntOrFPElementsAttr(type_, BytesAttr(array.tobytes()))


ElementsAttr: TypeAlias = "DenseIntOrFPElementsAttr[Any] | DenseResourceAttr"
"""Attribute with the elements of a constant."""


def constant_attr(value: SSAValue) -> ElementsAttr | None:
    """Return the attribute with the elements of a constant; `None` for other values."""
    op = value.owner
    attr = op.get_attr_or_prop("value") if isinstance(op, Operation) else None
    if isinstance(attr, DenseIntOrFPElementsAttr | DenseResourceAttr):
        return cast("ElementsAttr", attr)
    return None


def reinterpret_elements(
    elements: ElementsAttr, element_type: Attribute
) -> ElementsAttr:
    """Return elements with the same bits and another type of the same width."""
    type_ = TensorType(
        cast("IntegerType | AnyFloat", element_type),
        cast(ShapedType, elements.type).get_shape(),
    )
    if isinstance(elements, DenseResourceAttr):
        return DenseResourceAttr(elements.resource_handle, type_)
    return DenseIntOrFPElementsAttr(type_, elements.data)


def constant_elements(value: SSAValue) -> Array | None:
    """
    Return the elements of a constant, as stored values if it is quantized; `None` for
    values that are not constant.

    Raises:
        ValueError: if a resource has no data, or data of another size.
        UnsupportedTypeError: if the element type has no NumPy dtype.
    """
    attr = constant_attr(value)
    return None if attr is None else dense_elements(attr)


def stored_elements(elements: Array, type_: StoredQuantizedType) -> Array:
    """
    Reinterpret integers, often signless constants, as stored values of a quantized type.
    The bits stay the same; the dtype becomes that of the quantized type.

    Raises:
        UnsupportedTypeError: if the storage type is a float type.
    """
    if isinstance(type_.stored_type, AnyFloat):
        raise UnsupportedTypeError(type_.unsupported_storage)
    dtype = numpy_dtype(type_)
    width = type_.storage_type_integral_width
    signed = sign_extended(elements.astype(f"int{8 * dtype.itemsize}"), width)
    if type_.is_signed:
        return signed
    return signed.view(dtype) & dtype.type((1 << width) - 1)


# Arguments


def check_argument(value: ArrayLike, type_: Attribute, name: str) -> Array:
    """
    Check an argument and return it as an array with the dtype from
    [`numpy_dtype`][xdsl_quant.runtime.arrays.numpy_dtype].

    The result is `value` itself or a view of it wherever possible. Arrays for signless
    integer types may be signed or unsigned; only their bits count. Python numbers and
    lists stand for values, never for bit patterns: floats are rounded, and out-of-range
    numbers are errors. A dynamic size accepts any size, an unranked tensor any rank.

    Args:
        value: an array, a NumPy scalar, a number, or nested lists of numbers.
        type_: a scalar or tensor type.
        name: name of the value in error messages, e.g. `argument 'x'`.

    Raises:
        TypeError: if the element type is wrong, an array is masked, or `type_` is
            unsupported.
        ValueError: if rank or shape are wrong, or a number is out of range.
    """
    dtype = numpy_dtype(type_)
    check_unmasked(value, name)
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(cast(Array, value))
        _check_argument_shape(array, type_, name)
        return _checked_array(array, dtype, type_, name)
    array = _array_of_numbers(value, type_, name)
    _check_argument_shape(array, type_, name)
    if array.dtype.kind == "b" and dtype.kind != "b":
        raise TypeError(f"{name} is a boolean, but '{shortened(type_)}' takes numbers")
    format = SMALL_FLOATS.get(_stored_name(type_))
    if format is not None or dtype.kind not in "biu":
        return _to_floats(array, dtype, format, type_, name)
    return _to_integers(array, dtype, type_, name)


def shape_of(type_: Attribute) -> tuple[int, ...]:
    """Return the shape of a ranked tensor type; `()` for a scalar type."""
    return type_.get_shape() if isinstance(type_, TensorType) else ()


def allows_shape(type_: Attribute, shape: Sequence[int]) -> bool:
    """Return True if a value of a type may have this shape; `?` matches any size."""
    if isinstance(type_, UnrankedTensorType):
        return True
    expected = shape_of(type_)
    return len(expected) == len(shape) and all(
        size in (DYNAMIC_INDEX, actual)
        for size, actual in zip(expected, shape, strict=True)
    )


def _check_argument_shape(array: Array, type_: Attribute, name: str) -> None:
    if allows_shape(type_, array.shape):
        return
    expected = shape_of(type_)
    if len(expected) != array.ndim:
        raise ValueError(
            f"{name} has rank {array.ndim}, but '{shortened(type_)}' has rank "
            f"{len(expected)}"
        )
    raise ValueError(
        f"{name} has shape {shape_text(array.shape)}, but '{shortened(type_)}' has "
        f"shape {shape_text(expected)}"
    )


def shape_text(shape: Sequence[int]) -> str:
    """Return a shape in MLIR syntax, e.g. `4x?`."""
    return "x".join("?" if size == DYNAMIC_INDEX else str(size) for size in shape)


def _checked_array(array: Array, dtype: DType, type_: Attribute, name: str) -> Array:
    given = array.dtype.newbyteorder("=")
    has_same_size = given.itemsize == dtype.itemsize
    is_raw = given.type is np.void and given.names is None
    if is_raw and dtype.isbuiltin != 1 and has_same_size:
        # .npy files store the dtypes of ml_dtypes as raw bytes.
        return array.view(dtype)
    if (
        given == np.uint8
        and (format := SMALL_FLOATS.get(_stored_name(type_))) is not None
    ):
        _check_codes(array, format.bits, type_, name)
        return array.view(dtype)
    is_same_bits = has_same_size and given.kind in "iu" and dtype.kind == "i"
    if given != dtype and not (is_same_bits and is_signless(type_)):
        raise TypeError(
            f"{name} has dtype {array.dtype}, but '{shortened(type_)}' takes {dtype}"
        )
    array = array.astype(given, copy=False)
    if dtype.kind not in "iu":
        return array
    width = integer_width(type_)
    assert width is not None
    if width < 8 * dtype.itemsize:
        _check_range(array, width, given.kind == "i", type_, name)
    return sign_extended(array, width) if given != dtype else array


def _stored_name(type_: Attribute) -> str:
    """Return the name of the element type, or of its storage type if quantized."""
    element_type = scalar_or_element_type(type_)
    if isinstance(element_type, StoredQuantizedType):
        element_type = element_type.stored_type
    return element_type.name


def is_signless(type_: Attribute) -> bool:
    """Return True if values or elements are signless integers or of type `index`."""
    is_index = isinstance(scalar_or_element_type(type_), IndexType)
    return is_index or has_signless_integers(type_)


def _check_codes(
    array: NDArray[np.uint8], width: int, type_: Attribute, name: str
) -> None:
    last = (1 << width) - 1
    if width < 8 and array.size and (largest := int(array.max())) > last:
        raise ValueError(
            f"{name} contains {largest}, but bit patterns of '{shortened(type_)}' are 0 to "
            f"{last}"
        )


def _check_range(
    array: Array,
    width: int,
    is_signed: bool,
    type_: Attribute,
    name: str,
    hint: str = "",
) -> None:
    low = -(1 << (width - 1)) if is_signed else 0
    high = (1 << (width - is_signed)) - 1
    if not array.size:
        return
    # Weights are large: skip the pass for the minimum of unsigned ones.
    ends = (array.max,) if array.dtype.kind == "u" else (array.min, array.max)
    for end in ends:
        value = int(end())
        if not low <= value <= high:
            raise ValueError(
                f"{name} contains {value}, but '{shortened(type_)}' takes {low} to {high}"
                f"{hint}"
            )


# Python numbers


def _array_of_numbers(value: ArrayLike, type_: Attribute, name: str) -> Array:
    try:
        array = np.array(value)
    except ValueError:
        raise ValueError(f"{name} is a ragged list") from None
    if array.dtype.kind == "O" and all(type(item) is int for item in array.flat):
        # NumPy keeps integers over 64 bits as objects.
        return array
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} is a {type(value).__name__}, expected an array, a number or a list of "
            "numbers"
        )
    if array.dtype.kind == "f" and not array.size:
        # `np.array([])` is f64, but an empty list fits every type.
        return array.astype(numpy_dtype(type_))
    return array


def _to_floats(
    array: Array,
    dtype: DType,
    format: SmallFloat | None,
    type_: Attribute,
    name: str,
) -> Array:
    doubles = array.astype(np.float64)
    if format is None:
        floats = numbers = rounded(doubles, dtype)
    else:
        # Without `ml_dtypes` the dtype is uint8.
        codes = format.encode(doubles)
        floats, numbers = codes.view(dtype), format.decode(codes)
    was_nan, is_nan = np.isnan(doubles), np.isnan(numbers)
    if (was_nan & ~is_nan).any():
        raise ValueError(f"{name} contains nan, but '{shortened(type_)}' has no NaN")
    does_not_fit = (is_nan & ~was_nan) | (np.isinf(numbers) != np.isinf(doubles))
    if format is not None and format.overflow == format.largest_code:
        does_not_fit |= np.abs(doubles) > format.largest
    if does_not_fit.any():
        raise ValueError(
            f"{name} contains {doubles[does_not_fit][0]}, which exceeds "
            f"'{shortened(type_)}'"
        )
    return floats


def _to_integers(array: Array, dtype: DType, type_: Attribute, name: str) -> Array:
    if array.dtype.kind == "f":
        raise TypeError(
            f"{name} contains {array.flat[0]}, but '{shortened(type_)}' takes integers"
        )
    if dtype.kind == "b":
        _check_range(array.astype(np.int64), 1, False, type_, name)
        return array.astype(np.bool_)
    width = integer_width(type_)
    assert width is not None
    hint = ""
    if dtype.kind == "i" and is_signless(type_) and _are_unsigned(array, width):
        hint = f", or an array of u{dtype} for unsigned numbers"
    _check_range(array, width, dtype.kind == "i", type_, name, hint)
    return array.astype(dtype)


def _are_unsigned(array: Array, width: int) -> bool:
    """Return True if all numbers are unsigned integers of `width` bits."""
    return bool(array.size) and 0 <= int(array.min()) <= int(array.max()) < 1 << width
