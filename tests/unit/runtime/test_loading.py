"""Modules from text and passes by name, and what is said of mistakes."""

import sys
from collections.abc import Callable
from pathlib import Path
from traceback import format_exception

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import FileLineColLoc, IntegerAttr, ModuleOp, f32, i8
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass

from xdsl_quant.frontends.tflite import TFLiteFileError, read_tflite
from xdsl_quant.frontends.tflite.files.model import Model, Operator, Subgraph, Tensor
from xdsl_quant.frontends.tflite.files.schema import schema
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    as_module,
    parse_module,
    parse_passes,
)

QUANTIZE = """\
func.func @f(%x: f32) -> !quant.uniform<i8:f32, 0.5> {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 0.5>
    return %0 : !quant.uniform<i8:f32, 0.5>
}
"""


def test_ops_know_their_places():
    module = parse_module("\n" + QUANTIZE, "f.mlir")
    places: list[tuple[str, int, int]] = []
    for op in module.walk():
        if isinstance(loc := op.location, FileLineColLoc):
            places.append((op.name, loc.line.data, loc.column.data))
    assert places == [
        ("func.func", 2, 1),
        ("quant.qcast", 3, 3),
        ("func.return", 4, 5),
    ]


def test_places_in_the_text_are_kept():
    text = QUANTIZE.replace("0.5>\n}", '0.5> loc("g.mlir":7:8)\n}')
    *_, returned = parse_module(text).walk()
    assert str(returned.location) == 'loc("g.mlir":7:8)'


def test_no_module():
    with pytest.raises(IRError) as e:
        parse_module("func.func @f(%x: tensor<2y>) {\n  return\n}", "f.mlir")
    assert str(e.value) == (
        "f.mlir:1:26: error: Expected 'x' in shape delimiter, got y"
    )


def test_invalid_module():
    text = QUANTIZE.replace("%x: f32", "%x: f64").replace("%x : f32", "%x : f64")
    with pytest.raises(IRError) as e:
        parse_module(text)
    assert str(e.value) == (
        "module:2:3: error: 'quant.qcast' op expressed type in quantized type expected to "
        "match float type"
    )


def test_passes():
    module = parse_module(QUANTIZE)
    apply_passes(module, "lower-quant-ops{fuse=true},strip-func-quant-types")
    assert "quant.qcast" not in str(module)
    assert str(module).count("-> i8") == 1


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            "nope",
            "pass-pipeline: error: unknown pass 'nope'; xdsl-opt --help lists all passes",
        ),
        (
            "nope,cse,lower-quant-op,strip-func-quant-type",
            "pass-pipeline: error: unknown passes 'nope', 'lower-quant-op', "
            "'strip-func-quant-type'; maybe 'lower-quant-ops', 'strip-func-quant-types' "
            "were meant",
        ),
        ("canonicalize{", "pass-pipeline:1:14: error: Expected argument name here"),
        (
            "lower-quant-ops{rounding-mode=nearest}",
            "pass-pipeline: error: pass lower-quant-ops: rounding-mode must be 'truncate', "
            "'nearest-even' or 'nearest-away', not 'nearest'",
        ),
        (
            "cse,lower-quant-ops{fuse=true rounding_mode=truncate,nearest-even}",
            "pass-pipeline: error: pass lower-quant-ops: rounding-mode must be 'truncate', "
            "'nearest-even' or 'nearest-away', not 'truncate,nearest-even'",
        ),
        (
            "lower-quant-ops{zero-point-order}",
            "pass-pipeline: error: pass lower-quant-ops: zero-point-order must be "
            "'before-rounding' or 'after-rounding', but has no value",
        ),
        (
            "lower-quant-ops{fuse=yes}",
            "pass-pipeline: error: pass lower-quant-ops: fuse must be true or false, not "
            "'yes'",
        ),
        (
            "quant-calibrated-to-uniform{bits=true,8}",
            "pass-pipeline: error: pass quant-calibrated-to-uniform: bits must be an "
            "integer, not 'true,8'",
        ),
        (
            'quant-import-stats{file="s.json" missing=drop}',
            "pass-pipeline: error: pass quant-import-stats: missing must be 'error' or "
            "'keep', not 'drop'",
        ),
        (
            "quant-import-stats{file=3}",
            "pass-pipeline: error: pass quant-import-stats: file must be a string, in "
            "double quotes unless it is a single word, not '3'",
        ),
        (
            "quant-insert-stats-refs{keys=1}",
            "pass-pipeline: error: pass quant-insert-stats-refs: keys must be a string, in "
            "double quotes unless it is a single word, not '1'",
        ),
        (
            "quant-insert-stats-refs{ops=x,3}",
            "pass-pipeline: error: pass quant-insert-stats-refs: ops must be a list "
            "separated by commas, each item a string, in double quotes unless it is a "
            "single word, not 'x,3'",
        ),
        (
            "quant-import-stats",
            "pass-pipeline: error: pass quant-import-stats: missing option 'file'",
        ),
        (
            "verify-quant-constraints{rule=tflite}",
            "pass-pipeline: error: pass verify-quant-constraints: unknown option "
            "'rule'; available: 'rules'",
        ),
        (
            "lower-quant-ops{rounding_modes=truncate}",
            "pass-pipeline: error: pass lower-quant-ops: unknown option "
            "'rounding-modes'; available: 'rounding-mode', 'fuse', 'runtime-checks', "
            "'keep-qdq', 'scale-rounding', 'zero-point-order', 'nan'",
        ),
        (
            "normalize-quant-types{fuse=true}",
            "pass-pipeline: error: pass normalize-quant-types: unknown option 'fuse'; "
            "the pass has none",
        ),
        (
            "quant-import-stats{file=stats.json}",
            "pass-pipeline:1:30: error: Unknown token: stats.json must be in double quotes",
        ),
        (
            "quant-import-stats{missing=keep file=/data/3.json}",
            "pass-pipeline:1:38: error: Unknown token: /data/3.json must be in double "
            "quotes",
        ),
        (
            "quant-import-stats{file=3.json}",
            "pass-pipeline:1:27: error: Malformed pass arguments, expected either a space "
            "or `}` here: 3.json must be in double quotes",
        ),
    ],
)
def test_no_pipeline(pipeline: str, message: str):
    with pytest.raises(IRError) as e:
        parse_passes(pipeline)
    assert str(e.value) == message


