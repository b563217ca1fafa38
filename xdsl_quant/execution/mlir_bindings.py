"""
MLIR's Python bindings and those of its dialects. Few of them have annotations that a type
checker finds.

Importing this fails without the extra `mlir`: modules that need it are imported when the
first function is compiled.
"""

import ctypes
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Any

from xdsl_quant.runtime.extras import missing_package


def _imported(name: str) -> Any:
    try:
        return import_module(f"mlir.{name}")
    except ImportError:
        raise missing_package("compiled execution", "MLIR", "mlir") from None


_dialects: list[str] = []
"""The names of the dialects below, of which rewrites make ops."""


def _dialect(name: str) -> Any:
    _dialects.append(name)
    return _imported(f"dialects.{name}")


ir = _imported("ir")
execution_engine = _imported("execution_engine")
passmanager = _imported("passmanager")
arith = _dialect("arith")
bufferization = _dialect("bufferization")
cf = _dialect("cf")
func = _dialect("func")
linalg = _dialect("linalg")
llvm = _dialect("llvm")
math = _dialect("math")
memref = _dialect("memref")
scf = _dialect("scf")
tensor = _dialect("tensor")
vector = _dialect("vector")


_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.argtypes = [ctypes.py_object]
_capsule_name.restype = ctypes.c_char_p
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.c_void_p


def new_context() -> Any:
    """
    A context, in one thread, for modules that are compiled.

    MLIR loads other dialects when a text has ops of them or a pass makes some. With all of
    its dialects loaded, a small function takes a tenth longer to compile: loading takes
    time, and `canonicalize` collects the patterns of all ops that are loaded.
    """
    context = ir.Context(load_on_create_dialects=_dialects)
    context.enable_multithreading(False)
    return context


def ops_in(module: Any, *names: str) -> list[Any]:
    """All ops, or those with one of these names; a list, so that they may be erased."""
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if not names or op.name in names:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def identity_of(op: Any) -> int:
    """
    Return the address of an op: its identity in dicts and sets until it is erased.

    MLIR hashes an op by its content, such as its operands, so that a dict or a set loses
    the op once the content changes. Values and blocks are hashed by address.
    """
    capsule = op._CAPIPtr
    return _capsule_pointer(capsule, _capsule_name(capsule))


def made_by(value: Any, *names: str) -> Any:
    """The op that makes a value, if it has one of these names."""
    if not isinstance(value, ir.OpResult):
        return None
    # The class of an op may have an attribute `name`, which is something else.
    op = value.owner.operation
    return op if op.name in names else None


def functions_in(module: Any, names: Collection[str]) -> list[Any]:
    """The functions with these names, of the dialect func or llvm."""
    functions = ops_in(module, "func.func", "llvm.func")
    return [f for f in functions if f.attributes["sym_name"].value in names]


def run_passes(module: Any, passes: Sequence[str]) -> None:
    """Run passes on a module, each as the text of a pipeline."""
    pipeline = f"builtin.module({','.join(passes)})"
    passmanager.PassManager.parse(pipeline).run(module.operation)


def first_diagnostic(error: Any) -> str:
    """Return the first line of the first message of an `MLIRError`."""
    messages = [diagnostic.message for diagnostic in error.error_diagnostics]
    return (messages or [str(error)])[0].partition("\n")[0]
