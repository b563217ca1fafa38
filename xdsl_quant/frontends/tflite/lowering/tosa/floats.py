"""
The fallback, which computes an op without an integer form with floats: it dequantizes the
operands, and quantizes the results, rounding half to even.

TOSA has no division: it is a product with the reciprocal, so results may differ from those
of divisions in their last bit, and quantized ones by one unit.
"""

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.tflite.formulas.quantized import (
    nearest_stored as quantized_to_nearest,
)
from xdsl_quant.numerics.primitives import Array

from ..kernels import Computation
from .expressions import stored_results

__all__ = ["fallen_back", "quantized_to_nearest"]


def fallen_back(
    op: Operation, computation: Computation, operands: Sequence[Array | None]
) -> Sequence[SSAValue | Array]:
    """
    Return the results of an op that is computed with floats.

    Raises:
        Unsupported: if there is no float form for the types.
    """
    return stored_results(op, computation.results(op, operands, mode="only"))
