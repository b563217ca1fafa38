"""Stored floats and indices of tables, against `ml_dtypes` and exact fractions."""

from __future__ import annotations

import re
import sys
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.unit.counting import calls
from tests.unit.numerics.test_small_floats import thresholds
from xdsl_quant.dialects.quant import uniform_type
from xdsl_quant.dialects.quant.float_formats import FLOAT_FORMATS
from xdsl_quant.numerics import (
    QuantizationParameters,
    dequantize,
    measure_error,
    quantize,
)
from xdsl_quant.numerics.arithmetic import compute_dtype
from xdsl_quant.numerics.codecs import (
    codec_of,
    float_bounds,
    nearest_steps,
    number_range,
    represented_numbers,
)
from xdsl_quant.numerics.float_dtypes import (
    code_dtype,
    float_dtype,
    float_info,
    rounded,
)
from xdsl_quant.numerics.small_floats import SMALL_FLOATS, small_float
from xdsl_quant.transforms.building.quantization_arithmetic import cast_compute_type

STORAGES = "f8E5M2", "f8E4M3FN", "f4E2M1FN"
EXPRESSED = "f16", "bf16", "f32", "f64"
NF4 = [
    *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
    *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
    *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634),
    *(0.33791524171829224, 0.44070982933044434, 0.5626170039176941),
    *(0.7229568362236023, 1.0),
]


def inputs_of(expressed: str, storage: str) -> NDArray[Any]:
    """All of 16 bits, or thresholds with their neighbours and what is special."""
    dtype = float_dtype(expressed)
    if dtype.itemsize == 2:
        return np.arange(1 << 16).astype(np.uint16).view(dtype)
    special = np.array([0, np.inf, np.nan, 1e-30, 3e38, 500])
    values = np.concatenate([thresholds(small_float(storage)), special]).astype(dtype)
    near = [np.nextafter(values, dtype.type(end)) for end in (0, np.inf)]
    positive = np.concatenate([values, *near])
    return np.concatenate([positive, -positive])


def computed_dtype(storage: str, expressed: str, zero_point: int) -> Any:
    """
    The dtype in which the numbers of a storage type, 3 and their differences are exact:
    with 3 they need 18 bits for f8E4M3FN, from 2**-9 to 448, and 32 bits for f8E5M2.
    """
    needed = {"f8E5M2": "f64", "f8E4M3FN": "f32"}.get(storage)
    if not zero_point or needed is None or expressed == "f64":
        return float_dtype(expressed)
    return float_dtype(needed)


@np.errstate(all="ignore")
def expected_floats(
    values: NDArray[Any],
    scale: Any,
    zero_point: int,
    storage: str,
    low: float,
    high: float,
) -> NDArray[np.uint8]:
    """The formula in the type to compute in, which rounds after each step."""
    numbers = values / values.dtype.type(scale)
    if zero_point:
        numbers = numbers + values.dtype.type(zero_point)
    numbers = np.where(np.isnan(numbers), low, np.clip(numbers.astype("f8"), low, high))
    return rounded(numbers, float_dtype(storage)).view(np.uint8)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("expressed", EXPRESSED)
@pytest.mark.parametrize(
    ("scale", "zero_point"), [(1, 0), (0.25, 0), (0.3, 0), (1.5, 3)]
)
def test_floats(storage: str, expressed: str, scale: float, zero_point: int):
    parameters = QuantizationParameters(
        scale, zero_point, storage=storage, expressed=expressed
    )
    values = inputs_of(expressed, storage)
    stored = quantize(values, parameters)
    assert stored.dtype == float_dtype(storage) == parameters.storage_dtype
    largest = small_float(storage).largest
    with np.errstate(invalid="ignore"):
        computed = values.astype(computed_dtype(storage, expressed, zero_point))
    expected = expected_floats(computed, scale, zero_point, storage, -largest, largest)
    np.testing.assert_array_equal(stored.view(np.uint8), expected)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("expressed", EXPRESSED)
