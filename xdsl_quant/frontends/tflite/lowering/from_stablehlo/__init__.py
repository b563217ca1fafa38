"""Conversions of StableHLO ops to TensorFlow Lite ops, by op class."""

from collections.abc import Mapping

from xdsl.ir import Operation

from . import data_movement, elementwise, products, special_functions, windows
from .building import Conversion

CONVERSIONS: Mapping[type[Operation], Conversion] = {
    **elementwise.CONVERSIONS,
    **special_functions.CONVERSIONS,
    **data_movement.CONVERSIONS,
    **products.CONVERSIONS,
    **windows.CONVERSIONS,
}
"""Conversions of all ops, by op class."""
