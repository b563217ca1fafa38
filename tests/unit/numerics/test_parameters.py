"""Parameters say what they are, and contradictions are mistakes."""

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i8

from xdsl_quant.dialects.quant import AnyQuantizedType
from xdsl_quant.numerics import QuantizationParameters


def test_defaults():
    parameters = QuantizationParameters(0.5)
    assert parameters.scales.shape == parameters.zero_points.shape == ()
    assert parameters.scales.dtype == np.float64
    assert parameters.zero_points.dtype == np.int64
    assert (parameters.storage, parameters.storage_width) == ("i8", 8)
    assert (parameters.storage_min, parameters.storage_max) == (-128, 127)
    assert parameters.is_signed
    assert not parameters.has_zero_points
    assert (parameters.expressed, parameters.expressed_dtype) == ("f32", np.float32)
    assert parameters.quantized_dimension is None
    assert parameters.block_sizes is None


@pytest.mark.parametrize(
    ("storage", "ends", "dtype"),
    [
        ("i1", (-1, 0), np.int8),
        ("u1", (0, 1), np.uint8),
        ("i4", (-8, 7), np.int8),
        ("u8", (0, 255), np.uint8),
        ("i9", (-256, 255), np.int16),
        ("u16", (0, 65535), np.uint16),
        ("u17", (0, 131071), np.uint32),
        ("i32", (-(1 << 31), (1 << 31) - 1), np.int32),
        ("si8", (-128, 127), np.int8),
        ("ui8", (0, 255), np.uint8),
    ],
)
def test_storage(storage: str, ends: tuple[int, int], dtype: Any):
    parameters = QuantizationParameters(1, storage=storage)
    assert (parameters.storage_min, parameters.storage_max) == ends
    assert parameters.storage_dtype == dtype
    assert parameters.is_signed == (ends[0] < 0)
    assert str(parameters.storage_width) in storage


def test_one_zero_point_is_that_of_all_scales():
    parameters = QuantizationParameters([1, 2, 3], 5, quantized_dimension=0)
    assert parameters.zero_points.tolist() == [5, 5, 5]
    assert parameters.has_zero_points


def test_arrays_are_read_only_copies():
    scales, zero_points = np.ones(3), np.ones(3, np.int64)
    parameters = QuantizationParameters(scales, zero_points, quantized_dimension=0)
    scales[0] = zero_points[0] = 7
    assert (parameters.scales[0], parameters.zero_points[0]) == (1, 1)
    for array in (parameters.scales, parameters.zero_points):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2


def test_block_sizes_are_a_mapping_or_pairs():
    pairs = QuantizationParameters([[1, 2]], block_sizes=[(1, 4)])
    mapping = QuantizationParameters([[1, 2]], block_sizes={1: 4})
    assert pairs == mapping
    assert pairs.block_sizes == ((1, 4),)


