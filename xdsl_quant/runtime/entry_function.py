"""Functions of a module: its entry function, used symbols, and inlining of calls."""

from collections.abc import Collection, Iterator, Sequence

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import quoted


def entry_function(module: ModuleOp, name: str | None = None) -> FuncOp:
    """
    Return the function with this name. Without a name, return the only public function
    with a body, or else `main`.

    Raises:
        ValueError: if there is no such function, or it has no body.
        TypeError: if the name is not a `str`.
    """
    check_function_name(name, "entry")
    functions = functions_by_name(module)
    if name is None:
        return functions[_only_public(functions)]
    if (function := functions.get(name)) is None:
        raise ValueError(f"unknown function '{name}'{_available_names(functions)}")
    if function.is_declaration:
        raise ValueError(f"function '{name}' has no body")
    return function


def functions_by_name(module: ModuleOp) -> dict[str, FuncOp]:
    """Return the functions of a module by name."""
    return {op.sym_name.data: op for op in module.body.ops if isinstance(op, FuncOp)}


def inline_call(call: Operation, function: FuncOp) -> None:
    """
    Replace a call by copies of the ops of a function.

    Args:
        call: op whose operands and results are those of the function.
        function: function with one block.
    """
    *ops, terminator = function.body.block.ops
    arguments = function.body.block.args
    values: dict[SSAValue, SSAValue] = dict(zip(arguments, call.operands, strict=True))
    copies = [op.clone(values) for op in ops]
    results = [values.get(value, value) for value in terminator.operands]
    Rewriter.replace_op(call, copies, results)


def check_function_name(name: object, argument: str) -> None:
    """
    Check the type of a function name.

    Args:
        name: value given as the function name.
        argument: name of the parameter in the message.

    Raises:
        TypeError: if the value is neither a `str` nor `None`.
    """
    if not isinstance(name, str | None):
        raise TypeError(
            f"{argument} must be a function name or None, not {type(name).__name__}"
        )


def check_argument_count(name: str, expected: int, given: int) -> None:
    """
    Check the number of arguments of a call.

    Raises:
        TypeError: if a function gets more or fewer arguments than it takes.
    """
    if given != expected:
        noun = "argument" if expected == 1 else "arguments"
        raise TypeError(f"function '{name}' takes {expected} {noun}, but got {given}")


def symbols_of(module: ModuleOp) -> dict[str, Operation]:
    """Return the symbol ops of a module by name."""
    return {
        symbol.data: op
        for op in module.ops
        if isinstance(symbol := op.get_attr_or_prop("sym_name"), StringAttr)
    }


def reachable_symbols(module: ModuleOp, function: FuncOp) -> dict[str, Operation]:
    """Return a function and all symbols that it references, also indirectly."""
    return symbols_from(module, [function.sym_name.data])


def symbols_from(module: ModuleOp, todo: list[str]) -> dict[str, Operation]:
    """Return the symbols with these names and all symbols that they reference."""
    symbols = symbols_of(module)
    reached: dict[str, Operation] = {}
    while todo:
        name = todo.pop()
        if name in symbols and name not in reached:
            reached[name] = symbols[name]
            todo += referenced_symbols(symbols[name])
    return reached


def reachable_functions(module: ModuleOp, function: FuncOp) -> Sequence[FuncOp]:
    """Return a function and all functions that it references, also indirectly."""
    reached = reachable_symbols(module, function)
    return [op for op in reached.values() if isinstance(op, FuncOp)]


def unused_prefix(prefix: str, taken: Collection[str]) -> str:
    """Return `prefix`, with underscores appended until no taken name starts with it."""
    while any(name.startswith(prefix) for name in taken):
        prefix += "_"
    return prefix


def referenced_symbols(op: Operation) -> Iterator[str]:
    """Yield the symbols that an op and its nested ops reference."""
    for inner in op.walk():
        yield from _own_symbols(inner)


def _own_symbols(op: Operation) -> Iterator[str]:
    for attr in (*op.properties.values(), *op.attributes.values()):
        for symbol in attr if isa(attr, ArrayAttr) else (attr,):
            if isinstance(symbol, SymbolRefAttr):
                yield symbol.root_reference.data


def ops_in_execution_order(module: ModuleOp, function: FuncOp) -> Iterator[Operation]:
    """
    Yield the ops of a function and of all functions that it references: the ops of a
    function before the first op that references it.
    """
    symbols, visited = symbols_of(module), set[Operation]()

    def visit(symbol: Operation) -> Iterator[Operation]:
        visited.add(symbol)
        for op in symbol.walk():
            for name in _own_symbols(op):
                if name in symbols and symbols[name] not in visited:
                    yield from visit(symbols[name])
            yield op

    yield from visit(function)


def _only_public(functions: dict[str, FuncOp]) -> str:
    public = [name for name, function in functions.items() if _is_public(function)]
    if len(public) == 1:
        return public[0]
    if "main" in public:
        return "main"
    if not public:
        raise ValueError("the module has no public function with a body")
    raise ValueError(f"missing function name{_available_names(public)}")


def _is_public(function: FuncOp) -> bool:
    visibility = function.sym_visibility
    is_public = visibility is None or visibility.data == "public"
    return is_public and not function.is_declaration


def _available_names(names: Collection[str]) -> str:
    if not names:
        return "; the module has none"
    return f"; available: {quoted(names)}"
