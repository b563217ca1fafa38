"""
Conversion of the fake quantization of TensorFlow and of TensorFlow Lite to casts of the
quant dialect.

The types are those of the pass of this name in LiteRT's converter: signed storage of 4, 8
or 16 bits, the smallest width with `num_bits` bits. A range without 0 is shifted, one
narrower than `1e-6` is widened.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, TensorType
from xdsl.ir import Operation, SSAValue, TypeAttribute
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.diagnostics import refuse, refusing
from xdsl_quant.dialects.quant.fake_quantization import Storage, quantized_counterpart
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.tflite.dialect import FakeQuantOp
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


_PROBLEM = "cannot be converted"


def _finite_bound(op: Operation, name: str, value: SSAValue | FloatAttr) -> Array:
    """Return a bound of the range of each channel, or refuse the op."""
    if isinstance(value, FloatAttr):
        elements = np.array(value.value.data)
    elif (elements := constant_elements(value)) is None:
        remedy = "fold the constants first"
        refuse(op, _PROBLEM, f"expected a constant {name}", remedy)
    if not np.isfinite(elements).all():
        refuse(op, _PROBLEM, f"expected finite numbers as {name}")
    return elements.astype(np.float64)


@dataclass(frozen=True)
class ConvertTFFakeQuant(CheckedPattern[TypeAttribute]):
    """
    Replace `tf.FakeQuantWithMinMaxVars`, `tf.FakeQuantWithMinMaxVarsPerChannel` and
    `tfl.fake_quant` by `quant.qcast` and `quant.dcast`. Raises `PassFailedException` if a
    range is not constant or not finite.
    """

    def plan(self, op: Operation) -> TypeAttribute | None:
        if not isinstance(op, TFFakeQuantOp | FakeQuantOp):
            return None
        problem, type_ = _PROBLEM, op.results[0].type
        element_types = {*map(scalar_or_element_type, (op.operands[0].type, type_))}
        if len(element_types) > 1 or not isinstance(element_types.pop(), AnyFloat):
            found = f"'{op.operands[0].type}' and '{type_}'"
            refuse(op, problem, f"expected tensors of one float type, found {found}")
        axis = None
        if isinstance(op, FakeQuantWithMinMaxVarsPerChannelOp):
            if not isinstance(type_, TensorType):
                refuse(op, problem, f"expected a ranked tensor, found type '{type_}'")
            axis = len(type_.get_shape()) - 1
        bounds = _finite_bound(op, "min", op.min), _finite_bound(op, "max", op.max)
        bits = op.num_bits.value.data
        storage = Storage(
            next(width for width in (4, 8, 16) if bits <= width),
            is_narrow=bool(op.narrow_range.value.data),
        )
        with refusing(op, problem):
            lows, highs = _ranges_with_margin(*bounds)
            return quantized_counterpart(
                cast(TypeAttribute, type_), lows, highs, storage, axis, rule="exact"
            )

    def rewrite(
        self, op: Operation, plan: TypeAttribute, rewriter: PatternRewriter
    ) -> None:
        rewriter.replace(op, cast_pair(op.operands[0], plan, op.location))


@dataclass(frozen=True)
class TFToQuantPass(PatternPass):
    """
    Replace the fake quantization of TensorFlow and of TensorFlow Lite by `quant.qcast` and
    `quant.dcast`.
    """

    name = "tf-to-quant"
    pattern_type = ConvertTFFakeQuant
    op_types = TFFakeQuantOp | FakeQuantOp
    expected = "a 'tf.FakeQuantWithMinMaxVars' or 'tfl.fake_quant'"
