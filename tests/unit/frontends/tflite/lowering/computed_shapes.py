"""Random files whose shapes are computed from the shape of a dynamic input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.frontends.tflite.files.model import Model, Operator, Subgraph, Tensor
from xdsl_quant.frontends.tflite.files.reader import default_options
from xdsl_quant.frontends.tflite.files.schema import options_name
from xdsl_quant.frontends.tflite.files.writer import write_model

TYPES = {"float32": "FLOAT32", "int32": "INT32", "int64": "INT64", "bool": "BOOL"}

Sizes: TypeAlias = list[int]
"""Sizes of a value; the first one is a multiple of the batch size."""


class Graph:
    """A graph whose tensors have shape signatures of -1 and placeholders of 1."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.tensors = [Tensor("x", "FLOAT32", [1, 6, 4], [-1, 6, 4])]
        self.operators: list[Operator] = []

    def constant(self, value: Any, dtype: str = "int32") -> int:
        array = np.array(value, dtype)
        data = np.atleast_1d(array).view(np.uint8).ravel()
        name = f"c{len(self.tensors)}"
        self.tensors.append(Tensor(name, TYPES[dtype], [*array.shape], data=data))
        return len(self.tensors) - 1

    def op(
        self,
        code: str,
        inputs: Sequence[int],
        rank: int,
        type: str = "INT32",
        **options: Any,
    ) -> int:
        name = f"{code.lower()}{len(self.tensors)}"
        self.tensors.append(Tensor(name, type, [1] * rank, [-1] * rank or None))
        table = options_name(code)
        known = {**default_options(table), **options} if table else options
        result = len(self.tensors) - 1
        self.operators.append(Operator(code, inputs, [result], known))
        return result

    def file(self, result: int) -> bytes:
        graph = Subgraph("main", self.tensors, [0], [result], self.operators)
        return write_model(Model([graph]))

    # Shape arithmetic

    def shape(self, x: int) -> int:
        """The shape of a tensor, computed directly or through 64 bits."""
        if self.random.random() < 0.5:
            return self.op("SHAPE", [x], 1, out_type=2)
        wide = self.op("SHAPE", [x], 1, "INT64", out_type=4)
        return self.op("CAST", [wide], 1, in_data_type=4, out_data_type=2)

    def part(self, shape: int, first: int, end: int | None = None) -> int:
        ends = self.constant([0 if end is None else end])
        inputs = [shape, self.constant([first]), ends, self.constant([1])]
        return self.op("STRIDED_SLICE", inputs, 1, end_mask=int(end is None))

    def size(self, x: int, axis: int) -> int:
        """A size as a scalar, by a slice or by `gather`."""
        shape = self.shape(x)
        if self.random.random() < 0.5:
            return self.op("GATHER", [shape, self.constant(axis)], 0, axis=0)
        inputs = [shape, *(self.constant([n]) for n in (axis, axis + 1, 1))]
        return self.op("STRIDED_SLICE", inputs, 0, shrink_axis_mask=1)

    def binary(self, code: str, a: int, b: int, rank: int) -> int:
        return self.op(code, [a, b], rank)

    def concat(self, *parts: int) -> int:
        return self.op("CONCATENATION", parts, 1, axis=0)


Step: TypeAlias = Callable[[Graph, int, Sizes], tuple[int, Sizes]]


def _float(
    graph: Graph, code: str, inputs: Sequence[int], sizes: Sizes, **o: Any
) -> tuple[int, Sizes]:
    return graph.op(code, inputs, len(sizes), "FLOAT32", **o), sizes


def to_rows(g: Graph, x: int, sizes: Sizes) -> tuple[int, Sizes]:
    columns = g.op(
        "REDUCE_PROD", [g.part(g.shape(x), 1), g.constant([0])], 0, keep_dims=False
    )
    new = g.op("PACK", [g.size(x, 0), columns], 1, values_count=2, axis=0)
    return _float(g, "RESHAPE", [x, new], [sizes[0], int(np.prod(sizes[1:]))])


def drop_last(g: Graph, x: int, sizes: Sizes) -> tuple[int, Sizes]:
    ones = [0] * (len(sizes) - 1) + [1 if sizes[-1] > 1 else 0]
    end = g.binary("SUB", g.shape(x), g.constant(ones), 1)
    begin, strides = (g.constant([n] * len(sizes)) for n in (0, 1))
    new = [*sizes[:-1], sizes[-1] - ones[-1]]
    return _float(g, "STRIDED_SLICE", [x, begin, end, strides], new)


