"""Codes of less than a byte, several of which share a byte."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array

Bytes = NDArray[np.uint8]


def join_bits(codes: Array, width: int, run: int = 1) -> Bytes:
    """
    Codes as bytes, the lowest bits of the first code first.

    Codes are in runs, each of which has one code in each byte of a run of bytes: with width
    4 and runs of 16, the first 16 bytes have the first 16 codes in their lower half, and
    the next 16 codes in their upper half.

    Args:
        codes: an array of integers. What is above their lowest bits does not count.
        width: the width of a code, which divides 8.
        run: how many codes a run has. Its size times `8 / width` divides the last
            dimension.

    Returns:
        an array with fewer elements in the last dimension.
    """
    count = 8 // width
    parts = codes.astype(np.uint8) & np.uint8((1 << width) - 1)
    size = codes.shape[-1] // count
    parts = parts.reshape(*codes.shape[:-1], size // run, count, run)
    joined = np.bitwise_or.reduce(parts << _shifts(width), -2)
    return joined.reshape(*codes.shape[:-1], size)


def split_bits(joined: Bytes, width: int, run: int = 1) -> Bytes:
    """
    The codes of which [`join_bits`][xdsl_quant.numerics.formats.bits.join_bits] makes
    these bytes.
    """
    runs = joined.reshape(*joined.shape[:-1], joined.shape[-1] // run, 1, run)
    parts = (runs >> _shifts(width)) & np.uint8((1 << width) - 1)
    return parts.reshape(*joined.shape[:-1], joined.shape[-1] * (8 // width))


def _shifts(width: int) -> Bytes:
    return np.arange(0, 8, width).astype(np.uint8)[:, np.newaxis]
