"""Ops whose shape, slice or padding is an operand: the result may have any sizes."""

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, DenseIntOrFPElementsAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait, Pure

from xdsl_quant.dialects.quant.traits import (
    MovesElements,
    MultipliesAndAccumulates,
    SameOperandsAndResultsScale,
)
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    are_compatible_sizes,
    constant_integers,
    require,
)

from . import rules
from . import tensor_kinds as kinds
from .attributes import PrecisionAttr, dimensions_text
from .base import StableHLOOp, TypeRelation
from .data_movement import GatheringOp
from .products import ConvolvingOp, verify_precisions
from .rules import Padding, verify_count, verify_dimensions
from .syntax import FUNCTIONAL_TYPE

__all__ = [
    "DynamicBroadcastInDimOp",
    "DynamicConvOp",
    "DynamicGatherOp",
    "DynamicIotaOp",
    "DynamicPadOp",
    "DynamicReshapeOp",
    "RealDynamicSliceOp",
]


class HasStaticForm(HasCanonicalizationPatternsTrait):
    """Replace ops with constant shapes, slices or paddings by static ops."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from xdsl_quant.frontends.stablehlo.canonicalization_patterns import PATTERNS

        return PATTERNS


def _keeps_elements(types: Sequence[RankedTensor]) -> bool:
    """As StableHLO, which does not compare the elements of quantized tensors."""
    ends = types[0], types[-1]
    return rules.has_quantized(ends) or ends[0].element_type == ends[1].element_type


_KEEPS_ELEMENTS = TypeRelation(
    "expects operand and result to have compatible element type", _keeps_elements
)

_MOVEMENT = (
    Pure(),
    HasStaticForm(),
    MovesElements((0,)),
    SameOperandsAndResultsScale(),
)


def _verify_constant_shape(shape: SSAValue, result: RankedTensor) -> Sequence[int]:
    """Verify that a shape may be that of the result; return the sizes that it tells."""
    if (sizes := constant_integers(shape)) is None:
        return result.get_shape()
    require(
        are_compatible_shapes(sizes, result.get_shape()) and min(sizes, default=0) >= 0,
        f"output shape {dimensions_text(sizes)} is incompatible with return type of "
        f"operation '{result}'",
    )
    return sizes


@irdl_op_definition
class DynamicReshapeOp(StableHLOOp):
    """
    Tensor with the shape `output_shape` and the same elements in row-major order.

    Example:

    ```mlir
    %2 = stablehlo.dynamic_reshape %0, %1
        : (tensor<?x3xf32>, tensor<1xi32>) -> tensor<?xf32>
    ```
    """

    name = "stablehlo.dynamic_reshape"

    operand = operand_def(kinds.TENSOR_OR_PER_AXIS)
    output_shape = operand_def(kinds.SHAPE)
    result = result_def(kinds.TENSOR_OR_PER_AXIS)

    assembly_format = f"operands {FUNCTIONAL_TYPE}"

    traits = traits_def(*_MOVEMENT, _KEEPS_ELEMENTS)

    def verify_(self) -> None:
        operand, shape, result = self.tensor_types
        (rank,) = shape.get_shape()
        rules.verify_same_parameters(operand, result)
        sizes = _verify_constant_shape(self.output_shape, result)
        require(
            len(result.shape) == rank,
            "result should have a rank equal to the number of elements in output_shape",
        )
        rules.verify_reshape(operand, result)
        counts = math.prod(operand.get_shape()), math.prod(sizes)
        require(
            DYNAMIC_INDEX in (*operand.get_shape(), *sizes) or counts[0] == counts[1],
            "output_shape is incompatible with input type of operation: input has "
            f"{counts[0]} elements, but output_shape has {counts[1]}",
        )


@irdl_op_definition
class DynamicBroadcastInDimOp(StableHLOOp):
    """
    Tensor broadcast to the shape `output_dimensions`; see `broadcast_in_dim`.

    Example:

    ```mlir
    %2 = stablehlo.dynamic_broadcast_in_dim %0, %1, dims = [1]
        : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x3xf32>
    ```
    """

    name = "stablehlo.dynamic_broadcast_in_dim"

    operand = operand_def(kinds.TENSOR_OR_PER_AXIS)
    output_dimensions = operand_def(kinds.SHAPE)
    broadcast_dimensions = prop_def(kinds.NUMBERS)

    known_expanding_dimensions = opt_prop_def(kinds.NUMBERS)
    """Operand dimensions of size 1 that the op repeats."""

    known_nonexpanding_dimensions = opt_prop_def(kinds.NUMBERS)
    """Operand dimensions of the size of the result."""

    result = result_def(kinds.TENSOR_OR_PER_AXIS)

    assembly_format = (
        "$operand `,` $output_dimensions `,` `dims` `=` "
        f"custom<DimensionList>($broadcast_dimensions) {FUNCTIONAL_TYPE}"
    )
    irdl_options = (ParsePropInAttrDict(),)

    traits = traits_def(*_MOVEMENT, _KEEPS_ELEMENTS)

    def verify_(self) -> None:
        operand, _, result = self.tensor_types
        shape, dimensions = operand.get_shape(), self.broadcast_dimensions.get_values()
        verify_count("broadcast_dimensions", dimensions, len(shape))
        verify_dimensions("broadcast_dimensions", dimensions, len(result.shape))
        hints = self.known_expanding_dimensions, self.known_nonexpanding_dimensions
        hinted = [d for hint in hints if hint is not None for d in hint.get_values()]
        verify_dimensions("hints", hinted, len(shape))
        bounds = _verify_constant_shape(self.output_dimensions, result)
        for index, (size, dimension) in enumerate(zip(shape, dimensions, strict=True)):
            require(
                size == 1 or are_compatible_sizes(size, bounds[dimension]),
                f"size of operand dimension {index} ({size}) is not compatible with size "
                f"of result dimension {dimension} ({bounds[dimension]})",
            )
        rules.verify_broadcast_dimension(operand, result, dimensions)


@irdl_op_definition
class DynamicIotaOp(StableHLOOp):
    """
    Index of each element along a dimension, as a tensor of the shape `output_shape`.

    Example:

    ```mlir
    %1 = stablehlo.dynamic_iota %0, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
    ```
    """

    name = "stablehlo.dynamic_iota"

    output_shape = operand_def(kinds.SHAPE)
    iota_dimension = prop_def(kinds.DIMENSION)
    result = result_def(kinds.TENSOR)

    assembly_format = f"$output_shape `,` `dim` `=` $iota_dimension {FUNCTIONAL_TYPE}"

    traits = traits_def(Pure(), HasStaticForm())

    def verify_(self) -> None:
        _, result = self.tensor_types
        dimension = self.iota_dimension.value.data
        verify_dimensions("iota_dimension", (dimension,), len(result.shape))
        _verify_constant_shape(self.output_shape, result)


@irdl_op_definition
class RealDynamicSliceOp(StableHLOOp):
    """
    Slice from `start_indices` to `limit_indices` (exclusive) with `strides`. The indices
    are not clamped.

    Example:

    ```mlir
    %4 = stablehlo.real_dynamic_slice %0, %1, %2, %3
        : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
    ```
    """

    name = "stablehlo.real_dynamic_slice"

    operand = operand_def(kinds.TENSOR)
    start_indices = operand_def(kinds.INDEX_VECTOR)
    limit_indices = operand_def(kinds.INDEX_VECTOR)
    strides = operand_def(kinds.INDEX_VECTOR)
    result = result_def(kinds.TENSOR)

    assembly_format = f"operands {FUNCTIONAL_TYPE}"

    traits = traits_def(*_MOVEMENT)

    def verify_(self) -> None:
        self.require_same("element type", "operand", "result")
        self.require_same("type", "start_indices", "limit_indices", "strides")
        operand, starts, *_ = self.tensor_types
        (count,) = starts.get_shape()
        require(
            count == len(operand.shape),
            f"has mismatched number of operand rank ({len(operand.shape)}) and "
            f"start_indices size ({count})",
        )


@irdl_op_definition
class DynamicPadOp(StableHLOOp):
    """
    Tensor padded by sizes that are known at run time; see `pad`.

    Example:

    ```mlir
    %5 = stablehlo.dynamic_pad %0, %1, %2, %3, %4
        : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>)
        -> tensor<?xf32>
    ```
    """

    name = "stablehlo.dynamic_pad"

    operand = operand_def(kinds.TENSOR)
    padding_value = operand_def(kinds.SCALAR)
    edge_padding_low = operand_def(kinds.SHAPE)
    edge_padding_high = operand_def(kinds.SHAPE)
    interior_padding = operand_def(kinds.SHAPE)
    result = result_def(kinds.TENSOR)

    assembly_format = f"operands {FUNCTIONAL_TYPE}"

    traits = traits_def(*_MOVEMENT)

    def verify_(self) -> None:
        self.require_same("element type", "operand", "padding_value", "result")
        names = "edge_padding_low", "edge_padding_high", "interior_padding"
        self.require_same("type", *names)
        operand, _, low, *_, result = self.tensor_types
        rank = len(operand.shape)
        require(
            len(result.shape) == rank,
            f"'{self.name}' op failed to verify that all of {{operand, result}} have same "
            "rank",
        )
        require(
            low.get_shape() == (rank,),
            f"padding operands size ({low.get_shape()[0]}) must match operand rank "
            f"({rank})",
        )
        *edges, interior = map(constant_integers, self.operands[2:])
        require(
            min(interior or (0,)) >= 0,
            "expects interior padding that is not negative",
        )
        shapes = operand.get_shape(), result.get_shape()
        if interior is None or None in edges:
            return
        numbers = cast(Sequence[Sequence[int]], (*edges, interior))
        for size, actual, *padding in zip(*shapes, *numbers, strict=True):
            padded = Padding(*padding).padded_size(size)
            require(
                DYNAMIC_INDEX in (size, actual) or padded == actual,
                f"expected an output dimension of size {padded}, got {actual}",
            )


@irdl_op_definition
class DynamicGatherOp(GatheringOp):
    """
    Slices of a tensor that start at given indices; see `gather`.

    Example:

    ```mlir
    %3 = "stablehlo.dynamic_gather"(%0, %1, %2) <{
        dimension_numbers = #stablehlo.gather<offset_dims = [1],
            collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>
    }> : (tensor<?x?xf32>, tensor<3x1xi32>, tensor<2xi32>) -> tensor<3x?xf32>
    ```
    """

    name = "stablehlo.dynamic_gather"

    operand = operand_def(kinds.TENSOR)
    start_indices = operand_def(kinds.INTEGER_TENSOR)
    slice_sizes = operand_def(kinds.SLICE_SIZES)

    traits = traits_def(HasStaticForm())

    def sizes(self) -> Sequence[int]:
        sizes = constant_integers(self.slice_sizes)
        (count,) = cast(RankedTensor, self.slice_sizes.type).get_shape()
        return [DYNAMIC_INDEX] * count if sizes is None else sizes


@irdl_op_definition
class DynamicConvOp(ConvolvingOp):
    """
    Dot products of a kernel with the windows of a tensor; see `convolution`.

    Example:

    ```mlir
    %3 = "stablehlo.dynamic_conv"(%0, %1, %2) <{
        batch_group_count = 1 : i64, feature_group_count = 1 : i64,
        dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>
    }> : (tensor<1x8x4xf32>, tensor<3x4x2xf32>, tensor<1x2xi32>) -> tensor<1x?x2xf32>
    ```
    """

    name = "stablehlo.dynamic_conv"

    lhs = operand_def(kinds.TENSOR)
    rhs = operand_def(kinds.TENSOR)
    padding = operand_def(kinds.PADDING_PAIRS)
    precision_config = opt_prop_def(ArrayAttr[PrecisionAttr])
    result = result_def(kinds.TENSOR)

    traits = traits_def(Pure(), HasStaticForm(), MultipliesAndAccumulates())

    def known_padding(self) -> DenseIntOrFPElementsAttr | None:
        return None

    def verify_(self) -> None:
        verify_precisions(self.precision_config)
        self.inferred_shape()
        lhs, rhs, padding, result = self.tensor_types
        if rules.has_quantized((lhs, rhs, result)):
            elements = (type_.element_type for type_ in (lhs, rhs, result))
            rules.verify_quantized_product(*elements)
        shape, count = padding.get_shape(), len(lhs.shape) - 2
        require(
            shape == (count, 2),
            f"expects padding to be of shape [{count}, 2], but got "
            f"{dimensions_text(shape)}",
        )
