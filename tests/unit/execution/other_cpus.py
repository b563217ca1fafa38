"""
Code for CPUs that this machine need not be: compiled, or also run with plain arithmetic in
the place of instructions that it may lack.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.execution import machine_code
from xdsl_quant.execution.compiled_function import CompiledFunction
from xdsl_quant.execution.cpu import CPU_LEVELS, Cpu
from xdsl_quant.execution.entry_wrapper import EntryWrapper
from xdsl_quant.execution.mlir_bindings import ir
from xdsl_quant.execution.scheduling import byte_products
from xdsl_quant.execution.source_ops import Source
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.loading import as_module, is_tflite_file, read_tflite_file

EMULATED = [cpu for cpu in CPU_LEVELS if not cpu.has_tiles]
"""Levels whose code runs on any machine within `emulated_instructions`."""


class LoweredModule:
    """A module that is lowered once, to be compiled for several CPUs."""

    def __init__(self, module: ModuleOp | str | Path):
        loaded = (
            read_tflite_file(module, static=True)
            if isinstance(module, Path) and is_tflite_file(module)
            else as_module(module)
        )
        self._source = Source(lambda: loaded, None, (), Rounding(), fuse=True)
        entry_point = self._source.entry_point()
        self._text = self._source.lower(entry_point)
        self._wrapper = EntryWrapper(entry_point)
        self.shapes = [argument.shape for argument in entry_point.arguments]
        """Those of the arguments."""

    def compiled(self, cpu: Cpu) -> CompiledFunction:
        """Compile for a CPU; if this machine is none, the result must not be called."""
        with patch.object(byte_products, "tiles_are_exact", return_value=True):
            return CompiledFunction(
                self._wrapper,
                self._text,
                self._source.numbered,
                {},
                schedule=True,
                cpu=cpu,
                threads=1,
            )


@contextmanager
def ops_without_hash() -> Generator[None]:
    """Raise a TypeError where an op of MLIR gets into a set or is a key of a dict."""

    def refuse(op: Any) -> int:
        raise TypeError(f"hash of a '{op.name}' op changes: use identity_of")

    (base,) = (c for c in ir.Operation.__mro__ if c.__name__ == "_OperationBase")
    with pytest.MonkeyPatch.context() as context:
        context.setattr(base, "__hash__", refuse)
        yield


@contextmanager
def emulated_instructions() -> Generator[None]:
    """Compile for this machine, with the instructions of other CPUs as functions."""
    with patch.object(machine_code, "generate_for_cpu", _call_functions):
        yield


def _call_functions(module: Any, _: Cpu) -> None:
    text = str(module)
    calls = re.compile(r'llvm\.call_intrinsic "llvm\.x86\.avx512\.([\w.]+)"')
    names = {*calls.findall(text)}
    if not names:
        return
    text = calls.sub(lambda found: f"llvm.call @{_symbol(found[1])}", text)
    functions = "\n".join(map(_function, sorted(names)))
    emulated = ir.Module.parse(f"{text.rstrip().removesuffix('}')}\n{functions}\n}}")
    for op in [*module.body.operations]:
        op.operation.erase()
    for op in emulated.body.operations:
        module.body.append(op.detach_from_parent())


def _symbol(name: str) -> str:
    return f"emulated_{name.replace('.', '_')}"


def _function(name: str) -> str:
    if name.startswith("vpdpbusd"):
        return _byte_products(name, int(name.rpartition(".")[2]) // 32)
    assert name == "permvar.sf.512"
    return _permutation(name)


def _byte_products(name: str, lanes: int) -> str:
    """Sums with the products of four unsigned and four signed bytes added in each lane."""
    sums, bytes_ = f"vector<{lanes}xi32>", f"vector<{4 * lanes}xi8>"
    lines = [
        f"%left = llvm.bitcast %bytes : {bytes_} to {sums}",
        f"%right = llvm.bitcast %signed : {bytes_} to {sums}",
        f"%low = llvm.mlir.constant(dense<255> : {sums}) : {sums}",
        f"%top = llvm.mlir.constant(dense<24> : {sums}) : {sums}",
    ]
    for i in range(4):
        lines += [
            f"%shift{i} = llvm.mlir.constant(dense<{8 * i}> : {sums}) : {sums}",
            f"%up{i} = llvm.mlir.constant(dense<{24 - 8 * i}> : {sums}) : {sums}",
            f"%shifted{i} = llvm.lshr %left, %shift{i} : {sums}",
            f"%l{i} = llvm.and %shifted{i}, %low : {sums}",
            f"%upper{i} = llvm.shl %right, %up{i} : {sums}",
            f"%r{i} = llvm.ashr %upper{i}, %top : {sums}",
            f"%product{i} = llvm.mul %l{i}, %r{i} : {sums}",
            f"%sum{i + 1} = llvm.add %sum{i}, %product{i} : {sums}",
        ]
    arguments = f"%sum0: {sums}, %bytes: {bytes_}, %signed: {bytes_}"
    return _text(name, arguments, sums, lines, "%sum4")


def _permutation(name: str) -> str:
    """The elements of a table of 16 at 16 indices, of which the lowest four bits count."""
    floats, integers = "vector<16xf32>", "vector<16xi32>"
    lines = [
        f"%low = llvm.mlir.constant(dense<15> : {integers}) : {integers}",
        f"%in_table = llvm.and %indices, %low : {integers}",
        f"%value0 = llvm.mlir.poison : {floats}",
    ]
    for i in range(16):
        lines += [
            f"%lane{i} = llvm.mlir.constant({i} : i32) : i32",
            f"%i{i} = llvm.extractelement %in_table[%lane{i} : i32] : {integers}",
            f"%x{i} = llvm.extractelement %table[%i{i} : i32] : {floats}",
            f"%value{i + 1} = llvm.insertelement %x{i}, %value{i}[%lane{i} : i32] "
            f": {floats}",
        ]
    arguments = f"%table: {floats}, %indices: {integers}"
    return _text(name, arguments, floats, lines, "%value16")


def _text(name: str, arguments: str, type_: str, lines: list[str], result: str) -> str:
    body = "\n  ".join([*lines, f"llvm.return {result} : {type_}"])
    header = f"llvm.func internal @{_symbol(name)}({arguments}) -> {type_}"
    return f"{header} {{\n  {body}\n}}"
