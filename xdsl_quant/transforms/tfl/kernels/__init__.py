"""
What each op of TensorFlow Lite computes: formulas and integer kernels of NumPy arrays,
which also take expressions of values that are known at run time.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Operation

from .computing import (
    Computation,
    ComputationError,
    FallbackMode,
    Implementation,
    has_one_scale,
    parameters_of,
)
from .elementwise import ELEMENTWISE
from .moving import MOVING
from .products import MULTIPLIER_KERNELS, PRODUCTS, svdf

__all__ = [
    "IMPLEMENTATIONS",
    "MULTIPLIER_KERNELS",
    "Computation",
    "ComputationError",
    "FallbackMode",
    "Implementation",
    "has_one_scale",
    "parameters_of",
    "svdf",
]

IMPLEMENTATIONS: Mapping[type[Operation], Implementation] = {
    **ELEMENTWISE,
    **PRODUCTS,
    **MOVING,
}
"""How each op is computed, but those with state and with regions."""
