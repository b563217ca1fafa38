"""Deprecated ops, which other ops replace."""

from abc import ABC

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, TensorType, i64
from xdsl.irdl import (
    eq,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xdsl_quant.dialects.quant.traits import MovesElements, SameOperandsAndResultsScale
from xdsl_quant.dialects.verification import RankedTensor, are_compatible_sizes, require

from . import tensor_kinds as kinds
from .attributes import PrecisionAttr, dimensions_text
from .base import InferredTypeOp, StableHLOOp
from .products import verify_precisions, verify_product_shape
from .syntax import FUNCTIONAL_TYPE

__all__ = ["BroadcastOp", "DotOp", "EinsumOp", "TorchIndexSelectOp", "UnaryEinsumOp"]


@irdl_op_definition
class BroadcastOp(InferredTypeOp):
    """
    Tensor repeated along new leading dimensions (deprecated, see `broadcast_in_dim`).

    Example:

    ```mlir
    %1 = stablehlo.broadcast %0, sizes = [3] : (tensor<4xf32>) -> tensor<3x4xf32>
    ```
    """

    name = "stablehlo.broadcast"

    operand = operand_def(kinds.TENSOR)
    broadcast_sizes = prop_def(kinds.NUMBERS)
    result = result_def(kinds.TENSOR_OR_PER_AXIS)

    assembly_format = (
        "$operand `,` `sizes` `=` custom<DimensionList>($broadcast_sizes) "
        f"{FUNCTIONAL_TYPE}"
    )

    traits = traits_def(Pure(), MovesElements(), SameOperandsAndResultsScale())

    def inferred_type(self) -> RankedTensor:
        operand, _ = self.tensor_types
        sizes = self.broadcast_sizes.get_values()
        require(
            min(sizes, default=0) >= 0,
            f"expects sizes that are not negative, got {dimensions_text(sizes)}",
        )
        return TensorType(operand.element_type, (*sizes, *operand.get_shape()))


@irdl_op_definition
class DotOp(StableHLOOp):
    """
    Product of vectors or matrices (deprecated, see `dot_general`).

    Example:

    ```mlir
    %2 = stablehlo.dot %0, %1 : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "stablehlo.dot"

    lhs = operand_def(kinds.TENSOR)
    rhs = operand_def(kinds.TENSOR_OR_PER_AXIS)
    precision_config = opt_prop_def(ArrayAttr[PrecisionAttr])
    result = result_def(kinds.TENSOR_OR_PER_AXIS)

    assembly_format = (
        f"$lhs `,` $rhs custom<Precisions>($precision_config) {FUNCTIONAL_TYPE}"
    )

    traits = traits_def(Pure())

    def verify_(self) -> None:
        verify_precisions(self.precision_config)
        lhs, rhs, _ = (type_.get_shape() for type_ in self.tensor_types)
        require(
            all(1 <= len(shape) <= 2 for shape in (lhs, rhs))
            and are_compatible_sizes(lhs[-1], rhs[0]),
            f"expects vectors or matrices that can be multiplied, got "
            f"'{self.lhs.type}' and '{self.rhs.type}'",
        )
        verify_product_shape((*lhs[:-1], *rhs[1:]), self.tensor_types[-1])


class EinsteinSumOp(StableHLOOp, ABC):
    """Sum of products in Einstein's notation (deprecated, see `dot_general`)."""

    einsum_config = prop_def(StringAttr)
    result = result_def(kinds.TENSOR)

    traits = traits_def(Pure())


@irdl_op_definition
class EinsumOp(EinsteinSumOp):
    """
    Sum of products of two tensors in Einstein's notation (deprecated).

    Example:

    ```mlir
    %2 = stablehlo.einsum %0, %1, config = "ab,bc->ac"
        : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "stablehlo.einsum"

    lhs = operand_def(kinds.TENSOR)
    rhs = operand_def(kinds.TENSOR)

    assembly_format = f"$lhs `,` $rhs `,` `config` `=` $einsum_config {FUNCTIONAL_TYPE}"


@irdl_op_definition
class UnaryEinsumOp(EinsteinSumOp):
    """
    Sum or transpose of a tensor in Einstein's notation (deprecated).

    Example:

    ```mlir
    %1 = stablehlo.unary_einsum %0, config = "ab->a" : (tensor<2x3xf32>) -> tensor<2xf32>
    ```
    """

    name = "stablehlo.unary_einsum"

    operand = operand_def(kinds.TENSOR)

    assembly_format = f"$operand `,` `config` `=` $einsum_config {FUNCTIONAL_TYPE}"


@irdl_op_definition
class TorchIndexSelectOp(StableHLOOp):
    """
    Slices of `operand` along `dim` at the indices in `index`, for each index of the first
    `batch_dims` dimensions (deprecated, see `gather`).

    Example:

    ```mlir
    %2 = "stablehlo.torch_index_select"(%0, %1) <{batch_dims = 0 : i64, dim = 0 : i64}>
        : (tensor<5x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
    ```
    """

    name = "stablehlo.torch_index_select"

    operand = operand_def(kinds.TENSOR)
    index = operand_def(kinds.TENSOR)
    dim = prop_def(IntegerAttr.constr(eq(i64)))
    batch_dims = prop_def(IntegerAttr.constr(eq(i64)))
    result = result_def(kinds.TENSOR)

    traits = traits_def(Pure(), MovesElements((0,)), SameOperandsAndResultsScale())
