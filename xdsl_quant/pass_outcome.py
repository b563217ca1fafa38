"""Counts of the ops that a pass changed, and warnings of passes without effect."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from xdsl_quant.diagnostics import (
    counted,
    counted_names,
    location_prefix,
    op_name,
    warn,
)


@dataclass(frozen=True)
class PassOutcome:
    """Candidates (ops that a pass looks for), and the number of ops changed."""

    ops: Sequence[Operation]
    """Candidates, in the order of the module before the pass."""

    changed: int
    """Number of ops changed, replaced or inserted."""

    expected: str
    """Description of a candidate, e.g. `a 'quant.qcast' of a constant`."""

    left: Sequence[Operation] = ()
    """Quantized ops that the pass should have rewritten but did not."""

    remedy: str = ""
    """Advice about the remaining ops, the end of the warning; may be empty."""

    is_explained: bool = False
    """True if the pass has already warned why it changed nothing."""

    @classmethod
    def of_erased(
        cls, ops: Sequence[Operation], expected: str, remedy: str = ""
    ) -> PassOutcome:
        """
        Return the outcome of a pass that erases the candidates it rewrites. Candidates that
        remain in the IR become `left`.
        """
        left = [op for op in ops if op.parent is not None]
        return cls(ops, len(ops) - len(left), expected, left, remedy)

    def warning(self, name: str) -> str | None:
        """Return a warning if the pass changed nothing or `left` has ops, else `None`."""
        names = counted_names(self.left or self.ops) or "none"
        remedy = f"; {self.remedy}" if self.remedy and self.ops else ""
        if not self.changed:
            if self.is_explained:
                return None
            return (
                f"'{name}' changed nothing, expected {self.expected}, "
                f"found {names}{remedy}"
            )
        if not self.left:
            return None
        return (
            f"'{name}' changed {self.changed} of {counted(len(self.ops), 'op')}, found "
            f"{names} left{remedy}"
        )


class CountingPass(ModulePass):
    """
    Pass that counts its changes.

    `apply` warns if the pass changed nothing or left quantized ops. `rewrite` only returns
    the outcome, for callers that accept passes without effect.
    """

    @abstractmethod
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        """Apply the pass and return its outcome, without a warning."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        outcome = self.rewrite(ctx, op)
        if (message := outcome.warning(self.name)) is not None:
            located = outcome.left or outcome.ops
            place = location_prefix(located[0].location) if located else ""
            warn(message, place)


def ops_of_dialect(module: ModuleOp, dialect: str) -> Sequence[Operation]:
    """Return the ops of a dialect in a module, in walk order."""
    return [op for op in module.walk() if op_name(op).startswith(f"{dialect}.")]
