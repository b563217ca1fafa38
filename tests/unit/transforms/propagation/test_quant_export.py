"""Kernels as quantized ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import PassFailedException

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.dialects.quant import QuantizedType
from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.propagation.quant_export import QuantExportPass

NETWORK = """
!x = !quant.uniform<i8:f32, 0.0078431372549019607:-1>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.0078740157480314959,0.0031496063461453898}>
!b = !quant.uniform<i32:f32:0, {6.1756986259070556E-5,2.4702794871728546E-5}>
!r = !quant.uniform<i8:f32, 0.015686274509803921:-128>
!t = !quant.uniform<i8:f32, 0.0625>
!s = !quant.uniform<i8:f32, 3.906250e-03:-128>
func.func @main(%x: tensor<3x4xf32>) -> tensor<2x3xf32> {
  %sizes = arith.constant dense<[2, 3]> : tensor<2xi32>
  %w = arith.constant dense<[[0.5, -0.25, 1.0, 0.75], [0.1, 0.2, 0.3, 0.4]]>
    : tensor<2x4xf32>
  %b = arith.constant dense<[0.1, -0.2]> : tensor<2xf32>
  %0 = quant.region "dense" (%a = %x : tensor<3x4xf32> as !x,
                             %c = %w : tensor<2x4xf32> as !w,
                             %d = %b : tensor<2xf32> as !b) -> (tensor<3x2xf32> as !r) {
    %e = "tfl.fully_connected"(%a, %c, %d) {
      fused_activation_function = "NONE", keep_num_dims = false, weights_format = "DEFAULT"
    } : (tensor<3x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<3x2xf32>
    %r = "tfl.relu"(%e) : (tensor<3x2xf32>) -> tensor<3x2xf32>
    quant.return %r : tensor<3x2xf32>
  }
  %1 = quant.region "reshape" (%a = %0 : tensor<3x2xf32> as !t, %c = %sizes : tensor<2xi32>)
      -> (tensor<2x3xf32> as !t) {
    %e = "tfl.reshape"(%a, %c) : (tensor<3x2xf32>, tensor<2xi32>) -> tensor<2x3xf32>
    quant.return %e : tensor<2x3xf32>
  }
  %2 = quant.region "softmax" (%a = %1 : tensor<2x3xf32> as !t) -> (tensor<2x3xf32> as !s) {
    %e = "tfl.softmax"(%a) {beta = 1.0 : f32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    quant.return %e : tensor<2x3xf32>
  }
  func.return %2 : tensor<2x3xf32>
}
"""

X = np.random.default_rng(0).uniform(-1, 1, (3, 4)).astype(np.float32)


def exported(text: str) -> ModuleOp:
    module = parse_module(text, "model.mlir")
    QuantExportPass().apply(Context(), module)
    module.verify()
    return module


def names(module: ModuleOp) -> Sequence[str]:
    return [op.name for op in module.walk() if op.name.partition(".")[0] != "func"][1:]


def test_ops():
    """Constants are quantized, and between two kernels with other parameters is a cast."""
    assert names(exported(NETWORK)) == [
        "tfl.quantize",
        "arith.constant",
        "tfl.pseudo_qconst",
        "tfl.pseudo_qconst",
        "tfl.fully_connected",
        "tfl.relu",
        "tfl.quantize",
        "tfl.reshape",
        "tfl.softmax",
        "tfl.dequantize",
    ]


def test_runs_as_in_litert():
    """What is exported is a file with the same results in TensorFlow Lite."""
    module = exported(NETWORK)
    (expected,) = LiteRT(write_tflite(module)).run(X)
    (result,) = run_function(module, "main", X)
    np.testing.assert_array_equal(result, expected)
    exact = np.maximum(
        X @ [[0.5, 0.1], [-0.25, 0.2], [1, 0.3], [0.75, 0.4]] + [0.1, -0.2], 0
    )
    powers = np.exp(exact.reshape(2, 3))
    np.testing.assert_allclose(result, powers / powers.sum(1, keepdims=True), atol=0.02)


STABLEHLO = """
!x = !quant.uniform<i8:f32, 0.0078431372549019607:-1>
!w = !quant.uniform<i8<-127:127>:f32:1, {0.0078740157480314959,0.0031496063461453898}>
!b = !quant.uniform<i32:f32:0, {6.1756986259070556E-5,2.4702794871728546E-5}>
!r = !quant.uniform<i8:f32, 0.015686274509803921:-128>
func.func @main(%x: tensor<3x4xf32>) -> tensor<3x2xf32> {
  %w = stablehlo.constant dense<[[0.5, 0.1], [-0.25, 0.2], [1.0, 0.3], [0.75, 0.4]]>
    : tensor<4x2xf32>
  %b = stablehlo.constant dense<[0.1, -0.2]> : tensor<2xf32>
  %0 = quant.region "dense" (%a = %x : tensor<3x4xf32> as !x,
                             %c = %w : tensor<4x2xf32> as !w,
                             %d = %b : tensor<2xf32> as !b) -> (tensor<3x2xf32> as !r) {
    %wide = stablehlo.broadcast_in_dim %d, dims = [1] : (tensor<2xf32>) -> tensor<3x2xf32>
    %dot = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0]
      : (tensor<3x4xf32>, tensor<4x2xf32>) -> tensor<3x2xf32>
    %sum = stablehlo.add %dot, %wide : tensor<3x2xf32>
    quant.return %sum : tensor<3x2xf32>
  }
  func.return %0 : tensor<3x2xf32>
}
"""


def test_accumulators():
    """In a kernel of StableHLO, sums of products have 32 bits and the scale of the bias."""
    module = exported(STABLEHLO)
    bias, dot, total, result = (
        QuantizedType.get_quantized_element_type(op.results[0].type)
        for op in module.walk()
        if op.name.partition(".")[2]
        in ("broadcast_in_dim", "dot_general", "add", "uniform_quantize")
        if op.results[0].name_hint != "x"
        if QuantizedType.get_quantized_element_type(op.operands[0].type)
    )
    accumulator = (
        "!quant.uniform<i32:f32:1, {6.1756986259070556E-5,2.4702794871728546E-5}>"
    )
    assert [str(bias), str(dot), str(total)] == [accumulator] * 3
    assert str(result) == "!quant.uniform<i8:f32, 0.015686274509803921:-128>"


def test_values_of_stablehlo():
    module = exported(STABLEHLO)
    apply_passes(module, "convert-quantized-stablehlo-to-linalg")
    (result,) = run_function(module, "main", X)
    exact = X @ [[0.5, 0.1], [-0.25, 0.2], [1, 0.3], [0.75, 0.4]] + [0.1, -0.2]
    np.testing.assert_allclose(result, np.clip(exact, 0, 4), atol=0.02)


IN_FLOAT = """
!q = !quant.uniform<i8:f32, 0.5>
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = quant.region "relu" (%a = %x : tensor<3xf32> as !q) -> (tensor<3xf32> as !q) {
    %e = "tfl.relu"(%a) : (tensor<3xf32>) -> tensor<3xf32>
    quant.return %e : tensor<3xf32>
  }
  %1 = quant.region "sin" (%a = %0 : tensor<3xf32>) -> (tensor<3xf32>) {
    %e = "tfl.sin"(%a) : (tensor<3xf32>) -> tensor<3xf32>
    quant.return %e : tensor<3xf32>
  }
  %2 = quant.region "negf" (%a = %x : tensor<3xf32> as !q) -> (tensor<3xf32> as !q) {
    %e = arith.negf %a : tensor<3xf32>
    quant.return %e : tensor<3xf32>
  }
  func.return %1, %2 : tensor<3xf32>, tensor<3xf32>
}
"""

REASONS = (
    "kernel 'sin': a port has no parameters, found specification 'f32'",
    "kernel 'negf': the dialect of its ops has no quantized ops for these types",
)


def test_what_stays_in_float():
    """It computes with what is dequantized, and the module says why."""
    module = exported(IN_FLOAT)
    reasons: Any = module.attributes["quant.float_kernels"]
    for reason, expected in zip(reasons, REASONS, strict=True):
        assert reason.data.endswith(expected)
    x = np.array([0.3, 1.2, -1], np.float32)
    sine, negative = run_function(module, "main", x)
    np.testing.assert_array_equal(sine, np.sin(np.array([0.5, 1, 0], np.float32)))
    np.testing.assert_array_equal(negative, [-0.5, -1, 1])
    assert names(module) == [
        "tfl.quantize",
        "tfl.relu",
        "tfl.dequantize",
        "tfl.sin",
        "quant.dcast",
        "arith.negf",
        "quant.qcast",
        "quant.dcast",
    ]


QUARTER = "!quant.uniform<i8:f32, 2.500000e-01>"


@pytest.mark.parametrize(
    ("specs", "is_warned"),
    [
        (("", "", ""), True),
        ((" as !quant.calibrated<f32<-1.0:1.0>>", "", ""), True),
        # The first cast of a model says its parameters, but propagation was forgotten.
        ((f" as {QUARTER}", " as !quant.calibrated<f32<-1.0:1.0>>", ""), True),
        # Propagation found no more, and no kernel is quantized.
        ((f" as {QUARTER}", "", ""), "nothing"),
        ((f" as {QUARTER}", f" as {QUARTER}", ""), False),
        # Somebody wants it.
        ((" as !quant.none<f32>", " as !quant.none<f32>", ""), False),
    ],
)
@pytest.mark.parametrize("mode", ["fixed", "codegen"])
def test_without_parameters(
    specs: Sequence[str],
    is_warned: bool | Literal["nothing"],
    mode: Literal["fixed", "codegen"],
    capsys: pytest.CaptureFixture[str],
):
    a, b, c = specs
    text = f"""
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %c = stablehlo.constant dense<0.0> : tensor<4xf32>
  %0 = quant.region "k" (%p = %x : tensor<4xf32>{a}, %q = %c : tensor<4xf32>)
      -> (tensor<4xf32>{b}) {{
    %r = stablehlo.maximum %p, %q : tensor<4xf32>
    quant.return %r : tensor<4xf32>
  }}
  %1 = quant.region "k" (%p = %0 : tensor<4xf32>{b}) -> (tensor<4xf32>{c}) {{
    %r = stablehlo.tanh %p : tensor<4xf32>
    quant.return %r : tensor<4xf32>
  }}
  func.return %1 : tensor<4xf32>
}}
"""
    module = parse_module(text, "model.mlir")
    QuantExportPass(mode).apply(Context(), module)
    warnings = {
        True: "model.mlir:4:3: warning: no kernel is quantized: found 2 with ports without "
        "parameters; run 'quant-propagate' first\n",
        False: "",
        "nothing": "model.mlir:4:3: warning: 'quant-export' changed nothing, expected a "
        "'quant.region' with a quantized form, which 'quant-fuse-kernels' creates, found 2 "
        "'quant.region'; 'quant.float_kernels' says why they stay in floating point\n",
    }
    assert capsys.readouterr().err == warnings[is_warned]


@pytest.mark.parametrize(
    ("type_", "reason"),
    [
        (
            "!quant.uniform<f8E4M3FN:f32, 5.000000e-01>",
            "unsupported storage type 'f8E4M3FN', expected an integer type",
        ),
        (
            "!quant.block_scaled<i8:f32:{}, scales = dense<5.000000e-01> : tensor<f32>>",
            "unsupported type '!quant.block_scaled', expected '!quant.uniform'",
        ),
    ],
)
@pytest.mark.parametrize("mode", ["fixed", "codegen"])
def test_parameters_without_integer_arithmetic(
    type_: str,
    reason: str,
    mode: Literal["fixed", "codegen"],
    capsys: pytest.CaptureFixture[str],
):
    """The casts that the specifications stand for stay, and the pass says so."""
    text = f"""
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = quant.region "add" (%p = %x : tensor<4xf32> as {type_})
      -> (tensor<4xf32> as {type_}) {{
    %r = stablehlo.add %p, %p : tensor<4xf32>
    quant.return %r : tensor<4xf32>
  }}
  func.return %0 : tensor<4xf32>
}}
"""
    module = parse_module(text, "model.mlir")
    QuantExportPass(mode).apply(Context(), module)
    assert capsys.readouterr().err == (
        "model.mlir:3:3: warning: 1 of 1 kernels stay in floating point between casts: "
        f"{reason}; 'quant.float_kernels' lists them\n"
    )
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    casts = [op.name for op in function.body.block.ops]
    pair = ["quant.qcast", "quant.dcast"]
    assert casts == [*pair, "stablehlo.add", *pair, "func.return"]
    assert f"quant.qcast %x : tensor<4xf32> to tensor<4x{type_}>" in str(module)


def test_block_scaled_constant():
    """A constant of a quantized kernel does not lose its block scales."""
    text = """
