"""Declarations of TensorFlow Lite's frontend."""

from pathlib import Path

from xdsl_quant.runtime.plugins import (
    ModelFormat,
    QuantizationUniverse,
    lazy,
    pass_factories,
    target_files,
)

_HERE = "frontends.tflite"

SLICE = QuantizationUniverse(
    all_dialects={
        "tf": lazy(f"{_HERE}.dialect.tf", "TF"),
        "tf_type": lazy(f"{_HERE}.dialect", "TFType"),
        "tfl": lazy(f"{_HERE}.dialect", "TFL"),
    },
    all_passes=pass_factories(
        f"{_HERE}.lowering",
        (
            "convert-stablehlo-to-tfl",
            "convert-tfl-to-linalg",
            "convert-tfl-to-stablehlo",
            "convert-tfl-to-tosa",
            "tf-to-quant",
            "tfl-fuse-qdq",
            "tfl-infer-shapes",
            "tfl-variables-to-arguments",
        ),
    ),
    hardware_targets=target_files(
        Path(__file__).with_name("targets"),
        ("tflite-int16x8", "tflite-int8", "tflite-mixed"),
    ),
    model_formats={
        ".tflite": ModelFormat(
            lazy(f"{_HERE}.files", "read_tflite"),
            lazy(f"{_HERE}.files", "write_tflite"),
            "tflite-int8",
            lambda content: content[4:8] == b"TFL3",
        )
    },
    dialect_ops={"tfl": lazy(f"{_HERE}.dialect_ops", "TFL_OPS")},
    model_dialects={"tfl": lazy(f"{_HERE}.models", "TFL_MODELS")},
    rule_sets={"tflite": lazy(f"{_HERE}.constraints", "TFLITE_RULES")},
    interpreters={
        f"xdsl_quant.{_HERE}.dialect": lazy(f"{_HERE}.interpreter", "tfl_functions")
    },
)
