"""onnxruntime's ops of optimized transformers, compared with onnxruntime."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.unit.frontends.onnx.onnxruntime_results import runtime_results
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array


def _check(
    op_type: str,
    *shapes: Sequence[int],
    results: Sequence[str] = ("y",),
    **attributes: Any,
) -> None:
    """Compare a node with an unknown batch."""
    random = np.random.default_rng(0)
    arrays: dict[str, Array] = {
        f"x{i}": random.normal(size=shape).astype(np.float32)
        for i, shape in enumerate(shapes)
    }
    node = helper.make_node(
        op_type, [*arrays], results, domain="com.microsoft", **attributes
    )
    value = helper.make_tensor_value_info
    inputs = [
        value(
            name,
            TensorProto.FLOAT,
            ["N" if array.ndim > 2 else len(array), *array.shape[1:]],
        )
        for name, array in arrays.items()
    ]
    outputs = [
        value(name, TensorProto.FLOAT, [None] * 3) for name in filter(None, results)
    ]
    model: onnx.ModelProto = helper.make_model(
        helper.make_graph([node], "graph", inputs, outputs),
        opset_imports=[
            helper.make_opsetid("", 17),
            helper.make_opsetid("com.microsoft", 1),
        ],
        ir_version=10,
    )
    content: bytes = model.SerializeToString()
    found = run_function(read_onnx(content), None, *arrays.values())
    for result, expected in zip(found, runtime_results(content, arrays), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2e-6)


_X = 2, 3, 8


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes"),
    [
        ("Gelu", [_X], {}),
        ("BiasGelu", [_X, (8,)], {}),
        ("FastGelu", [_X], {}),
        ("FastGelu", [_X, (8,)], {}),
        ("QuickGelu", [_X], {}),
        ("QuickGelu", [_X], {"alpha": 0.5}),
        ("FusedMatMul", [_X, (8, 4)], {"alpha": 0.25}),
        ("FusedMatMul", [_X, (2, 5, 8)], {"transB": 1}),
        ("FusedMatMul", [_X, (2, 3, 5)], {"transA": 1, "alpha": 2.0}),
        ("SkipLayerNormalization", [_X, _X, (8,), (8,), (8,)], {"epsilon": 1e-5}),
        ("SkipLayerNormalization", [_X, _X, (8,)], {}),
        ("SkipSimplifiedLayerNormalization", [_X, _X, (8,)], {"epsilon": 1e-6}),
    ],
)
def test_ops(op_type: str, shapes: list[Sequence[int]], attributes: dict[str, Any]):
    _check(op_type, *shapes, **attributes)


def test_sum_of_a_skip_normalization():
    results = "y", "", "", "sum"
    _check("SkipSimplifiedLayerNormalization", _X, _X, (8,), (8,), results=results)
