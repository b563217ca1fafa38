"""
Statistics that say nothing new: the results of an op that only moves elements have the
parameters of its operand, and those of an op with a fixed range have that range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .kernels import Kernel, Value


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


def remove_redundant_statistics(values: Iterable[Value]) -> None:
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
        if value.coupled:
            continue
        value.range = None
        _reverse_users(value)


def _reverse_users(value: Value) -> None:
    """
    Change the order in which the users of a value without its range take their turn: in
    TensorFlow Lite removing the op of the range does so.
    """
    value.users.reverse()


def _followed_by_range(values: Sequence[Value]) -> set[Value]:
    """
    The values with ranges that kernels of same scale take, where a result has one of these
    ranges, and so on backwards.
    """
    found: set[Value] = set()
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


def _has_fixed_range(value: Value) -> bool:
    return value.producer is not None and (
        value.producer[1] in value.producer[0].constraints.fixed
    )


def _has_range_of_operand(value: Value) -> bool:
    if value.producer is None:
        return False
    kernel, _ = value.producer
    ports = [port for port in kernel.inputs if kernel.values[port] is not None]
    if not kernel.constraints.is_same_scale or len(ports) != 1:
        return False
    (port,) = ports
    operand = kernel.values[port]
    return (
        operand is not None
        and operand.range is not None
        and port not in kernel.rescaled
    )
