"""The op `Quant` of QONNX, compared with its definition."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.frontends.onnx.quantized_models import Graph
from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array

_X = np.random.default_rng(0).normal(size=(2, 3, 40)).astype(np.float32)


def _graph(
    x: Array, scale: Array, zero_point: float, bits: float, **attributes: Any
) -> Graph:
    graph = Graph()
    operands = [
        graph.argument(x),
        graph.constant(scale),
        graph.constant(np.array(zero_point, np.float32)),
        graph.constant(np.array(bits, np.float32)),
    ]
    graph.node("qonnx.custom_op.general.Quant", operands, **attributes)
    return graph


@pytest.mark.parametrize("shape", [(), (3, 1)])
@pytest.mark.parametrize(
    ("bits", "zero_point", "attributes", "ends"),
    [
        (8, 0, {"signed": 1, "narrow": 1}, (-127, 127)),
        (4, 0, {"signed": 1, "narrow": 0}, (-8, 7)),
        (3, 2, {"signed": 0, "narrow": 1}, (0, 6)),
        (12, 0, {"signed": 1}, (-2048, 2047)),
    ],
)
def test_definition(
    shape: Sequence[int],
    bits: int,
    zero_point: int,
    attributes: dict[str, int],
    ends: tuple[int, int],
):
    scale = np.random.default_rng(1).uniform(0.01, 0.1, shape).astype(np.float32)
    graph = _graph(_X, scale, zero_point, bits, **attributes)
    module = read_onnx(graph.model(_X.shape))
    (result,) = run_function(module, None, _X)
    stored = np.rint(np.clip(_X / scale + zero_point, *ends))
    np.testing.assert_array_equal(result, (stored - zero_point) * scale)
    assert "quant.scast" not in str(module)


@pytest.mark.parametrize(
    ("bits", "zero_point", "attributes", "message"),
    [
        (1, 0, {}, "bit width is 1; expected an integer from 2 to 16"),
        (4, 1, {}, "has odd or fractional zero points; expected even numbers"),
        (8, 200, {}, "has zero points out of range; expected -128 to 127"),
        (8, -2, {"signed": 0}, "has zero points out of range; expected 0 to 255"),
        (
            4,
            0,
            {"rounding_mode": "CEIL"},
            "unknown rounding_mode 'CEIL'; expected ROUND",
        ),
    ],
)
def test_refusals(bits: int, zero_point: int, attributes: dict[str, Any], message: str):
    graph = _graph(_X, np.array(0.5, np.float32), zero_point, bits, **attributes)
    with pytest.raises(ONNXFileError, match=message):
        read_onnx(graph.model(_X.shape))


@pytest.mark.parametrize("scale", [-0.5, 0, np.inf, np.nan, 1e-45])
def test_scales_without_a_quantized_type(scale: float):
    graph = _graph(_X, np.array(scale, np.float32), 0, 4)
    with pytest.raises(
        ONNXFileError, match="has unsupported scales; expected positive"
    ):
        read_onnx(graph.model(_X.shape))
