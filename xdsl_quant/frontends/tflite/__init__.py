"""
TensorFlow Lite frontend: `.tflite` files, the `tfl` dialect, and the semantics of its ops.

[`read_tflite`][xdsl_quant.frontends.tflite.files.read_tflite] reads a `.tflite` file into a
`tfl` module, [`write_tflite`][xdsl_quant.frontends.tflite.files.write_tflite] writes a
module to a file.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .files import TFLiteFileError, read_tflite, write_tflite

__all__ = ["TFLiteFileError", "read_tflite", "write_tflite"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Lazy import: `xdsl-opt` loads the dialect from this package without NumPy.
    from . import files

    return getattr(files, name)
