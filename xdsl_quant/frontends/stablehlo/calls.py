"""Inlining of the calls in a module of StableHLO ops."""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Operation

from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.runtime.entry_function import (
    functions_by_name,
    inline_call,
    symbols_from,
)

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


def endless_call(module: ModuleOp) -> tuple[Operation, str] | None:
    """
    Return a call that is reached again whatever the values are, and the name of its
    function; `None` if calls end. Private functions that nothing calls may call themselves.
    """
    functions = functions_by_name(module)
    calls = {
        name: [
            call
            for call in called_functions(function)
            # Branches and loops may end a recursion.
            if call[0].parent_op() is function and len(function.body.blocks) == 1
        ]
        for name, function in functions.items()
    }
    endless = {*calls}
    while ending := {
        name
        for name in endless
        if all(callee not in endless for _, callee in calls[name])
    }:
        endless -= ending
    if not endless:
        return None
    public = [
        name
        for name, function in functions.items()
        if function.sym_visibility is None or function.sym_visibility.data != "private"
    ]
    endless &= symbols_from(module, public or [*functions]).keys()
    if not endless:
        return None
    # Follow calls from any of these functions until one repeats.
    name, reached = min(endless), set[str]()
    while True:
        call, callee = next(c for c in calls[name] if c[1] in endless)
        if callee in reached:
            return call, callee
        reached.add(name := callee)


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
