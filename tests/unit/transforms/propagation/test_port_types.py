"""Ports of floats with scales, of blocks, and of float types."""

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, NoneType, bf16, f32, i8
from xdsl.ir import Attribute
from xdsl.parser import Parser

from xdsl_quant.dialects.quant import NoQuantizedType, RegionOp
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import multiverse_context, parse_module
from xdsl_quant.transforms.propagation.quant_export import QuantExportPass
from xdsl_quant.transforms.propagation.quant_fuse_kernels import fuse_kernels
from xdsl_quant.transforms.propagation.quant_propagate import propagate
from xdsl_quant.transforms.propagation.target_files import TargetError, parse_target
from xdsl_quant.transforms.propagation.target_spec import Port, TargetSpec

TARGET = """\
[[kernels]]
ops = ["linalg.matmul"]
inputs = ["{}", "{}", "-"]
outputs = ["{}"]
constraints = ["coefficient-axis"]
"""


def target(input: str, weight: str, output: str) -> TargetSpec:
    return parse_target(TARGET.format(input, weight, output))


def port(text: str) -> Port:
    spec = parse_target(
        f'[[kernels]]\nops = ["a.b"]\ninputs = ["{text}"]\noutputs = []\n'
    )
    (port,) = spec.kernels["a.b"].signatures[0].inputs
    return port


@pytest.mark.parametrize(
    "text",
    [
        *("f8E4M3FN", "f8E5M2", "f4E2M1FN", "any=f8E5M2", "f8E4M3FN<-240:240>:0"),
        *("const i4{1:32}", "const u4{0:1, 1:32}:8", "const any=f4E2M1FN{1:32}"),
        *("bf16", "f16", "f32", "f64", "const bf16"),
    ],
)
def test_the_text_of_a_port(text: str):
    assert port(text).text == text
    assert port(text).covers(port(text))


def test_blocks_are_sorted():
    assert port("const i4{1:32,0:1}").text == "const i4{0:1, 1:32}"


def type_(text: str) -> Attribute:
    return Parser(multiverse_context(), text).parse_type()


PER_TENSOR = "!quant.uniform<i4:f32, 0.5>"
BLOCKS = "!quant.uniform<i4:f32:{0:2}, {{1.0}, {2.0}}>"
OTHER_BLOCKS = "!quant.uniform<i4:f32:{0:4}, {{1.0}}>"
BLOCK_SCALED = "!quant.block_scaled<i4:f32:{0:2}, scales = dense<0.5> : tensor<2xf16>>"
F8 = "!quant.uniform<f8E4M3FN:f32, 0.5>"
F8_OTHER = "!quant.uniform<f8E5M2:f32, 0.5>"
I8 = "!quant.uniform<i8:f32, 0.5>"
RANGE = "!quant.calibrated<f32<-1.0:1.0>>"


@pytest.mark.parametrize(
    ("text", "accepted", "refused"),
    [
        ("f8E4M3FN", [F8, "f32", RANGE, "none"], [F8_OTHER, I8, "!quant.any<i8:f32>"]),
        ("i8", [I8, "!quant.any<i4:f32>"], [F8, "!quant.any<f8E4M3FN:f32>"]),
        ("f8E5M2", [F8_OTHER, "!quant.any<f8E5M2:f32>"], ["!quant.any<f8E4M3FN:f32>"]),
        (
            "const i4{0:2}",
            [BLOCKS, BLOCK_SCALED, "!quant.any<i4:f32>", "f32"],
            [OTHER_BLOCKS, PER_TENSOR, I8],
        ),
        ("const i4", [BLOCKS, OTHER_BLOCKS, BLOCK_SCALED, PER_TENSOR], [I8]),
        ("const any=i8{0:2}", [BLOCKS, BLOCK_SCALED], [OTHER_BLOCKS, I8]),
        ("bf16", ["bf16", "none"], ["f32", "i8", I8, RANGE, "!quant.any<i8:bf16>"]),
        ("-", ["bf16", "f32", "i8"], [I8, RANGE]),
    ],
)
def test_what_a_port_accepts(
    text: str, accepted: Sequence[str], refused: Sequence[str]
):
    found = {each: port(text).accepts(type_(each)) for each in (*accepted, *refused)}
    assert found == dict.fromkeys(accepted, True) | dict.fromkeys(refused, False)


