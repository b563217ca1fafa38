"""
Conversion of all quantized types of a module: in the types of values, in properties and
attributes, and nested in other types, such as tuples and function types.

[`type_replacement`][xdsl_quant.transforms.building.type_replacement], in contrast, only
replaces the types of values and functions. Neither module visits the parameters of
quantized types or the elements of constants.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import is_
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.diagnostics import refusing
from xdsl_quant.dialects.quant import QuantizedType

from .checked_patterns import CheckedPattern, PatternPass
from .type_replacement import defined_values, quantized_ops, set_type


class TypeChanges(NamedTuple):
    """New types and attributes of one op."""

    values: Sequence[tuple[SSAValue, Attribute]]
    attributes: Sequence[tuple[MutableMapping[str, Attribute], str, Attribute]]


@dataclass(frozen=True)
class QuantizedTypeConversion(CheckedPattern[TypeChanges], ABC):
    """
    Convert all quantized types of an op: in the types of its results and of the
    arguments of its blocks, and in its properties and attributes.

    The users of the op are not updated, so apply the pattern to a whole module.
    """

    _types: dict[Attribute, Attribute] = field(
        default_factory=dict[Attribute, Attribute],
        init=False,
        compare=False,
        repr=False,
    )

    @abstractmethod
    def convert(self, quantized_type: QuantizedType) -> QuantizedType:
        """
        Convert a quantized type, or return it unchanged; called once per type.

        Raises:
            ValueError: if the type cannot be converted.
            VerifyException: if the type cannot be converted.
        """

    def plan(self, op: Operation) -> TypeChanges | None:
        with refusing(op, "has a type that cannot be converted"):
            values = [
                (value, new)
                for value in defined_values(op)
                if (new := self.converted(value.type)) is not value.type
            ]
            attributes = [
                (container, name, new)
                for container in (op.properties, op.attributes)
                for name, attribute in container.items()
                if (new := self.converted(attribute)) is not attribute
            ]
        return TypeChanges(values, attributes) if values or attributes else None

    def rewrite(
        self, op: Operation, plan: TypeChanges, rewriter: PatternRewriter
    ) -> None:
        for value, type_ in plan.values:
            set_type(value, type_)
        for container, name, attribute in plan.attributes:
            container[name] = attribute
        rewriter.notify_op_modified(op)

    def converted(self, attribute: Attribute) -> Attribute:
        """Return the converted attribute, or the same object if nothing changes."""
        if not isinstance(attribute, TypeAttribute):
            return self._rebuilt(attribute)
        if (cached := self._types.get(attribute)) is None:
            cached = self._types[attribute] = self._rebuilt(attribute)
        # Return the same object: the cached type may be equal, but another object.
        return attribute if cached == attribute else cached

    def _rebuilt(self, attribute: Attribute) -> Attribute:
        parts: Sequence[Attribute]
        rebuild: Callable[[Sequence[Attribute]], Attribute]
        match attribute:
            case QuantizedType():
                return self.convert(attribute)
            case ParametrizedAttribute():
                parts, rebuild = attribute.parameters, type(attribute).new
            case ArrayAttr():
                parts, rebuild = attribute.data, ArrayAttr
            case DictionaryAttr():
                parts = [*attribute.data.values()]
                rebuild = partial(_dictionary, attribute.data)
            case _:
                return attribute
        new = [*map(self.converted, parts)]
        return attribute if all(map(is_, parts, new)) else rebuild(new)


def _dictionary(names: Iterable[str], values: Sequence[Attribute]) -> DictionaryAttr:
    return DictionaryAttr(dict(zip(names, values, strict=True)))


class QuantizedTypePass(PatternPass):
    """A pass that converts quantized types."""

    def candidates(self, module: ModuleOp) -> Sequence[Operation]:
        return quantized_ops(module)
