"""Arrays are quantized and dequantized as the independent reference says."""

import math
import tracemalloc
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tests.agreement import reference
from tests.unit.numerics.cases import (
    LAYOUTS,
    expressed_values,
    full,
    in_memory,
    parameters_for,
    shapes,
    storage_of,
    stored_values,
)
from xdsl_quant.dialects.quant import uniform_type
from xdsl_quant.numerics import (
    QuantizationParameters,
    affine_to_fixed_point,
    arithmetic,
    dequantize,
    fixed_point_to_affine,
    measure_error,
    quantize,
    requantize,
)
from xdsl_quant.numerics.arithmetic import ROUNDING_MODES
from xdsl_quant.rounding_mode import Rounding, RoundingMode

EXPRESSED = ("f16", "bf16", "f32", "f64")
SEEDS = st.integers(0, 1 << 32)
ROUNDINGS = [
    *map(Rounding, ROUNDING_MODES),
    Rounding("nearest-even", "after-rounding"),
    Rounding("nearest-away", "after-rounding", "stored-zero"),
    Rounding("nearest-even", nan="stored-zero"),
    Rounding("truncate", nan="stored-zero"),
]


PIECES = st.sampled_from((None, (8, 1), (40, 24), (80, 37)))
"""Sizes of a buffer in bytes, and of a large piece; `None` for those of the package."""


@contextmanager
def _cut(sizes: tuple[int, int] | None) -> Generator[None]:
    """Cut arrays of a few elements into pieces."""
    with pytest.MonkeyPatch.context() as patch:
        if sizes is not None:
            patch.setattr(arithmetic, "PIECE_BYTES", sizes[0])
            patch.setattr(arithmetic, "LARGE_PIECE", sizes[1])
        yield


def _same(actual: NDArray[Any], expected: NDArray[Any]) -> bool:
    """Whether dtype, shape and bits are the same."""
    return (actual.dtype, actual.shape, actual.tobytes()) == (
        expected.dtype,
        expected.shape,
        expected.tobytes(),
    )


def _out(
    draw: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any] | None:
    layout = draw(st.sampled_from((None, *LAYOUTS)))
    return None if layout is None else in_memory(np.ones(shape, dtype), layout)


@pytest.mark.parametrize("expressed", EXPRESSED)
@settings(max_examples=20, deadline=None)
@given(data=st.data(), shape=shapes(), seed=SEEDS, rounding=st.sampled_from(ROUNDINGS))
def test_quantize_is_the_reference(
    expressed: str,
    data: st.DataObject,
    shape: tuple[int, ...],
    seed: int,
    rounding: Rounding,
):
    parameters = data.draw(parameters_for(shape, expressed))
    values = expressed_values(parameters, shape, seed)
    expected = reference.quantize(
        values, *full(parameters, shape), expressed, storage_of(parameters), *rounding
    )
    values = in_memory(values, data.draw(st.sampled_from(LAYOUTS)))
    out = _out(data.draw, shape, parameters.storage_dtype)
    with _cut(data.draw(PIECES)):
        actual = quantize(
            values,
            parameters,
            rounding_mode=rounding.mode,
            zero_point_order=rounding.zero_point_order,
            nan=rounding.nan,
            out=out,
        )
    assert out is None or actual is out
    assert _same(actual, np.asarray(expected).astype(parameters.storage_dtype))


@pytest.mark.parametrize("expressed", EXPRESSED)
@settings(max_examples=20, deadline=None)
@given(data=st.data(), shape=shapes(), seed=SEEDS, mode=st.sampled_from(ROUNDING_MODES))
def test_dequantize_is_the_reference(
    expressed: str,
    data: st.DataObject,
    shape: tuple[int, ...],
    seed: int,
    mode: RoundingMode,
):
    parameters = data.draw(parameters_for(shape, expressed))
    if expressed == "bf16" and parameters.storage_width > 16:
        # The reference rounds f64 to bf16 twice.
        return
    values = stored_values(parameters, shape, seed)
    expected = reference.dequantize(
        values.astype(np.int64),
        *full(parameters, shape),
        expressed,
        storage_of(parameters),
        mode,
    )
    values = in_memory(values, data.draw(st.sampled_from(LAYOUTS)))
    out = _out(data.draw, shape, parameters.expressed_dtype)
    with _cut(data.draw(PIECES)):
        actual = dequantize(values, parameters, rounding_mode=mode, out=out)
    assert out is None or actual is out
    assert _same(actual, np.asarray(expected))


