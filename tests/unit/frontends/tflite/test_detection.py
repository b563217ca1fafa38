"""The custom op `TFLite_Detection_PostProcess`, compared with LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.utils.exceptions import InterpretationError

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes

from .detection_files import OPTIONS, file_of, packed, random_detections

Array = NDArray[Any]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("seed", range(400))
def test_random_detections(seed: int):
    """LiteRT does not define elements beyond the number of detections."""
    file, inputs, options = random_detections(seed)
    module = read_tflite(file)
    results = run_function(module, "main", *inputs)
    expected = LiteRT(file).run(*inputs)
    count = int(expected[3][0])
    step, used = int(options["max_classes_per_detection"]), 1
    if options["use_regular_nms"]:
        step = 1
    else:
        used = min(step, int(options["num_classes"]))
    defined = [n * step + i for n in range(count) for i in range(used)]
    assert results[3].tolist() == [count]
    for result, array in zip(results[:3], expected[:3], strict=True):
        assert result.shape == array.shape
        np.testing.assert_array_equal(result[0, defined], array[0, defined])
    again = LiteRT(write_tflite(module)).run(*inputs)
    for array, other in zip(again[:3], expected[:3], strict=True):
        np.testing.assert_array_equal(array[0, defined], other[0, defined])


ANCHORS = np.full((3, 4), 0.5, np.float32)

ENCODINGS, SCORES = np.zeros((1, 3, 4), np.float32), np.ones((1, 3, 2), np.float32)


def sample(**options: Any) -> bytes:
    return file_of(3, 2, ANCHORS, packed({**OPTIONS, **options}))


def test_result_types():
    text = str(read_tflite(sample(max_detections=5, max_classes_per_detection=2)))
    types = "tensor<1x10x4xf32>, tensor<1x10xf32>, tensor<1x10xf32>, tensor<1xf32>"
    assert f"-> ({types})" in text


def test_fewer_detections_than_there_may_be():
    results = run_function(read_tflite(sample()), "main", ENCODINGS, SCORES)
    # The three boxes are equal.
    assert results[0].tolist() == [[[0.25, 0.25, 0.75, 0.75]] + [[0] * 4] * 3]
    assert results[2].tolist() == [[1, 0, 0, 0]]
    assert results[3].tolist() == [1]


def error_of(file: bytes, *inputs: Array) -> str:
    module = read_tflite(file)
    with pytest.raises(InterpretationError) as e:
        run_function(module, "main", *(inputs or (ENCODINGS, SCORES)))
    return str(e.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_detections": 0}, "has option 'max_detections' 0; expected more than 0"),
        (
            {"nms_iou_threshold": 1.5},
            "has option 'nms_iou_threshold' 1.5; expected at most 1",
        ),
        (
            {"num_classes": 3},
            "has operands of shapes 1x3x4, 1x3x2, 3x4; expected 1xNx4, 1xNx3 or 1xNx4, and "
            "Nx4",
        ),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str):
    assert message in error_of(sample(**options))


def test_missing_and_damaged_options():
    options = {name: value for name, value in OPTIONS.items() if "y_scale" not in name}
    file = file_of(3, 2, ANCHORS, packed(options))
    assert "lacks the options y_scale" in error_of(file)
    for data in (b"", b"\0", b"\xff" * 9, packed(OPTIONS)[:-9]):
        file = file_of(3, 2, ANCHORS, data)
        message = error_of(file)
        assert "has options that are not" in message or "lacks the options" in message


def test_box_of_negative_size():
    file = file_of(3, 2, -ANCHORS, packed(OPTIONS))
    assert "has a box of negative size" in error_of(file)


REFUSED = (
    "'tfl.custom' op has no conversion to {}: unsupported custom operator "
    "'TFLite_Detection_PostProcess'; run the interpreter, or split the model before it"
)


def test_compilation_is_refused():
    with pytest.raises(CompilationError) as e:
        compile(sample())
    assert REFUSED.format("linalg") in str(e.value)


@pytest.mark.parametrize(
    ("target", "name"), [("tosa", "TOSA"), ("stablehlo", "StableHLO")]
)
def test_conversions_are_refused(target: str, name: str):
    with pytest.raises(IRError) as e:
        apply_passes(read_tflite(sample()), f"convert-tfl-to-{target}")
    assert REFUSED.format(name) in str(e.value)


def test_other_custom_ops():
    file = file_of(3, 2, ANCHORS, b"", code="Mine")
    assert "unsupported custom operator 'Mine'" in error_of(file)
