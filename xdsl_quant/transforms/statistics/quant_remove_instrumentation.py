"""
Remove ops that only observe values.

The pass removes `quant.stats_ref`, `quant.stats` and `quant.coupled_ref`. It keeps fake
quantization, which changes values.
"""

from dataclasses import dataclass

from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from xdsl_quant.dialects.quant import CoupledRefOp, StatisticsOp, StatisticsRefOp
from xdsl_quant.transforms.building.checked_patterns import PatternPass


class RemoveInstrumentation(RewritePattern):
    """Remove an op that only observes a value; its users get the operand."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: StatisticsRefOp | StatisticsOp | CoupledRefOp,
        rewriter: PatternRewriter,
        /,
    ):
        # In a graph region, an op may be its own operand and must stay.
        if op.input is not op.result:
            rewriter.replace(op, (), (op.input,))


@dataclass(frozen=True)
class QuantRemoveInstrumentationPass(PatternPass):
    """
    Replace `quant.stats_ref`, `quant.stats` and `quant.coupled_ref` by their operands.
    """

    name = "quant-remove-instrumentation"
    pattern_type = RemoveInstrumentation
    op_types = StatisticsRefOp | StatisticsOp | CoupledRefOp
    expected = "a 'quant.stats', 'quant.stats_ref' or 'quant.coupled_ref'"
    replaces_all = True