!u = !quant.uniform<i8:f32, 0.5>
!b = !quant.block_scaled<i8:f32:{}, scales = dense<0.5> : tensor<f32>>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<0.3> : tensor<4xf32>
  %0 = quant.region "add" (%p = %x : tensor<4xf32> as !u, %q = %c : tensor<4xf32> as !b)
      -> (tensor<4xf32> as !u) {
    %r = stablehlo.add %p, %q : tensor<4xf32>
    quant.return %r : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
"""
    module = parse_module(text, "model.mlir")
    QuantExportPass().apply(Context(), module)
    assert "stablehlo.add %1, %c : tensor<4xf32>" in str(module)


def test_fully_quantized():
    """It fails with the list of what stays in float, and changes nothing."""
    module = parse_module(IN_FLOAT, "model.mlir")
    before = str(module)
    with pytest.raises(PassFailedException) as failure:
        QuantExportPass(fully_quantized=True).apply(Context(), module)
    message = str(failure.value)
    assert message.startswith(
        "model.mlir:8:3: error: 2 kernels or ops stay in floating point, expected none: "
    )
    for reason in REASONS:
        assert reason in message
    assert str(module) == before


def test_fully_quantized_without_kernels():
    """What was never fused is in floating point, too; what only passes values on is not."""
    text = """
func.func @f(%x: tensor<4xf32>, %n: tensor<4xi8>, %p: i1) -> (tensor<4xf32>, index) {
  %c = arith.constant dense<2.0> : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %y = scf.if %p -> (tensor<4xf32>) {
    %a = arith.addf %x, %c : tensor<4xf32>
    scf.yield %a : tensor<4xf32>
  } else {
    %s = "quant.stats"(%x) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>}
      : (tensor<4xf32>) -> tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  %z = linalg.add ins(%y, %c : tensor<4xf32>, tensor<4xf32>)
    outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %i = arith.constant 0 : index
  %d = tensor.dim %z, %i : tensor<4xf32>
  %q = quant.qcast %z : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %r = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %l = arith.cmpf olt, %r, %c : tensor<4xf32>
  %v = "tfl.var_handle"() <{container = "", shared_name = "v"}>
    : () -> tensor<*x!tf_type.resource>
  "tfl.assign_variable"(%v, %r) : (tensor<*x!tf_type.resource>, tensor<4xf32>) -> ()
  func.return %r, %d : tensor<4xf32>, index
}
"""
    module = parse_module(text, "model.mlir")
    with pytest.raises(PassFailedException) as failure:
        QuantExportPass(fully_quantized=True).apply(Context(), module)
    assert str(failure.value) == (
        "model.mlir:6:5: error: 4 kernels or ops stay in floating point, expected none: "
        "model.mlir:6:5: 'arith.addf' is in no kernel; "
        "model.mlir:13:3: 'linalg.add' is in no kernel; "
        "model.mlir:19:3: 'arith.cmpf' is in no kernel; "
        "model.mlir:22:3: 'tfl.assign_variable' is in no kernel"
    )


def test_fully_quantized_network():
    module = parse_module(NETWORK, "model.mlir")
    QuantExportPass(fully_quantized=True).apply(Context(), module)
    assert names(module) == names(exported(NETWORK))
    assert "quant.float_kernels" not in module.attributes


def test_one_cast_for_all():
    """Kernels that take a value with the same parameters share a cast of it."""
    text = """
    !q = !quant.uniform<i8:f32, 0.5>
    func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = quant.region "add" (%a = %x : tensor<3xf32> as !q, %b = %x : tensor<3xf32> as !q)
          -> (tensor<3xf32> as !q) {
        %e = "tfl.add"(%a, %b) {fused_activation_function = "NONE"}
          : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
        quant.return %e : tensor<3xf32>
      }
      func.return %0 : tensor<3xf32>
    }
    """
    assert names(exported(text)) == ["tfl.quantize", "tfl.add", "tfl.dequantize"]


def test_types_that_an_op_refuses():
    """A kernel whose op has no quantized form with its types computes with floats."""
    text = """
    !q = !quant.uniform<i8:f32, 0.5>
    !r = !quant.uniform<i8:f32, 0.25>
    func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = quant.region "reverse" (%a = %x : tensor<3xf32> as !q) -> (tensor<3xf32> as !r) {
        %e = stablehlo.negate %a : tensor<3xf32>
        quant.return %e : tensor<3xf32>
      }
      func.return %0 : tensor<3xf32>
    }
    """
    assert names(exported(text))


RECTIFIED = """
!f = tensor<2x4xf32>
!y = !quant.uniform<i8:f32, 1.0:3>
func.func @main(%x: !f, %v: !f) -> !f {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %z = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> !f
  %m = quant.region "k" (%x1 = %x : !f as !quant.uniform<i8:f32, 0.5>, %z1 = ZERO : !f)
      -> (!f as !y) {
    %y = stablehlo.negate %x1 : !f
    %r = stablehlo.maximum %y, %z1 : !f
    quant.return %r : !f
  }
  return %m : !f
}
"""


def test_constants_need_no_type():
    module = exported(RECTIFIED.replace("ZERO", "%z"))
    assert "quant.float_kernels" not in module.attributes
    (maximum,) = (op for op in module.walk() if op.name == "stablehlo.maximum")
    assert (
        len({str(value.type) for value in (*maximum.operands, *maximum.results)}) == 1
    )
    other = exported(RECTIFIED.replace("ZERO", "%v"))
    assert "a port has no parameters, found specification 'f32'" in str(
        other.attributes
    )


WITH_CONSTANT = """
!x = !quant.uniform<i8:f32, 0.03125>
!y = !quant.uniform<i8:f32, 0.25>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<CONSTANT> : tensor<f32>
  %0 = quant.region "k" (%a = %x : tensor<4xf32> as !x, %b = %c : tensor<f32>)
      -> (tensor<4xf32> as !y) {
    %w = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %r = stablehlo.OP %a, %w : tensor<4xf32>
    quant.return %r : tensor<4xf32>
  }
  func.return %0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("op", "constant", "expected", "is_float"),
    [
        ("add", "2.0", [0, 1.5, 2.75, 4], False),
        ("add", "10.0", [8, 9.5, 10.75, 12], True),
        ("multiply", "10.0", [-20, -5, 7.5, 20], True),
        ("maximum", "10.0", [10, 10, 10, 10], False),
        ("minimum", "-3.0", [-3, -3, -3, -3], False),
        ("minimum", "-5.0", [-5, -5, -5, -5], False),
        ("minimum", "0x7F800000", [-2, -0.5, 0.75, 2], False),
        ("minimum", "0x7FC00000", None, True),
    ],
)
def test_constants_are_not_cut_off(
    op: str, constant: str, expected: Sequence[float] | None, is_float: bool
):
    """A constant that exceeds what it is added to has no place in its type."""
    text = WITH_CONSTANT.replace("CONSTANT", constant).replace("OP", op)
    module = exported(text)
    assert ("quant.float_kernels" in module.attributes) == is_float
    apply_passes(module, "convert-quantized-stablehlo-to-linalg")
    if is_float:
        apply_passes(module, "convert-stablehlo-to-linalg")
    if expected is not None:
        x = np.array([-2, -0.5, 0.75, 2], np.float32)
        np.testing.assert_array_equal(run_function(module, "main", x)[0], expected)


