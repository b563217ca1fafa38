"""State arguments and results of functions."""

from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    i32,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from xdsl_quant.frontends.tflite.dialect.signatures import (
    EXPORTED_NAMES,
    name_attributes,
    strings,
)
from xdsl_quant.runtime.state_arguments import INITIAL_VALUE, NEXT_STATE, InitialValue


class State(NamedTuple):
    """State that a function keeps between calls."""

    name: str
    type: Attribute
    initial_value: InitialValue


def declare_state(function: FuncOp, states: Sequence[State]) -> None:
    """
    Add state arguments and results to the type and attributes of a function.

    Args:
        function: function whose body already has the state arguments and results, as
            the last ones.
        states: states in argument order.
    """
    if not states:
        return
    old = function.function_type
    types = [state.type for state in states]
    function.function_type = FunctionType.from_lists(
        [*old.inputs, *types], [*old.outputs, *types]
    )
    names = _unique([state.name for state in states])
    has_paths = EXPORTED_NAMES in function.attributes
    keys = strings(function.attributes.get(EXPORTED_NAMES))
    next_names = [f"{name}_next" for name in names]
    arguments = [
        {
            **_names(name, keys),
            INITIAL_VALUE: state.initial_value,
            NEXT_STATE: IntegerAttr(index, i32),
        }
        for index, (name, state) in enumerate(
            zip(names, states, strict=True), len(old.outputs)
        )
    ]
    function.arg_attrs = _extended(function.arg_attrs, len(old.inputs), arguments)
    if has_paths or function.res_attrs is not None:
        results = [_names(name, keys) for name in next_names]
        function.res_attrs = _extended(function.res_attrs, len(old.outputs), results)
    entry = function.attributes.get("tf.entry_function")
    if isinstance(entry, DictionaryAttr):
        function.attributes["tf.entry_function"] = DictionaryAttr(
            {
                **entry.data,
                **_more_names(entry, "inputs", names),
                **_more_names(entry, "outputs", next_names),
            }
        )


def _unique(names: Sequence[str]) -> Sequence[str]:
    """Return the names, with numbers appended to repeated ones."""
    unique: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in count(1))
        unique.append(next(n for n in chain((name,), numbered) if n not in unique))
    return unique


def _names(name: str, keys: Sequence[str]) -> Mapping[str, Attribute]:
    """Return the attributes that give a value the same name in all signatures."""
    return name_attributes({key: [name] for key in keys}).data


def _extended(
    attributes: ArrayAttr[DictionaryAttr] | None,
    size: int,
    more: Sequence[Mapping[str, Attribute]],
) -> ArrayAttr[DictionaryAttr]:
    first = [DictionaryAttr({})] * size if attributes is None else attributes
    return ArrayAttr([*first, *map(DictionaryAttr, more)])


def _more_names(
    entry: DictionaryAttr, key: str, names: Sequence[str]
) -> dict[str, Attribute]:
    known = entry.data.get(key)
    first = [known.data] if isinstance(known, StringAttr) and known.data else []
    return {key: StringAttr(",".join([*first, *names]))}
