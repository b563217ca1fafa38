"""
Elementwise ops of TensorFlow Lite in TOSA.

Functions of one stored value of 8 bits are tables. Others are the formulas of
`frontends.tflite.formulas.elementwise`, on expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tosa
from xdsl.dialects.builtin import FloatAttr, f16, f32, i1, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.formulas import elementwise, tables
from xdsl_quant.frontends.tflite.formulas.fixed_point import (
    Multiplier,
    quantized_multiplier,
)
from xdsl_quant.frontends.tflite.formulas.quantized import Quantized, scale_of
from xdsl_quant.frontends.tflite.formulas.tables import (
    function,
    table_of_8_bits,
    table_of_16_bits,
)
from xdsl_quant.frontends.tosa import ops as tosa_ops
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from ..kernels import IMPLEMENTATIONS, Computation
from ..kernels.computing import activation_of, check_moves_stored_values
from .building import (
    Operand,
    TosaBuilder,
    is_unsigned,
    lowered_type,
    parameters_of,
    per_tensor,
)
from .expressions import TosaInteger, TosaReal, TosaTruth, product, quantized

Lowering: TypeAlias = Callable[..., Any]
"""
Builds the results of an op: the value or the values, given the builder, the op, and an
`Operand` for each operand, `None` for an absent one.
"""

LARGEST_FLOAT = float(np.finfo(np.float32).max)

_FLOAT_BOUNDS: Mapping[str, tuple[float, float]] = {
    "RELU": (0, LARGEST_FLOAT),
    "RELU_N1_TO_1": (-1, 1),
    "RELU6": (0, 6),
    "RELU_0_TO_1": (0, 1),
}


def stored(op: Operation, result: Any) -> SSAValue:
    """What a formula computes, as the result of an op."""
    type_ = lowered_type(op.results[0].type)
    if isinstance(result, TosaTruth):
        return result.value
    assert isinstance(result, TosaInteger)
    return result.stored_as(type_.element_type)


def with_float_activation(
    builder: TosaBuilder, value: SSAValue, activation: str
) -> SSAValue:
    """Floats after a fused activation."""
    if activation == "NONE":
        return value
    if activation not in _FLOAT_BOUNDS or element_type_of(value) != f32:
        words = f"has the activation '{activation}' of '{element_type_of(value)}'"
        raise Unsupported(words)
    return builder.clamped(value, *_FLOAT_BOUNDS[activation])


def are_plain(*operands: Operand) -> bool:
    """Whether no operand is quantized."""
    return not any(operand.is_quantized for operand in operands)


def by_kernel(
    plain: Lowering | None = None, *, is_table: bool = False, in_32_bits: bool = False
) -> Lowering:
    """
    Lower an op by the formula of its integer kernel.

    Args:
        plain: lowers it for operands that are not quantized; `None` if nothing does.
        is_table: whether a table has its results for stored values of 8 bits.
        in_32_bits: whether the kernel computes with 32 bits but for products, whatever
            is known of its numbers.
    """

    def lower(builder: TosaBuilder, op: Operation, *operands: Operand) -> SSAValue:
        if are_plain(*operands):
            if plain is None:
                raise Unsupported(f"on '{operands[0].type}' has no form in TOSA")
            return plain(builder, op, *operands)
        computation = cast(Computation, IMPLEMENTATIONS[type(op)])
        assert computation.kernel is not None
        kernel = partial(computation.kernel, op)
        if is_table and _is_of_8_bits(op, operands[0]):
            return _tabulated(builder, op, operands[0], kernel)
        builder.assumes_32_bits = in_32_bits
        result = None if computation.is_truth else per_tensor(op.results[0].type)
        return stored(op, kernel(result, *map(quantized, operands)))

    return lower


# Functions of one tensor


def _tabulated(
    builder: TosaBuilder,
    op: Operation,
    x: Operand,
    kernel: Callable[[QuantizationParameters, Quantized], Any],
) -> SSAValue:
    """The results of a kernel for all stored values of 8 bits."""
    values = Quantized(np.arange(-128, 128, dtype=np.int64), x.parameters)
    return looked_up(builder, x, kernel(per_tensor(op.results[0].type), values))


def looked_up(builder: TosaBuilder, x: Operand, table: Any) -> SSAValue:
    """The entries of a table for stored values of 8 bits, from the smallest one."""
    operands = x.value, builder.array(np.asarray(table), i8)
    return builder.tosa(tosa_ops.TableOp, operands, x.shape, i8)


def _is_of_8_bits(op: Operation, x: Operand) -> bool:
    types = element_type_of(x.value), lowered_type(op.results[0].type).element_type
    return types == (i8, i8)


def _function(name: str, float_op: type[Operation] | None = None) -> Lowering:
    """A function by the tables of `frontends.tflite.formulas.tables`."""

    def lower(builder: TosaBuilder, op: Any, x: Operand) -> SSAValue:
        if not x.is_quantized:
            return _float_unary(builder, op, x, float_op)
        result = per_tensor(op.results[0].type)
        variant = name
        if name == "gelu" and op.approximate is not None and op.approximate.value.data:
            variant = "approximate_gelu"
        if _is_of_8_bits(op, x):
            table = table_of_8_bits(variant, x.parameters, result)
            # Storage of fewer bits has no more values.
            unused = (256 - len(table)) // 2
            return looked_up(builder, x, np.pad(table, unused, "edge"))
        if variant in ("logistic", "tanh"):
            # The one that both have is in the formula.
            return stored(op, tables.looked_up(variant, quantized(x), result))
        parameters = x.parameters
        table = table_of_16_bits(
            function(variant, result),
            (float(np.float32(parameters.scales)), int(parameters.zero_points)),
            (float(scale_of(result)), int(result.zero_points)),
            np.float32,
        )
        return _interpolated(builder, x, table)

    return lower


def _interpolated(builder: TosaBuilder, x: Operand, table: Any) -> SSAValue:
    slopes = np.diff(table)
    if slopes.min() < -32768 or slopes.max() > 32767:
        raise Unsupported("has a table with steps of more than 16 bits, unlike TOSA's")
    operands = x.value, builder.array(table, i16)
    fine = builder.tosa(tosa_ops.TableOp, operands, x.shape, i32)
    # A shift of 31 is not rounded twice.
    return builder.rescaled(fine, Multiplier(1 << 24, 0), i16)


def _float_unary(
    builder: TosaBuilder, op: Operation, x: Operand, op_type: type[Operation] | None
) -> SSAValue:
    if op_type is None or element_type_of(x.value) != f32:
        raise Unsupported(f"on '{x.type}' has no form in TOSA")
    return builder.tosa(op_type, (x.value,), x.shape, f32)


def _of_floats(op_type: type[Operation]) -> Lowering:
    def lower(builder: TosaBuilder, op: Operation, x: Operand) -> SSAValue:
        return _float_unary(builder, op, x, op_type)

    return lower


def _root(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel of a root, which does not fail for negative numbers but takes 0."""

    def lower(result: QuantizationParameters, x: Quantized) -> Any:
        values = np.maximum(x.values, x.zero_point)
        return kernel(x._replace(values=values), result)

    return lower


