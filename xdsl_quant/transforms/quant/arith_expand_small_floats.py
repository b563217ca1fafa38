"""
Replace conversions to and from floats of at most 8 bits with integer arithmetic on their
codes, since neither MLIR nor LLVM converts all of these types.

`arith.truncf` rounds half to even, once. Numbers that are too large become infinite, NaN or
the largest number, whichever of these the type has first, as in `ml_dtypes`; unlike
`quant.qcast`, it does not saturate where the type has infinities or NaN.

`f8E5M2FNUZ` is converted to only. A conversion that has a rounding mode stays as it is.
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
from xdsl_quant.transforms.building.codec_arithmetic import decoded, encoded


class ExpandSmallFloatConversion(RewritePattern):
    """Replace one `arith.extf` or `arith.truncf` of a scalar or a ranked tensor."""

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
    """Return the type of a float, or of the elements of a tensor or vector."""
    if isinstance(type_, VectorType):
        return cast(AnyFloat, type_.element_type)
    return cast(AnyFloat, scalar_or_element_type(type_))


def _converted_float(
    builder: LoweringBuilder,
    value: SSAValue,
    target: AnyFloat,
    formats: tuple[SmallFloat | None, SmallFloat | None],
) -> SSAValue:
    """
    Return a float in another type, given the formats of both types that are small.
    """
    source_format, target_format = formats
    number = FloatExpression(builder, value)
    if source_format is not None:
        storage = IntegerType(source_format.bits)
        code = builder.op(arith.BitcastOp, (value,), storage)
        number = decoded(builder, code, source_format)
    if target_format is None:
        return number.as_float(target).value
    code = encoded(number, target_format)
    return builder.op(arith.BitcastOp, (code,), target)


# Pass


@dataclass(frozen=True)
class ArithExpandSmallFloatsPass(PatternPass):
    """
    Replace `arith.extf` and `arith.truncf` of floats of at most 8 bits with integer
    arithmetic.
    """

    name = "arith-expand-small-floats"
    pattern_type = ExpandSmallFloatConversion
    op_types = arith.ExtFOp | arith.TruncFOp
    expected = "conversions of floats of at most 8 bits"
