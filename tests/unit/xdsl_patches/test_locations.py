"""Locations are read as MLIR reads them, and printed so that MLIR reads the same."""

from io import StringIO

import pytest
from xdsl.dialects.builtin import CallSiteLoc, ModuleOp, UnknownLoc
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from tests.conformance.answers import Accepted, Answer, Rejected
from tests.conformance.real_mlir import Mlir
from xdsl_quant.runtime.loading import parse_module

from .modules import parse, run

MODULE = """
#before = loc("before":1:2)
module {
  func.func @f(%a: i32 loc("a"("a.py":3:4)), %b: i32 loc(#before)) -> i32 {
    %0 = arith.addi %a, %b : i32 loc(#call)
    %1 = arith.addi %0, %0 {quoted = "#call = loc(unknown)"} : i32 loc("n"(#before))
    cf.br ^bb1(%1 : i32) loc(#fused)
  ^bb1(%2: i32 loc(#name)):
    return %2 : i32 loc(#_0a$b-c)
  } loc(#0)
} loc(#same)
// #call = loc("comment")
#name = loc("jit(f)/add")
#0=loc("zero"(#name)) #_0a$b-c = loc("odd")
#call = loc(callsite(#name at #0))
#map = affine_map<(d0) -> (d0 + 1)>
!array = memref<3xi8, #map>
#fused = loc(fused<{map = #map, array = !array}>[#call, "b", callsite(#0 at "c":5:6)])
#same = #name
"""


def printed(module: ModuleOp) -> str:
    output = StringIO()
    Printer(output, print_debuginfo=True).print_op(module)
    return output.getvalue()


def accepted(answer: Answer) -> str:
    assert isinstance(answer, Accepted), answer
    return answer.text


def test_locations_are_those_of_mlir(mlir: Mlir):
    by_mlir = accepted(mlir.run(MODULE, debug=True))
    # All locations of the text are printed, some of them at the end.
    assert by_mlir.count(" = loc(") == 13
    assert "} loc(#loc)\n#loc3 = " in by_mlir
    for text in (MODULE, by_mlir):
        assert accepted(mlir.run(printed(parse(text)), debug=True)) == by_mlir


def test_argument_with_a_later_location():
    text = """
func.func @f(%a: tensor<4xf32> loc(#loc1)) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
#loc1 = loc("x")
"""
    assert run("xdsl-opt", "--print-debuginfo", stdin=text) == (
        "builtin.module {\n"
        '  func.func @f(%a: tensor<4xf32> loc("x")) -> tensor<4xf32> {\n'
        "    func.return %a : tensor<4xf32> loc(unknown)\n"
        "  } loc(unknown)\n"
        "} loc(unknown)\n\n"
    )
    with pytest.raises(AssertionError, match="undefined symbol alias '#loc1'"):
        run("xdsl-opt", stdin=text, XDSL_QUANT_PATCHES="off")


@pytest.mark.parametrize(
    ("location", "read"),
    [
        ('"a":1:2 to :7', '"a":1:2'),
        ('"a":1:2 to 5:7', '"a":1:2'),
        (
            'callsite("a":1:2 to 5:7 at "b"("c":1:2 to :3))',
            'callsite("a":1:2 at "b"("c":1:2))',
        ),
        ('fused<"m">["a", unknown]', 'fused<"m">["a", unknown]'),
        ('fused<[3 : i8]>["a":1:2 to :3]', 'fused<[3 : i8]>["a":1:2]'),
        ('fused["a"]', 'fused["a"]'),
    ],
)
def test_ranges_and_metadata(mlir: Mlir, location: str, read: str):
    text = f"module {{\n}} loc({location})"
    accepted(mlir.run(text))
    assert printed(parse(text)) == f"builtin.module {{\n}} loc({read})"


@pytest.mark.parametrize(
    ("text", "message", "by_mlir"),
    [
        (
            "module {\n} loc(#a)\n#b = loc(unknown)",
            "undefined symbol alias '#a'",
            "operation location alias was never defined",
        ),
        (
            'module {\n} loc(#a)\n#a = loc("x"(#b))\n#b = loc("y"(#a))',
            "undefined symbol alias '#a'",
            "undefined symbol alias id 'b'",
        ),
        (
            "module attributes {a.b = #a} {\n}\n#a = loc(unknown)",
            "undefined symbol alias '#a'",
            "undefined symbol alias id 'a'",
        ),
        (
            "module {\n} loc(#a)\nmodule attributes {a.b = #b} {\n}\n"
            "#a = loc(unknown)\n#b = 3",
            "undefined symbol alias '#b'",
            "undefined symbol alias id 'b'",
        ),
        (
            "module {\n} loc(#a)\n#a = loc(unknown)\n#a = loc(unknown)",
            "re-declaration of alias '#a'",
            "redefinition of attribute alias id 'a'",
        ),
        (
            "module {\n} loc(#a)\n#a = 3",
            "Expected location alias.",
            "expected location, but found '3 : i64'",
        ),
        (
            "module {\n} loc(#a.b)\n#a.b = loc(unknown)",
            "'a.b' is not registered",
            '#"a"<"b"> : \'none\' attribute created with unregistered dialect. If this is '
            "intended, please call allowUnregisteredDialects() on the MLIRContext, or use "
            "-allow-unregistered-dialect with the MLIR opt tool used",
        ),
        (
            'module {\n} loc("a":1:2 to 3)',
            "Expected ':'",
            "expected either integer or `:` post `to` in FileLineColRange",
        ),
    ],
)
def test_mistakes(mlir: Mlir, text: str, message: str, by_mlir: str):
    with pytest.raises(ParseError) as error:
        parse(text)
    answer = mlir.run(text)
    assert isinstance(answer, Rejected)
    assert (error.value.msg.strip(), answer.diagnostics[0].message) == (
        message,
        by_mlir,
    )


def test_later_definitions_that_are_nested_are_read():
    """MLIR refuses them, and prints none."""
    text = 'module {\n} loc(callsite("a"(#b) at #c))\n#b = loc("b"(#c))\n#c = loc("c")'
    expected = 'builtin.module {\n} loc(callsite("a"("b"("c")) at "c"))'
    assert printed(parse(text)) == expected


def test_definitions_in_strings_and_comments_do_not_count():
    text = (
        'module attributes {a.b = "\\"#l = loc(unknown)"} {\n} loc(#l) '
        '// #l = loc(unknown)\n#l = loc("x")'
    )
    assert printed(parse_module(text)).endswith('} loc("x")')


def test_long_chains_of_later_locations_are_read():
    """xDSL would nest too deeply if it read each location when another uses it."""
    aliases = [f'#l{i} = loc(callsite("x{i}" at #l{i - 1}))' for i in range(1, 201)]
    text = "\n".join(("module {", "} loc(#l200)", "#l0 = loc(unknown)", *aliases))
    location, depth = parse(text).location, 0
    while isinstance(location, CallSiteLoc):
        location, depth = location.caller, depth + 1
    assert (depth, location) == (200, UnknownLoc())
