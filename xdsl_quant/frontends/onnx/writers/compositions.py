"""Writers of compositions of ops for which ONNX has one op: softmax, means, positions."""

import math
from collections.abc import Mapping
from typing import NamedTuple

from xdsl.dialects.builtin import AnyFloat, i8, i32, i64
from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.onnx.graph_writer import (
    GraphWriter,
    Layout,
    Writer,
    known_number,
)
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.reduction import region_op
from xdsl_quant.frontends.stablehlo.softmax import match_softmax, row_reduction
from xdsl_quant.transforms.building.builder import element_type_of, shape_of

from .elementwise import write_elementwise
from .reductions import is_sum, pooled, reduced, window_element_count, write_reduction

# Quotients


def _divide(w: GraphWriter, op: stablehlo.DivideOp) -> None:
    """Write a division, or the composition that it ends; unused nodes are removed."""
    divisor, name = known_number(op.rhs), w.value_name(op.result)
    match op.lhs.owner:
        case stablehlo.ExponentialOp() if (softmax := match_softmax(op)) is not None:
            layout = w.layout(softmax.operand)
            inputs, axis = [w.operand(softmax.operand, layout)], softmax.axis
            tensor = w.node("Softmax", inputs, name, axis=layout.index(axis))
            w.result(op.result, tensor, layout)
        case stablehlo.ReduceOp() as total if is_sum(
            total
        ) and divisor == _reduced_count(total):
            w.result(op.result, *reduced(w, total, "ReduceMean", name))
        case stablehlo.ReshapeOp() | stablehlo.DynamicReshapeOp() as kept if (
            image := _image_of_sum(w, kept)
        ) is not None and divisor == _spatial_count(*image):
            value, layout = image
            inputs = [w.operand(value, layout)]
            w.result(op.result, w.node("GlobalAveragePool", inputs, name), layout)
        case stablehlo.ReduceWindowOp() as total if is_sum(
            total
        ) and divisor == window_element_count(total):
            w.result(op.result, *pooled(w, total, "AveragePool", name))
        case _:
            write_elementwise("Div", w, op)


def _reduced_count(op: stablehlo.ReduceOp) -> int:
    shape = shape_of(op.inputs[0])
    return math.prod(shape[dimension] for dimension in op.dimensions.get_values())


def _image_of_sum(
    w: GraphWriter, op: stablehlo.ReshapeOp | stablehlo.DynamicReshapeOp
) -> tuple[SSAValue, Layout] | None:
    """
    Return the images whose spatial dimensions are summed up and kept with size 1, and
    their layout with spatial dimensions last; `None` for other sums.
    """
    total = op.operand.owner
    if not isinstance(total, stablehlo.ReduceOp) or not is_sum(total):
        return None
    (value,), spatial = total.inputs, sorted(total.dimensions.get_values())
    shape, layout = shape_of(value), w.layout(value)
    kept = [1 if d in spatial else size for d, size in enumerate(shape)]
    others = [dimension for dimension in layout if dimension not in spatial]
    if [*shape_of(op.result)] != kept or len(others) != 2 or not spatial:
        return None
    return value, (*others, *spatial)


def _spatial_count(value: SSAValue, layout: Layout) -> int:
    return math.prod(shape_of(value)[dimension] for dimension in layout[2:])


# Positions


class _Position(NamedTuple):
    """Position of the largest or smallest element of rows."""

    op_type: str
    operand: SSAValue
    axis: int
    is_last: bool


def _reduce(w: GraphWriter, op: stablehlo.ReduceOp) -> None:
    if (position := _match_position(op)) is None:
        write_reduction(w, op)
        return
    op_type, operand, axis, is_last = position
    layout, name = w.layout(operand), w.value_name(op.results[0])
    tensor = w.node(
        op_type,
        [w.operand(operand, layout)],
        name,
        axis=layout.index(axis),
        keepdims=0,
        **({"select_last_index": 1} if is_last else {}),
    )
    remaining = [dimension for dimension in layout if dimension != axis]
    order = tuple(sorted(remaining).index(dimension) for dimension in remaining)
    w.result(op.results[0], tensor, order)


def _match_position(op: stablehlo.ReduceOp) -> _Position | None:
    """
    Return the position that the importer builds for `ArgMax` and `ArgMin`: the first or
    last index of an element that is not worse than the extremum of its row.
    """
    applied, dimensions = region_op(op), op.dimensions.get_values()
    if len(op.inputs) != 1 or len(dimensions) != 1:
        return None
    candidates = op.inputs[0].owner
    if not isinstance(candidates, stablehlo.SelectOp):
        return None
    is_worse, indices = candidates.pred.owner, candidates.on_false.owner
    if not isinstance(is_worse, stablehlo.CompareOp) or (
        not isinstance(indices, stablehlo.IotaOp)
        or element_type_of(indices.output) != i64
        or indices.iota_dimension.value.data != dimensions[0]
    ):
        return None
    direction = is_worse.comparison_direction.data.value
    kind = _EXTREMA.get(direction)
    is_last = isinstance(applied, stablehlo.MaximumOp)
    none = -1 if is_last else shape_of(candidates.result)[dimensions[0]]
    numbers = {known_number(candidates.on_true), known_number(op.init_values[0])}
    if kind is None or numbers != {none}:
        return None
    op_type, extremum = kind
    if row_reduction(is_worse.rhs, extremum) != (is_worse.lhs, dimensions[0]):
        return None
    element_type = element_type_of(is_worse.lhs)
    if not (is_last or isinstance(applied, stablehlo.MinimumOp)) or not (
        isinstance(element_type, AnyFloat) or element_type in (i8, i32, i64)
    ):
        return None
    return _Position(op_type, is_worse.lhs, dimensions[0], is_last)


_EXTREMA = {
    "LT": ("ArgMax", stablehlo.MaximumOp),
    "GT": ("ArgMin", stablehlo.MinimumOp),
}
"""Op, and reduction of rows, by the comparison that is true for other elements."""


COMPOSITION_WRITERS: Mapping[type[Operation], Writer] = {
    stablehlo.DivideOp: _divide,
    stablehlo.ReduceOp: _reduce,
}
"""Writers of the last ops of compositions, by op."""
