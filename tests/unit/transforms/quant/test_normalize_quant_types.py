"""Sub-channel types that are simpler than they look, compared with real MLIR."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from io import StringIO
from math import prod

import pytest
from xdsl.context import Context
from xdsl.dialects import builtin, cf, func
from xdsl.dialects.builtin import f16, f32, i8
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker
from xdsl.printer import Printer

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from tests.conformance.this_package import answer_module
from xdsl_quant.dialects.quant import (
    Quant,
    QuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.transforms.quant.normalize_quant_types import (
    NormalizeQuantTypes,
    NormalizeQuantTypesPass,
    normalized,
)
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

ALIASES = """
!layer = tensor<2x3x!quant.uniform<i8:f32:{0:2, 1:3}, {{2.0:7}}>>
!axis0 = tensor<2x?x!quant.uniform<i8<-8:7>:f16:{0:1}, {{0.1:1}, {3.0}}>>
!axis1 = tensor<4x2x!quant.uniform<u8:f32:{1:1, 0:4}, {{2.0:5, 3.0:6}}>, "dense">
!both = tensor<2x2x!quant.uniform<i8:f32:{0:1, 1:1}, {{1.0, 2.0}, {3.0, 4.0}}>>
!scalar = !quant.uniform<i8:f32:{0:1}, {2.0, 3.0}>
"""


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    with Mlir() as mlir:
        yield mlir


def test_registered():
    name = NormalizeQuantTypesPass.name
    assert name == "normalize-quant-types"
    assert XDSL_QUANT_UNIVERSE.all_passes[name]() is NormalizeQuantTypesPass


@pytest.mark.parametrize(
    "text",
    [
        "func.func private @f(!layer, !axis0, !axis1) -> (!both {test.a}, !layer)",
        # not tensors, tuples, and types that are simple already
        """
        func.func private @f(
          !scalar {test.a = !axis0}, tuple<!axis0>, memref<2xi8>,
          tensor<1x!quant.uniform<i8:f32:0, {2.0}>>,
          tensor<2x!quant.uniform<i8:f32:{0:1}, {2.0, 2.0}>>,
          tensor<2x!quant.uniform<i8:f32:{0:4, 0:1}, {2.0, 3.0}>>,
          tensor<*x!quant.uniform<i8:f32:{0:4}, {2.0}>>,
          tensor<*x!quant.uniform<i8:f32:{0:4, 1:1}, {{2.0, 3.0}}>>)
        """,
        # ops of any dialect, in regions, and calls
        """
        func.func @f(%a: tensor<2x?xf16>, %i: tensor<4x2xi8, "dense">, %c: i1, %b: !both,
                     %n: index, %j: tensor<4x2xi8, "dense">) -> (!axis0, !both) {
          %0 = quant.qcast %a : tensor<2x?xf16> to !axis0
          %1 = quant.scast %i : tensor<4x2xi8, "dense"> to !axis1
          %2 = quant.scast %j : tensor<4x2xi8, "dense"> to !axis1
          %6 = arith.select %c, %1, %2 : !axis1
          %3 = scf.for %k = %n to %n step %n iter_args(%p = %0) -> (!axis0) {
            %4:2 = func.call @f(%a, %i, %c, %b, %k, %j)
              : (tensor<2x?xf16>, tensor<4x2xi8, "dense">, i1, !both, index,
                 tensor<4x2xi8, "dense">) -> (!axis0, !both)
            scf.yield %4#0 : !axis0
          }
          %5 = quant.dcast %3 : !axis0 to tensor<2x?xf16>
          return %3, %b : !axis0, !both
        }
        """,
    ],
)
def test_same_as_mlir(mlir: Mlir, text: str):
    text = ALIASES + text
    # MLIR's pass runs on functions and only finds those right inside the module.
    expected = mlir.run(text, "func.func(normalize-quant-types)")
    assert isinstance(expected, Accepted)
    ours = answer_module(text, (NormalizeQuantTypesPass(),), generic=True)
    assert isinstance(ours, Accepted)
    assert mlir.run(ours.text) == expected


def sub_channel(
    scales: Sequence[object], blocks: dict[int, int]
) -> UniformQuantizedSubChannelType:
    return UniformQuantizedSubChannelType(
        i8,
        f32,
        scales,
        quantized_dimensions=tuple(blocks),
        block_sizes=tuple(blocks.values()),
    )


def test_blocks_are_not_an_axis(mlir: Mlir):
    """Where MLIR makes per-axis types of blocks, with too few scales."""
    text = "func.func private @f(tensor<8x!quant.uniform<i8:f32:{0:4}, {1.0, 10.0}>>)"
    assert mlir.run(text, "func.func(normalize-quant-types)") == Accepted(
        "module {\n  func.func private @f(tensor<8x!quant.uniform<i8:f32:0, "
        "{1.000000e+00,1.000000e+01}>>)\n}"
    )
    ours = answer_module(text, (NormalizeQuantTypesPass(),))
    assert isinstance(ours, Accepted)
    assert mlir.run(ours.text) == mlir.run(text)


def test_parameters_are_kept():
    type_ = UniformQuantizedSubChannelType(
        i8,
        f16,
        [[0.1, 2.0]],
        [[200, 3]],
        quantized_dimensions=(1,),
        block_sizes=(1,),
        is_signed=False,
        storage_type_min=2,
        storage_type_max=250,
    )
    assert normalized(type_) == UniformQuantizedPerAxisType(
        i8,
        f16,
        [0.0999755859375, 2.0],
        [200, 3],
        quantized_dimension=1,
        is_signed=False,
        storage_type_min=2,
        storage_type_max=250,
    )


@pytest.mark.parametrize(
    ("scales", "blocks", "is_ranked", "expected"),
    [
        ([[2.0]], {0: 4}, True, UniformQuantizedType(i8, f32, 2.0)),
        ([2.0], {3: 4}, False, UniformQuantizedType(i8, f32, 2.0)),
        ([[2.0, 3.0]], {1: 1}, True, 1),
        ([[2.0, 3.0]], {1: 1}, False, 1),
        # a dimension for each one with a block size, in the order of the dimensions
        ([2.0, 3.0], {3: 1}, False, 3),
        ([2.0, 3.0], {3: 1}, True, None),
        ([2.0, 3.0], {1: 1}, True, None),
        ([2.0, 3.0], {0: 1}, True, 0),
        ([[2.0, 3.0]], {3: 1, 1: 4}, False, 3),
        ([[2.0, 3.0]], {3: 4, 1: 1}, False, None),
        # blocks of several indices, or no block size
        ([[2.0, 3.0]], {1: 2}, True, None),
        ([[2.0, 3.0]], {0: 1}, True, None),
        ([[2.0, 3.0], [4.0, 5.0]], {0: 1, 1: 1}, True, None),
    ],
)
def test_normalized(
    scales: Sequence[object],
    blocks: dict[int, int],
    is_ranked: bool,
    expected: QuantizedType | int | None,
):
    """`expected` is a type, or the dimension of a per-axis one, or None for no change."""
    type_ = sub_channel(scales, blocks)
    result = normalized(type_, is_ranked=is_ranked)
    if expected is None:
        assert result is type_
    elif isinstance(expected, int):
        assert result == UniformQuantizedPerAxisType(
            i8, f32, [2.0, 3.0], quantized_dimension=expected
        )
    else:
        assert result == expected


def test_a_tensor_is_ranked_by_default():
    type_ = sub_channel([2.0, 3.0], {3: 1})
    assert normalized(type_) is type_


def scale_at(type_: QuantizedType, index: Sequence[int]) -> float:
    """The scale of an element of a ranked tensor."""
    if isinstance(type_, UniformQuantizedType):
        return type_.scale.data
    if isinstance(type_, UniformQuantizedPerAxisType):
        return type_.scales.get_values()[index[type_.quantized_dimension.data]]
    assert isinstance(type_, UniformQuantizedSubChannelType)
    blocks = dict(type_.block_size_info)
    position = 0
    for axis, count in enumerate(type_.scales_shape.get_values()):
        block = index[axis] // blocks[axis] if axis in blocks else 0
        position = position * count + block
    return type_.scales.get_values()[position]


def test_every_element_keeps_its_scale():
    """Random valid types on random shapes; each kind of result has to occur often."""
    choose = random.Random(0)
    kinds: Counter[type[QuantizedType]] = Counter()
    for _ in range(500):
        rank = choose.randint(1, 3)
        counts = [choose.choice((1, 1, 1, 2, 3)) for _ in range(rank)]
        blocks = {
            axis: choose.choice((1, 1, 2))
            for axis in choose.sample(range(rank), rank)
            if counts[axis] > 1 or choose.random() < 0.5
        }
        shape = [
            counts[axis] * blocks[axis] if axis in blocks else choose.randint(1, 3)
            for axis in range(rank)
        ]
        flat = [float(1 + i) for i in range(prod(counts))]
        nested: list[object] = [*flat]
        for count in reversed(counts[1:]):
            nested = [nested[i : i + count] for i in range(0, len(nested), count)]
        type_ = sub_channel(nested, blocks)
        result = normalized(type_)
        for index in itertools.product(*map(range, shape)):
            assert scale_at(result, index) == scale_at(type_, index)
        kinds[type(result)] += 1
        if result is type_:
            assert sum(count > 1 for count in counts) > 1 or 2 in blocks.values()
    assert kinds[UniformQuantizedType] > 50
    assert kinds[UniformQuantizedPerAxisType] > 50


def test_locations_and_names():
    ctx = Context(allow_unregistered=True)
    for dialect in (builtin.Builtin, cf.Cf, func.Func, Quant):
        ctx.load_dialect(dialect)
    module = Parser(
        ctx,
        """
        !t = tensor<2x!quant.uniform<i8:f32:{0:1}, {2.0, 3.0}>>
        func.func @f(%a: !t loc("argument")) -> !t {
          %x = "test.op"(%a) : (!t) -> !t loc("op")
          cf.br ^bb1(%x : !t) loc("branch")
        ^bb1(%y: !t loc("block")):
          func.return %y : !t loc("return")
        } loc("function")
        """,
    ).parse_module()
    ops = list(module.walk())
    NormalizeQuantTypesPass().apply(ctx, module)
    module.verify()
    assert list(module.walk()) == ops
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(module)
    t = "tensor<2x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>"
    assert stream.getvalue() == (
        f"""builtin.module {{
  func.func @f(%a: {t} loc("argument")) -> {t} {{
    %x = "test.op"(%a) : ({t}) -> {t} loc("op")
    cf.br ^bb1(%x : {t}) loc("branch")
  ^bb1(%y: {t} loc("block")):
    func.return %y : {t} loc("return")
  }} loc("function")
}} loc(unknown)"""
    )


def test_the_pattern_does_the_same_as_the_pass():
    text = """
    func.func @f(%a: tensor<2x!quant.uniform<i8:f32:{0:1}, {1.0, 2.0}>>)
        -> tensor<2x!quant.uniform<i8:f32:{0:1}, {1.0, 2.0}>> {
      return %a : tensor<2x!quant.uniform<i8:f32:{0:1}, {1.0, 2.0}>>
    }
    """
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, Quant):
        ctx.load_dialect(dialect)
    by_pass, by_pattern = (Parser(ctx, text).parse_module() for _ in range(2))
    NormalizeQuantTypesPass().apply(ctx, by_pass)
    walker = PatternRewriteWalker(NormalizeQuantTypes())
    assert walker.rewrite_module(by_pattern)
    assert str(by_pattern) == str(by_pass)
    assert not walker.rewrite_module(by_pattern)


@pytest.mark.parametrize(
    ("text", "is_changed"),
    [
        # The function, its arguments, and the argument of a block.
        ("func.func private @f(!q)", True),
        ("func.func @f(%x: !q) { return }", True),
        ("func.func @f() { return\n^bb0(%x: !q):\n  return }", True),
        ("func.func @f(%x: tensor<2xf32>) { return }", False),
        ('func.func @f() { %x = "test.op"() : () -> !q return }', False),
    ],
)
def test_a_function_that_changes_is_reported(text: str, is_changed: bool):
    ctx = Context(allow_unregistered=True)
    for dialect in (builtin.Builtin, func.Func, Quant):
        ctx.load_dialect(dialect)
    alias = "!q = tensor<2x!quant.uniform<i8:f32:{0:1}, {1.0, 2.0}>>\n"
    (function,) = Parser(ctx, alias + text).parse_module().ops
    rewriter = PatternRewriter(function)
    NormalizeQuantTypes().match_and_rewrite(function, rewriter)
    assert rewriter.has_done_action == is_changed
    for op in function.walk():
        if op is not function and op.results:
            rewriter = PatternRewriter(op)
            NormalizeQuantTypes().match_and_rewrite(op, rewriter)
            assert rewriter.has_done_action


@pytest.mark.parametrize("shape", ["2x2x2x2", "*"])
def test_the_pass_knows_ranks(shape: str):
    """Scales with one dimension are for unranked tensors, whose axis may be any."""
    ctx = Context()
    for dialect in (builtin.Builtin, func.Func, Quant):
        ctx.load_dialect(dialect)
    old = f"tensor<{shape}x!quant.uniform<i8:f32:{{3:1}}, {{1.0, 2.0}}>>"
    module = Parser(ctx, f"func.func private @f({old})").parse_module()
    before = str(module)
    NormalizeQuantTypesPass().apply(ctx, module)
    if shape != "*":
        assert str(module) == before
    else:
        new = "!quant.uniform<i8:f32:3, {1.000000e+00,2.000000e+00}>"
        assert f"tensor<*x{new}>" in str(module)
