"""
Arguments of the constructors of types from Python, and the attributes that hold them:
numbers and sequences of numbers, also of NumPy.

Each function for arguments raises a `TypeError` for a value of another type, with a message
that names the expected type. Attributes are one block of bytes: a type may have a million
scales.
"""

from __future__ import annotations

import reprlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from itertools import chain
from operator import index
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    Float64Type,
    FloatData,
    IntAttr,
    f64,
    i64,
)
from xdsl.ir import TypeAttribute
from xdsl.utils.exceptions import VerifyException

from .float_formats import FLOAT_FORMATS

_TEXT_LENGTH = 60
"""Most characters of a type in an error message."""

_SHORT_TEXT_LENGTH = 200
"""Most characters of the short text of a type."""

# Single values


def type_text(value: object) -> str:
    """Return a type by its text, all else by its class, as it is named in an error."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if not isinstance(value, TypeAttribute):
        return type(value).__name__
    text = str(value)
    # A type may have a million scales.
    return text if len(text) <= _TEXT_LENGTH else f"{text[: _TEXT_LENGTH - 3]}..."


def short_text(type_: TypeAttribute) -> str:
    """Return the text of a type, or its beginning and end if it is long."""
    text = str(type_)
    if len(text) <= _SHORT_TEXT_LENGTH:
        return text
    end = _SHORT_TEXT_LENGTH // 5
    return f"{text[: _SHORT_TEXT_LENGTH - end]} ... {text[-end:]}"


def _plain(value: object) -> object:
    """
    Return a NumPy scalar, or an array without dimensions, as what Python has for it.
    """
    is_scalar = getattr(value, "shape", None) == ()
    item = getattr(value, "item", None) if is_scalar else None
    return value if item is None else item()


def _value_text(value: object) -> str:
    """Return a number or a text by its `repr`, all else by its class."""
    value = _plain(value)
    if value is None or isinstance(value, complex | float | int | str):
        return reprlib.repr(value)
    return type(value).__name__


def bool_argument(value: object, what: str) -> bool:
    """
    Return an argument that is a truth value.

    Raises:
        TypeError: if it is none.
    """
    plain = _plain(value)
    if not isinstance(plain, bool):
        raise TypeError(f"{what} must be True or False, not {_value_text(plain)}")
    return plain


class NumberKind(NamedTuple):
    """A kind of number that an argument may be or consist of."""

    noun: str
    typecode: str
    """The type of the elements of an array of them."""

    dtype_kinds: str
    """NumPy's kinds of what always fits such an array."""

    convert: Callable[[object], float]
    """Raises a `TypeError` for what is no such number."""

    def checked(self, value: object, needed: str) -> float:
        """
        Return a Python or NumPy number.

        Raises:
            TypeError: if it is none, with `needed` as the start of the message.
            OverflowError: if it is larger than all doubles.
        """
        plain = _plain(value)
        with suppress(TypeError):
            if not isinstance(plain, bool):
                return self.convert(plain)
        raise TypeError(f"{needed}, not {_value_text(value)}")


def _to_double(value: object) -> float:
    # Unlike `float`, an array takes no texts.
    return array("d", (cast(float, value),))[0]


def _to_index(value: object) -> int:
    return index(cast(int, value))


FLOATS = NumberKind("numbers", "d", "iuf", _to_double)
# Unsigned integers may be too large for 64 bits with a sign.
INTEGERS = NumberKind("integers", "q", "i", _to_index)


def float_argument(value: object, what: str) -> FloatData:
    try:
        return FloatData(FLOATS.checked(value, f"{what} must be a number"))
    except OverflowError:
        raise VerifyException(f"{what} must fit 64 bits") from None


def int_argument(value: object, what: str) -> IntAttr:
    """
    Return an argument that is an integer.

    Raises:
        TypeError: if it is none.
    """
    return IntAttr(int(INTEGERS.checked(value, f"{what} must be an integer")))


