"""The dialect `vec`: the instructions of a vector unit, on quantized tensors."""

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Dialect
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xdsl_quant.dialects.quant import (
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
)

_TENSOR = TensorType.constr(BaseAttr(UniformQuantizedType))
_WEIGHTS = TensorType.constr(BaseAttr(UniformQuantizedPerAxisType))


@irdl_op_definition
class DotOp(IRDLOperation):
    """
    Product of a matrix of activations and a matrix of weights with one scale per column.

    Example:

    ```mlir
    %y = vec.dot %x, %w : tensor<2x3x!q0>, tensor<3x4x!q1> -> tensor<2x4x!q2>
    ```
    """

    name = "vec.dot"
    activations = operand_def(_TENSOR)
    weights = operand_def(_WEIGHTS)
    result = result_def(_TENSOR)
    assembly_format = (
        "$activations `,` $weights attr-dict `:` type($activations) `,` type($weights) "
        "`->` type($result)"
    )
    traits = traits_def(Pure())


@irdl_op_definition
class SigmoidOp(IRDLOperation):
    """
    `1 / (1 + exp(-x))`

    Example:

    ```mlir
    %s = vec.sigmoid %x : tensor<4x!q0> -> tensor<4x!q1>
    ```
    """

    name = "vec.sigmoid"
    operand = operand_def(_TENSOR)
    result = result_def(_TENSOR)
    assembly_format = "$operand attr-dict `:` type($operand) `->` type($result)"
    traits = traits_def(Pure())


@irdl_op_definition
class GatedOp(IRDLOperation):
    """
    Values multiplied by the sigmoid of gates; the result has the type of the values.

    Example:

    ```mlir
    %y = vec.gated %g, %x : tensor<4x!q0>, tensor<4x!q1> -> tensor<4x!q1>
    ```
    """

    name = "vec.gated"
    gates = operand_def(_TENSOR)
    values = operand_def(_TENSOR)
    result = result_def(_TENSOR)
    assembly_format = (
        "$gates `,` $values attr-dict `:` type($gates) `,` type($values) `->` "
        "type($result)"
    )
    traits = traits_def(Pure())


Vec = Dialect("vec", [DotOp, SigmoidOp, GatedOp])
