"""
Outlining of the loop nests of a function.

LLVM compiles 90 small loop nests in 12 ms each as separate functions, and in 20 ms each
within one function. Arguments of functions can also be marked as distinct buffers.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from .. import mlir_bindings as mlir
from ..building import buffer_of
from ..loop_fixes import iterations
from ..mlir_bindings import Values, arith, func, ir, vector
from .memrefs import is_distinct_buffer

_COPIED = "arith.constant", "memref.get_global", "memref.view"
"""Ops without effect that a new function repeats."""

_LOADS = "memref.load", "vector.load"


def outline_loops(module: ir.Module, name: str) -> list[str]:
    """
    Move each outermost loop nest of a function to a new function, if there are several.
    Return the names of the new functions; memref arguments of a function do not alias.
    """
    (caller,) = mlir.functions_in(module, [name])
    nests = [
        op
        for block in caller.regions[0].blocks
        for op in mlir.operations_of(block)
        if op.name == "scf.for" and _can_be_outlined(op)
    ]
    if len(nests) < 2:
        return []
    outlined = dict(zip(mlir.unused_names(module, name), nests, strict=False))
    for new, nest in outlined.items():
        _outline([nest], new, caller)
    return [*outlined]


def _can_be_outlined(nest: ir.Operation) -> bool:
    """
    Return True if a nest has no results, no assertions and only distinct buffers. Buffers
    that it only reads may have several views.
    """
    if nest.results or mlir.ops_in(nest, "cf.assert"):
        return False
    ops = mlir.ops_in(nest)
    changed = {v for op in ops if op.name not in _LOADS for v in op.operands}
    memrefs = [v for v in _captured_values(nest) if isinstance(v.type, ir.MemRefType)]
    views: dict[ir.Value, list[ir.Value]] = {}
    for view in memrefs:
        views.setdefault(buffer_of(view), []).append(view)
    return all(map(is_distinct_buffer, views)) and all(
        len(each) == 1 or not changed & {*each} for each in views.values()
    )


def _outline(ops: Sequence[ir.Operation], name: str, caller: ir.Operation) -> None:
    """Replace ops without results for other ops by a call of a new function."""
    arguments, copied = _arguments_and_copied_ops(_captured_values(*ops))
    types = [value.type for value in arguments]
    with ops[0].location:
        with ir.InsertionPoint(caller):
            function = mlir.declare(name, types)
        # The attributes prevent inlining.
        function.attributes["passthrough"] = caller.attributes["passthrough"]
        with ir.InsertionPoint(ops[0]):
            func.call([], name, arguments)
        block = mlir.append_block(function, types)
        with ir.InsertionPoint(block):
            copies = [op.clone() for op in copied]
            end = func.return_([])
    for op in ops:
        op.move_before(end)
    inside = zip(arguments, block.arguments, strict=True)
    results = ([op.results[0] for op in each] for each in (copied, copies))
    values = {**dict(inside), **dict(zip(*results, strict=True))}
    for op in mlir.ops_in(function):
        for i, operand in enumerate(op.operands):
            op.operands[i] = values.get(operand, operand)


def _arguments_and_copied_ops(
    captured: Values,
) -> tuple[Sequence[ir.Value], Sequence[ir.Operation]]:
    """Return captured values to pass, and the ops to repeat after those they use."""
    arguments: dict[ir.Value, None] = {}
    copied: dict[ir.Value, ir.Operation] = {}

    def visit(value: ir.Value) -> None:
        if (op := mlir.defining_op(value, *_COPIED)) is None:
            arguments[value] = None
        elif value not in copied:
            for operand in op.operands:
                visit(operand)
            copied[value] = op

    for value in captured:
        visit(value)
    return [*arguments], [*copied.values()]


def _captured_values(*outlined: ir.Operation) -> Values:
    """Return the values that ops use but do not define."""
    ops = [inner for op in outlined for inner in mlir.ops_in(op)]
    defined = {
        value
        for op in ops
        for values in (op.results, *(b.arguments for r in op.regions for b in r))
        for value in values
    }
    used = dict.fromkeys(operand for op in ops for operand in op.operands)
    return [value for value in used if value not in defined]


_MAX_OPS = 128
"""Number of ops in a part of a long function; more if later ops use their results."""


def outline_parts(module: ir.Module, name: str) -> None:
    """
    Move runs of ops of a long function to functions. LLVM takes quadratic time for long
    blocks: 4 s for 5,000 calls and stores.
    """
    (caller,) = mlir.functions_in(module, [name])
    ops = mlir.operations_of(mlir.body_of(caller))
    positions = {mlir.identity_of(op): position for position, op in enumerate(ops)}
    runs = [_OpRun()]
    for position, op in enumerate(ops):
        if op.name in _COPIED:
            continue
        if op.name in _FIXED or len(op.regions):
            runs.append(_OpRun())
            continue
        if len(runs[-1].ops) >= _MAX_OPS and runs[-1].last_use < position:
            runs.append(_OpRun())
        runs[-1].add(op, position, positions)
    if sum(len(run.ops) for run in runs) <= 2 * _MAX_OPS:
        return
    parts = [run.ops for run in runs if len(run.ops) > 1 and run.is_closed]
    for new, part in zip(mlir.unused_names(module, name), parts, strict=False):
        _outline(part, new, caller)


@dataclass
class _OpRun:
    """Consecutive ops without regions of a block."""

    ops: list[ir.Operation] = field(default_factory=list[ir.Operation])

    end: int = -1
    """Position of the last op in the block."""

    last_use: int = -1
    """Position of the last user of a result; the end of the block for nested users."""

    def add(
        self, op: ir.Operation, position: int, positions: Mapping[int, int]
    ) -> None:
        """Add an op; `positions` maps the identities of the ops in the block."""
        self.ops.append(op)
        self.end = position
        for result in op.results:
            for user in mlir.users_of(result):
                used = positions.get(mlir.identity_of(user), len(positions))
                self.last_use = max(self.last_use, used)

    @property
    def is_closed(self) -> bool:
        """True if no other op uses a result."""
        return self.last_use <= self.end


_FIXED = "cf.assert", "func.return", "memref.alloc", "memref.dealloc"
"""Ops that stay in a long function, as loops do: buffers of its own are distinct."""


def share_functions(
    module: ir.Module, names: Collection[str] | None = None
) -> dict[str, int]:
    """
    Replace private functions that differ only in constants by one that takes them.

    Args:
        module: the module.
        names: names of the functions to replace; by default all private functions.

    Returns:
        Negated number of added arguments in the LLVM dialect, by function.
    """
    counts: dict[str, int] = {}
    # Callers can be equal once their callees are shared.
    for has_calls in (False, True):
        equal: dict[str, list[ir.Operation]] = {}
        for function in _private_functions(module, has_calls):
            if names is None or mlir.symbol_of(function) in names:
                text = _text_without_constants(function)
                equal.setdefault(text, []).append(function)
        if all(len(functions) == 1 for functions in equal.values()):
            continue
        calls: dict[str, list[ir.Operation]] = {}
        for call in mlir.ops_in(module, "func.call"):
            calls.setdefault(mlir.symbol_of(call, "callee"), []).append(call)
        for first, *duplicates in equal.values():
            if duplicates:
                counts[mlir.symbol_of(first)] = _share(first, duplicates, calls)
    return counts


def _private_functions(module: ir.Module, has_calls: bool) -> list[ir.Operation]:
    """Return the functions without calls, or those that call only such functions."""
    functions = [
        op
        for op in mlir.operations_of(module.body)
        if op.name == "func.func"
        and "sym_visibility" in op.attributes
        and "arg_attrs" not in op.attributes
        and len([*op.regions[0].blocks]) > 0
    ]
    callees = [*map(_callees, functions)]
    callers = {
        mlir.symbol_of(function)
        for function, called in zip(functions, callees, strict=True)
        if called
    }
    return [
        function
        for function, called in zip(functions, callees, strict=True)
        if bool(called) == has_calls and not called & callers
    ]


def _callees(function: ir.Operation) -> set[str]:
    calls = mlir.ops_in(function, "func.call")
    return {mlir.symbol_of(call, "callee") for call in calls}


def _text_without_constants(function: ir.Operation) -> str:
    """Return the text of a function without its name and its passable constants."""
    # Without the local scope, MLIR numbers the values of the whole module. In the custom
    # form, names of values contain numbers.
    text = str(function.get_asm(use_local_scope=True, print_generic_op_form=True))
    text = text.replace(f'sym_name = "{mlir.symbol_of(function)}"', "", 1)
    passable = map(_is_passable, mlir.ops_in(function, *_CONSTANTS))
    return _CONSTANT.sub(lambda match: "" if next(passable) else match[0], text)


_CONSTANTS = {"arith.constant": "value", "memref.get_global": "name"}
"""The attribute that distinguishes constants, by op name."""

_CONSTANT = re.compile(r'"(?:arith\.constant|memref\.get_global)"\(\) <{[^}]*}>')

_EQUALLY_FAST = {
    *("arith.addi", "arith.cmpi", "arith.maxsi", "arith.minsi", "arith.subi"),
    *("func.call", "memref.store"),
}
"""Ops that are as fast on variables as on constants, unlike shifts and products."""


def _is_passable(constant: ir.Operation) -> bool:
    """Return True if an argument instead of the constant is as fast."""
    if constant.name == "memref.get_global":
        return True
    (value,) = constant.results
    type_ = value.type
    element = type_.element_type if isinstance(type_, ir.VectorType) else type_
    return (
        isinstance(element, ir.IntegerType)
        and element.width in (8, 16, 32)
        and _integer_of(constant) is not None
        and all(user.name in _EQUALLY_FAST for user in mlir.users_of(value))
    )


def _integer_of(constant: ir.Operation) -> int | None:
    """Return the integer of an `arith.constant`, or that of all elements of a vector."""
    number = constant.attributes["value"]
    if isinstance(number, ir.DenseElementsAttr) and number.is_splat:
        number = number.get_splat_value()
    return number.value if isinstance(number, ir.IntegerAttr) else None


def _share(
    function: ir.Operation,
    duplicates: Sequence[ir.Operation],
    calls: Mapping[str, Sequence[ir.Operation]],
) -> int:
    equal = [function, *duplicates]
    different: dict[object, list[Sequence[ir.Operation]]] = {}
    for ops in zip(*(mlir.ops_in(f, *_CONSTANTS) for f in equal), strict=True):
        values = tuple(op.attributes[_CONSTANTS[op.name]] for op in ops)
        if len({*values}) > 1:
            different.setdefault(values, []).append(ops)
    types = [_argument_type(group[0]) for group in different.values()]
    for i, each in enumerate(equal):
        constants = [group[0][i] for group in different.values()]
        for call in calls.get(mlir.symbol_of(each), ()):
            _call_with_constants(call, mlir.symbol_of(function), constants, types)
    for type_, group in zip(types, different.values(), strict=True):
        argument = mlir.body_of(function).add_argument(type_, function.location)
        for constant in (ops[0] for ops in group):
            with ir.InsertionPoint(constant), constant.location:
                value = _sign_extended(argument, constant.results[0].type)
            mlir.replace_op(constant, value)
    inputs, results = mlir.types_of_function(function)
    type_ = ir.FunctionType.get([*inputs, *types], results, function.context)
    function.attributes["function_type"] = ir.TypeAttr.get(type_, function.context)
    for duplicate in duplicates:
        duplicate.erase()
    return -sum(map(_argument_count, types))


def _argument_type(constants: Sequence[ir.Operation]) -> ir.Type:
    """Return the type in which to pass constants: LLVM uses the range of integers."""
    if constants[0].name == "memref.get_global":
        return constants[0].results[0].type
    numbers = [number for op in constants if (number := _integer_of(op)) is not None]
    bits = 1 + max(max(number, ~number).bit_length() for number in numbers)
    return ir.IntegerType.get_signless(next(w for w in (8, 16, 32) if bits <= w))


def _argument_count(type_: ir.Type) -> int:
    """Return the number of arguments in the LLVM dialect for an argument."""
    # { allocated, aligned, offset, sizes, strides }
    return 3 + 2 * type_.rank if isinstance(type_, ir.MemRefType) else 1


def _sign_extended(argument: ir.Value, type_: ir.Type) -> ir.Value:
    """Return an argument of a shared function in the type of its constants."""
    element = type_.element_type if isinstance(type_, ir.VectorType) else type_
    value = argument if argument.type == element else arith.extsi(element, argument)
    return value if value.type == type_ else vector.broadcast(type_, value)


def _call_with_constants(
    call: ir.Operation,
    callee: str,
    constants: Sequence[ir.Operation],
    types: Sequence[ir.Type],
) -> None:
    results = [value.type for value in call.results]
    with ir.InsertionPoint(call), call.location:
        added = [
            op.clone().results[0]
            if op.name == "memref.get_global"
            else arith.constant(type_, _integer_of(op))
            for op, type_ in zip(constants, types, strict=True)
        ]
        new = func.CallOp(results, callee, [*call.operands, *added])
    for value, replacement in zip(call.results, new.results, strict=True):
        value.replace_all_uses_with(replacement)
    call.erase()


def mark_buffers_as_distinct(module: ir.Module, starts: Mapping[str, int]) -> None:
    """Mark pointer arguments as `llvm.noalias`, from an index for each function."""
    # MLIR drops this attribute of a memref when it expands the memref.
    for function in mlir.functions_in(module, starts):
        arguments = [*mlir.body_of(function).arguments]
        marked = arguments[starts[mlir.symbol_of(function)] :]
        with module.context:
            listed = ", ".join(
                "{llvm.noalias}"
                if argument in marked and str(argument.type) == "!llvm.ptr"
                else "{}"
                for argument in arguments
            )
            function.attributes["arg_attrs"] = ir.Attribute.parse(f"[{listed}]")


# Short loops


_MAX_ITERATIONS = 1 << 12
"""Maximum iterations of a scalar loop; they take as long as one Python callback."""


def keep_small_loops_scalar(module: ir.Module) -> None:
    """
    Disable unrolling and vectorization of loops whose body runs at most 4096 times in a
    call.
    """
    with module.context:
        annotation = ir.Attribute.parse(
            "#llvm.loop_annotation<vectorize = <disable = true>, "
            "unroll = <disable = true>>"
        )
    for loop in mlir.ops_in(module, "scf.for"):
        if 0 < _iterations_in_call(loop) <= _MAX_ITERATIONS:
            loop.attributes["loop_annotation"] = annotation


def _iterations_in_call(loop: ir.Operation) -> int:
    """Return how often a function call runs a loop's body; 0 if not constant."""
    count, op = 1, loop
    while op.name != "func.func":
        if op.name == "scf.for":
            count *= len(iterations(op))
        elif op.name == "scf.while":
            return 0
        assert op.parent is not None
        op = op.parent
    return count
