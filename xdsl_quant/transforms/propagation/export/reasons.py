"""Why kernels stay in floating point."""

from __future__ import annotations


class StaysInFloat(Exception):
    """Why a kernel stays in floating point."""


class ResultOutOfRange(StaysInFloat):
    """
    Why a kernel and its results stay in floating point: they have numbers that the type of
    a result would cut off.
    """
