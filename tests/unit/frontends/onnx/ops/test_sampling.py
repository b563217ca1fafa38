"""Sampling and Fourier transforms, interpreted and compiled; the node tests have more."""

from typing import Any

import numpy as np
import pytest

from tests.unit.frontends.onnx.node_models import NodeModel, node_model, refusal
from xdsl_quant.numerics.arrays import Array


def _floats(*shape: int, low: float = -1.5, high: float = 1.5) -> Array:
    random = np.random.default_rng([*shape])
    return random.uniform(low, high, shape).astype(np.float32)


_REGIONS = np.array([[0, 1, 4, 3], [-3, 2, 9, 9], [2, 2, 2.2, 2.1]], np.float32)


def _roi_align(**attributes: Any) -> NodeModel:
    return node_model(
        "RoiAlign",
        [_floats(2, 3, 5, 6), _REGIONS, np.array([1, 0, 1])],
        opset=16,
        output_height=2,
        output_width=3,
        **attributes,
    )


_MODELS = {
    mode: node_model(
        "GridSample",
        [_floats(2, 3, 5, 4), _floats(2, 3, 6, 2)],
        opset=20,
        mode=mode,
        padding_mode=padding_mode,
        align_corners=int(padding_mode == "border"),
    )
    for mode, padding_mode in (
        ("cubic", "border"),
        ("nearest", "border"),
        ("linear", "reflection"),
    )
} | {
    "regions": _roi_align(sampling_ratio=2, spatial_scale=0.9),
    "maxima of regions": _roi_align(
        mode="max",
        sampling_ratio=3,
        coordinate_transformation_mode="output_half_pixel",
    ),
    "all samples of regions": _roi_align(),
    "maxima of all samples": _roi_align(mode="max", spatial_scale=0.9),
    "DFT": node_model("DFT", [_floats(2, 6, 3, 2), np.array(7)], [1], opset=17, axis=1),
    "STFT": node_model(
        "STFT",
        [_floats(2, 20, 1), np.array(3), _floats(8), np.array(8)],
        [1, 3],
        opset=17,
    ),
}


@pytest.mark.parametrize("name", _MODELS)
def test_results_of_onnxruntime(name: str):
    compiled = name in ("linear", "DFT", "regions")
    _MODELS[name].check(rtol=1e-5, atol=3e-6, compiled=compiled)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            node_model("RoiAlign", [_floats(2, 3, 5), _REGIONS, np.array([1, 0, 1])]),
            "has images of rank 1; expected 2",
        ),
        (
            node_model("DFT", [_floats(2, 6, 3)], opset=17),
            "has numbers of 3 parts; expected 1 or 2",
        ),
        (
            node_model(
                "GridSample", [_floats(1, 1, 5, 4), _floats(1, 2, 2, 2)], mode="spline"
            ),
            "unknown mode 'spline'; expected one of bicubic, bilinear, cubic",
        ),
    ],
)
def test_refusals(model: NodeModel, message: str):
    assert message in refusal(model)
