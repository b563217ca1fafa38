"""All f32 inputs of conversions to small floats, compared with `ml_dtypes`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.float_dtypes import float_dtype
from xdsl_quant.numerics.small_floats import SMALL_FLOATS, SmallFloat

_CHUNK = 1 << 22
"""How many inputs are in memory at a time."""


class Differences(NamedTuple):
    """Where two conversions differ."""

    inputs: int
    """The number of inputs."""

    different: int
    """How many of them become different codes."""

    first: str
    """The bits of the first one of these, and both codes."""


def differences(format: SmallFloat, saturate: bool, inputs: int) -> Differences:
    """
    What is not as in `ml_dtypes`, which does not saturate by itself.

    Args:
        format: what is converted to.
        saturate: whether to limit numbers to the range of the format before.
        inputs: the number of inputs, from +0 on in the order of their bits.
    """
    different, first = 0, ""
    for start in range(0, inputs, _CHUNK):
        bits = np.arange(start, min(start + _CHUNK, inputs), dtype=np.uint32)
        codes = format.encode(bits.view(np.float32), saturate=saturate)
        expected = expected_codes(bits.view(np.float32), format, saturate)
        wrong = np.flatnonzero(codes != expected)
        if len(wrong) and not first:
            place = wrong[0]
            first = f"{bits[place]:#x} {codes[place]:#x} {expected[place]:#x}"
        different += len(wrong)
    return Differences(inputs, different, first)


@np.errstate(all="ignore")
def expected_codes(
    values: NDArray[Any], format: SmallFloat, saturate: bool = False
) -> NDArray[Any]:
    """Return the codes that `ml_dtypes` 0.7 gives floats, after saturation."""
    if saturate:
        low = -format.largest if format.is_signed else format.values[0]
        values = np.clip(values, np.float32(low), np.float32(format.largest))
    codes = values.astype(float_dtype(format.name)).view(np.uint8)
    if not format.is_signed:
        # Earlier versions round these up.
        codes[(values > 2.0**-127) & (values < 1.5 * 2.0**-127)] = 0
    return codes


CONVERSIONS = [
    (format, saturate) for format in SMALL_FLOATS.values() for saturate in (False, True)
]
"""Formats, and whether the conversion saturates."""
