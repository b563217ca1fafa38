"""
Kernels that give operands of very different ranges one scale: the concatenation of the
boxes of a detector, from 0 to 640, and its scores, from 0 to 1.
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
"""An operand whose range has fewer steps of the shared scale is lost: about 12 dB."""

_BITS = 8
"""The width of results if a target does not name one."""


class _Operand(NamedTuple):
    """An operand of a kernel, and its range."""

    name: str
    low: float
    high: float
    is_constant: bool

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.name} of {self.low:.4g}"
        return f"{self.name} from {self.low:.4g} to {self.high:.4g}"


class LostOperand(NamedTuple):
    """An operand of a kernel that the range of another one destroys."""

    kernel: RegionOp
    """The kernel, whose operands take the scale of its result."""

    operand: _Operand
    widest: _Operand
    steps: float
    """The number of steps of the shared scale in the range of the operand."""

    @property
    def can_be_kept(self) -> bool:
        """True if the operand keeps its values with the kernel in floating point."""
        return not all(map(_quantizes, _users_of(self.kernel)))

    @property
    def float_kernels(self) -> Sequence[RegionOp]:
        """The kernel, and those that move its elements to a result of the model."""
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
        """Warn of the operand by its name."""
        if self.widest.is_constant and ".select" in self.kernel.kernel:
            # `warn_of_wide_constants` has named the constant.
            return
        name = f"'{self.kernel.kernel}'"
        advice = f"set 'float-concatenations = true' in the recipe to keep {name}"
        if not self.can_be_kept:
            advice = f"add an override that keeps {name} and the kernels after it"
        warn_user(
            f"{location_prefix(self.kernel.location)}{name} has one scale for operands of "
            f"different ranges, found {self.operand}, which is {self.steps:.1f} steps of "
            f"it, beside {self.widest}; {advice} in floating point"
        )


def lost_operands(
    module: ModuleOp, ranges: Mapping[str, KeyStatistics], target: TargetSpec
) -> Sequence[LostOperand]:
    """
    Find operands whose elements the scale of the result rounds to few values, of kernels
    that move elements of several operands or take the larger or smaller ones.

    Args:
        module: a model of kernels, with a `quant.stats_ref` for each value.
        ranges: the observed ranges by keys.
        target: the hardware target, which says how wide results are.
    """
    found: list[LostOperand] = []
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
        found += [
            LostOperand(kernel, operand, widest, steps)
            for operand in operands
            # A maximum of other operands may have no element of it.
            if operand.low <= high
            and operand.high >= low
            and 0 < (steps := range_width(operand[1:3]) / step) < _LEAST_STEPS
        ]
    return found


def _operands_of(
    kernel: RegionOp, ranges: Mapping[str, KeyStatistics]
) -> Iterator[_Operand]:
    """Yield the operands of an op whose elements become elements of the result."""
    if (op := kernel.body.block.first_op) is None:
        return
    moves = quantization_trait(op, MovesElements)
    if moves is None and not has_quantization_trait(op, OrdersElements):
        return
    for operand in op.operands if moves is None else moves.moved(op):
        if not isinstance(operand, BlockArgument):
            continue
        found = _observed_operand(_unmoved_value(kernel.inputs[operand.index]), ranges)
        # A constant that is compared with is a bound, such as a small one that a divisor
        # must not fall below: rounded like the elements beside it, it loses none of them.
        if found is not None and not (moves is None and found.is_constant):
            yield found


def _observed_operand(
    value: SSAValue, ranges: Mapping[str, KeyStatistics]
) -> _Operand | None:
    """Return a value with its range and its name: its location, or its key."""
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
    """Return the value whose elements a value has, before they are moved."""
    while isinstance(kernel := value.owner, RegionOp) and _moves(kernel):
        moved = [x for x in kernel.inputs if is_float_value(x)]
        if len(moved) != 1:
            break
        value = moved[0]
    return value


def _users_of(kernel: RegionOp) -> Iterator[Operation]:
    """Yield the ops that take results of a kernel."""
    for result in kernel.results:
        for use in result.uses:
            if isinstance(ref := use.operation, StatisticsRefOp):
                yield from (use.operation for use in ref.result.uses)
            else:
                yield use.operation


def _quantizes(op: Operation) -> bool:
    """True for a kernel, but for one that moves elements to results of the model alone."""
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
