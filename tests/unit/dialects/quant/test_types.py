"""Quantized types built in Python: parameters, queries, identity and verification."""

import copy
import math
import pickle
from array import array
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BFloat16Type,
    BytesAttr,
    ComplexType,
    DenseArrayBase,
    Float8E4M3FNType,
    FloatData,
    IndexType,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    FixedPointQuantizedPerAxisType,
    FixedPointQuantizedType,
    NoQuantizedType,
    QuantizedType,
    ScaledQuantizedType,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.constructor_arguments import floats_attr, ints_attr
from xdsl_quant.dialects.quant.storage_types import (
    default_storage_max,
    default_storage_min,
)

i4 = IntegerType(4)
si8 = IntegerType(8, Signedness.SIGNED)
ui8 = IntegerType(8, Signedness.UNSIGNED)
ui4 = IntegerType(4, Signedness.UNSIGNED)

ANY = AnyQuantizedType(i8, f32)
ANY_WITHOUT_EXPRESSED = AnyQuantizedType(i8)
PER_TENSOR = UniformQuantizedType(i8, f32, 0.5, 3)
PER_AXIS = UniformQuantizedPerAxisType(
    i8, f32, [0.5, 2.0], [1, 0], quantized_dimension=1
)
SUB_CHANNEL = UniformQuantizedSubChannelType(
    i8,
    f32,
    [[0.5, 2.0], [1.0, 4.0]],
    [[1, 2], [3, 4]],
    quantized_dimensions=[0, 1],
    block_sizes=[1, 2],
)
CALIBRATED = CalibratedQuantizedType(f32, -1.0, 1.5)
NONE = NoQuantizedType(f32)

STORED = [ANY, ANY_WITHOUT_EXPRESSED, PER_TENSOR, PER_AXIS, SUB_CHANNEL]
ALL = [*STORED, CALIBRATED, NONE]
EXPRESSED = [ANY, PER_TENSOR, PER_AXIS, SUB_CHANNEL, CALIBRATED, NONE]


def text(quantized_type: QuantizedType) -> str:
    """How a type is printed."""
    return str(quantized_type)


# Construction


def test_defaults():
    assert text(ANY_WITHOUT_EXPRESSED) == "!quant.any<i8>"
    assert text(ANY) == "!quant.any<i8:f32>"
    assert text(UniformQuantizedType(i8, f32, 0.5)) == (
        "!quant.uniform<i8:f32, 5.000000e-01>"
    )
    assert text(PER_TENSOR) == "!quant.uniform<i8:f32, 5.000000e-01:3>"
    assert PER_TENSOR.storage_type_min.data == -128
    assert PER_TENSOR.storage_type_max.data == 127
    assert text(
        UniformQuantizedPerAxisType(i8, f32, [1.0, 2.0], quantized_dimension=0)
    ) == ("!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00}>")
    assert (
        text(
            UniformQuantizedSubChannelType(
                i8, f32, [[1.0, 2.0]], quantized_dimensions=[1], block_sizes=[2]
            )
        )
        == "!quant.uniform<i8:f32:{1:2}, {{1.000000e+00, 2.000000e+00}}>"
    )
    assert text(CALIBRATED) == "!quant.calibrated<f32<-1.000000e+00:1.500000e+00>>"
    assert text(NONE) == "!quant.none<f32>"


def test_storage_is_unsigned_by_flag_or_by_type():
    unsigned = AnyQuantizedType(i8, is_signed=False)
    assert text(unsigned) == "!quant.any<u8>"
    assert (unsigned.storage_type_min.data, unsigned.storage_type_max.data) == (0, 255)
    assert text(AnyQuantizedType(ui8)) == "!quant.any<ui8>"
    assert text(AnyQuantizedType(si8)) == "!quant.any<si8>"
    assert text(UniformQuantizedType(i16, f32, 1.0, 40000, is_signed=False)) == (
        "!quant.uniform<u16:f32, 1.000000e+00:40000>"
    )


def test_one_bound_of_the_storage_range():
    assert (
        text(AnyQuantizedType(i8, storage_type_min=-127)) == "!quant.any<i8<-127:127>>"
    )
    assert text(
        UniformQuantizedType(i8, f32, 1.0, storage_type_max=7, is_signed=False)
    ) == ("!quant.uniform<u8<0:7>:f32, 1.000000e+00>")


@pytest.mark.parametrize(
    ("width", "is_signed", "low", "high"),
    [
        (1, True, -1, 0),
        (1, False, 0, 1),
        (4, True, -8, 7),
        (8, False, 0, 255),
        (32, True, -(1 << 31), (1 << 31) - 1),
        (32, False, 0, (1 << 32) - 1),
    ],
)
def test_default_storage_range(width: int, is_signed: bool, low: int, high: int):
    assert default_storage_min(width, is_signed) == low
    assert default_storage_max(width, is_signed) == high


@pytest.mark.parametrize("zero_points", [[1, 0], (1, 0), np.array([1, 0], np.int8)])
@pytest.mark.parametrize(
    "scales",
    [
        [0.5, 2.0],
        (0.5, 2.0),
        [0.5, 2],
        np.array([0.5, 2.0]),
        np.array([0.5, 2.0], np.float32),
        np.array([0.5, 9.0, 2.0], np.float16)[::2],
    ],
)
def test_per_axis_parameters_from_sequences(scales: Any, zero_points: Any):
    assert (
        UniformQuantizedPerAxisType(i8, f32, scales, zero_points, quantized_dimension=1)
        == PER_AXIS
    )


def test_per_axis_parameters_from_iterators():
    quantized_type = UniformQuantizedPerAxisType(
        i8, f32, iter([0.5, 2.0]), (z for z in (1, 0)), quantized_dimension=1
    )
    assert quantized_type == PER_AXIS


