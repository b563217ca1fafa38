"""Calls of vector functions for transpositions of bytes on memrefs."""

from .. import mlir_bindings as mlir
from ..building import indexing_maps, input_count, iterator_types_of
from ..mlir_bindings import func, ir
from .byte_products import add_text, memref_argument
from .memrefs import strides_by_loop
from .packing import Transposition, transposition_text
from .vector_code import Axis, coalesce_loops

_MIN_SIZE = 4
"""Minimum number of rows and of columns that pays for a call."""


def call_transpositions(module: ir.Module) -> None:
    """Replace `linalg.generic` ops that transpose bytes by calls of new functions."""
    names = mlir.unused_names(module, "transposition")
    known: dict[str, str] = {}
    for op in mlir.ops_in(module, "linalg.generic"):
        if (transposition := _transposition_of(op)) is None:
            continue
        memrefs = [*map(memref_argument, op.operands)]
        key = f"{transposition} {memrefs}"
        if key not in known:
            known[key] = next(names)
            add_text(module, transposition_text(transposition, known[key], memrefs))
        with ir.InsertionPoint(op), op.location:
            func.call([], known[key], [*op.operands])
        op.erase()


def _transposition_of(op: ir.Operation) -> Transposition | None:
    """Return the transposition of bytes that an op computes, or `None`."""
    operands = [*op.operands]
    if input_count(op) != 1 or len(operands) != 2 or [*op.results]:
        return None
    block = mlir.body_of(op)
    if [*mlir.yielded_values(block)] != [block.arguments[0]]:
        return None
    byte = ir.IntegerType.get_signless(8)
    if any(mlir.element(value) != byte for value in operands):
        return None
    if not all("parallel" in kind for kind in iterator_types_of(op)):
        return None
    source, target = (
        strides_by_loop(map_.results, value)
        for map_, value in zip(indexing_maps(op), operands, strict=True)
    )
    shape, results = mlir.shape(operands[1]), [*indexing_maps(op)[1].results]
    if source is None or target is None or not source.keys() <= target.keys():
        return None
    sizes = {
        index.position: size
        for index, size in zip(results, shape, strict=True)
        if isinstance(index, ir.AffineDimExpr)
    }
    if not target.keys() <= sizes.keys() or 0 in shape:
        return None
    order = sorted(target, key=lambda loop: -target[loop])
    axes = [Axis(sizes[i], [source.get(i, 0), target[i]]) for i in order]
    return _transposition_over(coalesce_loops(axes, 2))


def _transposition_over(loops: list[Axis]) -> Transposition | None:
    rows = [loop for loop in loops if loop.steps[0] == 1]
    columns = [loop for loop in loops if loop.steps[1] == 1]
    if len(rows) != 1 or len(columns) != 1 or rows == columns:
        return None
    (row,), (column,) = rows, columns
    if min(row.size, column.size) < _MIN_SIZE:
        return None
    others = [loop for loop in loops if loop not in (row, column)]
    return Transposition(others, row, column, 0)
