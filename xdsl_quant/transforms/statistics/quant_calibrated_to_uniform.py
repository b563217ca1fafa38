"""
Convert calibrated types to uniform types that cover their ranges.

[`choose_parameters`][xdsl_quant.numerics.choose_parameters] computes scale and zero
point by the rule `exact`. Ranges are first widened to contain 0, because the rule shifts
ranges without 0 and thus clamps values. Ranges are also widened if their scale is too
small for the expressed type, e.g. f16.

The pass replaces calibrated types everywhere: in types such as tuples, and in signatures.
The result of a `quant.qcast` with per-axis ranges becomes per-axis if all users are
`quant.dcast`. An error leaves the module unchanged.
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
    """Replace calibrated types in values and function signatures by uniform ones."""

    storage: Storage
    """Width, signedness and range restrictions of stored values."""

    per_axis: Literal["auto", "never"] = "auto"
    """Per-axis types if per-axis ranges exist (`auto`), or never."""

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
        """Return the quantized type for a range, or one range per index of an axis."""
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
    Widen ranges to contain 0 and to have a normal scale in the expressed type: rounding
    a subnormal scale could clamp up to a third of the range.
    """
    expressed_type = scalar_or_element_type(type_)
    assert isinstance(expressed_type, AnyFloat)
    float_format = FLOAT_FORMATS[type(expressed_type)]
    lows = np.asarray(np.minimum(lows, 0.0))
    highs = np.asarray(np.maximum(highs, 0.0))
    is_symmetric, steps = storage.is_symmetric, storage.step_count
    smallest_normal = math.ldexp(1.0, float_format.min_exponent)
    # Widths that overflow f64 have no subnormal scale.
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
    Return the minima and maxima per index of an axis, and the axis.

    Raises:
        PassFailedException: if the attributes are not from `quant-stats-to-calibrated`.
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
    """Replace `!quant.calibrated` by `!quant.uniform` types that cover the ranges."""

    name = "quant-calibrated-to-uniform"
    expected = "values of '!quant.calibrated'"

    bits: int = 8
    """Bits per stored value."""

    signed: bool = True
    """True for signed stored values."""

    symmetric: bool = False
    """True for a range symmetric around 0, with the zero point in the middle."""

    narrow_range: bool = False
    """True to exclude the smallest stored value."""

    per_axis: Literal["auto", "never"] = "auto"
    """Per-axis types if per-axis ranges exist (`auto`), or never (`never`)."""

    def pattern(self) -> CalibratedToUniform:
        storage = Storage(self.bits, self.signed, self.narrow_range, self.symmetric)
        return CalibratedToUniform(storage, self.per_axis)
