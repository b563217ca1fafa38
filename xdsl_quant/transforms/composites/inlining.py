"""Inlining of calls before kernels are matched."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from xdsl_quant.diagnostics import location_prefix, warn
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.runtime.entry_function import (
    functions_by_name,
    inline_call,
    referenced_symbols,
)
from xdsl_quant.transforms.propagation.kernel_matching import (
    composite_name,
    pattern_names,
)
from xdsl_quant.transforms.propagation.target_spec import OpPattern, TargetSpec

MAX_INLINED_OPS = 64
"""Maximum number of ops of an inlined function."""


_FAKE_QUANT = "composite quant.fake_quant"
"""Pattern name of fake quantization, which states parameters that its function hides."""


def inline_small_functions(
    module: ModuleOp, entry: FuncOp, targets: Sequence[TargetSpec] = ()
) -> None:
    """
    Inline composites and calls of small private functions, except for kernels of the
    targets, and remove unused private functions. Warn of composites that a target lists
    with other ports.
    """
    functions = functions_by_name(module)
    done: set[str] = set()
    for name in functions:
        _inline_calls_in(name, functions, done, targets)
    erase_unused_functions(module, entry)


def erase_unused_functions(module: ModuleOp, entry: FuncOp) -> None:
    """Erase private functions, except `entry`, that nothing references."""
    used = {*referenced_symbols(module)}
    for name, function in functions_by_name(module).items():
        if _is_private(function) and function is not entry and name not in used:
            Rewriter.erase_op(function)


def _inline_calls_in(
    name: str,
    functions: dict[str, FuncOp],
    done: set[str],
    targets: Sequence[TargetSpec],
) -> None:
    if name in done:
        return
    done.add(name)
    for call in [op for op in functions[name].walk() if composite_name(op) is not None]:
        callee, *_ = referenced_symbols(call)
        is_kept = pattern_names(call)[-1] == _FAKE_QUANT or _is_kernel_call(
            call, targets
        )
        if callee not in functions or callee == name or is_kept:
            continue
        _inline_calls_in(callee, functions, done, targets)
        if _is_inlined(call, functions[callee]):
            inline_call(call, functions[callee])


def _is_kernel_call(call: Operation, targets: Sequence[TargetSpec]) -> bool:
    """
    Return True if a call or composite is a kernel, or part of one, of a target. Warn if the
    ports of its kernels do not fit.
    """
    pattern = pattern_names(call)[-1]
    kernels = [
        kernel
        for target in targets
        if pattern in target.op_names
        for kernel in target.kernels.values()
    ]
    inputs, outputs = (
        [scalar_or_element_type(value.type) for value in values]
        for values in (call.operands, call.results)
    )
    has_kernel = False
    for kernel in kernels:
        chains = [p.steps for p in kernel.patterns if isinstance(p, OpPattern)]
        if not any(pattern in step.names for steps in chains for step in steps):
            continue
        if all(len(steps) > 1 for steps in chains) or kernel.signature(inputs, outputs):
            return True
        has_kernel = True
    if has_kernel:
        warn(
            f"{pattern} is not a kernel: no signature of the target takes its "
            f"{len(call.operands)} operands and {len(call.results)} results; its ops are "
            "quantized one by one",
            location_prefix(call.location),
        )
    return False


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
