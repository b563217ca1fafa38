"""The ops of TensorFlow Lite that compute: elementwise, in windows, along dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation

from xdsl_quant.dialects import tfl
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics import quantize as quantize_with
from xdsl_quant.numerics.tflite import (
    elementwise,
    floats,
    products,
    reduction,
    rows,
    windows,
)
from xdsl_quant.numerics.tflite.products import Window
from xdsl_quant.numerics.tflite.quantized import Quantized, scale_of
from xdsl_quant.numerics.tflite.tables import looked_up
from xdsl_quant.runtime.array_types import numpy_dtype

from .implementations import Implementation
from .tfl_computing import (
    Formula,
    Kernel,
    Operands,
    computed,
    expressed,
    has_one_scale,
    parameters_of,
    typed,
)
from .values import resized

Parameters = QuantizationParameters

# Options


def _activation(op: Any) -> str:
    return op.fused_activation_function.data


def _flag(attribute: Any) -> bool:
    return attribute is not None and bool(attribute.value.data)


def _number(attribute: Any) -> Any:
    return attribute.value.data


def _window(op: Any) -> Window:
    dilations = 1, 1
    if "dilation_h_factor" in op.properties:
        dilations = _number(op.dilation_h_factor), _number(op.dilation_w_factor)
    strides = _number(op.stride_h), _number(op.stride_w)
    return Window(strides, dilations, op.padding.data)


def _kernel(function: Callable[..., Any], *options: Callable[[Any], Any]) -> Kernel:
    """A function of operands, of the parameters of the result, and of options of the op."""

    def kernel(op: Operation, result: Parameters, *operands: Any) -> Any:
        return function(*operands, result, *(option(op) for option in options))

    return kernel


def _formula(function: Callable[..., Any], *options: Callable[[Any], Any]) -> Formula:
    """A function of operands and of options of the op."""

    def formula(op: Operation, *operands: Any) -> Any:
        return function(*operands, *(option(op) for option in options))

    return formula


def _has_scale(parameters: Parameters, scale: float, zero_point: int) -> bool:
    """Whether parameters are those that an op fixes; the runtime tolerates so much."""
    is_same = np.isclose(float(parameters.scales), scale, rtol=1e-3, atol=0)
    return bool(is_same) and int(parameters.zero_points) == zero_point


def _have_one_scale(result: Parameters | None, *operands: Quantized) -> bool:
    """Whether the same stored values express the same numbers."""
    assert result is not None
    return all(
        x.parameters.scales == result.scales
        and x.parameters.zero_points == result.zero_points
        for x in operands
    )


def _on_stored_values(function: Callable[..., Any]) -> Kernel:
    """A kernel of stored values as they are, if all have the scale of the result."""

    def kernel(op: Operation, result: Parameters | None, *operands: Any) -> Any:
        quantized = [x for x in operands if isinstance(x, Quantized)]
        if result is not None and not _have_one_scale(result, *quantized):
            return None
        values = (x.values if isinstance(x, Quantized) else x for x in operands)
        return function(op, *values)

    return kernel


# Elementwise


def _binary(
    function: Callable[..., Any], kernel: Kernel | None = None
) -> Implementation:
    return computed(_formula(function), kernel)


def _fused(
    function: Callable[..., Any], kernel: Kernel | None = None
) -> Implementation:
    def formula(op: Operation, *values: Any) -> Any:
        return floats.activated(function(*values), _activation(op))

    return computed(formula, kernel)


def _sum(function: Callable[..., Any]) -> Kernel:
    def kernel(op: Operation, result: Parameters, *operands: Quantized) -> Any:
        everything = *(x.parameters for x in operands), result
        # A file has an option for it, and it is set where it can be.
        is_simple = not any(p.has_zero_points for p in everything) and all(
            p.scales <= result.scales for p in everything
        )
        return function(*operands, result, _activation(op), is_simple)

    return kernel


def _squared_difference(lhs: Any, rhs: Any) -> Any:
    return (lhs - rhs) * (lhs - rhs)


def _compared(direction: str) -> Implementation:
    function = elementwise.COMPARISONS[direction]

    def kernel(op: Operation, result: None, lhs: Quantized, rhs: Quantized) -> Any:
        return elementwise.compare(direction, lhs, rhs)

    return _binary(function, kernel)


def _unary(name: str, kernel: Kernel | None = None) -> Implementation:
    return _binary(floats.UNARY[name], kernel)


def _looked_up(name: str) -> Kernel:
    return _kernel(partial(looked_up, name))


def _sigmoid(name: str) -> Kernel:
    def kernel(op: Operation, result: Parameters, x: Quantized) -> Any:
        is_wide = result.storage_width == 16
        if is_wide and not (_has_scale(result, 2**-15, 0) and not x.zero_point):
            return None
        return looked_up(name, x, result)

    return kernel


def _negated(op: Operation, result: Parameters, x: Quantized) -> Any:
    # The kernel ignores zero points. The smallest stored value stays what it is.
    if x.zero_point or not _have_one_scale(result, x):
        return None
    half = 1 << (result.storage_width - 1)
    return np.where(x.values == -half, -half, -x.values)


def _reciprocal_square_root(op: Operation, result: Parameters, x: Quantized) -> Any:
    if result.storage_width == 16:
        return looked_up("rsqrt", x, result)
    return elementwise.reciprocal_square_root(x, result)


def _hard_swish(op: Operation, result: Parameters, x: Quantized) -> Any:
    # The kernel only takes a multiplier below 1.
    if np.float32(1 / 128) * x.scale / scale_of(result) >= 1:
        return None
    return elementwise.hard_swish(x, result)


def _relu(activation: str) -> Implementation:
    def fixed(op: Operation) -> str:
        return activation

    return computed(_formula(floats.activated, fixed), _kernel(elementwise.relu, fixed))


def _alpha(op: tfl.LeakyReluOp) -> Any:
    return np.float32(_number(op.alpha))


def _is_approximate(op: tfl.GeluOp) -> bool:
    return _flag(op.approximate)


def _gelu(op: tfl.GeluOp, result: Parameters, x: Quantized) -> Any:
    name = "approximate_gelu" if _is_approximate(op) else "gelu"
    return looked_up(name, x, result)


def _selected(op: tfl.SelectOp | tfl.SelectV2Op, condition: Any, x: Any, y: Any) -> Any:
    if isinstance(op, tfl.SelectOp) and np.ndim(condition) == 1:
        # It chooses rows.
        condition = condition.reshape(-1, *(1,) * (np.ndim(x) - 1))
    return cast("Any", np.where(condition, x, y))


def _cast(op: tfl.CastOp, value: Any) -> Any:
    array, type_ = np.asarray(value), op.output.type
    match array.dtype.kind, numpy_dtype(type_).kind:
        case _, "b":
            return typed(op, array != 0)
        case "f", "i" | "u":
            return typed(op, resized(array.astype(np.int64), type_))
        case _, "i" | "u":
            return typed(op, resized(array, type_))
        case _:
            return typed(op, array)


def _quantize(op: tfl.QuantizeOp, value: Any) -> Any:
    source, result = parameters_of(op.input.type), parameters_of(op.output.type)
    assert result is not None
    if not (has_one_scale(source) and has_one_scale(result)):
        values = quantize_with(
            expressed(value, op.input.type),
            result,
            rounding_mode="nearest-away",
            zero_point_order="after-rounding",
        )
    elif source is None:
        values = elementwise.quantize(np.asarray(value), result)
    else:
        x = Quantized(value.astype(np.int64), source)
        values = elementwise.requantize(x, result)
    return typed(op, values)


def _dequantize(op: tfl.DequantizeOp, value: Any) -> Any:
    return typed(op, expressed(value, op.input.type))


# Along the last dimension


def _beta(op: tfl.SoftmaxOp) -> Any:
    return _number(op.beta)


def _softmax(op: tfl.SoftmaxOp, result: Parameters, x: Quantized) -> Any:
    if result.storage_width == 16:
        is_fixed = _has_scale(result, 2**-15, 0)
    else:
        is_fixed = _has_scale(result, 2**-8, result.storage_min)
    return rows.softmax(x, result, _beta(op)) if is_fixed else None


def _log_softmax(op: tfl.LogSoftmaxOp, result: Parameters, x: Quantized) -> Any:
    is_fixed = _has_scale(result, 1 / 16, result.storage_max)
    return rows.log_softmax(x, result) if is_fixed else None


def _l2_normalization(op: Any, result: Parameters, x: Quantized) -> Any:
    # Unsigned stored values have another kernel.
    if not result.is_signed or not _has_scale(result, 1 / 128, 0):
        return None
    return rows.l2_normalization(x, result) if _activation(op) == "NONE" else None


# Products


def _integers(bias: Any) -> Any:
    return bias.values if isinstance(bias, Quantized) else bias


def _has_wide_accumulator(x: Quantized, bias: Any) -> bool:
    """Values of 16 bits have one of 64 bits, unless the bias has 32."""
    is_narrow = isinstance(bias, Quantized) or (
        bias is not None and bias.dtype != np.int64
    )
    return x.parameters.storage_width == 16 and not is_narrow


def _centered(weights: Quantized) -> Quantized:
    """Weights as the kernels take them, which expect zero points 0."""
    if weights.parameters.has_zero_points:
        return weights._replace(values=weights.corrected)
    return weights


def _convolution(
    sums: Callable[..., Any], function: Callable[..., Any], channels: int
) -> Implementation:
    def formula(op: Any, x: Any, weights: Any, bias: Any) -> Any:
        return _with_bias(op, sums(x, weights, _window(op)), bias)

    def kernel(op: Any, result: Parameters, x: Any, weights: Any, bias: Any) -> Any:
        is_wide = _has_wide_accumulator(x, bias)
        return function(
            x,
            _centered(weights),
            _integers(bias),
            result,
            _window(op),
            _activation(op),
            is_wide,
        )

    what = Operands(plain=(2,), weights=1, channels=channels, bias=2)
    return computed(formula, kernel, what)


def _with_bias(op: Any, sums: Any, bias: Any) -> Any:
    return floats.activated(sums if bias is None else sums + bias, _activation(op))


def _shape(sizes: Any) -> Any:
    return tuple(np.ravel(sizes).tolist())


def _transposed_formula(op: Any, shape: Any, weights: Any, x: Any, bias: Any) -> Any:
    sums = products.transposed_sums(x, weights, _shape(shape), _window(op))
    return _with_bias(op, sums, bias)


def _transposed_kernel(
    op: Any, result: Parameters, shape: Any, weights: Any, x: Any, bias: Any
) -> Any:
    return products.transposed_convolution(
        x,
        _centered(weights),
        _integers(bias),
        result,
        _shape(shape),
        _window(op),
        _activation(op),
    )


def _fully_connected_formula(op: Any, x: Any, weights: Any, bias: Any) -> Any:
    keep_num_dims = _flag(op.keep_num_dims)
    return _with_bias(op, floats.fully_connected(x, weights, keep_num_dims), bias)


def _fully_connected_kernel(
    op: Any, result: Parameters, x: Any, weights: Any, bias: Any
) -> Any:
    return products.fully_connected(
        x, weights, _integers(bias), result, _activation(op), _flag(op.keep_num_dims)
    )


def _adj_x(op: tfl.BatchMatMulOp) -> bool:
    return _flag(op.adj_x)


def _adj_y(op: tfl.BatchMatMulOp) -> bool:
    return _flag(op.adj_y)


# Images


def _sizes(op: Any) -> tuple[int, int]:
    return _number(op.filter_height), _number(op.filter_width)


def _pooled(
    on_floats: Callable[..., Any], function: Callable[..., Any]
) -> Implementation:
    def formula(op: Any, x: Any) -> Any:
        return floats.activated(on_floats(x, _sizes(op), _window(op)), _activation(op))

    def kernel(op: Any, result: Parameters, x: Quantized) -> Any:
        if not _have_one_scale(result, x):
            return None
        return function(x.values, result, _sizes(op), _window(op), _activation(op))

    return computed(formula, kernel)


def _centers(op: Any) -> tuple[bool, bool]:
    return _flag(op.align_corners), _flag(op.half_pixel_centers)


def _resize_bilinear_of_floats(op: Any, x: Any, size: Any) -> Any:
    return floats.resize_bilinear(x, _shape(size), *_centers(op))


def _resize_bilinear(op: Any, result: Parameters, x: Quantized, size: Any) -> Any:
    if not _have_one_scale(result, x):
        return None
    if not result.is_signed:
        # The kernel of unsigned stored values computes with floats.
        values = x.values.astype(np.float32)
        means = floats.resize_bilinear(values, _shape(size), *_centers(op))
        return np.floor(means + np.float32(0.5))
    return windows.resize_bilinear(x.values, _shape(size), *_centers(op))


# Along dimensions


def _axes(axes: Any) -> Sequence[int]:
    return np.ravel(axes).tolist()


def _reduced(
    on_numbers: Callable[..., Any], function: Callable[..., Any] | None = None
) -> Implementation:
    """
    Args:
        on_numbers: a function of an array and its dimensions that keeps these.
        function: the same of quantized values, with the parameters of the result; `None`
            if it is the same one of stored values.
    """

    def kept(op: Any, values: Any, axes: Any) -> Any:
        if _flag(op.keep_dims):
            return values
        return np.squeeze(values, tuple({a % values.ndim for a in _axes(axes)}))

    def formula(op: Any, x: Any, axes: Any) -> Any:
        return kept(op, on_numbers(x, _axes(axes)), axes)

    def kernel(op: Any, result: Parameters, x: Quantized, axes: Any) -> Any:
        assert function is not None
        return kept(op, function(x, _axes(axes), result), axes)

    return computed(
        formula, kernel if function else _on_stored_values(formula), Operands((1,))
    )


def _with(function: Any) -> Callable[..., Any]:
    """A reduction of NumPy's that keeps dimensions."""

    def reduce(x: Any, axes: Sequence[int]) -> Any:
        return function(x, axis=tuple({a % x.ndim for a in axes}), keepdims=True)

    return reduce


