"""Patterns that plan how to rewrite an op before they do so."""

from dataclasses import dataclass, field

from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker

from xdsl_quant.transforms.building.checked_patterns import CheckedPattern


@dataclass(frozen=True)
class Announce(CheckedPattern[str]):
    """Puts an op with an attribute before each op without one."""

    planned: list[Operation] = field(default_factory=list[Operation])

    def plan(self, op: Operation) -> str | None:
        self.planned.append(op)
        return "next" if isinstance(op, test.TestOp) and not op.attributes else None

    def rewrite(self, op: Operation, plan: str, rewriter: PatternRewriter) -> None:
        rewriter.insert(test.TestOp(attributes={plan: UnitAttr()}))


def test_each_op_of_a_module_is_planned_once():
    ops = [test.TestOp(), test.TestOp(attributes={"other": UnitAttr()}), test.TestOp()]
    module = ModuleOp([*ops])
    pattern = Announce()
    pattern.rewrite_module(module)
    assert pattern.planned == [module, *ops]
    names = [[*op.attributes] for op in module.body.block.ops]
    assert names == [["next"], [], ["other"], ["next"], []]


def test_a_rewrite_without_a_plan_makes_one():
    op = test.TestOp()
    module = ModuleOp([op])
    pattern = Announce()
    walker = PatternRewriteWalker(pattern, apply_recursively=False)
    assert walker.rewrite_module(module)
    assert pattern.planned.count(op) == 1
    assert [[*op.attributes] for op in module.body.block.ops] == [["next"], []]
