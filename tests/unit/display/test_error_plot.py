"""What is in the figure of `plot_error`."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    IntegerType,
    Signedness,
    bf16,
    f16,
    f32,
    i8,
    i32,
)

from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    CalibratedQuantizedType,
    QuantileType,
    StoredNumbersAttr,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.display import plot_error
from xdsl_quant.numerics import QuantizationParameters, measure_error

PER_LAYER = UniformQuantizedType(i8, f32, 0.5)


def _figure(values: Any, quantized_type: Any, **options: Any) -> Any:
    # The annotations of matplotlib are incomplete.
    return plot_error(values, quantized_type, **options)


def _bars(axes: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    (bars,) = axes.patches[:1]
    data = bars.get_data()
    return data.values, data.edges


def _normal(shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def test_per_layer():
    values = np.array([-3.0, 0.1, 0.2, 0.5, 0.75, 60.0], np.float32)
    figure = _figure(values, PER_LAYER)
    grid, error = figure.axes
    counts, edges = _bars(grid)
    # There is one bin for each stored value: -6, 0, 0, 1, 1.5 (which is in that of 2), 120.
    assert edges.tolist() == (np.arange(257) - 128.5).tolist()
    assert {int(edges[i] + 0.5): counts[i] for i in np.flatnonzero(counts)} == {
        -6: 1, 0: 2, 1: 1, 2: 1, 120: 1,
    }  # fmt: skip
    assert grid.get_xlim() == (-128.5, 127.5)
    counts, edges = _bars(error)
    # 0.75 becomes 1.0, as ties go to the even neighbour.
    assert edges[0] == -0.25
    assert edges[-1] == 0.25
    expected = np.histogram([0, -0.1, -0.2, 0, 0.25, 0], edges)[0]
    assert counts.tolist() == expected.tolist()
    assert figure.get_suptitle() == (
        "i8 for f32: SQNR 45.1 dB, largest error 0.25, saturated 0.00%"
    )


def test_titles_and_labels():
    figure = _figure(_normal((2, 8)), _per_axis([0.1, 0.2], 0))
    assert [
        (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) for axes in figure.axes
    ] == [
        (
            "values on the grid of stored values",
            "value / scale + zero point",
            "number of values",
        ),
        ("error", "dequantized value - value", "number of values"),
        ("signal-to-noise ratio of each channel", "channel", "dB"),
    ]


def test_saturated_values_are_on_another_ground():
    values = np.array([0.0, 70.0, 1000.0, -1000.0], np.float32)
    (grid, _) = _figure(values, PER_LAYER).axes
    counts, edges = _bars(grid)
    # Outliers are counted at the ends: by half of the range of stored values outside.
    assert (edges[0], edges[-1]) == (-256.5, 255.5)
    assert {int(edges[i] + 0.5): counts[i] for i in np.flatnonzero(counts)} == {
        -256: 1, 0: 1, 140: 1, 255: 1,
    }  # fmt: skip
    assert [text.get_text() for text in grid.get_legend().texts] == ["saturated"]
    assert [(span.get_x(), span.get_width()) for span in grid.patches[1:]] == [
        (-256.5, 128.0),
        (127.5, 128.0),
    ]


def test_zero_point_shifts_values():
    quantized_type = UniformQuantizedType(i8, f32, 0.5, 3)
    figure = _figure(np.ones(5, np.float32), quantized_type)
    grid, _ = figure.axes
    counts, edges = _bars(grid)
    (i,) = np.flatnonzero(counts)
    assert (counts[i], edges[i], edges[i + 1]) == (5, 4.5, 5.5)
    (values,) = grid.child_axes
    assert values.get_xlabel() == "value"
    figure.draw_without_rendering()
    assert values.get_xlim() == ((-128.5 - 3) * 0.5, (127.5 - 3) * 0.5)


def test_grid_of_few_stored_values_is_drawn():
    (grid, _) = _figure(
        _normal((64,)), UniformQuantizedType(IntegerType(4), f32, 1)
    ).axes
    assert [line.get_xdata()[0] for line in grid.lines] == list(range(-8, 8))
    _, edges = _bars(grid)
    assert set(range(-8, 8)) <= {*edges.tolist(), *((edges[1:] + edges[:-1]) / 2)}


def test_bins_of_wide_storage():
    (grid, _) = _figure(_normal((64,)), UniformQuantizedType(i32, f32, 2.0**-20)).axes
    counts, edges = _bars(grid)
    assert len(counts) == 128
    assert (edges[0], edges[-1]) == (-(2.0**31) - 0.5, 2.0**31 - 0.5)
    assert counts.sum() == 64


def _drawn(axes: Any) -> list[float]:
    return [float(line.get_xdata()[0]) for line in axes.lines]


def _spans(axes: Any) -> list[tuple[float, float]]:
    """What is drawn as saturated."""
    return [
        (span.get_x(), span.get_x() + span.get_width()) for span in axes.patches[1:]
    ]


def _above(number: float) -> float:
    return float(np.nextafter(number, np.inf))


def test_grid_of_f4_has_steps_that_grow():
    values = np.array([-7, -3.6, 0, 0.3, 3, 7, 8, 100], np.float32) / 4
    quantized_type = UniformQuantizedType(Float4E2M1FNType(), f32, 0.25)
    figure = _figure(values, quantized_type)
    grid, error = figure.axes
    positive = [0.5, 1, 1.5, 2, 3, 4, 6]
    assert _drawn(grid) == [*(-x for x in reversed(positive)), 0, *positive]
    assert {line.get_ydata()[1] for line in grid.lines} == {1}
    # 7 is rounded as if there were an 8, and is the last number that becomes 6.
    counts, edges = _bars(grid)
    assert edges[0] == -7
    assert edges[-1] == pytest.approx(14)
    assert _spans(grid) == [(_above(7), edges[-1])]
    assert counts[edges[:-1] >= _above(7)].sum() == 2
    assert counts.sum() == 8
    assert grid.get_xscale() == "linear"
    (axis_of_values,) = grid.child_axes
    figure.draw_without_rendering()
    assert axis_of_values.get_xlim() == (-7 / 4, edges[-1] / 4)
    assert _bars(error)[1][-1] == 100 / 4 - 6 / 4
    assert figure.get_suptitle() == (
        "f4E2M1FN for f32: SQNR 0.6 dB, largest error 23.5, saturated 25.00%"
    )


def test_grid_of_a_float_storage_range():
    parameters = QuantizationParameters(1.0, storage="f4E2M1FN", storage_min=-1)
    grid, _ = _figure([-1.5, -1.25, 0.5, 6], parameters).axes
    assert _drawn(grid) == [-1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6]
    # -1.25 would be the middle of -1.5 and -1.
    assert [end for _, end in _spans(grid)] == [-1.25]


def test_grid_of_f8_is_logarithmic():
    values = np.array([[448, 464], [465, 2.0**-9], [-0.4, 0]], np.float32) / 2
    quantized_type = UniformQuantizedType(Float8E4M3FNType(), f32, 0.5)
    figure = _figure(values, quantized_type)
    grid, _ = figure.axes
    steps = [*range(8), *(m * 2**e for e in range(15) for m in range(8, 16)), 2**18]
    numbers = [step * 2.0**-9 for step in steps if step * 2.0**-9 <= 448]
    assert _drawn(grid) == [*(-x for x in reversed(numbers[1:])), *numbers]
    assert {line.get_ydata()[1] for line in grid.lines} == {0.05}
    assert grid.get_xscale() == "symlog"
    assert grid.get_xticks().tolist() == [-100, -1, -0.01, 0, 0.01, 1, 100]
    counts, edges = _bars(grid)
    assert edges[0] == -464
    assert [start for start, _ in _spans(grid)] == [_above(464)]
    assert counts[edges[:-1] >= _above(464)].tolist() == [1]
    assert counts.sum() == 6
    assert not grid.child_axes
    assert "largest error 8.5, saturated 16.67%" in figure.get_suptitle()


def test_grid_of_a_table():
    table = [-1.0, -0.25, 0.5, 0.125, 2.0, 0.0, 0.75, 1.0]
    ui4 = IntegerType(4, Signedness.UNSIGNED)
    quantile = QuantileType(ui4, f16, table, storage_type_min=0, storage_type_max=7)
    quantized_type = UniformQuantizedType(quantile, f32, 0.5, 3)
    # In units of stored values, with the zero point: -2, -1, 0.6, 2, 2.01.
    values = ((np.array([-2, -1, 0.6, 2, 2.01]) - 3) / 2).astype(np.float32)
    figure = _figure(values, quantized_type)
    grid, error = figure.axes
    assert _drawn(grid) == sorted(table)
    (first, low), (high, last) = _spans(grid)
    assert (low, high) == (-1, _above(2))
    # Bins have the same width outside of the grid.
    assert (first, last) == pytest.approx((-1 - 43 * 3 / 128, 2 + 3 / 128))
    counts, edges = _bars(grid)
    assert counts[edges[:-1] >= _above(2)].sum() == 1
    assert counts[edges[:-1] < -1].sum() == 1
    assert _bars(error)[1][-1] == 0.5
    assert figure.get_suptitle() == (
        "u4 index of 8 numbers for f32: SQNR 16.8 dB, largest error 0.5, saturated 40.00%"
    )
    parameters = QuantizationParameters(
        0.5, 3, storage="u4", table=table, storage_min=1, storage_max=3
    )
    grid, _ = _figure(values, parameters).axes
    assert _drawn(grid) == [-0.25, 0.125, 0.5]


def test_channels_of_float_storage():
    values = _normal((4, 3))
    quantized_type = UniformQuantizedPerAxisType(
        Float8E5M2Type(), f32, [0.5, 0.25, 2.0], quantized_dimension=1
    )
    parameters = QuantizationParameters.from_type(quantized_type)
    values[0, 0] = np.nan
    grid, _, sqnr = _figure(values, quantized_type).axes
    assert len(_drawn(grid)) == 247
    assert _bars(grid)[0].sum() == 11
    expected = np.asarray(measure_error(values, parameters, per="channel").sqnr)
    assert _bars(sqnr)[0].tolist() == [0.0, *expected[1:].tolist()]


def test_table_of_one_number():
    parameters = QuantizationParameters(1.0, storage="u1", table=[0.5, 0.5])
    grid, _ = _figure([0.5, 3e38], parameters).axes
    assert _drawn(grid) == [0.5]
    assert _bars(grid)[0].sum() == 2


def test_quotients_that_are_infinite():
    parameters = QuantizationParameters(1e-300, expressed="f64")
    grid, _ = _figure([1.0, 1e10], parameters).axes
    counts, _ = _bars(grid)
    assert (counts[-1], counts.sum()) == (2, 2)


def test_large_table_is_not_drawn():
    table = np.linspace(-1, 1, 1000)
    parameters = QuantizationParameters(1.0, storage="u10", table=table)
    grid, _ = _figure([0.1, 0.2], parameters).axes
    assert not _drawn(grid)
    counts, edges = _bars(grid)
    assert (counts.size, counts.sum()) == (128, 2)
    assert (edges[0], edges[-1]) == (-1, _above(1))


def _per_axis(scales: Any, dimension: int) -> UniformQuantizedPerAxisType:
    return UniformQuantizedPerAxisType(i8, f32, scales, quantized_dimension=dimension)


@pytest.mark.parametrize("dimension", [0, 1, 2])
@pytest.mark.parametrize("rounding_mode", ["nearest-even", "truncate"])
def test_per_axis(dimension: int, rounding_mode: Any):
    values = _normal((3, 4, 5))
    quantized_type = _per_axis(np.arange(1, 3 + dimension + 1) / 64, dimension)
    parameters = QuantizationParameters.from_type(quantized_type)
    figure = _figure(values, quantized_type, rounding_mode=rounding_mode)
    grid, error, sqnr = figure.axes
    expected = measure_error(
        values, parameters, per="channel", rounding_mode=rounding_mode
    )
    assert _bars(sqnr)[0].tolist() == np.asarray(expected.sqnr).tolist()
    assert _bars(sqnr)[1].tolist() == [i - 0.5 for i in range(3 + dimension + 1)]
    assert _bars(error)[1][-1] == np.max(expected.max_absolute)
    counts, edges = _bars(grid)
    positions = np.moveaxis(values, dimension, -1) / (np.arange(1, 4 + dimension) / 64)
    assert counts.tolist() == np.histogram(positions.ravel(), edges)[0].tolist()
    assert not grid.child_axes


def test_sub_channel():
    values = _normal((4, 6, 5))
    scales = np.arange(1, 7).reshape(2, 3, 1) / 64
    quantized_type = UniformQuantizedSubChannelType(
        i8, f32, scales, quantized_dimensions=[0, 1], block_sizes=[2, 2]
    )
    parameters = QuantizationParameters.from_type(quantized_type)
    grid, _, sqnr, colors = _figure(values, quantized_type).axes
    expected = np.asarray(measure_error(values, parameters, per="block").sqnr)
    (image,) = sqnr.images
    assert image.get_array().tolist() == expected.squeeze().tolist()
    assert sqnr.get_xlabel() == "block along dimension 1"
    assert sqnr.get_ylabel() == "block along dimension 0"
    assert colors.get_ylabel() == "dB"
    counts, edges = _bars(grid)
    positions = values / scales.repeat(2, 0).repeat(2, 1)
    assert counts.tolist() == np.histogram(positions.ravel(), edges)[0].tolist()


def test_blocks_along_one_dimension_are_bars():
    values = _normal((1, 6))
    quantized_type = UniformQuantizedSubChannelType(
        i8, f32, [[0.5, 0.25, 0.125]], quantized_dimensions=[1], block_sizes=[2]
    )
    parameters = QuantizationParameters.from_type(quantized_type)
    sqnr = _figure(values, quantized_type).axes[2]
    expected = np.asarray(measure_error(values, parameters, per="block").sqnr)
    assert _bars(sqnr)[0].tolist() == expected.ravel().tolist()
    assert sqnr.get_title() == "signal-to-noise ratio of each block"


def test_many_channels_are_points():
    values = _normal((4, 2000))
    quantized_type = _per_axis(np.full(2000, 1 / 64), 1)
    parameters = QuantizationParameters.from_type(quantized_type)
    sqnr = _figure(values, quantized_type).axes[2]
    expected = np.asarray(measure_error(values, parameters, per="channel").sqnr)
    (points,) = sqnr.lines
    assert points.get_ydata().tolist() == expected.tolist()


def test_channels_without_error_are_marked():
    values = np.array([[0.3, 0.4], [0.5, 1.0], [2.5, -3.0]], np.float32)
    sqnr = _figure(values, _per_axis([0.5, 0.5, 0.5], 0)).axes[2]
    (marks,) = sqnr.lines
    assert marks.get_xdata().tolist() == [1, 2]
    assert [text.get_text() for text in sqnr.get_legend().texts] == ["no error"]


def test_no_channel_has_an_error():
    values = np.array([[0.5, 1.0], [2.5, -3.0]], np.float32)
    panel = _figure(values, _per_axis([0.5, 0.5], 0)).axes[2]
    assert [text.get_text() for text in panel.texts] == ["no error in any channel"]
    assert not panel.lines
    assert not panel.patches
    assert panel.get_ylabel() == ""
    assert [*panel.get_xticks(), *panel.get_yticks()] == []


def test_no_block_has_an_error():
    quantized_type = UniformQuantizedSubChannelType(
        i8, f32, np.ones((2, 2)), quantized_dimensions=[0, 1], block_sizes=[2, 2]
    )
    axes = _figure(np.ones((4, 4), np.float32), quantized_type).axes
    assert len(axes) == 3
    assert [text.get_text() for text in axes[2].texts] == ["no error in any block"]


@pytest.mark.parametrize("constant", [0.0, 0.5, 0.3])
def test_constants(constant: float):
    grid, error = _figure(np.full((2, 3), constant, np.float32), PER_LAYER).axes
    assert _bars(grid)[0].sum() == 6
    assert _bars(error)[0].sum() == 6


def test_values_that_are_not_finite_are_left_out():
    values = _normal((2, 100))
    values[0, :3] = np.nan, np.inf, -np.inf
    figure = _figure(values, _per_axis([0.5, 0.5], 0))
    assert _bars(figure.axes[0])[0].sum() == _bars(figure.axes[1])[0].sum() == 197
    assert figure.get_suptitle().endswith("; 3 values left out: NaN or infinite")


def test_title_is_about_finite_values():
    values = np.array([[0.1, 0.75, 3.0], [np.nan, 90.0, 0.2], [0.4, np.inf, -np.inf]])
    finite = np.array([0.1, 0.75, 3.0, 90.0, 0.2, 0.4], np.float32)
    note = "; 3 values left out: NaN or infinite"
    layer = _figure(values.astype(np.float32), PER_LAYER).get_suptitle()
    assert layer == _figure(finite, PER_LAYER).get_suptitle() + note
    # Values have the scales that they had.
    values = values.T.astype(np.float32)
    channels = _figure(values, _per_axis([0.5, 0.25, 2.0], 1)).get_suptitle()
    scales = [0.5, 0.5, 0.5, 0.25, 0.25, 2.0]
    assert channels == _figure(finite, _per_axis(scales, 0)).get_suptitle() + note
    assert "nan" not in channels
    assert "saturated 16.67%" in channels


@pytest.mark.parametrize("values", [[], [np.nan, np.inf]])
def test_nothing_to_plot(values: list[float]):
    with pytest.raises(ValueError, match="nothing to plot: no value is finite"):
        plot_error(values, PER_LAYER)


def test_dtype_of_another_type():
    with pytest.raises(TypeError, match="with dtype float32, found float64"):
        plot_error(np.ones(3), PER_LAYER)


def test_bf16():
    quantized_type = UniformQuantizedType(i8, bf16, 0.5)
    figure = _figure([0.125, 2.0, 1.0], quantized_type)
    assert figure.get_suptitle().startswith("i8 for bf16: SQNR 25.1 dB, ")
    assert _bars(figure.axes[0])[0].sum() == 3


def test_compact_scales_of_unranked_tensors():
    values = _normal((4, 5, 6))
    quantized_type = UniformQuantizedSubChannelType(
        i8,
        f32,
        np.arange(1, 7).reshape(2, 3) / 64,
        quantized_dimensions=[0, 2],
        block_sizes=[2, 2],
    )
    grid, _, sqnr, _ = _figure(values, quantized_type).axes
    assert sqnr.get_xlabel() == "block along dimension 2"
    assert sqnr.get_ylabel() == "block along dimension 0"
    counts, edges = _bars(grid)
    scales = np.arange(1, 7).reshape(2, 1, 3) / 64
    positions = values / scales.repeat(2, 0).repeat(2, 2)
    assert counts.tolist() == np.histogram(positions.ravel(), edges)[0].tolist()


def test_type_without_scales():
    with pytest.raises(ValueError, match="uniform"):
        plot_error([1.0], CalibratedQuantizedType(f32, -1.0, 1.0))


def _block_scaled(
    storage: Any, scales: Any, sizes: dict[int, int], **options: Any
) -> BlockScaledQuantizedType:
    """A type with numbers of blocks as f32."""
    numbers: dict[str, Any] = {
        name: StoredNumbersAttr.from_array(np.asarray(array, np.float32), f32)
        for name, array in {"scales": scales, **options}.items()
    }
    return BlockScaledQuantizedType(
        storage, f32, numbers.pop("scales"), block_sizes=sizes, **numbers
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("storage", [i8, Float4E2M1FNType()])
@pytest.mark.parametrize("zero_point", [0, 3])
def test_block_scaled_type_is_shown_like_a_sub_channel_type(
    storage: Any, zero_point: int
):
    values = _normal((4, 6))
    values[1, 2] = np.nan
    scales = np.arange(1, 7).reshape(2, 3) / 8
    zero_points = np.full(scales.shape, zero_point)
    sub_channel = UniformQuantizedSubChannelType(
        storage,
        f32,
        scales,
        zero_points,
        quantized_dimensions=[0, 1],
        block_sizes=[2, 2],
    )
    block_scaled = _block_scaled(storage, scales, {0: 2, 1: 2}, zero_points=zero_points)
    figure, other = _figure(values, block_scaled), _figure(values, sub_channel)
    assert figure.get_suptitle() == other.get_suptitle()
    for axes, expected in zip(figure.axes[:2], other.axes[:2], strict=True):
        assert _bars(axes)[0].tolist() == _bars(expected)[0].tolist()
        assert _bars(axes)[1].tolist() == _bars(expected)[1].tolist()
    assert _drawn(figure.axes[0]) == _drawn(other.axes[0])
    images = [each.axes[2].images[0].get_array() for each in (figure, other)]
    # Sums of squares are in another order.
    np.testing.assert_allclose(*images, rtol=1e-14)


def test_blocks_with_offsets_of_which_the_last_is_shorter():
    values = np.array([[8, 9, 10, 14.5, 1, 0.5, 0.25]], np.float32)
    quantized_type = _block_scaled(
        IntegerType(4), [1, 0.5, 0], {1: 3}, offsets=[8, 0, 0.25]
    )
    figure = _figure(values, quantized_type)
    grid, error, sqnr = figure.axes
    counts, edges = _bars(grid)
    positions = [0, 1, 2, 29, 2, 1, 0]
    expected = np.histogram(np.clip(positions, edges[0], edges[-1]), edges)[0]
    assert counts.tolist() == expected.tolist()
    assert [start for start, _ in _spans(grid)] == [7.5]
    assert grid.get_xlabel() == "(value - offset) / scale + zero point"
    # 14.5 is stored as 7.
    assert _bars(error)[1][0] == 3.5 - 14.5
    found, edges = _bars(sqnr)
    noise = 10 * np.log10((14.5**2 + 1 + 0.25) / 11**2)
    assert found.tolist() == [0, pytest.approx(noise), 0]
    assert edges.tolist() == [-0.5, 0.5, 1.5, 2.5]
    assert [text.get_text() for text in sqnr.get_legend().texts] == ["no error"]
    assert figure.get_suptitle() == (
        "i4 for f32: SQNR 5.8 dB, largest error 11, saturated 14.29%"
    )


def _with_powers(codes: list[int]) -> BlockScaledQuantizedType:
    """A type whose scales are powers of two, and NaN for 255."""
    scales = StoredNumbersAttr.from_array(
        np.array(codes, np.uint8), Float8E8M0FNUType()
    )
    return BlockScaledQuantizedType(Float4E2M1FNType(), f32, scales, block_sizes={0: 2})


def test_block_of_nan():
    figure = _figure([1, 7.5, 1, 2], _with_powers([127, 255]))
    assert _bars(figure.axes[0])[0].sum() == _bars(figure.axes[1])[0].sum() == 2
    assert figure.get_suptitle() == (
        "f4E2M1FN for f32: SQNR nan dB, largest error nan, saturated 25.00%"
    )
    assert [text.get_text() for text in figure.axes[2].get_legend().texts] == [
        "not a number"
    ]
    with pytest.raises(ValueError, match="nothing to plot: all block scales are NaN"):
        plot_error([1.0, 2.0], _with_powers([255]))


def test_block_scaled_rounding():
    quantized_type = _block_scaled(i8, [0.5], {0: 2}, zero_points=[3])
    title = _figure(
        [-0.25, 0], quantized_type, zero_point_order="after-rounding"
    ).get_suptitle()
    assert title.endswith("SQNR 0.0 dB, largest error 0.25, saturated 0.00%")
    with pytest.raises(TypeError, match="with dtype float32, found float64"):
        plot_error(np.ones(2), quantized_type)
    with pytest.raises(ValueError, match="1 blocks of size 2"):
        plot_error([1.0] * 3, quantized_type)


def test_parameters_instead_of_a_type():
    values = _normal((8,))
    parameters = QuantizationParameters.from_type(PER_LAYER)
    figure, other = _figure(values, parameters), _figure(values, PER_LAYER)
    assert figure.get_suptitle() == other.get_suptitle()


def test_scalar():
    assert _bars(_figure(3.3, PER_LAYER).axes[0])[0].sum() == 1


def test_notebook_shows_the_figure_once():
    formatter: Any = DisplayFormatter()
    data, _ = formatter.format(plot_error([1.0], PER_LAYER))
    assert set(data) == {"text/plain", "image/png"}
    assert data["image/png"].startswith(b"\x89PNG")


_NO_PYPLOT = """
import sys
from xdsl.dialects.builtin import f32, i8
from xdsl_quant.dialects.quant import UniformQuantizedType
import xdsl_quant.display
print("matplotlib" in sys.modules)
xdsl_quant.display.plot_error([1.0], UniformQuantizedType(i8, f32, 0.5))._repr_png_()
print("matplotlib.pyplot" in sys.modules)
"""


@pytest.mark.sampled(0)
def test_matplotlib_is_imported_when_needed_and_pyplot_never():
    command = [sys.executable, "-c", _NO_PYPLOT]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "False\nFalse\n"


def test_missing_matplotlib(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "xdsl_quant.display.error_figure", raising=False)
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError) as e:
        plot_error([1.0], PER_LAYER)
    assert str(e.value) == (
        "plot_error needs matplotlib, which is not installed; run pip install "
        "'.[notebook]' in a checkout of xdsl-quant"
    )