def test_unquantized_values_at_a_float_port():
    assert port("bf16").accepts(NoQuantizedType(bf16))
    assert not port("bf16").accepts(NoQuantizedType(f32))
    assert port("bf16").accepts(NoneType())
    assert not port("bf16").accepts(i8)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("-", "bf16"),
        ("const i4", "const i4{0:2}"),
        ("any=i8", "f8E5M2"),
        ("f8E5M2", "f8E5M2<-100:100>"),
    ],
)
def test_ports_that_cover_others(wide: str, narrow: str):
    assert port(wide).covers(port(narrow))
    assert not port(narrow).covers(port(wide))


@pytest.mark.parametrize(
    ("one", "other"), [("f8E5M2", "i8"), ("bf16", "f16"), ("bf16", "i8")]
)
def test_different_ports(one: str, other: str):
    assert not port(one).covers(port(other))
    assert not port(other).covers(port(one))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "f8E4M3FN:3",
            "unsupported zero point of floats, found 'f8E4M3FN:3'; leave it out",
        ),
        (
            "const i4{0:0}",
            "expected positive sizes of different dimensions, found 'const i4{0:0}'; "
            "write others",
        ),
        (
            "const i4{0:2,0:4}",
            "expected positive sizes of different dimensions, found "
            "'const i4{0:2,0:4}'; write others",
        ),
        (
            "i4{0:2}",
            "expected a constant operand for a port with blocks, found 'i4{0:2}'; write "
            "'const' first",
        ),
    ],
)
def test_mistakes(text: str, message: str):
    with pytest.raises(TargetError) as caught:
        port(text)
    assert str(caught.value) == f"target.toml:3: error: {message}"


def test_blocks_of_a_result():
    with pytest.raises(TargetError) as caught:
        target("i8", "i8", "const i4{0:2}")
    assert str(caught.value) == (
        "target.toml:4: error: expected a constant operand for a port with blocks, found "
        "'const i4{0:2}'; leave out the blocks"
    )


def test_a_constraint_of_a_float_port():
    with pytest.raises(TargetError) as caught:
        target("i8", "bf16", "i8")
    assert str(caught.value) == (
        "target.toml:5: error: expected a quantized port for 'operand' of "
        "'coefficient-axis', found 'bf16' at index 1 of inputs; use another index, or a "
        "storage type there"
    )


# Propagation and export

MATMUL = """
func.func @f(%x: tensor<2x4xf32>) -> tensor<2x2xf32> {{
  %w = arith.constant dense<[[7.0, 2.0], [2.4, -14.0], [1.75, 0.5], [0.25, 3.5]]>
    : tensor<4x2xf32>
  %zero = arith.constant dense<0.0> : tensor<2x2xf32>
  %y = quant.region "linalg.matmul" (%a = %x : tensor<2x4xf32> as {input},
      %b = %w : tensor<4x2xf32>{weight}, %c = %zero : tensor<2x2xf32>)
      -> (tensor<2x2xf32> as {output}) {{
    %0 = linalg.matmul ins(%a, %b : tensor<4xf32>, tensor<4x2xf32>)
      outs(%c : tensor<2x2xf32>) -> tensor<2x2xf32>
    quant.return %0 : tensor<2x2xf32>
  }}
  func.return %y : tensor<2x2xf32>
}}
""".replace("tensor<4xf32>,", "tensor<2x4xf32>,")


def matmul(*, input: str = F8, weight: str = "", output: str = F8) -> ModuleOp:
    return parse_module(MATMUL.format(input=input, weight=weight, output=output))


def specs(module: ModuleOp) -> Sequence[str]:
    (kernel,) = (op for op in module.walk() if isinstance(op, RegionOp))
    return [*map(str, kernel.specs)]


def calibrated(low: float, high: float) -> str:
    return f"!quant.calibrated<f32<{low}:{high}>>"


