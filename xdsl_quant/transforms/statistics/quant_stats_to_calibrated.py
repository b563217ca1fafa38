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

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    ModuleOp,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.disjoint_set import DisjointSet

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant import (
    CalibratedQuantizedType,
    CoupledRefOp,
    StatisticsOp,
    StatisticsRefOp,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type

from .ranges.fake_quantization import AXIS, AXIS_STATS, quantized_and_back
from .ranges.float_constants import float_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

IdentityOp = StatisticsOp | StatisticsRefOp | CoupledRefOp


class _Ranges(NamedTuple):
    """The ranges of a value, as arrays of pairs."""

    layer: NDArray[Any]
    """Shape `(1, 2)`."""

    axis: int | None = None
    """The dimension with a range for each index."""

    axis_ranges: NDArray[Any] | None = None
    """Shape `(n, 2)`."""

    def union(self, other: _Ranges) -> _Ranges:
        """Ranges that contain those of both; without those of an axis that only one has."""
        layer = _union(self.layer, other.layer)
        a, b = self.axis_ranges, other.axis_ranges
        if a is None or b is None or self.axis != other.axis or a.shape != b.shape:
            return _Ranges(layer)
        return _Ranges(layer, self.axis, _union(a, b))


def _union(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    return np.where([True, False], np.minimum(one, other), np.maximum(one, other))


def _pairs(attr: DenseIntOrFPElementsAttr) -> NDArray[Any]:
    """The ranges of an attribute, which must be finite and not reversed."""
    import numpy as np

    pairs = np.asarray(float_numbers(attr), np.float64).reshape(-1, 2)
    # Comparisons with NaN are false.
    is_range = (pairs[:, 0] <= pairs[:, 1]) & np.isfinite(pairs).all(axis=1)
    if not is_range.all():
        low, high = pairs[int(np.argmin(is_range))].tolist()
        reason = "reversed" if low > high else "not finite"
        raise ValueError(f"range {low} to {high} is {reason}")
    return pairs


def _ranges(op: StatisticsOp) -> _Ranges:
    """
    The ranges of an op.

    Raises:
        ValueError: if one is NaN, infinite or reversed, or NumPy has no such floats.
        ImportError: if their type needs a package that is not installed.
    """
    layer = _pairs(op.layer_stats)
    if op.axis_stats is None or op.axis is None:
        return _Ranges(layer)
    pairs, axis = _pairs(op.axis_stats), op.axis.value.data
    size = cast("TensorType[AnyFloat]", op.input.type).get_shape()[axis]
    if size == DYNAMIC_INDEX:
        return _Ranges(layer, axis, pairs)
    # There may be one for each element of the slices from the axis on.
    slices = pairs.reshape(size, -1, 2)
    return _Ranges(layer, axis, _union(slices.min(axis=1), slices.max(axis=1)))


def _check_type(op: IdentityOp) -> None:
    if not isinstance(scalar_or_element_type(op.input.type), AnyFloat):
        fail(
            op,
            f"'{op.name}' op cannot be converted: '{op.input.type}' is neither a float "
            "nor a tensor of floats",
        )


def _replace(op: IdentityOp, ranges: _Ranges) -> None:
    """Replace an op by a cast to the type for the ranges, and the cast back."""
    expressed_type = scalar_or_element_type(op.input.type)
    assert isinstance(expressed_type, AnyFloat)
    low, high = ranges.layer[0].tolist()
    if low == high:
        # A type has no range without width. A quantized type covers 0 anyway.
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        # All values are 0, which every quantized type has.
        high = 1.0
    calibrated = CalibratedQuantizedType(expressed_type, low, high)
    quantize, dequantize = quantized_and_back(
        op.input, with_element_type(op.input.type, calibrated), op.location
    )
    if (stats := ranges.axis_ranges) is not None and ranges.axis is not None:
        quantize.attributes[AXIS] = IntegerAttr(ranges.axis, i64)
        quantize.attributes[AXIS_STATS] = DenseIntOrFPElementsAttr(
            TensorType(f64, stats.shape), BytesAttr(stats.tobytes())
        )
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


def _replacements(ops: Sequence[IdentityOp]) -> dict[IdentityOp, _Ranges | None]:
    """
    The ranges for which an op becomes casts, or `None` if it becomes its operand, which
    has been cast for them before.
    """
    groups = _groups(ops)
    common: dict[object, _Ranges] = {}
    for op in ops:
        if not isinstance(op, StatisticsOp):
            continue
        try:
            ranges = _ranges(op)
        except (ValueError, ImportError) as e:
            fail(op, f"'{op.name}' op cannot be converted: {e}")
        group = groups.get(op, op)
        common[group] = common.get(group, ranges).union(ranges)

    replacements: dict[IdentityOp, _Ranges | None] = {}
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
class QuantStatsToCalibratedPass(ModulePass):
    """
    Replace each `quant.stats` by a cast to a calibrated type and the cast back, and give
    values that are coupled a common range.
    """

    name = "quant-stats-to-calibrated"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        replacements = _replacements(
            [inner_op for inner_op in op.walk() if isinstance(inner_op, IdentityOp)]
        )
        for old_op in replacements:
            _check_type(old_op)
        for old_op, ranges in replacements.items():
            if ranges is None:
                Rewriter.replace_op(old_op, (), (old_op.input,))
            else:
                _replace(old_op, ranges)
