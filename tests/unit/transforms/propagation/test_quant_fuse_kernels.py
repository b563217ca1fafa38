"""Fusion of ops to kernels, and its reverse."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module
from xdsl_quant.transforms.propagation.quant_fuse_kernels import fuse_kernels
from xdsl_quant.transforms.propagation.quant_inline_regions import inline_regions
from xdsl_quant.transforms.propagation.target_extensions import target_extensions
from xdsl_quant.transforms.propagation.target_files import parse_target, read_target
from xdsl_quant.transforms.propagation.target_spec import (
    KernelSpec,
    MatchFn,
    Signature,
    TargetSpec,
)

from ...counting import calls
from .programs import TARGET, T, random_program


def function(*lines: str, arguments: str = f"%x: {T}, %y: {T}") -> str:
    *ops, result = lines
    body = "\n  ".join((*ops, f"func.return {result} : {T}"))
    text = f"func.func @f({arguments}) -> {T} {{\n  {body}\n}}\n"
    return re.sub(r"\bT\b", T, text)


def kernels(module: ModuleOp) -> Sequence[tuple[str, str]]:
    """The names of kernels and what is in them, in their order."""
    return [
        (op.kernel, " ".join(inner.name for inner in [*op.body.block.ops][:-1]))
        for op in module.walk()
        if isinstance(op, RegionOp)
    ]


def fused(text: str, target: str = TARGET) -> ModuleOp:
    module = parse_module(text)
    fuse_kernels(module, parse_target(target))
    module.verify()
    return module


def regions(module: ModuleOp) -> Sequence[RegionOp]:
    return [op for op in module.walk() if isinstance(op, RegionOp)]


# Generated programs


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(30))
def test_fusion_is_reversed(seed: int):
    random = Random(seed)
    text = random_program(random, random.randrange(1, 30))
    for target in (parse_target(TARGET), read_target(SHIPPED[seed % 3])):
        module = parse_module(text)
        original = str(module)
        fuse_kernels(module, target)
        module.verify()
        once = str(module)
        # Text and module are the same thing.
        assert str(parse_module(once)) == once
        fuse_kernels(module, target)
        assert str(module) == once
        inline_regions(regions(module))
        module.verify()
        assert str(module) == original


SHIPPED = ("mac-array", "stablehlo-int8", "tflite-int8")


def test_programs_have_kernels():
    programs = [kernels(fused(random_program(Random(i), 30))) for i in range(12)]
    assert all(programs)
    sizes = {len(ops.split()) for program in programs for _, ops in program}
    assert {1, 2, 3} <= sizes


def _work(size: int) -> int:
    module = parse_module(random_program(Random(0), size))
    target = parse_target(TARGET)

    def there_and_back():
        fuse_kernels(module, target)
        inline_regions(regions(module))

    return calls(there_and_back)


def test_work_is_linear():
    assert 7 < _work(400) / _work(50) < 9


# What is fused

DOT = "stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (T, T) -> T"


def test_ports_are_in_the_order_of_uses():
    module = fused(
        function(
            f"%a = {DOT}",
            "%b = stablehlo.add %x, %a : T",
            "%c = stablehlo.maximum %b, %b : T",
            "%c",
        )
    )
    (region,) = regions(module)
    assert [value.name_hint for value in region.inputs] == ["x", "y", "x"]
    assert [op.name for op in region.body.block.ops] == [
        "stablehlo.dot_general",
        "stablehlo.add",
        "stablehlo.maximum",
        "quant.return",
    ]
    assert region.results[0].name_hint == "c"


def test_a_value_that_others_use_ends_a_chain():
    module = fused(
        function(
            f"%a = {DOT}",
            "%b = stablehlo.add %x, %a : T",
            "%c = stablehlo.maximum %b, %a : T",
            "%c",
        )
    )
    assert kernels(module) == [
        ("all", "stablehlo.dot_general"),
        ("stablehlo.add", "stablehlo.add"),
    ]


def test_largest_first():
    chain = [
        "%a = arith.mulf %x, %y : T",
        "%b = arith.addf %a, %y : T",
        "%c = arith.addf %b, %y : T",
        "%d = arith.addf %c, %y : T",
    ]
    # Three of the last are more than two of the first.
    assert kernels(fused(function(*chain, "%d"))) == [
        ("all", "arith.addf arith.addf arith.addf")
    ]
    # Of as many, the first is taken.
    assert kernels(fused(function(*chain, "%e = math.exp %d : T", "%e"))) == [
        ("all", "arith.addf arith.addf arith.addf")
    ]
    assert kernels(fused(function(*chain[:3], "%c"))) == [
        ("all", "arith.mulf arith.addf"),
        ("arith.addf", "arith.addf"),
    ]


def test_statistics_within_a_kernel():
    stats = "quant.stats {} {{layerStats = dense<[-1.0, 2.0]> : tensor<2xf32>}} : T"
    text = function(
        f"%a = {DOT}",
        f"%as = {stats.format('%a')}",
        '%ar = quant.stats_ref %as {statsKey = "k"} : T',
        "%b = stablehlo.add %ar, %x : T",
        f"%bs = {stats.format('%b')}",
        "%bs",
    )
    module = fused(text)
    dot = "stablehlo.dot_general quant.stats quant.stats_ref stablehlo.add"
    assert kernels(module) == [("all", dot)]
    inline_regions(regions(module))
    assert str(module) == str(parse_module(text))
    # Statistics that others see are those of a result.
    other = text.replace("quant.stats %b", "quant.stats %as")
    assert kernels(fused(other)) == [
        ("all", "stablehlo.dot_general"),
        ("stablehlo.add", "stablehlo.add"),
    ]


KERNEL = """
[[kernels]]
name = "k"
patterns = ["{}"]
inputs = [{}]
outputs = ["i8"]
"""


def test_constants():
    target = KERNEL.format("stablehlo.add -> stablehlo.tanh", '"i8", "const i32"')
    scalar = "%c = stablehlo.constant dense<1.0> : tensor<f32>"
    moved = "%b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> T"
    ends = ("%r = stablehlo.tanh %a : T", "%r")
    constant = function(scalar, moved, "%a = stablehlo.add %x, %b : T", *ends)
    assert kernels(fused(constant, target)) == [("k", "stablehlo.add stablehlo.tanh")]
    value = function("%a = stablehlo.add %x, %y : T", *ends)
    assert kernels(fused(value, target)) == []
    other = function(scalar, moved, "%a = stablehlo.add %b, %x : T", *ends)
    assert kernels(fused(other, target)) == []


def test_rectifiers():
    constants = [
        "%w = stablehlo.constant dense<0.5> : T",
        "%b = stablehlo.constant dense<1.5> : T",
        "%z = stablehlo.constant dense<0.0> : T",
    ]
    dot = "%a = " + DOT.replace("%y", "%w")
    for op in ("stablehlo.maximum %c, %z", "stablehlo.clamp %z, %c, %b"):
        text = function(
            *constants, dot, "%c = stablehlo.add %a, %b : T", f"%d = {op} : T", "%d"
        )
        module = parse_module(text)
        fuse_kernels(module, read_target("stablehlo-int8"))
        assert [region.kernel for region in regions(module)] == ["product_bias_relu"]


@pytest.mark.parametrize(
    ("op", "type_"),
    [
        ('%a = "tfl.tanh"(%x) : (T) -> T', "tensor<4xi32>"),
        (
            '%a = "tfl.tanh"(%x) : (T) -> T',
            "tensor<4x!quant.uniform<i8:f32, 7.812500e-03>>",
        ),
    ],
)
def test_types_that_no_signature_has(op: str, type_: str):
    text = function(op, "%a", arguments="%x: T").replace(T, type_)
    assert kernels(fused(text, KERNEL.format("tfl.tanh", '"i8"'))) == []


def test_effects():
    target = KERNEL.format("func.call -> arith.addf", '"i8", "..."')
    text = f"func.func private @g({T}) -> {T}\n" + function(
        "%a = func.call @g(%x) : (T) -> T", "%b = arith.addf %a, %y : T", "%b"
    )
    assert kernels(fused(text, target)) == []


def test_absent_operands_are_ports():
    attributes = (
        '<{asymmetric_quantize_inputs = false, fused_activation_function = "NONE", '
        'keep_num_dims = false, weights_format = "DEFAULT"}>'
    )
    text = function(
        '%n = "tfl.no_value"() <{value}> : () -> none',
        f'%a = "tfl.fully_connected"(%x, %y, %n) {attributes} : (T, T, none) -> T',
        "%a",
    )
    module = parse_module(text)
    apply_passes(module, "quant-fuse-kernels{target=tflite-int8}")
    (region,) = regions(module)
    assert region.kernel == "tfl.fully_connected"
    assert len(region.inputs) == 3


REDUCE = """
func.func @f(%x: tensor<4x4xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %a = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}
"""


def test_bodies_have_no_kernels(capsys: pytest.CaptureFixture[str]):
    module = parse_module(REDUCE)
    apply_passes(module, "quant-fuse-kernels{target=stablehlo-int8}")
    assert kernels(module) == [("stablehlo.reduce[stablehlo.add]", "stablehlo.reduce")]
    other = parse_module(REDUCE.replace("stablehlo.add", "stablehlo.multiply"))
    apply_passes(other, "quant-fuse-kernels{target=stablehlo-int8}")
    assert capsys.readouterr().err == (
        "warning: 'quant-fuse-kernels' changed nothing, expected chains of ops with the "
        "types of a kernel of target 'stablehlo-int8', found 1 'stablehlo.multiply'; see "
        "xdsl-quant target check\n"
    )


GENERIC = """
#m = affine_map<(i) -> (i)>
func.func @f(%x: tensor<4xf32>, %s: f32) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %a = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%in: f32, %out: f32):
      %b = arith.addf %in, %s : f32
      linalg.yield %b : f32
  } -> tensor<4xf32>
  return %a : tensor<4xf32>
}
"""


def test_values_that_a_body_uses_are_ports():
    target = KERNEL.format("linalg.generic | arith.addf", '"i8", "-", "i8"')
    module = parse_module(GENERIC)
    original = str(module)
    fuse_kernels(module, parse_target(target))
    module.verify()
    (region,) = regions(module)
    assert [value.name_hint for value in region.inputs] == ["x", "e", "s"]
    inline_regions([region])
    assert str(module) == original


def test_control_flow():
    loop = """
    func.func @f(%x: T, %c: i1) -> T {
      %r = scf.if %c -> (T) {
        %a = arith.addf %x, %x : T
        scf.yield %a : T
      } else {
        scf.yield %x : T
      }
      return %r : T
    }""".replace("T", T)
    assert kernels(fused(loop)) == [("arith.addf", "arith.addf")]


def test_attributes_and_locations():
    module = parse_module(
        function("%a = stablehlo.tanh %x {mine = 3 : i64} : T", "%a"), "m.mlir"
    )
    apply_passes(module, "quant-fuse-kernels{target=stablehlo-int8}")
    (region,) = regions(module)
    first = region.body.block.first_op
    assert first is not None
    assert "mine = 3" in str(first)
    assert str(first.location) == str(region.location)
    assert "m.mlir" in str(first.location)


# Patterns in Python


def _exp_of_sum(op: Operation) -> Sequence[Operation] | None:
    """`exp(a + b)` and the sum, which others may use."""
    if op.name != "math.exp" or not isinstance(op.operands[0].owner, Operation):
        return None
    return [op.operands[0].owner, op]


def _target(pattern: MatchFn) -> TargetSpec:
    port = read_target("tflite-int8").kernels["tfl.tanh"].signatures[0].inputs[0]
    signature = Signature([port, port], [port, port])
    return TargetSpec("t", {"k": KernelSpec("k", [signature], [pattern])})


def test_pattern_in_python():
    lines = ["%a = arith.addf %x, %y : T", "%b = math.exp %a : T"]
    module = parse_module(function(*lines, "%c = arith.mulf %a, %b : T", "%c"))
    original = str(module)
    assert fuse_kernels(module, _target(_exp_of_sum)) == 1
    module.verify()
    (region,) = regions(module)
    assert [result.name_hint for result in region.results] == ["a", "b"]
    inline_regions([region])
    assert str(module) == original
    # The sum is used before the kernel has it.
    early = function(
        lines[0],
        "%d = arith.mulf %a, %a : T",
        lines[1],
        "%c = arith.mulf %d, %b : T",
        "%c",
    )
    assert fuse_kernels(parse_module(early), _target(_exp_of_sum)) == 0


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (1, "pattern '_pattern' returned '1', expected ops or None"),
        ([1], "pattern '_pattern' returned '[1]', expected ops or None"),
        (None, "pattern '_pattern' failed: ValueError: no ops"),
    ],
)
def test_pattern_in_python_that_fails(returned: Any, message: str):
    """Nothing changes, though kernels were found before."""

    def _pattern(op: Operation) -> Any:
        if op.name != "arith.mulf":
            return _exp_of_sum(op)
        if returned is None:
            raise ValueError("no ops")
        return returned

    lines = ["%a = arith.addf %x, %y : T", "%b = math.exp %a : T"]
    first = function(*lines, "%b")
    second = function("%a = arith.mulf %x, %y : T", "%a").replace("@f", "@g")
    module = parse_module(first + second)
    original = str(module)
    with pytest.raises(PassFailedException) as caught:
        fuse_kernels(module, _target(_pattern))
    assert str(caught.value).endswith(f"error: {message}")
    assert str(module) == original


def _reduction(op: Operation) -> Sequence[Operation] | None:
    return [op] if op.name == "stablehlo.reduce" else None


def test_the_first_kernel_of_the_target_is_taken():
    """Whatever its pattern is: a name, a name with a region, or a function."""
    text = """
