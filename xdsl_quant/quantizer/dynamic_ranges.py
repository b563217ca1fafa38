"""
Preparation of float models by dialect: inlining and simplification before kernels are
fused, and integer contractions that quantize their activations at run time.
"""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from xdsl_quant.diagnostics import op_name
from xdsl_quant.runtime.entry_function import (
    functions_by_name,
    inline_call,
    referenced_symbols,
)
from xdsl_quant.runtime.model_dialects import ModelDialect
from xdsl_quant.runtime.plugins import plugins

_UNKNOWN = ModelDialect()


def model_dialect(op: Operation) -> ModelDialect:
    """Return the quantizer hooks for the dialect of an op."""
    load = plugins().model_dialects.get(op_name(op).partition(".")[0])
    return _UNKNOWN if load is None else load()


def quantize_activations(module: ModuleOp) -> None:
    """
    Replace contractions with quantized weights by integer contractions that quantize their
    activations, unless the dialect has kernels that quantize activations.

    Args:
        module: a module with quantized float constants as weights; it changes.
    """
    for dialect in {model_dialect(op): None for op in module.walk()}:
        dialect.quantize_activations(module)


_MAX_INLINED_OPS = 64
"""Maximum number of ops of an inlined function."""


def prepare(module: ModuleOp, entry: FuncOp) -> None:
    """
    Inline small private functions, which jax emits, and simplify ops: for example,
    remove casts to the same type and fold data movement of constants.

    Args:
        module: the float model, which changes.
        entry: the function that takes the samples. It is never removed.
    """
    inline_small_functions(module, entry)
    for op in [*module.walk()]:
        model_dialect(op).simplify(op)


def inline_small_functions(module: ModuleOp, entry: FuncOp) -> None:
    """Inline calls of small private functions, and remove unused private functions."""
    functions = functions_by_name(module)
    done: set[str] = set()
    for name in functions:
        _inline_calls_in(name, functions, done)
    used = {*referenced_symbols(module)}
    for name, function in functions.items():
        if _is_private(function) and function is not entry and name not in used:
            Rewriter.erase_op(function)


def _inline_calls_in(name: str, functions: dict[str, FuncOp], done: set[str]) -> None:
    if name in done:
        return
    done.add(name)
    for call in [op for op in functions[name].walk() if isinstance(op, CallOp)]:
        callee = call.callee.root_reference.data
        if callee not in functions or callee == name:
            continue
        _inline_calls_in(callee, functions, done)
        if _is_inlined(functions[callee]):
            inline_call(call, functions[callee])


def _is_private(function: FuncOp) -> bool:
    visibility = function.sym_visibility
    return visibility is not None and visibility.data == "private"


def _is_inlined(function: FuncOp) -> bool:
    if not _is_private(function) or len(function.body.blocks) != 1:
        return False
    ops = [*function.walk()]
    return (
        isinstance(function.body.block.last_op, ReturnOp)
        and len(ops) <= _MAX_INLINED_OPS
        # Recursive functions still contain calls here.
        and not any(isinstance(op, CallOp) for op in ops)
    )