@pytest.mark.parametrize(
    ("scales", "zero_points"),
    [
        ([[0.5, 2.0], [1.0, 4.0]], [[1, 2], [3, 4]]),
        (((0.5, 2.0), (1.0, 4.0)), [(1, 2), (3, 4)]),
        (np.array([[0.5, 2.0], [1.0, 4.0]]), np.array([[1, 2], [3, 4]])),
        (
            np.array([[0.5, 1.0], [2.0, 4.0]], np.float32).T,
            np.array([[1, 3], [2, 4]]).T,
        ),
    ],
)
def test_sub_channel_parameters_from_nested_sequences(scales: Any, zero_points: Any):
    quantized_type = UniformQuantizedSubChannelType(
        i8,
        f32,
        scales,
        zero_points,
        quantized_dimensions=(0, 1),
        block_sizes=(1, 2),
    )
    assert quantized_type == SUB_CHANNEL
    assert quantized_type.scales_shape.get_values() == (2, 2)
    assert quantized_type.block_size_info == ((0, 1), (1, 2))


def test_sub_channel_scales_of_higher_rank():
    quantized_type = UniformQuantizedSubChannelType(
        i8,
        f32,
        np.arange(1.0, 13.0).reshape(2, 1, 3, 2),
        quantized_dimensions=[],
        block_sizes=[],
    )
    assert quantized_type.scales_shape.get_values() == (2, 1, 3, 2)
    assert quantized_type.scales.get_values() == tuple(map(float, range(1, 13)))
    assert quantized_type.zero_points.get_values() == (0,) * 12
    assert quantized_type.block_size_info == ()


def test_sub_channel_parameters_are_canonical():
    """Scales are rounded to the expressed type; MLIR wraps large unsigned zero points."""
    halves = UniformQuantizedSubChannelType(
        i8, f16, [0.1], quantized_dimensions=[0], block_sizes=[1]
    )
    assert halves.scales.get_values() == (0.0999755859375,)
    unsigned = UniformQuantizedSubChannelType(
        i8,
        f32,
        [1.0, 1.0, 1.0],
        [-56, 200, -200],
        quantized_dimensions=[0],
        block_sizes=[1],
        is_signed=False,
    )
    assert unsigned.zero_points.get_values() == (200, 200, -200)


def test_payload_is_bytes():
    """No Python object for each scale: what is hashed and compared is bytes."""
    for attr in (PER_AXIS.scales, PER_AXIS.zero_points, SUB_CHANNEL.scales_shape):
        assert isinstance(attr, DenseArrayBase)
        assert isinstance(attr.data, BytesAttr)
        assert isinstance(attr.data.data, bytes)
    assert PER_AXIS.scales.data.data == np.array([0.5, 2.0]).tobytes()
    assert PER_AXIS.zero_points.data.data == np.array([1, 0], np.int64).tobytes()
    assert SUB_CHANNEL.scales.data.data == np.array([0.5, 2.0, 1.0, 4.0]).tobytes()
    assert (
        SUB_CHANNEL.zero_points.data.data == np.arange(1, 5, dtype=np.int64).tobytes()
    )


def test_text_is_cached(monkeypatch: pytest.MonkeyPatch):
    calls: list[QuantizedType] = []
    original = UniformQuantizedPerAxisType.text

    def counted(self: UniformQuantizedPerAxisType) -> str:
        calls.append(self)
        return original(self)

    monkeypatch.setattr(UniformQuantizedPerAxisType, "text", counted)
    quantized_type = UniformQuantizedPerAxisType(i8, f32, [7.0], quantized_dimension=3)
    texts = [str(quantized_type) for _ in range(3)]
    texts.append(str(TensorType(quantized_type, [2])))
    assert texts == [
        *["!quant.uniform<i8:f32:3, {7.000000e+00}>"] * 3,
        "tensor<2x!quant.uniform<i8:f32:3, {7.000000e+00}>>",
    ]
    assert len(calls) == 1


def test_cached_text_is_no_part_of_the_type():
    fresh = UniformQuantizedType(i8, f32, 0.5, 3)
    used = UniformQuantizedType(i8, f32, 0.5, 3)
    str(used)
    assert fresh == used
    assert hash(fresh) == hash(used)


def test_new_makes_the_type_with_the_parameters():
    for quantized_type in (PER_TENSOR, PER_AXIS, SUB_CHANNEL):
        made = type(quantized_type).new(quantized_type.parameters)
        assert type(made) is type(quantized_type)
        assert made == quantized_type


# Accessors


FIXED_POINT = FixedPointQuantizedType(i8, f32, 1 << 30, 31, 3)
FIXED_POINT_PER_AXIS = FixedPointQuantizedPerAxisType(
    i8, f32, [1 << 30, 3 << 29], [31, 31], [-1, 2], quantized_dimension=2
)
BLOCKS = UniformQuantizedSubChannelType(
    *(i8, f32, [[0.5, 1.0, 2.0]], [[1, 2, 3]]),
    quantized_dimensions=[3, 1],
    block_sizes=[4, 2],
)
"""On a tensor of rank 4 this is compact: two dimensions of scales for 1 and 3."""


