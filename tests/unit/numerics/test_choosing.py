"""Scales and zero points for ranges are those of MLIR."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdsl_quant.dialects.quant import uniform_type
from xdsl_quant.numerics import (
    QuantizationParameters,
    choose_dynamic_parameters,
    choose_parameters,
    dequantize,
    quantize,
)

Row = tuple[str, bool, float, float, str]


def _rows() -> Iterator[Row]:
    """What MLIR 14, the last version with the pass, chooses for fake quantization."""
    for line in (
        (Path(__file__).parent / "fake_quant_types.tsv").read_text().splitlines()[1:]
    ):
        bits, narrow, is_signed, low, high, quantized_type = line.split("\t")
        # MLIR makes a storage type of 8 or 16 bits of any number of bits.
        width = 8 if int(bits) <= 8 else 16
        storage = f"{'i' if is_signed == 'True' else 'u'}{width}"
        ends = np.float32(low), np.float32(high)
        yield storage, narrow == "True", float(ends[0]), float(ends[1]), quantized_type


ROWS = [*_rows()]


@pytest.mark.parametrize(
    ("storage", "narrow_range", "low", "high", "expected"), sorted({*ROWS})
)
def test_parameters_are_those_of_mlir(
    storage: str, narrow_range: bool, low: float, high: float, expected: str
):
    parameters = choose_parameters(
        low, high, storage=storage, narrow_range=narrow_range, rule="mlir"
    )
    assert str(uniform_type(parameters)) == expected


def test_there_are_rows():
    assert len(ROWS) == 163


def test_ranges_of_channels_are_chosen_one_by_one():
    chosen = [row for row in ROWS if row[:2] == ("i8", True)]
    parameters = choose_parameters(
        [row[2] for row in chosen],
        [row[3] for row in chosen],
        storage="i8",
        narrow_range=True,
        quantized_dimension=2,
        rule="mlir",
    )
    assert parameters.quantized_dimension == 2
    for row, scale, zero_point in zip(
        chosen, parameters.scales, parameters.zero_points, strict=True
    ):
        single = QuantizationParameters(
            scale, zero_point, storage_min=-127, storage_max=127
        )
        assert str(uniform_type(single)) == row[4]


@pytest.mark.parametrize(
    ("storage", "narrow_range", "scale", "zero_point", "low"),
    [
        ("i8", False, 4 / 127, 0, -128),
        ("i8", True, 4 / 127, 0, -127),
        ("u8", False, 4 / 127, 128, 0),
        ("u8", True, 4 / 127, 128, 1),
        ("i4", False, 4 / 7, 0, -8),
        ("i2", False, 4.0, 0, -2),
        # One stored value on each side is enough.
        ("i2", True, 4.0, 0, -1),
        ("u2", True, 4.0, 2, 1),
    ],
)
def test_symmetric(
    storage: str, narrow_range: bool, scale: float, zero_point: int, low: int
):
    for ends in ((-4, 1), (-1, 4), (-4, 4), (1, 4)):
        parameters = choose_parameters(
            *ends, storage=storage, narrow_range=narrow_range, symmetric=True
        )
        assert parameters.scales == scale
        assert parameters.zero_points == zero_point
        assert parameters.storage_min == low


def test_zeros():
    for symmetric, zero_point in ((False, -128), (True, 0)):
        parameters = choose_parameters(0, 0, symmetric=symmetric)
        assert (parameters.scales, parameters.zero_points) == (1, zero_point)
    parameters = choose_parameters(
        [0, -1], [0, 1], symmetric=True, quantized_dimension=0
    )
    assert parameters.scales.tolist() == [1, 1 / 127]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("width", [2.0**-52, 2.0**-53, 1e-17, 1e-30, 2.0**-140])
def test_narrow_ranges(width: float, symmetric: bool):
    ends = -width / 2, width / 2
    exact = choose_parameters(*ends, symmetric=symmetric)
    assert exact.scales == (width / 254 if symmetric else width / 255)
    # Half of both sides lies between two integers.
    assert exact.zero_points == (0 if symmetric else -1)
    assert choose_parameters(*ends, symmetric=symmetric, rule="exact") == exact
    mlir = choose_parameters(*ends, symmetric=symmetric, rule="mlir")
    if width == 2.0**-52:
        assert mlir == exact
    else:
        assert mlir.scales == 1
        assert mlir.zero_points == (0 if symmetric else -128)


@pytest.mark.parametrize("part", [0.35, 0.49, 0.5, 0.51, 0.99])
def test_symmetric_ranges_of_mlir_have_two_sides(part: float):
    """The width is that from the negative to the positive bound."""
    bound = part * 2.0**-52
    parameters = choose_parameters(0, bound, symmetric=True, rule="mlir")
    assert parameters.scales == (1 if part < 0.5 else bound / 127)


def test_channels_without_width():
    parameters = choose_parameters([0, -1e-20, 5], [0, 1e-20, 5], quantized_dimension=0)
    assert parameters.scales.tolist() == [1, 2e-20 / 255, 1]
    assert parameters.zero_points.tolist() == [-128, -1, -128]


ENDS = st.floats(-1e6, 1e6)


@given(ENDS, ENDS, st.booleans(), st.booleans(), st.sampled_from(("i8", "u8", "i4")))
def test_chosen_parameters_express_the_range(
    a: float, b: float, symmetric: bool, narrow_range: bool, storage: str
):
    low, high = min(a, b, 0.0), max(a, b, 0.0)
    if high - low < 1e-6:
        return
    parameters = choose_parameters(
        low,
        high,
        storage=storage,
        symmetric=symmetric,
        narrow_range=narrow_range,
        expressed="f64",
    )
    values = np.linspace(low, high, 101)
    back = dequantize(quantize(values, parameters), parameters)
    assert (np.abs(back - values) <= 0.5000001 * float(parameters.scales)).all()
    assert (dequantize(quantize(np.zeros(1), parameters), parameters) == 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: choose_parameters(2, 1), "range 2.0 to 1.0 is reversed"),
        (
            lambda: choose_parameters(0, float("nan")),
            "range 0.0 to nan is not finite",
        ),
        (
            lambda: choose_parameters(0, 1, rule="tensorflow"),  # pyright: ignore[reportArgumentType] the mistake
            "unknown rule 'tensorflow', available: 'exact', 'mlir', 'onnx', 'tflite'",
        ),
        (
            lambda: choose_parameters(0, 1e-46),
            "scale 3.92156862745098e-49 is out of the range of expressed type 'f32', "
            "1.4013e-45 to 3.40282e+38",
        ),
        (
            lambda: choose_parameters(0, 5e-324, expressed="f64"),
            "scale 0.0 is out of the range of expressed type 'f64', 4.94066e-324 to "
            "1.79769e+308",
        ),
        (
            lambda: choose_parameters(0, 5e-324, expressed="f64", symmetric=True),
            "scale 0.0 is out of the range of expressed type 'f64', 4.94066e-324 to "
            "1.79769e+308",
        ),
        (
            lambda: choose_parameters(float("-inf"), 0),
            "range -inf to 0.0 is not finite",
        ),
        (
            lambda: choose_parameters(-1e308, 1e308, expressed="f64"),
            "range -1e+308 to 1e+308 is not finite",
        ),
        (
            lambda: choose_parameters([0, 0, 5], [1, 1, 4], quantized_dimension=1),
            "range 5.0 to 4.0 of channel 2 is reversed",
        ),
        (
            lambda: choose_parameters([0, 0], [1, 1, 1], quantized_dimension=0),
            "expected the same shape for min and max, found (2,) and (3,)",
        ),
        (
            lambda: choose_parameters([0, 0], [1, 1]),
            "expected one range, or with quantized_dimension one range per channel, "
            "found shape (2,)",
        ),
        (
            lambda: choose_parameters(0, 1, quantized_dimension=0),
            "expected one range, or with quantized_dimension one range per channel, "
            "found shape ()",
        ),
        (
            lambda: choose_parameters(0, 1, storage="u1", narrow_range=True),
            "narrow_range leaves a single stored value of 'u1', 1; use a wider storage "
            "range",
        ),
        (
            lambda: choose_parameters(0, 1, storage="i1", symmetric=True),
            "symmetric quantization requires stored values below and above the zero "
            "point, found -1 to 0 of 'i1'",
        ),
        (
            lambda: choose_parameters(0, 1e8, expressed="f16"),
            "scale 392156.862745098 is out of the range of expressed type 'f16', "
            "5.96046e-08 to 65504",
        ),
    ],
)
def test_mistakes(call: Callable[[], object], message: str):
    with pytest.raises(ValueError) as raised:  # noqa: PT011 compared below
        call()
    assert str(raised.value) == message


# What TensorFlow Lite's converter chooses for statistics.
@pytest.mark.parametrize(
    ("storage", "low", "high", "expected"),
    [
        ("i8", 0.0, 0.0, "<i8:f32, 7.843137254901961E-9>"),
        ("i8", -1e-17, 1e-17, "<i8:f32, 7.8431372549803927E-9:-1>"),
        ("i8", -1.0, 2.0, "<i8:f32, 0.011764705882352941:-43>"),
        ("i8", -3.0, 3.0, "<i8:f32, 0.023529411764705882:-1>"),
        ("i8", 2.0, 6.0, "<i8:f32, 0.023529411764705882:-128>"),
        ("i8", -6.0, -2.0, "<i8:f32, 0.023529411764705882:127>"),
        ("u8", 2.0, 6.0, "<u8:f32, 0.023529411764705882>"),
    ],
)
def test_rule_of_tensorflow_lite(storage: str, low: float, high: float, expected: str):
    parameters = choose_parameters(low, high, storage=storage, rule="tflite")
    assert str(uniform_type(parameters)) == f"!quant.uniform{expected}"


def test_rule_of_tensorflow_lite_for_symmetric_parameters():
    parameters = choose_parameters(
        -1.0, 3.0, symmetric=True, narrow_range=True, rule="tflite"
    )
    assert float(parameters.scales) == 3 / 127
    assert parameters.storage_min == -127
    assert int(parameters.zero_points) == 0
    other = choose_parameters(
        -3.0, 1.0, symmetric=True, narrow_range=True, rule="tflite"
    )
    assert other == parameters


def test_narrow_ranges_of_tensorflow_lite():
    """A range is widened by 1e-6 on either side if it is narrower than that."""
    ends = np.array([0.5e-6, 1e-6, 2e-6])
    chosen = choose_parameters(
        np.zeros(3), ends, quantized_dimension=0, rule="tflite", storage="u8"
    )
    widths = np.array([2.5e-6, 1e-6, 2e-6])
    np.testing.assert_allclose(chosen.scales * 255, widths, rtol=1e-12)
    assert chosen.zero_points.tolist() == [102, 0, 0]


def test_narrow_symmetric_ranges_of_tensorflow_lite():
    """They are made symmetric first."""
    chosen = choose_parameters(0.0, 0.6e-6, symmetric=True, rule="tflite")
    assert float(chosen.scales) == 0.6e-6 / 127


@pytest.mark.parametrize(
    ("low", "high", "zero_point"), [(-0.1, 50.9, -128), (-25.9, 25.1, 2)]
)
def test_zero_points_in_the_middle_of_integers(
    low: float, high: float, zero_point: int
):
    """The more exact one of -128 - low / scale and 127 - high / scale is a tie."""
    chosen = choose_parameters(low, high)
    assert float(chosen.scales) == (high - low) / 255
    assert int(chosen.zero_points) == zero_point


def test_scales_that_are_powers_of_two():
    chosen = choose_parameters(
        [-1.0, 0.0, 0.0],
        [1.0, 0.5 * 255, 0.0],
        quantized_dimension=0,
        power_of_two=True,
    )
    assert chosen.scales.tolist() == [2.0**-6, 0.5, 1.0]
    assert chosen.zero_points.tolist() == [63, -128, -128]
    symmetric = choose_parameters(-1.0, 1.0, symmetric=True, power_of_two=True)
    assert float(symmetric.scales) == 2.0**-6


@pytest.mark.parametrize("block_sizes", [{}, {1: 1}, {0: 1, 1: 1}, {0: 2, 1: 1}])
def test_ranges_of_blocks_contain_0(block_sizes: dict[int, int]):
    values = np.array([[5.1, np.nan], [5.1, np.nan]])
    parameters = choose_dynamic_parameters(values, block_sizes)
    assert parameters.scales.flat[0] == 5.1 / 255
    assert parameters.zero_points.flat[0] == 0
    if 1 in block_sizes:
        assert parameters.scales.flat[-1] == 1


def test_blocks_without_values():
    parameters = choose_dynamic_parameters(np.zeros((2, 0)), {0: 1})
    assert parameters.scales.tolist() == [1, 1]
    assert parameters.zero_points.tolist() == [0, 0]


def test_part_of_storage_range():
    parameters = choose_parameters(-1.0, 1.0, storage_min=-8, storage_max=7)
    assert str(uniform_type(parameters)) == (
        "!quant.uniform<i8<-8:7>:f32, 0.13333333333333333:-1>"
    )
    for low, high in ((7, -8), (7, 7)):
        with pytest.raises(
            ValueError,
            match="^expected a storage range of at least two values, "
            rf"found {low} to {high}$",
        ):
            choose_parameters(-1.0, 1.0, storage_min=low, storage_max=high)
    for low, high in ((-129, 7), (7, 128)):
        with pytest.raises(
            ValueError,
            match=rf"^storage range {low} to {high} exceeds 'i8'; "
            "expected values from -128 to 127$",
        ):
            choose_parameters(-1.0, 1.0, storage_min=low, storage_max=high)


def test_ranges_are_numbers():
    with pytest.raises(
        TypeError, match=r"^expected numbers as ranges, found dtype <U1$"
    ):
        choose_parameters("a", 1)
