"""Updates of elements at indices that are known at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, BoolAttr, TensorType
from xdsl.irdl import (
    SameVariadicOperandSize,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import RecursiveMemoryEffect

from xdsl_quant.dialects.type_kinds import VariadicOf
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    are_compatible_sizes,
    require,
)

from . import tensor_kinds as kinds
from .attributes import ScatterDimensionNumbersAttr
from .base import StableHLOOp
from .control_flow import returned_types
from .reduction import verify_computation
from .rules import verify_count, verify_dimensions, verify_indexing

__all__ = ["ScatterOp"]


@irdl_op_definition
class ScatterOp(StableHLOOp):
    """
    Copies of the inputs in which slices at `scatter_indices` are combined with `updates` by
    a computation on elements. Elements of slices outside the inputs are skipped.

    Example: add numbers to elements.

    ```mlir
    %3 = "stablehlo.scatter"(%0, %1, %2) <{
        scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
            scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
    }> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<8xf32>, tensor<3x1xi32>, tensor<3xf32>) -> tensor<8xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#scatter).
    """

    name = "stablehlo.scatter"

    inputs = var_operand_def(VariadicOf(kinds.TENSOR))
    scatter_indices = operand_def(kinds.INDICES)
    updates = var_operand_def(VariadicOf(kinds.TENSOR))
    scatter_dimension_numbers = prop_def(ScatterDimensionNumbersAttr)
    indices_are_sorted = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    unique_indices = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    update_computation = region_def("single_block")
    results_ = var_result_def(VariadicOf(kinds.TENSOR))

    irdl_options = (SameVariadicOperandSize(),)

    traits = traits_def(RecursiveMemoryEffect())

    @property
    def window_dimensions(self) -> Sequence[int]:
        """Dimensions of the inputs along which the updates are windows."""
        _, inserted, batching, *_ = self.scatter_dimension_numbers.numbers()
        rank = len(cast(RankedTensor, self.inputs[0].type).shape)
        return [d for d in range(rank) if d not in (*inserted, *batching)]

    def verify_(self) -> None:
        count = len(self.inputs)
        self.require_operands(self.inputs)
        types = self.tensor_types
        inputs, indices, updates = (
            types[:count],
            types[count],
            types[count + 1 :][:count],
        )
        for words, group in (("inputs", inputs), ("updates", updates)):
            shapes = [type_.get_shape() for type_ in group]
            require(
                all(are_compatible_shapes(shape, shapes[0]) for shape in shapes),
                f"Not all {words} have compatible shapes.",
            )
        elements = [TensorType(type_.element_type, ()) for type_ in updates]
        verify_computation(self.update_computation, inputs, elements)
        shape = inputs[0].get_shape()
        verify_indexing(self.scatter_dimension_numbers, shape, indices.get_shape())
        self._verify_windows(len(shape), indices.get_shape(), len(updates[0].shape))
        self._verify_sizes(shape, indices.get_shape(), updates[0].get_shape())
        returned = cast(Sequence[RankedTensor], returned_types(self.update_computation))
        inferred = [
            TensorType(element.element_type, type_.shape)
            for type_, element in zip(inputs, returned, strict=True)
        ]
        self.verify_inferred(inferred)

    def _verify_windows(
        self, rank: int, indices: Sequence[int], update_rank: int
    ) -> None:
        numbers = self.scatter_dimension_numbers
        windows, inserted, batching, _, index_map = numbers.numbers()
        vector = numbers.index_vector_dim.data
        verify_dimensions("update_window_dims", windows, update_rank)
        verify_count("window dimensions", windows, rank - len((*inserted, *batching)))
        batch_rank = len(indices) - (vector < len(indices))
        require(
            update_rank == batch_rank + len(windows),
            f"expects updates of rank {batch_rank + len(windows)}, got {update_rank}",
        )
        if (length := (*indices, 1)[vector]) != DYNAMIC_INDEX:
            verify_count("scatter_dims_to_operand_dims", index_map, length)

    def _verify_sizes(
        self, shape: Sequence[int], indices: Sequence[int], updates: Sequence[int]
    ) -> None:
        numbers = self.scatter_dimension_numbers
        windows, *_ = numbers.numbers()
        for own, other in zip(windows, self.window_dimensions, strict=True):
            size, bound = updates[own], shape[other]
            require(
                DYNAMIC_INDEX in (size, bound) or size <= bound,
                "expects bounds of the window dimensions of updates to not exceed the "
                f"bounds of the corresponding dimensions of operand. For dimension {own}, "
                f"updates bound is {size}, operand bound is {bound}.",
            )
        vector = numbers.index_vector_dim.data
        batches = [size for d, size in enumerate(indices) if d != vector]
        scattered = [size for d, size in enumerate(updates) if d not in windows]
        for dimension, (size, bound) in enumerate(zip(scattered, batches, strict=True)):
            require(
                are_compatible_sizes(size, bound),
                "expects bounds of the scatter dimensions of updates to be same as the "
                "bounds of the corresponding dimensions of scatter indices. For scatter "
                f"dimension {dimension}, updates bound is {size} , scatter_indices bound "
                f"is {bound}.",
            )
