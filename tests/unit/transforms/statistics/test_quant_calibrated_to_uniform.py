"""From ranges to uniform types: what a type must hold, it holds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import ModuleOp, TensorType, f16, f32, f64
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.dialects.quant import QuantizeCastOp, QuantizedType, StatisticsOp
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.transforms.statistics.quant_calibrated_to_uniform import (
    QuantCalibratedToUniformPass,
)
from xdsl_quant.transforms.statistics.quant_stats_to_calibrated import (
    QuantStatsToCalibratedPass,
)
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

Range = tuple[float, float]

TENSOR = TensorType(f32, (4,))


def test_registered():
    name = QuantCalibratedToUniformPass.name
    assert name == "quant-calibrated-to-uniform"
    assert XDSL_QUANT_UNIVERSE.all_passes[name]() is QuantCalibratedToUniformPass


def ordered(pair: Range) -> Range:
    return min(pair), max(pair)


def uniform(module: ModuleOp, **options: Any) -> list[QuantizedType]:
    """The types of all casts in order."""
    QuantStatsToCalibratedPass().apply(Context(), module)
    replace(QuantCalibratedToUniformPass(), **options).apply(Context(), module)
    module.verify()
    casts = [op for op in module.walk() if isinstance(op, QuantizeCastOp)]
    types = [QuantizedType.get_quantized_element_type(op.result.type) for op in casts]
    return [type_ for type_ in types if type_ is not None]


@settings(deadline=None)
@given(
    range_=st.tuples(*[st.floats(-1e6, 1e6, width=32)] * 2).map(ordered),
    bits=st.integers(3, 16),
    signed=st.booleans(),
    symmetric=st.booleans(),
    narrow_range=st.booleans(),
)
def test_a_value_in_range_is_off_by_one_step_at_most(
    range_: Range, bits: int, signed: bool, symmetric: bool, narrow_range: bool
):
    source = test.TestOp(result_types=[TENSOR])
    [type_] = uniform(
        ModuleOp([source, StatisticsOp(source.res[0], range_)]),
        bits=bits,
        signed=signed,
        symmetric=symmetric,
        narrow_range=narrow_range,
    )
    parameters = QuantizationParameters.from_type(type_)
    assert parameters.storage == f"{'i' if signed else 'u'}{bits}"
    assert parameters.storage_max - parameters.storage_min == 2**bits - 1 - narrow_range
    values = np.linspace(*range_, 9, dtype=np.float32)
    again = dequantize(quantize(values, parameters), parameters)
    step = float(parameters.scales)
    assert np.abs(again - values).max() <= step * (1 + 1e-3)
    zero = np.zeros(1, np.float32)
    assert dequantize(quantize(zero, parameters), parameters)[0] == 0.0


def test_ranges_of_an_axis_become_scales():
    source = test.TestOp(result_types=[TensorType(f32, (2, 3))])
    axis_stats = [(0.0, 255.0), (0.0, 510.0), (127.5, 1020.0)]
    stats = StatisticsOp(source.res[0], (0.0, 1020.0), axis_stats, 1)
    [type_] = uniform(ModuleOp([source, stats]), signed=False)
    parameters = QuantizationParameters.from_type(type_)
    assert parameters.quantized_dimension == 1
    assert parameters.scales.tolist() == [1.0, 2.0, 4.0]
    assert parameters.zero_points.tolist() == [0, 0, 0]


def test_ranges_of_slices_become_those_of_their_index():
    source = test.TestOp(result_types=[TensorType(f32, (2, 3))])
    axis_stats = [
        (0.0, 1.0),
        (-1.0, 0.0),
        (0.0, 0.5),
        (0.0, 2.0),
        (1.0, 4.0),
        (0.0, 3.0),
    ]
    stats = StatisticsOp(source.res[0], (-1.0, 4.0), axis_stats, 0)
    [type_] = uniform(ModuleOp([source, stats]), signed=False, bits=8)
    parameters = QuantizationParameters.from_type(type_)
    assert parameters.quantized_dimension == 0
    assert parameters.scales.tolist() == [2 / 255, 4 / 255]


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("ends", [(-1e-7, 0.0), (0.0, 1e-7), (-1e-9, 1e-9)])
def test_scale_is_as_small_as_the_expressed_type_has(
    ends: Range, symmetric: bool, bits: int
):
    """A channel that is nearly always 0 has a type, too."""
    source = test.TestOp(result_types=[TensorType(f16, (2,)), f16])
    stats = StatisticsOp(source.res[0], (-1.0, 1.0), [ends, (-1.0, 1.0)], 0)
    module = ModuleOp([source, stats, StatisticsOp(source.res[1], ends)])
    smallest = 2.0**-24
    for type_ in uniform(module, bits=bits, symmetric=symmetric):
        scales = QuantizationParameters.from_type(type_).scales.reshape(-1)
        assert smallest <= scales[0] <= 3 * smallest


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("end", [1e-17, 3e-30, 2e-43, 3e-45])
def test_narrow_ranges_keep_their_values(end: float, symmetric: bool):
    source = test.TestOp(result_types=[TensorType(f32, (2, 4))])
    axis_stats = [(-end, end), (-1.0, 1.0)]
    stats = StatisticsOp(source.res[0], (-end, end), axis_stats, 0)
    (per_axis,) = uniform(ModuleOp([source, stats]), symmetric=symmetric)
    source = test.TestOp(result_types=[f32])
    stats = StatisticsOp(source.res[0], (-end, end))
    (per_layer,) = uniform(ModuleOp([source, stats]), symmetric=symmetric)
    values = np.linspace(-end, end, 4, dtype=np.float32)
    rows = np.stack((values, values))
    parameters = QuantizationParameters.from_type(per_axis)
    returned = dequantize(quantize(rows, parameters), parameters)[0]
    parameters = QuantizationParameters.from_type(per_layer)
    smallest = 2.0**-149
    limit = 0.51 * max(2 * end / 254, smallest)
    for again in (returned, dequantize(quantize(values, parameters), parameters)):
        assert np.abs(again - values).max() <= limit


@pytest.mark.parametrize("bits", [3, 8])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("narrow_range", [False, True])
def test_denormal_scales_cut_nothing_off(
    bits: int, signed: bool, symmetric: bool, narrow_range: bool
):
    """Those of f16, which are multiples of `2**-24` below `2**-14`."""
    ends = np.geomspace(2.0**-24, 2.0**-4, 100).astype(np.float16).astype(float)
    source = test.TestOp(result_types=[TensorType(f16, (len(ends), 3))])
    axis_stats = [(-end / 4, end) for end in ends.tolist()]
    stats = StatisticsOp(source.res[0], (-1.0, 1.0), axis_stats, 0)
    [type_] = uniform(
        ModuleOp([source, stats]),
        bits=bits,
        signed=signed,
        symmetric=symmetric,
        narrow_range=narrow_range,
    )
    parameters = QuantizationParameters.from_type(type_)
    values = np.stack((-ends / 4, 0 * ends, ends), axis=1).astype(np.float16)
    again = dequantize(quantize(values, parameters), parameters)
    steps = (
        np.abs(again.astype(float) - values.astype(float)) / parameters.scales[:, None]
    )
    # Rounding the zero point may move the range by half a step.
    assert steps.max() <= (0.6 if symmetric else 1.1)
    if symmetric:
        scales = ends / (parameters.storage_max - parameters.zero_points)
    else:
        scales = 1.25 * ends / (parameters.storage_max - parameters.storage_min)
    expected = np.ceil(scales / 2.0**-24) * 2.0**-24
    is_denormal = expected < 2.0**-14
    assert 50 < np.count_nonzero(is_denormal) < 100
    assert (parameters.scales == expected)[is_denormal].all()
    assert np.isclose(parameters.scales, scales, rtol=1e-12)[~is_denormal].all()


def test_wide_ranges_are_as_they_were():
    source = test.TestOp(result_types=[f64])
    stats = StatisticsOp(source.res[0], (0.0, 3e38))
    [type_] = uniform(ModuleOp([source, stats]), symmetric=True)
    scale = float(QuantizationParameters.from_type(type_).scales)
    assert scale == float(np.float32(3e38)) / 127


def test_channel_without_values():
    source = test.TestOp(result_types=[f16])
    (type_,) = uniform(ModuleOp([source, StatisticsOp(source.res[0], (0.0, 0.0))]))
    assert QuantizationParameters.from_type(type_).scales.tolist() == 1 / 255


def test_no_type_changes_if_one_of_many_fails():
    source = test.TestOp(result_types=[TENSOR, TensorType(f16, ())])
    good, bad = (StatisticsOp(value, (0.0, 1e9)) for value in source.res)
    module = ModuleOp([source, good, bad])
    QuantStatsToCalibratedPass().apply(Context(), module)
    before = str(module)
    with pytest.raises(PassFailedException, match="out of expressed type range"):
        QuantCalibratedToUniformPass().apply(Context(), module)
    assert str(module) == before
