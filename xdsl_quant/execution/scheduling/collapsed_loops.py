"""Elementwise ops on contiguous memrefs as one loop: LLVM vectorizes short loops badly."""

from math import prod

from .. import mlir_bindings as mlir
from ..building import has_identity_layout, indexing_maps, is_dynamic, iterator_types_of
from ..mlir_bindings import ir, memref


def collapse_contiguous_loops(module: ir.Module) -> None:
    """Collapse the loops of elementwise ops whose operands are all read in order."""
    for op in mlir.ops_in(module, "linalg.generic"):
        if _is_collapsible(op):
            with ir.InsertionPoint(op), op.location:
                for i, value in enumerate(op.operands):
                    op.operands[i] = flat_memref(value)
            identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(1))
            kinds = mlir.attribute_of(op, "iterator_types", ir.ArrayAttr)
            op.attributes["iterator_types"] = mlir.array_attr([kinds[0]])
            op.attributes["indexing_maps"] = mlir.array_attr(
                [identity] * len(op.operands)
            )


def _is_collapsible(op: ir.Operation) -> bool:
    """Return True if the loops read and write all elements in memory order."""
    if any("parallel" not in kind for kind in iterator_types_of(op)):
        return False
    if not all(has_identity_layout(value.type) for value in op.operands):
        return False
    maps, shapes = indexing_maps(op), [mlir.shape(value) for value in op.operands]
    if any(is_dynamic(size) for shape in shapes for size in shape):
        return False
    loops = [
        [index for index, size in zip(map_.results, shape, strict=True) if size != 1]
        for map_, shape in zip(maps, shapes, strict=True)
    ]
    dimensions = [ir.AffineExpr.get_dim(i) for i in range(maps[-1].n_dims)]
    in_order = [d for d in dimensions if d in loops[-1]]
    is_contiguous = len(in_order) > 1 and all(each == in_order for each in loops)
    return is_contiguous and not mlir.ops_in(op, "linalg.index")


def flat_memref(value: ir.Value) -> ir.Value:
    """Return a contiguous memref as a memref of one dimension."""
    rank = len(mlir.shape(value))
    if rank == 1:
        return value
    size = prod(mlir.shape(value))
    type_ = ir.MemRefType.get([size], mlir.element(value))
    return memref.collapse_shape(type_, value, [[*range(rank)]])
