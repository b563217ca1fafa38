"""Quantized types whose scales are integers: what they say, their text, and mistakes."""

import pickle
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerType,
    TensorType,
    f16,
    f32,
    f64,
    i8,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from xdsl_quant.dialects.quant import (
    FixedPointQuantizedPerAxisType,
    FixedPointQuantizedType,
    Quant,
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.constructor_arguments import short_text
from xdsl_quant.dialects.quant.type_html import type_html
from xdsl_quant.numerics import multiplier_from_tflite

MULTIPLIERS = st.integers(1 << 30, (1 << 31) - 1)
SHIFTS = st.integers(2, 62)
ZERO_POINTS = st.integers(-128, 127)


def _parse(text: str) -> Attribute:
    ctx = Context()
    ctx.load_dialect(Quant)
    return Parser(ctx, text).parse_type()


def _per_axis(*elements: tuple[int, int, int], dimension: int = 0):
    multipliers, shifts, zero_points = zip(*elements, strict=True)
    return FixedPointQuantizedPerAxisType(
        i8, f32, multipliers, shifts, zero_points, quantized_dimension=dimension
    )


# What they say


def test_per_layer():
    quantized_type = FixedPointQuantizedType(
        i8, f32, 1288490189, 37, 3, storage_type_min=-127
    )
    assert (
        str(quantized_type) == "!quant.fixed_point<i8<-127:127>:f32, 1288490189p-37:3>"
    )
    assert _parse(str(quantized_type)) == quantized_type
    assert quantized_type.to_uniform() == UniformQuantizedType(
        i8, f32, 1288490189 / 2**37, 3, storage_type_min=-127
    )
    tensor = TensorType(f32, [2])
    assert quantized_type.cast_from_expressed_type(tensor) == TensorType(
        quantized_type, [2]
    )
    assert FixedPointQuantizedType.cast_to_storage_type(
        TensorType(quantized_type, [2])
    ) == TensorType(i8, [2])


def test_pairs_of_tflite():
    pairs = [(1288490189, 37, 3), (3 << 29, 2, 0), (1 << 30, 62, 1)]
    quantized_type = _per_axis(*pairs)
    multipliers, shifts = quantized_type.tflite_multipliers_and_shifts
    assert [*multipliers] == [1288490189, 3 << 29, 1 << 30]
    assert [*shifts] == [-6, 29, -31]
    # And back, also for multipliers that are not the longest.
    for some in (multipliers, [1288490189, 3, 1]):
        left = [-6, 58, -1] if some != multipliers else shifts
        assert quantized_type == FixedPointQuantizedPerAxisType(
            i8,
            f32,
            *multiplier_from_tflite([*some], [*left]),
            [3, 0, 1],
            quantized_dimension=0,
        )
    per_tensor = FixedPointQuantizedType(i8, f32, *multiplier_from_tflite(5, -3), 7)
    assert per_tensor.tflite_multipliers_and_shifts == ((5 << 28,), [-31])
    assert str(per_tensor) == "!quant.fixed_point<i8:f32, 1342177280p-62:7>"


def test_unsigned_storage():
    quantized_type = FixedPointQuantizedType(
        IntegerType(4), f16, 1 << 30, 30, 15, is_signed=False
    )
    assert str(quantized_type) == "!quant.fixed_point<u4:f16, 1073741824p-30:15>"
    assert _parse(str(quantized_type)) == quantized_type


def test_per_axis():
    quantized_type = _per_axis((1288490189, 37, 3), (3 << 29, 38, 0), dimension=1)
    assert str(quantized_type) == (
        "!quant.fixed_point<i8:f32:1, {1288490189p-37:3,1610612736p-38}>"
    )
    assert _parse(str(quantized_type)) == quantized_type
    assert quantized_type.to_uniform() == UniformQuantizedPerAxisType(
        i8, f32, [1288490189 / 2**37, 3 * 2**-9], [3, 0], quantized_dimension=1
    )


def test_zero_points_default_to_0():
    quantized_type = FixedPointQuantizedPerAxisType(
        i8, f32, [1 << 30] * 2, [30, 31], quantized_dimension=0
    )
    assert str(quantized_type) == (
        "!quant.fixed_point<i8:f32:0, {1073741824p-30,1073741824p-31}>"
    )


def test_numbers_are_blocks_of_bytes():
    quantized_type = _per_axis((1 << 30, 30, -1), (3 << 29, 62, 1))
    arrays = (quantized_type.multipliers, quantized_type.shifts)
    for array, size in zip(arrays, (4, 1), strict=True):
        assert isinstance(array, DenseArrayBase)
        assert len(array.data.data) == 2 * size


def test_equal_types():
    one, other = _per_axis((1 << 30, 30, 0)), _per_axis((1 << 30, 30, 0))
    assert one == other
    assert hash(one) == hash(other)
    assert one != _per_axis((1 << 30, 31, 0))
    assert one != _per_axis((1 << 30, 30, 0), dimension=1)
    assert one != one.to_uniform()
    assert pickle.loads(pickle.dumps(one)) == one


# Text


@given(MULTIPLIERS, SHIFTS, ZERO_POINTS)
def test_text_of_one_scale(multiplier: int, shift: int, zero_point: int):
    quantized_type = FixedPointQuantizedType(i8, f32, multiplier, shift, zero_point)
    assert _parse(str(quantized_type)) == quantized_type
    scale = Fraction(multiplier, 1 << shift)
    assert Fraction(quantized_type.to_uniform().scale.data) == scale


@given(st.lists(st.tuples(MULTIPLIERS, SHIFTS, ZERO_POINTS), min_size=1))
def test_text_of_many_scales(elements: list[tuple[int, int, int]]):
    quantized_type = _per_axis(*elements)
    assert _parse(str(quantized_type)) == quantized_type
    scales = [Fraction(multiplier, 1 << shift) for multiplier, shift, _ in elements]
    uniform = quantized_type.to_uniform()
    assert [*map(Fraction, uniform.scales.get_values())] == scales
    assert uniform.zero_points == quantized_type.zero_points


@pytest.mark.parametrize(
    "elements",
    [
        "{ 1073741824p-30:7 , 1610612736p-31 }",
        "{1073741824p-30:7,\n  1610612736p-31}",
        "{1073741824 p -30 : 7, 1610612736p-31:0}",
        "{1073741824p-30:07, 1610612736p-31:-0}",
        "{1073741824p-030:7, // half of it\n 1610612736p-31}",
        "{0x40000000 p-30:0x7, 1610612736p-31}",
    ],
)
def test_other_ways_to_write_a_list(elements: str):
    expected = _per_axis((1 << 30, 30, 7), (3 << 29, 31, 0))
    assert _parse(f"!quant.fixed_point<i8:f32:0, {elements}>") == expected


def test_pretty_and_long_names():
    text = "fixed_point<i8:f32, 1073741824p-30>"
    assert _parse(f"!quant<{text}>") == _parse(f"!quant.{text}")


def test_long_lists_take_the_short_way(monkeypatch: pytest.MonkeyPatch):
    quantized_type = _per_axis(*[(1 << 30, 2 + i % 60, i % 3) for i in range(1000)])

    def element(_: object) -> Any:
        raise AssertionError("an element was read on its own")

    monkeypatch.setattr(
        "xdsl_quant.dialects.quant.type_syntax.TypeSyntax._fixed_point_element",
        element,
    )
    assert _parse(str(quantized_type)) == quantized_type
    without = FixedPointQuantizedPerAxisType(
        i8, f32, [1 << 30] * 9, [30] * 9, quantized_dimension=0
    )
    assert _parse(str(without)) == without


def _line_count(action: Any) -> int:
    """How many lines of Python an action executes."""
    count = 0

    def trace(*_: object) -> Any:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(None)
    return count


def test_no_python_code_is_run_for_each_scale():
    def work(count: int) -> None:
        quantized_type = FixedPointQuantizedPerAxisType(
            i8,
            f32,
            np.full(count, (1 << 31) - 1),
            np.full(count, 40),
            np.arange(count) % 2,
            quantized_dimension=0,
        )
        assert _parse(str(quantized_type)) == quantized_type
        quantized_type.to_uniform()
        type_html(quantized_type)

    work(100)
    assert _line_count(lambda: work(4000)) < _line_count(lambda: work(1000)) + 1000


# Mistakes


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            "i8:f32, 3p-4",
            "multiplier 3 is out of the range 1073741824 to 2147483647; write '3p-4' as "
            "'1610612736p-33'",
        ),
        (
            "i8:f32, 4294967296p-10",
            "multiplier 4294967296 is out of the range 1073741824 to 2147483647; write "
            "'4294967296p-10' as '1073741824p-8'",
        ),
        (
            "i8:f32, 4294967297p-10",
            "multiplier 4294967297 is out of the range 1073741824 to 2147483647",
        ),
        (
            "i8:f32, 3p-62",
            "multiplier 3 is out of the range 1073741824 to 2147483647",
        ),
        (
            "i8:f32, 0p-3",
            "multiplier 0 is out of the range 1073741824 to 2147483647",
        ),
        (
            "i8:f32, -1073741824p-30",
            "multiplier -1073741824 is out of the range 1073741824 to 2147483647",
        ),
        ("i8:f32, 1073741824p-1", "shift 1 is out of the range 2 to 62"),
        ("i8:f32, 1073741824p-63", "shift 63 is out of the range 2 to 62"),
        (
            "i8:f32:0, {1073741824p-30, 3p-4}",
            "multiplier 3 is out of the range 1073741824 to 2147483647; write '3p-4' as "
            "'1610612736p-33'",
        ),
        (
            "i8:f32:0, {1073741824p-30, 99999999999p-4}",
            "multiplier 99999999999 is out of the range 1073741824 to 2147483647",
        ),
        (
            "i8:f32:0, {1073741824p-30, 1073741824p-63}",
            "shift 63 is out of the range 2 to 62",
        ),
        (
            "i8:f32:0, {1073741824p-300, 1073741824p-62}",
            "shift 300 is out of the range 2 to 62",
        ),
        (
            "i8:f32:0, {1073741824p-300, 1073741824p-62:3}",
            "shift 300 is out of the range 2 to 62",
        ),
        (
            "i8:f32, 1073741824p-30:128",
            "zero point 128 is not representable in 'i8'; expected -128 to 127",
        ),
        (
            "u4:f32:0, {1073741824p-30:-1}",
            "zero point -1 is not representable in 'u4'; expected 0 to 15",
        ),
        (
            "i8:f16, 1073741824p-10",
            "scale 1.048576e+06 out of expressed type range [5.960464e-08, 6.550400e+04]",
        ),
        ("i8:f32:-1, {1073741824p-30}", "illegal quantized dimension: -1"),
        ("i33:f32, 1073741824p-30", "illegal storage type size: 33"),
        (
            "i8:f32, 0.5",
            "expected an integer times a power of two, e.g. '1610612736p-38', but got "
            "'0.5'",
        ),
        (
            "i8:f32, 1073741824",
            "expected 'p-' and a shift after the multiplier, e.g. '1610612736p-38'",
        ),
        (
            "i8:f32, 1073741824p30",
            "expected 'p-' and a shift after the multiplier, e.g. '1610612736p-38'",
        ),
        ("i8:f32, 1073741824p+30", "expected '-'"),
        ("i8:f32:0, {}", "expected integer value"),
        ("i8:f32:0, 1073741824p-30", "expected '{'"),
        ("i8, 1073741824p-30", "expected ':'"),
        ("i8:f32, 99999999999999999999p-30", "integer value too large"),
    ],
)
def test_mistakes(parameters: str, message: str):
    with pytest.raises(ParseError) as error:
        _parse(f"!quant.fixed_point<{parameters}>")
    assert error.value.msg == message


