"""
Validation of Python and NumPy arguments of type constructors, and their conversion to
attributes. Functions raise a `TypeError` that names the expected type.

Sequences are stored as bytes, because a type may have a million scales.
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
"""Maximum length of a type in an error message."""

_SHORT_TEXT_LENGTH = 200
"""Maximum length of the short text of a type."""

# Single values


def type_text(value: object) -> str:
    """Return the text of a type, or the class name of any other value, for messages."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if not isinstance(value, TypeAttribute):
        return type(value).__name__
    text = str(value)
    # Shorten the text: a type may have a million scales.
    return text if len(text) <= _TEXT_LENGTH else f"{text[: _TEXT_LENGTH - 3]}..."


def short_text(type_: TypeAttribute) -> str:
    """Return the text of a type, with the middle elided if it exceeds 200 characters."""
    text = str(type_)
    if len(text) <= _SHORT_TEXT_LENGTH:
        return text
    end = _SHORT_TEXT_LENGTH // 5
    return f"{text[: _SHORT_TEXT_LENGTH - end]} ... {text[-end:]}"


def _plain(value: object) -> object:
    """Convert a NumPy scalar or zero-dimensional array to a Python object."""
    is_scalar = getattr(value, "shape", None) == ()
    item = getattr(value, "item", None) if is_scalar else None
    return value if item is None else item()


def _value_text(value: object) -> str:
    """Return the `repr` of a number or string, or the class name of any other value."""
    value = _plain(value)
    if value is None or isinstance(value, complex | float | int | str):
        return reprlib.repr(value)
    return type(value).__name__


def bool_argument(value: object, name: str) -> bool:
    """Return a Boolean argument; raise a `TypeError` for other values."""
    plain = _plain(value)
    if not isinstance(plain, bool):
        raise TypeError(f"{name} must be True or False, not {_value_text(plain)}")
    return plain


class NumberKind(NamedTuple):
    """The expected type of a number, or of the elements of a sequence."""

    noun: str
    typecode: str
    """Type code of a Python `array` of these numbers."""

    dtype_kinds: str
    """NumPy dtype kinds whose values all fit this type code."""

    convert: Callable[[object], float]
    """Function that converts a number and raises a `TypeError` for other values."""

    def convert_number(self, value: object, needed: str) -> float:
        """
        Convert a Python or NumPy number.

        Raises:
            TypeError: if the value is not of this kind; the message starts with `needed`.
            OverflowError: if the value exceeds f64.
        """
        plain = _plain(value)
        with suppress(TypeError):
            if not isinstance(plain, bool):
                return self.convert(plain)
        raise TypeError(f"{needed}, not {_value_text(value)}")


def _to_double(value: object) -> float:
    # Unlike `float`, an array refuses strings.
    return array("d", (cast(float, value),))[0]


def _to_index(value: object) -> int:
    return index(cast(int, value))


FLOATS = NumberKind("numbers", "d", "iuf", _to_double)
# Without dtype kind `u`: unsigned NumPy integers may exceed i64.
INTEGERS = NumberKind("integers", "q", "i", _to_index)


def float_argument(value: object, name: str) -> FloatData:
    try:
        return FloatData(FLOATS.convert_number(value, f"{name} must be a number"))
    except OverflowError:
        raise VerifyException(f"expected {name} representable in f64") from None


def int_argument(value: object, name: str) -> IntAttr:
    """Return an integer argument; raise a `TypeError` for other values."""
    return IntAttr(int(INTEGERS.convert_number(value, f"{name} must be an integer")))


def checked_expressed_type(expressed_type: object) -> AnyFloat:
    """Return a float type argument; raise a `TypeError` for other values."""
    if type(expressed_type) not in FLOAT_FORMATS:
        raise TypeError(
            "expressed type must be a float type such as f32, not "
            f"{type_text(expressed_type)}"
        )
    return cast(AnyFloat, expressed_type)


# Sequences


_NO_SEQUENCES: tuple[type, ...] = (str, bytes, bytearray, Mapping, AbstractSet)
"""Iterables that are refused as sequences of numbers: strings, mappings and sets."""


