"""Normalization ops, compared with onnxruntime where node cases do not reach."""

import numpy as np
import pytest

from tests.unit.frontends.onnx.onnxruntime_results import (
    check_node,
    drawn,
    import_error,
    node_model,
)
from xdsl_quant.frontends.onnx import read_onnx

STATISTICS = [drawn((3,), seed=seed) for seed in range(4)]


@pytest.mark.parametrize("opset", [9, 14, 15])
@pytest.mark.parametrize("constants", [(), (1, 2, 3, 4), (1, 2)])
def test_batch_normalization(opset: int, constants: tuple[int, ...]):
    for shape in ((2, 3), (2, 3, 4, 5)):
        check_node(
            "BatchNormalization",
            drawn(shape),
            *STATISTICS,
            constants=constants,
            opset=opset,
            epsilon=1e-3,
            atol=1e-6,
        )


def test_constant_batch_normalization_multiplies_and_adds():
    names = ["scale", "bias", "mean", "variance"]
    model = node_model(
        "BatchNormalization",
        {"x": drawn((2, 3, 4))},
        operands=["x", *names],
        constants=dict(zip(names, STATISTICS, strict=True)),
    )
    names = [op.name for op in read_onnx(model).walk()]
    assert [name for name in names if name.startswith("stablehlo.")] == [
        *("stablehlo.constant", "stablehlo.constant"),
        *("stablehlo.broadcast_in_dim", "stablehlo.broadcast_in_dim"),
        *("stablehlo.multiply", "stablehlo.add"),
    ]


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 3, 4, 5)])
def test_instance_normalization(shape: tuple[int, ...]):
    check_node(
        "InstanceNormalization", drawn(shape), *STATISTICS[:2], epsilon=1e-2, atol=1e-6
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("has_bias", [False, True])
def test_layer_normalization(axis: int, has_bias: bool):
    x = drawn((2, 3, 4))
    scale, bias = (drawn(x.shape[axis:], seed=seed) for seed in (1, 2))
    check_node(
        "LayerNormalization",
        x,
        scale,
        *([bias] if has_bias else []),
        result_count=3,
        axis=axis,
        epsilon=1e-3,
        atol=1e-6,
        rtol=2e-6,
    )


def test_layer_normalization_of_f16():
    # Sums of squares overflow in f16.
    x = (200 * drawn((2, 64))).astype(np.float16)
    scale, bias = (drawn((64,), np.float16, seed=seed) for seed in (1, 2))
    check_node("LayerNormalization", x, scale, bias, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("shape", [(2, 4, 3, 5), (1, 6, 7), (2, 2)])
def test_group_normalization(shape: tuple[int, ...]):
    scale, bias = (drawn(shape[1:2], seed=seed) for seed in (1, 2))
    check_node(
        "GroupNormalization",
        drawn(shape),
        scale,
        bias,
        num_groups=2,
        rtol=2e-6,
        atol=2e-6,
    )


@pytest.mark.parametrize("axis", [1, -1])
def test_rms_normalization(axis: int):
    x = drawn((2, 3, 4))
    scale = drawn(x.shape[axis:], seed=1)
    check_node("RMSNormalization", x, scale, axis=axis, opset=23, epsilon=1e-3)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_local_response_normalization(size: int):
    check_node("LRN", drawn((2, 5, 3, 2)), size=size, alpha=0.3, beta=0.6, bias=2.0)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, -1])
def test_lp_normalization(p: int, axis: int):
    x = drawn((3, 4)) - np.float32(2)
    x[1] = x[:, 2] = 0
    check_node("LpNormalization", x, p=p, axis=axis)


@pytest.mark.parametrize("axes", [[0, 2, 3], [2, 3]])
def test_mean_variance_normalization(axes: list[int]):
    check_node("MeanVarianceNormalization", drawn((2, 3, 4, 2)), axes=axes, atol=1e-6)


def test_compiled():
    x, scale, bias = drawn((2, 3, 4)), *(drawn((4,), seed=seed) for seed in (1, 2))
    check_node("LayerNormalization", x, scale, bias, is_compiled=True, atol=1e-6)
    check_node("LRN", drawn((2, 5, 3, 2)), size=3, is_compiled=True)
    check_node(
        "BatchNormalization",
        x,
        *STATISTICS,
        constants=(1, 2, 3, 4),
        is_compiled=True,
        atol=1e-6,
    )


def test_errors():
    x, ones = drawn((2, 3, 4)), np.ones(3, np.float32)
    assert import_error("GroupNormalization", x, ones, ones, num_groups=2) == (
        "3 channels cannot be divided into 2 groups; expected a divisor of the number of "
        "channels"
    )
    assert import_error("LpNormalization", x, p=3) == (
        "unsupported norm 3; expected p = 1 or 2"
    )
    assert import_error("LRN", x, size=0) == (
        "window size is 0; expected a positive size"
    )
    assert import_error("InstanceNormalization", ones, ones, ones) == (
        "the operand has rank 1; expected 2 or more, with channels in dimension 1"
    )
    assert import_error("BatchNormalization", x, *STATISTICS, training_mode=1) == (
        "training mode is unsupported; export for inference"
    )
    assert import_error("BatchNormalization", x, *STATISTICS[:3], x) == (
        "scale, bias, mean or variance has not one element per channel"
    )
