"""Keys of statistics: which values get one, and which one."""

import re
from dataclasses import replace

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, cf, func, linalg, scf, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.dialects.quant import Quant, StatisticsRefOp
from xdsl_quant.transforms.statistics.quant_insert_stats_refs import (
    QuantInsertStatsRefsPass,
)
from xdsl_quant.transforms.statistics.quant_remove_instrumentation import (
    QuantRemoveInstrumentationPass,
)
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

TEXT = """
func.func @main(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %e = tensor.empty() : tensor<2x2xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<2x2xf32>, tensor<2x2xf32>)
         outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = func.call @relu6(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = linalg.matmul ins(%1, %w : tensor<2x2xf32>, tensor<2x2xf32>)
         outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}

func.func @relu6(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %six = arith.constant dense<6.0> : tensor<2x2xf32>
  %0 = arith.minimumf %x, %six : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
"""

ALL_KEYS = [
    "main:argument:0",
    "main:argument:1",
    "main:linalg.matmul:0",
    "main:func.call:0",
    "main:linalg.matmul:1",
    "relu6:argument:0",
    "relu6:arith.constant:0",
    "relu6:arith.minimumf:0",
]


def parse(text: str) -> ModuleOp:
    ctx = Context(allow_unregistered=True)
    for dialect in (
        builtin.Builtin,
        arith.Arith,
        cf.Cf,
        func.Func,
        linalg.Linalg,
        scf.Scf,
        tensor.Tensor,
        Quant,
    ):
        ctx.load_dialect(dialect)
    module = Parser(ctx, text).parse_module()
    module.verify()
    return module


def insert(module: ModuleOp, pass_: QuantInsertStatsRefsPass) -> list[str]:
    """The keys after the pass."""
    pass_.apply(Context(), module)
    module.verify()
    return [
        op.stats_key.data for op in module.walk() if isinstance(op, StatisticsRefOp)
    ]


def test_registered():
    for pass_ in (QuantInsertStatsRefsPass, QuantRemoveInstrumentationPass):
        assert XDSL_QUANT_UNIVERSE.all_passes[pass_.name]() is pass_


def test_all():
    assert insert(parse(TEXT), QuantInsertStatsRefsPass()) == ALL_KEYS


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"ops": ("linalg.matmul",)}, ["main:linalg.matmul:0", "main:linalg.matmul:1"]),
        ({"ops": ("arith.minimumf", "func.call")}, [ALL_KEYS[3], ALL_KEYS[7]]),
        ({"ops": ("func.func",)}, [ALL_KEYS[0], ALL_KEYS[1], ALL_KEYS[5]]),
        ({"symbols": ("relu6",)}, ALL_KEYS[5:]),
        ({"symbols": ("relu6", "main")}, ALL_KEYS),
        ({"keys": r"main:linalg\..*"}, [ALL_KEYS[2], ALL_KEYS[4]]),
        # The whole key must match.
        ({"keys": "main:argument:|relu6:argument:0"}, [ALL_KEYS[5]]),
        ({"symbols": ("main",), "ops": ("func.func",), "keys": ".*0"}, [ALL_KEYS[0]]),
    ],
)
def test_selection_does_not_change_keys(
    selection: dict[str, object], expected: list[str]
):
    pass_ = replace(QuantInsertStatsRefsPass(), **selection)
    assert insert(parse(TEXT), pass_) == expected


def test_twice_is_once():
    module = parse(TEXT)
    insert(module, QuantInsertStatsRefsPass())
    before = str(module)
    insert(module, QuantInsertStatsRefsPass())
    assert str(module) == before


def test_in_two_steps():
    module = parse(TEXT)
    insert(module, QuantInsertStatsRefsPass(ops=("linalg.matmul",)))
    assert insert(module, QuantInsertStatsRefsPass()) == ALL_KEYS


