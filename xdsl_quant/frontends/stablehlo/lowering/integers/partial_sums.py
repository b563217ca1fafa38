"""Bounds of the partial sums of a reduction, which show whether they need to be clamped."""

import math
from collections.abc import Sequence
from fractions import Fraction
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant import ScaledQuantizedType
from xdsl_quant.dialects.quant.traits import Adds, has_quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo.dialect import (
    ConstantOp,
    ReduceOp,
    ReduceWindowOp,
    UniformQuantizeOp,
)
from xdsl_quant.machines.expression import Bounds, are_within, union
from xdsl_quant.runtime.arrays import constant_elements, stored_elements
from xdsl_quant.transforms.building.builder import shape_of


def applies_one_op(op: Operation) -> bool:
    """Return True if a reduction applies one op to both arguments of its region."""
    counts = len(op.results), len(op.regions), *(len(r.blocks) for r in op.regions)
    if counts != (1, 1, 1):
        return False
    block = op.regions[0].block
    if len(ops := [*block.ops]) != 2 or len(block.args) != 2:
        return False
    inner, last = ops
    return (
        [*last.operands] == [*inner.results]
        and {*inner.operands} == {*block.args}
        and not any(map(shape_of, block.args))
    )


def partial_sum_bounds(op: Operation) -> Sequence[Bounds] | None:
    """
    Return bounds of the stored operands of an addition that a reduction applies, or `None`
    if a partial sum may exceed the storage range.
    """
    reduction, type_ = op.parent_op(), scalar_or_element_type(op.results[0].type)
    if (
        not isinstance(reduction, ReduceOp | ReduceWindowOp)
        or not has_quantization_trait(op, Adds)
        or not applies_one_op(reduction)
        or not isinstance(type_, ScaledQuantizedType)
        or any(scalar_or_element_type(x.type) != type_ for x in op.operands)
    ):
        return None
    terms = _stored_bounds(reduction.inputs[0], type_)
    initial = _stored_bounds(reduction.init_values[0], type_)
    count = _term_count(reduction)
    if terms is None or initial is None or count is None:
        return None
    if isinstance(reduction, ReduceWindowOp):
        # Padding is the initial value.
        terms = union(terms, initial)
    zero_point = type_.zero_point_array()[0]
    low, high = (min(terms[0] - zero_point, 0), max(terms[1] - zero_point, 0))
    sums = initial[0] + count * low, initial[1] + count * high
    if not are_within(sums, type_.storage_range):
        return None
    before_last = sums[0] - low, sums[1] - high
    accumulator = reduction.body.block.args[0]
    return [before_last if x is accumulator else terms for x in op.operands]


def _term_count(reduction: ReduceOp | ReduceWindowOp) -> int | None:
    if isinstance(reduction, ReduceWindowOp):
        return prod(reduction.window_dimensions.get_values())
    shape = shape_of(reduction.inputs[0])
    sizes = [shape[dimension] for dimension in reduction.dimensions.get_values()]
    # Without additions, the result is the initial value, which bounds would replace.
    return None if DYNAMIC_INDEX in sizes or 0 in sizes else prod(sizes)


def _stored_bounds(value: SSAValue, target: ScaledQuantizedType) -> Bounds | None:
    type_ = scalar_or_element_type(value.type)
    if not isinstance(type_, ScaledQuantizedType):
        return None
    bounds: Bounds | None = type_.storage_range
    if isinstance(value.owner, UniformQuantizeOp):
        source = value.owner.operand
        if isinstance(scalar_or_element_type(source.type), ScaledQuantizedType):
            bounds = _stored_bounds(source, type_)
    elif isinstance(value.owner, ConstantOp):
        elements = constant_elements(value)
        if elements is not None and elements.size:
            stored = stored_elements(elements, type_)
            bounds = int(stored.min()), int(stored.max())
    return None if bounds is None else _requantized_bounds(bounds, type_, target)


def _requantized_bounds(
    bounds: Bounds, source: ScaledQuantizedType, target: ScaledQuantizedType
) -> Bounds | None:
    if not source.is_per_tensor or not target.is_per_tensor:
        return None
    (scale,), (zero_point,) = source.scale_array(), source.zero_point_array()
    ratio = Fraction(scale) / Fraction(target.scale_array()[0])
    # Rounding, and the error of a multiplier, are less than one unit.
    margin = int(ratio != 1)
    low, high = ((bound - zero_point) * ratio for bound in bounds)
    limits = math.floor(low) - margin, math.ceil(high) + margin
    smallest, largest = target.storage_range
    first, last = (
        min(max(limit + target.zero_point_array()[0], smallest), largest)
        for limit in limits
    )
    return first, last
