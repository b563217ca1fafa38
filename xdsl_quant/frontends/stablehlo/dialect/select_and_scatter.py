"""`select_and_scatter`, the gradient of a reduction over windows."""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import I64, DenseIntOrFPElementsAttr, TensorType, i1
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    region_def,
    result_def,
    traits_def,
)
from xdsl.traits import RecursiveMemoryEffect

from xdsl_quant.dialects.quant.traits import Reduces
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    require,
)

from . import tensor_kinds as kinds
from .attributes import dimensions_text
from .base import InferredTypeOp, are_compatible_types
from .control_flow import returned_types
from .reduction import verify_computation
from .rules import WindowDimension, verify_count, window_dimensions

__all__ = ["SelectAndScatterOp"]


@irdl_op_definition
class SelectAndScatterOp(InferredTypeOp):
    """
    Scatter of each element of `source` to an element of the corresponding window of
    `operand`, which `select` chooses; `scatter` combines elements at the same place,
    beginning with `init_value`.

    Example: gradient of max pooling.

    ```mlir
    %3 = "stablehlo.select_and_scatter"(%operand, %source, %zero) <{
        window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>
    }> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }, {
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<2x3xf32>, tensor<f32>) -> tensor<4x6xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#select_and_scatter).
    """

    name = "stablehlo.select_and_scatter"

    operand = operand_def(kinds.TENSOR)
    source = operand_def(kinds.TENSOR)
    init_value = operand_def(kinds.TENSOR)
    window_dimensions = opt_prop_def(kinds.NUMBERS)
    window_strides = opt_prop_def(kinds.NUMBERS)
    padding = opt_prop_def(DenseIntOrFPElementsAttr[I64])
    select = region_def("single_block")
    scatter = region_def("single_block")
    result = result_def(kinds.TENSOR)

    traits = traits_def(RecursiveMemoryEffect(), Reduces())

    @property
    def window(self) -> Sequence[WindowDimension]:
        """
        Window parameters along each dimension of the operand.

        Raises:
            VerifyException: if properties are inconsistent.
        """
        sizes = self.window_dimensions
        return window_dimensions(
            sizes.get_values() if sizes is not None else (),
            self.window_strides,
            self.padding,
            None,
            None,
        )

    def inferred_type(self) -> RankedTensor:
        operand, source, init, _ = self.tensor_types
        self._verify_select(operand)
        element = TensorType(source.element_type, ())
        verify_computation(self.scatter, [element], [init])
        shape = operand.get_shape()
        sizes = self.window_dimensions
        verify_count(
            "window dimensions",
            sizes.get_values() if sizes is not None else (),
            len(shape),
        )
        expected = [
            along.positions(size)
            for along, size in zip(self.window, shape, strict=True)
        ]
        require(
            are_compatible_shapes(expected, source.get_shape()),
            f"expects a source of shape {dimensions_text(expected)} for the positions of "
            f"the window, got '{source}'",
        )
        (returned,) = cast(Sequence[RankedTensor], returned_types(self.scatter))
        return TensorType(returned.element_type, shape)

    def _verify_select(self, operand: RankedTensor) -> None:
        """Verify the region that compares two elements of the operand."""
        scalar = TensorType(operand.element_type, ())
        arguments = self.select.block.arg_types
        verify_count("parameters of the select region", arguments, 2)
        for type_ in arguments:
            require(
                isinstance(type_, TensorType)
                and are_compatible_types(cast(RankedTensor, type_), scalar),
                f"expects parameters of type '{scalar}' in the select region, got "
                f"'{type_}'",
            )
        returned = returned_types(self.select)
        verify_count("results of the select region", returned, 1)
        require(
            returned[0] == TensorType(i1, ()),
            f"expects the select region to return 'tensor<i1>', got '{returned[0]}'",
        )
