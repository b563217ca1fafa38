"""Kernels as integer arithmetic."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.dialects.quant import ScaledQuantizedType
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import (
    QuantizationParameters,
    dequantize,
    quantize,
    requantize_fixed_point,
)
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    multiverse_context,
    parse_module,
)
from xdsl_quant.transforms.propagation.quant_export import QuantExportPass

from .codegen_programs import Program, random_program


def exported(text: str, options: str = "") -> ModuleOp:
    module = parse_module(text, "model.mlir")
    apply_passes(module, f"quant-export{{mode=codegen {options}}}")
    module.verify()
    return module


def parse_type(text: str) -> ScaledQuantizedType:
    type_ = Parser(multiverse_context(), text).parse_type()
    assert isinstance(type_, ScaledQuantizedType)
    return type_


def rescales(module: ModuleOp) -> Mapping[str, Any]:
    """The statistics of a module."""
    attribute: Any = module.attributes["quant.rescales"]
    return {
        name: value.value.data if isinstance(value, IntegerAttr) else value
        for name, value in attribute.data.items()
    }


def differences(module: ModuleOp) -> Sequence[int]:
    units: DenseArrayBase[Any] = rescales(module)["differences"].data["main"]
    return units.get_values()


def arguments(program: Program, seed: int) -> Sequence[Any]:
    rng = np.random.default_rng(seed)
    return [
        rng.uniform(-2.5, 2.5, v.shape).astype(np.float32)
        for v in program.values[: program.inputs]
    ]


def inputs_of(program: Program, floats: Sequence[Any]) -> Sequence[Any]:
    """The integers that arguments are quantized to."""
    values = program.values[: program.inputs]
    return [
        np.clip(v.storage.stored(x), v.storage.low, v.storage.high)
        for v, x in zip(values, floats, strict=True)
    ]


SEEDS = *range(20), 352
"""In the last one an unsigned operand keeps its scale in a sum."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_port_is_the_nearest(seed: int):
    """Without pushing, each kernel is what exact fractions give, rounded once."""
    program = random_program(seed)
    floats = arguments(program, seed)
    module = exported(program.text(returns_all=True), "push-rescales=false")
    assert "quant.float_kernels" not in module.attributes
    results = run_function(module, "main", *floats)
    made = program.values[program.inputs :]
    stored = [
        *inputs_of(program, floats),
        *(v.storage.stored(x) for v, x in zip(made, results, strict=True)),
    ]
    for kernel in program.kernels:
        operands = [program.values[i].storage.real(stored[i]) for i in kernel.operands]
        real = kernel.compute(operands)
        storage = program.values[kernel.result].storage
        distance = abs(storage.units(real) - stored[kernel.result])
        assert distance.max() <= Fraction(1, 2) + Fraction(1, 4)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", SEEDS)
def test_pushed_rescales(seed: int):
    """With pushing there are no more rescales, and results are within the bound."""
    program = random_program(seed)
    floats = arguments(program, seed)
    text = program.text(returns_all=False)
    pushed, unpushed = exported(text), exported(text, "push-rescales=false")
    assert "quant.float_kernels" not in pushed.attributes
    numbers = rescales(pushed)
    assert numbers["inserted"] <= numbers["at_ports"]
    assert numbers["at_ports"] == rescales(unpushed)["inserted"]
    bounds = differences(pushed)
    results, all_expected = (
        run_function(m, "main", *floats) for m in (pushed, unpushed)
    )
    for i, bound, result, expected in zip(
        program.last, bounds, results, all_expected, strict=True
    ):
        storage = program.values[i].storage
        difference = abs(storage.stored(result) - storage.stored(expected)).max()
        assert difference <= bound


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [1, 4])
def test_compiled(seed: int):
    """Compiled code has the bits of the interpreter."""
    program = random_program(seed)
    floats = arguments(program, seed)
    for options in ("", "push-rescales=false"):
        module = exported(program.text(returns_all=False), options)
        results = run_function(module, "main", *floats)
        compiled: Any = compile(module)(*floats)
        others = compiled if len(results) > 1 else [compiled]
        for result, other in zip(results, others, strict=True):
            np.testing.assert_array_equal(result, other)


