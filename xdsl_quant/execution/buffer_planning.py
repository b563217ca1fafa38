"""One block of memory for the intermediate values of a function."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from . import mlir_bindings as mlir
from .building import has_identity_layout, index, is_dynamic
from .memory_plan import ALIGNMENT, Lifetime, plan_memory
from .mlir_bindings import Values, arith, ir, memref, scf
from .outlining import VIEWS

_USES = (
    "func.call",
    "memref.copy",
    "memref.load",
    "memref.store",
    "vector.load",
    "vector.store",
)
"""Ops that use a buffer and keep no hold of it."""


def plan_buffers(module: ir.Module, name: str) -> int:
    """
    Let buffers of a function be parts of one that is allocated once a call: those of static
    sizes that only calls, copies, loads and stores of its outermost block use. Buffers
    whose lifetimes do not overlap share memory.

    Returns:
        the bytes that the function allocates for buffers of static sizes in this block.
    """
    (function,) = mlir.functions_in(module, [name])
    ops = mlir.operations_of(mlir.body_of(function))
    planned, apart = _lifetimes(ops)
    offsets, size = plan_memory([*planned.values()])
    if not size:
        return apart
    with function.location:
        with ir.InsertionPoint(ops[0]):
            type_ = ir.MemRefType.get([size], ir.IntegerType.get_signless(8))
            block = memref.alloc(type_, [], [], alignment=ALIGNMENT)
        with ir.InsertionPoint(ops[-1]):
            memref.dealloc(block)
    for buffer, offset in zip(planned, offsets, strict=True):
        op = buffer.owner.operation
        for user in mlir.users_of(buffer):
            if user.name == "memref.dealloc":
                user.erase()
        with ir.InsertionPoint(op), op.location:
            view = memref.view(buffer.type, block, index(offset), [])
        buffer.replace_all_uses_with(view)
        op.erase()
    return apart + size


def _lifetimes(ops: Sequence[ir.Operation]) -> tuple[dict[ir.Value, Lifetime], int]:
    """The buffers that can share memory, and the bytes of others, of the ops of a block."""
    positions = {mlir.identity_of(op): position for position, op in enumerate(ops)}
    planned: dict[ir.Value, Lifetime] = {}
    apart = 0
    for position, op in enumerate(ops):
        if op.name != "memref.alloc" or not (size := _memref_bytes(op.result.type)):
            continue
        if (steps := _use_positions(op.result, positions)) is None:
            apart += size
        else:
            planned[op.result] = Lifetime(size, position, max(steps, default=position))
    return planned, apart


def free_where_assertions_fail(module: ir.Module) -> None:
    """
    Let functions free their buffers where an assertion does not hold, as they return there.
    Buffers are left that are not freed in the block in which they are allocated.
    """
    for function in mlir.ops_in(module, "func.func"):
        _free_in_region(function.regions[0], [])


def _free_in_region(region: ir.Region, outside: Values) -> None:
    """The same in a region; `outside` are the buffers that are allocated around it."""
    for block in region:
        buffers = [*outside]
        for op in mlir.operations_of(block):
            if op.name == "memref.alloc" and _is_freed_in(block, op.results[0]):
                buffers += op.results
            elif op.name == "memref.dealloc" and op.operands[0] in buffers:
                buffers.remove(op.operands[0])
            elif op.name == "cf.assert" and buffers:
                _free_before_failing(op, buffers)
            for inner in op.regions:
                _free_in_region(inner, buffers)


def _is_freed_in(block: ir.Block, buffer: ir.Value) -> bool:
    frees = [user for user in mlir.users_of(buffer) if user.name == "memref.dealloc"]
    return len(frees) == 1 and frees[0].block == block


def _free_before_failing(assertion: ir.Operation, buffers: Values) -> None:
    (condition,) = assertion.operands
    with assertion.location:
        with ir.InsertionPoint(assertion):
            true = arith.constant(condition.type, ir.IntegerAttr.get(condition.type, 1))
            branch = scf.IfOp(arith.xori(condition, true))
        with ir.InsertionPoint(mlir.body_of(branch)):
            for buffer in buffers:
                memref.dealloc(buffer)
            scf.yield_([])


def _memref_bytes(type_: ir.Type) -> int:
    """The bytes of a memref; 0 if they are not known."""
    assert isinstance(type_, ir.MemRefType)
    if not has_identity_layout(type_) or any(map(is_dynamic, type_.shape)):
        return 0
    return prod(type_.shape) * _number_bytes(type_.element_type)


def _number_bytes(type_: ir.Type) -> int:
    """The bytes of a number, which are whole ones by now; 0 for what is no number."""
    if isinstance(type_, ir.IndexType):
        return 8
    return type_.width // 8 if isinstance(type_, ir.IntegerType | ir.FloatType) else 0


def _use_positions(buffer: ir.Value, positions: dict[int, int]) -> Sequence[int] | None:
    """
    The positions of the ops that use a buffer or views of it; `None` if they are not known,
    or if the buffer is not freed in the block in which it is allocated.

    Args:
        buffer: the result of an allocation.
        positions: the positions of all ops of the block, by identity.
    """
    steps: list[int] = []
    freed = 0
    todo = [buffer]
    while todo:
        for op in mlir.users_of(todo.pop()):
            if (position := positions.get(mlir.identity_of(op))) is None:
                return None
            if op.name in VIEWS:
                todo += op.results
            elif op.name == "memref.dealloc":
                freed += 1
            elif op.name in _USES and not any(map(_is_memref, op.results)):
                steps.append(position)
            else:
                return None
    return steps if freed == 1 else None


def _is_memref(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType)