TWO_KERNELS = """
!x = !quant.uniform<i8:f32, 0.03125>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<[0.0, 10.0, 1.0, -9.0]> : tensor<4xf32>
  %0 = quant.region "k" (%a = %x : tensor<4xf32> as !x, %b = %c : tensor<4xf32>)
      -> (tensor<4xf32> as !x) {
    %r = stablehlo.OP %a, %b : tensor<4xf32>
    quant.return %r : tensor<4xf32>
  }
  %1 = quant.region "k" (%a = %0 : tensor<4xf32> as !x)
      -> (tensor<4xf32> as !y) {
    %r = stablehlo.SECOND : tensor<4xf32>
    quant.return %r : tensor<4xf32>
  }
  func.return %1 : tensor<4xf32>
}
"""


@pytest.mark.parametrize(
    ("op", "second", "type_", "expected"),
    [
        ("maximum", "negate %a", "0.125", [0, -10, -1, -2]),
        ("minimum", "negate %a", "0.125", [2, 0.5, -0.75, 9]),
        # What only moves or orders has the same numbers.
        ("maximum", "maximum %a, %a", "0.03125", [0, 10, 1, 2]),
    ],
)
@pytest.mark.parametrize("mode", ["fixed", "codegen"])
def test_numbers_of_constants_are_not_cut_off(
    op: str,
    second: str,
    type_: str,
    expected: Sequence[float],
    mode: Literal["fixed", "codegen"],
):
    """A single one that exceeds the type of the result, neither there nor later."""
    text = TWO_KERNELS.replace("OP", op).replace("SECOND", second)
    text = text.replace("!y", f"!quant.uniform<i8:f32, {type_}>")
    module = parse_module(text, "model.mlir")
    QuantExportPass(mode).apply(Context(), module)
    limits = "the range of '!quant.uniform<i8:f32, 3.125000e-02>'"
    assert [
        reason.data for reason in cast("Any", module.attributes["quant.float_kernels"])
    ] == [
        f"model.mlir:5:3: kernel 'k': a constant of 'stablehlo.{op}' exceeds {limits}",
        f"model.mlir:10:3: kernel 'k': operand 0 exceeds {limits}",
    ]
    apply_passes(
        module, "convert-quantized-stablehlo-to-linalg,convert-stablehlo-to-linalg"
    )
    x = np.array([-2, -0.5, 0.75, 2], np.float32)
    np.testing.assert_array_equal(run_function(module, "main", x)[0], expected)


