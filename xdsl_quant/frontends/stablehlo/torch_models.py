"""
Models of PyTorch, converted to StableHLO by torch-mlir.

Neither package is a dependency: torch-mlir is imported when a model of PyTorch is read.
"""

from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.diagnostics import error_summary
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.runtime.plugins import ModelFileError


def module_of_torch(model: object) -> ModuleOp:
    """
    Convert an exported program of PyTorch.

    Args:
        model: a `torch.export.ExportedProgram`.

    Raises:
        TypeError: if `model` is another object of PyTorch, such as a `torch.nn.Module`.
        ImportError: if torch-mlir is not installed.
        ModelFileError: if torch-mlir cannot convert the program.
    """
    name = type(model).__name__
    if name != "ExportedProgram":
        raise TypeError(
            f"model must be an ExportedProgram, not {name} of PyTorch; pass "
            "torch.export.export(model, inputs)"
        )
    try:
        # The optional package has no type information.
        fx: Any = import_module("torch_mlir.fx")
    except ImportError as e:
        raise ImportError(
            f"reading an ExportedProgram needs torch-mlir ({e}); run 'pip install "
            "--no-deps torch-mlir'"
        ) from None
    try:
        text = str(fx.export_and_import(model, output_type="stablehlo"))
    except Exception as e:
        reason = error_summary(e)
        raise ModelFileError(
            f"ExportedProgram: error: torch-mlir cannot convert it: {reason}"
        ) from e
    return parse_module(text, "ExportedProgram")