def _first(function: Callable[..., Any]) -> Implementation:
    def index(op: Any, x: Any, dim: Any) -> Any:
        return function(x, axis=int(np.ravel(dim)[0]))

    return computed(index, _on_stored_values(index), Operands((1,)))


ARITHMETIC: Mapping[type[Operation], Implementation] = {
    tfl.AddOp: _fused(np.add, _sum(elementwise.add)),
    tfl.SubOp: _fused(np.subtract, _sum(elementwise.subtract)),
    tfl.MulOp: _fused(np.multiply, _kernel(elementwise.multiply, _activation)),
    tfl.DivOp: _fused(floats.divide),
    tfl.FloorDivOp: _binary(floats.floor_divide),
    tfl.FloorModOp: _binary(floats.floor_modulo),
    tfl.PowOp: _binary(np.power),
    tfl.SquaredDifferenceOp: _binary(
        _squared_difference, _kernel(elementwise.squared_difference)
    ),
    tfl.MaximumOp: _binary(np.maximum, _on_stored_values(_formula(np.maximum))),
    tfl.MinimumOp: _binary(np.minimum, _on_stored_values(_formula(np.minimum))),
    tfl.EqualOp: _compared("equal"),
    tfl.NotEqualOp: _compared("not_equal"),
    tfl.GreaterOp: _compared("greater"),
    tfl.GreaterEqualOp: _compared("greater_equal"),
    tfl.LessOp: _compared("less"),
    tfl.LessEqualOp: _compared("less_equal"),
    tfl.LogicalAndOp: _binary(np.logical_and),
    tfl.LogicalOrOp: _binary(np.logical_or),
    tfl.LogicalNotOp: _binary(np.logical_not),
    tfl.SelectOp: computed(_selected, _on_stored_values(_selected), Operands((0,))),
    tfl.SelectV2Op: computed(_selected, _on_stored_values(_selected), Operands((0,))),
    tfl.NegOp: _unary("neg", _negated),
    tfl.AbsOp: _unary("abs", _kernel(elementwise.absolute)),
    tfl.SqrtOp: _unary("sqrt", _kernel(elementwise.square_root)),
    tfl.RsqrtOp: _unary("rsqrt", _reciprocal_square_root),
    tfl.ExpOp: _unary("exp", _looked_up("exp")),
    tfl.LogOp: _unary("log", _looked_up("log")),
    tfl.SinOp: _unary("sin"),
    tfl.CosOp: _unary("cos"),
    tfl.FloorOp: _unary("floor"),
    tfl.CeilOp: _unary("ceil"),
    tfl.RoundOp: _unary("round"),
    tfl.CastOp: _cast,
    tfl.QuantizeOp: _quantize,
    tfl.DequantizeOp: _dequantize,
    tfl.ReluOp: _relu("RELU"),
    tfl.Relu6Op: _relu("RELU6"),
    tfl.Relu1Op: _relu("RELU_N1_TO_1"),
    tfl.Relu0To1Op: _relu("RELU_0_TO_1"),
    tfl.LeakyReluOp: computed(
        _formula(floats.prelu, _alpha), _kernel(elementwise.leaky_relu, _alpha)
    ),
    tfl.PReluOp: _binary(floats.prelu, _kernel(elementwise.prelu)),
    tfl.HardSwishOp: _unary("hard_swish", _hard_swish),
    tfl.EluOp: _unary("elu", _looked_up("elu")),
    tfl.GeluOp: computed(_formula(floats.gelu, _is_approximate), _gelu),
    tfl.LogisticOp: _unary("logistic", _sigmoid("logistic")),
    tfl.TanhOp: _unary("tanh", _sigmoid("tanh")),
    tfl.SoftmaxOp: computed(_formula(floats.softmax, _beta), _softmax),
    tfl.LogSoftmaxOp: _binary(floats.log_softmax, _log_softmax),
    tfl.L2NormalizationOp: _fused(floats.l2_normalization, _l2_normalization),
    tfl.Conv2DOp: _convolution(products.convolution_sums, products.convolution, 0),
    tfl.DepthwiseConv2DOp: _convolution(
        products.depthwise_sums, products.depthwise_convolution, 3
    ),
    tfl.TransposeConvOp: computed(
        _transposed_formula,
        _transposed_kernel,
        Operands(plain=(0, 3), input=2, weights=1, bias=3),
    ),
    tfl.FullyConnectedOp: computed(
        _fully_connected_formula,
        _fully_connected_kernel,
        Operands(plain=(2,), weights=1, bias=2),
    ),
    tfl.BatchMatMulOp: computed(
        _formula(floats.batch_matmul, _adj_x, _adj_y),
        _kernel(products.batch_matmul, _adj_x, _adj_y),
    ),
    tfl.AveragePool2DOp: _pooled(floats.average_pool, windows.average_pool),
    tfl.MaxPool2DOp: _pooled(floats.max_pool, windows.max_pool),
    tfl.ResizeBilinearOp: computed(
        _resize_bilinear_of_floats, _resize_bilinear, Operands((1,))
    ),
    tfl.MeanOp: _reduced(floats.mean, reduction.mean),
    tfl.SumOp: _reduced(_with(np.sum), reduction.total),
    tfl.ReduceProdOp: _reduced(_with(np.prod), reduction.product),
    tfl.ReduceMaxOp: _reduced(_with(np.max)),
    tfl.ReduceMinOp: _reduced(_with(np.min)),
    tfl.ArgMaxOp: _first(np.argmax),
    tfl.ArgMinOp: _first(np.argmin),
}
"""The ops with one result that is computed."""
