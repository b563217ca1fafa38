"""Quantize, dequantize and requantize arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xdsl_quant.rounding_mode import NanResult, Rounding, RoundingMode, ZeroPointOrder

from .arguments import checked_out, expressed_array, stored_array
from .arithmetic import LARGE_PIECE, Arithmetic, numbers_of
from .blocks import aligned, block_shape, pieces
from .parameters import QuantizationParameters, check_parameters
from .rounding import check_rounding

Grid = tuple[tuple[int, ...], list[NDArray[Any]]]


def _grid(parameters: QuantizationParameters, shape: tuple[int, ...]) -> Grid:
    """The shape of a block, and the numbers of all blocks."""
    blocks = block_shape(parameters, shape)
    return blocks, numbers_of(parameters)


def _large_pieces(
    arrays: list[NDArray[Any]], grids: list[Grid]
) -> Iterator[list[NDArray[Any]]]:
    """Pieces of arrays, with their scales and zero points, to cut into pieces again."""
    views = aligned(arrays, grids)
    if all(numbers.size == 1 for numbers in views[len(arrays) :]):
        return iter([views])
    return pieces(views, LARGE_PIECE)


def quantize(
    expressed_values: ArrayLike,
    parameters: QuantizationParameters,
    *,
    rounding_mode: RoundingMode = "nearest-even",
    zero_point_order: ZeroPointOrder = "before-rounding",
    nan: NanResult = "storage-min",
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """
    Stored values of expressed ones: `clamp(round(x / scale + zero_point), min, max)`, or
    `clamp(round(x / scale) + zero_point, min, max)`.

    What is out of range, infinities included, becomes the nearest end of the storage
    range.

    Args:
        expressed_values: an array of any shape that the parameters fit, with dtype
            `parameters.expressed_dtype`; or Python numbers, which are rounded to it.
        parameters: the parameters.
        rounding_mode: how a value between two stored ones is rounded. `truncate`
            computes in the expressed type, as MLIR does; the other modes compute in f32
            or f64 where the stored values are not exact in the expressed type.
        zero_point_order: which of the two formulas it is. `after-rounding` is not there
            for `truncate`.
        nan: what NaN becomes: `storage-min`, or with `stored-zero` the stored value 0, or
            the end of the storage range next to it. That is not the zero point.
        out: where to put the stored values. It may overlap `expressed_values`.

    Returns:
        `out`, or a new array, with dtype `parameters.storage_dtype`.

    Raises:
        TypeError: if an array has the wrong dtype, or an argument is of the wrong type.
        ValueError: if an array has the wrong shape, elements of `out` overlap, or there
            is no such rounding.
    """
    rounding = Rounding(rounding_mode, zero_point_order, nan)
    check_rounding(rounding)
    check_parameters(parameters)
    values = expressed_array(expressed_values, parameters)
    grid = _grid(parameters, values.shape)
    values, out = checked_out(values, out, parameters.storage_dtype)
    if not values.size:
        return out
    arithmetic = Arithmetic(parameters, rounding, values.size)
    with np.errstate(all="ignore"):
        for expressed, stored, *numbers in _large_pieces([values, out], [grid]):
            operands = arithmetic.operands(*numbers)
            for x, s, *parts in pieces(
                [expressed, stored, *operands], arithmetic.limit
            ):
                arithmetic.quantize(x, parts, s)
    return out


def dequantize(
    stored_values: ArrayLike,
    parameters: QuantizationParameters,
    *,
    rounding_mode: RoundingMode = "nearest-even",
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """
    Expressed values of stored ones: `(stored - zero_point) * scale`.

    Stored values may be any of the storage type, also outside of a narrower storage
    range: the formula is the same for them.

    Args:
        stored_values: an array of any shape that the parameters fit, with dtype
            `parameters.storage_dtype`; or Python integers.
        parameters: the parameters.
        rounding_mode: the mode of the quantization that this belongs to. `truncate`
            computes in the expressed type, as MLIR does; both other modes compute in f32
            or f64 where the stored values are not exact in the expressed type.
        out: where to put the expressed values. It may overlap `stored_values`.

    Returns:
        `out`, or a new array, with dtype `parameters.expressed_dtype`.

    Raises:
        TypeError: if an array has the wrong dtype, or an argument is of the wrong type.
        ValueError: if an array has the wrong shape, or a stored value is outside of the
            storage type, e.g. 8 for `i4`.
    """
    rounding = Rounding(rounding_mode)
    check_rounding(rounding)
    check_parameters(parameters)
    values = stored_array(stored_values, parameters)
    grid = _grid(parameters, values.shape)
    values, out = checked_out(values, out, parameters.expressed_dtype)
    if not values.size:
        return out
    arithmetic = Arithmetic(parameters, rounding, values.size, only_dequantizes=True)
    with np.errstate(all="ignore"):
        for stored, expressed, *numbers in _large_pieces([values, out], [grid]):
            operands = arithmetic.operands(*numbers)
            for s, x, *parts in pieces(
                [stored, expressed, *operands], arithmetic.limit
            ):
                arithmetic.dequantize(s, parts, x)
    return out


def requantize(
    stored_values: ArrayLike,
    source: QuantizationParameters,
    target: QuantizationParameters,
    *,
    rounding_mode: RoundingMode = "nearest-even",
    zero_point_order: ZeroPointOrder = "before-rounding",
    nan: NanResult = "storage-min",
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """
    Stored values of one quantization as those of another: what
    [`quantize`][xdsl_quant.numerics.quantize] makes of what
    [`dequantize`][xdsl_quant.numerics.dequantize] gives, without an array in between.

    Args:
        stored_values: an array of any shape that all parameters fit, with dtype
            `source.storage_dtype`; or Python integers.
        source: the parameters of `stored_values`.
        target: the parameters of the result, with the expressed type of `source`.
        rounding_mode: the mode of both steps.
        zero_point_order: when the zero point of `target` is added.
        nan: what NaN becomes. It is what is too large for an expressed type without
            infinities.
        out: where to put the stored values. It may overlap `stored_values`.

    Returns:
        `out`, or a new array, with dtype `target.storage_dtype`.

    Raises:
        TypeError: if an array has the wrong dtype, or an argument is of the wrong type.
        ValueError: if the expressed types differ, an array has the wrong shape, a
            stored value is outside of the storage type of `source`, or there is no such
            rounding.
    """
    rounding = Rounding(rounding_mode, zero_point_order, nan)
    check_rounding(rounding)
    check_parameters(source)
    check_parameters(target)
    if source.expressed != target.expressed:
        raise ValueError(
            f"cannot requantize from expressed type '{source.expressed}' to "
            f"'{target.expressed}', they must be the same"
        )
    values = stored_array(stored_values, source)
    grids = [_grid(parameters, values.shape) for parameters in (source, target)]
    values, out = checked_out(values, out, target.storage_dtype)
    if not values.size:
        return out
    first, second = (
        Arithmetic(parameters, rounding, values.size) for parameters in (source, target)
    )
    limit = min(first.limit, second.limit)
    count = len(numbers_of(source))
    between = np.empty(limit, source.expressed_dtype)
    with np.errstate(all="ignore"):
        for before, after, *numbers in _large_pieces([values, out], grids):
            operands = first.operands(*numbers[:count])
            operands += second.operands(*numbers[count:])
            for s, t, *parts in pieces([before, after, *operands], limit):
                expressed = between[: s.size].reshape(s.shape)
                first.dequantize(s, parts[:count], expressed)
                second.quantize(expressed, parts[count:], t)
    return out