def test_mistakes_in_python():
    with pytest.raises(
        VerifyException, match=r"^illegal number of multipliers, shifts "
    ):
        FixedPointQuantizedPerAxisType(
            i8, f32, [1 << 30], [30, 31], quantized_dimension=0
        )
    with pytest.raises(VerifyException, match=r"^illegal number of .*: 0, 0, 0$"):
        FixedPointQuantizedPerAxisType(i8, f32, [], [], quantized_dimension=0)
    with pytest.raises(
        VerifyException, match=r"^expected multipliers representable in i64$"
    ):
        FixedPointQuantizedPerAxisType(i8, f32, [1 << 64], [30], quantized_dimension=0)
    with pytest.raises(VerifyException, match=r"^multiplier 4294967296 is out of the "):
        FixedPointQuantizedPerAxisType(i8, f32, [1 << 32], [30], quantized_dimension=0)


_PER_LAYER: dict[str, Any] = {
    "storage_type": i8,
    "expressed_type": f32,
    "multiplier": 1 << 30,
    "shift": 32,
    "zero_point": 1,
}
_PER_AXIS: dict[str, Any] = {
    "storage_type": i8,
    "expressed_type": f32,
    "multipliers": [1 << 30, 3 << 29],
    "shifts": [32, 33],
    "zero_points": [1, 0],
    "quantized_dimension": 0,
}


