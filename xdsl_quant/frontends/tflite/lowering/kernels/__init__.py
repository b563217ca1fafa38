"""
Implementations of the ops of TensorFlow Lite: float formulas and integer kernels.

They compute NumPy arrays, or build expressions for operands known only at run time.
"""

from collections.abc import Mapping

from xdsl.ir import Operation

from xdsl_quant.kernel_set import KernelSet
from xdsl_quant.unsupported import Unsupported

from .computation import (
    Computation,
    FallbackMode,
    Function,
    Implementation,
    block_type,
    has_one_scale,
    parameters_of,
    unsupported_type,
)
from .data_movement import DATA_MOVEMENT
from .elementwise import ELEMENTWISE
from .fourier import FOURIER, ComplexExpression, is_complex
from .products import MULTIPLIER_KERNELS, PRODUCTS, XNNPACK_KERNELS
from .recurrent import RECURRENT, svdf

__all__ = [
    "FOURIER",
    "IMPLEMENTATIONS",
    "MULTIPLIER_KERNELS",
    "RECURRENT",
    "ComplexExpression",
    "Computation",
    "ComputationError",
    "FallbackMode",
    "Function",
    "Implementation",
    "block_type",
    "has_hybrid_kernel",
    "has_one_scale",
    "is_complex",
    "parameters_of",
    "implementations",
    "svdf",
    "unsupported_type",
]

ComputationError = Unsupported
"""Former name of `Unsupported`, kept for compatibility."""

IMPLEMENTATIONS: Mapping[type[Operation], Implementation] = {
    **ELEMENTWISE,
    **PRODUCTS,
    **DATA_MOVEMENT,
    **FOURIER,
}
"""Implementation of each op, except ops with state or regions."""


def implementations(kernels: KernelSet) -> Mapping[type[Operation], Implementation]:
    """Return the implementations of ops with a set of kernels."""
    others: Mapping[KernelSet, Mapping[type[Operation], Implementation]] = {
        "reference": {},
        "multiplier": MULTIPLIER_KERNELS,
        "xnnpack": XNNPACK_KERNELS,
    }
    return {**IMPLEMENTATIONS, **others.get(kernels, {})}


def has_hybrid_kernel(op: Operation) -> bool:
    """Return True if an op has a kernel for float activations and stored weights."""
    computation = IMPLEMENTATIONS.get(type(op))
    return isinstance(computation, Computation) and computation.hybrid is not None
