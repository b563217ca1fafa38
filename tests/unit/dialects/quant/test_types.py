"""Quantized types built in Python: parameters, queries, identity and verification."""

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import (
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
    QuantizedType,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.types import (
    default_storage_max,
    default_storage_min,
    floats_attr,
    ints_attr,
)

i4 = IntegerType(4)
si8 = IntegerType(8, Signedness.SIGNED)
ui8 = IntegerType(8, Signedness.UNSIGNED)
ui4 = IntegerType(4, Signedness.UNSIGNED)

ANY = AnyQuantizedType(i8, f32)
ANY_WITHOUT_EXPRESSED = AnyQuantizedType(i8)
PER_LAYER = UniformQuantizedType(i8, f32, 0.5, 3)
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

STORED = [ANY, ANY_WITHOUT_EXPRESSED, PER_LAYER, PER_AXIS, SUB_CHANNEL]
ALL = [*STORED, CALIBRATED]
EXPRESSED = [ANY, PER_LAYER, PER_AXIS, SUB_CHANNEL, CALIBRATED]


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
    assert text(PER_LAYER) == "!quant.uniform<i8:f32, 5.000000e-01:3>"
    assert PER_LAYER.storage_type_min.data == -128
    assert PER_LAYER.storage_type_max.data == 127
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


def test_new_makes_the_type_that_the_parameters_belong_to():
    for quantized_type in (PER_LAYER, PER_AXIS, SUB_CHANNEL):
        made = UniformQuantizedType.new(quantized_type.parameters)
        assert type(made) is type(quantized_type)
        assert made == quantized_type


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
@pytest.mark.parametrize("quantized_type", [ANY, PER_LAYER, PER_AXIS, SUB_CHANNEL])
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
        for quantized_type in (ANY, PER_LAYER, PER_AXIS, SUB_CHANNEL)
        for name, value in [("expressed_type", f64), *_OTHER_STORAGE]
    ),
    (ANY, "expressed_type", NoneAttr()),
    (PER_LAYER, "scale", FloatData(math.nextafter(0.5, 1.0))),
    (PER_LAYER, "zero_point", IntAttr(4)),
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


@pytest.mark.parametrize("quantized_type", [ANY, PER_LAYER, PER_AXIS, SUB_CHANNEL])
def test_types_that_differ_in_signedness_differ(quantized_type: QuantizedType):
    unsigned = _replaced(quantized_type, **_OTHER_UNSIGNED)
    signed = _replaced(unsigned, flags=IntAttr(1))
    assert unsigned != signed
    assert hash(unsigned) != hash(signed)


def test_all_parameters_are_tested():
    tested = {(type(t), name) for t, name, _ in _OTHER_PARAMETERS}
    for quantized_type in (ANY, PER_LAYER, PER_AXIS, SUB_CHANNEL, CALIBRATED):
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
        PER_LAYER.scale = FloatData(1.0)  # pyright: ignore[reportAttributeAccessIssue] # what is tested


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
            f"zero point {1 << 63} does not fit 64 bits",
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
            "zero points must fit 64 bits",
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
            "scales and zero points must not be ragged",
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
    "quantized_type", [PER_LAYER, PER_AXIS, SUB_CHANNEL, CALIBRATED]
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


@pytest.mark.parametrize(
    "make",
    [
        lambda: UniformQuantizedType(i8, f32, 0.5, 1.7),  # pyright: ignore[reportArgumentType] a mistake
        lambda: UniformQuantizedType(i8, f32, 0.5, storage_type_min=1.5),  # pyright: ignore[reportArgumentType] a mistake
        lambda: UniformQuantizedPerAxisType(i8, f32, [0.5], quantized_dimension=1.0),  # pyright: ignore[reportArgumentType] a mistake
    ],
)
def test_numbers_that_are_no_integers(make: Callable[[], QuantizedType]):
    with pytest.raises(TypeError, match=r"object cannot be interpreted as an integer$"):
        make()


def test_texts_are_no_scales():
    with pytest.raises(TypeError, match="must be real number, not str"):
        UniformQuantizedPerAxisType(i8, f32, "12", quantized_dimension=1)  # pyright: ignore[reportArgumentType] a mistake
