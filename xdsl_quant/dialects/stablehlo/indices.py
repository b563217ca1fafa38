"""Ops on indices: counting along a dimension, sizes, and elements at places."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BoolAttr,
    DenseArrayBase,
    IntegerAttr,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant.traits import MovesElements, SameOperandsAndResultsScale

from .attributes import GatherDimensionNumbersAttr, dimensions_attr
from .base import InferredTypeOp, StableHLOOp, at_least
from .compatibility import RankedTensor, are_compatible_sizes
from .dot_general import verify_distinct
from .syntax import dimensions_text
from .tensor_kinds import (
    I32_TENSOR,
    INTEGER_TENSOR,
    STATIC_NUMBER,
    TENSOR,
    TENSOR_OR_PER_AXIS,
)


@irdl_op_definition
class IotaOp(StableHLOOp):
    """
    The index of each element along a dimension.

    Example:

    ```mlir
    %0 = stablehlo.iota dim = 1 : tensor<2x3xi32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#iota).
    """

    name = "stablehlo.iota"

    iota_dimension = prop_def(at_least(0, "iota_dimension"))
    output = result_def(STATIC_NUMBER)

    assembly_format = (
        "`dim` `=` $iota_dimension attr-dict `:` type($output) "
        "custom<VerifyTypesLater>()"
    )

    traits = traits_def(Pure())

    def __init__(self, iota_dimension: int, result_type: Attribute):
        super().__init__(
            result_types=[result_type],
            properties={"iota_dimension": IntegerAttr(iota_dimension, i64)},
        )

    def verify_(self) -> None:
        rank = len(self.output.type.get_shape())
        if not rank:
            raise VerifyException("does not support scalars.")
        if self.iota_dimension.value.data >= rank:
            raise VerifyException("iota dimension cannot go beyond the output rank.")


@irdl_op_definition
class GetDimensionSizeOp(InferredTypeOp):
    """
    The size of a dimension.

    Example:

    ```mlir
    %1 = stablehlo.get_dimension_size %0, dim = 1 : (tensor<2x?xf32>) -> tensor<i32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#get_dimension_size).
    """

    name = "stablehlo.get_dimension_size"

    operand = operand_def(TENSOR_OR_PER_AXIS)
    dimension = prop_def(at_least(0, "dimension"))
    result = result_def(I32_TENSOR)

    assembly_format = (
        "$operand `,` `dim` `=` $dimension attr-dict `:` "
        "functional-type(operands, results) custom<VerifyTypesLater>()"
    )

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue | Operation, dimension: int):
        super().__init__(
            operands=[operand],
            result_types=[TensorType(i32, ())],
            properties={"dimension": IntegerAttr(dimension, i64)},
        )

    def inferred_type(self) -> RankedTensor:
        operand, _ = self.tensor_types
        rank, dimension = len(operand.get_shape()), self.dimension.value.data
        if dimension >= rank:
            raise VerifyException(
                f"requires dimension attribute in range [0, {rank}); found ({dimension})"
            )
        return TensorType(i32, ())


@irdl_op_definition
class GatherOp(InferredTypeOp):
    """
    Slices of a tensor that begin at the indices of another one.

    Example: the rows of a table.

    ```mlir
    %2 = "stablehlo.gather"(%0, %1) <{
        dimension_numbers = #stablehlo.gather<offset_dims = [1],
            collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
        slice_sizes = array<i64: 1, 8>
    }> : (tensor<10x8xf32>, tensor<3x1xi32>) -> tensor<3x8xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#gather).
    """

    name = "stablehlo.gather"

    operand = operand_def(TENSOR)
    start_indices = operand_def(INTEGER_TENSOR)
    dimension_numbers = prop_def(GatherDimensionNumbersAttr)
    slice_sizes = prop_def(DenseArrayBase.constr(i64))
    indices_are_sorted = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    result = result_def(TENSOR)

    traits = traits_def(Pure(), MovesElements((0,)), SameOperandsAndResultsScale())

    def __init__(
        self,
        operand: SSAValue | Operation,
        start_indices: SSAValue | Operation,
        dimension_numbers: GatherDimensionNumbersAttr,
        slice_sizes: Sequence[int],
        result_type: Attribute,
        *,
        indices_are_sorted: bool = False,
    ):
        super().__init__(
            operands=[operand, start_indices],
            result_types=[result_type],
            properties={
                "dimension_numbers": dimension_numbers,
                "indices_are_sorted": IntegerAttr(indices_are_sorted, i1),
                "slice_sizes": dimensions_attr(slice_sizes),
            },
        )

    def inferred_type(self) -> RankedTensor:
        numbers = self.dimension_numbers
        type_, indices_type, result_type = self.tensor_types
        indices = indices_type.get_shape()
        if type_.element_type != result_type.element_type:
            raise VerifyException(
                f"'{self.name}' op failed to verify that all of {{operand, result}} have "
                "same element type"
            )
        slice_sizes = self.slice_sizes.get_values()
        _verify_gather(numbers, type_.get_shape(), indices, slice_sizes)
        index_vector = numbers.index_vector_dim.data
        batches = [size for index, size in enumerate(indices) if index != index_vector]
        dropped = {
            *numbers.collapsed_slice_dims.get_values(),
            *numbers.operand_batching_dims.get_values(),
        }
        offsets = [size for i, size in enumerate(slice_sizes) if i not in dropped]
        rank = len(batches) + len(offsets)
        offset_dims = numbers.offset_dims.get_values()
        _verify_range("offset_dims", offset_dims, "implied-result-rank", rank)
        sizes = iter(offsets), iter(batches)
        shape = [next(sizes[index not in offset_dims]) for index in range(rank)]
        return TensorType(type_.element_type, shape)


def _verify_range(
    name: str, dimensions: Sequence[int], rank_name: str, rank: int
) -> None:
    for dimension in dimensions:
        if not 0 <= dimension < rank:
            raise VerifyException(
                f"Expects each element of {name} to be in range [0, {rank_name}) i.e. "
                f"[0, {rank}). got: {dimension}."
            )


def _verify_sorted(name: str, dimensions: Sequence[int]) -> None:
    text = f", got: {dimensions_text(dimensions)}"
    if list(dimensions) != sorted(dimensions):
        raise VerifyException(f"expects {name} to be sorted{text}")
    if len(set(dimensions)) != len(dimensions):
        raise VerifyException(f"expects {name} to not repeat{text}")


def _verify_gather(
    numbers: GatherDimensionNumbersAttr,
    operand: Sequence[int],
    indices: Sequence[int],
    slice_sizes: Sequence[int],
) -> None:
    """Verify that the dimensions exist and belong together, and the sizes of slices."""
    offset = numbers.offset_dims.get_values()
    collapsed = numbers.collapsed_slice_dims.get_values()
    batching = numbers.operand_batching_dims.get_values()
    indices_batching = numbers.start_indices_batching_dims.get_values()
    index_map = numbers.start_index_map.get_values()
    index_vector = numbers.index_vector_dim.data
    if len(offset) + len(collapsed) + len(batching) != len(operand):
        raise VerifyException(
            f"offset_dims size ({len(offset)}) plus collapse_slice_dims size "
            f"({len(collapsed)}) plus operand_batching_dims size ({len(batching)}) is "
            f"not equal to operand rank ({len(operand)})"
        )
    if not 0 <= index_vector <= len(indices):
        raise VerifyException(
            "Expects index_vector_dim to be in range [0, rank-of('start_indices')] i.e. "
            f"[0, {len(indices)}]. got: {index_vector}."
        )
    count = (*indices, 1)[index_vector]
    if count not in (DYNAMIC_INDEX, len(index_map)):
        raise VerifyException(
            f"start_index_map size ({len(index_map)}) is not equal to size of index "
            f"dimension ({index_vector}) of start_indices ({count})"
        )
    operand_rank = "rank-of('operand')", len(operand)
    _verify_sorted("offset_dims", offset)
    verify_distinct(
        ("collapsed_slice_dims", collapsed), ("operand_batching_dims", batching)
    )
    _verify_sorted("collapsed_slice_dims", collapsed)
    _verify_range("collapsed_slice_dims", collapsed, *operand_rank)
    _verify_sorted("operand_batching_dims", batching)
    _verify_range("operand_batching_dims", batching, *operand_rank)
    if len(set(indices_batching)) != len(indices_batching):
        raise VerifyException(
            "expects start_indices_batching_dims to not repeat, got: "
            f"{dimensions_text(indices_batching)}"
        )
    _verify_range(
        "start_indices_batching_dims",
        indices_batching,
        "rank-of('start_indices')",
        len(indices),
    )
    if index_vector in indices_batching:
        raise VerifyException(
            "expects start_indices_batching_dims not to include index_vector_dim "
            f"{index_vector}"
        )
    if len(batching) != len(indices_batching):
        raise VerifyException(
            "operand_batching_dims and start_indices_batching_dims should have the same "
            "size"
        )
    for index, (a, b) in enumerate(zip(batching, indices_batching, strict=True)):
        if not are_compatible_sizes(operand[a], indices[b]):
            raise VerifyException(
                f"operand_batching_dims[{index}] and start_indices_batching_dims"
                f"[{index}] must have compatible sizes, but got {operand[a]} and "
                f"{indices[b]}"
            )
    verify_distinct(("start_index_map", index_map), ("operand_batching_dims", batching))
    _verify_range("start_index_map", index_map, *operand_rank)
    if len(slice_sizes) != len(operand):
        raise VerifyException(
            f"slice_sizes size ({len(slice_sizes)}) not equal to operand rank "
            f"({len(operand)})"
        )
    for name, dimensions in (
        ("collapsed_slice_dims", collapsed),
        ("operand_batching_dims", batching),
    ):
        for dimension in dimensions:
            if slice_sizes[dimension] > 1:
                raise VerifyException(
                    f"Expects that for each dim in {name}, slice_sizes[dim] should be "
                    f"<= 1, but got {slice_sizes[dimension]}"
                )
    for index, (size, bound) in enumerate(zip(slice_sizes, operand, strict=True)):
        if bound != DYNAMIC_INDEX and not 0 <= size <= bound:
            raise VerifyException(
                f"slice size ({size}) is out of bounds for operand dimension ({bound}) "
                f"at index {index}"
            )