@pytest.mark.parametrize(
    ("quantized_type", "granularity", "axis", "scales", "zero_points", "blocks"),
    [
        (PER_TENSOR, "per-tensor", None, 0.5, 3, {}),
        (FIXED_POINT, "per-tensor", None, 0.5, 3, {}),
        (PER_AXIS, "per-axis", 1, [0.5, 2.0], [1, 0], {1: (2, 1)}),
        (FIXED_POINT_PER_AXIS, "per-axis", 2, [0.5, 0.75], [-1, 2], {2: (2, 1)}),
        (
            *(BLOCKS, "sub-channel", None, [[0.5, 1.0, 2.0]], [[1, 2, 3]]),
            {3: (3, 4), 1: (1, 2)},
        ),
    ],
)
def test_accessors(
    quantized_type: ScaledQuantizedType,
    granularity: str,
    axis: int | None,
    scales: object,
    zero_points: object,
    blocks: dict[int, tuple[int, int]],
):
    assert quantized_type.granularity == granularity
    assert quantized_type.is_per_tensor == (granularity == "per-tensor")
    assert quantized_type.axis == axis
    got_scales, got_zero_points = (
        quantized_type.get_scales(),
        quantized_type.get_zero_points(),
    )
    assert got_scales.dtype == np.float64
    assert got_zero_points.dtype == np.int64
    assert got_scales.shape == got_zero_points.shape
    assert got_scales.shape == quantized_type.get_scales_shape()
    assert got_scales.tolist() == scales
    assert got_zero_points.tolist() == zero_points
    assert list(quantized_type.scale_array()) == got_scales.ravel().tolist()
    assert list(quantized_type.zero_point_array()) == got_zero_points.ravel().tolist()
    assert dict(quantized_type.get_blocks()) == blocks
    assert quantized_type.block_size_info == tuple(
        (dimension, size) for dimension, (_, size) in blocks.items()
    )
    assert quantized_type.zero_point_range == (
        got_zero_points.min(),
        got_zero_points.max(),
    )
    assert quantized_type.is_fixed_point == (not got_zero_points.any())


def test_rules_for_zero_points_and_shapes():
    quantized_type = UniformQuantizedPerAxisType(
        *(i8, f32, [1.0, 2.0], [-128, 127]),
        quantized_dimension=1,
        storage_type_min=-127,
    )
    assert quantized_type.storage_range == (-127, 127)
    assert quantized_type.full_storage_range == (-128, 127)
    assert not quantized_type.has_zero_points_in(quantized_type.storage_range)
    assert quantized_type.has_zero_points_in(quantized_type.full_storage_range)
    assert not quantized_type.has_axes_in([2])
    assert quantized_type.has_axes_in([3, 2])
    assert quantized_type.has_matching_sizes([3, 2])
    assert quantized_type.has_matching_sizes([3, DYNAMIC_INDEX])
    assert not quantized_type.has_matching_sizes([2, 3])


# Queries


@pytest.mark.parametrize(
    ("quantized_type", "is_signed", "width", "has_bounds", "name", "signless"),
    [
        (ANY, True, 8, False, "i8", i8),
        (AnyQuantizedType(i8, is_signed=False), False, 8, False, "u8", i8),
        (AnyQuantizedType(i1), True, 1, False, "i1", i1),
        (AnyQuantizedType(si8), True, 8, False, "si8", i8),
        (AnyQuantizedType(ui4), False, 4, False, "ui4", i4),
        (AnyQuantizedType(i8, storage_type_min=-127), True, 8, True, "i8", i8),
        (AnyQuantizedType(i8, storage_type_max=126), True, 8, True, "i8", i8),
        (
            AnyQuantizedType(i8, storage_type_min=-128, storage_type_max=127),
            *(True, 8, False, "i8", i8),
        ),
        (
            UniformQuantizedType(i32, f64, 1.0, storage_type_min=1, is_signed=False),
            *(False, 32, True, "u32", i32),
        ),
        (PER_AXIS, True, 8, False, "i8", i8),
        (SUB_CHANNEL, True, 8, False, "i8", i8),
    ],
)
def test_storage(
    quantized_type: StoredQuantizedType,
    is_signed: bool,
    width: int,
    has_bounds: bool,
    name: str,
    signless: IntegerType,
):
    assert quantized_type.is_signed is is_signed
    assert quantized_type.storage_type_integral_width == width
    assert quantized_type.has_storage_type_bounds is has_bounds
    assert quantized_type.storage_type_name == name
    assert quantized_type.signless_storage_type == signless


def _per_axis(zero_points: list[int]) -> UniformQuantizedPerAxisType:
    return UniformQuantizedPerAxisType(
        i8, f32, [1.0] * len(zero_points), zero_points, quantized_dimension=0
    )


def _sub_channel(zero_points: list[int]) -> UniformQuantizedSubChannelType:
    return UniformQuantizedSubChannelType(
        i8,
        f32,
        [1.0] * len(zero_points),
        zero_points,
        quantized_dimensions=[0],
        block_sizes=[1],
    )


@pytest.mark.parametrize("make", [_per_axis, _sub_channel])
@pytest.mark.parametrize(
    ("zero_points", "is_fixed_point"),
    [
        ([0], True),
        ([0, 0, 0], True),
        ([1], False),
        ([0, 0, 1], False),
        ([1, 0, 0], False),
        ([-1, 1], False),
        ([256], False),
        ([-(1 << 63)], False),
    ],
)
def test_is_fixed_point(
    make: Callable[
        [list[int]], UniformQuantizedPerAxisType | UniformQuantizedSubChannelType
    ],
    zero_points: list[int],
    is_fixed_point: bool,
):
    """True if all zero points are 0, where MLIR says so if none is."""
    assert make(zero_points).is_fixed_point is is_fixed_point


def test_is_fixed_point_per_layer():
    assert UniformQuantizedType(i8, f32, 1.0).is_fixed_point is True
    assert UniformQuantizedType(i8, f32, 1.0, -1).is_fixed_point is False


CONTAINERS: list[Callable[[Any], Attribute]] = [
    lambda element: element,
    lambda element: TensorType(element, [2, -1]),
    lambda element: TensorType(element, [4], StringAttr("encoding")),
    lambda element: TensorType(element, []),
    lambda element: UnrankedTensorType(element),
]
"""A scalar and the tensors of an element type."""


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("quantized_type", STORED)
def test_cast_from_and_to_storage_type(
    quantized_type: StoredQuantizedType, container: Callable[[Any], Attribute]
):
    quantized, stored = container(quantized_type), container(i8)
    assert quantized_type.cast_from_storage_type(stored) == quantized
    assert quantized_type.cast_to_storage_type(quantized) == stored
    assert quantized_type.cast_from_storage_type(container(i16)) is None
    assert quantized_type.cast_from_storage_type(container(si8)) is None
    assert quantized_type.cast_from_storage_type(container(f32)) is None
    assert quantized_type.cast_from_storage_type(quantized) is None
    assert quantized_type.cast_to_storage_type(stored) is None
    assert quantized_type.cast_to_storage_type(container(CALIBRATED)) is None