def _table_of_8_bits_only(kernel: Callable[..., Any], name: str = "") -> Lowering:
    def lower(builder: TosaBuilder, op: Operation, x: Operand) -> SSAValue:
        if not x.is_quantized:
            raise Unsupported(f"on '{x.type}' has no form in TOSA")
        if _is_of_8_bits(op, x):
            return _tabulated(builder, op, x, kernel)
        if name:
            return _function(name)(builder, op, x)
        raise Unsupported("has values of 16 bits, for which TOSA has no such table")

    return lower


def _float_activation(activation: str) -> Lowering:
    def lower(builder: TosaBuilder, op: Operation, x: Operand) -> SSAValue:
        return with_float_activation(builder, x.value, activation)

    return lower


def _negative(builder: TosaBuilder, op: tfl.NegOp, x: Operand) -> SSAValue:
    if x.is_quantized:
        raise Unsupported("on quantized values has no integer kernel")
    type_ = element_type_of(x.value)
    if type_ != f32:
        zero = builder.array(np.zeros((1,) * len(x.shape), np.int64), type_)
        return builder.binary(tosa.SubOp, zero, x.value)
    zero = builder.one(0, f32)
    return builder.tosa(tosa_ops.NegateOp, (x.value, zero, zero), x.shape, f32)


