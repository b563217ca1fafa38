"""What random models of one op are made of: shapes, parameters, stored values, options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log10, prod
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tests.unit.frontends.tflite.formulas.cases import Case, Tensor
from xdsl_quant.numerics.parameters import storage_range

_T = TypeVar("_T")

TYPES = {
    "i4": "INT4",
    "i8": "INT8",
    "u8": "UINT8",
    "i16": "INT16",
    "i32": "INT32",
    "i64": "INT64",
    "f32": "FLOAT32",
    "i1": "BOOL",
}
"""The types of the schema by the names of storage and element types."""

_LEAST_ELEMENTS = 28
"""Of results, on average: 200 draws have more than 5,000 values."""


class Draw:
    """The random choices of one model, which depend on nothing but its name."""

    def __init__(self, op: str, kind: str, seed: int, index: int):
        """
        Args:
            op: the name of the enumerator of the schema.
            kind: the storage of the first operand, and what else distinguishes kinds of
                operands that the op has.
            seed: of all draws.
            index: of this one.
        """
        self.op = op
        self.kind = kind
        self.storage = kind.split()[0]
        self.name = f"{op} {kind}, seed {seed}, draw {index}"
        self.random = np.random.default_rng([*self.name.encode()])

    # Choices

    def integer(self, low: int, high: int) -> int:
        """From `low` to `high`, both included."""
        return int(self.random.integers(low, high, endpoint=True))

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def choice(self, members: Sequence[_T]) -> _T:
        return members[self.integer(0, len(members) - 1)]

    def activation(self) -> int:
        """NONE more often than the others, as these have values at the ends."""
        return self.choice((0, 0, 0, 0, 0, 1, 2, 3))

    # Shapes

    def shape(self, least_rank: int = 1, rank: int = 4) -> tuple[int, ...]:
        """A shape of about `_LEAST_ELEMENTS` elements or more; now and then a small one."""
        sizes = [self.integer(1, 5) for _ in range(self.integer(least_rank, rank))]
        if sizes and not self.chance(0.05):
            axis = self.integer(0, len(sizes) - 1)
            others = prod(sizes) // sizes[axis]
            sizes[axis] = max(sizes[axis], -(-_LEAST_ELEMENTS // others))
            sizes[axis] += self.integer(0, 9)
        return tuple(sizes)

    def part_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to another one."""
        if self.chance(0.4):
            return tuple(shape)
        sizes = [1 if self.chance(0.3) else size for size in shape]
        return tuple(sizes[self.integer(0, len(sizes)) :])

    def broadcast_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        shape = self.shape()
        shapes = shape, self.part_of(shape)
        return shapes if self.chance(0.7) else (shapes[1], shapes[0])

    def axes(self, rank: int, most: int) -> list[int]:
        """Distinct dimensions, in any order, some counted from the end."""
        count = self.integer(1, min(most, rank))
        axes = self.random.permutation(rank)[:count]
        return [int(axis) - rank * self.chance(0.3) for axis in axes]

    # Parameters

    def scale(self, low: float = 1e-3, high: float = 1.0) -> float:
        """Of any magnitude between two, as `f32`."""
        exponent = self.random.uniform(log10(low), log10(high))
        return float(np.float32(10**exponent))

    def near(self, power: float, distance: float = 2e-3) -> float:
        """
        A power of two or, in half of the cases, a scale whose logarithm differs by no more
        than a distance. Kernels of 16 bits take the nearest power of two up to 1e-3.
        """
        if self.chance(0.5):
            return power
        return float(np.float32(power * 2 ** self.random.uniform(-distance, distance)))

    def any_scale(self, below: float = 1e3) -> float:
        """An ordinary scale or, now and then, an extreme one."""
        if self.chance(0.85):
            return self.scale(high=min(1.0, 0.99 * below))
        return self.scale(1e-7, below)

    def zero_point(self, storage: str | None = None) -> int:
        """0 for 16 bits and more, where kernels expect it."""
        storage = storage or self.storage
        low, high = storage_range(storage)
        if storage in ("i16", "i32"):
            return 0
        return self.choice((0, low, high, *(self.integer(low, high),) * 5))

    # Operands

    def tensor(
        self,
        values: ArrayLike,
        storage: str,
        scales: float | Sequence[float] = (),
        zero_points: int | Sequence[int] = 0,
        axis: int | None = None,
        is_constant: bool = False,
    ) -> Tensor:
        """Values of a type, quantized if there are scales."""
        all_scales = np.ravel(scales).tolist()
        points = np.broadcast_to(np.ravel(zero_points), len(all_scales)).tolist()
        return Tensor(
            TYPES[storage],
            np.asarray(values),
            all_scales,
            points,
            axis,
            is_constant,
            False,
        )

    def integers(self, values: ArrayLike, is_constant: bool = True) -> Tensor:
        """Sizes, axes or indices."""
        array = np.asarray(values, np.int64)
        return self.tensor(array, "i32", is_constant=is_constant)

    def stored(
        self,
        shape: Sequence[int],
        storage: str,
        center: int = 0,
        low: int | None = None,
        high: int | None = None,
    ) -> NDArray[np.int64]:
        """
        Stored values: over the whole range, around a center or, now and then, many at the
        ends of the range.
        """
        first, last = storage_range(storage)
        first = first if low is None else low
        last = last if high is None else high
        values = self.random.integers(first, last, tuple(shape), endpoint=True)
        if self.chance(0.3):
            noise = self.random.standard_normal(tuple(shape)) * (last - first) / 8
            values = np.rint(noise + center).astype(np.int64)
        elif self.chance(0.15):
            ends = self.random.choice([first, last], tuple(shape))
            values = np.where(self.random.random(tuple(shape)) < 0.3, ends, values)
        return np.clip(values, first, last)

    def quantized(
        self,
        shape: Sequence[int],
        scale: float | None = None,
        zero_point: int | None = None,
        storage: str | None = None,
        is_constant: bool = False,
        low: int | None = None,
        high: int | None = None,
    ) -> Tensor:
        """An operand with one scale; parameters that are not given are any."""
        storage = storage or self.storage
        scale = self.any_scale() if scale is None else scale
        zero_point = self.zero_point(storage) if zero_point is None else zero_point
        values = self.stored(shape, storage, zero_point, low, high)
        return self.tensor(values, storage, scale, zero_point, is_constant=is_constant)

    def like(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """Another operand with the same parameters."""
        return self.quantized(shape, tensor.scales[0], tensor.zero_points[0])

    def maybe_constant(self, tensor: Tensor) -> Tensor:
        return tensor._replace(is_constant=self.chance(0.3))

    # Results

    def result(
        self, storage: str, scale: float | None = None, zero_point: int = 0
    ) -> Tensor:
        """A result, whose shape the runtime says; quantized if it has a scale."""
        return self.tensor(0, storage, () if scale is None else scale, zero_point)

    def result_like(self, tensor: Tensor) -> Tensor:
        """A result with the parameters of an operand."""
        return tensor._replace(array=np.array(0), is_constant=False)

    def result_of(
        self,
        values: ArrayLike,
        storage: str | None = None,
        least_scale: float = 0,
        zero_point: int | None = None,
    ) -> Tensor:
        """
        A result whose range is about that of some real numbers; now and then far smaller or
        larger.
        """
        storage = storage or self.storage
        first, last = storage_range(storage)
        finite = np.asarray(values, np.float64)
        finite = finite[np.abs(finite) < 1e30]
        low, high = min(finite.min(initial=0), 0.0), max(finite.max(initial=0), 0.0)
        if storage == "i16" or zero_point is not None:
            extent = 2 * max(-low, high)
        else:
            extent = high - low
        scale = max(extent, 1e-9) / (last - first) * self.scale(0.6, 3.0)
        if self.chance(0.06):
            scale *= self.scale(1e-3, 1e3)
        scale = float(np.float32(max(scale, least_scale * 1.001)))
        if zero_point is None:
            zero_point = 0
            if storage != "i16":
                nudge = self.integer(-9, 9)
                zero_point = int(np.clip(first - low / scale + nudge, first, last))
        return self.result(storage, scale, zero_point)

    def case(
        self,
        operands: Sequence[Tensor | None],
        results: Tensor | Sequence[Tensor],
        **options: Any,
    ) -> Case:
        """A model of the op; options have the names of the schema."""
        several = [results] if isinstance(results, Tensor) else [*results]
        return Case(self.name, self.op, options, [*operands], several)


def real(tensor: Tensor) -> NDArray[np.float64]:
    """What the stored values of a tensor express."""
    scales, points = np.array(tensor.scales), np.array(tensor.zero_points)
    if tensor.axis is not None:
        shape = [1] * tensor.array.ndim
        shape[tensor.axis] = -1
        scales, points = scales.reshape(shape), points.reshape(shape)
    return scales * (tensor.array - points)


class Declaration(NamedTuple):
    """The random models of an op."""

    op: str
    kinds: Sequence[str]
    make: Callable[[Draw], Case]


Maker = Callable[[Draw], Case]


class Declarations(dict[str, Declaration]):
    """The declarations of a module, by the names of ops."""

    def __call__(self, ops: str, kinds: str) -> Callable[[Maker], Maker]:
        """
        Declare how random models of ops are made.

        Args:
            ops: names of enumerators of the schema, separated by spaces.
            kinds: kinds of operands, separated by commas; the first word of each is the
                storage of the first operand.
        """

        def declare(make: Maker) -> Maker:
            own = [kind.strip() for kind in kinds.split(",")]
            self.update({op: Declaration(op, own, make) for op in ops.split()})
            return make

        return declare
