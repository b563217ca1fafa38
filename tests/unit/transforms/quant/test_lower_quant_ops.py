"""`lower-quant-ops` where the text of the filecheck tests does not reach."""

import re
import sys
from pathlib import Path
from types import FrameType

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import cf
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.universe import Universe
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant import execution
from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.rounding_mode import RoundingMode
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.quant.lower_quant_ops import (
    LowerQuantCast,
    LowerQuantOpsPass,
)


def _parse(text: str) -> tuple[Context, ModuleOp]:
    ctx = Context(allow_unregistered=True)
    for name, factory in Universe.get_multiverse().all_dialects.items():
        ctx.register_dialect(name, factory)
    module = Parser(ctx, text).parse_module()
    module.verify()
    return ctx, module


def _lower(text: str, lower: LowerQuantOpsPass) -> ModuleOp:
    ctx, module = _parse(text)
    lower.apply(ctx, module)
    module.verify()
    return module


TWO_CASTS = """
func.func @f(%x: f32) -> (!quant.uniform<i8:f32, 1.0>, !quant.any<i8:f32>) {
  %a = quant.qcast %x : f32 to !quant.uniform<i8:f32, 1.0>
  %b = quant.qcast %x : f32 to !quant.any<i8:f32>
  return %a, %b : !quant.uniform<i8:f32, 1.0>, !quant.any<i8:f32>
}
"""


@pytest.mark.parametrize("zero_point", [127, 128, 129, 255])
def test_unsigned_zero_points_of_an_axis(zero_point: int):
    """They are signless in a tensor, where half of them are negative."""
    type_ = f"!quant.uniform<u8:f32:0, {{1.0:3, 2.0:{zero_point}}}>"
    module = _lower(
        f"""
        func.func @f(%x: tensor<2xf32>) -> tensor<2x{type_}> {{
          %q = quant.qcast %x : tensor<2xf32> to tensor<2x{type_}>
          return %q : tensor<2x{type_}>
        }}
        """,
        LowerQuantOpsPass(),
    )
    signed = zero_point - 256 if zero_point > 127 else zero_point
    assert f"dense<[3, {signed}]> : tensor<2xi8>" in str(module)


def test_a_cast_that_cannot_be_lowered_leaves_the_module_as_it_was():
    ctx, module = _parse(TWO_CASTS)
    before = str(module)
    message = (
        "'quant.qcast' op cannot be lowered: type '!quant.any<i8:f32>' has no scale"
    )
    with pytest.raises(PassFailedException) as failure:
        LowerQuantOpsPass().apply(ctx, module)
    assert str(failure.value) == message
    assert str(module) == before


def test_the_message_has_the_place_of_the_op_if_it_is_known():
    ctx, module = _parse(TWO_CASTS)
    for op in module.walk():
        op.location = FileLineColLoc(StringAttr("a.mlir"), IntAttr(3), IntAttr(8))
    with pytest.raises(
        PassFailedException, match=r"^a\.mlir:3:8: error: 'quant\.qcast'"
    ):
        LowerQuantOpsPass().apply(ctx, module)


@pytest.mark.parametrize("mode", ["truncate", "nearest-even"])
@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("tensor", ["", "2x", "?x", "*x"])
def test_ops_have_the_location_of_the_cast(tensor: str, fuse: bool, mode: RoundingMode):
    expressed, quantized = (
        f"tensor<{tensor}{element}>" if tensor else element
        for element in ("f32", "!quant.uniform<i8:f32, 0.5:3>")
    )
    ctx, module = _parse(
        f"func.func @f(%x: {expressed}) -> {quantized} {{\n"
        f"  %q = quant.qcast %x : {expressed} to {quantized}\n"
        f"  return %q : {quantized}\n}}"
    )
    location = FileLineColLoc(StringAttr("a.mlir"), IntAttr(2), IntAttr(8))
    for op in module.walk():
        op.location = location
    LowerQuantOpsPass(mode, fuse).apply(ctx, module)
    assert {op.location for op in module.walk()} == {location}


def test_a_pattern_of_its_own():
    _, module = _parse(
        """
func.func @f(%x: f32) -> f32 {
  %q = quant.qcast %x : f32 to !quant.uniform<i8:f32, 1.0>
  %y = quant.dcast %q : !quant.uniform<i8:f32, 1.0> to f32
  return %y : f32
}
"""
    )
    walker = PatternRewriteWalker(LowerQuantCast("nearest-even"))
    assert walker.rewrite_module(module)
    module.verify()
    casts = (QuantizeCastOp, DequantizeCastOp)
    assert not any(isinstance(op, casts) for op in module.walk())