def test_constants_that_are_no_numbers():
    module = exported(NETWORK.replace("0.1, -0.2]>", "0x7FC00000, -0.2]>"))
    (reason,) = cast("Any", module.attributes["quant.float_kernels"])
    assert reason.data == "model.mlir:13:3: kernel 'dense': a constant has NaN elements"


def test_reductions_that_order():
    """The body of the reduction has the type of the elements, and begins in its range."""
    module = exported("""
    !q = !quant.uniform<i8:f32, 0.5>
    func.func @main(%x: tensor<2x3xf32>) -> tensor<2xf32> {
      %c = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %0 = quant.region "k" (%a = %x : tensor<2x3xf32> as !q, %b = %c : tensor<f32>)
          -> (tensor<2xf32> as !q) {
        %r = "stablehlo.reduce"(%a, %b) <{dimensions = array<i64: 1>}> ({
        ^bb0(%l: tensor<f32>, %m: tensor<f32>):
          %n = stablehlo.maximum %l, %m : tensor<f32>
          "stablehlo.return"(%n) : (tensor<f32>) -> ()
        }) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
        quant.return %r : tensor<2xf32>
      }
      func.return %0 : tensor<2xf32>
    }
    """)
    module.verify()
    assert "quant.float_kernels" not in module.attributes
    (maximum,) = (op for op in module.walk() if op.name == "stablehlo.maximum")
    assert {str(value.type) for value in (*maximum.operands, *maximum.results)} == {
        "tensor<!quant.uniform<i8:f32, 5.000000e-01>>"
    }
    apply_passes(module, "convert-quantized-stablehlo-to-linalg")
    x = np.array([[-3, -2, -1.5], [1, 4, 2]], np.float32)
    np.testing.assert_array_equal(run_function(module, "main", x)[0], [-1.5, 4])


