"""Casts of MX formats become `tosa.cast_from_block_scaled`, with the same numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import tosa
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseResourceAttr,
    ModuleOp,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import PassFailedException

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from tests.unit.frontends.tosa.mx_programs import STORAGE, all_products, printed
from xdsl_quant.dialects.quant import DequantizeCastOp
from xdsl_quant.frontends.tosa.attributes import BlockScaledType
from xdsl_quant.frontends.tosa.quant_block_scaled_to_tosa import (
    BlockScaledOperands,
    QuantBlockScaledToTosaPass,
    ScalesIn,
    block_scaled_operands,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.formats import FORMATS
from xdsl_quant.numerics.formats.format_types import block_scaled_type
from xdsl_quant.numerics.small_floats import small_float
from xdsl_quant.runtime.arrays import dense_elements
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.xdsl_patches.resources import resource_data

MX = ("MXFP8_E4M3", "MXFP8_E5M2", "MXFP6_E2M3", "MXFP6_E3M2", "MXFP4", "MXINT8")

VALIDATE = (
    "tosa-attach-target{specification_version=1.1.draft level=none "
    "profiles=pro_int,pro_fp extensions=mxfp,fp8e4m3,fp8e5m2},"
    "tosa-validate{strict-op-spec-alignment}"
)


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    with Mlir() as mlir:
        yield mlir


def dequantizing(type_: object, shape: str, expressed: str = "f32") -> str:
    return f"""
