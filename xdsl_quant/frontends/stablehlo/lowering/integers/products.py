"""
Integer form of `dot_general` and `convolution`: sums of products of stored values.

The zero point of the left operand is factored out of the sum:

    sum((lhs - zero_point) * rhs) = sum(lhs * rhs) - zero_point * sum(rhs)

`rhs` is zero-point-corrected; its zero points are usually 0. Convolutions pad `lhs` with
the zero point, also between dilated elements, in a separate op.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import sub
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, TensorType, i32, i64
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant import ScaledQuantizedType
from xdsl_quant.dialects.quant.types import with_element_type
from xdsl_quant.frontends.stablehlo.dialect import AddOp, ConvolutionOp, ReduceOp
from xdsl_quant.frontends.stablehlo.dialect.products import ProductOp
from xdsl_quant.numerics.primitives import Integers
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    dimensions,
    element_type_of,
    shape_of,
)

from ..linalg.data_movement import pad_tensor
from .elementwise import (
    REQUANTIZATION,
    Element,
    Form,
    RoundingPattern,
    Values,
    build_constant,
    build_elementwise,
    element_at_result_index,
    operand_elements,
    rescaling_to,
    scaled_tensors,
    storage_of,
    widen_stored,
    wider_type,
    zero_points,
)
from .scales import ScaledTensor


def rhs_geometry(op: ProductOp) -> tuple[Sequence[int], Sequence[int]]:
    """Return the free dimensions of `rhs`, and the result dimensions that they map to."""
    _, dimensions = op.result_dimensions()
    return [*dimensions], [*dimensions.values()]


class ProductToIntegers(RoundingPattern):
    """Replace quantized contractions by rescaled sums of products of stored values."""

    def form(self, op: Operation) -> Form | None:
        if not isinstance(op, ProductOp):
            return None
        types = [value.type for value in (op.lhs, op.rhs, op.result)]
        if (quantized := scaled_tensors(types)) is None:
            return None
        lhs, rhs, target = quantized
        lhs_type, rhs_type = lhs.quantized_type, rhs.quantized_type
        free_dims, positions = rhs_geometry(op)
        if rhs_type.axis is not None:
            rhs = replace(rhs, axis=positions[free_dims.index(rhs_type.axis)])
        zero_point = lhs_type.zero_point_range[0]
        sizes = [size for d, size in enumerate(shape_of(op.rhs)) if d not in free_dims]
        accumulator, largest_sum = _sum_limits(lhs, rhs, sizes)
        largest = largest_sum * lhs.largest
        rescaling = rescaling_to(
            target, [lhs, rhs], REQUANTIZATION, self.rounding, largest
        )

        def stored(product: Any, *numbers: Integers) -> Integers:
            if zero_point:
                product = product - numbers[0] * zero_point
                numbers = numbers[1:]
            product = replace(product, bounds=(-largest, largest))
            return rescaling.stored(REQUANTIZATION, [product], *numbers)

        def build(builder: LoweringBuilder, tensors: Values) -> Values:
            left, right = tensors
            is_fixed_point = rhs_type.is_fixed_point
            if not (is_fixed_point and lhs_type.is_signed and rhs_type.is_signed):
                left = widen_stored(builder, left, lhs_type)
                widen = widen_stored if is_fixed_point else _corrected_values
                right = widen(builder, right, rhs_type)
            properties = dict(op.properties)
            if isinstance(op, ConvolutionOp) and zero_point:
                left = _padded_lhs(builder, op, left, zero_point)
                for name in ("padding", "lhs_dilation"):
                    properties.pop(name, None)
            type_ = storage_of(op.result.type)
            sums_type = with_element_type(type_, accumulator)
            products = builder.op(type(op), (left, right), sums_type, properties)
            bound = largest_sum * lhs.largest_stored
            elements = [element_at_result_index(products, (-bound, bound))]
            if zero_point:
                sums = _contracted_sums(builder, right, free_dims, accumulator)
                bounds = -largest_sum, largest_sum
                elements.append(Element(sums, dimensions(positions), bounds))
            return [
                build_elementwise(builder, elements, rescaling.numbers, type_, stored)
            ]

        return build


def _sum_limits(
    lhs: ScaledTensor, rhs: ScaledTensor, sizes: Sequence[int]
) -> tuple[IntegerType, int]:
    """
    Return the accumulator type, and a bound on the absolute value of a sum of
    zero-point-corrected values of the right operand.

    Raises:
        ValueError: if the number of products is unknown, or sums can exceed 64 bits.
    """
    if DYNAMIC_INDEX in sizes:
        raise ValueError("unknown width of sums: a contracting dimension is dynamic")
    largest_sum = math.prod(sizes) * rhs.largest
    # Bound of the sum before and after the zero-point correction, and of the correction.
    zero_point = lhs.quantized_type.zero_point_range[0]
    largest = largest_sum * max(lhs.largest, lhs.largest_stored, abs(zero_point))
    if largest >= 1 << 63:
        raise ValueError(f"sums of up to {largest.bit_length()} bits exceed 64 bits")
    # The accumulator is at least as wide as the operands, which may be widened first.
    is_narrow = largest < 1 << 31 and max(lhs.width, rhs.width) < 32
    return i32 if is_narrow else i64, largest_sum


def _corrected_values(
    builder: LoweringBuilder, stored: SSAValue, quantized_type: ScaledQuantizedType
) -> SSAValue:
    operands = [ScaledTensor(quantized_type, len(shape_of(stored)))]
    elements = operand_elements([stored], operands)
    type_ = with_element_type(stored.type, wider_type(quantized_type))
    return build_elementwise(builder, elements, zero_points(operands), type_, sub)


def _contracted_sums(
    builder: LoweringBuilder,
    value: SSAValue,
    free_dims: Sequence[int],
    element_type: IntegerType,
) -> SSAValue:
    """Return the sums of signed integers over all dimensions except the free ones."""
    if element_type_of(value) != element_type:
        wider = with_element_type(value.type, element_type)
        value = builder.op(arith.ExtSIOp, (value,), wider)
    zero = build_constant(builder, TensorType(element_type, ()), 0)
    summed = [d for d in range(len(shape_of(value))) if d not in free_dims]
    return builder.add(ReduceOp([value], [zero], AddOp, dimensions=summed))


def _padded_lhs(
    builder: LoweringBuilder, op: ConvolutionOp, lhs: SSAValue, zero_point: int
) -> SSAValue:
    """Pad and dilate the left operand of a convolution with its zero point."""
    spatial = op.dimension_numbers.input_spatial_dimensions.get_values()
    value = build_constant(builder, TensorType(element_type_of(lhs), ()), zero_point)
    paddings = zip(spatial, (along.padding for along in op.window), strict=True)
    return pad_tensor(builder, lhs, dict(paddings), value)
