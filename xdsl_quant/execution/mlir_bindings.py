"""MLIR's Python bindings, imported when they are first needed."""

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from xdsl_quant.runtime.extras import missing_package


class Bindings(NamedTuple):
    """The modules of the bindings. Few of them have annotations that a checker finds."""

    ir: Any
    arith: Any
    cf: Any
    func: Any
    linalg: Any
    llvm: Any
    math: Any
    memref: Any
    scf: Any
    tensor: Any
    execution_engine: Any
    passmanager: Any


@cache
def bindings() -> Bindings:
    """
    The bindings.

    Raises:
        ImportError: if they are not installed.
    """
    try:
        return Bindings(
            import_module("mlir.ir"),
            import_module("mlir.dialects.arith"),
            import_module("mlir.dialects.cf"),
            import_module("mlir.dialects.func"),
            import_module("mlir.dialects.linalg"),
            import_module("mlir.dialects.llvm"),
            import_module("mlir.dialects.math"),
            import_module("mlir.dialects.memref"),
            import_module("mlir.dialects.scf"),
            import_module("mlir.dialects.tensor"),
            import_module("mlir.execution_engine"),
            import_module("mlir.passmanager"),
        )
    except ImportError:
        raise missing_package("compiled execution", "MLIR", "mlir") from None


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
