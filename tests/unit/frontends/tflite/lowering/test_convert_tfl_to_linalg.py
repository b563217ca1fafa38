"""Ops of TensorFlow Lite as linalg: against its reference kernels, and against NumPy."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.utils.exceptions import PassFailedException

from tests.unit.frontends.tflite.files.models import model_of
from tests.unit.frontends.tflite.formulas.cases import Case, cases
from tests.unit.frontends.tflite.test_interpreter import (
    PATHS,
    expected_of,
    reference,
    values_of,
)
from tests.unit.machines.numpy.running import same_bits
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_linalg import (
    ConvertTFLToLinalgPass,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import multiverse_context, parse_module
from xdsl_quant.runtime.stateful_function import StatefulFunction


def converted(module: ModuleOp, **options: Any) -> ModuleOp:
    ConvertTFLToLinalgPass(**options).apply(Context(), module)
    module.verify()
    assert not [op for op in module.walk() if op.name.startswith("tfl.")]
    return module


def assert_results(case: Case, results: Any):
    for result, expected in zip(results, expected_of(case), strict=True):
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(result, expected, rtol=1e-6)
        else:
            assert same_bits(np.asarray(result), expected), case.name


def interpreted(module: ModuleOp, name: str) -> Any:
    return partial(run_function, converted(module), name)


def compiled(module: ModuleOp, name: str) -> Any:
    return compile(converted(module), name)


def run_case(case: Case, runner: Any):
    module = read_tflite(write_model(model_of(case)))
    assert_results(case, StatefulFunction(module, runner).step(*values_of(case)))


OPS = sorted({case.op for case in cases()})


@pytest.mark.sampled
@pytest.mark.parametrize("op", OPS)
def test_interpreted(op: str, request: pytest.FixtureRequest):
    step = 1 if request.config.getoption("--all-cases") else 9
    for case in [case for case in cases() if case.op == op][::step]:
        run_case(case, interpreted)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("op", OPS)
def test_compiled(op: str, request: pytest.FixtureRequest):
    step = 1 if request.config.getoption("--all-cases") else 14
    for case in [case for case in cases() if case.op == op][::step]:
        run_case(case, compiled)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_streaming_models(path: Path):
    content = path.read_bytes()
    expected = reference(content)
    model = StatefulFunction(read_tflite(content), compiled)
    (argument,), (result,) = expected.get_input_details(), expected.get_output_details()
    random = np.random.default_rng(0)
    for _ in range(20):
        values = random.integers(-128, 128, tuple(argument["shape"])).astype(np.int8)
        expected.set_tensor(argument["index"], values)
        expected.invoke()
        (output,) = model.step(values)
        assert same_bits(output, expected.get_tensor(result["index"]))


# What there is no kernel for

DIVISION = """
    !q = !quant.uniform<i8:f32, 0.5:3>
    func.func @main(%x: tensor<4x!q>, %y: tensor<4x!q>) -> tensor<4x!q> {
      %sum = tfl.add %x, %y {fused_activation_function = "NONE"} : tensor<4x!q>
      %z = tfl.div %sum, %y {fused_activation_function = "RELU6"} : tensor<4x!q>
      return %z : tensor<4x!q>
    }
