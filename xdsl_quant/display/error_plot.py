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
    Plot what is lost when values are quantized and dequantized again.

    The figure has a histogram of the values in units of the stored values, with what is
    outside of their range in another colour; a histogram of the error (what comes back
    minus the value); and, for types with channels or blocks, the signal-to-noise ratio
    of each channel or block. Values that are NaN or infinite are left out of the title
    and the histograms, and the figure says how many they are.

    Args:
        expressed_values: an array of a shape that the type fits, with the dtype of its
            expressed type; or Python numbers, which are rounded to that.
        quantized_type: a uniform or block-scaled type, or quantization parameters.
        rounding_mode: how values between two stored ones are rounded.
        zero_point_order: when the zero point is added.

    Returns:
        A matplotlib figure, which is not known to pyplot. A notebook shows it, and
        `savefig` writes it to a file.

    Raises:
        TypeError: if an array has another dtype, or `quantized_type` is no type.
        ValueError: if there are no finite values, the type does not fit the shape or is no
            uniform or block-scaled type, or there is no such rounding.
        ImportError: if matplotlib is not installed.
    """
    check_packages("plot_error", "matplotlib")
    # It is optional, and its import takes long.
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
