"""Inlining of calls before kernels are matched."""

from collections.abc import Container

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from xdsl_quant.runtime.entry_function import (
    functions_by_name,
    inline_call,
    referenced_symbols,
)
from xdsl_quant.transforms.propagation.kernel_matching import (
    composite_name,
    pattern_names,
)

MAX_INLINED_OPS = 64
"""Maximum number of ops of an inlined function."""


_FAKE_QUANT = "composite quant.fake_quant"
"""Pattern name of fake quantization, which states parameters that its function hides."""


def inline_small_functions(
    module: ModuleOp, entry: FuncOp, kept: Container[str] = ()
) -> None:
    """
    Inline composites and calls of small private functions, except those with the pattern
    names `kept`, and remove unused private functions.
    """
    functions = functions_by_name(module)
    done: set[str] = set()
    for name in functions:
        _inline_calls_in(name, functions, done, kept)
    erase_unused_functions(module, entry)


def erase_unused_functions(module: ModuleOp, entry: FuncOp) -> None:
    """Erase private functions, except `entry`, that nothing references."""
    used = {*referenced_symbols(module)}
    for name, function in functions_by_name(module).items():
        if _is_private(function) and function is not entry and name not in used:
            Rewriter.erase_op(function)


def _inline_calls_in(
    name: str, functions: dict[str, FuncOp], done: set[str], kept: Container[str]
) -> None:
    if name in done:
        return
    done.add(name)
    for call in [op for op in functions[name].walk() if composite_name(op) is not None]:
        callee, *_ = referenced_symbols(call)
        pattern = pattern_names(call)[-1]
        is_kept = pattern in kept or pattern == _FAKE_QUANT
        if callee not in functions or callee == name or is_kept:
            continue
        _inline_calls_in(callee, functions, done, kept)
        if _is_inlined(call, functions[callee]):
            inline_call(call, functions[callee])


def _is_private(function: FuncOp) -> bool:
    visibility = function.sym_visibility
    return visibility is not None and visibility.data == "private"


def _is_inlined(call: Operation, function: FuncOp) -> bool:
    if not _is_private(function) or len(function.body.blocks) != 1:
        return False
    ops = [*function.walk()]
    return (
        isinstance(function.body.block.last_op, ReturnOp)
        # Composites would stay in floating point.
        and (len(ops) <= MAX_INLINED_OPS or not isinstance(call, CallOp))
        # Recursive functions still contain calls here.
        and not any(isinstance(op, CallOp) for op in ops)
    )
