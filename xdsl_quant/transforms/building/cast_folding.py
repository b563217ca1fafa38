"""Folding of casts that reverse another cast, before any cast is rewritten."""

from collections.abc import Iterable, Sequence

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp

CastOp = QuantizeCastOp | DequantizeCastOp | StorageCastOp


def find_folds(casts: Iterable[CastOp]) -> dict[SSAValue, SSAValue]:
    """
    Map the result of each cast that folds away to its final value.

    No value of the mapping is itself the result of a cast that folds away.
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
        # In a graph region a chain of casts may be a cycle: it is cut here.
        end = folds.get(value, value)
        folds.update((step, end) for step in path if step is not end)
    return folds


def remove_folded(casts: Sequence[CastOp], folds: dict[SSAValue, SSAValue]) -> None:
    """Erase the casts that `find_folds` found among `casts`."""
    folded = [op for op in casts if op.result in folds]
    for op in folded:
        op.result.replace_all_uses_with(folds[op.result])
    for op in folded:
        Rewriter.erase_op(op)
