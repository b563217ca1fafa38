"""Count the values of a model that compiled casts get wrong, step by step."""

import subprocess
import sysconfig
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.execution import compile

from .quantized_module import DEQUANTIZE_ALL, QUANTIZE_ALL, build_module
from .tflite_tensors import QuantizedTensor, read_tensors

PASSES = (
    "lower-quant-ops{{rounding-mode={rounding_mode} fuse=true}},canonicalize,cse,"
    "strip-func-quant-types,canonicalize"
)
"""The pipeline of `xdsl-opt`: it leaves no quantized type and no quant op."""

EXACT_BELOW = 1 << 22
"""
`round(fl(fl(n * scale) / scale))` is `n` for integers of a smaller magnitude: each of the
two operations of f32 is off by at most `2**-24` of its result, both together by less than
half an integer. Adding a zero point of 8 or 16 bits does not change that.
"""


class XdslOptError(RuntimeError):
    """`xdsl-opt` failed, or left a quantized type or a quant op in the module."""


class TensorResult(NamedTuple):
    """Errors of the values of one tensor."""

    tensor: QuantizedTensor

    wrong_floats: int
    """Dequantized values that differ from NumPy's in any bit."""

    wrong_integers: int
    """Stored values that change when they are dequantized and quantized again."""


@dataclass(frozen=True)
class ModelResult:
    """Errors of the tensors of one model, and the duration of each step."""

    tensors: list[TensorResult]

    passes: str
    """The pipeline that `xdsl-opt` ran."""

    seconds: dict[str, float]
    """The duration of each step."""

    @property
    def wrong_floats(self) -> int:
        """Dequantized values that differ from NumPy's, in all tensors."""
        return sum(result.wrong_floats for result in self.tensors)

    @property
    def wrong_integers(self) -> int:
        """The sum of `wrong_integers` over all tensors."""
        return sum(result.wrong_integers for result in self.tensors)


class _Stopwatch:
    """Measures the durations of consecutive steps."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._start = time.perf_counter()

    def step(self, name: str) -> None:
        """End the step `name`."""
        now = time.perf_counter()
        self.seconds[name] = now - self._start
        self._start = now


def check_model(
    path: Path, directory: Path, rounding_mode: str = "nearest-even"
) -> ModelResult:
    """
    Lower, compile and run the casts of all quantized tensors of a model, and compare
    with NumPy and with the model.

    The modules before and after `xdsl-opt` are written to `directory`.

    Raises:
        XdslOptError: if `xdsl-opt` fails.
    """
    stopwatch = _Stopwatch()
    tensors = read_tensors(path)
    stopwatch.step("read")

    source = directory / f"{path.stem}.mlir"
    # Formatted into a string, an operation gives its summary.
    source.write_text(str(build_module(tensors)) + "\n")
    stopwatch.step("write")

    lowered = directory / f"{path.stem}.lowered.mlir"
    passes = PASSES.format(rounding_mode=rounding_mode)
    run_xdsl_opt(source, lowered, passes)
    stopwatch.step("xdsl-opt")

    text = lowered.read_text()
    dequantize, quantize = compile(text, DEQUANTIZE_ALL), compile(text, QUANTIZE_ALL)
    stopwatch.step("compile")

    all_floats = dequantize()
    all_integers = quantize(*all_floats)
    stopwatch.step("run")

    results = [
        TensorResult(
            tensor,
            count_differences(expressed_values(tensor), floats),
            # Lowered, a module does not say any more which integers are unsigned.
            count_differences(tensor.stored, integers.view(tensor.stored.dtype)),
        )
        for tensor, floats, integers in zip(
            tensors, all_floats, all_integers, strict=True
        )
    ]
    stopwatch.step("compare")
    return ModelResult(results, passes, stopwatch.seconds)


def run_xdsl_opt(source: Path, target: Path, passes: str) -> None:
    """Run the `xdsl-opt` of this Python's environment on a file."""
    xdsl_opt = Path(sysconfig.get_path("scripts")) / "xdsl-opt"
    process = subprocess.run(
        [xdsl_opt, source, "-p", passes, "-o", target],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise XdslOptError(f"xdsl-opt -p '{passes}' failed:\n{process.stderr}")
    if "quant." in target.read_text():
        raise XdslOptError(f"xdsl-opt -p '{passes}' left quantized types or operations")


def expressed_values(tensor: QuantizedTensor) -> NDArray[np.float32]:
    """
    `(stored - zero_point) * scale` in f32, by NumPy. Formula: TensorFlow Lite's
    [quantization specification](https://ai.google.dev/edge/litert/conversion/tensorflow/quantization/quantization_spec).
    """
    shape = [1] * tensor.stored.ndim
    if tensor.axis is not None:
        shape[tensor.axis] = -1
    stored = tensor.stored.astype(np.float32)
    zero_points = tensor.zero_points.astype(np.float32)
    if tensor.stored.ndim == 0:
        shape = []
    return (stored - zero_points.reshape(shape)) * tensor.scales.reshape(shape)


def largest_distance(tensor: QuantizedTensor) -> int:
    """An upper bound of `|stored - zero_point|` over a tensor."""
    stored = tensor.stored.astype(np.int64)
    low, high = int(stored.min()), int(stored.max())
    return max(
        abs(bound - int(zero_point))
        for bound in (low, high)
        for zero_point in tensor.zero_points
    )


def count_differences(expected: NDArray[Any], actual: NDArray[Any]) -> int:
    """Number of elements that differ in any bit."""
    bits = f"u{expected.dtype.itemsize}"
    return int(np.count_nonzero(expected.view(bits) != actual.view(bits)))
