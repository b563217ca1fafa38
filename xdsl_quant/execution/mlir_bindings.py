"""MLIR's Python bindings, imported when they are first needed."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from xdsl_quant.runtime.extras import missing_package

_DIALECTS = "arith", "cf", "func", "linalg", "llvm", "math", "memref", "scf", "tensor"


@cache
def bindings() -> Any:
    """
    The bindings, their modules and those of dialects as attributes. Few of them have
    annotations that a type checker finds.

    Raises:
        ImportError: if they are not installed.
    """
    names = {name: f"mlir.{name}" for name in ("ir", "execution_engine", "passmanager")}
    names |= {name: f"mlir.dialects.{name}" for name in _DIALECTS}
    try:
        modules = {name: import_module(path) for name, path in names.items()}
    except ImportError:
        raise missing_package("compiled execution", "MLIR", "mlir") from None
    return SimpleNamespace(**modules)


def ops_in(module: Any, *names: str) -> list[Any]:
    """All ops, or those with one of these names; a list, so that they may be erased."""
    ir = bindings().ir
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if not names or op.name in names:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def run_passes(module: Any, passes: Sequence[str]) -> None:
    """Run passes on a module, each as the text of a pipeline."""
    pipeline = f"builtin.module({','.join(passes)})"
    bindings().passmanager.PassManager.parse(pipeline).run(module.operation)
