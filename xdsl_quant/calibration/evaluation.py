"""What quantization would do to the values that were observed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.dialects.quant import QuantizedType
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.histogram import Histogram
from xdsl_quant.numerics.histogram_errors import EstimatedError, estimate_error
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.transforms.statistics.quant_calibrated_to_uniform import (
    QuantCalibratedToUniformPass,
)
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics

from .statistics import Statistics
from .suggested_types import suggested_types


@dataclass(frozen=True)
class Evaluation:
    """What quantization would do to the values of a key."""

    key: str

    ranges: KeyStatistics
    """The range of the values, and those of their channels."""

    quantized_type: QuantizedType | None
    """The type that the values get."""

    reason: str
    """Why they get none, or nothing."""

    parameters: QuantizationParameters | None
    """The parameters of the type."""

    histogram: Histogram | None
    """The values, if they were counted."""

    error: EstimatedError | None
    """What the type costs, if the values were counted."""

    @property
    def sqnr(self) -> float:
        """Signal to quantization noise ratio in dB; NaN if it is not known."""
        return math.nan if self.error is None else self.error.sqnr


def evaluate(
    statistics: Statistics,
    conversion: QuantCalibratedToUniformPass,
    module: ModuleOp | str | None = None,
) -> list[Evaluation]:
    """
    What quantization would do to the values of each key: those without a type first, and
    then the smallest signal to quantization noise ratio.

    Args:
        statistics: what was observed.
        conversion: the pass that chooses types.
        module: what the statistics are of, as it was calibrated, or its text. It says
            which expressed types values have, and which of them are coupled; by default
            all are f32, and none is.

    Raises:
        ValueError: if the module does not have a key, or no key gets a type.
    """
    if isinstance(module, str):
        module = parse_module(module)
    ranges = {key: statistics.ranges(key) for key in statistics.observations}
    types = suggested_types(ranges, conversion, module) if ranges else {}
    evaluations = [
        _evaluation(
            key, ranges[key], types[key], statistics.observations[key].histogram
        )
        for key in sorted(ranges)
    ]
    return sorted(evaluations, key=_order)


def _order(evaluation: Evaluation) -> tuple[int, float]:
    if evaluation.quantized_type is None:
        return 0, 0
    is_known = not math.isnan(evaluation.sqnr)
    return (1, evaluation.sqnr) if is_known else (2, 0)


def _evaluation(
    key: str,
    ranges: KeyStatistics,
    suggested: QuantizedType | str,
    histogram: Histogram | None,
) -> Evaluation:
    if isinstance(suggested, str):
        return Evaluation(key, ranges, None, suggested, None, histogram, None)
    parameters = QuantizationParameters.from_type(suggested)
    error = None
    if histogram is not None:
        error = estimate_error(
            histogram,
            parameters.scales,
            parameters.zero_points,
            parameters.storage_min,
            parameters.storage_max,
        )
    return Evaluation(key, ranges, suggested, "", parameters, histogram, error)
