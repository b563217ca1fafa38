"""Integer kernels of pooling and image resizing."""

import numpy as np

from xdsl_quant.numerics.parameters import QuantizationParameters, storage_range
from xdsl_quant.numerics.primitives import rounding_divide

from .fixed_point import Integers, quotient
from .products import Window, windows
from .quantized import activation_bounds


def average_pool_2d(
    values: Integers,
    result: QuantizationParameters,
    sizes: tuple[int, int],
    window: Window,
    activation: str = "NONE",
) -> Integers:
    """
    Return means of the stored values inside the image, rounded half away from zero.

    Args:
        values: stored values `[batch, height, width, channels]`.
        result: parameters of the result and of the operand.
        sizes: height and width of the window.
        window: strides and padding.
        activation: activation that is applied to the means.

    Returns:
        Stored values `[batch, rows, columns, channels]`.
    """
    sums: Integers = windows(values, sizes, window).sum(axis=(-2, -1))
    counts: Integers = windows(np.ones_like(values), sizes, window).sum(axis=(-2, -1))
    half = counts // 2
    means = quotient(np.where(sums > 0, sums + half, sums - half), counts)
    return np.clip(means, *activation_bounds(result, activation))


def max_pool_2d(
    values: Integers,
    result: QuantizationParameters,
    sizes: tuple[int, int],
    window: Window,
    activation: str = "NONE",
) -> Integers:
    """Return maxima; arguments are those of [`average_pool_2d`][..average_pool_2d]."""
    # Each window overlaps the image, so its maximum is never padding.
    least, _ = storage_range(result.storage)
    largest = windows(values, sizes, window, least).max(axis=(-2, -1))
    return np.clip(largest, *activation_bounds(result, activation))


def resize_bilinear(
    values: Integers,
    sizes: tuple[int, int],
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Integers:
    """
    Interpolate linearly between rows and between columns, with 10 fractional bits.

    Args:
        values: stored values `[batch, height, width, channels]`.
        sizes: height and width of the result.
        align_corners: map the corner elements of the result to those of the image.
        half_pixel_centers: measure positions from the centers of elements.

    Returns:
        Stored values with unchanged parameters.
    """
    upper, lower, y = interpolated_rows(
        values, sizes, align_corners, half_pixel_centers
    )
    return rounding_divide(upper * (1024 - y) + lower * y, 20)


def resize_bilinear_in_32_bits(
    values: Integers,
    sizes: tuple[int, int],
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Integers:
    """
    Return [`resize_bilinear`][..resize_bilinear] of 16-bit values in 32-bit arithmetic.

    The weighted sum exceeds 32 bits, so it is computed as `1024 * high + low % 1024`. Its
    rounding depends only on `high`, and on whether `low % 1024` is 0.
    """
    upper, lower, y = interpolated_rows(
        values, sizes, align_corners, half_pixel_centers
    )
    difference = lower - upper
    low = (difference & 1023) * y
    high = upper + (difference >> 10) * y + (low >> 10)
    # Round half away from zero.
    is_down = (high <= 0) & ((low & 1023) == 0)
    return (high + 512 - is_down) >> 10


def interpolated_rows(
    values: Integers,
    sizes: tuple[int, int],
    align_corners: bool,
    half_pixel_centers: bool,
) -> tuple[Integers, Integers, Integers]:
    """
    Return the image rows above and below each result row, interpolated horizontally,
    and the weights of the rows below; all with 10 fractional bits.
    """
    (y, top, bottom), (x, left, right) = (
        _resized_positions(
            values.shape[axis + 1], size, align_corners, half_pixel_centers
        )
        for axis, size in enumerate(sizes)
    )
    x = x[:, None]
    upper, lower = (
        rows[:, :, left] * (1024 - x) + rows[:, :, right] * x
        for rows in (values[:, top], values[:, bottom])
    )
    return upper, lower, y[:, None, None]


def _resized_positions(
    size: int, result_size: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[Integers, Integers, Integers]:
    """Return the weight of the second neighbor times 1024, and the indices of both."""
    if align_corners and result_size > 1:
        steps = result_size - 1
        scale = (1024 * (size - 1) + steps // 2) // steps
    else:
        scale = (1024 * size + result_size // 2) // result_size
    positions = np.arange(result_size) * scale
    if half_pixel_centers:
        positions = positions + (scale // 2 - 512)
    before = np.maximum(quotient(positions, np.asarray(1024)), 0)
    after = np.minimum(quotient(positions + 1023, np.asarray(1024)), size - 1)
    return positions - 1024 * before, before, after


def resize_nearest_neighbor(
    values: Integers,
    sizes: tuple[int, int],
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Integers:
    """Resize to the nearest element; for arguments see `resize_bilinear`."""
    rows, columns = (
        _nearest(values.shape[axis + 1], size, align_corners, half_pixel_centers)
        for axis, size in enumerate(sizes)
    )
    return values[:, rows][:, :, columns]


def _nearest(
    size: int, result_size: int, align_corners: bool, half_pixel_centers: bool
) -> Integers:
    if align_corners and result_size > 1:
        scale = np.float32(size - 1) / np.float32(result_size - 1)
    else:
        scale = np.float32(size) / np.float32(result_size)
    offset = np.float32(0.5 if half_pixel_centers else 0)
    positions = (np.arange(result_size).astype(np.float32) + offset) * scale
    wide = positions.astype(np.float64)
    indices = np.floor(wide + 0.5) if align_corners else np.floor(wide)
    return np.minimum(indices, size - 1).astype(np.int64)