@settings(max_examples=20, deadline=None)
@given(data=st.data(), shape=shapes(), seed=SEEDS, rounding=st.sampled_from(ROUNDINGS))
def test_requantize_is_dequantize_and_quantize(
    data: st.DataObject, shape: tuple[int, ...], seed: int, rounding: Rounding
):
    mode, order, _ = rounding
    expressed = data.draw(st.sampled_from(EXPRESSED))
    source, target = (data.draw(parameters_for(shape, expressed)) for _ in range(2))
    values = stored_values(source, shape, seed)
    expected = quantize(
        dequantize(values, source, rounding_mode=mode),
        target,
        rounding_mode=mode,
        zero_point_order=order,
    )
    values = in_memory(values, data.draw(st.sampled_from(LAYOUTS)))
    out = _out(data.draw, shape, target.storage_dtype)
    with _cut(data.draw(PIECES)):
        actual = requantize(
            values,
            source,
            target,
            rounding_mode=mode,
            zero_point_order=order,
            out=out,
        )
    assert out is None or actual is out
    assert _same(actual, expected)


def of_blocks(shape: Sequence[int], sizes: dict[int, int]) -> QuantizationParameters:
    """Parameters with scales for the dimensions only that are cut into blocks."""
    counts = [shape[dimension] // size for dimension, size in sizes.items()]
    scales = np.linspace(0.25, 2, math.prod(counts)).reshape(counts)
    return QuantizationParameters(scales, block_sizes=sizes)


@pytest.mark.parametrize("sizes", [(2, 3), (4, 6)])
@pytest.mark.parametrize("dimensions", [(0,), (2,), (0, 2), (1, 2)], ids=str)
def test_blocks_that_do_not_nest(dimensions: tuple[int, ...], sizes: tuple[int, int]):
    shape = (12, 12, 12)
    source, target = (of_blocks(shape, dict.fromkeys(dimensions, n)) for n in sizes)
    values = np.arange(12**3).astype(np.int8).reshape(shape)
    assert _same(
        requantize(values, source, target),
        quantize(dequantize(values, source), target),
    )


def test_scales_may_lack_dimensions_without_block_sizes():
    scales = np.array([[0.5, 0.25], [2, 4]])
    values = np.arange(-12, 12, dtype=np.float32).reshape(2, 3, 4)
    compact = QuantizationParameters(scales, block_sizes={2: 2, 0: 1})
    all_dimensions = QuantizationParameters(
        scales.reshape(2, 1, 2), block_sizes={2: 2, 0: 1}
    )
    assert _same(quantize(values, compact), quantize(values, all_dimensions))


def test_blocks_of_a_slice():
    """Its rows are apart in memory, so they stay rows of blocks."""
    values = np.arange(32, dtype=np.float32).reshape(4, 8)[:, :6]
    scales = np.linspace(0.25, 2, 12).reshape(4, 3)
    parameters = QuantizationParameters(scales, block_sizes={0: 1, 1: 2})
    stored = quantize(values, parameters)
    assert _same(stored, quantize(values.copy(), parameters))
    expected = np.rint(values / scales.repeat(2, axis=1).astype(np.float32))
    assert stored.tolist() == expected.tolist()


@pytest.mark.sampled(0)
def test_large_arrays():
    """Arrays of many pieces, without anything made small for the test."""
    random = np.random.default_rng(0)
    values = random.standard_normal((700, 1536)).astype(np.float32)
    for parameters in (
        QuantizationParameters(0.1, 3),
        QuantizationParameters(random.uniform(0.1, 1, 700), quantized_dimension=0),
        QuantizationParameters(
            random.uniform(0.1, 1, 1536),
            random.integers(-9, 9, 1536),
            quantized_dimension=1,
        ),
        QuantizationParameters(
            random.uniform(0.1, 1, (700, 48)),
            random.integers(-9, 9, (700, 48)),
            block_sizes={0: 1, 1: 32},
        ),
    ):
        arguments = (*full(parameters, values.shape), "f32", storage_of(parameters))
        stored = quantize(values, parameters)
        expected = reference.quantize(values, *arguments, "nearest-even")
        assert _same(stored, expected.astype(np.int8))
        back = reference.dequantize(expected, *arguments, "nearest-even")
        assert _same(dequantize(stored, parameters), back)


def test_rounding_modes():
    values = np.array([-2.5, -1.5, -0.7, -0.5, 0.5, 0.7, 1.5, 2.5], np.float32)
    one = QuantizationParameters(1)
    assert {
        mode: quantize(values, one, rounding_mode=mode).tolist()
        for mode in ROUNDING_MODES
    } == {
        "truncate": [-2, -1, 0, 0, 0, 0, 1, 2],
        "nearest-even": [-2, -2, -1, 0, 0, 1, 2, 2],
        "nearest-away": [-3, -2, -1, -1, 1, 1, 2, 3],
    }


@pytest.mark.parametrize("mode", ROUNDING_MODES)
def test_special_values(mode: RoundingMode):
    values = np.array([np.nan, -np.nan, -np.inf, np.inf, -1e30, 1e30, -0.0], np.float32)
    parameters = QuantizationParameters(
        0.5, 3, storage="u8", storage_min=1, storage_max=200
    )
    stored = quantize(values, parameters, rounding_mode=mode)
    assert stored.tolist() == [1, 1, 1, 200, 1, 200, 3]


@pytest.mark.parametrize("storage", ["i32", "u32", "i31", "i26"])
@pytest.mark.parametrize("mode", ROUNDING_MODES)
def test_truncation_saturates_where_bounds_are_no_floats(
    storage: str, mode: RoundingMode
):
    parameters = QuantizationParameters(1, storage=storage)
    ends = [parameters.storage_min, parameters.storage_max]
    values = np.array([-np.inf, np.inf], np.float32)
    assert quantize(values, parameters, rounding_mode=mode).tolist() == ends
    values = np.array([-(2.0**40), 2.0**40], np.float32)
    assert quantize(values, parameters, rounding_mode=mode).tolist() == ends


@pytest.mark.parametrize(
    ("expressed", "storage", "zero_point", "expected"),
    [
        # What has to be exact: halves of the sums with a zero point, integers without.
        ("f16", "i12", 0, "float16"),
        ("f16", "i13", 0, "float32"),
        ("f16", "i9", 1, "float16"),
        ("f16", "i8", 1, "float16"),
        ("f16", "i10", 1, "float32"),
        ("bf16", "i9", 0, "bfloat16"),
        ("bf16", "i8", 0, "bfloat16"),
        ("bf16", "i8", 1, "float32"),
        ("bf16", "i5", 1, "bfloat16"),
        ("bf16", "i6", 31, "bfloat16"),
        ("bf16", "i7", 1, "float32"),
        ("f32", "i25", 0, "float32"),
        ("f32", "i26", 0, "float64"),
        ("f32", "i22", 1, "float32"),
        ("f32", "i23", 1, "float64"),
        ("f64", "i2", 0, "float64"),
        # Less than 16 bits are never enough.
        ("f8E4M3FN", "i2", 0, "float32"),
    ],
)
def test_compute_type(expressed: str, storage: str, zero_point: int, expected: str):
    parameters = QuantizationParameters(
        1, zero_point, storage=storage, expressed=expressed
    )
    for mode in ("nearest-even", "nearest-away"):
        assert arithmetic.compute_dtype(parameters, mode).name == expected
    truncating = arithmetic.compute_dtype(parameters, "truncate")
    assert truncating == parameters.expressed_dtype


def test_truncation_rounds_stored_values_once():
    """With f32 in between this stored value would become the middle of two bf16."""
    parameters = QuantizationParameters(1, storage="i32", expressed="bf16")
    stored = np.array([(257 << 16) + 1], np.int32)
    values = dequantize(stored, parameters, rounding_mode="truncate")
    assert values.astype(np.float64).tolist() == [258 << 16]


def test_truncation_rounds_stored_values_before_they_are_multiplied():
    parameters = QuantizationParameters(1.5, storage="i13", expressed="f16")
    stored = np.array([2049], np.int16)
    assert dequantize(stored, parameters, rounding_mode="truncate") == 1.5 * 2048


def test_what_is_dequantized_from_f64_to_bf16_is_rounded_once():
    # Seventeen significant bits: in f32 the number is a tie of bf16, but it is above it.
    parameters = QuantizationParameters(1, storage="i32", expressed="bf16")
    stored = np.array([(1 << 30) + (1 << 22) + 1], np.int32)
    assert dequantize(stored, parameters).astype(np.float64) == (1 << 30) + (1 << 23)


@pytest.mark.parametrize("expressed", EXPRESSED)
@pytest.mark.parametrize("mode", ROUNDING_MODES)
def test_stored_values_may_be_out_of_a_narrow_storage_range(
    expressed: str, mode: RoundingMode
):
    parameters = QuantizationParameters(
        0.1, 1, storage="i16", storage_min=-1, storage_max=1, expressed=expressed
    )
    stored = np.arange(-(1 << 15), 1 << 15, dtype=np.int16)
    expected = reference.dequantize(
        stored.astype(np.int64),
        *full(parameters, stored.shape),
        expressed,
        storage_of(parameters),
        mode,
    )
    assert _same(dequantize(stored, parameters, rounding_mode=mode), expected)


def test_integers_are_rounded_to_f32_before_they_are_multiplied():
    parameters = QuantizationParameters(
        3.0, storage="i32", storage_min=-1, storage_max=1
    )
    assert dequantize([(1 << 24) + 1], parameters).tolist() == [3 << 24]


@pytest.mark.parametrize("name", ["f8E5M2", "f8E4M3FN", "f8E4M3B11FNUZ", "f8E3M4"])
def test_narrow_floats(name: str):
    parameters = QuantizationParameters(0.25, 1, expressed=name)
    assert parameters.expressed_dtype.itemsize == 1
    values = np.array([-1.0, 0.5, 3.0], np.float32).astype(parameters.expressed_dtype)
    stored = quantize(values, parameters)
    assert stored.tolist() == [-3, 3, 13]
    assert _same(dequantize(stored, parameters), values)


@pytest.mark.parametrize("mode", ROUNDING_MODES)
@pytest.mark.parametrize(
    ("bounds", "expected"),
    [((-128, 127), 0), ((3, 100), 3), ((-100, -3), -3), ((-5, 0), 0), ((0, 5), 0)],
)
def test_nan_as_stored_zero(bounds: tuple[int, int], expected: int, mode: RoundingMode):
    parameters = QuantizationParameters(
        0.5, 7, storage_min=bounds[0], storage_max=bounds[1]
    )
    values = np.array([np.nan, -np.nan, np.inf, -np.inf], np.float32)
    stored = quantize(values, parameters, rounding_mode=mode, nan="stored-zero")
    assert stored.tolist() == [expected, expected, bounds[1], bounds[0]]
    assert (
        values.tobytes() == np.array([np.nan, -np.nan, np.inf, -np.inf], "f4").tobytes()
    )


def test_requantized_nan():
    # What is larger than 448 is NaN in this type.
    source = QuantizationParameters(4, expressed="f8E4M3FN")
    target = QuantizationParameters(2, 5, expressed="f8E4M3FN")
    stored = np.array([127, 1, -128], np.int8)
    assert requantize(stored, source, target).tolist() == [-128, 7, -128]
    result = requantize(stored, source, target, nan="stored-zero")
    assert result.tolist() == [0, 7, 0]


# Arguments


def test_requantized_values_that_are_too_large():
    """Without a warning."""
    source = QuantizationParameters(3e38)
    target = QuantizationParameters(1e38)
    stored = np.array([-128, -2, 0, 2, 127], np.int8)
    assert requantize(stored, source, target).tolist() == [-128, -128, 0, 127, 127]
    assert dequantize(stored, source).tolist()[::4] == [-np.inf, np.inf]
    small = QuantizationParameters(1e-40)
    assert quantize(np.float32(1e30), small) == 127
    assert measure_error([1e30], small).saturated_fraction == 1


def test_scalars():
    parameters = QuantizationParameters(0.5)
    for value in (1.5, np.float32(1.5), np.array(1.5, np.float32)):
        stored = quantize(value, parameters)
        assert _same(stored, np.array(3, np.int8))
    for value in (3, np.int8(3), np.array(3, np.int8)):
        assert _same(dequantize(value, parameters), np.array(1.5, np.float32))


def test_lists():
    parameters = QuantizationParameters([0.5, 1], quantized_dimension=1)
    stored = quantize([[1, 2.25], [3, -4]], parameters)
    assert _same(stored, np.array([[2, 2], [6, -4]], np.int8))
    assert dequantize([[2, 2], [6, -4]], parameters).tolist() == [[1, 2], [3, -4]]
    # They are rounded to f32.
    assert quantize([1e300, -1e300, 1e-300], ONE).tolist() == [127, -128, 0]
    assert quantize([], QuantizationParameters(1)).shape == (0,)
    assert dequantize([], QuantizationParameters(1)).shape == (0,)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
def test_arrays_without_elements(shape: tuple[int, ...]):
    axis = QuantizationParameters(
        [1, 1, 1], quantized_dimension=shape.index(3) if 3 in shape else 0
    )
    parameters = axis if 3 in shape else QuantizationParameters(1)
    stored = quantize(np.zeros(shape, np.float32), parameters)
    assert _same(stored, np.zeros(shape, np.int8))
    assert _same(dequantize(stored, parameters), np.zeros(shape, np.float32))
    assert _same(requantize(stored, parameters, parameters), stored)


def test_other_byte_order():
    parameters = QuantizationParameters(0.5)
    assert quantize(np.array([1.5], ">f4"), parameters).tolist() == [3]


def test_new_arrays_keep_the_order_in_memory():
    parameters = QuantizationParameters(0.5)
    assert quantize(np.ones((2, 3), np.float32, "F"), parameters).flags.f_contiguous


def test_values_are_not_written_to():
    values = np.linspace(-1, 1, 100, dtype=np.float32)
    values.setflags(write=False)
    stored = quantize(values, QuantizationParameters(0.1))
    stored.setflags(write=False)
    assert dequantize(stored, QuantizationParameters(0.1)).flags.writeable


def test_out_may_overlap():
    parameters = QuantizationParameters(0.5, 1, storage="i32")
    # There is more than one piece.
    memory = np.linspace(-100, 100, 100_000, dtype=np.float32)
    expected = quantize(memory, parameters)
    quantize(memory, parameters, out=memory.view(np.int32))
    assert _same(memory.view(np.int32), expected)
    stored = memory.view(np.int32)
    back = dequantize(stored, parameters)
    dequantize(stored[:-1], parameters, out=memory[1:])
    assert _same(memory[1:], back[:-1])
    reversed_view = expected.copy()
    requantize(reversed_view, parameters, parameters, out=reversed_view[::-1])
    assert _same(reversed_view[::-1], expected)


ONE = QuantizationParameters(1)
AXIS = QuantizationParameters([1, 2], quantized_dimension=1)
BLOCKS = QuantizationParameters([[1, 2]], block_sizes={1: 3})
NIBBLE = QuantizationParameters(1, storage="i4")
F32 = np.zeros((2, 3), np.float32)
I8 = np.zeros((2, 3), np.int8)
TRUNCATE_AND_ADD: dict[str, Any] = {
    "rounding_mode": "truncate",
    "zero_point_order": "after-rounding",
}
AFTER_TRUNCATION = (
    "unsupported zero point order 'after-rounding' for rounding mode 'truncate'; use "
    "'nearest-even' or 'nearest-away'"
)
READ_ONLY = np.zeros((2, 3), np.int8)
READ_ONLY.setflags(write=False)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        pytest.param(call, error, message, id=message)
        for call, error, message in [
            (
                lambda: quantize(F32.astype(np.float64), ONE),
                TypeError,
                "expected expressed values with dtype float32, found float64",
            ),
            (
                lambda: quantize(np.float64(1), ONE),
                TypeError,
                "expected expressed values with dtype float32, found float64",
            ),
            (
                lambda: quantize(I8, ONE),
                TypeError,
                "expected expressed values with dtype float32, found int8",
            ),
            (
                lambda: quantize(["a"], ONE),
                TypeError,
                "expected numbers as expressed values, found dtype <U1",
            ),
            (
                lambda: quantize([[1], [1, 2]], ONE),
                ValueError,
                "unsupported ragged lists in expressed values",
            ),
            (
                lambda: quantize(True, ONE),
                TypeError,
                "expected numbers as expressed values, found dtype bool",
            ),
            (
                lambda: dequantize(F32, ONE),
                TypeError,
                "expected stored values with dtype int8, found float32",
            ),
            (
                lambda: dequantize(I8.view(np.uint8), ONE),
                TypeError,
                "expected stored values with dtype int8, found uint8",
            ),
            (
                lambda: dequantize([1.0], ONE),
                TypeError,
                "expected integers as stored values, found dtype float64",
            ),
            (
                lambda: dequantize([1, -129], ONE),
                ValueError,
                "stored value -129 at index 1 is not representable in 'i8'; expected -128 "
                "to 127",
            ),
            (
                lambda: dequantize(np.array([1, 8], np.int8), NIBBLE),
                ValueError,
                "stored value 8 at index 1 is not representable in 'i4'; expected -8 to 7",
            ),
            (
                lambda: requantize(np.array([-9], np.int8), NIBBLE, ONE),
                ValueError,
                "stored value -9 is not representable in 'i4'; expected -8 to 7",
            ),
            (
                lambda: requantize(I8, ONE, QuantizationParameters(1, expressed="f16")),
                ValueError,
                "cannot requantize from expressed type 'f32' to 'f16'; expected equal "
                "types",
            ),
            (
                lambda: quantize(F32, AXIS),
                ValueError,
                "expected values of size 2 along dimension 1, one per scale, found 3",
            ),
            (
                lambda: dequantize(I8[0], AXIS),
                ValueError,
                "expected values with the quantized dimension 1, found shape (3,)",
            ),
            (
                lambda: quantize(F32, BLOCKS),
                ValueError,
                "expected values of size 6 along dimension 1, found 3",
            ),
            (
                lambda: quantize(F32[None], BLOCKS),
                ValueError,
                "expected values of rank 2 for scales of shape (1, 2), found shape "
                "(1, 2, 3)",
            ),
            (
                lambda: quantize(F32, of_blocks((1, 1, 6), {2: 3})),
                ValueError,
                "expected values of rank 1 for scales of shape (2,), found shape (2, "
                "3)",
            ),
            (
                lambda: quantize(F32[None], of_blocks((1, 1, 1, 6), {0: 1, 3: 3})),
                ValueError,
                "expected values of rank 2 for scales of shape (1, 2), found shape "
                "(1, 2, 3)",
            ),
            (
                lambda: quantize(F32, ONE, out=F32),
                TypeError,
                "expected out with dtype int8, found float32",
            ),
            (
                lambda: quantize(F32, ONE, out=I8[0]),
                ValueError,
                "expected out with shape (2, 3), found (3,)",
            ),
            (
                lambda: quantize(F32, ONE, out=READ_ONLY),
                ValueError,
                "expected a writeable array as out, found a read-only one",
            ),
            (
                lambda: quantize(F32, ONE, out=[0]),  # pyright: ignore[reportArgumentType] the mistake
                TypeError,
                "expected an array as out, found list",
            ),
            (
                lambda: quantize(F32, ONE, rounding_mode="up"),  # pyright: ignore[reportArgumentType] the mistake
                ValueError,
                "unknown rounding mode 'up', available: 'truncate', 'nearest-even', "
                "'nearest-away'",
            ),
            (
                lambda: quantize(F32, ONE, nan="zero"),  # pyright: ignore[reportArgumentType] the mistake
                ValueError,
                "unknown nan 'zero', available: 'storage-min', 'stored-zero'",
            ),
            (
                lambda: quantize(F32, ONE, zero_point_order="last"),  # pyright: ignore[reportArgumentType] the mistake
                ValueError,
                "unknown zero point order 'last', available: 'before-rounding', "
                "'after-rounding'",
            ),
            *(
                (partial(call, **TRUNCATE_AND_ADD), ValueError, AFTER_TRUNCATION)
                for call in (
                    partial(quantize, F32, ONE),
                    partial(requantize, I8, ONE, ONE),
                    partial(measure_error, F32, ONE),
                )
            ),
        ]
    ],
)
def test_mistakes(call: Callable[[], object], error: type[Exception], message: str):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("function", "arguments", "position"),
    [
        (quantize, (F32,), 1),
        (dequantize, (I8,), 1),
        (requantize, (I8, ONE), 1),
        (requantize, (I8, ONE), 2),
        (measure_error, (F32,), 1),
        (affine_to_fixed_point, (I8,), 1),
        (fixed_point_to_affine, (I8,), 1),
    ],
)
def test_what_is_no_parameters(
    function: Callable[..., object], arguments: tuple[Any, ...], position: int
):
    before, after = arguments[:position], arguments[position:]
    with pytest.raises(TypeError) as raised:
        function(*before, 0.5, *after)
    assert str(raised.value) == "expected QuantizationParameters, found float"
    with pytest.raises(TypeError) as raised:
        function(*before, uniform_type(ONE), *after)
    assert str(raised.value) == (
        "expected QuantizationParameters, found UniformQuantizedType; use "
        "QuantizationParameters.from_type"
    )