NETWORK = """
!x = !quant.uniform<i8:f32, 5.0e-02:-3>
!w = !quant.uniform<i8<-127:127>:f32, 1.0e-02>
!b = !quant.uniform<i32:f32, 5.0e-04>
!h = !quant.uniform<i8:f32, 4.0e-02:-128>
!v = !quant.uniform<i8<-127:127>:f32:1, {1.0e-02,2.0e-02,1.5e-02}>
!d = !quant.uniform<i8:f32, 7.0e-02:5>
!y = !quant.uniform<i8:f32, 1.0e-01:2>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d1)>
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %w1 = arith.constant dense<[[0.5, -0.25, 1.0, 0.3], [0.1, 0.2, 0.3, -1.0],
                              [0.9, 0.4, -0.7, 0.6]]> : tensor<3x4xf32>
  %b1 = arith.constant dense<[0.1, -0.2, 0.3, 0.05]> : tensor<4xf32>
  %w2 = arith.constant dense<[[0.5, -0.25, 1.0], [0.1, 0.2, 0.3], [0.9, 0.4, -0.7],
                              [-0.2, 0.8, 0.1]]> : tensor<4x3xf32>
  %0 = quant.region "dense" (%a = %x : tensor<2x3xf32> as !x,
                             %w = %w1 : tensor<3x4xf32> as !w,
                             %b = %b1 : tensor<4xf32> as !b) -> (tensor<2x4xf32> as !h) {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x4xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
    %m = linalg.matmul ins(%a, %w : tensor<2x3xf32>, tensor<3x4xf32>)
                       outs(%f : tensor<2x4xf32>) -> tensor<2x4xf32>
    %s = linalg.generic {indexing_maps = [#id, #row, #id],
                         iterator_types = ["parallel", "parallel"]}
         ins(%m, %b : tensor<2x4xf32>, tensor<4xf32>) outs(%e : tensor<2x4xf32>) {
    ^bb0(%p: f32, %q: f32, %o: f32):
      %t = arith.addf %p, %q : f32
      %z = arith.constant 0.0 : f32
      %u = arith.maximumf %t, %z : f32
      linalg.yield %u : f32
    } -> tensor<2x4xf32>
    quant.return %s : tensor<2x4xf32>
  }
  %1 = quant.region "dense" (%a = %0 : tensor<2x4xf32> as !h,
                             %w = %w2 : tensor<4x3xf32> as !v) -> (tensor<2x3xf32> as !d) {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<2x3xf32>
    %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
    %m = linalg.matmul ins(%a, %w : tensor<2x4xf32>, tensor<4x3xf32>)
                       outs(%f : tensor<2x3xf32>) -> tensor<2x3xf32>
    quant.return %m : tensor<2x3xf32>
  }
  %2 = quant.region "add" (%a = %1 : tensor<2x3xf32> as !d,
                           %b = %x : tensor<2x3xf32> as !x) -> (tensor<2x3xf32> as !y) {
    %s = arith.addf %a, %b : tensor<2x3xf32>
    quant.return %s : tensor<2x3xf32>
  }
  func.return %2 : tensor<2x3xf32>
}
"""
X = np.random.default_rng(0).uniform(-4, 4, (2, 3)).astype(np.float32)

W1 = [[0.5, -0.25, 1.0, 0.3], [0.1, 0.2, 0.3, -1.0], [0.9, 0.4, -0.7, 0.6]]
W2 = [[0.5, -0.25, 1.0], [0.1, 0.2, 0.3], [0.9, 0.4, -0.7], [-0.2, 0.8, 0.1]]


def test_network():
    """Two dense layers and a residual sum are integers but at the ends of the function."""
    module = exported(NETWORK)
    names = [op.name for op in module.walk()]
    assert {name for name in names if name.startswith("quant.")} == {
        "quant.qcast",
        "quant.scast",
        "quant.dcast",
    }
    assert (names.count("quant.qcast"), names.count("quant.dcast")) == (1, 1)
    assert not {"arith.addf", "arith.mulf", "arith.maximumf", "linalg.matmul"} & {
        *names
    }
    (result,) = run_function(module, "main", X)
    np.testing.assert_array_equal(compile(module)(X), result)
    exact = np.maximum(X @ W1 + [0.1, -0.2, 0.3, 0.05], 0) @ W2 + X
    np.testing.assert_allclose(result, exact, atol=0.15)


def test_statistics():
    """The sum is rescaled and not what is added; one unit is the bound."""
    numbers = rescales(exported(NETWORK))
    assert (numbers["at_ports"], numbers["inserted"]) == (3, 2)
    assert differences(exported(NETWORK)) == (1,)
    (pushed,) = run_function(exported(NETWORK), "main", X)
    (unpushed,) = run_function(exported(NETWORK, "push-rescales=false"), "main", X)
    units = np.rint((pushed - unpushed) / 0.1)
    np.testing.assert_array_equal(units, [[0, -1, 0], [0, 0, 0]])


