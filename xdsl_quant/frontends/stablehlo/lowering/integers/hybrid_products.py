"""
Dynamic range quantization: hybrid contractions, of a float tensor and quantized weights,
become integer contractions. The patterns emit StableHLO without quantized types.

The specification dequantizes the weights of a hybrid `dot_general` or `convolution`. Here,
the float tensor is quantized at run time, symmetrically to 8 bits:

    scale = max(max(abs(x)) / 127, t)
    q = clamp(-127, round_nearest_even(x / scale), 127)
    y = (sum(q * w) * scale) * weight_scale

`t`, the smallest normal `f32`, keeps the divisor positive if all elements are 0. If an
element is NaN, all results computed with its scale are NaN. A `dot_general` has one scale
per index of the left operand's free dimensions. A `convolution` has one scale per image, or
a single scale if `batch_group_count` exceeds 1.

Floats are computed in `f32`, or in `f64` for `f64` tensors, and sums in `i32`.
"""

import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, TensorType, f32, f64, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute

from xdsl_quant.dialects.quant import DequantizeCastOp
from xdsl_quant.dialects.quant.types import (
    PerAxisType,
    PerTensorType,
    with_element_type,
)
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.products import ProductOp
from xdsl_quant.frontends.stablehlo.dialect.tensor_kinds import element_kind
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    element_type_of,
    shape_of,
)

from ..linalg.lowering import is_arithmetic
from .elementwise import Form, IntegerPattern, Values, build_constant, quantized_type_of

_WeightType: TypeAlias = PerTensorType | PerAxisType

_HIGH = 127
"""Largest absolute stored value of an activation."""

_SMALLEST_SCALE = 2.0**-126
"""Smallest normal `f32`."""


class HybridProductToIntegers(IntegerPattern):
    """Replace hybrid contractions by run-time quantization and integer contractions."""

    def form(self, op: Operation) -> Form | None:
        if not isinstance(op, ProductOp):
            return None
        if quantized_type_of(op.rhs.type) is None or quantized_type_of(op.lhs.type):
            return None
        weight_type = _weight_type(op.rhs)
        _check_sizes(op.lhs, op.rhs, op.result)
        scale_dims, free_dims = op.result_dimensions()
        _check_sums(op, weight_type, free_dims, scale_dims)
        axis = weight_type.axis
        position = None if axis is None else free_dims[axis]
        compute = _compute_type(weight_type)

        def build(builder: LoweringBuilder, stored: Values) -> Values:
            lhs, rhs = stored
            floats = _convert(builder, lhs, compute)
            scales, activations = _quantize(builder, floats, scale_dims)
            # Properties about the precision of floats have no effect on integers.
            properties = {
                name: value
                for name, value in op.properties.items()
                if name not in ("precision_config", "algorithm")
            }
            sums = builder.op(
                type(op),
                (activations, _convert(builder, rhs, i8)),
                with_element_type(op.result.type, i32),
                properties,
            )
            result = _convert(builder, sums, compute)
            factor = _broadcast_along(builder, scales, scale_dims.values(), result.type)
            result = builder.add(stablehlo.MultiplyOp(result, factor))
            result = _times_weight_scales(builder, result, weight_type, position)
            return [_convert(builder, result, weight_type.expressed_type)]

        return build


class DequantizedWeightToStablehlo(IntegerPattern):
    """Replace `quant.dcast` of symmetrically quantized tensors by StableHLO ops."""

    def form(self, op: Operation) -> Form | None:
        if not isinstance(op, DequantizeCastOp):
            return None
        if quantized_type_of(op.input.type) is None:
            return None
        weight_type = _weight_type(op.input)
        _check_sizes(op.input)
        compute = _compute_type(weight_type)

        def build(builder: LoweringBuilder, stored: Values) -> Values:
            result = _convert(builder, stored[0], compute)
            result = _times_weight_scales(
                builder, result, weight_type, weight_type.axis
            )
            return [_convert(builder, result, weight_type.expressed_type)]

        return build


# Requirements


