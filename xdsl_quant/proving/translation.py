"""
Functions as terms: what they return, and for which arguments that is defined. A tensor,
whose sizes are known, is an array of terms: one for each element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, Operation, SSAValue

from xdsl_quant.diagnostics import op_name

from .scalars import Number, result
from .tensors import TENSOR_RULES, structured
from .terms import Terms, UnsupportedError

Numbers: TypeAlias = "Number | NDArray[Any]"
"""A scalar, or the elements of a tensor."""


def translated(
    terms: Terms,
    function: FuncOp,
    arguments: Sequence[Numbers],
    known: Mapping[SSAValue, Number] | None = None,
) -> Sequence[Any]:
    """
    What a function returns.

    Args:
        terms: makes the terms.
        function: a function with one block, of ops of `arith`, `math`, `tensor`, `linalg`,
            and `quant.scast`.
        arguments: what it is given.
        known: the results of ops that stand for something else than they say.

    Returns:
        a `Number` for each scalar, and an array of them for each tensor.

    Raises:
        UnsupportedError: if an op or a type has no term.
    """
    if len(function.body.blocks) != 1:
        raise UnsupportedError(f"function '{function.sym_name.data}' has branches")
    return translated_block(terms, function.body.block, arguments, dict(known or {}))


def translated_block(
    terms: Terms,
    block: Block,
    arguments: Sequence[Numbers],
    numbers: dict[SSAValue, Any],
) -> Sequence[Numbers]:
    """
    The operands of the last op of a block.

    Args:
        terms: makes the terms.
        block: a block of ops that have terms.
        arguments: those of the block.
        numbers: what is known of other values, which is added to.

    Raises:
        UnsupportedError: if an op or a type has no term.
    """
    numbers |= dict(zip(block.args, arguments, strict=True))
    *ops, last = block.ops
    for op in ops:
        if op.results and all(result in numbers for result in op.results):
            continue
        operands = [numbers[operand] for operand in op.operands]
        if (rule := TENSOR_RULES.get(op_name(op))) is not None:
            results = rule(terms, op, operands, numbers)
        elif isinstance(op, LinalgStructuredOperation):
            results = structured(terms, op, operands, numbers, translated_block)
        elif any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)):
            results = [_elementwise(terms, op, operands)]
        else:
            results = [result(terms, op, operands)]
        numbers.update(zip(op.results, results, strict=True))
    return [numbers[operand] for operand in last.operands]


def _elementwise(
    terms: Terms, op: Operation, operands: Sequence[Numbers]
) -> NDArray[Any]:
    """An op of each element of tensors."""
    if not operands:
        raise UnsupportedError(f"'{op_name(op)}' op has no term")
    arrays = np.broadcast_arrays(*(np.asarray(operand, object) for operand in operands))
    found = np.empty(arrays[0].shape, object)
    for index in np.ndindex(found.shape):
        numbers: list[Any] = [array[index] for array in arrays]
        found[index] = result(terms, op, numbers)
    return found
