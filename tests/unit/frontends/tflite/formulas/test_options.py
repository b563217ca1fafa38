"""Options of kernels and their defaults, small shapes, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.frontends.tflite.formulas import data_movement as move
from xdsl_quant.frontends.tflite.formulas import (
    elementwise,
    products,
    reduction,
    rows,
    windows,
)
from xdsl_quant.frontends.tflite.formulas.products import Window
from xdsl_quant.frontends.tflite.formulas.quantized import (
    Quantized,
    activation_bounds,
    apply_integer_activation,
)
from xdsl_quant.frontends.tflite.formulas.tables import (
    compute_with_table,
    sigmoid_table,
)
from xdsl_quant.numerics import QuantizationParameters, primitives

Array = NDArray[Any]
P = QuantizationParameters


def stored(
    values: Any, scale: float = 0.5, zero_point: int = 0, **kwargs: Any
) -> Quantized:
    return Quantized(np.array(values, np.int64), P(scale, zero_point, **kwargs))


X = stored([[-8, 3, 127], [50, -128, 1]])
Y = stored([[4, 3, -7], [0, 2, 9]])
IMAGE = Quantized(np.arange(-12, 12).reshape(1, 3, 4, 2).astype(np.int64), P(0.5, 0))
FILTERS = stored(np.arange(-8, 8).reshape(2, 2, 2, 2))
DEPTHWISE = stored(np.arange(-4, 4).reshape(1, 2, 2, 2))
RESULT = P(0.25, 3)


@pytest.mark.parametrize(
    ("kernel", "with_options"),
    [
        (
            lambda: elementwise.add(X, Y, RESULT),
            lambda: elementwise.add(X, Y, RESULT, "NONE", False),
        ),
        (
            lambda: elementwise.subtract(X, Y, RESULT),
            lambda: elementwise.subtract(X, Y, RESULT, "NONE", False),
        ),
        (
            lambda: elementwise.multiply(X, Y, RESULT),
            lambda: elementwise.multiply(X, Y, RESULT, "NONE"),
        ),
        (
            lambda: elementwise.relu(X, RESULT),
            lambda: elementwise.relu(X, RESULT, "RELU"),
        ),
        (
            lambda: products.convolution(IMAGE, FILTERS, None, RESULT, Window()),
            lambda: products.convolution(
                IMAGE, FILTERS, None, RESULT, Window(), "NONE", False
            ),
        ),
        (
            lambda: products.depthwise_convolution(
                IMAGE, DEPTHWISE, None, RESULT, Window()
            ),
            lambda: products.depthwise_convolution(
                IMAGE, DEPTHWISE, None, RESULT, Window(), "NONE", False
            ),
        ),
        (
            lambda: products.transposed_convolution(
                IMAGE, FILTERS, None, RESULT, (1, 4, 5, 2), Window()
            ),
            lambda: products.transposed_convolution(
                IMAGE, FILTERS, None, RESULT, (1, 4, 5, 2), Window(), "NONE", False
            ),
        ),
        (
            lambda: products.fully_connected(X, Y, None, RESULT),
            lambda: products.fully_connected(X, Y, None, RESULT, "NONE", False),
        ),
        (
            lambda: products.batch_matmul(stored([[1, 2], [3, 4]]), X, RESULT),
            lambda: products.batch_matmul(
                stored([[1, 2], [3, 4]]), X, RESULT, False, False
            ),
        ),
        (
            lambda: windows.average_pool_2d(
                IMAGE.values, IMAGE.parameters, (2, 2), Window()
            ),
            lambda: windows.average_pool_2d(
                IMAGE.values, IMAGE.parameters, (2, 2), Window(), "NONE"
            ),
        ),
        (
            lambda: windows.max_pool_2d(
                IMAGE.values, IMAGE.parameters, (2, 2), Window()
            ),
            lambda: windows.max_pool_2d(
                IMAGE.values, IMAGE.parameters, (2, 2), Window(), "NONE"
            ),
        ),
        (
            lambda: windows.resize_bilinear(IMAGE.values, (5, 7)),
            lambda: windows.resize_bilinear(IMAGE.values, (5, 7), False, False),
        ),
        (
            lambda: windows.resize_nearest_neighbor(IMAGE.values, (5, 7)),
            lambda: windows.resize_nearest_neighbor(IMAGE.values, (5, 7), False, False),
        ),
        (
            lambda: rows.softmax(X, P(1 / 256, -128)),
            lambda: rows.softmax(X, P(1 / 256, -128), 1),
        ),
        (
            lambda: move.gather(X.values, np.array([1, 0])),
            lambda: move.gather(X.values, np.array([1, 0]), 0, 0),
        ),
    ],
)
def test_defaults(kernel: Callable[[], Array], with_options: Callable[[], Array]):
    assert kernel().tolist() == with_options().tolist()


def test_powers_of_two_matter_for_16_bits_alone():
    """Both operands are rounded there."""
    x, y, result = (P(s, 0, storage="i16") for s in (0.25, 1.0, 1.0))
    lhs, rhs = Quantized(np.array([2, 6, 5]), x), Quantized(np.array([-3, -3, 0]), y)
    computed = elementwise.add(lhs, rhs, result, pot_scale_int16=True)
    assert computed.tolist() == [-2, -1, 1]
    assert elementwise.add(lhs, rhs, result).tolist() == [-3, -2, 1]
    # 0.3 is no power of two.
    odd = Quantized(lhs.values, P(0.3, 0, storage="i16"))
    assert (
        elementwise.add(odd, rhs, result, pot_scale_int16=True).tolist()
        == elementwise.add(odd, rhs, result).tolist()
    )
    lhs, rhs = Quantized(lhs.values, x), Quantized(-rhs.values, y)
    computed = elementwise.subtract(lhs, rhs, result, pot_scale_int16=True)
    assert computed.tolist() == [-2, -1, 1]
    assert elementwise.subtract(lhs, rhs, result).tolist() == [-3, -2, 1]
    lhs, rhs = stored([2, 6, 5], 0.25), stored([-3, -3, 0], 1.0)
    computed = elementwise.add(lhs, rhs, P(1.0, 0), pot_scale_int16=True)
    assert computed.tolist() == elementwise.add(lhs, rhs, P(1.0, 0)).tolist()


def test_sums_of_powers_of_two_with_an_activation():
    wide = P(1.0, 0, storage="i16")
    lhs = Quantized(np.array([32767, -32768, 3, -3]), wide)
    assert elementwise.add(lhs, lhs, wide, "NONE", True).tolist() == [
        32767,
        -32768,
        6,
        -6,
    ]
    assert elementwise.add(lhs, lhs, wide, "RELU6", True).tolist() == [6, 0, 6, 0]


def test_quantize_and_dequantize():
    values = elementwise.quantize(
        np.array([0.25, -0.25, 0.75, 1e9, -1e9], np.float32), P(0.5, 1)
    )
    assert values.dtype == np.int64
    assert values.tolist() == [2, 0, 3, 127, -128]
    parameters = P([0.5, 0.25], [1, -2], quantized_dimension=1)
    x = Quantized(np.arange(8).reshape(2, 2, 2), parameters)
    expected = [
        [[-0.5, 0], [1, 1.25]],
        [[1.5, 2], [2, 2.25]],
    ]
    result = elementwise.dequantize(x)
    assert result.dtype == np.float32
    assert result.tolist() == expected


def test_dequantize_takes_a_scale_of_32_bits():
    """Times 0.085 itself, the result would be -9.775."""
    result = elementwise.dequantize(stored([-115], 0.085))
    assert result.tolist() == [float(np.float32(-9.775001))]


def test_absolute_rescales_if_scales_differ():
    x = stored([-9, 4], 1.0, 1)
    assert elementwise.absolute(x, P(1.0, 0)).tolist() == [10, 3]
    assert elementwise.absolute(x, P(0.5, 0)).tolist() == [20, 6]
    assert elementwise.absolute(x, P(2.0, 0)).tolist() == [5, 2]


@pytest.mark.parametrize(
    "kernel", [elementwise.square_root, elementwise.reciprocal_square_root]
)
def test_roots_of_negative_numbers(kernel: Callable[..., Array]):
    with pytest.raises(ValueError, match=r"^square root of a negative number$"):
        kernel(stored([1, -1]), RESULT)


def test_unknown_activation():
    message = r"^has the activation 'TANH', which has no integer form$"
    with pytest.raises(ValueError, match=message):
        activation_bounds(RESULT, "TANH")
    with pytest.raises(ValueError, match=message):
        apply_integer_activation(X.values, RESULT, "TANH")


@pytest.mark.parametrize(
    ("activation", "expected"),
    [
        ("NONE", (-128, 127)),
        ("RELU", (3, 127)),
        ("RELU6", (3, 27)),
        ("RELU_N1_TO_1", (-1, 7)),
        ("RELU_0_TO_1", (3, 7)),
    ],
)
def test_bounds(activation: str, expected: tuple[int, int]):
    assert activation_bounds(P(0.25, 3), activation) == expected


# Moving elements


@pytest.mark.parametrize("axis", [1, 2, -1, -2])
def test_gather_of_batches(axis: int):
    values = np.arange(24).reshape(2, 3, 4)
    indices = np.array([[1, 0, 2], [2, 2, 0]])
    expected = [
        np.take(v, i, axis - (axis > 0)) for v, i in zip(values, indices, strict=True)
    ]
    result = move.gather(values, indices, axis, 1)
    assert result.tolist() == np.stack(expected).tolist()


def test_gather_of_two_batch_dimensions():
    values = np.arange(24).reshape(2, 3, 4)
    indices = np.array([[1, 0, 2], [3, 2, 0]])
    assert move.gather(values, indices[..., None], 2, 2).tolist() == [
        [[1], [4], [10]],
        [[15], [18], [20]],
    ]


def test_gather_nd():
    values = np.arange(12).reshape(3, 4)
    indices = np.array([[[0, 1], [2, 3]], [[1, 1], [0, 0]], [[2, 0], [2, 1]]])
    assert move.gather_nd(values, indices).tolist() == [[1, 11], [5, 0], [8, 9]]


def test_blocks_that_are_padded_and_cropped():
    values = np.arange(1, 7).reshape(1, 2, 3, 1)
    block, paddings = [2, 2], np.array([[1, 1], [0, 1]])
    blocks = move.space_to_batch(values, block, paddings, -7)
    assert blocks[..., 0].tolist() == [
        [[-7, -7], [4, 6]],
        [[-7, -7], [5, -7]],
        [[1, 3], [-7, -7]],
        [[2, -7], [-7, -7]],
    ]
    assert move.batch_to_space(blocks, block, paddings).tolist() == values.tolist()


def test_largest_values():
    values = np.array([[[3, 1, 3, 2], [0, 5, 4, 5]], [[1, 1, 1, 1], [9, 8, 7, 6]]])
    largest, indices = primitives.top_k(values, 2)
    assert largest.tolist() == [[[3, 3], [5, 5]], [[1, 1], [9, 8]]]
    assert indices.tolist() == [[[0, 2], [1, 3]], [[0, 1], [0, 1]]]
    assert indices.dtype == np.int32


# Windows


@pytest.mark.parametrize(
    ("size", "window", "stride", "dilation", "padding", "count", "pads"),
    [
        (5, 3, 1, 1, "VALID", 3, (0, 0)),
        (5, 3, 2, 1, "VALID", 2, (0, 0)),
        (5, 2, 1, 3, "VALID", 2, (0, 0)),
        (2, 3, 1, 1, "VALID", 0, (0, 0)),
        (5, 3, 1, 1, "SAME", 5, (1, 1)),
        (5, 4, 1, 1, "SAME", 5, (1, 2)),
        (5, 5, 1, 1, "SAME", 5, (2, 2)),
        (6, 3, 2, 2, "SAME", 3, (1, 2)),
        (5, 1, 2, 1, "SAME", 3, (0, 0)),
        (7, 2, 1, 3, "SAME", 7, (1, 2)),
    ],
)
def test_places_of_windows(
    size: int,
    window: int,
    stride: int,
    dilation: int,
    padding: str,
    count: int,
    pads: tuple[int, int],
):
    moved = Window((stride, 99), (dilation, 99), padding)
    assert moved.result_size(size, window, 0) == count
    assert moved.padding_before(size, window, 0) == pads
    moved = Window((99, stride), (99, dilation), padding)
    assert moved.result_size(size, window, 1) == count
    assert moved.padding_before(size, window, 1) == pads


def _transposed(x: Array, w: Array, shape: tuple[int, ...], window: Window) -> Array:
    """As the kernel does it: each element adds the window."""
    result = np.zeros(shape, np.int64)
    top, _ = window.padding_before(shape[1], w.shape[1], 0)
    left, _ = window.padding_before(shape[2], w.shape[2], 1)
    for b, y, column in np.ndindex(x.shape[:3]):
        for c, i, j in np.ndindex(w.shape[:3]):
            row = y * window.strides[0] - top + i
            place = column * window.strides[1] - left + j
            if 0 <= row < shape[1] and 0 <= place < shape[2]:
                result[b, row, place, c] += w[c, i, j] @ x[b, y, column]
    return result


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("strides", [(1, 1), (2, 3), (3, 1)])
@pytest.mark.parametrize("more", [(0, 0), (1, 2), (4, 5)])
def test_transposed_sums(padding: str, strides: tuple[int, int], more: tuple[int, int]):
    """The result may be larger than what the windows reach."""
    random = np.random.default_rng(3)
    x, w = random.integers(-9, 9, (2, 3, 2, 2)), random.integers(-9, 9, (3, 2, 4, 2))
    window = Window(strides, (1, 1), padding)
    sizes = [
        (size - 1) * stride + (1 if padding == "SAME" else extent) + plus
        for size, stride, extent, plus in zip(
            (3, 2), strides, (2, 4), more, strict=True
        )
    ]
    shape = (2, sizes[0], sizes[1], 3)
    expected = _transposed(x, w, shape, window)
    assert products.transposed_sums(x, w, shape, window).tolist() == expected.tolist()


@pytest.mark.parametrize("groups", [1, 2])
def test_large_sums_are_exact(groups: int):
    """Products that floats of 64 bits do not hold are computed as integers."""
    x = np.full((1, 1, 1, 2), 2**31 - 1, np.int64)
    x[..., 1] = -(2**31) + 2
    w = np.full((2, 1, 1, 2 // groups), 2**31 - 1, np.int64)
    sums = products.convolution_sums(x, w, Window()).ravel().tolist()
    most = 2**31 - 1
    assert sums == ([most, most] if groups == 1 else [most * most, most * (1 - most)])


@pytest.mark.parametrize("shape", [(1, 1, 2), (1, 2, 1), (2, 1, 1)])
def test_sums_of_more_than_53_bits_are_exact(shape: tuple[int, int, int]):
    x = np.full((1, *shape), 2**27 - 1, np.int64)
    w = np.array([2**25 + 1, 2**25 + 2], np.int64).reshape(1, *shape)
    expected = (2**27 - 1) * (2**26 + 3)
    assert float(expected) != expected
    assert products.convolution_sums(x, w, Window()).ravel().tolist() == [expected]
    single = products.convolution_sums(x[:, :1, :1, :1], w[:, :1, :1, :1] * 2, Window())
    assert single.ravel().tolist() == [(2**27 - 1) * (2**26 + 2)]
    odd = np.full((1, 1, 1, 1), 2**26 + 1, np.int64)
    assert products.convolution_sums(x[:, :1, :1, :1], odd, Window()).item() == (
        (2**27 - 1) * (2**26 + 1)
    )


def test_sums_of_floats_are_floats():
    x = np.full((1, 1, 1, 2), 0.1, np.float32)
    w = np.array([0.3, 0.7], np.float32).reshape(1, 1, 1, 2)
    assert products.convolution_sums(x, w, Window()).dtype == np.float32


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_of_an_empty_batch(groups: int):
    x, w = np.zeros((0, 3, 3, 2), np.int64), np.ones((4, 2, 2, 2 // groups), np.int64)
    assert products.convolution_sums(x, w, Window()).shape == (0, 2, 2, 4)


@pytest.mark.parametrize(
    "kernel", [products.convolution, products.depthwise_convolution]
)
def test_wide_accumulators_have_a_multiplier_of_16_bits(kernel: Callable[..., Array]):
    x = stored([[[[30000]]]], 0.1, storage="i16")
    operands = x, stored([[[[100]]]], 0.1), None, P(1.0, 0, storage="i16"), Window()
    assert kernel(*operands).item() == 30000
    assert kernel(*operands, has_wide_accumulator=True).item() == 30001


def test_fully_connected_shapes():
    x = stored(np.arange(12).reshape(2, 2, 3))
    weights = stored([[1, 0, 2], [0, 3, -1]])
    result = P(0.5, 0)
    flat = products.fully_connected(x, weights, None, result)
    assert flat.dtype == np.int64
    assert flat.shape == (4, 2)
    kept = products.fully_connected(x, weights, None, result, keep_num_dims=True)
    assert kept.tolist() == flat.reshape(2, 2, 2).tolist()
    rows_ = stored(x.values.reshape(1, 12))
    assert (
        products.fully_connected(rows_, weights, None, result).tolist() == flat.tolist()
    )
    # Half of 4, 1, 13, 7, 22, 13, 31, 19, rounded half away from zero.
    assert flat.tolist() == [[2, 1], [7, 4], [11, 7], [16, 10]]


def test_fully_connected_with_a_multiplier():
    """The product of both scales has 32 bits, where the reference kernel has 64."""
    x = stored([[-28558], [-32579], [300]], 0.1, storage="i16")
    weights = stored([[127]], float(np.float32(0.3)))
    operands = x, weights, None, P(4.0, 0, storage="i16")
    computed = products.fully_connected(*operands, has_multiplier=True)
    assert computed.tolist() == [[-27201], [-31032], [286]]
    exact = products.fully_connected(*operands)
    assert exact.tolist() == [[-27201], [-31031], [286]]


@pytest.mark.parametrize("has_multiplier", [False, True])
def test_fully_connected_with_weights_of_16_bits(has_multiplier: bool):
    """All kernels of the runtime give these integers."""
    x = stored([[32767]], 0.1, storage="i16")
    scale = float(np.float32(0.3))
    weights = stored([[-7063], [-32725], [300]], scale, storage="i16")
    result = P(2000.0, 0, storage="i16")
    computed = products.fully_connected(
        x, weights, None, result, has_multiplier=has_multiplier
    )
    assert computed.tolist() == [[-3471, -16084, 147]]


def test_scales_of_weights_have_32_bits():
    """With 0.3 and 0.7 themselves, the results would be -31011 and 445."""
    x = stored([-32558], 0.1, storage="i16")
    result = P(4.0, 0, storage="i16")
    image = Quantized(x.values.reshape(1, 1, 1, 1), x.parameters)
    weights = stored([[[[127]]]], 0.3)
    for kernel in (products.convolution, products.depthwise_convolution):
        assert kernel(image, weights, None, result, Window()).item() == -31012
    row, weights = Quantized(np.array([[500]]), x.parameters), stored([[127]], 0.7)
    result = P(10.0, 0, storage="i16")
    assert products.fully_connected(row, weights, None, result).item() == 444


def test_state_of_svdf():
    state = stored(np.arange(12).reshape(1, 12), 1.0, storage="i16")
    features = stored([[1, 2], [0, 1], [1, 0], [2, 2]], 1.0)
    time = stored(np.ones((4, 3)), 1.0, storage="i16")
    values, after = products.svdf(
        stored([[5, 6]], 1.0), features, time, None, state, P(1.0, 0), 2
    )
    assert after.tolist() == [[1, 2, 17, 4, 5, 6, 7, 8, 5, 10, 11, 22]]
    assert after.shape == state.values.shape
    assert values.tolist() == [[35, 63]]
    biased, _ = products.svdf(
        stored([[5, 6]], 1.0), features, time, np.array([1, -3]), state, P(1.0, 0), 2
    )
    assert biased.tolist() == [[36, 60]]


# Reduction and resizing


def test_mean_of_many_elements():
    x = stored(np.tile([[127], [-128], [3]], (1, 700)), 0.5, 3)
    assert reduction.mean(x, [1], P(0.5, -1)).ravel().tolist() == [123, -128, -1]
    assert reduction.mean(x, [-1, 1], P(0.25, 0)).ravel().tolist() == [127, -128, 0]


def test_reduced_dimensions_have_size_1():
    x = stored(np.arange(24).reshape(2, 3, 4))
    for kernel in (reduction.mean, reduction.sum_of, reduction.reduce_prod):
        assert kernel(x, [1], P(0.5, 0)).shape == (2, 1, 4)
        assert kernel(x, [0, -1], P(0.5, 0)).shape == (1, 3, 1)


class Rows:
    """What a lowering has in place of an array."""

    ndim = 2
    shape = 2, 3

    def __sub__(self, other: object) -> Rows:
        return self

    def transpose(self, *order: int) -> Rows:
        return self

    def reshape(self, *shape: int) -> Rows:
        return self

    def primitive(self, name: str) -> Callable[..., Array]:
        assert name == "folded"

        def folded(rows: Rows, step: Callable[[Array, Array], Array]) -> Array:
            return step(np.array([8, 12]), np.array([4, -2]))

        return folded


def test_expressions_multiply_their_rows():
    values: Any = Rows()
    result = reduction.reduce_prod(Quantized(values, P(1.0, 0)), [1], P(1.0, 0))
    assert result.tolist() == [[32], [-24]]


def test_mean_with_scales_far_apart():
    x = stored(np.full((2, 64), 100), 1e-9)
    assert reduction.mean(x, [1], P(1.0, 5)).ravel().tolist() == [5, 5]
    assert reduction.mean(x, [0, 1], P(1e-9, 0)).ravel().tolist() == [100]


@pytest.mark.parametrize(
    ("align", "half", "size", "expected"),
    [
        (False, False, 6, [0, 0, 1, 1, 2, 2]),
        (True, False, 5, [0, 1, 1, 2, 2]),
        (True, False, 2, [0, 2]),
        (True, False, 1, [0]),
        (False, True, 6, [0, 0, 1, 1, 2, 2]),
        (False, True, 2, [0, 2]),
        (True, True, 4, [0, 1, 2, 2]),
    ],
)
def test_nearest_neighbor(align: bool, half: bool, size: int, expected: list[int]):
    row = np.arange(3).reshape(1, 1, 3, 1)
    wide = windows.resize_nearest_neighbor(row, (1, size), align, half)
    assert wide.ravel().tolist() == expected


def test_positions_of_nearest_neighbors_have_32_bits():
    """Of 64 bits, they would be less than these integers."""
    row = np.arange(44).reshape(1, 1, 44, 1)
    wide = windows.resize_nearest_neighbor(row, (1, 38), half_pixel_centers=True)
    assert wide.ravel()[[9, 28]].tolist() == [11, 33]
    wide = windows.resize_nearest_neighbor(row[:, :, :16], (1, 19), align_corners=True)
    assert wide.ravel()[[3, 9, 15]].tolist() == [3, 8, 13]
    ends = windows.resize_nearest_neighbor(row[:, :, :5], (1, 2), align_corners=True)
    assert ends.ravel().tolist() == [0, 4]


def test_steps_of_aligned_corners_are_rounded():
    row = np.resize([-128, 127, 5, 120, -100], 10).reshape(1, 1, 10, 1)
    wide = windows.resize_bilinear(row, (1, 8), align_corners=True)
    assert wide.ravel().tolist() == [-128, 92, 71, -69, -91, 74, 87, -100]


def test_means_of_windows_round_half_away():
    x = np.array([3, 4, -3, -4, 1, -1, 0, 0]).reshape(1, 1, 8, 1)
    result = windows.average_pool_2d(x, P(1.0, 0), (1, 2), Window((1, 2)))
    assert result.dtype == np.int64
    assert result.ravel().tolist() == [4, -4, 0, 0]
    wide = windows.average_pool_2d(x, P(1.0, 0), (1, 3), Window((1, 3), padding="SAME"))
    assert wide.ravel().tolist() == [1, -1, 0]


# Tables


def test_sigmoid_table():
    table = sigmoid_table()
    assert table.shape == (256,)
    assert (int(table[0]), int(table[4]), int(table[255])) == (32768, 35493, 65535)
    exact = 65536 / (1 + np.exp(-np.arange(256) / 24))
    assert np.abs(table - exact).max() < 1.5


def test_table_of_u8():
    x = Quantized(np.arange(256), P(0.02, 128, storage="u8"))
    signed = Quantized(np.arange(-128, 128), P(0.02, 0))
    result = compute_with_table("exp", x, P(0.05, 0, storage="u8"))
    expected = compute_with_table("exp", signed, P(0.05, -128)) + 128
    assert result.tolist() == expected.tolist()


def test_softmax_of_many_elements():
    """The sum has 31 bits; the kernel gives 1 and 0 there, too."""
    x = stored([[0] * 33016 + [-685, -686]], 0.001, storage="i16")
    values = rows.softmax(x, P(2**-15, 0, storage="i16"))
    assert values[0, -2:].tolist() == [1, 0]