def _weight_type(value: SSAValue) -> _WeightType:
    """Return the type of symmetrically quantized weights, or raise `ValueError`."""
    type_ = element_type_of(value)
    if not isinstance(type_, _WeightType) or element_kind(type_) is None:
        raise ValueError(
            "unsupported weights, expected per-tensor or per-axis types of 2, 4 or 8 bits"
        )
    low, high = type_.storage_range
    if type_.zero_point_range != (0, 0) or low < -128 or high > 127:
        raise ValueError(
            "unsupported weights, expected symmetric signed types of up to 8 bits"
        )
    if not is_arithmetic(type_.expressed_type):
        raise ValueError(f"unsupported expressed type '{type_.expressed_type}'")
    return type_


def _check_sizes(*values: SSAValue) -> None:
    if any(DYNAMIC_INDEX in shape_of(value) for value in values):
        raise ValueError("unsupported dynamic sizes")


def _check_sums(
    op: ProductOp,
    weight_type: _WeightType,
    free_dims: Iterable[int],
    scale_dims: Mapping[int, int],
) -> None:
    """Raise `ValueError` if sums can exceed 32 bits, or no dimension is contracted."""
    if len(scale_dims) == len(shape_of(op.lhs)):
        raise ValueError("expected a contracting dimension, found none")
    count = math.prod(
        size for d, size in enumerate(shape_of(op.rhs)) if d not in free_dims
    )
    largest = max(map(abs, weight_type.storage_range))
    if (bound := count * _HIGH * largest) >= 1 << 31:
        raise ValueError(f"sums of up to {bound.bit_length() + 1} bits exceed 32 bits")


def _compute_type(weight_type: _WeightType) -> AnyFloat:
    return f64 if weight_type.expressed_type == f64 else f32


# Ops


def _quantize(
    builder: LoweringBuilder, floats: SSAValue, scale_dims: Mapping[int, int]
) -> tuple[SSAValue, SSAValue]:
    """Build ops that quantize a tensor; return the scales and the stored values."""
    element_type, shape = element_type_of(floats), shape_of(floats)
    scalar = TensorType(element_type, ())
    zero, low, high = (build_constant(builder, scalar, x) for x in (0, -_HIGH, _HIGH))
    magnitudes = builder.add(stablehlo.AbsOp(floats))
    reduced = [d for d in range(len(shape)) if d not in scale_dims]
    largest = builder.add(
        stablehlo.ReduceOp(
            [magnitudes], [zero], stablehlo.MaximumOp, dimensions=reduced
        )
    )
    scale_type = TensorType(element_type, shape_of(largest))
    steps = build_constant(builder, scale_type, _HIGH)
    scales = builder.add(stablehlo.DivideOp(largest, steps))
    smallest = build_constant(builder, scale_type, _SMALLEST_SCALE)
    scales = builder.add(stablehlo.MaximumOp(scales, smallest))
    divisors = _broadcast_along(builder, scales, scale_dims, floats.type)
    quotients = builder.add(stablehlo.DivideOp(floats, divisors))
    rounded = builder.add(stablehlo.RoundNearestEvenOp(quotients))
    clamped = builder.add(stablehlo.ClampOp(low, rounded, high))
    return scales, _convert(builder, clamped, i8)


def _times_weight_scales(
    builder: LoweringBuilder,
    value: SSAValue,
    weight_type: _WeightType,
    position: int | None,
) -> SSAValue:
    """Multiply a tensor by the scales of weights, which may vary along `position`."""
    scales, type_ = weight_type.get_scales(), cast(TensorType, value.type)
    if position is None:
        factors = build_constant(builder, type_, float(scales))
    else:
        along = TensorType(type_.element_type, scales.shape)
        values = build_constant(builder, along, *scales.tolist())
        factors = _broadcast_along(builder, values, [position], type_)
    return builder.add(stablehlo.MultiplyOp(value, factors))


def _broadcast_along(
    builder: LoweringBuilder,
    value: SSAValue,
    positions: Iterable[int],
    type_: Attribute,
) -> SSAValue:
    return builder.add(
        stablehlo.BroadcastInDimOp(
            value, result_types=[type_], broadcast_dimensions=[*positions]
        )
    )


def _convert(
    builder: LoweringBuilder, value: SSAValue, element_type: TypeAttribute
) -> SSAValue:
    if element_type_of(value) == element_type:
        return value
    type_ = with_element_type(value.type, element_type)
    return builder.op(stablehlo.ConvertOp, (value,), type_)