def test_what_other_ops_compute_with_is_not_cut_off():
    """
    A value within a kernel is stored like its result only if what is done with it makes
    nothing of what exceeds the result.
    """
    text = """
    !x = !quant.uniform<i8:f32, 0.03125>
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %0, %1 = quant.region "k" (%a = %x : tensor<4xf32> as !x)
          -> (tensor<4xf32> as !x, tensor<4xf32> SPEC) {
        %e = stablehlo.add %a, %a : tensor<4xf32>
        %r = stablehlo.subtract %e, %a : tensor<4xf32>
        quant.return %r, RESULT : tensor<4xf32>, tensor<4xf32>
      }
      func.return %0, %1 : tensor<4xf32>, tensor<4xf32>
    }
    """
    module = exported(text.replace("SPEC", "as !x").replace("RESULT", "%r"))
    (reason,) = cast("Any", module.attributes["quant.float_kernels"])
    assert reason.data == (
        "model.mlir:4:7: kernel 'k': the result of 'stablehlo.add' has no specification, "
        "and 'stablehlo.subtract' computes with it"
    )
    wide = "as !quant.uniform<i8:f32, 0.0625>"
    module = exported(text.replace("SPEC", wide).replace("RESULT", "%e"))
    assert "quant.float_kernels" not in module.attributes
    apply_passes(module, "convert-quantized-stablehlo-to-linalg")
    x = np.array([-2, -0.5, 0.75, 3], np.float32)
    difference, doubled = run_function(module, "main", x)
    np.testing.assert_array_equal(difference, x)
    np.testing.assert_array_equal(doubled, 2 * x)