MEMORY = np.zeros(64, np.int8)


@pytest.mark.parametrize(
    ("strides", "is_refused"),
    [
        ((3, 1), False),
        ((1, 2), False),
        ((-20, -5), False),
        ((0, 1), True),
        ((2, 1), True),
        ((8, 8), True),
        ((-1, 1), True),
    ],
)
def test_elements_of_out_do_not_overlap(strides: tuple[int, int], is_refused: bool):
    out = as_strided(MEMORY[32:], (2, 3), strides)
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    if not is_refused:
        assert quantize(values, ONE, out=out).tolist() == values.tolist()
        return
    with pytest.raises(
        ValueError, match=r"^expected out without overlapping elements$"
    ):
        quantize(values, ONE, out=out)


def test_an_out_of_one_element_or_none_overlaps_nothing():
    one = as_strided(MEMORY, (1, 1), (0, 0))
    assert quantize(F32[:1, :1], ONE, out=one).tolist() == [[0]]
    none = as_strided(MEMORY, (0, 3), (0, 0))
    assert quantize(F32[:0], ONE, out=none).shape == (0, 3)


def test_nothing_is_written_if_a_stored_value_is_wrong():
    out = np.full(100_000, 7, np.float32)
    stored = np.zeros(100_000, np.int8)
    stored[-1] = 8
    with pytest.raises(ValueError, match="stored value 8"):
        dequantize(stored, NIBBLE, out=out)
    assert (out == 7).all()