@pytest.mark.parametrize("container", CONTAINERS)
def test_storage_types_keep_their_signedness(container: Callable[[Any], Attribute]):
    signed, unsigned = AnyQuantizedType(si8), AnyQuantizedType(ui8)
    assert signed.cast_from_storage_type(container(si8)) == container(signed)
    assert unsigned.cast_to_storage_type(container(unsigned)) == container(ui8)
    assert unsigned.cast_from_storage_type(container(i8)) is None


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("quantized_type", EXPRESSED)
def test_cast_from_and_to_expressed_type(
    quantized_type: QuantizedType, container: Callable[[Any], Attribute]
):
    quantized, expressed = container(quantized_type), container(f32)
    assert quantized_type.is_compatible_expressed_type(expressed) is True
    assert quantized_type.cast_from_expressed_type(expressed) == quantized
    assert quantized_type.cast_to_expressed_type(quantized) == expressed
    for other in (f64, i8, quantized_type, IndexType()):
        assert quantized_type.is_compatible_expressed_type(container(other)) is False
        assert quantized_type.cast_from_expressed_type(container(other)) is None
    assert quantized_type.cast_to_expressed_type(expressed) is None
    assert (
        quantized_type.cast_to_expressed_type(container(ANY_WITHOUT_EXPRESSED)) is None
    )


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("quantized_type", [ANY, PER_TENSOR, PER_AXIS, SUB_CHANNEL])
def test_cast_expressed_to_storage_type(
    quantized_type: StoredQuantizedType, container: Callable[[Any], Attribute]
):
    cast = quantized_type.cast_expressed_to_storage_type
    assert cast(container(f32)) == container(i8)
    assert cast(container(f16)) is None
    assert cast(container(i8)) is None
    assert cast(container(quantized_type)) is None


def test_types_without_expressed_type_are_compatible_with_none():
    assert ANY_WITHOUT_EXPRESSED.is_compatible_expressed_type(f32) is False
    assert ANY_WITHOUT_EXPRESSED.cast_from_expressed_type(f32) is None
    assert ANY_WITHOUT_EXPRESSED.cast_expressed_to_storage_type(f32) is None


def test_other_types_are_cast_to_nothing():
    for other in (f32, i8, ComplexType(f32), TensorType(f32, [2])):
        assert StoredQuantizedType.cast_to_storage_type(other) is None
        assert QuantizedType.cast_to_expressed_type(other) is None
        assert QuantizedType.get_quantized_element_type(other) is None


@pytest.mark.parametrize("container", CONTAINERS)
def test_quantized_element_type(container: Callable[[Any], Attribute]):
    for quantized_type in ALL:
        element_type = QuantizedType.get_quantized_element_type(
            container(quantized_type)
        )
        assert element_type is quantized_type


# Identity

_OTHER_STORAGE = [
    ("storage_type", si8),
    ("storage_type_min", IntAttr(-127)),
    ("storage_type_max", IntAttr(126)),
]
_OTHER_UNSIGNED = {
    "flags": IntAttr(0),
    "storage_type_min": IntAttr(0),
    "storage_type_max": IntAttr(100),
}
"""The signedness cannot change without the range."""

_OTHER_PARAMETERS: list[tuple[QuantizedType, str, Attribute]] = [
    *(
        (quantized_type, name, value)
        for quantized_type in (ANY, PER_TENSOR, PER_AXIS, SUB_CHANNEL)
        for name, value in [("expressed_type", f64), *_OTHER_STORAGE]
    ),
    (ANY, "expressed_type", NoneAttr()),
    (PER_TENSOR, "scale", FloatData(math.nextafter(0.5, 1.0))),
    (PER_TENSOR, "zero_point", IntAttr(4)),
    (PER_AXIS, "scales", floats_attr([0.5, 2.5])),
    (PER_AXIS, "scales", floats_attr([2.0, 0.5])),
    (PER_AXIS, "zero_points", ints_attr([1, 1])),
    (PER_AXIS, "quantized_dimension", IntAttr(0)),
    (SUB_CHANNEL, "scales", floats_attr([0.5, 2.0, 1.0, 5.0])),
    (SUB_CHANNEL, "zero_points", ints_attr([1, 2, 3, 5])),
    (SUB_CHANNEL, "scales_shape", ints_attr([1, 4])),
    (SUB_CHANNEL, "scales_shape", ints_attr([2, 2, 1])),
    (
        SUB_CHANNEL,
        "quantized_dimensions",
        DenseArrayBase.from_list(i32, [1, 0]),
    ),
    (SUB_CHANNEL, "block_sizes", ints_attr([1, 3])),
    (CALIBRATED, "expressed_type", f64),
    (CALIBRATED, "min", FloatData(-1.5)),
    (CALIBRATED, "max", FloatData(2.0)),
]


def _replaced(quantized_type: QuantizedType, **changes: Attribute) -> QuantizedType:
    """The type with other parameters."""
    definition = quantized_type.get_irdl_definition()
    parameters = dict(
        zip(dict(definition.parameters), quantized_type.parameters, strict=True)
    )
    assert changes.keys() <= parameters.keys()
    return type(quantized_type).new(list((parameters | changes).values()))


@pytest.mark.parametrize(("quantized_type", "name", "value"), _OTHER_PARAMETERS)
def test_types_that_differ_in_one_parameter_differ(
    quantized_type: QuantizedType, name: str, value: Attribute
):
    other = _replaced(quantized_type, **{name: value})
    assert type(other) is type(quantized_type)
    assert other != quantized_type
    assert quantized_type != other
    # xDSL gives all types without parameters, `f32` and `f64` too, one hash.
    if name != "expressed_type":
        assert hash(other) != hash(quantized_type)
    assert len({quantized_type, other}) == 2
    assert str(other) != str(quantized_type)


