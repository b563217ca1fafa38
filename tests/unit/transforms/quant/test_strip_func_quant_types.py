"""Signatures, branches and calls without quantized types, compared with real MLIR."""

from collections.abc import Iterator
from io import StringIO

import pytest
from xdsl.context import Context
from xdsl.dialects import builtin, cf, func
from xdsl.ir import Block, Region
from xdsl.parser import Parser
from xdsl.pattern_rewriter import PatternRewriteWalker
from xdsl.printer import Printer
from xdsl.utils.exceptions import PassFailedException

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from tests.conformance.this_package import answer_module
from xdsl_quant.dialects.quant import AnyQuantizedType, Quant, StorageCastOp
from xdsl_quant.transforms.quant.strip_func_quant_types import (
    StripFuncQuantTypes,
    StripFuncQuantTypesPass,
)
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

ALIASES = """
!q = !quant.uniform<i8:f32, 5.0e-01>
!u = !quant.uniform<u4:f32, 2.0:3>
!t = tensor<4x3x!quant.uniform<i8<-8:7>:f32:1, {1.0, 2.0, 4.0}>>
!s = tensor<2x?x!quant.uniform<i16:f32:{0:1}, {{1.0}, {2.0}}>, "dense">
!w = tensor<*x!quant.uniform<i8:f32, 5.0e-01>>
!c = !quant.calibrated<f32<-1.0:1.0>>
"""


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    with Mlir() as mlir:
        yield mlir


def parse(text: str) -> builtin.ModuleOp:
    ctx = Context(allow_unregistered=True)
    for dialect in (builtin.Builtin, cf.Cf, func.Func, Quant):
        ctx.load_dialect(dialect)
    module = Parser(ctx, ALIASES + text).parse_module()
    module.verify()
    return module


def text_of(module: builtin.ModuleOp) -> str:
    """The module with all locations."""
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(module)
    return stream.getvalue()


def strip(module: builtin.ModuleOp) -> None:
    StripFuncQuantTypesPass().apply(Context(), module)


def test_registered():
    name = StripFuncQuantTypesPass.name
    assert name == "strip-func-quant-types"
    assert XDSL_QUANT_UNIVERSE.all_passes[name]() is StripFuncQuantTypesPass