def test_equality_and_hash():
    def parameters(**changed: Any) -> QuantizationParameters:
        arguments: dict[str, Any] = {
            "scales": [1.0, 2.0],
            "zero_points": [0, 1],
            "quantized_dimension": 0,
        }
        return QuantizationParameters(**(arguments | changed))

    same, other = parameters(), parameters()
    assert same == other
    assert hash(same) == hash(other)
    for changed in (
        {"scales": [1.0, 3.0]},
        {"zero_points": [0, 2]},
        {"storage": "i9"},
        {"storage_min": -127},
        {"storage_max": 126},
        {"expressed": "f16"},
        {"quantized_dimension": 1},
        {"quantized_dimension": None, "block_sizes": {0: 2}},
    ):
        assert same != parameters(**changed)
    assert same != "parameters"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"storage": "f8"},
            ValueError,
            "unknown storage type 'f8', available: 'i1' to 'i32', 'u1' to 'u32', and "
            "float types, e.g. 'f8E4M3FN'",
        ),
        (
            {"storage": "i33"},
            ValueError,
            "unknown storage type 'i33', available: 'i1' to 'i32', 'u1' to 'u32', and "
            "float types, e.g. 'f8E4M3FN'",
        ),
        (
            {"storage": "i4", "storage_max": 8},
            ValueError,
            "storage range -8 to 8 exceeds 'i4'; expected values from -8 to 7",
        ),
        (
            {"storage_min": 5, "storage_max": 5},
            ValueError,
            "expected a storage range of at least two values, found 5 to 5",
        ),
        (
            {"zero_points": 128},
            ValueError,
            "zero point 128 is not representable in 'i8'; expected -128 to 127",
        ),
        (
            {"zero_points": 0.5},
            TypeError,
            "expected integers as zero points, found dtype float64",
        ),
        (
            {"scales": "a"},
            TypeError,
            "expected numbers as scales, found dtype <U1",
        ),
        (
            {"scales": [[1], [1, 2]]},
            ValueError,
            "unsupported ragged lists in scales",
        ),
        (
            {"scales": 0},
            ValueError,
            "scale 0.0 is out of the range of expressed type 'f32', 1.4013e-45 to "
            "3.40282e+38",
        ),
        (
            {"scales": [1, -1], "quantized_dimension": 0},
            ValueError,
            "scale -1.0 at index 1 is out of the range of expressed type 'f32', "
            "1.4013e-45 to 3.40282e+38",
        ),
        (
            {"scales": float("nan")},
            ValueError,
            "scale nan is out of the range of expressed type 'f32', 1.4013e-45 to "
            "3.40282e+38",
        ),
        (
            {"scales": 1e6, "expressed": "f16"},
            ValueError,
            "scale 1000000.0 is out of the range of expressed type 'f16', 5.96046e-08 to "
            "65504",
        ),
        (
            {"scales": [1, 2]},
            ValueError,
            "missing quantized_dimension or block_sizes for scales of shape (2,)",
        ),
        (
            {"scales": [], "quantized_dimension": 0},
            ValueError,
            "expected at least one scale, found shape (0,)",
        ),
        (
            {"scales": [1, 2], "zero_points": [0], "quantized_dimension": 0},
            ValueError,
            "expected zero points of shape (2,), found (1,)",
        ),
        (
            {"scales": [1], "quantized_dimension": -1},
            ValueError,
            "expected a quantized dimension of at least 0, found -1",
        ),
        (
            {"scales": [[1]], "quantized_dimension": 0},
            ValueError,
            "expected one-dimensional scales, found shape (1, 1)",
        ),
        (
            {"scales": [1], "quantized_dimension": 0, "block_sizes": {0: 1}},
            ValueError,
            "expected either quantized_dimension or block_sizes, found both",
        ),
        (
            {"scales": [[1]], "block_sizes": [(0, 1), (0, 2)]},
            ValueError,
            "expected distinct, non-negative dimensions in block sizes, found ((0, 1), "
            "(0, 2))",
        ),
        (
            {"scales": [[1]], "block_sizes": {-1: 2}},
            ValueError,
            "expected distinct, non-negative dimensions in block sizes, found ((-1, 2),)",
        ),
        (
            {"scales": [[1]], "block_sizes": {1: 0}},
            ValueError,
            "expected a positive block size, found 0",
        ),
        (
            {"scales": [[1, 2]], "block_sizes": {2: 2}},
            ValueError,
            "expected scales of the tensor's rank, or of rank 1 for block sizes of "
            "dimensions [2], found shape (1, 2)",
        ),
        (
            {"scales": [[1, 2], [3, 4]], "block_sizes": {1: 2}},
            ValueError,
            "missing block size of dimension 0 with 2 scales",
        ),
        (
            {"storage": 8},
            TypeError,
            "expected a storage type, e.g. 'i8', found 8",
        ),
        (
            {"expressed": np.float32},
            TypeError,
            "expected an expressed type, e.g. 'f32', found <class 'numpy.float32'>",
        ),
        (
            {"scales": [[1]], "block_sizes": [2, 1]},
            TypeError,
            "expected pairs of dimension and block size, found [2, 1]",
        ),
        (
            {"scales": [[1]], "block_sizes": 2},
            TypeError,
            "expected pairs of dimension and block size, found 2",
        ),
        (
            {"scales": [[1]], "block_sizes": {0: 1.5}},
            TypeError,
            "expected an integer as block size, found 1.5",
        ),
        (
            {"scales": [[1]], "block_sizes": {"0": 1}},
            TypeError,
            "expected an integer as dimension of a block size, found '0'",
        ),
        (
            {"storage_min": 1.5},
            TypeError,
            "expected an integer as storage_min, found 1.5",
        ),
        (
            {"storage_max": "1"},
            TypeError,
            "expected an integer as storage_max, found '1'",
        ),
        (
            {"scales": [1], "quantized_dimension": 0.5},
            TypeError,
            "expected an integer as quantized_dimension, found 0.5",
        ),
    ],
    ids=str,
)
def test_mistakes(arguments: dict[str, Any], error: type[Exception], message: str):
    arguments = {"scales": 1.0, **arguments}
    with pytest.raises(error) as raised:
        QuantizationParameters(**arguments)
    assert str(raised.value) == message


