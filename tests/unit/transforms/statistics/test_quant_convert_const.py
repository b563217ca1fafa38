"""Quantized constants, compared with the quantization of arrays and with MLIR 14."""

import random
import re
import subprocess
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
    f32,
)
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, PassFailedException

from tests.real_stablehlo import RealStableHLO
from tests.unit.mlir_14 import MLIR_OPT_14, needs_mlir_14
from xdsl_quant.dialects.quant import Quant, QuantizeCastOp, StorageCastOp, uniform_type
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters, quantize
from xdsl_quant.numerics.quantization import quantize_constant
from xdsl_quant.rounding_mode import RoundingMode, ZeroPointOrder
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module
from xdsl_quant.transforms.statistics.quant_convert_const import QuantConvertConstPass
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE


def parse(text: str) -> ModuleOp:
    ctx = Context()
    for dialect in (builtin.Builtin, arith.Arith, func.Func, Quant):
        ctx.load_dialect(dialect)
    module = Parser(ctx, text).parse_module()
    module.verify()
    return module


def convert(
    module: ModuleOp,
    rounding_mode: RoundingMode = "nearest-even",
    zero_point_order: ZeroPointOrder | None = None,
) -> ModuleOp:
    QuantConvertConstPass(rounding_mode, zero_point_order).apply(Context(), module)
    module.verify()
    return module


def test_registered():
    name = QuantConvertConstPass.name
    assert name == "quant-convert-const"
    assert XDSL_QUANT_UNIVERSE.all_passes[name]() is QuantConvertConstPass


PARAMETERS = [
    QuantizationParameters(0.05, 3),
    QuantizationParameters(0.05, 130, storage="u8", storage_min=2),
    QuantizationParameters(0.001, storage="u16"),
    QuantizationParameters([0.1, 0.2, 0.4], [0, -3, 7], quantized_dimension=1),
    QuantizationParameters(np.full((2, 1, 2), 0.1), block_sizes={0: 2, 2: 2}),
]


@pytest.mark.parametrize(
    ("rounding_mode", "expected"),
    [
        ("truncate", partial(quantize, rounding_mode="truncate")),
        ("nearest-even", quantize),
        ("nearest-away", quantize_constant),
    ],
)
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_stored_values_are_those_of_quantize(
    parameters: QuantizationParameters,
    rounding_mode: RoundingMode,
    expected: Callable[[Any, QuantizationParameters], NDArray[Any]],
):
    generator = np.random.default_rng(0)
    values = (10 * generator.standard_normal((4, 3, 4))).astype(np.float32)
    expressed_type = TensorType(f32, values.shape)
    constant = ConstantOp(
        DenseIntOrFPElementsAttr(expressed_type, BytesAttr(values.tobytes())),
        expressed_type,
    )
    quantized = TensorType(uniform_type(parameters), values.shape)
    module = ModuleOp([constant, QuantizeCastOp(constant, quantized)])

    stored_op, scast = convert(module, rounding_mode).body.block.ops
    assert isinstance(stored_op, ConstantOp)
    assert isinstance(scast, StorageCastOp)
    assert scast.result.type == quantized
    stored = stored_op.value
    assert isinstance(stored, DenseIntOrFPElementsAttr)
    assert stored.data.data == expected(values, parameters).tobytes()


@pytest.mark.parametrize(
    ("expressed", "rounding_mode", "zero_point_order", "expected"),
    [
        ("f32", "nearest-even", None, [-4, 2]),
        ("f32", "nearest-even", "before-rounding", [-4, 2]),
        ("f32", "nearest-even", "after-rounding", [-5, 3]),
        ("f32", "nearest-away", None, [-5, 3]),
        ("f32", "nearest-away", "before-rounding", [-5, 3]),
        ("f32", "nearest-away", "after-rounding", [-5, 2]),
        ("f16", "nearest-away", None, [-5, 2]),
        ("f16", "nearest-away", "before-rounding", [-5, 3]),
        ("f32", "truncate", None, [-4, 2]),
    ],
)
def test_zero_point_order(
    expressed: str,
    rounding_mode: RoundingMode,
    zero_point_order: ZeroPointOrder | None,
    expected: list[int],
):
    type_, q = (
        f"tensor<2x{expressed}>",
        f"tensor<2x!quant.uniform<i8:{expressed}, 0.5:3>>",
    )
    module = parse(
        f"""
%c = arith.constant dense<[-3.75, -0.25]> : {type_}
%q = quant.qcast %c : {type_} to {q}"""
    )
    stored_op, _ = convert(module, rounding_mode, zero_point_order).body.block.ops
    assert isinstance(stored_op, ConstantOp)
    assert isinstance(stored_op.value, DenseIntOrFPElementsAttr)
    assert [*stored_op.value.get_values()] == expected