@pytest.mark.parametrize(
    "text",
    [
        # declarations, attributes, encodings, all layouts
        """
        func.func private @f(!q, !u {test.a = !q}, !t, !s, !w, f32) -> (!t {test.b}, !w)
        func.func private @g(tuple<!q>, vector<4xi8>) -> ()
        """,
        # arguments that are used, unused, or only returned
        """
        func.func @f(%a: !q, %b: !q, %c: !q, %d: f32) -> (!q, f32) {
          %0 = quant.dcast %b : !q to f32
          %1 = quant.dcast %a : !q to f32
          %2 = quant.dcast %b : !q to f32
          return %b, %0 : !q, f32
        }
        """,
        # all layouts as arguments and results
        """
        func.func @f(%a: !u, %b: !t, %c: !s, %d: !w, %e: i1, %f: !u,
                     %g: !t) -> (!w, !s, !t, !u) {
          %0 = arith.select %e, %a, %f : !u
          %1 = quant.dcast %b : !t to tensor<4x3xf32>
          %2 = quant.dcast %c : !s to tensor<2x?xf32, "dense">
          %3 = quant.dcast %d : !w to tensor<*xf32>
          %4 = arith.select %e, %b, %g : !t
          return %d, %c, %4, %0 : !w, !s, !t, !u
        }
        """,
        # several casts behind one definition, and one cast for several uses
        """
        func.func private @g(!q, !q) -> (!q, !q)
        func.func @f(%a: !q, %b: !q, %x: f32) -> (!q, !q) {
          %0 = quant.qcast %x : f32 to !q
          %1:2 = call @g(%0, %a) : (!q, !q) -> (!q, !q)
          %2 = quant.dcast %1#0 : !q to f32
          %3 = quant.dcast %1#1 : !q to f32
          %4:2 = call @g(%1#1, %0) : (!q, !q) -> (!q, !q)
          %5 = quant.dcast %4#1 : !q to f32
          return %0, %0 : !q, !q
        }
        """,
        # results of one op that are needed in another order
        """
        func.func private @g(!q) -> !q
        func.func @f(%x: !q, %c: i1) -> (!q, !q) {
          %0:2 = scf.if %c -> (!q, !q) {
            scf.yield %x, %x : !q, !q
          } else {
            %4 = func.call @g(%x) : (!q) -> !q
            scf.yield %x, %4 : !q, !q
          }
          %1 = call @g(%0#1) : (!q) -> !q
          return %0#0, %0#1 : !q, !q
        }
        """,
        # loops
        """
        func.func @f(%a: !q, %n: index, %m: !q) -> (!q, !q) {
          %0:2 = scf.for %i = %n to %n step %n iter_args(%p = %a, %r = %m) -> (!q, !q) {
            %1:2 = func.call @f(%r, %i, %p) : (!q, index, !q) -> (!q, !q)
            scf.yield %1#1, %p : !q, !q
          }
          return %0#0, %0#1 : !q, !q
        }
        """,
        # blocks without quantized arguments
        """
        func.func @f(%a: !q, %c: i1, %x: f32) -> !q {
          cf.cond_br %c, ^bb1(%x : f32), ^bb2
        ^bb1(%y: f32):
          %0 = quant.qcast %y : f32 to !q
          return %0 : !q
        ^bb2:
          %1 = quant.dcast %a : !q to f32
          return %a : !q
        }
        """,
        # casts that are there already: pairs go, and what is new stays
        """
        func.func private @g(!q) -> !q
        func.func @f(%a: !q, %b: i8) -> (!q, !q, !q) {
          %0 = quant.scast %a : !q to i8
          %1 = quant.scast %0 : i8 to !q
          %2 = quant.scast %1 : !q to i8
          %3 = quant.scast %2 : i8 to !q
          %4 = quant.scast %b : i8 to !q
          %5 = quant.scast %4 : !q to i8
          %6 = quant.scast %5 : i8 to !q
          %7 = quant.dcast %6 : !q to f32
          %8 = call @g(%6) : (!q) -> !q
          %9 = quant.scast %8 : !q to i8
          %10 = quant.scast %9 : i8 to !q
          return %3, %6, %10 : !q, !q, !q
        }
        """,
        # nested modules
        """
        func.func private @f(!q)
        module @inner {
          func.func @f(%a: !q) -> !q { return %a : !q }
          module { func.func private @f(!q) }
        }
        """,
        # scales that have no cast, where none is needed
        """
        func.func private @g(!quant.any<i8:f32>) -> !quant.any<u8>
        func.func @f(%a: !quant.any<i8:f32>, %b: !quant.uniform<i8:f32:0, {1.0}>)
            -> (!quant.any<i8:f32>, !quant.any<u8>) {
          %0 = call @g(%a) : (!quant.any<i8:f32>) -> !quant.any<u8>
          return %a, %0 : !quant.any<i8:f32>, !quant.any<u8>
        }
        """,
        # nothing to do
        "func.func @f(%a: i8) -> i8 { return %a : i8 }",
    ],
)
def test_same_as_mlir(mlir: Mlir, text: str):
    text = ALIASES + text
    expected = mlir.run(text, "strip-func-quant-types")
    assert isinstance(expected, Accepted)
    ours = answer_module(text, (StripFuncQuantTypesPass(),), generic=True)
    assert isinstance(ours, Accepted)
    assert mlir.run(ours.text) == expected


def test_locations_and_names():
    """Casts are where their values are, and are named after them."""
    module = parse(
        """
        func.func @f(%a: !q loc("argument"), %b: !q) -> !q {
          %x = "test.op"(%a) : (!q) -> !q loc("op")
          %r = func.call @f(%a, %x) : (!q, !q) -> !q loc("call")
          %s = "test.op"(%r) : (!q) -> !q loc("user")
          cf.br ^bb1(%s : !q) loc("branch")
        ^bb1(%y: !q loc("block")):
          "test.op"(%y) : (!q) -> ()
          func.return %x : !q loc("return")
        } loc("function")
        """
    )
    strip(module)
    module.verify()
    q = "!quant.uniform<i8:f32, 5.000000e-01>"
    assert text_of(module) == (
        f"""builtin.module {{
  func.func @f(%a: i8 loc("argument"), %b: i8 loc(unknown)) -> i8 {{
    %a_1 = quant.scast %a : i8 to {q} loc("argument")
    %x = "test.op"(%a_1) : ({q}) -> {q} loc("op")
    %x_stripped = quant.scast %x : {q} to i8 loc("call")
    %r = func.call @f(%a, %x_stripped) : (i8, i8) -> i8 loc("call")
    %r_1 = quant.scast %r : i8 to {q} loc("call")
    %s = "test.op"(%r_1) : ({q}) -> {q} loc("user")
    %s_stripped = quant.scast %s : {q} to i8 loc("branch")
    cf.br ^bb1(%s_stripped : i8) loc("branch")
  ^bb1(%y: i8 loc("block")):
    %y_1 = quant.scast %y : i8 to {q} loc("block")
    "test.op"(%y_1) : ({q}) -> () loc(unknown)
    func.return %x_stripped : i8 loc("return")
  }} loc("function")
}} loc(unknown)"""
    )


