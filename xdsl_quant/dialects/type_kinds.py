"""
Kinds of types and attributes that ops accept, in the words of MLIR's verifiers.

xDSL's constraints could say the same, but the messages about them are xDSL's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, cast

from typing_extensions import TypeForm, TypeVar
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AnyAttr,
    AttrConstraint,
    IntConstraint,
    IRDLOperation,
    RangeOf,
    VerificationContext,
    opt_attr_def,
)
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import shortened_message


class ParsedTypes(VerificationContext):
    """
    Types of a text. xDSL verifies these before there is an op, MLIR with the op, of which
    its messages speak: constraints accept them in this context.
    """


KindT = TypeVar("KindT", bound=Attribute, covariant=True, default=Attribute)


@dataclass(frozen=True)
class TypeKind(AttrConstraint[KindT]):
    """A group of types: a constraint of TableGen, with its summary."""

    description: str
    """MLIR's words for it, e.g. `tensor of floating-point values`."""

    has: Callable[[Attribute], bool]
    """True if a type belongs to the group."""

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(constraint_context, ParsedTypes) and not self.has(attr):
            raise VerifyException(self.mistake(attr))

    def mistake(self, attr: Attribute) -> str:
        """What is wrong with a type that does not belong to the group."""
        return shortened_message(f"must be {self.description}, but got '{attr}'")

    def mapping_type_vars(
        self, type_var_mapping: Mapping[TypeVar, AttrConstraint | IntConstraint]
    ) -> TypeKind[KindT]:
        return self


class VariadicOf(RangeOf[KindT]):
    """Any number of values of a kind."""

    def verify(
        self, attrs: Sequence[Attribute], constraint_context: VerificationContext
    ) -> None:
        for index, attr in enumerate(attrs):
            try:
                self.constr.verify(attr, constraint_context)
            except VerifyException as e:
                words = str(e).replace("must be", "must be variadic of", 1)
                raise VerifyException(f"#{index} {words}") from e


def verify_kinds(
    op: Operation,
    operand_kinds: Iterable[TypeKind],
    result_kinds: Iterable[TypeKind],
) -> None:
    """
    Verify that each operand and each result has a type of the kind that is given for it.

    Raises:
        VerifyException: with MLIR's message about the first one that has not.
    """
    for what, types, kinds in (
        ("operand", op.operand_types, operand_kinds),
        ("result", op.result_types, result_kinds),
    ):
        for index, (type_, kind) in enumerate(zip(types, kinds, strict=True)):
            verify_kind(op, f"{what} #{index}", type_, kind)


def verify_kind(op: Operation, value: str, type_: Attribute, kind: TypeKind) -> None:
    """`verify_kinds` for one type, which is that of `value`, e.g. `operand #0`."""
    if not kind.has(type_):
        raise VerifyException(f"'{op.name}' op {value} {kind.mistake(type_)}")


# Attributes, whose messages are those of MLIR 14

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
    """Return the definition of an attribute of an op."""
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
