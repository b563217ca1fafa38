"""The names under which callers know a function of a model, its arguments and results."""

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute

EXPORTED_NAMES = "tf_saved_model.exported_names"
"""The attribute of a function that callers of a model know by a name."""

INDEX_PATH = "tf_saved_model.index_path"

SIGNATURE_NAMES = "tfl.signature_names"
"""
The attribute with the names of an argument or result that `INDEX_PATH` does not have, by
the keys of signatures: only the first key of `EXPORTED_NAMES` has paths, and one name.
"""


def name_attributes(names: Mapping[str, Sequence[str]]) -> DictionaryAttr:
    """
    Return the attributes of an argument or result that has names.

    Args:
        names: its names for the keys of all signatures of the function, in their order.
    """
    attributes: dict[str, Attribute] = {}
    more: dict[str, Attribute] = {}
    for position, (key, own) in enumerate(names.items()):
        others = list(own)
        if position == 0 and others:
            attributes[INDEX_PATH] = ArrayAttr([StringAttr(others.pop(0))])
        if others:
            more[key] = ArrayAttr([*map(StringAttr, others)])
    if more:
        attributes[SIGNATURE_NAMES] = DictionaryAttr(more)
    return DictionaryAttr(attributes)


def strings(attribute: Attribute | None) -> Sequence[str]:
    """Return the strings of an array; none of another attribute."""
    if not isinstance(attribute, ArrayAttr):
        return ()
    elements = cast(ArrayAttr[Attribute], attribute)
    return [element.data for element in elements if isinstance(element, StringAttr)]
