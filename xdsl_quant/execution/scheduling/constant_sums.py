"""Sums of constants, such as those of the weights for a column, as constants."""

from __future__ import annotations

import numpy as np

from .. import mlir_bindings as mlir
from ..building import indexing_maps
from ..mlir_bindings import arith, ir
from .memrefs import constant_of


def fold_constant_sums(module: ir.Module) -> None:
    """Replace reductions on tensors that only add up constants of integers."""
    for op in mlir.ops_in(module, "linalg.generic"):
        result = _constant_sums(op)
        if result is None:
            continue
        with ir.InsertionPoint(op), op.location:
            constant = arith.constant(result.type, result)
        op.results[0].replace_all_uses_with(constant)
        op.erase()


def _constant_sums(op: ir.Operation) -> ir.Attribute | None:
    """The result of an op as an attribute, if it is known."""
    operands = [*op.operands]
    if len(operands) != 2 or len(op.results) != 1:
        return None
    source, start = constant_of(operands[0]), equal_elements(operands[1])
    if source is None or start is None:
        return None
    maps = indexing_maps(op)
    identity = ir.AffineMap.get_identity(source.ndim)
    if maps[0] != identity or not maps[1].is_projected_permutation:
        return None
    block = mlir.body_of(op)
    (yielded,) = mlir.yielded_by(block)
    total = mlir.made_by(yielded, "arith.addi")
    if not total or {*total.operands} != {*block.arguments}:
        return None
    kept = mlir.dimensions_of(maps[1])
    reduced = tuple(i for i in range(source.ndim) if i not in kept)
    order = [sorted(kept).index(i) for i in kept]
    sums = start + source.sum(reduced).transpose(order)
    type_ = op.results[0].type
    width = mlir.bits(mlir.element(op.results[0]))
    return mlir.dense_attr(np.ascontiguousarray(sums.astype(f"int{width}")), type_)


def equal_elements(value: ir.Value) -> int | None:
    """The integer that all elements of a tensor are."""
    if op := mlir.made_by(value, "linalg.fill"):
        return mlir.integer_of(op.operands[0])
    if op := mlir.made_by(value, "linalg.generic"):
        block = mlir.body_of(op)
        yielded = mlir.yielded_by(block)[[*op.results].index(value)]
        if yielded == block.arguments[0] and len(op.operands) == 2:
            numbers = constant_of(op.operands[0])
            return None if numbers is None or numbers.ndim else int(numbers)
        return mlir.integer_of(yielded)
    return None
