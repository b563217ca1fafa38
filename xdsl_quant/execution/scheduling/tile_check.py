"""Check of the AMX tile registers of this machine."""

import ctypes
import warnings
from functools import cache

import numpy as np

from .. import mlir_bindings as mlir
from ..bound_call import BoundCall
from ..cpu import Cpu
from ..llvm_fixes import generate_for_cpu
from ..mlir_bindings import ir
from . import amx_code
from .vector_code import Axis, Memref
from .vnni_code import Product

_TO_LLVM = (
    "convert-scf-to-cf",
    "finalize-memref-to-llvm",
    "convert-arith-to-llvm",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "reconcile-unrealized-casts",
)

_ROWS, _DEPTH, _WIDTH = 47, 250, 50
"""Sizes of a product whose last tiles are partial in all dimensions."""


@cache
def tiles_are_exact(cpu: Cpu) -> bool:
    """
    Return True if this machine computes a product with AMX tiles correctly, and warn
    otherwise. The result is cached for the process.
    """
    if all(_is_exact(cpu, is_signed) for is_signed in (True, False)):
        return True
    warnings.warn(
        "AMX is disabled: this machine computes wrong sums with its tile registers",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


def _is_exact(cpu: Cpu, is_signed: bool) -> bool:
    numbers = np.arange(_ROWS * _DEPTH) * 37 % 256
    x = numbers.astype(np.int8 if is_signed else np.uint8).reshape(_ROWS, _DEPTH)
    weights = (np.arange(_DEPTH * _WIDTH) * 53 % 251 - 125).astype(np.int8)
    weights = weights.reshape(_DEPTH, _WIDTH)
    expected = x.astype(np.int32) @ weights.astype(np.int32)
    sums = np.zeros((_ROWS, _WIDTH), np.int32)
    memrefs = [
        Memref(f"memref<{rows}x{columns}x{element}>", element, 0)
        for rows, columns, element in (
            (_ROWS, _DEPTH, "i8"),
            (_ROWS, _WIDTH, "i32"),
        )
    ]
    rows, bytes_ = Axis(_ROWS, [_DEPTH, 4 * _WIDTH]), Axis(_DEPTH, [1])
    product = Product([rows], weights, is_signed, 0, [bytes_])
    types = ", ".join(memref.type for memref in memrefs)
    text = f"""{amx_code.tile_product_text("product", memrefs, product, None)}
    func.func @check(%x: {memrefs[0].type}, %sums: {memrefs[1].type})
        attributes {{llvm.emit_c_interface}} {{
      call @product(%x, %sums) : ({types}) -> ()
      return
    }}"""
    with mlir.new_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        mlir.run_passes(module, _TO_LLVM)
        generate_for_cpu(module, cpu)
        engine = mlir.new_engine(module)
        address = engine.raw_lookup("_mlir_ciface_check")
        kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
        BoundCall("check", kernel, engine, [x], [sums])()
    return np.array_equal(sums, expected)
