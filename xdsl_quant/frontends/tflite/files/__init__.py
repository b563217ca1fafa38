"""
TensorFlow Lite models in `.tflite` files: reading to, and writing from, `tfl` modules.
"""

from .exporter import write_tflite
from .importer import read_tflite
from .model import TFLiteFileError

__all__ = ["TFLiteFileError", "read_tflite", "write_tflite"]
