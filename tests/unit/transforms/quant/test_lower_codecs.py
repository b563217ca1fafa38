"""Casts to and from float storage and tables: numerics, interpreted and compiled."""

from __future__ import annotations

import re
import sys
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tests.unit.numerics.test_codecs import NF4, inputs_of
from xdsl_quant.dialects.quant.types import uniform_type
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.numerics.float_dtypes import float_dtype
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module, parse_type


def table_text(values: list[float]) -> str:
    return "{" + ",".join(map(repr, map(float, values))) + "}"


SCALED = ["0.25", "0.3", "1.5:3"]
TABLES = {
    "NF4": f"!quant.quantile<ui4:f32, {table_text(NF4)}>",
    "descending": f"!quant.quantile<si4:f16, {table_text(NF4[::-1])}>",
    "ternary": "!quant.quantile<i2:i8, {-1.0,0.0,1.0}, <1:3>>",
    "two": "!quant.quantile<ui8:f16, {1.0,0.001}, <7:8>>",
    "f4": "!quant.quantile<f4E2M1FN:f64, {0.5,-1.0,7.0,0.5,-0.0,0.0}, <-3:2>>",
    "narrow": f"!quant.quantile<ui4:f32, {table_text(NF4)}><3:12>",
}
FLOATS = ["f8E5M2", "f8E4M3FN", "f4E2M1FN", "f8E4M3FN<-103:57>", "f8E5M2<0:9>"]


def module_text(type_: str, expressed: str, shape: str = "?x") -> str:
    return f"""
        !q = {type_}
        func.func @qcast(%x: tensor<{shape}{expressed}>) -> tensor<{shape}!q> {{
          %0 = quant.qcast %x : tensor<{shape}{expressed}> to tensor<{shape}!q>
          return %0 : tensor<{shape}!q>
        }}
        func.func @dcast(%x: tensor<{shape}!q>) -> tensor<{shape}{expressed}> {{
          %0 = quant.dcast %x : tensor<{shape}!q> to tensor<{shape}{expressed}>
          return %0 : tensor<{shape}{expressed}>
        }}"""


def lowered(text: str, options: str = "") -> ModuleOp:
    lowering = f"lower-quant-ops{{rounding-mode=nearest-even {options}}}"
    module = parse_module(text)
    apply_passes(module, f"{lowering},strip-func-quant-types")
    module.verify()
    return module


def same(found: NDArray[Any], expected: NDArray[Any]) -> bool:
    """Whether arrays have the same numbers, NaN and signs of zeros."""
    assert found.dtype == expected.dtype
    if found.dtype.kind in "iu" or found.dtype.itemsize == 1:
        return found.tobytes() == expected.tobytes()
    wide, other = found.astype(np.float64), expected.astype(np.float64)
    is_same = (wide == other) & (np.signbit(wide) == np.signbit(other))
    return bool((is_same | (np.isnan(wide) & np.isnan(other))).all())


def stored_by(module: ModuleOp, parameters: QuantizationParameters, x: Any) -> Any:
    """What a lowered module stores, whose integers are signless."""
    (found,) = run_function(module, "qcast", x)
    if parameters.small_float is None:
        width = parameters.storage_width
        found = found.view(parameters.storage_dtype)
        if not parameters.is_signed:
            found = found & parameters.storage_dtype.type((1 << width) - 1)
    return found


def all_stored(parameters: QuantizationParameters) -> NDArray[Any]:
    if parameters.table is None:
        codes = np.arange(1 << parameters.storage_width).astype(np.uint8)
        return codes.view(parameters.storage_dtype)
    first = parameters.table_min
    numbers = np.arange(first, first + parameters.table.size)
    return numbers.astype(parameters.storage_dtype)


CASES = [
    (storage, expressed, scale, nan)
    for storage in [*FLOATS, *TABLES]
    for expressed in ("f16", "bf16", "f32", "f64")
    for scale in SCALED
    for nan in ("storage-min", "stored-zero")
    if scale == "0.3" or expressed in ("bf16", "f32")
    if nan == "storage-min" or (scale != "0.25" and expressed != "f64")
]


