"""`linalg.generic` ops on tensors of integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from xdsl_quant.transforms.building.builder import INDEX, LoweringBuilder
from xdsl_quant.transforms.building.fixed_point_arithmetic import i64_constant

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Input(NamedTuple):
    """A tensor to read, and the index of what is read."""

    value: SSAValue
    exprs: tuple[AffineExpr, ...]


def identity(rank: int) -> tuple[AffineExpr, ...]:
    """The index of the element at the same place."""
    return tuple(map(AffineExpr.dimension, range(rank)))


def tensor_of(
    value_type: TensorType, element_type: IntegerType
) -> TensorType[IntegerType]:
    """The type of a tensor of the same shape."""
    return TensorType(element_type, value_type.shape, value_type.encoding)


def _dynamic_sizes(
    builder: LoweringBuilder,
    container: TensorType,
    value: SSAValue,
    dimensions: Sequence[int],
) -> list[SSAValue]:
    return [
        builder.op(tensor.DimOp, (value, builder.index(dimension)), INDEX)
        for size, dimension in zip(container.get_shape(), dimensions, strict=True)
        if size == DYNAMIC_INDEX
    ]


def _generic(
    builder: LoweringBuilder,
    inputs: Sequence[Input],
    output: Input,
    iterators: Sequence[IteratorTypeAttr],
    names: Sequence[str],
    body: Callable[[LoweringBuilder, Sequence[SSAValue]], SSAValue],
) -> SSAValue:
    operands = (*inputs, output)
    return builder.generic(
        [operand.value for operand in inputs],
        [output.value],
        [AffineMap(len(iterators), 0, o.exprs) for o in operands],
        iterators,
        body,
        names,
    )


# Elementwise


def _parameter(builder: LoweringBuilder, array: NDArray[Any]) -> Input:
    """A constant tensor that has no dimension along which the numbers are the same."""
    axes = [axis for axis, size in enumerate(array.shape) if size != 1]
    attribute = DenseIntOrFPElementsAttr(
        TensorType(i64, [array.shape[axis] for axis in axes]),
        BytesAttr(array.astype("<i8").tobytes()),
    )
    value = builder.constant(attribute, attribute.type)
    return Input(value, tuple(map(AffineExpr.dimension, axes)))


def elementwise(
    builder: LoweringBuilder,
    inputs: Sequence[Input],
    parameters: Mapping[str, NDArray[Any]],
    result_type: TensorType,
    body: Callable[
        [LoweringBuilder, Sequence[SSAValue], Mapping[str, SSAValue]], SSAValue
    ],
) -> SSAValue:
    """
    A tensor of which each element is computed from others and from `i64` numbers.

    Args:
        builder: where the ops are inserted.
        inputs: what is read; the first one has the shape of the result.
        parameters: the numbers, in arrays with a dimension for each one of the result.
            Numbers that are the same for all elements become constants of the body.
        result_type: the type of the result.
        body: adds the ops on one element, given what is read and the numbers.
    """
    rank = len(result_type.get_shape())
    varying = {
        name: _parameter(builder, array)
        for name, array in parameters.items()
        if (array != array.flat[0]).any()
    }
    sizes = _dynamic_sizes(builder, result_type, inputs[0].value, range(rank))
    output = Input(builder.op(tensor.EmptyOp, sizes, result_type), identity(rank))

    def with_parameters(
        inner: LoweringBuilder, arguments: Sequence[SSAValue]
    ) -> SSAValue:
        numbers = dict(zip(varying, arguments[len(inputs) :], strict=False))
        for name, array in parameters.items():
            if name not in varying:
                numbers[name] = i64_constant(inner, int(array.flat[0]))
        return body(inner, arguments[: len(inputs)], numbers)

    names = (*["in"] * len(inputs), *varying, "out")
    iterators = [IteratorTypeAttr.parallel()] * rank
    return _generic(
        builder,
        (*inputs, *varying.values()),
        output,
        iterators,
        names,
        with_parameters,
    )


# Reductions


def reduction(
    builder: LoweringBuilder,
    value: SSAValue,
    init_value: SSAValue,
    kept: Sequence[int],
    result_type: TensorType,
    body: Callable[[LoweringBuilder, Sequence[SSAValue]], SSAValue],
) -> SSAValue:
    """
    A tensor of which each element is combined from others, in the order of memory.

    Args:
        builder: where the ops are inserted.
        value: the tensor of these others.
        init_value: what each result is before, a scalar.
        kept: the dimensions of the result, in ascending order: all others are reduced.
        result_type: the type of the result.
        body: adds the ops on an element and the result so far.
    """
    rank = len(cast(TensorType, value.type).get_shape())
    sizes = _dynamic_sizes(builder, result_type, value, kept)
    if len(kept) == rank:
        # What MLIR fuses with a broadcast must not read what it writes to.
        return _generic(
            builder,
            [Input(value, identity(rank)), Input(init_value, ())],
            Input(builder.op(tensor.EmptyOp, sizes, result_type), identity(rank)),
            [IteratorTypeAttr.parallel()] * rank,
            ("in", "init", "out"),
            lambda inner, arguments: body(inner, arguments[:2]),
        )
    output = builder.op(tensor.SplatOp, (init_value, *sizes), result_type)
    return _generic(
        builder,
        [Input(value, identity(rank))],
        Input(output, tuple(map(AffineExpr.dimension, kept))),
        [
            IteratorTypeAttr.parallel()
            if dimension in kept
            else IteratorTypeAttr.reduction()
            for dimension in range(rank)
        ],
        ("in", "out"),
        body,
    )


def sums(
    builder: LoweringBuilder,
    value: SSAValue,
    kept: Sequence[int],
    element_type: IntegerType,
) -> SSAValue:
    """
    The sums of the elements of a tensor of signed integers.

    Args:
        builder: where the ops are inserted.
        value: the tensor.
        kept: the dimensions of the result, in ascending order: all others are summed over.
        element_type: the element type of the sums, at least as wide as that of the tensor.
    """
    shape = cast(TensorType, value.type).get_shape()
    result_type = TensorType(element_type, [shape[dimension] for dimension in kept])
    zero = builder.constant(IntegerAttr(0, element_type), element_type)

    def body(inner: LoweringBuilder, arguments: Sequence[SSAValue]) -> SSAValue:
        number, so_far = arguments
        if number.type != element_type:
            number = inner.elementwise(arith.ExtSIOp, (number,), element_type)
        flags = {"overflowFlags": arith.IntegerOverflowAttr("none")}
        return inner.elementwise(arith.AddiOp, (so_far, number), element_type, flags)

    return reduction(builder, value, zero, kept, result_type, body)