@pytest.mark.parametrize("quantized_type", [ANY, PER_TENSOR, PER_AXIS, SUB_CHANNEL])
def test_types_that_differ_in_signedness_differ(quantized_type: QuantizedType):
    unsigned = _replaced(quantized_type, **_OTHER_UNSIGNED)
    signed = _replaced(unsigned, flags=IntAttr(1))
    assert unsigned != signed
    assert hash(unsigned) != hash(signed)


def test_all_parameters_are_tested():
    tested = {(type(t), name) for t, name, _ in _OTHER_PARAMETERS}
    for quantized_type in (ANY, PER_TENSOR, PER_AXIS, SUB_CHANNEL, CALIBRATED):
        for name, _ in quantized_type.get_irdl_definition().parameters:
            assert (type(quantized_type), name) in tested or name == "flags"


@pytest.mark.parametrize("quantized_type", ALL)
def test_equal_parameters_make_equal_types(quantized_type: QuantizedType):
    again = _replaced(quantized_type)
    assert again is not quantized_type
    assert again == quantized_type
    assert hash(again) == hash(quantized_type)
    assert {again: 1}[quantized_type] == 1


@pytest.mark.parametrize("quantized_type", ALL)
def test_copies_are_equal(quantized_type: QuantizedType):
    str(quantized_type)
    copies: list[QuantizedType] = [
        copy.copy(quantized_type),
        copy.deepcopy(quantized_type),
        pickle.loads(pickle.dumps(quantized_type)),
    ]
    for copied in copies:
        assert type(copied) is type(quantized_type)
        assert copied == quantized_type
        assert hash(copied) == hash(quantized_type)
        assert str(copied) == str(quantized_type)


def test_types_cannot_be_changed():
    with pytest.raises(AttributeError):
        PER_TENSOR.scale = FloatData(1.0)  # pyright: ignore[reportAttributeAccessIssue] # what is tested


# Verification

_SCALE_RANGE = "out of expressed type range [1.401298e-45, 3.402823e+38]"


def _sub_channel_with(**changes: Attribute) -> Callable[[], QuantizedType]:
    return lambda: _replaced(SUB_CHANNEL, **changes)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AnyQuantizedType(IntegerType(33)), "illegal storage type size: 33"),
        (lambda: AnyQuantizedType(IntegerType(0)), "illegal storage type size: 0"),
        (lambda: AnyQuantizedType(i64), "illegal storage type size: 64"),
        (
            lambda: _replaced(ANY, storage_type=i64),
            "illegal storage type size: 64",
        ),
        (
            lambda: AnyQuantizedType(i8, storage_type_min=2, storage_type_max=1),
            "illegal storage min and storage max: (2:1)",
        ),
        (
            lambda: AnyQuantizedType(i8, storage_type_min=1, storage_type_max=1),
            "illegal storage min and storage max: (1:1)",
        ),
        (
            lambda: AnyQuantizedType(i8, storage_type_min=-129),
            "illegal storage min and storage max: (-129:127)",
        ),
        (
            lambda: AnyQuantizedType(i8, storage_type_max=128),
            "illegal storage min and storage max: (-128:128)",
        ),
        (
            lambda: AnyQuantizedType(i8, storage_type_min=-1, is_signed=False),
            "illegal storage min and storage max: (-1:255)",
        ),
        (
            lambda: AnyQuantizedType(ui8, is_signed=True),
            "signedness of storage type 'ui8' contradicts flags 1",
        ),
        (
            lambda: AnyQuantizedType(si8, is_signed=False),
            "signedness of storage type 'si8' contradicts flags 0",
        ),
        (
            lambda: _replaced(ANY, flags=IntAttr(2)),
            "signedness of storage type 'i8' contradicts flags 2",
        ),
        (
            lambda: UniformQuantizedType(i8, f32, -1.0),
            f"scale -1.000000e+00 {_SCALE_RANGE}",
        ),
        (
            lambda: UniformQuantizedType(i8, f32, 0.0),
            f"scale 0.000000e+00 {_SCALE_RANGE}",
        ),
        (lambda: UniformQuantizedType(i8, f32, math.inf), f"scale INF {_SCALE_RANGE}"),
        (lambda: UniformQuantizedType(i8, f32, math.nan), f"scale nan {_SCALE_RANGE}"),
        (
            lambda: UniformQuantizedType(i8, f32, 1e39),
            f"scale 1.000000e+39 {_SCALE_RANGE}",
        ),
        (
            lambda: UniformQuantizedType(i8, f16, 1e5),
            "scale 1.000000e+05 out of expressed type range "
            "[5.960464e-08, 6.550400e+04]",
        ),
        (
            lambda: UniformQuantizedType(i8, Float8E4M3FNType(), 449.0),
            "scale 4.490000e+02 out of expressed type range "
            "[1.953125e-03, 4.480000e+02]",
        ),
        (
            lambda: UniformQuantizedType(i8, BFloat16Type(), 1e-41),
            "scale 1.000000e-41 out of expressed type range "
            "[9.183550e-41, 3.389531e+38]",
        ),
        (
            lambda: UniformQuantizedType(i8, f32, 1.0, 1 << 63),
            f"zero point {1 << 63} is not representable in i64",
        ),
        (
            lambda: UniformQuantizedPerAxisType(i8, f32, [], quantized_dimension=0),
            "illegal number of scales and zeroPoints: 0, 0",
        ),
        (
            lambda: UniformQuantizedPerAxisType(
                i8, f32, [1.0, 2.0], [1], quantized_dimension=0
            ),
            "illegal number of scales and zeroPoints: 2, 1",
        ),
        (
            lambda: UniformQuantizedPerAxisType(
                i8, f32, [1.0, -2.0, 3.0], quantized_dimension=0
            ),
            f"scale -2.000000e+00 {_SCALE_RANGE}",
        ),
        (
            lambda: UniformQuantizedPerAxisType(
                i8, f32, [1.0, math.nan], quantized_dimension=0
            ),
            f"scale nan {_SCALE_RANGE}",
        ),
        (
            lambda: UniformQuantizedPerAxisType(i8, f32, [1.0], quantized_dimension=-1),
            "illegal quantized dimension: -1",
        ),
        (
            lambda: UniformQuantizedPerAxisType(
                i8, f32, [1.0], quantized_dimension=1 << 31
            ),
            "illegal quantized dimension: 2147483648",
        ),
        (
            lambda: UniformQuantizedPerAxisType(
                i8, f32, [1.0], [1 << 63], quantized_dimension=0
            ),
            "expected zero points representable in i64",
        ),
        (
            lambda: UniformQuantizedSubChannelType(
                i8, f32, [[1.0], [2.0]], [1, 2], quantized_dimensions=[], block_sizes=[]
            ),
            "shape of scales and zeroPoints ((2, 1), (2,)) does not match",
        ),
        (
            lambda: UniformQuantizedSubChannelType(
                i8, f32, [[1.0], [2.0, 3.0]], quantized_dimensions=[], block_sizes=[]
            ),
            "scales must have rows of equal lengths",
        ),
        (
            lambda: UniformQuantizedSubChannelType(
                i8, f32, [1.0], quantized_dimensions=[0], block_sizes=[1, 2]
            ),
            "number of quantized dimensions and block sizes (1, 2) does not match",
        ),
        (
            lambda: UniformQuantizedSubChannelType(
                i8, f32, [1.0], quantized_dimensions=[-1], block_sizes=[1]
            ),
            "illegal quantized dimension: -1",
        ),
        (
            lambda: UniformQuantizedSubChannelType(
                i8, f32, [1.0], quantized_dimensions=[0], block_sizes=[0]
            ),
            "illegal block size: 0",
        ),
        (
            lambda: UniformQuantizedSubChannelType(
                i8, f32, [[-1.0]], quantized_dimensions=[0], block_sizes=[1]
            ),
            f"scale -1.000000e+00 {_SCALE_RANGE}",
        ),
        (
            lambda: UniformQuantizedSubChannelType(
                i8, f32, [[]], quantized_dimensions=[0], block_sizes=[1]
            ),
            "illegal number of scales and zeroPoints: 0, 0",
        ),
        (
            _sub_channel_with(scales_shape=ints_attr([3, 2])),
            "shape of scales and zeroPoints (4, 4) does not match",
        ),
        (
            _sub_channel_with(zero_points=ints_attr([1])),
            "shape of scales and zeroPoints (4, 1) does not match",
        ),
        (
            lambda: CalibratedQuantizedType(f32, 1.0, -1.0),
            "illegal min and max: (1.000000e+00:-1.000000e+00)",
        ),
        (
            lambda: CalibratedQuantizedType(f32, 1.0, 1.0),
            "illegal min and max: (1.000000e+00:1.000000e+00)",
        ),
        (
            lambda: CalibratedQuantizedType(f32, math.nan, 1.0),
            "illegal min and max: (nan:1.000000e+00)",
        ),
    ],
)
def test_verification(make: Callable[[], QuantizedType], message: str):
    with pytest.raises(VerifyException) as e:
        make()
    assert str(e.value) == message


