"""
Convert statistics to types: `quant.stats` becomes a `quant.qcast` to a calibrated type and
a `quant.dcast` back.

Casts are valid everywhere and match the form of fake quantization, so later passes only
replace the calibrated type by a uniform one. Range attributes would get lost when ops
are rewritten, and arith or linalg ops do not accept calibrated types.

A calibrated type has a single range. Per-axis ranges are in the attributes `quant.axis` and
`quant.axis_stats` of the `quant.qcast`, for `quant-calibrated-to-uniform`.

Values with the same `quant.coupled_ref` key get the union of their ranges, even those
without statistics. Statistics ops before or after a `quant.coupled_ref` belong to its
value. The `quant.coupled_ref`s of a key stay if none of its values has statistics. An
error leaves the module unchanged.
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

from .ranges.fake_quantization import cast_pair
from .ranges.value_ranges import ValueRanges, recorded_ranges

IdentityOp = StatisticsOp | StatisticsRefOp | CoupledRefOp


def check_real_values(op: IdentityOp) -> None:
    """Raise `PassFailedException` if the values of an op are not float."""
    if not isinstance(scalar_or_element_type(op.input.type), AnyFloat):
        found = f"'{op.input.type}' is neither a float nor a tensor of floats"
        refuse(op, "cannot be converted", found)


def _replace_statistics(op: IdentityOp, ranges: ValueRanges) -> None:
    """Replace an op by a cast to the calibrated type of its ranges, and a cast back."""
    expressed_type = scalar_or_element_type(op.input.type)
    assert isinstance(expressed_type, AnyFloat)
    calibrated = ranges.calibrated_type(expressed_type)
    quantize, dequantize = cast_pair(
        op.input, with_element_type(op.input.type, calibrated), op.location
    )
    quantize.attributes |= ranges.axis_attributes()
    Rewriter.replace_op(op, (quantize, dequantize))


def _groups(ops: Sequence[IdentityOp]) -> dict[IdentityOp, object]:
    """Map each op on a coupled value to a representative of the coupled values."""
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
    """Map each changed op to the ranges of its casts, or to `None` to erase the op."""
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
            # The op stays. Its operand has casts, so its result needs none.
            is_cast.update([op.result] * was_cast)
        elif was_cast or ranges is not None:
            is_cast.add(op.result)
            replacements[op] = ranges
    return replacements


@dataclass(frozen=True)
class QuantStatsToCalibratedPass(CountingPass):
    """
    Replace `quant.stats` by casts to calibrated types and back; coupled values share a
    range.
    """

    name = "quant-stats-to-calibrated"

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        identities = [inner for inner in op.walk() if isinstance(inner, IdentityOp)]
        replacements = _replacements(identities)
        for old_op in replacements:
            check_real_values(old_op)
        for old_op, ranges in replacements.items():
            if ranges is None:
                Rewriter.replace_op(old_op, (), (old_op.input,))
            else:
                _replace_statistics(old_op, ranges)
        return PassOutcome(identities, len(replacements), "a 'quant.stats'")
