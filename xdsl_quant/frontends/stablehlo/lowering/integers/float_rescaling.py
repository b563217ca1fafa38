"""
Rescaling of integers by `f32` factors, as onnxruntime's kernels compute it. Each operation
on floats is rounded to `f32`, and `rint` rounds half to even:

* accumulated products, with the ratio `r` of the scales of factors and result:
  `rint(value * r) + zero_point`
* elementwise products: `rint(value * r + zero_point)`
* stored values of up to 16 bits: `rint((value * scale) / result_scale) + zero_point`
* sums of stored values `a` and `b` with zero points `z_a` and `z_b`:
  `rint(fma(a, r_a, fma(b, r_b, zero_point - fma(r_a, z_a, r_b * z_b))))`

Factors of 1 are left out, so accumulators of more than 24 bits remain exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import math
from xdsl.dialects.builtin import f32

from xdsl_quant.machines.arith import FloatExpression, IntegerExpression
from xdsl_quant.numerics.primitives import Array, Integers, multiply_add

from .scales import Formula, ScaledTensor

_WIDEST_STORED = 16
"""Largest width of stored values that are dequantized before they are requantized."""


def f32_scales(tensor: ScaledTensor) -> NDArray[np.float32]:
    """Return the scales of a tensor in `f32`."""
    return tensor.scales.astype(np.float32)


@dataclass(frozen=True)
class FloatRescaling:
    """Rescaling of integers to stored values of the result by `f32` factors."""

    terms: Sequence[ScaledTensor]
    """Factors of a product, operands of a sum, or the single value to requantize."""

    target: ScaledTensor
    is_sum: bool = False

    is_accumulated: bool = False
    """True for sums of products, False for elementwise ops."""

    def __post_init__(self) -> None:
        for tensor in (*self.terms, self.target):
            if (type_ := tensor.quantized_type.expressed_type) != f32:
                raise ValueError(
                    f"unsupported expressed type '{type_}', expected 'f32'"
                )
            is_per_axis = not tensor.quantized_type.is_per_tensor
            if is_per_axis and self._is_elementwise and self.factors:
                raise ValueError("unsupported per-axis scales of an elementwise op")

    @property
    def _is_elementwise(self) -> bool:
        """True for a sum or product of two elements."""
        return len(self.terms) == 2 and not self.is_accumulated

    @cached_property
    def factors(self) -> Sequence[NDArray[np.float32]]:
        """Factors, none if they are 1."""
        scales, target = [*map(f32_scales, self.terms)], f32_scales(self.target)
        if self.is_sum:
            ratios = [scale / target for scale in scales]
            return [] if all((ratio == 1).all() for ratio in ratios) else ratios
        factor = prod(scales[1:], start=scales[0]) / target
        if (factor == 1).all():
            return []
        is_stored = len(scales) == 1 and self.terms[0].width <= _WIDEST_STORED
        return [scales[0], target] if is_stored else [factor]

    @property
    def numbers(self) -> Sequence[Array]:
        """Zero point and factors, which are the last arguments of `stored`."""
        return [self.target.zero_points, *self.factors]

    def stored(
        self,
        formula: Formula,
        values: Sequence[Integers],
        zero_point: Any,
        *factors: Any,
    ) -> Integers:
        """Apply a formula to zero-point-corrected values and return the stored value."""
        low, high = self.target.quantized_type.storage_range
        if not factors:
            return np.clip(formula.combine(*values) + zero_point, low, high)
        if self.is_sum:
            total = self._sum(values, factors)
            return np.clip(np.rint(total), low, high).as_integer()
        result: Any = as_float(formula.combine(*values)) * factors[0]
        if self._is_elementwise:
            total = result + float(self.target.zero_points.flat[0])
            return np.clip(np.rint(total), low, high).as_integer()
        if len(factors) == 2:
            result = result / factors[1]
        result = np.clip(np.rint(result), low - zero_point, high - zero_point)
        return result.as_integer() + zero_point

    def _sum(self, values: Sequence[Integers], ratios: Sequence[Any]) -> Any:
        a, b = (
            as_float(value + int(term.zero_points.flat[0]))
            for value, term in zip(values, self.terms, strict=True)
        )
        target, *points = (
            tensor.zero_points.astype(np.float32)
            for tensor in (self.target, *self.terms)
        )
        first, second = self.factors
        offset = target - multiply_add(first, points[0], second * points[1])
        return fused(a, ratios[0], fused(b, ratios[1], float(offset.flat[0])))


def fused(value: FloatExpression, factor: Any, addend: Any) -> FloatExpression:
    """Multiply and add with one rounding."""
    op = math.FmaOp(value.value, value.operand(factor), value.operand(addend))
    return FloatExpression(value.builder, value.builder.add(op), may_be_nan=False)


def as_float(value: Integers) -> FloatExpression:
    """Convert an integer expression to `f32`."""
    return cast(IntegerExpression, cast(object, value)).as_float(f32)
