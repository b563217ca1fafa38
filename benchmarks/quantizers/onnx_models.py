"""ONNX models for the quantizer of onnxruntime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from numpy.typing import NDArray


def session_of(path: Path, *, optimizes: bool = True) -> Any:
    """Load a model with onnxruntime, for one thread."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    # Warnings about unused initializers.
    options.log_severity_level = 3
    if not optimizes:
        level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
    return runtime.InferenceSession(str(path), options)


def quantized_session(
    model: bytes,
    samples: Iterable[Mapping[str, NDArray[Any]]],
    directory: Path,
    *,
    activations: str = "QInt8",
    method: str = "MinMax",
) -> Any:
    """
    Quantize a model statically to 8-bit QDQ with per-channel scales.

    Args:
        model: the bytes of a float ONNX model.
        samples: the calibration samples, by name of the argument.
        directory: the directory for the files of both models.
        activations: the type of activations, of `QuantType`.
        method: the calibration, of `CalibrationMethod`.

    Returns:
        The `InferenceSession` of the quantized model.
    """
    tools: Any = import_module("onnxruntime.quantization")
    source, target = directory / "float.onnx", directory / "quantized.onnx"
    source.write_bytes(model)

    class Reader(tools.CalibrationDataReader):
        """Iterator over the samples."""

        def __init__(self) -> None:
            self.rows = iter(samples)

        def get_next(self) -> Any:
            """Return the next sample, or `None` after the last one."""
            return next(self.rows, None)

    tools.quantize_static(
        str(source),
        str(target),
        Reader(),
        quant_format=tools.QuantFormat.QDQ,
        per_channel=True,
        activation_type=tools.QuantType[activations],
        weight_type=tools.QuantType.QInt8,
        calibrate_method=tools.CalibrationMethod[method],
    )
    return session_of(target)
