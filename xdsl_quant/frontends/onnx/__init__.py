"""
ONNX frontend: `.onnx` files become modules of StableHLO ops and quantized types, and back.

[`read_onnx`][xdsl_quant.frontends.onnx.importer.read_onnx] reads a file into a module,
[`write_onnx`][xdsl_quant.frontends.onnx.exporter.write_onnx] writes a module to a file.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .exporter import write_onnx
    from .files.model_files import ONNXFileError
    from .importer import read_onnx

__all__ = ["ONNXFileError", "read_onnx", "write_onnx"]

_MODULES = {
    "ONNXFileError": "files.model_files",
    "read_onnx": "importer",
    "write_onnx": "exporter",
}
"""Modules of the exported names. They are imported lazily, as they need a package."""


def __getattr__(name: str) -> object:
    if (module := _MODULES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{module}"), name)
    except ModuleNotFoundError as e:
        if e.name not in ("onnx", "google"):
            raise
        # Start-up time of `xdsl-opt`.
        from xdsl_quant.runtime.extras import missing_package

        raise missing_package("a '.onnx' file", "onnx", "onnx") from None
