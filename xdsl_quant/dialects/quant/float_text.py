"""
Formatting of floats exactly as MLIR prints them.

MLIR prints the first of these texts, from LLVM's `APFloat`, that is valid:

1. six significant digits, `d.ddddd0e+XX`, if the text parses to the same number;
2. all digits that the precision needs (17 for f64, 9 for f32), if the text has a decimal
   point;
3. `0x` and the bits.

Digits are not correctly rounded: `APFloat` first truncates the exact decimal expansion to a
few more digits than needed (an estimate of 59/196 digits per bit), and then rounds half up.
Therefore 0.998 prints as `0.998` and not as `9.980000e-01`.
"""

from __future__ import annotations

import math
import struct
from array import array
from functools import cache, partial
from typing import cast

from .float_formats import MIN_BULK_COUNT, FloatFormat

_SHORT_DIGITS = 6


def float_text(value: float, float_format: FloatFormat) -> str:
    """
    Format a float as MLIR does, e.g. `1.000000e-01`, `0.33333333333333331` or
    `0x4132D68700000000`.

    `value` must be representable in the format, infinite or NaN. Hexadecimal text has the
    bits of the f64 value for every format, as MLIR's parser of quantized types expects.
    """
    if not math.isfinite(value):
        return hex_text(value)
    sign, size = "-" if math.copysign(1.0, value) < 0 else "", abs(value)
    # If the correctly rounded text, the closest one with six digits, does not parse to
    # the value, no other does.
    if _reads_back(f"{size:.5e}", size, float_format):
        short = _short_text(size)
        if _reads_back(short, size, float_format):
            return sign + short
    long = _long_text(size, 2 + float_format.precision * 59 // 196)
    return sign + long if "." in long else hex_text(value)


def float_texts(values: array[float], float_format: FloatFormat) -> list[str]:
    """
    Format positive floats as MLIR does; equal values are formatted once.

    The smallest and largest number of a format are formatted in hexadecimal if their short
    text, which the parser reads as f64, would be out of range.
    """
    if len(values) == 1:
        return [_text_in_range(values[0], float_format)]
    text = cache(partial(_text_in_range, float_format=float_format))
    # `decimal_texts` uses 64-bit integers, which the digits of wider formats exceed.
    if len(values) < MIN_BULK_COUNT or float_format.is_wider_than_double:
        return list(map(text, values))
    from .float_text_bulk import decimal_texts

    texts, missing = decimal_texts(values, float_format)
    for index in missing:
        texts[index] = text(values[index])
    return texts


def _text_in_range(value: float, float_format: FloatFormat) -> str:
    text = float_text(value, float_format)
    smallest, largest = float_format.smallest, float_format.largest
    if value not in (smallest, largest) or text.startswith("0x"):
        return text
    return text if smallest <= float(text) <= largest else hex_text(value)


def hex_text(value: float) -> str:
    """Return the bits of a double in hexadecimal, e.g. `0x7FF8000000000000`."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:X}"


def _reads_back(text: str, value: float, float_format: FloatFormat) -> bool:
    text_value = float(text)
    if text_value == value:
        return not float_format.is_wider_than_double or _is_nearest_to(
            text, value, float_format
        )
    if float_format.holds_doubles or not math.isfinite(text_value):
        return False
    return float_format.nearest(text_value) == value


def _is_nearest_to(text: str, value: float, float_format: FloatFormat) -> bool:
    """Return True if a decimal text rounds to `value`; for formats wider than f64."""
    # Imported only for these rare types.
    from fractions import Fraction

    exponent = math.frexp(value)[1] - float_format.precision
    distance = Fraction(text) - Fraction(value)
    return 2 * abs(distance) <= Fraction(2) ** exponent


@cache
def _integer_power(base: int, exponent: int) -> int:
    return cast(int, base**exponent)


def _significant_digits(value: float, count: int) -> tuple[str, int]:
    """
    Return at most `count` decimal digits without trailing zeros, and the power of ten of
    the last digit, like `APFloat::toString` for a positive value.
    """
    significand, denominator = value.as_integer_ratio()
    exponent = 1 - denominator.bit_length()
    if exponent:
        significand *= _integer_power(5, -exponent)
    needed_bits = (count * 196 + 58) // 59
    removable = (significand.bit_length() - needed_bits) * 59 // 196
    if removable > 0:
        significand //= _integer_power(10, removable)
        exponent += removable
    digits = str(significand)
    if (excess := len(digits) - count) > 0:
        exponent += excess
        digits, first_dropped = digits[:count], digits[count]
        if first_dropped >= "5":
            digits = str(int(digits) + 1)
    stripped = digits.rstrip("0") or "0"
    return stripped, exponent + len(digits) - len(stripped)


def _short_text(value: float) -> str:
    digits, exponent = _significant_digits(value, _SHORT_DIGITS)
    power = exponent + len(digits) - 1 if value else 0
    return f"{digits[0]}.{digits[1:]:0<{_SHORT_DIGITS}}e{power:+03}"


_MAX_PADDING = 3
"""Maximum number of padding zeros before `APFloat::toString` uses an exponent."""


def _long_text(value: float, count: int) -> str:
    digits, exponent = _significant_digits(value, count)
    power = exponent + len(digits) - 1
    if 0 <= exponent <= _MAX_PADDING and len(digits) + exponent <= count:
        return digits + "0" * exponent
    if exponent < 0 <= power:
        return f"{digits[: power + 1]}.{digits[power + 1 :]}"
    if exponent < 0 <= power + _MAX_PADDING:
        return f"0.{'0' * (-power - 1)}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{power:+d}"
