"""Composite ops and outlined functions as kernels of targets."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.inspecting.target_checks import check_target
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    multiverse_context,
    parse_module,
)
from xdsl_quant.runtime.toml_tables import TomlFile
from xdsl_quant.transforms.composites.inlining import inline_small_functions
from xdsl_quant.transforms.propagation.quant_fuse_kernels import fuse_kernels
from xdsl_quant.transforms.propagation.quant_inline_regions import inline_regions
from xdsl_quant.transforms.propagation.quant_propagate import propagate
from xdsl_quant.transforms.propagation.target_files import (
    TargetError,
    parse_target,
    read_target,
)

from ...frontends.tflite.files.litert import LiteRT
from ...frontends.tflite.files.test_composites import model as tflite_model

T = "tensor<2x4xf32>"
TARGET = """
extends = ["stablehlo-int8"]

[[kernels]]
composites = ["my.gelu", "norm"]
inputs = ["i8", "-"]
outputs = ["i8"]
"""
MODULE = """
func.func @main(%x: T) -> T {
  %c = stablehlo.constant dense<0.5> : T
  %0 = quant.stats %x <-1.0:1.0> : T
  %1 = stablehlo.add %0, %c : T
  %2 = quant.stats %1 <-0.5:1.5> : T
  %3 = stablehlo.composite "my.gelu" %2 {
    composite_attributes = {exact}, decomposition = @gelu
  } : (T) -> T
  %4 = quant.stats %3 <-0.25:1.25> : T
  %5 = func.call @norm(%4) : (T) -> T
  %6 = quant.stats %5 <-0.5:2.5> : T
  %7 = stablehlo.tanh %6 : T
  func.return %7 : T
}
func.func private @gelu(%x: T) -> T {
  %0 = func.call @inner(%x) : (T) -> T
  %1 = stablehlo.multiply %x, %0 : T
  func.return %1 : T
}
func.func private @inner(%x: T) -> T {
  %0 = stablehlo.logistic %x : T
  func.return %0 : T
}
func.func private @norm(%x: T) -> T {
  %0 = stablehlo.add %x, %x : T
  func.return %0 : T
}
"""
X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def module(text: str = MODULE) -> ModuleOp:
    return parse_module(re.sub(r"\bT\b", T, text))


def regions(of: ModuleOp) -> Sequence[RegionOp]:
    return [op for op in of.walk() if isinstance(op, RegionOp)]


def propagated(target: str = TARGET, text: str = MODULE) -> ModuleOp:
    fused, spec = module(text), parse_target(target)
    fuse_kernels(fused, spec)
    apply_passes(fused, "quant-constraints-to-specs")
    propagate(fused, spec)
    return fused


def exported(mode: str, target: str = TARGET, text: str = MODULE) -> ModuleOp:
    result = propagated(target, text)
    apply_passes(result, f"quant-export{{mode={mode}}}")
    result.verify()
    return result


# Files


def kernel(keys: str) -> str:
    return f'[[kernels]]\n{keys}\ninputs = ["i8"]\noutputs = ["i8"]'


def test_composites_of_a_file():
    target = parse_target(kernel('composites = ["my.gelu", "norm"]'))
    assert [*target.kernels] == ["my.gelu", "norm"]
    assert target.op_names == {"composite my.gelu", "composite norm"}
    named = 'name = "gelu"\nops = ["tfl.gelu"]\ncomposites = ["my.gelu"]'
    target = parse_target(kernel(named))
    assert [*target.kernels] == ["gelu"]
    assert target.op_names == {"composite my.gelu", "tfl.gelu"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            'composites = ["my gelu"]',
            "expected the name of a composite op or function, found 'my gelu'; write it "
            "without '@' and quotes, e.g. 'odml.group_norm'",
        ),
        (
            'composites = ["@norm"]',
            "expected the name of a composite op or function, found '@norm'; write it "
            "without '@' and quotes, e.g. 'odml.group_norm'",
        ),
        (
            'composites = "norm"',
            "expected an array of strings for 'composites', found 'norm'; write an array "
            "of strings",
        ),
        (
            'name = "k"\ncomposites = ["a.b", "a.b"]',
            "expected different ops, found 'composite a.b' twice; leave out one",
        ),
    ],
)
def test_mistakes(keys: str, message: str):
    with pytest.raises(TargetError) as error:
        parse_target(kernel(keys), "my.toml")
    assert str(error.value).partition(": error: ")[2] == message


def test_checks():
    def warnings(text: str) -> Sequence[str]:
        return check_target(
            TomlFile(text, "my.toml", TargetError), multiverse_context()
        )

    assert warnings(TARGET) == []
    first = kernel('composites = ["a.b"]')
    second = kernel('name = "c"\ncomposites = ["a.b"]')
    assert warnings(f"{first}\n{second}") == [
        "my.toml:7: warning: unreachable pattern, found 'a.b' after kernel 'a.b', which "
        "matches the same ops; remove one of them"
    ]


# Fusion


def test_fusion_is_reversed():
    fused, original = module(), str(module())
    fuse_kernels(fused, parse_target(TARGET))
    fused.verify()
    bodies = [(op.kernel, op.body.block.first_op) for op in regions(fused)]
    assert [(name, op and op.name) for name, op in bodies] == [
        ("stablehlo.add", "stablehlo.add"),
        ("my.gelu", "stablehlo.composite"),
        ("norm", "func.call"),
        ("stablehlo.tanh", "stablehlo.tanh"),
    ]
    once = str(fused)
    fuse_kernels(fused, parse_target(TARGET))
    assert str(fused) == once
    inline_regions(regions(fused))
    assert str(fused) == original


def test_other_composites_are_not_kernels():
    fused = module()
    fuse_kernels(fused, read_target("stablehlo-int8"))
    names = [op.kernel for op in regions(fused)]
    # The functions contain kernels instead.
    assert names == [
        f"stablehlo.{n}" for n in ("add", "tanh", "multiply", "logistic", "add")
    ]


# Propagation


def test_propagation():
    fused = module()
    target = parse_target(TARGET)
    fuse_kernels(fused, target)
    apply_passes(fused, "quant-constraints-to-specs")
    report = propagate(fused, target)
    assert report.float_kernels == report.float_ops == []
    gelu, norm = regions(fused)[1:3]
    assert [str(spec) for spec in gelu.specs] == [
        "!quant.uniform<i8:f32, 0.0078431372549019607:-64>",
        "!quant.uniform<i8:f32, 0.0058823529411764705:-86>",
    ]
    assert norm.specs[0] == gelu.specs[1]
    assert {value.function for value in report.values} == {"main"}


def test_constraints():
    same = TARGET.replace(
        'outputs = ["i8"]', 'outputs = ["i8"]\nconstraints = ["same-scale"]'
    )
    result = propagated(same)
    assert len({spec for op in regions(result)[1:3] for spec in op.specs}) == 1


# Export


def test_fixed_export():
    text = str(exported("fixed"))
    assert text == str(module(EXPORTED))


EXPORTED = """
!x = tensor<2x4x!quant.uniform<i8:f32, 0.0078431372549019607:-1>>
!c = tensor<2x4x!quant.uniform<i8:f32, 0.0019607843137254902:-128>>
!a = tensor<2x4x!quant.uniform<i8:f32, 0.0078431372549019607:-64>>
!g = tensor<2x4x!quant.uniform<i8:f32, 0.0058823529411764705:-86>>
!n = tensor<2x4x!quant.uniform<i8:f32, 0.011764705882352941:-86>>
!t = tensor<2x4x!quant.uniform<i8:f32, 7.812500e-03>>
func.func @main(%x: T) -> T {
  %0 = stablehlo.uniform_quantize %x : (T) -> !x
  %c = stablehlo.constant() <{value = dense<127> : tensor<2x4xi8>}> : () -> !c
  %1 = stablehlo.add %0, %c : (!x, !c) -> !a
  %2 = stablehlo.composite "my.gelu" %1 {
    composite_attributes = {exact}, decomposition = @gelu_quantized
  } : (!a) -> !g
  %3 = func.call @norm_quantized(%2) : (!g) -> !n
  %4 = stablehlo.tanh %3 : (!n) -> !t
  %5 = stablehlo.uniform_dequantize %4 : (!t) -> T
  func.return %5 : T
}
func.func private @gelu_quantized(%x: !a) -> !g {
  %x_1 = stablehlo.uniform_dequantize %x : (!a) -> T
  %0 = func.call @inner(%x_1) : (T) -> T
  %1 = stablehlo.multiply %x_1, %0 : T
  %2 = stablehlo.uniform_quantize %1 : (T) -> !g
  func.return %2 : !g
}
func.func private @norm_quantized(%x: !g) -> !n {
  %x_1 = stablehlo.uniform_dequantize %x : (!g) -> T
  %0 = stablehlo.add %x_1, %x_1 : T
  %1 = stablehlo.uniform_quantize %0 : (T) -> !n
  func.return %1 : !n
}
func.func private @inner(%x: T) -> T {
  %0 = stablehlo.logistic %x : T
  func.return %0 : T
}
"""


def test_exported_modules_run():
    expected = np.asarray(run_function(module(), "main", X)[0])
    fixed, codegen = (exported(mode) for mode in ("fixed", "codegen"))
    results = [np.asarray(compile(each, "main")(X)) for each in (fixed, codegen)]
    assert np.abs(results[0] - expected).max() < 0.03
    # Integer sums of two stored values are exact, as are the casts around float kernels.
    assert results[0].tolist() == results[1].tolist()


def test_code_generation_inlines_functions():
    text = str(exported("codegen"))
    assert text.count("func.func") == 1
    assert "func.call" not in text
    assert "composite" not in text
    reasons = text.partition("quant.float_kernels = [")[2].partition("]")[0]
    assert reasons.count("kernel 'my.gelu'") == 1
    assert "kernel 'norm'" not in reasons


RECURSIVE = MODULE.replace("@inner(%x)", "@gelu(%x)")


def test_recursive_functions():
    """Neither code without end nor a call without end."""
    message = "'func.call' op has no finite code: function 'gelu' calls itself"
    with pytest.raises(IRError, match=message):
        exported("codegen", text=RECURSIVE)
    assert "calls" not in str(exported("fixed", text=RECURSIVE))
    message = "'func.call' op never returns: function 'gelu' calls itself"
    with pytest.raises(IRError, match=message):
        apply_passes(module(RECURSIVE), "convert-stablehlo-to-linalg")
    # Loops and branches may end a recursion.
    text = re.sub(r"quant.stats (%\w+) <.*?>", r"stablehlo.negate \1", RECURSIVE)
    text = text.replace(
        "%0 = func.call @gelu(%x) : (T) -> T",
        """%t = stablehlo.constant dense<false> : tensor<i1>
        %0 = "stablehlo.if"(%t) ({
          %2 = func.call @gelu(%x) : (T) -> T
          stablehlo.return %2 : T
        }, {
          stablehlo.return %x : T
        }) : (tensor<i1>) -> T""",
    )
    apply_passes(floats := module(text), "convert-stablehlo-to-linalg")
    (result,) = run_function(floats, None, X)
    assert np.isfinite(np.asarray(result)).all()


def test_a_kernel_without_parameters_stays_in_floating_point():
    without = MODULE.replace("%4 = quant.stats %3 <-0.25:1.25> : T", "").replace(
        "%4", "%3"
    )
    text = str(exported("fixed", text=without))
    assert "decomposition = @gelu}" in text
    assert "kernel 'my.gelu': a port has no parameters" in text
    assert "@gelu_quantized" not in text


def test_fully_quantized():
    result = propagated()
    apply_passes(result, "quant-export{fully-quantized=true}")
    result.verify()


def test_functions_are_shared_and_named():
    twice = (
        MODULE.replace(
            "%7 = stablehlo.tanh %6 : T",
            "%n = func.call @norm(%4) : (T) -> T\n"
            "  %m = quant.stats %n <-0.5:2.5> : T\n  %7 = stablehlo.add %6, %m : T\n",
        )
        + "func.func private @norm_quantized(%x: T) -> T {\n  func.return %x : T\n}\n"
    )
    text = str(exported("fixed", text=twice))
    assert text.count("call @norm_quantized_0(") == 2
    assert text.count("func.func private @norm_quantized_0(") == 1
    assert "@norm(" not in text


# Quantizer


def test_quantizer():
    floats = module()
    apply_passes(floats, "quant-remove-instrumentation")
    given = quantize(floats, [X], target=parse_target(TARGET))
    names = [row.kernel for row in given.report([X]).kernels]
    assert names == ["stablehlo.add", "my.gelu", "norm", "stablehlo.tanh"]
    assert 'composite "my.gelu"' in str(given.module)
    # A target without these kernels gets the ops of the functions.
    other = quantize(floats, [X])
    names = [row.kernel for row in other.report([X]).kernels]
    ops = ("add", "logistic", "multiply", "add", "tanh")
    assert names == [f"stablehlo.{op}" for op in ops]


def test_composites_of_tflite_files():
    target = """
    extends = ["tflite-int8"]
    [[kernels]]
    composites = ["odml.mine"]
    inputs = ["i8"]
    outputs = ["i8"]
    """
    given = quantize(
        read_tflite(write_model(tflite_model())),
        [X[0, :3]],
        target=parse_target(target),
    )
    names = [row.kernel for row in given.report([X[0, :3]]).kernels]
    assert names == ["odml.mine", "tfl.mul"]
    x = X[1, :3]
    expected = np.asarray(compile(given.module, "main")(x))
    assert LiteRT(write_tflite(given.module)).run(x)[0].tolist() == expected.tolist()


def test_composites_with_other_ports_are_inlined(capsys: pytest.CaptureFixture[str]):
    """The target lists a composite with one operand or two; this one has three."""
    mlir = module("""
func.func @main(%x: T) -> T {
  %0 = stablehlo.composite "my.gelu" %x, %x, %x {decomposition = @gelu} : (T, T, T) -> T
  func.return %0 : T
}
func.func private @gelu(%x: T, %y: T, %z: T) -> T {
  %0 = stablehlo.multiply %x, %y : T
  %1 = stablehlo.add %0, %z : T
  func.return %1 : T
}
""")
    (function, *_) = mlir.ops
    assert isinstance(function, FuncOp)
    ports = TARGET.replace('["i8", "-"]', '["i8", "i8"]')
    inline_small_functions(mlir, function, [parse_target(ports)])
    assert "stablehlo.composite" not in str(mlir)
    assert (
        "warning: composite my.gelu is not a kernel: no signature of the target takes its "
        "3 operands and 1 results; its ops are quantized one by one"
    ) in capsys.readouterr().err
