"""Models of several tools whose names and layouts of channels differ."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.unit.quantizer.models import Floats
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.inspecting.comparison import Comparison, compare
from xdsl_quant.inspecting.layouts import in_layout, moved_channels
from xdsl_quant.quantizer import QuantizedModel, quantize

from .layout_models import channels_last, images, onnx_model, tfl_text

KERNELS = [
    ("stablehlo.maximum", "tfl.conv_2d", "kernel order, transposed"),
    ("stablehlo.reduce_window", "tfl.max_pool_2d", "position, transposed"),
    ("stablehlo.maximum", "tfl.conv_2d", "kernel order, transposed"),
    ("stablehlo.add", "tfl.fully_connected", "kernel order"),
]


@cache
def quantized_tfl() -> QuantizedModel:
    return quantize(tfl_text(), channels_last(images(8)))


def matches(found: Comparison) -> list[tuple[str, str, str]]:
    return [(each.op, each.quantized_op, each.match) for each in found.layers]


def test_a_float_onnx_file_and_a_quantized_tflite_file(tmp_path: Path):
    x = images(8)
    source, output = tmp_path / "float.onnx", tmp_path / "int8.tflite"
    source.write_bytes(onnx_model().SerializeToString())
    quantized_tfl().save(output)
    found = compare(source, output, x)
    assert matches(found) == KERNELS
    # The same values as those of models of one layout.
    expected = compare(tfl_text(), output, channels_last(x))
    kernels = [each for each in expected.layers if each.quantized_op != "tfl.reshape"]
    assert [(each.storage, each.sqnr) for each in found.layers] == [
        (each.storage, pytest.approx(each.sqnr, abs=1e-3)) for each in kernels
    ]
    assert min(each.sqnr for each in found.layers) > 30
    header, first = str(found).splitlines()[:2]
    assert header.split()[-2:] == ["matched", "by"]
    assert "kernel order, transposed" in first
    assert json.loads(found.json())["values"][-1]["match"] == "kernel order"
    reasons = {each.op: each.reason for each in found.unmatched}
    for op in ("stablehlo.reshape", "tfl.reshape"):
        assert reasons[op] == "the order of elements differs after a reshape"


def test_a_float_tflite_file_and_a_quantized_onnx_file(tmp_path: Path):
    x, path = images(8), tmp_path / "int8.onnx"
    model = read_onnx(onnx_model().SerializeToString())
    quantize(model, x).save(path)
    found = compare(tfl_text(), path, channels_last(x))
    assert [each.op for each in found.layers] == [each[1] for each in KERNELS]
    assert [each.match for each in found.layers] == [each[2] for each in KERNELS]
    assert min(each.sqnr for each in found.layers) > 30
    assert {each.storage for each in found.layers} == {"i8"}
    expected = compare(model, path, x).results
    assert found.results == pytest.approx(expected, abs=1e-3)


def test_shapes_that_do_not_tell_their_layout():
    """Six channels of six rows and columns."""
    x = images(8)
    quantized = quantize(tfl_text(6), channels_last(x))
    found = compare(read_onnx(onnx_model(6).SerializeToString()), quantized, x)
    assert matches(found) == KERNELS[1:]
    reasons = {each.name: each.reason for each in found.unmatched}
    assert reasons["r1"] == "the shape does not tell the layout of channels"


def test_another_activation_is_not_matched():
    """A `tfl.conv_2d` with ReLU computes another value than one without."""
    x = images(8)
    model = onnx_model()
    del model.graph.node[1]
    model.graph.node[1].input[0] = "c1"
    quantized = quantized_tfl()
    found = compare(read_onnx(model.SerializeToString()), quantized, x)
    assert "r1" not in {each.name for each in found.layers}
    reasons = {each.name: each.reason for each in found.unmatched}
    assert reasons["c1"] == "another activation in the other model"


@pytest.mark.parametrize(
    ("shape", "expected", "moved"),
    [
        ((2, 3, 4, 5), (2, 3, 4, 5), 0),
        ((2, 3, 4, 5), (2, 4, 5, 3), -1),
        ((2, 4, 5, 3), (2, 3, 4, 5), 1),
        ((2, 3, 4), (2, 4, 3), 1),
        ((-1, 3, 4, 5), (2, 4, 5, 3), -1),
        ((2, 3, 1, 1), (2, 3), 0),
        ((2, 3, 4, 5), (2, 5, 4, 3), None),
        ((2, 6), (3, 4), None),
        ((), (), 0),
        ((), (1,), None),
    ],
)
def test_moved_channels(
    shape: tuple[int, ...], expected: tuple[int, ...], moved: int | None
):
    assert moved_channels(shape, expected) == moved


def test_arrays_in_another_layout():
    x: Floats = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    moved = in_layout(x, (-1, 4, 5, 3))
    assert moved is not None
    np.testing.assert_array_equal(moved, np.moveaxis(x, 1, -1))
    back = in_layout(moved, x.shape)
    assert back is not None
    np.testing.assert_array_equal(back, x)
    unknown = in_layout(x, (-1, -1, -1, 3))
    assert unknown is not None
    np.testing.assert_array_equal(unknown, moved)
    assert in_layout(x, (2, 5, 4, 3)) is None
    scalar = in_layout(np.float32(3), ())
    assert scalar is not None
    assert scalar.shape == ()
