"""
Constants that mask the scores of an attention.

A `select` gives a large negative number where the softmax shall give 0. As part of the
range of the scores it would take all their resolution. It is replaced by the highest number
whose exponential rounds to 0 in every row: the smallest maximum of a row, minus the
logarithm of two steps of the result of the softmax.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerAttr,
    ModuleOp,
    ShapedType,
    UnitAttr,
    i64,
)
from xdsl.ir import Block, Operation, SSAValue, Use
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
from xdsl_quant.numerics.float_dtypes import float_info
from xdsl_quant.runtime.arrays import constant_elements, elements_attr, numpy_dtype
from xdsl_quant.transforms.propagation.kernel_matching import pattern_names
from xdsl_quant.transforms.propagation.module_kernels import is_float_value
from xdsl_quant.transforms.propagation.target_spec import TargetSpec
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics
from xdsl_quant.transforms.weights.layers.layer import erase_unused

from .kernel_widths import result_widths
from .user_warnings import warn_user

MASKED = "quant.masked"
"""Attribute of a kernel whose results may be masked scores."""

_MASK = "quant.mask"
"""Attribute of a `select` that masks scores and of its constant: a number for both."""

_FINITE = -1e9
"""The constant that replaces negative infinity, if the element type has it."""

_MUCH_WIDER = 8.0
"""Factor by which a constant of a `select` widens a range without a warning."""

_LOST = 64.0
"""The same for a constant that is added: others have fewer than 4 steps of 8 bits."""

_STEPS = 1.5
"""Steps of the range by which rounding may raise a score minus its maximum."""

_SELECTS = ("stablehlo.select", "tfl.select", "tfl.select_v2")
_MAXIMUM = "stablehlo.reduce[stablehlo.maximum]"
_SUM = "stablehlo.reduce[stablehlo.add]"
_EXPONENTIAL, _SOFTMAX = "stablehlo.exponential", "tfl.softmax"

Ranges = Mapping[str, KeyStatistics]
Range = tuple[float, float]


# The way to the softmax


@dataclass
class _Flow:
    """The values between a `select` and the exponential of a softmax."""

    scores: list[SSAValue]
    maxima: list[SSAValue] = field(default_factory=list[SSAValue])
    """The maximum of each row of scores."""

    differences: list[SSAValue] = field(default_factory=list[SSAValue])
    """Scores minus their maximum."""

    keys: list[str] = field(default_factory=list[str])
    """Keys of statistics of scores and differences."""

    maximum_keys: list[str] = field(default_factory=list[str])
    addends: list[SSAValue] = field(default_factory=list[SSAValue])
    """Values that are added to scores."""

    subtractions: list[Operation] = field(default_factory=list[Operation])
    ends_in_softmax: bool = False

    def follow_scores(self, use: Use) -> bool:
        """Follow a use of scores; `False` if it is not part of an attention."""
        op = use.operation
        if has_quantization_trait(op, Adds):
            self.addends.append(op.operands[1 - use.index])
            self.scores += op.results
        elif _MAXIMUM in pattern_names(op):
            self.maxima += op.results
        elif op_name(op) == _SOFTMAX:
            self.ends_in_softmax = True
        elif has_quantization_trait(op, Subtracts) and use.index == 0:
            self.subtractions.append(op)
            self.differences += op.results
        else:
            return False
        return True

    def follow_maxima(self, use: Use) -> bool:
        """Follow a use of maxima; `False` if it is not part of an attention."""
        self.subtractions.append(use.operation)
        return has_quantization_trait(use.operation, Subtracts) and use.index == 1

    def follow_differences(self, use: Use) -> bool:
        """Follow a use of differences; `False` if it is not part of an attention."""
        self.ends_in_softmax |= (is_end := _is_of_softmax(use.operation))
        return is_end

    @property
    def subtracts_maxima(self) -> bool:
        """True if each subtraction is of a maximum from scores."""
        return all(
            op.operands[0] in self.scores and op.operands[1] in self.maxima
            for op in self.subtractions
        )


def _flow(select: Operation) -> _Flow | None:
    """
    Return the values that lead from a `select` to a softmax: moves, sums, the maximum of
    each row and its subtraction. `None` if a use leads to anything else.
    """
    flow = _Flow([select.results[0]])
    for values, keys, follow in (
        (flow.scores, flow.keys, flow.follow_scores),
        (flow.maxima, flow.maximum_keys, flow.follow_maxima),
        (flow.differences, flow.keys, flow.follow_differences),
    ):
        # The list grows.
        for value in values:
            for use in value.uses:
                op = use.operation
                if isinstance(op, StatisticsRefOp):
                    keys.append(op.stats_key.data)
                    values.append(op.result)
                elif has_quantization_trait(op, MovesElements):
                    values += op.results
                elif not follow(use):
                    return None
    return flow if flow.ends_in_softmax and flow.subtracts_maxima else None


def _is_of_softmax(op: Operation) -> bool:
    """True for an exponential whose results are added up."""
    if op_name(op) != _EXPONENTIAL:
        return False
    values = [*op.results]
    for value in values:
        users = [use.operation for use in value.uses]
        if any(_SUM in pattern_names(user) for user in users):
            return True
        values += [u.result for u in users if isinstance(u, StatisticsRefOp)]
    return False


def _moved_sources(value: SSAValue) -> Iterator[SSAValue]:
    """Yield a value, and the values whose elements it has by moves and statistics."""
    yield value
    while isinstance(op := value.owner, Operation):
        moves = quantization_trait(op, MovesElements)
        moved = (
            op.operands
            if isinstance(op, StatisticsRefOp)
            else moves and moves.moved(op)
        )
        if not moved or len(moved) != 1:
            return
        yield (value := moved[0])


def _moved_constant(value: SSAValue) -> Operation | None:
    """Return the constant that a value is, or that moves and statistics pass on."""
    *_, source = _moved_sources(value)
    op = source.owner
    return op if isinstance(op, Operation) and op.has_trait(ConstantLike) else None


def _constant_in(value: SSAValue) -> Operation | None:
    """Return the constant that a value is, or by which something is multiplied."""
    *_, source = _moved_sources(value)
    op, values = source.owner, [source]
    if isinstance(op, Operation) and has_quantization_trait(op, Multiplies):
        values = [*op.operands]
    return next(filter(None, map(_moved_constant, values)), None)


def _low_constant(select: Operation) -> int | None:
    """Return the operand of a `select` that is one negative number, if one is."""
    for index in (1, 2):
        constant = _moved_constant(select.operands[index])
        if constant is None or not is_float_value(constant.results[0]):
            continue
        known = _range_of(constant.results[0], {})
        if known is not None and known[0] == known[1] < 0:
            return index
    return None


# Masks of a module


def separate_masks(module: ModuleOp) -> None:
    """
    Give each `select` that masks scores a finite constant of its own.

    Args:
        module: a float model without statistics, which changes.
    """
    number = 0
    for op in [*module.walk()]:
        if op_name(op) not in _SELECTS or _flow(op) is None:
            continue
        if (index := _low_constant(op)) is None:
            continue
        old = op.operands[index]
        value = _copied(old, op)
        op.operands[index] = value
        erase_unused(old, PatternRewriter(op))
        constant = _moved_constant(value)
        assert constant is not None
        mark = IntegerAttr(number, i64)
        op.attributes[_MASK] = constant.attributes[_MASK] = mark
        if np.isinf(_number(constant)):
            least = float_info(numpy_dtype(constant.results[0].type)).min
            _set_number(constant, max(float(least) / 2, _FINITE))
        number += 1


def _copied(value: SSAValue, before: Operation) -> SSAValue:
    """Return a copy of a constant with the ops that move it."""
    op = value.owner
    assert isinstance(op, Operation)
    copy = op.clone()
    if (moves := quantization_trait(op, MovesElements)) is not None:
        (moved,) = moves.moved(op)
        copy.operands = [
            _copied(operand, before) if operand is moved else operand
            for operand in op.operands
        ]
    copy.location = op.location
    Rewriter.insert_op(copy, InsertPoint.before(before))
    return copy.results[0]


def _number(constant: Operation) -> float:
    elements = constant_elements(constant.results[0])
    assert elements is not None
    return float(elements.reshape(-1)[0])


def _set_number(constant: Operation, number: float) -> None:
    type_ = constant.results[0].type
    element_type = scalar_or_element_type(type_)
    assert isinstance(type_, ShapedType)
    assert isinstance(element_type, AnyFloat)
    # The constants of TensorFlow Lite have all elements, also if they are equal.
    numbers = np.full(type_.get_shape(), number, numpy_dtype(element_type))
    constant.properties["value"] = elements_attr(numbers, element_type)


def _marked(module: ModuleOp) -> Iterator[tuple[int, Operation]]:
    for op in module.walk():
        if isinstance(mark := op.attributes.get(_MASK), IntegerAttr):
            yield mark.value.data, op


def _mask_constants(module: ModuleOp) -> Iterator[tuple[int, Operation]]:
    return ((n, op) for n, op in _marked(module) if op.has_trait(ConstantLike))


def mask_numbers(module: ModuleOp) -> Mapping[int, float]:
    """Return the constants of the masks of a module."""
    return {number: _number(op) for number, op in _mask_constants(module)}


def set_mask_numbers(module: ModuleOp, numbers: Mapping[int, float]) -> None:
    """Replace the constants of masks."""
    for number, op in _mask_constants(module):
        if number in numbers:
            _set_number(op, numbers[number])


def forget_masks(module: ModuleOp) -> None:
    """Remove the attributes of masks."""
    for _, op in [*_marked(module)]:
        del op.attributes[_MASK]


def mark_masked_kernels(module: ModuleOp, keys: Collection[str]) -> None:
    """
    Mark the kernels with results that masked scores reach, and those that move masks.

    Args:
        module: a model with kernels and keys of statistics.
        keys: the keys of values that masked scores reach.
    """
    for op in module.walk():
        if isinstance(op, StatisticsRefOp) and op.stats_key.data in keys:
            _mark(op.input.owner)
    for _, constant in _mask_constants(module):
        values = [*constant.results]
        for value in values:
            for user in (use.operation for use in value.uses):
                _mark(user)
                values += user.results if isinstance(user, StatisticsRefOp) else ()


def _mark(op: Operation | Block) -> None:
    if isinstance(op, RegionOp):
        op.attributes[MASKED] = UnitAttr()


# Numbers that mask


@dataclass(frozen=True)
class AttentionMasks:
    """The masks of a float model with statistics, and the numbers that they need."""

    flows: Mapping[int, _Flow]
    selects: Mapping[int, Operation]
    numbers: Mapping[int, float]
    """The constants of the model."""

    @staticmethod
    def of(module: ModuleOp) -> AttentionMasks:
        """
        Args:
            module: a model after `separate_masks`, with keys of statistics.
        """
        selects = {n: op for n, op in _marked(module) if op_name(op) in _SELECTS}
        flows = {n: flow for n, op in selects.items() if (flow := _flow(op))}
        return AttentionMasks(flows, selects, mask_numbers(module))

    @property
    def keys(self) -> Collection[str]:
        """The keys of values that masked scores reach."""
        return {
            key
            for flow in self.flows.values()
            for key in (*flow.keys, *flow.maximum_keys)
        }

    def lowest(self, ranges: Ranges, target: TargetSpec) -> Mapping[int, float]:
        """
        Return the numbers that mask all rows, by the number of the mask, without those
        lower than the constant of the model.

        Args:
            ranges: the smallest and largest values of the model, by keys.
            target: the target of its kernels.
        """
        # 16 bits if the softmax stays in floating point.
        bits = max(result_widths(target, _EXPONENTIAL, _SOFTMAX), default=16)
        found: dict[int, float] = {}
        for number, flow in self.flows.items():
            lowest = self._lowest(number, flow, ranges, bits)
            if lowest is not None and lowest > self.numbers[number]:
                found[number] = lowest
        return found

    def _lowest(
        self, number: int, flow: _Flow, ranges: Ranges, bits: int
    ) -> float | None:
        select = self.selects[number]
        index = _low_constant(select)
        assert index is not None
        others = [select.operands[3 - index], *flow.addends]
        known = [_range_of(value, ranges) for value in others]
        spans = [each for each in known if each is not None]
        if len(spans) < len(known):
            return None
        lows, highs = map(sum, zip(*spans, strict=True))
        least: float = min(
            (ranges[key].layer[0] for key in flow.maximum_keys if key in ranges),
            default=-math.inf,
        )
        if least <= self.numbers[number] / 2:
            # A row is masked as a whole, or maxima are not known.
            least = lows
        scale = 2.0 ** -(bits if bits <= 8 else bits - 1)
        masked = least - math.log(2 / scale)
        step = (max(highs, 0.0) - masked) / (2.0**bits - 1)
        return masked - _STEPS * step - (highs - spans[0][1])


def _range_of(value: SSAValue, ranges: Ranges) -> Range | None:
    """Return the range of a constant, or of a value whose statistics are known."""
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
    """Return the width of a range with 0."""
    low, high = range_
    return max(high, 0.0) - min(low, 0.0)


def warn_of_wide_constants(module: ModuleOp, ranges: Ranges) -> None:
    """
    Warn of constants that make the range of the result of a sum, or of a `select` other
    than a mask, much wider.
    """
    for op in module.walk():
        if op_name(op) in _SELECTS and _MASK not in op.attributes:
            most, (first, second) = _MUCH_WIDER, op.operands[1:3]
        elif has_quantization_trait(op, Adds, Subtracts):
            most, (first, second) = _LOST, op.operands[:2]
        else:
            continue
        for value, other in ((first, second), (second, first)):
            constant = _constant_in(value)
            if constant is None or _moved_constant(other) is not None:
                continue
            own, beside, number = (
                _range_of(each, ranges) for each in (value, other, constant.results[0])
            )
            if own is None or beside is None or number is None:
                continue
            if (
                min(range_width(own), range_width(number))
                > most * range_width(beside)
                > 0
            ):
                warn_user(
                    f"{location_prefix(op.location)}a constant widens the range of the "
                    f"result of '{op_name(op)}': {max(own, key=abs):g} beside values from "
                    f"{beside[0]:g} to {beside[1]:g}; use a number nearer to them"
                )


def refuse_infinite_constants(module: ModuleOp, reason: str) -> None:
    """
    Refuse the constant that makes a value infinite.

    Args:
        module: a float model with keys of statistics.
        reason: names the key of the value.

    Raises:
        ValueError: if an operand of the op that computes it is an infinite constant.
    """
    for ref in module.walk():
        if (
            not isinstance(ref, StatisticsRefOp)
            or f"'{ref.stats_key.data}'" not in reason
            or not isinstance(op := ref.input.owner, Operation)
        ):
            continue
        for operand in op.operands:
            # Without ranges, that of constants alone is known.
            if (known := _range_of(operand, {})) is not None and np.isinf(known).any():
                raise ValueError(
                    f"{location_prefix(op.location)}a constant widens the range of the "
                    f"result of '{op_name(op)}': {max(known, key=abs):g}; use a finite "
                    "number near the other values"
                ) from None
