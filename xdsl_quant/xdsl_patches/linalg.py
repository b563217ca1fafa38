"""Patches of the dialect `linalg`: effects of structured ops."""

from collections.abc import Set as AbstractSet

from xdsl.dialects.builtin import MemRefType, UnrankedMemRefType
from xdsl.dialects.linalg import Linalg
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
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


def make_structured_effects_known() -> None:
    """
    Declare the memory effects of structured ops, so that CSE and dead code elimination
    can remove them on tensors.

    MLIR: a structured op on tensors has the memory effects of its body.
    Obsolete with: `docs/upstream/linalg-generic-effects.md`.
    """
    if GenericOp.has_trait(MemoryEffect):
        return
    for op_type in Linalg.operations:
        if issubclass(op_type, LinalgStructuredOperation):
            op_type.traits.add_trait(_TensorSemanticsEffect())


PATCHES = (make_structured_effects_known,)

make_generic_effects_known = make_structured_effects_known
"""Former name of `make_structured_effects_known`, kept for compatibility."""
