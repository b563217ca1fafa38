"""
The `ml` dialect: elementwise arithmetic on any mixture of floats and quantized values.
"""

from abc import ABC
from typing import cast

from xdsl.dialects.builtin import AnyFloat, NoneAttr, TensorType
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import QuantizedType


def _element_type(type_: Attribute) -> Attribute:
    if isinstance(type_, TensorType):
        return cast(TensorType[Attribute], type_).get_element_type()
    return type_


def _expressed_type(element_type: Attribute) -> Attribute | None:
    """Return the float or expressed type of an element type; `None` for other types."""
    if not isinstance(element_type, QuantizedType):
        return element_type
    if isinstance(element_type.expressed_type, NoneAttr):
        return None
    return element_type.expressed_type


def _shape(type_: Attribute) -> object:
    """Return the shape and encoding of a type; operands and result must have the same."""
    return (type_.shape, type_.encoding) if isinstance(type_, TensorType) else None


class BinaryOp(IRDLOperation, ABC):
    """
    An elementwise op on two scalars or ranked tensors.

    Operands and result have the same shape and expressed type. Each of them may be a float
    or have a different quantized type. The result is the exact value, rounded to the result
    type; quantized values saturate.
    """

    lhs = operand_def()
    rhs = operand_def()
    result = result_def()

    assembly_format = "$lhs `,` $rhs attr-dict `:` functional-type(operands, results)"

    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue, rhs: SSAValue, result_type: Attribute):
        super().__init__(operands=[lhs, rhs], result_types=[result_type])

    def verify_(self) -> None:
        types = (self.lhs.type, self.rhs.type, self.result.type)
        for name, type_ in zip(("lhs", "rhs", "result"), types, strict=True):
            if not isinstance(_element_type(type_), AnyFloat | QuantizedType):
                raise VerifyException(
                    f"'{self.name}' op {name} must be scalar or ranked tensor of "
                    f"floating-point or quantized type, but got '{type_}'"
                )
        if len({_shape(type_) for type_ in types}) > 1:
            raise VerifyException(
                f"'{self.name}' op requires the same shape for operands and result"
            )
        expressed_types = {_expressed_type(_element_type(type_)) for type_ in types}
        if len(expressed_types - {None}) > 1:
            raise VerifyException(
                f"'{self.name}' op requires the same expressed type for operands and "
                "result"
            )


@irdl_op_definition
class AddOp(BinaryOp):
    """
    Sum.

    Example:

    ```mlir
    %sum = ml.add %a, %b : (tensor<3x!q>, tensor<3xf32>) -> tensor<3x!q>
    ```
    """

    name = "ml.add"


@irdl_op_definition
class SubOp(BinaryOp):
    """
    Difference.

    Example:

    ```mlir
    %difference = ml.sub %a, %b : (tensor<3x!q>, tensor<3x!q>) -> tensor<3x!q>
    ```
    """

    name = "ml.sub"


@irdl_op_definition
class MulOp(BinaryOp):
    """
    Product.

    Example:

    ```mlir
    %product = ml.mul %a, %b : (tensor<3x!q>, tensor<3x!q>) -> tensor<3x!q>
    ```
    """

    name = "ml.mul"


@irdl_op_definition
class DivOp(BinaryOp):
    """
    Quotient.

    Example:

    ```mlir
    %quotient = ml.div %a, %b : (tensor<3x!q>, tensor<3x!q>) -> tensor<3x!q>
    ```
    """

    name = "ml.div"


@irdl_op_definition
class ModOp(BinaryOp):
    """
    Remainder of a division that rounds the quotient toward zero; has the sign of `lhs`.

    Example:

    ```mlir
    %remainder = ml.mod %a, %b : (tensor<3x!q>, tensor<3x!q>) -> tensor<3x!q>
    ```
    """

    name = "ml.mod"


Ml = Dialect("ml", [AddOp, SubOp, MulOp, DivOp, ModOp])
