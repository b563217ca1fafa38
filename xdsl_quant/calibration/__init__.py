"""
Calibration: run a module with `quant.stats_ref` on samples and gather the ranges of values.

What comes out is a file for the pass `quant-import-stats`.
"""

from .batches import calibrate
from .statistics import Statistics

__all__ = ["Statistics", "calibrate"]
