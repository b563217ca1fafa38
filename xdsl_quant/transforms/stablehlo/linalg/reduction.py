"""
Reductions: the region of one becomes the body of a loop nest.

Besides StableHLO's ops on tensors of rank 0, a region may have what casts to and from
quantized types are lowered to: ops of arith and math, and loop nests without a loop. They
become the same ops on scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    TensorType,
)
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.linalg.ops import YieldOp as LinalgYieldOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from xdsl_quant.dialects import stablehlo
from xdsl_quant.dialects.quant import QuantizedType, StorageCastOp
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    Body,
    LoweringBuilder,
    dimensions,
    element_type_of,
)

from .conversions import converted
from .element_types import is_arithmetic, stored_type
from .scalars import SCALARS

_TAKES_STORED = stablehlo.ConstantOp | stablehlo.ReturnOp | StorageCastOp
"""Ops that take or give quantized numbers as what is stored of them."""

_SAME_NUMBER = StorageCastOp | tensor.SplatOp
"""Ops that are nothing on a scalar."""


def is_quantized_arithmetic(op: Operation) -> bool:
    """Whether an op of a region computes with quantized numbers."""
    return type(op) in SCALARS and any(
        QuantizedType.get_quantized_element_type(value.type) is not None
        for value in (*op.operands, *op.results)
    )


def why_not_reduced(op: Operation) -> str | None:
    """Why a reduction has no loop nest, if it has none."""
    assert isinstance(op, stablehlo.ReduceOp)
    if not op.inputs:
        return "has no inputs"
    if len(op.body.blocks) != 1:
        return "has a body that is not one block"
    block = op.body.block
    for inner in block.ops:
        if (problem := _why_not_scalar(inner, block)) is not None:
            return f"has a body with '{inner.name}', {problem}"
    arguments = (*block.args, *block.args[: len(op.inputs)])
    sources = (*op.results, *op.inputs, *op.init_values)
    for argument, source in zip(arguments, sources, strict=True):
        types = element_type_of(argument), element_type_of(source)
        if any(isinstance(t, QuantizedType) for t in types) and types[0] != types[1]:
            return "has a body of other quantized types than its operands"
    return None


def _why_not_scalar(op: Operation, block: Block) -> str | None:
    """Why an op of a block has no scalar, if it has none."""
    for value in (*op.operands, *op.results):
        if (problem := _why_not_value(op, value.type)) is not None:
            return problem
    for operand in op.operands:
        owner = operand.owner
        if (owner.parent if isinstance(owner, Operation) else owner) is not block:
            return "which uses a value from outside of the body"
    if isinstance(op, GenericOp):
        inner_ops = op.body.block.ops
        problems = (_why_not_scalar(inner, op.body.block) for inner in inner_ops)
        return next((problem for problem in problems if problem is not None), None)
    if isinstance(op, stablehlo.ConstantOp | arith.ConstantOp):
        is_number = not isinstance(op.value, DenseResourceAttr)
        return None if is_number else "whose value is a resource"
    return None if _is_elementwise(op) else "which is not elementwise"


def _why_not_value(op: Operation, type_: Attribute) -> str | None:
    """Why an op with a value of this type has no scalar, if it has none."""
    element_type = scalar_or_element_type(type_)
    if isinstance(type_, TensorType):
        if type_.get_shape():
            return "which has values that are no tensors of rank 0"
        if isinstance(op, _TAKES_STORED) and isinstance(element_type, QuantizedType):
            return None
    elif type_ != element_type:
        return "which has values that are no tensors of rank 0"
    if is_arithmetic(element_type):
        return None
    return f"for which there is no arithmetic on '{element_type}'"


def _is_elementwise(op: Operation) -> bool:
    if isinstance(op, stablehlo.ReturnOp | LinalgYieldOp | tensor.EmptyOp):
        return True
    if type(op) in SCALARS or isinstance(op, _SAME_NUMBER):
        return True
    return op.name.startswith(("arith.", "math.")) and len(op.results) == 1


def convert_reduce(
    builder: LoweringBuilder, op: Operation, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """
    One loop nest, with the loops in the order of the dimensions of the inputs. The first
    half of the arguments of the region are the results so far.
    """
    assert isinstance(op, stablehlo.ReduceOp)
    count = len(op.inputs)
    inputs, init_values = operands[:count], operands[count:]
    reduced = op.dimensions.get_values()
    sizes = builder.sizes(inputs[0])
    kept = [d for d in range(len(sizes)) if d not in reduced]
    results_so_far = [
        builder.filled(
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
    return builder.generics(
        inputs,
        results_so_far,
        [input_map] * count + [result_map] * count,
        [REDUCTION if d in reduced else PARALLEL for d in range(len(sizes))],
        lambda body, args: _run_region(body, op, args[:count], args[count:]),
    )


def _conversion(source: SSAValue, target: SSAValue) -> Body:
    types = element_type_of(source), element_type_of(target)

    def convert(builder: LoweringBuilder, args: Sequence[SSAValue]) -> SSAValue:
        return converted(builder, args[0], *types)

    return convert


def _run_region(
    builder: LoweringBuilder,
    op: stablehlo.ReduceOp,
    elements: Sequence[SSAValue],
    so_far: Sequence[SSAValue],
) -> Sequence[SSAValue]:
    block = op.body.block
    scalars = [
        converted(builder, value, element_type_of(source), element_type_of(argument))
        for argument, source, value in zip(
            block.args, (*op.results, *op.inputs), (*so_far, *elements), strict=True
        )
    ]
    return _run_block(builder, block, scalars)


def _run_block(
    builder: LoweringBuilder, block: Block, args: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """What the last op of a block takes, given scalars for its arguments."""
    scalars: dict[SSAValue, SSAValue] = dict(zip(block.args, args, strict=True))
    for inner in block.ops:
        args = [scalars[operand] for operand in inner.operands]
        if isinstance(inner, stablehlo.ReturnOp | LinalgYieldOp):
            return args
        results = (
            _run_block(builder, inner.body.block, args)
            if isinstance(inner, GenericOp)
            else [_run_scalar(builder, inner, args)]
        )
        scalars.update(zip(inner.results, results, strict=True))
    raise AssertionError("a block ends with its results")


def _run_scalar(
    builder: LoweringBuilder, op: Operation, args: Sequence[SSAValue]
) -> SSAValue:
    if (scalar := SCALARS.get(type(op))) is not None:
        return scalar(builder, op, args)
    if isinstance(op, _SAME_NUMBER):
        return args[0]
    type_ = _scalar_type(op.results[0])
    if isinstance(op, tensor.EmptyOp):
        # It has any number.
        return builder.number(0, type_)
    if isinstance(op, stablehlo.ConstantOp | arith.ConstantOp):
        value = op.value
        if not isinstance(value, DenseIntOrFPElementsAttr):
            return builder.constant(value, type_)
        (number,) = value.get_values()
        return builder.number(cast(float, number), type_)
    return builder.op(type(op), args, type_, op.properties)


def _scalar_type(value: SSAValue) -> Attribute:
    """The signless type of the scalar for a number."""
    is_tensor = isinstance(value.type, TensorType)
    return scalar_or_element_type(stored_type(value.type) if is_tensor else value.type)
