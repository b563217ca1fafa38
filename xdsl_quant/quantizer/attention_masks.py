"""
Replacement of the constants that mask attention scores.

A `select` returns a large negative constant where the softmax result must be 0. With
this constant in their range, scores would be quantized with a very large scale. The
quantizer replaces the constant by the highest number whose softmax result still rounds
to 0 in every row: the smallest row maximum minus `ln(2 / scale)`, where `scale` is the
scale of the softmax result.
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
"""Name of the attribute that marks kernels whose results may contain masked scores."""

_MASK = "quant.mask"
"""Name of the attribute with the mask index of a masking `select` and its constant."""

_FINITE = -1e9
"""Replacement of a negative infinity, if the element type can represent it."""

_MUCH_WIDER = 8.0
"""Largest factor by which a `select` constant may widen a range without warning."""

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


# Paths to the softmax


@dataclass
class _Flow:
    """Values on the paths from a `select` to the exponential of a softmax."""

    scores: list[SSAValue]
    maxima: list[SSAValue] = field(default_factory=list[SSAValue])

    differences: list[SSAValue] = field(default_factory=list[SSAValue])

    keys: list[str] = field(default_factory=list[str])
    """Statistics keys of scores and of differences `score - row maximum`."""

    maximum_keys: list[str] = field(default_factory=list[str])
    addends: list[SSAValue] = field(default_factory=list[SSAValue])

    subtractions: list[Operation] = field(default_factory=list[Operation])
    ends_in_softmax: bool = False

    def follow_scores(self, use: Use) -> bool:
        """Record a use of scores; return `False` if it cannot be part of attention."""
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
        self.subtractions.append(use.operation)
        return has_quantization_trait(use.operation, Subtracts) and use.index == 1

    def follow_differences(self, use: Use) -> bool:
        self.ends_in_softmax |= (is_end := _is_of_softmax(use.operation))
        return is_end

    @property
    def subtracts_maxima(self) -> bool:
        """True if each subtraction subtracts a row maximum from scores."""
        return all(
            op.operands[0] in self.scores and op.operands[1] in self.maxima
            for op in self.subtractions
        )


def _flow(select: Operation) -> _Flow | None:
    """Return the values from a `select` to a softmax; `None` if they have other uses."""
    flow = _Flow([select.results[0]])
    for values, keys, follow in (
        (flow.scores, flow.keys, flow.follow_scores),
        (flow.maxima, flow.maximum_keys, flow.follow_maxima),
        (flow.differences, flow.keys, flow.follow_differences),
    ):
        # The loop also visits the values that it appends.
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
    """Return True for an exponential whose results are summed."""
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


def _moved_constant(value: SSAValue) -> Operation | None:
    """Return the constant from which data movement ops compute a value, or `None`."""
    *_, source = _moved_sources(value)
    op = source.owner
    return op if isinstance(op, Operation) and op.has_trait(ConstantLike) else None


def _constant_in(value: SSAValue) -> Operation | None:
    """Return the constant that defines a value, or a constant factor of its product."""
    *_, source = _moved_sources(value)
    op, values = source.owner, [source]
    if isinstance(op, Operation) and has_quantization_trait(op, Multiplies):
        values = [*op.operands]
    return next(filter(None, map(_moved_constant, values)), None)


def _low_constant(select: Operation) -> int | None:
    """Return the index of the operand that is a negative splat constant, if any."""
    for index in (1, 2):
        constant = _moved_constant(select.operands[index])
        if constant is None or not is_float_value(constant.results[0]):
            continue
        known = _range_of(constant.results[0], {})
        if known is not None and known[0] == known[1] < 0:
            return index
    return None


# Masks in a module


def separate_masks(module: ModuleOp) -> None:
    """
    Give each `select` that masks scores a separate, finite constant.

    Args:
        module: a float model without statistics; it changes.
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


def _number(constant: Operation) -> float:
    elements = constant_elements(constant.results[0])
    assert elements is not None
    return float(elements.reshape(-1)[0])


def _set_number(constant: Operation, number: float) -> None:
    type_ = constant.results[0].type
    element_type = scalar_or_element_type(type_)
    assert isinstance(type_, ShapedType)
    assert isinstance(element_type, AnyFloat)
    # Constants of TensorFlow Lite list all elements, even equal ones.
    numbers = np.full(type_.get_shape(), number, numpy_dtype(element_type))
    constant.properties["value"] = elements_attr(numbers, element_type)


