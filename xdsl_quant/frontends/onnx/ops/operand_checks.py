"""Checks of the operands of ops outside of ONNX, which the package `onnx` does not make."""

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.unsupported import Unsupported


def with_operand_checks(
    conversion: Conversion, required: Sequence[int], count: int
) -> Conversion:
    """
    Return a conversion that refuses nodes with missing or unknown operands.

    Args:
        conversion: conversion of an op without schema.
        required: positions of operands that must be present.
        count: largest number of operands.
    """
    return partial(_convert_checked, conversion, required, count)


def _convert_checked(
    conversion: Conversion,
    required: Sequence[int],
    count: int,
    b: GraphBuilder,
    node: Node,
    *operands: SSAValue | None,
) -> SSAValue | Sequence[SSAValue | None]:
    for position in required:
        if position >= len(operands) or operands[position] is None:
            raise Unsupported(f"operand {position} is missing")
    if len(operands) > count:
        raise Unsupported(f"has {len(operands)} operands; expected at most {count}")
    return conversion(b, node, *operands)