@pytest.mark.parametrize(("scale", "zero_point"), [(1, 0), (0.3, 0), (1.5, 3)])
def test_all_codes_are_dequantized(
    storage: str, expressed: str, scale: float, zero_point: int
):
    parameters = QuantizationParameters(
        scale, zero_point, storage=storage, expressed=expressed
    )
    codes = np.arange(1 << parameters.storage_width).astype(np.uint8)
    found = dequantize(codes, parameters)
    dtype = float_dtype(expressed)
    computed = computed_dtype(storage, expressed, zero_point)
    numbers = codes.view(float_dtype(storage)).astype(computed)
    with np.errstate(all="ignore"):
        factor = dtype.type(scale).astype(computed)
        products = (numbers - computed.type(zero_point)) * factor
        expected = rounded(products, dtype)
    np.testing.assert_array_equal(found.astype("f8"), expected.astype("f8"))
    assert found.dtype == dtype
    again = dequantize(codes.view(float_dtype(storage)), parameters)
    assert again.tobytes() == found.tobytes()


def test_scales_of_channels_and_blocks():
    values = np.random.default_rng(0).normal(0, 100, (6, 8)).astype(np.float32)
    scales = np.array([0.5, 2, 3], np.float32)
    per_axis = QuantizationParameters(
        np.repeat(scales, 2), storage="f8E4M3FN", quantized_dimension=0
    )
    blocks = QuantizationParameters(
        scales[:, None], storage="f8E4M3FN", block_sizes={0: 2}
    )
    each = np.repeat(scales, 2)[:, None]
    expected = np.clip(values / each, -448, 448).astype(float_dtype("f8E4M3FN"))
    for parameters in (per_axis, blocks):
        out = np.empty(values.shape[::-1], float_dtype("f8E4M3FN")).T
        stored = quantize(values, parameters, out=out)
        assert stored is out
        np.testing.assert_array_equal(stored.view(np.uint8), expected.view(np.uint8))
        np.testing.assert_array_equal(
            dequantize(stored, parameters), expected.astype(np.float32) * each
        )


@pytest.mark.parametrize("format", SMALL_FLOATS.values(), ids=lambda f: f.name)
def test_float_bounds(format: Any):
    largest = int(format.largest)
    if not format.is_signed:
        return
    assert float_bounds(format, (-largest, largest)) == (
        -format.largest,
        format.largest,
    )
    assert float_bounds(format, (0, 1)) == (0, 1)


def test_narrow_range():
    assert float_bounds(small_float("f8E4M3FN"), (-102, 103)) == (-96, 96)
    parameters = QuantizationParameters(
        1, storage="f8E4M3FN", storage_min=0, storage_max=103
    )
    values = np.array([-5, -0.0, 103, np.nan, np.inf], np.float32)
    stored = quantize(values, parameters)
    assert stored.astype(np.float32).tolist() == [0, 0, 96, 0, 96]
    assert not np.signbit(stored.astype(np.float32)).any()


def test_nan():
    values = np.array([np.nan, -np.nan], np.float32)
    parameters = QuantizationParameters(1, storage="f8E5M2")
    assert quantize(values, parameters).tolist() == [-57344, -57344]
    assert quantize(values, parameters, nan="stored-zero").tolist() == [0, 0]
    # The smallest number is no integer, but the end of the storage range is one.
    parameters = QuantizationParameters(1, storage="f6E2M3FN")
    assert quantize(values, parameters).astype(np.float32).tolist() == [-7.5, -7.5]
    table = QuantizationParameters(1, storage="u4", table=NF4)
    assert quantize(values, table).tolist() == [0, 0]
    indices = QuantizationParameters(1, storage="i4", table=NF4)
    assert quantize(values, indices).tolist() == [-8, -8]
    assert quantize(values, indices, nan="stored-zero").tolist() == [0, 0]


