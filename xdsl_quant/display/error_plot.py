"""Plot of the quantization error of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from xdsl_quant.dialects.quant import BlockScaledQuantizedType, QuantizedType
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.block_scaled import BlockScaledParameters
from xdsl_quant.rounding_mode import Rounding, RoundingMode, ZeroPointOrder
from xdsl_quant.runtime.extras import check_packages

from .quantized_values import QuantizedValues, block_scaled_values, uniform_values

if TYPE_CHECKING:
    from .error_figure import ErrorFigure


def plot_error(
    expressed_values: ArrayLike,
    quantized_type: QuantizedType | QuantizationParameters,
    *,
    rounding_mode: RoundingMode = "nearest-even",
    zero_point_order: ZeroPointOrder = "before-rounding",
) -> ErrorFigure:
    """
    Plot the error of quantizing and dequantizing values.

    The figure has a histogram of the values in units of stored values, with saturated
    values in another color; a histogram of the error (dequantized value minus value); and
    the SQNR of each channel or block. NaN and infinite values are counted in the title and
    otherwise ignored.

    Args:
        expressed_values: array with the dtype of the expressed type, or Python numbers,
            which are rounded to it.
        quantized_type: uniform or block-scaled type, or quantization parameters.
        rounding_mode: rounding mode of quantization.
        zero_point_order: add the zero point before or after rounding.

    Returns:
        A matplotlib figure, independent of pyplot. Notebooks show it; `savefig` writes
        it to a file.

    Raises:
        TypeError: if the dtype is wrong, or `quantized_type` is not a type.
        ValueError: if no value is finite, the type does not match the shape or is
            neither uniform nor block-scaled, or the rounding is unknown.
        ImportError: if matplotlib is not installed.
    """
    check_packages("plot_error", "matplotlib")
    # matplotlib is optional and slow to import.
    from .error_figure import error_figure

    rounding = Rounding(rounding_mode, zero_point_order)
    return error_figure(_values_of_type(expressed_values, quantized_type, rounding))


def _values_of_type(
    expressed_values: ArrayLike,
    quantized_type: QuantizedType | QuantizationParameters,
    rounding: Rounding,
) -> QuantizedValues:
    if isinstance(quantized_type, BlockScaledQuantizedType):
        parameters = BlockScaledParameters.from_type(quantized_type)
        return block_scaled_values(expressed_values, parameters, rounding)
    if not isinstance(quantized_type, QuantizationParameters):
        quantized_type = QuantizationParameters.from_type(quantized_type)
    return uniform_values(expressed_values, quantized_type, rounding)
