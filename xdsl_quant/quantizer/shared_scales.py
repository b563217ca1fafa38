"""
Kernels that share a scale between operands of very different ranges, such as the
concatenation of a detector's boxes from 0 to 640 with scores from 0 to 1.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.dialects.quant import RegionOp, StatisticsRefOp
from xdsl_quant.dialects.quant.traits import (
    MovesElements,
    OrdersElements,
    has_quantization_trait,
    quantization_trait,
)
from xdsl_quant.transforms.propagation.kernel_matching import is_constant
from xdsl_quant.transforms.propagation.module_kernels import is_float_value, kernels_of
from xdsl_quant.transforms.propagation.target_spec import TargetSpec
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics

from .attention_masks import range_width
from .kernel_widths import result_widths
from .selection import keys_of
from .user_warnings import warn_user

_LEAST_STEPS = 4.0
"""Minimum range of an operand in units of the shared scale; 4 give about 12 dB SQNR."""

_BITS = 8
"""Width of results if the target does not define one."""


class _Operand(NamedTuple):
    """Operand of a kernel, with its range."""

    name: str
    low: float
    high: float
    is_constant: bool

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.name} of {self.low:.4g}"
        return f"{self.name} from {self.low:.4g} to {self.high:.4g}"


class CoarseOperand(NamedTuple):
    """Operand whose range is too small for the scale shared with a wider operand."""

    kernel: RegionOp
    """Kernel whose operands take the scale of its result."""

    operand: _Operand
    widest: _Operand
    steps: float
    """Range of the operand in units of the shared scale."""

    @property
    def can_be_kept(self) -> bool:
        """True if keeping the kernel in floating point preserves the operand."""
        return not all(map(_quantizes, _users_of(self.kernel)))

    @property
    def float_kernels(self) -> Sequence[RegionOp]:
        """This kernel, and data movement kernels that lead from it to model results."""
        kernels = [self.kernel]
        for kernel in kernels:
            kernels += [
                user
                for user in _users_of(kernel)
                if isinstance(user, RegionOp)
                and user not in kernels
                and not _quantizes(user)
            ]
        return kernels

    def warn(self) -> None:
        if self.widest.is_constant and ".select" in self.kernel.kernel:
            # `warn_of_wide_constants` already warns of such a constant.
            return
        name = f"'{self.kernel.kernel}'"
        advice = f"set 'float-concatenations = true' in the recipe to keep {name}"
        if not self.can_be_kept:
            advice = f"add an override that keeps {name} and the kernels after it"
        warn_user(
            f"{location_prefix(self.kernel.location)}{name} shares one scale between "
            f"operands of different ranges: {self.operand} spans only {self.steps:.1f} "
            f"steps of the scale of {self.widest}; {advice} in floating point"
        )


def coarse_operands(
    module: ModuleOp, ranges: Mapping[str, KeyStatistics], target: TargetSpec
) -> Sequence[CoarseOperand]:
    """
    Find operands whose range is less than `_LEAST_STEPS` times the scale of the result,
    in data movement kernels with several operands, and in maxima and minima.

    Args:
        module: a model of kernels, with a `quant.stats_ref` for each value.
        ranges: the observed ranges by key.
        target: the target, which defines the widths of results.
    """
    lost: list[CoarseOperand] = []
    for kernel in kernels_of(module):
        operands = [*_operands_of(kernel, ranges)]
        results = [ranges[key].layer for key in keys_of(kernel) if key in ranges]
        if len(operands) < 2 or not results:
            continue
        low, high = results[0]
        bits = max(result_widths(target, kernel.kernel), default=_BITS)
        if not (step := range_width(results[0]) / (2**bits - 1)):
            continue
        widest = max(operands, key=lambda operand: range_width(operand[1:3]))
        lost += [
            CoarseOperand(kernel, operand, widest, steps)
            for operand in operands
            # The result of a maximum may contain no element of the operand.
            if operand.low <= high
            and operand.high >= low
            and 0 < (steps := range_width(operand[1:3]) / step) < _LEAST_STEPS
        ]
    return lost


def _operands_of(
    kernel: RegionOp, ranges: Mapping[str, KeyStatistics]
) -> Iterator[_Operand]:
    """Yield the operands whose elements occur in the result of a kernel."""
    if (op := kernel.body.block.first_op) is None:
        return
    moves = quantization_trait(op, MovesElements)
    if moves is None and not has_quantization_trait(op, OrdersElements):
        return
    for operand in op.operands if moves is None else moves.moved_operands(op):
        if not isinstance(operand, BlockArgument):
            continue
        observed = _observed_operand(
            _unmoved_value(kernel.inputs[operand.index]), ranges
        )
        # A constant operand of a maximum is a bound, such as the least divisor: rounding
        # it with the scale of the elements does not lose elements.
        if observed is not None and not (moves is None and observed.is_constant):
            yield observed


def _observed_operand(
    value: SSAValue, ranges: Mapping[str, KeyStatistics]
) -> _Operand | None:
    """Return a value with its observed range; its name is its location or its key."""
    if not isinstance(ref := value.owner, StatisticsRefOp):
        return None
    key = ref.stats_key.data
    if (statistics := ranges.get(key)) is None:
        return None
    source = ref.input.owner
    location = location_prefix(source.location) if isinstance(source, Operation) else ""
    name = location.removesuffix(": ") or f"'{key}'"
    return _Operand(name, *statistics.layer, is_constant(value))


def _unmoved_value(value: SSAValue) -> SSAValue:
    """Return the value from which data movement kernels compute `value`."""
    while isinstance(kernel := value.owner, RegionOp) and _moves(kernel):
        moved = [x for x in kernel.inputs if is_float_value(x)]
        if len(moved) != 1:
            break
        value = moved[0]
    return value


def _users_of(kernel: RegionOp) -> Iterator[Operation]:
    for result in kernel.results:
        for use in result.uses:
            if isinstance(ref := use.operation, StatisticsRefOp):
                yield from (use.operation for use in ref.result.uses)
            else:
                yield use.operation


def _quantizes(op: Operation) -> bool:
    """Return True for a kernel that computes, or moves data to a kernel that computes."""
    reached = [op]
    for each in reached:
        if isinstance(each, RegionOp):
            if not _moves(each):
                return True
            reached += {*_users_of(each)}.difference(reached)
    return False


def _moves(kernel: RegionOp) -> bool:
    op = kernel.body.block.first_op
    return op is not None and has_quantization_trait(op, MovesElements)
