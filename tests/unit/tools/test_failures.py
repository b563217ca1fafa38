"""What a command says when something goes wrong that it does not expect."""

import argparse
import io
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from tests.unit.quantizer.models import dense_layers, samples
from xdsl_quant.tools import entry_points, failures
from xdsl_quant.tools.failures import (
    Failure,
    exit_code,
    print_results,
    standard_input,
)

OPTIONS = argparse.Namespace(module="m.mlir")
SCRIPTS: dict[str, str] = tomllib.loads(
    (Path(__file__).parents[3] / "pyproject.toml").read_text()
)["project"]["scripts"]


def raising(error: BaseException) -> Callable[[argparse.Namespace], None]:
    def run(options: argparse.Namespace) -> None:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (Failure("m.mlir: error: no"), 1, "m.mlir: error: no\n"),
        (MemoryError(), 1, "m.mlir: error: not enough memory\n"),
        (
            MemoryError("Unable to allocate 1. TiB"),
            1,
            "m.mlir: error: not enough memory: Unable to allocate 1. TiB\n",
        ),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_errors(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
):
    assert exit_code(raising(error), OPTIONS) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", message)


def test_interruption_with_a_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "x.json"
    options = argparse.Namespace(module="m.mlir", checkpoint=str(path))
    for message in (
        "interrupted\n",
        f"interrupted; run the same command to resume from {path}\n",
    ):
        assert exit_code(raising(KeyboardInterrupt()), options) == 130
        assert capsys.readouterr().err == message
        path.touch()