@pytest.mark.parametrize(
    "quantized_type", [PER_TENSOR, PER_AXIS, SUB_CHANNEL, CALIBRATED]
)
def test_expressed_types_are_floats(quantized_type: QuantizedType):
    for other in (i8, NoneAttr(), IndexType()):
        with pytest.raises(VerifyException):
            _replaced(quantized_type, expressed_type=other)


def test_the_smallest_and_the_largest_scale():
    smallest = UniformQuantizedType(i8, f32, 2.0**-149)
    assert text(smallest) == "!quant.uniform<i8:f32, 1.4012984643248171E-45>"
    largest = UniformQuantizedType(i8, f16, 65504.0)
    assert text(largest) == "!quant.uniform<i8:f16, 6.550400e+04>"


def test_cached_hash_is_not_pickled():
    """The hash of a class is another one in another process."""
    quantized_type = UniformQuantizedType(i8, f32, 0.5, 3)
    assert hash(quantized_type) == hash(UniformQuantizedType(i8, f32, 0.5, 3))
    assert str(quantized_type) == "!quant.uniform<i8:f32, 5.000000e-01:3>"
    state = quantized_type.__getstate__()
    assert set(state) == {
        name for name, _ in UniformQuantizedType.get_irdl_definition().parameters
    }


# Python arguments


def _uniform(**changes: Any) -> QuantizedType:
    arguments: dict[str, Any] = {"scale": 0.5, "zero_point": 3}
    return UniformQuantizedType(**_TYPES | arguments | changes)


def _uniform_per_axis(**changes: Any) -> QuantizedType:
    arguments: dict[str, Any] = {
        "scales": [0.5, 2.0],
        "zero_points": [1, 0],
        "quantized_dimension": 1,
    }
    return UniformQuantizedPerAxisType(**_TYPES | arguments | changes)


def _uniform_sub_channel(**changes: Any) -> QuantizedType:
    arguments: dict[str, Any] = {
        "scales": [[0.5, 2.0], [1.0, 4.0]],
        "zero_points": [[1, 2], [3, 4]],
        "quantized_dimensions": [0, 1],
        "block_sizes": [1, 2],
    }
    return UniformQuantizedSubChannelType(**_TYPES | arguments | changes)


def _any(**changes: Any) -> QuantizedType:
    return AnyQuantizedType(**_TYPES | changes)


def _calibrated(**changes: Any) -> QuantizedType:
    arguments: dict[str, Any] = {"expressed_type": f32, "min": -1.0, "max": 1.5}
    return CalibratedQuantizedType(**arguments | changes)


def _none(**changes: Any) -> QuantizedType:
    arguments: dict[str, Any] = {"expressed_type": f32}
    return NoQuantizedType(**arguments | changes)


