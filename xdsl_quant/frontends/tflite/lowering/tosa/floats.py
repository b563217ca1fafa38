"""
Fallback for ops without an integer form: dequantize, compute with floats, and quantize,
rounding half to even.

Divisions multiply by the reciprocal, so float results may differ from the exactly rounded
quotients in the last bit, and quantized results by one unit.
"""

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.tflite.formulas.quantized import (
    nearest_stored as quantized_to_nearest,
)
from xdsl_quant.numerics.primitives import Array

from ..kernels import Computation
from .expressions import stored_results

__all__ = ["fallen_back", "float_results", "quantized_to_nearest"]


def float_results(
    op: Operation, computation: Computation, operands: Sequence[Array | None]
) -> Sequence[SSAValue | Array]:
    """
    Return the results of an op, computed with floats.

    Raises:
        Unsupported: if TOSA has no float form for the types.
    """
    return stored_results(op, computation.results(op, operands, mode="only"))


# Former name, kept for compatibility.
fallen_back = float_results
