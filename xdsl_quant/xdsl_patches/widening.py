"""Helpers of patches that let an op accept more types."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

from xdsl.ir import Attribute, Block
from xdsl.irdl import AttrConstraint, IRDLOperation, OperandDef, ResultDef
from xdsl.irdl.constraints import VerificationContext
from xdsl.utils.exceptions import VerifyException


@dataclass(frozen=True)
class UnionConstraint(AttrConstraint):
    """Constraint that accepts two sets of types, with the error messages of `xdsl`."""

    xdsl: AttrConstraint

    more: AttrConstraint

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        try:
            self.xdsl.verify(attr, constraint_context)
        except VerifyException:
            if not self.more.verifies(attr):
                raise

    def mapping_type_vars(self, type_var_mapping: Mapping[Any, Any]) -> Self:
        return self


def accepts_types(
    op_type: type[IRDLOperation],
    operands: tuple[Attribute, ...],
    result: Attribute,
    properties: Mapping[str, Attribute] = MappingProxyType({}),
) -> bool:
    """Return True if an op is valid with these operand and result types."""
    values = Block(arg_types=operands).args
    try:
        op_type.build(
            operands=values, result_types=(result,), properties=properties
        ).verify_()
    except (VerifyException, ValueError):
        return False
    return True


def widen(
    op_type: type[IRDLOperation], operand: AttrConstraint, result: AttrConstraint
) -> None:
    """Replace the constraints of the first operand and of the result."""
    definition = op_type.get_irdl_definition()
    definition.operands[0] = (definition.operands[0][0], OperandDef(operand))
    definition.results[0] = (definition.results[0][0], ResultDef(result))
