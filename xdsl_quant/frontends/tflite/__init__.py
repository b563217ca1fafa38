"""
TensorFlow Lite models: `.tflite` files.

[`read_tflite`][xdsl_quant.frontends.tflite.read_tflite] makes a module of the `tfl` dialect
of a file, [`write_tflite`][xdsl_quant.frontends.tflite.write_tflite] a file of a module.
"""

from .exporter import write_tflite
from .importer import read_tflite
from .model import TFLiteFileError

__all__ = ["TFLiteFileError", "read_tflite", "write_tflite"]
