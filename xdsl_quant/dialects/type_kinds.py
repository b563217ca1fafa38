"""
What the types of operands and results must be, in the words of MLIR's verifiers.

xDSL's constraints could say the same, but the messages about them are xDSL's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException


@dataclass(frozen=True)
class TypeKind:
    """A group of types: a constraint of TableGen, with its summary."""

    description: str
    """MLIR's words for it, e.g. `tensor of floating-point values`."""

    has: Callable[[Attribute], bool]
    """Whether a type belongs to the group."""


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
        raise VerifyException(
            f"'{op.name}' op {value} must be {kind.description}, but got '{type_}'"
        )
