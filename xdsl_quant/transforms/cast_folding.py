"""Casts that reverse another cast, found and removed before any of them is rewritten."""

from collections.abc import Iterable, Sequence

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
)

CastOp = QuantizeCastOp | DequantizeCastOp | StorageCastOp


def find_folds(casts: Iterable[CastOp]) -> dict[SSAValue, SSAValue]:
    """
    The results of casts that fold away, and the values that they are. `casts` are in the
    order of the text, so that a chain of them ends at its first value.
    """
    folds: dict[SSAValue, SSAValue] = {}
    for op in casts:
        if (folded := op.fold()) is not None:
            (value,) = folded
            folds[op.result] = folds.get(value, value)
    return folds


def remove_folded(casts: Sequence[CastOp], folds: dict[SSAValue, SSAValue]) -> None:
    """Remove the casts that `find_folds` found among `casts`."""
    folded = [op for op in casts if op.result in folds]
    for op in folded:
        op.result.replace_all_uses_with(folds[op.result])
    for op in folded:
        Rewriter.erase_op(op)