func.func @main(%q: tensor<{shape}x{type_}>) -> tensor<{shape}x{expressed}> {{
  %x = quant.dcast %q : tensor<{shape}x{type_}> to tensor<{shape}x{expressed}>
  return %x : tensor<{shape}x{expressed}>
}}"""


def converted(text: str, scales: ScalesIn = "operand") -> ModuleOp:
    module = parse_module(text)
    QuantBlockScaledToTosaPass(scales).apply(Context(), module)
    module.verify()
    return module


def operands_of(text: str) -> BlockScaledOperands:
    (function,) = parse_module(text).ops
    return block_scaled_operands(cast(Any, function).function_type.inputs.data[0])


def computed(operands: BlockScaledOperands, stored: NDArray[Any]) -> NDArray[Any]:
    """What TOSA says that the op computes, in f32."""
    name = operands.element_type.name
    if name == "tosa.mxint8":
        elements = stored.astype(np.float64) / 64
    else:
        elements = small_float(name).decode(stored.view(np.uint8)).astype(np.float64)
    scales = small_float("f8E8M0FNU").decode(operands.scales).astype(np.float64)
    with np.errstate(all="ignore"):
        return (elements * scales.repeat(32, -1)).astype(np.float32)


def assert_same_bits(found: NDArray[Any], expected: NDArray[Any]):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    found, expected = (np.where(np.isnan(x), 0, x) for x in (found, expected))
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", MX)
def test_formats(name: str):
    stored = FORMATS[name].quantize(np.linspace(-3, 9, 256).reshape(4, 64) ** 5)
    type_ = TensorType(cast(Attribute, block_scaled_type(stored)), (4, 64))
    operands = block_scaled_operands(type_)
    np.testing.assert_array_equal(operands.scales, stored.scales.codes)
    assert_same_bits(computed(operands, stored.codes), stored.dequantize())


@pytest.mark.parametrize("expressed", ["f32", "bf16"])
@pytest.mark.parametrize("storage", STORAGE)
def test_all_elements_and_scales(storage: str, expressed: str):
    text = all_products(storage, expressed)
    module = parse_module(text)
    (dcast,) = (op for op in module.walk() if isinstance(op, DequantizeCastOp))
    (constant,) = (op for op in module.walk() if isinstance(op, ConstantOp))
    stored = dense_elements(cast(Any, constant.value))
    found = computed(block_scaled_operands(dcast.input.type), stored)
    if expressed == "bf16":
        with np.errstate(all="ignore"):
            found = found.astype(ml_dtypes.bfloat16)
    (expected,) = run_function(text, "main")
    assert_same_bits(found.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize(
    ("shape", "blocks", "scales"),
    [
        ((96,), "{0:32}", (3,)),
        ((96,), "{}", ()),
        ((2, 96), "{1:32}", (3,)),
        ((2, 96), "{0:1}", (2,)),
        ((2, 96), "{1:64}", (2,)),
        ((2, 96), "{1:100}", (1,)),
        ((7, 64), "{0:3, 1:32}", (3, 2)),
        ((7, 3, 64), "{0:3, 2:32}", (3, 2)),
        ((7, 3, 64), "{1:2}", (2,)),
    ],
)
def test_blocks(shape: tuple[int, ...], blocks: str, scales: tuple[int, ...]):
    """The scale of each element is that of the type, also for short and for long blocks."""
    rng = np.random.default_rng(0)
    sizes = "x".join(map(str, shape))
    scale_shape = "".join(f"{size}x" for size in scales)
    codes = rng.permutation(200)[: max(int(np.prod(scales)), 1)].astype(np.uint8)
    type_ = (
        f"!quant.block_scaled<f8E5M2:f32:{blocks}, scales = "
        f'dense<"0x{codes.tobytes().hex()}"> : tensor<{scale_shape}f8E8M0FNU>>'
    )
    stored = rng.integers(0, 256, shape).astype(np.uint8)
    text = dequantizing(type_, sizes)
    (expected,) = run_function(text, "main", stored)
    assert_same_bits(computed(operands_of(text), stored), expected)


def _type(storage: str, rest: str, expressed: str = "f32") -> str:
    return f"!quant.block_scaled<{storage}:{expressed}:{rest}>"


ONE = "{1:32}, scales = dense<0.5> : tensor<1xf32>"
REFUSED = {
    "f16": (
        _type("f4E2M1FN", ONE, "f16"),
        "4x32",
        "expressed type 'f16'; expected 'f32' or 'bf16'",
    ),
    "u8": (_type("u8", ONE), "4x32", "storage type 'u8'; expected 'f8E4M3FN'"),
    "table": (
        _type("!quant.quantile<i1:f32, {-1.0,1.0}>", ONE),
        "4x32",
        "storage type '!quant.quantile<i1:f32, ...>'; expected",
    ),
    "scale": (
        _type("i8", "{}, scales = dense<3.0> : tensor<f32>"),
        "4x32",
        "scale 3.0 is not representable in f8E8M0FNU times 0.015625; expected a power of "
        "two",
    ),
    **{
        f"scale {scale}": (
            _type("f4E2M1FN", f"{{}}, scales = dense<{scale}> : tensor<f64>"),
            "4x32",
            f"scale {float(scale)} is not representable in f8E8M0FNU; expected a power of "
            "two",
        )
        for scale in ("0.0", "-1.0", "3.4028236692093846e+38", "2.938735877055719e-39")
    },
    "zero points": (
        _type("i8", f"{ONE}, zero_points = dense<0> : tensor<1xi8>"),
        "4x32",
        "unsupported zero points",
    ),
    "offsets": (
        _type("f4E2M1FN", f"{ONE}, offsets = dense<0.0> : tensor<1xf32>"),
        "4x32",
        "unsupported offsets",
    ),
    "small blocks": (
        _type("f4E2M1FN", "{1:16}, scales = dense<0.5> : tensor<2xf32>"),
        "4x32",
        "unsupported block size 16 along the last dimension; expected a multiple of 32",
    ),
    "last dimension": (
        _type("f4E2M1FN", "{1:32}, scales = dense<0.5> : tensor<2xf32>"),
        "4x33",
        "unsupported size 33 of the last dimension; expected a multiple of 32",
    ),
    "dynamic": (_type("f4E2M1FN", ONE), "?x32", "unsupported shape '?x32'; expected"),
    "no elements": (
        _type("f4E2M1FN", "{1:32}, scales = dense<0.5> : tensor<1xf32>"),
        "0x32",
        "unsupported shape '0x32'; expected static, non-zero sizes",
    ),
    "one dimension": (
        _type("f4E2M1FN", "{0:33}, scales = dense<0.5> : tensor<1xf32>"),
        "33",
        "unsupported size 33 of the last dimension; expected a multiple of 32",
    ),
    "resource": (
        _type("f4E2M1FN", "{1:32}, scales = dense_resource<not_there> : tensor<1xf32>"),
        "4x32",
        "resource 'not_there",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str):
    type_, shape, message = REFUSED[name]
    expressed = "f16" if name == "f16" else "f32"
    module = parse_module(dequantizing(type_, shape, expressed))
    words = f"'quant.dcast' op cannot be converted to TOSA: .*{re.escape(message)}"
    with pytest.raises(PassFailedException, match=words):
        QuantBlockScaledToTosaPass().apply(Context(), module)


@pytest.mark.parametrize("container", ["tensor<*x{}>", "{}", "tensor<{}>"])
def test_no_ranked_tensor(container: str):
    type_ = _type("f4E2M1FN", "{}, scales = dense<0.5> : tensor<f32>")
    operand, result = container.format(type_), container.format("f32")
    module = parse_module(f"""
