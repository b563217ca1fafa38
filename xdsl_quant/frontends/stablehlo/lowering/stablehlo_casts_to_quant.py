"""
Conversion of StableHLO's quantization casts to the quant dialect.

After this pass, `lower-quant-ops{rounding-mode=nearest-even}` computes the results of
StableHLO's specification: there, `uniform_quantize` clamps, then rounds half to even. The
lowering rounds first, which is equivalent because the bounds are integers.
`uniform_dequantize` is equivalent to `quant.dcast`. A requantization, `uniform_quantize` of
a quantized tensor, becomes a dequantization and a quantization.

StableHLO stores 0 for NaN; by default, this package stores the smallest value. Casts
therefore get the attribute `quant.nan = "stored-zero"`, which lowerings and execution
respect.

In the quant dialect, a `quant.dcast` of a `quant.qcast` folds away; in StableHLO, the pair
rounds and saturates. To keep the pair, lower with `keep-qdq` and without `canonicalize`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp, QuantizedType
from xdsl_quant.dialects.quant.ops import NAN_ATTRIBUTE
from xdsl_quant.frontends.stablehlo.dialect import (
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.checked_patterns import PatternPass
from xdsl_quant.transforms.building.dequantize_fallback import replace_with_built

from .adoption import adopt_ops

_STORED_ZERO = StringAttr("stored-zero")


class StablehloCastToQuant(RewritePattern):
    """
    Convert `uniform_quantize` to `quant.qcast`, `uniform_dequantize` to `quant.dcast`.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: UniformQuantizeOp | UniformDequantizeOp, rewriter: PatternRewriter, /
    ) -> None:
        def build(builder: LoweringBuilder) -> Sequence[SSAValue]:
            value = op.operand
            expressed = QuantizedType.cast_to_expressed_type(value.type)
            if expressed is not None:
                value = builder.op(DequantizeCastOp, (value,), expressed)
            if isinstance(op, UniformQuantizeOp):
                cast_op = QuantizeCastOp(value, op.result.type)
                cast_op.attributes[NAN_ATTRIBUTE] = _STORED_ZERO
                value = builder.add(cast_op)
            return (value,)

        replace_with_built(op, rewriter, build)


@dataclass(frozen=True)
class StablehloCastsToQuantPass(PatternPass):
    """Convert StableHLO's quantization casts to `quant.qcast` and `quant.dcast`."""

    name = "stablehlo-casts-to-quant"

    op_types = UniformQuantizeOp | UniformDequantizeOp
    expected = "a 'stablehlo.uniform_quantize' or a 'stablehlo.uniform_dequantize'"
    replaces_all = True
    pattern_type = StablehloCastToQuant

    def candidates(self, module: ModuleOp) -> Sequence[Operation]:
        adopt_ops(module)
        return super().candidates(module)