def _quantize(builder: TosaBuilder, op: tfl.QuantizeOp, x: Operand) -> SSAValue:
    result = per_tensor(op.output.type)
    if not x.is_quantized:
        return _quantized_floats(builder, op, x, result)
    ratio = float(np.float32(x.parameters.scales)) / float(scale_of(result))
    ends = np.array([x.parameters.storage_min, x.parameters.storage_max])
    if np.abs(ends - int(x.parameters.zero_points)).max() * ratio > 1 << 31:
        raise Unsupported("has values that exceed 32 bits before they saturate")
    multiplier = quantized_multiplier(ratio)
    type_ = element_type_of(x.value)
    output_type = lowered_type(op.output.type).element_type
    zero_points = int(x.parameters.zero_points), int(result.zero_points)
    if (type_ != i8 and zero_points[0]) or (output_type != i8 and zero_points[1]):
        return stored(op, elementwise.requantize(quantized(x), result))
    value = builder.rescaled(x.value, multiplier, output_type, *zero_points)
    return builder.bounded(value, result.storage_min, result.storage_max)


def _quantized_floats(
    builder: TosaBuilder, op: Operation, x: Operand, result: QuantizationParameters
) -> SSAValue:
    """
    Floats as stored values, exactly: a product with the reciprocal of the scale is at most
    one unit off, which a comparison with the least floats of both stored values shows.
    """
    if element_type_of(x.value) != f32:
        raise Unsupported(f"on '{x.type}' has no form in TOSA")
    shape = x.shape
    # Infinity is a number then, and NaN the smallest one.
    clamped = builder.tosa(
        tosa.ClampOp,
        (x.value,),
        shape,
        f32,
        max_val=FloatAttr(LARGEST_FLOAT, f32),
        min_val=FloatAttr(-LARGEST_FLOAT, f32),
        nan_mode=tosa.NanModeAttr(tosa.NanMode.IGNORE),
    )
    numbers = TosaReal.of(builder, clamped)
    low, high = result.storage_min, result.storage_max
    least = _least_floats(result)
    reciprocal = float(np.float32(1) / scale_of(result))
    moved = numbers * reciprocal + int(result.zero_points)
    guess = moved.clipped(low, high).nearest_integer()
    index = builder.with_shape((guess - low).value, (1, math.prod(shape)))

    def limit(entries: NDArray[np.float32]) -> TosaReal:
        """The entry of a table for each guess."""
        found = builder.rows(builder.array(entries.reshape(1, -1, 1), f32), index)
        return TosaReal.of(builder, builder.with_shape(found, shape))

    is_below, is_above = limit(least[:-1]) > numbers, numbers >= limit(least[1:])
    return stored(op, guess - is_below.number + is_above.number)


def _least_floats(result: QuantizationParameters) -> Any:
    """
    For each stored value the least float that becomes it or a larger one: from the smallest
    float for the smallest one, to infinity behind the largest one.
    """
    low, high = result.storage_min, result.storage_max
    stored_values = np.arange(low + 1, high + 1)
    steps = stored_values - int(result.zero_points) - 0.5
    limits = (steps * float(scale_of(result))).astype(np.float32)
    # It is one of the next floats.
    for _ in range(4):
        limits = np.nextafter(limits, np.float32(-np.inf))
    for _ in range(8):
        is_less = elementwise.quantize(limits, result) < stored_values
        limits = np.where(is_less, np.nextafter(limits, np.float32(np.inf)), limits)
    return np.concatenate([[-np.inf], limits, [np.inf]]).astype(np.float32)


def _dequantize(builder: TosaBuilder, op: tfl.DequantizeOp, x: Operand) -> SSAValue:
    if element_type_of(x.value) == f16:
        return builder.with_elements(x.value, f32)
    return dequantized(builder, x)


def dequantized(builder: TosaBuilder, x: Operand) -> SSAValue:
    """What stored values express."""
    parameters = parameters_of(x.type)
    if parameters is None or element_type_of(x.value) not in (i8, i16):
        raise Unsupported(f"on '{x.type}' has no form in TOSA")
    rank = len(x.shape)
    shape = [1] * rank
    if (dimension := parameters.quantized_dimension) is not None:
        shape[dimension] = x.shape[dimension]
    # Products of 16 bits and a scale, both exact, are rounded to 32 bits once.
    zero_points = builder.array(parameters.zero_points.reshape(shape), i32)
    corrected = builder.binary(tosa.SubOp, builder.widened(x.value), zero_points)
    number = builder.tosa(tosa_ops.CastOp, (corrected,), x.shape, f32)
    scales = builder.array(parameters.scales.astype(np.float32).reshape(shape), f32)
    return product(builder, number, scales)


