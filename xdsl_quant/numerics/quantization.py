"""Quantization, dequantization and requantization of arrays."""

import numpy as np
from numpy.typing import ArrayLike

from xdsl_quant.rounding_mode import NanResult, Rounding, RoundingMode, ZeroPointOrder

from .arguments import check_requantization, expressed_array, stored_array
from .arithmetic import Arithmetic, operand_pieces
from .arrays import Array, disjoint_output
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
    Quantize values: `clamp(round(x / scale + zero_point), min, max)`, or
    `clamp(round(x / scale) + zero_point, min, max)`.

    Values out of range, infinities included, saturate.

    Args:
        expressed_values: an array in a shape that matches the parameters, with dtype
            `parameters.expressed_dtype`; or Python numbers, rounded to this dtype.
        parameters: scales, zero points and storage.
        rounding_mode: the rounding of the quotient. `truncate` computes in the expressed
            type, as MLIR does; other modes compute in f32 or f64 if stored values are not
            exact in the expressed type.
        zero_point_order: the choice between the two formulas. `truncate` does not support
            `after-rounding`.
        nan: the stored value of NaN: the smallest stored value, or the one nearest to 0.
        out: the output array. It may overlap `expressed_values`.

    Returns:
        `out`, or a new array, with dtype `parameters.storage_dtype`.

    Raises:
        TypeError: if an array has the wrong dtype, or an argument has the wrong type.
        ValueError: if an array has the wrong shape, elements of `out` overlap, or the
            rounding is unsupported.
    """
    values = expressed_array(expressed_values, parameters)
    rounding = Rounding(rounding_mode, zero_point_order, nan)
    arithmetic = Arithmetic(parameters, rounding, values.shape)
    values, out = disjoint_output(values, out, parameters.storage_dtype)
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
    Quantize the values of a constant as MLIR 14 does at compile time.

    Values are divided by scales in f64 for all expressed types, and rounded half away from
    zero. The zero point is added before rounding for f32 values and 8-bit storage,
    otherwise after rounding: results differ for negative quotients halfway between
    integers. Values out of range saturate. MLIR 14 stores NaN as 0.

    Args:
        expressed_values: an array in a shape that matches the parameters, with dtype
            `parameters.expressed_dtype`; or Python numbers, rounded to this dtype.
        parameters: the parameters.
        nan: the stored value of NaN, as in [`quantize`][xdsl_quant.numerics.quantize].

    Returns:
        an array with dtype `parameters.storage_dtype`.

    Raises:
        TypeError: if an array has the wrong dtype, or an argument has the wrong type.
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
    Dequantize values: `(stored - zero_point) * scale`.

    Stored values may be out of the storage range, but not of the storage type.

    Args:
        stored_values: an array in a shape that matches the parameters, with dtype
            `parameters.storage_dtype`; or Python integers.
        parameters: the parameters.
        rounding_mode: the rounding mode of the matching quantization. `truncate` computes
            in the expressed type, as MLIR does; other modes compute in f32 or f64 if stored
            values are not exact in the expressed type.
        out: the output array. It may overlap `stored_values`.

    Returns:
        `out`, or a new array, with dtype `parameters.expressed_dtype`.

    Raises:
        TypeError: if an array has the wrong dtype, or an argument has the wrong type.
        ValueError: if an array has the wrong shape, or a stored value is out of range of
            the storage type, e.g. 8 for `i4`.
    """
    values = stored_array(stored_values, parameters)
    arithmetic = Arithmetic(
        parameters, Rounding(rounding_mode), values.shape, only_dequantizes=True
    )
    values, out = disjoint_output(values, out, parameters.expressed_dtype)
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
    Requantize values: dequantize and quantize them without an intermediate array.

    Args:
        stored_values: an array in a shape that matches all parameters, with dtype
            `source.storage_dtype`; or Python integers.
        source: the parameters of `stored_values`.
        target: the parameters of the result, with the expressed type of `source`.
        rounding_mode: the rounding mode of both steps.
        zero_point_order: the order of rounding and adding the zero point of `target`.
        nan: the stored value of NaN, e.g. of overflow in a type without infinity.
        out: the output array. It may overlap `stored_values`.

    Returns:
        `out`, or a new array, with dtype `target.storage_dtype`.

    Raises:
        TypeError: if an array has the wrong dtype, or an argument has the wrong type.
        ValueError: if expressed types differ, an array has the wrong shape, a stored value
            is out of range, or the rounding is unsupported.
    """
    check_requantization(source, target)
    values = stored_array(stored_values, source)
    rounding = Rounding(rounding_mode, zero_point_order, nan)
    first, second = (
        Arithmetic(parameters, rounding, values.shape)
        for parameters in (source, target)
    )
    values, out = disjoint_output(values, out, target.storage_dtype)
    return _requantize_pieces(values, out, first, second)


@np.errstate(all="ignore")
def _requantize_pieces(
    values: Array, out: Array, first: Arithmetic, second: Arithmetic
) -> Array:
    limit = min(first.limit, second.limit)
    expressed_buffer = np.empty(limit, first.parameters.expressed_dtype)
    for stored, result, *operands in operand_pieces([values, out], [first, second]):
        expressed = expressed_buffer[: stored.size].reshape(stored.shape)
        first.dequantize(stored, operands[: first.count], expressed)
        second.quantize(expressed, operands[first.count :], result)
    return out
