"""
Conversion of fixed-point requantizations to TOSA: a `quant.qcast` of a `quant.dcast`,
both with fixed-point scales, becomes `tosa.rescale`.

Stored values are bit-identical to those of `lower-quant-ops` with the same
`scale-rounding`. If `tosa.rescale` does not support the `!quant.fixed_point` parameters,
the pass raises an error and leaves the module unchanged. It keeps all other casts.
"""

from dataclasses import dataclass
from typing import cast

from xdsl.dialects import tosa
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.diagnostics import refusing
from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from xdsl_quant.dialects.quant.fixed_point_types import FixedPointType
from xdsl_quant.dialects.quant.ops import requantized_dcast
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.frontends.tosa.rescale import Rescale
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern, PatternPass


def requantization_rescale(
    source: FixedPointType, result_type: Attribute, rounding: ScaleRounding
) -> Rescale:
    """
    Return the `tosa.rescale` of a requantization, without the clamp to a storage range
    narrower than the storage type.

    Args:
        source: the element type of the input.
        result_type: the type of the result, a tensor of `!quant.fixed_point`.
        rounding: the rounding of scaled values.

    Raises:
        ValueError: if `tosa.rescale` does not support the types; the message says why.
    """
    if not isinstance(result_type, TensorType):
        raise ValueError(f"expected a ranked tensor, found type '{result_type}'")
    shape, element_type = (
        result_type.get_shape(),
        cast(Attribute, result_type.element_type),
    )
    if 0 in shape:
        raise ValueError(f"a tensor of type '{result_type}' has no elements")
    target = cast(FixedPointType, element_type)
    _check_storage(source, target)
    rescale = Rescale.of_types(source, target, len(shape), rounding)
    if rescale.multipliers.size > 1 and shape[-1] == DYNAMIC_INDEX:
        raise ValueError("the quantized dimension is dynamic; expected a static size")
    _check_zero_point(source, rescale.input_zp)
    _check_zero_point(target, rescale.output_zp)
    _check_values(source, rescale)
    return rescale


def _check_storage(source: FixedPointType, target: FixedPointType) -> None:
    for type_ in (source, target):
        if type_.storage_type_integral_width not in (8, 16, 32):
            raise ValueError(
                f"unsupported storage type '{type_.storage_type_name}'; expected 8, 16 or "
                "32 bits"
            )
    for type_, other in ((source, target), (target, source)):
        if not type_.is_signed and (
            type_.storage_type_integral_width == 32
            or not other.is_signed
            or other.storage_type_integral_width == 32
        ):
            raise ValueError(
                f"unsupported storage types '{source.storage_type_name}' and "
                f"'{target.storage_type_name}'; tosa.rescale converts unsigned values of 8 "
                "or 16 bits only from or to signed values of 8 or 16 bits"
            )
    if target.storage_range != target.full_storage_range and (
        not target.is_signed or target.storage_type_integral_width == 32
    ):
        low, high = target.storage_range
        raise ValueError(
            f"storage range {low} to {high} needs a tosa.clamp of "
            f"'{target.storage_type_name}', which is unsupported"
        )


def _check_zero_point(type_: FixedPointType, zero_point: int) -> None:
    if type_.storage_type_integral_width == 8 or zero_point == 0:
        return
    if type_.is_signed or zero_point != 1 << 15:
        expected = "0" if type_.is_signed else "0 or 32768"
        raise ValueError(
            f"unsupported zero point {zero_point} of '{type_.storage_type_name}'; "
            f"expected {expected}"
        )


def _check_values(source: FixedPointType, rescale: Rescale) -> None:
    low, high = (bound - rescale.input_zp for bound in source.storage_range)
    limit = 1 << (int(rescale.shifts.min()) - 1)
    if low < -limit or high >= limit:
        raise ValueError(
            f"zero-point-corrected values from {low} to {high} are out of range for a "
            f"shift of {rescale.shifts.min()}; expected {-limit} to {limit - 1}, use a "
            "narrower storage range"
        )


@dataclass(frozen=True)
class RequantizationToTosa(CheckedPattern[Rescale]):
    """
    Lower a fixed-point `quant.qcast` of a `quant.dcast` to `tosa.rescale`. Raise
    `PassFailedException` if `tosa.rescale` does not support the types.
    """

    scale_rounding: ScaleRounding = "single"
    """Rounding of the product of an integer and a multiplier."""

    def plan(self, op: Operation) -> Rescale | None:
        if (dcast := requantized_dcast(op)) is None:
            return None
        source = cast(FixedPointType, scalar_or_element_type(dcast.input.type))
        (result,) = op.results
        with refusing(op, "cannot be converted to 'tosa.rescale'"):
            plan = requantization_rescale(source, result.type, self.scale_rounding)
        return plan

    def rewrite(self, op: Operation, plan: Rescale, rewriter: PatternRewriter) -> None:
        dcast = requantized_dcast(op)
        assert dcast is not None
        builder = LoweringBuilder.before(op)
        (result,) = op.results
        source, target = (
            cast(FixedPointType, scalar_or_element_type(value.type))
            for value in (dcast.input, result)
        )
        source_type, target_type = (
            with_element_type(result.type, type_.signless_storage_type)
            for type_ in (source, target)
        )
        stored = builder.op(StorageCastOp, (dcast.input,), source_type)
        stored = plan.build(builder, stored, cast(TensorType, target_type))
        if target.storage_range != target.full_storage_range:
            stored = _clamped_to_storage(builder, stored, target)
        rewriter.replace(op, (), (builder.op(StorageCastOp, (stored,), result.type),))
        if not dcast.result.first_use:
            rewriter.erase(dcast)


def _clamped_to_storage(
    builder: LoweringBuilder, stored: SSAValue, target: FixedPointType
) -> SSAValue:
    storage = target.signless_storage_type
    low, high = (IntegerAttr(bound, storage) for bound in target.storage_range)
    properties = {"max_val": high, "min_val": low}
    return builder.op(tosa.ClampOp, (stored,), stored.type, properties)


@dataclass(frozen=True)
class QuantRequantizeToTosaPass(PatternPass):
    """Lower requantizations between fixed-point types to `tosa.rescale`."""

    name = "quant-requantize-to-tosa"
    pattern_type = RequantizationToTosa
    op_types = QuantizeCastOp | DequantizeCastOp
    expected = "a 'quant.qcast' of a 'quant.dcast', both of '!quant.fixed_point'"

    scale_rounding: ScaleRounding = "single"
    """
    Rounding of the integer product: `single` (SINGLE_ROUND) or `double` (DOUBLE_ROUND).
    """