def test_no_order_of_truncation():
    with pytest.raises(PassFailedException, match="for rounding mode 'truncate'"):
        convert(ModuleOp([]), "truncate", "after-rounding")


# MLIR 14


EXPRESSED: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}

STORAGE = (
    ("i8", -128, 127),
    ("u8", 0, 255),
    ("i8<-127:127>", -127, 127),
    ("i4", -8, 7),
    ("u5", 0, 31),
    ("i16", -100, 100),
    ("u12<1:4000>", 1, 99),
    ("i32", -99, 99),
)


def random_constant(source: random.Random) -> tuple[str, str, str]:
    """The text of a constant, its type, and the type that it is quantized to."""
    rows, columns = source.randint(2, 4), source.randint(2, 4)
    scales = [source.choice((0.5, 0.1, 1.0, 3.7, 0.005)) for _ in range(columns)]
    numbers = [
        # Halves are where rounding modes differ.
        source.choice((source.randint(-300, 300) * 0.5, source.uniform(-300, 300)))
        * scales[i % columns]
        for i in range(rows * columns)
    ]
    expressed = source.choice((*EXPRESSED, "f32"))
    values = np.array(numbers).astype(EXPRESSED[expressed])
    storage, low, high = source.choice(STORAGE)
    parts = [f"{scale}:{source.randint(low, high)}" for scale in scales]
    type_ = source.choice(
        (
            f"!quant.uniform<{storage}:{expressed}:1, {{{', '.join(parts)}}}>",
            f"!quant.uniform<{storage}:{expressed}, {parts[0]}>",
        )
    )
    shape = f"{rows}x{columns}x"
    text = f'dense<"0x{values.tobytes().hex().upper()}">'
    return text, f"tensor<{shape}{expressed}>", f"tensor<{shape}{type_}>"


def function(index: int, constant: tuple[str, str, str]) -> str:
    value, expressed, quantized = constant
    return (
        f"func @f{index}() -> {quantized} {{\n%c = arith.constant {value} : {expressed}\n"
        f'%0 = "quant.qcast"(%c) : ({expressed}) -> {quantized}\n'
        f"return %0 : {quantized}\n}}"
    )


