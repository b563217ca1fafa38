"""
Make types of statistics: `quant.stats` becomes a `quant.qcast` to a calibrated type and the
`quant.dcast` back.

The range could also be an attribute of the op that defines the value, or the type of the
value itself. But an attribute is lost as soon as its op is rewritten, an argument has none,
and only the ops of this dialect know calibrated types: arith or linalg ops on them are
invalid. A pair of casts can stand everywhere, and is what simulated quantization looks
like anyway: later the calibrated type becomes a uniform one, and nothing else changes.

A calibrated type has one range. Those of an axis are kept in the attributes `quant.axis`
and `quant.axis_stats` of the `quant.qcast`, where `quant-calibrated-to-uniform` finds them.

Values that are coupled by the same key have one range in common, which contains all of
theirs: values that are `quant.coupled_ref`s of this key, or lead to or from one by way of
ops that are identities. A coupled value without statistics gets this range, too. It keeps
its `quant.coupled_ref` if no value of the key has statistics. All ranges are known before
the first op is replaced.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ModuleOp,
)
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.disjoint_set import DisjointSet

from xdsl_quant.diagnostics import refuse, refusing
from xdsl_quant.dialects.quant import (
    CoupledRefOp,
    StatisticsOp,
    StatisticsRefOp,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.pass_outcome import CountingPass, PassOutcome

from .ranges.fake_quantization import quantized_and_back
from .ranges.value_ranges import ValueRanges, recorded_ranges

IdentityOp = StatisticsOp | StatisticsRefOp | CoupledRefOp


def check_real_values(op: IdentityOp) -> None:
    """
    Check that the values of an op can be quantized.

    Raises:
        PassFailedException: if they are no floats.
    """
    if not isinstance(scalar_or_element_type(op.input.type), AnyFloat):
        found = f"'{op.input.type}' is neither a float nor a tensor of floats"
        refuse(op, "cannot be converted", found)


def _replace_statistics(op: IdentityOp, ranges: ValueRanges) -> None:
    """Replace an op by a cast to the type for the ranges, and the cast back."""
    expressed_type = scalar_or_element_type(op.input.type)
    assert isinstance(expressed_type, AnyFloat)
    calibrated = ranges.calibrated_type(expressed_type)
    quantize, dequantize = quantized_and_back(
        op.input, with_element_type(op.input.type, calibrated), op.location
    )
    quantize.attributes |= ranges.axis_attributes()
    Rewriter.replace_op(op, (quantize, dequantize))


def _groups(ops: Sequence[IdentityOp]) -> dict[IdentityOp, object]:
    """For each op whose value is coupled the representative of its group."""
    coupled = [op for op in ops if isinstance(op, CoupledRefOp)]
    keys = {op: op.coupled_key.data for op in coupled}
    values = [value for op in ops for value in (op.input, op.result)]
    sets = DisjointSet[SSAValue | str]([*values, *keys.values()])
    for op in ops:
        sets.union(op.input, op.result)
    for op, key in keys.items():
        sets.union(op.input, key)
    groups = {sets.find(key) for key in keys.values()}
    return {op: group for op in ops if (group := sets.find(op.input)) in groups}


def _replacements(ops: Sequence[IdentityOp]) -> dict[IdentityOp, ValueRanges | None]:
    """
    Return the ranges for which an op becomes casts, or `None` if it becomes its
    operand, which has been cast for them before.
    """
    groups = _groups(ops)
    common: dict[object, ValueRanges] = {}
    for op in ops:
        if not isinstance(op, StatisticsOp):
            continue
        with refusing(op, "cannot be converted"):
            ranges = recorded_ranges(op)
        group = groups.get(op, op)
        common[group] = common.get(group, ranges).union(ranges)

    replacements: dict[IdentityOp, ValueRanges | None] = {}
    is_cast: set[SSAValue] = set()
    for op in ops:
        was_cast = op in groups and op.input in is_cast
        ranges = None if was_cast else common.get(groups.get(op, op))
        if isinstance(op, StatisticsRefOp):
            # It stays, and its result is what its operand is.
            is_cast.update([op.result] * was_cast)
        elif was_cast or ranges is not None:
            is_cast.add(op.result)
            replacements[op] = ranges
    return replacements


@dataclass(frozen=True)
class QuantStatsToCalibratedPass(CountingPass):
    """
    Replace each `quant.stats` by a cast to a calibrated type and the cast back, and give
    values that are coupled a common range.
    """

    name = "quant-stats-to-calibrated"

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        found = [inner_op for inner_op in op.walk() if isinstance(inner_op, IdentityOp)]
        replacements = _replacements(found)
        for old_op in replacements:
            check_real_values(old_op)
        for old_op, ranges in replacements.items():
            if ranges is None:
                Rewriter.replace_op(old_op, (), (old_op.input,))
            else:
                _replace_statistics(old_op, ranges)
        return PassOutcome(found, len(replacements), "a 'quant.stats'")