def test_one_cast_is_lowered_by_few_files():
    """Who knows MLIR's file of this name reads the lowering of a cast in one sitting."""
    package = Path(execution.__file__).parents[1]
    example = package.parent / "docs/examples/quantize.mlir"
    _, module = _parse(example.read_text())
    (op,) = (op for op in module.walk() if isinstance(op, QuantizeCastOp))
    pattern, rewriter = LowerQuantCast(), PatternRewriter(op)
    entered: set[Path] = set()

    def record(frame: FrameType, event: str, _: object) -> None:
        entered.add(Path(frame.f_code.co_filename))

    sys.setprofile(record)
    try:
        pattern.match_and_rewrite(op, rewriter)
    finally:
        sys.setprofile(None)
    names = sorted(path.name for path in entered if package in path.parents)
    assert "lower_quant_ops.py" in names
    assert len(names) <= 8, names


@pytest.mark.parametrize("count", [2, 4, 6, 8, 10])
def test_casts_in_a_ring(count: int):
    """In a graph region casts may be each other's operands."""
    lines = [
        f"%{i} = quant.qcast %{(i + 1) % count} : f32 to !quant.uniform<i8:f32, 1.0>"
        if i % 2 == 0
        else f"%{i} = quant.dcast %{(i + 1) % count} : !quant.uniform<i8:f32, 1.0> to f32"
        for i in range(count)
    ]
    text = "\n".join(lines)
    module = _lower(text, LowerQuantOpsPass())
    assert "arith.divf" in str(module)
    ctx, module = _parse(text)
    CanonicalizePass().apply(ctx, module)
    module.verify()


@pytest.mark.parametrize(
    "quantized_type",
    [
        "!quant.uniform<i1:f8E8M0FNU, 1.0>",
        "!quant.uniform<i4:f8E4M3FN, 0.0625>",
        "!quant.uniform<i4:f6E2M3FN, 1.0>",
        "!quant.uniform<i5:f8E3M4, 1.0>",
        "!quant.uniform<i2:f4E2M1FN, 1.0>",
    ],
)
def test_narrow_float_types_are_not_computed_in(quantized_type: str):
    expressed = quantized_type.split(":")[1].split(",")[0]
    lowered = str(
        _lower(
            f"func.func @f(%x: {expressed}) -> {quantized_type} {{\n"
            f"  %q = quant.qcast %x : {expressed} to {quantized_type}\n"
            f"  return %q : {quantized_type}\n}}",
            LowerQuantOpsPass("nearest-even"),
        )
    )
    assert f"arith.extf %x : {expressed} to f32" in lowered
    assert "arith.divf" in lowered
    assert lowered.count(f": {expressed}\n") == 0


@pytest.mark.parametrize(
    ("storage", "conversion"),
    [
        ("i8", "fptosi i32"),
        ("u8", "fptosi i32"),
        ("u16", "fptosi i32"),
        ("i17", "fptosi i17"),
        ("u17", "fptoui i17"),
        ("i32", "fptosi i32"),
    ],
)
def test_floats_become_narrow_integers_by_way_of_i32(storage: str, conversion: str):
    quantized_type = f"!quant.uniform<{storage}:f64, 0.5>"
    lowered = str(
        _lower(
            f"func.func @f(%x: f64) -> {quantized_type} {{\n"
            f"  %q = quant.qcast %x : f64 to {quantized_type}\n"
            f"  return %q : {quantized_type}\n}}",
            LowerQuantOpsPass("nearest-even"),
        )
    )
    found = re.findall(r"arith\.(fpto[su]i) .* to (\w+)", lowered)
    assert found == [tuple(conversion.split())]
    assert lowered.count("arith.trunci") == (storage[1:] in ("8", "16"))


