"""
Base class of a machine's arrays, with the interface of NumPy arrays.

Each machine has a subclass for arrays known only at run time, and a table of its
implementations of NumPy functions.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import DTypeLike

from xdsl_quant.numerics.primitives import Array

from .expression import Form

Axis: TypeAlias = int | Sequence[int] | None
"""One dimension, several dimensions, or `None` for all dimensions."""

FormT = TypeVar("FormT", bound=Form)


class Forms(dict[object, Form]):
    """
    A machine's implementations of array functions. Keys are NumPy functions, names of
    primitives, `part` (implements `x[key]`) and `reduced` (implements all reductions).
    """

    def implements(self, *functions: object) -> Callable[[FormT], FormT]:
        """Return a decorator that registers the implementation of `functions`."""

        def decorate(form: FormT) -> FormT:
            self.update(dict.fromkeys(functions, form))
            return form

        return decorate


class ArrayExpression(NDArrayOperatorsMixin, ABC):
    """Array whose elements are known only at run time."""

    FORMS: ClassVar[Forms]
    """The machine's implementations of array functions."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    # `==` builds an op, so hash by identity.
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType] NumPy's has none

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        return (self[i] for i in range(len(self)))

    def primitive(self, name: str) -> Form | None:
        """Return the machine's implementation of a primitive; `None` if it has none."""
        return self.FORMS.get(name)

    def __array_function__(
        self,
        function: Callable[..., object],
        types: Sequence[type],
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> Any:
        if function not in self.FORMS:
            return NotImplemented
        return self.FORMS[function](*args, **kwargs)

    # Dimensions

    def __getitem__(self, key: Any) -> Self:
        return self.FORMS["part"](self, key if isinstance(key, tuple) else (key,))

    def reshape(self, *shape: int | Sequence[int]) -> Self:
        return self.FORMS[np.reshape](self, _numbers(shape))

    def transpose(self, *order: int | Sequence[int]) -> Self:
        """Permute the dimensions; without arguments, reverse their order."""
        return self.FORMS[np.transpose](self, _numbers(order) or None)

    def swapaxes(self, a: int, b: int) -> Self:
        order = [*range(self.ndim)]
        order[a], order[b] = order[b], order[a]
        return self.transpose(order)

    @property
    def T(self) -> Self:
        """The array with its dimensions reversed."""
        return self.transpose()

    # Reduction

    def sum(
        self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None
    ) -> Self:
        return self.FORMS["reduced"]("sum", self, axis, keepdims, dtype)

    def prod(self, axis: Axis = None, keepdims: bool = False) -> Self:
        return self.FORMS["reduced"]("prod", self, axis, keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Self:
        return self.FORMS["reduced"]("max", self, axis, keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Self:
        return self.FORMS["reduced"]("min", self, axis, keepdims)


def _numbers(arguments: Sequence[int | Sequence[int]]) -> list[int]:
    """Return the integers of `f(1, 0)` or `f([1, 0])` as one list."""
    return [int(number) for number in np.hstack([*arguments, ()])]


def _stacked(parts: Sequence[Array], axis: int = 0) -> Array:
    return np.concatenate([np.expand_dims(x, axis) for x in parts], axis)


def _divisor(x: ArrayExpression) -> ArrayExpression:
    return x


def _shape(x: ArrayExpression) -> Sequence[int]:
    return x.shape


def _rank(x: ArrayExpression) -> int:
    return x.ndim


def _ones_like(x: ArrayExpression) -> Array:
    return np.ones(x.shape, x.dtype)


ARRAY_FORMS: Mapping[object, Form] = {
    "divisor": _divisor,
    np.max: ArrayExpression.max,
    np.min: ArrayExpression.min,
    np.ndim: _rank,
    np.ones_like: _ones_like,
    np.prod: ArrayExpression.prod,
    np.shape: _shape,
    np.stack: _stacked,
    np.sum: ArrayExpression.sum,
}
"""Implementations shared by all machines."""