_TYPES: dict[str, Any] = {"storage_type": i8, "expressed_type": f32}
_STORED = [_any, _uniform, _uniform_per_axis, _uniform_sub_channel]


def _mistake(make: Callable[..., QuantizedType], name: str, value: object) -> str:
    """The message about an argument of the wrong type."""
    with pytest.raises(TypeError) as e:
        make(**{name: value})
    return str(e.value)


@pytest.mark.parametrize("make", _STORED)
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("i8", "str"),
        (None, "NoneType"),
        (f32, "f32"),
        (IndexType(), "index"),
        (IntegerType, "the class IntegerType"),
        (np.int8, "the class int8"),
        (np.zeros(2), "ndarray"),
        (8, "int"),
        (IntAttr(8), "IntAttr"),
    ],
)
def test_storage_types_are_storage_types(
    make: Callable[..., QuantizedType], value: object, shown: str
):
    assert _mistake(make, "storage_type", value) == (
        "storage type must be an integer type such as i8, f8E5M2, f8E4M3FN, f4E2M1FN or a "
        f"quantile type, not {shown}"
    )


@pytest.mark.parametrize("make", [*_STORED, _calibrated, _none])
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (i8, "i8"),
        ("f32", "str"),
        (BFloat16Type, "the class BFloat16Type"),
        (np.zeros(2), "ndarray"),
        ([], "list"),
        (TensorType(f32, [2]), "tensor<2xf32>"),
        (
            UniformQuantizedPerAxisType(i8, f32, [1.0] * 99, quantized_dimension=0),
            "!quant.uniform<i8:f32:0, {1.000000e+00,1.000000e+00,1.000...",
        ),
    ],
)
def test_expressed_types_are_float_types(
    make: Callable[..., QuantizedType], value: object, shown: str
):
    assert _mistake(make, "expressed_type", value) == (
        f"expressed type must be a float type such as f32, not {shown}"
    )


def test_storage_type_and_expressed_type_in_the_wrong_order():
    with pytest.raises(TypeError) as e:
        UniformQuantizedType(f32, i8, 0.5)  # pyright: ignore[reportArgumentType] a mistake
    assert str(e.value) == (
        "storage type must be an integer type such as i8, f8E5M2, f8E4M3FN, f4E2M1FN or a "
        "quantile type, not f32"
    )


@pytest.mark.parametrize("value", [None, NoneAttr()])
def test_the_type_any_alone_may_have_no_expressed_type(value: object):
    assert _any(expressed_type=value) == ANY_WITHOUT_EXPRESSED
    for make in (
        _uniform,
        _uniform_per_axis,
        _uniform_sub_channel,
        _calibrated,
        _none,
    ):
        assert _mistake(make, "expressed_type", value).startswith(
            "expressed type must be a float type such as f32, not None"
        )


_NO_NUMBERS = [
    (None, "None"),
    ("0.5", "'0.5'"),
    (True, "True"),
    (np.True_, "True"),
    (1j, "1j"),
    (np.complex64(1j), "1j"),
    ([1], "list"),
    (np.array([1]), "ndarray"),
    (np.array("1"), "'1'"),
    (f32, "Float32Type"),
    (IntAttr(1), "IntAttr"),
    (FloatData(1.0), "FloatData"),
]
_NO_INTEGERS = [
    *_NO_NUMBERS,
    (1.5, "1.5"),
    (1.0, "1.0"),
    (np.float32(1.5), "1.5"),
    (np.array(1.5), "1.5"),
]


@pytest.mark.parametrize(
    ("make", "name"), [(_uniform, "scale"), (_calibrated, "min"), (_calibrated, "max")]
)
@pytest.mark.parametrize(("value", "shown"), _NO_NUMBERS)
def test_values_that_are_no_numbers(
    make: Callable[..., QuantizedType], name: str, value: object, shown: str
):
    assert _mistake(make, name, value) == f"{name} must be a number, not {shown}"


@pytest.mark.parametrize(
    ("make", "name", "what"),
    [
        (_uniform, "zero_point", "zero point"),
        (_uniform_per_axis, "quantized_dimension", "quantized dimension"),
    ],
)
@pytest.mark.parametrize(("value", "shown"), _NO_INTEGERS)
def test_values_that_are_no_integers(
    make: Callable[..., QuantizedType], name: str, what: str, value: object, shown: str
):
    assert _mistake(make, name, value) == f"{what} must be an integer, not {shown}"


@pytest.mark.parametrize("make", _STORED)
@pytest.mark.parametrize("name", ["storage_type_min", "storage_type_max"])
@pytest.mark.parametrize(("value", "shown"), _NO_INTEGERS[1:])
def test_bounds_that_are_no_integers(
    make: Callable[..., QuantizedType], name: str, value: object, shown: str
):
    assert _mistake(make, name, value) == f"{name} must be an integer, not {shown}"


@pytest.mark.parametrize("make", _STORED)
@pytest.mark.parametrize(("value", "shown"), [("no", "'no'"), (1, "1"), ([], "list")])
def test_signedness_is_a_bool(
    make: Callable[..., QuantizedType], value: object, shown: str
):
    assert _mistake(make, "is_signed", value) == (
        f"is_signed must be True or False, not {shown}"
    )


_SEQUENCES = [
    (_uniform_per_axis, "scales", "scales", "numbers"),
    (_uniform_per_axis, "zero_points", "zero points", "integers"),
    (_uniform_sub_channel, "scales", "scales", "numbers"),
    (_uniform_sub_channel, "zero_points", "zero points", "integers"),
    (_uniform_sub_channel, "quantized_dimensions", "quantized dimensions", "integers"),
    (_uniform_sub_channel, "block_sizes", "block sizes", "integers"),
]


