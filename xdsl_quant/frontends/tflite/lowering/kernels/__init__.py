"""
What each op of TensorFlow Lite computes: formulas and integer kernels of NumPy arrays,
which also take expressions of values that are known at run time.
"""

from collections.abc import Mapping

from xdsl.ir import Operation

from xdsl_quant.unsupported import Unsupported

from .computing import (
    Computation,
    FallbackMode,
    Implementation,
    has_one_scale,
    parameters_of,
    unsupported_type,
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
    "has_hybrid_kernel",
    "has_one_scale",
    "parameters_of",
    "svdf",
    "unsupported_type",
]

ComputationError = Unsupported
"""The former name of the exception, which the API reference printed."""

IMPLEMENTATIONS: Mapping[type[Operation], Implementation] = {
    **ELEMENTWISE,
    **PRODUCTS,
    **MOVING,
}
"""How each op is computed, but those with state and with regions."""


def has_hybrid_kernel(op: Operation) -> bool:
    """
    Return True if an op of floats may take stored weights, and quantizes the floats
    then.
    """
    computation = IMPLEMENTATIONS.get(type(op))
    return isinstance(computation, Computation) and computation.hybrid is not None
