"""
Maps values of MLIR types to NumPy arrays.

Whatever runs a function, the interpreter or compiled code, takes and returns the arrays
that are described here:

| element type | dtype | values |
|---|---|---|
| `f32` and other floats | `float32`; those that NumPy lacks are in `ml_dtypes` | |
| `i1` | `bool` | |
| `i4`, `i8`, ... | the smallest of `int8` to `int64` that holds them | sign extended |
| `index` | `int64` | |
| `f8E4M3FN`, ..., also as storage | that of `ml_dtypes` | `uint8` arrays are codes |
| quantized, a table as storage | like `i` or `u` storage | indices |
| quantized, `i` storage | like the signless type, `int8` for one bit | sign extended |
| quantized, `u` storage | `uint8`, `uint16` or `uint32` | zero extended |

A scalar is an array of rank 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant.ops import has_signless_integers
from xdsl_quant.dialects.quant.types import StoredQuantizedType, scalar_or_element_type
from xdsl_quant.numerics.arrays import Array, DType, check_unmasked, sign_extended
from xdsl_quant.numerics.float_dtypes import rounded
from xdsl_quant.numerics.small_floats import SMALL_FLOATS, SmallFloat
from xdsl_quant.runtime.arrays import (
    integer_width,
    numpy_dtype,
    shortened,
)

# Arguments


def check_argument(value: ArrayLike, type_: Attribute, name: str) -> Array:
    """
    The array to pass for an argument of a type, with the dtype that
    [`numpy_dtype`][xdsl_quant.runtime.arrays.numpy_dtype] says.

    It is `value` itself or a view of it wherever possible. An array for a signless
    integer type may be signed or unsigned, as it is taken for its bits. Plain Python
    numbers and lists of them are values, never codes, and are converted: floats are
    rounded and must not exceed the type, integers must fit.
    A dynamic size takes any size, an unranked tensor any rank.

    Args:
        value: an array, a NumPy scalar, a number, or nested lists of numbers.
        type_: a scalar or tensor type.
        name: what to call the value in an error message, e.g. `argument 'x'`.

    Raises:
        TypeError: if the type of the numbers is wrong, an array is masked, or `type_` is
            not supported.
        ValueError: if rank or shape are wrong, or a number does not fit the type.
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
        raise TypeError(
            f"{name} is a truth value, but '{shortened(type_)}' takes numbers"
        )
    format = SMALL_FLOATS.get(_stored_name(type_))
    if format is not None or dtype.kind not in "biu":
        return _to_floats(array, dtype, format, type_, name)
    return _to_integers(array, dtype, type_, name)


def shape_of(type_: Attribute) -> tuple[int, ...]:
    """The sizes of a ranked tensor type; nothing for a scalar type."""
    return type_.get_shape() if isinstance(type_, TensorType) else ()


def allows_shape(type_: Attribute, shape: Sequence[int]) -> bool:
    """Whether a value of a type may have this shape: a dynamic size is any size."""
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
    """A shape as MLIR spells it, e.g. `4x?`."""
    return "x".join("?" if size == DYNAMIC_INDEX else str(size) for size in shape)


def _checked_array(array: Array, dtype: DType, type_: Attribute, name: str) -> Array:
    given = array.dtype.newbyteorder("=")
    has_same_size = given.itemsize == dtype.itemsize
    is_raw = given.type is np.void and given.names is None
    if is_raw and dtype.isbuiltin != 1 and has_same_size:
        # NumPy's files do not say that floats are from ml_dtypes.
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
    """The name of the type of numbers in memory."""
    element_type = scalar_or_element_type(type_)
    if isinstance(element_type, StoredQuantizedType):
        element_type = element_type.stored_type
    return element_type.name


def is_signless(type_: Attribute) -> bool:
    """Whether values, or elements, are integers that have no sign, or of `index`."""
    is_index = isinstance(scalar_or_element_type(type_), IndexType)
    return is_index or has_signless_integers(type_)


def _check_codes(
    array: NDArray[np.uint8], width: int, type_: Attribute, name: str
) -> None:
    last = (1 << width) - 1
    if width < 8 and array.size and (largest := int(array.max())) > last:
        raise ValueError(
            f"{name} contains {largest}, but codes of '{shortened(type_)}' are 0 to {last}"
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
    # An array of weights is large, and those without a sign need one look only.
    ends = (array.max,) if array.dtype.kind == "u" else (array.min, array.max)
    for end in ends:
        value = int(end())
        if not low <= value <= high:
            raise ValueError(
                f"{name} contains {value}, but '{shortened(type_)}' takes {low} to {high}"
                f"{hint}"
            )


# Numbers


def _array_of_numbers(value: ArrayLike, type_: Attribute, name: str) -> Array:
    try:
        array = np.array(value)
    except ValueError:
        raise ValueError(f"{name} is a ragged list") from None
    if array.dtype.kind == "O" and all(type(item) is int for item in array.flat):
        # They are integers of more than 64 bits.
        return array
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} is a {type(value).__name__} but no array, number or list of numbers"
        )
    if array.dtype.kind == "f" and not array.size:
        # An empty list has no numbers of the wrong kind.
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
        # Without `ml_dtypes` the dtype is that of codes.
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
            f"{name} contains {doubles[does_not_fit][0]}, which is too large for "
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
    """Whether numbers are unsigned ones of `width` bits."""
    return bool(array.size) and 0 <= int(array.min()) <= int(array.max()) < 1 << width