def _cast(builder: TosaBuilder, op: tfl.CastOp, x: Operand) -> SSAValue:
    source, target = element_type_of(x.value), lowered_type(op.output.type).element_type
    check_moves_stored_values(x.type, op.output.type)
    if x.is_quantized or x.type == op.output.type:
        return x.value
    if {source, target} == {f32, i64}:
        raise Unsupported(f"casts '{source}' to '{target}', which TOSA has no cast for")

    def constant(value: int, type_: Attribute) -> SSAValue:
        return builder.array(np.full((1,) * len(x.shape), value), type_)

    # All other casts are those from and to `i32`.
    value = x.value if source in (f32, i64) else builder.widened(x.value)
    if is_unsigned(x.type):
        value = builder.binary(tosa.AddOp, value, constant(128, i32))
    if target == i1:
        zero = constant(0, element_type_of(value))
        equal = builder.tosa(tosa_ops.EqualOp, (value, zero), x.shape, i1)
        return builder.tosa(tosa_ops.LogicalNotOp, (equal,), x.shape, i1)
    if source == f32:
        value = TosaReal.of(builder, value).as_integer().value
    if source == i64:
        value = builder.with_elements(value, i32)
    if is_unsigned(op.output.type):
        value = builder.binary(tosa.SubOp, value, constant(128, i32))
    return builder.with_elements(value, target)


# Functions of several tensors


def _arithmetic(op_type: type[Operation]) -> Lowering:
    """Arithmetic on elements that are not quantized."""

    def lower(builder: TosaBuilder, op: Any, lhs: Operand, rhs: Operand) -> SSAValue:
        if element_type_of(lhs.value) not in (i32, i64, f32):
            raise Unsupported(f"on '{lhs.type}' has no form in TOSA")
        if op_type is tosa.MulOp:
            value = product(builder, lhs.value, rhs.value)
        else:
            value = builder.binary(op_type, lhs.value, rhs.value)
        return with_float_activation(builder, value, activation_of(op))

    return lower


def _square(builder: TosaBuilder, op: tfl.SquareOp, x: Operand) -> SSAValue:
    if x.is_quantized:
        raise Unsupported("has no integer form in TOSA")
    return product(builder, x.value, x.value)


def _squared_difference(
    builder: TosaBuilder, op: Operation, lhs: Operand, rhs: Operand
) -> SSAValue:
    difference = builder.binary(tosa.SubOp, lhs.value, rhs.value)
    return product(builder, difference, difference)


def _extreme(op_type: type[Operation]) -> Lowering:
    def lower(
        builder: TosaBuilder, op: Operation, lhs: Operand, rhs: Operand
    ) -> SSAValue:
        element_type = element_type_of(lhs.value)
        if element_type in (f32, i64):
            return builder.binary(op_type, lhs.value, rhs.value)
        # TOSA has them for 32 bits alone.
        values = builder.widened(lhs.value), builder.widened(rhs.value)
        return builder.with_elements(builder.binary(op_type, *values), element_type)

    return lower


_COMPARISONS: Mapping[str, tuple[type[Operation], bool, bool]] = {
    "equal": (tosa_ops.EqualOp, False, False),
    "not_equal": (tosa_ops.EqualOp, False, True),
    "greater": (tosa_ops.GreaterOp, False, False),
    "greater_equal": (tosa_ops.GreaterEqualOp, False, False),
    "less": (tosa_ops.GreaterOp, True, False),
    "less_equal": (tosa_ops.GreaterEqualOp, True, False),
}
"""The op, whether operands are exchanged, and whether the result is negated."""


def _compare(direction: str) -> Lowering:
    op_type, is_exchanged, is_negated = _COMPARISONS[direction]

    def lower(
        builder: TosaBuilder, op: Operation, lhs: Operand, rhs: Operand
    ) -> SSAValue:
        pair = (rhs.value, lhs.value) if is_exchanged else (lhs.value, rhs.value)
        if element_type_of(pair[0]) not in (f32, i64):
            pair = builder.widened(pair[0]), builder.widened(pair[1])
        shape = np.broadcast_shapes(*map(shape_of, pair))
        operands = [builder.with_rank(operand, len(shape)) for operand in pair]
        value = builder.tosa(op_type, operands, shape, i1)
        if is_negated:
            value = builder.tosa(tosa_ops.LogicalNotOp, (value,), shape, i1)
        return value

    return by_kernel(lower)


