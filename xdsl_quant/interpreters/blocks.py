"""Evaluating the block of an op whose elements are computed all at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.interpreter import Interpreter
from xdsl.ir import Block, Operation, SSAValue


def run_block(
    interpreter: Interpreter,
    block: Block,
    args: Sequence[Any],
    wanted: Sequence[SSAValue],
    known: Mapping[Operation, Any] | None = None,
) -> list[Any]:
    """
    The values that `wanted` have in a block.

    Args:
        interpreter: runs the ops of the block, all but its terminator.
        block: a block of ops that treat arrays like numbers.
        args: numbers, or arrays that broadcast to each other, for the block's arguments.
        wanted: the values to return.
        known: ops that are not to be run, with the values of their single results.
    """
    known = known or {}
    interpreter.push_scope("block")
    try:
        interpreter.set_values(zip(block.args, args, strict=True))
        for op in block.ops:
            if op is block.last_op:
                break
            if op in known:
                interpreter.set_values(((op.results[0], known[op]),))
                continue
            inputs = interpreter.get_values(op.operands)
            interpreter.set_values(
                zip(op.results, interpreter.run_op(op, inputs), strict=True)
            )
        return list(interpreter.get_values(wanted))
    finally:
        interpreter.pop_scope()
