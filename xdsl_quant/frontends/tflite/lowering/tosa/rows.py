"""Ops of TensorFlow Lite along the last dimension, in TOSA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.formulas import rows
from xdsl_quant.unsupported import Unsupported

from .building import Operand, TosaBuilder, is_unsigned, per_tensor
from .elementwise import Lowering, stored
from .expressions import quantized


def _softmax(builder: TosaBuilder, op: tfl.SoftmaxOp, x: Operand) -> SSAValue:
    # The kernel computes with 32 bits but for products.
    builder.assumes_32_bits = True
    beta = cast(Any, op.beta).value.data
    return stored(op, rows.softmax(quantized(x), per_tensor(op.output.type), beta))


def _log_softmax(builder: TosaBuilder, op: tfl.LogSoftmaxOp, x: Operand) -> SSAValue:
    # The kernel computes with 32 bits but for products.
    builder.assumes_32_bits = True
    return stored(op, rows.log_softmax(quantized(x), per_tensor(op.output.type)))


def _l2_normalization(
    builder: TosaBuilder, op: tfl.L2NormalizationOp, x: Operand
) -> SSAValue:
    if is_unsigned(x.type):
        raise Unsupported("has unsigned values, for which there is another kernel")
    return stored(op, rows.l2_normalization(quantized(x), per_tensor(op.output.type)))


LOWERINGS: Mapping[type[Operation], Lowering] = {
    tfl.SoftmaxOp: _softmax,
    tfl.LogSoftmaxOp: _log_softmax,
    tfl.L2NormalizationOp: _l2_normalization,
}
"""The ops along the last dimension."""