@pytest.mark.parametrize(
    ("quantized_type", "messages"),
    [
        (
            "!quant.uniform<i8:f32:1, {1.0,2.0}>",
            [
                "rank must be greater than 1: the last quantized dimension",
                "size of dimension 1 must be 2: the number of scales",
            ],
        ),
        (
            "!quant.uniform<i8:f32:{1:4}, {{1.0, 2.0}}>",
            [
                "rank must be 2: the rank of the scales",
                "size of dimension 1 must be 8: 2 blocks of 4",
            ],
        ),
        (
            "!quant.uniform<i8:f32:{1:4}, {1.0, 2.0}>",
            [
                "rank must be greater than 1: the last quantized dimension",
                "size of dimension 1 must be 8: 2 blocks of 4",
            ],
        ),
        (
            "!quant.uniform<i8:f32:{}, {{1.0}}>",
            ["rank must be 2: the rank of the scales"],
        ),
        ("!quant.uniform<i8:f32, 1.0>", []),
    ],
)
def test_runtime_checks_of_unranked_tensors(quantized_type: str, messages: list[str]):
    ctx, module = _parse(
        f"func.func @f(%x: tensor<*xf32>) -> tensor<*x{quantized_type}> {{\n"
        f"  %q = quant.qcast %x : tensor<*xf32> to tensor<*x{quantized_type}>\n"
        f"  return %q : tensor<*x{quantized_type}>\n}}"
    )
    location = FileLineColLoc(StringAttr("a.mlir"), IntAttr(2), IntAttr(8))
    for op in module.walk():
        op.location = location
    LowerQuantOpsPass(runtime_checks=True).apply(ctx, module)
    module.verify()
    assertions = [op for op in module.walk() if isinstance(op, cf.AssertOp)]
    assert [op.msg.data for op in assertions] == messages
    assert all(op.location == location for op in assertions)


FAKE_QUANTIZATION = """
!q = !quant.uniform<i8:f32, 0.5>
func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %q = quant.qcast %x : tensor<3xf32> to tensor<3x!q>
  %y = quant.dcast %q : tensor<3x!q> to tensor<3xf32>
  return %y : tensor<3xf32>
}"""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", [0.25, 0.75, 50.0]),
        ("keep-qdq=false", [0.25, 0.75, 50.0]),
        ("keep-qdq=true", [0.0, 0.5, 50.0]),
        ("rounding-mode=nearest-even", [0.0, 1.0, 50.0]),
        ("rounding-mode=nearest-even keep-qdq=true", [0.0, 1.0, 50.0]),
        ("rounding-mode=nearest-even keep-qdq=false", [0.25, 0.75, 50.0]),
        ("rounding-mode=nearest-away", [0.5, 1.0, 50.0]),
        ("rounding-mode=nearest-away keep-qdq=false", [0.25, 0.75, 50.0]),
    ],
)
def test_what_is_quantized_and_dequantized(options: str, expected: list[float]):
    module = parse_module(FAKE_QUANTIZATION)
    apply_passes(module, f"lower-quant-ops{{{options}}}")
    values = np.array([0.25, 0.75, 50], np.float32)
    (result,) = run_function(module, "f", values)
    assert result.tolist() == expected


def test_one_file_gives_one_answer():
    values = np.array([0.3, 0.74, 200], np.float32)
    module = parse_module(FAKE_QUANTIZATION)
    (interpreted,) = run_function(module, "f", values)
    compiled = execution.compile(module)(values)
    apply_passes(module, "lower-quant-ops{rounding-mode=nearest-even},canonicalize")
    (lowered,) = run_function(module, "f", values)
    for result in (interpreted, compiled, lowered):
        assert result.tolist() == [0.5, 0.5, 63.5]


def test_storage_whose_values_just_fit_the_expressed_type():
    """All values of i12 are exact in f16, which has 11 bits: so it is computed in f16."""
    quantized = "tensor<4096x!quant.uniform<i12:f16, 0.0999755859375>>"
    text = f"""
        func.func @f(%x: tensor<4096xf16>) -> {quantized} {{
          %q = quant.qcast %x : tensor<4096xf16> to {quantized}
          return %q : {quantized}
        }}"""
    scale = np.float16(0.1)
    values = np.arange(-2048, 2048).astype(np.float16) * scale
    expected = np.clip(np.rint(values / scale), -2048, 2047).astype(np.int16)
    in_f32 = np.rint(values.astype(np.float32) / np.float32(scale))
    assert (in_f32 != expected).any()
    lowered = parse_module(text)
    apply_passes(lowered, "lower-quant-ops{rounding-mode=nearest-even}")
    for module in (parse_module(text), lowered):
        assert np.array_equal(run_function(module, "f", values)[0], expected)
    assert np.array_equal(execution.compile(text)(values), expected)
