"""The integer kernels of pools, and of images that get another size."""

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
    Return the mean of the stored values below each place of a window, of those inside
    of the image, rounded half away from zero.

    Args:
        values: stored values `[batch, height, width, channels]`.
        result: the parameters of the result, which are those of the operand.
        sizes: height and width of the window.
        window: how it moves.
        activation: what is computed of the means.

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
    """
    Return the largest stored value; arguments as of
    [`average_pool_2d`][..average_pool_2d].
    """
    # Each place of the window has an element of the image, which is not smaller.
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
    Interpolate between the nearest two rows and columns, with 10 bits behind the point.

    Args:
        values: stored values `[batch, height, width, channels]`.
        sizes: height and width of the result.
        align_corners: the centers of the corners are the same.
        half_pixel_centers: a place is the center of an element.

    Returns:
        Stored values of the same parameters.
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
    Return the same of stored values of 16 bits: the sum, which has more than 32 bits,
    is `1024 * high + low`, and of the lower part it matters only whether it is 0.
    """
    upper, lower, y = interpolated_rows(
        values, sizes, align_corners, half_pixel_centers
    )
    difference = lower - upper
    low = (difference & 1023) * y
    high = upper + (difference >> 10) * y + (low >> 10)
    # Half a unit is rounded away from 0.
    is_down = (high <= 0) & ((low & 1023) == 0)
    return (high + 512 - is_down) >> 10


def interpolated_rows(
    values: Integers,
    sizes: tuple[int, int],
    align_corners: bool,
    half_pixel_centers: bool,
) -> tuple[Integers, Integers, Integers]:
    """
    Return the rows above and below each place, interpolated along themselves, and how
    far it is between them, each with 10 bits after the point.
    """
    (y, top, bottom), (x, left, right) = (
        _resized_places(values.shape[axis + 1], size, align_corners, half_pixel_centers)
        for axis, size in enumerate(sizes)
    )
    x = x[:, None]
    upper, lower = (
        rows[:, :, left] * (1024 - x) + rows[:, :, right] * x
        for rows in (values[:, top], values[:, bottom])
    )
    return upper, lower, y[:, None, None]


def _resized_places(
    size: int, result_size: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[Integers, Integers, Integers]:
    """For each index of a result the fraction of 1024, and the elements on both sides."""
    if align_corners and result_size > 1:
        steps = result_size - 1
        scale = (1024 * (size - 1) + steps // 2) // steps
    else:
        scale = (1024 * size + result_size // 2) // result_size
    positions = np.arange(result_size) * scale
    if half_pixel_centers:
        positions = positions + (scale // 2 - 512)
    before = np.maximum(quotient(positions, np.asarray(1024)), 0)
    behind = np.minimum(quotient(positions + 1023, np.asarray(1024)), size - 1)
    return positions - 1024 * before, before, behind


def resize_nearest_neighbor(
    values: Integers,
    sizes: tuple[int, int],
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> Integers:
    """
    Return the nearest element, with the arguments of
    [`resize_bilinear`][..resize_bilinear].
    """
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