def nearest(value: float, table: list[float]) -> int:
    return min(
        range(len(table)), key=lambda i: (abs(Fraction(value) - Fraction(table[i])), i)
    )


TABLES = [NF4, NF4[::-1], [0.5, -1, 7, 0.5, -0.0, 0], [1, 2], [2.0**-24, 60000]]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("table", TABLES, ids=str)
@pytest.mark.parametrize("expressed", EXPRESSED)
def test_nearest_of_a_table(table: list[float], expressed: str):
    dtype = float_dtype(expressed)
    parameters = QuantizationParameters(
        1, storage="u8", table=table, expressed=expressed
    )
    numbers = np.array(table, np.float64)
    middles = rounded((numbers[:, None] + numbers).ravel() / 2, dtype)
    values = np.concatenate(
        [middles, *(np.nextafter(middles, dtype.type(e)) for e in (-np.inf, np.inf))]
    )
    expected = [nearest(float(value), table) for value in values]
    assert quantize(values, parameters).tolist() == expected
    stored = np.arange(len(table), dtype=np.uint8)
    np.testing.assert_array_equal(
        dequantize(stored, parameters), rounded(numbers, dtype)
    )


@pytest.mark.parametrize(
    ("storage", "table", "expressed", "zero_point", "expected"),
    [
        ("f8E4M3FN", None, "bf16", 0, "bfloat16"),
        ("f8E4M3FN", None, "bf16", 3, "float32"),
        ("f8E4M3FN", None, "f16", 3, "float32"),
        ("f8E5M2", None, "f16", 0, "float16"),
        ("f8E5M2", None, "f32", 1, "float64"),
        ("f4E2M1FN", None, "bf16", 3, "bfloat16"),
        # 32 and 33 are 64 and 66 halves; two bits of 8 are left.
        ("u4", [-0.5, 6], "bf16", -26, "bfloat16"),
        ("u4", [-0.5, 6], "bf16", -27, "float32"),
        ("u4", NF4, "f16", 0, "float32"),
        ("u4", NF4, "f32", 0, "float32"),
        ("u4", NF4, "f32", 1, "float64"),
        ("u4", [-1, 0, 257], "bf16", 0, "float32"),
        ("u4", [-1, 0, 256], "bf16", 0, "bfloat16"),
        ("u4", [65504, 0], "f16", 0, "float16"),
        ("u4", [65536, 0], "f16", 0, "float32"),
        ("u4", [2.0**-24, 1], "f16", 0, "float16"),
        ("u4", [2.0**-25, 1], "f16", 0, "float32"),
        ("u4", [0, 0], "f16", 0, "float16"),
    ],
)
def test_compute_type(
    storage: str,
    table: list[float] | None,
    expressed: str,
    zero_point: int,
    expected: str,
):
    parameters = QuantizationParameters(
        1, zero_point, storage=storage, table=table, expressed=expressed
    )
    assert compute_dtype(parameters, "nearest-even").name == expected
    element_type = next(t for t in FLOAT_FORMATS if t.name == expressed)()
    type_ = uniform_type(parameters, element_type)
    name = cast_compute_type(type_, (zero_point, zero_point), "truncate").name
    assert float_dtype(name).name == expected


@pytest.mark.parametrize("size", [2, 16, 127, 128, 129, 256, 1000])
@pytest.mark.parametrize("expressed", ["f16", "f32", "f64"])
def test_steps_before_and_after(size: int, expressed: str):
    """Each step with its neighbours, infinity and NaN, in a table in random order."""
    dtype, rng = float_dtype(expressed), np.random.default_rng(size)
    table = rng.choice(np.arange(-1000, 1000), size, replace=False) / 64
    parameters = QuantizationParameters(
        1, storage="i16", table=table, table_min=-1, expressed=expressed
    )
    last, indices = nearest_steps(table, dtype)
    last = last.astype(dtype)
    after = np.nextafter(last, dtype.type(np.inf))
    special = np.array([-np.inf, np.inf, np.nan, -np.nan], dtype)
    values = np.concatenate([last, after, special])
    near = np.concatenate([indices[:-1], indices[1:], indices[[0, -1]]]) - 1
    expected = [*near.tolist(), -1, -1]
    assert quantize(values, parameters).tolist() == expected
    expected[-2:] = 0, 0
    assert quantize(values, parameters, nan="stored-zero").tolist() == expected


