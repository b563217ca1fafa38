"""Reductions, cumulative sums and softmax."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf, prod

from xdsl.dialects.builtin import AnyFloat, bf16, f16, f32, f64, i64
from xdsl.ir import Attribute, SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect import ComparisonDirection
from xdsl_quant.frontends.stablehlo.dialect.elementwise import BinaryOp
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .element_types import convert_elements

Formula = Callable[[GraphBuilder, SSAValue, Sequence[int]], SSAValue]
"""Function that reduces a tensor along axes, and drops these dimensions."""

# Formulas


def _fold(
    op_type: type[BinaryOp],
    start: float,
    b: GraphBuilder,
    x: SSAValue,
    axes: Sequence[int],
) -> SSAValue:
    return b.reduce(op_type, x, start, axes) if axes else x


_SUM = partial(_fold, stablehlo.AddOp, 0)


def _mean(b: GraphBuilder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    # The mean of no elements is 0 in onnxruntime.
    count = max(b.known_count(x, axes), 1)
    return b.compute(stablehlo.DivideOp, _SUM(b, x, axes), count)


def _sum_of_magnitudes(b: GraphBuilder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    return _SUM(b, b.add(stablehlo.AbsOp(x)), axes)


def _sum_of_squares(b: GraphBuilder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    return _SUM(b, b.compute(stablehlo.MultiplyOp, x, x), axes)


def _norm(b: GraphBuilder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    return b.add(stablehlo.SqrtOp(_sum_of_squares(b, x, axes)))


def _log_sum(b: GraphBuilder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    return b.add(stablehlo.LogOp(_SUM(b, x, axes)))


def _log_sum_exp(b: GraphBuilder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Build `log(sum(exp(x - max))) + max`, in which no power overflows."""
    largest = b.reduce_keeping(stablehlo.MaximumOp, x, -inf, axes)
    is_finite = b.add(stablehlo.IsFiniteOp(largest))
    offset = b.select(is_finite, largest, 0)
    powers = b.add(stablehlo.ExponentialOp(b.compute(stablehlo.SubtractOp, x, offset)))
    result = _log_sum(b, powers, axes)
    return b.compute(stablehlo.AddOp, result, b.reshape_like(offset, result))


# Types in which the formulas compute


def _unchanged_type(type_: Attribute) -> Attribute:
    return type_


def _single(type_: Attribute) -> Attribute:
    return f32 if type_ in (f16, bf16) else type_


def _floating(type_: Attribute) -> Attribute:
    return _single(type_) if isinstance(type_, AnyFloat) else f64


def _reduce_along_axes(
    formula: Formula,
    computed_type: Callable[[Attribute], Attribute],
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    axes: SSAValue | None = None,
) -> SSAValue:
    type_, shape = element_type_of(x), shape_of(x)
    numbers = node.integers("axes") if axes is None else b.integers(axes, "axes")
    if not numbers and not node.flag("noop_with_empty_axes"):
        numbers = range(len(shape))
    reduced = b.axes(numbers, len(shape))
    result = formula(b, b.convert(x, computed_type(type_)), reduced)
    result = convert_elements(b, result, type_)
    if not node.flag("keepdims", default=True):
        return result
    sizes = [1 if d in reduced else b.size_of(x, d) for d in range(len(shape))]
    return b.reshape_to_sizes(result, sizes)


# Positions


def _index_of_extremum(
    b: GraphBuilder,
    x: SSAValue,
    axis: int,
    direction: ComparisonDirection,
    *,
    is_last: bool = False,
) -> SSAValue:
    """
    Build the index of the extremum along an axis, which keeps the size 1.

    Args:
        b: insertion point.
        x: tensor; if elements along the axis are NaN, the result is the first index.
        axis: non-negative axis.
        direction: `LT` for the maximum, `GT` for the minimum.
        is_last: whether the last of several equal elements counts, not the first.
    """
    is_maximum = direction is ComparisonDirection.LT
    op_type = stablehlo.MaximumOp if is_maximum else stablehlo.MinimumOp
    extremum = b.reduce_keeping(op_type, x, -inf if is_maximum else inf, [axis])
    is_worse = b.compare(direction, x, extremum)
    op_type = stablehlo.MaximumOp if is_last else stablehlo.MinimumOp
    start = -1 if is_last else shape_of(x)[axis]
    candidates = b.select(is_worse, start, b.iota(shape_of(x), axis, i64))
    return b.reduce_keeping(op_type, candidates, start, [axis])


def _extremum_position(
    direction: ComparisonDirection, b: GraphBuilder, node: Node, x: SSAValue
) -> SSAValue:
    shape = shape_of(x)
    (axis,) = b.axes([node.integer("axis", 0)], len(shape))
    is_last = node.flag("select_last_index")
    position = _index_of_extremum(b, x, axis, direction, is_last=is_last)
    if node.flag("keepdims", default=True):
        return position
    return b.reshape_to(position, [*shape[:axis], *shape[axis + 1 :]])


# Cumulative sums


