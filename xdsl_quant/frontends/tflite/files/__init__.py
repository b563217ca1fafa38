"""Conversion of `.tflite` files to modules of the `tfl` dialect, and back."""

from .exporter import write_tflite
from .importer import read_tflite
from .model import TFLiteFileError

__all__ = ["TFLiteFileError", "read_tflite", "write_tflite"]
