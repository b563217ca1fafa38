"""Why kernels stay in floating point."""

from __future__ import annotations


class StaysInFloat(Exception):
    """Why a kernel stays in floating point."""