def _marked(module: ModuleOp) -> Iterator[tuple[int, Operation]]:
    for op in module.walk():
        if isinstance(mark := op.attributes.get(_MASK), IntegerAttr):
            yield mark.value.data, op


def _mask_constants(module: ModuleOp) -> Iterator[tuple[int, Operation]]:
    return ((n, op) for n, op in _marked(module) if op.has_trait(ConstantLike))


def mask_constants(module: ModuleOp) -> Mapping[int, float]:
    """Return the value of each mask constant by mask index."""
    return {number: _number(op) for number, op in _mask_constants(module)}


def set_mask_constants(module: ModuleOp, numbers: Mapping[int, float]) -> None:
    """Set mask constants to the values in `numbers`, whose keys are mask indices."""
    for number, op in _mask_constants(module):
        if number in numbers:
            _set_number(op, numbers[number])


def remove_mask_attributes(module: ModuleOp) -> None:
    """Remove the attributes that mark masks."""
    for _, op in [*_marked(module)]:
        del op.attributes[_MASK]


def mark_masked_kernels(module: ModuleOp, keys: Collection[str]) -> None:
    """
    Mark the kernels whose results contain masked scores, and the kernels that take mask
    constants.

    Args:
        module: a model with kernels and statistics keys.
        keys: the keys of the values that contain masked scores.
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


# Mask constants


@dataclass(frozen=True)
class AttentionMasks:
    """Masks of a float model with statistics."""

    flows: Mapping[int, _Flow]
    selects: Mapping[int, Operation]
    numbers: Mapping[int, float]
    """Value of each mask constant of the model by mask index."""

    @staticmethod
    def of(module: ModuleOp) -> AttentionMasks:
        """
        Find the masks of a model.

        Args:
            module: a model after `separate_masks`, with statistics keys.
        """
        selects = {n: op for n, op in _marked(module) if op_name(op) in _SELECTS}
        flows = {n: flow for n, op in selects.items() if (flow := _flow(op))}
        return AttentionMasks(flows, selects, mask_constants(module))

    @property
    def keys(self) -> Collection[str]:
        """Keys of the values that contain masked scores."""
        return {
            key
            for flow in self.flows.values()
            for key in (*flow.keys, *flow.maximum_keys)
        }

    def lowest(self, ranges: Ranges, target: TargetSpec) -> Mapping[int, float]:
        """
        Return, by mask index, the highest constant that still masks every row. Leave
        out masks whose constant in the model is already at least as high.

        Args:
            ranges: the ranges of the values by key.
            target: the target of the kernels.
        """
        # 16 bits if the target has no softmax kernel.
        bits = max(result_widths(target, _EXPONENTIAL, _SOFTMAX), default=16)
        lowest_constants: dict[int, float] = {}
        for number, flow in self.flows.items():
            lowest = self._lowest(number, flow, ranges, bits)
            if lowest is not None and lowest > self.numbers[number]:
                lowest_constants[number] = lowest
        return lowest_constants

    def _lowest(
        self, number: int, flow: _Flow, ranges: Ranges, bits: int
    ) -> float | None:
        select = self.selects[number]
        index = _low_constant(select)
        assert index is not None
        unmasked = [select.operands[3 - index], *flow.addends]
        known = [_range_of(value, ranges) for value in unmasked]
        spans = [each for each in known if each is not None]
        if len(spans) < len(known):
            return None
        lows, highs = map(sum, zip(*spans, strict=True))
        least: float = min(
            (ranges[key].layer[0] for key in flow.maximum_keys if key in ranges),
            default=-math.inf,
        )
        if least <= self.numbers[number] / 2:
            # A row is fully masked, or the row maxima are unknown: use the lowest score.
            least = lows
        scale = 2.0 ** -(bits if bits <= 8 else bits - 1)
        masked = least - math.log(2 / scale)
        step = (max(highs, 0.0) - masked) / (2.0**bits - 1)
        return masked - _STEPS * step - (highs - spans[0][1])


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


def warn_of_wide_constants(module: ModuleOp, ranges: Ranges) -> None:
    """Warn of constants that widen the range of a sum or `select` by a large factor."""
    for op in module.walk():
        if op_name(op) in _SELECTS and _MASK not in op.attributes:
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
