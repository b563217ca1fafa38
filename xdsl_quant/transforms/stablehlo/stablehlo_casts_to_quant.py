"""
StableHLO's casts as those of the quant dialect.

`uniform_quantize` is defined as a clamp and then rounding to nearest, ties to even;
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

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp, QuantizedType
from xdsl_quant.dialects.quant.nan_result import NAN_ATTRIBUTE
from xdsl_quant.dialects.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.garbage_collection import without_garbage_collection

_CastOp = UniformQuantizeOp | UniformDequantizeOp

_STORED_ZERO = StringAttr("stored-zero")


def _replace(op: _CastOp) -> None:
    builder = LoweringBuilder.before(op)
    value = op.operand
    expressed = QuantizedType.cast_to_expressed_type(value.type)
    if expressed is not None:
        value = builder.op(DequantizeCastOp, (value,), expressed)
    if isinstance(op, UniformQuantizeOp):
        cast_op = QuantizeCastOp(value, op.result.type)
        cast_op.attributes[NAN_ATTRIBUTE] = _STORED_ZERO
        value = builder.add(cast_op)
    builder.replace(op, (value,))


@dataclass(frozen=True)
class StablehloCastsToQuantPass(ModulePass):
    """
    Replace `stablehlo.uniform_quantize` and `stablehlo.uniform_dequantize` by
    `quant.qcast` and `quant.dcast`.
    """

    name = "stablehlo-casts-to-quant"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        casts = [o for o in op.walk() if isinstance(o, _CastOp)]
        with without_garbage_collection():
            for cast_op in casts:
                _replace(cast_op)
