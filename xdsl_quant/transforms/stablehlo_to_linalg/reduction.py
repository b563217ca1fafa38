"""Reductions: the region of one becomes the body of a loop nest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap

from xdsl_quant.dialects import stablehlo

from .conversions import converted
from .element_types import is_arithmetic, signless, stored_type
from .scalar_builder import ScalarBuilder
from .scalars import SCALARS
from .tensor_builder import (
    PARALLEL,
    REDUCTION,
    Body,
    TensorBuilder,
    dimensions,
    element_type_of,
    shape_of,
)


def why_not_reduced(op: Operation) -> str | None:
    """Why a reduction has no loop nest, if it has none."""
    assert isinstance(op, stablehlo.ReduceOp)
    if not op.inputs:
        return "has no inputs"
    if len(op.body.blocks) != 1:
        return "has a body that is not one block"
    for inner in op.body.block.ops:
        if (problem := _why_not_scalar(inner)) is not None:
            return f"has a body with '{inner.name}', {problem}"
    return None


def _why_not_scalar(op: Operation) -> str | None:
    values = (*op.operands, *op.results)
    for value in values:
        type_ = value.type
        if not isinstance(type_, TensorType) or shape_of(value):
            return "which has values that are no tensors of rank 0"
        if not is_arithmetic(element_type_of(value)):
            return f"for which there is no arithmetic on '{element_type_of(value)}'"
    if any(
        owner is not op.parent and getattr(owner, "parent", None) is not op.parent
        for owner in (operand.owner for operand in op.operands)
    ):
        return "which uses a value from outside of the body"
    if isinstance(op, stablehlo.ReturnOp):
        return None
    if isinstance(op, stablehlo.ConstantOp):
        is_dense = isinstance(op.value, DenseIntOrFPElementsAttr)
        return None if is_dense else "whose value is a resource"
    return None if type(op) in SCALARS else "which is not elementwise"


def convert_reduce(
    code: TensorBuilder, op: Operation, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """
    One loop nest, with the loops in the order of the dimensions of the inputs. The first
    half of the arguments of the region are the results so far.
    """
    assert isinstance(op, stablehlo.ReduceOp)
    count = len(op.inputs)
    inputs, init_values = operands[:count], operands[count:]
    reduced = op.dimensions.get_values()
    sizes = code.sizes(inputs[0])
    kept = [d for d in range(len(sizes)) if d not in reduced]
    results_so_far = [
        code.filled(
            stored_type(result.type),
            [sizes[dimension] for dimension in kept],
            value,
            _conversion(init_value, result),
        )
        for value, init_value, result in zip(
            init_values, op.init_values, op.results, strict=True
        )
    ]
    input_map = AffineMap.identity(len(sizes))
    result_map = AffineMap(len(sizes), 0, tuple(dimensions(kept)))
    return code.generics(
        inputs,
        results_so_far,
        [input_map] * count + [result_map] * count,
        [REDUCTION if d in reduced else PARALLEL for d in range(len(sizes))],
        lambda body, args: _run_region(body, op, args[:count], args[count:]),
    )


def _conversion(source: SSAValue, target: SSAValue) -> Body:
    types = element_type_of(source), element_type_of(target)

    def convert(code: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
        return converted(code, args[0], *types)

    return convert


def _run_region(
    code: ScalarBuilder,
    op: stablehlo.ReduceOp,
    elements: Sequence[SSAValue],
    so_far: Sequence[SSAValue],
) -> Sequence[SSAValue]:
    block = op.body.block
    scalars: dict[SSAValue, SSAValue] = {
        argument: converted(
            code, value, element_type_of(source), element_type_of(argument)
        )
        for argument, source, value in zip(
            block.args, (*op.results, *op.inputs), (*so_far, *elements), strict=True
        )
    }
    for inner in block.ops:
        args = [scalars[operand] for operand in inner.operands]
        if isinstance(inner, stablehlo.ReturnOp):
            return args
        scalars[inner.results[0]] = _run_scalar(code, inner, args)
    raise AssertionError("a region ends with 'stablehlo.return'")


def _run_scalar(
    code: ScalarBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue:
    if not isinstance(op, stablehlo.ConstantOp):
        return SCALARS[type(op)](code, op, args)
    value = cast(DenseIntOrFPElementsAttr, op.value)
    (number,) = value.get_values()
    return code.number(cast(float, number), signless(element_type_of(op.output)))
