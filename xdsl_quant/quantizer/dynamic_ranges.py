"""
What the dialect of a float model does for the quantizer: the form that kernels are fused
from, and products that quantize their activations at run time.

Frontends such as jax print small private functions, and ops that their dialect simplifies.
"""

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from xdsl_quant.diagnostics import op_name
from xdsl_quant.runtime.entry_function import functions_by_name, symbols_in
from xdsl_quant.runtime.model_dialects import ModelDialect
from xdsl_quant.runtime.plugins import plugins

_UNKNOWN = ModelDialect()


def model_dialect(op: Operation) -> ModelDialect:
    """Return the dialect of an op."""
    found = plugins().model_dialects.get(op_name(op).partition(".")[0])
    return _UNKNOWN if found is None else found()


def quantize_activations(module: ModuleOp) -> None:
    """
    Replace products that take quantized weights by integer products, unless their dialect
    has kernels that quantize activations themselves.

    Modules without such products do not change.

    Args:
        module: changes; its weights are float constants that are quantized.
    """
    for dialect in {model_dialect(op): None for op in module.walk()}:
        dialect.quantize_activations(module)


_MAX_INLINED_OPS = 64
"""Most ops of a function that is inlined."""


def prepare(module: ModuleOp, entry: FuncOp) -> None:
    """
    Inline small private functions, and simplify ops: remove casts to the same type, and
    fold moves of constants, for example.

    Args:
        module: the float model, which changes.
        entry: the function that takes the samples. It is kept.
    """
    inline_small_functions(module, entry)
    for op in [*module.walk()]:
        model_dialect(op).simplify(op)


def inline_small_functions(module: ModuleOp, entry: FuncOp) -> None:
    """
    Replace calls of small private functions by their ops, and remove these functions if
    nothing refers to them any more.
    """
    functions = functions_by_name(module)
    done: set[str] = set()
    for name in functions:
        _inline_calls_in(name, functions, done)
    used = {*symbols_in(module)}
    for name, function in functions.items():
        if _is_private(function) and function is not entry and name not in used:
            Rewriter.erase_op(function)


def _inline_calls_in(name: str, functions: dict[str, FuncOp], done: set[str]) -> None:
    """Inline the calls in a function, after those in the functions that it calls."""
    if name in done:
        return
    done.add(name)
    for call in [op for op in functions[name].walk() if isinstance(op, CallOp)]:
        callee = call.callee.root_reference.data
        if callee not in functions or callee == name:
            continue
        _inline_calls_in(callee, functions, done)
        if _is_inlined(functions[callee]):
            _inline(call, functions[callee])


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
        # A function that calls itself, or one of its callers, is none of ops alone.
        and not any(isinstance(op, CallOp) for op in ops)
    )


def _inline(call: CallOp, function: FuncOp) -> None:
    *ops, terminator = function.body.block.ops
    arguments = function.body.block.args
    values: dict[SSAValue, SSAValue] = dict(zip(arguments, call.operands, strict=True))
    copies = [op.clone(values) for op in ops]
    results = [values.get(value, value) for value in terminator.operands]
    Rewriter.replace_op(call, copies, results)
