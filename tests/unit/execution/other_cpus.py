"""Code for CPUs that this machine need not be."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.execution.compiled_function import CompiledFunction
from xdsl_quant.execution.cpu import CPU_LEVELS, CodeOptions, Cpu
from xdsl_quant.execution.entry_point import EntryWrapper
from xdsl_quant.execution.mlir_bindings import ir
from xdsl_quant.execution.source_ops import Source
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.loading import as_module, is_tflite_file, read_tflite_file

# The text is no import: tests of the core run without scheduling.
_TILES_ARE_EXACT = "xdsl_quant.execution.scheduling.byte_products.tiles_are_exact"

EMULATED = [cpu for cpu in CPU_LEVELS if not cpu.has_tiles]
"""Levels whose code runs on any machine with AVX2 within `foreign_code`."""


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
        with patch(_TILES_ARE_EXACT, return_value=True):
            return CompiledFunction(
                self._wrapper,
                self._text,
                self._source.with_op_numbers,
                {},
                CodeOptions(schedule=True, cpu=cpu),
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
