"""Ops of TensorFlow Lite along the last dimension, in TOSA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects import tfl
from xdsl_quant.numerics.tflite import rows

from .building import Operand, TosaBuilder, Unsupported, per_tensor
from .elementwise import Lowering, stored
from .expressions import quantized


def _softmax(builder: TosaBuilder, op: tfl.SoftmaxOp, x: Operand) -> SSAValue:
    if x.parameters.storage_width != 8:
        raise Unsupported("has values of 16 bits, for which TOSA has no such table")
    beta = cast(Any, op.beta).value.data
    return stored(op, rows.softmax(quantized(x), per_tensor(op.output.type), beta))


def _log_softmax(builder: TosaBuilder, op: tfl.LogSoftmaxOp, x: Operand) -> SSAValue:
    return stored(op, rows.log_softmax(quantized(x), per_tensor(op.output.type)))


LOWERINGS: Mapping[type[Operation], Lowering] = {
    tfl.SoftmaxOp: _softmax,
    tfl.LogSoftmaxOp: _log_softmax,
}
"""The ops along the last dimension."""