def expected_steps(
    table: NDArray[np.float64], dtype: np.dtype[Any]
) -> tuple[list[float], list[int]]:
    """The steps by exact fractions."""
    numbers, indices = np.unique(table, return_index=True)
    steps: list[float] = []
    for (low, high), is_up in zip(
        pairwise(numbers.tolist()), np.diff(indices) < 0, strict=True
    ):
        middle = (Fraction(low) + Fraction(high)) / 2
        last = rounded(np.array(float(middle)), dtype)
        value = Fraction(float(last))
        if value > middle or (value == middle and is_up):
            last = np.nextafter(last, dtype.type(-np.inf))
        steps.append(float(last))
    return steps, indices.tolist()


@np.errstate(invalid="ignore")
def step_table(expressed: str, kind: str) -> NDArray[np.float64]:
    """Finite numbers of a dtype, in random order."""
    dtype, rng = float_dtype(expressed), np.random.default_rng(0)
    if kind == "bits":
        data = rng.bytes(2000 * dtype.itemsize)
        values = np.frombuffer(data, dtype).astype(np.float64)
    elif kind == "normal":
        values = rng.normal(size=2000)
    elif kind == "far apart":
        # Sums that are not exact, of either sign.
        values = np.concatenate(
            [np.ldexp(1.0, range(-1074, 1024)) * s for s in (1, -1)]
        )
    elif kind == "neighbours":
        info = float_info(dtype)
        ends = np.array([info.max, 1, info.tiny, info.smallest_subnormal], dtype)
        lists = [ends]
        for _ in range(6):
            lists.append(np.nextafter(lists[-1], dtype.type(0)))
        values = np.concatenate(lists).astype(np.float64)
        values = np.concatenate([values, -values, values[:4] / 2, values[:4] / 4])
    else:
        values = np.rint(rng.normal(size=300) * 100)
    values = rounded(values, dtype).astype(np.float64)
    return rng.permutation(values[np.isfinite(values)])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "kind", ["bits", "normal", "far apart", "neighbours", "integers"]
)
@pytest.mark.parametrize("expressed", EXPRESSED)
def test_steps_are_exact(expressed: str, kind: str):
    table, dtype = step_table(expressed, kind), float_dtype(expressed)
    for ordered in (
        table,
        np.sort(table),
        np.sort(table)[::-1],
        *table[:100].reshape(-1, 2),
    ):
        steps, indices = nearest_steps(ordered, dtype)
        expected, expected_indices = expected_steps(ordered, dtype)
        assert steps.tobytes() == np.array(expected, np.float64).tobytes()
        assert indices.tolist() == expected_indices
        assert indices.dtype == np.int64


def test_steps_of_huge_numbers():
    largest = np.finfo(np.float64).max
    table = np.array(
        [largest, np.ldexp(1.0, 970), -largest, np.ldexp(1.0, 969), 5e-324]
    )
    for numbers in combinations(table, 2):
        for ordered in (numbers, numbers[::-1]):
            steps, _ = nearest_steps(np.array(ordered), np.dtype(np.float64))
            expected, _ = expected_steps(np.array(ordered), np.dtype(np.float64))
            assert steps.tolist() == expected


def test_many_steps_take_no_python_code_each():
    table = np.random.default_rng(0).normal(size=1 << 16)
    assert calls(lambda: nearest_steps(table, np.dtype(np.float64))) < 1000


