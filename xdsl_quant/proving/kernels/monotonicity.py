"""
Proof that the elementwise part of a kernel is a non-decreasing function.

An abstract interpretation of the code of one element: each value has bounds, and is
constant, non-decreasing or non-increasing. No integer op may overflow within the bounds.
Constants of channels have the bounds of all channels.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects import arith, tosa
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    i1,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant.types import scalar_or_element_type

from ..scalars import check_flags
from ..terms import UnsupportedError, int_width
from .forms import elements_of_constant


@dataclass(frozen=True)
class Trend:
    """Bounds of a value, and its direction as a function of the argument."""

    low: float
    high: float

    direction: int = 0
    """0 for a constant, 1 if non-decreasing, -1 if non-increasing."""

    magnitude_of: SSAValue | None = None
    """Value of whose magnitude it is a function, instead of the argument."""


_COMPARISONS = "arith.cmpi", "tosa.greater", "tosa.greater_equal"
"""Ops whose results are truth values: their trends are those of 0 and 1."""

_USES_OF_TRUTH = "arith.extsi", "arith.extui", "tosa.cast", "tosa.reshape"
"""Ops that may have truth values as operands; others may take true for -1."""


def check_monotonic(
    function: FuncOp,
    start: Trend,
    fixed: Collection[SSAValue] = (),
    result: SSAValue | None = None,
) -> None:
    """
    Check that a function of one argument is non-decreasing, except for NaN.

    Args:
        function: function whose ops compute elementwise, with one block.
        start: bounds of the argument.
        fixed: values that must be non-decreasing, too; the function is only checked for
            arguments between which they do not change.
        result: value of the function to check, by default its results.

    Raises:
        UnsupportedError: if an op is unknown, may overflow, or has no direction.
    """
    block = function.body.block
    argument = block.args[0]
    _check_no_overflow(start, argument.type, "an argument")
    trends: dict[SSAValue, Trend] = {argument: start}
    _interpret(block, trends, fixed, result)
    last = block.last_op
    assert last is not None
    for value in last.operands if result is None else [result]:
        _check_direction(trends[value])


def _check_direction(trend: Trend) -> None:
    if trend.direction < 0 or trend.magnitude_of is not None:
        raise UnsupportedError("its code is not a non-decreasing function")


def _interpret(
    block: Block,
    trends: dict[SSAValue, Trend],
    fixed: Collection[SSAValue] = (),
    end: SSAValue | None = None,
) -> None:
    for op in [*block.ops][:-1]:
        if isinstance(op, GenericOp):
            trends[op.results[0]] = _trend_of_generic(op, trends)
            continue
        if op_name(op) in ("tensor.empty", "tosa.const_shape"):
            continue
        if len(op.results) != 1:
            raise UnsupportedError(f"its code has '{op_name(op)}' of several results")
        (result,) = op.results
        found = _trend_of_constant(result)
        if found is None:
            found = _trend_of_op(op, trends)
        _check_no_overflow(found, result.type, f"'{op_name(op)}'")
        if result in fixed:
            _check_direction(found)
            found = Trend(found.low, found.high)
        trends[result] = found
        if result is end:
            return


def _trend_of_generic(op: GenericOp, trends: Mapping[SSAValue, Trend]) -> Trend:
    inner = dict(trends)
    for argument, operand in zip(op.body.block.args, op.operands, strict=True):
        if operand in trends:
            inner[argument] = trends[operand]
    _interpret(op.body.block, inner)
    last = op.body.block.last_op
    assert last is not None
    return _trend_of_operand(inner, last.operands[0])


def _trend_of_constant(value: SSAValue) -> Trend | None:
    found = elements_of_constant(value)
    if isinstance(found, DenseIntOrFPElementsAttr):
        values: Sequence[float] = [*found.get_values()]
    elif isinstance(found, IntegerAttr | FloatAttr):
        values = [cast(float, cast(IntegerAttr, found).value.data)]
    else:
        return None
    if any(math.isnan(x) for x in values):
        raise UnsupportedError("its code has a constant NaN")
    return Trend(min(values), max(values))


def _trend_of_operand(trends: Mapping[SSAValue, Trend], value: SSAValue) -> Trend:
    if value not in trends:
        raise UnsupportedError("its code uses values that are undefined")
    return trends[value]


def _trend_of_op(op: Operation, trends: Mapping[SSAValue, Trend]) -> Trend:
    name = op_name(op)
    used = op.operands[:1] if name == "tosa.reshape" else op.operands
    operands = [_trend_of_operand(trends, value) for value in used]
    if name == "math.copysign":
        return _signed_trend(op, operands)
    if name == "math.absf":
        return replace(
            _magnitude_trend(operands[0]), magnitude_of=op.operands[0], direction=1
        )
    _check_same_argument(operands, name)
    _check_truth_values(op)
    check_flags(op)
    found = _trend_of_tosa(op, operands) if name.startswith("tosa.") else None
    if found is None and name in _FUNCTIONS:
        found = _FUNCTIONS[name](op, *operands)
    if found is None:
        raise UnsupportedError(f"its code has '{name}', whose direction is unknown")
    bases = {o.magnitude_of for o in operands if o.direction}
    return replace(found, magnitude_of=bases.pop() if bases else None)


def _check_same_argument(operands: Sequence[Trend], name: str) -> None:
    if len({o.magnitude_of for o in operands if o.direction}) > 1:
        raise UnsupportedError(f"its code has '{name}' of a number and a magnitude")


def _check_truth_values(op: Operation) -> None:
    """Check that truth values are results of comparisons, and only extended."""
    name, kind = op_name(op), scalar_or_element_type
    is_made = kind(op.results[0].type) == i1
    is_used = any(kind(value.type) == i1 for value in op.operands)
    makers = (*_COMPARISONS, "tosa.reshape")
    if (is_made and name not in makers) or (is_used and name not in _USES_OF_TRUTH):
        raise UnsupportedError(f"its code has '{name}' of truth values")


def _check_no_overflow(trend: Trend, type_: Attribute, name: str) -> None:
    element = scalar_or_element_type(type_)
    if not isinstance(element, IntegerType):
        return
    if element == i1:
        if trend.low < 0 or trend.high > 1:
            raise UnsupportedError("its code has truth values other than 0 and 1")
        return
    half = 1 << int_width(cast(Attribute, element)) - 1
    if trend.low < -half or trend.high >= half:
        raise UnsupportedError(f"its code has {name}, which may overflow")


# Ops


def _direction(*directions: int) -> int:
    """Return the direction of a sum of values with these directions."""
    found = {direction for direction in directions if direction}
    if len(found) > 1:
        raise UnsupportedError("its code adds values of different directions")
    return found.pop() if found else 0


def _check_finite_constants(*operands: Trend) -> None:
    for x in operands:
        if not x.direction and (math.isinf(x.low) or math.isinf(x.high)):
            raise UnsupportedError("its code computes with constants that are infinite")


def _sum_trend(op: Operation, a: Trend, b: Trend) -> Trend:
    _check_finite_constants(a, b)
    _check_sum_is_number(a, b)
    return Trend(
        _outward(op, a.low + b.low, -1),
        _outward(op, a.high + b.high, 1),
        _direction(a.direction, b.direction),
    )


def _difference_trend(op: Operation, a: Trend, b: Trend) -> Trend:
    return _sum_trend(op, a, Trend(-b.high, -b.low, -b.direction, b.magnitude_of))


def _check_sum_is_number(a: Trend, b: Trend) -> None:
    is_bounded = all(map(math.isfinite, (a.low, a.high, b.low, b.high)))
    # A sum of infinite numbers may be NaN.
    if a.direction and b.direction and not is_bounded:
        raise UnsupportedError("its code adds floats that depend on the argument")


_LIMIT = 2.0**127
"""A number that is finite in `f32` and wider types."""


def _outward(op: Operation, bound: float, direction: int) -> float:
    """Return a bound that rounding of a float op does not exceed."""
    type_ = scalar_or_element_type(op.results[0].type)
    if not isinstance(type_, AnyFloat):
        return bound
    if type_.bitwidth < 32:
        raise UnsupportedError(f"its code computes with '{type_}'")
    # These bounds need not be tight. Larger numbers may round to infinity.
    bound = min(max(bound, -2 * _LIMIT), 2 * _LIMIT)
    wider = bound + direction * max(abs(bound) * 2.0**-8, 2.0**-120)
    if wider * direction >= _LIMIT:
        return direction * math.inf
    return min(max(wider, -_LIMIT), _LIMIT)


def _product_trend(op: Operation, a: Trend, b: Trend) -> Trend:
    _check_finite_constants(a, b)
    if a.direction and b.direction:
        raise UnsupportedError("its code multiplies values that are not constant")
    if a.direction:
        a, b = b, a
    if a.low <= 0 <= a.high and isinstance(
        scalar_or_element_type(op.results[0].type), AnyFloat
    ):
        raise UnsupportedError("its code multiplies floats by 0")
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    low, high = _outward(op, min(corners), -1), _outward(op, max(corners), 1)
    if b.direction and a.low < 0 < a.high:
        raise UnsupportedError("its code has factors of both signs")
    return Trend(low, high, b.direction * (1 if a.high > 0 else -1 if a.low < 0 else 1))


def _quotient_trend(op: Operation, a: Trend, b: Trend) -> Trend:
    _check_finite_constants(a, b)
    if b.direction or b.low <= 0:
        raise UnsupportedError("its code has a divisor that is not positive")
    corners = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Trend(
        _outward(op, min(corners), -1), _outward(op, max(corners), 1), a.direction
    )


def _shifted_left_trend(op: Operation, a: Trend, b: Trend) -> Trend:
    _check_shift(op, b)
    return _product_trend(op, Trend(1 << int(b.low), 1 << int(b.high)), a)


def _shifted_right_trend(op: Operation, a: Trend, b: Trend) -> Trend:
    _check_shift(op, b)
    corners = [int(x) >> int(y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Trend(min(corners), max(corners), a.direction)


def _check_shift(op: Operation, shift: Trend) -> None:
    width = int_width(scalar_or_element_type(op.results[0].type))
    if shift.direction or not 0 <= shift.low <= shift.high < width:
        raise UnsupportedError("its code has a shift that is not constant")


def _check_sign_of_zero(op: Operation, a: Trend, b: Trend) -> None:
    """Check that the sign of a zero of `maxnumf` or `minnumf`, either one, is unused."""
    has_zeros = a.low <= 0 <= a.high and b.low <= 0 <= b.high
    if op_name(op) not in ("arith.maxnumf", "arith.minnumf") or not has_zeros:
        return
    if any(op_name(o) == "math.copysign" for o in op.get_toplevel_object().walk()):
        raise UnsupportedError(f"its code has '{op_name(op)}' of two zeros")


def _extremum_trend(op: Operation, a: Trend, b: Trend) -> Trend:
    _check_sign_of_zero(op, a, b)
    choose = max if op_name(op).startswith("arith.max") else min
    low, high = choose(a.low, b.low), choose(a.high, b.high)
    return Trend(low, high, _direction(a.direction, b.direction))


def _comparison_trend(op: Operation, a: Trend, b: Trend) -> Trend:
    if not isinstance(op, arith.CmpiOp):
        raise UnsupportedError("its code compares floats")
    # Signed predicates: slt, sle, sgt, sge.
    predicate = op.predicate.value.data
    if predicate not in (2, 3, 4, 5):
        raise UnsupportedError("its code has a comparison without a direction")
    sign = -1 if predicate in (2, 3) else 1
    return Trend(0, 1, _direction(sign * a.direction, -sign * b.direction))


def _same_trend(op: Operation, a: Trend) -> Trend:
    return Trend(a.low, a.high, a.direction)


def _sign_extended_trend(op: Operation, a: Trend) -> Trend:
    if scalar_or_element_type(op.operands[0].type) == i1:
        return Trend(-a.high, -a.low, -a.direction)
    return _same_trend(op, a)


def _zero_extended_trend(op: Operation, a: Trend) -> Trend:
    if a.low < 0:
        raise UnsupportedError("its code extends negative values by zeros")
    return _same_trend(op, a)


def _rounded_trend(op: Operation, a: Trend) -> Trend:
    low = math.floor(a.low) if math.isfinite(a.low) else a.low
    return Trend(
        low, math.ceil(a.high) if math.isfinite(a.high) else a.high, a.direction
    )


def _to_integer_trend(op: Operation, a: Trend) -> Trend:
    if not math.isfinite(a.low) or not math.isfinite(a.high):
        raise UnsupportedError("its code converts floats that are not bounded")
    return Trend(math.trunc(a.low), math.trunc(a.high), a.direction)


def _converted_trend(op: Operation, a: Trend) -> Trend:
    return Trend(_outward(op, a.low, -1), _outward(op, a.high, 1), a.direction)


def _magnitude_trend(a: Trend) -> Trend:
    if a.magnitude_of is not None or a.direction < 0:
        raise UnsupportedError("its code has a magnitude without a direction")
    low = max(0.0, a.low, -a.high)
    return Trend(low, max(abs(a.low), abs(a.high)))


def _signed_trend(op: Operation, operands: Sequence[Trend]) -> Trend:
    """Return the trend of `copysign(f(|x|), x)` for a non-negative function."""
    magnitude, sign = operands
    if magnitude.magnitude_of is not op.operands[1] or magnitude.direction < 0:
        raise UnsupportedError("its code has a sign of another value")
    if magnitude.low < 0 or sign.direction < 0 or sign.magnitude_of is not None:
        raise UnsupportedError("its code changes a sign")
    return Trend(-magnitude.high, magnitude.high, sign.direction)


def _rescaled_trend(
    op: tosa.RescaleOp,
    x: Trend,
    multiplier: Trend,
    shift: Trend,
    x_zero: Trend,
    zero: Trend,
) -> Trend | None:
    """Return the trend of `tosa.rescale`, a rounded multiple that is clamped."""
    constants = multiplier, shift, x_zero, zero
    has_known_form = op.scale32.value.data and not (
        op.input_unsigned.value.data
        or op.output_unsigned.value.data
        or op.rounding_mode.data == "INEXACT_ROUND"
        or any(each.direction for each in constants)
    )
    if (
        not has_known_form
        or multiplier.low < 0
        or not 2 <= shift.low <= shift.high <= 62
    ):
        return None
    largest, offset = (int(max(abs(each.low), abs(each.high))) for each in (x, zero))
    largest += int(max(abs(x_zero.low), abs(x_zero.high)))
    scaled = (largest * int(multiplier.high) >> int(shift.low)) + 1
    # Differences, products of 64 bits and sums with the zero point do not wrap.
    if max(largest, scaled + offset) >= 1 << 31:
        return None
    half = 1 << int_width(scalar_or_element_type(op.results[0].type)) - 1
    return Trend(-half, half - 1, x.direction)


def _trend_of_tosa(op: Operation, operands: Sequence[Trend]) -> Trend | None:
    if isinstance(op, tosa.RescaleOp):
        return _rescaled_trend(op, *operands)
    if isinstance(op, tosa.ClampOp):
        (x,) = operands
        low, high = (each.value.data for each in (op.min_val, op.max_val))
        return Trend(
            min(max(x.low, low), high), max(min(x.high, high), low), x.direction
        )
    name = op_name(op)
    if name in ("tosa.greater", "tosa.greater_equal"):
        a, b = operands
        return Trend(0, 1, _direction(a.direction, -b.direction))
    if name == "tosa.cast":
        return _cast_trend(op, *operands)
    if name == "tosa.gather":
        table, index = operands
        if table.direction or index.direction:
            raise UnsupportedError("its code reads a table at an index that changes")
        return Trend(table.low, table.high)
    if name == "tosa.mul":
        a, b, shift = operands
        return None if shift.low or shift.high else _product_trend(op, a, b)
    return None


def _cast_trend(op: Operation, x: Trend) -> Trend:
    """Return the trend of `tosa.cast`, which rounds floats to integers half to even."""
    operand, result = (
        scalar_or_element_type(value.type) for value in (op.operands[0], op.results[0])
    )
    if isinstance(result, AnyFloat):
        return _converted_trend(op, x)
    if isinstance(operand, AnyFloat):
        return _to_integer_trend(op, _rounded_trend(op, x))
    return _zero_extended_trend(op, x) if operand == i1 else _same_trend(op, x)


_FUNCTIONS: Mapping[str, Callable[..., Trend]] = {
    name: function
    for function, names in (
        (_sum_trend, "arith.addf arith.addi tosa.add"),
        (_difference_trend, "arith.subf arith.subi tosa.sub"),
        (_product_trend, "arith.mulf arith.muli"),
        (_quotient_trend, "arith.divf"),
        (_shifted_left_trend, "arith.shli"),
        (_shifted_right_trend, "arith.shrsi"),
        (_comparison_trend, "arith.cmpi"),
        (_extremum_trend, "arith.maximumf arith.maxnumf arith.maxsi"),
        (_extremum_trend, "arith.minimumf arith.minnumf arith.minsi"),
        (_rounded_trend, "math.ceil math.floor math.round math.roundeven math.trunc"),
        (_to_integer_trend, "arith.fptosi"),
        (_converted_trend, "arith.extf arith.sitofp arith.truncf"),
        (_sign_extended_trend, "arith.extsi"),
        (_zero_extended_trend, "arith.extui"),
        (_same_trend, "arith.trunci quant.scast tosa.reshape"),
    )
    for name in names.split()
}