def test_integers_of_numpy_are_integers():
    parameters = QuantizationParameters(
        [1],
        storage_min=np.int8(-7),  # pyright: ignore[reportArgumentType] as good as an int
        quantized_dimension=np.int64(0),  # pyright: ignore[reportArgumentType] as good as an int
    )
    assert (parameters.storage_min, parameters.quantized_dimension) == (-7, 0)
    assert type(parameters.storage_min) is type(parameters.quantized_dimension) is int


def test_numerics_do_not_import_xdsl():
    code = "import sys, xdsl_quant.numerics; print('xdsl' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"


def test_scales_at_the_bounds_of_the_expressed_type():
    scales = np.array([2.0**-24, 65504.0])
    parameters = QuantizationParameters(
        scales, [0, 0], storage="i8", expressed="f16", quantized_dimension=0
    )
    np.testing.assert_array_equal(parameters.scales, scales)
    for index, wrong in (
        (0, [2.0**-25, 65504.0]),
        (1, [65504.0, 2.0**-25]),
        (0, [65505.0, 2.0**-24]),
        (1, [2.0**-24, 65505.0]),
    ):
        message = (
            f"scale {wrong[index]} at index {index} is out of the range of expressed "
            "type 'f16', 5.96046e-08 to 65504"
        )
        with pytest.raises(ValueError, match=re.escape(message)):
            QuantizationParameters(
                wrong, [0, 0], storage="i8", expressed="f16", quantized_dimension=0
            )


def test_hashes_of_different_parameters_differ():
    every = [
        QuantizationParameters(1.0),
        QuantizationParameters(2.0),
        QuantizationParameters(1.0, 1),
        QuantizationParameters(1.0, storage="u8"),
        QuantizationParameters([1.0], quantized_dimension=0),
    ]
    assert len({hash(parameters) for parameters in every}) == len(every)
    assert hash(QuantizationParameters(1.0)) == hash(every[0])


def test_types_without_scales():
    with pytest.raises(TypeError) as raised:
        QuantizationParameters.from_type(3)  # pyright: ignore[reportArgumentType] the mistake
    assert str(raised.value) == "expected a '!quant.uniform' type, found int"
    any_type = AnyQuantizedType(i8, f32)
    with pytest.raises(ValueError) as raised:  # noqa: PT011 compared below
        QuantizationParameters.from_type(any_type)  # pyright: ignore[reportArgumentType] the mistake
    assert str(raised.value) == (
        "type '!quant.any<i8:f32>' has no scale; use '!quant.uniform'"
    )