def _per_layer_with(**changes: Any) -> FixedPointQuantizedType:
    return FixedPointQuantizedType(**_PER_LAYER | changes)


def _per_axis_with(**changes: Any) -> FixedPointQuantizedPerAxisType:
    return FixedPointQuantizedPerAxisType(**_PER_AXIS | changes)


@pytest.mark.parametrize("make", [_per_layer_with, _per_axis_with])
def test_types_of_the_wrong_kind(make: Callable[..., Attribute]):
    with pytest.raises(TypeError) as error:
        make(storage_type="i8")
    assert str(error.value) == (
        "storage type must be an integer type such as i8, f8E5M2, f8E4M3FN, f4E2M1FN or a "
        "quantile type, not str"
    )
    with pytest.raises(TypeError) as error:
        make(expressed_type=i8)
    assert str(error.value) == (
        "expressed type must be a float type such as f32, not i8"
    )


@pytest.mark.parametrize(
    ("value", "shown"), [(1.5, "1.5"), ("3", "'3'"), (None, "None"), (True, "True")]
)
def test_numbers_that_are_no_integers(value: Any, shown: str):
    for name in ("multiplier", "shift", "zero_point"):
        with pytest.raises(TypeError) as error:
            _per_layer_with(**{name: value})
        what = name.replace("_", " ")
        assert str(error.value) == f"{what} must be an integer, not {shown}"
    with pytest.raises(TypeError) as error:
        _per_axis_with(quantized_dimension=value)
    assert str(error.value) == f"quantized dimension must be an integer, not {shown}"


