"""Arguments and results of functions that are state."""

from __future__ import annotations

from collections.abc import Sequence
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

from xdsl_quant.dialects.tfl.state import INITIAL_VALUE, NEXT_STATE, InitialValue

from .functions import EXPORTED_NAMES

_INDEX_PATH = "tf_saved_model.index_path"


class State(NamedTuple):
    """What a function keeps from one call to the next."""

    name: str
    type: Attribute
    initial_value: InitialValue


def declare_state(function: FuncOp, states: Sequence[State]) -> None:
    """
    Let the type and the attributes of a function say which arguments are state.

    Args:
        function: a function whose last arguments and results are those of states, but
            whose type and attributes do not have them yet.
        states: the states, in the order of the arguments.
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
    next_names = [f"{name}_next" for name in names]
    arguments = [
        {
            **(_index_path(name) if has_paths else {}),
            INITIAL_VALUE: state.initial_value,
            NEXT_STATE: IntegerAttr(index, i32),
        }
        for index, (name, state) in enumerate(
            zip(names, states, strict=True), len(old.outputs)
        )
    ]
    function.arg_attrs = _extended(function.arg_attrs, len(old.inputs), arguments)
    if has_paths or function.res_attrs is not None:
        results = [_index_path(name) if has_paths else {} for name in next_names]
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
    """Names with numbers after those that are there already."""
    unique: list[str] = []
    for name in names:
        numbered = (f"{name}_{number}" for number in count(1))
        unique.append(next(n for n in chain((name,), numbered) if n not in unique))
    return unique


def _index_path(name: str) -> dict[str, Attribute]:
    return {_INDEX_PATH: ArrayAttr([StringAttr(name)])}


def _extended(
    attributes: ArrayAttr[DictionaryAttr] | None,
    size: int,
    more: Sequence[dict[str, Attribute]],
) -> ArrayAttr[DictionaryAttr]:
    first = [DictionaryAttr({})] * size if attributes is None else attributes
    return ArrayAttr([*first, *map(DictionaryAttr, more)])


def _more_names(
    entry: DictionaryAttr, key: str, names: Sequence[str]
) -> dict[str, Attribute]:
    known = entry.data.get(key)
    first = [known.data] if isinstance(known, StringAttr) and known.data else []
    return {key: StringAttr(",".join([*first, *names]))}
