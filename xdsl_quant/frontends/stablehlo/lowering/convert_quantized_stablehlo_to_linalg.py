"""
Quantized StableHLO as linalg in one pass: integer arithmetic where an op has an integer
form, floats for the rest.

It is a pipeline of other passes, in which `%s` is the option of this pass:

    stablehlo-legalize-quant-to-integer{rounding=%s fallback=qdq}
    stablehlo-casts-to-quant
    lower-quant-ops{rounding-mode=nearest-even fuse=true}
    convert-stablehlo-to-linalg

A module has all of them applied or, if one fails, none.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.pass_outcome import CountingPass, PassOutcome, ops_of_dialect
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.transforms.quant.lower_quant_ops import LowerQuantOpsPass

from .convert_stablehlo_to_linalg import ConvertStableHLOToLinalgPass
from .stablehlo_casts_to_quant import StablehloCastsToQuantPass
from .stablehlo_legalize_quant_to_integer import StablehloLegalizeQuantToIntegerPass


@dataclass(frozen=True)
class ConvertQuantizedStableHLOToLinalgPass(CountingPass):
    """
    Turn StableHLO's ops, quantized or not, into ops of linalg, tensor, arith and math:
    with integers where a quantized op has an integer form, and with floats elsewhere.
    """

    name = "convert-quantized-stablehlo-to-linalg"

    rounding: ScaleRounding = "single"
    """How the product of an integer and a multiplier is rounded."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        converted = op.clone()
        found, changed = ops_of_dialect(op, "stablehlo"), 0
        passes: tuple[CountingPass, ...] = (
            StablehloLegalizeQuantToIntegerPass(self.rounding, fallback="qdq"),
            StablehloCastsToQuantPass(),
            # This is how StableHLO rounds. Its casts round and saturate also in pairs.
            LowerQuantOpsPass("nearest-even", fuse=True),
            ConvertStableHLOToLinalgPass(),
        )
        for pass_ in passes:
            changed += pass_.rewrite(ctx, converted).changed
        before, after = op.body.block, converted.body.block
        op.body.detach_block(before)
        converted.body.detach_block(after)
        op.body.add_block(after)
        before.erase()
        return PassOutcome(found, changed, "ops of StableHLO")
