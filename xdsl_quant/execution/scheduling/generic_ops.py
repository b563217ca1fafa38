"""Builders of `linalg` ops on tensors."""

from collections.abc import Callable, Sequence

from .. import mlir_bindings as mlir
from ..mlir_bindings import Sizes, Values, arith, ir, linalg, tensor


def splat_tensor(sizes: Sizes, element_type: ir.Type, number: float) -> ir.Value:
    constant = arith.constant(element_type, number)
    return linalg.fill(constant, outs=[tensor.empty(sizes, element_type)])


def build_generic(
    inputs: Values,
    outputs: Values,
    maps: Sequence[ir.AffineMap],
    kinds: Sequence[str],
    body: Callable[[Values], Values],
) -> Values:
    """
    Build a `linalg.generic` on tensors and return its results.

    Args:
        inputs: tensors or scalars.
        outputs: tensors with the initial values of the results.
        maps: affine map of each input and output.
        kinds: `parallel` or `reduction` for each loop.
        body: returns the values to yield, given the elements of inputs and outputs.
    """
    result_types = [output.type for output in outputs]
    op = linalg.GenericOp(result_types, inputs, outputs, maps, kinds)
    types = [
        value.type.element_type
        if isinstance(value.type, ir.RankedTensorType)
        else value.type
        for value in op.operands
    ]
    block = mlir.append_block(op, types)
    with ir.InsertionPoint(block):
        linalg.yield_(body([*block.arguments]))
    return op.results


def clone_with(op: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    """Clone an op with the operands that replace its own, and add its results to them."""
    copy = op.clone()
    for i, operand in enumerate(op.operands):
        copy.operands[i] = values.get(operand, operand)
    values |= zip(op.results, copy.results, strict=True)