def checked_expressed_type(expressed_type: object) -> AnyFloat:
    """
    Return the expressed type that a constructor was given.

    Raises:
        TypeError: if it is no float type.
    """
    if type(expressed_type) not in FLOAT_FORMATS:
        raise TypeError(
            "expressed type must be a float type such as f32, not "
            f"{type_text(expressed_type)}"
        )
    return cast(AnyFloat, expressed_type)


# Sequences


_NO_SEQUENCES: tuple[type, ...] = (str, bytes, bytearray, Mapping, AbstractSet)
"""What can be iterated over, but is no sequence of numbers or has no order."""


def _is_row(value: object) -> bool:
    """Return True if an element of a sequence has elements itself."""
    if hasattr(value, "ravel"):
        return getattr(value, "shape", ()) != ()
    # The first element of a text is a text.
    return isinstance(value, Sequence) and not isinstance(value, _NO_SEQUENCES)


def flattened(
    values: Any, what: str, numbers: str
) -> tuple[list[Any], tuple[int, ...]]:
    """
    Return the elements of a sequence, a nested sequence or a NumPy array in row-major
    order, and its shape.
    """
    values = _plain(values)
    if hasattr(values, "ravel"):
        return values.ravel().tolist(), tuple(values.shape)
    if isinstance(values, _NO_SEQUENCES) or not hasattr(values, "__iter__"):
        raise TypeError(
            f"{what} must be a sequence of {numbers}, not {_value_text(values)}"
        )
    elements: list[Any] = list(values)
    shape = [len(elements)]
    while elements and _is_row(elements[0]):
        try:
            (length,) = set(map(len, elements))
        except (TypeError, ValueError):
            raise VerifyException(f"{what} must not be ragged") from None
        shape.append(length)
        elements = list(chain.from_iterable(elements))
    return elements, tuple(shape)


def elements(
    values: Any, what: str, kind: NumberKind
) -> tuple[array[Any], tuple[int, ...]]:
    """
    Return the elements of a sequence, a nested sequence or a NumPy array in row-major
    order, and the shape; without a Python object for each of them if they are of one of
    the dtype kinds.
    """
    dtype_kind = getattr(getattr(values, "dtype", None), "kind", None)
    if dtype_kind is not None and dtype_kind in kind.dtype_kinds and values.shape:
        packed: array[Any] = array(kind.typecode)
        packed.frombytes(values.astype(kind.typecode, copy=False).tobytes())
        return packed, tuple(values.shape)
    numbers, shape = flattened(values, what, kind.noun)
    try:
        with suppress(TypeError):
            if bool not in set(map(type, numbers)):
                return array(kind.typecode, numbers), shape
        # One of them is no number: which one?
        needed = f"{what} must be {kind.noun}"
        return array(kind.typecode, (kind.checked(n, needed) for n in numbers)), shape
    except OverflowError:
        raise VerifyException(f"{what} must fit 64 bits") from None


def vector(values: object, what: str, kind: NumberKind) -> array[Any]:
    """
    Return the elements of a sequence or a one-dimensional NumPy array as numbers of 64
    bits.

    Raises:
        TypeError: if it is none, or has an element that is not of this kind.
        VerifyException: if it has more dimensions, or a number does not fit.
    """
    numbers, shape = elements(values, what, kind)
    if len(shape) != 1:
        raise VerifyException(f"{what} must have one dimension, not shape {shape}")
    return numbers


# Attributes

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
    """Return the numbers of an attribute, without a Python object for each of them."""
    values = array("d")
    values.frombytes(attr.data.data)
    return values


def int_array(attr: Ints) -> array[int]:
    """Return the numbers of an attribute, without a Python object for each of them."""
    values = array("q")
    values.frombytes(attr.data.data)
    return values


def zero_array(count: int) -> array[int]:
    """As many zeros."""
    return array("q", bytes(8 * count))