"""
X = np.array([3, 5, -100, 127], np.int8)
Y = np.array([5, -3, 9, 2], np.int8)


def test_fallback():
    module = converted(parse_module(DIVISION))
    text = str(module)
    assert "quant.qcast" not in text
    assert "quant.dcast" not in text
    assert str(module.attributes["tfl.fallback"]) == (
        '[{op = "tfl.div", name = "z", reason = "has no integer kernel"}]'
    )
    (result,) = run_function(module, "main", X, Y)
    # (0 + 1) / 1, (1 - 3) / -3, clamped quotients, and what is divided by -0.5.
    np.testing.assert_array_equal(result, [5, 4, 3, 3])


def test_fallback_only():
    """The sum is computed with floats, too."""
    module = converted(parse_module(DIVISION), fallback="only")
    assert "math.roundeven" in str(module)
    assert "arith.shrsi" not in str(module)
    np.testing.assert_array_equal(run_function(module, "main", X, Y)[0], [5, 4, 3, 3])


def test_fallback_off():
    module = parse_module(DIVISION)
    before = str(module)
    reason = "'tfl.div' op has no integer kernel"
    message = f"{reason}; use 'fallback=on' to compute it with floats"
    with pytest.raises(PassFailedException, match=re.escape(message)):
        converted(module, fallback="off")
    assert str(module) == before


@pytest.mark.parametrize(
    ("op", "scales", "reason"),
    [
        (
            'tfl.mul(%x, %y) <{fused_activation_function = "TANH"}>',
            ("0.5", "0.5", "0.5"),
            "has the activation 'TANH', which has no integer form",
        ),
        (
            'tfl.mul(%x, %y) <{fused_activation_function = "NONE"}>',
            ("3.0e+38", "3.0e+38", "0.5"),
            "has a ratio of scales that is not finite",
        ),
    ],
    ids=["activation", "scales"],
)
def test_reasons(op: str, scales: tuple[str, str, str], reason: str):
    """What is computed with floats is what the interpreter computes so."""
    types = [f"tensor<2x!quant.uniform<i8:f32, {scale}>>" for scale in scales]
    x, y, z = types
    module = parse_module(
        f"func.func @main(%x: {x}, %y: {y}) -> {z} {{\n"
        f"%z = {op} : ({x}, {y}) -> {z}\nreturn %z : {z} }}"
    )
    arguments = np.array([3, -7], np.int8), np.array([2, 1], np.int8)
    expected = run_function(module, "main", *arguments)
    converted(module)
    (fallback,) = cast(ArrayAttr[DictionaryAttr], module.attributes["tfl.fallback"])
    assert fallback.data["reason"] == StringAttr(reason)
    assert same_bits(run_function(module, "main", *arguments)[0], expected[0])


def test_multiplier_kernels():
    """An accumulator of 2 * 15 + 1 = 31 times 0.5, which is a tie for one of both."""
    text = """
        !x = !quant.uniform<i8:f32, 0.5>
        !w = !quant.uniform<i8<-127:127>:f32, 0.3>
        !y = !quant.uniform<i8:f32, 0.1>
        func.func @main(%x: tensor<1x1x!x>) -> tensor<1x1x!y> {
          %w = "tfl.pseudo_qconst"() <{
              qtype = tensor<1x1x!w>, value = dense<1> : tensor<1x1xi8>
          }> : () -> tensor<1x1x!w>
          %none = "tfl.no_value"() <{value}> : () -> none
          %y = "tfl.fully_connected"(%x, %w, %none) <{
              fused_activation_function = "NONE", keep_num_dims = false,
              weights_format = "DEFAULT"
          }> : (tensor<1x1x!x>, tensor<1x1x!w>, none) -> tensor<1x1x!y>
          return %y : tensor<1x1x!y>
        }
    """
    reference = str(converted(parse_module(text)))
    multiplier = str(converted(parse_module(text), kernels="multiplier"))
    assert "arith.mulf" in reference
    assert "arith.mulf" not in multiplier
    for module in (reference, multiplier):
        (result,) = run_function(module, "main", np.array([[4]], np.int8))
        np.testing.assert_array_equal(result, [[6]])


@pytest.mark.parametrize("kernels", ["reference", "multiplier"])
def test_weights_of_16_bits(kernels: str):
    """LiteRT's kernels give these integers."""
    text = """
        !x = !quant.uniform<i16:f32, 0.1>
        !w = !quant.uniform<i16:f32, 0.3>
        !y = !quant.uniform<i16:f32, 2000.0>
        func.func @main(%x: tensor<1x1x!x>) -> tensor<1x3x!y> {
          %w = "tfl.pseudo_qconst"() <{
              qtype = tensor<3x1x!w>,
              value = dense<[[-30000], [-7063], [20001]]> : tensor<3x1xi16>
          }> : () -> tensor<3x1x!w>
          %none = "tfl.no_value"() <{value}> : () -> none
          %y = "tfl.fully_connected"(%x, %w, %none) <{
              fused_activation_function = "NONE", keep_num_dims = false,
              weights_format = "DEFAULT"
          }> : (tensor<1x1x!x>, tensor<3x1x!w>, none) -> tensor<1x3x!y>
          return %y : tensor<1x3x!y>
        }
    """
    module = parse_module(text)
    for lowered in (module, converted(module.clone(), kernels=kernels)):
        (result,) = run_function(lowered, "main", np.array([[32767]], np.int16))
        np.testing.assert_array_equal(result, [[-14745, -3471, 9831]])


