"""
Replace casts by dynamic casts, whose scales and zero points are constants, and a
`quant.scast` between stored and quantized values.

Results are unchanged: a cast whose results could change is refused. The compute type of
a typed cast represents the zero points of its type. The compute type of a dynamic cast
represents all integers of the storage type, and may thus be wider. An example is storage
`i8<-8:7>` with expressed type `bf16`.

`quant-casts-from-dynamic`, which `canonicalize` includes, is the inverse.
"""

from dataclasses import dataclass

from xdsl.dialects.builtin import NoneAttr, UnrankedTensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.diagnostics import refuse
from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    DequantizeCastOp,
    DynamicDequantizeCastOp,
    DynamicQuantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
)
from xdsl_quant.dialects.quant.types import (
    UniformType,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern, PatternPass
from xdsl_quant.transforms.building.quantization_arithmetic import (
    Dequantization,
    cast_compute_type,
    unsupported_cast_reason,
)

CastOp = QuantizeCastOp | DequantizeCastOp


@dataclass(frozen=True)
class TypedCastToDynamic(CheckedPattern[UniformType]):
    """Replace `quant.qcast` and `quant.dcast` by casts with constant operands."""

    def plan(self, op: Operation) -> UniformType | None:
        if not isinstance(op, CastOp):
            return None
        quantized = op.result if isinstance(op, QuantizeCastOp) else op.input
        quantized_type = scalar_or_element_type(quantized.type)
        reason = unsupported_cast_reason(quantized_type, needs_integers=False)
        if reason is None and not isinstance(quantized_type, UniformType):
            reason = f"type '{quantized_type}' has no floating-point scales"
        if reason is None:
            assert isinstance(quantized_type, UniformType)
            reason = _unsupported_operands_reason(quantized_type, quantized.type)
            if reason is None:
                return quantized_type
        refuse(op, "cannot be converted to a dynamic cast", reason)

    def rewrite(
        self, op: Operation, plan: UniformType, rewriter: PatternRewriter
    ) -> None:
        assert isinstance(op, CastOp)
        builder = LoweringBuilder.before(op)
        storage = AnyQuantizedType.new((NoneAttr(), *plan.common_parameters[1:]))
        blocks = dict(plan.block_size_info)
        scale, zero_point = _constants(builder, plan)
        stored_type = with_element_type(op.result.type, plan.stored_type)
        if isinstance(op, QuantizeCastOp):
            cast_op = DynamicQuantizeCastOp(
                op.input, scale, zero_point, stored_type, storage, blocks
            )
            cast_op.attributes.update(op.attributes)
            stored = builder.add(cast_op)
            result = builder.op(StorageCastOp, (stored,), op.result.type)
        else:
            stored = builder.op(StorageCastOp, (op.input,), stored_type)
            cast_op = DynamicDequantizeCastOp(
                stored, scale, zero_point, op.result.type, storage, blocks
            )
            cast_op.attributes.update(op.attributes)
            result = builder.add(cast_op)
        rewriter.replace(op, (), (result,))


def _unsupported_operands_reason(
    quantized_type: UniformType, container: Attribute
) -> str | None:
    """Return the reason why a cast cannot become dynamic, or `None` if it can."""
    if isinstance(container, UnrankedTensorType) and not quantized_type.is_per_tensor:
        return f"'{container}' is unranked, expected a ranked tensor"
    has_zero_points = not quantized_type.is_fixed_point
    if has_zero_points and not quantized_type.has_integer_storage:
        return (
            f"zero points of storage type '{quantized_type.short_storage_name}' cannot be "
            "operands"
        )
    if not keeps_compute_type(quantized_type, has_zero_points):
        return (
            f"it would compute '{quantized_type}' in a wider float type, which "
            "holds all zero points"
        )
    return None


def keeps_compute_type(quantized_type: UniformType, has_zero_points: bool) -> bool:
    """
    Return True if a cast keeps its compute type when it becomes dynamic.

    Args:
        quantized_type: the type.
        has_zero_points: True if zero points become operands.
    """
    dynamic = quantized_type.full_storage_range if has_zero_points else (0, 0)
    first, second = (
        cast_compute_type(quantized_type, zero_point_range, "nearest-even")
        for zero_point_range in (quantized_type.zero_point_range, dynamic)
    )
    return first == second


def _constants(
    builder: LoweringBuilder, quantized_type: UniformType
) -> tuple[SSAValue, SSAValue | None]:
    """Build constants for the scales and, unless all are 0, the zero points."""
    casts = Dequantization(quantized_type, Rounding("truncate"), fuse=True)
    # Operands have the expressed type, not the compute type.
    casts.computed = casts.expressed
    layout = casts.layout
    operands = (
        casts.constants(builder)
        if layout is None
        else casts.parameters(builder, layout)
    )
    return operands["scale"], operands.get("zero_point")


# Pass


@dataclass(frozen=True)
class QuantCastsToDynamicPass(PatternPass):
    """
    Replace `quant.qcast` and `quant.dcast` by `quant.dynamic_qcast` and
    `quant.dynamic_dcast`, with the scales and zero points of the type as constants.
    """

    name = "quant-casts-to-dynamic"
    pattern_type = TypedCastToDynamic
    op_types = CastOp
    expected = "a 'quant.qcast' or 'quant.dcast'"