def test_statistics_within_a_kernel_are_gone():
    module = exported("""
    !q = !quant.uniform<i8:f32, 0.5>
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = quant.region "k" (%a = %x : tensor<4xf32> as !q) -> (tensor<4xf32> as !q) {
        %n = stablehlo.negate %a : tensor<4xf32>
        %s = quant.stats %n <-1.0:1.0> : tensor<4xf32>
        %t = quant.stats_ref %s "key" : tensor<4xf32>
        %r = stablehlo.maximum %t, %t : tensor<4xf32>
        quant.return %r : tensor<4xf32>
      }
      func.return %0 : tensor<4xf32>
    }
    """)
    assert names(module) == [
        "stablehlo.uniform_quantize",
        "stablehlo.negate",
        "stablehlo.maximum",
        "stablehlo.uniform_dequantize",
    ]


def test_constants_of_what_stays_in_float():
    """They are not quantized: there is no cast of a bias of 32 bits to floats."""
    text = """
    !q = !quant.uniform<i8:f32, 0.5>
    !b = !quant.uniform<i32:f32, 0.25>
    func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
      %w = arith.constant dense<[[0.3, 0.7], [-0.2, 0.1]]> : tensor<2x2xf32>
      %b = arith.constant dense<[0.1, -0.1]> : tensor<2xf32>
      %0 = quant.region "dense" (%a = %x : tensor<1x2xf32> as !q,
          %c = %w : tensor<2x2xf32> as !q, %d = %b : tensor<2xf32> as !b)
          -> (tensor<1x2xf32>) {
        %e = "tfl.fully_connected"(%a, %c, %d) {
          fused_activation_function = "NONE", keep_num_dims = false,
          weights_format = "DEFAULT"
        } : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
        quant.return %e : tensor<1x2xf32>
      }
      func.return %0 : tensor<1x2xf32>
    }
    """
    module = exported(text)
    assert names(module) == [
        "tfl.quantize",
        "arith.constant",
        "arith.constant",
        "tfl.dequantize",
        "tfl.fully_connected",
    ]
    (result,) = run_function(module, "main", np.array([[0.5, 1]], np.float32))
    np.testing.assert_allclose(result, [[0.95, -0.1]], atol=1e-6)


