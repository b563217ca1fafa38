"""
Replace references to statistics by the statistics in a file.

[`statistics_file`][xdsl_quant.transforms.statistics.ranges.statistics_file] defines the
format. An error leaves the module unchanged.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import PassFailedException, VerifyException

from xdsl_quant.diagnostics import fail, quoted, warn
from xdsl_quant.dialects.quant import StatisticsOp, StatisticsRefOp
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern

from .ranges.statistics_file import KeyStatistics, read_statistics


@dataclass(frozen=True)
class ImportStatistics(CheckedPattern[StatisticsOp]):
    """
    Replace a `quant.stats_ref` by the statistics of its key. Raises
    `PassFailedException` if they do not match the op.
    """

    statistics: Mapping[str, KeyStatistics]

    file: str
    """Name of the file, for messages."""

    missing: Literal["error", "keep"] = "error"
    """Action for an op whose key has no statistics: fail, or keep the op."""

    def plan(self, op: Operation) -> StatisticsOp | None:
        if not isinstance(op, StatisticsRefOp):
            return None
        key = op.stats_key.data
        if (known := self.statistics.get(key)) is None:
            if self.missing == "error":
                fail(op, f"'{op.name}' op has key '{key}', missing in {self.file}")
            return None
        # Use a placeholder, since planning must not add users to the value.
        value = Block(arg_types=(op.input.type,)).args[0]
        try:
            new_op = StatisticsOp(value, known.layer, known.axis_ranges, known.axis)
            new_op.verify_()
        except (VerifyException, OverflowError) as e:
            reason = "a bound exceeds f32" if isinstance(e, OverflowError) else e
            fail(
                op,
                f"'{op.name}' op cannot have the statistics of key '{key}': {reason}",
            )
        return new_op

    def rewrite(
        self, op: Operation, plan: StatisticsOp, rewriter: PatternRewriter
    ) -> None:
        plan.operands[0] = op.operands[0]
        plan.location = op.location
        rewriter.replace(op, plan)


@dataclass(frozen=True)
class QuantImportStatsPass(CountingPass):
    """
    Replace each `quant.stats_ref` by the `quant.stats` that a file has for its key.

    The pass lists unused keys of the file on standard error, as they may be misspelled.
    """

    name = "quant-import-stats"

    file: str

    missing: Literal["error", "keep"] = "error"
    """Action for an op whose key is not in the file: fail, or keep the op."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        try:
            statistics = read_statistics(Path(self.file))
        except (OSError, ValueError) as e:
            reason: object = e
            if isinstance(e, OSError):
                reason = f"{self.file}: {(e.strerror or str(e)).lower()}"
            raise PassFailedException(f"cannot import statistics: {reason}") from None
        found = [ref for ref in op.walk() if isinstance(ref, StatisticsRefOp)]
        unused = statistics.keys() - {ref.stats_key.data for ref in found}
        pattern = ImportStatistics(statistics, self.file, self.missing)
        changed = pattern.rewrite_module(op)
        if unused:
            warn(f"keys without an op: {quoted(sorted(unused))}", f"{self.file}: ")
        return PassOutcome(
            found, changed, f"a 'quant.stats_ref' with a key of {self.file}"
        )
