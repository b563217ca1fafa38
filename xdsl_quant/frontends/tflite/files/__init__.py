"""
TensorFlow Lite models in `.tflite` files.

[`read_tflite`][xdsl_quant.frontends.tflite.files.read_tflite] reads a file into a `tfl`
module, [`write_tflite`][xdsl_quant.frontends.tflite.files.write_tflite] writes a module
to a file.
"""

from .exporter import write_tflite
from .importer import read_tflite
from .model import TFLiteFileError

__all__ = ["TFLiteFileError", "read_tflite", "write_tflite"]
