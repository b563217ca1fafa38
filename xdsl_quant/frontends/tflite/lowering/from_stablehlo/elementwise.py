"""Conversions of elementwise ops, constants and casts."""

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, f32, i1
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    StoredQuantizedType,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect import ComparisonDirection
from xdsl_quant.frontends.stablehlo.softmax import match_softmax
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.base import PlainValue
from xdsl_quant.runtime.arrays import reinterpret_elements
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .building import (
    Conversion,
    SingleConversion,
    TFLBuilder,
    filling_number,
    float_range,
    is_float,
)
from .gelu import match_gelu
from .special_functions import match_elu, positive_operand
from .windows import average_pool, mean

# Operands


def _compact(b: TFLBuilder, value: SSAValue) -> SSAValue:
    """
    Return a smaller operand of an elementwise op, which TensorFlow Lite broadcasts to
    `value`; return `value` if there is none.
    """
    op = value.owner
    if not isinstance(op, stablehlo.BroadcastInDimOp):
        return value
    dimensions = [*op.broadcast_dimensions.get_values()]
    if dimensions != sorted(dimensions):
        return value
    sizes = [1] * len(shape_of(value))
    for dimension, size in zip(dimensions, shape_of(op.operand), strict=True):
        sizes[dimension] = size
    first = next((d for d, size in enumerate(sizes) if size != 1), len(sizes))
    return b.reshape_to(op.operand, sizes[first:])


def _compact_operands(b: TFLBuilder, op: Operation) -> Sequence[SSAValue]:
    """Return operands that broadcast to the shape of the result."""
    if all(isinstance(x.owner, stablehlo.BroadcastInDimOp) for x in op.operands):
        return op.operands
    return [_compact(b, operand) for operand in op.operands]


def _elementwise_conversion(
    op_type: type[Operation], **properties: PlainValue
) -> SingleConversion:
    def convert(b: TFLBuilder, op: Operation) -> SSAValue:
        return b.build(
            op_type, _compact_operands(b, op), op.results[0].type, **properties
        )

    return convert


def _arithmetic_op(op_type: type[Operation]) -> SingleConversion:
    return _elementwise_conversion(op_type, fused_activation_function="NONE")


# Arithmetic that composes an op


def _divide(b: TFLBuilder, op: stablehlo.DivideOp) -> SSAValue:
    if (softmax := match_softmax(op)) is not None:
        rank = len(shape_of(op.result))
        order = [d for d in range(rank) if d != softmax.axis] + [softmax.axis]
        x = b.transpose(softmax.operand, order)
        value = b.add(tfl.SoftmaxOp(x, beta=1.0, result_types=[x.type]))
        return b.transpose(value, np.argsort(order).tolist())
    for composed in (average_pool(b, op), mean(b, op)):
        if composed is not None:
            return composed
    if not is_float(op.result):
        raise Unsupported("divides integers, which TensorFlow Lite rounds otherwise")
    return _arithmetic_op(tfl.DivOp)(b, op)


def _multiply(b: TFLBuilder, op: stablehlo.MultiplyOp) -> SSAValue:
    if (x := match_gelu(op)) is not None:
        return b.build(tfl.GeluOp, (x,), op.result.type, approximate=False)
    composed = mean(b, op)
    return _arithmetic_op(tfl.MulOp)(b, op) if composed is None else composed


# Logic and comparison


def _logical_conversion(op_type: type[Operation]) -> SingleConversion:
    def convert(b: TFLBuilder, op: Operation) -> SSAValue:
        if element_type_of(op.results[0]) != i1:
            raise Unsupported("combines bits of integers")
        return _elementwise_conversion(op_type)(b, op)

    return convert


_COMPARISONS = {
    ComparisonDirection.EQ: tfl.EqualOp,
    ComparisonDirection.NE: tfl.NotEqualOp,
    ComparisonDirection.GT: tfl.GreaterOp,
    ComparisonDirection.GE: tfl.GreaterEqualOp,
    ComparisonDirection.LT: tfl.LessOp,
    ComparisonDirection.LE: tfl.LessEqualOp,
}


