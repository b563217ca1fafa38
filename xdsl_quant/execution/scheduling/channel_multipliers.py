"""
Rewrite of depthwise convolutions to a single channel dimension in the result, and
folding of constant sums.

Lowerings compute depthwise convolutions with two result dimensions, input channel and
multiplier, and then merge these dimensions. The rewrite merges them at once: the input
channel is the result channel divided by the multiplier. Multipliers that do not divide
16 are not rewritten: each column vector would need a different shuffle.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .. import mlir_bindings as mlir
from ..building import indexing_maps
from ..mlir_bindings import arith, ir
from .byte_contractions import byte_contraction_of
from .contractions import Contraction, Factor, contraction_of
from .generic_ops import build_generic, splat_tensor
from .memrefs import constant_of, strides_by_loop
from .vector_code import LANES


def merge_channels(module: ir.Module) -> None:
    """Merge the channel dimensions of depthwise byte convolutions on tensors."""
    for op in mlir.ops_in(module, "linalg.generic"):
        contraction = contraction_of(op)
        merged = contraction and _merge(contraction)
        if merged is not None:
            (reshape,) = mlir.users_of(op.results[0])
            mlir.replace_op(reshape, merged)
            op.erase()


def _merge(contraction: Contraction) -> ir.Value | None:
    """Return the result of a new op with merged channels; `None` if unsupported."""
    op = contraction.op
    users = mlir.users_of(op.results[0]) if len(op.results) == 1 else []
    if len(users) != 1 or users[0].name != "tensor.reshape":
        return None
    *shape, channels, multiplier = [1, 1, *contraction.shape]
    shape = shape[2:]
    merged = [*shape, channels * multiplier]
    if len(contraction.result) < 2 or mlir.shape(users[0].results[0]) != merged:
        return None
    start = splat_value(op.operands[2])
    if start is None or multiplier <= 0 or LANES % multiplier:
        return None
    for lhs, rhs in (
        (contraction.lhs, contraction.rhs),
        (contraction.rhs, contraction.lhs),
    ):
        if isinstance(rhs.element_type, ir.IntegerType):
            if (result := _merged(contraction, lhs, rhs, merged, start)) is not None:
                return result
    return None


def _merged(
    contraction: Contraction, lhs: Factor, rhs: Factor, shape: Sequence[int], start: int
) -> ir.Value | None:
    op, sizes = contraction.op, contraction.sizes
    *outer, channel, more = contraction.result
    reductions = [
        i for i in range(contraction.loop_count) if i not in contraction.result
    ]
    weights = constant_of(rhs.value)
    lhs_steps, rhs_steps = (
        strides_by_loop(factor.indices, factor.value) for factor in (lhs, rhs)
    )
    if weights is None or lhs_steps is None or rhs_steps is None:
        return None
    if not {*reductions} <= sizes.keys() or 0 in sizes.values():
        return None
    if any(map(rhs_steps.get, outer)) or lhs_steps.get(more):
        return None
    if lhs_steps.get(channel) != 1:
        return None
    kept = [i for i in reductions if sizes[i] > 1]
    offsets: NDArray[np.int64] = np.zeros((), np.int64)
    for i in (*kept, channel, more):
        offsets = np.add.outer(offsets, rhs_steps.get(i, 0) * np.arange(sizes[i]))
    array = weights.ravel()[offsets].astype(f"int{mlir.bits(rhs.element_type)}")
    array = np.ascontiguousarray(array.reshape(*array.shape[:-2], -1))
    type_ = ir.RankedTensorType.get(array.shape, rhs.element_type)
    with ir.InsertionPoint(op), op.location:
        constant = arith.constant(type_, mlir.dense_attr(array, type_))
        (result,) = build_generic(
            [lhs.value, constant],
            [splat_tensor(shape, contraction.sum_type, start)],
            _merged_maps(contraction, lhs, kept),
            ["parallel"] * (len(outer) + 1) + ["reduction"] * len(kept),
            contraction.body(lhs, rhs),
        )
    if byte_contraction_of(contraction_of(result.owner.operation)) is None:
        result.owner.erase()
        return None
    return result


def _merged_maps(
    contraction: Contraction, lhs: Factor, kept: Sequence[int]
) -> Sequence[ir.AffineMap]:
    """Return the new indexing maps of factors and sums; `kept` lists reduction loops."""
    *outer, channel, more = contraction.result
    dim, zero = ir.AffineExpr.get_dim, ir.AffineExpr.get_constant(0)
    count = len(outer) + 1 + len(kept)
    # Index of each old loop, as an expression of the new loops
    loops: list[ir.AffineExpr] = [zero] * contraction.loop_count
    for new, old in enumerate([*outer, channel, *kept]):
        loops[old] = dim(new)
    if (size := contraction.size(more)) > 1:
        loops[channel] = ir.AffineExpr.get_floor_div(dim(len(outer)), size)
    from_new = mlir.affine_map(count, loops)
    results = (
        [index.compose(from_new) for index in lhs.indices],
        [*map(dim, range(len(outer) + 1, count)), dim(len(outer))],
        map(dim, range(len(outer) + 1)),
    )
    return [mlir.affine_map(count, indices) for indices in results]


# Sums of constants


def fold_constant_sums(module: ir.Module) -> None:
    """Fold `linalg` reductions on tensors that only sum up integer constants."""
    for op in mlir.ops_in(module, "linalg.generic"):
        if (result := _constant_sums(op)) is None:
            continue
        with ir.InsertionPoint(op), op.location:
            mlir.replace_op(op, arith.constant(result.type, result))


def _constant_sums(op: ir.Operation) -> ir.Attribute | None:
    """Return the constant result of an op, or `None`."""
    operands = [*op.operands]
    if len(operands) != 2 or len(op.results) != 1:
        return None
    source, start = constant_of(operands[0]), splat_value(operands[1])
    if source is None or start is None:
        return None
    maps = indexing_maps(op)
    identity = ir.AffineMap.get_identity(source.ndim)
    if maps[0] != identity or not maps[1].is_projected_permutation:
        return None
    block = mlir.body_of(op)
    (yielded,) = mlir.yielded_values(block)
    total = mlir.defining_op(yielded, "arith.addi")
    if not total or {*total.operands} != {*block.arguments}:
        return None
    kept = mlir.dimensions_of(maps[1])
    reduced = tuple(i for i in range(source.ndim) if i not in kept)
    order = [sorted(kept).index(i) for i in kept]
    sums = start + source.sum(reduced).transpose(order)
    type_ = op.results[0].type
    width = mlir.bits(mlir.element(op.results[0]))
    return mlir.dense_attr(np.ascontiguousarray(sums.astype(f"int{width}")), type_)


def splat_value(value: ir.Value) -> int | None:
    """Return the constant integer that fills a tensor, or `None`."""
    if op := mlir.defining_op(value, "linalg.fill"):
        return mlir.integer_of(op.operands[0])
    if op := mlir.defining_op(value, "linalg.generic"):
        block = mlir.body_of(op)
        yielded = mlir.yielded_values(block)[[*op.results].index(value)]
        if yielded == block.arguments[0] and len(op.operands) == 2:
            numbers = constant_of(op.operands[0])
            return None if numbers is None or numbers.ndim else int(numbers)
        return mlir.integer_of(yielded)
    return None
