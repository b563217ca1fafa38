"""The function of a module that is to be called, with all that it needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from xdsl_quant.runtime.arrays import shortened
from xdsl_quant.runtime.entry_function import entry_function, symbols_reached
from xdsl_quant.runtime.host_functions import check_host_functions

from .boundary import Boundary
from .compilation_error import CompilationError


@dataclass(frozen=True)
class EntryPoint:
    """A function in a module of its own, in which there is nothing that it does not use."""

    name: str

    module: ModuleOp
    """A copy, free to be changed."""

    symbols: Collection[str]
    """The names of all functions and other symbols in the module."""

    arguments: Sequence[Boundary]

    results: Sequence[Boundary]

    host_declarations: Mapping[str, Sequence[Boundary]]
    """The arguments of the functions in the module that Python defines, by name."""

    @staticmethod
    def of(
        module: ModuleOp, name: str | None, host_names: Collection[str] = ()
    ) -> EntryPoint:
        """
        The entry point `name` of a module, or the one that needs no name: the only public
        function, or `main`. Python defines the functions `host_names`.

        Raises:
            CompilationError: if there is no such function, it needs one without a body,
                Python cannot define one, or there are no arrays for a type in a signature.
            ImportError: if a type needs a package that is not installed.
        """
        try:
            function = entry_function(module, name)
            check_host_functions(module, host_names)
        except ValueError as e:
            raise CompilationError(str(e)) from None
        needed = symbols_reached(module, function)
        declarations = {
            name: op
            for name, op in needed.items()
            if isinstance(op, FuncOp) and op.is_declaration
        }
        for missing in declarations.keys() - {*host_names}:
            raise CompilationError(
                f"function '{missing}' has no body: compiled code cannot call what is not "
                "in its module"
            )
        own_module = ModuleOp([_private(op.clone()) for op in needed.values()])
        entry_name = function.sym_name.data
        type_ = function.function_type
        return EntryPoint(
            entry_name,
            own_module,
            needed.keys(),
            _boundaries(type_.inputs, "argument", entry_name),
            _boundaries(type_.outputs, "result", entry_name),
            {name: _host_arguments(op) for name, op in declarations.items()},
        )


def _boundaries(
    types: Iterable[Attribute], noun: str, function: str
) -> Sequence[Boundary]:
    return [
        Boundary.of(type_, f"{noun} {i} of '{function}'")
        for i, type_ in enumerate(types)
    ]


def _private(op: Operation) -> Operation:
    """
    Mark a function as one that may vanish if all calls of it are inlined, and one without a
    body as one that only reads the memory of its arguments.
    """
    if isinstance(op, FuncOp):
        op.sym_visibility = StringAttr("private")
        if op.is_declaration:
            reads = DictionaryAttr({"bufferization.access": StringAttr("read")})
            op.arg_attrs = ArrayAttr([reads] * len(op.function_type.inputs))
            op.attributes["llvm.emit_c_interface"] = UnitAttr()
    return op


def _host_arguments(declaration: FuncOp) -> Sequence[Boundary]:
    name = declaration.sym_name.data
    arguments = _boundaries(declaration.function_type.inputs, "argument", name)
    for i, argument in enumerate(arguments):
        if not argument.is_plain:
            raise CompilationError(
                f"argument {i} of '{name}' has type '{shortened(argument.type_)}', but "
                "Python cannot read the memory of such tensors"
            )
    return arguments
