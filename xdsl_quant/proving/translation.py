"""
Translation of functions to terms: results, and the conditions under which they are
defined. A tensor with static sizes is an array of terms, one for each element.
"""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, Operation, SSAValue

from xdsl_quant.diagnostics import location_prefix, op_name

from .scalars import Number, check_supported, scalar_result
from .tensors import TENSOR_RULES, Elements, Numbers, Values, as_elements, structured
from .terms import Terms, UnsupportedError


def translate_function(
    terms: Terms,
    function: FuncOp,
    arguments: Sequence[Numbers],
    known: Mapping[SSAValue, Number] | None = None,
) -> Sequence[Numbers]:
    """
    Translate a function, and return its results.

    Args:
        terms: factory of terms.
        function: function with one block, of ops of `arith`, `math`, `tensor`,
            `linalg`, and `quant.scast`.
        arguments: values of the arguments.
        known: numbers of some op results, whose ops are not translated.

    Returns:
        A `Number` for each scalar, and an array of numbers for each tensor.

    Raises:
        UnsupportedError: if an op or a type is unsupported.
    """
    if len(function.body.blocks) != 1:
        raise UnsupportedError(f"function '{function.sym_name.data}' has branches")
    return translate_block(terms, function.body.block, arguments, dict(known or {}))


def translate_block(
    terms: Terms,
    block: Block,
    arguments: Sequence[Numbers],
    numbers: Values,
) -> Sequence[Numbers]:
    """
    Translate a block, and return the operands of its terminator.

    Args:
        terms: factory of terms.
        block: block of ops that proofs support.
        arguments: values of the block arguments.
        numbers: number of each SSA value from outside the block; values of the block
            are added.

    Raises:
        UnsupportedError: if an op or a type is unsupported.
    """
    numbers |= dict(zip(block.args, arguments, strict=True))
    *ops, last = block.ops
    for op in ops:
        if op.results and all(result in numbers for result in op.results):
            continue
        try:
            results = _op_results(terms, op, numbers)
        except UnsupportedError as error:
            raise with_location(op, error) from None
        numbers.update(zip(op.results, results, strict=True))
    return [numbers[operand] for operand in last.operands]


def _op_results(terms: Terms, op: Operation, numbers: Values) -> Sequence[Numbers]:
    operands = [numbers[operand] for operand in op.operands]
    if (rule := TENSOR_RULES.get(op_name(op))) is not None:
        return rule(terms, op, operands)
    if isinstance(op, LinalgStructuredOperation):
        return structured(terms, op, operands, numbers, translate_block)
    if any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results)):
        return [_elementwise_numbers(terms, op, operands)]
    return [scalar_result(terms, op, cast(Sequence[Number], operands))]


def with_location(op: Operation, error: UnsupportedError) -> UnsupportedError:
    """Return an error whose message starts with the op's location, if known."""
    prefix, message = location_prefix(op.location), str(error)
    # The error of an op in a region already has a location.
    is_located = not prefix or ": error: " in message
    return error if is_located else UnsupportedError(f"{prefix}error: {message}")


def _elementwise_numbers(
    terms: Terms, op: Operation, operands: Sequence[Numbers]
) -> Elements:
    """Apply a scalar op to each element of tensors; tensors may be empty."""
    check_supported(op)
    arrays = np.broadcast_arrays(*map(as_elements, operands))
    elements = np.empty(arrays[0].shape, object)
    for index in np.ndindex(elements.shape):
        numbers = [cast(Number, array[index]) for array in arrays]
        elements[index] = scalar_result(terms, op, numbers)
    return elements


# Former names, kept for compatibility.
translated, translated_block, located = (
    translate_function,
    translate_block,
    with_location,
)
