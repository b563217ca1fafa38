"""Loops of reductions other than contractions: their order, and inputs of windows."""

from .. import mlir_bindings as mlir
from ..building import indexing_maps, input_count, iterator_types_of
from ..float_reductions import has_sum_in_lanes
from ..mlir_bindings import ir
from .contractions import Factor, contraction_of, materialize_operand

_MIN_SIZE = 16
"""Minimum trip count of a vectorized loop."""


def move_contiguous_loops_inside(module: ir.Module) -> None:
    """
    Make the loop over contiguous elements of operands and results the innermost one.
    Each result is still reduced in the same order; sums in lanes keep their loops.
    """
    for op in mlir.ops_in(module, "linalg.generic"):
        kinds = iterator_types_of(op)
        if all("parallel" in kind for kind in kinds) or contraction_of(op) is not None:
            continue
        if has_sum_in_lanes(op):
            continue
        loop = _contiguous_loop(op)
        is_window = not all(m.is_projected_permutation for m in indexing_maps(op))
        if loop is None or is_window or mlir.ops_in(op, "linalg.index"):
            continue
        order = [*(i for i in range(len(kinds)) if i != loop), loop]
        old_loops = mlir.affine_map(
            len(order),
            (ir.AffineExpr.get_dim(order.index(i)) for i in range(len(order))),
        )
        op.attributes["indexing_maps"] = mlir.array_attr(
            ir.AffineMapAttr.get(
                mlir.affine_map(
                    len(order), (index.compose(old_loops) for index in map_.results)
                )
            )
            for map_ in indexing_maps(op)
        )
        types = [*mlir.attribute_of(op, "iterator_types", ir.ArrayAttr)]
        op.attributes["iterator_types"] = mlir.array_attr(types[i] for i in order)


def store_window_inputs(module: ir.Module) -> None:
    """
    Store the computed inputs of windows in memory. Otherwise MLIR computes the elements
    inside the loops over windows, which are too short for vectors.
    """
    for op in mlir.ops_in(module, "linalg.generic"):
        if contraction_of(op) is not None:
            continue
        maps = indexing_maps(op)
        for i, value in enumerate([*op.operands][: input_count(op)]):
            if _is_window(maps[i]) and Factor(value, [], None).is_computed:
                materialize_operand(op, i)


def _is_window(map_: ir.AffineMap) -> bool:
    """Return True for windows along two dimensions: one may be a split reduction."""
    sums = [index for index in map_.results if isinstance(index, ir.AffineAddExpr)]
    return len(sums) > 1


def _contiguous_loop(op: ir.Operation) -> int | None:
    """
    Return the loop that indexes the last dimension of the results and of all inputs of
    their rank or more, or `None`.
    """
    operands = [*zip(op.operands, indexing_maps(op), strict=True)]
    result, result_map = operands[-1]
    if not isinstance(result.type, ir.RankedTensorType) or not len(result_map.results):
        return None
    last = [*result_map.results][-1]
    if not isinstance(last, ir.AffineDimExpr) or mlir.shape(result)[-1] < _MIN_SIZE:
        return None
    inputs = [
        [*map_.results]
        for _, map_ in operands[: input_count(op)]
        if len(map_.results) >= len(result_map.results)
    ]
    is_contiguous = inputs and all(indices[-1] == last for indices in inputs)
    return last.position if is_contiguous else None
