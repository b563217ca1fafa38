"""
Ops that move, order and clamp elements: values before their result are stored like it, and
what a constant among their operands means for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isinf

from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.traits import ConstantLike

from xdsl_quant.dialects.quant import (
    QuantizedType,
    RegionOp,
    ScaledQuantizedType,
    StatisticsOp,
    StatisticsRefOp,
)
from xdsl_quant.dialects.quant.traits import (
    Clamps,
    MovesElements,
    OrdersElements,
    Reduces,
    has_quantization_trait,
    quantization_trait,
)
from xdsl_quant.unsupported import Unsupported

from ..kernel_matching import is_constant
from ..module_kernels import has_floats
from .constant_ranges import ends_of, numbers_of
from .reasons import ResultOutOfRange

_KEEPS_ORDER = Clamps, MovesElements, OrdersElements
"""Ops that may be clamped to the range of their result before or after they compute."""

_MAXIMA = {"maximum", "maximumf", "maxnumf"}
_MINIMA = {"minimum", "minimumf", "minnumf"}


def stored_as(region: RegionOp, value: SSAValue) -> ScaledQuantizedType | None:
    """The type of the result that a value is, or becomes without computation."""
    returned = region.returned
    if value in returned:
        spec = region.output_specs.data[[*returned].index(value)]
        return spec if isinstance(spec, ScaledQuantizedType) else None
    users = {use.operation for use in value.uses}
    types = {
        stored_as(region, user.results[0]) if keeps_order(user) else None
        for user in users
    }
    return types.pop() if len(types) == 1 else None


def keeps_order(op: Operation) -> bool:
    """Whether an op only moves, orders and clamps elements."""
    if isinstance(op, StatisticsOp | StatisticsRefOp):
        return True
    bodies = [[*block.ops][:-1] for region in op.regions for block in region.blocks]
    return has_quantization_trait(op, *_KEEPS_ORDER) or (
        has_quantization_trait(op, Reduces)
        and all(keeps_order(inner) for body in bodies for inner in body)
    )


def op_or_reducing_op(op: Operation) -> Operation:
    """The op itself, or the only one that a reduction applies."""
    bodies = [[*block.ops][:-1] for region in op.regions for block in region.blocks]
    return bodies[0][0] if len(bodies) == 1 and len(bodies[0]) == 1 else op


def out_of_range(op: Operation, type_: QuantizedType) -> str:
    return f"a constant of '{op.name}' exceeds the range of '{type_}'"


def check_not_cut_off(
    op: Operation, index: int, constant: SSAValue, type_: ScaledQuantizedType
) -> None:
    """
    Raises:
        ResultOutOfRange: if the type of the result cuts a constant operand off, though the
            result has the numbers of it. An infinity is the end of any range.
    """
    numbers = numbers_of(constant)
    if not numbers.size:
        return
    least, largest = float(numbers.min()), float(numbers.max())
    low, high = ends_of(type_)
    is_below = least < low and not isinf(least)
    is_above = largest > high and not isinf(largest)
    name = op_or_reducing_op(op).name.partition(".")[2]
    if name in _MAXIMA or (name == "clamp" and index == 0):
        is_below = False
    if name in _MINIMA or (name == "clamp" and index == 2):
        is_above = False
    if is_below or is_above:
        number = largest if is_above else least
        raise ResultOutOfRange(out_of_range(op, type_), number)


def check_constants(region: RegionOp) -> None:
    """
    Raises:
        ResultOutOfRange: if the type of a result cuts a constant without a type off.
        Unsupported: if the content of such a constant is not known.
    """
    for op in region.body.block.ops:
        if (
            not op.results
            or not keeps_order(op)
            or (type_ := stored_as(region, op.results[0])) is None
        ):
            continue
        for index, operand in enumerate(op.operands):
            value = _outside(region, operand) if has_floats(operand) else None
            if value is not None and is_constant(value):
                check_not_cut_off(op, index, value, type_)


def check_operands(region: RegionOp, numbers: Mapping[SSAValue, float]) -> None:
    """
    Check that ports cut off no results that stayed in floating point.

    Args:
        region: the kernel.
        numbers: what results of other kernels have, which their types would cut off.

    Raises:
        ResultOutOfRange: if a port cuts a number off, and the kernel moves and orders
            elements, so that its results may have this number.
        Unsupported: if another kernel has such a port.
    """
    for index, (value, spec) in enumerate(
        zip(region.inputs, region.input_specs, strict=True)
    ):
        if value not in numbers or not cuts_off(spec, number := numbers[value]):
            continue
        *ops, _ = region.body.block.ops
        message = f"operand {index} has numbers that exceed the range of '{spec}'"
        if all(op.has_trait(ConstantLike) or keeps_order(op) for op in ops):
            raise ResultOutOfRange(message, number)
        raise Unsupported(message)


def cuts_off(spec: Attribute, number: float) -> bool:
    """Whether a number exceeds the range of a specification, if this is a type."""
    if not isinstance(spec, ScaledQuantizedType):
        return False
    low, high = ends_of(spec)
    return not low <= number <= high


def _outside(region: RegionOp, value: SSAValue) -> SSAValue | None:
    """The value that ops of a kernel move, unless it has a type with parameters."""
    while isinstance(op := value.owner, Operation):
        moves = quantization_trait(op, MovesElements)
        if moves is None or len(moved := moves.moved(op)) != 1:
            return value
        value = moved[0]
    assert isinstance(value, BlockArgument)
    spec = region.input_specs.data[value.index]
    return None if isinstance(spec, ScaledQuantizedType) else region.inputs[value.index]