func.func @f(%x: tensor<2x3xf32>, %z: tensor<f32>) -> tensor<2xf32> {
  %0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}
"""
    kernel = '[[kernels]]\nops = ["{}"]\ninputs = ["i8", "i8"]\noutputs = ["i8"]\n'
    named = kernel.format("stablehlo.reduce")
    with_region = kernel.format("stablehlo.reduce[stablehlo.add]")
    specs = parse_target(named + with_region).kernels
    assert [*specs] == ["stablehlo.reduce", "stablehlo.reduce[stablehlo.add]"]
    signatures = specs["stablehlo.reduce"].signatures
    specs = {**specs, "function": KernelSpec("function", signatures, [_reduction])}
    for names in permutations(specs):
        module = parse_module(text)
        fuse_kernels(module, TargetSpec("t", {name: specs[name] for name in names}))
        assert kernels(module) == [(names[0], "stablehlo.reduce")]


@pytest.mark.parametrize("op", ["func.call", "func.return", "stablehlo.constant"])
def test_ops_that_cannot_be_part_of_a_kernel(op: str):
    module = parse_module(
        """
func.func private @g(tensor<2xf32>) -> tensor<2xf32>
func.func @f() -> tensor<2xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<2xf32>
  %1 = func.call @g(%0) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %1 : tensor<2xf32>
}
"""
    )
    text = f'[[kernels]]\nops = ["{op}"]\ninputs = ["i8"]\noutputs = ["i8"]\n'
    assert not fuse_kernels(module, parse_target(text))


# Messages


def test_nothing_is_fused(capsys: pytest.CaptureFixture[str]):
    module = parse_module(function("%a = arith.addf %x, %y : T", "%a"))
    apply_passes(module, "quant-fuse-kernels{target=tflite-int8}")
    assert capsys.readouterr().err == (
        "warning: 'quant-fuse-kernels' changed nothing, expected chains of ops with the "
        "types of a kernel of target 'tflite-int8', found none\n"
    )
    other = parse_module(
        function('%a = "tfl.tanh"(%x) : (T) -> T', "%a", arguments="%x: T").replace(
            T, "tensor<4xi32>"
        )
    )
    apply_passes(other, "quant-fuse-kernels{target=tflite-int8}")
    assert "found 1 'tfl.tanh'; see xdsl-quant target" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["quant-fuse-kernels", "quant-propagate"])
def test_no_target(name: str):
    with pytest.raises(
        IRError,
        match=r"missing option 'target', available: 'mac-array', .*; use one of them, or "
        r"the path of a \.toml file",
    ):
        apply_passes(parse_module(function("%x")), name)


def test_no_such_target(tmp_path: Path):
    module = parse_module(function("%x"))
    with pytest.raises(IRError, match="unknown target 'npu', available: 'mac-array'"):
        apply_passes(module, "quant-fuse-kernels{target=npu}")
    path = tmp_path / "npu.toml"
    path.write_text("kernel = []")
    with pytest.raises(
        IRError, match=re.escape(f"{path}:1: error: unknown key, found 'kernel' in a")
    ):
        apply_passes(module, f'quant-fuse-kernels{{target="{path}"}}')


# Documents


def test_the_kernel_that_contributing_adds_to_a_target():
    root = Path(__file__).parents[4]
    (kernel,) = re.findall(
        r"```toml\n(.*?)```", (root / "CONTRIBUTING.md").read_text(), re.S
    )
    target = target_extensions().targets["mac-array"]().read_text()
    text = function("%0 = stablehlo.negate %x : T", "%0")
    assert kernels(fused(text, target)) == []
    assert kernels(fused(text, target + kernel)) == [
        ("stablehlo.negate", "stablehlo.negate")
    ]
