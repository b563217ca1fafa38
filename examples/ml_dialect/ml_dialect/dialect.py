"""
The `ml` dialect: elementwise arithmetic on floats and on quantized values, in any mixture.
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
    """The float type behind an element; `None` if there is none."""
    if not isinstance(element_type, QuantizedType):
        return element_type
    if isinstance(element_type.expressed_type, NoneAttr):
        return None
    return element_type.expressed_type


def _shape(type_: Attribute) -> object:
    """Shape and encoding of a type, which operands and result must have in common."""
    return (type_.shape, type_.encoding) if isinstance(type_, TensorType) else None


class BinaryOp(IRDLOperation, ABC):
    """
    An operation on two scalars or ranked tensors, element by element.

    Operands and result have one shape and one expressed type, but each of them may be
    quantized in its own way, or not at all. The result is the exact one, rounded to the
    type of the result; quantized values saturate.
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
    Remainder of the division that truncates the quotient: it has the sign of `lhs`.

    Example:

    ```mlir
    %remainder = ml.mod %a, %b : (tensor<3x!q>, tensor<3x!q>) -> tensor<3x!q>
    ```
    """

    name = "ml.mod"


Ml = Dialect("ml", [AddOp, SubOp, MulOp, DivOp, ModOp])
