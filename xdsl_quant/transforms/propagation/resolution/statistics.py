"""
Ranges that statistics say: those that say nothing new, and those that parameters cut off.

The results of an op that only moves elements have the parameters of its operand, and those
of an op with a fixed range have that range. Kernels of same scale make their ports share
parameters, and what exceeds these is clamped.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.func import CallOp

from xdsl_quant.dialects.quant import traits
from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.dialects.quant.traits import has_quantization_trait
from xdsl_quant.dialects.quant.types import UniformType

from .kernels import Kernel, PortValue, Range, computing_ops


def unite_ranges(kernels: Iterable[Kernel]) -> None:
    """
    Give results of kernels of same scale the ranges of the operands, too, so that these
    lose no numbers when their ranges are removed. TensorFlow Lite does not do so.

    Args:
        kernels: in the order of the text, so that ranges go along chains of kernels.
    """
    for kernel in kernels:
        if not kernel.constraints.is_same_scale:
            continue
        operands, results = (
            [
                value
                for port in ports
                if (value := kernel.values[port]) is not None
                and port not in kernel.rescaled
            ]
            for ports in (kernel.inputs, kernel.outputs)
        )
        ranges = [value.range for value in operands if value.range is not None]
        if not ranges or any(value.parameters is not None for value in operands):
            continue
        for value in results:
            if value.parameters is not None:
                continue
            if value.range is not None and len(operands) > 1:
                ranges.append(value.range)
            lows, highs = zip(*ranges, strict=True)
            value.range = min(lows), max(highs)


def remove_redundant_statistics(values: Iterable[PortValue]) -> None:
    """
    Forget ranges that follow from others.

    That of a fixed result goes, and those of the results of a kernel of same scale whose
    only operand has a range. Of the ranges that are left, one of a result of any other
    kernel of same scale removes those of the operands, and so on backwards. Values that
    are coupled keep their range.
    """
    with_range = [value for value in values if value.range is not None]
    redundant = {
        value
        for value in with_range
        if _has_fixed_range(value) or _has_range_of_operand(value)
    }
    redundant |= _followed_by_range([v for v in with_range if v not in redundant])
    for value in redundant:
        if not value.coupled:
            value.range = None
            _reverse_users(value)


def _reverse_users(value: PortValue) -> None:
    """
    Change the order in which the users of a value without its range take their turn: in
    TensorFlow Lite removing the op of the range does so.
    """
    value.users.reverse()


def _followed_by_range(values: Sequence[PortValue]) -> set[PortValue]:
    """
    Return the values with ranges that kernels of same scale take, where a result has
    one of these ranges, and so on backwards.
    """
    found: set[PortValue] = set()
    stack, seen = [*values], {*values}
    while stack:
        value = stack.pop()
        if value.producer is None:
            continue
        kernel, _ = value.producer
        if not kernel.constraints.is_same_scale:
            continue
        for port in kernel.inputs:
            operand = kernel.values[port]
            # A specification of the port is a rescale in between.
            if operand is None or operand.range is None or port in kernel.rescaled:
                continue
            found.add(operand)
            if operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return found


def _has_fixed_range(value: PortValue) -> bool:
    return value.producer is not None and (
        value.producer[1] in value.producer[0].constraints.fixed
    )


def _has_range_of_operand(value: PortValue) -> bool:
    if value.producer is None:
        return False
    kernel, _ = value.producer
    operands = [(port, x) for port in kernel.inputs if (x := kernel.values[port])]
    return (
        kernel.constraints.is_same_scale
        and len(operands) == 1
        and all(x.range and port not in kernel.rescaled for port, x in operands)
    )


# Values that exceed the parameters that they got


@dataclass(frozen=True)
class Clamped:
    """A value of which numbers are cut off where it is computed or used."""

    value: PortValue
    numbers: Range
    """The smallest and the largest number that the value has."""

    limits: Range
    """The smallest and the largest number that is left."""

    kernel: Kernel
    """The kernel that computes the value, or takes what is left."""

    port: int


def clamped_values(values: Iterable[PortValue]) -> Sequence[Clamped]:
    """
    Return the values with statistics that parameters exceed, but for those that only
    kernels take which move or order elements: of these, the results count.
    """
    return [
        clamped
        for value in values
        if not value.is_constant and value.said is not None
        if (clamped := _clamped_parameters(value, value.said)) is not None
    ]


def clamped_constants(values: Iterable[PortValue]) -> Sequence[Clamped]:
    """
    Return the constants that exceed what they have one scale with, if that changes
    results.
    """
    found: list[Clamped] = []
    for value in values:
        if not value.is_constant:
            continue
        kernel, port = value.users[0]
        type_ = kernel.parameters(port)
        if not kernel.constraints.is_same_scale or type_ is None:
            continue
        try:
            content = value.content()
        except (ValueError, ImportError):
            continue
        if not content.size:
            continue
        names = {op.name.partition(".")[2] for op in kernel.op.body.block.ops}
        low, high = float(content.min()), float(content.max())
        limits, tolerance = _range_limits(type_)
        # In the range of the results, these are as good as larger or smaller numbers.
        numbers = (
            max(low, limits[0]) if "maximum" in names else low,
            min(high, limits[1]) if "minimum" in names else high,
        )
        if _exceeds(numbers, limits, tolerance):
            found.append(Clamped(value, (low, high), limits, kernel, port))
    return found


def _clamped_parameters(value: PortValue, numbers: Range) -> Clamped | None:
    kernel, port = value.producer or value.users[0]
    computed = value.parameters
    if value.producer is not None:
        computed = kernel.parameters(port)
        if port in kernel.constraints.fixed and computed is not None:
            (low, high), _ = _range_limits(computed)
            numbers = max(numbers[0], low), min(numbers[1], high)
    if computed is not None:
        limits, tolerance = _range_limits(computed)
        if _exceeds(numbers, limits, tolerance) and (
            any(
                not isinstance(use.operation, RegionOp | CallOp)
                for use in value.ssa.uses
            )
            or not all(_decides_by_itself(user) for user, _ in value.users)
        ):
            return Clamped(value, numbers, limits, kernel, port)
    for user, use in value.users:
        type_ = user.parameters(use)
        if type_ is None or _decides_by_itself(user):
            continue
        limits, tolerance = _range_limits(type_)
        if _exceeds(numbers, limits, tolerance):
            return Clamped(value, numbers, limits, user, use)
    return None


def _decides_by_itself(kernel: Kernel) -> bool:
    """
    Return True if the statistics of the results of a kernel say what of its operands
    counts: it moves and orders elements.
    """
    outputs = [value for p in kernel.outputs if (value := kernel.values[p]) is not None]
    return (
        kernel.constraints.is_same_scale
        and all(value.said is not None for value in outputs)
        and all(
            has_quantization_trait(
                op, traits.Clamps, traits.MovesElements, traits.OrdersElements
            )
            for op in computing_ops(kernel.op)
        )
    )


def _range_limits(type_: UniformType) -> tuple[Range, float]:
    """What a type can express, for all of its scales, and the largest scale."""
    low, high = type_.storage_range
    scales = type_.scale_array()
    pairs = [*zip(scales, type_.zero_point_array(), strict=True)]
    return (
        (
            max((low - zero_point) * scale for scale, zero_point in pairs),
            min((high - zero_point) * scale for scale, zero_point in pairs),
        ),
        max(scales),
    )


def _exceeds(numbers: Range, limits: Range, tolerance: float) -> bool:
    return numbers[0] < limits[0] - tolerance or limits[1] + tolerance < numbers[1]
