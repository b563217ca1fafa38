"""
Replace references to statistics by the statistics.

They are read from a file whose format is that of
[`statistics_file`][xdsl_quant.transforms.statistics.ranges.statistics_file]. All keys are
looked up before the first op is replaced.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException, VerifyException

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant import StatisticsOp, StatisticsRefOp

from .ranges.statistics_file import KeyStatistics, read_statistics


def _statistics_op(ref: StatisticsRefOp, statistics: KeyStatistics) -> StatisticsOp:
    """The op with the statistics of a value, which is the operand of no op yet."""
    value = Block(arg_types=(ref.input.type,)).args[0]
    try:
        op = StatisticsOp(
            value, statistics.layer, statistics.axis_ranges, statistics.axis
        )
        op.verify_()
    except (VerifyException, OverflowError) as e:
        key = ref.stats_key.data
        reason = "a bound does not fit f32" if isinstance(e, OverflowError) else e
        fail(
            ref, f"'{ref.name}' op cannot have the statistics of key '{key}': {reason}"
        )
    return op


@dataclass(frozen=True)
class QuantImportStatsPass(ModulePass):
    """
    Replace each `quant.stats_ref` by the `quant.stats` that a file has under its key.

    Keys of the file that no op has are listed on standard error: they may be misspelled.
    """

    name = "quant-import-stats"

    file: str
    """The file with the statistics."""

    missing: Literal["error", "keep"] = "error"
    """Whether a key that the file does not have is an error, or its op is kept."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            statistics = read_statistics(Path(self.file))
        except OSError as e:
            reason = f"{self.file}: {(e.strerror or str(e)).lower()}"
            raise PassFailedException(f"cannot import statistics: {reason}") from None
        except ValueError as e:
            raise PassFailedException(f"cannot import statistics: {e}") from None
        refs = [ref for ref in op.walk() if isinstance(ref, StatisticsRefOp)]
        new_ops: dict[StatisticsRefOp, StatisticsOp] = {}
        for ref in refs:
            key = ref.stats_key.data
            if key in statistics:
                new_ops[ref] = _statistics_op(ref, statistics[key])
            elif self.missing == "error":
                fail(ref, f"'{ref.name}' op has key '{key}', which {self.file} has not")
        for ref, new_op in new_ops.items():
            new_op.operands[0] = ref.input
            new_op.location = ref.location
            Rewriter.replace_op(ref, new_op)
        self._report_unused(statistics.keys() - {ref.stats_key.data for ref in refs})

    def _report_unused(self, keys: set[str]) -> None:
        if not keys:
            return
        names = ", ".join(f"'{key}'" for key in sorted(keys))
        print(f"{self.file}: warning: keys without an op: {names}", file=sys.stderr)