def test_there_and_back():
    module = parse(TEXT)
    before = str(module)
    insert(module, QuantInsertStatsRefsPass())
    assert str(module) != before
    QuantRemoveInstrumentationPass().apply(Context(), module)
    assert str(module) == before


def test_names_of_values_do_not_matter():
    renamed = TEXT.replace("%x", "%input").replace("%0", "%hidden")
    assert insert(parse(renamed), QuantInsertStatsRefsPass()) == ALL_KEYS


def test_locations():
    module = parse(
        'func.func @f() { %0 = "test.op"() : () -> tensor<f32> loc("m":2:3) return }'
    )
    insert(module, QuantInsertStatsRefsPass())
    (ref,) = (op for op in module.walk() if isinstance(op, StatisticsRefOp))
    assert str(ref.location) == 'loc("m":2:3)'


def test_function_that_is_not_there():
    """Also if another one is."""
    module = parse("func.func @main(%x: tensor<2xf32>) { return }")
    pass_ = QuantInsertStatsRefsPass(symbols=("main", "mian"))
    message = "^unknown function 'mian' in symbols; available: 'main'$"
    with pytest.raises(PassFailedException, match=message):
        pass_.apply(Context(), module)
    assert "stats_ref" not in str(module)


@pytest.mark.parametrize(
    "selection",
    [{"keys": "main"}, {"ops": ("func.func",), "keys": ".*matmul.*"}],
)
def test_selecting_nothing_is_a_mistake(selection: dict[str, object]):
    pass_ = replace(QuantInsertStatsRefsPass(), **selection)
    with pytest.raises(PassFailedException, match=r"^no float tensor is selected$"):
        insert(parse(TEXT), pass_)


AVAILABLE = (
    "'arith.constant', 'arith.minimumf', 'func.call', 'func.func', 'linalg.matmul'"
)


@pytest.mark.parametrize(
    "name", ["linalg.conv", "tensor.empty", "func.return", "matmul"]
)
def test_unknown_ops(name: str):
    """Also if others are known."""
    module = parse(TEXT)
    message = (
        f"unknown op '{name}' in ops, it defines no float tensor in this module; "
        f"available: {AVAILABLE}"
    )
    for ops in ((name,), ("linalg.matmul", name)):
        with pytest.raises(PassFailedException, match=f"^{re.escape(message)}$"):
            insert(module, QuantInsertStatsRefsPass(ops=ops))
    assert "stats_ref" not in str(module)
    message = "it defines no float tensor in this module; available: none$"
    with pytest.raises(PassFailedException, match=message):
        insert(parse("module {}"), QuantInsertStatsRefsPass(ops=(name,)))


# What is selected by default

SMALL, LARGE = "tensor<6xf32>", "tensor<2x3xf32>"

