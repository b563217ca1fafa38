"""Instrumentation ops, compared with MLIR 14 where it is installed."""

import re
import subprocess
from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects import builtin, func
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import dce
from xdsl.utils.exceptions import VerifyException

from tests.unit.mlir_14 import MLIR_OPT_14, needs_mlir_14
from xdsl_quant.dialects.quant import (
    ConstFakeQuantOp,
    ConstFakeQuantPerAxisOp,
    CoupledRefOp,
    Quant,
    StatisticsOp,
    StatisticsRefOp,
)
from xdsl_quant.dialects.quant.instrumentation import InstrumentationOp, ranges_of


def parse(text: str) -> builtin.ModuleOp:
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, Quant):
        ctx.load_dialect(dialect)
    return Parser(ctx, text).parse_module()


def op_of(module: builtin.ModuleOp) -> InstrumentationOp:
    (op,) = (op for op in module.walk() if isinstance(op, InstrumentationOp))
    return op


def answer(op: InstrumentationOp) -> str:
    try:
        op.verify_()
    except VerifyException as e:
        return str(e)
    return "valid"


def mlir_answer(generic: str, type_: str, result_type: str) -> str:
    """What MLIR 14 says about an op without its operand and types."""
    assert MLIR_OPT_14 is not None
    name, attributes = generic.split(" ", 1)
    text = (
        f'func @f(%x: {type_}) {{ %0 = "quant.{name}"(%x) {attributes} : ({type_}) -> '
        f"{result_type} return }}"
    )
    command = [MLIR_OPT_14, "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode == 0:
        return "valid"
    (message,) = re.findall("error: (.*)", done.stderr)
    return message


TENSOR = "tensor<8x4x3xf32>"

FAKE_QUANT = "const_fake_quant {min = 0.0 : f32, max = 1.0 : f32, num_bits = 8}"
STATS = "layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>"
REFS = ('stats_ref {statsKey = "a"}', 'coupled_ref {coupledKey = "a"}')


def axis_stats(axis: int, stats_type: str) -> str:
    return f"stats {{{STATS}, axis = {axis}, axisStats = dense<0.0> : {stats_type}}}"


# The answer is that of MLIR 14.
SAME = [
    *((FAKE_QUANT, t) for t in (TENSOR, "tensor<*xf32>", "tensor<?xf32>")),
    *(
        (f"const_fake_quant {{{attributes}}}", TENSOR)
        for attributes in (
            "",
            "max = 1.0 : f32, num_bits = 8",
            "min = 0.0 : f32, num_bits = 8",
            "min = 0.0 : f32, max = 1.0 : f32",
            "min = 0.0 : f64, max = 1.0 : f32, num_bits = 8",
            "min = 0.0 : f32, max = 1.0 : f32, num_bits = 8 : i32",
            "min = 0.0 : f32, max = 1.0 : f32, num_bits = 8, narrow_range",
            "min = 0.0 : f32, max = 1.0 : f32, num_bits = 8, narrow_range = 1 : i8",
            "min = 0.0 : f32, max = 1.0 : f32, num_bits = 8, is_signed = 3",
            "min = 0.0 : f32, max = 1.0 : f32, num_bits = 8, is_signed = false, a",
            "min = 1.0 : f32, max = 0.0 : f32, num_bits = -8",
            "min = 0x7FC00000 : f32, max = 0.0 : f32, num_bits = 100",
        )
    ),
    *(
        (f"const_fake_quant_per_axis {{{attributes}}}", TENSOR)
        for attributes in (
            "",
            "min = [0.0 : f32]",
            "min = [0.0 : f64], max = [1.0 : f32], axis = 0, num_bits = 8",
            "min = [], max = [1.0 : f32], axis = -1, num_bits = 8",
            "min = [], max = [1.0 : f32], axis = 0 : i32, num_bits = 8",
            "min = [0.0 : f32], max = [1 : i8], axis = 0, num_bits = 8",
            "min = [0.0 : f32], max = 1.0 : f32, axis = 0, num_bits = 8",
            "min = [0.0 : f32], max = [1.0 : f32], num_bits = 8",
            "min = [0.0 : f32], max = [1.0 : f32], axis = 0",
            "min = dense<0.0> : tensor<1xf32>, max = [1.0 : f32], axis = 0, num_bits = 8",
        )
    ),
    *(
        (f"stats {{{STATS}}}", t)
        for t in (
            "tensor<*xf32>",
            "tensor<?xf32>",
            "tensor<2xf16>",
            "tensor<2xi8>",
            "tensor<2x!quant.any<i8:f32>>",
            "i8",
            "memref<2xf32>",
        )
    ),
    *(
        (f"stats {{{attributes}}}", TENSOR)
        for attributes in (
            "",
            "layerStats = [1.0]",
            "layerStats = dense<[-1.0, 1.0]> : tensor<2xf64>",
            "layerStats = dense<[1, 1]> : tensor<2xi8>",
            "layerStats = dense<[-1.0, 1.0]> : vector<2xf32>",
            "layerStats = dense<1.0> : tensor<3xf32>",
            "layerStats = dense<1.0> : tensor<2x1xf32>",
            "layerStats = dense<1.0> : tensor<f32>",
            "layerStats = dense<[1.0, -1.0]> : tensor<2xf32>",
            f"{STATS}, axis = 0",
            f"{STATS}, axis = 2 : i32, axisStats = dense<0.0> : tensor<3x2xf32>",
            f"{STATS}, axisStats = dense<0.0> : tensor<8x2xf32>",
            f"{STATS}, axis = 1, axisStats = dense<0> : tensor<12x2xi32>",
        )
    ),
    *(
        (axis_stats(axis, stats_type), t)
        for axis, stats_type, t in (
            (2, "tensor<3x2xf32>", TENSOR),
            (2, "tensor<3x2xf64>", TENSOR),
            (2, "tensor<3x1xf32>", TENSOR),
            (2, "tensor<4x2xf32>", TENSOR),
            (2, "tensor<2xf32>", TENSOR),
            (2, "tensor<3x2x1xf32>", TENSOR),
            (1, "tensor<12x2xf32>", TENSOR),
            (0, "tensor<96x2xf32>", TENSOR),
            (-1, "tensor<3x2xf32>", TENSOR),
            (1, "tensor<3x2xf32>", "tensor<?x3xf32>"),
            (0, "tensor<3x2xf32>", "tensor<*xf32>"),
        )
    ),
    *(
        (ref, t)
        for ref in REFS
        for t in (
            TENSOR,
            "f32",
            "tensor<*xf32>",
            "tensor<2xi8>",
            "tensor<2x!quant.any<i8:f32>>",
            "!quant.any<i8:f32>",
            "i8",
            "vector<2xf32>",
            "vector<2xi8>",
            "memref<2xf32>",
        )
    ),
    ("stats_ref {}", "f32"),
    ("stats_ref {statsKey = 1}", "f32"),
    ('stats_ref {statsKey = ""}', "f32"),
    ("coupled_ref {}", "f32"),
    ("coupled_ref {coupledKey = 1}", "f32"),
]


def generic_op(generic: str, type_: str, result_type: str) -> InstrumentationOp:
    name, attributes = generic.split(" ", 1)
    return op_of(
        parse(
            f'func.func @f(%x: {type_}) {{ %0 = "quant.{name}"(%x) {attributes} : '
            f"({type_}) -> {result_type} func.return }}"
        )
    )


@needs_mlir_14
@pytest.mark.parametrize(("generic", "type_"), SAME)
def test_answers_are_those_of_mlir_14(generic: str, type_: str):
    expected = mlir_answer(generic, type_, type_)
    assert answer(generic_op(generic, type_, type_)) == expected


@needs_mlir_14
@pytest.mark.parametrize(("generic", "type_"), SAME)
def test_generic_form_is_that_of_mlir_14(generic: str, type_: str):
    op = generic_op(generic, type_, type_)
    if answer(op) != "valid":
        return
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(op)
    assert stream.getvalue().startswith(f'%0 = "{op.name}"(%x) {{')
    written = stream.getvalue().removeprefix('%0 = "quant.').replace('"(%x)', "", 1)
    written = written.rpartition(" : (")[0]
    assert mlir_answer(written, type_, type_) == "valid"


@needs_mlir_14
@pytest.mark.parametrize("generic", [FAKE_QUANT, f"stats {{{STATS}}}", *REFS])
def test_types_differ(generic: str):
    types = ("tensor<2xf32>", "tensor<3xf32>")
    assert answer(generic_op(generic, *types)) == mlir_answer(generic, *types)


@pytest.mark.parametrize(("generic", "type_"), SAME)
def test_every_op_reads_back_valid_or_not(generic: str, type_: str):
    module = generic_op(generic, type_, type_).get_toplevel_object()
    assert isinstance(module, builtin.ModuleOp)
    text = str(module)
    again = parse(text)
    assert str(again) == text
    assert again.is_structurally_equivalent(module)


@pytest.mark.parametrize(
    ("generic", "type_", "expected"),
    [
        *((FAKE_QUANT, t, "valid") for t in ("f32", "f8E4M3FN", "tensor<2xbf16>")),
        (f"stats {{{STATS}}}", "f32", "valid"),
        (f"stats {{{STATS}}}", "vector<2xf32>", "valid"),
        # One range for each index of any dimension.
        (axis_stats(0, "tensor<8x2xf32>"), TENSOR, "valid"),
        (axis_stats(1, "tensor<4x2xf32>"), TENSOR, "valid"),
        (axis_stats(1, "tensor<3x2xf32>"), "tensor<2x3x?xf32>", "valid"),
        # As many ranges as there may be indices of a dimension of dynamic size.
        (axis_stats(0, "tensor<1x2xf32>"), "tensor<?x3xf32>", "valid"),
        (axis_stats(1, "tensor<7x2xf32>"), "tensor<4x?x3xf32>", "valid"),
        *(
            (
                axis_stats(axis, "tensor<1x2xf32>"),
                t,
                "'quant.stats' op axisStats must have shape [N,2] where N = the slice "
                "size defined by the axis dim",
            )
            # MLIR accepts the first two, and crashes for the others.
            for axis, t in (
                (3, TENSOR),
                (0, "tensor<*xf32>"),
                (5, TENSOR),
                (1, "tensor<*xf32>"),
            )
        ),
    ],
)
def test_answers_that_differ_from_mlir_14(generic: str, type_: str, expected: str):
    assert answer(generic_op(generic, type_, type_)) == expected


def test_a_static_size_is_no_dynamic_one():
    # MLIR 14 takes them for the same type.
    op = generic_op(FAKE_QUANT, "tensor<2xf32>", "tensor<?xf32>")
    assert answer(op) == (
        "'quant.const_fake_quant' op requires the same type for all operands and results"
    )


def test_constructors():
    x = Block(arg_types=[TensorType(f32, (4, 2))]).args[0]
    ops: list[tuple[InstrumentationOp, str]] = [
        (
            ConstFakeQuantOp(x, -1.0, 1.0, 8),
            "const_fake_quant {min = -1.0 : f32, max = 1.0 : f32, num_bits = 8}",
        ),
        (
            ConstFakeQuantOp(x, -1.0, 0.1, 4, is_signed=True, narrow_range=True),
            "const_fake_quant {min = -1.0 : f32, max = 0.1 : f32, num_bits = 4, "
            "is_signed = true, narrow_range = true}",
        ),
        (
            ConstFakeQuantPerAxisOp(x, (-1.0, 0.0), (1.0, 2.0), 1, 8, is_signed=True),
            "const_fake_quant_per_axis {min = [-1.0 : f32, 0.0 : f32], "
            "max = [1.0 : f32, 2.0 : f32], axis = 1, num_bits = 8, is_signed = true}",
        ),
        (StatisticsOp(x, (-1.0, 1.0)), f"stats {{{STATS}}}"),
        (
            StatisticsOp(x, (-1.0, 1.0), [(-1.0, 0.0), (0.5, 1.0)], 1),
            f"stats {{{STATS}, axis = 1, "
            "axisStats = dense<[[-1.0, 0.0], [0.5, 1.0]]> : tensor<2x2xf32>}",
        ),
        (StatisticsRefOp(x, "a"), 'stats_ref {statsKey = "a"}'),
        (CoupledRefOp(x, "a"), 'coupled_ref {coupledKey = "a"}'),
    ]
    for op, generic in ops:
        assert answer(op) == "valid"
        expected = generic_op(generic, "tensor<4x2xf32>", "tensor<4x2xf32>")
        assert op.attributes == expected.attributes
        assert op.result.type == x.type


def test_ranges_of_statistics():
    x = Block(arg_types=[TensorType(f32, (3,))]).args[0]
    op = StatisticsOp(x, (-1.0, 1.0), [(-1.0, 0.0), (0.5, 1.0), (0.0, 0.0)], 0)
    assert ranges_of(op.layer_stats) == [(-1.0, 1.0)]
    assert op.axis_stats is not None
    assert ranges_of(op.axis_stats) == [(-1.0, 0.0), (0.5, 1.0), (0.0, 0.0)]


UNUSED = """
func.func @f(%x: f32) {
  %0 = quant.const_fake_quant %x <0.0:1.0> bits 8 : f32
  %1 = quant.stats %x <0.0:1.0> : f32
  %2 = quant.stats_ref %x "a" : f32
  %3 = quant.stats_ref %x "a" : f32
  %4 = quant.coupled_ref %x "a" : f32
  return
}
"""


def test_what_is_recorded_survives_dead_code_elimination():
    module = parse(UNUSED)
    dce(module)
    ops = [op.name for op in module.walk() if isinstance(op, InstrumentationOp)]
    assert ops == ["quant.stats_ref", "quant.stats_ref"]


USED_TWICE = """
func.func @f(%x: tensor<1xf32>) {
  %0 = quant.const_fake_quant %x <0.0:1.0> bits 8 : tensor<1xf32>
  %1 = quant.const_fake_quant %x <0.0:1.0> bits 8 : tensor<1xf32>
  %2 = quant.const_fake_quant_per_axis %x axis 0 [<0.0:1.0>] bits 8 : tensor<1xf32>
  %3 = quant.const_fake_quant_per_axis %x axis 0 [<0.0:1.0>] bits 8 : tensor<1xf32>
  %4 = quant.stats %x <0.0:1.0> : tensor<1xf32>
  %5 = quant.stats %x <0.0:1.0> : tensor<1xf32>
  %6 = quant.stats_ref %x "a" : tensor<1xf32>
  %7 = quant.stats_ref %x "a" : tensor<1xf32>
  %8 = quant.coupled_ref %x "a" : tensor<1xf32>
  %9 = quant.coupled_ref %x "a" : tensor<1xf32>
  %10 = quant.coupled_ref %x "b" : tensor<1xf32>
  "func.return"(%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10) : (tensor<1xf32>,
    tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>,
    tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> ()
}
"""


def test_what_is_recorded_survives_common_subexpression_elimination():
    module = parse(USED_TWICE)
    cse(module)
    ops = [op.name for op in module.walk() if isinstance(op, InstrumentationOp)]
    assert ops == [
        "quant.const_fake_quant",
        "quant.const_fake_quant_per_axis",
        "quant.stats",
        "quant.stats_ref",
        "quant.stats_ref",
        "quant.coupled_ref",
        "quant.coupled_ref",
    ]