def test_values_stay():
    """Types change in place: who holds an argument or an op still has the right one."""
    quantized, i8 = AnyQuantizedType(builtin.i8, builtin.f32), builtin.i8
    block = Block(arg_types=(quantized,))
    cast_op = StorageCastOp(block.args[0], i8)
    block.add_ops((cast_op, func.ReturnOp(block.args[0])))
    function = func.FuncOp("f", ((quantized,), (quantized,)), Region(block))
    module = builtin.ModuleOp([function])
    strip(module)
    module.verify()
    assert function.function_type == builtin.FunctionType.from_lists([i8], [i8])
    assert block.args[0].type == i8
    new_cast, kept_cast, return_op = block.ops
    assert kept_cast is cast_op
    assert tuple(return_op.operands) == (block.args[0],)
    assert isinstance(new_cast, StorageCastOp)
    assert new_cast.input is block.args[0]
    assert new_cast.result is cast_op.input


def test_operands_that_a_branch_uses_itself():
    """Only the last operands of a branch become block arguments."""
    module = parse(
        """
        func.func @f(%a: !q, %n: i32) {
          "test.branch"(%a, %n, %a) [^bb1] : (!q, i32, !q) -> ()
        ^bb1(%b: !q):
          func.return
        }
        """
    )
    strip(module)
    module.verify()
    q = "!quant.uniform<i8:f32, 5.000000e-01>"
    assert str(module) == (
        f"""builtin.module {{
  func.func @f(%a: i8, %n: i32) {{
    %a_1 = quant.scast %a : i8 to {q}
    "test.branch"(%a_1, %n, %a) [^bb1] : ({q}, i32, i8) -> ()
  ^bb1(%b: i8):
    func.return
  }}
}}"""
    )


def test_branches_are_valid_mlir(mlir: Mlir):
    """MLIR has no result to compare with, but reads ours."""
    text = ALIASES + (
        """
        func.func @f(%a: !q, %c: i1, %x: f32) -> !q {
          %0 = quant.qcast %x : f32 to !q
          cf.cond_br %c, ^bb1(%0, %a : !q, !q), ^bb2(%a : !q)
        ^bb1(%d: !q, %e: !q):
          %1 = quant.dcast %e : !q to f32
          cf.br ^bb2(%d : !q)
        ^bb2(%g: !q):
          return %g : !q
        }
        """
    )
    assert not isinstance(mlir.run(text, "strip-func-quant-types"), Accepted)
    ours = answer_module(text, (StripFuncQuantTypesPass(),))
    assert isinstance(ours, Accepted)
    assert mlir.run(ours.text) == Accepted(
        """module {
  func.func @f(%arg0: i8, %arg1: i1, %arg2: f32) -> i8 {
    %0 = quant.qcast %arg2 : f32 to !quant.uniform<i8:f32, 5.000000e-01>
    %1 = quant.scast %0 : !quant.uniform<i8:f32, 5.000000e-01> to i8
    cf.cond_br %arg1, ^bb1(%1, %arg0 : i8, i8), ^bb2(%arg0 : i8)
  ^bb1(%2: i8, %3: i8):  // pred: ^bb0
    %4 = quant.scast %3 : i8 to !quant.uniform<i8:f32, 5.000000e-01>
    %5 = quant.dcast %4 : !quant.uniform<i8:f32, 5.000000e-01> to f32
    cf.br ^bb2(%2 : i8)
  ^bb2(%6: i8):  // 2 preds: ^bb0, ^bb1
    return %6 : i8
  }
}"""
    )


CALIBRATED = (
    "'!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>' has no storage type; convert "
    "it to '!quant.uniform' first"
)

