"""Compiled models of TensorFlow Lite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pymicro_wakeword
import pytest

from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.interpreters import StatefulModel, run_function
from xdsl_quant.runtime.stateful_function import StatefulFunction

PATHS = sorted(Path(pymicro_wakeword.__file__).parent.rglob("*.tflite"))

FRAMES = np.random.default_rng(0).integers(-128, 128, (20, 1, 3, 40)).astype(np.int8)


@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_streaming_models(path: Path):
    module = read_tflite(path)
    text = str(module)
    expected = StatefulModel(module)
    model = StatefulFunction(module, compile)
    for frame in FRAMES:
        (result,) = model.step(frame)
        assert np.array_equal(result, expected.step(frame)[0])
    assert str(module) == text


def test_ops_are_lowered():
    module = read_tflite("docs/examples/dense.tflite", static=True)
    values = np.random.default_rng(0).integers(-128, 128, (50, 1, 4)).astype(np.int8)
    compiled = compile(module)
    for array in values:
        (expected,) = run_function(module, None, array)
        assert np.array_equal(compiled(array), expected)


def test_state_is_no_argument():
    with pytest.raises(
        CompilationError,
        match=r"^'tfl.call_once' op has state: run 'tfl-variables-to-arguments' first$",
    ):
        compile(read_tflite(PATHS[0]))
