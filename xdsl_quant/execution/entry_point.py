"""The function of a module that is to be called, with all that it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from xdsl_quant.entry_function import entry_function

from .compilation_error import CompilationError


@dataclass(frozen=True)
class EntryPoint:
    """A function in a module of its own, in which there is nothing that it does not use."""

    name: str

    module: ModuleOp
    """A copy, free to be changed."""

    symbols: Collection[str]
    """The names of all functions and other symbols in the module."""

    argument_types: Sequence[Attribute]

    result_types: Sequence[Attribute]

    @staticmethod
    def of(module: ModuleOp, name: str | None) -> EntryPoint:
        """
        The entry point `name` of a module, or the one that needs no name: the only public
        function, or `main`.

        Raises:
            CompilationError: if there is no such function, or it needs one without a
                body.
        """
        try:
            function = entry_function(module, name)
        except ValueError as e:
            raise CompilationError(str(e)) from None
        symbols = {
            symbol.data: op
            for op in module.ops
            if isinstance(symbol := op.get_attr_or_prop("sym_name"), StringAttr)
        }
        needed = _needed(symbols, function)
        for op in needed.values():
            if isinstance(op, FuncOp) and op.is_declaration:
                raise CompilationError(
                    f"function '{op.sym_name.data}' has no body: compiled code cannot "
                    "call what is not in its module"
                )
        return EntryPoint(
            function.sym_name.data,
            ModuleOp([_private(op.clone()) for op in needed.values()]),
            needed.keys(),
            function.function_type.inputs.data,
            function.function_type.outputs.data,
        )


def _needed(symbols: Mapping[str, Operation], function: FuncOp) -> dict[str, Operation]:
    """The function and all symbols that it refers to, directly or not."""
    needed: dict[str, Operation] = {}
    todo = [function.sym_name.data]
    while todo:
        name = todo.pop()
        if name in needed or name not in symbols:
            continue
        needed[name] = symbols[name]
        todo += _references(symbols[name])
    return needed


def _private(op: Operation) -> Operation:
    """Mark a function as one that may vanish if all calls of it are inlined."""
    if isinstance(op, FuncOp):
        op.sym_visibility = StringAttr("private")
    return op


def _references(op: Operation) -> Iterator[str]:
    for inner in op.walk():
        for attr in (*inner.properties.values(), *inner.attributes.values()):
            if isinstance(attr, SymbolRefAttr):
                yield attr.root_reference.data
