"""Blocked quantization, and onnx's evaluator."""

import re
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from xdsl_quant.numerics.formats import QuantizeLinear

from .answers import Array, count_differing, drawn_values

_TYPES = {
    "i8": "INT8",
    "u8": "UINT8",
    "i4": "INT4",
    "u4": "UINT4",
    "i16": "INT16",
    "u16": "UINT16",
    "f8E4M3FN": "FLOAT8E4M3FN",
    "f8E5M2": "FLOAT8E5M2",
}


def evaluated(stored_type: str, axis: int, block: int, *arrays: Array) -> list[Array]:
    """Elements and dequantized values by onnx's evaluator."""
    onnx: Any = import_module("onnx")
    helper, types = onnx.helper, onnx.TensorProto
    element = getattr(types, _TYPES[stored_type])
    values, scales, zero_points = arrays
    zero = onnx.numpy_helper.from_array(scales, "s")
    points = helper.make_tensor(
        "z",
        element,
        zero_points.shape,
        zero_points.astype(np.float32).ravel().tolist()
        if stored_type.startswith("f")
        else zero_points.astype(int).ravel().tolist(),
    )
    attributes: Any = {"axis": axis, "block_size": block}
    graph = helper.make_graph(
        [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], **attributes),
            helper.make_node("DequantizeLinear", ["y", "s", "z"], ["d"], **attributes),
        ],
        "blocks",
        [helper.make_tensor_value_info("x", types.FLOAT, values.shape)],
        [
            helper.make_tensor_value_info("y", element, values.shape),
            helper.make_tensor_value_info("d", types.FLOAT, values.shape),
        ],
        [zero, points],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )
    evaluator = import_module("onnx.reference").ReferenceEvaluator(model)
    return evaluator.run(None, {"x": values})


@pytest.mark.filterwarnings("ignore:.* stores values as zeros:RuntimeWarning")
@pytest.mark.parametrize("stored_type", _TYPES)
@pytest.mark.parametrize(
    ("axis", "block"), [(1, 32), (0, 16), (1, 24), (-1, 5), (0, 999)]
)
def test_evaluator(stored_type: str, axis: int, block: int):
    random = np.random.default_rng(0)
    values = drawn_values(random, 128)
    # The evaluator has quotients as i32, which must not overflow.
    values = values[np.abs(values).max(-1) < 1e7]
    format = QuantizeLinear("QuantizeLinear", stored_type, block, axis)
    for scales in (None, 2.0 ** random.integers(-6, 3, values.shape)):
        if scales is None:
            stored = format.quantize(values)
        else:
            counts = format.quantize(values).scales.shape
            chosen = scales[: counts[0], : counts[1]].astype(np.float32)
            points = random.integers(-8 if stored_type[0] == "i" else 0, 8, counts)
            points *= stored_type[0] != "f"
            stored = format.quantize(values, chosen, points)
        points = np.zeros(stored.scales.shape)
        if stored.zero_points is not None:
            points = stored.zero_points.codes
        found = stored.codes, stored.dequantize()
        with np.errstate(all="ignore"):
            expected = evaluated(
                stored_type, axis, block, values, stored.scales.codes, points
            )
        is_float = stored_type.startswith("f")
        dtype = stored.codes.dtype
        elements = expected[0].view(dtype) if is_float else expected[0].astype(dtype)
        assert count_differing(found[0], elements) == 0
        assert count_differing(found[1], expected[1]) == 0


