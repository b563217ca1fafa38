"""Programs with casts of MX formats, and their text with resources."""

from __future__ import annotations

import re
from io import StringIO

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from xdsl_quant.runtime.loading import multiverse_context

STORAGE = ("f8E4M3FN", "f8E5M2", "f6E2M3FN", "f6E3M2FN", "f4E2M1FN", "i8")
"""The storage types of MX formats."""

UNIT = (
    " as !quant.block_scaled<f8E8M0FNU:f32:{}, scales = dense<0.015625> : tensor<f32>>"
)
"""What follows the scales of MXINT8."""


def all_products(storage: str, expressed: str, rows: int = 256) -> str:
    """
    A function that dequantizes each element with each scale, one in each row; the last one
    is NaN.
    """
    width = int(re.findall(r"\d", storage)[0])
    codes = np.resize(np.arange(1 << width, dtype=np.uint8), max(1 << width, 32))
    shape, unit = f"{rows}x{codes.size}", UNIT if storage == "i8" else ""
    scales = np.arange(rows, dtype=np.uint8).tobytes().hex()
    quantized = (
        f"tensor<{shape}x!quant.block_scaled<{storage}:{expressed}:{{0:1}}, "
        f'scales = dense<"0x{scales}"> : tensor<{rows}xf8E8M0FNU>{unit}>>'
    )
    return f"""
func.func @main() -> tensor<{shape}x{expressed}> {{
  %c = arith.constant dense<"0x{codes.tobytes().hex() * rows}"> : tensor<{shape}x{storage}>
  %q = quant.scast %c : tensor<{shape}x{storage}> to {quantized}
  %x = quant.dcast %q : {quantized} to tensor<{shape}x{expressed}>
  return %x : tensor<{shape}x{expressed}>
}}"""


def printed(module: ModuleOp) -> str:
    """The text of a module with its resources."""
    context = multiverse_context()
    context.load_registered_dialect("builtin")
    printer = Printer(stream := StringIO())
    printer.print_op(module)
    printer.print_metadata(context.loaded_dialects)
    return stream.getvalue()