GOOD_FUNCTION = """
func.func @good(%a: !q) -> !q {
  %i = quant.scast %a : !q to i8
  %b = quant.scast %i : i8 to !q
  "test.op"(%b) : (!q) -> ()
  func.return %b : !q
}
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'func.func private @f(!q, tensor<2x!c>) loc("model.py":3:5)',
            f"model.py:3:5: error: 'func.func' op argument #1 cannot be stripped: "
            f"{CALIBRATED}",
        ),
        (
            "func.func private @f((!q) -> !c) -> ()",
            f"'func.func' op argument #0 cannot be stripped: {CALIBRATED}",
        ),
        (
            "func.func private @f() -> (!q, !c)",
            f"'func.func' op result #1 cannot be stripped: {CALIBRATED}",
        ),
        (
            """
            func.func @f() {
              %a:2 = func.call @g() : () -> (!q, !c) loc("model.py":7:9)
              func.return
            }
            func.func private @g() -> (!q, !c)
            """,
            "model.py:7:9: error: 'func.call' op result #1 cannot be stripped: "
            f"{CALIBRATED}",
        ),
        (
            """
            func.func @f(%i: i8, %a: !quant.uniform<i8:f32:0, {1.0}>) {
              "test.op"(%a) : (!quant.uniform<i8:f32:0, {1.0}>) -> ()
              func.return
            }
            """,
            "'func.func' op argument #1 cannot be stripped: scalar types may not use "
            "per-axis quantization",
        ),
        (
            """
            func.func @f() {
              %a = "test.op"() : () -> !quant.uniform<i8:f32:0, {1.0}>
              %b = func.call @g(%a) : (!quant.uniform<i8:f32:0, {1.0}>) -> !q
                loc("model.py":4:2)
              func.return
            }
            func.func private @g(!quant.uniform<i8:f32:0, {1.0}>) -> !q
            """,
            "model.py:4:2: error: 'func.call' op operand #0 cannot be stripped: "
            "scalar types may not use per-axis quantization",
        ),
        (
            """
            func.func @f(%a: !q) {
              cf.br ^bb1(%a : !q)
            ^bb1(%b: !q):
              %c = "test.op"() : () -> tensor<2x!quant.uniform<i8:f32:1, {1.0}>>
              cf.br ^bb2(%c : tensor<2x!quant.uniform<i8:f32:1, {1.0}>>)
            ^bb2(%d: tensor<2x!quant.uniform<i8:f32:1, {1.0}>>):
              "test.op"(%d) : (tensor<2x!quant.uniform<i8:f32:1, {1.0}>>) -> ()
              func.return
            }
            """,
            "'func.func' op block argument #0 cannot be stripped: quantized dimension "
            "must be less than tensor rank",
        ),
        (
            """
            func.func @f(%a: !q) {
              "test.branch"(%a) [^bb1] : (!q) -> ()
            ^bb1(%b: !q, %c: f32):
              func.return
            }
            """,
            "'test.branch' op has successors with quantized arguments, but its last "
            "operands do not have the types of these arguments",
        ),
    ],
)
def test_failure_changes_nothing(text: str, message: str):
    module = parse(GOOD_FUNCTION + text)
    before = text_of(module)
    with pytest.raises(PassFailedException) as raised:
        strip(module)
    assert str(raised.value) == message
    assert text_of(module) == before


def test_the_pattern_does_the_same_as_the_pass():
    text = """
    func.func private @g(!q) -> !q
    func.func @f(%a: !q, %c: i1, %x: f32) -> (!q, !q) {
      %0 = quant.qcast %x : f32 to !q
      cf.cond_br %c, ^bb1(%a : !q), ^bb1(%0 : !q)
    ^bb1(%b: !q):
      %1 = call @g(%b) : (!q) -> !q
      %2 = quant.dcast %1 : !q to f32
      return %0, %1 : !q, !q
    }
    """
    by_pass, by_pattern = parse(text), parse(text)
    strip(by_pass)
    walker = PatternRewriteWalker(StripFuncQuantTypes())
    assert walker.rewrite_module(by_pattern)
    by_pattern.verify()
    assert text_of(by_pattern) == text_of(by_pass)
    assert not walker.rewrite_module(by_pattern)


def test_the_pattern_tells_of_a_change_of_a_declaration():
    module = parse("func.func private @f(!q) -> i8")
    walker = PatternRewriteWalker(StripFuncQuantTypes())
    assert walker.rewrite_module(module)
    assert "@f(i8) -> i8" in str(module)
    assert not walker.rewrite_module(module)
