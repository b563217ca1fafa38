"""
Moves of data without elements. MLIR refuses slices without elements whose offset is the
size of the dimension, and makes such slices of padding and concatenations.
"""

from __future__ import annotations

from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from xdsl_quant.transforms.building.builder import shape_of

_Move = tensor.ConcatOp | tensor.ExtractSliceOp | tensor.InsertSliceOp | tensor.PadOp


def simplify_empty_moves(module: ModuleOp) -> None:
    """Replace moves of no elements, and let other moves start at elements."""
    for op in [*module.walk()]:
        if not isinstance(op, _Move):
            continue
        if _is_empty(op.result):
            Rewriter.replace_op(op, tensor.EmptyOp((), op.result.type))
        elif isinstance(op, tensor.InsertSliceOp) and _is_empty(op.source):
            Rewriter.replace_op(op, (), [op.dest])
        elif isinstance(op, tensor.ConcatOp):
            _concatenate_elements(op)
        elif isinstance(op, tensor.PadOp):
            _pad_behind(op)


def _is_empty(value: SSAValue) -> bool:
    """True if a tensor has no elements and a static shape."""
    type_ = value.type
    is_static = isa(type_, TensorType) and type_.has_static_shape()
    return is_static and 0 in shape_of(value)


def _concatenate_elements(op: tensor.ConcatOp) -> None:
    """Leave out operands without elements."""
    operands = [value for value in op.inputs if not _is_empty(value)]
    if len(operands) == len(op.inputs):
        return
    if [operand.type for operand in operands] == [op.result.type]:
        Rewriter.replace_op(op, (), operands)
        return
    op.operands = operands


def _pad_behind(op: tensor.PadOp) -> None:
    """
    Put all padding of a dimension without elements behind it. The body gets indices of the
    result, so this changes no element.
    """
    low, high = [*op.static_low.get_values()], [*op.static_high.get_values()]
    for axis, size in enumerate(shape_of(op.source)):
        if size == 0 and DYNAMIC_INDEX not in (low[axis], high[axis]):
            low[axis], high[axis] = 0, low[axis] + high[axis]
    op.static_low = DenseArrayBase.from_list(i64, low)
    op.static_high = DenseArrayBase.from_list(i64, high)
