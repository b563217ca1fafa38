"""
Conversion of casts of the quant dialect to StableHLO ops.

StableHLO rounds half to even and stores 0 for NaN. Results are those of
`lower-quant-ops{rounding-mode=nearest-even nan=stored-zero}`, not those of MLIR's default
rounding, unless the cast states another rounding by its attributes `quant.rounding_mode`,
`quant.zero_point_order` and `quant.nan`. The StableHLO cast then keeps these attributes;
passes of this package respect them, other StableHLO tools do not.
"""

from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.diagnostics import refuse, refusing
from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp
from xdsl_quant.dialects.quant.dynamic_ops import DynamicCastOp
from xdsl_quant.dialects.quant.ops import rounding_attributes
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo.dialect import (
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from xdsl_quant.frontends.stablehlo.dialect.tensor_kinds import element_kind
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern, PatternPass

from .stablehlo_casts_to_quant import STABLEHLO_ROUNDING

_PROBLEM = "cannot be converted to StableHLO"


@dataclass(frozen=True)
class QuantCastToStablehlo(CheckedPattern[type[Operation]]):
    """
    Convert `quant.qcast` to `uniform_quantize`, `quant.dcast` to `uniform_dequantize`.
    """

    def plan(self, op: Operation) -> type[Operation] | None:
        if isinstance(op, DynamicCastOp):
            refuse(
                op,
                _PROBLEM,
                "scales and zero points are operands",
                "use 'quant-casts-from-dynamic' if they are constant, otherwise "
                "'lower-quant-ops'",
            )
        if not isinstance(op, QuantizeCastOp | DequantizeCastOp):
            return None
        if not isinstance(op.result.type, TensorType):
            reason = f"expected a ranked tensor, found type '{op.result.type}'"
            refuse(op, _PROBLEM, reason)
        is_quantize = isinstance(op, QuantizeCastOp)
        quantized = (op.result if is_quantize else op.input).type
        if element_kind(scalar_or_element_type(quantized)) is None:
            refuse(
                op,
                _PROBLEM,
                "expected per-tensor or per-axis storage in integers of 2, 4, 8, 16 or 32 "
                f"bits, found type '{quantized}'",
                "use 'lower-quant-ops'",
            )
        op_type = UniformQuantizeOp if is_quantize else UniformDequantizeOp
        counterpart = _counterpart(op, op_type)
        try:
            with refusing(op, _PROBLEM):
                counterpart.verify()
        finally:
            counterpart.erase()
        return op_type

    def rewrite(
        self, op: Operation, plan: type[Operation], rewriter: PatternRewriter
    ) -> None:
        rewriter.replace(op, _counterpart(op, plan))


def _counterpart(op: Operation, op_type: type[Operation]) -> Operation:
    same = rounding_attributes(STABLEHLO_ROUNDING)
    return op_type.create(
        operands=op.operands,
        result_types=op.result_types,
        attributes={k: v for k, v in op.attributes.items() if v != same.get(k)},
        location=op.location,
    )


@dataclass(frozen=True)
class QuantCastsToStablehloPass(PatternPass):
    """Convert `quant.qcast` and `quant.dcast` to StableHLO's quantization casts."""

    name = "quant-casts-to-stablehlo"

    op_types = QuantizeCastOp | DequantizeCastOp
    expected = "a 'quant.qcast' or a 'quant.dcast'"
    pattern_type = QuantCastToStablehlo
