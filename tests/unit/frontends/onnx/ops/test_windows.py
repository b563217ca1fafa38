"""Pooling compared with onnxruntime, for what ONNX's node cases do not cover."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import DTypeLike

from tests.unit.frontends.onnx.import_errors import import_error
from tests.unit.frontends.onnx.onnxruntime_results import check_node, node_model
from tests.unit.frontends.onnx.quantized_models import Graph
from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx
from xdsl_quant.numerics.arrays import Array


def _images(*shape: int, dtype: DTypeLike = np.float32) -> Array:
    values = np.random.default_rng([*shape]).normal(size=shape)
    return (values * 40 if np.dtype(dtype).kind == "i" else values).astype(dtype)


def _attributes(seed: int, rank: int) -> dict[str, Any]:
    """Draw windows, and padding smaller than the windows."""
    random = np.random.default_rng(seed)
    kernel: list[int] = random.integers(1, 4, rank).tolist()
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": random.integers(1, 4, rank).tolist(),
        "ceil_mode": int(random.integers(2)),
    }
    if random.random() < 0.3:
        attributes["auto_pad"] = str(
            random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        )
        # onnxruntime computes negative padding for larger strides.
        strides = attributes["strides"]
        attributes["strides"] = [*map(min, strides, kernel)]
        return attributes
    attributes["pads"] = [int(random.integers(0, size)) for size in kernel * 2]
    attributes["dilations"] = random.integers(1, 3, rank).tolist()
    return attributes


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
def test_pooling(op_type: str, seed: int) -> None:
    rank = seed % 3 + 1
    attributes = _attributes(seed, rank)
    if op_type == "AveragePool":
        attributes["count_include_pad"] = seed // 3 % 2
    if op_type == "LpPool":
        attributes["p"] = seed // 3 % 3 + 1
    image = _images(2, 2, *(9, 8, 7)[:rank])
    check_node(op_type, image, rtol=1e-5, atol=1e-6, **attributes)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_positions_of_maxima(seed: int) -> None:
    """Few values, so that many maxima are equal; and images of the smallest one."""
    rank = seed % 3 + 1
    shape = (2, 3, *(7, 6, 5)[:rank])
    image = np.random.default_rng(seed).integers(-3, 3, shape)
    image = image.astype(np.float32 if seed % 2 else np.int8)
    if seed == 5:
        image[...] = -np.inf
    order = seed // 3 % 2
    attributes = _attributes(seed, rank)
    check_node("MaxPool", image, result_count=2, storage_order=order, **attributes)


def test_compiled_positions_of_maxima() -> None:
    attributes: dict[str, Any] = {
        "kernel_shape": [2, 2],
        "pads": [1, 0, 0, 1],
        "strides": [2, 1],
    }
    image = _images(1, 2, 5, 4)
    check_node("MaxPool", image, result_count=2, is_compiled=True, **attributes)


def test_unsupported_positions_of_maxima() -> None:
    image, window = _images(1, 1, 20, 20), [17, 17]
    model = node_model(
        "MaxPool",
        {"x": image},
        operands=["x"],
        results=["y", "i"],
        kernel_shape=window,
    )
    with pytest.raises(ONNXFileError) as error:
        read_onnx(model)
    assert str(error.value).endswith(
        "result 'Indices' of windows of 289 elements; expected at most 256"
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_max_pool_of_integers(dtype: DTypeLike) -> None:
    image = np.arange(256).astype(dtype).reshape(1, 1, 16, 16)
    check_node("MaxPool", image, kernel_shape=[3, 2], pads=[1, 1, 1, 0], strides=[2, 2])


@pytest.mark.parametrize(
    "op_type", ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"]
)
@pytest.mark.parametrize("rank", [1, 3])
def test_global_pooling(op_type: str, rank: int) -> None:
    attributes: dict[str, Any] = {"p": 3} if op_type == "GlobalLpPool" else {}
    check_node(op_type, _images(2, 3, *(5, 4, 3)[:rank]), rtol=1e-5, **attributes)


def test_sums_of_narrow_floats() -> None:
    """Sums that f16 cannot represent are computed with f32."""
    image = np.full((1, 1, 40, 40), 100, np.float16)
    check_node("GlobalAveragePool", image)
    check_node("AveragePool", image, kernel_shape=[40, 40])


def test_compiled_pooling() -> None:
    image = _images(1, 3, 7, 6)
    window: dict[str, Any] = {
        "kernel_shape": [3, 2],
        "strides": [2, 2],
        "pads": [1, 0, 1, 1],
    }
    check_node("MaxPool", image, is_compiled=True, ceil_mode=1, **window)
    check_node("AveragePool", image, is_compiled=True, rtol=1e-5, ceil_mode=1, **window)
    check_node("GlobalAveragePool", image, is_compiled=True, rtol=1e-5)


def test_errors() -> None:
    image = _images(1, 1, 4, 4)
    assert import_error("MaxPool", image, kernel_shape=[2]) == (
        "has windows of rank 1 in images of rank 2"
    )
    assert import_error("AveragePool", image, kernel_shape=[2, 2], pads=[1, 1]) == (
        "attribute 'pads' has 2 values; expected 4"
    )


@pytest.mark.parametrize(
    ("shape", "sizes", "pads", "message"),
    [
        ((1, 5, 5), [], [], "has columns of rank 3 and 0 image sizes"),
        ((5, 5), [5, 5], [], "has columns of rank 2 and 2 image sizes"),
        ((1, 5, 5), [5, 5], [0, 0, 0], "attributes of different lengths"),
    ],
)
def test_columns_without_an_image(
    shape: Sequence[int], sizes: Sequence[int], pads: Sequence[int], message: str
):
    graph = Graph()
    x = graph.argument(np.zeros(shape, np.float32))
    operands = [np.array(sizes, np.int64), np.array([1, 5], np.int64)]
    attributes: dict[str, Any] = {"pads": pads} if pads else {}
    graph.node("Col2Im", [x, *map(graph.constant, operands)], **attributes)
    with pytest.raises(ONNXFileError, match=message):
        read_onnx(graph.model((1, 1, 5, 5)))
