"""Ops that give all elements of a tensor another place: the same numbers, another shape."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant.traits import MovesElements, SameOperandsAndResultsScale

from .attributes import dimensions_attr
from .base import COMPATIBLE_ELEMENTS, InferredTypeOp, StableHLOOp
from .compatibility import RankedTensor
from .quantized_constraints import (
    verify_broadcast_dimension,
    verify_reshaped_dimension,
    verify_same_parameters,
    verify_same_scale,
    verify_transposed_dimension,
)
from .tensor_kinds import (
    STATIC_OR_BOUNDED_OR_PER_AXIS,
    TENSOR_OR_PER_AXIS,
)


class _MovingOp(StableHLOOp, ABC):
    """An op that gives each element of a tensor another place."""

    operand = operand_def(TENSOR_OR_PER_AXIS)
    result = result_def(STATIC_OR_BOUNDED_OR_PER_AXIS)

    traits = traits_def(
        Pure(), COMPATIBLE_ELEMENTS, MovesElements(), SameOperandsAndResultsScale()
    )


@irdl_op_definition
class ReshapeOp(_MovingOp):
    """
    The same elements, in row-major order, in another shape.

    Example:

    ```mlir
    %1 = stablehlo.reshape %0 : (tensor<2x3xf32>) -> tensor<6xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#reshape).
    """

    name = "stablehlo.reshape"

    assembly_format = (
        "operands attr-dict `:` functional-type(operands, results) "
        "custom<VerifyTypesLater>()"
    )

    def __init__(self, operand: SSAValue | Operation, result_type: Attribute):
        super().__init__(operands=[operand], result_types=[result_type])

    def verify_(self) -> None:
        operand, result = self.tensor_types
        operand_shape, result_shape = operand.get_shape(), result.get_shape()
        if DYNAMIC_INDEX in operand_shape or DYNAMIC_INDEX in result_shape:
            return
        expected, actual = math.prod(operand_shape), math.prod(result_shape)
        if actual != expected:
            raise VerifyException(
                f"number of output elements ({actual}) doesn't match expected number of "
                f"elements ({expected})"
            )
        verify_same_parameters(operand, result)
        verify_reshaped_dimension(operand, result)


@irdl_op_definition
class TransposeOp(InferredTypeOp, _MovingOp):
    """
    The same elements with dimensions in another order: dimension `i` of the result is
    dimension `permutation[i]` of the operand.

    Example:

    ```mlir
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#transpose).
    """

    name = "stablehlo.transpose"

    permutation = prop_def(DenseArrayBase.constr(i64))
    result = result_def(TENSOR_OR_PER_AXIS)

    assembly_format = (
        "$operand `,` `dims` `=` custom<DimensionList>($permutation) attr-dict `:` "
        "functional-type(operands, results) custom<VerifyTypesLater>()"
    )

    def __init__(
        self,
        operand: SSAValue | Operation,
        permutation: Sequence[int],
        result_type: Attribute,
    ):
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"permutation": dimensions_attr(permutation)},
        )

    def inferred_type(self) -> RankedTensor:
        operand, result = self.tensor_types
        permutation = self.permutation.get_values()
        verify_same_parameters(operand, result)
        verify_transposed_dimension(
            operand.element_type, result.element_type, permutation
        )
        shape = operand.get_shape()
        rank = len(shape)
        if len(permutation) != rank:
            raise VerifyException(
                f"TransposeOp operand rank {rank} does not match permutation size "
                f"{len(permutation)}"
            )
        if sorted(permutation) != list(range(rank)):
            raise VerifyException(
                f"attribute permutation must be a permutation of {list(range(rank))} "
                f"but got {', '.join(map(str, permutation))}"
            )
        return TensorType(operand.element_type, [shape[i] for i in permutation])


@irdl_op_definition
class BroadcastInDimOp(_MovingOp):
    """
    A tensor repeated along dimensions: dimension `i` of the operand becomes dimension
    `broadcast_dimensions[i]` of the result.

    Example:

    ```mlir
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#broadcast_in_dim).
    """

    name = "stablehlo.broadcast_in_dim"

    broadcast_dimensions = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$operand `,` `dims` `=` custom<DimensionList>($broadcast_dimensions) "
        "attr-dict `:` functional-type(operands, results) custom<VerifyTypesLater>()"
    )

    def __init__(
        self,
        operand: SSAValue | Operation,
        broadcast_dimensions: Sequence[int],
        result_type: Attribute,
    ):
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"broadcast_dimensions": dimensions_attr(broadcast_dimensions)},
        )

    def verify_(self) -> None:
        operand, result = self.tensor_types
        dimensions = self.broadcast_dimensions.get_values()
        verify_same_scale(operand, result)
        self._verify_dimensions(operand.get_shape(), result.get_shape(), dimensions)
        verify_broadcast_dimension(operand, result, dimensions)

    def _verify_dimensions(
        self,
        operand_shape: Sequence[int],
        result_shape: Sequence[int],
        dimensions: Sequence[int],
    ) -> None:
        if len(dimensions) != len(operand_shape):
            raise VerifyException(
                f"broadcast_dimensions size ({len(dimensions)}) does not match operand "
                f"rank ({len(operand_shape)})"
            )
        if len(set(dimensions)) != len(dimensions):
            raise VerifyException("broadcast_dimensions should not have duplicates")
        for index, (size, dimension) in enumerate(
            zip(operand_shape, dimensions, strict=True)
        ):
            if not 0 <= dimension < len(result_shape):
                raise VerifyException(
                    f"broadcast_dimensions contains invalid value {dimension} for "
                    f"result with rank {len(result_shape)}"
                )
            result_size = result_shape[dimension]
            if size not in (DYNAMIC_INDEX, 1, result_size):
                raise VerifyException(
                    f"size of operand dimension {index} ({size}) is not equal to 1 or "
                    f"size of result dimension {dimension} ({result_size})"
                )
