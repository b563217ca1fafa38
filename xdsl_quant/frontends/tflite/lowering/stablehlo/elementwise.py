"""Lowerings of elementwise ops."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant.types import QuantizedType, scalar_or_element_type
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect import ComparisonDirection
from xdsl_quant.frontends.stablehlo.dialect.elementwise import BinaryOp
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.formulas.floats import CLIPPED
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .building import Lowering, TFLToStableHLOBuilder, number, result_shape


def _operands(
    b: TFLToStableHLOBuilder, op: Operation, operands: Sequence[SSAValue]
) -> list[SSAValue]:
    """Return the operands as floats, broadcast to the shape of the result."""
    shape = result_shape(op)
    return [b.dequantize(b.broadcast(operand, shape)) for operand in operands]


def _elementwise(op_type: type[Operation]) -> Lowering:
    def lower(b: TFLToStableHLOBuilder, op: Operation, *operands: SSAValue) -> SSAValue:
        values = _operands(b, op, operands)
        value = b.op(op_type, values, values[0].type)
        if "fused_activation_function" not in op.properties:
            return value
        # TensorFlow Lite clamps stored values.
        return b.apply_activation(op, b.as_type(value, op.results[0].type))

    return lower


def _comparison_lowering(direction: ComparisonDirection) -> Lowering:
    def lower(b: TFLToStableHLOBuilder, op: Operation, *operands: SSAValue) -> SSAValue:
        lhs, rhs = _operands(b, op, operands)
        return b.add(
            stablehlo.CompareOp(
                lhs,
                rhs,
                comparison_direction=stablehlo.ComparisonDirectionAttr(direction),
            )
        )

    return lower


def _relu(activation: str) -> Lowering:
    def lower(b: TFLToStableHLOBuilder, op: Operation, x: SSAValue) -> SSAValue:
        # Clamp in the type of the result, whose scale may be finer.
        type_ = op.results[0].type
        if element_type_of(x) != scalar_or_element_type(type_):
            x = b.op(stablehlo.UniformQuantizeOp, (x,), type_)
        return b.clamp(x, *CLIPPED[activation])

    return lower


def _convert(b: TFLToStableHLOBuilder, op: tfl.CastOp, x: SSAValue) -> SSAValue:
    element_types = element_type_of(x), element_type_of(op.output)
    if any(isinstance(type_, QuantizedType) for type_ in element_types):
        raise Unsupported(
            "casts quantized values; use 'tfl.quantize' or 'tfl.dequantize'"
        )
    return b.op(stablehlo.ConvertOp, (x,), op.output.type)


def _quantize(b: TFLToStableHLOBuilder, op: tfl.QuantizeOp, x: SSAValue) -> SSAValue:
    """
    Lower `tfl.quantize` to `quant.qcast`. In later passes, its type becomes the result type
    of the kernel that computes the operand.

    If the operand is quantized, or has other uses than `tfl.quantize` to this type,
    lower to `stablehlo.uniform_quantize` instead.
    """
    users = [use.operation for use in x.uses]
    types = {user.results[0].type for user in users if isinstance(user, tfl.QuantizeOp)}
    is_only_stored = len(types) == 1 and all(
        isinstance(user, tfl.QuantizeOp) for user in users
    )
    if isinstance(element_type_of(x), QuantizedType) or not is_only_stored:
        return b.op(stablehlo.UniformQuantizeOp, (x,), op.output.type)
    return b.as_type(x, op.output.type)


def _dequantize(
    b: TFLToStableHLOBuilder, op: tfl.DequantizeOp, x: SSAValue
) -> SSAValue:
    return b.dequantize(x)


def _squared_difference(
    b: TFLToStableHLOBuilder, op: Operation, *operands: SSAValue
) -> SSAValue:
    values = _operands(b, op, operands)
    type_ = values[0].type
    difference = b.op(stablehlo.SubtractOp, values, type_)
    return b.op(stablehlo.MultiplyOp, (difference, difference), type_)


def _square(b: TFLToStableHLOBuilder, op: Operation, *operands: SSAValue) -> SSAValue:
    (value,) = _operands(b, op, operands)
    return b.op(stablehlo.MultiplyOp, (value, value), value.type)


def _softmax(b: TFLToStableHLOBuilder, op: tfl.SoftmaxOp, x: SSAValue) -> SSAValue:
    x = b.dequantize(x)
    if (beta := number(op.beta)) != 1:
        scale = b.splat(beta, cast(TensorType, x.type))
        x = b.op(stablehlo.MultiplyOp, (x, scale), x.type)
    shape, axis = shape_of(x), len(shape_of(x)) - 1

    def along_rows(op_type: type[BinaryOp], value: SSAValue, start: float) -> SSAValue:
        return b.broadcast(b.reduce(op_type, value, start, [axis]), shape, range(axis))

    largest = along_rows(stablehlo.MaximumOp, x, -inf)
    difference = b.op(stablehlo.SubtractOp, (x, largest), x.type)
    powers = b.op(stablehlo.ExponentialOp, (difference,), x.type)
    total = along_rows(stablehlo.AddOp, powers, 0)
    return b.op(stablehlo.DivideOp, (powers, total), x.type)


LOWERINGS: Mapping[type[Operation], Lowering] = {
    tfl.AddOp: _elementwise(stablehlo.AddOp),
    tfl.SubOp: _elementwise(stablehlo.SubtractOp),
    tfl.MulOp: _elementwise(stablehlo.MultiplyOp),
    tfl.DivOp: _elementwise(stablehlo.DivideOp),
    tfl.MaximumOp: _elementwise(stablehlo.MaximumOp),
    tfl.MinimumOp: _elementwise(stablehlo.MinimumOp),
    tfl.LogicalAndOp: _elementwise(stablehlo.AndOp),
    tfl.LogicalOrOp: _elementwise(stablehlo.OrOp),
    tfl.LogicalNotOp: _elementwise(stablehlo.NotOp),
    tfl.AbsOp: _elementwise(stablehlo.AbsOp),
    tfl.ExpOp: _elementwise(stablehlo.ExponentialOp),
    tfl.LogisticOp: _elementwise(stablehlo.LogisticOp),
    tfl.NegOp: _elementwise(stablehlo.NegateOp),
    tfl.RoundOp: _elementwise(stablehlo.RoundNearestEvenOp),
    tfl.RsqrtOp: _elementwise(stablehlo.RsqrtOp),
    tfl.SqrtOp: _elementwise(stablehlo.SqrtOp),
    tfl.TanhOp: _elementwise(stablehlo.TanhOp),
    tfl.SoftmaxOp: _softmax,
    tfl.SquareOp: _square,
    tfl.SquaredDifferenceOp: _squared_difference,
    tfl.EqualOp: _comparison_lowering(ComparisonDirection.EQ),
    tfl.NotEqualOp: _comparison_lowering(ComparisonDirection.NE),
    tfl.GreaterOp: _comparison_lowering(ComparisonDirection.GT),
    tfl.GreaterEqualOp: _comparison_lowering(ComparisonDirection.GE),
    tfl.LessOp: _comparison_lowering(ComparisonDirection.LT),
    tfl.LessEqualOp: _comparison_lowering(ComparisonDirection.LE),
    tfl.ReluOp: _relu("RELU"),
    tfl.Relu6Op: _relu("RELU6"),
    tfl.Relu1Op: _relu("RELU_N1_TO_1"),
    tfl.Relu0To1Op: _relu("RELU_0_TO_1"),
    tfl.CastOp: _convert,
    tfl.QuantizeOp: _quantize,
    tfl.DequantizeOp: _dequantize,
}
"""Lowerings of elementwise ops, which compute with floats, by op class."""
