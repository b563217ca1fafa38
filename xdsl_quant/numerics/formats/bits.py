"""Packing of codes narrower than a byte."""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array

Bytes = NDArray[np.uint8]


def join_bits(codes: Array, width: int, run: int = 1) -> Bytes:
    """
    Pack codes into bytes, with the first code in the lowest bits.

    Codes are packed in runs: the codes of a run are in consecutive bytes, and the next run
    is in higher bits of these bytes. With width 4 and runs of 16, the first 16 codes are in
    the lower halves of the first 16 bytes, and the next 16 codes in the upper halves.

    Args:
        codes: integers, of which the lowest `width` bits are used.
        width: the width of a code, a divisor of 8.
        run: the number of codes in a run. The last dimension is a multiple of
            `run * 8 / width`.

    Returns:
        bytes, with a last dimension smaller by the factor `8 / width`.
    """
    count = 8 // width
    parts = codes.astype(np.uint8) & np.uint8((1 << width) - 1)
    size = codes.shape[-1] // count
    parts = parts.reshape(*codes.shape[:-1], size // run, count, run)
    joined = np.bitwise_or.reduce(parts << _shifts(width), -2)
    return joined.reshape(*codes.shape[:-1], size)


def split_bits(joined: Bytes, width: int, run: int = 1) -> Bytes:
    """Unpack the result of [`join_bits`][xdsl_quant.numerics.formats.bits.join_bits]."""
    runs = joined.reshape(*joined.shape[:-1], joined.shape[-1] // run, 1, run)
    parts = (runs >> _shifts(width)) & np.uint8((1 << width) - 1)
    return parts.reshape(*joined.shape[:-1], joined.shape[-1] * (8 // width))


def _shifts(width: int) -> Bytes:
    return np.arange(0, 8, width).astype(np.uint8)[:, np.newaxis]
