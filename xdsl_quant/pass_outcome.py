"""Counts of what a pass changed, and the warning of a pass that changed nothing."""

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
    """The ops that a pass is about, and the number of those that it changed."""

    ops: Sequence[Operation]
    """The candidates, in the order of the text before the pass."""

    changed: int
    """The number of ops that were changed, replaced or inserted."""

    expected: str
    """A noun for the candidates, e.g. `a 'quant.qcast' of a constant`."""

    left: Sequence[Operation] = ()
    """Quantized ops that the pass leaves, although they are its business."""

    remedy: str = ""
    """Remedy for the remaining ops, as the end of a message."""

    is_explained: bool = False
    """True if the pass printed warnings of its own that say why it changed nothing."""

    @classmethod
    def of_erased(
        cls, ops: Sequence[Operation], expected: str, remedy: str = ""
    ) -> PassOutcome:
        """The outcome of a pass that replaces its candidates: those that stay are left."""
        left = [op for op in ops if op.parent is not None]
        return cls(ops, len(ops) - len(left), expected, left, remedy)

    def warning(self, name: str) -> str | None:
        """The warning of a pass that changed nothing or left ops; otherwise `None`."""
        found = counted_names(self.left or self.ops) or "none"
        remedy = f"; {self.remedy}" if self.remedy and self.ops else ""
        if not self.changed:
            if self.is_explained:
                return None
            return (
                f"'{name}' changed nothing, expected {self.expected}, "
                f"found {found}{remedy}"
            )
        if not self.left:
            return None
        return (
            f"'{name}' changed {self.changed} of {counted(len(self.ops), 'op')}, found "
            f"{found} left{remedy}"
        )


class CountingPass(ModulePass):
    """
    A pass that counts what it changes.

    `apply` warns of a pass that changed nothing or left quantized ops. `rewrite` returns
    the counts and is silent, for code that runs passes on every module.
    """

    @abstractmethod
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        """Apply the pass and return what it changed, without a warning of the outcome."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        outcome = self.rewrite(ctx, op)
        if (message := outcome.warning(self.name)) is not None:
            located = outcome.left or outcome.ops
            place = location_prefix(located[0].location) if located else ""
            warn(message, place)


def ops_of_dialect(module: ModuleOp, dialect: str) -> Sequence[Operation]:
    """The ops of a dialect in a module, in the order of the text."""
    return [op for op in module.walk() if op_name(op).startswith(f"{dialect}.")]