def test_several_scales():
    text = """
        !q = !quant.uniform<i8:f32:1, {0.25, 0.5}>
        func.func @main(%x: tensor<2x2x!q>) -> tensor<2x2x!q> {
          %y = "tfl.relu"(%x) : (tensor<2x2x!q>) -> tensor<2x2x!q>
          return %y : tensor<2x2x!q>
        }
    """
    module = converted(parse_module(text))
    assert "has a result with several scales" in str(module.attributes["tfl.fallback"])
    (result,) = run_function(module, "main", np.array([[-3, 5], [7, -9]], np.int8))
    np.testing.assert_array_equal(result, [[0, 5], [7, 0]])


def test_wide_storage():
    """No kernel takes more than 16 bits."""
    text = """
        !q = !quant.uniform<i32:f32, 0.5:3>
        func.func @main(%x: tensor<3x!q>) -> tensor<3x!q> {
          %y = "tfl.relu"(%x) : (tensor<3x!q>) -> tensor<3x!q>
          return %y : tensor<3x!q>
        }
    """
    module = parse_module(text)
    x = np.array([-(1 << 20), 3, 1 << 20], np.int32)
    for module in (module, converted(module.clone())):
        (result,) = run_function(module, "main", x)
        np.testing.assert_array_equal(result, [3, 3, 1 << 20])
    assert "has storage of more than 16 bits" in str(module)


@pytest.mark.parametrize("op", ["arg_max", "arg_min"])
def test_first_of_nan(op: str):
    """NaN is the result if it is the first element, and no other one."""
    text = f"""
        func.func @main(%x: tensor<4x3xf32>) -> tensor<4xi32> {{
          %a = "tfl.pseudo_const"() <{{value = dense<1> : tensor<i32>}}> : () -> tensor<i32>
          %y = "tfl.{op}"(%x, %a) : (tensor<4x3xf32>, tensor<i32>) -> tensor<4xi32>
          return %y : tensor<4xi32>
        }}
    """
    nan = np.nan
    x = np.array([[nan, 1, 2], [1, nan, 2], [2, nan, 1], [3, 3, 3]], np.float32)
    expected = [0, 2, 0, 0] if op == "arg_max" else [0, 0, 2, 0]
    module = parse_module(text)
    for module in (module, converted(module.clone())):
        (result,) = run_function(module, "main", x)
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(compile(module)(x), expected)


def test_casts_with_several_scales():
    """They round half away from zero, before the zero point is added."""
    text = """
        !q = !quant.uniform<i8:f32:1, {0.5, 0.25:3}>
        func.func @main(%x: tensor<2x2xf32>) -> (tensor<2x2x!q>, tensor<2x2xf32>) {
          %y = "tfl.quantize"(%x) <{qtype = tensor<2x2x!q>}>
              : (tensor<2x2xf32>) -> tensor<2x2x!q>
          %z = "tfl.dequantize"(%y) : (tensor<2x2x!q>) -> tensor<2x2xf32>
          return %y, %z : tensor<2x2x!q>, tensor<2x2xf32>
        }
    """
    module = parse_module(text)
    x = np.array([[0.25, -0.125], [-0.75, 100]], np.float32)
    expected = [[1, 2], [-2, 127]], [[0.5, -0.25], [-1, 31]]
    for module in (module, converted(module.clone())):
        for result, array in zip(
            run_function(module, "main", x), expected, strict=True
        ):
            np.testing.assert_array_equal(result, array)