@pytest.mark.parametrize(("make", "name", "what", "numbers"), _SEQUENCES)
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.5, "0.5"),
        (1, "1"),
        (np.float32(0.5), "0.5"),
        (np.array(1), "1"),
        ("12", "'12'"),
        (b"12", "bytes"),
        (bytearray(b"12"), "bytearray"),
        ({0: 1, 1: 2}, "dict"),
        ({1, 2}, "set"),
        (f32, "Float32Type"),
    ],
)
def test_values_that_are_no_sequences(
    make: Callable[..., QuantizedType],
    name: str,
    what: str,
    numbers: str,
    value: object,
    shown: str,
):
    assert _mistake(make, name, value) == (
        f"{what} must be a sequence of {numbers}, not {shown}"
    )


@pytest.mark.parametrize(("make", "name", "what", "numbers"), _SEQUENCES)
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([1, None], "None"),
        ([1, "2"], "'2'"),
        ([1, True], "True"),
        ([1, 1j], "1j"),
        ([1, [2]], "list"),
        ((f32, f32), "Float32Type"),
        (np.array([True, False]), "True"),
        (np.array(["1", "2"]), "'1'"),
        (np.array([1, 2j]), "(1+0j)"),
        (np.array([1, None]), "None"),
    ],
)
def test_elements_that_are_no_numbers(
    make: Callable[..., QuantizedType],
    name: str,
    what: str,
    numbers: str,
    value: object,
    shown: str,
):
    assert _mistake(make, name, value) == f"{what} must be {numbers}, not {shown}"


@pytest.mark.parametrize("value", [[1, 1.5], np.array([1.5]), (np.float32(1.5),)])
@pytest.mark.parametrize(
    ("make", "name", "what"),
    [(make, name, what) for make, name, what, n in _SEQUENCES if n == "integers"],
)
def test_elements_that_are_no_integers(
    make: Callable[..., QuantizedType], name: str, what: str, value: object
):
    assert _mistake(make, name, value) == f"{what} must be integers, not 1.5"


@pytest.mark.parametrize(
    ("make", "name", "value", "message"),
    [
        (_uniform, "scale", 10**400, "expected scale representable in f64"),
        (_calibrated, "max", 10**400, "expected max representable in f64"),
        (
            _uniform_per_axis,
            "scales",
            [1, 10**400],
            "expected scales representable in f64",
        ),
        (
            _uniform_per_axis,
            "zero_points",
            np.array([1, 1 << 63], np.uint64),
            "expected zero points representable in i64",
        ),
        (
            _uniform_per_axis,
            "scales",
            [[0.5], [2.0]],
            "scales must have one dimension, not shape (2, 1)",
        ),
        (
            _uniform_per_axis,
            "zero_points",
            np.array([[1, 0]]),
            "zero points must have one dimension, not shape (1, 2)",
        ),
        # Four numbers like two rows of two.
        (
            _uniform_sub_channel,
            "scales",
            [[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]],
            "scales must have rows of equal lengths",
        ),
        (
            _uniform_sub_channel,
            "zero_points",
            [[1, 2], 3],
            "zero points must have rows of equal lengths",
        ),
        (
            _uniform_sub_channel,
            "quantized_dimensions",
            [0, 1 << 31],
            "illegal quantized dimension: 2147483648",
        ),
        (
            _uniform_sub_channel,
            "block_sizes",
            [1, 1 << 63],
            "expected block sizes representable in i64",
        ),
    ],
)
def test_arguments_out_of_range(
    make: Callable[..., QuantizedType], name: str, value: object, message: str
):
    with pytest.raises(VerifyException) as e:
        make(**{name: value})
    assert str(e.value) == message


@pytest.mark.parametrize(
    "number", [np.int8, np.uint64, np.float16, np.float32, np.float64, np.array, int]
)
def test_numbers_of_numpy(number: Callable[[Any], Any]):
    assert _uniform(scale=number(2)) == _uniform(scale=2.0)
    assert _calibrated(max=number(2)) == _calibrated(max=2.0)
    assert _uniform_per_axis(scales=[number(2), 1]) == _uniform_per_axis(scales=[2, 1])


@pytest.mark.parametrize("number", [np.int8, np.uint64, np.array, int])
def test_integers_of_numpy(number: Callable[[Any], Any]):
    assert _uniform(zero_point=number(2)) == _uniform(zero_point=2)
    assert _any(storage_type_min=number(2)) == _any(storage_type_min=2)
    changed = _uniform_per_axis(
        zero_points=[number(2), 1], quantized_dimension=number(2)
    )
    assert changed == _uniform_per_axis(zero_points=[2, 1], quantized_dimension=2)


@pytest.mark.parametrize("is_signed", [np.False_, np.array(False)])
def test_signedness_of_numpy(is_signed: object):
    assert _any(is_signed=is_signed) == AnyQuantizedType(i8, f32, is_signed=False)


def test_sequences_of_numpy():
    """Arrays in place of any list, and lists of arrays in place of nested lists."""
    changed = _uniform_sub_channel(
        scales=[np.array([0.5, 2.0]), np.array([1.0, 4.0], np.float32)],
        zero_points=iter([[1, 2], np.array([3, 4])]),
        quantized_dimensions=np.array([0, 1]),
        block_sizes=np.array([1, 2], np.uint8),
    )
    assert changed == SUB_CHANNEL


@pytest.mark.parametrize(
    "scales",
    [
        np.array([0.5, 2.0], ">f8"),
        np.array([0.5, 2.0], object),
        np.array([0.5, 2.0], ml_dtypes.bfloat16),
        [ml_dtypes.bfloat16(0.5), Fraction(2)],
        array("f", [0.5, 2.0]),
    ],
)
def test_scales_of_many_kinds(scales: Any):
    assert _uniform_per_axis(scales=scales) == PER_AXIS


@pytest.mark.parametrize(
    "zero_points",
    [
        np.array([1, 0], ">i4"),
        np.array([1, 0], np.uint64),
        np.array([1, 0], object),
        np.array([1, 0], ml_dtypes.int4),
        range(1, -1, -1),
        array("b", [1, 0]),
    ],
)
def test_zero_points_of_many_kinds(zero_points: Any):
    assert _uniform_per_axis(zero_points=zero_points) == PER_AXIS
