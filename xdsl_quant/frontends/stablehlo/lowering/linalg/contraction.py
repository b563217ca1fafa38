"""
Lowering of sums of products: matrix products over any dimensions, and convolutions. The
input of a convolution is padded and dilated first.

The accumulator has the type of the result, or f32 if the result is a narrower float: these
sums are rounded once, at the end.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TypeAlias, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from xdsl_quant.frontends.stablehlo.dialect import (
    ConvolutionOp,
    DotGeneralOp,
    DynamicConvOp,
)
from xdsl_quant.frontends.stablehlo.dialect.rules import Padding
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    Size,
    dimensions,
    element_type_of,
    shape_of,
    static_sizes,
)
from xdsl_quant.transforms.building.signless_types import signless

from .data_movement import RunTimePadding, element_index, pad_tensor, window_count
from .elementwise import convert_scalar, product, total
from .lowering import LinalgLowering, Values, bit_width, is_floating, without_linalg
from .reduction import reduction_loops
from .sizes import run_time_numbers

Factor: TypeAlias = tuple[SSAValue, Sequence[AffineExpr]]
"""Factor of a sum of products: a tensor, and its indices in terms of the loop indices."""


def sum_of_products(
    builder: LoweringBuilder,
    op: Operation,
    factors: Sequence[Factor],
    result_sizes: Sequence[Size],
    reduction_count: int,
) -> SSAValue:
    """
    Build sums of products as one loop nest: loops over the result dimensions in order, then
    the reduction loops.

    Args:
        builder: insertion point.
        op: op that defines the element types, including their signedness; its first
            operands are the factors.
        factors: left and right factor, or a single one.
        result_sizes: sizes of the result.
        reduction_count: number of reduction loops.
    """
    factor_types = [*map(element_type_of, op.operands[: len(factors)])]
    element_type = element_type_of(op.results[0])
    sum_type = element_type
    if is_floating(element_type) and bit_width(element_type) < 32:
        sum_type = f32
    shape, rank = static_sizes(result_sizes), len(result_sizes)

    def body(body: LoweringBuilder, args: Values) -> Values:
        numbers = [
            convert_scalar(body, value, factor_type, sum_type)
            for value, factor_type in zip(args, factor_types, strict=False)
        ]
        term = product(body, *numbers) if len(numbers) == 2 else numbers[0]
        return [total(body, args[len(numbers)], term)]

    zeros = builder.zeros(TensorType(signless(sum_type), shape), result_sizes)
    (sums,) = reduction_loops(
        builder, factors, [zeros], range(rank), rank + reduction_count, body
    )
    if sum_type == element_type:
        return sums
    return builder.rearrange(
        sums,
        TensorType(element_type, shape),
        result_sizes,
        dimensions(range(rank)),
        lambda body, args: convert_scalar(body, args[0], sum_type, element_type),
    )


class LowerDotGeneral(LinalgLowering[DotGeneralOp]):
    """Lower `stablehlo.dot_general` to one `linalg.generic`."""

    def lower(self, builder: LoweringBuilder, op: DotGeneralOp, args: Values) -> Values:
        _, contracting = op.dot_dimension_numbers.pairs()
        rank, factors = len(shape_of(op.result)), list[Factor]()
        for value, free, contracted in zip(
            args, op.result_dimensions(), contracting, strict=True
        ):
            loops = {**free, **dict(zip(contracted, count(rank), strict=False))}
            factors.append((value, dimensions(loops[d] for d in range(len(loops)))))
        sizes: dict[AffineExpr, Size] = {}
        for value, indices in reversed(factors):
            sizes.update(zip(indices, builder.sizes(value), strict=True))
        result_sizes = [sizes[loop] for loop in dimensions(range(rank))]
        reduction_count = len(contracting[0])
        return [sum_of_products(builder, op, factors, result_sizes, reduction_count)]


_Convolution: TypeAlias = ConvolutionOp | DynamicConvOp


def _paddings(
    builder: LoweringBuilder, op: _Convolution, args: Values
) -> Mapping[int, Padding | RunTimePadding]:
    """Return the padding of each spatial dimension of the input."""
    paddings: list[Padding | RunTimePadding] = [along.padding for along in op.window]
    if isinstance(op, DynamicConvOp):
        edges = iter(run_time_numbers(builder, op.padding, args[2]))
        paddings = [RunTimePadding(next(edges), next(edges), p[2]) for p in paddings]
    spatial = op.dimension_numbers.input_spatial_dimensions.get_values()
    return dict(zip(spatial, paddings, strict=True))


class LowerConvolution(LinalgLowering[_Convolution]):
    """
    Lower `stablehlo.convolution` and `stablehlo.dynamic_conv` to one `linalg.generic` over
    the padded input.
    """

    def lower(self, builder: LoweringBuilder, op: _Convolution, args: Values) -> Values:
        lhs, rhs = args[:2]
        tensors = op.dimension_numbers.by_tensor()
        batch, feature, *spatial = tensors["input"]
        _, outputs, *kernel_spatial = tensors["kernel"]
        result_batch, result_feature, *result_spatial = tensors["output"]
        window, rank = op.window, len(shape_of(op.result))
        if any(along.size == DYNAMIC_INDEX for along in window):
            raise without_linalg("has a window of unknown size")
        batch_groups = op.batch_group_count.value.data
        feature_groups = op.feature_group_count.value.data
        groups = max(batch_groups, feature_groups)
        is_grouped = groups > 1
        batch_size = _group_size(builder, lhs, batch, batch_groups)
        input_size = _group_size(builder, lhs, feature, feature_groups)
        output_size = _group_size(builder, rhs, outputs, groups)

        lhs = pad_tensor(builder, lhs, _paddings(builder, op, args))
        if (reversal := op.window_reversal) is not None:
            is_reversed = zip(kernel_spatial, reversal.get_values(), strict=True)
            rhs = _reversed_along(
                builder, rhs, [d for d, value in is_reversed if value]
            )

        # The loop over groups encloses the loop over features of a group.
        loops = dimensions(range(2 * rank - 1 + is_grouped))
        group_loop = loops.pop(result_feature) if is_grouped else AffineConstantExpr(0)
        *window_loops, input_loop = loops[rank:]
        lhs_indices, rhs_indices = [input_loop] * rank, [input_loop] * rank
        lhs_indices[batch] = loops[result_batch]
        rhs_indices[outputs] = loops[result_feature]
        sizes = [batch_size] * rank
        sizes[result_feature] = output_size
        for i, along in enumerate(window):
            d, result_d = spatial[i], result_spatial[i]
            lhs_indices[d] = element_index(along, loops[result_d], window_loops[i])
            rhs_indices[kernel_spatial[i]] = window_loops[i]
            sizes[result_d] = window_count(builder, along, builder.size(lhs, d))
        for group_count, indices, d, size in (
            (batch_groups, lhs_indices, batch, batch_size),
            (feature_groups, lhs_indices, feature, input_size),
            (groups, rhs_indices, outputs, output_size),
        ):
            if group_count > 1:
                indices[d] += group_loop * cast(int, size)
        sizes[result_feature:result_feature] = [groups] * is_grouped
        factors = (lhs, lhs_indices), (rhs, rhs_indices)
        result = sum_of_products(builder, op, factors, sizes, rank - 1)
        if not is_grouped:
            return [result]
        # Merge groups and features of a group into one dimension.
        del sizes[result_feature]
        sizes[result_feature] = builder.times(output_size, groups)
        type_ = TensorType(element_type_of(result), static_sizes(sizes))
        return [builder.reshape(result, type_, sizes)]


def _group_size(
    builder: LoweringBuilder, value: SSAValue, dimension: int, group_count: int
) -> Size:
    """Return the size of a dimension, divided by the number of groups."""
    size = builder.size(value, dimension)
    if group_count > 1 and not isinstance(size, int):
        raise without_linalg("has groups in a dimension of unknown size")
    return builder.floor_divide(size, group_count)


def _reversed_along(
    builder: LoweringBuilder, value: SSAValue, along: Sequence[int]
) -> SSAValue:
    """Return a tensor reversed along some dimensions."""
    shape = shape_of(value)
    if not (along := [d for d in along if shape[d] > 1]):
        return value
    source = dimensions(range(len(shape)))
    for d in along:
        source[d] = source[d] * -1 + (shape[d] - 1)
    type_ = cast(TensorType, value.type)
    return builder.rearrange(value, type_, builder.sizes(value), source)
