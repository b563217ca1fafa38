"""MLIR on one thread, called through its Python bindings."""

from importlib import import_module
from typing import Any

# The bindings have no type annotations that a checker finds.
_ir: Any = import_module("mlir.ir")
_passmanager: Any = import_module("mlir.passmanager")

_FUNCTION_PASSES = ("lower-quant-ops", "normalize-quant-types")
"""Passes that run on each function, and not on a module."""


def _context() -> Any:
    context = _ir.Context()
    context.enable_multithreading(False)
    return context


class MlirModule:
    """A module and the context of its parser."""

    def __init__(self, context: Any, module: Any):
        self._context = context
        self._module = module

    def verify(self) -> None:
        """Verify all ops."""
        if not self._module.operation.verify():
            raise ValueError("the module is invalid")

    def run(self, pass_: str) -> None:
        """Run a pass."""
        nested = f"func.func({pass_})" if pass_ in _FUNCTION_PASSES else pass_
        with self._context:
            pipeline = _passmanager.PassManager.parse(f"builtin.module({nested})")
            pipeline.enable_verifier(False)
            pipeline.run(self._module.operation)

    def text(self) -> str:
        """Print the module."""
        return self._module.operation.get_asm(assume_verified=True)


class MlirTool:
    """MLIR, which always verifies during parsing."""

    def parse_module(self, text: str) -> MlirModule:
        """Parse a module in a new context."""
        context = _context()
        return MlirModule(context, _ir.Module.parse(text, context))

    def parse_type(self, text: str) -> object:
        """Parse a type in a new context."""
        return _ir.Type.parse(text, _context())