def _compare(b: TFLBuilder, op: stablehlo.CompareOp) -> SSAValue:
    kind = op.compare_type
    if kind is not None and kind.data == stablehlo.ComparisonType.TOTALORDER:
        raise Unsupported("compares floats in total order")
    return _elementwise_conversion(_COMPARISONS[op.comparison_direction.data])(b, op)


def _select(b: TFLBuilder, op: stablehlo.SelectOp) -> SSAValue:
    rank = len(shape_of(op.result))
    condition = op.pred
    if not shape_of(condition) and rank:
        condition = b.reshape_to(condition, [1] * rank)
    values = condition, op.on_true, op.on_false
    return b.add(tfl.SelectV2Op(*values, result_types=[op.result.type]))


# Clamps

_RECTIFIERS: Mapping[tuple[float, float], type[Operation]] = {
    (0, inf): tfl.ReluOp,
    (0, 6): tfl.Relu6Op,
    (-1, 1): tfl.Relu1Op,
    (0, 1): tfl.Relu0To1Op,
}
"""Ops that clamp values to a range, by range."""


def _bounds(op: Operation) -> tuple[SSAValue, float, float] | None:
    """Return the value that an op clamps, and the bounds; `None` for other ops."""
    if isinstance(op, stablehlo.ClampOp):
        low, high = filling_number(op.min), filling_number(op.max)
        return None if low is None or high is None else (op.operand, low, high)
    for value, end in (op.operands, op.operands[::-1]):
        if (bound := filling_number(end)) is None:
            continue
        if isinstance(op, stablehlo.MaximumOp):
            return value, bound, inf
        return value, -inf, bound
    return None


def _clamp(b: TFLBuilder, op: Operation) -> SSAValue:
    """Convert a clamp, or an extremum of a value and a constant or of two values."""
    found = _bounds(op)
    if found is None or not is_float(op.results[0]):
        return _extremum(b, op)
    value, low, high = found
    inner = value.owner
    if isinstance(inner, stablehlo.MaximumOp | stablehlo.MinimumOp):
        # min(max(x, low), high)
        if (nested := _bounds(inner)) is not None and nested[1] < high:
            value, low, high = nested[0], max(nested[1], low), min(nested[2], high)
    if (op_type := _RECTIFIERS.get((low, high))) is not None:
        return b.op(op_type, (value,), op.results[0].type)
    # All stored values may be in the range.
    least, most = float_range(value)
    low, high = -inf if low <= least else low, inf if high >= most else high
    for bound, extremum in ((low, tfl.MaximumOp), (high, tfl.MinimumOp)):
        if abs(bound) != inf:
            end = b.scalar(bound, element_type_of(value))
            value = b.op(extremum, (value, end), op.results[0].type)
    return value


def _extremum(b: TFLBuilder, op: Operation) -> SSAValue:
    if not isinstance(op, stablehlo.ClampOp):
        is_maximum = isinstance(op, stablehlo.MaximumOp)
        return _elementwise_conversion(tfl.MaximumOp if is_maximum else tfl.MinimumOp)(
            b, op
        )
    type_ = op.result.type
    value = b.op(tfl.MaximumOp, (op.operand, op.min), type_)
    return b.op(tfl.MinimumOp, (value, op.max), type_)


# Constants and casts


def _constant(b: TFLBuilder, op: stablehlo.ConstantOp) -> SSAValue:
    value, type_ = op.value, op.output.type
    element_type = scalar_or_element_type(type_)
    if not isinstance(element_type, StoredQuantizedType):
        return b.op(tfl.ConstOp, (), type_, {"value": value})
    # The attribute may be signless.
    value = reinterpret_elements(value, element_type.storage_type)
    return b.op(tfl.QConstOp, (), type_, {"qtype": type_, "value": value})


def _iota(b: TFLBuilder, op: stablehlo.IotaOp) -> SSAValue:
    shape, axis = shape_of(op.output), op.iota_dimension.value.data
    sizes = [n if d == axis else 1 for d, n in enumerate(shape)]
    numbers = np.arange(shape[axis]).reshape(sizes)
    return b.array(np.broadcast_to(numbers, shape), element_type_of(op.output))


def _convert(b: TFLBuilder, op: stablehlo.ConvertOp) -> SSAValue:
    if op.operand.type == op.result.type:
        return op.operand
    return b.op(tfl.CastOp, (op.operand,), op.result.type)