def test_weights_of_floats():
    """Unsigned weights of floats are dequantized, and are constants then."""
    text = """
        !w = !quant.uniform<u8<1:255>:f32:0, {0.5, 0.25}>
        func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
          %w = "tfl.pseudo_qconst"() <{
              qtype = tensor<2x2x!w>, value = dense<[[1, 2], [4, 8]]> : tensor<2x2xi8>
          }> : () -> tensor<2x2x!w>
          %none = "tfl.no_value"() <{value}> : () -> none
          %y = "tfl.fully_connected"(%x, %w, %none) <{
              fused_activation_function = "RELU", keep_num_dims = false,
              weights_format = "DEFAULT"
          }> : (tensor<1x2xf32>, tensor<2x2x!w>, none) -> tensor<1x2xf32>
          return %y : tensor<1x2xf32>
        }
    """
    module = converted(parse_module(text))
    assert "dense<[[5.000000e-01, 1.000000e+00], [1.000000e+00, 2.000000e+00]]>" in (
        str(module)
    )
    (result,) = run_function(module, "main", np.array([[-3, 2]], np.float32))
    np.testing.assert_array_equal(result, [[0.5, 1]])


@pytest.mark.parametrize("scale", [":f32, 0.1:3", ":f32:0, {0.1:3, 0.3, 1.1}"])
def test_scales_of_64_bits(scale: str):
    """They are rounded to 32 bits, as files have them."""
    type_ = f"tensor<3x!quant.uniform<i8{scale}>>"
    module = parse_module(
        f"func.func @main(%x: {type_}) -> tensor<3xf32> {{\n"
        f'%y = "tfl.dequantize"(%x) : ({type_}) -> tensor<3xf32>\n'
        "return %y : tensor<3xf32> }"
    )
    for value in range(-128, 128):
        x = np.full(3, value, np.int8)
        (expected,) = run_function(module, "main", x)
        assert same_bits(np.asarray(compile(module)(x)), expected)


@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])
def test_products_of_32_unsigned_bits(activation: str):
    type_ = "tensor<1000xui32>"
    module = parse_module(
        f"func.func @main(%x: {type_}, %y: {type_}) -> {type_} {{\n"
        f'%0 = tfl.mul %x, %y {{fused_activation_function = "{activation}"}} : {type_}\n'
        f"return %0 : {type_} }}"
    )
    random = np.random.default_rng(0)
    x, y = random.integers(0, 1 << 32, (2, 1000)).astype(np.uint32)
    x[:5], y[:5] = [0, 1, 2, 3, 1 << 31], [7, 1, 3, 1 << 31, (1 << 32) - 1]
    expected = x * y
    if activation in ("RELU6", "RELU_N1_TO_1"):
        expected = np.minimum(expected, 6 if activation == "RELU6" else 1)
    (interpreted,) = run_function(module, "main", x, y)
    assert same_bits(interpreted, expected)
    assert same_bits(np.asarray(compile(module)(x, y)), expected)


def test_long_product():
    """Each of 200 factors is rescaled; those of the whole are not one expression."""
    text = """
        !x = !quant.uniform<i16:f32, 0.001>
        !y = !quant.uniform<i16:f32, 0.0004>
        func.func @main(%x: tensor<2x200x!x>) -> tensor<2x!y> {
          %a = "tfl.pseudo_const"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
          %y = "tfl.reduce_prod"(%x, %a) <{keep_dims = false}>
            : (tensor<2x200x!x>, tensor<i32>) -> tensor<2x!y>
          return %y : tensor<2x!y>
        }
    """
    x = np.random.default_rng(0).integers(960, 1050, (2, 200)).astype(np.int16)
    (expected,) = run_function(parse_module(text), "main", x)
    assert (abs(expected) > 9).all()
    (result,) = run_function(converted(parse_module(text)), "main", x)
    assert same_bits(result, expected)


# What cannot be converted

