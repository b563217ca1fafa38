"""Resize, compared with onnxruntime for drawn sizes, scales and modes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.unit.frontends.onnx.node_models import integers, node_model, refusal
from xdsl_quant.numerics.arrays import Array

_TRANSFORMS = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _floats(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def _operands(
    rng: np.random.Generator, x: Array, *, by_scales: bool
) -> list[Array | None]:
    """Draw operands that resize the last two axes."""
    height, width = x.shape[2:]
    start, end = np.sort(rng.uniform(-0.3, 1.3, (2, 2)), axis=0)
    region = _floats(0, 0, *start, 1, 1, *end)
    if not by_scales:
        sizes = integers(*x.shape[:2], *rng.integers(1, 12, 2))
        return [x, region, None, sizes]
    low = 1 / np.array([height, width])
    scales = np.maximum(rng.choice([0.3, 0.5, 0.75, 1, 1.3, 2, 3.7], 2), low)
    return [x, region, _floats(1, 1, *scales)]


def _drawn(count: int, **attributes: Any) -> Iterator[Any]:
    """Yield models with each coordinate transform."""
    rng = np.random.default_rng(7)
    for transform in _TRANSFORMS * count:
        x = rng.normal(size=(1, 2, *rng.integers(1, 9, 2))).astype(np.float32)
        operands = _operands(rng, x, by_scales=bool(rng.integers(2)))
        yield node_model(
            "Resize",
            operands,
            range(1, len(operands)),
            coordinate_transformation_mode=transform,
            **attributes,
        )


@pytest.mark.parametrize("rounding", _ROUNDINGS)
def test_nearest_elements_are_those_of_onnxruntime(rounding: str) -> None:
    for model in _drawn(2, mode="nearest", nearest_mode=rounding):
        model.check()


@pytest.mark.parametrize(
    "attributes",
    [
        {"mode": "linear", "extrapolation_value": 7.0},
        {"mode": "cubic", "extrapolation_value": 7.0},
        {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
    ],
    ids=str,
)
def test_interpolation_equals_that_of_onnxruntime(attributes: dict[str, Any]) -> None:
    for model in _drawn(2, **attributes):
        model.check(rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("transform", _TRANSFORMS[:-1])
def test_antialiased_filters_equal_those_of_onnxruntime(
    mode: str, transform: str
) -> None:
    x = np.random.default_rng(8).normal(size=(1, 2, 9, 7)).astype(np.float32)
    node_model(
        "Resize",
        [x, None, None, integers(1, 2, 4, 9)],
        [3],
        mode=mode,
        coordinate_transformation_mode=transform,
        antialias=1,
    ).check(rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_sizes_keep_the_aspect_ratio(policy: str) -> None:
    x = np.random.default_rng(9).normal(size=(1, 2, 5, 7)).astype(np.float32)
    node_model(
        "Resize",
        [x, None, None, integers(9, 8)],
        [3],
        # onnxruntime ignores the policy for negative axes.
        axes=[3, 2],
        mode="linear",
        keep_aspect_ratio_policy=policy,
    ).check(rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("shape", [(4, 5), (2, 4, 5), (1, 2, 3, 4, 5)])
def test_other_ranks_are_resized(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(10).normal(size=shape).astype(np.float32)
    spatial = min(len(shape), 3)
    scales = [1.0] * (len(shape) - spatial) + [1.5] * spatial
    if len(shape) == 3:
        scales[0] = 1.0
    model = node_model("Resize", [x, None, _floats(*scales)], [2], mode="linear")
    model.check(rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_interpolated_integers_are_within_one_of_onnxruntime(dtype: Any) -> None:
    x = np.random.default_rng(11).integers(0, 100, (1, 2, 5, 6)).astype(dtype)
    node_model("Resize", [x, None, _floats(1, 1, 2, 1.5)], [2]).check()
    operands = [x, None, _floats(1, 1, 0.7, 2)]
    model = node_model("Resize", operands, [2], mode="linear")
    model.check(atol=1)


def test_f16_is_interpolated_in_f32() -> None:
    x = np.random.default_rng(12).normal(size=(1, 2, 5, 6)).astype(np.float16)
    operands = [x, None, _floats(1, 1, 0.7, 2)]
    node_model("Resize", operands, [2], mode="linear").check(rtol=1e-3)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_images_are_resized_as_before_opset_11(mode: str) -> None:
    rng = np.random.default_rng(13)
    for scales in ([2, 3], [1.5, 2.5], [1, 2], [0.3, 0.75]):
        x = rng.normal(size=(1, 2, 4, 5)).astype(np.float32)
        operands = [x, _floats(1, 1, *scales)]
        model = node_model("Resize", operands, [1], opset=10, mode=mode)
        model.check(rtol=1e-5, atol=1e-6)
        if min(scales) >= 1:
            model = node_model("Upsample", operands, [1], opset=9, mode=mode)
            model.check(rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resized_images_are_compiled(mode: str) -> None:
    x = np.random.default_rng(14).normal(size=(1, 2, 5, 6)).astype(np.float32)
    model = node_model("Resize", [x, None, _floats(1, 1, 0.7, 2)], [2], mode=mode)
    model.check(rtol=1e-5, atol=1e-6, compiled=True)


_X = np.zeros((1, 1, 3, 3), np.float32)


@pytest.mark.parametrize(
    ("scales", "attributes", "message"),
    [
        (
            _floats(1, 1, 1e9, 1e9),
            {"mode": "nearest"},
            "needs a constant of 3000000000 elements; expected at most 16777216",
        ),
        (
            _floats(1, 1, np.inf, 0),
            {},
            "scales are [1.0, 1.0, inf, 0.0]; expected 4 positive numbers",
        ),
        (_floats(2, 2), {}, "scales are [2.0, 2.0]; expected 4 positive numbers"),
        (
            _floats(1, 1, 0.1, 1),
            {},
            "cannot resize [1, 1, 3, 3] to [1, 1, 0, 3]; expected positive sizes",
        ),
        (
            _floats(1, 1, 2, 2),
            {"mode": "area"},
            "unknown mode 'area'; expected nearest, linear or cubic",
        ),
        (
            _floats(1, 1, 2, 2),
            {"coordinate_transformation_mode": "x"},
            "unknown coordinate_transformation_mode 'x'",
        ),
        (
            _floats(1, 1, 2, 2),
            {"coordinate_transformation_mode": "tf_crop_and_resize"},
            "expected a region of 8 numbers",
        ),
    ],
)
def test_unsupported_arguments_are_refused(
    scales: Array, attributes: dict[str, Any], message: str
) -> None:
    model = node_model("Resize", [_X, None, scales], [2], **attributes)
    assert refusal(model) == f"node 'y0' (Resize): {message}"


def test_antialiased_integers_are_refused() -> None:
    operands = [_X.astype(np.int8), None, _floats(1, 1, 2, 2)]
    model = node_model("Resize", operands, [2], mode="linear", antialias=1)
    assert refusal(model) == (
        "node 'y0' (Resize): cannot resize 'i8' with antialias; expected floats"
    )
