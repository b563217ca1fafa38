"""Declarations of the ONNX frontend."""

from pathlib import Path

from xdsl_quant.runtime.plugins import (
    ModelFormat,
    QuantizationUniverse,
    lazy,
    target_files,
)

_HERE = "frontends.onnx"

SLICE = QuantizationUniverse(
    hardware_targets=target_files(
        Path(__file__).with_name("targets"), ("onnxruntime-u8s8",)
    ),
    kernel_patterns={
        "onnx.normalization": lazy(f"{_HERE}.target_patterns", "normalization"),
        "onnx.softmax": lazy(f"{_HERE}.target_patterns", "softmax"),
    },
    model_formats={
        ".onnx": ModelFormat(
            lazy(_HERE, "read_onnx"),
            lazy(_HERE, "write_onnx"),
            "onnxruntime-u8s8",
        )
    },
)