@needs_mlir_14
def test_random_constants_become_what_mlir_14_makes_of_them():
    source = random.Random(0)
    text = "\n".join(function(i, random_constant(source)) for i in range(600))
    assert MLIR_OPT_14 is not None
    done = subprocess.run(
        [MLIR_OPT_14, "-quant-convert-const", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    expected = re.findall(r"arith\.constant (.*)", done.stdout)
    module = convert(parse(text.replace("func @", "func.func @")), "nearest-away")
    values = [str(op.value) for op in module.walk() if isinstance(op, ConstantOp)]
    assert len(values) == 600
    assert values == expected


# Differences from MLIR 14: each is a row in docs/background/differences.md


def constants_of_mlir_14(constant: tuple[str, str, str]) -> list[str]:
    """The constants in what MLIR 14 makes of a function with a constant and a cast."""
    assert MLIR_OPT_14 is not None
    done = subprocess.run(
        [MLIR_OPT_14, "-quant-convert-const", "-"],
        input=function(0, constant),
        capture_output=True,
        text=True,
        check=True,
    )
    return re.findall(r"arith\.constant (.*)", done.stdout)


SPARSE = (
    "sparse<[[0, 0], [1, 2]], 5.0>",
    "tensor<2x3xf32>",
    "tensor<2x3x!quant.uniform<i8:f32, 0.5:3>>",
)
OUTSIDE = (
    "dense<[5.0, -1.0]>",
    "tensor<2xf32>",
    "tensor<2x!quant.uniform<i8:f32:0, {0.5:200, 1.0:-200}>>",
)


@needs_mlir_14
def test_mlir_14_takes_sparse_constants():
    assert constants_of_mlir_14(SPARSE) == [
        "sparse<[[0, 0], [1, 2]], 13> : tensor<2x3xi8>"
    ]


def test_sparse_constants_are_refused():
    with pytest.raises(ParseError) as error:
        parse(function(0, SPARSE).replace("func @", "func.func @"))
    assert error.value.msg == "attribute expected"


@needs_mlir_14
def test_mlir_14_takes_zero_points_outside_of_the_storage_type():
    assert constants_of_mlir_14(OUTSIDE) == ["dense<[127, -128]> : tensor<2xi8>"]


def test_zero_points_outside_of_the_storage_type_are_refused():
    module = parse(function(0, OUTSIDE).replace("func @", "func.func @"))
    with pytest.raises(
        PassFailedException, match="zero point -200 is not representable"
    ):
        convert(module, "nearest-away")


# What becomes of the ops


def constants(module: ModuleOp) -> list[ConstantOp]:
    return [op for op in module.walk() if isinstance(op, ConstantOp)]


def test_locations_and_names():
    module = convert(
        parse("""
          func.func @f() -> !quant.uniform<i8:f32, 1.0> {
            %weight = arith.constant 1.0 : f32 loc("model.mlir":1:1)
            %q = quant.qcast %weight : f32 to !quant.uniform<i8:f32, 1.0> loc("m.mlir":2:2)
            return %q : !quant.uniform<i8:f32, 1.0>
          }""")
    )
    (constant,) = constants(module)
    assert str(constant.location) == 'loc("model.mlir":1:1)'
    assert constant.result.name_hint == "weight"
    (scast,) = (op for op in module.walk() if isinstance(op, StorageCastOp))
    assert str(scast.location) == 'loc("m.mlir":2:2)'
    assert scast.result.name_hint == "q"


def test_equal_casts_have_equal_constants():
    module = convert(
        parse("""
          func.func @f() {
            %c = arith.constant dense<1.0> : tensor<2xf32>
            %0 = quant.qcast %c : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 1.0>>
            %1 = quant.qcast %c : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 1.0>>
            return
          }""")
    )
    first, second = constants(module)
    assert first.value is second.value


def test_nothing_changes_if_one_of_many_casts_fails():
    module = parse("""
      func.func @f() {
        %c = arith.constant 1.0 : f32
        %0 = quant.qcast %c : f32 to !quant.uniform<i8:f32, 1.0>
        %1 = quant.qcast %c : f32 to !quant.uniform<i8:f32, 1.0:200> loc("model.mlir":2:2)
        return
      }""")
    before = str(module)
    with pytest.raises(PassFailedException) as error:
        convert(module)
    assert str(module) == before
    assert str(error.value).endswith(
        "model.mlir:2:2: error: 'quant.qcast' op cannot quantize its constant: zero point "
        "200 is not representable in 'i8'; expected -128 to 127"
    )


def test_a_constant_with_too_few_bytes():
    type_ = TensorType(f32, (3,))
    values: NDArray[Any] = np.ones(2, np.float32)
    constant = ConstantOp(
        DenseIntOrFPElementsAttr(type_, BytesAttr(values.tobytes())), type_
    )
    quantized = TensorType(uniform_type(QuantizationParameters(1.0)), (3,))
    module = ModuleOp([constant, QuantizeCastOp(constant, quantized)])
    with pytest.raises(
        PassFailedException, match=r"data of 8 bytes; expected 12 for 'tensor<3xf32>'"
    ):
        QuantConvertConstPass().apply(Context(), module)


@pytest.mark.parametrize(
    ("fixed_point", "uniform"),
    [
        ("i8:f32, 1342177280p-33:3", "i8:f32, 0.15625:3"),
        (
            "i8:f32:0, {1342177280p-33:3, 1073741824p-31}",
            "i8:f32:0, {0.15625:3, 0.5}",
        ),
    ],
)
def test_integer_scales(fixed_point: str, uniform: str):
    text = """
func.func @f() -> tensor<2x!quant.TYPE> {
  %x = arith.constant dense<[1.0, -2.25]> : tensor<2xf32>
  %q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.TYPE>
  return %q : tensor<2x!quant.TYPE>
}"""
    texts = [
        str(convert(parse(text.replace("TYPE", type_))))
        for type_ in (f"fixed_point<{fixed_point}>", f"uniform<{uniform}>")
    ]
    constants = [re.findall(r"dense<.*> : tensor<2xi8>", text) for text in texts]
    assert len(constants[0]) == 1
    assert constants[0] == constants[1]


# StableHLO

STABLEHLO = """
func.func @f() -> tensor<{shape}{type}> {{
  %x = stablehlo.constant dense<{values}> : tensor<{shape}f32>
  %q = {cast}
  return %q : tensor<{shape}{type}>
}}"""

CASTS = {
    "quant.qcast": "quant.qcast %x : tensor<{shape}f32> to tensor<{shape}{type}>",
    "stablehlo.uniform_quantize": (
        "stablehlo.uniform_quantize %x : (tensor<{shape}f32>) -> tensor<{shape}{type}>"
    ),
}


def stablehlo_text(cast: str, values: NDArray[Any], type_: str) -> str:
    shape = "".join(f"{size}x" for size in values.shape)
    return STABLEHLO.format(
        shape=shape,
        type=type_,
        values=values.tolist(),
        cast=CASTS[cast].format(shape=shape, type=type_),
    )


STABLEHLO_TYPES = {
    "!quant.uniform<i8:f32, 0.05:3>": True,
    "!quant.uniform<ui8:f32, 0.05:130>": True,
    "!quant.uniform<ui4:f32, 0.5:9>": True,
    "!quant.uniform<u4:f32, 0.5:9>": True,
    "!quant.uniform<i16<-300:300>:f32:1, {0.1,0.2,0.4:-3}>": True,
    # StableHLO has no such constants.
    "!quant.uniform<i8:f32:{0:2}, {{0.1},{0.2}}>": False,
    "!quant.uniform<u7:f32, 0.5:9>": False,
}


@pytest.mark.parametrize("cast", CASTS)
@pytest.mark.parametrize("type_", STABLEHLO_TYPES)
def test_constants_of_stablehlo(type_: str, cast: str):
    is_known = STABLEHLO_TYPES[type_]
    if not is_known and cast != "quant.qcast":
        return
    values = (10 * np.random.default_rng(0).standard_normal((4, 3))).astype(np.float32)
    text = stablehlo_text(cast, values, type_)
    module = parse_module(text)
    apply_passes(module, "quant-convert-const")
    names = [op.name for op in module.walk()]
    assert cast not in names
    assert ("quant.scast" in names) != is_known
    assert names.count("stablehlo.constant") == is_known
    (result,) = run_function(after_linalg(module), "f")
    quantized = QuantizationParameters.from_type(quantized_type(type_))
    np.testing.assert_array_equal(result, quantize(values, quantized))


def quantized_type(text: str) -> Any:
    function = parse_module(f"func.func private @f({text})").body.block.first_op
    assert isinstance(function, func.FuncOp)
    return function.function_type.inputs.data[0]


def after_linalg(module: ModuleOp) -> ModuleOp:
    apply_passes(module, "convert-stablehlo-to-linalg")
    return module


@pytest.mark.parametrize("type_", [t for t, known in STABLEHLO_TYPES.items() if known])
def test_constants_are_valid_in_real_stablehlo(type_: str):
    real = RealStableHLO()
    values: NDArray[Any] = np.array([[0.3, -1.0, 2.5]], np.float32)
    module = parse_module(stablehlo_text("stablehlo.uniform_quantize", values, type_))
    apply_passes(module, "quant-convert-const")
    assert "uniform_quantize" not in str(module)
    assert real.text(str(module)) is not None


def test_numbers_are_those_of_real_stablehlo():
    real = RealStableHLO()
    # Halves, and values that saturate.
    values = np.arange(-300, 300).reshape(2, 300).astype(np.float32) * 0.25
    text = stablehlo_text(
        "stablehlo.uniform_quantize", values, "!quant.uniform<i8:f32, 0.5:3>"
    )
    (expected,) = real.results(text)
    module = parse_module(text)
    apply_passes(module, "quant-convert-const{rounding-mode=nearest-away}")
    (actual,) = real.results(str(module))
    np.testing.assert_array_equal(actual, expected)


def test_a_constant_of_stablehlo_that_is_used_otherwise_stays():
    module = parse_module(
        """
        func.func @f() -> (tensor<2xf32>, tensor<2x!quant.uniform<i8:f32, 0.5>>) {
          %x = stablehlo.constant dense<[0.5, 3.0]> : tensor<2xf32>
          %q = stablehlo.uniform_quantize %x
            : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5>>
          return %x, %q : tensor<2xf32>, tensor<2x!quant.uniform<i8:f32, 0.5>>
        }"""
    )
    apply_passes(module, "quant-convert-const")
    assert [op.name for op in module.walk()].count("stablehlo.constant") == 2
    results = run_function(after_linalg(module), "f")
    assert [result.tolist() for result in results] == [[0.5, 3.0], [1, 6]]


def test_what_fails_for_a_constant_of_stablehlo_says_so():
    text = stablehlo_text(
        "quant.qcast", np.ones(2, np.float32), "!quant.uniform<i8:f32, 0.5:200>"
    )
    module = parse_module(text, "model.mlir")
    before = str(module)
    with pytest.raises(IRError) as error:
        apply_passes(module, "quant-convert-const")
    assert str(error.value).startswith(
        "model.mlir:4:3: error: 'quant.qcast' op cannot quantize its constant: zero point "
        "200 is not representable in 'i8'"
    )
    assert str(module) == before


# Float storage, tables and blocks

CODES = {
    "f8": "!quant.uniform<f8E4M3FN:f32, 0.5>",
    "f8 per-axis": "!quant.uniform<f8E5M2:f32:0, {0.5, 3.0}>",
    "f4 with a zero point": "!quant.uniform<f4E2M1FN:f32, 0.5:2>",
    "f4 of f16": "!quant.uniform<f4E2M1FN:f16, 0.5>",
    "table": "!quant.uniform<!quant.quantile<ui2:f16, {-1.0,0.0,0.5,1.0}><0:3>:f32, 2.0>",
    "blocks of f4": (
        "!quant.block_scaled<f4E2M1FN:f32:{1:3}, scales = dense<[0.5, 2.0]> : "
        "tensor<2xf8E8M0FNU>>"
    ),
    "blocks of u4": (
        "!quant.block_scaled<u4:f32:{0:1, 1:4}, scales = dense<[[0.5, -2.0], [0.0, 1.0]]> "
        ": tensor<2x2xf16>, zero_points = dense<8> : tensor<2x2xui4>>"
    ),
    "blocks of f6": (
        "!quant.block_scaled<f6E2M3FN:f32:{}, scales = dense<0.25> : tensor<f16>, "
        "offsets = dense<1.5> : tensor<f16>>"
    ),
}


@pytest.mark.parametrize("type_", CODES.values(), ids=CODES)
@pytest.mark.parametrize("shape", ["2x5x", "2x5xresource", ""])
def test_what_is_no_integer_is_quantized_as_by_the_cast(type_: str, shape: str):
    is_resource = "resource" in shape
    shape = shape.removesuffix("resource")
    if not shape and ("{0" in type_ or ":0, {" in type_ or "{1" in type_):
        shape = "2x5x"
    expressed = "f16" if "f4E2M1FN:f16" in type_ else "f32"
    numbers = np.array([[-900, -1, 0, 0.3, 7], [1e-3, 2.75, np.nan, np.inf, 5]])
    dtype = {"f16": "<f2", "f32": "<f4"}[expressed]
    data = numbers.astype(dtype).tobytes().hex()
    value, resource = f'dense<"0x{data}">', ""
    if is_resource:
        value = f"dense_resource<codes_{len(type_)}>"
        key = value[15:-1]
        resource = (
            f'{{-# dialect_resources: {{builtin: {{{key}: "0x04000000{data}"}}}} #-}}'
        )
    if not shape:
        value = "2.75"
    floats, codes = (
        (f"tensor<{shape}{expressed}>", f"tensor<{shape}{type_}>")
        if shape
        else (expressed, type_)
    )
    text = f"""
        func.func @f() -> {codes} {{
          %c = arith.constant {value} : {floats}
          %q = quant.qcast %c : {floats} to {codes}
          return %q : {codes}
        }}
        {resource}"""
    module = parse_module(text)
    (expected,) = run_function(parse_module(text), "f")
    apply_passes(module, "quant-convert-const")
    module.verify()
    assert "quant.qcast" not in str(module)
    if not is_resource:
        assert str(parse_module(str(module))) == str(module)
    (found,) = run_function(module, "f")
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.view("u1"), expected.view("u1"))


def test_what_cannot_be_quantized_by_blocks_is_located():
    type_ = CODES["blocks of f4"]
    text = f"""
        func.func @f() -> tensor<2x5x{type_}> {{
          %c = arith.constant dense<1.0> : tensor<2x5xf32>
          %q = quant.qcast %c : tensor<2x5xf32> to tensor<2x5x{type_}>
          return %q : tensor<2x5x{type_}>
        }}"""
    message = "unsupported rounding mode 'nearest-away' for storage type 'f4E2M1FN'"
    with pytest.raises(IRError, match=re.escape(message)):
        apply_passes(
            parse_module(text), "quant-convert-const{rounding-mode=nearest-away}"
        )
