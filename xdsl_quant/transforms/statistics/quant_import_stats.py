"""
Replace references to statistics by the statistics.

They are read from a file whose format is that of
[`statistics_file`][xdsl_quant.transforms.statistics.ranges.statistics_file]. All keys are
looked up before the first op is replaced.
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

from xdsl_quant.diagnostics import fail, warn
from xdsl_quant.dialects.quant import StatisticsOp, StatisticsRefOp
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern

from .ranges.statistics_file import KeyStatistics, read_statistics


@dataclass(frozen=True)
class ImportStatistics(CheckedPattern[StatisticsOp]):
    """
    Replace a `quant.stats_ref` by the statistics of its key. It raises
    `PassFailedException` if the op cannot have them.
    """

    statistics: Mapping[str, KeyStatistics]
    """The statistics by their keys."""

    file: str
    """Where they are from, for messages."""

    missing: Literal["error", "keep"] = "error"
    """True if an op with a key without statistics is an error, or kept."""

    def plan(self, op: Operation) -> StatisticsOp | None:
        if not isinstance(op, StatisticsRefOp):
            return None
        key = op.stats_key.data
        if (known := self.statistics.get(key)) is None:
            if self.missing == "error":
                fail(op, f"'{op.name}' op has key '{key}', which {self.file} has not")
            return None
        # The value gets no user before the op is rewritten.
        value = Block(arg_types=(op.input.type,)).args[0]
        try:
            new_op = StatisticsOp(value, known.layer, known.axis_ranges, known.axis)
            new_op.verify_()
        except (VerifyException, OverflowError) as e:
            reason = "a bound does not fit f32" if isinstance(e, OverflowError) else e
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
    Replace each `quant.stats_ref` by the `quant.stats` that a file has under its key.

    Keys of the file that no op has are listed on standard error: they may be misspelled.
    """

    name = "quant-import-stats"

    file: str
    """The file with the statistics."""

    missing: Literal["error", "keep"] = "error"
    """True if a key that the file does not have is an error, or its op is kept."""

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
            names = ", ".join(f"'{key}'" for key in sorted(unused))
            warn(f"keys without an op: {names}", f"{self.file}: ")
        return PassOutcome(
            found, changed, f"a 'quant.stats_ref' with a key of {self.file}"
        )
