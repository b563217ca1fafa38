"""
Quantized types converted wherever a module has them: in the types of all values, in
properties and attributes, and inside of other types, such as tuples and function types.

Unlike in [`type_replacement`][xdsl_quant.transforms.building.type_replacement], which
replaces the types of tensors and functions, nothing is left out. The parameters of
quantized types are not visited, and the elements of constants are not either.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import (
    Attribute,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import fail, op_name
from xdsl_quant.dialects.quant import QuantizedType

from .type_replacement import defined_values, set_type


@dataclass
class _Conversion:
    convert: Callable[[QuantizedType], QuantizedType]

    _types: dict[Attribute, Attribute] = field(
        default_factory=dict[Attribute, Attribute], init=False
    )
    """What is known already."""

    def converted(self, attribute: Attribute) -> Attribute:
        """What an attribute becomes; the attribute itself if it stays as it is."""
        if not isinstance(attribute, TypeAttribute):
            return self._rebuilt(attribute)
        if (known := self._types.get(attribute)) is None:
            known = self._types[attribute] = self._rebuilt(attribute)
        return known

    def _rebuilt(self, attribute: Attribute) -> Attribute:
        match attribute:
            case QuantizedType():
                return self.convert(attribute)
            case ParametrizedAttribute():
                parts = attribute.parameters
                new = [*map(self.converted, parts)]
                if not _is_changed(parts, new):
                    return attribute
                return type(attribute).new(new)
            case ArrayAttr():
                parts: tuple[Attribute, ...] = attribute.data
                new = [*map(self.converted, parts)]
                return ArrayAttr(new) if _is_changed(parts, new) else attribute
            case DictionaryAttr():
                parts = (*attribute.data.values(),)
                new = [*map(self.converted, parts)]
                if not _is_changed(parts, new):
                    return attribute
                return DictionaryAttr(dict(zip(attribute.data, new, strict=True)))
            case _:
                return attribute


def _is_changed(parts: tuple[Attribute, ...], new: list[Attribute]) -> bool:
    return any(map(lambda a, b: a is not b, parts, new))


def convert_quantized_types(
    module: ModuleOp, convert: Callable[[QuantizedType], QuantizedType]
) -> None:
    """
    Convert all quantized types of a module.

    Args:
        module: the module.
        convert: what a type becomes, which may be itself. It is called once for each
            type.

    Raises:
        PassFailedException: with the place of an op, if `convert` raises a `ValueError` or
            a `VerifyException` for a type of it. The module is as it was then.
    """
    conversion = _Conversion(convert)
    values: list[tuple[SSAValue, Attribute]] = []
    attributes: list[tuple[MutableMapping[str, Attribute], str, Attribute]] = []
    for op in module.walk():
        try:
            for value in defined_values(op):
                if (new := conversion.converted(value.type)) is not value.type:
                    values.append((value, new))
            for container in (op.properties, op.attributes):
                for name, attribute in container.items():
                    if (new := conversion.converted(attribute)) is not attribute:
                        attributes.append((container, name, new))
        except (ValueError, VerifyException) as e:
            fail(op, f"'{op_name(op)}' op has a type that cannot be converted: {e}")
    for value, type_ in values:
        set_type(value, type_)
    for container, name, attribute in attributes:
        container[name] = attribute