def requantization(source: str, target: str) -> str:
    return f"""
    func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {{
      %0 = quant.region "copy" (%a = %x : tensor<3x4xf32> as {source})
          -> (tensor<3x4xf32> as {target}) {{
        quant.return %a : tensor<3x4xf32>
      }}
      func.return %0 : tensor<3x4xf32>
    }}
    """


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("!quant.uniform<i8:f32, 0.1:3>", "!quant.uniform<i8:f32, 0.07:-9>"),
        ("!quant.uniform<u8:f32, 0.1:128>", "!quant.uniform<i16:f32, 0.001>"),
        (
            "!quant.uniform<i8:f32, 0.05:3>",
            "!quant.uniform<i8<-127:127>:f32:1, {0.02,0.05,0.07,1.0}>",
        ),
        (
            "!quant.uniform<i16:f32:0, {0.001,0.002,0.003}>",
            "!quant.uniform<u8<1:255>:f32, 0.05:7>",
        ),
        (
            "!quant.fixed_point<i8:f32, 1717986918p-34:10>",
            "!quant.fixed_point<i8:f32, 1073741824p-32:-5>",
        ),
        ("!quant.uniform<i32:f32, 1.0e-6>", "!quant.uniform<i8:f32, 0.03:1>"),
    ],
)
def test_requantization(source: str, target: str):
    """A rescale has the bits of `requantize_fixed_point`."""
    x = np.random.default_rng(1).uniform(-5, 5, (3, 4)).astype(np.float32)
    before, after = (
        QuantizationParameters.from_type(parse_type(text)) for text in (source, target)
    )
    stored = requantize_fixed_point(quantize(x, before), before, after)
    for options in ("", "push-rescales=false"):
        (result,) = run_function(
            exported(requantization(source, target), options), "main", x
        )
        np.testing.assert_array_equal(result, dequantize(stored, after))


STABLEHLO = """
!x = !quant.uniform<i8:f32, 5.0e-02:-3>
!w = !quant.uniform<i8<-127:127>:f32:1, {1.0e-02,2.0e-02}>
!b = !quant.uniform<i32:f32:0, {5.0e-04,1.0e-03}>
!y = !quant.uniform<i8:f32, 4.0e-02:-128>
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x2xf32> {
  %w = stablehlo.constant dense<[[0.5, -0.25], [1.0, 0.5], [-0.75, 2.0]]> : tensor<3x2xf32>
  %b = stablehlo.constant dense<[0.1, -0.2]> : tensor<2xf32>
  %0 = quant.region "dense" (%a = %x : tensor<2x3xf32> as !x,
                             %c = %w : tensor<3x2xf32> as !w,
                             %d = %b : tensor<2xf32> as !b) -> (tensor<2x2xf32> as !y) {
    %z = stablehlo.constant dense<0.0> : tensor<2x2xf32>
    %wide = stablehlo.broadcast_in_dim %d, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
    %dot = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0]
      : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %sum = stablehlo.add %dot, %wide : tensor<2x2xf32>
    %r = stablehlo.maximum %sum, %z : tensor<2x2xf32>
    quant.return %r : tensor<2x2xf32>
  }
  func.return %0 : tensor<2x2xf32>
}
"""


def test_stablehlo():
    module = exported(STABLEHLO)
    assert "quant.float_kernels" not in module.attributes
    (result,) = run_function(module, "main", X)
    x = quantize(X, QuantizationParameters(0.05, -3)).astype(object) + 3
    weights = np.array([[50, -12], [100, 25], [-75, 100]], object)
    units = (x @ weights + np.array([200, -200], object)) * np.array([1, 2], object)
    exact = [[Fraction(int(n)) / 80 for n in row] for row in units]
    expected = np.clip(
        [[floor(n + Fraction(1, 2)) for n in row] for row in exact], 0, 255
    )
    np.testing.assert_array_equal(np.rint(result / 0.04), expected)


# Exact results: all numbers are multiples of 1/4, and those of the ports of 1/32

