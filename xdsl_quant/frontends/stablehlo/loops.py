"""
Unrolling of loops whose number of iterations is constant, as `jax.lax.scan` emits them: the
quantizer calibrates each iteration.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import constant_elements, elements_attr

from . import dialect as stablehlo
from .lowering.integers.elementwise import COMPARISONS

_MOST_OPS = 2000
"""Largest number of ops of an unrolled loop."""

Scalars: TypeAlias = dict[SSAValue, Array]
"""Known integers and booleans without dimensions."""

_FUNCTIONS: Mapping[type[Operation], Callable[..., Array]] = {
    stablehlo.AddOp: np.add,
    stablehlo.MultiplyOp: np.multiply,
    stablehlo.SelectOp: np.where,
    stablehlo.SubtractOp: np.subtract,
}


def unroll(op: stablehlo.WhileOp) -> Sequence[Operation]:
    """
    Replace a loop with a constant number of iterations by copies of its body, whose slices
    have constant positions. Return the new ops; none if the loop is kept.
    """
    if (iterations := _iterations(op)) is None:
        return ()
    values: list[SSAValue] = [*op.operands]
    new_ops: list[Operation] = []
    for scalars in iterations:
        copied: dict[SSAValue, SSAValue] = {}
        copied.update(zip(op.body.block.args, values, strict=True))
        *body, end = op.body.block.ops
        _evaluate(body, scalars)
        for inner in body:
            if (new := _with_constants(inner, scalars)) is None:
                new = inner.clone(copied)
            else:
                new.operands = [copied.get(v, v) for v in new.operands]
                new.location = inner.location
                copied[inner.results[0]] = new.results[0]
            new_ops.append(new)
        values = [copied.get(value, value) for value in end.operands]
    Rewriter.insert_op(new_ops, InsertPoint.before(op))
    Rewriter.replace_op(op, (), values)
    return new_ops


def _iterations(op: stablehlo.WhileOp) -> Sequence[Scalars] | None:
    """Return the known scalars at the beginning of each iteration; `None`: unknown."""
    cond, body = op.cond.block, op.body.block
    size = sum(1 for _ in op.body.walk())
    known = _scalars_of(op.operands)
    iterations: list[Scalars] = []
    while len(iterations) * size <= _MOST_OPS:
        scalars = _at_start(cond, known)
        _evaluate(cond.ops, scalars)
        (condition,) = cast(Operation, cond.last_op).operands
        if condition not in scalars:
            return None
        if not scalars[condition]:
            return iterations
        scalars = _at_start(body, known)
        iterations.append({**scalars})
        _evaluate(body.ops, scalars)
        known = [scalars.get(v) for v in cast(Operation, body.last_op).operands]
    return None


def _scalars_of(values: Iterable[SSAValue]) -> list[Array | None]:
    scalars = dict[SSAValue, Array]()
    return [_known_scalar(value, scalars) for value in values]


def _at_start(block: Block, known: Sequence[Array | None]) -> Scalars:
    pairs = zip(block.args, known, strict=True)
    return {argument: scalar for argument, scalar in pairs if scalar is not None}


def _known_scalar(value: SSAValue, scalars: Scalars) -> Array | None:
    if value in scalars:
        return scalars[value]
    is_integer = isinstance(scalar_or_element_type(value.type), IntegerType)
    type_ = value.type
    if not is_integer or not isinstance(type_, TensorType) or type_.get_shape():
        return None
    return constant_elements(value)


def _evaluate(ops: Iterable[Operation], scalars: Scalars) -> None:
    """Add the results of ops whose operands are known scalars."""
    for op in ops:
        function = _FUNCTIONS.get(type(op))
        if isinstance(op, stablehlo.CompareOp):
            function = COMPARISONS[op.comparison_direction.data]
        if function is None:
            continue
        operands = [_known_scalar(operand, scalars) for operand in op.operands]
        if all(operand is not None for operand in operands):
            with np.errstate(over="ignore"):
                scalars[op.results[0]] = np.asarray(function(*operands))


def _with_constants(op: Operation, scalars: Scalars) -> Operation | None:
    """Return a constant or a slice for an op on known scalars; `None`: there is none."""
    if op.results and (scalar := scalars.get(op.results[0])) is not None:
        element_type = scalar_or_element_type(op.results[0].type)
        return stablehlo.ConstantOp(elements_attr(scalar, element_type))
    if not isinstance(op, stablehlo.DynamicSliceOp):
        return None
    known = [_known_scalar(index, scalars) for index in op.start_indices]
    sizes, shape = op.slice_sizes.get_values(), cast(TensorType, op.operand.type).shape
    starts = [int(index) for index in known if index is not None]
    if len(starts) < len(known):
        return None
    starts = [
        min(max(start, 0), bound.data - size)
        for start, bound, size in zip(starts, shape, sizes, strict=True)
    ]
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    return stablehlo.SliceOp(
        op.operand,
        result_types=op.result_types,
        start_indices=starts,
        limit_indices=ends,
        strides=[1] * len(starts),
    )


# Products of inputs and states


def split_product(op: Operation) -> None:
    """
    Replace `concatenate(x, h) @ w + b` by `x @ w0 + (h @ w1 + b)` if another op uses `x` or
    `h`: a concatenation has one scale, which is coarse for the state of a loop.
    """
    if op.parent is None or not isinstance(op, stablehlo.DotGeneralOp):
        return
    # Parts of quantized products would be rounded.
    if not isinstance(scalar_or_element_type(op.result.type), AnyFloat):
        return
    parts, users = op.lhs.owner, [use.operation for use in op.result.uses]
    if (
        not isinstance(parts, stablehlo.ConcatenateOp)
        or parts.result.has_more_than_one_use()
        or not any(x.has_more_than_one_use() for x in parts.inputs)
        or len(users) != 1
    ):
        return
    if not (new_ops := _products_of_parts(op, parts)):
        return
    *terms, total = (product.results[0] for product in new_ops)
    # The last product takes the bias.
    old: Operation = op
    if isinstance(users[0], stablehlo.AddOp):
        old = users[0]
        terms += [value for value in old.operands if value is not op.result]
    for term in reversed(terms):
        addition = stablehlo.AddOp(term, total)
        addition.location = old.location
        new_ops.append(addition)
        total = addition.result
    Rewriter.insert_op(new_ops, InsertPoint.before(old))
    Rewriter.replace_op(old, (), (total,))
    if old is not op:
        Rewriter.erase_op(op)
    Rewriter.erase_op(parts)


def _products_of_parts(
    op: stablehlo.DotGeneralOp, parts: stablehlo.ConcatenateOp
) -> list[Operation]:
    """Return the product of each part with its weights; none if these are not constant."""
    weights = op.rhs.owner
    _, (lhs, rhs) = op.dot_dimension_numbers.pairs()
    if (*lhs,) != (parts.dimension.value.data,):
        return []
    if not isinstance(weights, stablehlo.ConstantOp):
        return []
    if (elements := constant_elements(weights.output)) is None:
        return []
    sizes = [cast(TensorType, x.type).get_shape()[lhs[0]] for x in parts.inputs]
    pieces = np.split(elements, np.cumsum(sizes)[:-1], rhs[0])
    products: list[Operation] = []
    for x, piece in zip(parts.inputs, pieces, strict=True):
        product = op.clone()
        product.operands = [x, _constant_after(weights, piece)]
        products.append(product)
    return products


def _constant_after(source: stablehlo.ConstantOp, elements: Array) -> SSAValue:
    """Return a constant that follows another one; all iterations share it."""
    element_type = scalar_or_element_type(source.output.type)
    value = elements_attr(np.ascontiguousarray(elements), element_type)
    following = source.next_op
    while isinstance(following, stablehlo.ConstantOp):
        if following.value == value:
            return following.output
        following = following.next_op
    constant = stablehlo.ConstantOp(value)
    constant.location = source.location
    Rewriter.insert_op(constant, InsertPoint.after(source))
    return constant.output
