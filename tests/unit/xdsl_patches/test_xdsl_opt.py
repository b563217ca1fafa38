"""Errors of `xdsl-opt`: a located sentence, the source line and a caret."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

VALID = """func.func @f(%x: f32) -> f32 {
  %q = "quant.qcast"(%x) : (f32) -> !quant.uniform<i8:f32, 0.5>
  %y = "quant.dcast"(%q) : (!quant.uniform<i8:f32, 0.5>) -> f32
  func.return %y : f32
}
"""
TANH = """func.func @f(%x: tensor<!quant.uniform<i16:f32, 0.5>>) {
  %y = stablehlo.tanh %x : tensor<!quant.uniform<i16:f32, 0.5>>
  func.return
}
"""
WIDE = VALID.replace("i8:f32, 0.5>\n", "i99:f32, 0.5>\n")
INVALID = VALID.replace("i8:f32", "i8:f16")


def _run(*arguments: str, **variables: str) -> tuple[int, list[str]]:
    result = subprocess.run(
        [sys.executable, "-m", "xdsl.tools.xdsl_opt", *arguments],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode, result.stderr.splitlines()


@pytest.fixture(autouse=True)
def _directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "passes", "lines"),
    [
        pytest.param(
            WIDE,
            "",
            [
                "m.mlir:2:52: error: illegal storage type size: 99",
                '  %q = "quant.qcast"(%x) : (f32) -> !quant.uniform<i99:f32, 0.5>',
                f"{' ' * 51}^",
            ],
            id="parser",
        ),
        pytest.param(
            INVALID,
            "",
            [
                "m.mlir:2:3: error: 'quant.qcast' op expressed type in quantized type "
                "expected to match float type",
                '  %q = "quant.qcast"(%x) : (f32) -> !quant.uniform<i8:f16, 0.5>',
                "  ^",
            ],
            id="verifier",
        ),
        pytest.param(
            f"module {{}}\n// -----\n{TANH}",
            "stablehlo-legalize-quant-to-integer",
            [
                "m.mlir:4:3: error: quantized ops without integer form, found 1 "
                "'stablehlo.tanh'; use 'fallback=qdq' to compute them with floats, or "
                "'fallback=keep' to keep them (in the pass "
                "stablehlo-legalize-quant-to-integer)",
                "  %y = stablehlo.tanh %x : tensor<!quant.uniform<i16:f32, 0.5>>",
                "  ^",
            ],
            id="pass",
        ),
        pytest.param(
            VALID,
            "lower-quant-ops{x=3},cse",
            [
                "pass-pipeline: error: pass lower-quant-ops: unknown option 'x'; "
                "available: 'rounding-mode', 'fuse', 'runtime-checks', 'keep-qdq', "
                "'scale-rounding', 'zero-point-order', 'nan'",
            ],
            id="option",
        ),
        pytest.param(
            VALID,
            "arith-add-fastmath{flags=foo}",
            [
                "error: 'foo' is not a valid fastmath flag. (in the pass "
                "arith-add-fastmath)",
            ],
            id="pass of xDSL",
        ),
        pytest.param(
            VALID,
            "canonicalise",
            [
                "pass-pipeline: error: unknown pass 'canonicalise'; maybe "
                "'canonicalize' was meant"
            ],
            id="unknown pass",
        ),
    ],
)
def test_errors_of_the_input(text: str, passes: str, lines: list[str]):
    Path("m.mlir").write_text(text)
    code, printed = _run("m.mlir", "-p", passes, "--split-input-file")
    # The pass warns that it changes nothing in the first module.
    assert (code, [line for line in printed if line[:8] != "warning:"]) == (1, lines)


def test_files():
    message = "m.mlir: error: no such file or directory"
    assert _run("m.mlir") == (1, [message])
    Path("m.txt").write_text(VALID)
    assert _run("m.txt") == (1, ["error: Unrecognized file extension 'txt'"])
    Path("m.mlir").write_bytes(b"\xff")
    code, (line,) = _run("m.mlir")
    assert code == 1
    assert line.startswith(
        "m.mlir: error: expected the text of a module in UTF-8: 'utf"
    )
    Path("m.mlir").write_text("module {" * 5_000)
    assert _run("m.mlir") == (1, ["m.mlir: error: the text is nested too deeply"])


def test_arguments():
    code, lines = _run("--nope", "m.mlir")
    message = "error: unrecognized arguments: --nope"
    assert code == 2
    assert [line.partition(": ")[2] for line in lines[:1]] == [message]
    assert [line.partition(" ")[0] for line in lines[1:]] == ["See"]


def test_long_lines():
    """The source line is cut to the surroundings of the error."""
    values = ", ".join(["1"] * 10_000)
    Path("m.mlir").write_text(f"module attributes {{a = [{values}, ?, {values}]}} {{}}")
    code, (_, source, caret) = _run("m.mlir")
    assert (code, len(source), source[len(caret) - 1]) == (1, 100, "?")


@pytest.mark.parametrize(
    "variables", [{"XDSL_QUANT_TRACEBACK": "1"}, {"XDSL_QUANT_PATCHES": "off"}]
)
def test_tracebacks_on_request(variables: dict[str, str]):
    Path("m.mlir").write_text(INVALID)
    code, lines = _run("m.mlir", **variables)
    assert (code, lines[0]) == (1, "Traceback (most recent call last):")


def test_bugs_keep_their_traceback():
    script = (
        "from xdsl.tools.xdsl_opt import main\n"
        "from xdsl.transforms.canonicalize import CanonicalizePass\n"
        "CanonicalizePass.apply = lambda *_: {}['key']\n"
        "main()"
    )
    Path("m.mlir").write_text(VALID)
    result = subprocess.run(
        [sys.executable, "-c", script, "m.mlir", "-p", "canonicalize"],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = result.stderr.splitlines()
    assert (result.returncode, lines[0]) == (1, "Traceback (most recent call last):")
    assert lines[-1] == "KeyError: 'key'"


def test_locations_are_not_printed():
    Path("m.mlir").write_text(VALID)
    command = [
        sys.executable,
        "-m",
        "xdsl.tools.xdsl_opt",
        "m.mlir",
        "--print-debuginfo",
    ]
    printed = [
        subprocess.run(
            command,
            env=os.environ | {"XDSL_QUANT_PATCHES": patches},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for patches in ("", "off")
    ]
    assert printed[0] == printed[1]
    assert "m.mlir" not in printed[0]
