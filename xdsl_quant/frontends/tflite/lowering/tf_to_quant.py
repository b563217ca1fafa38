"""
Conversion of TensorFlow's fake quantization to casts of the quant dialect.

The types are those of the pass of this name in LiteRT's converter: signed storage of 4, 8
or 16 bits, the smallest width with `num_bits` bits. A range without 0 is shifted, one
narrower than `1e-6` is widened.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, TypeAttribute
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.diagnostics import refuse, refusing
from xdsl_quant.dialects.quant.fake_quantization import Storage, quantized_counterpart
from xdsl_quant.frontends.tflite.dialect.tf import (
    FakeQuantWithMinMaxVarsPerChannelOp,
    TFFakeQuantOp,
)
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import constant_elements
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern, PatternPass
from xdsl_quant.transforms.statistics.ranges.fake_quantization import cast_pair

_NARROWEST = 1e-6
"""Width below which ranges are widened."""


def _ranges_with_margin(lows: Array, highs: Array) -> tuple[Array, Array]:
    """Widen narrow and reversed ranges to 0 and a margin on either side."""
    is_narrow, margin = highs - lows < _NARROWEST, _NARROWEST / 2
    return (
        np.where(is_narrow, np.minimum(lows, -margin), lows),
        np.where(is_narrow, np.maximum(highs, margin), highs),
    )


@dataclass(frozen=True)
class ConvertTFFakeQuant(CheckedPattern[TypeAttribute]):
    """
    Replace `tf.FakeQuantWithMinMaxVars` and `tf.FakeQuantWithMinMaxVarsPerChannel` by
    `quant.qcast` and `quant.dcast`. Raises `PassFailedException` if a range is not constant
    or not finite.
    """

    def plan(self, op: Operation) -> TypeAttribute | None:
        if not isinstance(op, TFFakeQuantOp):
            return None
        problem, type_ = "cannot be converted", op.outputs.type
        axis = None
        if isinstance(op, FakeQuantWithMinMaxVarsPerChannelOp):
            if not isinstance(type_, TensorType):
                refuse(op, problem, f"expected a ranked tensor, found type '{type_}'")
            axis = len(type_.get_shape()) - 1
        bounds: list[Array] = []
        for name, value in (("min", op.min), ("max", op.max)):
            if (elements := constant_elements(value)) is None:
                remedy = "fold the constants first"
                refuse(op, problem, f"expected a constant {name}", remedy)
            bounds.append(elements.astype(np.float64))
            if not np.isfinite(bounds[-1]).all():
                refuse(op, problem, f"expected finite numbers as {name}")
        bits = op.num_bits.value.data
        storage = Storage(
            next(width for width in (4, 8, 16) if bits <= width),
            is_narrow=bool(op.narrow_range.value.data),
        )
        with refusing(op, problem):
            lows, highs = _ranges_with_margin(*bounds)
            return quantized_counterpart(
                type_, lows, highs, storage, axis, rule="exact"
            )

    def rewrite(
        self, op: Operation, plan: TypeAttribute, rewriter: PatternRewriter
    ) -> None:
        rewriter.replace(op, cast_pair(op.operands[0], plan, op.location))


@dataclass(frozen=True)
class TFToQuantPass(PatternPass):
    """Replace TensorFlow's fake quantization by `quant.qcast` and `quant.dcast`."""

    name = "tf-to-quant"
    pattern_type = ConvertTFFakeQuant
    op_types = TFFakeQuantOp
    expected = "a 'tf.FakeQuantWithMinMaxVars'"
