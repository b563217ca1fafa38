"""
Conversion of StableHLO's quantization casts to the quant dialect.

In StableHLO's specification, `uniform_quantize` clamps, then rounds half to even, and
stores 0 for NaN. Each `quant.qcast` gets the attributes `quant.rounding_mode`,
`quant.zero_point_order` and `quant.nan` with these values, or with those of the
`uniform_quantize` if it has such attributes. Lowerings and execution respect them, and a
`quant.dcast` of the `quant.qcast` does not fold away. Lowerings round before they clamp,
which is equivalent because the bounds are integers.

`uniform_dequantize` is equivalent to `quant.dcast`. A requantization, `uniform_quantize` of
a quantized tensor, becomes a dequantization and a quantization.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp, QuantizedType
from xdsl_quant.dialects.quant.ops import cast_rounding, rounding_attributes
from xdsl_quant.frontends.stablehlo.dialect import (
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.checked_patterns import PatternPass
from xdsl_quant.transforms.building.dequantize_fallback import replace_with_built

from .adoption import adopt_ops

STABLEHLO_ROUNDING = Rounding("nearest-even", "before-rounding", "stored-zero")
"""Rounding of `uniform_quantize` without attributes."""

ONNX_ROUNDING = Rounding("nearest-even", "after-rounding", "storage-min")
"""Rounding of ONNX's `QuantizeLinear` to integers; for NaN, that of onnxruntime."""


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
                rounding = cast_rounding(op, STABLEHLO_ROUNDING)
                cast_op.attributes |= rounding_attributes(rounding)
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
