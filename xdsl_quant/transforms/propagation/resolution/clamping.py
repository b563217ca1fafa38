"""
Values whose statistics exceed the parameters that they got: kernels of same scale make
their ports share parameters, and what exceeds these is clamped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.func import CallOp

from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.dialects.quant.traits import (
    Clamps,
    MovesElements,
    OrdersElements,
    has_quantization_trait,
)
from xdsl_quant.dialects.quant.types import UniformType

from .kernels import Decision, Kernel, Range, Value, computing_ops
from .work_list import content_of


@dataclass(frozen=True)
class Clamped:
    """A value of which numbers are cut off where it is computed or used."""

    value: Value
    numbers: Range
    """The smallest and the largest number that the value has."""

    limits: Range
    """The smallest and the largest number that is left."""

    decision: Decision
    """What decided the parameters that cut off."""

    kernel: Kernel
    """The kernel that computes the value, or takes what is left."""

    port: int


def clamped_values(values: Iterable[Value]) -> Sequence[Clamped]:
    """
    The values with statistics that parameters exceed, but for those that only kernels take
    which move or order elements: of these, the results count.
    """
    return [
        clamped
        for value in values
        if not value.is_constant and value.said is not None
        if (clamped := _clamped_parameters(value, value.said)) is not None
    ]


def clamped_constants(values: Iterable[Value]) -> Sequence[Clamped]:
    """The constants that exceed what they have one scale with, if that changes results."""
    found: list[Clamped] = []
    for value in values:
        if not value.is_constant:
            continue
        kernel, port = value.users[0]
        type_ = kernel.parameters(port)
        if not kernel.constraints.is_same_scale or type_ is None:
            continue
        try:
            content = content_of(value)
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
            decision = kernel.decision(port)
            found.append(Clamped(value, (low, high), limits, decision, kernel, port))
    return found


def _clamped_parameters(value: Value, numbers: Range) -> Clamped | None:
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
            decision = kernel.decision(port)
            return Clamped(value, numbers, limits, decision, kernel, port)
    for user, use in value.users:
        type_ = user.parameters(use)
        if type_ is None or _decides_by_itself(user):
            continue
        limits, tolerance = _range_limits(type_)
        if _exceeds(numbers, limits, tolerance):
            return Clamped(value, numbers, limits, user.decision(use), user, use)
    return None


def _decides_by_itself(kernel: Kernel) -> bool:
    """
    Whether the statistics of the results of a kernel say what of its operands counts: it
    moves and orders elements.
    """
    outputs = [value for p in kernel.outputs if (value := kernel.values[p]) is not None]
    return (
        kernel.constraints.is_same_scale
        and all(value.said is not None for value in outputs)
        and all(
            has_quantization_trait(op, Clamps, MovesElements, OrdersElements)
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