@pytest.mark.sampled(48)
@pytest.mark.parametrize(("storage", "expressed", "scale", "nan"), CASES)
def test_everything_agrees(storage: str, expressed: str, scale: str, nan: Any):
    type_text = f"!quant.uniform<{TABLES.get(storage, storage)}:{expressed}, {scale}>"
    text = module_text(type_text, expressed)
    parameters = QuantizationParameters.from_type(cast(Any, parse_type(type_text)))
    x = inputs_of(
        expressed, storage.partition("<")[0] if storage in FLOATS else "f4E2M1FN"
    )
    expected = quantize(x, parameters, nan=nan)
    (interpreted,) = run_function(text, "qcast", x, nan=nan)
    assert same(interpreted, expected)
    module = lowered(text, f"nan={nan}")
    assert same(stored_by(module, parameters, x), expected)
    assert same(np.asarray(compile(text, "qcast", nan=nan)(x)), expected)
    stored = all_stored(parameters)
    expected = dequantize(stored, parameters)
    (interpreted,) = run_function(text, "dcast", stored)
    assert same(interpreted, expected)
    (found,) = run_function(module, "dcast", stored)
    assert same(found, expected)
    assert same(np.asarray(compile(text, "dcast")(stored)), expected)


LAYOUTS = {
    "per-axis": "!quant.uniform<{}:f32:1, {{0.5,2.0:1,0.3}}>",
    "sub-channel": "!quant.uniform<{}:f32:{{0:2, 1:3}}, {{{{0.5}}, {{0.3:1}}}}>",
}
SHAPES = {"ranked": "4x3x", "dynamic": "?x?x", "unranked": "*x"}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("storage", ["f8E4M3FN", "NF4", "f4"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_layouts(storage: str, layout: str, shape: str):
    type_text = LAYOUTS[layout].format(TABLES.get(storage, storage))
    text = module_text(type_text, "f32", SHAPES[shape])
    parameters = QuantizationParameters.from_type(cast(Any, parse_type(type_text)))
    x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(4, 3)
    expected = quantize(x, parameters)
    module = lowered(text)
    assert same(stored_by(module, parameters, x), expected)
    (found,) = run_function(module, "dcast", expected)
    assert same(found, dequantize(expected, parameters))
    if shape != "unranked":
        assert same(np.asarray(compile(text, "qcast")(x)), expected)
        found = np.asarray(compile(text, "dcast")(expected))
        assert same(found, dequantize(expected, parameters))


@pytest.mark.parametrize("storage", ["f8E4M3FN", "f4E2M1FN", "NF4"])
def test_scalars(storage: str):
    type_text = f"!quant.uniform<{TABLES.get(storage, storage)}:f32, 0.5>"
    text = f"""
        !q = {type_text}
        func.func @main(%x: f32) -> (!q, f32) {{
          %0 = quant.qcast %x : f32 to !q
          %1 = quant.dcast %0 : !q to f32
          return %0, %1 : !q, f32
        }}"""
    parameters = QuantizationParameters.from_type(cast(Any, parse_type(type_text)))
    x = np.array(-0.3, np.float32)
    stored = quantize(x, parameters)
    for results in (run_function(text, "main", x), compile(text)(x)):
        first, second = map(np.asarray, cast(Any, results))
        assert same(first, stored)
        assert same(second, dequantize(stored, parameters))


def test_codes_as_arguments():
    type_text = "!quant.uniform<f4E2M1FN:f32, 0.5>"
    text = module_text(type_text, "f32")
    codes = np.array([1, 15], np.uint8)
    assert np.asarray(compile(text, "dcast")(codes)).tolist() == [0.25, -3]
    assert run_function(text, "dcast", codes)[0].tolist() == [0.25, -3]
    assert run_function(text, "dcast", [0.5, -6.0])[0].tolist() == [0.25, -3]
    message = "contains 16, but bit patterns of 'tensor<?x!quant.uniform<f4E2M1FN:f32"
    too_large = np.array([16], np.uint8)
    with pytest.raises(ValueError, match=re.escape(message)):
        compile(text, "dcast")(too_large)
    with pytest.raises(ValueError, match=re.escape(message)):
        run_function(text, "dcast", too_large)


@pytest.mark.parametrize(
    ("type_", "expressed", "values", "stored", "codes", "numbers"),
    [
        # 273 is no bf16, and neither is 445; 445 * 1.5 = 667.5 becomes 668.
        (
            "!quant.uniform<f8E4M3FN:bf16, 1.0:3>",
            "bf16",
            [270, 300, 334],
            [288, 288, 352],
            [448, 288],
            [444, 284],
        ),
        (
            "!quant.uniform<f8E4M3FN:bf16, 1.5:3>",
            "bf16",
            [400],
            [256],
            [448, 288],
            [668, 428],
        ),
        (
            "!quant.block_scaled<f8E4M3FN:bf16:{}, scales = dense<1.5> : tensor<bf16>, "
            "zero_points = dense<3> : tensor<i8>>",
            "bf16",
            [400],
            [256],
            [448, 288],
            [668, 428],
        ),
    ],
)
def test_zero_points_are_exact(
    type_: str,
    expressed: str,
    values: list[float],
    stored: list[float],
    codes: list[float],
    numbers: list[float],
):
    text = module_text(type_, expressed)
    x = np.array(values, float_dtype(expressed))
    q = np.array(codes, float_dtype("f8E4M3FN"))
    for function, argument, expected in (("qcast", x, stored), ("dcast", q, numbers)):
        for (result,) in (
            run_function(text, function, argument),
            run_function(lowered(text), function, argument),
            (compile(text, function)(argument),),
        ):
            assert np.asarray(result).astype("f8").tolist() == expected


def test_float_zero_points_are_subtracted_in_f32():
    text = module_text(
        "!quant.block_scaled<u8:f16:{}, scales = dense<1.5> : tensor<f16>, "
        "zero_points = dense<0.1> : tensor<f16>>",
        "f16",
    )
    codes = np.arange(256).astype(np.uint8)
    expected = ((codes - np.float64(np.float16(0.1))) * 1.5).astype(np.float16)
    (result,) = run_function(text, "dcast", codes)
    assert (result == expected).all()
    assert (compile(text, "dcast")(codes) == expected).all()


def test_tables_are_exact():
    """Numbers of f32 express f16 as in the block-scaled type, not rounded before that."""
    table = f"!quant.quantile<ui4:f32, {table_text(NF4)}>"
    codes = np.arange(16).astype(np.uint8)
    scale = np.float16(0.123413)
    expected = (np.array(NF4) * np.float64(scale)).astype(np.float32).astype(np.float16)
    for type_ in (
        f"!quant.uniform<{table}:f16, 0.123413>",
        f"!quant.block_scaled<{table}:f16:{{}}, scales = dense<0.123413> : tensor<f16>>",
    ):
        text = module_text(type_, "f16")
        (result,) = run_function(text, "dcast", codes)
        assert (result == expected).all()
        assert (compile(text, "dcast")(codes) == expected).all()
        x = np.array([-0.05676], np.float16)
        assert run_function(text, "qcast", x)[0].tolist() == [3]


def test_indices_beyond_a_table_are_not_read():
    type_text = f"!quant.uniform<{TABLES['ternary']}:f32, 0.5>"
    text = module_text(type_text, "f32")
    found = compile(text, "dcast")(np.array([0, 1, 2, 3], np.uint8))
    assert np.asarray(found).tolist() == [-0.5, -0.5, 0, 0.5]


@pytest.mark.parametrize(
    "type_text",
    [
        "!quant.uniform<f8E4M3FN:f32, 0.5:1>",
        "!quant.uniform<f4E2M1FN:f32:0, {0.5, 0.25}>",
        f"!quant.uniform<{TABLES['ternary']}:f32, 0.5>",
        "!quant.block_scaled<f8E5M2:f32:{}, scales = dense<0.5> : tensor<f16>>",
    ],
)
def test_nearest_is_the_default(type_text: str):
    text = module_text(type_text, "f32", "2x")
    module = parse_module(text)
    apply_passes(module, "lower-quant-ops,strip-func-quant-types")
    assert str(module) == str(lowered(text))


@pytest.mark.parametrize(
    ("type_text", "passes", "reason"),
    [
        (
            "!quant.uniform<f8E4M3FN:f32, 0.5>",
            "lower-quant-ops{rounding-mode=truncate}",
            "unsupported rounding mode 'truncate' for storage type 'f8E4M3FN'; use "
            "'nearest-even'",
        ),
        (
            "!quant.uniform<f8E4M3FN:f32, 0.5:1>",
            "lower-quant-ops{rounding-mode=nearest-even zero-point-order=after-rounding}",
            "unsupported zero point order 'after-rounding' for storage type "
            "'f8E4M3FN'; use 'before-rounding'",
        ),
        (
            "!quant.uniform<!quant.quantile<i2:f32, {1.0,2.0,3.0}, <-5:-3>>:f32, 0.5>",
            "lower-quant-ops{rounding-mode=nearest-even}",
            "table indices -5 to -3 exceed 'u2'; expected values from 0 to 3",
        ),
        (
            "!quant.uniform<!quant.quantile<i1:f16, {1.0,1.0e9}>:f32, 0.5>",
            "lower-quant-ops{rounding-mode=nearest-even}",
            "table value 1000000000.0 at index 1 is not representable in f16; use a wider "
            "type",
        ),
    ],
)
def test_unsupported(type_text: str, passes: str, reason: str):
    module = parse_module(module_text(type_text, "f32"))
    with pytest.raises(IRError) as raised:
        apply_passes(module, passes)
    assert str(raised.value) == (
        f"module:4:11: error: 'quant.qcast' op cannot be lowered: {reason} (in the pass "
        "lower-quant-ops)"
    )


def test_unsupported_with_a_scale_that_is_an_operand():
    module = parse_module("""
        func.func @f(%x: f32, %s: f32) -> f8E4M3FN {
          %q = quant.dynamic_qcast %x, %s as <f8E4M3FN> : f32, f32 to f8E4M3FN
          return %q : f8E4M3FN
        }""")
    message = (
        "'quant.dynamic_qcast' op cannot be lowered: unsupported rounding mode "
        "'truncate' for storage type 'f8E4M3FN'; use 'nearest-even'"
    )
    with pytest.raises(IRError, match=message):
        apply_passes(module, "lower-quant-ops{rounding-mode=truncate}")


def test_tables_without_the_package(monkeypatch: pytest.MonkeyPatch):
    float_dtype.cache_clear()
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    module = parse_module(
        module_text(f"!quant.uniform<{TABLES['ternary']}:bf16, 0.5>", "bf16")
    )
    message = (
        "'quant.qcast' op cannot be lowered: expressed type 'bf16' requires ml_dtypes"
    )
    with pytest.raises(IRError, match=message):
        apply_passes(module, "lower-quant-ops{rounding-mode=nearest-even}")
    float_dtype.cache_clear()


@pytest.mark.parametrize(
    "parameters",
    [
        QuantizationParameters([0.5, 2], storage="f8E5M2", quantized_dimension=1),
        QuantizationParameters(2, storage="i4", table=NF4, storage_min=-3),
        QuantizationParameters(2, 5, storage="u8", table=[1, 2], table_min=7),
    ],
)
def test_types_of_parameters(parameters: QuantizationParameters):
    type_ = uniform_type(parameters)
    assert QuantizationParameters.from_type(type_) == parameters
    assert parse_type(str(type_)) == type_
    with pytest.raises(
        ValueError, match=r"^unsupported storage type '.*', expected an int"
    ):
        QuantizationParameters.from_integer_type(type_)


def test_there_is_no_type():
    with pytest.raises(VerifyException, match=r"^illegal storage type: f8E4M3$"):
        uniform_type(QuantizationParameters(1, storage="f8E4M3"))
