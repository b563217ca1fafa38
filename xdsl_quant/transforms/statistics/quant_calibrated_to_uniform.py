"""
Choose uniform types for the ranges of calibrated ones.

The range is widened to contain 0, which always has a stored value: otherwise
[`choose_parameters`][xdsl_quant.numerics.choose_parameters], from which scale and zero
point come by the rule `exact`, would move it and cut values off. It is also widened where
the expressed type, f16 for example, has no scale that is so small.

Calibrated types are replaced wherever values have them, also inside of other types, such
as tuples and memrefs, and in signatures. One that comes from a `quant.qcast` with ranges
for each index of an axis, and is used by `quant.dcast` alone, becomes per-axis. All types
are chosen before the first is replaced.
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeGuard, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.diagnostics import fail, refusing
from xdsl_quant.dialects.quant import (
    CalibratedQuantizedType,
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedType,
)
from xdsl_quant.dialects.quant.fake_quantization import Storage, quantized_counterpart
from xdsl_quant.dialects.quant.float_formats import FLOAT_FORMATS
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.transforms.building.quantized_type_conversion import (
    QuantizedTypeConversion,
    QuantizedTypePass,
    TypeChanges,
)
from xdsl_quant.transforms.building.type_replacement import defined_values

from .ranges.value_ranges import AXIS, AXIS_STATS, calibrated_ranges


@dataclass(frozen=True)
class CalibratedToUniform(QuantizedTypeConversion):
    """
    Replace calibrated types by uniform ones, also inside of other types: in the types of
    the values that an op defines, and in the signature of a function.
    """

    storage: Storage
    """Width and signedness of stored values, and the restrictions of their range."""

    per_axis: Literal["auto", "never"] = "auto"
    """
    True if a value becomes per-axis if there are ranges for each index of an axis.
    """

    def plan(self, op: Operation) -> TypeChanges | None:
        with refusing(op, "cannot be converted"):
            values = [(v, self.converted(v.type)) for v in defined_values(op)]
            if self._becomes_per_axis(op):
                ranges = _ranges_along_axis(op)
                values = [(op.result, self.counterpart(op.input.type, *ranges))]
            signature = isinstance(op, FuncOp) and self.converted(op.function_type)
        changes = TypeChanges(
            [(value, type_) for value, type_ in values if value.type != type_],
            [(op.properties, "function_type", signature)]
            if signature and signature != op.properties["function_type"]
            else [],
        )
        return changes if any(changes) else None

    def rewrite(
        self, op: Operation, plan: TypeChanges, rewriter: PatternRewriter
    ) -> None:
        super().rewrite(op, plan, rewriter)
        if plan.values and isinstance(op, QuantizeCastOp):
            op.attributes.pop(AXIS, None)
            op.attributes.pop(AXIS_STATS, None)

    def convert(self, quantized_type: QuantizedType) -> QuantizedType:
        if not isinstance(quantized_type, CalibratedQuantizedType):
            return quantized_type
        low, high = quantized_type.min.data, quantized_type.max.data
        uniform = self.counterpart(quantized_type.expressed_type, low, high)
        return cast(QuantizedType, uniform)

    def counterpart(
        self,
        expressed: Attribute,
        lows: ArrayLike,
        highs: ArrayLike,
        axis: int | None = None,
    ) -> Attribute:
        """
        Return the type of values with a range, or a range for each index of an axis.
        """
        lows, highs = _widened_ranges(lows, highs, expressed, self.storage)
        return quantized_counterpart(
            expressed, lows, highs, self.storage, axis, rule="exact"
        )

    def _becomes_per_axis(self, op: Operation) -> TypeGuard[QuantizeCastOp]:
        return (
            self.per_axis == "auto"
            and isinstance(op, QuantizeCastOp)
            and isinstance(
                scalar_or_element_type(op.result.type), CalibratedQuantizedType
            )
            and AXIS_STATS in op.attributes
            and all(
                isinstance(use.operation, DequantizeCastOp) for use in op.result.uses
            )
        )


def _widened_ranges(
    lows: ArrayLike, highs: ArrayLike, type_: Attribute, storage: Storage
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """
    Ranges that contain 0. Where the scale would be denormal in the expressed type, it is
    one of its numbers: rounding it to one might cut up to a third of the range off.
    """
    expressed_type = scalar_or_element_type(type_)
    assert isinstance(expressed_type, AnyFloat)
    float_format = FLOAT_FORMATS[type(expressed_type)]
    lows = np.asarray(np.minimum(lows, 0.0))
    highs = np.asarray(np.maximum(highs, 0.0))
    is_symmetric, steps = storage.is_symmetric, storage.step_count
    smallest_normal = math.ldexp(1.0, float_format.min_exponent)
    # What is too large for f64 is not denormal.
    with np.errstate(over="ignore", invalid="ignore"):
        widths = 2 * np.maximum(-lows, highs) if is_symmetric else highs - lows
        scales = np.ceil(widths / float_format.smallest / steps) * float_format.smallest
        is_denormal = (scales > 0) & (scales < smallest_normal)
        first = scales * (-steps / 2) if is_symmetric else lows
        return (
            np.where(is_denormal, first, lows),
            np.where(is_denormal, first + scales * steps, highs),
        )


def _ranges_along_axis(
    qcast: QuantizeCastOp,
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """
    Return the smallest and the largest value for each index of an axis, and the axis.

    Raises:
        PassFailedException: if the attributes are not those of
            `quant-stats-to-calibrated`.
    """
    type_ = scalar_or_element_type(qcast.result.type)
    assert isinstance(type_, CalibratedQuantizedType)
    try:
        _, axis, pairs = calibrated_ranges(type_, qcast.attributes)
    except ValueError as e:
        fail(qcast, f"'{qcast.name}' op {e}")
    assert axis is not None
    assert pairs is not None
    return pairs[:, 0], pairs[:, 1], axis


@dataclass(frozen=True)
class QuantCalibratedToUniformPass(QuantizedTypePass):
    """
    Replace `!quant.calibrated` by `!quant.uniform`, with scales and zero points that follow
    from the ranges.
    """

    name = "quant-calibrated-to-uniform"
    expected = "values of '!quant.calibrated'"

    bits: int = 8
    """Number of bits of a stored value."""

    signed: bool = True
    """True if stored values are signed."""

    symmetric: bool = False
    """True if the zero point is in the middle, and the range as large on both sides."""

    narrow_range: bool = False
    """True if the smallest stored value is left out."""

    per_axis: Literal["auto", "never"] = "auto"
    """
    True if a value becomes per-axis if there are ranges for each index of an axis.
    """

    def pattern(self) -> CalibratedToUniform:
        storage = Storage(self.bits, self.signed, self.narrow_range, self.symmetric)
        return CalibratedToUniform(storage, self.per_axis)