def test_scaled_table():
    parameters = QuantizationParameters(
        [0.5, 3],
        [0, 2],
        storage="i4",
        table=NF4[:8],
        table_min=-5,
        quantized_dimension=1,
    )
    stored = np.array([[-5, 2], [1, 0]], np.int8)
    table = np.array(NF4, np.float32)
    expected = np.array(
        [[table[0] * 0.5, (table[7] - 2) * 3], [table[6] * 0.5, (table[5] - 2) * 3]],
        np.float32,
    )
    np.testing.assert_array_equal(dequantize(stored, parameters), expected)
    np.testing.assert_array_equal(quantize(expected, parameters), stored)


def test_narrow_range_of_a_table():
    parameters = QuantizationParameters(
        1, storage="u4", table=NF4, storage_min=2, storage_max=9
    )
    values = np.array([-9, 9, NF4[4]], np.float32)
    assert quantize(values, parameters).tolist() == [2, 9, 4]
    assert dequantize([0, 15], parameters).tolist() == [-1, 1]


def test_saturation_is_counted():
    values = np.array([0, 448, 463, 464, 465, -500], np.float32)
    parameters = QuantizationParameters(1, storage="f8E4M3FN")
    assert measure_error(values, parameters).saturated_fraction == 2 / 6
    table = QuantizationParameters(1, storage="u4", table=NF4)
    assert measure_error(values / 448, table).saturated_fraction == 4 / 6


@pytest.mark.parametrize(
    ("arguments", "limits"),
    [
        ({"storage": "f4E2M1FN"}, (-7, 7)),
        ({"storage": "f6E2M3FN"}, (-7.75, 7.75)),
        ({"storage": "f8E4M3FN"}, (-464, 464)),
        ({"storage": "f8E5M2"}, (-61440, 61440)),
        (
            {"storage": "f8E4M3FN", "storage_min": 0, "storage_max": 103},
            (-(2.0**-10), 100),
        ),
        ({"storage": "f4E2M1FN", "storage_min": -4, "storage_max": 2}, (-5, 2.5)),
        ({"storage": "u4", "table": NF4}, (-1, 1)),
        (
            {"storage": "u4", "table": NF4[::-1], "storage_min": 2, "storage_max": 12},
            (NF4[3], NF4[13]),
        ),
    ],
    ids=str,
)
def test_limits(arguments: dict[str, Any], limits: tuple[float, float]):
    """What is beyond the middle to the next number, or beyond a table, saturates."""
    dtype = np.dtype(np.float32)
    codec = codec_of(QuantizationParameters(1, **arguments), dtype)
    assert codec is not None
    assert codec.limits == limits


def test_numbers_of_a_storage_range():
    parameters = QuantizationParameters(
        1, storage="f4E2M1FN", storage_min=-4, storage_max=2
    )
    codec = codec_of(parameters, np.dtype(np.float32))
    assert codec is not None
    expected = [-4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2]
    assert codec.numbers.tolist() == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([2, 6], (2, 6, 1, 2)),
        ([0, 0.75, -1024], (-1024, 0.75, 0.25, 2)),
        ([0, 0], (0, 0, 1, 0)),
    ],
)
def test_represented_numbers(table: list[float], expected: tuple[float, ...]):
    parameters = QuantizationParameters(1, storage="u4", table=table)
    assert represented_numbers(parameters) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"storage": "i4", "storage_min": -3}, (-3, 7)),
        ({"storage": "f4E2M1FN", "storage_min": -4, "storage_max": 2}, (-4, 2)),
        ({"storage": "f6E2M3FN"}, (-7.5, 7.5)),
        (
            {
                "storage": "u4",
                "table": [5, 1, -2, 3, 9],
                "table_min": 2,
                "storage_min": 3,
                "storage_max": 5,
            },
            (-2, 3),
        ),
    ],
)
def test_number_range(arguments: dict[str, Any], expected: tuple[float, float]):
    assert number_range(QuantizationParameters(1, **arguments)) == expected