def test_pass_that_fails():
    text = QUANTIZE.replace("uniform<i8:f32, 0.5>", "any<i8:f32>")
    module = parse_module(text, "f.mlir")
    with pytest.raises(IRError) as e:
        apply_passes(module, "canonicalize,lower-quant-ops")
    assert str(e.value) == (
        "f.mlir:2:3: error: 'quant.qcast' op cannot be lowered: type "
        "'!quant.any<i8:f32>' has no scale (in the pass lower-quant-ops)"
    )


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        (
            "lower-quant-ops,convert-linalg-to-loops",
            "error: lowering for linalg.generic with tensor results not yet supported (in "
            "the pass convert-linalg-to-loops)",
        ),
        (
            "arith-add-fastmath{flags=foo}",
            "error: 'foo' is not a valid fastmath flag. (in the pass arith-add-fastmath)",
        ),
    ],
)
def test_pass_of_xdsl_that_fails(passes: str, message: str):
    quantized = "tensor<2x!quant.uniform<i8:f32:0, {0.5, 0.25}>>"
    module = parse_module(
        "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        f"  %q = quant.qcast %x : tensor<2xf32> to {quantized}\n"
        f"  %y = quant.dcast %q : {quantized} to tensor<2xf32>\n"
        "  func.return %y : tensor<2xf32>\n}"
    )
    with pytest.raises(IRError) as e:
        apply_passes(module, passes)
    assert str(e.value) == message


def apply_to_any(pipeline: str) -> None:
    text = QUANTIZE.replace("uniform<i8:f32, 0.5>", "any<i8:f32>")
    apply_passes(parse_module(text), pipeline)


class _Spoil(ModulePass):
    """Leaves an invalid module."""

    name = "spoil"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = op.body.block
        block.add_op(ConstantOp(IntegerAttr(1, i8), f32))


@pytest.mark.parametrize(
    "mistake",
    [
        lambda: parse_module("func.func @f(%x: tensor<2y>) { return }"),
        lambda: parse_module(QUANTIZE.replace("f32", "f64", 1)),
        lambda: parse_module("builtin.module {" * 2000 + "}" * 2000),
        lambda: parse_passes("canonicalize{"),
        lambda: parse_passes("canonicalise"),
        lambda: parse_passes(f"quant-calibrated-to-uniform{{bits={'1' * 5000}}}"),
        lambda: parse_passes("lower-quant-ops{fuse=yes}"),
        lambda: apply_to_any("lower-quant-ops"),
        lambda: apply_passes(parse_module(QUANTIZE), [_Spoil()]),
    ],
)
def test_one_traceback_for_one_mistake(mistake: Callable[[], object]):
    with pytest.raises(IRError) as e:
        mistake()
    assert "".join(format_exception(e.value)).count("Traceback") == 1


def test_reason_that_is_not_in_the_first_line():
    text = """\
func.func @f(%a: tensor<2x2xi8>, %c: tensor<2x2xi32>) -> tensor<2x2xi32> {
  %r = linalg.max ins(%a, %c : tensor<2x2xi8>, tensor<2x2xi32>)
      outs(%c : tensor<2x2xi32>) -> tensor<2x2xi32>
  return %r : tensor<2x2xi32>
}"""
    with pytest.raises(IRError) as e:
        parse_module(text, "f.mlir")
    assert str(e.value) == (
        "f.mlir:2:3: error: 'arith.maxsi' op operand 'rhs' at position 1 does not verify: "
        "attribute i8 expected from variable 'T', but got i32"
    )


