"""Implementations of elementwise ops, and of ops along the last dimension."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import Operation

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.base import is_true
from xdsl_quant.frontends.tflite.formulas import elementwise, floats, rows
from xdsl_quant.frontends.tflite.formulas.quantized import Quantized, round_away
from xdsl_quant.frontends.tflite.formulas.tables import compute_with_table
from xdsl_quant.numerics import QuantizationParameters as Parameters
from xdsl_quant.numerics.primitives import wrapped
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.arrays import integer_width, numpy_dtype
from xdsl_quant.unsupported import Unsupported

from . import requirements
from .computation import (
    Array,
    Computation,
    Implementation,
    Kernel,
    OnStoredValues,
    Requirement,
    activation_of,
    block_type,
    check_moves_stored_values,
    dequantize_array,
    formula_of,
    has_one_scale,
    is_array,
    kernel_of,
    number,
    on_stored_values,
    parameters_of,
    quantize_array,
    table_of,
)

# Elementwise


def _binary(
    function: Callable[..., Array],
    kernel: Kernel | None = None,
    requirement: Requirement | None = None,
) -> Implementation:
    return Computation(formula_of(function), kernel, requirement)


def _logical(function: Callable[..., Array]) -> Implementation:
    return Computation(formula_of(function), accepts_booleans=True)


def _with_activation(
    function: Callable[..., Array],
    kernel: Kernel | None = None,
    requirement: Requirement | None = None,
) -> Implementation:
    def formula(op: Operation, *values: Array) -> Array:
        return floats.apply_activation(function(*values), activation_of(op))

    return Computation(formula, kernel, requirement)


def _multiply(x: Array, y: Array) -> Array:
    """Multiply; `uint32` is computed as `int32`, which wraps to the same bits."""
    if x.dtype != np.uint32:
        return np.multiply(x, y)
    return np.multiply(x.astype(np.int32), y.astype(np.int32)).astype(np.uint32)


def _square(x: Array) -> Array:
    return _multiply(x, x)


def _sum(function: Callable[..., Array]) -> Kernel:
    def kernel(op: Operation, result: Parameters, *operands: Quantized) -> Array:
        parameters = *(x.parameters for x in operands), result
        # `pot_scale_int16` exists in .tflite files but not in the dialect. Default: true.
        option = op.attributes.get("pot_scale_int16")
        is_shifted = option != BoolAttr.from_bool(False) and not any(
            p.has_zero_points for p in parameters
        )
        return function(*operands, result, activation_of(op), is_shifted)

    return kernel


def _squared_difference(lhs: Array, rhs: Array) -> Array:
    return (lhs - rhs) * (lhs - rhs)


def _comparison_computation(direction: str) -> Implementation:
    function = elementwise.COMPARISONS[direction]

    def kernel(op: Operation, result: None, lhs: Quantized, rhs: Quantized) -> Array:
        return elementwise.compare(direction, lhs, rhs)

    accepts_booleans = direction in ("equal", "not_equal")
    return Computation(
        formula_of(function), kernel, is_truth=True, accepts_booleans=accepts_booleans
    )


def _unary(
    name: str,
    kernel: Kernel | None = None,
    requirement: Requirement | None = None,
) -> Implementation:
    return _binary(floats.UNARY[name], kernel, requirement)


def _table_kernel(name: str) -> Kernel:
    return kernel_of(partial(compute_with_table, name))


def _negate(op: Operation, result: Parameters, x: Quantized) -> Array:
    # The smallest stored value cannot be negated; the kernel leaves it unchanged.
    half = 1 << (result.storage_width - 1)
    return np.where(x.values == -half, -half, -x.values)


def _reciprocal_square_root(op: Operation, result: Parameters, x: Quantized) -> Array:
    if result.storage_width == 16:
        return compute_with_table("rsqrt", x, result)
    return table_of(kernel_of(elementwise.reciprocal_square_root))(op, result, x)


def _relu(activation: str) -> Implementation:
    def fixed(op: Operation) -> str:
        return activation

    return Computation(
        formula_of(floats.apply_activation, fixed), kernel_of(elementwise.relu, fixed)
    )


def _alpha(op: tfl.LeakyReluOp) -> np.float32:
    return np.float32(number(op.alpha))


def _fake_quantized(op: tfl.FakeQuantOp, x: Array) -> Array:
    """Round to multiples of the scale in the range, which is moved to contain 0."""
    first, last = int(is_true(op.narrow_range)), 2 ** number(op.num_bits) - 1
    low, high = np.float32(number(op.min)), np.float32(number(op.max))
    scale = (high - low) / np.float32(last - first)
    zero_point = np.clip(round_away(first - low / scale), first, last)
    lowest, highest = (np.float32(n - zero_point) * scale for n in (first, last))
    shifted = np.clip(x, lowest, highest) - lowest
    steps = round_away(shifted * (np.float32(1) / scale)).astype(np.float32)
    return steps * scale + lowest


def _is_approximate(op: tfl.GeluOp) -> bool:
    return is_true(op.approximate)


def _gelu(op: tfl.GeluOp, result: Parameters, x: Quantized) -> Array:
    name = "approximate_gelu" if _is_approximate(op) else "gelu"
    return compute_with_table(name, x, result)


def _select(
    op: tfl.SelectOp | tfl.SelectV2Op, condition: Array, x: Array, y: Array
) -> Array:
    if isinstance(op, tfl.SelectOp) and np.ndim(condition) == 1:
        # A condition of rank 1 selects rows.
        condition = condition.reshape(-1, *(1,) * (np.ndim(x) - 1))
    return cast("Any", np.where(condition, x, y))


def _cast(op: tfl.CastOp, value: Array) -> Array:
    check_moves_stored_values(op.input.type, op.output.type)
    if parameters_of(op.output.type) is not None:
        return value
    dtype = numpy_dtype(op.output.type)
    if dtype == np.bool_:
        return value != 0
    if value.dtype.kind == "f" and dtype.kind in "iu":
        value = value.astype(np.int64)
    width = integer_width(op.output.type)
    if width is not None and width < 8:
        value = wrapped(value.astype(np.int64), width)
    return value.astype(dtype)


def _quantize(op: tfl.QuantizeOp, value: Array) -> Array:
    source, result = parameters_of(op.input.type), parameters_of(op.output.type)
    if result is None:
        raise Unsupported("has a result that is not quantized")
    # The kernel requantizes only 16-bit values to 32 bits: other widths would overflow.
    is_wide = (
        source is not None and result.storage_width > 16 and source.storage_width != 16
    )
    if is_wide or not (has_one_scale(source) and has_one_scale(result)):
        rounding = Rounding("nearest-away", "after-rounding")
        return quantize_array(
            dequantize_array(value, op.input.type), op.output.type, rounding
        )
    if source is None:
        return elementwise.quantize(value, result)
    return elementwise.requantize_integers(
        Quantized(value.astype(np.int64), source), result
    )


def _dequantize(op: tfl.DequantizeOp, value: Array) -> Array:
    if is_array(value) or block_type(op.input.type) is not None:
        return dequantize_array(value, op.input.type).astype(np.float32)
    if (parameters := parameters_of(op.input.type)) is None:
        return value.astype(np.float32)
    if parameters.block_sizes is not None:
        return dequantize_array(value, op.input.type)
    return elementwise.dequantize(Quantized(value.astype(np.int64), parameters))


# Along the last dimension


def _beta(op: tfl.SoftmaxOp) -> float:
    return number(op.beta)


ELEMENTWISE: Mapping[type[Operation], Implementation] = {
    tfl.AddOp: _with_activation(
        np.add, _sum(elementwise.add), requirements.takes_one_storage
    ),
    tfl.SubOp: _with_activation(
        np.subtract, _sum(elementwise.subtract), requirements.takes_one_storage
    ),
    tfl.MulOp: _with_activation(
        _multiply, kernel_of(elementwise.multiply, activation_of)
    ),
    tfl.DivOp: _with_activation(floats.divide),
    tfl.FloorDivOp: _binary(floats.floor_divide),
    tfl.FloorModOp: _binary(floats.floor_modulo),
    tfl.PowOp: _binary(np.power),
    tfl.SquaredDifferenceOp: _binary(
        _squared_difference,
        kernel_of(elementwise.squared_difference),
        requirements.takes_squared_difference,
    ),
    tfl.MaximumOp: _binary(np.maximum, OnStoredValues(formula_of(np.maximum))),
    tfl.MinimumOp: _binary(np.minimum, OnStoredValues(formula_of(np.minimum))),
    tfl.EqualOp: _comparison_computation("equal"),
    tfl.NotEqualOp: _comparison_computation("not_equal"),
    tfl.GreaterOp: _comparison_computation("greater"),
    tfl.GreaterEqualOp: _comparison_computation("greater_equal"),
    tfl.LessOp: _comparison_computation("less"),
    tfl.LessEqualOp: _comparison_computation("less_equal"),
    tfl.LogicalAndOp: _logical(np.logical_and),
    tfl.LogicalOrOp: _logical(np.logical_or),
    tfl.LogicalNotOp: _logical(np.logical_not),
    tfl.SelectOp: on_stored_values(_select, 0),
    tfl.SelectV2Op: on_stored_values(_select, 0),
    tfl.NegOp: _unary("neg", _negate, requirements.takes_negated),
    tfl.AbsOp: _unary("abs", table_of(kernel_of(elementwise.absolute))),
    tfl.SqrtOp: _unary("sqrt", table_of(kernel_of(elementwise.square_root))),
    tfl.RsqrtOp: _unary(
        "rsqrt", _reciprocal_square_root, requirements.takes_zero_points
    ),
    tfl.ExpOp: _unary("exp", _table_kernel("exp"), requirements.takes_zero_points),
    tfl.LogOp: _unary("log", _table_kernel("log"), requirements.takes_zero_points),
    tfl.SignOp: _binary(np.sign),
    tfl.SinOp: _unary("sin"),
    tfl.CosOp: _unary("cos"),
    tfl.SquareOp: _binary(_square),
    tfl.FloorOp: _unary("floor"),
    tfl.CeilOp: _unary("ceil"),
    tfl.RoundOp: _unary("round"),
    tfl.FakeQuantOp: Computation(_fake_quantized),
    tfl.CastOp: _cast,
    tfl.QuantizeOp: _quantize,
    tfl.DequantizeOp: _dequantize,
    tfl.ReluOp: _relu("RELU"),
    tfl.Relu6Op: _relu("RELU6"),
    tfl.Relu1Op: _relu("RELU_N1_TO_1"),
    tfl.Relu0To1Op: _relu("RELU_0_TO_1"),
    tfl.LeakyReluOp: Computation(
        formula_of(floats.prelu, _alpha),
        table_of(kernel_of(elementwise.leaky_relu, _alpha)),
    ),
    tfl.PReluOp: _binary(floats.prelu, kernel_of(elementwise.prelu)),
    tfl.HardSwishOp: _unary(
        "hard_swish",
        table_of(kernel_of(elementwise.hard_swish)),
        requirements.takes_hard_swish,
    ),
    tfl.EluOp: _unary("elu", _table_kernel("elu"), requirements.takes_bytes),
    tfl.GeluOp: Computation(
        formula_of(floats.gelu, _is_approximate),
        _gelu,
        requirements.takes_zero_points,
    ),
    tfl.LogisticOp: _unary(
        "logistic", _table_kernel("logistic"), requirements.takes_sigmoid
    ),
    tfl.TanhOp: _unary("tanh", _table_kernel("tanh"), requirements.takes_sigmoid),
    tfl.SoftmaxOp: Computation(
        formula_of(floats.softmax, _beta),
        kernel_of(rows.softmax, _beta),
        requirements.takes_softmax,
    ),
    tfl.LogSoftmaxOp: _binary(
        floats.log_softmax, kernel_of(rows.log_softmax), requirements.takes_log_softmax
    ),
    tfl.L2NormalizationOp: _with_activation(
        floats.l2_normalization,
        kernel_of(rows.l2_normalization),
        requirements.takes_l2_normalization,
    ),
}
"""Implementations of elementwise ops and of ops along the last dimension."""
