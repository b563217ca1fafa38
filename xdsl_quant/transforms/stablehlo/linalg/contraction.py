"""
Sums of products: matrix products over any dimensions, and convolutions, for which the
padding and the elements that a dilation puts between others are made first.

Products are summed up in the type of the result, in f32 for narrower floats, whose sums
are rounded once, at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple, TypeVar, cast

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from xdsl_quant.dialects.stablehlo import ConvolutionOp, DotGeneralOp
from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    Size,
    dimensions,
    element_type_of,
    shape_of,
    static_sizes,
)

from .element_types import Values, bit_width, converted, is_float, signless
from .elementwise import product, total
from .lowering import LinalgLowering, UnsupportedError
from .windows import Padding, padded, window_of


class Factor(NamedTuple):
    """A tensor of which each product has an element."""

    value: SSAValue

    element_type: Attribute
    """The element type, with its signedness."""

    indices: Sequence[AffineExpr]
    """The element for each iteration of the loops."""


def sum_of_products(
    builder: LoweringBuilder,
    lhs: Factor,
    rhs: Factor,
    result_sizes: Sequence[Size],
    reduction_count: int,
    element_type: Attribute,
) -> SSAValue:
    """
    Sums of products as one loop nest: first the dimensions of the result in order, and then
    the loops over what is summed up.

    Args:
        builder: where the ops are inserted.
        lhs: the left factor.
        rhs: the right factor.
        result_sizes: the sizes of the result.
        reduction_count: the number of loops over what is summed up.
        element_type: the element type of the result, with its signedness.
    """
    sum_type = element_type
    if is_float(element_type) and bit_width(element_type) < 32:
        sum_type = f32
    shape, rank = static_sizes(result_sizes), len(result_sizes)
    if 0 in shape:
        # Loops that do not run may have indices out of bounds, which MLIR finds wrong.
        return builder.zeros(TensorType(signless(element_type), shape), result_sizes)

    def body(body: LoweringBuilder, args: Values) -> SSAValue:
        factors = (
            converted(body, value, factor.element_type, sum_type)
            for value, factor in zip(args[:2], (lhs, rhs), strict=True)
        )
        return total(body, args[2], product(body, *factors))

    loop_count = rank + reduction_count
    sums = builder.generic(
        [lhs.value, rhs.value],
        [builder.zeros(TensorType(signless(sum_type), shape), result_sizes)],
        [
            AffineMap(loop_count, 0, tuple(indices))
            for indices in (lhs.indices, rhs.indices, dimensions(range(rank)))
        ],
        [PARALLEL] * rank + [REDUCTION] * reduction_count,
        body,
    )
    if sum_type == element_type:
        return sums
    return builder.rearranged(
        sums,
        TensorType(element_type, shape),
        result_sizes,
        dimensions(range(rank)),
        lambda body, args: converted(body, args[0], sum_type, element_type),
    )


class LowerDotGeneral(LinalgLowering[DotGeneralOp]):
    """Lowers `stablehlo.dot_general` to one `linalg.generic`."""

    op_type = DotGeneralOp

    def lower(self, builder: LoweringBuilder, op: DotGeneralOp, args: Values) -> Values:
        lhs, rhs = args
        numbers, rank = op.dot_dimension_numbers, len(shape_of(op.result))
        lhs_batching = numbers.lhs_batching_dimensions.get_values()
        lhs_contracting = numbers.lhs_contracting_dimensions.get_values()
        lhs_loops = _loops(lhs, lhs_batching, lhs_contracting, len(lhs_batching), rank)
        rhs_loops = _loops(
            rhs,
            numbers.rhs_batching_dimensions.get_values(),
            numbers.rhs_contracting_dimensions.get_values(),
            len(lhs_loops) - len(lhs_contracting),
            rank,
        )
        sizes = dict(zip(rhs_loops, builder.sizes(rhs), strict=True))
        sizes |= dict(zip(lhs_loops, builder.sizes(lhs), strict=True))
        result = sum_of_products(
            builder,
            Factor(lhs, element_type_of(op.lhs), dimensions(lhs_loops)),
            Factor(rhs, element_type_of(op.rhs), dimensions(rhs_loops)),
            [sizes[loop] for loop in range(rank)],
            len(lhs_contracting),
            element_type_of(op.result),
        )
        return [result]


def _loops(
    value: SSAValue,
    batching: Sequence[int],
    contracting: Sequence[int],
    first_own: int,
    first_contracting: int,
) -> Sequence[int]:
    """
    The loop over each dimension of an operand. The first loops are over batching
    dimensions; `first_own` is the first over a dimension that the operand has alone.
    """
    loops = {dimension: loop for loop, dimension in enumerate(batching)}
    loops.update((d, loop) for loop, d in enumerate(contracting, first_contracting))
    own_loops = count(first_own)
    return [
        loops[d] if d in loops else next(own_loops) for d in range(len(shape_of(value)))
    ]


class LowerConvolution(LinalgLowering[ConvolutionOp]):
    """Lowers `stablehlo.convolution` to one `linalg.generic` over the padded input."""

    op_type = ConvolutionOp

    def lower(
        self, builder: LoweringBuilder, op: ConvolutionOp, args: Values
    ) -> Values:
        lhs, rhs = args
        numbers = op.dimension_numbers
        batch = numbers.input_batch_dimension.data
        feature = numbers.input_feature_dimension.data
        spatial = numbers.input_spatial_dimensions.get_values()
        inputs = numbers.kernel_input_feature_dimension.data
        outputs = numbers.kernel_output_feature_dimension.data
        kernel_spatial = numbers.kernel_spatial_dimensions.get_values()
        result_batch = numbers.output_batch_dimension.data
        result_feature = numbers.output_feature_dimension.data
        result_spatial = numbers.output_spatial_dimensions.get_values()
        kernel_shape, rank = shape_of(rhs), len(shape_of(op.result))
        window = window_of(
            [kernel_shape[d] for d in kernel_spatial],
            op.window_strides,
            op.padding,
            op.lhs_dilation,
            op.rhs_dilation,
        )
        batch_groups = op.batch_group_count.value.data
        feature_groups = op.feature_group_count.value.data
        groups = max(batch_groups, feature_groups)
        is_grouped = groups > 1
        batch_size = _group_size(builder, lhs, batch, batch_groups)
        input_size = _group_size(builder, lhs, feature, feature_groups)
        output_size = _group_size(builder, rhs, outputs, groups)

        paddings = [Padding()] * rank
        for d, along in zip(spatial, window, strict=True):
            paddings[d] = along.padding
        lhs = padded(builder, lhs, paddings)
        if (reversal := op.window_reversal) is not None:
            is_reversed = zip(kernel_spatial, reversal.get_values(), strict=True)
            rhs = _reversed(builder, rhs, [d for d, value in is_reversed if value])

        def loop(dimension: int) -> AffineExpr:
            """The loop over a dimension of the result; that over groups is before it."""
            return AffineDimExpr(
                dimension + (is_grouped and dimension >= result_feature)
            )

        *window_loops, input_loop = dimensions(
            range(rank + is_grouped, 2 * rank - 1 + is_grouped)
        )
        lhs_indices = {batch: loop(result_batch), feature: input_loop}
        rhs_indices = {inputs: input_loop, outputs: loop(result_feature)}
        sizes_by_dimension = {result_batch: batch_size, result_feature: output_size}
        for i, along in enumerate(window):
            d, result_d = spatial[i], result_spatial[i]
            lhs_indices[d] = along.element_index(loop(result_d), window_loops[i])
            rhs_indices[kernel_spatial[i]] = window_loops[i]
            sizes_by_dimension[result_d] = along.positions(
                builder, builder.size(lhs, d)
            )
        for group_count, indices, d, size in (
            (batch_groups, lhs_indices, batch, batch_size),
            (feature_groups, lhs_indices, feature, input_size),
            (groups, rhs_indices, outputs, output_size),
        ):
            if group_count > 1:
                indices[d] += AffineDimExpr(result_feature) * cast(int, size)
        sizes = _in_order(sizes_by_dimension)
        sizes[result_feature:result_feature] = [groups] * is_grouped
        result = sum_of_products(
            builder,
            Factor(lhs, element_type_of(op.lhs), _in_order(lhs_indices)),
            Factor(rhs, element_type_of(op.rhs), _in_order(rhs_indices)),
            sizes,
            rank - 1,
            element_type_of(op.result),
        )
        if not is_grouped:
            return [result]
        # The features of all groups in one dimension.
        del sizes[result_feature]
        sizes[result_feature] = builder.times(output_size, groups)
        type_ = TensorType(element_type_of(result), static_sizes(sizes))
        return [builder.reshaped(result, type_, sizes)]


T = TypeVar("T")


def _in_order(by_dimension: Mapping[int, T]) -> list[T]:
    """What there is for each dimension, in the order of these."""
    return [by_dimension[dimension] for dimension in range(len(by_dimension))]


def _group_size(
    builder: LoweringBuilder, value: SSAValue, dimension: int, group_count: int
) -> Size:
    """The size of the part of a dimension that is in one group."""
    size = builder.size(value, dimension)
    if group_count > 1 and not isinstance(size, int):
        raise UnsupportedError.missing("has groups in a dimension of unknown size")
    return builder.floor_divided(size, group_count)


def _reversed(
    builder: LoweringBuilder, value: SSAValue, along: Sequence[int]
) -> SSAValue:
    """A tensor with the elements along these dimensions in the reverse order."""
    shape = shape_of(value)
    source = dimensions(range(len(shape)))
    for d in along:
        if shape[d] > 1:
            source[d] = source[d] * -1 + (shape[d] - 1)
    if source == dimensions(range(len(shape))):
        return value
    type_ = cast(TensorType, value.type)
    return builder.rearranged(value, type_, builder.sizes(value), source)