@pytest.mark.parametrize("stored_type", [*_TYPES, "f4E2M1FN"])
@pytest.mark.parametrize("shape", [(6,), (3, 5), (2, 3, 7)])
def test_packed_and_unpacked(stored_type: str, shape: tuple[int, ...]):
    format = QuantizeLinear("QuantizeLinear", stored_type, 4)
    stored = format.quantize(np.random.default_rng(0).normal(size=shape))
    packed = format.pack(stored)
    if stored_type in ("i4", "u4", "f4E2M1FN"):
        assert packed["y"].shape == (-(-stored.codes.size // 2),)
    again = format.unpack(packed)
    assert again.codes.dtype == stored.codes.dtype
    np.testing.assert_array_equal(again.codes, stored.codes)
    np.testing.assert_array_equal(again.dequantize(), stored.dequantize())


def test_zeros():
    for stored_type in ("i8", "u8", "f8E5M2"):
        format = QuantizeLinear("QuantizeLinear", stored_type, 4)
        assert not format.quantize(np.zeros((2, 6))).dequantize().any()


@pytest.mark.parametrize(
    ("stored_type", "values", "scales", "zero_points"),
    [
        ("i8", [-254, 1, 0, 127, 0, 0, 50], [2, 1, 1, 50 / 127], None),
        ("f4E2M1FN", [-12, 1, 0, 6, 0, 0, 3], [2, 1, 1, 0.5], None),
        ("f8E4M3FNUZ", [-480, 1, 0, 240, 0, 0, 120], [2, 1, 1, 0.5], None),
        ("u4", [-15, 15, 0, 15, 0, 0, 30, 15], [2, 1, 1, 2], [8, 0, 0, 0]),
        ("u4", [-15, 0, -30, -15, 1, 0], [1, 2, 1 / 15], [15, 15, 0]),
    ],
)
def test_chosen_parameters(
    stored_type: str,
    values: list[float],
    scales: list[float],
    zero_points: list[int] | None,
):
    stored = QuantizeLinear("QuantizeLinear", stored_type, 2).quantize(values)
    assert stored.scales.codes.tolist() == np.array(scales, np.float32).tolist()
    if zero_points is None and stored.zero_points is not None:
        zero_points = [0] * len(scales)
    points = stored.zero_points and stored.zero_points.codes.tolist()
    assert points == zero_points


def test_zero_points_for_chosen_scales():
    format = QuantizeLinear("QuantizeLinear", "u8", 2)
    stored = format.quantize([0, 255, 1, -50], zero_points=[7, 2])
    assert stored.scales.codes.tolist() == [1, np.float32(0.2)]
    assert stored.codes.tolist() == [7, 255, 7, 0]


def test_quotients_that_f32_does_not_hold():
    format = QuantizeLinear("QuantizeLinear", "i8", 2)
    stored = format.quantize([3e38, -3e38], [1e-38])
    assert stored.codes.tolist() == [127, -128]


def test_scale_that_is_rounded_down():
    """21 units of f32 divided by 15 are one unit."""
    values = np.ldexp([-21.0, 0], -149)
    stored = QuantizeLinear("QuantizeLinear", "u4", 2).quantize(values)
    assert stored.scales.codes.tolist() == [2.0**-149]
    assert stored.zero_points is not None
    assert stored.zero_points.codes.tolist() == [15]


def test_values_that_are_not_finite():
    message = "^expected finite values for QuantizeLinear, found inf$"
    with pytest.raises(ValueError, match=message):
        QuantizeLinear("QuantizeLinear", "i8", 4).quantize([np.inf])


def test_range_of_f32():
    largest = np.finfo(np.float32).max
    format = QuantizeLinear("QuantizeLinear", "u8", 4)
    stored = format.quantize([largest, -largest])
    assert stored.scales.codes == np.float32(2 * (largest / 255))
    assert stored.codes.tolist() == [255, 0]


def test_axis():
    with pytest.raises(
        ValueError, match="with axis 1 for QuantizeLinear, found rank 1"
    ):
        QuantizeLinear("QuantizeLinear", "i8", 4, 1).quantize([1.0])


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        (
            [1.0],
            "expected scales of shape (2,) for values of shape (5,) in blocks of shape "
            "(4,), found shape (1,)",
        ),
        ([1.0, 0.0], "expected positive finite scales, found 0.0 at index 1"),
        ([np.nan, 1], "expected positive finite scales, found nan at index 0"),
        ([np.inf, 1], "expected positive finite scales, found inf at index 0"),
    ],
    ids=["shape", "zero", "NaN", "infinite"],
)
def test_scales(scales: list[float], message: str):
    format = QuantizeLinear("QuantizeLinear", "i8", 4)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        format.quantize(np.zeros(5), scales)


@pytest.mark.parametrize(
    ("zero_points", "message"),
    [
        ([1], "expected zero points of shape (2,), found shape (1,)"),
        (
            [1, 128],
            "zero point 128 at index 1 is not representable in 'i8'; expected -128 to 127",
        ),
        (
            [-129, 0],
            "zero point -129 at index 0 is not representable in 'i8'; expected -128 to 127",
        ),
    ],
    ids=["shape", "too large", "too small"],
)
def test_zero_points(zero_points: list[int], message: str):
    format = QuantizeLinear("QuantizeLinear", "i8", 4)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        format.quantize(np.zeros(5), [1, 1], zero_points)


def test_zero_points_of_floats():
    format = QuantizeLinear("QuantizeLinear", "f8E5M2", 4)
    with pytest.raises(
        ValueError,
        match="unsupported zero points for QuantizeLinear with elements of type f8E5M2",
    ):
        format.quantize(np.zeros(5), [1, 1], [1, 0])


@pytest.mark.parametrize("zero_points", [[0.5, 0], [np.nan, 0], ["a", "b"]])
def test_zero_points_that_are_no_integers(zero_points: Any):
    format = QuantizeLinear("QuantizeLinear", "i8", 4)
    with pytest.raises(
        TypeError, match="expected integers as zero points, found dtype"
    ):
        format.quantize(np.zeros(5), [1, 1], zero_points)


def test_scales_that_f32_does_not_hold():
    format = QuantizeLinear("QuantizeLinear", "i8", 4)
    for scale in (1e60, 1e-60):
        with pytest.raises(ValueError, match="expected positive finite scales"):
            format.quantize(np.zeros(5), [1, scale])
    with pytest.raises(TypeError, match="expected numbers as scales, found dtype <U1"):
        format.quantize(np.zeros(5), np.array(["a", "b"]))


@pytest.mark.parametrize("stored_type", ["i32", "i1", "f8E8M0FNU", "f6E2M3FN", "f7"])
def test_types_that_onnx_lacks(stored_type: str):
    message = (
        f"unknown element type '{stored_type}', available: i4, u4, i8, u8, i16, u16, "
        "f8E4M3FN, f8E4M3FNUZ, f8E5M2, f8E5M2FNUZ, f4E2M1FN"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        QuantizeLinear("QuantizeLinear", stored_type, 4)
