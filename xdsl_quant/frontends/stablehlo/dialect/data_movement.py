"""Data movement ops: reshape, transpose, broadcast, concatenate, slice, pad and gather."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, I64, BoolAttr, IntegerAttr, TensorType
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from xdsl_quant.dialects.quant.traits import MovesElements, SameOperandsAndResultsScale
from xdsl_quant.dialects.type_kinds import VariadicOf
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    merged_shape,
    require,
)

from . import rules
from . import tensor_kinds as kinds
from .attributes import Dimensions, GatherDimensionNumbersAttr
from .base import COMPATIBLE_ELEMENTS, SAME_ELEMENTS, InferredTypeOp, StableHLOOp
from .rules import Padding, verify_count, verify_dimensions
from .syntax import FUNCTIONAL_TYPE

__all__ = [
    "BroadcastInDimOp",
    "ConcatenateOp",
    "GatherOp",
    "PadOp",
    "ReshapeOp",
    "SliceOp",
    "TransposeOp",
]


class DataMovementOp(StableHLOOp, ABC):
    """Data movement op with one operand."""

    operand = operand_def(kinds.TENSOR_OR_PER_AXIS)
    result = result_def(kinds.STATIC_OR_BOUNDED_OR_PER_AXIS)

    traits = traits_def(
        Pure(), COMPATIBLE_ELEMENTS, MovesElements(), SameOperandsAndResultsScale()
    )


@irdl_op_definition
class ReshapeOp(DataMovementOp):
    """
    Tensor with another shape and the same elements in row-major order.

    Example:

    ```mlir
    %1 = stablehlo.reshape %0 : (tensor<2x3xf32>) -> tensor<6xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#reshape).
    """

    name = "stablehlo.reshape"

    assembly_format = f"operands {FUNCTIONAL_TYPE}"

    def verify_(self) -> None:
        rules.verify_reshape(*self.tensor_types)


@irdl_op_definition
class TransposeOp(InferredTypeOp, DataMovementOp):
    """
    Tensor with permuted dimensions: dimension `i` of the result is dimension
    `permutation[i]` of the operand.

    Example:

    ```mlir
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#transpose).
    """

    name = "stablehlo.transpose"

    permutation = prop_def(kinds.NUMBERS)
    result = result_def(kinds.TENSOR_OR_PER_AXIS)

    assembly_format = (
        f"$operand `,` `dims` `=` custom<DimensionList>($permutation) {FUNCTIONAL_TYPE}"
    )

    def inferred_type(self) -> RankedTensor:
        operand, result = self.tensor_types
        permutation = self.permutation.get_values()
        rules.verify_same_parameters(operand, result)
        rules.verify_transposed_dimension(operand, result, permutation)
        shape = operand.get_shape()
        verify_count("dimensions in the permutation", permutation, len(shape))
        verify_dimensions("permutation", permutation, len(shape))
        return TensorType(operand.element_type, [shape[i] for i in permutation])


@irdl_op_definition
class BroadcastInDimOp(DataMovementOp):
    """
    Tensor broadcast along dimensions: dimension `i` of the operand becomes dimension
    `broadcast_dimensions[i]` of the result.

    Example:

    ```mlir
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#broadcast_in_dim).
    """

    name = "stablehlo.broadcast_in_dim"

    broadcast_dimensions = prop_def(kinds.NUMBERS)

    assembly_format = (
        "$operand `,` `dims` `=` custom<DimensionList>($broadcast_dimensions) "
        f"{FUNCTIONAL_TYPE}"
    )

    def verify_(self) -> None:
        operand, result = self.tensor_types
        shape, result_shape = operand.get_shape(), result.get_shape()
        dimensions = self.broadcast_dimensions.get_values()
        rules.verify_same_scale(operand, result)
        verify_count("broadcast_dimensions", dimensions, len(shape))
        verify_dimensions("broadcast_dimensions", dimensions, len(result_shape))
        for index, (size, dimension) in enumerate(zip(shape, dimensions, strict=True)):
            require(
                size in (DYNAMIC_INDEX, 1, result_shape[dimension]),
                f"size of operand dimension {index} ({size}) is not equal to 1 or size "
                f"of result dimension {dimension} ({result_shape[dimension]})",
            )
        rules.verify_broadcast_dimension(operand, result, dimensions)


class PartsOp(InferredTypeOp, ABC):
    """Op whose result contains only elements of its operands."""

    result = result_def(kinds.TENSOR)

    traits = traits_def(
        Pure(), SAME_ELEMENTS, MovesElements(), SameOperandsAndResultsScale()
    )

    def by_dimension(self, *names: str) -> Iterator[tuple[int, ...]]:
        """Yield, per dimension, its size and its entry in each of the named properties."""
        shape = self.tensor_types[0].get_shape()
        numbers = [cast(Dimensions, self.properties[n]).get_values() for n in names]
        for name, values in zip(names, numbers, strict=True):
            verify_count(name, values, len(shape))
        return zip(shape, *numbers, strict=True)


@irdl_op_definition
class ConcatenateOp(PartsOp):
    """
    Concatenation of tensors along one dimension.

    Example:

    ```mlir
    %2 = stablehlo.concatenate %0, %1, dim = 0
        : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#concatenate).
    """

    name = "stablehlo.concatenate"

    inputs = var_operand_def(VariadicOf(kinds.TENSOR))
    dimension = prop_def(IntegerAttr[I64])

    assembly_format = (
        f"custom<OperandsBeforeKeyword>($inputs) `dim` `=` $dimension {FUNCTIONAL_TYPE}"
    )

    def inferred_type(self) -> RankedTensor:
        self.require_operands(self.inputs)
        *types, _ = self.tensor_types
        dimension = self.dimension.value.data
        shapes = [type_.get_shape() for type_ in types]
        known = shapes[0]
        verify_dimensions("dimension", (dimension,), len(known))
        for index, shape in enumerate(shapes):
            # Sizes along the concatenated dimension may differ.
            aligned = [*shape[:dimension], known[dimension], *shape[dimension + 1 :]]
            require(
                len(shape) == len(known) and are_compatible_shapes(known, aligned),
                f"shapes of operands before ({index}) and of operand ({index}) are not "
                f"compatible in all dimensions but {dimension}",
            )
            known = merged_shape((known, aligned))
        sizes = [shape[dimension] for shape in shapes]
        total = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else sum(sizes)
        merged = [*known[:dimension], total, *known[dimension + 1 :]]
        return TensorType(types[0].element_type, merged)


@irdl_op_definition
class SliceOp(PartsOp):
    """
    Slice of a tensor from `start_indices` to `limit_indices` (exclusive) with `strides`.

    Example:

    ```mlir
    %1 = stablehlo.slice %0 [0:2, 1:6:2] : (tensor<4x6xf32>) -> tensor<2x3xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#slice).
    """

    name = "stablehlo.slice"

    operand = operand_def(kinds.TENSOR)
    start_indices = prop_def(kinds.NUMBERS)
    limit_indices = prop_def(kinds.NUMBERS)
    strides = prop_def(kinds.NUMBERS)

    assembly_format = (
        "$operand custom<SliceRanges>($start_indices, $limit_indices, $strides) "
        f"{FUNCTIONAL_TYPE}"
    )

    def inferred_type(self) -> RankedTensor:
        sizes: list[int] = []
        for size, start, limit, stride in self.by_dimension(
            "start_indices", "limit_indices", "strides"
        ):
            bound = limit if size == DYNAMIC_INDEX else size
            require(
                0 <= start <= limit <= bound and stride > 0,
                f"expects a range in a dimension of size {size}, got "
                f"{start}:{limit}:{stride}",
            )
            sizes.append(-(-(limit - start) // stride))
        return TensorType(self.tensor_types[0].element_type, sizes)


@irdl_op_definition
class PadOp(PartsOp):
    """
    Tensor padded with a value before, after and between its elements. Negative padding
    removes elements.

    Example:

    ```mlir
    %2 = stablehlo.pad %0, %1, low = [0, 1], high = [0, 1], interior = [0, 0]
        : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x5xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#pad).
    """

    name = "stablehlo.pad"

    operand = operand_def(kinds.TENSOR)
    padding_value = operand_def(kinds.SCALAR)
    edge_padding_low = prop_def(kinds.NUMBERS)
    edge_padding_high = prop_def(kinds.NUMBERS)
    interior_padding = prop_def(kinds.NUMBERS)

    assembly_format = (
        "$operand `,` $padding_value "
        "`,` `low` `=` custom<DimensionList>($edge_padding_low) "
        "`,` `high` `=` custom<DimensionList>($edge_padding_high) "
        f"`,` `interior` `=` custom<DimensionList>($interior_padding) {FUNCTIONAL_TYPE}"
    )

    def inferred_type(self) -> RankedTensor:
        sizes: list[int] = []
        for size, low, high, interior in self.by_dimension(
            "edge_padding_low", "edge_padding_high", "interior_padding"
        ):
            padded = Padding(low, high, interior).padded_size(size)
            is_dynamic = size == DYNAMIC_INDEX
            require(
                interior >= 0 and (is_dynamic or padded >= 0),
                "expects interior padding and padded sizes that are not negative",
            )
            sizes.append(DYNAMIC_INDEX if is_dynamic else padded)
        return TensorType(self.tensor_types[0].element_type, sizes)


class GatheringOp(InferredTypeOp, ABC):
    """Op whose result consists of slices of a tensor at given indices."""

    operand = operand_def(kinds.TENSOR)
    start_indices = operand_def(kinds.INTEGER_TENSOR)
    dimension_numbers = prop_def(GatherDimensionNumbersAttr)
    indices_are_sorted = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    result = result_def(kinds.TENSOR)

    traits = traits_def(Pure(), MovesElements((0,)), SameOperandsAndResultsScale())

    @abstractmethod
    def sizes(self) -> Sequence[int]:
        """Return the size of a slice along each dimension, or `DYNAMIC_INDEX`."""

    def inferred_type(self) -> RankedTensor:
        type_, indices_type, *_ = self.tensor_types
        numbers, slice_sizes = self.dimension_numbers, self.sizes()
        shape, indices = type_.get_shape(), indices_type.get_shape()
        offset_dims, collapsed, batching, _, index_map = numbers.numbers()
        index_vector, dropped = numbers.index_vector_dim.data, (*collapsed, *batching)
        rules.verify_indexing(numbers, shape, indices)
        if (count := (*indices, 1)[index_vector]) != DYNAMIC_INDEX:
            verify_count("dimensions in start_index_map", index_map, count)
        verify_count("slice_sizes", slice_sizes, len(shape))
        for dimension, (size, bound) in enumerate(zip(slice_sizes, shape, strict=True)):
            fits = DYNAMIC_INDEX in (size, bound) or 0 <= size <= bound
            require(
                fits and (size <= 1 or dimension not in dropped),
                f"slice size {size} of dimension {dimension} is too large",
            )
        offsets = [size for i, size in enumerate(slice_sizes) if i not in dropped]
        batches = [size for i, size in enumerate(indices) if i != index_vector]
        rank = len(batches) + len(offsets)
        verify_count("offset_dims", offset_dims, len(offsets))
        verify_dimensions("offset_dims", offset_dims, rank)
        parts = iter(offsets), iter(batches)
        return TensorType(
            type_.element_type,
            [next(parts[dimension not in offset_dims]) for dimension in range(rank)],
        )


@irdl_op_definition
class GatherOp(GatheringOp):
    """
    Slices of a tensor that start at given indices.

    Example: rows of a table.

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

    slice_sizes = prop_def(kinds.NUMBERS)

    def sizes(self) -> Sequence[int]:
        return self.slice_sizes.get_values()

    def inferred_type(self) -> RankedTensor:
        self.require_same("element type", "operand", "result")
        return super().inferred_type()
