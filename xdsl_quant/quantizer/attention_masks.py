"""
Masks of attention scores.

A mask makes the softmax result of a score 0: a `select` returns a large negative number
for the score, or a large negative number is added to it. With this number in their range,
scores would be quantized with a very large scale. The quantizer therefore raises such
scores to the floor of their row: the highest number whose softmax result still rounds
to 0 in every row, which is the smallest row maximum minus `ln(2 / scale)`, where `scale`
is the scale of the softmax result. Constants of the mask are replaced; other values are
clipped by their range.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.ir import Operation, SSAValue, Use
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import ConstantLike

from xdsl_quant.diagnostics import location_prefix, op_name
from xdsl_quant.dialects.quant import RegionOp, StatisticsRefOp
from xdsl_quant.dialects.quant.traits import (
    Adds,
    MovesElements,
    Multiplies,
    Subtracts,
    has_quantization_trait,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.float_dtypes import float_info
from xdsl_quant.runtime.arrays import constant_elements, elements_attr, numpy_dtype
from xdsl_quant.transforms.building.type_replacement import defined_values
from xdsl_quant.transforms.propagation.kernel_matching import pattern_names
from xdsl_quant.transforms.propagation.target_spec import TargetSpec
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics
from xdsl_quant.transforms.weights.layers.layer import erase_unused

from .kernel_widths import result_widths
from .user_warnings import warn_user

MASKED = "quant.masked"
"""Name of the attribute that marks kernels whose results may contain masked scores."""

_MASK = "quant.mask"
"""Name of the attribute with the mask index of a masking op and of its constant."""

_FINITE = -1e9
"""Replacement of a lower constant, if the element type can represent sums of two."""

_MUCH_WIDER = 8.0
"""
Largest factor by which a `select` constant may widen a range without warning, and by which
the minimum of an ordinary addend may exceed other numbers.
"""

_LOST = 64.0
"""Like `_MUCH_WIDER`, for addition: the other operand keeps 4 of the 256 steps of i8."""

_STEPS = 1.5
"""Upper bound of the rounding error of `score - row maximum`, in units of the scale."""

_SELECTS = ("stablehlo.select", "tfl.select", "tfl.select_v2")
_MAXIMUM = "stablehlo.reduce[stablehlo.maximum]"
_SUM = "stablehlo.reduce[stablehlo.add]"
_EXPONENTIAL, _SOFTMAX = "stablehlo.exponential", "tfl.softmax"

Ranges = Mapping[str, KeyStatistics]
Range = tuple[float, float]


# Data movement


def _moved_uses(value: SSAValue) -> Iterator[Use]:
    """Yield the uses of a value and of its copies by data movement ops."""
    values = [value]
    for each in values:
        for use in each.uses:
            if _moves_element(use):
                values += use.operation.results
            else:
                yield use


def _moves_element(use: Use) -> bool:
    op = use.operation
    if isinstance(op, StatisticsRefOp):
        return True
    moves = quantization_trait(op, MovesElements)
    return moves is not None and op.operands[use.index] in moves.moved_operands(op)


def _moved_sources(value: SSAValue) -> Iterator[SSAValue]:
    """Yield a value, then its sources, backwards through data movement ops."""
    yield value
    while isinstance(op := value.owner, Operation):
        moves = quantization_trait(op, MovesElements)
        moved = (
            op.operands
            if isinstance(op, StatisticsRefOp)
            else moves and moves.moved_operands(op)
        )
        if not moved or len(moved) != 1:
            return
        yield (value := moved[0])


def _source_op(value: SSAValue) -> Operation | None:
    """Return the op that computes the source of moved elements."""
    *_, source = _moved_sources(value)
    return source.owner if isinstance(source.owner, Operation) else None


def _moved_constant(value: SSAValue) -> Operation | None:
    """Return the constant from which data movement ops compute a value, or `None`."""
    op = _source_op(value)
    return op if op is not None and op.has_trait(ConstantLike) else None


def _constant_in(value: SSAValue) -> Operation | None:
    """Return the constant that defines a value, or a constant factor of its product."""
    op, values = _source_op(value), [value]
    if op is not None and has_quantization_trait(op, Multiplies):
        values = [*op.operands]
    return next(filter(None, map(_moved_constant, values)), None)


def _range_of(value: SSAValue, ranges: Ranges) -> Range | None:
    if (constant := _moved_constant(value)) is not None:
        elements = constant_elements(constant.results[0])
        if elements is None or not elements.size:
            return None
        return float(elements.min()), float(elements.max())
    for source in _moved_sources(value):
        op = source.owner
        if isinstance(op, StatisticsRefOp) and op.stats_key.data in ranges:
            low, high = ranges[op.stats_key.data].layer
            return low, high
    return None


def range_width(range_: Range) -> float:
    """Return the width of a range extended to contain 0."""
    low, high = range_
    return max(high, 0.0) - min(low, 0.0)


# Softmax


def _row_maximum(op: Operation | None) -> SSAValue | None:
    """Return the row maximum that an op of a softmax subtracts, or `None`."""
    if op is None or not has_quantization_trait(op, Subtracts):
        return None
    scores, maximum = op.operands
    reduction = _source_op(maximum)
    if (
        reduction is None
        or _MAXIMUM not in pattern_names(reduction)
        or {*_moved_sources(scores)}.isdisjoint(_moved_sources(reduction.operands[0]))
        or not all(_is_of_softmax(use) for use in _moved_uses(op.results[0]))
    ):
        return None
    return maximum


def _is_of_softmax(use: Use) -> bool:
    """Return True for an exponential whose results are summed."""
    op = use.operation
    return op_name(op) == _EXPONENTIAL and any(
        _SUM in pattern_names(use.operation) for use in _moved_uses(op.results[0])
    )


def _is_maximum_of_softmax(use: Use) -> bool:
    op = use.operation
    return _MAXIMUM in pattern_names(op) and all(
        use.index == 1 and _row_maximum(use.operation) is not None
        for use in _moved_uses(op.results[0])
    )


# Masks in a module


def _mask_operand(op: Operation) -> int | None:
    """Return the index of the constant operand that masks scores, if any."""
    if op_name(op) in _SELECTS or has_quantization_trait(op, Adds):
        for index, operand in enumerate(op.operands):
            # Without statistics, only constants have a range.
            known = _range_of(operand, {})
            if known is not None and _is_mask(*known):
                return index
    return None


def _is_mask(low: float, high: float, other_width: float = 0.0) -> bool:
    return low < -_MUCH_WIDER * max(high, other_width)


def separate_masks(module: ModuleOp) -> None:
    """
    Give each op that masks scores by a constant a separate, finite constant.

    Args:
        module: a float model without statistics; it changes.
    """
    floors = AttentionMasks(module, {}, 16).floors
    masking = [
        (op, index)
        for op in module.walk()
        if op.results
        and floors[op.results[0]] == 0
        and (index := _mask_operand(op)) is not None
    ]
    for number, (op, index) in enumerate(masking):
        old = op.operands[index]
        value = _copied(old, op)
        op.operands[index] = value
        erase_unused(old, PatternRewriter(op))
        constant = _moved_constant(value)
        assert constant is not None
        mark = IntegerAttr(number, i64)
        op.attributes[_MASK] = constant.attributes[_MASK] = mark
        least = float(float_info(numpy_dtype(constant.results[0].type)).min)
        elements = _mask_elements(constant)
        if elements.min() < least / 2:
            _set_elements(constant, np.maximum(elements, max(least / 2, _FINITE)))


def _copied(value: SSAValue, before: Operation) -> SSAValue:
    op = value.owner
    assert isinstance(op, Operation)
    copy = op.clone()
    if (moves := quantization_trait(op, MovesElements)) is not None:
        (moved,) = moves.moved_operands(op)
        copy.operands = [
            _copied(operand, before) if operand is moved else operand
            for operand in op.operands
        ]
    copy.location = op.location
    Rewriter.insert_op(copy, InsertPoint.before(before))
    return copy.results[0]


def _mask_elements(constant: Operation) -> Array:
    elements = constant_elements(constant.results[0])
    assert elements is not None
    return elements


def _set_elements(constant: Operation, elements: Array) -> None:
    type_ = constant.results[0].type
    element_type = scalar_or_element_type(type_)
    assert isinstance(element_type, AnyFloat)
    numbers = elements.astype(numpy_dtype(element_type))
    constant.properties["value"] = elements_attr(numbers, element_type)


def _mask_constants(module: ModuleOp) -> Iterator[tuple[int, Operation]]:
    for op in module.walk():
        mark = op.attributes.get(_MASK)
        if isinstance(mark, IntegerAttr) and op.has_trait(ConstantLike):
            yield mark.value.data, op


def mask_constants(module: ModuleOp) -> Mapping[int, Array]:
    """Return the elements of each mask constant by mask index."""
    return {number: _mask_elements(op) for number, op in _mask_constants(module)}


def set_mask_constants(module: ModuleOp, elements: Mapping[int, Array]) -> None:
    """Set mask constants to the arrays in `elements`, whose keys are mask indices."""
    for number, op in _mask_constants(module):
        if number in elements:
            _set_elements(op, elements[number])


def remove_mask_attributes(module: ModuleOp) -> None:
    """Remove the attributes that mark masks."""
    for op in module.walk():
        op.attributes.pop(_MASK, None)


def mark_masked_kernels(module: ModuleOp, keys: Collection[str]) -> None:
    """
    Mark the kernels whose results contain masked scores.

    Args:
        module: a model with kernels and statistics keys.
        keys: the keys of the values that contain masked scores.
    """
    for op in module.walk():
        if isinstance(op, StatisticsRefOp) and op.stats_key.data in keys:
            if isinstance(kernel := op.input.owner, RegionOp):
                kernel.attributes[MASKED] = UnitAttr()


# Floors of masked scores


@dataclass(frozen=True)
class AttentionMasks:
    """
    Masks of a float model with statistics keys, after `separate_masks`.

    The floor of a value is the number to which its elements can be raised without a change
    of any softmax result; -inf if a use of the value needs all elements.
    """

    module: ModuleOp
    ranges: Ranges
    """Smallest and largest elements of values by key; if empty, floors are 0 or -inf."""

    bits: int
    """Width of softmax results."""

    @staticmethod
    def of(module: ModuleOp, ranges: Ranges, target: TargetSpec) -> AttentionMasks:
        # 16 bits if the target has no softmax kernel.
        bits = max(result_widths(target, _EXPONENTIAL, _SOFTMAX), default=16)
        return AttentionMasks(module, ranges, bits)

    def constants(self) -> Mapping[int, Array]:
        """Return the elements of mask constants, raised to their floors."""
        return {
            number: np.maximum(_mask_elements(op), self.floors[op.results[0]])
            for number, op in _mask_constants(self.module)
        }

    def clipped_ranges(self) -> Ranges:
        """Return the ranges of values with elements below their floor."""
        clipped: dict[str, KeyStatistics] = {}
        for op in self.module.walk():
            if isinstance(op, StatisticsRefOp) and op.stats_key.data in self.ranges:
                key, floor = op.stats_key.data, self.floors[op.input]
                low, high = self.ranges[key].layer
                if low < floor:
                    clipped[key] = KeyStatistics((floor, max(high, floor)))
        return clipped

    @cached_property
    def floors(self) -> Mapping[SSAValue, float]:
        """Floor of each value."""
        floors: dict[SSAValue, float] = {}
        values = [value for op in self.module.walk() for value in defined_values(op)]
        for value in reversed(values):
            uses = [self._floor(use, floors) for use in value.uses]
            floors[value] = min(uses, default=-math.inf)
        return floors

    def _floor(self, use: Use, floors: Mapping[SSAValue, float]) -> float:
        op = use.operation
        if op_name(op) == _SOFTMAX:
            return self._lowest(op.operands[0], None)
        if (maximum := _row_maximum(op)) is not None:
            return self._lowest(op.operands[0], maximum)
        if op_name(op) == _EXPONENTIAL:
            difference = _source_op(op.operands[0])
            maximum = _row_maximum(difference)
            if difference is None or maximum is None:
                return -math.inf
            lowest = self._lowest(difference.operands[0], maximum)
            return lowest - self._highest(maximum)
        above = floors.get(op.results[0], -math.inf) if op.results else -math.inf
        if has_quantization_trait(op, Adds):
            return above - self._highest(op.operands[1 - use.index])
        return (
            above if _moves_element(use) or _is_maximum_of_softmax(use) else -math.inf
        )

    def _highest(self, value: SSAValue) -> float:
        if not self.ranges:
            return 0.0
        known = _range_of(value, self.ranges)
        return math.inf if known is None else known[1]

    def _lowest(self, scores: SSAValue, maximum: SSAValue | None) -> float:
        if not self.ranges:
            return 0.0
        unmasked = self._unmasked(scores)
        observed = _range_of(scores, self.ranges)
        if unmasked is None or observed is None or observed[0] >= unmasked[0]:
            return -math.inf
        known = None if maximum is None else _range_of(maximum, self.ranges)
        least = -math.inf if known is None else known[0]
        if least <= observed[0] / 2:
            # A row is fully masked, or the row maxima are unknown: use the lowest score.
            least = unmasked[0]
        scale = 2.0 ** -(self.bits if self.bits <= 8 else self.bits - 1)
        masked = least - math.log(2 / scale)
        step = (max(unmasked[1], 0.0) - masked) / (2.0**self.bits - 1)
        return masked - _STEPS * step

    def _unmasked(self, value: SSAValue) -> Range | None:
        """Return the range of scores without the numbers that mask them."""
        op = _source_op(value)
        if op is not None and op_name(op) in _SELECTS:
            if (index := _mask_operand(op)) is not None:
                return self._unmasked(op.operands[3 - index])
        elif op is not None and has_quantization_trait(op, Adds):
            known = [self._unmasked(operand) for operand in op.operands]
            first, second = known
            if first is None or second is None:
                return None
            pairs = (first, second), (second, first)
            lows, highs = zip(*(_without_mask(*pair) for pair in pairs), strict=True)
            return sum(lows), sum(highs)
        return _range_of(value, self.ranges)


def _without_mask(addend: Range, other: Range) -> Range:
    low, high = addend
    width = range_width(other)
    return (high, high) if width and _is_mask(low, high, width) else addend


def warn_of_wide_constants(module: ModuleOp, ranges: Ranges) -> None:
    """Warn of constants that widen the range of a sum or `select` by a large factor."""
    for op in module.walk():
        if _MASK in op.attributes:
            continue
        if op_name(op) in _SELECTS:
            most, (first, second) = _MUCH_WIDER, op.operands[1:3]
        elif has_quantization_trait(op, Adds, Subtracts):
            most, (first, second) = _LOST, op.operands[:2]
        else:
            continue
        for value, other_value in ((first, second), (second, first)):
            constant = _constant_in(value)
            if constant is None or _moved_constant(other_value) is not None:
                continue
            own, beside, number = (
                _range_of(each, ranges)
                for each in (value, other_value, constant.results[0])
            )
            if own is None or beside is None or number is None:
                continue
            if (
                min(range_width(own), range_width(number))
                > most * range_width(beside)
                > 0
            ):
                warn_user(
                    f"{location_prefix(op.location)}constant widens the result range of "
                    f"'{op_name(op)}': {max(own, key=abs):g}, while other values are "
                    f"{beside[0]:g} to {beside[1]:g}; use a constant closer to them"
                )


def refuse_infinite_constants(module: ModuleOp, reason: str) -> None:
    """
    Raise a clearer error if an infinite constant has caused a calibration error.

    Args:
        module: a float model with statistics keys.
        reason: the message of the calibration error, which contains the key of a value.

    Raises:
        ValueError: if the op that defines the value has an infinite constant operand.
    """
    for ref in module.walk():
        if (
            not isinstance(ref, StatisticsRefOp)
            or f"'{ref.stats_key.data}'" not in reason
            or not isinstance(op := ref.input.owner, Operation)
        ):
            continue
        for operand in op.operands:
            # Without statistics, only constants have a range.
            if (known := _range_of(operand, {})) is not None and np.isinf(known).any():
                raise ValueError(
                    f"{location_prefix(op.location)}constant widens the result range of "
                    f"'{op_name(op)}': {max(known, key=abs):g}; use a finite constant "
                    "close to the other values"
                ) from None
