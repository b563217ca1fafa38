"""`xdsl-quant calibrate`, in this process and once as a command."""

import io
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_quant.calibration import Statistics
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.tools.calibrate import main

TEXT = """
func.func @f(%x: tensor<?x2xf32>, %y: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %sum = arith.addf %x, %y : tensor<?x2xf32>
  return %sum : tensor<?x2xf32>
}
"""
BRANCHES = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = arith.constant true
  %r = scf.if %c -> (tensor<2xf32>) {
    %b = arith.addf %x, %x : tensor<2xf32>
    scf.yield %b : tensor<2xf32>
  } else {
    scf.yield %x : tensor<2xf32>
  }
  return %r : tensor<2xf32>
}
"""
X = np.array([[1, 2], [3, 4], [-5, 6], [7, 8], [9, 10]], np.float32)


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A directory with modules and samples."""
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(TEXT)
    Path("if.mlir").write_text(BRANCHES)
    Path("else.mlir").write_text(BRANCHES.replace("true", "false"))
    np.savez("data.npz", x=X, y=-2 * X)
    np.save("x.npy", X)
    np.save("short.npy", X[:4])
    np.save("row.npy", X[0])
    np.save("nan.npy", np.where(X == 9, np.float32(np.nan), X))


def outputs(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What the command prints; it must succeed."""
    code = main([*args, "-o", "stats.json"])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def error(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The one line that the command prints to stderr; it must fail."""
    code = main(args if "-o" in args else [*args, "-o", "stats.json"])
    captured = capsys.readouterr()
    assert (code, captured.out) == (1, "")
    assert not Path("stats.json").exists()
    (line,) = captured.err.splitlines()
    return line


INPUTS = (
    ("--inputs", "data.npz"),
    ("--inputs", "data.npz:x", "--inputs", "data.npz:y"),
)


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize(
    ("size", "count"), [((), 1), (("--batch-size", "2"), 3), (("--batch-size", "9"), 1)]
)
def test_ranges(
    inputs: tuple[str, ...],
    size: tuple[str, ...],
    count: int,
    capsys: pytest.CaptureFixture[str],
):
    text = outputs(capsys, "m.mlir", *inputs, *size)
    assert text == (
        "f:argument:0: -5.0 to 10.0\nf:argument:1: -20.0 to 10.0\n"
        "f:arith.addf:0: -10.0 to 5.0\n"
    )
    assert Statistics.load("stats.json").batch_count == count


WEIGHTS = """
func.func @f(%x: tensor<?x2xf32>, %w: tensor<{}x2xf32>, %b: f32, %s: tensor<f32>) {{
  %0 = quant.stats_ref %x "x" : tensor<?x2xf32>
  %1 = quant.stats_ref %w "w" : tensor<{}x2xf32>
  %2 = quant.stats_ref %b "b" : f32
  %3 = quant.stats_ref %s "s" : tensor<f32>
  return
}}
"""


@pytest.mark.parametrize(
    ("rows", "options"), [("3", ()), ("?", ("--whole", "1")), ("3", ("--whole", "1"))]
)
def test_inputs_that_are_no_samples(
    rows: str, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    """Every batch gets the whole of weights and of scalars."""
    Path("w.mlir").write_text(WEIGHTS.format(rows, rows))
    np.save("w.npy", np.array([[1, 2], [3, 4], [-1, 7]], np.float32))
    np.save("s.npy", np.float32(4))
    inputs = [
        part
        for value in ("x.npy", "w.npy", "4", "s.npy")
        for part in ("--inputs", value)
    ]
    options = (*inputs, "--batch-size", "2", *options, "--observer", "moving-average")
    assert outputs(capsys, "w.mlir", *options) == (
        "b: 4.0 to 4.0\ns: 4.0 to 4.0\nw: -1.0 to 7.0\nx: 1.26 to 4.96\n"
    )
    statistics = Statistics.load("stats.json")
    assert statistics.batch_count == 3
    assert statistics.observations["x"].observation.lows.tolist() == [1, -5, 9]
    assert statistics.observations["w"].observation.lows.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("size", ["2", "5"])
def test_weights_with_as_many_rows_as_a_batch(
    size: str, capsys: pytest.CaptureFixture[str]
):
    """The type of an argument says which of two inputs of one size is cut."""
    Path("w.mlir").write_text(WEIGHTS.format("5", "5"))
    np.save("w.npy", -X)
    inputs = (
        "--inputs",
        "x.npy",
        "--inputs",
        "w.npy",
        "--inputs",
        "1",
        "--inputs",
        "2",
    )
    outputs(capsys, "w.mlir", *inputs, "--batch-size", size)
    assert Statistics.load("stats.json").batch_count == {"2": 3, "5": 1}[size]
    assert Statistics.load("stats.json").ranges("w").layer == (-10, 5)


@pytest.mark.parametrize("size", ["5", "2", "7"])
def test_function_of_so_many_samples(size: str, capsys: pytest.CaptureFixture[str]):
    Path("five.mlir").write_text(TEXT.replace("?", "5"))
    options = ("five.mlir", "--inputs", "data.npz", "--batch-size", size)
    if size == "5":
        outputs(capsys, *options)
        assert Statistics.load("stats.json").batch_count == 1
        return
    assert error(capsys, *options) == (
        f"--batch-size {size}: error: no input can be split: all are named by --whole or "
        "have a static first dimension; remove the option"
    )


def test_batches_of_the_size_of_the_function(capsys: pytest.CaptureFixture[str]):
    Path("two.mlir").write_text(TEXT.replace("?", "2"))
    np.savez("four.npz", x=X[:4], y=-X[:4])
    outputs(capsys, "two.mlir", "--inputs", "four.npz", "--batch-size", "2")
    assert Statistics.load("stats.json").batch_count == 2


@pytest.mark.filterwarnings("default")
def test_empty_array(capsys: pytest.CaptureFixture[str]):
    np.savez("empty.npz", x=X[:0], y=X[:0])
    assert main(["m.mlir", "--inputs", "empty.npz", "-o", "stats.json"]) == 1
    assert capsys.readouterr().err == (
        "warning: batch 0 skipped: argument 0 has no elements\n"
        "m.mlir: error: expected at least one batch, found none\n"
    )


STABLEHLO = Path(__file__).parents[3] / "docs" / "examples" / "stablehlo_softmax.mlir"


def test_stablehlo(capsys: pytest.CaptureFixture[str]):
    """Keys are those of StableHLO's ops, and the file is for the module as it is."""
    rows = np.array([[1, 2, 3, 4], [-1, 0, 2, 5.5]], np.float32)
    weights = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    np.savez("x.npz", rows=rows, weights=weights)
    model = str(STABLEHLO)
    printed = outputs(capsys, model, "--inputs", "x.npz", "--report", "r.html")
    logits = rows @ weights
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    sums = exponentials.sum(axis=1)
    expected = {
        "argument:0": rows,
        "argument:1": weights,
        "stablehlo.divide:0": exponentials / sums[:, None],
        "stablehlo.dot_general:0": logits,
        "stablehlo.exponential:0": exponentials,
        "stablehlo.reduce:0": logits.max(axis=1),
        "stablehlo.reduce:1": sums,
        "stablehlo.subtract:0": logits - logits.max(axis=1, keepdims=True),
    }
    statistics = Statistics.load("stats.json")
    assert sorted(statistics.observations) == [f"main:{key}" for key in expected]
    for key, values in expected.items():
        low, high = statistics.ranges(f"main:{key}").layer
        assert np.allclose((low, high), (values.min(), values.max()), rtol=1e-5)
    pipeline = "quant-insert-stats-refs,convert-stablehlo-to-linalg"
    assert outputs(capsys, model, "--inputs", "x.npz", "-p", pipeline) == printed
    module = parse_module(STABLEHLO.read_text())
    passes = (
        'quant-insert-stats-refs,quant-import-stats{file="stats.json"},'
        "quant-stats-to-calibrated,quant-calibrated-to-uniform,quant-casts-to-stablehlo"
    )
    apply_passes(module, passes)
    assert str(module).count("stablehlo.uniform_quantize") == len(expected)
    assert capsys.readouterr().err == ""


def test_file_is_imported(capsys: pytest.CaptureFixture[str]):
    outputs(capsys, "m.mlir", "--inputs", "data.npz", "--axis", "f:arith.addf:0=1")
    module = parse_module(TEXT)
    passes = 'quant-insert-stats-refs,quant-import-stats{file="stats.json"}'
    apply_passes(module, passes)
    assert "quant.stats %x <-5.000000e+00:1.000000e+01> :" in str(module)
    channels = "axis 1 [<-9.000000e+00:5.000000e+00>, <-1.000000e+01:-2.000000e+00>]"
    assert f"quant.stats %sum <-1.000000e+01:5.000000e+00> {channels} :" in str(module)


def test_refs_that_are_there(capsys: pytest.CaptureFixture[str]):
    passes = 'quant-insert-stats-refs{ops="arith.addf"}'
    options = ("--inputs", "data.npz", "-p", passes, "--entry", "f")
    assert outputs(capsys, "m.mlir", *options) == "f:arith.addf:0: -10.0 to 5.0\n"


def test_observer(capsys: pytest.CaptureFixture[str]):
    np.save("many.npy", np.arange(-500, 502, dtype=np.float32).reshape(-1, 2))
    Path("one.mlir").write_text(
        "func.func @f(%x: tensor<?x2xf32>) {\n"
        '  %y = quant.stats_ref %x "x" : tensor<?x2xf32>\n  return\n}'
    )
    options = ("--inputs", "many.npy", "--observer", "percentile=90")
    assert outputs(capsys, "one.mlir", *options) == "x: -450.25 to 451.25\n"
    assert Statistics.load("stats.json").observer == "percentile=90"


@pytest.mark.filterwarnings("default")
def test_warning(capsys: pytest.CaptureFixture[str]):
    """It is one line, without the place in the code."""
    values = np.linspace(-1, 1, 1000, dtype=np.float32).reshape(-1, 2)
    values[5, 0] = 1e10
    np.save("outlier.npy", values)
    Path("one.mlir").write_text(
        "func.func @f(%x: tensor<?x2xf32>) {\n"
        '  %y = quant.stats_ref %x "x" : tensor<?x2xf32>\n  return\n}'
    )
    options = ("--inputs", "outlier.npy", "--observer", "percentile=90")
    assert main(["one.mlir", *options, "-o", "stats.json"]) == 0
    assert capsys.readouterr() == (
        "x: -1.0 to 4.0\n",
        "warning: key 'x': range -1 to 4 may be much too wide: outlier 1e+10 is so large "
        "that one bin of the histogram holds all other values; remove samples with "
        "outliers\n",
    )


def test_branch_that_no_batch_takes(capsys: pytest.CaptureFixture[str]):
    ranges = "f:argument:0: 1.0 to 2.0\nf:scf.if:0: 1.0 to 2.0\n"
    warning = (
        "else.mlir: warning: no batch reached these keys: 'f:arith.addf:0'; "
        "add inputs that take this path\n"
    )
    for passes in ("", "quant-insert-stats-refs"):
        options = ("--inputs", "row.npy", "-p", passes, "-o", "stats.json")
        assert main(["else.mlir", *options]) == 0
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == (ranges, warning)


def test_branches_and_functions_that_are_called(capsys: pytest.CaptureFixture[str]):
    ranges = (
        "f:argument:0: 1.0 to 2.0\nf:arith.addf:0: 2.0 to 4.0\nf:scf.if:0: 2.0 to 4.0\n"
    )
    assert outputs(capsys, "if.mlir", "--inputs", "row.npy") == ranges
    Path("call.mlir").write_text(
        f"""{BRANCHES}
func.func @main(%x: tensor<2xf32>) {{
  %y = func.call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return
}}
func.func private @unused(%x: tensor<2xf32>) {{ return }}
"""
    )
    expected = f"{ranges}main:argument:0: 1.0 to 2.0\nmain:func.call:0: 2.0 to 4.0\n"
    assert outputs(capsys, "call.mlir", "--inputs", "row.npy") == expected


def test_checkpoint(capsys: pytest.CaptureFixture[str]):
    np.savez("bad.npz", x=np.load("nan.npy"), y=-2 * X)
    options = ("--batch-size", "2", "--checkpoint", "c.json")
    message = (
        "m.mlir: error: batch 2, key 'f:argument:0': expected finite values, found "
        "NaN; leave out the sample, or select other keys with the options 'ops=' or "
        "'keys=' of quant-insert-stats-refs"
    )
    assert error(capsys, "m.mlir", "--inputs", "bad.npz", *options) == message
    assert json.loads(Path("c.json").read_text())["batches"] == 2
    outputs(capsys, "m.mlir", "--inputs", "data.npz", *options)
    resumed = Path("stats.json").read_text()
    outputs(capsys, "m.mlir", "--inputs", "data.npz", "--batch-size", "2")
    assert Path("stats.json").read_text() == resumed


def test_checkpoint_of_other_inputs(capsys: pytest.CaptureFixture[str]):
    options = ("--inputs", "data.npz", "--checkpoint", "c.json", "--batch-size")
    outputs(capsys, "m.mlir", *options, "2")
    Path("stats.json").unlink()
    message = (
        "--checkpoint c.json: error: checkpoint c.json belongs to {}; delete it, or pass "
        "the same inputs in the same batches"
    )
    # Three batches, as before.
    np.savez("data.npz", x=X, y=-3 * X)
    assert error(capsys, "m.mlir", *options, "2") == message.format("other inputs")
    np.savez("data.npz", x=X, y=-2 * X)
    assert error(capsys, "m.mlir", *options, "1") == message.format("other inputs")
    few = "3 batches, found 2"
    assert error(capsys, "m.mlir", *options, "3") == message.format(few)
    outputs(capsys, "m.mlir", *options, "2")


@pytest.mark.parametrize(
    "inputs",
    [
        ("[[1, 2], [3, 4.5]]", "[[5, 6], [7, 8]]"),
        ("x.npy", "[[1, 2], [1, 2], [1, 2], [1, 2], [1, 2.5]]"),
    ],
)
@pytest.mark.parametrize("size", [(), ("--batch-size", "1"), ("--batch-size", "2")])
def test_lists(
    inputs: tuple[str, str], size: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    """Their numbers are rounded to the type of the argument."""
    one, other = (("--inputs", text) for text in inputs)
    printed = outputs(capsys, "m.mlir", *one, *other, *size)
    (_, x), (_, y) = one, other
    arrays = [
        np.load(text) if text.endswith("npy") else np.array(json.loads(text))
        for text in (x, y)
    ]
    expected = [*arrays, arrays[0] + arrays[1]]
    assert [line.partition(": ")[2] for line in printed.splitlines()] == [
        f"{float(array.min())} to {float(array.max())}" for array in expected
    ]


def test_numbers(capsys: pytest.CaptureFixture[str]):
    Path("one.mlir").write_text(
        'func.func @f(%x: f32) {\n  %y = quant.stats_ref %x "x" : f32\n  return\n}'
    )
    assert outputs(capsys, "one.mlir", "--inputs", "3") == "x: 3.0 to 3.0\n"
    assert outputs(capsys, "one.mlir", "--inputs=-1.5") == "x: -1.5 to -1.5\n"


SAME_FILES = {
    "module": (("-o", "m.mlir"), "-o m.mlir", "the input module"),
    "module, called otherwise": (
        ("-o", "./dir/../m.mlir"),
        "-o ./dir/../m.mlir",
        "the input module",
    ),
    "link to the module": (("-o", "link.mlir"), "-o link.mlir", "the input module"),
    "hard link": (("-o", "hard.mlir"), "-o hard.mlir", "the input module"),
    "report in place of the module": (
        ("--report", "m.mlir"),
        "--report m.mlir",
        "the input module",
    ),
    "array": (("-o", "x.npy"), "-o x.npy", "--input x.npy"),
    "archive": (
        ("--report", "data.npz"),
        "--report data.npz",
        "--input data.npz:y",
    ),
    "checkpoint in place of inputs": (
        ("--checkpoint", "x.npy"),
        "--checkpoint x.npy",
        "--input x.npy",
    ),
    "checkpoint in place of the module": (
        ("--checkpoint", "m.mlir"),
        "--checkpoint m.mlir",
        "the input module",
    ),
    "output and report": (
        ("-o", "same.x", "--report", "same.x"),
        "--report same.x",
        "-o same.x",
    ),
    "output and checkpoint": (
        ("-o", "same.x", "--checkpoint", "dir/../same.x"),
        "--checkpoint dir/../same.x",
        "-o same.x",
    ),
    "report and checkpoint": (
        ("--report", "same.x", "--checkpoint", "same.x"),
        "--checkpoint same.x",
        "--report same.x",
    ),
    "standard output": (("-o", "-", "--report", "-"), "--report -", "-o -"),
}


@pytest.mark.parametrize("name", SAME_FILES)
def test_files_are_not_overwritten(name: str, capsys: pytest.CaptureFixture[str]):
    Path("dir").mkdir()
    Path("link.mlir").symlink_to("m.mlir")
    Path("hard.mlir").hardlink_to("m.mlir")
    before = {path: path.read_bytes() for path in Path().glob("*.*")}
    options, file, other = SAME_FILES[name]
    inputs = ("--inputs", "x.npy", "--inputs", "data.npz:y")
    line = error(capsys, "m.mlir", *inputs, *options)
    assert line == f"{file}: error: output would overwrite {other}; use another file"
    assert {path: path.read_bytes() for path in Path().glob("*.*")} == before


def test_standard_input_and_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", Path("m.mlir").open())
    with sys.stdin:
        assert main(["-", "--inputs", "data.npz", "-o", "-"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["batches"] == 1
    assert printed.err.startswith("f:argument:0: ")
    assert not Path("-").exists()
    text = error(capsys, "-", "--input", "-")
    assert text == (
        "-: error: standard input is used twice: for the input module and --input -"
    )
    text = error(capsys, "m.mlir", "--input", "data.npz", "--checkpoint", "-")
    assert text == "--checkpoint -: error: expected a file"


def test_samples_in_rows(capsys: pytest.CaptureFixture[str]):
    """`--data` is split into batches of the size that the function takes."""
    Path("rows.mlir").write_text("""
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = arith.addf %x, %x : tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}""")
    np.save("rows.npy", np.arange(12, dtype=np.float32).reshape(4, 3))
    outputs(capsys, "rows.mlir", "--data", "rows.npy")
    found = Statistics.load("stats.json")
    assert found.batch_count == 2
    assert found.ranges("f:arith.addf:0").layer == (0.0, 22.0)
    Path("stats.json").unlink()
    assert error(capsys, "rows.mlir", "--data", "rows.npy", "--batch-size", "2") == (
        "--batch-size, --whole: error: options apply to --input only"
    )
    assert error(capsys, "rows.mlir", "--data", "data.npz") == (
        "data.npz: error: expected 1 array, one for each argument of function 'f', found "
        "2: data.npz:x, data.npz:y; leave out arrays that are not arguments, such as labels"
    )


def test_devices_are_not_overwritten():
    options = ("--inputs", "data.npz", "-o", os.devnull, "--report", os.devnull)
    assert main(["m.mlir", *options]) == 0


@pytest.mark.parametrize("observer", ["min-max", "moving-average", "percentile"])
def test_report(observer: str, capsys: pytest.CaptureFixture[str]):
    options = ("--inputs", "data.npz", "--batch-size", "2", "--observer", observer)
    printed = outputs(capsys, "m.mlir", *options)
    ranges = json.loads(Path("stats.json").read_text())["statistics"]
    report = ("--report", "r.html", "--types", "bits=4 symmetric=true")
    assert outputs(capsys, "m.mlir", *options, *report) == printed
    assert json.loads(Path("stats.json").read_text())["statistics"] == ranges
    page = Path("r.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "<title>Calibration of m.mlir</title>" in page
    assert "quant-calibrated-to-uniform{bits=4 symmetric=true}" in page
    assert page.count("!quant.uniform&lt;i4:f32, ") == 3
    assert page.count("<svg ") == 3


def test_report_without_the_package_that_draws_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    options = ("m.mlir", "--inputs", "data.npz", "--batch-size", "2")
    assert error(capsys, *options, "--report", "r.html") == (
        "--report r.html: error: a report needs Jinja2, which is not installed; run pip "
        "install '.[notebook]' in a checkout of xdsl-quant"
    )
    assert not Path("r.html").exists()
    outputs(capsys, *options)


def test_types_of_the_report_are_those_of_the_module(
    capsys: pytest.CaptureFixture[str],
):
    Path("half.mlir").write_text(
        "func.func @f(%x: tensor<?x2xf32>) -> tensor<?x2xf16> {\n"
        "  %y = arith.truncf %x : tensor<?x2xf32> to tensor<?x2xf16>\n"
        "  return %y : tensor<?x2xf16>\n}"
    )
    outputs(capsys, "half.mlir", "--inputs", "x.npy", "--report", "r.html")
    assert Path("r.html").read_text().count("!quant.uniform&lt;i8:f16, ") == 1


def test_report_of_a_run_that_was_interrupted(capsys: pytest.CaptureFixture[str]):
    options = ("--inputs", "data.npz", "--batch-size", "2", "--checkpoint", "c.json")
    report = (*options, "--report", "r.html")
    outputs(capsys, "m.mlir", *report)
    expected = Path("r.html").read_text()
    content = Path("stats.json").read_text()
    # All batches are in the checkpoint.
    outputs(capsys, "m.mlir", *report)
    assert Path("r.html").read_text() == expected
    assert Path("stats.json").read_text() == content


def test_damaged_checkpoint(capsys: pytest.CaptureFixture[str]):
    Path("c.json").write_text("no JSON")
    text = error(capsys, "m.mlir", "--inputs", "data.npz", "--checkpoint", "c.json")
    assert text.startswith("--checkpoint c.json: error: c.json is not JSON: ")


def test_checkpoint_without_histograms(capsys: pytest.CaptureFixture[str]):
    np.savez("bad.npz", x=np.load("nan.npy"), y=-2 * X)
    options = ("--batch-size", "2", "--checkpoint", "c.json")
    error(capsys, "m.mlir", "--inputs", "bad.npz", *options)
    options = (*options, "--report", "r.html")
    assert error(capsys, "m.mlir", "--inputs", "data.npz", *options) == (
        "--checkpoint c.json: error: checkpoint c.json belongs to a run without "
        "histograms, expected one with histograms; delete it, or use another file"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--report", "missing/r.html"),
            "missing/r.html: error: missing directory",
        ),
        (
            ("--types", "bits=4"),
            "--types: error: option applies to the report only; add --report",
        ),
        (
            ("--report", "r.html", "--types", "bits=1 symmetric=true"),
            "--types bits=1 symmetric=true: error: symmetric quantization requires stored "
            "values below and above the zero point, found -1 to 0 of 'i1'",
        ),
        (
            ("--report", "r.json"),
            "--report r.json: error: unknown kind of report; use .html or .htm",
        ),
        (
            ("--report", "r.html", "--types", "bit=1"),
            "--types bit=1: error: pass quant-calibrated-to-uniform: unknown option "
            "'bit'; available: 'bits', 'signed', 'symmetric', 'narrow-range', 'per-axis'",
        ),
        (
            ("--report", "r.html", "--types", "bits=4},canonicalize{"),
            "--types bits=4},canonicalize{: error: expected pass options only",
        ),
    ],
)
def test_wrong_reports(
    options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
):
    assert error(capsys, "m.mlir", "--inputs", "data.npz", *options) == message


def test_report_that_cannot_be_written(capsys: pytest.CaptureFixture[str]):
    """Nothing runs before that is found."""
    Path("taken").mkdir()
    options = ("--inputs", "data.npz", "-o", "stats.json", "--report", "taken")
    assert main(["m.mlir", *options]) == 1
    assert capsys.readouterr().err == "taken: error: is a directory\n"
    assert not Path("stats.json").exists()


@pytest.mark.parametrize("option", ["-o", "--report", "--checkpoint"])
def test_full_disk(option: str, small_disk: Path, capsys: pytest.CaptureFixture[str]):
    """The old file stays, and nothing else."""
    file, large = small_disk / "file.html", small_disk / "large"
    options = ["m.mlir", "--inputs", "data.npz", "-o", "stats.json", option, str(file)]
    assert main(options) == 0
    before = file.read_bytes()
    with suppress(OSError), large.open("wb") as stream:
        stream.write(bytes(1 << 20))
    capsys.readouterr()
    assert main(options) == 1
    assert capsys.readouterr().err == f"{file}: error: no space left on device\n"
    assert file.read_bytes() == before
    assert sorted(os.listdir(small_disk)) == ["file.html", "large"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("is_terminal", [False, True])
def test_progress(is_terminal: bool, monkeypatch: pytest.MonkeyPatch):
    stderr = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    options = ["--inputs", "data.npz", "--batch-size", "2", "-o", "stats.json"]
    assert main(["m.mlir", *options]) == 0
    shown = stderr.getvalue()
    if not is_terminal:
        assert shown == ""
        return
    bars = shown.removesuffix("\n").split("\r")
    assert bars[0] == ""
    assert [bar.split("] ")[1] for bar in bars[1:]] == [
        f"{done}/3 batches" for done in range(4)
    ]
    assert bars[-1] == f"[{'#' * 40}] 3/3 batches"
    stderr.truncate(0)
    assert main(["m.mlir", *options, "--no-progress"]) == 0
    assert stderr.getvalue().strip("\0") == ""


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ("missing.mlir", "--inputs", "data.npz"),
            "missing.mlir: error: no such file or directory",
        ),
        (
            ("m.mlir", "--inputs", "missing.npz"),
            "missing.npz: error: no such file or directory",
        ),
        (
            ("m.mlir", "--inputs", "data.npz:z"),
            "input data.npz:z: error: 'data.npz' has no array 'z', available: x, y",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "-o", "missing/stats.json"),
            "missing/stats.json: error: missing directory",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--observer", "percentile=0"),
            "--observer: error: expected a percentile in (0, 100], found 0.0",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--entry", "g"),
            "m.mlir: error: unknown function 'g'; available: 'f'",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--batch-size", "0"),
            "--batch-size 0: error: expected a positive number",
        ),
        (
            (
                "m.mlir",
                "--inputs",
                "x.npy",
                "--inputs",
                "short.npy",
                "--batch-size",
                "2",
            ),
            "--input: error: expected the same number of samples in all arrays, found 5, "
            "4; use --whole for arrays to pass whole to every batch",
        ),
        (
            ("m.mlir", "--inputs", "x.npy", "--inputs", "3", "--batch-size", "2"),
            "m.mlir: error: batch 0: argument 1 has rank 0, but 'tensor<?x2xf32>' has rank "
            "2",
        ),
        (
            ("m.mlir", "--inputs", '"text"', "--batch-size", "2"),
            "m.mlir: error: function 'f' takes 2 arguments, but got 1",
        ),
        (
            ("m.mlir", "--inputs", "1", "--inputs", '"text"', "--batch-size", "2"),
            "--batch-size 2: error: no input can be split: all are named by --whole or "
            "have a static first dimension; remove the option",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--whole", "1"),
            "--whole: error: missing option --batch-size",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--batch-size", "2", "--whole", "2"),
            "--whole 2: error: unknown argument, function 'f' has 2; count them from 0",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--batch-size", "2", "--whole", "-1"),
            "--whole -1: error: unknown argument, function 'f' has 2; count them from 0",
        ),
        (
            ("m.mlir", "--inputs", "[]", "--inputs", "[]", "--batch-size", "2"),
            "--input: error: expected at least one sample, found none",
        ),
        (
            ("m.mlir", "--inputs", "x.npy"),
            "m.mlir: error: batch 0: function 'f' takes 2 arguments, but got 1",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--axis", "f:argument:0"),
            "--axis f:argument:0: error: expected KEY=DIMENSION",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--axis", "x=0"),
            "m.mlir: error: unknown key in axes: 'x'",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--checkpoint", "x.npy"),
            "--checkpoint x.npy: error: x.npy is not JSON: ",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--checkpoint", "missing/c.json"),
            "missing/c.json: error: missing directory",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--axis", "x=1", "--axis", "x=0"),
            "--axis x=0: error: key 'x' has dimension 1 already",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--axis", "f:argument:0=-1"),
            "--axis f:argument:0=-1: error: dimensions count from 0",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--axis", "f:argument:0=-"),
            "--axis f:argument:0=-: error: expected KEY=DIMENSION",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "-p", "no-pass"),
            "pass-pipeline: error: ",
        ),
    ],
)
def test_errors(
    args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
):
    line = error(capsys, *args)
    assert line.startswith(message) if message.endswith(" ") else line == message


def test_module_that_is_not_calibrated(capsys: pytest.CaptureFixture[str]):
    Path("u.mlir").write_text("func.func @f(%x: tensor<*xf32>) {\n  return\n}")
    line = error(capsys, "u.mlir", "--inputs", "row.npy")
    assert line == (
        "u.mlir: error: 'quant.stats_ref' op has a value of type 'tensor<*xf32>', but only "
        "floats and tensors of floats are calibrated"
    )


def test_nothing_to_observe(capsys: pytest.CaptureFixture[str]):
    Path("i.mlir").write_text("func.func @f(%x: tensor<2xi8>) {\n  return\n}")
    line = error(capsys, "i.mlir", "--inputs", "row.npy")
    assert line.startswith("i.mlir: error: no float tensor is selected")


def test_required_options(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["m.mlir", "-o", "stats.json"])
    assert "--inputs" in capsys.readouterr().err


def test_as_a_command():
    command: list[Any] = [sys.executable, "-m", "xdsl_quant.tools.calibrate", "-"]
    result = subprocess.run(
        [*command, "--inputs", "data.npz", "-o", "stats.json"],
        input=TEXT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stderr == ""
    assert result.stdout.startswith("f:argument:0: -5.0 to 10.0\n")
