"""The dialect `vec`: what a vector unit computes, on tensors of floats."""

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Dialect
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xdsl_quant.dialects.quant.traits import (
    AffineOpCoefficient,
    ComputesElementwise,
    FixedResultUniformScale,
    MultipliesAndAccumulates,
)

_TENSOR = TensorType.constr(AnyAttr())
_SAME = VarConstraint("T", _TENSOR)


@irdl_op_definition
class DotOp(IRDLOperation):
    """
    Product of a matrix of activations with a matrix of weights.

    Example:

    ```mlir
    %y = vec.dot %x, %w : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
    ```
    """

    name = "vec.dot"
    activations = operand_def(_TENSOR)
    weights = operand_def(_TENSOR)
    result = result_def(_TENSOR)
    assembly_format = (
        "$activations `,` $weights attr-dict `:` type($activations) `,` type($weights) "
        "`->` type($result)"
    )
    traits = traits_def(Pure(), MultipliesAndAccumulates(), AffineOpCoefficient(1, 1))


@irdl_op_definition
class SigmoidOp(IRDLOperation):
    """
    `1 / (1 + exp(-x))`

    Example:

    ```mlir
    %s = vec.sigmoid %x : tensor<4xf32>
    ```
    """

    name = "vec.sigmoid"
    operand = operand_def(_SAME)
    result = result_def(_SAME)
    assembly_format = "$operand attr-dict `:` type($result)"
    traits = traits_def(Pure(), ComputesElementwise(), FixedResultUniformScale(0, 1))


@irdl_op_definition
class GateOp(IRDLOperation):
    """
    Values multiplied by gates, which lie from 0 to 1.

    Example:

    ```mlir
    %y = vec.gate %x, %s : tensor<4xf32>
    ```
    """

    name = "vec.gate"
    values = operand_def(_SAME)
    gates = operand_def(_SAME)
    result = result_def(_SAME)
    assembly_format = "$values `,` $gates attr-dict `:` type($result)"
    traits = traits_def(Pure(), ComputesElementwise())


Vec = Dialect("vec", [DotOp, SigmoidOp, GateOp])
