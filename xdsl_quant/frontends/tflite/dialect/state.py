"""Variables, which keep their values between calls of a model."""

from xdsl.dialects.builtin import StringAttr
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def

from xdsl_quant.dialects.quant import traits as quant
from xdsl_quant.runtime.state_arguments import StateArgument as StateArgument
from xdsl_quant.runtime.state_arguments import state_arguments as state_arguments

from . import property_kinds as props
from . import tensor_kinds as kinds
from .base import TFLOp

__all__ = [
    "AssignVariableOp",
    "CallOnceOp",
    "ReadVariableOp",
    "VarHandleOp",
]


@irdl_op_definition
class VarHandleOp(TFLOp):
    """
    Handle of a variable; `shared_name` identifies it in all functions of a model.

    Example:

    ```mlir
    %0 = "tfl.var_handle"() <{container = "", shared_name = "state"}>
        : () -> tensor<*x!tf_type.resource>
    ```
    """

    name = "tfl.var_handle"

    container = prop_def(props.STRING, StringAttr(""))
    shared_name = prop_def(props.STRING, StringAttr(""))
    resource_handle = result_def(kinds.RESOURCE)


_READ_VARIABLE_ELEMENTS = kinds.tensor_of(
    "f32 f64 i1 ui8 i8 QI8 QUI8 i32 i64 QI16 c64 c128"
)


@irdl_op_definition
class ReadVariableOp(TFLOp):
    """
    Read a variable.

    Example:

    ```mlir
    %1 = "tfl.read_variable"(%0) : (tensor<*x!tf_type.resource>) -> tensor<4xf32>
    ```
    """

    name = "tfl.read_variable"

    resource_id = operand_def(kinds.RESOURCE)
    result = result_def(_READ_VARIABLE_ELEMENTS)

    traits = traits_def(quant.AcceptsStoredValues())


@irdl_op_definition
class AssignVariableOp(TFLOp):
    """
    Assign a value to a variable.

    Example:

    ```mlir
    "tfl.assign_variable"(%0, %1) : (tensor<*x!tf_type.resource>, tensor<4xf32>) -> ()
    ```
    """

    name = "tfl.assign_variable"

    resource_id = operand_def(kinds.RESOURCE)
    value = operand_def(_READ_VARIABLE_ELEMENTS)

    traits = traits_def(quant.AcceptsStoredValues())


@irdl_op_definition
class CallOnceOp(TFLOp):
    """
    Call a function once, when the model is loaded.

    Example:

    ```mlir
    "tfl.call_once"() <{session_init_function = "NoOp"}> : () -> ()
    ```
    """

    name = "tfl.call_once"

    session_init_function = prop_def(props.STRING)
