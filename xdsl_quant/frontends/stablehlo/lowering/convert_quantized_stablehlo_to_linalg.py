"""
Quantized StableHLO to linalg in one pass: integer arithmetic for ops with an integer form,
floats for all other ops.

The pass runs this pipeline, where `%s` is its option:

    stablehlo-legalize-quant-to-integer{rounding=%s fallback=qdq}
    stablehlo-casts-to-quant
    lower-quant-ops{rounding-mode=nearest-even fuse=true}
    convert-stablehlo-to-linalg

If one of these passes fails, the module is unchanged.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.kernel_set import KernelSet
from xdsl_quant.pass_outcome import CountingPass, PassOutcome, ops_of_dialect
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.transforms.quant.lower_quant_ops import LowerQuantOpsPass

from .convert_stablehlo_to_linalg import ConvertStableHLOToLinalgPass
from .stablehlo_casts_to_quant import StablehloCastsToQuantPass
from .stablehlo_legalize_qdq_to_integer import StablehloLegalizeQdqToIntegerPass
from .stablehlo_legalize_quant_to_integer import (
    StablehloLegalizeQuantToIntegerPass,
    has_f32_multipliers,
)


@dataclass(frozen=True)
class ConvertQuantizedStableHLOToLinalgPass(CountingPass):
    """
    Convert StableHLO's ops, quantized or not, to ops of linalg, tensor, arith and math:
    with integers if a quantized op has an integer form, otherwise with floats.
    """

    name = "convert-quantized-stablehlo-to-linalg"

    rounding: ScaleRounding = "single"
    """Rounding of the product of an integer and a multiplier."""

    kernels: KernelSet | None = None
    """
    Kernels whose results are computed. With `onnxruntime`, float ops between casts are
    replaced first, as `stablehlo-legalize-qdq-to-integer` does, and casts without
    attributes add zero points after rounding. Default: the module attribute
    `quant.kernels`, or fixed-point multipliers.
    """

    @without_garbage_collection()
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        converted = op.clone()
        candidates, changed = ops_of_dialect(op, "stablehlo"), 0
        is_float = has_f32_multipliers(op, self.kernels)
        order = "after-rounding" if is_float else "before-rounding"
        passes: tuple[CountingPass, ...] = (
            *([StablehloLegalizeQdqToIntegerPass()] if is_float else []),
            StablehloLegalizeQuantToIntegerPass(self.rounding, self.kernels, "qdq"),
            StablehloCastsToQuantPass(),
            # As StableHLO: this mode rounds half to even, and keeps pairs of casts.
            LowerQuantOpsPass("nearest-even", fuse=True, zero_point_order=order),
            ConvertStableHLOToLinalgPass(),
        )
        for pass_ in passes:
            changed += pass_.rewrite(ctx, converted).changed
        before, after = op.body.block, converted.body.block
        op.body.detach_block(before)
        converted.body.detach_block(after)
        op.body.add_block(after)
        before.erase()
        return PassOutcome(candidates, changed, "ops of StableHLO")
