"""
Ranked tensors visited element by element, and unranked ones as ranked ones: what the
lowerings of casts have in common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, cast

from xdsl.dialects import arith, cf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.dialects.shape import NumElementsOp, ShapeOfOp, SplitAtOp

from .builder import INDEX, LoweringBuilder, dimensions, tensor_type

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

Body = Callable[[LoweringBuilder, SSAValue, Sequence[SSAValue]], SSAValue]
"""What becomes of a number, given the parameters that belong to it."""


def dynamic_sizes(builder: LoweringBuilder, value: SSAValue) -> list[SSAValue]:
    """The sizes of a ranked tensor that its type does not say."""
    return [
        builder.op(tensor.DimOp, (value, builder.index(dimension)), INDEX)
        for dimension, size in enumerate(cast(TensorType, value.type).get_shape())
        if size == DYNAMIC_INDEX
    ]


def convert_by_generic(
    builder: LoweringBuilder,
    value: SSAValue,
    parameters: Mapping[str, DenseIntOrFPElementsAttr],
    exprs: tuple[AffineExpr, ...],
    element_type: Attribute,
    body: Body,
) -> SSAValue:
    """
    Convert all elements of a ranked tensor by one `linalg.generic`.

    Args:
        builder: where the ops are inserted.
        value: the tensor.
        parameters: tensors of numbers that belong to the elements, with their names.
        exprs: the index of a parameter, in terms of the indices of an element.
        element_type: the element type of the result.
        body: adds the ops on one element.
    """
    container = cast(TensorType, value.type)
    constants = [builder.constant(attr, attr.type) for attr in parameters.values()]
    indices = dimensions(range(len(container.get_shape())))
    return builder.map(
        [(value, indices), *((constant, exprs) for constant in constants)],
        tensor_type(element_type, container.shape, container.encoding),
        builder.sizes(value),
        lambda inner, args: body(inner, args[0], args[1:-1]),
        ("in", *parameters, "out"),
    )


# Unranked tensors


def shape_of(builder: LoweringBuilder, value: SSAValue) -> SSAValue:
    """The shape of an unranked tensor, as a tensor of sizes."""
    return builder.op(ShapeOfOp, (value,), _SHAPE_TYPE)


def _reshape(
    builder: LoweringBuilder,
    value: SSAValue,
    sizes: Sequence[SSAValue],
    shape: Sequence[int],
) -> SSAValue:
    shape_value = builder.op(
        tensor.FromElementsOp, sizes, TensorType(INDEX, [len(sizes)])
    )
    result_type = TensorType(scalar_or_element_type(value.type), shape)
    return builder.op(tensor.ReshapeOp, (value, shape_value), result_type)


def _num_elements(builder: LoweringBuilder, shape: SSAValue) -> SSAValue:
    return builder.op(NumElementsOp, (shape,), INDEX)


def _split(
    builder: LoweringBuilder, shape: SSAValue, index: SSAValue
) -> tuple[SSAValue, SSAValue]:
    split = SplitAtOp.create(
        operands=(shape, index),
        result_types=(_SHAPE_TYPE, _SHAPE_TYPE),
    )
    builder.add(split)
    head, tail = split.results
    return head, tail


def flatten_all(builder: LoweringBuilder, value: SSAValue, shape: SSAValue) -> SSAValue:
    """Reshape to one dimension."""
    return _reshape(builder, value, [_num_elements(builder, shape)], [DYNAMIC_INDEX])


def flatten_around_axis(
    builder: LoweringBuilder, value: SSAValue, shape: SSAValue, axis: int, size: int
) -> SSAValue:
    """Reshape to three dimensions, as MLIR does: before the axis, the axis, after it."""
    axis_index, next_index = builder.index(axis), builder.index(axis + 1)
    before, _ = _split(builder, shape, axis_index)
    left = _num_elements(builder, before)
    _, after = _split(builder, shape, next_index)
    right = _num_elements(builder, after)
    sizes = (left, builder.index(size), right)
    return _reshape(builder, value, sizes, [DYNAMIC_INDEX, size, DYNAMIC_INDEX])


def flatten_around_axes(
    builder: LoweringBuilder,
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
        before, from_axis = _split(builder, rest, builder.index(axis - position))
        _, rest = _split(builder, from_axis, builder.index(1))
        position = axis + 1
        sizes += (_num_elements(builder, before), builder.index(size))
        flat_shape += (DYNAMIC_INDEX, size)
    sizes.append(_num_elements(builder, rest))
    return _reshape(builder, value, sizes, [*flat_shape, DYNAMIC_INDEX])


# Assertions


def assert_that(
    builder: LoweringBuilder,
    predicate: str,
    left: SSAValue,
    right: SSAValue,
    message: str,
) -> None:
    """Assert that a predicate of `arith.cmpi` holds."""
    comparison = builder.add(arith.CmpiOp(left, right, predicate))
    builder.insert(
        cf.AssertOp.create(
            operands=(comparison,),
            properties={"msg": StringAttr(message)},
            location=builder.location,
        )
    )


def assert_equal(
    builder: LoweringBuilder, actual: SSAValue, size: int, message: str
) -> None:
    """Assert that an index is a number."""
    assert_that(builder, "eq", actual, builder.index(size), message)


def assert_sizes(builder: LoweringBuilder, value: SSAValue, layout: Layout) -> None:
    """Assert that dynamic sizes of a ranked tensor are those that the layout needs."""
    shape = cast(TensorType, value.type).get_shape()
    for dimension, (size, reason) in sorted(layout.sizes.items()):
        if shape[dimension] == DYNAMIC_INDEX:
            index = builder.index(dimension)
            actual = builder.op(tensor.DimOp, (value, index), INDEX)
            message = f"size of dimension {dimension} must be {size}: {reason}"
            assert_equal(builder, actual, size, message)


def assert_rank(builder: LoweringBuilder, shape: SSAValue, axes: Sequence[int]) -> None:
    """Assert that a shape has all these axes."""
    rank = builder.op(tensor.DimOp, (shape, builder.index(0)), INDEX)
    last = axes[-1]
    message = f"rank must be greater than {last}, the last quantized dimension"
    assert_that(builder, "ugt", rank, builder.index(last), message)


def assert_extents(
    builder: LoweringBuilder, shape: SSAValue, axes: Sequence[int], layout: Layout
) -> None:
    """
    Assert that the sizes of these axes are those that the layout of the flattened tensor
    needs, whose odd dimensions they are.
    """
    for i, axis in enumerate(axes):
        size, reason = layout.sizes[2 * i + 1]
        actual = builder.op(tensor.ExtractOp, (shape, builder.index(axis)), INDEX)
        message = f"size of dimension {axis} must be {size}: {reason}"
        assert_equal(builder, actual, size, message)