def _cumulative(
    op_type: type[BinaryOp],
    start: float,
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    axis: SSAValue,
) -> SSAValue:
    """Build a scan that doubles the number of combined elements in each step."""
    axes = b.axes(b.integers(axis, "axes"), len(shape_of(x)))
    if len(axes) != 1:
        raise Unsupported(f"{len(axes)} axes are unsupported; expected one axis")
    dimension, size = axes[0], shape_of(x)[axes[0]]
    shift = partial(_shifted_sums, b, start, dimension, node.flag("reverse"))
    if node.flag("exclusive") and size:
        x = shift(x, 1)
    count = 1
    while count < size:
        x = b.compute(op_type, x, shift(x, count))
        count *= 2
    return x


def _shifted_sums(
    b: GraphBuilder,
    start: float,
    axis: int,
    is_reverse: bool,
    x: SSAValue,
    count: int,
) -> SSAValue:
    """Shift elements along an axis by `count`, or by `-count`, and insert `start`."""
    shape = [*shape_of(x)]
    lows, highs = [0] * len(shape), [*shape]
    if is_reverse:
        lows[axis] = count
    else:
        highs[axis] -= count
    part = b.slice(x, lows, highs)
    shape[axis] = count
    blank = b.broadcast(b.scalar(start, element_type_of(x)), shape)
    return b.concatenate([part, blank] if is_reverse else [blank, part], axis)


# Softmax


def _normalized_along_axis(
    formula: Callable[[GraphBuilder, SSAValue, int], SSAValue],
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
) -> SSAValue:
    """Apply a formula along the axis; before opset 13 to a matrix with flattened rows."""
    type_, shape = element_type_of(x), shape_of(x)
    is_flattened = node.version < 13
    (axis,) = b.axes([node.integer("axis", 1 if is_flattened else -1)], len(shape))
    x = b.single(x)
    if is_flattened and axis < len(shape) - 1:
        x, shape = b.single(x), b.static_shape(x)
        x = b.reshape_to(x, [prod(shape[:axis]), prod(shape[axis:])])
        axis = 1
    return b.convert(b.reshape_to(formula(b, x, axis), shape), type_)


def _centered(b: GraphBuilder, x: SSAValue, axis: int) -> SSAValue:
    largest = b.reduce_keeping(stablehlo.MaximumOp, x, -inf, [axis])
    return b.compute(stablehlo.SubtractOp, x, largest)


def _softmax(b: GraphBuilder, x: SSAValue, axis: int) -> SSAValue:
    powers = b.add(stablehlo.ExponentialOp(_centered(b, x, axis)))
    total = b.reduce_keeping(stablehlo.AddOp, powers, 0, [axis])
    return b.compute(stablehlo.DivideOp, powers, total)


def _log_softmax(b: GraphBuilder, x: SSAValue, axis: int) -> SSAValue:
    x = _centered(b, x, axis)
    powers = b.add(stablehlo.ExponentialOp(x))
    total = b.reduce_keeping(stablehlo.AddOp, powers, 0, [axis])
    return b.compute(stablehlo.SubtractOp, x, b.add(stablehlo.LogOp(total)))


def _hardmax(b: GraphBuilder, x: SSAValue, axis: int) -> SSAValue:
    position = _index_of_extremum(b, x, axis, ComparisonDirection.LT)
    is_largest = b.compare(
        ComparisonDirection.EQ, b.iota(shape_of(x), axis, i64), position
    )
    return b.convert(is_largest, element_type_of(x))


REDUCTION: Mapping[str, Conversion] = {
    "ArgMax": partial(_extremum_position, ComparisonDirection.LT),
    "ArgMin": partial(_extremum_position, ComparisonDirection.GT),
    "CumProd": partial(_cumulative, stablehlo.MultiplyOp, 1),
    "CumSum": partial(_cumulative, stablehlo.AddOp, 0),
    "Hardmax": partial(_normalized_along_axis, _hardmax),
    "LogSoftmax": partial(_normalized_along_axis, _log_softmax),
    "ReduceL1": partial(_reduce_along_axes, _sum_of_magnitudes, _single),
    "ReduceL2": partial(_reduce_along_axes, _norm, _floating),
    "ReduceLogSum": partial(_reduce_along_axes, _log_sum, _floating),
    "ReduceLogSumExp": partial(_reduce_along_axes, _log_sum_exp, _floating),
    "ReduceMax": partial(
        _reduce_along_axes, partial(_fold, stablehlo.MaximumOp, -inf), _unchanged_type
    ),
    "ReduceMean": partial(_reduce_along_axes, _mean, _single),
    "ReduceMin": partial(
        _reduce_along_axes, partial(_fold, stablehlo.MinimumOp, inf), _unchanged_type
    ),
    "ReduceProd": partial(
        _reduce_along_axes, partial(_fold, stablehlo.MultiplyOp, 1), _single
    ),
    "ReduceSum": partial(_reduce_along_axes, _SUM, _single),
    "ReduceSumSquare": partial(_reduce_along_axes, _sum_of_squares, _single),
    "Softmax": partial(_normalized_along_axis, _softmax),
}
"""Conversions of reductions, by op."""
