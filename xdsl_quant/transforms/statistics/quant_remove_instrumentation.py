"""
Take out the ops that only watch values.

What `quant-insert-stats-refs` put in is gone afterwards, and so are statistics and
couplings. Fake quantization stays: it stands for a rounding that the program asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from xdsl_quant.dialects.quant import CoupledRefOp, StatisticsOp, StatisticsRefOp


@dataclass(frozen=True)
class QuantRemoveInstrumentationPass(ModulePass):
    """
    Replace all `quant.stats_ref`, `quant.stats` and `quant.coupled_ref` by their operands.
    """

    name = "quant-remove-instrumentation"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops = [
            inner_op
            for inner_op in op.walk()
            if isinstance(inner_op, StatisticsRefOp | StatisticsOp | CoupledRefOp)
        ]
        for inner_op in ops:
            # In a graph region an op may be its own operand: then there is no other value.
            if inner_op.input is not inner_op.result:
                Rewriter.replace_op(inner_op, (), (inner_op.input,))
