"""Whether constants of a kernel are in the range of a type."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, SSAValue
from xdsl.traits import ConstantLike

from xdsl_quant.dialects.quant import QuantizedType, ScaledQuantizedType
from xdsl_quant.dialects.quant.traits import MovesElements, quantization_trait
from xdsl_quant.transforms.propagation.kernel_matching import is_constant
from xdsl_quant.transforms.statistics.ranges.float_constants import float_numbers
from xdsl_quant.unsupported import Unsupported


def fits(value: SSAValue, type_: QuantizedType) -> bool:
    """
    Whether a constant is in the range of a type, but for rounding.

    Raises:
        Unsupported: if it is no number, or not known.
    """
    if has_nan(value):
        raise Unsupported("a constant that is no number")
    if not isinstance(type_, ScaledQuantizedType):
        return False
    numbers = numbers_of(value)
    low, high = ends_of(type_)
    return bool((numbers >= low).all() and (numbers <= high).all())


def is_exact(value: SSAValue, type_: QuantizedType) -> bool:
    """
    Whether a type stores the numbers of a constant without rounding.

    Raises:
        Unsupported: if it is no number, or not known.
    """
    if not fits(value, type_) or not isinstance(type_, ScaledQuantizedType):
        return False
    units = numbers_of(value)[..., None] / type_.get_scales()
    return bool((units == units.round()).all())


def ends_of(type_: ScaledQuantizedType) -> tuple[float, float]:
    """The least and the largest number that a type does not cut off but for rounding."""
    scales, points = type_.get_scales(), type_.get_zero_points()
    low, high = type_.storage_range
    return (
        float(((low - 0.5 - points) * scales).max()),
        float(((high + 0.5 - points) * scales).min()),
    )


def has_nan(value: SSAValue) -> bool:
    """Whether a value is a constant with an element that is no number."""
    try:
        return is_constant(value) and bool(np.isnan(numbers_of(value)).any())
    except Unsupported:
        return False


def numbers_of(value: SSAValue) -> NDArray[np.float64]:
    """
    The numbers of a constant, and of what moves it.

    Raises:
        Unsupported: if they are not known.
    """
    op = value.owner
    while isinstance(op, Operation):
        if op.has_trait(ConstantLike):
            try:
                numbers = float_numbers(op.properties.get("value"))
            except (ValueError, ImportError) as e:
                raise Unsupported(str(e)) from None
            if numbers is not None:
                return np.asarray(numbers, np.float64)
            break
        moves = quantization_trait(op, MovesElements)
        if moves is None or len(moved := moves.moved(op)) != 1:
            break
        op = moved[0].owner
    raise Unsupported("the content of a constant is not known")
