"""
Deallocation of buffers that stay in the block of their allocation.

MLIR's pass compares all buffers of a function with each other: it takes 4 s for 3,600.
"""

from . import mlir_bindings as mlir
from .building import VIEWS
from .mlir_bindings import ir, memref

_LOCAL = "xdsl_quant.local"

_USES = (
    "func.call",
    "memref.copy",
    "memref.dim",
    "memref.load",
    "memref.store",
    "vector.transfer_read",
    "vector.transfer_write",
)
"""Ops that keep no alias of an operand, as all `linalg` ops."""


def hide_local_buffers(module: ir.Module) -> None:
    """
    Allocate buffers of static size that stay in a function on the stack, so that MLIR's
    deallocation ignores them.
    """
    for function in mlir.ops_in(module, "func.func"):
        blocks = [*function.regions[0].blocks]
        if len(blocks) != 1:
            continue
        for op in mlir.operations_of(blocks[0]):
            is_static = op.name == "memref.alloc" and not op.operands
            if is_static and not _escapes(op.results[0]):
                hidden = mlir.renamed(op, "memref.alloca")
                hidden.attributes[_LOCAL] = ir.UnitAttr.get()


def free_local_buffers(module: ir.Module) -> None:
    """Allocate hidden buffers on the heap again, and free them at the end of the block."""
    for hidden in mlir.ops_in(module, "memref.alloca"):
        if _LOCAL in hidden.attributes:
            del hidden.attributes[_LOCAL]
            alloc = mlir.renamed(hidden, "memref.alloc")
            with ir.InsertionPoint.at_block_terminator(alloc.block), alloc.location:
                memref.dealloc(alloc.results[0])


def _escapes(buffer: ir.Value) -> bool:
    """Return True if an op may return a buffer or carry it to another block."""
    todo = [buffer]
    while todo:
        for user in mlir.users_of(todo.pop()):
            if user.name in VIEWS:
                todo += user.results
            elif not user.name.startswith("linalg.") and (
                user.name not in _USES
                or any(isinstance(r.type, ir.MemRefType) for r in user.results)
            ):
                return True
    return False
