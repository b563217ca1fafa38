"""
Convolutions: a sum of products, with the padding and the elements that a dilation puts
between others made first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from xdsl_quant.dialects.stablehlo import (
    ConvDimensionNumbersAttr,
    ConvolutionOp,
)
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    Size,
    dimensions,
    element_type_of,
    shape_of,
    static_sizes,
)

from .contraction import Factor, sum_of_products
from .lowering import LinalgLowering, UnsupportedError, Values
from .windows import Padding, padded, window_of

_Loop: TypeAlias = str | tuple[str, int]
"""
`"batch"`, `"group"`, `"output"` over the output features of a group, `"input"` over its
input features, and for each spatial dimension `("position", i)` over the positions of the
window and `("window", i)` over its elements.
"""


class LowerConvolution(LinalgLowering[ConvolutionOp]):
    """Lowers `stablehlo.convolution` to one `linalg.generic` over the padded input."""

    op_type = ConvolutionOp

    def lower(
        self, builder: LoweringBuilder, op: ConvolutionOp, operands: Values
    ) -> Values:
        lhs, rhs = operands
        numbers = op.dimension_numbers
        batch = numbers.input_batch_dimension.data
        feature = numbers.input_feature_dimension.data
        spatial = numbers.input_spatial_dimensions.get_values()
        inputs = numbers.kernel_input_feature_dimension.data
        outputs = numbers.kernel_output_feature_dimension.data
        kernel_spatial = numbers.kernel_spatial_dimensions.get_values()
        window = window_of(
            [shape_of(rhs)[d] for d in kernel_spatial],
            op.window_strides,
            op.padding,
            op.lhs_dilation,
            op.rhs_dilation,
        )
        batch_groups = op.batch_group_count.value.data
        feature_groups = op.feature_group_count.value.data
        groups = max(batch_groups, feature_groups)
        batch_size = _group_size(builder, lhs, batch, batch_groups)
        input_size = _group_size(builder, lhs, feature, feature_groups)
        output_size = _group_size(builder, rhs, outputs, groups)

        paddings = [Padding()] * len(shape_of(lhs))
        for d, along in zip(spatial, window, strict=True):
            paddings[d] = along.padding
        lhs = padded(builder, lhs, paddings)
        if (reversal := op.window_reversal) is not None:
            is_reversed = zip(kernel_spatial, reversal.get_values(), strict=True)
            rhs = _reversed(builder, rhs, [d for d, value in is_reversed if value])
        sizes: dict[_Loop, Size] = {
            "batch": batch_size,
            "group": groups,
            "output": output_size,
            "input": builder.size(rhs, inputs),
        }
        for i, (d, along) in enumerate(zip(spatial, window, strict=True)):
            sizes["position", i] = along.positions(builder, builder.size(lhs, d))
            sizes["window", i] = along.size

        result_loops = _result_loops(numbers, groups)
        summed: list[_Loop] = [*(("window", i) for i in range(len(window))), "input"]
        index = {
            loop: AffineDimExpr(i) for i, loop in enumerate([*result_loops, *summed])
        }
        lhs_indices: dict[int, AffineExpr] = {
            batch: index["batch"],
            feature: index["input"],
        }
        rhs_indices: dict[int, AffineExpr] = {
            inputs: index["input"],
            outputs: index["output"],
        }
        for i, along in enumerate(window):
            element = index["window", i]
            lhs_indices[spatial[i]] = along.element_index(index["position", i], element)
            rhs_indices[kernel_spatial[i]] = element
        for count, indices, d, size in (
            (batch_groups, lhs_indices, batch, batch_size),
            (feature_groups, lhs_indices, feature, input_size),
            (groups, rhs_indices, outputs, output_size),
        ):
            if count > 1:
                indices[d] += index["group"] * cast(int, size)
        result = sum_of_products(
            builder,
            Factor(lhs, element_type_of(op.lhs), _in_order(lhs_indices)),
            Factor(rhs, element_type_of(op.rhs), _in_order(rhs_indices)),
            [sizes[loop] for loop in result_loops],
            len(summed),
            element_type_of(op.result),
        )
        if groups == 1:
            return [result]
        # The features of all groups in one dimension.
        sizes["output"] = builder.times(output_size, groups)
        result_sizes = [sizes[loop] for loop in result_loops if loop != "group"]
        type_ = TensorType(element_type_of(result), static_sizes(result_sizes))
        return [builder.reshaped(result, type_, result_sizes)]


T = TypeVar("T")


def _in_order(by_dimension: Mapping[int, T]) -> list[T]:
    """What there is for each dimension, in the order of these."""
    return [by_dimension[dimension] for dimension in range(len(by_dimension))]


def _group_size(
    builder: LoweringBuilder, value: SSAValue, dimension: int, count: int
) -> Size:
    """The size of the part of a dimension that is in one group."""
    size = builder.size(value, dimension)
    if count > 1 and not isinstance(size, int):
        raise UnsupportedError.missing("has groups in a dimension of unknown size")
    return builder.floor_divided(size, count)


def _result_loops(
    numbers: ConvDimensionNumbersAttr, group_count: int
) -> Sequence[_Loop]:
    """The loop over each dimension of the result, with one over groups before "output"."""
    loops: dict[int, _Loop] = {
        numbers.output_batch_dimension.data: "batch",
        numbers.output_feature_dimension.data: "output",
    }
    for i, d in enumerate(numbers.output_spatial_dimensions.get_values()):
        loops[d] = ("position", i)
    result_loops = _in_order(loops)
    if group_count > 1:
        result_loops.insert(numbers.output_feature_dimension.data, "group")
    return result_loops


def _reversed(
    builder: LoweringBuilder, value: SSAValue, along: Sequence[int]
) -> SSAValue:
    """A tensor with the elements along these dimensions in the reverse order."""
    shape = shape_of(value)
    indices = dimensions(range(len(shape)))
    for d in along:
        indices[d] = indices[d] * -1 + (shape[d] - 1)
    if not along:
        return value
    type_ = cast(TensorType, value.type)
    return builder.rearranged(value, type_, builder.sizes(value), indices)
