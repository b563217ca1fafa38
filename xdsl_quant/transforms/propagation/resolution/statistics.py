"""
Remove redundant ranges before propagation, and find values that parameters clamp.

Results of data movement ops inherit the parameters of their operand, and results with a
fixed range have that range. The ports of same-scale kernels share parameters, which may
clamp some of their values.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.func import CallOp

from xdsl_quant.dialects.quant import traits
from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.dialects.quant.traits import has_quantization_trait
from xdsl_quant.dialects.quant.types import UniformType

from .kernels import Kernel, PortValue, Range, compute_ops


def unite_ranges(kernels: Iterable[Kernel]) -> None:
    """
    Extend the ranges of results of same-scale kernels by the ranges of their operands,
    so that removing the operand ranges clamps nothing. TensorFlow Lite omits this step.

    Args:
        kernels: the kernels in textual order, so that ranges propagate along chains.
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
    Remove ranges that follow from other ranges.

    Results with a fixed range lose their recorded range. So do results of same-scale
    kernels with a single operand, if the operand has a range. In other same-scale
    kernels, a remaining range of a result removes the ranges of the kernel's operands,
    recursively. Coupled values keep their ranges.
    """
    with_range = [value for value in values if value.range is not None]
    redundant = {
        value
        for value in with_range
        if _has_fixed_range(value) or _has_range_of_operand(value)
    }
    redundant |= _preceding_ranges([v for v in with_range if v not in redundant])
    for value in redundant:
        if not value.coupled:
            value.range = None
            _reverse_users(value)


def _reverse_users(value: PortValue) -> None:
    """Reverse the order of users, as TensorFlow Lite does when it removes a range."""
    value.users.reverse()


def _preceding_ranges(values: Sequence[PortValue]) -> set[PortValue]:
    """Return operands with ranges, from same-scale kernels that lead to `values`."""
    preceding: set[PortValue] = set()
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
            # A specification of the port means a rescale between value and kernel.
            if operand is None or operand.range is None or port in kernel.rescaled:
                continue
            preceding.add(operand)
            if operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return preceding


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


# Values that exceed the range of their parameters


@dataclass(frozen=True)
class ClampedValue:
    """Value that exceeds the range of its parameters where it is computed or used."""

    value: PortValue
    numbers: Range
    """Minimum and maximum of the value."""

    limits: Range
    """Minimum and maximum that the parameters represent."""

    kernel: Kernel
    """Kernel with the port that clamps the value: the producer or a user."""

    port: int


def clamped_values(values: Iterable[PortValue]) -> Sequence[ClampedValue]:
    """
    Return the values whose statistics exceed the range of their parameters. If only data
    movement and ordering kernels use a value, check the results of these kernels instead.
    """
    return [
        clamped
        for value in values
        if not value.is_constant and value.observed is not None
        if (clamped := _clamped_parameters(value, value.observed)) is not None
    ]


def clamped_constants(values: Iterable[PortValue]) -> Sequence[ClampedValue]:
    """Return constants that exceed a shared range, if clamping them changes results."""
    clamped: list[ClampedValue] = []
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
        # A bound beyond the range of the results has the same effect as the range
        # itself.
        numbers = (
            max(low, limits[0]) if "maximum" in names else low,
            min(high, limits[1]) if "minimum" in names else high,
        )
        if _exceeds(numbers, limits, tolerance):
            clamped.append(ClampedValue(value, (low, high), limits, kernel, port))
    return clamped


def _clamped_parameters(value: PortValue, numbers: Range) -> ClampedValue | None:
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
            or not all(_is_judged_by_results(user) for user, _ in value.users)
        ):
            return ClampedValue(value, numbers, limits, kernel, port)
    for user, use in value.users:
        type_ = user.parameters(use)
        if type_ is None or _is_judged_by_results(user):
            continue
        limits, tolerance = _range_limits(type_)
        if _exceeds(numbers, limits, tolerance):
            return ClampedValue(value, numbers, limits, user, use)
    return None


def _is_judged_by_results(kernel: Kernel) -> bool:
    """Return True if a kernel moves or orders operands and its results have statistics."""
    outputs = [value for p in kernel.outputs if (value := kernel.values[p]) is not None]
    return (
        kernel.constraints.is_same_scale
        and all(value.observed is not None for value in outputs)
        and all(
            has_quantization_trait(
                op, traits.Clamps, traits.MovesElements, traits.OrdersElements
            )
            for op in compute_ops(kernel.op)
        )
    )


def _range_limits(type_: UniformType) -> tuple[Range, float]:
    """Return the range that a type represents for every scale, and the largest scale."""
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