def halve(g: Graph, x: int, sizes: Sizes) -> tuple[int, Sizes]:
    divisors = g.constant([1] + [2] * (len(sizes) - 1))
    halves = g.binary("FLOOR_DIV", g.shape(x), divisors, 1)
    counts = g.binary("MAXIMUM", halves, g.constant([1]), 1)
    new = [sizes[0], *(max(n // 2, 1) for n in sizes[1:])]
    return _float(g, "SLICE", [x, g.constant([0] * len(sizes)), counts], new)


def pad(g: Graph, x: int, sizes: Sizes) -> tuple[int, Sizes]:
    rest = g.op("FILL", [g.constant([2 * len(sizes) - 2]), g.constant(1)], 1)
    flat = g.concat(g.constant([0, 0]), rest)
    pairs = g.op("RESHAPE", [flat, g.constant([-1, 2])], 2)
    return _float(g, "PAD", [x, pairs], [sizes[0], *(n + 2 for n in sizes[1:])])


def tile(g: Graph, x: int, sizes: Sizes) -> tuple[int, Sizes]:
    twice = g.op(
        "PACK", [g.constant(2)] * (len(sizes) - 1), 1, values_count=len(sizes) - 1
    )
    multiples = g.concat(g.constant([1]), twice)
    return _float(g, "TILE", [x, multiples], [sizes[0], *(2 * n for n in sizes[1:])])


def broadcast(g: Graph, x: int, sizes: Sizes) -> tuple[int, Sizes]:
    if len(sizes) > 3:
        return to_rows(g, x, sizes)
    y, _ = _float(g, "EXPAND_DIMS", [x, g.constant(1)], [sizes[0], 1, *sizes[1:]])
    shape = g.shape(x)
    wide = g.concat(g.part(shape, 0, 1), g.constant([3]), g.part(shape, 1))
    both = g.op("BROADCAST_ARGS", [wide, g.constant([1])], 1)
    return _float(g, "BROADCAST_TO", [y, both], [sizes[0], 3, *sizes[1:]])


def every_second(g: Graph, x: int, sizes: Sizes) -> tuple[int, Sizes]:
    axis = len(sizes) - 1
    indices = g.op("RANGE", [g.constant(0), g.size(x, axis), g.constant(2)], 1)
    new = [*sizes[:-1], -(-sizes[-1] // 2)]
    return _float(g, "GATHER", [x, indices], new, axis=axis)


def add_filled(g: Graph, x: int, sizes: Sizes) -> tuple[int, Sizes]:
    half = g.constant(0.5, "float32")
    filled, _ = _float(g, "FILL", [g.shape(x), half], sizes)
    return _float(g, "ADD", [x, filled], sizes)


def resize(g: Graph, x: int, sizes: Sizes) -> tuple[int, Sizes]:
    y, (n, columns) = to_rows(g, x, sizes)
    new = g.concat(g.part(g.shape(y), 0, 1), g.constant([1, -1, 1]))
    image, _ = _float(g, "RESHAPE", [y, new], [n, 1, columns, 1])
    inner = g.part(g.shape(image), 1, 3)
    size = g.binary("MUL", inner, g.constant([2, 3]), 1)
    return _float(g, "RESIZE_NEAREST_NEIGHBOR", [image, size], [n, 2, 3 * columns, 1])


def transpose(g: Graph, x: int, sizes: Sizes) -> tuple[int, Sizes]:
    rank = g.op("RANK", [x], 0)
    order = g.op("RANGE", [g.constant(1), rank, g.constant(1)], 1)
    order = g.op("REVERSE_V2", [order, g.constant([0])], 1)
    order = g.concat(g.constant([0]), order)
    return _float(g, "TRANSPOSE", [x, order], [sizes[0], *sizes[:0:-1]])


def chosen(g: Graph, x: int, sizes: Sizes) -> tuple[int, Sizes]:
    """Reshape to a shape that depends on a comparison of sizes."""
    is_even = g.op("EQUAL", [g.size(x, len(sizes) - 1), g.constant(4)], 0, "BOOL")
    columns = g.op("SELECT_V2", [is_even, g.constant(1), g.constant(-1)], 0)
    total = g.op("REDUCE_PROD", [g.part(g.shape(x), 1), g.constant([0])], 0)
    rest = g.op("SELECT_V2", [is_even, total, g.constant(1)], 0)
    new = g.op("PACK", [g.size(x, 0), columns, rest], 1, values_count=3)
    count = int(np.prod(sizes[1:]))
    shape = [1, count] if sizes[-1] == 4 else [count, 1]
    return _float(g, "RESHAPE", [x, new], [sizes[0], *shape])


STEPS: Sequence[Step] = (
    to_rows,
    drop_last,
    halve,
    pad,
    tile,
    broadcast,
    every_second,
    add_filled,
    resize,
    transpose,
    chosen,
)


def random_file(seed: int) -> bytes:
    """A file of three to six steps."""
    graph = Graph(seed)
    value, sizes = 0, [1, 6, 4]
    for _ in range(graph.random.integers(3, 7)):
        step = STEPS[int(graph.random.integers(len(STEPS)))]
        if np.prod(sizes) > 2000 and step in (tile, broadcast, resize, pad):
            continue
        value, sizes = step(graph, value, sizes)
    return graph.file(value)


def input_of(batch: int, seed: int = 0) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    return random.standard_normal((batch, 6, 4)).astype(np.float32)