func.func @main(%q: {operand}) -> {result} {{
  %x = quant.dcast %q : {operand} to {result}
  return %x : {result}
}}""")
    words = (
        r"unsupported shape ''"
        if operand.startswith("tensor<!")
        else r"expected a ranked tensor, found type '.*!quant\.block_scaled<f.*'"
    )
    with pytest.raises(PassFailedException, match=words):
        QuantBlockScaledToTosaPass().apply(Context(), module)


def test_a_module_that_cannot_be_converted_stays():
    good, bad = _type("f4E2M1FN", ONE), _type("f4E2M1FN", ONE.replace("0.5", "0.75"))
    text = dequantizing(good, "4x32") + dequantizing(bad, "4x32").replace("main", "f")
    module = parse_module(text)
    before = str(module)
    with pytest.raises(PassFailedException, match=r"scale 0\.75"):
        QuantBlockScaledToTosaPass().apply(Context(), module)
    assert str(module) == before


def constants(name: str, attribute: str, shape: str, count: int = 1) -> str:
    """A function with casts of a constant of stored values of a format."""
    rows, columns = map(int, shape.split("x"))
    stored = FORMATS[name].quantize(np.ones((rows, columns)))
    type_ = f"tensor<{shape}x{block_scaled_type(stored)}>"
    storage = "i8" if stored.type == "i8" else stored.type
    casts = "".join(
        f"""
  %x{i} = quant.dcast %q : {type_} to tensor<{shape}xf32>"""
        for i in range(count)
    )
    results = ", ".join(f"%x{i}" for i in range(count))
    types = ", ".join([f"tensor<{shape}xf32>"] * count)
    return f"""
