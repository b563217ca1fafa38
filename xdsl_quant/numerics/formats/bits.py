"""Packing of codes that are narrower than a byte."""

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array

Bytes = NDArray[np.uint8]


def join_bits(codes: Array, width: int, run: int = 1) -> Bytes:
    """
    Pack codes into bytes; the first code is in the lowest bits.

    Codes are packed in runs: consecutive codes of a run are in consecutive bytes, and the
    next run shares these bytes. With width 4 and runs of 16, the first 16 codes are in the
    lower halves of the first 16 bytes, and the next 16 codes in the upper halves.

    Args:
        codes: an array of integers, of which only the lowest `width` bits are used.
        width: the width of a code, which divides 8.
        run: the number of codes in a run. The last dimension is a multiple of
            `run * 8 / width`.

    Returns:
        an array of bytes, whose last dimension is `8 / width` times smaller.
    """
    count = 8 // width
    parts = codes.astype(np.uint8) & np.uint8((1 << width) - 1)
    size = codes.shape[-1] // count
    parts = parts.reshape(*codes.shape[:-1], size // run, count, run)
    joined = np.bitwise_or.reduce(parts << _shifts(width), -2)
    return joined.reshape(*codes.shape[:-1], size)


def split_bits(joined: Bytes, width: int, run: int = 1) -> Bytes:
    """
    Return the codes that [`join_bits`][xdsl_quant.numerics.formats.bits.join_bits] has
    packed into these bytes.
    """
    runs = joined.reshape(*joined.shape[:-1], joined.shape[-1] // run, 1, run)
    parts = (runs >> _shifts(width)) & np.uint8((1 << width) - 1)
    return parts.reshape(*joined.shape[:-1], joined.shape[-1] * (8 // width))


def _shifts(width: int) -> Bytes:
    return np.arange(0, 8, width).astype(np.uint8)[:, np.newaxis]