# Memory


@pytest.mark.parametrize(
    "parameters",
    [
        QuantizationParameters(0.1, 3),
        QuantizationParameters(np.full(2048, 0.1), quantized_dimension=0),
        QuantizationParameters(np.full(2048, 0.1), quantized_dimension=1),
        QuantizationParameters(
            np.full((2048, 64), 0.1),
            np.ones((2048, 64), np.int64),
            block_sizes={0: 1, 1: 32},
        ),
    ],
    ids=["per-tensor", "axis 0", "axis 1", "blocks"],
)
@pytest.mark.parametrize("mode", ROUNDING_MODES)
def test_memory_is_a_part_of_the_input(
    parameters: QuantizationParameters, mode: RoundingMode
):
    values = np.ones((2048, 2048), np.float32)
    stored = np.empty(values.shape, np.int8)
    other = np.empty(values.shape, np.int8)
    for call in (
        lambda: quantize(values, parameters, rounding_mode=mode, out=stored),
        lambda: dequantize(stored, parameters, rounding_mode=mode, out=values),
        lambda: requantize(
            stored, parameters, parameters, rounding_mode=mode, out=other
        ),
    ):
        tracemalloc.start()
        call()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # Buffers have one size for all arrays: this is 5 % of 16M elements.
        assert peak < 0.2 * values.nbytes


def test_ml_dtypes_are_what_parameters_say():
    assert (
        QuantizationParameters(1, expressed="bf16").expressed_dtype
        == ml_dtypes.bfloat16
    )


def test_buffers_of_numpy_stay_as_they_are():
    before = np.getbufsize()
    dequantize(np.ones(3, np.int8), QuantizationParameters(0.5))
    assert np.getbufsize() == before
