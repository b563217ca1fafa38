"""
Conversions to and from MLIR's float types of 4, 6 and 8 bits.

| format | exponent, mantissa, bias | largest | infinities | NaN |
|---|---|---|---|---|
| `f8E5M2` | 5, 2, 15 | 57344 | yes | yes |
| `f8E4M3` | 4, 3, 7 | 240 | yes | yes |
| `f8E3M4` | 3, 4, 3 | 15.5 | yes | yes |
| `f8E4M3FN` | 4, 3, 7 | 448 | | two codes |
| `f8E5M2FNUZ` | 5, 2, 16 | 57344 | | in place of -0 |
| `f8E4M3FNUZ` | 4, 3, 8 | 240 | | in place of -0 |
| `f8E4M3B11FNUZ` | 4, 3, 11 | 30 | | in place of -0 |
| `f8E8M0FNU` | 8, 0, 127 | 2^127 | | one code; unsigned, without 0 |
| `f6E2M3FN` | 2, 3, 1 | 7.5 | | |
| `f6E3M2FN` | 3, 2, 3 | 28 | | |
| `f4E2M1FN` | 2, 1, 1 | 6 | | |

A code is the bit pattern of such a float as an unsigned integer, in the lowest bits of a
`uint8`. The package `ml_dtypes` is not required. `encode` is bit-identical to `astype` of
`ml_dtypes` 0.7. Earlier versions round f64 twice, and numbers slightly above 2^-127 to
2^-126 in `f8E8M0FNU`.

Example:

```python
import numpy as np

from xdsl_quant.numerics.small_floats import small_float

f4 = small_float("f4E2M1FN")
print(f4.encode(np.float32([0.3, -2.5, 100])))
print(f4.decode(np.uint8([1, 12, 7])))
```

prints

```
[ 1 12  7]
[ 0.5 -2.   6. ]
```
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arrays import Array, check_bounds, check_unmasked, numbers

_ENCODED = ("float16", "bfloat16", "float32", "float64")
"""Dtypes that can be encoded."""

_PIECE = 1 << 15
"""Number of elements converted at a time, so that temporary arrays fit the cache."""


@dataclass(frozen=True)
class SmallFloat:
    """Float format of at most 8 bits. The magnitude of a code excludes its sign bit."""

    name: str
    """Name of MLIR's type, e.g. `f8E4M3FN`."""

    exponent_bits: int

    mantissa_bits: int

    bias: int
    """Exponent bias: the exponent of the smallest normal number is `1 - bias`."""

    largest_code: int

    infinity: int | None = None
    """Code of infinity, or `None` for a format without infinity."""

    nan: int | None = None
    """Code to which a NaN without sign is encoded, or `None` for a format without NaN."""

    @property
    def is_signed(self) -> bool:
        """True if the format has negative numbers."""
        return self.mantissa_bits > 0

    @property
    def bits(self) -> int:
        """Number of bits of a code."""
        return self.is_signed + self.exponent_bits + self.mantissa_bits

    @property
    def sign_bit(self) -> int:
        """Sign bit of a code; 0 for an unsigned format."""
        return 1 << (self.exponent_bits + self.mantissa_bits) if self.is_signed else 0

    @property
    def has_negative_zero(self) -> bool:
        """True if -0 has a code."""
        return self.is_signed and self.nan != self.sign_bit

    @property
    def is_part_of_f16(self) -> bool:
        """
        True if shifting all codes to the sign bit of f16 gives f16 numbers that are
        proportional to the encoded numbers. False for `f8E5M2FNUZ`, which has numbers where
        f16 has infinities.
        """
        return self.exponent_bits != 5 or self.infinity is not None

    @property
    def overflow(self) -> int:
        """Code of numbers that overflow: infinity, NaN or the largest number."""
        codes = self.infinity, self.nan, self.largest_code
        return next(code for code in codes if code is not None)

    @property
    def smallest_normal(self) -> float:
        """Smallest normal number: smaller numbers have fewer significant bits."""
        return math.ldexp(1.0, 1 - self.bias)

    @cached_property
    def largest(self) -> float:
        """Largest number."""
        return float(self.values[self.largest_code])

    @cached_property
    def values(self) -> NDArray[np.float32]:
        """Number, infinity or NaN represented by each code."""
        values = np.array([*map(self._value, range(1 << self.bits))], np.float32)
        values.setflags(write=False)
        return values

    def _value(self, code: int) -> float:
        if not self.is_signed:
            return math.nan if code == self.nan else math.ldexp(1.0, code - self.bias)
        is_negative, magnitude = divmod(code, self.sign_bit)
        if code == self.nan or magnitude > self.largest_code:
            is_infinite = magnitude == self.infinity
            value = math.inf if is_infinite else math.nan
        else:
            exponent, mantissa = divmod(magnitude, 1 << self.mantissa_bits)
            mantissa += (exponent > 0) << self.mantissa_bits
            power = max(exponent, 1) - self.bias - self.mantissa_bits
            value = math.ldexp(mantissa, power)
        return -value if is_negative else value

    # Conversion

    def encode(self, values: ArrayLike, *, saturate: bool = False) -> NDArray[np.uint8]:
        """
        Encode floats, rounded half to even. Even f64 values are rounded only once.

        Overflow gives infinity if the format has it, otherwise NaN, otherwise the largest
        number. If the format has no NaN, NaN becomes -0, or 0 if the sign bit of the NaN is
        set. In `f8E8M0FNU` ties are rounded up, and zero and negative numbers become NaN.

        Args:
            values: an array of any shape with dtype `float16`, `float32`, `float64`, or
                `bfloat16` of `ml_dtypes`; or Python numbers, which are converted to f64.
            saturate: True to clamp numbers and infinities to the range of the format first.
                For `f8E8M0FNU`, 0 and negative numbers then become 2^-127.

        Returns:
            an array with dtype `uint8` and the shape of `values`.

        Raises:
            TypeError: if values are masked or have another dtype.
        """
        check_unmasked(values, "values")
        array = np.asarray(values)
        if not isinstance(values, np.ndarray | np.generic) and array.dtype.kind in "iu":
            array = array.astype(np.float64)
        if array.dtype.name not in _ENCODED:
            raise TypeError(
                f"expected values with dtype {', '.join(_ENCODED)}, found {array.dtype}"
            )
        flat = array.reshape(-1)
        codes = np.empty(flat.shape, np.uint8)
        for start in range(0, flat.size, _PIECE):
            piece = slice(start, start + _PIECE)
            codes[piece] = self._codes(flat[piece], saturate)
        return codes.reshape(array.shape)

    def _codes(self, values: Array, saturate: bool) -> Array:
        is_double = values.dtype.itemsize == 8
        floats = values.astype(np.float64 if is_double else np.float32, copy=False)
        with np.errstate(invalid="ignore"):
            return self.codes_of(floats, is_double=is_double, saturate=saturate)

    def codes_of(self, floats: Any, *, is_double: bool, saturate: bool) -> Any:
        """
        Encode floats in array operations that can be traced: see
        [`encode`][xdsl_quant.numerics.small_floats.SmallFloat.encode].

        Args:
            floats: an array, or an expression.
            is_double: True for f64, False for f32.
            saturate: True to clamp numbers that overflow to the largest number.

        Returns:
            codes as integers in the width of the floats.
        """
        bits, is_nan = float_bits(floats), np.isnan(floats)
        limit = self.largest_code if saturate else self.overflow
        codes = np.minimum(self._magnitude(np.abs(floats), is_double), limit)
        if not self.is_signed:
            codes = _choice(bits <= 0, 0 if saturate else self.overflow, codes)
            return _choice(is_nan, self.overflow, codes)
        sign = (bits >> (63 if is_double else 31)) & self.sign_bit
        if self.nan is None:
            return _choice(is_nan, self.sign_bit - sign, codes + sign)
        if self.has_negative_zero:
            return _choice(is_nan, self.nan, codes) + sign
        codes = _choice((codes & (self.sign_bit - 1)) != 0, codes + sign, codes)
        return _choice(is_nan, self.nan, codes)

    def _magnitude(self, absolute: Any, is_double: bool) -> Any:
        """
        Return the codes of magnitudes, or integers greater than all codes on overflow.
        """
        if is_double:
            float_type, mantissa_bits, bias = np.float64, 52, 1023
        else:
            float_type, mantissa_bits, bias = np.float32, 23, 127

        def bits_of(number: float) -> int:
            return int(float_bits(np.array(number, float_type)))

        bits, smallest_normal = float_bits(absolute), bits_of(self.smallest_normal)
        dropped = mantissa_bits - self.mantissa_bits
        # A carry out of the mantissa increments the exponent, whose bias changes as
        # well.
        to_add = (1 << (dropped - 1)) - ((bias - self.bias) << mantissa_bits)
        if not self.is_signed:
            # f32 has the smallest number as a subnormal one.
            tie = bits_of(math.ldexp(1.5, -self.bias))
            smallest = _choice(bits >= tie, 1, 0)
            return _choice(
                bits >= smallest_normal, (bits + to_add) >> dropped, smallest
            )
        last = (bits >> dropped) & 1
        normal = (bits + (to_add - 1) + last) >> dropped
        # The last bit of this sum has the weight of the last bit of subnormal numbers.
        unit = math.ldexp(1.0, 1 - self.bias + dropped)
        subnormal = float_bits(absolute + float_type(unit)) - bits_of(unit)
        return _choice(bits >= smallest_normal, normal, subnormal)

    def decode(self, codes: ArrayLike) -> NDArray[np.float32]:
        """
        Decode codes; all results are exact.

        Args:
            codes: an array of integers, of any shape, or Python integers.

        Returns:
            an array with dtype `float32` and the shape of `codes`.

        Raises:
            TypeError: if codes are masked or not integers.
            ValueError: if an integer is not a code.
        """
        array = numbers(codes, "codes", "iu")
        last = (1 << self.bits) - 1
        if array.dtype != np.uint8 or last < 255:
            message = f"expected codes of {self.name} from 0 to {last}, found {{}}"
            check_bounds(array, 0, last, message)
        return self.values[array]


