"""
Scales, zero points and the like as attributes that are one block of bytes: a type may have
a million of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from xdsl.dialects.builtin import (
    I64,
    BytesAttr,
    DenseArrayBase,
    Float64Type,
    f64,
    i64,
)
from xdsl.utils.exceptions import VerifyException

Floats = DenseArrayBase[Float64Type]
Ints = DenseArrayBase[I64]


def floats_attr(values: Iterable[float]) -> Floats:
    """Doubles as an attribute that is one block of bytes."""
    doubles = values if isinstance(values, array) else array("d", values)
    return DenseArrayBase(f64, BytesAttr(doubles.tobytes()))


def ints_attr(values: Iterable[int]) -> Ints:
    """64-bit integers as an attribute that is one block of bytes."""
    try:
        ints = values if isinstance(values, array) else array("q", values)
    except OverflowError as e:
        raise VerifyException("zero points must fit 64 bits") from e
    return DenseArrayBase(i64, BytesAttr(ints.tobytes()))


def float_array(attr: Floats) -> array[float]:
    """The numbers of an attribute, without a Python object for each of them."""
    values = array("d")
    values.frombytes(attr.data.data)
    return values


def int_array(attr: Ints) -> array[int]:
    """The numbers of an attribute, without a Python object for each of them."""
    values = array("q")
    values.frombytes(attr.data.data)
    return values


def zero_array(count: int) -> array[int]:
    """As many zeros."""
    return array("q", bytes(8 * count))
