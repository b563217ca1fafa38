"""What the attributes of ops must be, in the words of MLIR 14's verifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, cast

from typing_extensions import TypeForm, TypeVar
from xdsl.ir import Attribute
from xdsl.irdl import AnyAttr, IRDLOperation, opt_attr_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

A = TypeVar("A", bound=Attribute | None)


@dataclass(frozen=True)
class AttributeKind(AnyAttr, Generic[A]):
    """
    A kind of attribute, by MLIR's words for it. It constrains nothing: `verify_attributes`
    says what is wrong with an attribute.
    """

    type: TypeForm[A]
    description: str


def attribute(kind: AttributeKind[A], name: str | None = None) -> A:
    """The definition of an attribute of an op."""
    return cast(A, opt_attr_def(kind, attr_name=name))


def verify_attributes(op: IRDLOperation) -> None:
    """
    Verify that the attributes of an op are there and of their kinds.

    Raises:
        VerifyException: with MLIR's message about the first one that is not.
    """
    for name, definition in op.get_irdl_definition().attributes.items():
        kind = cast(AttributeKind[Attribute | None], definition.constr)
        attr = op.attributes.get(name)
        if isa(attr, kind.type):
            continue
        if attr is None:
            raise VerifyException(f"'{op.name}' op requires attribute '{name}'")
        raise VerifyException(
            f"'{op.name}' op attribute '{name}' failed to satisfy constraint: "
            f"{kind.description} attribute"
        )
