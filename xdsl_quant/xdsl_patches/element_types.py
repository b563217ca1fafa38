"""Patch of the element types of memrefs and vectors."""

from collections.abc import Callable
from functools import partialmethod
from typing import TypeVar

from xdsl.dialects.builtin import MemRefType, UnrankedMemRefType, VectorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException

_Type = TypeVar("_Type")

_MESSAGES: dict[type[ParametrizedAttribute], str] = {
    MemRefType: "invalid memref element type",
    UnrankedMemRefType: "invalid memref element type",
    VectorType: "failed to verify 'elementType': VectorElementTypeInterface instance",
}
"""MLIR's messages."""


@irdl_attr_definition
class _QuantizedType(ParametrizedAttribute, TypeAttribute):
    name = "quant.probe"


def _refusing_quantized_elements(
    verify: Callable[[ParametrizedAttribute], None], message: str
) -> Callable[[ParametrizedAttribute], None]:
    def verify_element_type(self: ParametrizedAttribute) -> None:
        element_type: object = getattr(self, "element_type", None)
        if isinstance(element_type, Attribute) and element_type.name.startswith(
            "quant."
        ):
            raise VerifyException(message)
        verify(self)

    return verify_element_type


def _parse(self: AttrParser, parse: Callable[[AttrParser], _Type]) -> _Type:
    start = self.pos
    try:
        return parse(self)
    except VerifyException as e:
        if str(e) not in _MESSAGES.values():
            raise
        self.raise_error(str(e), self.lexer.input.content.index("!", start))


def refuse_quantized_elements() -> None:
    """
    Refuse memrefs and vectors of quantized elements.

    MLIR: elements implement an interface, which quantized types do not.
    Obsolete with: `docs/upstream/element-types.md`.
    """
    try:
        MemRefType(_QuantizedType(), (1,))
    except VerifyException:
        return

    for class_, message in _MESSAGES.items():
        verify = _refusing_quantized_elements(class_.verify, message)
        class_.verify = verify  # pyright: ignore[reportAttributeAccessIssue] a function with "self"
    for name in ("_parse_memref_attrs", "_parse_vector_attrs"):
        setattr(AttrParser, name, partialmethod(_parse, getattr(AttrParser, name)))