Q4 = "tensor<4x!quant.uniform<i8:f32, 0.5:3>>"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            '%y = "tfl.custom"(%x) <{custom_code = "F", custom_option = '
            '#tfl<const_bytes : "0x">}> : (tensor<4xf32>) -> tensor<4xf32>',
            "'tfl.custom' op has no conversion to linalg",
        ),
        (
            '%y = "tfl.reverse_sequence"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
            "'tfl.reverse_sequence' op has no conversion to linalg",
        ),
        (
            '%s = "tfl.cast"(%x) : (tensor<4xf32>) -> tensor<4xi32>\n'
            '%y = "tfl.reshape"(%x, %s) : (tensor<4xf32>, tensor<4xi32>) '
            "-> tensor<?x?x?x?xf32>",
            "'tfl.reshape' op has non-constant sizes, axes or indices",
        ),
        (
            '%h = "tfl.var_handle"() <{container = "", shared_name = "v"}> : () -> '
            'tensor<*x!tf_type.resource>\n%y = "tfl.read_variable"(%h) : '
            "(tensor<*x!tf_type.resource>) -> tensor<4xf32>",
            "'tfl.var_handle' op has state; run 'tfl-variables-to-arguments' first",
        ),
        (
            f'%q = "tfl.quantize"(%x) <{{qtype = {Q4}}}> : (tensor<4xf32>) -> {Q4}\n'
            f'%y = "tfl.abs"(%q) : ({Q4}) -> tensor<4xi1>',
            "'tfl.abs' op has quantized operands and a result that is neither quantized "
            "nor float",
        ),
        (
            f'%q = "tfl.quantize"(%x) <{{qtype = {Q4}}}> : (tensor<4xf32>) -> {Q4}\n'
            f'%y = "tfl.less"(%q, %q) : ({Q4}, {Q4}) -> {Q4}',
            "'tfl.less' op has quantized operands and a result that is not i1",
        ),
        (
            '%i = "tfl.cast"(%x) : (tensor<4xf32>) -> tensor<4xi32>\n'
            "%y = tfl.floor_div %i, %i : tensor<4xi32>",
            "'tfl.floor_div' op cannot be converted: a divisor may be 0",
        ),
        (
            '%i = "tfl.cast"(%x) : (tensor<4xf32>) -> tensor<4xi32>\n'
            "%y = tfl.pow %i, %i : tensor<4xi32>",
            "'tfl.pow' op has no conversion to linalg for these element types",
        ),
        (
            '%i = "tfl.cast"(%x) : (tensor<4xf32>) -> tensor<4xi32>\n'
            '%y = tfl.add %i, %i {fused_activation_function = "TANH"} : tensor<4xi32>',
            "'tfl.add' op has no conversion to linalg for these element types",
        ),
        (
            '%i = "tfl.cast"(%x) : (tensor<4xf32>) -> tensor<4xui64>\n'
            '%y = "tfl.cast"(%i) : (tensor<4xui64>) -> tensor<4xf32>',
            "'tfl.cast' op has values from 0 to 18446744073709551615, which need more "
            "than 64 bits",
        ),
        (
            '%i = "tfl.sum"(%x, %a) <{keep_dims = false}> : '
            "(tensor<4xf32>, tensor<i32>) -> tensor<f32>\n"
            '%y = "tfl.range"(%i, %i, %i) : (tensor<f32>, tensor<f32>, tensor<f32>) -> '
            "tensor<?xf32>",
            "'tfl.range' op has non-constant sizes, axes or indices",
        ),
        (
            '%d = "tfl.pseudo_const"() <{value = dense<1000000> : tensor<3xi32>}> : () -> '
            'tensor<3xi32>\n%y = "tfl.fill"(%d, %a) : (tensor<3xi32>, tensor<i32>) -> '
            "tensor<?x?x?xi32>",
            "'tfl.fill' op cannot be converted: Unable to allocate",
        ),
        (
            "cf.br ^b1\n^b0:\n"
            '%z = tfl.add %y, %y {fused_activation_function = "NONE"} : tensor<4xf32>\n'
            "return\n^b1:\n"
            '%y = tfl.add %x, %x {fused_activation_function = "NONE"} : tensor<4xf32>\n'
            "cf.br ^b0\n^b2:\n",
            "'tfl.add' op comes after a use of its result, expected blocks in an order in "
            "which values are defined before they are used",
        ),
        (
            '%n = "tfl.reduce_prod"(%e, %a) <{keep_dims = false}> : '
            "(tensor<0x!quant.uniform<i8:f32, 0.5>>, tensor<i32>) -> "
            "tensor<!quant.uniform<i8:f32, 0.5>>",
            "'tfl.reduce_prod' op cannot be converted: division by zero",
        ),
        (
            '%y = "tfl.if"(%c) ({ "tfl.yield"(%x) : (tensor<4xf32>) -> () }, '
            '{ "tfl.yield"(%x) : (tensor<4xf32>) -> () }) : (tensor<*xi1>) -> '
            "tensor<4xf32>",
            "'tfl.if' op has a condition of type 'tensor<*xi1>', expected a tensor with "
            "one element",
        ),
        (
            '%y = "tfl.if"(%t) ({ "tfl.yield"(%x) : (tensor<4xf32>) -> () }, '
            '{ "tfl.yield"(%x) : (tensor<4xf32>) -> () }) : (tensor<i1>) -> '
            "tensor<?xf32>",
            "'tfl.if' op has values that a region yields of types (tensor<4xf32>), "
            "expected the types of its results, (tensor<?xf32>)",
        ),
        (
            '%y = "tfl.while"(%x) ({ ^b0(%v: tensor<4xf32>): "tfl.yield"(%t) : '
            '(tensor<i1>) -> () }, { ^b0(%v: tensor<4xf32>): "tfl.yield"(%v) : '
            "(tensor<4xf32>) -> () }) : (tensor<4xf32>) -> tensor<?xf32>",
            "'tfl.while' op has arguments of a region of types (tensor<4xf32>), expected "
            "the types of its results, (tensor<?xf32>)",
        ),
    ],
    ids=[
        "custom",
        "unknown",
        "sizes",
        "state",
        "result of numbers",
        "result of a comparison",
        "division",
        "power",
        "activation",
        "64 bits",
        "range",
        "memory",
        "order",
        "empty",
        "unranked condition",
        "types of a condition",
        "types of a loop",
    ],
)
def test_unsupported(body: str, message: str):
    context = multiverse_context()
    context.allow_unregistered = True
    text = f"""
        func.func @main(
          %x: tensor<4xf32>, %c: tensor<*xi1>, %t: tensor<i1>,
          %e: tensor<0x!quant.uniform<i8:f32, 0.5>>
        ) {{
          %a = "tfl.pseudo_const"() <{{value = dense<0> : tensor<i32>}}>
              : () -> tensor<i32>
          {body}
          return
        }}
    """
    module = parse_module(text, ctx=context)
    before = str(module)
    with pytest.raises(PassFailedException, match=re.escape(message)):
        ConvertTFLToLinalgPass().apply(Context(), module)
    assert str(module) == before