def _quantize(b: TFLBuilder, op: Operation) -> SSAValue:
    type_ = op.results[0].type
    return b.op(tfl.QuantizeOp, op.operands, type_, {"qtype": type_})


def _dequantize(b: TFLBuilder, op: Operation) -> SSAValue:
    return b.op(tfl.DequantizeOp, op.operands, op.results[0].type)


def _leaky_relu(b: TFLBuilder, op: stablehlo.SelectOp) -> SSAValue | None:
    """Convert `select(x > 0, x, alpha * x)`."""
    product, x = op.on_false.owner, op.on_true
    if not isinstance(product, stablehlo.MultiplyOp) or (
        positive_operand(op.pred) is not x
    ):
        return None
    for factor, other in (product.operands, product.operands[::-1]):
        if other is x and (alpha := filling_number(factor)) is not None:
            properties = {"alpha": FloatAttr(alpha, f32)}
            return b.op(tfl.LeakyReluOp, (x,), op.result.type, properties)
    return None


def _select_or_rectify(b: TFLBuilder, op: stablehlo.SelectOp) -> SSAValue:
    if is_float(op.result):
        for composed in (_leaky_relu(b, op), match_elu(b, op)):
            if composed is not None:
                return composed
    return _select(b, op)


def _power(b: TFLBuilder, op: stablehlo.PowerOp) -> SSAValue:
    if isinstance(element_type_of(op.result), AnyFloat):
        return _elementwise_conversion(tfl.PowOp)(b, op)
    raise Unsupported("has integer operands")


CONVERSIONS: Mapping[type[Operation], Conversion] = {
    stablehlo.AddOp: _arithmetic_op(tfl.AddOp),
    stablehlo.SubtractOp: _arithmetic_op(tfl.SubOp),
    stablehlo.MultiplyOp: _multiply,
    stablehlo.DivideOp: _divide,
    stablehlo.MaximumOp: _clamp,
    stablehlo.MinimumOp: _clamp,
    stablehlo.ClampOp: _clamp,
    stablehlo.PowerOp: _power,
    stablehlo.AbsOp: _elementwise_conversion(tfl.AbsOp),
    stablehlo.CeilOp: _elementwise_conversion(tfl.CeilOp),
    stablehlo.CosineOp: _elementwise_conversion(tfl.CosOp),
    stablehlo.ExponentialOp: _elementwise_conversion(tfl.ExpOp),
    stablehlo.FloorOp: _elementwise_conversion(tfl.FloorOp),
    stablehlo.LogOp: _elementwise_conversion(tfl.LogOp),
    stablehlo.LogisticOp: _elementwise_conversion(tfl.LogisticOp),
    stablehlo.NegateOp: _elementwise_conversion(tfl.NegOp),
    stablehlo.RoundNearestEvenOp: _elementwise_conversion(tfl.RoundOp),
    stablehlo.RsqrtOp: _elementwise_conversion(tfl.RsqrtOp),
    stablehlo.SignOp: _elementwise_conversion(tfl.SignOp),
    stablehlo.SineOp: _elementwise_conversion(tfl.SinOp),
    stablehlo.SqrtOp: _elementwise_conversion(tfl.SqrtOp),
    stablehlo.TanhOp: _elementwise_conversion(tfl.TanhOp),
    stablehlo.AndOp: _logical_conversion(tfl.LogicalAndOp),
    stablehlo.OrOp: _logical_conversion(tfl.LogicalOrOp),
    stablehlo.NotOp: _logical_conversion(tfl.LogicalNotOp),
    stablehlo.XorOp: _logical_conversion(tfl.NotEqualOp),
    stablehlo.CompareOp: _compare,
    stablehlo.SelectOp: _select_or_rectify,
    stablehlo.ConstantOp: _constant,
    stablehlo.IotaOp: _iota,
    stablehlo.ConvertOp: _convert,
    QuantizeCastOp: _quantize,
    stablehlo.UniformQuantizeOp: _quantize,
    DequantizeCastOp: _dequantize,
    stablehlo.UniformDequantizeOp: _dequantize,
}
"""Conversions of elementwise ops, by op class."""
