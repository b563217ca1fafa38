"""Inlining of the calls in a module of StableHLO ops."""

from collections.abc import Mapping, Sequence

from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation

from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.runtime.entry_function import inline_call

from .dialect import CompositeOp

_CALLS = CallOp | CompositeOp


def called_functions(op: Operation) -> Sequence[tuple[CallOp | CompositeOp, str]]:
    """Return the calls and composites in an op, and the names of their functions."""
    return [
        (call, symbol.string_value())
        for call in op.walk()
        if isinstance(call, _CALLS)
        for symbol in [call.callee if isinstance(call, CallOp) else call.decomposition]
    ]


def inline_calls(
    function: FuncOp, functions: Mapping[str, FuncOp], callers: Sequence[str] = ()
) -> None:
    """
    Inline the calls and composites in a function.

    Args:
        function: the function.
        functions: all functions, by name.
        callers: names of the functions that call this one.

    Raises:
        ValueError: if a function calls itself, or has no single block.
    """
    callers = [*callers, function.sym_name.data]
    for call, name in called_functions(function):
        if name in callers:
            raise ValueError(f"function '{name}' calls itself")
        if (callee := functions.get(name)) is None or len(callee.body.blocks) != 1:
            raise ValueError(
                f"{location_prefix(call.location)}function '{name}' has no single block"
            )
        inline_calls(callee, functions, callers)
        inline_call(call, callee)