_T = "tensor<2x3xf32>"
EXACT: Mapping[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "transpose": (
        f"%r = stablehlo.transpose %a, dims = [1, 0] : ({_T}) -> tensor<3x2xf32>",
        lambda a, b: a.T,
    ),
    "reshape": (
        f"%r = stablehlo.reshape %a : ({_T}) -> tensor<6xf32>",
        lambda a, b: a.reshape(6),
    ),
    "concatenate": (
        f"%r = stablehlo.concatenate %a, %b, dim = 0 : ({_T}, {_T}) -> tensor<4x3xf32>",
        lambda a, b: np.concatenate([a, b]),
    ),
    "concatenate one": (
        f"%r = stablehlo.concatenate %a, %a, dim = 1 : ({_T}, {_T}) -> tensor<2x6xf32>",
        lambda a, b: np.concatenate([a, a], 1),
    ),
    "slice": (
        f"%r = stablehlo.slice %a [0:1, 1:3] : ({_T}) -> tensor<1x2xf32>",
        lambda a, b: a[:1, 1:],
    ),
    "reduce add": (
        f"""%z = stablehlo.constant dense<0.5> : tensor<f32>
        %r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]
          : ({_T}, tensor<f32>) -> tensor<3xf32>""",
        lambda a, b: a.sum(0) + 0.5,
    ),
    "reduce max": (
        f"""%z = stablehlo.constant dense<0xFF800000> : tensor<f32>
        %r = stablehlo.reduce(%a init: %z) applies stablehlo.maximum across
          dimensions = [1] : ({_T}, tensor<f32>) -> tensor<2xf32>""",
        lambda a, b: a.max(1),
    ),
    "reduce min": (
        f"""%z = stablehlo.constant dense<-0.5> : tensor<f32>
        %r = stablehlo.reduce(%b init: %z) applies stablehlo.minimum across
          dimensions = [1] : ({_T}, tensor<f32>) -> tensor<2xf32>""",
        lambda a, b: np.minimum(b.min(1), -0.5),
    ),
    "multiply": (f"%r = stablehlo.multiply %a, %b : {_T}", lambda a, b: a * b),
    "scale": (
        f"""%c = stablehlo.constant dense<-2.0> : {_T}
        %r = stablehlo.multiply %c, %a : {_T}""",
        lambda a, b: -2 * a,
    ),
    "negate": (f"%r = stablehlo.negate %b : {_T}", lambda a, b: -b),
    "subtract": (f"%r = stablehlo.subtract %a, %b : {_T}", lambda a, b: a - b),
    "abs": (f"%r = stablehlo.abs %a : {_T}", lambda a, b: abs(a)),
    "clamp": (
        f"""%z = stablehlo.constant dense<-0.75> : tensor<f32>
        %s = stablehlo.constant dense<0.5> : tensor<f32>
        %r = stablehlo.clamp %z, %a, %s : (tensor<f32>, {_T}, tensor<f32>) -> {_T}""",
        lambda a, b: np.clip(a, -0.75, 0.5),
    ),
    "add a constant": (
        f"""%c = stablehlo.constant dense<[[1.0, 0.5, 0.25], [0.0, -1.0, 0.75]]> : {_T}
        %r = stablehlo.add %c, %a : {_T}""",
        lambda a, b: a + np.array([[1, 0.5, 0.25], [0, -1, 0.75]]),
    ),
    "bias": (
        f"""%c = stablehlo.constant dense<[0.5, -0.25, 0.0]> : tensor<3xf32>
        %d = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<3xf32>) -> {_T}
        %r = stablehlo.add %a, %d : {_T}""",
        lambda a, b: a + np.array([0.5, -0.25, 0]),
    ),
    "sum of all": (
        f"""%e = tensor.empty() : tensor<2x3xf32>
        %s = linalg.add ins(%a, %b : {_T}, {_T}) outs(%e : {_T}) -> {_T}
        %r = linalg.sub ins(%s, %a : {_T}, {_T}) outs(%e : {_T}) -> {_T}""",
        lambda a, b: b,
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_results(name: str):
    body, compute = EXACT[name]
    rng = np.random.default_rng(2)
    # The second operand is unsigned and has another scale.
    a = rng.integers(-5, 6, (2, 3)).astype(np.float32) / 4
    b = rng.integers(-3, 5, (2, 3)).astype(np.float32) / 4
    expected = np.asarray(compute(a, b), np.float32)
    result = f"tensor<{'x'.join(map(str, expected.shape))}xf32>"
    text = f"""
    func.func @main(%x: {_T}, %y: {_T}) -> {result} {{
      %0 = quant.region "k" (%a = %x : {_T} as !quant.uniform<i8:f32, 0.03125:1>,
                             %b = %y : {_T} as !quant.uniform<u8:f32, 0.25:130>)
          -> ({result} as !quant.uniform<i8:f32, 0.03125:-5>) {{
        {body}
        quant.return %r : {result}
      }}
      func.return %0 : {result}
    }}
    """
    module = exported(text)
    assert "quant.float_kernels" not in module.attributes
    (found,) = run_function(module, "main", a, b)
    np.testing.assert_array_equal(found, expected)


def test_convolution():
    """Scales along an axis, and an output that does not begin with zeros."""
    types = "tensor<1x5x5x3xf32>", "tensor<2x2x3x2xf32>", "tensor<1x4x4x2xf32>"
    text = f"""
    func.func @main(%x: {types[0]}) -> {types[2]} {{
      %w = arith.constant dense<0.25> : {types[1]}
      %0 = quant.region "conv" (
          %a = %x : {types[0]} as !quant.uniform<i8:f32, 0.03125:-3>,
          %b = %w : {types[1]} as !quant.uniform<i8<-127:127>:f32:3, {{0.25,0.125}}>)
          -> ({types[2]} as !quant.uniform<i8:f32, 0.0625:2>) {{
        %z = arith.constant 0.5 : f32
        %e = tensor.empty() : {types[2]}
        %f = linalg.fill ins(%z : f32) outs(%e : {types[2]}) -> {types[2]}
        %r = linalg.conv_2d_nhwc_hwcf
          {{dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>}}
          ins(%a, %b : {types[0]}, {types[1]}) outs(%f : {types[2]}) -> {types[2]}
        quant.return %r : {types[2]}
      }}
      func.return %0 : {types[2]}
    }}
    """
    module = exported(text)
    assert "quant.float_kernels" not in module.attributes
    x = np.random.default_rng(3).integers(-4, 5, (1, 5, 5, 3)).astype(np.float32) / 4
    windows = np.lib.stride_tricks.sliding_window_view(x[0], (2, 2), (0, 1))
    exact = windows.sum((2, 3, 4)) / 4 + 0.5
    (result,) = run_function(module, "main", x)
    np.testing.assert_array_equal(result[0], np.stack([exact, exact], -1))


def kernel(ops: str, operands: Sequence[str] = ("!q",), result: str = "!q") -> str:
    """A kernel of values with four elements: %r of %a and %b."""
    ports = ", ".join(
        f"%{letter} = %x : tensor<4xf32> as {spec}"
        for letter, spec in zip("ab", operands, strict=False)
    )
    return f"""
    !q = !quant.uniform<i8:f32, 0.5:1>
    !wide = !quant.uniform<i32:f32, 0.3>
    !wider = !quant.uniform<i32:f32, 0.7>
    !channels = !quant.uniform<i8:f32:0, {{0.5,0.25,0.5,1.0}}>
    !points = !quant.uniform<i8:f32:0, {{0.5:1,0.25,0.5,1.0}}>
    !blocks = !quant.uniform<i8:f32:{{0:2}}, {{0.5,0.25}}>
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = quant.region "k" ({ports}) -> (tensor<4xf32> as {result}) {{
        {ops}
        quant.return %r : tensor<4xf32>
      }}
      func.return %0 : tensor<4xf32>
    }}
    """


_LOW = -(2**124 - 2**93)
"""The fourth power of a value of `i32` is at least this number."""

IN_FLOAT = {
    "'math.exp' has no integer form": kernel("%r = math.exp %a : tensor<4xf32>"),
    "'stablehlo.exponential' has no integer form": kernel(
        "%m = stablehlo.maximum %a, %a : tensor<4xf32>\n"
        "%r = stablehlo.exponential %m : tensor<4xf32>"
    ),
    "'stablehlo.custom_call' op calls 'f', which has no conversion to linalg": kernel(
        "%r = stablehlo.custom_call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>"
    ),
    "a port has no parameters, found specification '!quant.any<i8:f32>'": kernel(
        "%r = arith.negf %a : tensor<4xf32>", ["!quant.any<i8:f32>"]
    ),
    "a result is constant": kernel("%r = arith.constant dense<1.0> : tensor<4xf32>"),
    "a result has undefined elements": kernel("%r = tensor.empty() : tensor<4xf32>"),
    f"has values from {_LOW} to {2**124}, which need more than 64 bits": kernel(
        "%s = arith.mulf %a, %a : tensor<4xf32>\n%r = arith.mulf %s, %s : tensor<4xf32>",
        ["!wide"],
    ),
    "rounding a sum costs more than a quarter of a stored unit": kernel(
        "%r = arith.addf %a, %b : tensor<4xf32>", ["!wide", "!wider"], "!wide"
    ),
    "ratio of scales 5e+99 is out of range": kernel(
        "%r = arith.negf %a : tensor<4xf32>", ["!q"], "!quant.uniform<i8:f64, 1.0e-10>"
    )
    .replace("f32", "f64")
    .replace("0.5:1", "0.5e90:1"),
    "zero points of type '!quant.uniform<i8:f32:0, {5.000000e-01:1,2.500000e-01,"
    "5.000000e-01,1.000000e+00}>' differ": kernel(
        "%r = arith.negf %a : tensor<4xf32>", ["!points"]
    ),
    "type '!quant.uniform<i8:f32:{0:2}, {5.000000e-01, 2.500000e-01}>' has sub-"
    "channel scales": kernel("%r = arith.negf %a : tensor<4xf32>", ["!blocks"]),
    "'tensor.reshape' moves elements of different scales": kernel(
        "%n = arith.constant dense<4> : tensor<1xi32>\n%r = tensor.reshape %a(%n) : "
        "(tensor<4xf32>, tensor<1xi32>) -> tensor<4xf32>",
        ["!channels"],
    ),
}


@pytest.mark.parametrize("reason", IN_FLOAT)
def test_what_stays_in_float(reason: str):
    """A kernel without an integer form computes with what is dequantized."""
    module = exported(IN_FLOAT[reason])
    reasons: Any = module.attributes["quant.float_kernels"]
    assert [r.data.split("kernel 'k': ")[1] for r in reasons] == [reason]
    assert "quant.dcast" in [op.name for op in module.walk()]


def test_floats_between_kernels():
    """What stays in float reads what is stored, and its result is stored again."""
    text = """
    !q = !quant.uniform<i8:f32, 0.5>
    !r = !quant.uniform<i8:f32, 0.25>
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = quant.region "neg" (%a = %x : tensor<4xf32> as !r) -> (tensor<4xf32> as !q) {
        %r = arith.negf %a : tensor<4xf32>
        quant.return %r : tensor<4xf32>
      }
      %1 = quant.region "exp" (%a = %0 : tensor<4xf32> as !q) -> (tensor<4xf32> as !r) {
        %r = math.exp %a : tensor<4xf32>
        quant.return %r : tensor<4xf32>
      }
      %2 = quant.region "neg" (%a = %1 : tensor<4xf32> as !r) -> (tensor<4xf32> as !r) {
        %r = arith.negf %a : tensor<4xf32>
        quant.return %r : tensor<4xf32>
      }
      func.return %2 : tensor<4xf32>
    }
    """
    x = np.array([0.7, -1.2, 0, 2], np.float32)
    # Halves of a unit are rounded up: 0.75 is -1.5 units once it is negative.
    exponentials = np.exp(np.array([-0.5, 1.5, 0, -2], np.float32))
    for options in ("", "push-rescales=false"):
        (result,) = run_function(exported(text, options), "main", x)
        np.testing.assert_array_equal(result, -np.rint(exponentials * 4) / 4)
    with pytest.raises(IRError) as failure:
        exported(text, "fully-quantized=true")
    kernel = "model.mlir:9:7: kernel 'exp': 'math.exp' has no integer form"
    message = "1 kernels or ops stay in floating point, expected none: "
    assert f"model.mlir:9:7: error: {message}{kernel}" in str(failure.value)


def test_fully_quantized():
    module = exported(NETWORK, "fully-quantized=true")
    assert str(module) == str(exported(NETWORK))


def test_module_is_unchanged():
    module = parse_module(IN_FLOAT["'math.exp' has no integer form"], "model.mlir")
    before = str(module)
    with pytest.raises(PassFailedException):
        QuantExportPass("codegen", fully_quantized=True).apply(Context(), module)
    assert str(module) == before


def test_option_of_the_other_mode():
    module = parse_module(NETWORK, "model.mlir")
    message = "option push-rescales=false has no effect in mode 'fixed', expected mode "
    message += "'codegen'"
    with pytest.raises(PassFailedException, match=f"^{re.escape(message)}$"):
        QuantExportPass(push_rescales=False).apply(Context(), module)


def test_no_bound():
    """A value that may differ and is used by an op that is no kernel has no bound."""
    text = NETWORK.replace(
        "func.return %2", "%3 = math.exp %2 : tensor<2x3xf32>\nfunc.return %3"
    )
    assert "differences" not in rescales(exported(text))
    assert rescales(exported(text))["inserted"] == 2


def test_dynamic_sizes():
    """Results have the sizes of operands."""
    text = NETWORK.replace("tensor<2x", "tensor<?x")
    size = "%d = arith.constant 0 : index\n%n = tensor.dim %x, %d : tensor<?x3xf32>\n"
    text = text.replace("%0 = quant", f"{size}%0 = quant", 1)
    text = text.replace(") -> (tensor", ", %count = %n : index) -> (tensor")
    text = text.replace("tensor.empty()", "tensor.empty(%count)")
    module, static = exported(text), exported(NETWORK)
    assert "quant.float_kernels" not in module.attributes
    assert differences(module) == (1,)
    (expected,) = run_function(static, "main", X)
    np.testing.assert_array_equal(run_function(module, "main", X)[0], expected)
    np.testing.assert_array_equal(compile(module)(X), expected)


DESTINATIONS = """
!q = !quant.uniform<i8:f32, 0.25>
!w = !quant.uniform<i8:f32, 0.125>
func.func @main(%x: tensor<?x3xf32>) -> tensor<?x2xf32> {
  %d = arith.constant 0 : index
  %n = tensor.dim %x, %d : tensor<?x3xf32>
  %w = arith.constant dense<[[0.5, -0.25], [1.0, 0.5], [-0.75, 2.0]]> : tensor<3x2xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x2xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x2xf32>) -> tensor<?x2xf32>
  %0 = quant.region "dense" (
      %a = %x : tensor<?x3xf32> as !q, %b = %w : tensor<3x2xf32> as !w,
      %i = %f : tensor<?x2xf32>, %o = %e : tensor<?x2xf32>, %z = %zero : f32)
      -> (tensor<?x2xf32> as !q) {
    %m = linalg.matmul ins(%a, %b : tensor<?x3xf32>, tensor<3x2xf32>)
                       outs(%i : tensor<?x2xf32>) -> tensor<?x2xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>,
                                          affine_map<(d0, d1) -> (d0, d1)>],
                         iterator_types = ["parallel", "parallel"]}
         ins(%m : tensor<?x2xf32>) outs(%o : tensor<?x2xf32>) {
    ^bb0(%p: f32, %q: f32):
      %u = arith.maximumf %p, %z : f32
      linalg.yield %u : f32
    } -> tensor<?x2xf32>
    quant.return %r : tensor<?x2xf32>
  }
  func.return %0 : tensor<?x2xf32>
}
"""


def test_dynamic_destinations():
    """They say the sizes of results, and those of operands are taken."""
    module = exported(DESTINATIONS)
    assert "quant.float_kernels" not in module.attributes
    assert all(
        result.first_use is not None
        for op in module.walk()
        if op.name == "tensor.dim"
        for result in op.results
    )
    x = np.array([[1, 2, 3], [-1, 0.5, 0.25]], np.float32)
    exact = np.maximum(x @ [[0.5, -0.25], [1.0, 0.5], [-0.75, 2.0]], 0)
    # Halves of a unit are rounded up.
    expected = np.floor(exact * 4 + 0.5) / 4
    np.testing.assert_array_equal(run_function(module, "main", x)[0], expected)
    np.testing.assert_array_equal(compile(module)(x), expected)


def test_unknown_number_of_terms():
    """Sums have 64 bits."""
    text = """
    !q = !quant.uniform<i8:f32, 0.25>
    func.func @main(%x: tensor<?xf32>) -> tensor<f32> {
      %0 = quant.region "sum" (%a = %x : tensor<?xf32> as !q) -> (tensor<f32> as !q) {
        %z = arith.constant dense<0.0> : tensor<f32>
        %r = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>,
                                              affine_map<(d0) -> ()>],
                             iterator_types = ["reduction"]}
             ins(%a : tensor<?xf32>) outs(%z : tensor<f32>) {
        ^bb0(%p: f32, %q: f32):
          %s = arith.addf %p, %q : f32
          linalg.yield %s : f32
        } -> tensor<f32>
        quant.return %r : tensor<f32>
      }
      func.return %0 : tensor<f32>
    }
    """
    module = exported(text)
    assert "quant.float_kernels" not in module.attributes
    (result,) = run_function(module, "main", np.array([1, 2, 3.25], np.float32))
    assert result == 6.25
    many = np.full(100_000, 2.5, np.float32)
    many[1::2] = -2.5
    many[0] = 5
    assert run_function(module, "main", many) == (2.5,)
    assert compile(module)(many) == 2.5


def test_destinations_and_constants_at_ports():
    """They need no type: a tensor to write to, where sums begin, the 0 of a rectifier."""
    text = """
    !q = !quant.uniform<i8:f32, 0.25>
    !w = !quant.uniform<i8<-127:127>:f32, 0.5>
    #id = affine_map<(d0, d1) -> (d0, d1)>
    func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
      %w = arith.constant dense<[[1.0, -1.0], [0.5, 2.0]]> : tensor<2x2xf32>
      %zero = arith.constant 0.0 : f32
      %empty = tensor.empty() : tensor<2x2xf32>
      %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x2xf32>)
        -> tensor<2x2xf32>
      %0 = quant.region "k" (%a = %x : tensor<2x2xf32> as !q,
                             %b = %w : tensor<2x2xf32> as !w,
                             %c = %zeros : tensor<2x2xf32>,
                             %d = %zero : f32,
                             %e = %empty : tensor<2x2xf32>)
          -> (tensor<2x2xf32> as !q) {
        %s = linalg.matmul ins(%a, %b : tensor<2x2xf32>, tensor<2x2xf32>)
          outs(%c : tensor<2x2xf32>) -> tensor<2x2xf32>
        %r = linalg.generic {indexing_maps = [#id, #id],
                             iterator_types = ["parallel", "parallel"]}
            ins(%s : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) {
        ^bb0(%in: f32, %out: f32):
          %m = arith.maximumf %in, %d : f32
          linalg.yield %m : f32
        } -> tensor<2x2xf32>
        quant.return %r : tensor<2x2xf32>
      }
      func.return %0 : tensor<2x2xf32>
    }
    """
    module = exported(text)
    assert "quant.float_kernels" not in module.attributes
    x = np.array([[1, 2], [-1, 0.5]], np.float32)
    (result,) = run_function(module, "main", x)
    np.testing.assert_array_equal(result, [[2, 3], [0, 2]])
    assert "linalg.fill" not in [op.name for op in module.walk()]
    in_float = exported(text.replace("%c = %zeros", "%c = %x"))
    reasons: Any = in_float.attributes["quant.float_kernels"]
    (reason,) = [r.data.split("kernel 'k': ")[1] for r in reasons]
    assert reason == "a port has no parameters, found specification 'f32'"


def test_statistics_within_a_kernel_are_gone():
    ops = """%n = arith.negf %a : tensor<4xf32>
    %s = quant.stats %n <-1.0:1.0> : tensor<4xf32>
    %t = quant.stats_ref %s "key" : tensor<4xf32>
    %r = arith.negf %t : tensor<4xf32>"""
    module = exported(kernel(ops))
    assert "quant.float_kernels" not in module.attributes
    assert "quant.stats" not in str(module)


def test_moved_rescales():
    """A value that is only moved before it is rescaled does not differ."""
    text = """
    !q = !quant.uniform<i8:f32, 0.25:3>
    !r = !quant.uniform<i8:f32, 0.7>
    func.func @main(%x: tensor<4xf32>) -> tensor<2x2xf32> {
      %0 = quant.region "add" (%a = %x : tensor<4xf32> as !q, %b = %x : tensor<4xf32> as !q)
          -> (tensor<4xf32> as !r) {
        %r = arith.addf %a, %b : tensor<4xf32>
        quant.return %r : tensor<4xf32>
      }
      %1 = quant.region "reshape" (%a = %0 : tensor<4xf32> as !r)
          -> (tensor<2x2xf32> as !r) {
        %r = tensor.expand_shape %a [[0, 1]] output_shape [2, 2]
          : tensor<4xf32> into tensor<2x2xf32>
        quant.return %r : tensor<2x2xf32>
      }
      func.return %1 : tensor<2x2xf32>
    }
    """
    module = exported(text)
    assert differences(module) == (0,)
    names = [op.name for op in module.walk()]
    assert names.index("tensor.expand_shape") < names.index("arith.muli")
    x = np.array([0.3, -1, 2, 5], np.float32)
    (result,) = run_function(module, "main", x)
    (expected,) = run_function(exported(text, "push-rescales=false"), "main", x)
    np.testing.assert_array_equal(result, expected)


def test_a_second_run_changes_nothing():
    text = str(exported(NETWORK))
    assert str(exported(text)) == text


def test_constant_without_elements():
    module = exported("""
    !q = !quant.uniform<i8:f32, 0.5>
    func.func @main(%x: tensor<0xf32>) -> tensor<0xf32> {
      %c = arith.constant dense<> : tensor<0xf32>
      %0 = quant.region "k" (%a = %x : tensor<0xf32> as !q, %b = %c : tensor<0xf32>)
          -> (tensor<0xf32> as !q) {
        %s = arith.addf %a, %b : tensor<0xf32>
        quant.return %s : tensor<0xf32>
      }
      func.return %0 : tensor<0xf32>
    }
    """)
    assert "kernel 'k': a constant has no elements" in str(module.attributes)
    (result,) = run_function(module, "main", np.zeros(0, np.float32))
    assert result.shape == (0,)
