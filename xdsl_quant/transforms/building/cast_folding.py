"""Casts that reverse another cast, found and removed before any of them is rewritten."""

from collections.abc import Iterable, Sequence

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp

CastOp = QuantizeCastOp | DequantizeCastOp | StorageCastOp


def find_folds(casts: Iterable[CastOp]) -> dict[SSAValue, SSAValue]:
    """
    Return the results of casts that fold away, and the values that they are in the end:
    none of these is itself the result of a cast that folds away.
    """
    steps: dict[SSAValue, SSAValue] = {}
    for op in casts:
        if (folded := op.fold()) is not None:
            steps[op.result] = folded[0]
    folds: dict[SSAValue, SSAValue] = {}
    for result in steps:
        path: dict[SSAValue, None] = {}
        value: SSAValue = result
        while value in steps and value not in folds and value not in path:
            path[value] = None
            value = steps[value]
        # In a graph region a chain may bite its own tail: there it is cut.
        end = folds.get(value, value)
        folds.update((step, end) for step in path if step is not end)
    return folds


def remove_folded(casts: Sequence[CastOp], folds: dict[SSAValue, SSAValue]) -> None:
    """Remove the casts that `find_folds` found among `casts`."""
    folded = [op for op in casts if op.result in folds]
    for op in folded:
        op.result.replace_all_uses_with(folds[op.result])
    for op in folded:
        Rewriter.erase_op(op)
