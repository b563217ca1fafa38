"""Storage types that are no integers: small floats and quantile types."""

import pickle
import re
from array import array
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import (
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E4M3Type,
    Float8E5M2Type,
    IntAttr,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
    UnrankedTensorType,
    bf16,
    f16,
    f32,
    i8,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.utils.exceptions import VerifyException

from tests.conformance.this_package import parse_type
from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    FixedPointQuantizedType,
    QuantileType,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.constructor_arguments import floats_attr, short_text
from xdsl_quant.dialects.quant.storage_types import StorageType
from xdsl_quant.dialects.quant.type_html import type_html
from xdsl_quant.numerics import QuantizationParameters

f8E5M2, f8E4M3FN, f4E2M1FN = Float8E5M2Type(), Float8E4M3FNType(), Float4E2M1FNType()
i4 = IntegerType(4)
ui4 = IntegerType(4, Signedness.UNSIGNED)
si4 = IntegerType(4, Signedness.SIGNED)

TERNARY = QuantileType(
    ui4, f16, [-1.0, 0.0, 1.0], storage_type_min=0, storage_type_max=2
)
TERNARY_TEXT = (
    "!quant.quantile<ui4:f16, {-1.000000e+00,0.000000e+00,1.000000e+00}, <0:2>>"
)

STORAGE_TYPES: list[StorageType] = [
    f8E5M2,
    f8E4M3FN,
    f4E2M1FN,
    TERNARY,
    QuantileType(IntegerType(1), i8, [0.0, 1.0]),
    QuantileType(si4, f16, np.linspace(-1.0, 1.0, 16)),
    QuantileType(f4E2M1FN, bf16, range(16)),
]


def _types(storage_type: StorageType) -> list[StoredQuantizedType]:
    return [
        AnyQuantizedType(storage_type),
        AnyQuantizedType(storage_type, f32),
        UniformQuantizedType(storage_type, f32, 0.5, -3),
        UniformQuantizedPerAxisType(
            storage_type, f32, [0.5, 1.0], [1, -2], quantized_dimension=0
        ),
        UniformQuantizedSubChannelType(
            storage_type,
            f32,
            [[0.5], [1.0]],
            [[1], [-2]],
            quantized_dimensions=[0],
            block_sizes=[2],
        ),
    ]


_ALL = [type_ for storage_type in STORAGE_TYPES for type_ in _types(storage_type)]


@pytest.mark.parametrize("type_", [*_ALL, *STORAGE_TYPES[3:]], ids=str)
def test_text_and_pickles_read_back(type_: Attribute):
    for same in (parse_type(str(type_)), pickle.loads(pickle.dumps(type_))):
        assert same == type_
        assert hash(same) == hash(type_)
        assert str(same) == str(type_)
    type_.verify()


@pytest.mark.parametrize(
    ("storage_type", "width", "is_signed", "bounds"),
    [
        (f8E5M2, 8, True, (-57344, 57344)),
        (f8E4M3FN, 8, True, (-448, 448)),
        (f4E2M1FN, 4, True, (-6, 6)),
        (TERNARY, 4, False, (0, 2)),
        (QuantileType(i4, f16, range(16)), 4, False, (0, 15)),
        (QuantileType(ui4, f16, range(16)), 4, False, (0, 15)),
        (QuantileType(si4, f16, range(16)), 4, True, (-8, 7)),
        (QuantileType(f4E2M1FN, f16, range(16)), 4, True, (-8, 7)),
    ],
    ids=str,
)
def test_storage(
    storage_type: StorageType, width: int, is_signed: bool, bounds: tuple[int, int]
):
    for type_ in _types(storage_type):
        assert type_.storage_type == storage_type
        assert type_.storage_type_integral_width == width
        assert type_.is_signed is is_signed
        assert type_.storage_range == type_.full_storage_range == bounds
        assert not type_.has_storage_type_bounds
        assert not type_.has_integer_storage
        assert type_.storage_type_name == type_.storage_text == str(storage_type)
        assert type_.signless_storage_type == IntegerType(width)


def test_ranges_may_be_narrowed():
    type_ = UniformQuantizedType(f8E4M3FN, f32, 0.5, storage_type_min=-447)
    assert str(type_) == "!quant.uniform<f8E4M3FN<-447:448>:f32, 5.000000e-01>"
    type_ = AnyQuantizedType(TERNARY, storage_type_max=1)
    assert str(type_) == f"!quant.any<{TERNARY_TEXT}<0:1>>"
    assert type_.has_storage_type_bounds


_CONTAINERS: list[Callable[[TypeAttribute], Attribute]] = [
    lambda type_: type_,
    lambda type_: TensorType(type_, [2, -1]),
    UnrankedTensorType,
]


@pytest.mark.parametrize("container", _CONTAINERS)
@pytest.mark.parametrize("storage_type", STORAGE_TYPES, ids=str)
def test_casts_between_containers(
    storage_type: StorageType, container: Callable[[TypeAttribute], Attribute]
):
    type_ = UniformQuantizedType(storage_type, f32, 0.5)
    quantized, stored = container(type_), container(storage_type)
    assert StoredQuantizedType.cast_to_storage_type(quantized) == stored
    assert type_.cast_from_storage_type(stored) == quantized
    assert type_.cast_expressed_to_storage_type(container(f32)) == stored
    is_float = not isinstance(storage_type, QuantileType)
    signless = type_.signless_storage_type
    assert type_.stored_type == (storage_type if is_float else signless)
    assert StoredQuantizedType.cast_to_signless_storage_type(quantized) == container(
        storage_type if is_float else signless
    )


# Zero points


def test_zero_points_of_quantile_types_are_values():
    low, high = -(1 << 40), 1 << 40
    type_ = UniformQuantizedPerAxisType(
        TERNARY, f32, [0.5, 1.0], [low, high], quantized_dimension=0
    )
    type_.verify_zero_points_are_storable()
    sub_channel = UniformQuantizedSubChannelType(
        TERNARY, f32, [0.5], [-2], quantized_dimensions=[0], block_sizes=[1]
    )
    assert [*sub_channel.zero_point_array()] == [-2]


def test_zero_points_of_floats():
    UniformQuantizedType(f8E4M3FN, f32, 0.5, 448).verify_zero_points_are_storable()
    with pytest.raises(VerifyException) as e:
        UniformQuantizedType(f8E4M3FN, f32, 0.5, -449).verify_zero_points_are_storable()
    assert str(e.value) == (
        "zero point -449 is not representable in 'f8E4M3FN'; expected -448 to 448"
    )


# Quantile types


def test_quantile_type():
    assert str(TERNARY) == TERNARY_TEXT
    assert TERNARY.storage_type == ui4
    assert TERNARY.quantile_type == f16
    assert TERNARY.quantile_array() == array("d", [-1.0, 0.0, 1.0])
    assert TERNARY.storage_range == (0, 2)
    assert TERNARY.has_storage_range
    assert TERNARY.bitwidth == 4


def test_written_range_is_another_type():
    assert QuantileType(ui4, f16, range(16)) != QuantileType(
        ui4, f16, range(16), storage_type_min=0, storage_type_max=15
    )


def test_all_digits_read_back():
    values = [0.1 + 0.2, -1 / 3, 5e-324, 1.7976931348623157e308]
    type_ = QuantileType(IntegerType(2), f32, values)
    parsed = parse_type(f"!quant.any<{type_}>")
    assert isinstance(parsed, AnyQuantizedType)
    assert isinstance(parsed.storage_type, QuantileType)
    assert [*parsed.storage_type.quantile_array()] == values


def test_zeros_keep_their_sign():
    assert str(QuantileType(IntegerType(1), f32, [-0.0, 0.0])) == (
        "!quant.quantile<i1:f32, {-0.000000e+00,0.000000e+00}>"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: QuantileType(None, f16, [1.0]),  # pyright: ignore[reportArgumentType] wrong on purpose
            "storage type must be an integer or float type such as i4, not NoneType",
        ),
        (
            lambda: QuantileType(i4, TERNARY, [1.0]),  # pyright: ignore[reportArgumentType] wrong on purpose
            "quantile type must be an integer or float type such as i4, not "
            f"{TERNARY_TEXT[:57]}...",
        ),
        (
            lambda: QuantileType(i4, f16, 1.0),  # pyright: ignore[reportArgumentType] wrong on purpose
            "quantiles must be a sequence of numbers, not 1.0",
        ),
        (
            lambda: QuantileType(i4, f16, [1.0, "a"]),  # pyright: ignore[reportArgumentType] wrong on purpose
            "quantiles must be numbers, not 'a'",
        ),
        (
            lambda: AnyQuantizedType(Float8E4M3Type()),  # pyright: ignore[reportArgumentType] wrong on purpose
            "storage type must be an integer type such as i8, f8E5M2, f8E4M3FN, f4E2M1FN "
            "or a quantile type, not f8E4M3",
        ),
    ],
)
def test_wrong_arguments(make: Callable[[], object], message: str):
    with pytest.raises(TypeError) as e:
        make()
    assert str(e.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QuantileType(i4, f16, []), "quantile values must not be empty"),
        (
            lambda: QuantileType(i4, f16, [1.0]),
            "quantile LUT size (1) must equal the number of representable storage values "
            "(16)",
        ),
        (
            lambda: QuantileType(IntegerType(0, Signedness.SIGNED), f16, [1.0]),
            "quantile LUT size (1) must equal the number of representable storage values "
            "(0)",
        ),
        (
            lambda: QuantileType(IntegerType(100000), f16, [1.0]),
            "quantile LUT size (1) must equal the number of representable storage values "
            "(2**100000)",
        ),
        (
            lambda: QuantileType(i4, f16, [1.0], storage_type_min=0),
            "storage min and max must both be specified or both omitted",
        ),
        (
            lambda: QuantileType(i4, f16, [1.0], storage_type_max=0),
            "storage min and max must both be specified or both omitted",
        ),
        (
            lambda: QuantileType(
                i4, f16, [1.0], storage_type_min=0, storage_type_max=0
            ),
            "storage min must be less than storage max",
        ),
        (
            lambda: QuantileType(IntegerType(1), f16, [1.0, float("nan")]),
            "quantile values must be finite (no NaN or infinity)",
        ),
        (
            lambda: QuantileType.new(
                [i4, f16, floats_attr([]), NoneAttr(), IntAttr(2)]
            ),
            "quantile values must not be empty",
        ),
        (
            lambda: AnyQuantizedType(
                QuantileType(
                    IntegerType(33),
                    f16,
                    [0.0, 1.0],
                    storage_type_min=0,
                    storage_type_max=1,
                )
            ),
            "illegal storage type size: 33",
        ),
        (
            lambda: AnyQuantizedType(f4E2M1FN, is_signed=False),
            "signedness of storage type 'f4E2M1FN' contradicts flags 0",
        ),
        (
            lambda: AnyQuantizedType(QuantileType(i4, f16, range(16)), is_signed=True),
            f"signedness of storage type '{QuantileType(i4, f16, range(16))}' "
            "contradicts flags 1",
        ),
        (
            lambda: AnyQuantizedType(f4E2M1FN, storage_type_max=7),
            "illegal storage min and storage max: (-6:7)",
        ),
        (
            lambda: FixedPointQuantizedType(f4E2M1FN, f32, 1 << 30, 31),
            "storage type of fixed-point scales must be an integer type, but got "
            "'f4E2M1FN'",
        ),
    ],
)
def test_invalid(make: Callable[[], object], message: str):
    with pytest.raises(VerifyException) as e:
        make()
    assert str(e.value) == message


