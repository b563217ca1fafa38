"""Fake quantization as casts, compared with types that MLIR 14 chose, and chooses."""

import csv
import random
import re
import struct
import subprocess
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects import builtin, func
from xdsl.dialects.builtin import TensorType, bf16, f16, f32, f64, f80
from xdsl.ir import Attribute, Block, Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from tests.unit.mlir_14 import MLIR_OPT_14, needs_mlir_14
from xdsl_quant.dialects.quant import (
    ConstFakeQuantOp,
    DequantizeCastOp,
    Quant,
    QuantizeCastOp,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.transforms.statistics.quant_convert_simulated_quantization import (
    QuantConvertSimulatedQuantizationPass,
    quantized_result_type,
)
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE


def rows() -> list[list[str]]:
    path = Path(__file__).parents[2] / "numerics" / "fake_quant_types.tsv"
    with path.open() as file:
        return list(csv.reader((x for x in file if x[0] != "#"), delimiter="\t"))


def parse(text: str) -> builtin.ModuleOp:
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, Quant):
        ctx.load_dialect(dialect)
    module = Parser(ctx, text).parse_module()
    module.verify()
    return module


def convert(text: str, *, exact_bits: bool = False) -> builtin.ModuleOp:
    module = parse(text)
    QuantConvertSimulatedQuantizationPass(exact_bits).apply(Context(), module)
    module.verify()
    return module


def element_type(op: ConstFakeQuantOp, *, exact_bits: bool = False) -> str:
    quantized = quantized_result_type(op, exact_bits=exact_bits)
    return str(scalar_or_element_type(quantized))


def fake_quant(
    low: float, high: float, num_bits: int = 8, type_: Attribute = f32
) -> ConstFakeQuantOp:
    value = Block(arg_types=[TensorType(type_, (4,))]).args[0]
    return ConstFakeQuantOp(value, low, high, num_bits)


def test_registered():
    name = QuantConvertSimulatedQuantizationPass.name
    assert name == "quant-convert-simulated-quantization"
    factory = XDSL_QUANT_UNIVERSE.all_passes[name]
    assert factory() is QuantConvertSimulatedQuantizationPass


def test_types_of_mlir_14():
    table = rows()
    assert len(table) >= 160
    value = Block(arg_types=[TensorType(f32, (4,))]).args[0]
    for num_bits, narrow_range, is_signed, low, high, expected in table:
        op = ConstFakeQuantOp(
            value,
            float(low),
            float(high),
            int(num_bits),
            narrow_range=narrow_range == "True",
            is_signed=is_signed == "True",
        )
        assert element_type(op) == expected


# Random ops

_SCALES = (1e-30, 1e-17, 1e-8, 0.1, 1.0, 3.0, 1e4, 1e38)


def bound(source: random.Random) -> float:
    return source.choice(
        (0.0, 1.0, -1.0, source.choice(_SCALES) * source.uniform(-3, 3))
    )


def bounds(source: random.Random) -> tuple[str, str]:
    """The text of two numbers of type f32, the smaller one first."""
    pair = sorted((bound(source), bound(source)))
    low, high = (struct.unpack("<f", struct.pack("<f", x))[0] for x in pair)
    return f"{low:.17e} : f32", f"{high:.17e} : f32"


def random_attributes(source: random.Random, count: int | None) -> str:
    if count is None:
        low, high = bounds(source)
    else:
        lows, highs = zip(*(bounds(source) for _ in range(count)), strict=True)
        low, high = (f"[{', '.join(side)}]" for side in (lows, highs))
    attributes = [f"min = {low}", f"max = {high}"]
    if count is not None:
        attributes.append(f"axis = {source.randrange(2)}")
    attributes.append(f"num_bits = {source.randint(2, 32)}")
    for flag in ("narrow_range", "is_signed"):
        if source.random() < 0.7:
            attributes.append(f"{flag} = {source.choice(('true', 'false'))}")
    return ", ".join(attributes)


