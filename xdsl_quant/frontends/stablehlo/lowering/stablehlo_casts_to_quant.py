"""
StableHLO's casts as those of the quant dialect.

`uniform_quantize` is defined as a clamp and then rounding half to even;
`uniform_dequantize` as `quant.dcast` is. So what StableHLO's specification says is computed
by `lower-quant-ops{rounding-mode=nearest-even}`: it rounds first, but between
integers that is the same. A `uniform_quantize` of a quantized tensor is specified as a
dequantization and a quantization, and becomes these.

StableHLO stores 0 for NaN, and the default here is the smallest stored value. So casts get
an attribute, `quant.nan = "stored-zero"`, which is obeyed wherever they are lowered or run.

For the quant dialect a `quant.dcast` of a `quant.qcast` is nothing. In StableHLO it is
not: it rounds and saturates. So the lowering needs `keep-qdq`, and there must be no
`canonicalize` before it.
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
    Replaces `stablehlo.uniform_quantize` and `stablehlo.uniform_dequantize` by
    `quant.qcast` and `quant.dcast`: both, if a quantized tensor is quantized again.
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
    """
    Replace `stablehlo.uniform_quantize` and `stablehlo.uniform_dequantize` by
    `quant.qcast` and `quant.dcast`.
    """

    name = "stablehlo-casts-to-quant"

    op_types = UniformQuantizeOp | UniformDequantizeOp
    expected = "a 'stablehlo.uniform_quantize' or a 'stablehlo.uniform_dequantize'"
    replaces_all = True
    pattern_type = StablehloCastToQuant

    def candidates(self, module: ModuleOp) -> Sequence[Operation]:
        adopt_ops(module)
        return super().candidates(module)
