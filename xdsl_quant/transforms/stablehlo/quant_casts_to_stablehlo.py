"""
The casts of the quant dialect as StableHLO's.

StableHLO rounds to nearest, ties to even, and stores 0 for NaN, so the numbers are those of
`lower-quant-ops{rounding-mode=nearest-even nan=stored-zero}`, and not of MLIR's own
rounding. The attribute `quant.nan` of a cast goes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp
from xdsl_quant.dialects.quant.nan_result import NAN_ATTRIBUTE
from xdsl_quant.dialects.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from xdsl_quant.transforms.building.garbage_collection import without_garbage_collection

_CastOp = QuantizeCastOp | DequantizeCastOp


def _counterpart(op: _CastOp) -> Operation:
    counterpart = (
        UniformQuantizeOp if isinstance(op, QuantizeCastOp) else UniformDequantizeOp
    )
    attributes = {k: v for k, v in op.attributes.items() if k != NAN_ATTRIBUTE}
    return counterpart.create(
        operands=op.operands,
        result_types=op.result_types,
        attributes=attributes,
        location=op.location,
    )


def _check(op: _CastOp) -> None:
    if not isinstance(op.result.type, TensorType):
        fail(
            op,
            f"'{op.name}' op cannot become a StableHLO op: these take ranked tensors, but "
            f"the type is '{op.result.type}'",
        )
    counterpart = _counterpart(op)
    try:
        counterpart.verify()
    except VerifyException as e:
        fail(op, f"'{op.name}' op cannot become a StableHLO op: {e}")
    finally:
        counterpart.erase()


@dataclass(frozen=True)
class QuantCastsToStablehloPass(ModulePass):
    """
    Replace `quant.qcast` and `quant.dcast` by `stablehlo.uniform_quantize` and
    `stablehlo.uniform_dequantize`.
    """

    name = "quant-casts-to-stablehlo"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        casts = [o for o in op.walk() if isinstance(o, _CastOp)]
        for cast_op in casts:
            _check(cast_op)
        with without_garbage_collection():
            for cast_op in casts:
                Rewriter.replace_op(cast_op, _counterpart(cast_op))
