"""Where elements of tensors and memrefs are, and what constants there are."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..building import is_dynamic
from ..mlir_bindings import ir, made_by


def constant_of(value: Any) -> NDArray[np.int64] | None:
    """The elements of a constant of integers, with their signs."""
    if op := made_by(value, "arith.constant"):
        attribute = op.attributes["value"]
    elif op := made_by(value, "memref.get_global"):
        name = op.attributes["name"].value
        symbols = ir.SymbolTable(_module_of(op))
        attribute = symbols[name].attributes["initial_value"]
    else:
        return None
    if not isinstance(attribute, ir.DenseElementsAttr):
        return None
    type_ = attribute.type.element_type
    if not isinstance(type_, ir.IntegerType) or type_.width not in (8, 16, 32, 64):
        return None
    if attribute.is_splat:
        splat: int = ir.IntegerAttr(attribute.get_splat_value()).value
        shape: list[int] = [*attribute.type.shape]
        return np.full(shape, splat, np.int64)
    numbers: NDArray[np.integer] = np.array(attribute)
    # Signless integers may be given as unsigned ones.
    unused = 64 - type_.width
    return numbers.astype(np.int64) << unused >> unused


def _module_of(op: Any) -> Any:
    while op.name != "builtin.module":
        op = op.parent
    return op


def steps_of(indices: Iterable[Any], type_: Any) -> dict[int, int] | None:
    """
    For each loop the distance in memory of what two iterations need; `None` if that is not
    constant. Tensors will be contiguous.
    """
    if any(map(is_dynamic, type_.shape)):
        return None
    if isinstance(type_, ir.MemRefType):
        strides, offset = type_.get_strides_and_offset()
        if any(is_dynamic(number) for number in (*strides, offset)):
            return None
    else:
        sizes = [*type_.shape]
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    steps: dict[int, int] = {}
    for index, stride in zip(indices, strides, strict=True):
        if (terms := _linear(index)) is None:
            return None
        for loop, factor in terms:
            steps[loop] = steps.get(loop, 0) + factor * stride
    return steps


def _linear(index: Any) -> list[tuple[int, int]] | None:
    """
    The loops that an expression adds up, with their factors; `None` if it is another
    expression.
    """
    match index:
        case ir.AffineDimExpr():
            return [(index.position, 1)]
        case ir.AffineConstantExpr() if not index.value:
            return []
        case ir.AffineAddExpr():
            terms = _linear(index.lhs), _linear(index.rhs)
            return None if None in terms else [*(terms[0] or ()), *(terms[1] or ())]
        case ir.AffineMulExpr() if isinstance(index.rhs, ir.AffineConstantExpr):
            terms = _linear(index.lhs)
            factor = index.rhs.value
            return terms and [(loop, n * factor) for loop, n in terms]
        case _:
            return None
