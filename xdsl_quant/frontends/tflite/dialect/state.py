"""
Variables, which keep their values from one call of a model to the next, and the arguments
and results of a function that stand for them after `tfl-variables-to-arguments`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerAttr,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def

from xdsl_quant.dialects.quant import traits as quant

from . import property_kinds as props
from . import tensor_kinds as kinds
from .base import TFLOp


@irdl_op_definition
class VarHandleOp(TFLOp):
    """
    The handle of a variable, which has a name in all functions of a model.

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
    The value of a variable.

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
    Give a variable another value.

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
    Call a function when the model is loaded, and never again.

    Example:

    ```mlir
    "tfl.call_once"() <{session_init_function = "NoOp"}> : () -> ()
    ```
    """

    name = "tfl.call_once"

    session_init_function = prop_def(props.STRING)


# State as arguments

INITIAL_VALUE = "tfl.initial_value"
"""
The attribute of an argument that is state: its value at the first call, as the stored
values of a constant.
"""

NEXT_STATE = "tfl.next_state"
"""
The attribute of an argument that is state: the index of the result that is its value at the
next call.
"""

InitialValue = DenseIntOrFPElementsAttr | DenseResourceAttr


class StateArgument(NamedTuple):
    """An argument of a function that is state."""

    argument: int
    """Its index."""

    result: int
    """The index of the result with its value at the next call."""

    initial_value: InitialValue


def state_arguments(function: FuncOp) -> Iterator[StateArgument]:
    """
    The arguments of a function that are state, in their order.

    Raises:
        ValueError: if an attribute has no meaning, or the result is of another type.
    """
    inputs, outputs = function.function_type.inputs, function.function_type.outputs
    for index, attributes in enumerate(function.arg_attrs or ()):
        initial_value = attributes.data.get(INITIAL_VALUE)
        result = attributes.data.get(NEXT_STATE)
        if initial_value is None and result is None:
            continue
        start = f"argument {index} of function '{function.sym_name.data}'"
        if not isinstance(initial_value, InitialValue) or not isinstance(
            result, IntegerAttr
        ):
            raise ValueError(
                f"{start} has '{INITIAL_VALUE}' or '{NEXT_STATE}', expected both, a "
                "constant and an integer"
            )
        position = result.value.data
        if (
            position not in range(len(outputs))
            or outputs.data[position] != (inputs.data[index])
        ):
            raise ValueError(
                f"{start} has next state {position}, expected the index of a result of "
                f"type '{inputs.data[index]}'"
            )
        yield StateArgument(index, position, initial_value)
