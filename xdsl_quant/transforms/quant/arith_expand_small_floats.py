"""
Lower conversions to and from floats of at most 8 bits to integer arithmetic on their
bit patterns, because neither MLIR nor LLVM converts all of these types.

`arith.truncf` rounds half to even in a single step. Numbers out of range become infinite,
as in `ml_dtypes`, or NaN in types without infinities. They saturate in types without
infinities and NaN. `quant.qcast`, in contrast, always saturates.

Conversions from `f8E5M2FNUZ` and ops with a rounding mode attribute are not lowered.
"""

from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.machines.arith import FloatExpression
from xdsl_quant.numerics.small_floats import SMALL_FLOATS, SmallFloat
from xdsl_quant.transforms.building.builder import LoweringBuilder, dimensions
from xdsl_quant.transforms.building.checked_patterns import PatternPass
from xdsl_quant.transforms.building.codec_arithmetic import (
    decode_small_float,
    encode_small_float,
)


class ExpandSmallFloatConversion(RewritePattern):
    """Lower `arith.extf` and `arith.truncf` of scalars and ranked tensors."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        if not isinstance(op, arith.ExtFOp | arith.TruncFOp):
            return
        target, source = _float_type_of(op.result.type), _float_type_of(op.input.type)
        if "roundingmode" in {**op.properties, **op.attributes}:
            return
        if min(source.bitwidth, target.bitwidth) > 8:
            return
        formats = SMALL_FLOATS.get(source.name), SMALL_FLOATS.get(target.name)
        if not any(formats) or (formats[0] and not formats[0].is_part_of_f16):
            return
        builder = LoweringBuilder.before(op)
        type_ = op.result.type
        if not isinstance(type_, AnyFloat | TensorType):
            fail(
                op,
                f"'{op.name}' op converts between '{op.input.type}' and '{type_}': "
                "expected floats or ranked tensors; unroll vectors first",
            )
        if not isinstance(type_, TensorType):
            result = _converted_float(builder, op.input, target, formats)
        else:
            loops = dimensions(range(len(type_.get_shape())))
            result = builder.map(
                [(op.input, loops)],
                cast(TensorType, type_),
                builder.sizes(op.input),
                lambda inner, args: _converted_float(inner, args[0], target, formats),
            )
        rewriter.replace(op, (), (result,))


def _float_type_of(type_: Attribute) -> AnyFloat:
    """Return the type of a float, or the element type of a tensor or vector."""
    if isinstance(type_, VectorType):
        return cast(AnyFloat, type_.element_type)
    return cast(AnyFloat, scalar_or_element_type(type_))


def _converted_float(
    builder: LoweringBuilder,
    value: SSAValue,
    target: AnyFloat,
    formats: tuple[SmallFloat | None, SmallFloat | None],
) -> SSAValue:
    """Convert a float; `formats` has `None` for a type that is not a small float."""
    source_format, target_format = formats
    number = FloatExpression(builder, value)
    if source_format is not None:
        storage = IntegerType(source_format.bits)
        code = builder.op(arith.BitcastOp, (value,), storage)
        number = decode_small_float(builder, code, source_format)
    if target_format is None:
        return number.as_float(target).value
    code = encode_small_float(number, target_format)
    return builder.op(arith.BitcastOp, (code,), target)


# Pass


@dataclass(frozen=True)
class ArithExpandSmallFloatsPass(PatternPass):
    """Lower `arith.extf` and `arith.truncf` of small floats to integer arithmetic."""

    name = "arith-expand-small-floats"
    pattern_type = ExpandSmallFloatConversion
    op_types = arith.ExtFOp | arith.TruncFOp
    expected = "conversions of floats of at most 8 bits"