def float_bits(values: Any) -> Any:
    """
    Return the bits of floats, arrays or expressions, as signed integers of the same width.
    """
    if isinstance(values, np.ndarray):
        array = cast(Array, values)
        return array.view(f"i{array.itemsize}")
    return values.bits()


def _choice(condition: Any, a: Any, b: Any) -> Any:
    return cast(Any, np).where(condition, a, b)


_FORMATS = (
    SmallFloat("f8E5M2", 5, 2, 15, 0x7B, infinity=0x7C, nan=0x7E),
    SmallFloat("f8E4M3", 4, 3, 7, 0x77, infinity=0x78, nan=0x7C),
    SmallFloat("f8E3M4", 3, 4, 3, 0x6F, infinity=0x70, nan=0x78),
    SmallFloat("f8E4M3FN", 4, 3, 7, 0x7E, nan=0x7F),
    SmallFloat("f8E5M2FNUZ", 5, 2, 16, 0x7F, nan=0x80),
    SmallFloat("f8E4M3FNUZ", 4, 3, 8, 0x7F, nan=0x80),
    SmallFloat("f8E4M3B11FNUZ", 4, 3, 11, 0x7F, nan=0x80),
    SmallFloat("f8E8M0FNU", 8, 0, 127, 0xFE, nan=0xFF),
    SmallFloat("f6E2M3FN", 2, 3, 1, 0x1F),
    SmallFloat("f6E3M2FN", 3, 2, 3, 0x1F),
    SmallFloat("f4E2M1FN", 2, 1, 1, 0x7),
)

SMALL_FLOATS: Mapping[str, SmallFloat] = {format.name: format for format in _FORMATS}
"""Formats by MLIR type name."""


def small_float(name: str) -> SmallFloat:
    """Return a format by MLIR type name, or raise a `ValueError` if the name is unknown."""
    if (format := SMALL_FLOATS.get(name)) is None:
        raise ValueError(
            f"unknown small float '{name}', available: {', '.join(SMALL_FLOATS)}"
        )
    return format