func.func @main() -> ({types}) {{
  %c = arith.constant {attribute} : tensor<{shape}x{storage}>
  %q = quant.scast %c : tensor<{shape}x{storage}> to {type_}{casts}
  return {results} : {types}
}}"""


def const_values(module: ModuleOp) -> list[Any]:
    return [op.values for op in module.walk() if isinstance(op, tosa.ConstOp)]


@pytest.mark.parametrize("name", MX)
def test_mlir_validates_constants(mlir: Mlir, name: str):
    codes = np.random.default_rng(0).integers(0, 16, (4, 64)).astype(np.uint8)
    module = converted(constants(name, f'dense<"0x{codes.tobytes().hex()}">', "4x64"))
    assert {op.name for op in module.walk()} == {
        *("builtin.module", "func.func", "func.return"),
        *("tosa.const", "tosa.cast_from_block_scaled"),
    }
    elements, _ = const_values(module)
    assert elements.type.element_type.name in ("tosa.mxint8", FORMATS[name].type)
    if name == "MXINT8":
        data = re.search(r'"0x01000000(\w+)"', printed(module))
        assert data is not None
        assert bytes.fromhex(data[1]) == codes.tobytes()
    else:
        assert dense_elements(elements).tobytes() == codes.tobytes()
    validated, answer = (mlir.run(printed(module), p) for p in (VALIDATE, None))
    assert isinstance(validated, Accepted), validated
    assert isinstance(answer, Accepted)
    again = mlir.run(printed(parse_module(answer.text)))
    assert isinstance(again, Accepted)
    # A name that is taken gets a number, also by tests before this one.
    texts = {re.sub(r"elements(_\d+)+", "elements", x.text) for x in (answer, again)}
    assert len(texts) == 1


def test_a_constant_that_is_cast_twice():
    module = converted(constants("MXINT8", "dense<3>", "4x64", count=2))
    assert [op.name for op in module.walk()].count("tosa.cast_from_block_scaled") == 2
    assert "arith.constant" not in str(module)
    assert "quant." not in str(module)


RESOURCE = """
{-# dialect_resources: { builtin: { weights: "0x01000000%s" } } #-}"""


def _type_of_constant(module: ModuleOp) -> BlockScaledType:
    (values,) = const_values(module)
    type_ = cast(TensorType, values.type).element_type
    assert isinstance(type_, BlockScaledType)
    return type_


@pytest.mark.parametrize("storage", STORAGE)
def test_scales_in_the_type(storage: str):
    """They are read as what they were, by this package and, in make oracles, by MLIR."""
    module = converted(all_products(storage, "f32", rows=255), "type")
    text = printed(module)
    assert "quant." not in text
    codes = np.arange(255, dtype=np.uint8)
    size = 2 ** max(int(re.findall(r"\d", storage)[0]), 5) // 32
    for each in (module, parse_module(text)):
        type_ = _type_of_constant(each)
        assert isinstance(type_.scales, BytesAttr)
        assert type_.scales.data == codes.repeat(size).tobytes()
    (cast_op,) = (op for op in module.walk() if op.name == "tosa.cast")
    without_scales = cast(TensorType, cast_op.operands[0].type).element_type
    assert without_scales == BlockScaledType(type_.value_type)


def test_a_scale_in_the_type_cannot_be_nan():
    words = re.escape(
        "a scale is NaN, which '!tosa.block_scaled' does not support; use "
        "'scales=operand'"
    )
    with pytest.raises(PassFailedException, match=words):
        converted(all_products("f4E2M1FN", "f32"), "type")


def test_an_argument_has_no_scales_in_its_type():
    words = "not constant, and TOSA has no cast to '!tosa.block_scaled'"
    with pytest.raises(PassFailedException, match=words):
        converted(dequantizing(_type("f4E2M1FN", ONE), "4x32"), "type")


def test_a_resource_of_8_bits_stays_one():
    text = constants("MXFP8_E5M2", "dense_resource<weights>", "4x64")
    elements, _ = const_values(converted(text + RESOURCE % ("07" * 256)))
    assert isinstance(elements, DenseResourceAttr)
    assert elements.resource_handle.data.startswith("weights")


def test_a_resource_of_4_bits_is_dense():
    """TOSA's are packed."""
    text = constants("MXFP4", "dense_resource<weights>", "4x64")
    elements, _ = const_values(converted(text + RESOURCE % ("07" * 256)))
    assert not isinstance(elements, DenseResourceAttr)
    assert (dense_elements(elements).view(np.uint8) == 7).all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MXFP8_E5M2", "0102030405060708"),
        # Bits from the lowest one: 1, 2, 3, 4 are 000001 000010 000011 000100.
        ("MXFP6_E2M3", "813010857120"),
        ("MXFP4", "21436587"),
        ("MXINT8", "0102030405060708"),
    ],
)
def test_elements_with_scales_in_their_type_are_packed(name: str, expected: str):
    codes = "0102030405060708" * 32
    text = constants(name, f'dense<"0x{codes}">', "4x64")
    (values,) = const_values(converted(text, "type"))
    data = resource_data(values)
    assert data is not None
    assert data.hex().startswith(expected)
    assert len(data) == 256 * len(expected) // 16


@pytest.mark.parametrize("data", ["", "07" * 255])
def test_a_damaged_resource_is_a_located_message(data: str):
    text = constants("MXINT8", "dense_resource<weights>", "4x64")
    if data:
        text += RESOURCE % data
    with pytest.raises(PassFailedException, match=r"'quant\.dcast' op cannot be"):
        converted(text)


def test_many_scales_are_a_resource():
    rows = 2048
    scales = np.resize(np.array([120, 121, 255], np.uint8), (rows, 32))
    text = (
        "!quant.block_scaled<f4E2M1FN:f32:{0:1, 1:32}, scales = "
        f'dense<"0x{scales.tobytes().hex()}"> : tensor<{rows}x32xf8E8M0FNU>>'
    )
    (values,) = const_values(converted(dequantizing(text, f"{rows}x1024")))
    assert isinstance(values, DenseResourceAttr)
    assert dense_elements(values).tobytes() == scales.tobytes()


def test_a_missing_package_is_a_located_message(monkeypatch: pytest.MonkeyPatch):
    """Without `ml_dtypes` there are no arrays of such floats."""

    def fail(*_: object):
        raise ImportError("no 'ml_dtypes'")

    module = "xdsl_quant.frontends.tosa.quant_block_scaled_to_tosa.dense_elements"
    monkeypatch.setattr(module, fail)
    with pytest.raises(PassFailedException, match=r"to TOSA: no 'ml_dtypes'"):
        converted(constants("MXFP4", "dense<1.0>", "4x64"), "type")