# Display


def test_html():
    html = type_html(UniformQuantizedType(f8E4M3FN, f32, 0.5))
    assert "f8E4M3FN, -448 to 448" in html
    html = type_html(AnyQuantizedType(TERNARY))
    assert "indices in ui4, 0 to 2" in html
    assert "-1, 0, 1" in html


def test_html_of_many_values_is_short():
    storage_type = QuantileType(IntegerType(16), f16, np.linspace(-1.0, 1.0, 1 << 16))
    type_ = AnyQuantizedType(storage_type)
    html = type_html(type_)
    assert "65536: min -1, median 0, max 1" in html
    assert len(html) < 10_000
    assert len(short_text(type_)) < 300


def test_values_are_formatted_only_to_be_printed(monkeypatch: pytest.MonkeyPatch):
    """The text of 65,536 values takes longer than anything else that is done with them."""
    monkeypatch.delattr(QuantileType, "print_parameters")
    type_ = UniformQuantizedType(TERNARY, f32, 0.5)
    assert type_.short_storage_name == "!quant.quantile<ui4:f16, ...>"
    assert QuantizationParameters.from_type(type_).table is not None


# What computes with integers


@pytest.mark.parametrize(
    ("storage_type", "name"),
    [(f8E4M3FN, "f8E4M3FN"), (TERNARY, "!quant.quantile<ui4:f16, ...>")],
)
def test_parameters_of_integers(storage_type: StorageType, name: str):
    message = f"unsupported storage type '{name}', expected an integer type"
    with pytest.raises(ValueError, match=re.escape(message)):
        QuantizationParameters.from_integer_type(
            UniformQuantizedType(storage_type, f32, 0.5)
        )
