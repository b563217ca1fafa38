"""
Precision, range and rounding of MLIR's builtin float types, to check that scales, which are
Python floats, are representable in the expressed type.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from xdsl.dialects import builtin
from xdsl.dialects.builtin import AnyFloat

from xdsl_quant.rounding_mode import FloatProperties

MIN_BULK_COUNT = 50_000
"""Number of scales from which importing NumPy pays off."""


class FloatFormat(NamedTuple):
    """A binary floating-point format, restricted to positive finite doubles."""

    precision: int
    """Number of bits of the significand, including the leading one."""

    min_exponent: int
    """Exponent of the smallest normal number, `2**min_exponent`."""

    largest: float
    """Largest finite value, or the largest double if that is smaller."""

    @property
    @cache
    def smallest(self) -> float:
        """Smallest positive value, or the smallest positive double if that is larger."""
        return math.ldexp(1.0, max(self.min_exponent - self.precision + 1, -1074))

    @property
    def holds_doubles(self) -> bool:
        """True if the format represents every finite double."""
        return self.precision >= 53 and self.min_exponent <= -1022

    @property
    def is_wider_than_double(self) -> bool:
        """True if the format is more precise than f64."""
        return self.precision > 53

    def nearest(self, value: float) -> float:
        """
        Round to the nearest value of this format, ties to even. `value` must lie between
        `smallest` and `largest`.
        """
        if self.holds_doubles:
            return value
        exponent = max(math.frexp(value)[1] - 1, self.min_exponent)
        ulp = math.ldexp(1.0, exponent - self.precision + 1)
        return round(value / ulp) * ulp

    def nearest_all(self, values: array[float]) -> array[float]:
        """Round each double to the nearest value of this format, ties to even."""
        if self.holds_doubles:
            return values
        if self.precision == 24 and len(values) < MIN_BULK_COUNT:
            return array("d", array("f", values))
        import numpy as np

        doubles = np.frombuffer(values, dtype=np.float64)
        nearest = array("d")
        exponents = np.maximum(np.frexp(doubles)[1] - 1, self.min_exponent)
        ulps = np.ldexp(1.0, exponents - self.precision + 1)
        nearest.frombytes((np.rint(doubles / ulps) * ulps).tobytes())
        return nearest

    def out_of_range(self, scales: Sequence[float]) -> float | None:
        """Return the first scale that is NaN or out of range, or `None`."""
        if not scales:
            return None
        smallest, largest = self.smallest, self.largest
        if len(scales) >= MIN_BULK_COUNT:
            import numpy as np

            doubles = np.asarray(scales, dtype=np.float64)
            if ((doubles >= smallest) & (doubles <= largest)).all():
                return None
        # `min` and `max` may ignore a NaN, but the sum does not.
        elif smallest <= min(scales) and max(scales) <= largest:
            if not math.isnan(sum(scales)):
                return None
        return next(scale for scale in scales if not smallest <= scale <= largest)

    def range_error(self, scale: float) -> str:
        """Return MLIR's message about a scale that is out of range."""
        return (
            f"scale {range_text(scale)} out of expressed type range "
            f"[{range_text(self.smallest)}, {range_text(self.largest)}]"
        )


def range_text(value: float) -> str:
    """Format a bound of the scale range as in MLIR's error messages."""
    return f"{value:e}".replace("inf", "INF")


_DOUBLE_MAX = math.ldexp(1.0 - 2.0**-53, 1024)

FLOAT_FORMATS: dict[type[AnyFloat], FloatFormat] = {
    builtin.Float16Type: FloatFormat(11, -14, 65504.0),
    builtin.BFloat16Type: FloatFormat(8, -126, math.ldexp(1.0 - 2.0**-8, 128)),
    builtin.FloatTF32Type: FloatFormat(11, -126, math.ldexp(1.0 - 2.0**-11, 128)),
    builtin.Float32Type: FloatFormat(24, -126, math.ldexp(1.0 - 2.0**-24, 128)),
    builtin.Float64Type: FloatFormat(53, -1022, _DOUBLE_MAX),
    builtin.Float80Type: FloatFormat(64, -16382, _DOUBLE_MAX),
    builtin.Float128Type: FloatFormat(113, -16382, _DOUBLE_MAX),
    builtin.Float8E5M2Type: FloatFormat(3, -14, 57344.0),
    builtin.Float8E4M3Type: FloatFormat(4, -6, 240.0),
    builtin.Float8E4M3FNType: FloatFormat(4, -6, 448.0),
    builtin.Float8E5M2FNUZType: FloatFormat(3, -15, 57344.0),
    builtin.Float8E4M3FNUZType: FloatFormat(4, -7, 240.0),
    builtin.Float8E4M3B11FNUZType: FloatFormat(4, -10, 30.0),
    builtin.Float8E3M4Type: FloatFormat(5, -2, 15.5),
    builtin.Float8E8M0FNUType: FloatFormat(1, -127, math.ldexp(1.0, 127)),
    builtin.Float6E2M3FNType: FloatFormat(4, 0, 7.5),
    builtin.Float6E3M2FNType: FloatFormat(3, -2, 28.0),
    builtin.Float4E2M1FNType: FloatFormat(2, 0, 6.0),
}
"""The format of each float type of MLIR."""


def float_format(expressed_type: AnyFloat) -> FloatFormat:
    """Return the format of a float type."""
    return FLOAT_FORMATS[type(expressed_type)]


def float_properties(expressed_type: AnyFloat) -> FloatProperties:
    """Return the properties that decide whether casts can compute in a float type."""
    format_ = float_format(expressed_type)
    return FloatProperties(
        expressed_type.bitwidth, format_.precision, format_.smallest, format_.largest
    )
