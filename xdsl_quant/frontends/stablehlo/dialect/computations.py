"""Ops with a region that computes on scalars, without reduction: `map` and `sort`."""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import I64, BoolAttr, IntegerAttr, TensorType, i1, i64
from xdsl.ir import Attribute, Region
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import RecursiveMemoryEffect

from xdsl_quant.dialects.quant.traits import MovesElements
from xdsl_quant.dialects.type_kinds import VariadicOf
from xdsl_quant.dialects.verification import RankedTensor, merged_shape, require

from . import tensor_kinds as kinds
from .base import SAME_SHAPE, InferredTypeOp, StableHLOOp
from .control_flow import returned_types

__all__ = ["MapOp", "SortOp"]


@irdl_op_definition
class MapOp(InferredTypeOp):
    """
    Apply a computation on scalars to the elements of tensors of the same shape.

    Example:

    ```mlir
    %2 = "stablehlo.map"(%0, %1) <{dimensions = array<i64: 0>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "stablehlo.map"

    inputs = var_operand_def(VariadicOf(kinds.TENSOR))
    dimensions = prop_def(kinds.NUMBERS)
    computation = region_def("single_block")
    result = result_def(kinds.TENSOR)

    traits = traits_def(RecursiveMemoryEffect(), SAME_SHAPE)

    def inferred_type(self) -> RankedTensor:
        *types, _ = self.tensor_types
        self.require_operands(self.inputs)
        returned = returned_types(self.computation)
        self._verify_computation(types, returned)
        rank, dimensions = len(types[0].shape), self.dimensions.get_values()
        require(
            len(dimensions) == rank,
            "applied to a subset of dimensions currently not supported: operand "
            f"dimensions = {rank}, requested map dimensions size = {len(dimensions)}",
        )
        require(
            [*dimensions] == [*range(rank)],
            "requires monotonically increasing dimension numbers, but got: "
            f"{', '.join(map(str, dimensions))}",
        )
        shape = merged_shape(type_.get_shape() for type_ in types)
        return TensorType(cast(RankedTensor, returned[0]).element_type, shape)

    def _verify_computation(
        self, types: Sequence[RankedTensor], returned: Sequence[Attribute]
    ) -> None:
        arguments = self.computation.block.arg_types
        require(
            len(arguments) == len(types),
            "expects number of operands to match the arity of map computation, but got: "
            f"{len(types)} and {len(arguments)}",
        )
        for index, (type_, argument) in enumerate(zip(types, arguments, strict=True)):
            require(
                _is_scalar(argument),
                f"computation arguments must be 0-rank tensor, but got: arg #{index} of "
                f"type '{argument}'",
            )
            element_type = cast(RankedTensor, argument).element_type
            require(
                element_type == type_.element_type,
                "element type of operands and computation arguments must match, but got: "
                f"'{type_.element_type}' and '{element_type}'",
            )
        require(
            len(returned) == 1,
            f"computation must return single output, but got: {len(returned)}",
        )
        require(
            _is_scalar(returned[0]),
            f"computation must return 0-rank tensor, but got: '{returned[0]}'",
        )


def _is_scalar(type_: Attribute) -> bool:
    return isinstance(type_, TensorType) and not type_.get_shape()


@irdl_op_definition
class SortOp(StableHLOOp):
    """
    Sort tensors of the same shape together along a dimension, by a comparator that returns
    true if its first element of each tensor comes before its second one.

    Example:

    ```mlir
    %1 = "stablehlo.sort"(%0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "stablehlo.sort"

    inputs = var_operand_def(VariadicOf(kinds.TENSOR))
    dimension = opt_prop_def(IntegerAttr[I64], default_value=IntegerAttr(-1, i64))
    is_stable = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    comparator = region_def("single_block")
    results_ = var_result_def(VariadicOf(kinds.TENSOR))

    traits = traits_def(RecursiveMemoryEffect(), SAME_SHAPE, MovesElements())

    def verify_(self) -> None:
        types = self.tensor_types[: len(self.inputs)]
        self.require_operands(self.inputs)
        rank, dimension = len(types[0].shape), self.dimension.value.data
        require(
            -rank <= dimension < rank,
            f"dimension attribute value must be in range [-{rank}, {rank}), but found "
            f"{dimension}",
        )
        _verify_comparator(self.comparator, types)
        self.verify_inferred(types)


def _verify_comparator(comparator: Region, types: Sequence[RankedTensor]) -> None:
    arguments = comparator.block.arg_types
    require(
        len(arguments) == 2 * len(types),
        f"comparator block should have {2 * len(types)} arguments",
    )
    for index, argument in enumerate(arguments):
        expected = TensorType(types[index // 2].element_type, ())
        require(
            argument == expected,
            f"comparator block argument #{index} should be of type '{expected}' but got "
            f"'{argument}'",
        )
    returned = returned_types(comparator)
    require(
        len(returned) == 1,
        f"comparator must return single output but got {len(returned)}",
    )
    require(
        returned[0] == TensorType(i1, ()),
        f"comparator must return tensor<i1> but got '{returned[0]}'",
    )
