"""Patterns that fail before the first change of a module."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import ClassVar, Generic, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern

from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.xdsl_patches import patched_pass

PlanT = TypeVar("PlanT")


class ModulePattern(RewritePattern, ABC):
    """A pattern that is applied to whole modules."""

    @abstractmethod
    def rewrite_module(self, module: ModuleOp) -> int:
        """
        Rewrite all ops of a module that match, but not those that are created.

        Returns:
            The number of ops that changed.

        Raises:
            PassFailedException: if one cannot be rewritten. The module is as it was.
        """


@dataclass(frozen=True)
class CheckedPattern(ModulePattern, Generic[PlanT]):
    """A pattern that plans how to rewrite an op, which may fail, before it does so."""

    _plans: dict[Operation, PlanT] = field(
        default_factory=dict[Operation, PlanT], init=False, compare=False, repr=False
    )
    """The plans for ops that are not rewritten yet."""

    @abstractmethod
    def plan(self, op: Operation) -> PlanT | None:
        """
        What an op is rewritten with; `None` if the pattern does not match it.

        Raises:
            PassFailedException: if the pattern matches the op, but cannot rewrite it.
        """

    @abstractmethod
    def rewrite(self, op: Operation, plan: PlanT, rewriter: PatternRewriter) -> None:
        """
        Rewrite an op as planned, by the rewriter, or notify it. This does not fail.
        """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        plan = self._plans.pop(op, None)
        if plan is not None or (plan := self.plan(op)) is not None:
            self.rewrite(op, plan, rewriter)

    def plan_module(self, module: ModuleOp) -> None:
        """
        Plan how to rewrite all ops of a module that match.

        Raises:
            PassFailedException: if one cannot be rewritten.
        """
        for op in module.walk():
            if (plan := self.plan(op)) is not None:
                self._plans[op] = plan

    def rewrite_planned(self) -> int:
        """
        Rewrite the ops that `plan_module` has found, and return the number of those that
        changed.
        """
        changed = 0
        for op in [*self._plans]:
            rewriter = PatternRewriter(op)
            self.match_and_rewrite(op, rewriter)
            changed += rewriter.has_done_action
        return changed

    def rewrite_module(self, module: ModuleOp) -> int:
        self.plan_module(module)
        return self.rewrite_planned()


@dataclass(frozen=True)
class PatternPass(CountingPass):
    """A pass that applies one pattern to a module."""

    op_types: ClassVar[type[Operation] | UnionType]
    """The ops that the pass is about."""

    expected: ClassVar[str]
    """What the pass changes, as a noun."""

    replaces_all: ClassVar[bool] = False
    """True if the pass is to replace all of these ops."""

    remedy: ClassVar[str] = ""
    """What to do about ops that are left."""

    pattern_type: ClassVar[Callable[..., RewritePattern]]
    """The pattern, whose options have the names of those of the pass."""

    def pattern(self) -> RewritePattern:
        """Return the pattern with the options of the pass."""
        return self.pattern_type(
            **{f.name: getattr(self, f.name) for f in fields(self)}
        )

    def candidates(self, module: ModuleOp) -> Sequence[Operation]:
        """Return the ops of a module that the pass is about."""
        return [op for op in module.walk() if isinstance(op, self.op_types)]

    @patched_pass
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        found, pattern = self.candidates(op), self.pattern()
        with without_garbage_collection():
            if isinstance(pattern, ModulePattern):
                changed = pattern.rewrite_module(op)
            else:
                walker = PatternRewriteWalker(pattern, apply_recursively=False)
                walker.rewrite_module(op)
                changed = sum(each.parent is None for each in found)
        if self.replaces_all:
            return PassOutcome.of_erased(found, self.expected, self.remedy)
        return PassOutcome(found, changed, self.expected)