def test_name_of_a_block_that_is_a_number():
    with pytest.raises(IRError, match=r"^f.mlir: error: Invalid Block name format `0`"):
        parse_module("func.func @f() {\n^0:\n  return\n}", "f.mlir")


def test_text_that_is_nested_too_deeply():
    depth = 2000
    with pytest.raises(IRError) as e:
        parse_module("builtin.module {" * depth + "}" * depth, "f.mlir")
    assert str(e.value) == "f.mlir: error: the text is nested too deeply"


def test_file_name_instead_of_a_text():
    with pytest.raises(IRError) as e:
        parse_module("models/f.mlir")
    assert str(e.value) == (
        "module: error: expected MLIR text, found the file name 'models/f.mlir'; pass "
        "the content of the file"
    )


@pytest.mark.parametrize("text", ["", " \n\n", "// nothing\n  // func.func @f()", "//"])
def test_text_without_an_op(text: str):
    with pytest.raises(IRError) as e:
        parse_module(text, "f.mlir")
    assert str(e.value) == "f.mlir: error: the text contains no op"


def test_empty_module():
    assert not parse_module("builtin.module {} // nothing").ops


@pytest.mark.parametrize("text", [None, b"module {}", Path("f.mlir")])
def test_what_is_no_text(text: object):
    with pytest.raises(TypeError) as e:
        parse_module(text)  # pyright: ignore[reportArgumentType] the mistake
    assert str(e.value) == f"expected MLIR text as a str, found {type(text).__name__}"


@pytest.mark.parametrize(
    ("passes", "name"),
    [
        (None, "NoneType"),
        (3, "int"),
        (["canonicalize"], "list with str in it"),
        ((CanonicalizePass(), 3), "tuple with int in it"),
        (CanonicalizePass(), "CanonicalizePass"),
    ],
)
def test_what_are_no_passes(passes: object, name: str):
    module = parse_module(QUANTIZE)
    with pytest.raises(TypeError) as e:
        apply_passes(module, passes)  # pyright: ignore[reportArgumentType] the mistake
    assert str(e.value) == (
        f"expected a pipeline, e.g. 'canonicalize,cse', or a list of passes, found {name}"
    )


# Files

DENSE = "docs/examples/dense.tflite"


@pytest.mark.parametrize("source", [DENSE, Path(DENSE)])
def test_module_of_a_file(source: str | Path):
    module = as_module(source)
    assert isinstance(module, ModuleOp)
    assert "tfl.fully_connected" in {op.name for op in module.walk()}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no such file or directory"),
        (b"", "not a TensorFlow Lite model: bytes 4 to 8 are not 'TFL3'"),
        (
            Path(DENSE).read_bytes()[:300],
            "the file is damaged: an offset is beyond the end of the file",
        ),
    ],
)
def test_file_that_is_no_model(content: bytes | None, message: str, tmp_path: Path):
    path = tmp_path / "m.tflite"
    if content is not None:
        path.write_bytes(content)
    for source in (path, str(path)):
        with pytest.raises(IRError) as e:
            as_module(source)
        assert str(e.value) == f"{path}: error: {message}"
        assert "".join(format_exception(e.value)).count("Traceback") == 1


def test_directory_instead_of_a_file(tmp_path: Path):
    directory = tmp_path / "d.tflite"
    directory.mkdir()
    with pytest.raises(IRError, match=r"\.tflite: error: is a directory$"):
        as_module(directory)


def test_file_of_an_invalid_module(tmp_path: Path):
    path = tmp_path / "m.tflite"
    types = zip("xy", ("FLOAT32", "INT32"), strict=True)
    tensors = [Tensor(name, type_, [2]) for name, type_ in types]
    graph = Subgraph("main", tensors, [0], [1], [Operator("RELU", [0], [1])])
    path.write_bytes(write_model(Model([graph])))
    message = (
        f"{path}: loc(\"y\"): error: 'tfl.relu' op failed to verify that x and y must "
        "have same element type"
    )
    with pytest.raises(IRError) as e:
        as_module(path)
    assert str(e.value) == message
    with pytest.raises(TFLiteFileError) as file_error:
        read_tflite(path)
    assert str(file_error.value) == message


def test_file_without_the_package_that_reads_it(monkeypatch: pytest.MonkeyPatch):
    schema.cache_clear()
    monkeypatch.setitem(sys.modules, "tflite", None)
    try:
        with pytest.raises(
            ImportError, match=r"^reading a '.tflite' file needs tflite, "
        ):
            as_module(DENSE)
    finally:
        schema.cache_clear()


def test_text_that_ends_like_a_file():
    assert not as_module("builtin.module {}\n// of x.tflite").ops
