"""Compile a module of functions on static tensors with MLIR, and call them from NumPy."""

import ctypes
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

# Few of the bindings have type annotations that a checker finds.
_execution_engine: Any = import_module("mlir.execution_engine")
_func: Any = import_module("mlir.dialects.func")
_ir: Any = import_module("mlir.ir")
_passmanager: Any = import_module("mlir.passmanager")
_runtime: Any = import_module("mlir.runtime")

_PASSES = (
    # Tensors: one loop nest for what is computed in one go.
    "canonicalize",
    "cse",
    "func.func(convert-elementwise-to-linalg)",
    "linalg-fuse-elementwise-ops",
    "canonicalize",
    "cse",
    "eliminate-empty-tensors",
    # Buffers: a result becomes an argument that the caller allocates.
    "one-shot-bufferize{bufferize-function-boundaries=true "
    "function-boundary-type-conversion=identity-layout-map}",
    "canonicalize",
    "drop-equivalent-buffer-results",
    "buffer-results-to-out-params{hoist-static-allocs=true "
    "hoist-dynamic-allocs=true modify-public-functions=true}",
    "buffer-deallocation-pipeline",
    "func.func(llvm-request-c-wrappers)",
    "canonicalize",
    "cse",
    # Loops and branches.
    "func.func(convert-linalg-to-loops)",
    "lower-affine",
    "convert-scf-to-cf",
    "expand-strided-metadata",
    "lower-affine",
    # LLVM.
    "convert-math-to-llvm",
    "convert-math-to-libm",
    "convert-arith-to-llvm",
    "convert-index-to-llvm",
    "finalize-memref-to-llvm",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "convert-ub-to-llvm",
    "canonicalize",
    "cse",
    "reconcile-unrealized-casts",
)


class CompiledModule:
    """The compiled functions of a module."""

    def __init__(self, text: str, names: Sequence[str], opt_level: int = 2):
        """
        Compile a module to machine code. `names` are the functions that will be called,
        `opt_level` is LLVM's, 0 to 3.
        """
        with _ir.Context():
            module = _ir.Module.parse(text)
            _keep_arguments(module)
            pipeline = f"builtin.module({','.join(_PASSES)})"
            _passmanager.PassManager.parse(pipeline).run(module.operation)
            self._engine = _execution_engine.ExecutionEngine(module, opt_level)
        # The first look for a function compiles the module.
        for name in names:
            self._engine.lookup(name)

    def call(self, name: str, *arrays: NDArray[Any]) -> None:
        """
        Call a function with the arrays of its arguments and, last, that of its result,
        which it fills. Arrays must have the element types and the shapes of the function.
        """
        # An argument is a pointer to the descriptor of an array, and the call wants
        # the address of that pointer.
        descriptors = [
            ctypes.pointer(ctypes.pointer(_runtime.get_ranked_memref_descriptor(array)))
            for array in arrays
        ]
        self._engine.invoke(name, *descriptors)


def _keep_arguments(module: Any) -> None:
    """
    Forbid the functions to write to their arguments: bufferization may otherwise put
    intermediate values into the arrays of the caller.
    """
    with module.context:
        unwritable = _ir.DictAttr.get(
            {"bufferization.writable": _ir.BoolAttr.get(False)}
        )
        for function in module.body.operations:
            if isinstance(function, _func.FuncOp) and function.arguments:
                function.attributes["arg_attrs"] = _ir.ArrayAttr.get(
                    [unwritable] * len(function.arguments)
                )
