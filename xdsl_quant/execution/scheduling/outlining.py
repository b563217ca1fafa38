"""
Outlining of the loop nests of a function.

LLVM compiles 90 small loop nests in 12 ms each as separate functions, and in 20 ms each
within one function. Arguments of functions can also be marked as distinct buffers.
"""

from collections.abc import Collection

from .. import mlir_bindings as mlir
from ..building import buffer_of
from ..loop_fixes import iterations
from ..mlir_bindings import Values, func, ir
from .memrefs import is_distinct_buffer

_CONSTANTS = "arith.constant", "memref.get_global"


def outline_loops(module: ir.Module, name: str) -> list[str]:
    """
    Move each outermost loop nest of a function to a new function, if there are several.
    Equal loop nests share one function. Return the names of the new functions; memref
    arguments of a function do not alias.
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
    names: dict[str, str] = {}
    for new, nest in outlined.items():
        function, call = _outline(nest, new, caller)
        text = str(function.get_asm(use_local_scope=True)).replace(f"@{new}(", "@(", 1)
        if (known := names.setdefault(text, new)) != new:
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(known)
            function.erase()
    return [*names.values()]


def _can_be_outlined(nest: ir.Operation) -> bool:
    """Return True if a nest has no results, no assertions and only distinct buffers."""
    if nest.results or mlir.ops_in(nest, "cf.assert"):
        return False
    memrefs = [v for v in _captured_values(nest) if isinstance(v.type, ir.MemRefType)]
    buffers = [buffer_of(memref) for memref in memrefs]
    return len({*buffers}) == len(buffers) and all(map(is_distinct_buffer, buffers))


def _outline(
    nest: ir.Operation, name: str, caller: ir.Operation
) -> tuple[ir.Operation, ir.Operation]:
    """Replace a loop nest of `caller` by a call of a new function; return both."""
    captured = _captured_values(nest)
    constants = [value for value in captured if mlir.defining_op(value, *_CONSTANTS)]
    arguments = [value for value in captured if value not in constants]
    types = [value.type for value in arguments]
    with nest.location:
        with ir.InsertionPoint(caller):
            function = mlir.declare(name, types).operation
        # The attributes prevent inlining.
        function.attributes["passthrough"] = caller.attributes["passthrough"]
        with ir.InsertionPoint(nest):
            call = func.CallOp([], name, arguments).operation
        block = mlir.append_block(function, types)
        with ir.InsertionPoint(block):
            copies = [value.owner.clone().result for value in constants]
            nest.move_before(func.return_([]))
    inside = zip([*arguments, *constants], [*block.arguments, *copies], strict=True)
    values = dict(inside)
    for op in mlir.ops_in(nest):
        for i, operand in enumerate(op.operands):
            op.operands[i] = values.get(operand, operand)
    return function, call


def _captured_values(nest: ir.Operation) -> Values:
    """Return the values that a loop nest uses but does not define."""
    ops = mlir.ops_in(nest)
    defined = {
        value
        for op in ops
        for values in (op.results, *(b.arguments for r in op.regions for b in r))
        for value in values
    }
    used = dict.fromkeys(operand for op in ops for operand in op.operands)
    return [value for value in used if value not in defined]


def mark_buffers_as_distinct(module: ir.Module, names: Collection[str]) -> None:
    """
    Mark the pointer arguments of functions as `llvm.noalias`: MLIR drops this attribute
    of a memref when it expands the memref to several arguments.
    """
    for function in mlir.functions_in(module, names):
        with module.context:
            listed = ", ".join(
                "{llvm.noalias}" if str(argument.type) == "!llvm.ptr" else "{}"
                for argument in mlir.body_of(function).arguments
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
