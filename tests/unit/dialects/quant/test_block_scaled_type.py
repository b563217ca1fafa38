"""Types whose scales are stored in a type of their own, or are quantized themselves."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    Builtin,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    Float8E4M3FNType,
    IntegerType,
    ModuleOp,
    TensorType,
    UnrankedTensorType,
    bf16,
    f16,
    f32,
    f64,
    f80,
    f128,
    i8,
    tf32,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from tests.unit.counting import calls
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    Quant,
    StoredNumbersAttr,
    UniformQuantizedType,
)
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.xdsl_patches import apply

I4 = IntegerType(4)


def _context() -> Context:
    context = Context()
    apply("builtin")
    context.load_dialect(Builtin)
    context.load_dialect(Quant)
    return context


def _parsed(text: str) -> BlockScaledQuantizedType:
    parsed = Parser(_context(), text).parse_type()
    assert isinstance(parsed, BlockScaledQuantizedType)
    return parsed


def _dense(values: Sequence[float], element_type: Any, shape: Sequence[int]) -> Any:
    return DenseIntOrFPElementsAttr.from_list(
        cast(Any, TensorType(element_type, shape)), values
    )


SIMPLE = (
    "!quant.block_scaled<i4:f32:{0:1, 1:32}, scales = dense<5.000000e-01> : "
    "tensor<8x2xf16>>"
)
WITH_ALL = (
    "!quant.block_scaled<u4<1:15>:f32:{1:32}, scales = dense<[1.000000e+00, "
    "-2.000000e+00]> : tensor<2xf16>, zero_points = dense<[7, -8]> : tensor<2xi4>, "
    "offsets = dense<2.500000e-01> : tensor<2xf8E4M3FN>>"
)
NESTED = (
    "!quant.block_scaled<u4:f32:{0:32}, scales = dense<[1, 2, 3, 4]> : tensor<4xi6> as "
    "!quant.block_scaled<u6:f32:{0:2}, scales = dense<[5.000000e-01, 1.000000e+00]> : "
    "tensor<2xf16>>>"
)
PER_TENSOR = (
    "!quant.block_scaled<i8:bf16:{}, scales = dense<5.000000e-01> : tensor<f8E8M0FNU>>"
)
AS_UNIFORM = (
    "!quant.block_scaled<i4:f32:{1:16}, scales = dense<[3, -4]> : tensor<2xi8> as "
    "!quant.uniform<i8:f32, 2.500000e-01:1>>"
)
RESOURCE = (
    "!quant.block_scaled<i4:f32:{1:2}, scales = dense_resource<block_scales> : "
    "tensor<2xf16>>"
)
TEXTS = [SIMPLE, WITH_ALL, NESTED, PER_TENSOR, AS_UNIFORM]


@pytest.mark.parametrize("text", TEXTS)
def test_text_round_trips(text: str):
    type_ = _parsed(text)
    assert str(type_) == text
    assert _parsed(text) == type_
    assert hash(_parsed(text)) == hash(type_)
    assert pickle.loads(pickle.dumps(type_)) == type_


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        (SIMPLE, {"scales": np.full((8, 2), 0.5)}),
        (WITH_ALL, {"scales": [1, -2], "zero_points": [7, 8], "offsets": [0.25] * 2}),
        (NESTED, {"scales": [0.5, 1, 3, 4]}),
        (PER_TENSOR, {"scales": 0.5}),
        (AS_UNIFORM, {"scales": [0.5, -1.25]}),
    ],
)
def test_numbers(text: str, numbers: dict[str, Any]):
    found = _parsed(text).get_numbers()
    assert found.keys() == numbers.keys()
    for name, expected in numbers.items():
        assert found[name].dtype == np.float64
        np.testing.assert_array_equal(found[name], expected)


def test_accessors():
    type_ = _parsed(WITH_ALL)
    assert type_.block_size_info == ((1, 32),)
    assert type_.get_blocks() == {1: (2, 32)}
    assert type_.get_scales_shape() == (2,)
    assert [*type_.block_parameter_attrs] == ["scales", "zero_points", "offsets"]
    assert type_.cast_from_expressed_type(TensorType(f32, [64, 64])) == TensorType(
        type_, [64, 64]
    )


def test_constructor_is_the_text():
    built = BlockScaledQuantizedType(
        I4,
        f32,
        _dense([1.0, -2.0], f16, [2]),
        block_sizes={1: 32},
        zero_points=_dense([7, 8], I4, [2]),
        offsets=_dense([0.25], Float8E4M3FNType(), [2]),
        is_signed=False,
        storage_type_min=1,
    )
    assert str(built) == WITH_ALL


def test_block_sizes_are_sorted():
    scales = _dense([1.0], f16, [2, 3])
    type_ = BlockScaledQuantizedType(I4, f32, scales, block_sizes={1: 4, 0: 8})
    assert type_.get_blocks() == {0: (2, 8), 1: (3, 4)}


def test_constructor_needs_elements():
    with pytest.raises(TypeError, match="scales must be a StoredNumbersAttr or an el"):
        BlockScaledQuantizedType(I4, f32, cast(Any, [1.0]), block_sizes={})


def test_numbers_from_arrays():
    scales = np.array([0.5, -2], np.float16)
    numbers = StoredNumbersAttr.from_array(scales, f16)
    assert numbers.elements == _dense([0.5, -2.0], f16, [2])
    stored = StoredNumbersAttr.from_array(
        np.array([1, -3], np.int8), i8, UniformQuantizedType(i8, f32, 0.5)
    )
    np.testing.assert_array_equal(stored.numbers(is_signed=False), [0.5, -1.5])
    with pytest.raises(
        VerifyException, match="of 2 bytes for type 'f16', but got 4 bytes"
    ):
        StoredNumbersAttr.from_array(scales.astype(np.float32), f16)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64", "f8E5M2", "f8E4M3FN"])
def test_numbers_of_float_types(name: str):
    scales = f"dense<[-1.5, 0.0]> : tensor<2x{name}>"
    text = f"!quant.block_scaled<i4:f32:{{0:1}}, scales = {scales}>"
    np.testing.assert_array_equal(_parsed(text).get_numbers()["scales"], [-1.5, 0])


@pytest.mark.parametrize(
    ("storage", "element", "zero_points"),
    [
        ("u4", "i4", [7, 15]),
        ("i4", "i4", [7, -1]),
        ("u4", "si4", [7, -1]),
        ("i4", "ui4", [7, 15]),
        ("u4", "i8", [7, 255]),
        ("i4", "f16", [7, -1]),
    ],
)
def test_signedness_of_zero_points(storage: str, element: str, zero_points: list[int]):
    last = "-1.0" if element == "f16" else "15" if element == "ui4" else "-1"
    first = "7.0" if element == "f16" else "7"
    type_ = _parsed(
        f"!quant.block_scaled<{storage}:f32:{{0:1}}, scales = dense<1.0> : "
        f"tensor<2xf16>, zero_points = dense<[{first}, {last}]> : tensor<2x{element}>>"
    )
    np.testing.assert_array_equal(type_.get_numbers()["zero_points"], zero_points)


# The type to compute in


@pytest.mark.parametrize(
    ("storage", "expressed", "scale", "zero_point", "computed"),
    [
        (4, f32, f16, None, f32),
        (4, f16, f16, None, f16),
        (12, f16, f16, None, f16),
        (13, f16, f16, None, f32),
        (4, f16, bf16, None, f32),
        (4, bf16, f16, None, f32),
        (4, bf16, bf16, 4, bf16),
        (8, bf16, bf16, 8, f32),
        (4, f16, f32, None, f32),
        (4, f32, f64, None, f64),
        (32, f32, f16, None, f64),
        (4, f64, f16, None, f64),
        (4, Float8E4M3FNType(), Float8E4M3FNType(), None, f32),
    ],
)
def test_compute_type(
    storage: int, expressed: Any, scale: Any, zero_point: int | None, computed: Any
):
    zeros = None if zero_point is None else _dense([0], IntegerType(zero_point), [])
    type_ = BlockScaledQuantizedType(
        IntegerType(storage),
        expressed,
        _dense([1.0], scale, []),
        block_sizes={},
        zero_points=zeros,
    )
    assert type_.compute_type == computed


# What is wrong


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tensor<8x2xf16>", "tensor<8xf16>", "scales must have a dimension for each "
         "of the 2 block sizes, but got 'tensor<8xf16>'"),
        ("5.000000e-01> : tensor<8x2xf16>", "1> : tensor<8x2xi8>",
         "scales must be floats, or stored values followed by 'as' and a quantized type, "
         "but got 'tensor<8x2xi8>'"),
        ("tensor<8x2xf16>", "vector<8x2xf16>", "block parameters must be a tensor of "
         "static shape, but got 'vector<8x2xf16>'"),
        ("dense<5.000000e-01>", "dense<0x7E00>", "block parameters must be finite, but "
         "one is nan"),
        ("dense<5.000000e-01>", "dense<0xFC00>", "block parameters must be finite, but "
         "one is -inf"),
        ("5.000000e-01", "1.0e50", "expected numbers representable in the element type"),
        ("5.000000e-01> : tensor<8x2xf16>", "-1.0> : tensor<8x2xf8E8M0FNU>",
         "expected numbers representable in the element type"),
        ("xf16>>", "xf16>, zero_points = dense<16> : tensor<8x2xui4>>",
         "expected numbers representable in the element type"),
        ("tensor<8x2xf16>", "tensor<8x2xf80>",
         "expected numbers representable in the element type"),
        ("dense<5.000000e-01>", "[1]", "expected 'dense' or 'dense_resource' "
         "elements"),
        ("scales", "scale", "expected 'scales'"),
        ("{0:1, 1:32}", "{1:32, 0:1}", "quantized dimensions must be in ascending "
         "order, but got 1, 0"),
        ("{0:1, 1:32}", "{0:1, 1:0}", "illegal block size: 0"),
        ("{0:1, 1:32}", "{0:1, -1:1}", "illegal quantized dimension: -1"),
        ("xf16>>", "xf16>, offsets = dense<1.0> : tensor<8x2xf16>, offsets = 1>",
         "expected 'zero_points'"),
        ("xf16>>", "xf16>, zeros = 1>", "expected 'zero_points' or 'offsets'"),
        ("xf16>>", "xf16>, offsets = dense<1.0> : tensor<8xf16>>", "offsets must have "
         "the shape of scales, 'tensor<8x2xf16>', but got 'tensor<8xf16>'"),
        ("xf16>>", "xf16> as i8>", "expected a quantized type with a scale, but got "
         "'i8'"),
        ("xf16>>", "xf16> as !quant.any<i8:f32>>", "expected a quantized type with a "
         "scale for block parameters, but got '!quant.any<i8:f32>'"),
        ("xf16>>", "xf16> as !quant.uniform<i8:f32, 1.0>>", "expected block parameters "
         "of type 'i8' for '!quant.uniform<i8:f32, 1.000000e+00>', but got 'f16'"),
        ("i4:f32", "i40:f32", "illegal storage type size: 40"),
        ("i4:f32", "i4:i8", "invalid kind of type specified"),
    ],
)  # fmt: skip
def test_wrong_text(old: str, new: str, message: str):
    text = SIMPLE.replace(old, new)
    assert text != SIMPLE
    with pytest.raises(ParseError) as raised:
        _parsed(text)
    assert str(raised.value).rstrip().endswith(message)
    assert re.match("<unknown>:1:", str(raised.value))


@pytest.mark.parametrize("width", [2, 32])
def test_widths_of_integers(width: int):
    lowest = -1 << (width - 1)
    elements = _dense([lowest, ~lowest], IntegerType(width), [2])
    numbers = StoredNumbersAttr(elements).numbers(is_signed=True)
    assert numbers.tolist() == [lowest, ~lowest]


@pytest.mark.parametrize("width", [0, 1, 33])
def test_wrong_widths_of_integers(width: int):
    elements = DenseResourceAttr.from_params("any", TensorType(IntegerType(width), []))
    message = f"^expected block parameters of 2 to 32 bits, but got 'i{width}'$"
    with pytest.raises(VerifyException, match=message):
        StoredNumbersAttr(elements)


@pytest.mark.parametrize("element_type", [f80, f128, tf32])
def test_floats_without_numbers(element_type: AnyFloat):
    elements = DenseResourceAttr.from_params("any", TensorType(element_type, []))
    message = f"must be integers, or floats such as f16, but got '{element_type}'"
    with pytest.raises(VerifyException, match=message):
        StoredNumbersAttr(elements)


def test_nan_of_exponents_is_allowed():
    text = "!quant.block_scaled<i4:f32:{}, scales = dense<0xFF> : tensor<f8E8M0FNU>>"
    assert np.isnan(_parsed(text).get_numbers()["scales"])


def _with_resource(text: str, key: str, data: str) -> BlockScaledQuantizedType:
    module = parse_module(
        f"""func.func private @f({text})
        {{-# dialect_resources: {{ builtin: {{ {key}: "0x01000000{data}" }} }} #-}}"""
    )
    (function,) = module.ops
    assert isinstance(function, FuncOp)
    (type_,) = function.function_type.inputs
    assert isinstance(type_, BlockScaledQuantizedType)
    return type_


@pytest.mark.parametrize(
    ("element_type", "data", "found"),
    [
        ("f16", "007E0040", "nan"),
        ("f16", "0040007C", "inf"),
        ("bf16", "004080FF", "-inf"),
        ("f8E4M3FN", "407F", "nan"),
    ],
)
@pytest.mark.parametrize("name", ["scales", "zero_points", "offsets"])
def test_resource_with_numbers_that_are_not_finite(
    name: str, element_type: str, data: str, found: str
):
    key = f"{found}_{element_type}_{name}".replace("-", "minus_")
    numbers = {"scales": f"dense<1.0> : tensor<2x{element_type}>"}
    numbers[name] = f"dense_resource<{key}> : tensor<2x{element_type}>"
    parts = ", ".join(f"{part} = {text}" for part, text in numbers.items())
    type_ = f"!quant.block_scaled<i4:f32:{{1:2}}, {parts}>"
    block_scaled = _with_resource(type_, key, data)
    message = (
        rf"^block parameters must be finite, but one of resource '{key}' is {found}$"
    )
    with pytest.raises(ValueError, match=message):
        block_scaled.get_numbers()


def test_nan_of_exponents_in_a_resource_is_allowed():
    type_ = (
        "!quant.block_scaled<i4:f32:{0:2}, scales = dense_resource<nan_exponents> : "
        "tensor<2xf8E8M0FNU>>"
    )
    block_scaled = _with_resource(type_, "nan_exponents", "FF7F")
    np.testing.assert_array_equal(block_scaled.get_numbers()["scales"], [np.nan, 1])


def test_order_of_optional_parameters():
    parts = re.fullmatch("(.*)(, zero_points = .*)(, offsets = .*)>", WITH_ALL)
    assert parts is not None
    swapped = f"{parts[1]}{parts[3]}{parts[2]}>"
    assert swapped != WITH_ALL
    assert str(_parsed(swapped)) == WITH_ALL


@pytest.mark.parametrize("name", ["zero_points", "offsets"])
@pytest.mark.parametrize(
    "numbers",
    [
        "dense<[0x7F, 0xFF]> : tensor<2xf8E8M0FNU>",
        "dense<0xFF> : tensor<2xf8E8M0FNU>",
        "dense<0xFF> : tensor<2xf8E8M0FNU> as !quant.block_scaled<f8E8M0FNU:f32:{}, "
        "scales = dense<1.0> : tensor<f16>>",
    ],
)
def test_nan_is_only_a_scale(name: str, numbers: str):
    text = (
        "!quant.block_scaled<i4:f32:{0:1}, scales = dense<1.0> : tensor<2xf16>, "
        f"{name} = {numbers}>"
    )
    assert _parsed(text.replace("0xFF", "0xFE"))
    with pytest.raises(ParseError, match=f"{name} must be finite, but one is nan"):
        _parsed(text)


def test_missing_resource():
    with pytest.raises(ValueError, match=r"missing data of resource 'block_scales.*'"):
        _parsed(RESOURCE).get_numbers()


@pytest.mark.parametrize(
    ("text", "container", "message"),
    [
        (SIMPLE, (8, 64), None),
        (SIMPLE, (8, 33), None),
        (SIMPLE, (8, DYNAMIC_INDEX, 5), None),
        (SIMPLE, (DYNAMIC_INDEX, 64), None),
        (SIMPLE, None, None),
        (SIMPLE, (8,), "quantized dimension 1 must be less than tensor rank 1"),
        (SIMPLE, (8, 32), "number of scales along axis 1 must be 1 (size 32 in "
         "blocks of 32), but got 2"),
        (SIMPLE, (8, 65), "number of scales along axis 1 must be 3 (size 65 in "
         "blocks of 32), but got 2"),
        (SIMPLE, (9, 64), "number of scales along axis 0 must be 9 (size 9 in "
         "blocks of 1), but got 8"),
        (SIMPLE, (0, 64), "number of scales along axis 0 must be 0 (size 0 in "
         "blocks of 1), but got 8"),
        (PER_TENSOR, (), None),
        (PER_TENSOR, (0, 3), None),
    ],
)  # fmt: skip
def test_containers(text: str, container: Sequence[int] | None, message: str | None):
    type_ = _parsed(text)
    whole: Attribute = UnrankedTensorType(type_)
    if container is not None:
        whole = TensorType(type_, container)
    if message is None:
        type_.verify_container(whole)
        return
    with pytest.raises(VerifyException) as raised:
        type_.verify_container(whole)
    assert str(raised.value) == message


def test_scalars():
    _parsed(PER_TENSOR).verify_container(_parsed(PER_TENSOR))
    with pytest.raises(VerifyException, match="scalar types may not use block scales"):
        _parsed(SIMPLE).verify_container(_parsed(SIMPLE))


# Display


def test_description():
    rows = dict(_parsed(NESTED).description())
    assert rows["blocks"] == "4, size 32 along dimension 0"
    assert rows["type of scales"] == "i6"
    assert str(rows["scales stored as"]).startswith("!quant.block_scaled<u6:f32:{0:2}")
    assert [*cast("list[float]", rows["scales"])] == [0.5, 1, 3, 4]


@pytest.mark.parametrize("text", [*TEXTS, RESOURCE])
def test_html(text: str):
    assert "block-scaled" in _parsed(text)._repr_html_()  # pyright: ignore[reportPrivateUsage] what notebooks call


def test_html_of_many_signed_scales():
    scales = np.linspace(-2, 2, 32).astype(np.float16)
    numbers = StoredNumbersAttr.from_array(scales, f16)
    type_ = BlockScaledQuantizedType(I4, f32, numbers, block_sizes={0: 32})
    assert "32: min -2, median" in type_._repr_html_()  # pyright: ignore[reportPrivateUsage] what notebooks call


# Large ones

COUNT = 4096 * 4096 // 32


def _large(rows: int) -> BlockScaledQuantizedType:
    rng = np.random.default_rng(0)
    scales = rng.normal(size=(rows, 128)).astype(np.float16)
    zero_points = rng.integers(0, 16, (rows, 128)).astype(np.uint8)
    return BlockScaledQuantizedType(
        I4,
        f32,
        StoredNumbersAttr.from_array(scales, f16),
        block_sizes={0: 1, 1: 32},
        zero_points=StoredNumbersAttr.from_array(zero_points, IntegerType(8)),
        is_signed=False,
    )


def test_half_a_million_scales_take_no_python_code_each():
    context, type_ = _context(), _large(4096)
    assert np.prod(type_.get_scales_shape()) == COUNT

    def printed_and_parsed() -> None:
        parsed = Parser(context, str(type_)).parse_type()
        assert parsed == type_
        assert hash(parsed) == hash(type_)

    assert calls(printed_and_parsed) < COUNT // 50


def test_long_text_of_small_floats():
    """xDSL decodes all elements before it prints their bytes."""
    codes = np.arange(1 << 19, dtype=np.uint32).astype(np.uint8) & 0x77
    numbers = StoredNumbersAttr.from_array(codes, Float8E4M3FNType())
    type_ = BlockScaledQuantizedType(I4, f32, numbers, block_sizes={0: 32})
    assert calls(lambda: str(type_)) < codes.size // 100
    assert _parsed(str(type_)) == type_


def test_resources_stay_bytes():
    scales = np.arange(8, dtype=np.float16).reshape(4, 2)
    data = (2).to_bytes(4, "little") + scales.tobytes()
    text = f"""
      "test.op"() {{type = tensor<4x64x!quant.block_scaled<i4:f32:{{0:1, 1:32}},
        scales = dense_resource<large_scales> : tensor<4x2xf16>>>}} : () -> ()
      {{-# dialect_resources: {{ builtin: {{ large_scales: "0x{data.hex()}" }} }} #-}}
    """
    context = _context()
    context.allow_unregistered = True
    module = Parser(context, text).parse_module()
    assert isinstance(module, ModuleOp)
    (op,) = module.ops
    tensor_type = cast("TensorType[Any]", op.attributes["type"])
    type_ = cast(BlockScaledQuantizedType, tensor_type.element_type)
    np.testing.assert_array_equal(type_.get_numbers()["scales"], scales)
