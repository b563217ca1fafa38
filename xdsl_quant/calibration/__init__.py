"""
Calibration: run a module with `quant.stats_ref` ops on samples and collect the ranges
of their operands.

The result is a statistics file for the pass `quant-import-stats`.
"""

from .batches import calibrate
from .statistics import Statistics

__all__ = ["Statistics", "calibrate"]
