"""
Ranked tensors visited element by element, and unranked ones as ranked ones: what the
lowerings of casts have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, cast

from xdsl.dialects import arith, cf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    StringAttr,
    TensorType,
    i32,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.linalg.ops import YieldOp as LinalgYieldOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.dialects.shape import NumElementsOp, ShapeOfOp, SplitAtOp

from .emission import INDEX, Code, tensor_type

_SHAPE_TYPE = TensorType(INDEX, [DYNAMIC_INDEX])


class Layout(NamedTuple):
    """Which scale belongs to which element of a ranked tensor."""

    shape: tuple[int, ...]
    """Shape of the scales."""

    exprs: tuple[AffineExpr, ...]
    """Index of a scale, in terms of the indices of an element."""

    sizes: Mapping[int, tuple[int, str]]
    """
    The size that each dimension with several scales must have, and how it comes about.
    """


# Ranked tensors

Body = Callable[[Code, SSAValue, Sequence[SSAValue]], SSAValue]
"""What becomes of a number, given the parameters that belong to it."""


def dynamic_sizes(code: Code, value: SSAValue) -> list[SSAValue]:
    """The sizes of a ranked tensor that its type does not say."""
    return [
        code.op(tensor.DimOp, (value, code.index(dimension)), INDEX)
        for dimension, size in enumerate(cast(TensorType, value.type).get_shape())
        if size == DYNAMIC_INDEX
    ]


@cache
def _parallel(rank: int) -> ArrayAttr[IteratorTypeAttr]:
    return ArrayAttr([IteratorTypeAttr.parallel()] * rank)


@cache
def _indexing_maps(
    rank: int, parameter_exprs: tuple[AffineExpr, ...], parameter_count: int
) -> ArrayAttr[AffineMapAttr]:
    """The maps of a generic with one input, some parameter tensors and one output."""
    identity = AffineMapAttr(AffineMap.identity(rank))
    parameters = AffineMapAttr(AffineMap(rank, 0, parameter_exprs))
    return ArrayAttr([identity, *[parameters] * parameter_count, identity])


@cache
def _segment_sizes(input_count: int) -> Attribute:
    return DenseArrayBase.from_list(i32, [input_count, 1])


def convert_by_generic(
    code: Code,
    value: SSAValue,
    parameters: Mapping[str, DenseIntOrFPElementsAttr],
    exprs: tuple[AffineExpr, ...],
    element_type: Attribute,
    body: Body,
) -> SSAValue:
    """
    Convert all elements of a ranked tensor by one `linalg.generic`.

    Args:
        code: where ops are added.
        value: the tensor.
        parameters: tensors of numbers that belong to the elements, with their names.
        exprs: the index of a parameter, in terms of the indices of an element.
        element_type: the element type of the result.
        body: adds the ops on one element.
    """
    container = cast(TensorType, value.type)
    constants = [code.constant(attr, attr.type) for attr in parameters.values()]
    result_type = tensor_type(element_type, container.shape, container.encoding)
    empty = code.op(tensor.EmptyOp, dynamic_sizes(code, value), result_type)

    inputs = (value, *constants)
    block = Block(arg_types=[scalar_or_element_type(v.type) for v in (*inputs, empty)])
    for argument, hint in zip(block.args, ("in", *parameters, "out"), strict=True):
        argument.name_hint = hint
    number, *numbers, _ = block.args
    inner = Code(code.location)
    result = body(inner, number, numbers)
    inner.ops.append(LinalgYieldOp.create(operands=(result,), location=code.location))
    block.add_ops(inner.ops)

    rank = len(container.get_shape())
    generic = GenericOp.create(
        operands=(*inputs, empty),
        result_types=(result_type,),
        properties={
            "indexing_maps": _indexing_maps(rank, exprs, len(constants)),
            "iterator_types": _parallel(rank),
            "operandSegmentSizes": _segment_sizes(len(inputs)),
        },
        regions=(Region(block),),
        location=code.location,
    )
    code.ops.append(generic)
    return generic.results[0]


# Unranked tensors


def shape_of(code: Code, value: SSAValue) -> SSAValue:
    """The shape of an unranked tensor, as a tensor of sizes."""
    return code.op(ShapeOfOp, (value,), _SHAPE_TYPE)


def _reshape(
    code: Code, value: SSAValue, sizes: Sequence[SSAValue], shape: Sequence[int]
) -> SSAValue:
    shape_value = code.op(tensor.FromElementsOp, sizes, TensorType(INDEX, [len(sizes)]))
    result_type = TensorType(scalar_or_element_type(value.type), shape)
    return code.op(tensor.ReshapeOp, (value, shape_value), result_type)


def _num_elements(code: Code, shape: SSAValue) -> SSAValue:
    return code.op(NumElementsOp, (shape,), INDEX)


def _split(code: Code, shape: SSAValue, index: SSAValue) -> tuple[SSAValue, SSAValue]:
    split = SplitAtOp.create(
        operands=(shape, index),
        result_types=(_SHAPE_TYPE, _SHAPE_TYPE),
        location=code.location,
    )
    code.ops.append(split)
    head, tail = split.results
    return head, tail


def flatten_all(code: Code, value: SSAValue, shape: SSAValue) -> SSAValue:
    """Reshape to one dimension."""
    return _reshape(code, value, [_num_elements(code, shape)], [DYNAMIC_INDEX])


def flatten_around_axis(
    code: Code, value: SSAValue, shape: SSAValue, axis: int, size: int
) -> SSAValue:
    """Reshape to three dimensions, as MLIR does: before the axis, the axis, after it."""
    axis_index, next_index = code.index(axis), code.index(axis + 1)
    before, _ = _split(code, shape, axis_index)
    left = _num_elements(code, before)
    _, after = _split(code, shape, next_index)
    right = _num_elements(code, after)
    sizes = (left, code.index(size), right)
    return _reshape(code, value, sizes, [DYNAMIC_INDEX, size, DYNAMIC_INDEX])


def flatten_around_axes(
    code: Code,
    value: SSAValue,
    shape: SSAValue,
    axes: Sequence[int],
    axis_sizes: Sequence[int],
) -> SSAValue:
    """
    Reshape to `2 * len(axes) + 1` dimensions: before the first axis, the first axis,
    between the first two axes, and so on.
    """
    sizes: list[SSAValue] = []
    flat_shape: list[int] = []
    rest = shape
    position = 0
    for axis, size in zip(axes, axis_sizes, strict=True):
        before, from_axis = _split(code, rest, code.index(axis - position))
        _, rest = _split(code, from_axis, code.index(1))
        position = axis + 1
        sizes += (_num_elements(code, before), code.index(size))
        flat_shape += (DYNAMIC_INDEX, size)
    sizes.append(_num_elements(code, rest))
    return _reshape(code, value, sizes, [*flat_shape, DYNAMIC_INDEX])


# Assertions


def assert_that(
    code: Code, predicate: str, left: SSAValue, right: SSAValue, message: str
) -> None:
    """Assert that a predicate of `arith.cmpi` holds."""
    comparison = arith.CmpiOp(left, right, predicate)
    comparison.location = code.location
    assertion = cf.AssertOp.create(
        operands=comparison.results,
        properties={"msg": StringAttr(message)},
        location=code.location,
    )
    code.ops += (comparison, assertion)


def assert_equal(code: Code, actual: SSAValue, size: int, message: str) -> None:
    """Assert that an index is a number."""
    assert_that(code, "eq", actual, code.index(size), message)


def assert_sizes(code: Code, value: SSAValue, layout: Layout) -> None:
    """Assert that dynamic sizes of a ranked tensor are those that the layout needs."""
    shape = cast(TensorType, value.type).get_shape()
    for dimension, (size, reason) in sorted(layout.sizes.items()):
        if shape[dimension] == DYNAMIC_INDEX:
            index = code.index(dimension)
            actual = code.op(tensor.DimOp, (value, index), INDEX)
            message = f"size of dimension {dimension} must be {size}: {reason}"
            assert_equal(code, actual, size, message)


def assert_rank(code: Code, shape: SSAValue, axes: Sequence[int]) -> None:
    """Assert that a shape has all these axes."""
    rank = code.op(tensor.DimOp, (shape, code.index(0)), INDEX)
    last = axes[-1]
    message = f"rank must be greater than {last}, the last quantized dimension"
    assert_that(code, "ugt", rank, code.index(last), message)


def assert_extents(
    code: Code, shape: SSAValue, axes: Sequence[int], layout: Layout
) -> None:
    """
    Assert that the sizes of these axes are those that the layout of the flattened tensor
    needs, whose odd dimensions they are.
    """
    for i, axis in enumerate(axes):
        size, reason = layout.sizes[2 * i + 1]
        actual = code.op(tensor.ExtractOp, (shape, code.index(axis)), INDEX)
        message = f"size of dimension {axis} must be {size}: {reason}"
        assert_equal(code, actual, size, message)