def random_op(source: random.Random) -> str:
    if source.random() < 0.5:
        attributes = random_attributes(source, None)
        type_ = source.choice(("tensor<*xf32>", "tensor<4xf32>", "tensor<?x2xf32>"))
        return f'"quant.const_fake_quant"(%x) {{{attributes}}} : ({type_}) -> {type_}'
    count = source.randint(1, 5)
    attributes = random_attributes(source, count)
    type_ = source.choice(
        ("tensor<*xf32>", f"tensor<{count}x{count}xf32>", "tensor<?x?xf32>")
    )
    return (
        f'"quant.const_fake_quant_per_axis"(%x) {{{attributes}}} : ({type_}) -> {type_}'
    )


def function(index: int, op: str) -> str:
    type_ = op.rsplit(" -> ", 1)[1]
    return (
        f"func @f{index}(%x: {type_}) -> {type_} {{\n%0 = {op}\nreturn %0 : {type_}\n}}"
    )


@needs_mlir_14
def test_random_ops_become_what_mlir_14_makes_of_them():
    source = random.Random(0)
    text = "\n".join(function(index, random_op(source)) for index in range(500))
    assert MLIR_OPT_14 is not None
    command = [MLIR_OPT_14, "-quant-convert-simulated-quantization", "-"]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=True
    )
    expected = re.findall(r'"quant\.qcast".*-> (.*)', done.stdout)
    module = convert(text.replace("func @", "func.func @"))
    ops = list(module.walk())
    types = [str(op.result.type) for op in ops if isinstance(op, QuantizeCastOp)]
    assert len(types) == 500
    assert types == expected
    assert sum(isinstance(op, DequantizeCastOp) for op in ops) == 500


# What MLIR 14 does not do


@pytest.mark.parametrize(
    ("num_bits", "expected"),
    [
        (1, "!quant.uniform<u1:f32, 1.000000e+00>"),
        (2, "!quant.uniform<u2:f32, 0.33333333333333331>"),
        (8, "!quant.uniform<u8:f32, 0.0039215686274509803>"),
        (9, "!quant.uniform<u9:f32, 0.0019569471624266144>"),
        (32, "!quant.uniform<u32:f32, 2.3283064370807974E-10>"),
    ],
)
def test_exact_bits(num_bits: int, expected: str):
    assert element_type(fake_quant(0.0, 1.0, num_bits), exact_bits=True) == expected


def test_other_expressed_types():
    for type_ in (f16, bf16, f64, f80):
        expected = f"!quant.uniform<u8:{type_}, 0.0039215686274509803>"
        assert element_type(fake_quant(0.0, 1.0, type_=type_)) == expected


def failure(text: str, *, exact_bits: bool = False) -> str:
    """The message of a conversion that fails and leaves everything as it was."""
    module = parse(text)
    before = str(module)
    with pytest.raises(PassFailedException) as error:
        QuantConvertSimulatedQuantizationPass(exact_bits).apply(Context(), module)
    assert str(module) == before
    return str(error.value)


def test_nothing_changes_if_one_of_many_ops_fails():
    message = failure("""
      func.func @f(%x: f32) {
        %0 = quant.const_fake_quant %x <0.0:1.0> bits 8 : f32
        %1 = quant.const_fake_quant %x <1.0:0.0> bits 8 : f32
        return
      }""")
    assert "'quant.const_fake_quant' op cannot be converted: range 1.0 to 0.0 is " in (
        message
    )


def test_the_message_says_where():
    message = failure("""
      func.func @f(%x: f32) {
        %0 = quant.const_fake_quant %x <0.0:1.0> bits 33 : f32 loc("model.mlir":3:5)
        return
      }""")
    assert message.endswith(
        "model.mlir:3:5: error: unsupported FakeQuant number of bits: 33"
    )


def test_names_and_locations_are_kept():
    module = convert("""
      func.func @f(%x: f32) -> f32 {
        %y = quant.const_fake_quant %x <0.0:1.0> bits 8 : f32 loc("model.mlir":3:5)
        return %y : f32
      }""")
    casts: list[Operation] = [
        op for op in module.walk() if isinstance(op, QuantizeCastOp | DequantizeCastOp)
    ]
    assert [op.results[0].name_hint for op in casts] == ["y", "y"]
    assert [str(op.location) for op in casts] == ['loc("model.mlir":3:5)'] * 2
