"""Patches of the dialect `linalg`: the effects of `linalg.generic`."""

from collections.abc import Set as AbstractSet

from xdsl.dialects.builtin import MemRefType, UnrankedMemRefType
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation
from xdsl.traits import EffectInstance, IsTerminator, MemoryEffect, get_effects


class _TensorSemanticsEffect(MemoryEffect):
    """Memory effects of a structured op; on tensors, it has the effects of its body."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance] | None:
        if any(
            isinstance(operand.type, MemRefType | UnrankedMemRefType)
            for operand in op.operands
        ):
            return None
        effects: set[EffectInstance] = set()
        for body_op in op.regions[0].block.ops:
            if body_op.has_trait(IsTerminator):
                continue
            if (body_effects := get_effects(body_op)) is None:
                return None
            effects |= body_effects
        return effects


def make_generic_effects_known() -> None:
    """
    Declare the memory effects of `linalg.generic`, so that CSE and dead code elimination
    can remove the op on tensors.

    MLIR: a structured op on tensors has the memory effects of its body.
    Obsolete with: `docs/upstream/linalg-generic-effects.md`.
    """
    if not GenericOp.has_trait(MemoryEffect):
        GenericOp.traits.add_trait(_TensorSemanticsEffect())


PATCHES = (make_generic_effects_known,)
