"""
Logistic function of stored values with the bits of onnxruntime, whose table for 8-bit types
contains the quantized results of its float function: a quotient of polynomials in `f32`.
"""

from typing import Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.stablehlo.dialect import LogisticOp
from xdsl_quant.machines.arith import FloatExpression
from xdsl_quant.numerics.primitives import Integers
from xdsl_quant.transforms.building.builder import LoweringBuilder

from .elementwise import (
    Form,
    IntegerPattern,
    Values,
    build_elementwise,
    operand_elements,
    scaled_tensors,
    storage_of,
)
from .float_rescaling import FloatRescaling, as_float, f32_scales, fused

_LARGEST = 18.0
"""Largest absolute operand; larger ones have the same result."""

_NUMERATOR = (
    *(4.37031012579801e-11, 1.15627324459942e-07, 6.08574864600143e-05),
    *(8.51377133304701e-03, 2.48287947061529e-01),
)
"""Coefficients of the odd powers of the operand, the highest one first."""

_DENOMINATOR = (
    *(6.10247389755681e-13, 5.76102136993427e-09, 6.29106785017040e-06),
    *(1.70198817374094e-03, 1.16817656904453e-01, 9.93151921023180e-01),
)
"""Coefficients of the even powers of the operand, the highest one first."""


def _horner_f32(x: FloatExpression, coefficients: tuple[float, ...]) -> FloatExpression:
    first, second, *others = map(np.float32, coefficients)
    result = fused(x, float(first), float(second))
    for coefficient in others:
        result = fused(result, x, float(coefficient))
    return result


def logistic_f32(x: Any) -> Any:
    """Build the logistic function of an `f32` with the bits of onnxruntime."""
    x = np.clip(x, -_LARGEST, _LARGEST)
    square = x * x
    quotient = _horner_f32(square, _NUMERATOR) * x / _horner_f32(square, _DENOMINATOR)
    return np.clip(quotient + 0.5, 0.0, 1.0)


class LogisticToFloats(IntegerPattern):
    """Replace `stablehlo.logistic` of stored values by onnxruntime's float function."""

    def form(self, op: Operation) -> Form | None:
        types = *op.operand_types, *op.result_types
        if not isinstance(op, LogisticOp) or (pair := scaled_tensors(types)) is None:
            return None
        operand, target = pair
        if not all(tensor.quantized_type.is_per_tensor for tensor in pair):
            return None
        # Checks the types.
        FloatRescaling([operand], target)
        scales = [float(f32_scales(tensor).flat[0]) for tensor in pair]
        points = [int(tensor.zero_points.flat[0]) for tensor in pair]
        low, high = target.quantized_type.storage_range

        def stored(value: Integers) -> Integers:
            result = logistic_f32(as_float(value - points[0]) * scales[0]) / scales[1]
            rounded = np.clip(np.rint(result), low - points[1], high - points[1])
            return rounded.as_integer() + points[1]

        def build(builder: LoweringBuilder, tensors: Values) -> list[SSAValue]:
            elements = operand_elements(tensors, [operand])
            type_ = storage_of(op.result.type)
            return [build_elementwise(builder, elements, [], type_, stored)]

        return build
