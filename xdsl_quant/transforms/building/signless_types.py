"""
Integer types with a signedness, such as `ui8`, as the signless ones that arithmetic takes.
"""

from typing import cast

from xdsl.dialects.builtin import (
    FunctionType,
    IntegerType,
    ModuleOp,
    Signedness,
    UnrealizedConversionCastOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type

from .type_replacement import defined_values, set_type


def has_signedness(type_: Attribute) -> bool:
    """
    Return True if a type, or that of its elements, is one that arithmetic ops do not
    take.
    """
    element_type = scalar_or_element_type(type_)
    return (
        isa(element_type, IntegerType)
        and element_type.signedness.data is not Signedness.SIGNLESS
    )


def signless(type_: Attribute) -> Attribute:
    """Return the type with the same bits that arithmetic ops take."""
    if not has_signedness(type_):
        return type_
    width = cast(IntegerType, scalar_or_element_type(type_)).bitwidth
    return with_element_type(type_, IntegerType(width))


def make_signless(module: ModuleOp) -> None:
    """Replace integer types by signless ones, and remove casts between these."""
    for op in module.walk():
        for value in defined_values(op):
            set_type(value, signless(value.type))
        if isinstance(op, FuncOp):
            type_ = op.function_type
            op.function_type = FunctionType.from_lists(
                [*map(signless, type_.inputs)], [*map(signless, type_.outputs)]
            )
    for op in (*module.walk(),):
        if isinstance(op, UnrealizedConversionCastOp) and op.operand_types == (
            op.result_types
        ):
            Rewriter.replace_op(op, (), op.operands)
