"""Attributes for the signatures of a model: names of functions, arguments and results."""

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

EXPORTED_NAMES = "tf_saved_model.exported_names"
"""Function attribute: the keys of the signatures that export the function."""

INDEX_PATH = "tf_saved_model.index_path"

SIGNATURE_NAMES = "tfl.signature_names"
"""Argument or result attribute: maps signature keys to the names not in `INDEX_PATH`."""


def name_attributes(names: Mapping[str, Sequence[str]]) -> DictionaryAttr:
    """
    Return the attributes of an argument or result that store `names` (by signature key).
    """
    attributes: dict[str, Attribute] = {}
    further: dict[str, Attribute] = {}
    for position, (key, key_names) in enumerate(names.items()):
        remaining = list(key_names)
        if position == 0 and remaining:
            attributes[INDEX_PATH] = ArrayAttr([StringAttr(remaining.pop(0))])
        if remaining:
            further[key] = ArrayAttr([*map(StringAttr, remaining)])
    if further:
        attributes[SIGNATURE_NAMES] = DictionaryAttr(further)
    return DictionaryAttr(attributes)


def strings(attribute: Attribute | None) -> Sequence[str]:
    """Return the strings of an array attribute; empty for any other attribute."""
    if not isinstance(attribute, ArrayAttr):
        return ()
    elements = cast(ArrayAttr[Attribute], attribute)
    return [element.data for element in elements if isinstance(element, StringAttr)]


def entry_input_names(function: FuncOp) -> Mapping[str, int]:
    """Return the positions of a function's arguments by name: SSA, tensor and signature."""
    names = {a.name_hint: i for i, a in enumerate(function.args) if a.name_hint}
    entry = function.attributes.get("tf.entry_function")
    inputs = entry.data.get("inputs") if isinstance(entry, DictionaryAttr) else None
    if isinstance(inputs, StringAttr):
        names |= {name: i for i, name in enumerate(inputs.data.split(","))}
    for index, attributes in enumerate(function.arg_attrs or ()):
        for name in strings(attributes.data.get(INDEX_PATH)):
            names[name] = index
    return names