def test_codes_without_the_package(monkeypatch: pytest.MonkeyPatch):
    code_dtype.cache_clear()
    float_dtype.cache_clear()
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    parameters = QuantizationParameters(0.5, storage="f8E4M3FN")
    stored = quantize(np.array([1, -0.5], np.float32), parameters)
    code_dtype.cache_clear()
    assert stored.dtype == np.uint8
    assert stored.tolist() == [0x40, 0xB8]
    assert dequantize(stored, parameters).tolist() == [1, -0.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rounding_mode": "truncate"}, "rounding mode 'truncate'"),
        ({"rounding_mode": "nearest-away"}, "rounding mode 'nearest-away'"),
        ({"zero_point_order": "after-rounding"}, "zero point order 'after-rounding'"),
    ],
)
def test_unsupported_rounding(arguments: dict[str, Any], message: str):
    values = np.zeros(1, np.float32)
    for storage, table in (("f8E4M3FN", None), ("u4", NF4)):
        parameters = QuantizationParameters(1, 1, storage=storage, table=table)
        with pytest.raises(
            ValueError, match=f"^unsupported {message} for storage type "
        ):
            quantize(values, parameters, **arguments)
    symmetric = QuantizationParameters(1, storage="f8E4M3FN")
    assert quantize(values, symmetric, zero_point_order="after-rounding") == 0


def test_powers_of_two_have_no_sign():
    """What they cannot express is stored as the smallest one."""
    parameters = QuantizationParameters(1, storage="f8E8M0FNU")
    assert not parameters.is_signed
    assert (parameters.storage_min, parameters.storage_max) == (0, 2**127)
    values = np.array([0, -1, 1, 3, 5, 6, np.inf], np.float32)
    stored = quantize(values, parameters)
    expected = np.ldexp(np.float32(1), [-127, -127, 0, 2, 2, 3, 127])
    np.testing.assert_array_equal(dequantize(stored, parameters), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"storage": "f16"},
            "unknown storage type 'f16', available: 'i1' to 'i32', ",
        ),
        (
            {"storage": "f8E4M3FN", "table": NF4},
            "unsupported table for storage type 'f8E4M3FN'; use an integer type",
        ),
        (
            {"storage": "u4", "table": [1]},
            "expected a table of at least two numbers in one dimension, found shape (1,)",
        ),
        (
            {"storage": "u4", "table": [1, np.inf]},
            "expected finite table values, found inf at index 1",
        ),
        (
            {"storage": "u4", "table": NF4, "table_min": 1},
            "table indices 1 to 16 exceed 'u4'; expected values from 0 ",
        ),
        (
            {"storage": "u4", "table": [1, 2, 3], "storage_max": 5},
            "storage range 0 to 5 exceeds 'u4'; expected values from 0 to 2",
        ),
        (
            {"storage": "f4E2M1FN", "zero_points": 7},
            "zero point 7 is not representable in 'f4E2M1FN'; expected -6 to 6",
        ),
    ],
    ids=str,
)
def test_mistakes(arguments: dict[str, Any], message: str):
    arguments = {"scales": 1, **arguments}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        QuantizationParameters(**arguments)


def test_mistakes_in_stored_values():
    f4 = QuantizationParameters(1, storage="f4E2M1FN")
    with pytest.raises(
        ValueError, match=r"^expected codes of f4E2M1FN from 0 to 15, found 16$"
    ):
        dequantize(np.array([16], np.uint8), f4)
    with pytest.raises(
        TypeError, match=r"^expected an array of 'f4E2M1FN', found list"
    ):
        dequantize([1, 2], f4)
    with pytest.raises(TypeError, match=r"^expected stored values .* found int8$"):
        dequantize(np.array([1], np.int8), f4)
    table = QuantizationParameters(1, storage="u8", table=[1, 2, 3])
    with pytest.raises(ValueError, match=r"^expected table indices from .*, found 3$"):
        dequantize(np.array([3], np.uint8), table)
