"""Ops with weights, of images, and along dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.unit.frontends.tflite.formulas.cases import Case, Tensor

from .drawing import Declarations, Draw, real

oracle = Declarations()

# Products


def drawn_weights(draw: Draw, shape: Sequence[int], axis: int) -> Tensor:
    """Weights in the storage that the kind says, with a scale for each channel or one."""
    if draw.storage == "u8":
        return draw.quantized(shape, draw.scale(), is_constant=True)
    storage = "i4" if "i4" in draw.kind else "i8"
    # The range is narrow, but what is outside of it is computed as it is.
    low = (-7 if storage == "i4" else -127) - draw.chance(0.1)
    values = draw.stored(shape, storage, low=low)
    if shape[axis] == 1 or draw.chance(0.3):
        return draw.tensor(values, storage, draw.scale(), is_constant=True)
    scales = [draw.scale(0.01, 0.1) for _ in range(shape[axis])]
    return draw.tensor(values, storage, scales, 0, axis, is_constant=True)


def spread_of(x: Tensor, weights: Tensor, count: int) -> float:
    """About how large sums of so many products of stored values are."""
    factors = (t.array - t.zero_points[0] for t in (x, weights))
    means = [float(np.mean(np.square(factor.astype(np.float64)))) for factor in factors]
    return max((means[0] * means[1] * count) ** 0.5, 1.0)


def drawn_bias(
    draw: Draw, x: Tensor, weights: Tensor, count: int, spread: float
) -> Tensor:
    storage = "i64" if draw.storage == "i16" and "i32" not in draw.kind else "i32"
    values = np.rint(draw.random.standard_normal(count) * spread * draw.scale(0.01, 1))
    scales = [float(np.float32(x.scales[0] * scale)) for scale in weights.scales]
    axis = None if len(scales) == 1 else 0
    values = values.astype(np.int64)
    return draw.tensor(values, storage, scales, 0, axis, is_constant=True)


def drawn_result(draw: Draw, x: Tensor, weights: Tensor, spread: float) -> Tensor:
    extent = 2.5 * spread * x.scales[0] * float(np.median(weights.scales))
    # FULLY_CONNECTED converts results to 32 bits before it clamps them.
    count = weights.array[0].size
    bits = 8 + int(draw.storage[1:]) - 31
    least = count * 2.0**bits * x.scales[0] * max(weights.scales)
    return draw.result_of([-extent, extent], least_scale=least)


def _image(draw: Draw, channels: int) -> tuple[int, int, int, int]:
    return draw.integer(1, 2), draw.integer(4, 9), draw.integer(4, 9), channels


def drawn_window(
    draw: Draw, image: Sequence[int], has_dilations: bool
) -> dict[str, Any]:
    """
    Strides, dilations and padding, and the sizes of a window that fits into an image, as
    `height` and `width`.
    """
    options: dict[str, Any] = {
        "padding": draw.integer(0, 1),
        "fused_activation_function": draw.activation(),
    }
    for axis, (letter, name) in enumerate((("h", "height"), ("w", "width")), 1):
        dilation = draw.choice((1, 1, 2, 3)) if has_dilations else 1
        fitting = (image[axis] - 1) // dilation + 1
        options[name] = draw.integer(1, min(4, fitting))
        options[f"stride_{letter}"] = draw.choice((1, 1, 2, 3))
        if has_dilations:
            options[f"dilation_{letter}_factor"] = dilation
    return options


_WEIGHTED = "i8, u8, i8 x i4, i16 x i8"


@oracle("CONV_2D", f"{_WEIGHTED}, i16 x i8 + i32")
@oracle("DEPTHWISE_CONV_2D", _WEIGHTED)
def convolutions(draw: Draw) -> Case:
    is_depthwise = draw.op == "DEPTHWISE_CONV_2D"
    depth = draw.integer(1, 4)
    # Groups of channels have only one kernel for signed stored values.
    groups = 1 if draw.storage == "u8" else draw.choice((1, 1, 2, 3))
    channels = depth if is_depthwise else depth * groups
    image = _image(draw, channels)
    options = drawn_window(draw, image, has_dilations=True)
    sizes = options.pop("height"), options.pop("width")
    factor = draw.integer(1, 3)
    outputs = factor * (channels if is_depthwise else groups)
    if is_depthwise:
        options["depth_multiplier"] = factor
    x = draw.quantized(image)
    if is_depthwise:
        weights = drawn_weights(draw, (1, *sizes, outputs), 3)
    else:
        weights = drawn_weights(draw, (outputs, *sizes, depth), 0)
    count = sizes[0] * sizes[1] * (1 if is_depthwise else depth)
    spread = spread_of(x, weights, count)
    bias = drawn_bias(draw, x, weights, outputs, spread)
    if draw.kind.endswith("i32"):
        options["quantized_bias_type"] = 2
    operands = [x, weights, bias]
    # CONV_2D is refused without a bias.
    if is_depthwise and draw.storage != "u8" and draw.chance(0.2):
        del operands[2]
    return draw.case(operands, drawn_result(draw, x, weights, spread), **options)


@oracle("TRANSPOSE_CONV", "i8, u8, i16 x i8, i16 x i8 + i32")
def transposed_convolutions(draw: Draw) -> Case:
    outputs, channels = draw.integer(1, 4), draw.integer(1, 4)
    image = _image(draw, outputs)
    options = drawn_window(draw, image, has_dilations=False)
    sizes = options.pop("height"), options.pop("width")
    strides = options["stride_h"], options["stride_w"]
    is_same = options["padding"] == 0
    places = [
        -(-image[a + 1] // strides[a])
        if is_same
        else (image[a + 1] - sizes[a]) // strides[a] + 1
        for a in range(2)
    ]
    if draw.storage == "u8":
        # Its kernel has no activations.
        options["fused_activation_function"] = 0
    x = draw.quantized((image[0], *places, channels))
    weights = drawn_weights(draw, (outputs, *sizes, channels), 0)
    spread = spread_of(x, weights, max(sizes[0] * sizes[1] * channels // 2, 1))
    operands = [draw.integers(image), weights, x]
    if draw.chance(0.7):
        operands.append(drawn_bias(draw, x, weights, outputs, spread))
    if draw.kind.endswith("i32"):
        options["quantized_bias_type"] = 2
    return draw.case(operands, drawn_result(draw, x, weights, spread), **options)


@oracle("FULLY_CONNECTED", f"{_WEIGHTED}, i16 x i8 + i32")
def fully_connected(draw: Draw) -> Case:
    depth, outputs = draw.integer(1, 40), draw.integer(1, 12)
    # With several rows there are enough values.
    rows = [draw.integer(1, 3) for _ in range(draw.integer(0, 2))]
    x = draw.quantized((*rows, draw.integer(2, 9), depth))
    weights = drawn_weights(draw, (outputs, depth), 0)
    spread = spread_of(x, weights, depth)
    bias = None
    if draw.chance(0.7):
        bias = drawn_bias(draw, x, weights, outputs, spread)
    options: dict[str, Any] = {}
    if draw.kind.endswith("i32"):
        options["quantized_bias_type"] = 2
    return draw.case(
        [x, weights, bias],
        drawn_result(draw, x, weights, spread),
        keep_num_dims=draw.chance(0.5),
        fused_activation_function=draw.activation(),
        **options,
    )


@oracle("BATCH_MATMUL", "i8, i16")
def matrix_products(draw: Draw) -> Case:
    m, k, n = draw.integer(2, 6), draw.integer(1, 9), draw.integer(2, 6)
    batches = tuple(draw.integer(1, 3) for _ in range(draw.integer(0, 2)))
    adj_x, adj_y = draw.chance(0.5), draw.chance(0.5)
    x = draw.quantized((*batches, *((k, m) if adj_x else (m, k))))
    other = tuple(1 if draw.chance(0.3) else size for size in batches)
    y = draw.quantized((*other, *((n, k) if adj_y else (k, n))))
    spread = spread_of(x, y, k)
    result = drawn_result(draw, x, y, spread)
    return draw.case([x, draw.maybe_constant(y)], result, adj_x=adj_x, adj_y=adj_y)


@oracle("SVDF", "i8, f32, f32 x i8")
def svdf(draw: Draw) -> Case:
    rank, units, depth = draw.integer(1, 3), draw.integer(10, 16), draw.integer(1, 9)
    filters, memory, batch = rank * units, draw.integer(1, 6), draw.integer(1, 4)
    if draw.storage == "f32":
        return _float_svdf(draw, rank, (batch, depth), (filters, memory))
    x = draw.quantized((batch, depth), draw.scale())
    features = draw.quantized((filters, depth), draw.scale(), 0, is_constant=True)
    spread = spread_of(x, features, depth) * x.scales[0] * features.scales[0]
    time = draw.quantized((filters, memory), draw.scale(1e-5), 0, "i16", True)
    state_scale = draw.result_of([-3 * spread, 3 * spread], "i16").scales[0]
    state = draw.tensor(np.zeros((batch, filters * memory)), "i16", state_scale)
    state = state._replace(is_variable=True)
    sums = spread * float(np.std(real(time))) * rank**0.5
    unit = float(np.float32(state_scale * time.scales[0]))
    values = draw.random.standard_normal(units) * sums / unit / 2
    bias = draw.tensor(np.rint(values).astype(np.int64), "i32", unit, is_constant=True)
    # Another activation than RELU is refused, though it is not computed.
    return draw.case(
        [x, features, time, draw.choice((bias, None)), state],
        draw.result_of([-2.5 * sums, 2.5 * sums]),
        rank=rank,
        fused_activation_function=1,
    )


def _float_svdf(
    draw: Draw, rank: int, shape: tuple[int, int], time_shape: tuple[int, int]
) -> Case:
    """With floats, or with stored weights."""

    def numbers(shape: Sequence[int]) -> Tensor:
        values = draw.random.standard_normal(tuple(shape)).astype(np.float32)
        return draw.tensor(values, "f32")

    filters, memory = time_shape
    weights: list[Tensor] = [
        draw.quantized(each, draw.scale(), 0, "i8")
        if "i8" in draw.kind
        else numbers(each)
        for each in ((filters, shape[1]), time_shape)
    ]
    bias = numbers((filters // rank,))._replace(is_constant=True)
    state = draw.tensor(np.zeros((shape[0], filters * memory)), "f32")
    return draw.case(
        [
            numbers(shape),
            *(each._replace(is_constant=True) for each in weights),
            draw.choice((bias, None)),
            state._replace(is_variable=True),
        ],
        draw.result("f32"),
        rank=rank,
        fused_activation_function=draw.choice((0, 1)),
        asymmetric_quantize_inputs=draw.chance(0.5),
    )


@oracle("EMBEDDING_LOOKUP", "i8")
def embedding_lookup(draw: Draw) -> Case:
    rows, columns = draw.integer(1, 9), draw.integer(1, 9)
    table = draw.quantized((rows, columns), is_constant=True, zero_point=0, low=-127)
    indices = draw.random.integers(0, rows, draw.integer(20, 30))
    operands = [draw.integers(indices, is_constant=False), table]
    return draw.case(operands, draw.result_like(table))


INPUTS: Mapping[str, int] = {
    "CONV_2D": 0,
    "DEPTHWISE_CONV_2D": 0,
    "TRANSPOSE_CONV": 2,
    "FULLY_CONNECTED": 0,
    "BATCH_MATMUL": 0,
}
"""The operand of each product that has a batch."""

LARGE_STEP = 4
"""The last one of so many models of products has `LARGE_COUNT` results or more."""

LARGE_COUNT = 100_000


def _tied_result(case: Case) -> Tensor:
    """A result whose scale is that of the sums, times a power of two."""
    first, second, *_ = (t.scales[0] for t in case.operands if t and t.scales)
    unit = float(np.float32(first) * np.float32(second))
    (result,) = case.results
    exponent = max(round(np.log2(result.scales[0] / unit)), 1)
    return result._replace(scales=[unit * 2.0**exponent])


def enlarged(draw: Draw, case: Case, count: int) -> Case:
    """
    The same model for a batch that gives `LARGE_COUNT` results.

    Many sums are in the middle between two stored values, where a multiplier that differs
    by its last bit gives other results.

    Args:
        draw: draws the stored values.
        case: a model of a product.
        count: the element count of its result.
    """
    factor = -(-LARGE_COUNT // count)
    operands = list(case.operands)
    position = INPUTS[case.op]
    x = operands[position]
    assert x is not None
    if case.op == "BATCH_MATMUL":
        shape = (factor, *x.array.shape)
    else:
        shape = (factor * x.array.shape[0], *x.array.shape[1:])
    operands[position] = draw.like(x, shape)
    if case.op == "TRANSPOSE_CONV":
        sizes = operands[0]
        assert sizes is not None
        operands[0] = sizes._replace(array=sizes.array * [factor, 1, 1, 1])
    return case._replace(operands=operands, results=[_tied_result(case)])


# Images


@oracle("AVERAGE_POOL_2D MAX_POOL_2D", "i8, u8, i16")
def pools(draw: Draw) -> Case:
    image = _image(draw, draw.integer(2, 4))
    options = drawn_window(draw, image, has_dilations=False)
    options["filter_height"] = options.pop("height")
    options["filter_width"] = options.pop("width")
    x = draw.quantized(image)
    return draw.case([x], draw.result_like(x), **options)


@oracle("RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR", "i8, u8, i16")
def resizing(draw: Draw) -> Case:
    x = draw.quantized((draw.integer(1, 2), *draw.shape(3, 3)))
    sizes = draw.integer(1, 9), draw.integer(4, 9)
    align, half = draw.choice(((False, False), (True, False), (False, True)))
    return draw.case(
        [x, draw.integers(sizes)],
        draw.result_like(x),
        align_corners=align,
        half_pixel_centers=half,
    )


# Along dimensions


def _reduced(draw: Draw, most: int) -> tuple[Tensor, list[int], tuple[int, ...]]:
    """An operand, dimensions, and these without negative numbers."""
    shape = draw.shape()
    if len(shape) > 1:
        axes = draw.axes(len(shape), most)
    else:
        shape, axes = (*shape, draw.integer(1, 9)), [draw.choice((1, -1))]
    return draw.quantized(shape), axes, tuple(axis % len(shape) for axis in axes)


# The kernel of SUM takes the bytes of all stored values for those of u8, and writes such.
@oracle("MEAN", "i8, u8, i16")
@oracle("SUM", "u8")
@oracle("REDUCE_PROD", "i8, i16")
@oracle("REDUCE_MAX REDUCE_MIN", "i8, u8, i16")
def reductions(draw: Draw) -> Case:
    x, axes, kept = _reduced(draw, 2)
    if draw.op in ("REDUCE_MAX", "REDUCE_MIN"):
        result = draw.result_like(x)
    else:
        function = {"MEAN": np.mean, "SUM": np.sum, "REDUCE_PROD": np.prod}[draw.op]
        result = draw.result_of(function(real(x), axis=kept))
    operands = [x, draw.integers(axes)]
    return draw.case(operands, result, keep_dims=draw.chance(0.5))


@oracle("ARG_MAX ARG_MIN", "i8, u8")
def positions(draw: Draw) -> Case:
    x, (axis, *_), _ = _reduced(draw, 1)
    to, number = draw.choice((("i32", 2), ("i64", 4)))
    return draw.case([x, draw.integers(axis)], draw.result(to), output_type=number)


@oracle("TOPK_V2", "i8, u8, i16")
def largest(draw: Draw) -> Case:
    x = draw.quantized(draw.shape())
    if draw.chance(0.4):
        # Some elements are equal.
        x = x._replace(array=draw.stored(x.array.shape, draw.storage, low=1, high=5))
    count = draw.integer(1, x.array.shape[-1])
    results = [draw.result_like(x), draw.result("i32")]
    return draw.case([x, draw.integers(count)], results)