def test_unknown_shape():
    text = """
        func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
          %y = "tfl.relu"(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
          return %y : tensor<?x4xf32>
        }
    """
    message = "op has an operand of type 'tensor<?x4xf32>' with a dynamic shape"
    with pytest.raises(PassFailedException, match=re.escape(message)):
        converted(parse_module(text))


def test_inferred_shapes():
    """Results of ops get the shapes that they have, and the function keeps its type."""
    text = """
        func.func @main(%x: tensor<2x4xf32>) -> tensor<?x2xf32> {
          %shape = "tfl.pseudo_const"() <{value = dense<[-1, 2]> : tensor<2xi32>}>
              : () -> tensor<2xi32>
          %r = "tfl.relu"(%x) : (tensor<2x4xf32>) -> tensor<?x4xf32>
          %y = "tfl.reshape"(%r, %shape) : (tensor<?x4xf32>, tensor<2xi32>)
              -> tensor<?x2xf32>
          return %y : tensor<?x2xf32>
        }
    """
    values = np.arange(8, dtype=np.float32).reshape(2, 4) - 3
    (result,) = run_function(converted(parse_module(text)), "main", values)
    np.testing.assert_array_equal(result, np.maximum(values, 0).reshape(4, 2))


def test_constants_of_other_dialects():
    text = """
        func.func @main(%x: tensor<2x4xf32>) -> (tensor<4x2xf32>, tensor<2xi32>) {
          %shape = arith.constant dense<[4, 2]> : tensor<2xi32>
          %y = "tfl.reshape"(%x, %shape) : (tensor<2x4xf32>, tensor<2xi32>)
              -> tensor<4x2xf32>
          return %y, %shape : tensor<4x2xf32>, tensor<2xi32>
        }
    """
    values = np.arange(8, dtype=np.float32).reshape(2, 4)
    module = converted(parse_module(text))
    result, shape = run_function(module, "main", values)
    np.testing.assert_array_equal(result, values.reshape(4, 2))
    np.testing.assert_array_equal(shape, [4, 2])


