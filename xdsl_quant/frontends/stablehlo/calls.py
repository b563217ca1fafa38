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


def endless_call(functions: Mapping[str, FuncOp]) -> tuple[Operation, str] | None:
    """
    Return a call that is reached again whatever the values are, and the name of its
    function; `None` if calls end.
    """
    calls = {
        name: [
            call
            for call in called_functions(function)
            # Branches and loops may end a recursion.
            if call[0].parent_op() is function and len(function.body.blocks) == 1
        ]
        for name, function in functions.items()
    }
    ending: set[str] = set()
    while remaining := calls.keys() - ending:
        new = {
            name
            for name in remaining
            if all(callee not in remaining for _, callee in calls[name])
        }
        if not new:
            # Follow calls from any of these functions until one repeats.
            name, reached = min(remaining), set[str]()
            while True:
                call, callee = next(c for c in calls[name] if c[1] in remaining)
                if callee in reached:
                    return call, callee
                reached.add(name := callee)
        ending |= new
    return None


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