def _is_row(value: object) -> bool:
    """Return True if `value`, an element of a sequence, is a sequence itself."""
    if hasattr(value, "ravel"):
        return getattr(value, "shape", ()) != ()
    # Strings would recurse forever: their elements are strings.
    return isinstance(value, Sequence) and not isinstance(value, _NO_SEQUENCES)


def flatten_sequence(
    values: Any, name: str, numbers: str
) -> tuple[list[Any], tuple[int, ...]]:
    """
    Return the elements of a (nested) sequence or NumPy array in row-major order, and its
    shape.
    """
    values = _plain(values)
    if hasattr(values, "ravel"):
        return values.ravel().tolist(), tuple(values.shape)
    if isinstance(values, _NO_SEQUENCES) or not hasattr(values, "__iter__"):
        raise TypeError(
            f"{name} must be a sequence of {numbers}, not {_value_text(values)}"
        )
    elements: list[Any] = list(values)
    shape = [len(elements)]
    while elements and _is_row(elements[0]):
        try:
            (length,) = set(map(len, elements))
        except (TypeError, ValueError):
            raise VerifyException(f"{name} must have rows of equal lengths") from None
        shape.append(length)
        elements = list(chain.from_iterable(elements))
    return elements, tuple(shape)


def elements(
    values: Any, name: str, kind: NumberKind
) -> tuple[array[Any], tuple[int, ...]]:
    """
    Return the elements of a (nested) sequence or NumPy array in row-major order as an
    array, and the shape. NumPy arrays of `kind.dtype_kinds` are copied as bytes.
    """
    dtype_kind = getattr(getattr(values, "dtype", None), "kind", None)
    if dtype_kind is not None and dtype_kind in kind.dtype_kinds and values.shape:
        packed: array[Any] = array(kind.typecode)
        packed.frombytes(values.astype(kind.typecode, copy=False).tobytes())
        return packed, tuple(values.shape)
    numbers, shape = flatten_sequence(values, name, kind.noun)
    try:
        with suppress(TypeError):
            if bool not in set(map(type, numbers)):
                return array(kind.typecode, numbers), shape
        # Find the element to report.
        needed = f"{name} must be {kind.noun}"
        return array(
            kind.typecode, (kind.convert_number(n, needed) for n in numbers)
        ), shape
    except OverflowError:
        type_name = "f64" if kind.typecode == "d" else "i64"
        raise VerifyException(f"expected {name} representable in {type_name}") from None


def vector(values: object, name: str, kind: NumberKind) -> array[Any]:
    """
    Return the elements of a sequence or one-dimensional NumPy array as 64-bit numbers.

    Raises:
        TypeError: if the argument or an element is of the wrong type.
        VerifyException: if the rank is not 1, or an element exceeds 64 bits.
    """
    numbers, shape = elements(values, name, kind)
    if len(shape) != 1:
        raise VerifyException(f"{name} must have one dimension, not shape {shape}")
    return numbers


# Attributes

Floats = DenseArrayBase[Float64Type]
Ints = DenseArrayBase[I64]


def floats_attr(values: Iterable[float]) -> Floats:
    """Build an attribute with an array of f64."""
    doubles = values if isinstance(values, array) else array("d", values)
    return DenseArrayBase(f64, BytesAttr(doubles.tobytes()))


def ints_attr(values: Iterable[int]) -> Ints:
    """Build an attribute with an array of i64."""
    try:
        ints = values if isinstance(values, array) else array("q", values)
    except OverflowError as e:
        raise VerifyException("expected zero points representable in i64") from e
    return DenseArrayBase(i64, BytesAttr(ints.tobytes()))


def float_array(attr: Floats) -> array[float]:
    """Return the elements of an f64 array attribute."""
    values = array("d")
    values.frombytes(attr.data.data)
    return values


def int_array(attr: Ints) -> array[int]:
    """Return the elements of an i64 array attribute."""
    values = array("q")
    values.frombytes(attr.data.data)
    return values


def zero_array(count: int) -> array[int]:
    """Return an array of `count` zeros."""
    return array("q", bytes(8 * count))
