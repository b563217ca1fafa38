"""
Mergeable states of observers.

Observations of different batches can be merged in any order: a state depends only on the
set of all values or of all batches, and merging does not round. The distribution of batches
over workers therefore does not affect the result.

Arrays have shape `()` for a tensor, or `(n,)` for `n` channels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Array, Floats, Integers

Json = dict[str, ArrayLike]
"""JSON form of an observation: numbers and nested lists of numbers."""

VERSION = 2
"""Version of serialized observations, in pickles and in JSON."""


@dataclass(frozen=True, eq=False)
class Observation(ABC):
    """
    Mergeable state of an observer. It can be pickled, and compared by class and arrays.
    """

    KIND: ClassVar[str]
    """Name in JSON, which stays stable when the class is renamed."""

    lows: Array

    highs: Array

    def merge(self, other: Observation) -> Self:
        """
        Merge observations of different batches. Merging is associative and commutative.

        Raises:
            ValueError: if classes or numbers of channels differ, or both observations
                contain the same batch and the class distinguishes batches.
        """
        if type(other) is not type(self):
            raise ValueError(
                f"cannot merge observations '{self.KIND}' and '{other.KIND}'"
            )
        return self._merge(cast(Self, other))

    def extend(self, other: Observation) -> Self:
        """
        Merge observations of the same batch, or raise a `ValueError` if the classes or the
        numbers of channels differ.
        """
        return self.merge(other)

    @abstractmethod
    def _merge(self, other: Any) -> Self:
        """Merge an observation of the same class."""

    def _arrays(self) -> tuple[Array, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        pairs = zip(self._arrays(), cast(Self, other)._arrays(), strict=True)
        return all(np.array_equal(left, right) for left, right in pairs)

    __hash__ = None  # pyright: ignore[reportAssignmentType] arrays have no hash either

    def __getstate__(self) -> dict[str, object]:
        return {"version": VERSION, "arrays": self._arrays()}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        check_version(state["version"], "observation")
        arrays = cast("tuple[Array, ...]", state["arrays"])
        for field, array in zip(fields(self), arrays, strict=True):
            object.__setattr__(self, field.name, array)

    def to_json(self) -> Json:
        """Return the observation as JSON values. All numbers are exact."""
        return {
            field.name: getattr(self, field.name).tolist() for field in fields(self)
        }

    @classmethod
    @abstractmethod
    def from_json(cls, state: Mapping[str, ArrayLike]) -> Self:
        """
        Return the observation from the result of
        [`to_json`][xdsl_quant.numerics.observations.Observation.to_json].

        Raises:
            KeyError: if a field is missing.
            TypeError: if a field has the wrong type.
            ValueError: if arrays are ragged or inconsistent.
        """


def check_version(version: object, what: str) -> None:
    """Raise a `ValueError` if a version is not supported."""
    if version != VERSION:
        raise ValueError(
            f"unsupported version {version!r} of {what}; expected {VERSION}"
        )


def check_channels(first: Array, second: Array) -> None:
    """Raise a `ValueError` if the numbers of channels differ."""
    if first.shape != second.shape:
        counts = [
            f"{array.size} channels" if array.ndim else "no channels"
            for array in (first, second)
        ]
        raise ValueError(f"cannot merge observations with {' and with '.join(counts)}")


def ranges_from_json(state: Mapping[str, ArrayLike]) -> tuple[Floats, Floats]:
    lows, highs = (np.array(state[name], np.float64) for name in ("lows", "highs"))
    if not (np.isfinite(lows).all() and np.isfinite(highs).all()):
        raise ValueError("not finite")
    if lows.shape != highs.shape or not lows.size or (lows > highs).any():
        raise ValueError("inconsistent ranges")
    return lows, highs


def integers_from_json(values: ArrayLike, shape: tuple[int, ...]) -> Integers:
    array = np.array(values)
    if array.shape != shape:
        raise ValueError("unexpected shape")
    if array.size and array.dtype != np.int64:
        raise ValueError("not integers")
    return array.astype(np.int64)


def range_union(first: Observation, second: Observation) -> tuple[Floats, Floats]:
    return (
        np.asarray(np.minimum(first.lows, second.lows)),
        np.asarray(np.maximum(first.highs, second.highs)),
    )


# The smallest and the largest value


@dataclass(frozen=True, eq=False)
class MinMax(Observation):
    """Smallest and largest value."""

    KIND: ClassVar[str] = "extremes"

    def _merge(self, other: Self) -> Self:
        check_channels(self.lows, other.lows)
        return type(self)(*range_union(self, other))

    @classmethod
    def from_json(cls, state: Mapping[str, ArrayLike]) -> Self:
        return cls(*ranges_from_json(state))


@dataclass(frozen=True, eq=False)
class BatchMinMax(Observation):
    """Smallest and largest value of each batch, with batches along the first dimension."""

    KIND: ClassVar[str] = "batch-extremes"

    batches: Integers
    """Batch numbers, in ascending order."""

    def _merge(self, other: Self) -> Self:
        check_channels(self.lows[0], other.lows[0])
        batches = np.concatenate((self.batches, other.batches))
        order = np.argsort(batches)
        batches = batches[order]
        if (is_twice := batches[1:] == batches[:-1]).any():
            batch = batches[1:][is_twice][0]
            raise ValueError(f"cannot merge observations with the same batch {batch}")
        lows, highs = (
            np.concatenate(pair)[order]
            for pair in ((self.lows, other.lows), (self.highs, other.highs))
        )
        return type(self)(lows, highs, batches)

    def extend(self, other: Observation) -> Self:
        check_channels(self.lows[0], other.lows[0])
        return type(self)(*range_union(self, other), self.batches)

    @classmethod
    def from_json(cls, state: Mapping[str, ArrayLike]) -> Self:
        lows, highs = ranges_from_json(state)
        batches = integers_from_json(state["batches"], lows.shape[:1])
        if (np.diff(batches) <= 0).any():
            raise ValueError("not in ascending order")
        return cls(lows, highs, batches)
