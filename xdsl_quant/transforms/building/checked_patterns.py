"""Base classes of patterns that check a whole module before they change it."""

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
    """A rewrite pattern that is applied to a whole module."""

    @abstractmethod
    def rewrite_module(self, module: ModuleOp) -> int:
        """
        Rewrite all matching ops of a module, but no ops that the pattern creates.

        Returns:
            The number of ops that changed.

        Raises:
            PassFailedException: if an op cannot be rewritten. The module is unchanged.
        """


@dataclass(frozen=True)
class CheckedPattern(ModulePattern, Generic[PlanT]):
    """A pattern that plans all rewrites, which may fail, before it performs any."""

    _plans: dict[Operation, PlanT] = field(
        default_factory=dict[Operation, PlanT], init=False, compare=False, repr=False
    )
    """Plan of each op that is not rewritten yet."""

    @abstractmethod
    def plan(self, op: Operation) -> PlanT | None:
        """
        Return the plan for an op, or `None` if the pattern does not match.

        Raises:
            PassFailedException: if the pattern matches the op, but cannot rewrite it.
        """

    @abstractmethod
    def rewrite(self, op: Operation, plan: PlanT, rewriter: PatternRewriter) -> None:
        """Rewrite an op as planned and notify the rewriter. Must not fail."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        plan = self._plans.pop(op, None)
        if plan is not None or (plan := self.plan(op)) is not None:
            self.rewrite(op, plan, rewriter)

    def plan_module(self, module: ModuleOp) -> None:
        """
        Plan the rewrites of all matching ops of a module.

        Raises:
            PassFailedException: if an op cannot be rewritten.
        """
        for op in module.walk():
            if (plan := self.plan(op)) is not None:
                self._plans[op] = plan

    def rewrite_planned(self) -> int:
        """Rewrite the planned ops, and return the number of changed ops."""
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

    expected: ClassVar[str]
    """Noun for the ops that the pass rewrites, for warnings."""

    replaces_all: ClassVar[bool] = False
    """True if the pass warns about each op of `op_types` that remains."""

    remedy: ClassVar[str] = ""
    """Advice for the warning about ops that remain."""

    pattern_type: ClassVar[Callable[..., RewritePattern]]
    """Class of the pattern; its options have the names of the pass options."""

    def pattern(self) -> RewritePattern:
        """Build the pattern with the options of the pass."""
        return self.pattern_type(
            **{f.name: getattr(self, f.name) for f in fields(self)}
        )

    def candidates(self, module: ModuleOp) -> Sequence[Operation]:
        """Return the ops of a module that the pass may rewrite."""
        return [op for op in module.walk() if isinstance(op, self.op_types)]

    @patched_pass
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        candidates, pattern = self.candidates(op), self.pattern()
        with without_garbage_collection():
            if isinstance(pattern, ModulePattern):
                changed = pattern.rewrite_module(op)
            else:
                walker = PatternRewriteWalker(pattern, apply_recursively=False)
                walker.rewrite_module(op)
                changed = sum(op_.parent is None for op_ in candidates)
        if self.replaces_all:
            return PassOutcome.of_erased(candidates, self.expected, self.remedy)
        return PassOutcome(candidates, changed, self.expected)
