"""`xdsl-quant-calibrate`, in this process and once as a command."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdsl_quant.calibration import Statistics
from xdsl_quant.loading import apply_passes, parse_module
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


def test_branches_are_left_out(capsys: pytest.CaptureFixture[str]):
    code = main(["if.mlir", "--inputs", "row.npy", "-o", "stats.json"])
    captured = capsys.readouterr()
    assert code == 0
    assert captured.out == "f:argument:0: 1.0 to 2.0\nf:scf.if:0: 2.0 to 4.0\n"
    assert captured.err == (
        "if.mlir: warning: values in loops and branches are left out: "
        "'f:arith.addf:0'\n"
    )


def test_checkpoint(capsys: pytest.CaptureFixture[str]):
    np.savez("bad.npz", x=np.load("nan.npy"), y=-2 * X)
    options = ("--batch-size", "2", "--checkpoint", "c.json")
    message = (
        "m.mlir: error: batch 2, key 'f:argument:0': there are NaN among the values"
    )
    assert error(capsys, "m.mlir", "--inputs", "bad.npz", *options) == message
    assert json.loads(Path("c.json").read_text())["batches"] == 2
    outputs(capsys, "m.mlir", "--inputs", "data.npz", *options)
    resumed = Path("stats.json").read_text()
    outputs(capsys, "m.mlir", "--inputs", "data.npz", "--batch-size", "2")
    assert Path("stats.json").read_text() == resumed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("is_terminal", [False, True])
def test_progress(is_terminal: bool, monkeypatch: pytest.MonkeyPatch):
    stderr = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", stderr)
    options = ["--inputs", "data.npz", "--batch-size", "2", "-o", "stats.json"]
    assert main(["m.mlir", *options, "--progress"]) == 0
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
    assert main(["m.mlir", *options]) == 0
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
            "input data.npz:z: error: 'data.npz' has no array 'z', but x, y",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "-o", "missing/stats.json"),
            "missing/stats.json: error: there is no such directory",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--observer", "percentile=0"),
            "--observer: error: percentile 0.0 is not more than 0 and at most 100",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--entry", "g"),
            "m.mlir: error: there is no function 'g': there are 'f'",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--batch-size", "0"),
            "--batch-size 0: error: it is not positive",
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
            "--inputs: error: arrays must have the same number of samples in their first "
            "dimension, but have shapes (5, 2), (4, 2)",
        ),
        (
            ("m.mlir", "--inputs", "x.npy"),
            "m.mlir: error: batch 0: 'f_with_statistics' takes 2 arguments, not 1",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--axis", "f:argument:0"),
            "--axis f:argument:0: error: it is no key, '=' and a dimension",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--axis", "x=0"),
            "m.mlir: error: there is a dimension for key 'x', which no op has",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "--checkpoint", "data.npz"),
            "m.mlir: error: data.npz is no JSON: ",
        ),
        (
            ("m.mlir", "--inputs", "data.npz", "-p", "no-pass"),
            "pass-pipeline: error: ",
        ),
        (
            ("if.mlir", "--inputs", "row.npy", "-p", "quant-insert-stats-refs"),
            "if.mlir:5:5: error: 'quant.stats_ref' op is in the body of 'scf.if', but "
            "only values in the body of function 'f' itself are calibrated",
        ),
    ],
)
def test_errors(
    args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
):
    line = error(capsys, *args)
    assert line.startswith(message) if message.endswith(" ") else line == message


def test_module_that_is_not_compiled(capsys: pytest.CaptureFixture[str]):
    Path("u.mlir").write_text("func.func @f(%x: tensor<*xf32>) {\n  return\n}")
    line = error(capsys, "u.mlir", "--inputs", "row.npy")
    assert line == (
        "u.mlir: error: argument 0 of 'f_with_statistics' has type 'tensor<*xf32>', but "
        "compiled code needs to know the rank"
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