def test_other_ops_between():
    """They have the values that they had, with their types."""
    text = """
        !q = !quant.uniform<i8:f32, 0.5:3>
        func.func @main(%x: tensor<2x!q>) -> tensor<2xf32> {
          %y = "tfl.relu"(%x) : (tensor<2x!q>) -> tensor<2x!q>
          %z = quant.dcast %y : tensor<2x!q> to tensor<2xf32>
          %r = "tfl.neg"(%z) : (tensor<2xf32>) -> tensor<2xf32>
          return %r : tensor<2xf32>
        }
    """
    module = converted(parse_module(text))
    (result,) = run_function(module, "main", np.array([1, 9], np.int8))
    np.testing.assert_array_equal(result, [0, -3])


def test_unsigned_integers():
    """Compiled code takes and returns the same arrays as the interpreter."""
    text = """
        func.func @main(%x: tensor<4xui8>) -> (tensor<4xui8>, tensor<4xi32>) {
          %y = tfl.add %x, %x {fused_activation_function = "RELU_N1_TO_1"} : tensor<4xui8>
          %z = "tfl.cast"(%x) : (tensor<4xui8>) -> tensor<4xi32>
          return %y, %z : tensor<4xui8>, tensor<4xi32>
        }
    """
    x = np.array([0, 1, 128, 255], np.uint8)
    module = parse_module(text)
    expected = np.array([0, 1, 0, 1], np.uint8), x.astype(np.int32)
    for results in (run_function(module, "main", x), compile(module)(x)):
        for result, array in zip(cast(Any, results), expected, strict=True):
            assert same_bits(result, array)


def reduced_product(count: int, scale: str) -> ModuleOp:
    x, y = (f"tensor<{n}!quant.uniform<i8:f32, {scale}>>" for n in (f"{count}x", ""))
    return parse_module(f"""
        func.func @main(%x: {x}) -> {y} {{
          %a = "tfl.pseudo_const"() <{{value = dense<0> : tensor<i32>}}>
              : () -> tensor<i32>
          %y = "tfl.reduce_prod"(%x, %a) <{{keep_dims = false}}>
              : ({x}, tensor<i32>) -> {y}
          return %y : {y}
        }}
    """)


@pytest.mark.parametrize("scale", ["0.25", "1.0", "3.0e+30"])
def test_product_of_many(scale: str):
    """There is one loop for all factors. Extreme scales have no integer form."""
    module = reduced_product(500, scale)
    x = np.where(np.arange(500) % 100, int(1 / float(scale)) or 1, 3).astype(np.int8)
    expected = run_function(module, "main", x)
    np.testing.assert_array_equal(compile(module)(x), expected[0])
    assert ("tfl.fallback" in converted(module).attributes) == (scale == "3.0e+30")
    assert len([*module.walk()]) < 50


def test_largest_of_many():
    """No array of all pairs is in the module."""
    text = """
        func.func @main(%x: tensor<5000xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
          %k = "tfl.pseudo_const"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>
          %y:2 = "tfl.topk_v2"(%x, %k)
              : (tensor<5000xf32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
          return %y#0, %y#1 : tensor<2xf32>, tensor<2xi32>
        }
    """
    module = converted(parse_module(text))
    types = [value.type for op in module.walk() for value in op.results]
    sizes = [t.element_count() for t in types if isinstance(t, TensorType)]
    assert max(sizes) == 5000
    x = np.arange(5000, dtype=np.float32) % 4999
    values, places = compile(module)(x)
    np.testing.assert_array_equal(values, [4998, 4997])
    np.testing.assert_array_equal(places, [4998, 4997])


