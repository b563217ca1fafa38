"""
Models of PyTorch, converted to StableHLO by torch-mlir.

Neither package is a dependency. torch-mlir runs in a process of its own: it contains
another copy of LLVM, whose symbols would replace those of the MLIR that compiles modules.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.runtime.plugins import ModelFileError

_CONVERT = """
import sys
import torch
from torch_mlir import fx
program = torch.export.load(sys.argv[1])
with open(sys.argv[2], "w", encoding="utf-8") as stream:
    stream.write(str(fx.export_and_import(program, output_type="stablehlo")))
"""


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
    if find_spec("torch_mlir") is None:
        raise ImportError(
            "reading an ExportedProgram needs torch-mlir; run 'pip install --no-deps "
            "torch-mlir packaging'"
        )
    return parse_module(_stablehlo_text(model), "ExportedProgram")


def _stablehlo_text(program: object) -> str:
    # The optional package has no type information, and the model has imported it.
    torch: Any = sys.modules["torch"]
    with TemporaryDirectory() as folder:
        file, result = Path(folder, "program.pt2"), Path(folder, "module.mlir")
        torch.export.save(program, file)
        process = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _CONVERT, file, result],
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            *_, reason = process.stderr.strip().splitlines() or ("no message",)
            raise ModelFileError(
                f"ExportedProgram: error: torch-mlir cannot convert it: {reason}"
            )
        return result.read_text("utf-8")
