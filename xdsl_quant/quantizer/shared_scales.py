"""
Concatenations that give operands of very different ranges one scale: the boxes of a
detector, from 0 to 640, and its scores, from 0 to 1.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.dialects.quant import RegionOp, StatisticsRefOp
from xdsl_quant.dialects.quant.traits import MovesElements, quantization_trait
from xdsl_quant.transforms.building.arrays import constant_elements
from xdsl_quant.transforms.propagation.module_kernels import has_floats, kernels_of
from xdsl_quant.transforms.propagation.target_spec import TargetSpec
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics

_LEAST_STEPS = 4.0
"""An operand whose range has fewer steps of the shared scale is lost: about 12 dB."""

_BITS = 8
"""The width of results if a target does not name one."""


class _Operand(NamedTuple):
    """An operand of a concatenation, and its range."""

    name: str
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.name} from {self.low:.4g} to {self.high:.4g}"


class LostOperand(NamedTuple):
    """An operand of a concatenation that the range of another one destroys."""

    kernel: RegionOp
    """The concatenation."""

    operand: _Operand
    widest: _Operand
    steps: float
    """The number of steps of the shared scale in the range of the operand."""

    def warn(self, stacklevel: int) -> None:
        """Warn of the operand by its name."""
        warnings.warn(
            f"{location_prefix(self.kernel.location)}'{self.kernel.kernel}' has one scale "
            f"for operands of different ranges, found {self.operand}, which is "
            f"{self.steps:.1f} steps of it, beside {self.widest}; set "
            "'float-concatenations = true' in the recipe to keep it in floating point",
            stacklevel=stacklevel + 1,
        )


def lost_operands(
    module: ModuleOp, ranges: Mapping[str, KeyStatistics], target: TargetSpec
) -> Sequence[LostOperand]:
    """
    Find operands of concatenations whose elements a shared scale rounds to few values.

    Args:
        module: a model of kernels, with a `quant.stats_ref` for each value.
        ranges: the observed ranges by keys.
        target: the hardware target, which says how wide results are.
    """
    found: list[LostOperand] = []
    for kernel in kernels_of(module):
        operands = [*_moved_operands(kernel, ranges)]
        if len(operands) < 2:
            continue
        low = min(0.0, *(operand.low for operand in operands))
        high = max(0.0, *(operand.high for operand in operands))
        if not high > low:
            continue
        step = (high - low) / (2 ** _result_bits(kernel, target) - 1)
        widest = max(operands, key=lambda operand: operand.high - operand.low)
        found += [
            LostOperand(kernel, operand, widest, steps)
            for operand in operands
            if 0 < (steps := (operand.high - operand.low) / step) < _LEAST_STEPS
        ]
    return found


def _moved_operands(
    kernel: RegionOp, ranges: Mapping[str, KeyStatistics]
) -> Iterator[_Operand]:
    """The operands of an op that moves the elements of all its operands."""
    op = kernel.body.block.first_op
    trait = None if op is None else quantization_trait(op, MovesElements)
    if op is None or trait is None or trait.operands is not None:
        return
    for number, operand in enumerate(op.operands):
        if not has_floats(operand) or not isinstance(operand, BlockArgument):
            continue
        source = _source(kernel.inputs[operand.index])
        if (bounds := _range_of(source, ranges)) is not None:
            yield _Operand(_name_of(source, number), *bounds)


def _source(value: SSAValue) -> SSAValue:
    """The value whose elements a value has, before they are moved."""
    while isinstance(kernel := value.owner, RegionOp):
        op = kernel.body.block.first_op
        if op is None or quantization_trait(op, MovesElements) is None:
            break
        moved = [x for x in kernel.inputs if has_floats(x)]
        if len(moved) != 1:
            break
        value = moved[0]
    return value


def _range_of(
    value: SSAValue, ranges: Mapping[str, KeyStatistics]
) -> tuple[float, float] | None:
    if isinstance(ref := value.owner, StatisticsRefOp):
        statistics = ranges.get(ref.stats_key.data)
        return None if statistics is None else statistics.layer
    elements = constant_elements(value)
    if elements is None or not elements.size:
        return None
    return float(elements.min()), float(elements.max())


def _name_of(value: SSAValue, number: int) -> str:
    """The name of an operand: its location, or its key, or its number."""
    if not isinstance(ref := value.owner, StatisticsRefOp):
        return f"operand {number}"
    source = ref.input.owner
    location = location_prefix(source.location) if isinstance(source, Operation) else ""
    return location.removesuffix(": ") or f"'{ref.stats_key.data}'"


def _result_bits(kernel: RegionOp, target: TargetSpec) -> int:
    """The width of the result of a kernel."""
    if (spec := target.kernels.get(kernel.kernel)) is None:
        return _BITS
    widths = [
        port.storage.storage_type_integral_width
        for signature in spec.signatures
        for port in signature.outputs
        if port.storage is not None
    ]
    return max(widths, default=_BITS)
