"""Loops over the steps of a sequence, which carry states from step to step."""

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute, Block, SSAValue

from xdsl_quant.machines.expression import signed_bounds

from ..builder import INDEX, LoweringBuilder, shape_of
from .data_movement import reshaped
from .expressions import (
    InMemoryArray,
    TensorExpression,
    Value,
    as_expression,
    builder_of,
    implements,
)
from .loops import FLOAT_TYPES, DType


def _element_type(dtype: DType) -> Attribute:
    return FLOAT_TYPES.get(dtype) or IntegerType(8 * dtype.itemsize)


def _carried(builder: LoweringBuilder, value: SSAValue, dtype: DType) -> InMemoryArray:
    if dtype.kind == "f":
        return InMemoryArray(builder, value, dtype)
    return InMemoryArray(builder, value, dtype, signed_bounds(8 * dtype.itemsize))


@implements("scanned")
def _scanned(
    inputs: Value, step: Callable[..., Sequence[TensorExpression]], *states: Value
) -> tuple[TensorExpression, ...]:
    """Build an `scf.for` over the first dimension of `inputs`."""
    outer = builder_of(inputs, *states)
    sequence = as_expression(inputs, outer).computed
    expressions = [as_expression(state, outer) for state in states]
    dtypes = [state.dtype for state in expressions]
    types = [*map(_element_type, dtypes)]
    shape = (len(sequence), *expressions[0].shape)
    carried = [
        outer.empty(TensorType(types[0], shape), shape),
        *(x.tensor(type_) for x, type_ in zip(expressions, types, strict=True)),
    ]
    block = Block(arg_types=[INDEX, *(value.type for value in carried)])
    index, results, *values = block.args
    inner = outer.in_loop(block)
    pairs = zip(values, dtypes, strict=True)
    next_states = step(
        _element_at(inner, sequence, index), *(_carried(inner, *pair) for pair in pairs)
    )
    tensors = [
        as_expression(state, inner).tensor(type_)
        for state, type_ in zip(next_states, types, strict=True)
    ]
    results = _with_element(inner, results, tensors[0], index)
    inner.insert(scf.YieldOp(results, *tensors)).location = outer.location
    start, end, one = (outer.index(number) for number in (0, len(sequence), 1))
    loop = scf.ForOp(start, end, one, carried, block)
    loop.location = outer.location
    outer.insert(loop)
    pairs = zip(loop.results, (dtypes[0], *dtypes), strict=True)
    return tuple(_carried(outer, *pair) for pair in pairs)


def _element_at(
    builder: LoweringBuilder, sequence: InMemoryArray, index: SSAValue
) -> TensorExpression:
    offsets, strides = [index, *[0] * (sequence.ndim - 1)], [1] * sequence.ndim
    shape = sequence.shape[1:]
    part = builder.extract_slice(sequence.value, offsets, (1, *shape), strides)
    element = InMemoryArray(builder, part, sequence.dtype, sequence.bounds)
    return reshaped(element, shape)


def _with_element(
    builder: LoweringBuilder, sequence: SSAValue, element: SSAValue, index: SSAValue
) -> SSAValue:
    shape = shape_of(element)
    offsets, strides = [index, *[0] * len(shape)], [1] * (len(shape) + 1)
    return builder.insert_slice(element, sequence, offsets, (1, *shape), strides)
