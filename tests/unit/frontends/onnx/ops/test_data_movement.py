"""Data movement ops, compared with onnxruntime for drawn shapes and attributes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest

from tests.unit.frontends.onnx.node_models import integers, node_model, refusal
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array


def _floats(*shape: int) -> Array:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1


def _shapes(seed: int, count: int) -> Sequence[tuple[int, ...]]:
    rng = np.random.default_rng(seed)
    return [
        tuple(rng.integers(1, 5, rng.integers(1, 5)).tolist()) for _ in range(count)
    ]


_LIMITS = (-(2**63), 2**63 - 1, -7, -4, -3, -1, 0, 1, 2, 5)


def test_slices_are_clamped_as_onnxruntime_clamps_them() -> None:
    rng = np.random.default_rng(1)
    for shape in _shapes(2, 12):
        rank = len(shape)
        axes = rng.permutation(rank)[: rng.integers(1, rank + 1)]
        starts, ends = rng.choice(_LIMITS, (2, len(axes)))
        steps = rng.choice([-(2**31), -3, -2, -1, 1, 2, 2**62], len(axes))
        # onnxruntime takes this end of a backward slice for the first element.
        ends[(steps < 0) & (ends == _LIMITS[1])] = 0
        axes -= rng.choice([0, rank], len(axes))
        operands = [_floats(*shape), starts, ends, axes, steps]
        node_model("Slice", operands, range(1, 5)).check()


def test_slices_without_axes_and_steps() -> None:
    operands = [_floats(4, 5), integers(1, -2), integers(-1, 2**62)]
    node_model("Slice", operands, [1, 2]).check()


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    "pads", [(1, 2, 2, 1), (-1, 2, 1, -1), (0, 1, 0, 0), (-1, -1, -1, -1)], ids=str
)
def test_pads_equal_those_of_onnxruntime(mode: str, pads: tuple[int, ...]) -> None:
    operands = [_floats(4, 2, 5), integers(*pads), None, integers(-1, 0)]
    node_model("Pad", operands, [1, 3], opset=19, mode=mode).check()
    operands = [_floats(4, 5), integers(*pads)]
    node_model("Pad", operands, [1], opset=19, mode=mode).check()


@pytest.mark.parametrize("fill", [np.float32(2.5), np.bool_(True), np.int64(-3)])
def test_pads_with_a_value(fill: Any) -> None:
    x = _floats(2, 3).astype(fill.dtype)
    operands = [x, integers(0, 1, 2, 0), np.array(fill)]
    node_model("Pad", operands, [1], opset=13).check()
    node_model("Pad", operands[:2], [1], opset=13).check()


def test_shapes_change_as_in_onnxruntime() -> None:
    rng = np.random.default_rng(3)
    for shape in _shapes(4, 6):
        x, rank = _floats(*shape), len(shape)
        for axis in range(-rank, rank + 1):
            node_model("Flatten", [x], axis=axis).check()
        requested = [0 if rng.integers(2) else size for size in shape]
        requested[rng.integers(rank)] = -1
        node_model("Reshape", [x, integers(*requested)], [1]).check()
        permutation = rng.permutation(rank).tolist()
        node_model("Transpose", [x], perm=permutation).check()
        node_model("Tile", [x, rng.integers(0, 4, rank)], [1]).check()
        target = [2, *rng.choice([1, shape[0]], 1), *[1] * (rank - 1)]
        node_model("Expand", [x, integers(*target)], [1]).check()
        node_model("Concat", [x, x + 1, x], axis=-rank).check()


def test_tiles_along_one_dimension() -> None:
    # As PyTorch repeats heads; TensorFlow Lite broadcasts at most 8 dimensions.
    model = node_model("Tile", [_floats(1, 2, 1, 3, 4), integers(1, 1, 2, 1, 1)], [1])
    model.check()
    assert "reshape" not in str(model.module())


@pytest.mark.parametrize("opset", [11, 18])
def test_dimensions_of_size_1_are_dropped_and_added(opset: int) -> None:
    x = _floats(1, 3, 1, 2)
    axes: dict[str, Any] = {}
    operands = [x, integers(-2, 0)]
    if opset < 13:
        operands, axes = [x], {"axes": [-2, 0]}
    node_model(
        "Squeeze", operands, [*range(1, len(operands))], opset=opset, **axes
    ).check()
    node_model(
        "Unsqueeze", operands, [*range(1, len(operands))], opset=opset, **axes
    ).check()
    node_model("Squeeze", [x], opset=opset).check()


def test_splits_equal_those_of_onnxruntime() -> None:
    x = _floats(5, 4)
    node_model("Split", [x], results=3, num_outputs=3).check()
    node_model("Split", [x], axis=-1, results=3, num_outputs=3).check()
    node_model("Split", [x, integers(4, 0, 1)], [1], results=3).check()
    node_model("Split", [x], opset=11, axis=1, split=[1, 3], results=2).check()
    node_model("Split", [x], opset=11, axis=1, results=2).check()


@pytest.mark.parametrize("bounds", [(None, None), (1, None), (-2, 9), (2, -1), (3, 1)])
def test_shape_selects_sizes(bounds: tuple[int | None, int | None]) -> None:
    names = ("start", "end")
    given: dict[str, Any] = {
        name: bound
        for name, bound in zip(names, bounds, strict=True)
        if bound is not None
    }
    node_model("Shape", [_floats(2, 3, 4)], **given).check()


@pytest.mark.parametrize("upper", [0, 1])
def test_triangles_equal_those_of_onnxruntime(upper: int) -> None:
    for offset in (-3, -1, 0, 1, 5):
        operands = [_floats(2, 3, 4), np.array(offset)]
        node_model("Trilu", operands, upper=upper).check()
        node_model("Trilu", operands, [1], upper=upper).check()
    for dtype in (np.bool_, np.int64):
        node_model("Trilu", [_floats(3, 2).astype(dtype)], upper=upper).check()


def test_matrices_of_ones_on_a_diagonal() -> None:
    for offset, dtype in ((0, 1), (-1, 7), (2, 6)):
        node_model("EyeLike", [_floats(3, 4)], k=offset, dtype=dtype).check()
    node_model("EyeLike", [_floats(3, 4)]).check()


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_vectors_have_no_value_for_indices_out_of_range(
    dtype: Any, axis: int
) -> None:
    indices = np.array([[0, 2, -1], [-3, 3, -4]]).astype(dtype)
    values = np.array([5, 7], np.float32)
    operands = [indices, np.array(3, dtype), values]
    node_model("OneHot", operands, [1], axis=axis).check()
    node_model("OneHot", operands, [0, 1, 2], axis=axis).check()


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_move_between_channels_and_space(mode: str) -> None:
    x = _floats(2, 8, 2, 6)
    node_model("DepthToSpace", [x], blocksize=2, mode=mode).check()
    node_model("SpaceToDepth", [x], blocksize=2).check()


def test_crops_and_pads_are_centered() -> None:
    for sizes in ((3, 8), (4, 7), (5, 5), (1, 10)):
        operands = [_floats(5, 2, 7), integers(*sizes)]
        node_model("CenterCropPad", operands, [1], axes=[0, -1]).check()


@pytest.mark.parametrize(
    "numbers", [(0, 9000, 2), (10, -20000, -3), (1.5, 700, 0.1), (5, 1, 1)], ids=str
)
def test_ranges_too_long_to_fold(numbers: tuple[float, float, float]) -> None:
    dtype = np.int64 if isinstance(numbers[0], int) else np.float32
    operands = [np.array(number, dtype) for number in numbers]
    # onnxruntime adds up rounded steps.
    node_model("Range", operands, [0, 1, 2]).check(rtol=1e-4)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value_float": 1.5}, np.array(1.5, np.float32)),
        ({"value_floats": [1.0, 2.0]}, np.array([1, 2], np.float32)),
        ({"value_int": -3}, np.array(-3)),
        ({"value_ints": [4, 5]}, np.array([4, 5])),
        ({"value": onnx.numpy_helper.from_array(np.ones((1, 2)))}, np.ones((1, 2))),
    ],
    ids=str,
)
def test_constants_of_all_forms(attributes: dict[str, Any], expected: Array) -> None:
    model = node_model("Constant", [], **attributes)
    (result,) = run_function(model.module(), None)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_large_constants_of_shape_are_not_folded() -> None:
    value = onnx.numpy_helper.from_array(np.array([7], np.int32))
    model = node_model("ConstantOfShape", [integers(90, 100)], [0], value=value)
    model.check()
    model = node_model("ConstantOfShape", [integers(2**40)], [0])
    assert "tensor<1099511627776xf32>" in str(model.module())


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.float16, np.int32])
def test_element_types_are_kept(dtype: Any) -> None:
    x = (_floats(2, 3) % 2).astype(dtype)
    node_model("Transpose", [x]).check()
    node_model("Concat", [x, x], axis=1).check()
    node_model("Expand", [x, integers(2, 1, 1)], [1]).check()
    steps = [integers(0), integers(-9), integers(1), integers(-1)]
    node_model("Slice", [x, integers(-1), *steps[1:]], range(1, 5)).check()


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes"),
    [
        (
            "Slice",
            [integers(3, -1), integers(0, -9), integers(0, 1), integers(-2, -1)],
            {},
        ),
        ("Pad", [integers(1, 0, 2, 3)], {"mode": "edge"}),
        ("Tile", [integers(2, 3)], {}),
        ("Trilu", [np.array(1)], {}),
    ],
)
def test_data_movement_is_compiled(
    op_type: str, operands: Sequence[Array], attributes: dict[str, Any]
) -> None:
    constants = range(1, len(operands) + 1)
    model = node_model(op_type, [_floats(4, 5), *operands], constants, **attributes)
    model.check(compiled=True)


_X = _floats(2, 3)


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes", "message"),
    [
        (
            "Reshape",
            [_X, integers(4, -1)],
            {},
            "cannot reshape [2x3] to [4, -1]; expected equal element counts",
        ),
        (
            "Reshape",
            [_X, integers(-1, -1)],
            {},
            "cannot reshape [2x3] to [-1, -1]; expected equal element counts",
        ),
        ("Squeeze", [_X, integers(0)], {}, "axis 0 has size 2; expected 1"),
        ("Squeeze", [_X, integers(2)], {}, "axis 2 is out of range for rank 2"),
        ("Unsqueeze", [_X, integers(0, -4)], {}, "axes [0, -4] have duplicates"),
        (
            "Expand",
            [_X, integers(2, 2)],
            {},
            "shapes 2x3 and 2x2 cannot be broadcast together",
        ),
        ("Expand", [_X, integers(-2, 3)], {}, "shape -2x3 has a negative size"),
        (
            "Tile",
            [_X, integers(2)],
            {},
            "repeats are [2]; expected 2 non-negative numbers",
        ),
        (
            "Split",
            [_X, integers(2, 2)],
            {"axis": 1},
            "cannot split size 3 into [2, 2] for 2 results",
        ),
        (
            "Split",
            [_X],
            {"axis": 1, "opset": 13},
            "cannot split size 3 into 2 equal parts",
        ),
        (
            "Slice",
            [_X, integers(0), integers(1), integers(0), integers(0)],
            {},
            "cannot slice with starts [0], ends [1], axes [0] and steps [0]",
        ),
        ("Pad", [_X, integers(1, 2)], {}, "has 2 pads; expected 4"),
        (
            "Pad",
            [_X, integers(0, 3, 0, 0)],
            {"mode": "reflect"},
            "cannot pad axis 1 of size 3 by 3 and 0 in mode 'reflect'",
        ),
        (
            "Pad",
            [_X, integers(2**40, 0, 0, 0)],
            {"mode": "edge"},
            "needs a constant of 1099511627778 elements; expected at most 16777216",
        ),
        (
            "Pad",
            [_X, integers(1, 0, 0, 0)],
            {"mode": "mirror"},
            "unknown mode 'mirror'; expected constant, reflect, edge or wrap",
        ),
        ("DepthToSpace", [_X], {"blocksize": 2}, "operand has rank 2; expected 4"),
        (
            "DepthToSpace",
            [_floats(1, 6, 2, 2)],
            {"blocksize": 2},
            "6 channels are not divisible by 2 squared",
        ),
        (
            "SpaceToDepth",
            [_floats(1, 6, 2, 3)],
            {"blocksize": 2},
            "size 2x3 is not divisible by 2",
        ),
        ("Trilu", [_floats(3)], {}, "operand has rank 1; expected a matrix"),
    ],
)
def test_invalid_nodes_are_refused(
    op_type: str, operands: Sequence[Array], attributes: dict[str, Any], message: str
) -> None:
    results = 2 if op_type == "Split" else 1
    constants = range(1, len(operands))
    model = node_model(op_type, operands, constants, results=results, **attributes)
    assert refusal(model) == f"node 'y0' ({op_type}): {message}"


def test_sizes_that_depend_on_data_are_refused() -> None:
    model = node_model("Reshape", [_X, integers(6)])
    assert refusal(model) == (
        "node 'y0' (Reshape): sizes depend on data or on unknown sizes; set the sizes of "
        "the inputs, e.g. with --shape"
    )


def test_constants_of_strings_are_refused() -> None:
    model = node_model("Constant", [], value_string="a")
    assert refusal(model) == (
        "node 'y0' (Constant): unsupported constant: found 'value_string'; expected "
        "'value', 'value_float', 'value_floats', 'value_int', 'value_ints'"
    )


def test_ranges_without_end_are_refused() -> None:
    operands = [np.float32(0), np.float32(np.inf), np.float32(1)]
    model = node_model("Range", [np.array(number) for number in operands], [0, 1, 2])
    assert refusal(model) == (
        "node 'y0' (Range): range from 0.0 to inf with step 1.0 has no finite element count"
    )


def test_results_with_too_many_elements_are_refused() -> None:
    model = node_model("Tile", [_X, integers(2**40, 2**40)], [1])
    assert refusal(model) == (
        "node 'y0' (Tile): result [2199023255552x3298534883328] has too many elements"
    )
