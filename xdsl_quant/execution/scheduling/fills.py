"""Tensors of equal elements that ops write to."""

from __future__ import annotations

from typing import Any

from ..mlir_bindings import ir, made_by, ops_in

_FILLS = "linalg.fill", "linalg.generic"


def fill_of(op: Any) -> int | None:
    """The integer that an op on tensors or memrefs stores in all elements."""
    if op.name not in _FILLS or len(op.regions) != 1:
        return None
    block = op.regions[0].blocks[0]
    (yielded, *_) = block.operations[len(block.operations) - 1].operands
    if op.name == "linalg.fill":
        yielded = op.operands[0]
    elif len(op.operands) != 1:
        return None
    constant = made_by(yielded, "arith.constant")
    attribute = constant and constant.attributes["value"]
    return attribute.value if isinstance(attribute, ir.IntegerAttr) else None


def separate_fills(module: Any) -> None:
    """
    Fill a tensor of its own for each op that writes to one. MLIR would fill one for all of
    them and copy it.
    """
    for op in ops_in(module, *_FILLS):
        if not op.results or fill_of(op) is None:
            continue
        _, *others = [*op.results[0].uses]
        for use in others:
            user = use.owner.operation
            if not _is_written(user, use.operand_number):
                continue
            with ir.InsertionPoint(user):
                copy = op.clone()
                target = len(op.operands) - 1
                if empty := made_by(op.operands[target], "tensor.empty"):
                    copy.operands[target] = empty.clone().results[0]
                    copy.move_after(copy.operands[target].owner)
            user.operands[use.operand_number] = copy.results[0]


def _is_written(op: Any, operand: int) -> bool:
    if op.name == "tensor.insert_slice":
        return operand == 1
    if not op.name.startswith("linalg.") or not op.results:
        return False
    return operand >= op.attributes["operandSegmentSizes"][0]
