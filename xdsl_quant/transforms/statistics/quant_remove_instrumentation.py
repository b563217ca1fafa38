"""
Take out the ops that only watch values.

What `quant-insert-stats-refs` put in is gone afterwards, and so are statistics and
couplings. Fake quantization stays: it stands for a rounding that the program asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from xdsl_quant.dialects.quant import CoupledRefOp, StatisticsOp, StatisticsRefOp
from xdsl_quant.pass_outcome import CountingPass, PassOutcome


class RemoveInstrumentation(RewritePattern):
    """Replace an op that only watches a value by its operand."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: StatisticsRefOp | StatisticsOp | CoupledRefOp,
        rewriter: PatternRewriter,
        /,
    ):
        # In a graph region an op may be its own operand: then there is no other value.
        if op.input is not op.result:
            rewriter.replace(op, (), (op.input,))


@dataclass(frozen=True)
class QuantRemoveInstrumentationPass(CountingPass):
    """
    Replace all `quant.stats_ref`, `quant.stats` and `quant.coupled_ref` by their operands.
    """

    name = "quant-remove-instrumentation"

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        found = [
            inner
            for inner in op.walk()
            if isinstance(inner, StatisticsRefOp | StatisticsOp | CoupledRefOp)
        ]
        PatternRewriteWalker(
            RemoveInstrumentation(), apply_recursively=False
        ).rewrite_module(op)
        return PassOutcome.of_erased(
            found, "a 'quant.stats', 'quant.stats_ref' or 'quant.coupled_ref'"
        )