@pytest.mark.parametrize(
    ("port", "limit"),
    [("f8E4M3FN", 448), ("f8E5M2", 57344), ("f4E2M1FN", 6), ("f8E4M3FN<-7:7>", 7)],
)
def test_ranges_become_symmetric_scales_of_floats(port: str, limit: int):
    module = matmul(
        input=calibrated(-1.0, 1.0 * limit), output=calibrated(-2.0 * limit, 0.0)
    )
    assert not propagate(module, target(port, port, port)).float_kernels
    x, w, _, y = specs(module)
    assert x == f"!quant.uniform<{port}:f32, 1.000000e+00>"
    assert y == f"!quant.uniform<{port}:f32, 2.000000e+00>"
    assert str(type_(f"!quant.uniform<{port}:f32, {14 / limit!r}>")) == w


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        ("const i4{0:2,1:1}", "i4<-7:7>:f32:{0:2, 1:1}, {{1.0, 2.0}, {0.25, 0.5}}"),
        ("const i4{0:2}", "i4<-7:7>:f32:{0:2}, {{2.0}, {0.5}}"),
        ("const i4{1:1}", "i4<-7:7>:f32:{1:1}, {{1.0, 2.0}}"),
        ("const i4<-8:7>{0:4,1:2}", "i4<-7:7>:f32:{0:4, 1:2}, {{2.0}}"),
        (
            "const f4E2M1FN{0:4}",
            "f4E2M1FN:f32:{0:4}, {{2.3333332538604736}}",
        ),
    ],
)
def test_constants_get_a_scale_for_each_block(port: str, expected: str):
    module = matmul()
    assert not propagate(module, target("f8E4M3FN", port, "f8E4M3FN")).float_kernels
    assert specs(module)[1] == str(type_(f"!quant.uniform<{expected}>"))
    before = str(module)
    propagate(module, target("f8E4M3FN", port, "f8E4M3FN"))
    assert str(module) == before


@pytest.mark.parametrize(
    ("port", "reason"),
    [
        ("const i4{0:3}", "blocks of 3 do not divide 4 elements"),
        ("const i4{2:1}", "the constant of shape (4, 2) lacks dimension 2"),
    ],
)
def test_blocks_that_do_not_fit(port: str, reason: str):
    module = matmul()
    report = propagate(module, target("f8E4M3FN", port, "f8E4M3FN"))
    assert specs(module)[1] == "f32"
    _, weight, *_ = report.values
    assert weight.float_reason == reason


@pytest.mark.parametrize("port", ["const i4", "const i4{0:2}"])
def test_a_block_scaled_specification_stays(port: str):
    module = matmul(weight=f" as {BLOCK_SCALED}")
    before = str(module)
    propagate(module, target("f8E4M3FN", port, "f8E4M3FN"))
    assert str(module) == before


def test_a_fixed_range_with_float_storage():
    text = TARGET.format("f8E4M3FN", "f8E4M3FN", "f8E4M3FN").replace(
        '"coefficient-axis"', '{ kind = "fixed-scale", minimum = -7, maximum = 448 }'
    )
    module = matmul(output="f32")
    propagate(module, parse_target(text))
    assert specs(module)[3] == "!quant.uniform<f8E4M3FN:f32, 1.000000e+00>"


def test_kernels_of_floats_and_blocks_compute_between_casts(
    capsys: pytest.CaptureFixture[str],
):
    one = "!quant.uniform<f8E4M3FN:f32, 1.0>"
    module = matmul(input=one, output=one)
    propagate(module, target("f8E4M3FN", "const i4{0:2,1:1}", "f8E4M3FN"))
    QuantExportPass(mode="codegen").apply(multiverse_context(), module)
    assert "unsupported storage type 'f8E4M3FN'" in capsys.readouterr().err
    module.verify()
    x = np.asarray([[17.4, 1.0, -2.0, 0.0], [0.5, 16.0, 3.0, 8.0]], np.float32)
    weights = np.asarray([[7, 2], [2, -14], [1.75, 0.5], [0.25, 3.5]], np.float32)
    stored = x.copy()
    # Numbers from 16 to 32 have steps of 2, those from 64 to 128 steps of 8.
    stored[0, 0] = 18
    exact = stored @ weights
    assert exact.tolist() == [[124.5, 21.0], [42.75, -193.5]]
    expected = [[128.0, 20.0], [44.0, -192.0]]
    assert run_function(module, None, x)[0].tolist() == expected
    assert compile(module)(x).tolist() == expected


# Float types


def test_kernels_of_a_float_type():
    text = """
func.func @f(%x: tensor<4x{0}>) -> tensor<4x{0}> {{
  %y = arith.addf %x, %x : tensor<4x{0}>
  func.return %y : tensor<4x{0}>
}}
"""
    spec = parse_target(
        '[[kernels]]\nops = ["arith.addf"]\ninputs = ["bf16", "bf16"]\n'
        'outputs = ["bf16"]\n'
    )
    assert fuse_kernels(parse_module(text.format("f32")), spec) == 0
    module = parse_module(text.format("bf16"))
    assert fuse_kernels(module, spec) == 1
    propagate(module, spec)
    assert specs(module) == ["bf16"] * 3
