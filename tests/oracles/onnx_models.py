"""
Compare public ONNX models with onnxruntime, whose optimizer is off.

    python -m tests.oracles.onnx_models FOLDER

The folder contains unpacked wheels: magika 1.0.3, rapidocr-onnxruntime 1.4.4, silero-vad
6.2.3, khmersm 1.4.2 and captcha-whisperer 0.1.0. Each model is imported with the shapes of
its inputs, interpreted and compiled. The table has the seconds that each step takes, and
the largest difference of a result, relative to the largest value of the result. The exit
code is 1 if a model fails, or differs by more than its tolerance, which is 1e-5 by default.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar, cast

import numpy as np
import onnx
import onnxruntime  # pyright: ignore[reportMissingTypeStubs] it has none

from xdsl_quant.execution import compile
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array

_TOLERANCE = 1e-5

_TOLERANCES: Mapping[str, float] = {
    # A sigmoid of values up to 40 at the end multiplies the differences, relative to the
    # largest value, by up to 10. From f64, onnxruntime differs by 8e-6, this package by
    # 3e-5.
    "models/ch_PP-OCRv4_det_infer.onnx": 1e-4,
}
"""Tolerances of models that need a larger one."""

_Result = TypeVar("_Result")


def _floats(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _integers(high: int, *shape: int) -> Array:
    return np.random.default_rng(0).integers(0, high, shape)


def _text_image() -> Array:
    """Return dark strokes on a light image, in which the detector finds text."""
    image = np.full((1, 3, 96, 96), 2, np.float32)
    for column in range(10, 80, 9):
        image[:, :, 40:56, column : column + 4] = -2
    return image


_FRAME = {"input": _floats(1, 576) / 10, "state": _floats(2, 1, 128)}
_RATE = {"sr": np.array(16000)}

MODELS: Mapping[str, Mapping[str, Array]] = {
    "magika/models/standard_v3_3/model.onnx": {
        "bytes": _integers(256, 1, 2048).astype(np.int32)
    },
    "models/ch_PP-OCRv4_det_infer.onnx": {"x": _text_image()},
    "models/ch_PP-OCRv4_rec_infer.onnx": {"x": _floats(1, 3, 48, 160)},
    "models/ch_ppocr_mobile_v2.0_cls_infer.onnx": {"x": _floats(1, 3, 48, 192)},
    "data/silero_vad.onnx": _FRAME | _RATE,
    "data/silero_vad_16k_op15.onnx": _FRAME | _RATE,
    "data/silero_vad_16k_sequence.onnx": {
        "input": _floats(4, 576) / 10,
        "h": _floats(1, 1, 128),
        "c": _floats(1, 1, 128),
    },
    "data/silero_vad_half.onnx": _FRAME,
    "data/silero_vad_op18_ifless.onnx": _FRAME | _RATE,
    "data/silero_vad_openvino_16k.onnx": _FRAME,
    "khmersm/model.onnx": {
        "x": _integers(50, 1, 12),
        "mask": np.arange(12)[None] < 10,
    },
    "captcha_whisperer/models/captcha_crnn.onnx": {"image": _floats(1, 3, 60, 160)},
}
"""Arguments of each model, by the end of its path."""

CONSTANT_INPUTS = {
    # It selects one of two networks, whose inputs have different sizes.
    "data/silero_vad.onnx": "sr",
}
"""Input that becomes a constant before import, by the end of the path of a model."""


@dataclass
class Comparison:
    """Seconds of each step of a model, and its difference from onnxruntime."""

    seconds: dict[str, float]
    difference: float = 0.0

    def timed(self, step: str, function: Callable[[], _Result]) -> _Result:
        """Call a function, and note its time."""
        start = perf_counter()
        result = function()
        self.seconds[step] = perf_counter() - start
        return result


def _session(path: Path) -> Any:
    """Load a model with onnxruntime, without its optimizer."""
    runtime = cast(Any, onnxruntime)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    # Warnings about unused initializers.
    options.log_severity_level = 3
    return runtime.InferenceSession(str(path), options)


def _with_constant(path: Path, name: str, value: Array) -> bytes:
    """Return a model in which an input is a constant."""
    model = onnx.load_model_from_string(path.read_bytes())
    (position,) = (i for i, each in enumerate(model.graph.input) if each.name == name)
    del model.graph.input[position]
    model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return model.SerializeToString()


def compare(name: str, path: Path, arguments: Mapping[str, Array]) -> Comparison:
    """Import, interpret and compile a model."""
    comparison = Comparison({})
    session = _session(path)
    expected = session.run(None, dict(arguments))
    shapes = {name: array.shape for name, array in arguments.items()}
    names = [value.name for value in session.get_inputs()]
    source = path
    if (constant := CONSTANT_INPUTS.get(name)) is not None:
        source = _with_constant(path, constant, arguments[constant])
        names.remove(constant)
        del shapes[constant]
    module = comparison.timed("import", lambda: read_onnx(source, shapes=shapes))
    values = [arguments[name] for name in names]
    interpreted = comparison.timed("run", lambda: run_function(module, None, *values))
    compiled = comparison.timed("compile", lambda: compile(module))
    found = compiled(*values)
    for results in (interpreted, [found] if len(expected) == 1 else found):
        for result, array in zip(results, expected, strict=True):
            largest = float(np.max(np.abs(array))) or 1.0
            difference = float(np.max(np.abs(result - array))) / largest
            comparison.difference = max(comparison.difference, difference)
    return comparison


def main(args: Sequence[str] | None = None) -> int:
    """Compare all models of a folder, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.onnx_models")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="", help="part of the path of a model")
    options = parser.parse_args(args)
    print("| model | import s | run s | compile s | difference |")
    print("| --- | --- | --- | --- | --- |")
    failures = 0
    for name, arguments in MODELS.items():
        if options.model not in name:
            continue
        paths = [
            p for p in options.folder.rglob("*.onnx") if str(p).endswith(f"/{name}")
        ]
        try:
            (path,) = paths
            comparison = compare(name, path, arguments)
        except ValueError as e:
            failures += 1
            print(f"| {name} | {e} |")
            continue
        cells = [
            f"{comparison.seconds[step]:.1f}" for step in ("import", "run", "compile")
        ]
        print(
            f"| {name} | {' | '.join(cells)} | {comparison.difference:.1e} |",
            flush=True,
        )
        failures += not comparison.difference <= _TOLERANCES.get(name, _TOLERANCE)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