MOVING = {
    "stablehlo.reshape": f'"stablehlo.reshape"(%x) : ({LARGE}) -> {SMALL}',
    "stablehlo.transpose": f'"stablehlo.transpose"(%x) : ({LARGE}) -> {LARGE}',
    "stablehlo.broadcast": f'"stablehlo.broadcast"(%x) : ({LARGE}) -> {LARGE}',
    "stablehlo.broadcast_in_dim": (
        f'"stablehlo.broadcast_in_dim"(%x) : ({LARGE}) -> {LARGE}'
    ),
    "stablehlo.dynamic_broadcast_in_dim": (
        f'"stablehlo.dynamic_broadcast_in_dim"(%x, %n) : ({LARGE}, index) -> {LARGE}'
    ),
    "stablehlo.dynamic_reshape": (
        f'"stablehlo.dynamic_reshape"(%x, %n) : ({LARGE}, index) -> {LARGE}'
    ),
    "stablehlo.slice": f'"stablehlo.slice"(%x) : ({LARGE}) -> {SMALL}',
    "stablehlo.dynamic_slice": (
        f'"stablehlo.dynamic_slice"(%x, %n) : ({LARGE}, index) -> {SMALL}'
    ),
    "stablehlo.real_dynamic_slice": (
        f'"stablehlo.real_dynamic_slice"(%x, %n) : ({LARGE}, index) -> {SMALL}'
    ),
    "stablehlo.gather": f'"stablehlo.gather"(%x, %n) : ({LARGE}, index) -> {SMALL}',
    "stablehlo.reverse": f'"stablehlo.reverse"(%x) : ({LARGE}) -> {LARGE}',
    "tensor.cast": f"tensor.cast %x : {LARGE} to tensor<?x?xf32>",
    "tensor.collapse_shape": (
        f"tensor.collapse_shape %x [[0, 1]] : {LARGE} into {SMALL}"
    ),
    "tensor.expand_shape": (
        f"tensor.expand_shape %x [[0], [1, 2]] output_shape [2, 3, 1] : {LARGE} into "
        "tensor<2x3x1xf32>"
    ),
    "tensor.extract_slice": (
        f"tensor.extract_slice %x[0, 0] [1, 2] [1, 1] : {LARGE} to tensor<1x2xf32>"
    ),
    "tensor.reshape": (
        f"tensor.reshape %x(%t) : ({LARGE}, tensor<1xindex>) -> tensor<6xf32>"
    ),
    "linalg.transpose": (
        f'"linalg.transpose"(%x, %x) <{{permutation = array<i64: 0, 1>}}> ({{\n'
        "^bb0(%a: f32, %b: f32):\n"
        f'"linalg.yield"(%a) : (f32) -> () }}) : ({LARGE}, {LARGE}) -> {LARGE}'
    ),
    "linalg.broadcast": (
        '"linalg.broadcast"(%x, %e) <{dimensions = array<i64: 2>}> ({\n'
        "^bb0(%a: f32, %b: f32):\n"
        f'"linalg.yield"(%a) : (f32) -> () }}) : ({LARGE}, tensor<2x3x1xf32>) -> '
        "tensor<2x3x1xf32>"
    ),
    "linalg.copy": (
        '"linalg.copy"(%x, %x) <{operandSegmentSizes = array<i32: 1, 1>}> ({\n'
        "^bb0(%a: f32, %b: f32):\n"
        f'"linalg.yield"(%a) : (f32) -> () }}) : ({LARGE}, {LARGE}) -> {LARGE}'
    ),
}


def default_keys(line: str) -> tuple[list[str], list[str]]:
    """The keys by default, and those of an explicit selection of everything."""
    text = f"""func.func @f(%x: {LARGE}, %n: index, %t: tensor<1xindex>) {{
  %e = tensor.empty() : tensor<2x3x1xf32>
  %y = {line}
  return
}}"""
    by_default, everything = (
        insert(parse(text), QuantInsertStatsRefsPass(keys=keys))
        for keys in (None, ".*")
    )
    return by_default, everything


@pytest.mark.parametrize("name", MOVING)
def test_moved_elements(name: str):
    """Their range is that of the operand."""
    by_default, everything = default_keys(MOVING[name])
    assert by_default == ["f:argument:0"]
    assert everything == ["f:argument:0", f"f:{name}:0"]


@pytest.mark.parametrize(
    "line",
    [
        f"arith.addf %x, %x : {LARGE}",
        f'"stablehlo.concatenate"(%x, %x) : ({LARGE}, {LARGE}) -> tensor<4x3xf32>',
        f'"stablehlo.add"(%x, %x) : ({LARGE}, {LARGE}) -> {LARGE}',
        # Not of the elements of the operand.
        f'"stablehlo.reshape"(%n) : (index) -> {LARGE}',
        f'"stablehlo.reshape"() : () -> {LARGE}',
    ],
)
def test_what_is_not_moved(line: str):
    by_default, everything = default_keys(line)
    assert by_default == everything
    assert len(everything) == 2


RESOURCES = """
{-#
  dialect_resources: { builtin: {
    zeros: "0x040000000000000000000080",
    infinite: "0x040000000000803f000080ff",
    finite: "0x040000000000000000000040"
  } }
#-}
"""


