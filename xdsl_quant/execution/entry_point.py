"""The function of a module that is to be called, with all that it needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.dialects.linalg.ops import ReduceOp
from xdsl.ir import Attribute, Operation

from xdsl_quant.runtime.array_types import shortened
from xdsl_quant.runtime.entry_function import entry_function, symbols_in
from xdsl_quant.runtime.host_functions import check_host_functions

from .boundary import Boundary
from .compilation_error import CompilationError
from .host_calls import HostDeclaration


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

    host_declarations: Sequence[HostDeclaration]
    """The functions in the module that Python defines."""

    has_reductions: bool
    """Whether values are combined, as in a product of matrices."""

    @staticmethod
    def of(
        module: ModuleOp, name: str | None, host_names: Collection[str] = ()
    ) -> EntryPoint:
        """
        The entry point `name` of a module, or the one that needs no name: the only public
        function, or `main`. Python defines the functions `host_names`.

        Raises:
            CompilationError: if there is no such function, it needs one without a body,
                or Python cannot define one.
        """
        try:
            function = entry_function(module, name)
            check_host_functions(module, host_names)
        except ValueError as e:
            raise CompilationError(str(e)) from None
        symbols = {
            symbol.data: op
            for op in module.ops
            if isinstance(symbol := op.get_attr_or_prop("sym_name"), StringAttr)
        }
        needed = _needed(symbols, function)
        declarations = [
            op for op in needed.values() if isinstance(op, FuncOp) and op.is_declaration
        ]
        for op in declarations:
            if op.sym_name.data not in host_names:
                raise CompilationError(
                    f"function '{op.sym_name.data}' has no body: compiled code cannot "
                    "call what is not in its module"
                )
        own_module = ModuleOp([_private(op.clone()) for op in needed.values()])
        return EntryPoint(
            function.sym_name.data,
            own_module,
            needed.keys(),
            function.function_type.inputs.data,
            function.function_type.outputs.data,
            [*map(_host_declaration, declarations)],
            any(map(_is_reduction, own_module.walk())),
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
        todo += symbols_in(symbols[name])
    return needed


def _is_reduction(op: Operation) -> bool:
    if not isinstance(op, LinalgStructuredOperation):
        return isinstance(op, ReduceOp)
    return any(
        iterator.data is IteratorType.REDUCTION for iterator in op.get_iterator_types()
    )


def _private(op: Operation) -> Operation:
    """Mark a function as one that may vanish if all calls of it are inlined."""
    if isinstance(op, FuncOp):
        op.sym_visibility = StringAttr("private")
        if op.is_declaration:
            _mark_as_reader(op)
    return op


def _mark_as_reader(declaration: FuncOp) -> None:
    """Let a function be called with the memory of its arguments, which it only reads."""
    reads = DictionaryAttr({"bufferization.access": StringAttr("read")})
    declaration.arg_attrs = ArrayAttr([reads] * len(declaration.function_type.inputs))
    declaration.attributes["llvm.emit_c_interface"] = UnitAttr()


def _host_declaration(declaration: FuncOp) -> HostDeclaration:
    name = declaration.sym_name.data
    arguments = [
        Boundary.of(type_, f"argument {i} of '{name}'")
        for i, type_ in enumerate(declaration.function_type.inputs)
    ]
    for i, argument in enumerate(arguments):
        if not argument.is_plain:
            raise CompilationError(
                f"argument {i} of '{name}' has type '{shortened(argument.type_)}', but "
                "Python cannot read the memory of such tensors"
            )
    return HostDeclaration(name, arguments)