STORED = """
!q = !quant.uniform<i8:f32, 0.5:3>
!r = !quant.uniform<i8:f32, 0.25>
func.func @main(%x: tensor<3x!q>) -> (tensor<3x!r>, tensor<3x!q>, tensor<3xf32>) {
  %f = quant.dcast %x : tensor<3x!q> to tensor<3xf32>
  %0 = quant.region "k" (%a = %f : tensor<3xf32> as !q) -> (tensor<3xf32> as !r) {
    %e = ABS : tensor<3xf32>
    quant.return %e : tensor<3xf32>
  }
  %1 = quant.qcast %0 : tensor<3xf32> to tensor<3x!r>
  %2 = quant.qcast %0 : tensor<3xf32> to tensor<3x!q>
  func.return %1, %2, %RESULT : tensor<3x!r>, tensor<3x!q>, tensor<3xf32>
}
"""
ABS = {
    "stablehlo": ("stablehlo.abs %a", "stablehlo.uniform_dequantize"),
    "tfl": ('"tfl.abs"(%a) : (tensor<3xf32>) -> tensor<3xf32> //', "tfl.dequantize"),
}


@pytest.mark.parametrize("dialect", ABS)
def test_what_is_stored_is_not_cast(dialect: str):
    """Only a cast to another type stays, and one to floats that others use."""
    op, dequantize = ABS[dialect]
    module = exported(STORED.replace("ABS", op).replace("RESULT", "f"))
    kept = [f"{dialect}.abs", dequantize, "quant.qcast"]
    assert names(module) == ["quant.dcast", *kept]
    module = exported(STORED.replace("ABS", op).replace("RESULT", "0"))
    assert names(module) == kept


PER_AXIS = """
!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.5, 0.25}>
!b = !quant.uniform<i32:f32:1, {0.25, 0.125}>
!y = !quant.uniform<i8:f32, 2.0>
func.func @main(%x: tensor<2x2x!x>) -> tensor<2x2x!y> {
  %f = quant.dcast %x : tensor<2x2x!x> to tensor<2x2xf32>
  %w = stablehlo.constant() <{value = dense<[[4, -6], [100, 20]]> : tensor<2x2xi8>}>
    : () -> tensor<2x2x!w>
  %b = stablehlo.constant() <{value = dense<[[5, 6], [7, -8]]> : tensor<2x2xi32>}>
    : () -> tensor<2x2x!b>
  %v = quant.dcast %w : tensor<2x2x!w> to tensor<2x2xf32>
  %c = quant.dcast %b : tensor<2x2x!b> to tensor<2x2xf32>
  %low = stablehlo.constant dense<0.0> : tensor<f32>
  %high = stablehlo.constant dense<6.0> : tensor<f32>
  %0 = quant.region "k" (%x1 = %f : tensor<2x2xf32> as !x, %w1 = %v : tensor<2x2xf32> as !w,
      %b1 = %c : tensor<2x2xf32> as !b, %l = %low : tensor<f32>, %h = %high : tensor<f32>)
      -> (tensor<2x2xf32> as !y) {
    %d = stablehlo.dot_general %x1, %w1, contracting_dims = [1] x [1]
      : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %s = stablehlo.add %d, %b1 : tensor<2x2xf32>
    %r = stablehlo.clamp %l, %s, %h
      : (tensor<f32>, tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
    quant.return %r : tensor<2x2xf32>
  }
  %y = quant.qcast %0 : tensor<2x2xf32> to tensor<2x2x!y>
  func.return %y : tensor<2x2x!y>
}
"""


