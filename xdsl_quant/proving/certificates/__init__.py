"""Certificates: bounds of the error of a quantized network for all inputs of regions."""

from . import common_readers, stablehlo_readers, tfl_readers

_READERS = common_readers, stablehlo_readers, tfl_readers
"""Modules that register transfer functions."""
