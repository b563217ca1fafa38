"""Slices at indices that are known at run time, and elements in reverse order."""

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from xdsl_quant.dialects.quant.traits import MovesElements, SameOperandsAndResultsScale
from xdsl_quant.dialects.type_kinds import VariadicOf
from xdsl_quant.dialects.verification import RankedTensor, require

from . import tensor_kinds as kinds
from .base import SAME_ELEMENTS, InferredTypeOp
from .rules import verify_dimensions
from .syntax import FUNCTIONAL_TYPE, SAME_TYPE

__all__ = ["DynamicSliceOp", "DynamicUpdateSliceOp", "ReverseOp"]


@irdl_op_definition
class ReverseOp(InferredTypeOp):
    """
    Tensor with the elements in reverse order along `dimensions`.

    Example:

    ```mlir
    %1 = stablehlo.reverse %0, dims = [1] : tensor<2x3xf32>
    ```
    """

    name = "stablehlo.reverse"

    operand = operand_def(kinds.TENSOR)
    dimensions = prop_def(kinds.NUMBERS)
    result = result_def(kinds.TENSOR)

    assembly_format = (
        f"$operand `,` `dims` `=` custom<DimensionList>($dimensions) {SAME_TYPE}"
    )

    traits = traits_def(
        Pure(), SAME_ELEMENTS, MovesElements(), SameOperandsAndResultsScale()
    )

    def inferred_type(self) -> RankedTensor:
        type_, _ = self.tensor_types
        verify_dimensions("dimensions", self.dimensions.get_values(), len(type_.shape))
        return type_


class DynamicIndicesOp(InferredTypeOp, ABC):
    """Data movement op with one scalar index per dimension, clamped to the tensor."""

    operand = operand_def(kinds.TENSOR)
    start_indices = var_operand_def(VariadicOf(kinds.SCALAR_INTEGER))
    result = result_def(kinds.TENSOR)

    traits = traits_def(Pure(), SameOperandsAndResultsScale())

    def verify_indices(self, elements: Sequence[RankedTensor], names: str) -> None:
        """Verify the element types of moved tensors, and the types of the indices."""
        require(
            len({type_.element_type for type_ in elements}) == 1,
            f"'{self.name}' op failed to verify that all of {{{names}}} have same "
            "element type",
        )
        require(
            len({*self.start_indices.types}) <= 1,
            "start indices must have same element type",
        )


@irdl_op_definition
class DynamicSliceOp(DynamicIndicesOp):
    """
    Slice of static sizes. Indices are clamped, so that the slice is inside the tensor.

    Example:

    ```mlir
    %3 = stablehlo.dynamic_slice %0, %1, %2, sizes = [1, 2]
        : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
    ```
    """

    name = "stablehlo.dynamic_slice"

    slice_sizes = prop_def(kinds.NUMBERS)

    assembly_format = (
        "$operand `,` custom<OperandsBeforeKeyword>($start_indices) "
        f"`sizes` `=` custom<DimensionList>($slice_sizes) {FUNCTIONAL_TYPE}"
    )

    traits = traits_def(MovesElements((0,)))

    def inferred_type(self) -> RankedTensor:
        type_, *_, result = self.tensor_types
        self.verify_indices((type_, result), "operand, result")
        sizes, count = self.slice_sizes.get_values(), len(self.start_indices)
        shape = type_.get_shape()
        require(
            len(sizes) == count,
            f"has mismatched number of slice sizes ({len(sizes)}) and number of start "
            f"indices ({count})",
        )
        require(
            count == len(shape),
            f"has mismatched number of start indices ({count}) and the rank of operand "
            f"({len(shape)})",
        )
        for dimension, (size, bound) in enumerate(zip(sizes, shape, strict=True)):
            require(size >= 0, f"has negative size index to dynamic slice: {size}")
            require(
                bound == DYNAMIC_INDEX or size <= bound,
                f"has slice size {size} greater than dimension size {bound} in "
                f"dimension {dimension} of operand",
            )
        return TensorType(type_.element_type, sizes)


@irdl_op_definition
class DynamicUpdateSliceOp(DynamicIndicesOp):
    """
    Tensor in which a slice is replaced by `update`. Indices are clamped, so that the slice
    is inside the tensor.

    Example:

    ```mlir
    %4 = stablehlo.dynamic_update_slice %0, %1, %2, %3
        : (tensor<2x3xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
    ```
    """

    name = "stablehlo.dynamic_update_slice"

    operand = operand_def(kinds.TENSOR)
    update = operand_def(kinds.TENSOR)
    start_indices = var_operand_def(VariadicOf(kinds.SCALAR_INTEGER))

    assembly_format = f"operands {FUNCTIONAL_TYPE}"

    traits = traits_def(MovesElements((0, 1)))

    def inferred_type(self) -> RankedTensor:
        type_, update, *_, result = self.tensor_types
        self.verify_indices((type_, update, result), "operand, update, result")
        shape, sizes = type_.get_shape(), update.get_shape()
        require(
            len(sizes) == len(shape),
            f"update rank does not match operand rank: {len(sizes)} vs {len(shape)}.",
        )
        count = len(self.start_indices)
        require(
            count == len(shape),
            "expects number of start_indices to match operand rank: "
            f"{count} vs {len(shape)}.",
        )
        for dimension, (size, bound) in enumerate(zip(sizes, shape, strict=True)):
            require(
                DYNAMIC_INDEX in (size, bound) or size <= bound,
                f"expects size at dimension {dimension} of update to be in range "
                f"[0, {bound}]. Got: {size}.",
            )
        return type_