@pytest.mark.parametrize(
    ("value", "is_selected"),
    [
        ("dense<0.0> : tensor<2xf32>", False),
        ("dense<-0.0> : tensor<2xf32>", False),
        ("dense<[0.0, -0.0]> : tensor<2xbf16>", False),
        ("dense<0.0> : tensor<f64>", False),
        ("dense<[0.0, 1.0e-40]> : tensor<2xf32>", True),
        ("dense<0xFF800000> : tensor<f32>", False),
        ("dense<[1.0, 0x7F800000]> : tensor<2xf32>", False),
        ("dense<[0x7FC00000, 1.0]> : tensor<2xf32>", False),
        ("dense<0xFF80> : tensor<bf16>", False),
        ("dense<[1.0, 0.0]> : tensor<2xf16>", True),
        ("dense<> : tensor<0xf32>", False),
        ("dense_resource<zeros> : tensor<2xf32>", False),
        ("dense_resource<infinite> : tensor<2xf32>", False),
        ("dense_resource<finite> : tensor<2xf32>", True),
        ("dense_resource<missing> : tensor<2xf32>", True),
    ],
)
@pytest.mark.parametrize(
    "op", ["arith.constant {}", '"stablehlo.constant"() <{{value = {}}}> : () -> {}']
)
def test_constants(op: str, value: str, is_selected: bool):
    text = f"func.func @f() {{\n{op.format(value, value.split(': ')[1])}\nreturn\n}}"
    text += RESOURCES
    name = "arith" if op.startswith("arith") else "stablehlo"
    key = f"f:{name}.constant:0"
    assert insert(parse(text), QuantInsertStatsRefsPass()) == [key] * is_selected
    by_ops = QuantInsertStatsRefsPass(ops=(f"{name}.constant",))
    assert insert(parse(text), by_ops) == [key]
    by_symbol = QuantInsertStatsRefsPass(symbols=("f",))
    if is_selected:
        assert insert(parse(text), by_symbol) == [key]
        return
    with pytest.raises(PassFailedException, match="no float tensor is selected"):
        insert(parse(text), by_symbol)


@pytest.mark.parametrize(
    ("scalar", "is_selected"),
    [
        ("arith.constant 0.0 : f32", False),
        ("arith.constant 0xFF800000 : f32", False),
        ("arith.constant 0x7FC00000 : f32", False),
        ("arith.constant 1.5 : f32", True),
        ("arith.addf %x, %x : f32", True),
    ],
)
@pytest.mark.parametrize("from_argument", [False, True])
def test_fills(scalar: str, is_selected: bool, from_argument: bool):
    filler = "%x" if from_argument else "%s"
    text = f"""func.func @f(%x: f32) {{
  %s = {scalar}
  %e = tensor.empty() : tensor<2xf32>
  %0 = linalg.fill ins({filler} : f32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %1 = tensor.splat {filler} : tensor<2xf32>
  return
}}"""
    keys = ["f:linalg.fill:0", "f:tensor.splat:0"]
    expected = keys if is_selected or from_argument else []
    assert insert(parse(text), QuantInsertStatsRefsPass()) == expected
    assert insert(parse(text), QuantInsertStatsRefsPass(keys=".*")) == keys


def test_argument_without_elements():
    text = "func.func @f(%x: tensor<?x0xf32>, %y: tensor<*xf32>) { return }"
    assert insert(parse(text), QuantInsertStatsRefsPass()) == ["f:argument:1"]


def test_nothing_to_select_is_none():
    assert insert(parse("func.func @f() { return }"), QuantInsertStatsRefsPass()) == []


def test_what_is_no_regular_expression():
    message = r"^invalid regular expression in keys: '\(': missing "
    with pytest.raises(PassFailedException, match=message):
        insert(parse(TEXT), QuantInsertStatsRefsPass(keys="("))
