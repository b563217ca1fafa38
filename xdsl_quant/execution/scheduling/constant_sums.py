"""Sums of constants, such as those of the weights for a column, as constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..mlir_bindings import arith, ir, made_by, ops_in
from .memrefs import constant_of


def fold_constant_sums(module: Any) -> None:
    """Replace reductions on tensors that only add up constants of integers."""
    for op in ops_in(module, "linalg.generic"):
        result = _sums(op)
        if result is None:
            continue
        with ir.InsertionPoint(op), op.location:
            constant = arith.ConstantOp(result.type, result)
        op.results[0].replace_all_uses_with(constant.result)
        op.erase()


def _sums(op: Any) -> Any:
    """The result of an op as an attribute, if it is known."""
    operands = [*op.operands]
    if len(operands) != 2 or len(op.results) != 1:
        return None
    source, start = constant_of(operands[0]), equal_elements(operands[1])
    if source is None or start is None:
        return None
    maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
    identity = ir.AffineMap.get_identity(source.ndim)
    if maps[0] != identity or not maps[1].is_projected_permutation:
        return None
    block = op.regions[0].blocks[0]
    (yielded,) = block.operations[len(block.operations) - 1].operands
    total = made_by(yielded, "arith.addi")
    if not total or {*total.operands} != {*block.arguments}:
        return None
    kept = [index.position for index in maps[1].results]
    reduced = tuple(i for i in range(source.ndim) if i not in kept)
    order = [sorted(kept).index(i) for i in kept]
    sums = start + source.sum(reduced).transpose(order)
    type_ = op.results[0].type
    array = np.ascontiguousarray(sums.astype(f"int{type_.element_type.width}"))
    return ir.DenseElementsAttr.get(array, type=type_)


def equal_elements(value: Any) -> int | None:
    """The integer that all elements of a tensor are."""
    if op := made_by(value, "linalg.fill"):
        number = made_by(op.operands[0], "arith.constant")
    elif op := made_by(value, "linalg.generic"):
        block = op.regions[0].blocks[0]
        results = block.operations[len(block.operations) - 1].operands
        yielded = results[value.result_number]
        number = made_by(yielded, "arith.constant")
        if yielded == block.arguments[0] and len(op.operands) == 2:
            numbers = constant_of(op.operands[0])
            return None if numbers is None or numbers.ndim else int(numbers)
    else:
        return None
    attribute = number and number.attributes["value"]
    return attribute.value if isinstance(attribute, ir.IntegerAttr) else None
