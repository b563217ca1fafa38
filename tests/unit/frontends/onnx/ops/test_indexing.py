"""Ops with indices, compared with onnxruntime for drawn shapes and indices."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.frontends.onnx.node_models import integers, node_model, refusal
from xdsl_quant.numerics.arrays import Array


def _floats(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _shapes(seed: int, count: int = 6) -> Iterator[tuple[np.random.Generator, Array]]:
    """Draw tensors, each with a generator of indices."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        shape = rng.integers(1, 5, rng.integers(1, 4))
        yield rng, rng.normal(size=shape).astype(np.float32)


_CONSTANT_OR_NOT = pytest.mark.parametrize(
    "constants", [(), (1,)], ids=["data", "known"]
)
_REDUCTIONS = ("add", "mul", "max", "min")


def _part(rng: np.random.Generator, shape: Sequence[int]) -> list[int]:
    return [int(rng.integers(1, size + 1)) for size in shape]


@_CONSTANT_OR_NOT
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_gathered_slices_are_those_of_onnxruntime(
    constants: Sequence[int], dtype: Any
) -> None:
    for rng, x in _shapes(1):
        axis = int(rng.integers(-x.ndim, x.ndim))
        size = x.shape[axis]
        shape = rng.integers(0, 3, rng.integers(0, 3))
        indices = rng.integers(-size, size, shape).astype(dtype)
        node_model("Gather", [x, indices], constants, axis=axis).check()


@_CONSTANT_OR_NOT
def test_gathered_elements_are_those_of_onnxruntime(constants: Sequence[int]) -> None:
    for rng, x in _shapes(2):
        axis = int(rng.integers(-x.ndim, x.ndim))
        size, shape = x.shape[axis], _part(rng, x.shape)
        shape[axis] = 5
        indices = rng.integers(-size, size, shape)
        node_model("GatherElements", [x, indices], constants, axis=axis).check()


def _vectors(
    rng: np.random.Generator, outer: Sequence[int], sizes: Sequence[int]
) -> Array:
    """Draw index vectors for dimensions of these sizes."""
    return np.stack([rng.integers(-size, size, outer) for size in sizes], -1)


@_CONSTANT_OR_NOT
def test_slices_at_index_vectors_are_those_of_onnxruntime(
    constants: Sequence[int],
) -> None:
    for rng, x in _shapes(3):
        batch_rank = int(rng.integers(x.ndim))
        depth = int(rng.integers(1, x.ndim - batch_rank + 1))
        outer = [*x.shape[:batch_rank], 2]
        indices = _vectors(rng, outer, x.shape[batch_rank : batch_rank + depth])
        model = node_model("GatherND", [x, indices], constants, batch_dims=batch_rank)
        model.check()


@_CONSTANT_OR_NOT
def test_scattered_elements_are_those_of_onnxruntime(constants: Sequence[int]) -> None:
    for rng, x in _shapes(4):
        axis = int(rng.integers(-x.ndim, x.ndim))
        size, shape = x.shape[axis], _part(rng, x.shape)
        # Each element has one update at most.
        indices = rng.permuted(np.indices(shape)[axis], axis=axis)
        operands = [x, indices - rng.choice([0, size]), _floats(*shape)]
        node_model("ScatterElements", operands, constants, axis=axis).check()


@pytest.mark.parametrize("reduction", _REDUCTIONS)
def test_reductions_of_updates_are_those_of_onnxruntime(reduction: str) -> None:
    for rng, x in _shapes(5, 3):
        axis = int(rng.integers(-x.ndim, x.ndim))
        size, shape = x.shape[axis], _part(rng, x.shape)
        operands = [x, rng.integers(-size, size, shape), _floats(*shape)]
        model = node_model("ScatterElements", operands, axis=axis, reduction=reduction)
        model.check(rtol=1e-6)
        depth = int(rng.integers(1, x.ndim + 1))
        indices = _vectors(rng, (3, 2), x.shape[:depth])
        operands = [x, indices, _floats(3, 2, *x.shape[depth:])]
        model = node_model("ScatterND", operands, reduction=reduction)
        model.check(rtol=1e-6)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_largest_elements_are_those_of_onnxruntime(largest: int, dtype: Any) -> None:
    for rng, x in _shapes(6, 3):
        # Equal elements, and the smallest integer, which has no negative.
        values: Array = np.round(3 * x).astype(dtype)
        if np.issubdtype(dtype, np.integer):
            values.flat[0] = np.iinfo(dtype).min
        axis = int(rng.integers(-x.ndim, x.ndim))
        operands = [values + 0, rng.integers(1, x.shape[axis] + 1, 1)]
        attributes = {"axis": axis, "largest": largest}
        node_model("TopK", operands, [1], results=2, **attributes).check()


