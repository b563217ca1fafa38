"""
How scales and zero points that are chosen for values at run time are computed: with the
formulas of [`choose_dynamic_parameters`][xdsl_quant.numerics.choose_dynamic_parameters].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType, f32, f64
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from xdsl_quant.dialects.quant import ChooseParametersOp
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics.choosing import (
    range_scale,
    range_zero_point,
    symmetric_scale,
)

from .builder import (
    PARALLEL,
    REDUCTION,
    Body,
    LoweringBuilder,
    dimensions,
    element_type_of,
    shape_of,
    static_sizes,
)
from .number_expressions import FloatExpression


def lowered_parameters(op: ChooseParametersOp) -> Sequence[SSAValue]:
    """The results of an op that chooses parameters, computed by ops before it."""
    builder = LoweringBuilder.before(op)
    axes = [*op.blocks]
    smallest, largest = _ranges(builder, op.input, axes)
    low, high = op.storage.storage_range
    expressed = cast(AnyFloat, scalar_or_element_type(op.input.type))
    is_wide = expressed == f64 or max(-low, high) > 1 << 24
    computed = f64 if is_wide else f32

    def scale_of(inner: LoweringBuilder, args: Sequence[SSAValue]) -> SSAValue:
        first, last = (FloatExpression(inner, a).as_float(computed) for a in args[:2])
        if op.zero_point is None:
            result = symmetric_scale(first, last, min(-low, high))
        else:
            result = range_scale(first, last, high - low)
        return cast(FloatExpression, result).as_float(expressed).value

    def zero_point_of(inner: LoweringBuilder, args: Sequence[SSAValue]) -> SSAValue:
        first, scale = (FloatExpression(inner, a).as_float(computed) for a in args[:2])
        result = cast(FloatExpression, range_zero_point(first, scale, low, high))
        integer = result.as_integer().value
        storage = op.storage.signless_storage_type
        if integer.type == storage:
            return integer
        return inner.op(arith.TruncIOp, (integer,), storage)

    def mapped(
        body: Body, values: Sequence[SSAValue], element_type: AnyFloat | IntegerType
    ) -> SSAValue:
        if not axes:
            return body(builder, values)
        inputs = [(value, dimensions(range(len(axes)))) for value in values]
        type_ = TensorType(element_type, shape_of(smallest))
        return builder.map(inputs, type_, builder.sizes(smallest), body)

    scales = mapped(scale_of, (smallest, largest), expressed)
    if op.zero_point is None:
        return [scales]
    storage = op.storage.signless_storage_type
    return [scales, mapped(zero_point_of, (smallest, scales), storage)]


def _ranges(
    builder: LoweringBuilder, value: SSAValue, axes: Sequence[int]
) -> Sequence[SSAValue]:
    """The smallest and the largest values, 0 included, of each index of dimensions."""
    rank = len(shape_of(value))
    sizes = [builder.size(value, axis) for axis in axes]
    type_ = TensorType(element_type_of(value), static_sizes(sizes))
    kept = AffineMap(rank, 0, tuple(dimensions(axes)))

    def body(inner: LoweringBuilder, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
        # The minimum of NaN and a number is the number.
        return [
            inner.op(op_type, (args[0], so_far), so_far.type)
            for op_type, so_far in (
                (arith.MinnumfOp, args[1]),
                (arith.MaxnumfOp, args[2]),
            )
        ]

    results = builder.generics(
        [value],
        [builder.zeros(type_, sizes) for _ in range(2)],
        [AffineMap.identity(rank), kept, kept],
        [PARALLEL if d in axes else REDUCTION for d in range(rank)],
        body,
    )
    if axes:
        return results
    return [builder.op(tensor.ExtractOp, (r,), element_type_of(r)) for r in results]