def test_activation_after_per_axis_sums():
    """
    It takes values of the result, as its op knows no axis; and the scales of a square
    product belong to its last dimension.
    """
    module = exported(PER_AXIS)
    assert "quant.float_kernels" not in module.attributes
    (dot,) = (op for op in module.walk() if op.name == "stablehlo.dot_general")
    assert ":f32:1, {2.500000e-01,1.250000e-01}" in str(dot.results[0].type)
    assert names(module) == [
        "stablehlo.constant",
        "stablehlo.constant",
        "stablehlo.dot_general",
        "stablehlo.add",
        "stablehlo.constant",
        "stablehlo.uniform_quantize",
        "stablehlo.constant",
        "stablehlo.clamp",
    ]
    apply_passes(module, "convert-quantized-stablehlo-to-linalg")
    (result,) = run_function(module, "main", np.array([[5, 4], [3, 1]], np.int8))
    # [[2 * 4 - 6 + 5, 2 * 100 + 20 + 6], [2 * 6 + 7, -2 * 20 - 8]] by the scales.
    np.testing.assert_array_equal(result, [[1, 3], [2, 0]])


def test_results_that_are_no_floats():
    module = exported("""
    !q = !quant.uniform<i8:f32, 0.5>
    func.func @main(%x: tensor<3xf32>) -> tensor<3xi1> {
      %0 = quant.region "k" (%a = %x : tensor<3xf32> as !q, %b = %x : tensor<3xf32> as !q)
          -> (tensor<3xi1>) {
        %e = stablehlo.compare EQ, %a, %b : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
        quant.return %e : tensor<3xi1>
      }
      func.return %0 : tensor<3xi1>
    }
    """)
    assert names(module) == ["stablehlo.uniform_quantize", "stablehlo.compare"]
    assert "quant.float_kernels" not in module.attributes


@pytest.mark.parametrize(
    ("first", "scales"),
    [
        # A file has scales of 32 bits.
        ("0.25000001", "{0.25000000999999999,1.250000e-01}"),
        ("0.251", "{2.500000e-01,1.250000e-01}"),
    ],
)
def test_accumulators_with_the_scale_of_the_bias(first: str, scales: str):
    module = exported(PER_AXIS.replace("1, {0.25", f"1, {{{first}"))
    (dot,) = (op for op in module.walk() if op.name == "stablehlo.dot_general")
    assert scales in str(dot.results[0].type)


CAPTURING = """
!q = !quant.uniform<i8:f32, 0.5>
#id = affine_map<(i) -> (i)>
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = arith.constant 0.25 : f32
  %0 = quant.region "k" (%a = %x : tensor<3xf32> as !q, %d = %c : f32)
      -> (tensor<3xf32> as !q) {
    %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
        ins(%a : tensor<3xf32>) outs(%a : tensor<3xf32>) {
    ^bb0(%i: f32, %o: f32):
      %2 = arith.maximumf %i, %d : f32
      linalg.yield %2 : f32
    } -> tensor<3xf32>
    quant.return %1 : tensor<3xf32>
  }
  func.return %0 : tensor<3xf32>
}
"""


def test_regions_that_use_values_from_outside():
    module = exported(CAPTURING)
    (generic,) = (op for op in module.walk() if op.name == "linalg.generic")
    constant = next(op for op in module.walk() if op.name == "arith.constant")
    (maximum, _) = generic.regions[0].block.ops
    assert maximum.operands[1] is constant.results[0]
    x = np.array([-1.2, 0.3, 1.3], np.float32)
    apply_passes(module, "lower-quant-ops{rounding-mode=nearest-even}")
    (actual,) = cast(Any, run_function(module, None, x))
    assert actual.tolist() == [0.0, 0.5, 1.5]


def test_ops_of_integers_that_use_values_from_outside():
    text = CAPTURING.replace("f32", "i32").replace(" as !q", "").replace("0.25", "2")
    text = text.replace("maximumf", "maxsi").replace(
        "!q = !quant.uniform<i8:i32, 0.5>", ""
    )
    for mode in ("fixed", "codegen"):
        module = parse_module(text)
        apply_passes(module, f"quant-export{{mode={mode}}}")
        assert "linalg.generic" in names(module)