@pytest.mark.parametrize("time_axis", [0, 1])
def test_reversed_sequences_are_those_of_onnxruntime(time_axis: int) -> None:
    x = _floats(3, 4, 2)
    lengths = np.array([1, 3, 2, 3][: 4 - time_axis])
    axes = {"time_axis": time_axis, "batch_axis": 1 - time_axis}
    for constants in ((), (1,)):
        node_model("ReverseSequence", [x, lengths], constants, **axes).check()


def test_compressed_tensors_are_those_of_onnxruntime() -> None:
    x, condition = _floats(3, 4), np.array([True, False, True])
    node_model("Compress", [x, condition], [1], axis=0).check()
    node_model("Compress", [x, condition], [1], axis=-1).check()
    node_model("Compress", [x, condition], [1]).check()


@pytest.mark.parametrize(
    ("op_type", "operands"),
    [
        ("Gather", [integers(-1, 0)]),
        ("GatherElements", [integers(-1, 0, 1, 2, 0, 0, 0, 0).reshape(2, 4)]),
        ("ScatterND", [integers(-1).reshape(1, 1), _floats(1, 4)]),
    ],
)
def test_indexing_is_compiled(op_type: str, operands: Sequence[Array]) -> None:
    node_model(op_type, [_floats(3, 4), *operands]).check(compiled=True)


def test_largest_elements_are_compiled() -> None:
    model = node_model("TopK", [_floats(3, 7), integers(3)], [1], results=2, axis=0)
    model.check(compiled=True)


_X = _floats(2, 3)


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes", "message"),
    [
        ("Gather", [integers(2)], {}, "an index is out of range for sizes [2]"),
        ("Gather", [integers(0)], {"axis": 2}, "axis 2 is out of range for rank 2"),
        ("GatherElements", [integers(0)], {}, "indices have rank 1; expected 2"),
        (
            "GatherND",
            [integers(0, 0, 0).reshape(1, 3)],
            {},
            "cannot index rank 2 by 3 components after 0 batch dimensions",
        ),
        (
            "ScatterElements",
            [integers(0), _floats(1)],
            {},
            "indices have rank 1; expected 2",
        ),
        (
            "ScatterND",
            [integers(0, 0, 0).reshape(1, 3), _floats(1)],
            {},
            "cannot index rank 2 by 3 components",
        ),
        (
            "ScatterND",
            [integers(0).reshape(1, 1), _floats(1, 3)],
            {"reduction": "mean"},
            "unknown reduction 'mean'; expected one of none, add, mul, max, min",
        ),
        (
            "TopK",
            [integers(4)],
            {},
            "operand's last dimension must be at least 4",
        ),
    ],
)
def test_invalid_nodes_are_refused(
    op_type: str, operands: Sequence[Array], attributes: dict[str, Any], message: str
) -> None:
    results = 2 if op_type == "TopK" else 1
    model = node_model(op_type, [_X, *operands], [1], results=results, **attributes)
    assert refusal(model) == f"node 'y0' ({op_type}): {message}"


def test_positions_that_depend_on_data_are_refused() -> None:
    model = node_model("Compress", [_X, np.array([True, False])])
    assert refusal(model) == (
        "node 'y0' (Compress): positions depend on data or on unknown sizes; set the "
        "sizes of the inputs, e.g. with --shape"
    )
