"""
StableHLO's ops on floats, integers and truth values as loop nests of the linalg dialect.

An op that computes becomes a `linalg.generic`, one that only moves elements becomes ops of
the tensor dialect where it can. There is a rewrite pattern for each op or group of ops, in
the modules of the folder `linalg`: `LOWERINGS` has them all.

Ops that only move elements take quantized tensors as well: they move stored values, and
`quant.scast` stands round them. So does a `reduce`, if the casts in its region are lowered.
There is no arithmetic on quantized tensors here: it has to be turned into arithmetic on
floats or integers first.

The arithmetic of MLIR's dialects knows no `ui8`. Where a module has such a type, it becomes
`i8` everywhere, in the signatures of functions, too; the bits stay.

All ops are lowered before the first one is replaced, so a pass that fails changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import fail, op_name
from xdsl_quant.dialects.quant import StorageCastOp
from xdsl_quant.dialects.quant.traits import (
    AcceptsStoredValues,
    CastsQuantization,
    Reduces,
    has_quantization_trait,
)
from xdsl_quant.pass_outcome import CountingPass, PassOutcome, ops_of_dialect
from xdsl_quant.transforms.building.signless_types import has_signedness, make_signless
from xdsl_quant.transforms.building.type_replacement import defined_values
from xdsl_quant.unsupported import Unsupported
from xdsl_quant.xdsl_patches import patched_pass

from .adoption import adopt_ops
from .linalg import contraction, data_movement, elementwise, reduction
from .linalg.lowering import LinalgLowering, Replacement

LOWERINGS: Sequence[LinalgLowering[Any]] = (
    elementwise.LowerElementwise(),
    data_movement.LowerBroadcastInDim(),
    data_movement.LowerConcatenate(),
    data_movement.LowerConstant(),
    contraction.LowerConvolution(),
    contraction.LowerDotGeneral(),
    data_movement.LowerGather(),
    data_movement.LowerGetDimensionSize(),
    data_movement.LowerIota(),
    data_movement.LowerPad(),
    reduction.LowerReduce(),
    reduction.LowerReduceWindow(),
    data_movement.LowerReshape(),
    data_movement.LowerSlice(),
    data_movement.LowerTranspose(),
)
"""The rewrite patterns of the pass."""


def _replacement(op: Operation) -> Replacement:
    """
    What replaces an op.

    Raises:
        PassFailedException: if the op cannot be lowered.
    """
    for inner in op.walk():
        _check_cast(inner)
    name = op_name(op)
    lowering = next((lowering for lowering in LOWERINGS if lowering.handles(op)), None)
    try:
        if lowering is None:
            target = op.properties.get("call_target_name")
            called = f"calls '{target.data}', which " if isa(target, StringAttr) else ""
            raise Unsupported(f"{called}has no conversion to linalg")
        return lowering.replacement(op)
    except Unsupported as e:
        fail(op, f"'{name}' op {e}")


def _check_cast(op: Operation) -> None:
    """
    Raises:
        PassFailedException: if an op that is lowered, or one in it, is a cast.
    """
    if not has_quantization_trait(op, CastsQuantization):
        return
    problem = "in the region of a reduction: run 'lower-quant-ops' first"
    if (name := op_name(op)).startswith("stablehlo."):
        problem = (
            "a cast of the quant dialect: run 'convert-quantized-stablehlo-to-linalg' "
            "instead, or 'stablehlo-casts-to-quant' first"
        )
    fail(op, f"'{name}' op is {problem}")


def _is_lowered(op: Operation) -> bool:
    """Return True if an op is one that this pass replaces, or that fails it."""
    name = op_name(op)
    return name.startswith("stablehlo.") or name in elementwise.FORMULAS


def _is_in_reduction(op: Operation) -> bool:
    """
    Return True if an op is in a region that is lowered together with the op around it.
    """
    parent = op.parent_op()
    return parent is not None and has_quantization_trait(parent, Reduces)


# Types with a signedness


def _check_signedness(op: Operation) -> None:
    """
    Raises:
        PassFailedException: if an op that stays may not do the same on signless types.
    """
    if has_quantization_trait(op, AcceptsStoredValues) or _is_lowered(op):
        return
    for value in (*op.operands, *defined_values(op)):
        if has_signedness(value.type):
            fail(
                op,
                f"'{op_name(op)}' op has a value of type '{value.type}', which is "
                "about to become one without a sign",
            )


@dataclass(frozen=True)
class ConvertStableHLOToLinalgPass(CountingPass):
    """
    Turn StableHLO's ops into ops of linalg, tensor, arith and math. A module has all of
    them converted or, if the pass fails, none.
    """

    name = "convert-stablehlo-to-linalg"

    @patched_pass
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        adopt_ops(op)
        all_ops = [*op.walk()]
        found = ops_of_dialect(op, "stablehlo")
        replacements: list[Replacement] = []
        try:
            for inner in all_ops:
                if _is_lowered(inner) and not _is_in_reduction(inner):
                    replacements.append(_replacement(inner))
            values = (value for inner in all_ops for value in defined_values(inner))
            if has_signs := any(has_signedness(value.type) for value in values):
                for inner in all_ops:
                    _check_signedness(inner)
        except PassFailedException:
            for replacement in replacements:
                replacement.discard()
            raise
        casts = [
            new
            for replacement in replacements
            for new in replacement.block.ops
            if isinstance(new, StorageCastOp)
        ]
        for replacement in replacements:
            replacement.insert()
        for cast in casts:
            if (folded := cast.fold()) is not None:
                cast.result.replace_all_uses_with(folded[0])
        for cast in reversed(casts):
            if cast.result.first_use is None:
                Rewriter.erase_op(cast)
        if has_signs:
            make_signless(op)
        return PassOutcome(found, len(replacements) + has_signs, "ops of StableHLO")