@pytest.mark.parametrize("name", ["multipliers", "shifts", "zero_points"])
def test_sequences_that_are_none(name: str):
    what = name.replace("_", " ")
    with pytest.raises(TypeError) as error:
        _per_axis_with(**{name: 30})
    assert str(error.value) == f"{what} must be a sequence of integers, not 30"
    with pytest.raises(TypeError) as error:
        _per_axis_with(**{name: [30, 1.5]})
    assert str(error.value) == f"{what} must be integers, not 1.5"
    with pytest.raises(VerifyException) as verification:
        _per_axis_with(**{name: [[30], [30]]})
    assert str(verification.value) == (
        f"{what} must have one dimension, not shape (2, 1)"
    )


def test_integers_of_numpy():
    assert (
        _per_layer_with(
            multiplier=np.int64(1 << 30), shift=np.uint8(32), zero_point=np.array(1)
        )
        == _per_layer_with()
    )
    assert (
        _per_axis_with(
            multipliers=np.array([1 << 30, 3 << 29], np.uint32),
            shifts=[np.int8(32), 33],
            zero_points=np.array([1, 0], np.uint64),
            quantized_dimension=np.array(0),
        )
        == _per_axis_with()
    )


# In a notebook


def test_html():
    html = type_html(FixedPointQuantizedType(i8, f32, 1288490189, 37, 3))
    for part in ("fixed-point, per-tensor", "1288490189p-37 = 0.009375", ">3<", "i8"):
        assert part in html
    html = type_html(_per_axis((1288490189, 37, 3), (3 << 29, 30, 0), dimension=1))
    for part in ("fixed-point, per-axis", "0.009375, 1.5", "3, 0"):
        assert part in html


def test_text_in_a_notebook_is_short():
    many = FixedPointQuantizedPerAxisType(
        i8, f64, [1 << 30] * 1000, [30] * 1000, quantized_dimension=0
    )
    assert len(short_text(many)) < 210
