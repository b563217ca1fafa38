"""Quantize, dequantize and requantize arrays."""

import numpy as np
from numpy.typing import ArrayLike

from xdsl_quant.rounding_mode import NanResult, Rounding, RoundingMode, ZeroPointOrder

from .arguments import check_requantization, expressed_array, stored_array
from .arithmetic import Arithmetic, operand_pieces
from .arrays import Array, checked_out
from .parameters import QuantizationParameters


def quantize(
    expressed_values: ArrayLike,
    parameters: QuantizationParameters,
    *,
    rounding_mode: RoundingMode = "nearest-even",
    zero_point_order: ZeroPointOrder = "before-rounding",
    nan: NanResult = "storage-min",
    out: Array | None = None,
) -> Array:
    """
    Stored values of expressed ones: `clamp(round(x / scale + zero_point), min, max)`, or
    `clamp(round(x / scale) + zero_point, min, max)`.

    Values out of range, infinities included, saturate.

    Args:
        expressed_values: an array of any shape that the parameters fit, with dtype
            `parameters.expressed_dtype`; or Python numbers, which are rounded to it.
        parameters: scales, zero points and storage.
        rounding_mode: how a value between two stored ones is rounded. `truncate`
            computes in the expressed type, as MLIR does; the other modes compute in f32
            or f64 where the stored values are not exact in the expressed type.
        zero_point_order: which of the two formulas it is. `after-rounding` is not there
            for `truncate`.
        nan: what NaN becomes: with `stored-zero` the stored value in range next to 0.
        out: where to put the stored values. It may overlap `expressed_values`.

    Returns:
        `out`, or a new array, with dtype `parameters.storage_dtype`.

    Raises:
        TypeError: if an array has the wrong dtype, or an argument is of the wrong type.
        ValueError: if an array has the wrong shape, elements of `out` overlap, or there
            is no such rounding.
    """
    values = expressed_array(expressed_values, parameters)
    rounding = Rounding(rounding_mode, zero_point_order, nan)
    arithmetic = Arithmetic(parameters, rounding, values.shape)
    values, out = checked_out(values, out, parameters.storage_dtype)
    return _quantize_pieces(values, out, arithmetic)


@np.errstate(all="ignore")
def _quantize_pieces(values: Array, out: Array, arithmetic: Arithmetic) -> Array:
    for expressed, stored, *operands in operand_pieces([values, out], [arithmetic]):
        arithmetic.quantize(expressed, operands, stored)
    return out


def quantize_constant(
    expressed_values: ArrayLike,
    parameters: QuantizationParameters,
    nan: NanResult = "storage-min",
) -> Array:
    """
    Stored values of the expressed ones of a constant as MLIR 14 has them while it compiles.

    Values are divided by scales as f64, whatever the expressed type is, and rounded half
    away from zero. The zero point is added before that if values are f32 and stored values
    have 8 bits, and otherwise after it: this is another number for a negative quotient in
    the middle of two integers. What is out of range becomes the nearest end of the storage
    range. In MLIR 14 NaN becomes 0.

    Args:
        expressed_values: an array of any shape that the parameters fit, with dtype
            `parameters.expressed_dtype`; or Python numbers, which are rounded to it.
        parameters: the parameters.
        nan: what NaN becomes, as for [`quantize`][xdsl_quant.numerics.quantize].

    Returns:
        an array with dtype `parameters.storage_dtype`.

    Raises:
        TypeError: if an array has the wrong dtype, or an argument is of the wrong type.
        ValueError: if an array has the wrong shape.
    """
    values = expressed_array(expressed_values, parameters)
    is_added_first = parameters.expressed == "f32" and parameters.storage_width == 8
    order: ZeroPointOrder = "before-rounding" if is_added_first else "after-rounding"
    rounding = Rounding("nearest-away", order, nan)
    arithmetic = Arithmetic(parameters, rounding, values.shape, is_exact=True)
    stored = np.empty(values.shape, parameters.storage_dtype)
    return _quantize_pieces(values, stored, arithmetic)


def dequantize(
    stored_values: ArrayLike,
    parameters: QuantizationParameters,
    *,
    rounding_mode: RoundingMode = "nearest-even",
    out: Array | None = None,
) -> Array:
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
    values = stored_array(stored_values, parameters)
    arithmetic = Arithmetic(
        parameters, Rounding(rounding_mode), values.shape, only_dequantizes=True
    )
    values, out = checked_out(values, out, parameters.expressed_dtype)
    with np.errstate(all="ignore"):
        for stored, expressed, *operands in operand_pieces([values, out], [arithmetic]):
            arithmetic.dequantize(stored, operands, expressed)
    return out


def requantize(
    stored_values: ArrayLike,
    source: QuantizationParameters,
    target: QuantizationParameters,
    *,
    rounding_mode: RoundingMode = "nearest-even",
    zero_point_order: ZeroPointOrder = "before-rounding",
    nan: NanResult = "storage-min",
    out: Array | None = None,
) -> Array:
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
    check_requantization(source, target)
    values = stored_array(stored_values, source)
    rounding = Rounding(rounding_mode, zero_point_order, nan)
    first, second = (
        Arithmetic(parameters, rounding, values.shape)
        for parameters in (source, target)
    )
    values, out = checked_out(values, out, target.storage_dtype)
    return _requantize_pieces(values, out, first, second)


@np.errstate(all="ignore")
def _requantize_pieces(
    values: Array, out: Array, first: Arithmetic, second: Arithmetic
) -> Array:
    limit = min(first.limit, second.limit)
    between = np.empty(limit, first.parameters.expressed_dtype)
    for before, after, *operands in operand_pieces([values, out], [first, second]):
        expressed = between[: before.size].reshape(before.shape)
        first.dequantize(before, operands[: first.count], expressed)
        second.quantize(expressed, operands[first.count :], after)
    return out
