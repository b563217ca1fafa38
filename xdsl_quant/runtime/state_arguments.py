"""State arguments, to which `tfl-variables-to-arguments` converts variables."""

from collections.abc import Iterator
from typing import NamedTuple

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerAttr,
)
from xdsl.dialects.func import FuncOp

INITIAL_VALUE = "tfl.initial_value"
"""Name of the attribute with the stored values of a state argument at the first call."""

NEXT_STATE = "tfl.next_state"
"""Name of the attribute with the index of the result that is the next call's state."""

InitialValue = DenseIntOrFPElementsAttr | DenseResourceAttr


class StateArgument(NamedTuple):
    """A state argument of a function."""

    argument: int

    result: int
    """Index of the result to pass as this argument in the next call."""

    initial_value: InitialValue


def state_arguments(function: FuncOp) -> Iterator[StateArgument]:
    """
    Yield the state arguments of a function in order.

    Raises:
        ValueError: if an attribute is invalid or missing, or the types of argument and
            result differ.
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
                f"{start}: expected a constant '{INITIAL_VALUE}' and an integer "
                f"'{NEXT_STATE}', one is missing or invalid"
            )
        position = result.value.data
        if (
            position not in range(len(outputs))
            or outputs.data[position] != (inputs.data[index])
        ):
            raise ValueError(
                f"{start} has '{NEXT_STATE}' {position}, expected the index of a result of "
                f"type '{inputs.data[index]}'"
            )
        yield StateArgument(index, position, initial_value)
