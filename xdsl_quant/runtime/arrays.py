"""The dtypes of MLIR's types, and constants as NumPy arrays."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IndexType,
    IntegerType,
    ShapedType,
    Signedness,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.diagnostics import shortened_text
from xdsl_quant.dialects.quant.types import StoredQuantizedType, scalar_or_element_type
from xdsl_quant.numerics.arrays import Array, DType, sign_extended
from xdsl_quant.numerics.float_dtypes import code_dtype, float_dtype
from xdsl_quant.xdsl_patches.resources import resource_data


def shortened(type_: Attribute) -> str:
    """The text of a type, or its beginning and end if it is long."""
    # A type may have a million scales.
    return shortened_text(str(type_))


class UnsupportedTypeError(TypeError):
    """
    Raised when values of a type have no array, or a formula has no form for them; any other
    `TypeError` of a formula is a bug.
    """


def integer_dtype(width: int, *, is_signed: bool) -> DType:
    """
    The smallest integer dtype with at least `width` bits.

    Raises:
        UnsupportedTypeError: if no dtype is wide enough.
    """
    for size in (8, 16, 32, 64):
        if width <= size:
            return np.dtype(f"{'int' if is_signed else 'uint'}{size}")
    raise UnsupportedTypeError(f"NumPy has no integers of {width} bits, at most of 64")


def numpy_dtype(type_: Attribute) -> DType:
    """
    The dtype of the values of a type, or of the elements of a tensor type.

    Raises:
        UnsupportedTypeError: if values of the type have no NumPy dtype.
        ImportError: if the type needs `ml_dtypes`, which is not installed.
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
    """
    The number of bits of the values of an integer, index or quantized type, or of the
    elements of such a tensor type; `None` for floats.
    """
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
    The elements of a constant, which may be a resource, as a read-only array.

    Raises:
        ValueError: if a resource has no data.
        UnsupportedTypeError: if elements have no NumPy dtype.
    """
    if isinstance(value, DenseIntOrFPElementsAttr):
        data = value.data.data
    elif (data := resource_data(value)) is None:
        raise ValueError(f"no data for the resource '{value.resource_handle.data}'")
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
    shape = type_.get_shape()
    # The one element of a splat may stand for all.
    is_splat = elements.size == 1
    return np.broadcast_to(elements[0], shape) if is_splat else elements.reshape(shape)


ElementsAttr: TypeAlias = "DenseIntOrFPElementsAttr[Any] | DenseResourceAttr"
"""The elements of a constant."""


def constant_attr(value: SSAValue) -> ElementsAttr | None:
    """The attribute with the elements of a constant; `None` if a value has none."""
    op = value.owner
    attr = op.get_attr_or_prop("value") if isinstance(op, Operation) else None
    if isinstance(attr, DenseIntOrFPElementsAttr | DenseResourceAttr):
        return cast("ElementsAttr", attr)
    return None


def constant_elements(value: SSAValue) -> Array | None:
    """
    The elements of a constant, for a quantized one those that are stored; `None` if a value
    is no result of an op with elements.

    Raises:
        ValueError: if a resource has no data.
        UnsupportedTypeError: if elements have no NumPy dtype.
    """
    attr = constant_attr(value)
    return None if attr is None else dense_elements(attr)


def stored_elements(elements: Array, type_: StoredQuantizedType) -> Array:
    """
    The stored values of a quantized type from the elements of a constant, which are often
    signless: the same bits, of the dtype of the type.

    Raises:
        UnsupportedTypeError: if stored values are floats.
    """
    if isinstance(type_.stored_type, AnyFloat):
        raise UnsupportedTypeError(type_.unsupported_storage)
    dtype = numpy_dtype(type_)
    width = type_.storage_type_integral_width
    signed = sign_extended(elements.astype(f"int{8 * dtype.itemsize}"), width)
    if type_.is_signed:
        return signed
    return signed.view(dtype) & dtype.type((1 << width) - 1)
