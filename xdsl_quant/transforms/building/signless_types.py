"""
Conversion of integer types with a signedness, such as `ui8`, to the signless types that
arithmetic ops require.
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
    """Return True if a type or its element type is signed or unsigned."""
    element_type = scalar_or_element_type(type_)
    return (
        isa(element_type, IntegerType)
        and element_type.signedness.data is not Signedness.SIGNLESS
    )


def signless(type_: Attribute) -> Attribute:
    """Return the signless type of the same bit width."""
    if not has_signedness(type_):
        return type_
    width = cast(IntegerType, scalar_or_element_type(type_)).bitwidth
    return with_element_type(type_, IntegerType(width))


def make_signless(module: ModuleOp) -> None:
    """Make the integer types of a module signless, and remove no-op casts."""
    for op in module.walk():
        for value in defined_values(op):
            set_type(value, signless(value.type))
        if isinstance(op, FuncOp):
            type_ = op.function_type
            op.function_type = FunctionType.from_lists(
                [*map(signless, type_.inputs)], [*map(signless, type_.outputs)]
            )
    casts = [op for op in module.walk() if isinstance(op, UnrealizedConversionCastOp)]
    for op in casts:
        if op.operand_types == op.result_types:
            Rewriter.replace_op(op, (), op.operands)
