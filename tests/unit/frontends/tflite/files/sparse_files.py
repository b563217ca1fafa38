"""Files with sparse constants, built with the schema of LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from itertools import product
from typing import Any

import flatbuffers  # pyright: ignore[reportMissingTypeStubs] it has no annotations
import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[Any]


def litert_schema() -> Any:
    pytest.importorskip("ai_edge_litert", reason="pip install ai-edge-litert")
    return import_module("ai_edge_litert.schema_py_generated")


def sparse(
    array: Array,
    order: Sequence[int],
    formats: str,
    blocks: dict[int, int],
    vector: str = "Int32Vector",
) -> tuple[Array, Any]:
    """
    The stored elements, and the table that says where they are.

    Args:
        array: all elements.
        order: dimensions in storage order, then those of blocks.
        formats: `d` (dense) or `s` (compressed) for each dimension in storage order.
        blocks: the size of blocks for each dimension that has some.
        vector: the name of the table with indices.
    """
    schema, rank = litert_schema(), array.ndim
    shape: list[int] = []
    for axis, size in enumerate(array.shape):
        shape.append(size // blocks.get(axis, 1))
    block_map = [*blocks]
    sizes = [*shape, *blocks.values()]

    def part(prefix: Sequence[int]) -> Array:
        """All elements whose first indices in storage order are these."""
        chosen = dict(zip(order, prefix, strict=False))
        key: list[Any] = []
        for axis, size in enumerate(array.shape):
            block = blocks.get(axis, 1)
            number = rank + block_map.index(axis) if axis in blocks else -1
            outer, inner = chosen.get(axis), chosen.get(number)
            key.append(
                [
                    index
                    for index in range(size)
                    if outer in (None, index // block)
                    and inner in (None, index % block)
                ]
            )
        return array[np.ix_(*key)]

    prefixes: list[tuple[int, ...]] = [()]
    dimensions: list[Any] = []
    for axis, kind in zip(order, formats, strict=True):
        dimension = schema.DimensionMetadataT()
        if kind == "d":
            dimension.format = schema.DimensionType.DENSE
            dimension.denseSize = sizes[axis]
            prefixes = [(*p, i) for p, i in product(prefixes, range(sizes[axis]))]
        else:
            segments: list[int] = [0]
            stored: list[int] = []
            new: list[tuple[int, ...]] = []
            for prefix in prefixes:
                for index in range(sizes[axis]):
                    if part((*prefix, index)).any():
                        stored.append(index)
                        new.append((*prefix, index))
                segments.append(len(stored))
            prefixes = new
            dimension.format = schema.DimensionType.SPARSE_CSR
            for name, values in (("Segments", segments), ("Indices", stored)):
                table = getattr(schema, f"{vector}T")()
                table.values = np.array(values, _DTYPES[vector])
                setattr(dimension, f"array{name}", table)
                kind_of = getattr(schema.SparseIndexVector, vector)
                setattr(dimension, f"array{name}Type", kind_of)
        dimensions.append(dimension)
    parameters = schema.SparsityParametersT()
    parameters.traversalOrder = [*order]
    parameters.blockMap = block_map
    parameters.dimMetadata = dimensions
    values = [part(prefix).item() for prefix in prefixes]
    return np.array(values, array.dtype), parameters


_DTYPES = {
    "Int32Vector": np.int32,
    "Uint16Vector": np.uint16,
    "Uint8Vector": np.uint8,
}


def with_sparse_constant(file: bytes, name: str, values: Array, sparsity: Any) -> bytes:
    """The file with other bytes for a constant, which is sparse now."""
    schema = litert_schema()
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(file, 0))
    (tensor,) = (t for t in model.subgraphs[0].tensors if t.name == name.encode())
    tensor.sparsity = sparsity
    buffer = schema.BufferT()
    buffer.data = np.frombuffer(values.tobytes(), np.uint8)
    tensor.buffer = len(model.buffers)
    model.buffers.append(buffer)
    builder: Any = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
