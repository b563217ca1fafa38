"""
Type and attribute constraints that report errors with MLIR's messages.

xDSL's own constraints report the same errors with other messages.
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
    Verification context of the parser, in which `TypeKind` accepts every type. As in MLIR,
    types are verified later, when messages can name the op.
    """


KindT = TypeVar("KindT", bound=Attribute, covariant=True, default=Attribute)


@dataclass(frozen=True)
class TypeKind(AttrConstraint[KindT]):
    """A type constraint: a predicate and its TableGen summary."""

    description: str
    """MLIR's summary of the constraint, e.g. `tensor of floating-point values`."""

    accepts: Callable[[Attribute], bool]
    """True if a type satisfies the constraint."""

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if not isinstance(constraint_context, ParsedTypes) and not self.accepts(attr):
            raise VerifyException(self.error_message(attr))

    def error_message(self, attr: Attribute) -> str:
        """Return MLIR's message about a type that violates the constraint."""
        return shortened_message(f"must be {self.description}, but got '{attr}'")

    def mapping_type_vars(
        self, type_var_mapping: Mapping[TypeVar, AttrConstraint | IntConstraint]
    ) -> TypeKind[KindT]:
        return self


class VariadicOf(RangeOf[KindT]):
    """The constraint of variadic operands or results."""

    def verify(
        self, attrs: Sequence[Attribute], constraint_context: VerificationContext
    ) -> None:
        for index, attr in enumerate(attrs):
            try:
                self.constr.verify(attr, constraint_context)
            except VerifyException as e:
                message = str(e).replace("must be", "must be variadic of", 1)
                raise VerifyException(f"#{index} {message}") from e


def verify_kinds(
    op: Operation,
    operand_kinds: Iterable[TypeKind],
    result_kinds: Iterable[TypeKind],
) -> None:
    """
    Verify the types of all operands and results.

    Raises:
        VerifyException: if a type violates its constraint, with MLIR's message.
    """
    for noun, types, kinds in (
        ("operand", op.operand_types, operand_kinds),
        ("result", op.result_types, result_kinds),
    ):
        for index, (type_, kind) in enumerate(zip(types, kinds, strict=True)):
            verify_kind(op, f"{noun} #{index}", type_, kind)


def verify_kind(op: Operation, value: str, type_: Attribute, kind: TypeKind) -> None:
    """Verify the type of one value, which messages call `value`, e.g. `operand #0`."""
    if not kind.accepts(type_):
        raise VerifyException(f"'{op.name}' op {value} {kind.error_message(type_)}")


# Attributes; messages are those of MLIR 14

A = TypeVar("A", bound=Attribute | None)


@dataclass(frozen=True)
class AttributeKind(AnyAttr, Generic[A]):
    """
    The type of an attribute and MLIR's summary of it. xDSL accepts any attribute here;
    `verify_attributes` checks the type.
    """

    type: TypeForm[A]
    description: str


def attribute(kind: AttributeKind[A], name: str | None = None) -> A:
    """Define an attribute of an op."""
    return cast(A, opt_attr_def(kind, attr_name=name))


def verify_attributes(op: IRDLOperation) -> None:
    """
    Verify that an op has all required attributes and that their types are valid.

    Raises:
        VerifyException: if one is missing or invalid, with MLIR's message.
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