def _logical(op_type: type[Operation]) -> Lowering:
    def lower(builder: TosaBuilder, op: Operation, *operands: Operand) -> SSAValue:
        values = [operand.value for operand in operands]
        if len(values) == 1:
            return builder.tosa(op_type, values, shape_of(values[0]), i1)
        return builder.binary(op_type, *values)

    return lower


def _select(
    builder: TosaBuilder, op: Operation, condition: Operand, x: Operand, y: Operand
) -> SSAValue:
    shape = lowered_type(op.results[0].type).get_shape()
    chosen = condition.value
    if isinstance(op, tfl.SelectOp) and len(condition.shape) == 1:
        # One truth value for each index of the first dimension.
        sizes = condition.shape[0], *[1] * (len(shape) - 1)
        chosen = builder.with_shape(chosen, sizes)
    operands = [
        builder.with_rank(value, len(shape)) for value in (chosen, x.value, y.value)
    ]
    return builder.tosa(tosa_ops.SelectOp, operands, shape, element_type_of(x.value))


LOWERINGS: Mapping[type[Operation], Lowering] = {
    tfl.AddOp: by_kernel(_arithmetic(tosa.AddOp)),
    tfl.SubOp: by_kernel(_arithmetic(tosa.SubOp)),
    tfl.MulOp: by_kernel(_arithmetic(tosa.MulOp)),
    tfl.SquaredDifferenceOp: by_kernel(_squared_difference),
    tfl.MaximumOp: _extreme(tosa_ops.MaximumOp),
    tfl.MinimumOp: _extreme(tosa_ops.MinimumOp),
    tfl.EqualOp: _compare("equal"),
    tfl.NotEqualOp: _compare("not_equal"),
    tfl.GreaterOp: _compare("greater"),
    tfl.GreaterEqualOp: _compare("greater_equal"),
    tfl.LessOp: _compare("less"),
    tfl.LessEqualOp: _compare("less_equal"),
    tfl.LogicalAndOp: _logical(tosa_ops.LogicalAndOp),
    tfl.LogicalOrOp: _logical(tosa_ops.LogicalOrOp),
    tfl.LogicalNotOp: _logical(tosa_ops.LogicalNotOp),
    tfl.SelectOp: _select,
    tfl.SelectV2Op: _select,
    tfl.ReluOp: by_kernel(_float_activation("RELU")),
    tfl.Relu6Op: by_kernel(_float_activation("RELU6")),
    tfl.Relu1Op: by_kernel(_float_activation("RELU_N1_TO_1")),
    tfl.Relu0To1Op: by_kernel(_float_activation("RELU_0_TO_1")),
    tfl.LeakyReluOp: by_kernel(is_table=True),
    tfl.PReluOp: by_kernel(),
    tfl.LogisticOp: _function("logistic", tosa_ops.SigmoidOp),
    tfl.TanhOp: _function("tanh", tosa_ops.TanhOp),
    tfl.ExpOp: _function("exp", tosa_ops.ExpOp),
    tfl.LogOp: _function("log", tosa_ops.LogOp),
    tfl.EluOp: _function("elu"),
    tfl.GeluOp: _function("gelu"),
    tfl.HardSwishOp: by_kernel(is_table=True),
    tfl.AbsOp: by_kernel(_of_floats(tosa_ops.AbsOp), is_table=True),
    tfl.SqrtOp: _table_of_8_bits_only(_root(elementwise.square_root)),
    tfl.RsqrtOp: _table_of_8_bits_only(
        _root(elementwise.reciprocal_square_root), "rsqrt"
    ),
    tfl.SoftmaxOp: by_kernel(in_32_bits=True),
    tfl.LogSoftmaxOp: by_kernel(in_32_bits=True),
    tfl.L2NormalizationOp: by_kernel(),
    tfl.NegOp: _negative,
    tfl.SinOp: _of_floats(tosa.SinOp),
    tfl.CosOp: _of_floats(tosa.CosOp),
    tfl.SquareOp: _square,
    tfl.FloorOp: _of_floats(tosa_ops.FloorOp),
    tfl.CeilOp: _of_floats(tosa_ops.CeilOp),
    tfl.QuantizeOp: _quantize,
    tfl.DequantizeOp: _dequantize,
    tfl.CastOp: _cast,
}
"""The elementwise ops."""
