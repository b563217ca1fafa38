"""From statistics to calibrated types: ranges are covered, coupled values are alike."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.dialects.quant import (
    CalibratedQuantizedType,
    CoupledRefOp,
    QuantizeCastOp,
    QuantizedType,
    StatisticsOp,
    StatisticsRefOp,
)
from xdsl_quant.transforms.statistics.quant_stats_to_calibrated import (
    QuantStatsToCalibratedPass,
)
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

Range = tuple[float, float]

TENSOR = TensorType(f32, (4,))


def test_registered():
    name = QuantStatsToCalibratedPass.name
    assert name == "quant-stats-to-calibrated"
    assert XDSL_QUANT_UNIVERSE.all_passes[name]() is QuantStatsToCalibratedPass


def calibrated(module: ModuleOp) -> list[Range]:
    """The ranges of the types after the pass, of all casts in order."""
    QuantStatsToCalibratedPass().apply(Context(), module)
    module.verify()
    return [range_of(op) for op in module.walk() if isinstance(op, QuantizeCastOp)]


def range_of(op: QuantizeCastOp) -> Range:
    type_ = QuantizedType.get_quantized_element_type(op.result.type)
    assert isinstance(type_, CalibratedQuantizedType)
    return type_.min.data, type_.max.data


bounds = st.floats(-(2.0**99), 2.0**99, width=32)


def ordered(pair: Range) -> Range:
    return min(pair), max(pair)


ranges = st.tuples(bounds, bounds).map(ordered)


@settings(deadline=None)
@given(range_=ranges)
def test_a_calibrated_type_contains_its_range(range_: Range):
    source = test.TestOp(result_types=[TENSOR])
    stats = StatisticsOp(source.res[0], range_)
    [found] = calibrated(ModuleOp([source, stats]))
    low, high = range_
    if low < high:
        assert found == range_
    elif low == high == 0.0:
        assert found == (0.0, 1.0)
    else:
        assert found == (min(low, 0.0), max(high, 0.0))


# Couplings, compared with the definition: values are nodes of a graph.


@st.composite
def coupled_modules(draw: st.DrawFn) -> tuple[ModuleOp, list[tuple[int, Range | str]]]:
    """
    A module with chains of identities, and what each of these ops says: the number of the
    chain and a range or a key.
    """
    ops: list[Operation] = []
    said: list[tuple[int, Range | str]] = []
    for chain in range(draw(st.integers(1, 5))):
        source = test.TestOp(result_types=[TENSOR])
        ops.append(source)
        values = [source.res[0]]
        for _ in range(draw(st.integers(0, 4))):
            value = draw(st.sampled_from(values))
            match draw(st.sampled_from(("stats", "stats_ref", "coupled_ref"))):
                case "stats":
                    range_ = draw(ranges)
                    op = StatisticsOp(value, range_)
                    said.append((chain, range_))
                case "stats_ref":
                    op = StatisticsRefOp(value, "key")
                case _:
                    key = draw(st.sampled_from("abc"))
                    op = CoupledRefOp(value, key)
                    said.append((chain, key))
            ops.append(op)
            values.append(op.result)
    return ModuleOp(ops), said


def groups_of(said: list[tuple[int, Range | str]]) -> list[set[int]]:
    """Chains that are coupled, directly or by way of others."""
    groups = [{chain} for chain in {chain for chain, _ in said}]
    keys = [(chain, key) for chain, key in said if isinstance(key, str)]
    for key in "abc":
        for one, other in pairwise([chain for chain, k in keys if k == key]):
            joined = [group for group in groups if one in group or other in group]
            groups = [group for group in groups if group not in joined]
            groups.append(set[int]().union(*joined))
    return groups


@settings(deadline=None)
@given(example=coupled_modules())
def test_coupled_values_have_the_union_of_their_ranges(
    example: tuple[ModuleOp, list[tuple[int, Range | str]]],
):
    module, said = example
    coupled = {chain for chain, what in said if isinstance(what, str)}
    expected: dict[int, Range] = {}
    for group in groups_of(said):
        known = [r for chain, r in said if chain in group and not isinstance(r, str)]
        if known and group & coupled:
            low, high = min(r[0] for r in known), max(r[1] for r in known)
            if low == high:
                low, high = min(low, 0.0), max(high, 0.0) or float(low == 0.0)
            expected |= dict.fromkeys(group, (low, high))

    QuantStatsToCalibratedPass().apply(Context(), module)
    module.verify()

    chain = -1
    seen: dict[int, set[Range]] = {}
    left: set[int] = set()
    for op in module.walk():
        if isinstance(op, test.TestOp):
            chain += 1
        elif isinstance(op, CoupledRefOp):
            left.add(chain)
        elif isinstance(op, QuantizeCastOp):
            seen.setdefault(chain, set()).add(range_of(op))
    assert {c: r for c, r in seen.items() if c in coupled} == {
        c: {r} for c, r in expected.items()
    }
    # A coupled value that nothing is known of stays as it is.
    assert left == coupled - expected.keys()


def test_nothing_changes_if_one_of_many_fails():
    source = test.TestOp(result_types=[TENSOR])
    good = StatisticsOp(source.res[0], (0.0, 1.0))
    bad = StatisticsOp(source.res[0], (0.0, math.nan))
    module = ModuleOp([source, good, bad])
    before = str(module)
    with pytest.raises(PassFailedException) as error:
        QuantStatsToCalibratedPass().apply(Context(), module)
    assert str(module) == before
    assert str(error.value) == (
        "'quant.stats' op cannot be converted: range 0.0 to nan is not finite"
    )
