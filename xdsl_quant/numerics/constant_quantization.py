"""
Quantization of constants as MLIR does it while it compiles.

Values are divided by scales as f64, whatever the expressed type is, and rounded to
nearest, ties away from 0. The zero point is added before that if values are f32 and
stored values have 8 bits, and otherwise behind it: this is another number for a negative
quotient in the middle of two integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xdsl_quant.rounding_mode import NanResult

from .arguments import expressed_array
from .blocks import aligned, block_shape, pieces
from .parameters import QuantizationParameters, check_parameters
from .rounding import Rounder

_PIECE = 1 << 14
"""Values that are computed together, in the caches."""


def quantize_constant(
    expressed_values: ArrayLike,
    parameters: QuantizationParameters,
    nan: NanResult = "storage-min",
) -> NDArray[Any]:
    """
    Stored values of the expressed ones of a constant, those that MLIR 14 has for it.

    What is out of range becomes the nearest end of the storage range. In MLIR 14 NaN
    becomes 0.

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
    check_parameters(parameters)
    values = expressed_array(expressed_values, parameters)
    blocks = block_shape(parameters, values.shape)
    stored = np.empty(values.shape, parameters.storage_dtype)
    if not values.size:
        return stored
    grid = blocks, [parameters.scales, parameters.zero_points]
    round_ = Rounder("nearest-away", np.dtype(np.float64), _PIECE)
    views = aligned([values, stored], [grid])
    with np.errstate(all="ignore"):
        for x, s, scales, zero_points in pieces(views, _PIECE):
            quotients = np.divide(x.astype(np.float64), scales, order="C")
            s[...] = _stored(quotients, zero_points, parameters, round_, nan)
    return stored


def _stored(
    quotients: NDArray[np.float64],
    zero_points: NDArray[Any],
    parameters: QuantizationParameters,
    round_: Rounder,
    nan: NanResult,
) -> NDArray[np.float64]:
    is_added_first = parameters.expressed == "f32" and parameters.storage_width == 8
    if is_added_first:
        quotients += zero_points
    round_(quotients.reshape(-1))
    np.trunc(quotients, out=quotients)
    if not is_added_first:
        quotients += zero_points
    if nan == "stored-zero":
        quotients[np.isnan(quotients)] = 0
    # Of NaN and a number it is the number.
    np.fmax(quotients, parameters.storage_min, out=quotients)
    return np.fmin(quotients, parameters.storage_max, out=quotients)
