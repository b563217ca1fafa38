"""
Conversion of `tosa.rescale` to a requantization between fixed-point types:
`quant.scast`, `quant.dcast`, `quant.qcast` and `quant.scast`.

If `lower-quant-ops` has the same option `scale-rounding`, results are bit-identical to
TOSA. The pass fails if the rounding mode of an op differs from this option and a shift
exceeds 31: up to 31, both modes round once. `INEXACT_ROUND` accepts either rounding.

The op holds the ratio of two scales, not the scales. If storage casts around the op have
fixed-point types with this ratio, the pass uses these types. Otherwise the result scale is
1, or the smallest power of two for which the source scale is at least `2**-32`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tosa
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.diagnostics import refuse, refusing
from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from xdsl_quant.dialects.quant.fixed_point_types import FixedPointType
from xdsl_quant.dialects.quant.ops import fixed_point_type_of
from xdsl_quant.dialects.quant.storage_types import MAX_STORAGE_BITS
from xdsl_quant.dialects.quant.types import (
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
    uniform_type,
    with_element_type,
)
from xdsl_quant.frontends.tosa.rescale import INEXACT_ROUND, ROUNDING_MODES, Rescale
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    element_type_of,
    shape_of,
)
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern, PatternPass
from xdsl_quant.transforms.quant.quant_scales_to_fixed_point import fixed_point_type


class RequantizationTypes(NamedTuple):
    """Source and target types of a requantization."""

    source: FixedPointType
    target: FixedPointType


def requantization_types(rescale: Rescale, op: tosa.RescaleOp) -> RequantizationTypes:
    """
    Return types whose ratio of scales is that of a `tosa.rescale`.

    Args:
        rescale: the parameters of the op.
        op: the op, for its operand and result types.

    Raises:
        ValueError: if integers exceed 32 bits, or a ratio of scales is below `2**-60`.
        VerifyException: if a zero point is not representable in the storage type.
    """
    for value in (op.input, op.output):
        width = cast(IntegerType, element_type_of(value)).bitwidth
        if width > MAX_STORAGE_BITS:
            raise ValueError(
                f"unsupported element width {width}; expected at most "
                f"{MAX_STORAGE_BITS} bits"
            )
    ratios = rescale.scales
    # Scale both types up until the source scale is at least 2**-32 (0.5 * 2**-31).
    shifts = np.maximum(-31 - np.frexp(ratios)[1], 0)
    if shifts.max() > 28:
        raise ValueError(
            f"scale {ratios.min()} is too small for a ratio of fixed-point scales; "
            "expected at least 2**-60"
        )
    return RequantizationTypes(
        _requantization_type(
            np.ldexp(ratios, shifts), rescale.input_zp, rescale.input_unsigned, op.input
        ),
        _requantization_type(
            np.ldexp(1.0, shifts), rescale.output_zp, rescale.output_unsigned, op.output
        ),
    )


def _requantization_type(
    scales: NDArray[np.float64], zero_point: int, is_unsigned: bool, value: SSAValue
) -> FixedPointType:
    """Return a type with these scales, per-axis along the last dimension if they differ."""
    width = cast(IntegerType, element_type_of(value)).bitwidth
    storage = f"{'u' if is_unsigned else 'i'}{width}"
    if (scales == scales[0]).all():
        parameters = QuantizationParameters(
            float(scales[0]), zero_point, storage=storage
        )
    else:
        parameters = QuantizationParameters(
            scales,
            np.full(scales.size, zero_point),
            storage=storage,
            quantized_dimension=len(shape_of(value)) - 1,
        )
    type_ = uniform_type(parameters)
    return fixed_point_type(
        cast("UniformQuantizedType | UniformQuantizedPerAxisType", type_)
    )


def _types_around(op: tosa.RescaleOp) -> Iterator[RequantizationTypes]:
    """Yield the fixed-point types of storage casts before and after the op."""
    source = op.input.owner
    if not isinstance(source, StorageCastOp):
        return
    if (source_type := fixed_point_type_of(source.input)) is None:
        return
    for use in op.output.uses:
        if isinstance(user := use.operation, StorageCastOp):
            target_type = fixed_point_type_of(user.result)
            # A rescale clamps to the full range of the storage type.
            if (
                target_type is not None
                and target_type.storage_range == target_type.full_storage_range
                and target_type.expressed_type == source_type.expressed_type
            ):
                yield RequantizationTypes(source_type, target_type)


@dataclass(frozen=True)
class RescaleToQuant(CheckedPattern[RequantizationTypes]):
    """
    Replace a `tosa.rescale` with constant operands by casts between fixed-point types.
    Raise `PassFailedException` if the casts do not compute the same values.
    """

    scale_rounding: ScaleRounding = "single"
    """Rounding of the product of an integer and a multiplier in the lowered casts."""

    def plan(self, op: Operation) -> RequantizationTypes | None:
        if not isinstance(op, tosa.RescaleOp):
            return None
        with refusing(op, "cannot be converted"):
            rescale = Rescale.of(op)
            for types in _types_around(op):
                if self._computes(types, rescale, op):
                    return types
            types = requantization_types(rescale, op)
        if self._computes(types, rescale, op):
            return types
        mode, rounding = rescale.rounding_mode, self.scale_rounding
        other_rounding: ScaleRounding = "single" if rounding == "double" else "double"
        if RescaleToQuant(other_rounding)._computes(types, rescale, op):
            reason = f"rounding mode {mode} differs from scale-rounding={rounding}"
            remedy = f"use scale-rounding={other_rounding}"
        else:
            least = rescale.multipliers.min()
            reason = f"{mode} depends on the normalization of multiplier {least}"
            remedy = f"expected at least {1 << 30}"
        refuse(op, "cannot be converted", reason, remedy)

    def _computes(
        self, types: RequantizationTypes, rescale: Rescale, op: tosa.RescaleOp
    ) -> bool:
        try:
            requantization = Rescale.of_types(
                *types, len(shape_of(op.input)), self.scale_rounding
            )
        except ValueError:
            return False
        modes: Sequence[tosa.RoundingMode] = (rescale.rounding_mode,)
        if rescale.rounding_mode == INEXACT_ROUND:
            modes = [*ROUNDING_MODES.values()]
        return any(
            replace(rescale, rounding_mode=mode).has_results_of(requantization)
            for mode in modes
        )

    def rewrite(
        self, op: Operation, plan: RequantizationTypes, rewriter: PatternRewriter
    ) -> None:
        rescale = cast(tosa.RescaleOp, op)
        builder = LoweringBuilder.before(op)
        value: SSAValue = rescale.input
        for cast_type, element_type in (
            (StorageCastOp, plan.source),
            (DequantizeCastOp, plan.source.expressed_type),
            (QuantizeCastOp, plan.target),
            (StorageCastOp, plan.target.signless_storage_type),
        ):
            type_ = with_element_type(rescale.output.type, element_type)
            value = builder.op(cast_type, (value,), type_)
        constants = {operand.owner: None for operand in op.operands[1:]}
        rewriter.replace(op, (), (value,))
        for constant in constants:
            if isinstance(constant, tosa.ConstOp) and not constant.output.first_use:
                rewriter.erase(constant)


@dataclass(frozen=True)
class TosaRescaleToQuantPass(PatternPass):
    """Replace `tosa.rescale` by casts between fixed-point types."""

    name = "tosa-rescale-to-quant"
    pattern_type = RescaleToQuant
    op_types = tosa.RescaleOp
    expected = "a 'tosa.rescale'"

    scale_rounding: ScaleRounding = "single"
    """Rounding of the integer product; pass the same value to `lower-quant-ops`."""