def test_unsigned_integers_of_other_dialects():
    """What another op computes depends on the signedness of its operand."""
    module = converted(
        parse_module("""
            func.func @main(%x: tensor<2xui8>) -> tensor<2xf32> {
              %y = "tfl.squeeze"(%x) <{squeeze_dims = []}>
                  : (tensor<2xui8>) -> tensor<2xui8>
              %z = stablehlo.convert %y : (tensor<2xui8>) -> tensor<2xf32>
              return %z : tensor<2xf32>
            }
        """)
    )
    assert "(tensor<2xui8>) -> tensor<2xf32>" in str(module)


@pytest.mark.parametrize("start", ["%i", "%one"])
def test_update_of_a_constant(start: str):
    """What is put into it needs more bits than the numbers of the constant."""
    text = f"""
        func.func @main(%x: tensor<2xi32>, %i: tensor<1xi32>) -> tensor<4xi32> {{
          %zeros = "tfl.pseudo_const"() <{{value = dense<0> : tensor<4xi32>}}>
              : () -> tensor<4xi32>
          %one = "tfl.pseudo_const"() <{{value = dense<1> : tensor<1xi32>}}>
              : () -> tensor<1xi32>
          %y = "tfl.dynamic_update_slice"(%zeros, %x, {start})
              : (tensor<4xi32>, tensor<2xi32>, tensor<1xi32>) -> tensor<4xi32>
          return %y : tensor<4xi32>
        }}
    """
    x = np.array([1000, -70000], np.int32)
    for runner in (interpreted, compiled):
        result = runner(parse_module(text), "main")(x, np.array([1], np.int32))
        np.testing.assert_array_equal(np.reshape(result, -1), [0, 1000, -70000, 0])


# Control flow


def test_condition():
    text = """
        func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
          %y = "tfl.if"(%c) ({
            %a = "tfl.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
            "tfl.yield"(%a) : (tensor<4xf32>) -> ()
          }, {
            "tfl.yield"(%x) : (tensor<4xf32>) -> ()
          }) : (tensor<i1>) -> tensor<4xf32>
          %z = "tfl.neg"(%y) : (tensor<4xf32>) -> tensor<4xf32>
          return %z : tensor<4xf32>
        }
    """
    x = np.array([-1, 2, -3, 4], np.float32)
    for runner in (interpreted, compiled):
        call = runner(parse_module(text), "main")
        for condition, expected in ((True, [0, -2, 0, -4]), (False, [1, -2, 3, -4])):
            result = np.reshape(call(np.array(condition), x), -1)
            np.testing.assert_array_equal(result, expected)


def test_loop():
    text = """
        func.func @main(%n: tensor<i32>, %x: tensor<2xf32>) -> tensor<2xf32> {
          %zero = "tfl.pseudo_const"() <{value = dense<0> : tensor<i32>}>
              : () -> tensor<i32>
          %r:2 = "tfl.while"(%zero, %x) ({
          ^bb0(%i: tensor<i32>, %v: tensor<2xf32>):
            %more = tfl.less(%i, %n) : (tensor<i32>, tensor<i32>) -> tensor<i1>
            "tfl.yield"(%more) : (tensor<i1>) -> ()
          }, {
          ^bb0(%i: tensor<i32>, %v: tensor<2xf32>):
            %one = "tfl.pseudo_const"() <{value = dense<1> : tensor<i32>}>
                : () -> tensor<i32>
            %j = tfl.add %i, %one {fused_activation_function = "NONE"} : tensor<i32>
            %w = tfl.add %v, %v {fused_activation_function = "NONE"} : tensor<2xf32>
            "tfl.yield"(%j, %w) : (tensor<i32>, tensor<2xf32>) -> ()
          }) : (tensor<i32>, tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>)
          return %r#1 : tensor<2xf32>
        }
    """
    x = np.array([1, -3], np.float32)
    for runner in (interpreted, compiled):
        call = runner(parse_module(text), "main")
        result = np.reshape(call(np.array(5, np.int32), x), -1)
        np.testing.assert_array_equal(result, x * 32)
