"""
Linear maps with constant coefficients on flattened tensors, and bounds of their rounding.

A map is applied to rows of any number of leading dimensions. Its transpose carries
coefficients of results back to coefficients of operands. All arrays are `f64`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]

UNIT = 2.0**-53
"""Largest relative rounding error of an `f64` operation."""

FLOAT_UNIT = 2.0**-24
"""Largest relative rounding error of an `f32` operation."""

SMALLEST = 2.0**-100
"""Bound of all errors by underflow: far above those of `f32`, far below any error shown."""


def growth(count: int, unit: float = UNIT) -> float:
    """
    Return a bound of the relative error of `count` roundings: `n * u / (1 - n * u)`, the
    constant of Higham, Accuracy and Stability of Numerical Algorithms, section 3.1. As an
    error bound of a sum of products, it holds for every order of the additions.
    """
    assert count * unit < 0.5
    return 2 * count * unit if count * unit > 0.01 else 1.02 * count * unit


class LinearMap(ABC):
    """A linear map between flattened tensors."""

    inputs: int
    """Number of elements of the operand."""

    outputs: int
    """Number of elements of the result."""

    terms: int
    """Largest number of summands of an element, also of the transpose."""

    @abstractmethod
    def apply(self, values: Floats) -> Floats:
        """Map `[..., inputs]` to `[..., outputs]`."""

    @abstractmethod
    def transpose(self, values: Floats) -> Floats:
        """Map `[..., outputs]` to `[..., inputs]`."""

    @abstractmethod
    def magnitude(self) -> LinearMap:
        """Return the map of the absolute values of the coefficients."""

    def minus(self, other: LinearMap) -> LinearMap | None:
        """Return the difference of two maps of the same structure, else `None`."""
        return None


@dataclass(eq=False)
class Matrix(LinearMap):
    """Products of rows `[rows, depth]` with a matrix `[depth, columns]`."""

    rows: int
    weights: Floats

    def __post_init__(self) -> None:
        depth, columns = self.weights.shape
        self.inputs, self.outputs = self.rows * depth, self.rows * columns
        self.terms = max(depth, columns)

    def apply(self, values: Floats) -> Floats:
        return self._multiply(values, self.weights)

    def transpose(self, values: Floats) -> Floats:
        return self._multiply(values, self.weights.T)

    def _multiply(self, values: Floats, weights: Floats) -> Floats:
        rows = values.reshape(-1, weights.shape[0]) @ weights
        return rows.reshape(*values.shape[:-1], -1)

    def magnitude(self) -> LinearMap:
        return Matrix(self.rows, np.abs(self.weights))

    def minus(self, other: LinearMap) -> LinearMap | None:
        if not isinstance(other, Matrix) or other.weights.shape != self.weights.shape:
            return None
        return Matrix(self.rows, self.weights - other.weights)


@dataclass(frozen=True)
class WindowGeometry:
    """Geometry of a convolution of an image `[batch, height, width, channels]`."""

    image: tuple[int, int, int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)

    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    """Zeros before and after the rows and the columns."""

    def padded(self) -> tuple[int, int]:
        """Return height and width of the padded image."""
        (top, bottom), (left, right) = self.padding
        return self.image[1] + top + bottom, self.image[2] + left + right

    def positions(self, sizes: Sequence[int]) -> tuple[int, int]:
        """Return the numbers of positions of a window along height and width."""
        found = [
            max((size - (extent - 1) * dilation - 1) // stride + 1, 0)
            for size, extent, stride, dilation in zip(
                self.padded(), sizes, self.strides, self.dilations, strict=True
            )
        ]
        return found[0], found[1]

    def taps(self, sizes: Sequence[int]) -> Iterator[tuple[int, int, slice, slice]]:
        """Yield each element of a window, with the padded rows and columns it reads."""
        counts = self.positions(sizes)
        for row, column in product(range(sizes[0]), range(sizes[1])):
            starts = row * self.dilations[0], column * self.dilations[1]
            rows, columns = (
                slice(start, start + (count - 1) * stride + 1, stride)
                for start, count, stride in zip(
                    starts, counts, self.strides, strict=True
                )
            )
            yield row, column, rows, columns


@dataclass(eq=False)
class Convolution(LinearMap):
    """Convolution with weights `[height, width, groups, depth, outputs of a group]`."""

    window: WindowGeometry
    weights: Floats

    def __post_init__(self) -> None:
        height, width, groups, depth, columns = self.weights.shape
        self.inputs = prod(self.window.image)
        self.shape = (
            self.window.image[0],
            *self.window.positions((height, width)),
            groups * columns,
        )
        self.outputs = prod(self.shape)
        self.terms = height * width * max(depth, columns)

    @property
    def _is_pointwise(self) -> bool:
        window = self.window
        is_plain = self.weights.shape[:3] == (1, 1, 1) and window.strides == (1, 1)
        return is_plain and window.padding == ((0, 0), (0, 0))

    def apply(self, values: Floats) -> Floats:
        lead = values.shape[:-1]
        height, width, groups, depth, columns = self.weights.shape
        (top, bottom), (left, right) = self.window.padding
        image = values.reshape(-1, *self.window.image)
        pads = (0, 0), (0, 0), (top, bottom), (left, right), (0, 0)
        image = np.pad(image, pads)
        shape = -1, *self.shape[:-1]
        result = np.zeros((image.shape[0], *self.shape[:-1], groups * columns))
        for row, column, rows, cols in self.window.taps((height, width)):
            part, weights = image[:, :, rows, cols], self.weights[row, column]
            if groups == 1:
                result += part @ weights[0]
            elif depth == columns == 1:
                result += part * weights[:, 0, 0]
            else:
                part = part.reshape(*shape, groups, depth)
                sums = np.einsum("snyxgd,gdo->snyxgo", part, weights)
                result += sums.reshape(result.shape)
        return result.reshape(*lead, self.outputs)

    def transpose(self, values: Floats) -> Floats:
        lead = values.shape[:-1]
        height, width, groups, depth, columns = self.weights.shape
        (top, bottom), (left, right) = self.window.padding
        if self._is_pointwise:
            rows = values.reshape(-1, columns) @ self.weights[0, 0, 0].T
            return rows.reshape(*lead, self.inputs)
        grads = values.reshape(-1, *self.shape)
        part = np.empty_like(grads)
        batch, _, _, channels = self.window.image
        padded = np.zeros((grads.shape[0], batch, *self.window.padded(), channels))
        for row, column, rows, cols in self.window.taps((height, width)):
            weights = self.weights[row, column]
            if groups == 1:
                padded[:, :, rows, cols] += grads @ weights[0].T
            elif depth == columns == 1:
                np.multiply(grads, weights[:, 0, 0], out=part)
                padded[:, :, rows, cols] += part
            else:
                part = grads.reshape(*grads.shape[:-1], groups, columns)
                sums = np.einsum("snyxgo,gdo->snyxgd", part, weights)
                padded[:, :, rows, cols] += sums.reshape(*grads.shape[:-1], channels)
        rows_end, cols_end = padded.shape[2] - bottom, padded.shape[3] - right
        image = padded[:, :, top:rows_end, left:cols_end]
        return image.reshape(*lead, self.inputs)

    def magnitude(self) -> LinearMap:
        return Convolution(self.window, np.abs(self.weights))

    def minus(self, other: LinearMap) -> LinearMap | None:
        if (
            not isinstance(other, Convolution)
            or other.window != self.window
            or other.weights.shape != self.weights.shape
        ):
            return None
        return Convolution(self.window, self.weights - other.weights)


@dataclass(eq=False)
class ElementScaling(LinearMap):
    """Products of elements with constant factors `[elements]`."""

    factors: Floats

    def __post_init__(self) -> None:
        self.inputs = self.outputs = self.factors.size
        self.terms = 1

    def apply(self, values: Floats) -> Floats:
        return values * self.factors

    transpose = apply

    def magnitude(self) -> LinearMap:
        return ElementScaling(np.abs(self.factors))

    def minus(self, other: LinearMap) -> LinearMap | None:
        if not isinstance(other, ElementScaling) or other.inputs != self.inputs:
            return None
        return ElementScaling(self.factors - other.factors)


@dataclass(eq=False)
class Gathering(LinearMap):
    """Selection of elements by index; an index of -1 gives 0."""

    indices: Indices
    inputs: int

    def __post_init__(self) -> None:
        self.outputs = self.indices.size
        counts = np.bincount(self.indices[self.indices >= 0], minlength=1)
        self.terms = max(int(counts.max()), 1)

    @cached_property
    def _selected(self) -> tuple[Indices, Indices]:
        places = np.flatnonzero(self.indices >= 0)
        return places, self.indices[places]

    def apply(self, values: Floats) -> Floats:
        places, sources = self._selected
        result = np.zeros((*values.shape[:-1], self.outputs))
        result[..., places] = values[..., sources]
        return result

    def transpose(self, values: Floats) -> Floats:
        places, sources = self._selected
        result = np.zeros((*values.shape[:-1], self.inputs))
        if self.terms == 1:
            result[..., sources] = values[..., places]
        else:
            moved = np.moveaxis(result, -1, 0)
            np.add.at(moved, sources, np.moveaxis(values[..., places], -1, 0))
        return result

    def magnitude(self) -> LinearMap:
        return self


@dataclass(eq=False)
class GroupMatrices:
    """
    Products of groups of consecutive elements with a matrix for each region and group,
    `[regions, groups, results, elements]`.
    """

    matrices: Floats

    @property
    def roundings(self) -> int:
        """Bound of the number of roundings of an element."""
        return max(self.matrices.shape[2:]) + 1

    def apply(self, values: Floats) -> Floats:
        """Map values `[regions, elements]` or `[regions, rows, elements]`."""
        regions, groups, _, length = self.matrices.shape
        parts = values.reshape(regions, -1, groups, length).transpose(0, 2, 3, 1)
        results = (self.matrices @ parts).transpose(0, 3, 1, 2)
        return results.reshape(*values.shape[:-1], -1)

    def transpose(self, rows: Floats) -> Floats:
        """Map coefficients `[regions, rows, results]` to those of the operand."""
        regions, groups, results, _ = self.matrices.shape
        parts = rows.reshape(regions, -1, groups, results).swapaxes(1, 2)
        return (parts @ self.matrices).swapaxes(1, 2).reshape(*rows.shape[:2], -1)

    @property
    def magnitude(self) -> GroupMatrices:
        """The matrices of absolute values."""
        return GroupMatrices(np.abs(self.matrices))


@dataclass(eq=False)
class Path:
    """Linear maps that are applied one after the other; the identity without maps."""

    maps: Sequence[LinearMap] = field(default_factory=tuple[LinearMap, ...])

    @property
    def roundings(self) -> int:
        """Bound of the number of roundings of an element."""
        return sum(each.terms + 1 for each in self.maps)

    def apply(self, values: Floats) -> Floats:
        """Map values of the operand to values of the result."""
        for each in self.maps:
            values = each.apply(values)
        return values

    def transpose(self, values: Floats) -> Floats:
        """Map coefficients of the result to coefficients of the operand."""
        for each in reversed(self.maps):
            values = each.transpose(values)
        return values

    @cached_property
    def magnitude(self) -> Path:
        """The path of the absolute values of all coefficients."""
        return Path([each.magnitude() for each in self.maps])

    def then(self, other: Path) -> Path:
        """Return the path that continues with another one."""
        return Path([*self.maps, *other.maps])

    def minus(self, other: Path) -> Path | None:
        """
        Return the difference of two paths that differ in one map at most, else `None`.
        A path without difference is scaled by 0.
        """
        if len(self.maps) != len(other.maps):
            return None
        different = [
            number
            for number, pair in enumerate(zip(self.maps, other.maps, strict=True))
            if not _are_equal(*pair)
        ]
        if len(different) != 1:
            return None
        number = different[0]
        difference = self.maps[number].minus(other.maps[number])
        if difference is None:
            return None
        return Path([*self.maps[:number], difference, *self.maps[number + 1 :]])

    def equals(self, other: Path) -> bool:
        """Return True if both paths have the same maps."""
        return len(self.maps) == len(other.maps) and all(
            _are_equal(*pair) for pair in zip(self.maps, other.maps, strict=True)
        )


def _are_equal(lhs: LinearMap, rhs: LinearMap) -> bool:
    if isinstance(lhs, Gathering) and isinstance(rhs, Gathering):
        return lhs.inputs == rhs.inputs and np.array_equal(lhs.indices, rhs.indices)
    difference = lhs.minus(rhs)
    if isinstance(difference, Matrix | Convolution):
        return not difference.weights.any()
    return isinstance(difference, ElementScaling) and not difference.factors.any()