def test_error_with_a_file(capsys: pytest.CaptureFixture[str]):
    error = OSError(28, "No space left on device", "y.npz")
    assert exit_code(raising(error), OPTIONS) == 1
    assert capsys.readouterr().err == "y.npz: error: no space left on device\n"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (AssertionError(), "AssertionError"),
        (KeyError("a\nb"), "KeyError: 'a\\nb'"),
        (ValueError("first\nsecond"), "ValueError: first"),
    ],
)
def test_bugs_are_reported_in_a_sentence(
    error: Exception,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    sentence = (
        f"m.mlir: error: bug in xdsl-quant: {reason}; please report it with the "
        "traceback; set XDSL_QUANT_TRACEBACK=1 to print the traceback\n"
    )
    monkeypatch.delenv("XDSL_QUANT_TRACEBACK", raising=False)
    assert exit_code(raising(error), OPTIONS) == 70
    assert capsys.readouterr().err == sentence
    monkeypatch.setenv("XDSL_QUANT_TRACEBACK", "1")
    assert exit_code(raising(error), OPTIONS) == 70
    printed = capsys.readouterr().err
    assert printed.startswith("Traceback (most recent call last):\n")
    assert printed.endswith(sentence)


@pytest.mark.parametrize("is_caught", [False, True])
@pytest.mark.parametrize("entry_point", SCRIPTS.values(), ids=SCRIPTS)
def test_imports_can_be_interrupted(
    entry_point: str,
    is_caught: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    module, _, name = entry_point.partition(":")

    def interrupted(name: str) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            # NumPy makes an `ImportError` of it, and other modules may go on without.
            if not is_caught:
                raise ImportError(name) from None

    command = getattr(import_module(module), name)
    monkeypatch.setattr(f"{module}.command_name", Mock(return_value="run"))
    monkeypatch.setattr(f"{module}.parse_arguments", Mock())
    monkeypatch.setattr(f"{module}.import_module", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert command() == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "interrupted\n"


def test_prove_imports_numpy_first(monkeypatch: pytest.MonkeyPatch):
    """The command itself imports it where an `ImportError` means a missing package."""
    names: list[str] = []

    def recorded(name: str) -> argparse.Namespace:
        names.append(name)
        return argparse.Namespace(main=Mock(return_value=0))

    monkeypatch.setattr(entry_points, "import_module", recorded)
    monkeypatch.setattr(entry_points, "parse_arguments", Mock())
    assert entry_points.prove() == 0
    assert names == ["numpy", "xdsl_quant.tools.prove"]


def test_imports_that_fail(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(entry_points, "import_module", missing)
    monkeypatch.setattr(entry_points, "parse_arguments", Mock())
    with pytest.raises(ImportError, match=r"xdsl_quant\.tools\.run"):
        entry_points.run()


def test_interruptions_that_are_ignored(monkeypatch: pytest.MonkeyPatch):
    """A shell starts a background job of a script with SIGINT ignored."""

    def interrupted(name: str) -> argparse.Namespace:
        signal.raise_signal(signal.SIGINT)
        return argparse.Namespace(main=Mock(return_value=3))

    monkeypatch.setattr(entry_points, "import_module", interrupted)
    monkeypatch.setattr(entry_points, "parse_arguments", Mock())
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert entry_points.run() == 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_entry_points_import_nothing_else():
    script = (
        "import sys, xdsl_quant.tools.entry_points; "
        "print(*sorted(name for name in sys.modules if name[:4] in ('xdsl', 'nump')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout == (
        "xdsl_quant xdsl_quant.kernel_set xdsl_quant.moved_modules "
        "xdsl_quant.rounding_mode xdsl_quant.tools xdsl_quant.tools.commands "
        "xdsl_quant.tools.entry_points\n"
    )


@pytest.mark.parametrize("name", SCRIPTS)
def test_entry_points_run_their_commands(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    module, _, function = SCRIPTS[name].partition(":")
    monkeypatch.setattr("sys.argv", [name, "--version"])
    with pytest.raises(SystemExit) as caught:
        getattr(import_module(module), function)()
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"xdsl-quant {metadata.version('xdsl-quant')}\n"


# Standard output, of a process that ends: what is in its buffer is written then.

PRINTING = """
import argparse, sys
from xdsl_quant.tools.failures import exit_code
def run(options):
    print("x" * {size})
sys.exit(exit_code(run, argparse.Namespace(module="m.mlir")))
"""
SIZES = [1, 1_000_000]
"""One is still in the buffer when the command is done, the other is not."""


@pytest.mark.parametrize("size", SIZES)
def test_reader_that_has_gone(size: int):
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as pipe:
        result = subprocess.run(
            [sys.executable, "-W", "error", "-c", PRINTING.format(size=size)],
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("size", SIZES)
def test_output_that_is_full(size: int):
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-W", "error", "-c", PRINTING.format(size=size)],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (result.returncode, result.stderr) == (
        1,
        b"standard output: error: no space left on device\n",
    )


def test_reader_of_results_that_has_gone():
    """It is an error only if the results are nowhere else."""

    def run(**files: str | None) -> int:
        read_end, write_end = os.pipe()
        os.close(read_end)
        options = argparse.Namespace(module="m.mlir", **files)
        with pytest.MonkeyPatch.context() as patch, open(write_end, "w") as pipe:
            patch.setattr("sys.stdout", pipe)
            return exit_code(lambda options: print_results("x", options), options)

    assert run(output="y.npy", json=None) == 0
    assert run(output=None) == 141
    assert run() == 141


# Commands

WITH_FILES: dict[str, str] = {
    "calibrate": "MODEL --inputs X -o out.json",
    "compare": "MODEL MODEL --data X --json out.json",
    "inspect": "MODEL --json out.json",
    "quantize": "MODEL --data X --recipe int8-weights -o out.mlir --report out.json",
    "rosetta": "!quant.uniform<u4:f32,0.5> --runtimes onnx-definition --json out.json",
    "run": "MODEL --passes convert-stablehlo-to-linalg --input X --output out.npy",
}
"""Arguments of each command that prints results and writes them to files."""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("command", WITH_FILES)
def test_results_that_cannot_be_printed(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """No file is left, whatever is still in the buffer of the output."""
    model, x = tmp_path / "m.mlir", tmp_path / "x.npy"
    model.write_text(dense_layers())
    np.save(x, samples(4, 6))
    arguments = WITH_FILES[command].replace("MODEL", f"{model}").replace("X", f"{x}")
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    main = import_module(f"xdsl_quant.tools.{command}").main
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        code = main(arguments.split())
    assert (code, [*Path().iterdir()]) == (1, [])
    assert capsys.readouterr().err == (
        "standard output: error: no space left on device\n"
    )


ADD = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}"""


def test_calibration_for_a_reader_that_has_gone(tmp_path: Path):
    """The statistics are written all the same."""
    (tmp_path / "m.mlir").write_text(ADD)
    np.save(tmp_path / "x.npy", np.ones(4, np.float32))
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as pipe:
        result = subprocess.run(
            [
                *(sys.executable, "-W", "error", "-m", "xdsl_quant.tools.calibrate"),
                *("m.mlir", "--inputs", "x.npy", "-o", "s.json"),
            ],
            cwd=tmp_path,
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (result.returncode, result.stderr) == (0, b"")
    assert (tmp_path / "s.json").read_text()


def test_tensor_that_is_too_large(tmp_path: Path):
    (tmp_path / "m.mlir").write_text("""
func.func @f() -> tensor<1000000000000000xf32> {
  %0 = tensor.empty() : tensor<1000000000000000xf32>
  return %0 : tensor<1000000000000000xf32>
}""")
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "xdsl_quant.tools.run", "m.mlir"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("m.mlir: error: not enough memory: Unable to alloc")


# Reading


BINARY = (
    "error: expected the text of a module, but got a binary file; use UTF-8 text, like "
    "that of a .mlir file"
)
BYTECODE = (
    "error: expected the text of a module, but got MLIR bytecode; convert it to text with "
    "mlir-opt"
)
TFLITE = (
    "error: expected the text of a module, but got a .tflite file; pass a file with "
    "the suffix '.tflite'"
)
DATA = pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x93NUMPY\x01", BINARY),
        (b"\x7fELF\x01\x00", BINARY),
        (b"ML\xefR\x0d", BYTECODE),
        (b"\x1c\x00\x00\x00TFL3\x14", TFLITE),
    ],
)


def read_text(path: str) -> str:
    return failures.read_text(path, standard_input() if path == "-" else None)


@DATA
def test_file_that_is_no_text(data: bytes, message: str, tmp_path: Path):
    path = tmp_path / "m.mlir"
    path.write_bytes(data)
    with pytest.raises(Failure) as caught:
        read_text(str(path))
    assert str(caught.value) == f"{path}: {message}"


@DATA
def test_standard_input_that_is_no_text(
    data: bytes, message: str, monkeypatch: pytest.MonkeyPatch
):
    # In the locale C, Python takes every byte for a character.
    with io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogateescape") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        with pytest.raises(Failure) as caught:
            read_text("-")
    assert str(caught.value) == f"-: {message}"


def test_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = "// \u00e9\r\nbuiltin.module {}\r".encode()
    path = tmp_path / "m.mlir"
    path.write_bytes(data)
    expected = "// \u00e9\nbuiltin.module {}\n"
    assert read_text(str(path)) == expected
    with io.TextIOWrapper(io.BytesIO(data), "ascii") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert read_text("-") == expected
