"""Keys of statistics: which values get one, and which one."""

from dataclasses import replace

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, cf, func, linalg, scf, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.dialects.quant import Quant, StatisticsRefOp
from xdsl_quant.transforms.quant_insert_stats_refs import QuantInsertStatsRefsPass
from xdsl_quant.transforms.quant_remove_instrumentation import (
    QuantRemoveInstrumentationPass,
)
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

TEXT = """
func.func @main(%x: tensor<2x2xf32>, %w: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %e = tensor.empty() : tensor<2x2xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<2x2xf32>, tensor<2x2xf32>)
         outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = func.call @relu(%0) : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = linalg.matmul ins(%1, %w : tensor<2x2xf32>, tensor<2x2xf32>)
         outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}

func.func @relu(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %zero = arith.constant dense<0.0> : tensor<2x2xf32>
  %0 = arith.maximumf %x, %zero : tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
"""

ALL_KEYS = [
    "main:argument:0",
    "main:argument:1",
    "main:linalg.matmul:0",
    "main:func.call:0",
    "main:linalg.matmul:1",
    "relu:argument:0",
    "relu:arith.constant:0",
    "relu:arith.maximumf:0",
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
        ({"ops": ("arith.maximumf", "func.call")}, [ALL_KEYS[3], ALL_KEYS[7]]),
        ({"ops": ("func.func",)}, [ALL_KEYS[0], ALL_KEYS[1], ALL_KEYS[5]]),
        ({"symbols": ("relu",)}, ALL_KEYS[5:]),
        ({"symbols": ("relu", "main")}, ALL_KEYS),
        ({"keys": r"main:linalg\..*"}, [ALL_KEYS[2], ALL_KEYS[4]]),
        # The whole key must match.
        ({"keys": "main:argument:|relu:argument:0"}, [ALL_KEYS[5]]),
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
    with pytest.raises(PassFailedException, match=r"^there is no function 'mian'$"):
        pass_.apply(Context(), module)
    assert "stats_ref" not in str(module)


@pytest.mark.parametrize("selection", [{"ops": ("linalg.conv",)}, {"keys": "main"}])
def test_selecting_nothing_is_a_mistake(selection: dict[str, object]):
    pass_ = replace(QuantInsertStatsRefsPass(), **selection)
    with pytest.raises(PassFailedException, match=r"^no float tensor is selected$"):
        insert(parse(TEXT), pass_)


def test_nothing_to_select_is_none():
    assert insert(parse("func.func @f() { return }"), QuantInsertStatsRefsPass()) == []


def test_what_is_no_regular_expression():
    message = (
        r"^keys '\(' is no regular expression: missing \), unterminated subpattern"
    )
    with pytest.raises(PassFailedException, match=message):
        insert(parse(TEXT), QuantInsertStatsRefsPass(keys="("))
