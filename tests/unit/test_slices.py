"""Each slice can be deleted: the core is imported and lowers casts without it."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.house import PACKAGE, ROOT, SLICES, XDSL_OPT, File
from tests.slices import NAMES, core_tests, main
from xdsl_quant.quantizer import KernelReport, ModelReport
from xdsl_quant.tools.calibrate import main as calibrate


@pytest.fixture(scope="module")
def core() -> str:
    """Names of the modules of the core, with commas."""
    paths = sorted((ROOT / PACKAGE).rglob("*.py"))
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths)
    files = [File(name.removesuffix(".__init__")) for name in names]
    return ", ".join(file.name for file in files if not file.is_slice)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("deleted", NAMES)
def test_core_without_a_slice(core: str, deleted: str):
    script = f"""
import sys
from tests.slices import delete
delete({deleted!r})
{XDSL_OPT}
import {core}
print(*(name for name in sys.modules if name.startswith("xdsl_quant.{deleted}")))
"""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stderr, result.stdout) == ("", "\n")


@pytest.mark.parametrize(
    ("name", "deleted"),
    [
        ("convert-tfl-to-stablehlo", "frontends.stablehlo"),
        ("convert-tfl-to-tosa", "frontends.tosa"),
    ],
)
def test_a_pass_that_needs_a_deleted_slice(name: str, deleted: str):
    script = f"""
from tests.slices import delete
delete({deleted!r})
{XDSL_OPT}
from xdsl_quant.runtime.loading import apply_passes, parse_module
try:
    apply_passes(parse_module("func.func private @f()"), "{name}{{partial=true}}")
except ValueError as e:
    print(e)
"""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stderr, result.stdout) == (
        "",
        f"error: the pass {name} needs xdsl_quant.{deleted}, which is missing; install "
        f"xdsl-quant again (in the pass {name})\n",
    )


def test_slices_are_those_of_the_house():
    assert {name for name in NAMES if name not in SLICES} == {
        "frontends.linalg_named_ops",
        "frontends.onnx",
        "frontends.stablehlo",
        "frontends.tflite",
        "frontends.tosa",
    }


@pytest.mark.parametrize("name", NAMES)
def test_files_of_core_tests_do_not_name_the_slice(name: str):
    files = [path.stem for path in core_tests(name)]
    assert "test_lower_quant_ops" in files
    assert not any(name.rpartition(".")[2] in file for file in files)


@pytest.mark.parametrize("code", [1, -11])
def test_a_run_that_fails_or_is_killed_is_a_failure(
    code: int, monkeypatch: pytest.MonkeyPatch
):
    codes = iter([0, code, *[0] * len(NAMES)])

    def run(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(command, next(codes))

    def no_files(name: str) -> Sequence[Path]:
        assert name in NAMES
        return []

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("tests.slices.core_tests", no_files)
    assert main() == 1
    codes = iter([0] * len(NAMES))
    assert main() == 0


def test_reports_without_display(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "xdsl_quant.display", None)
    kernel = KernelReport("k", "", "", "", 20.0, 30.0, 40.0, 0.0, 0, 0)
    report: Any = ModelReport([kernel], {"y": 20.0})
    assert report._repr_html_() is None
    assert "SQNR of the results: y 20.0 dB" in str(report)
    missing = "needs xdsl_quant.display, which is missing; install xdsl-quant again"
    with pytest.raises(ImportError, match=f"^a page {missing}$"):
        report.page()
    arguments = ["m.mlir", "--inputs", "1", "-o", "/dev/null", "--report", "/dev/zero"]
    assert calibrate(arguments) == 1
    message = f"--report /dev/zero: error: a report {missing}\n"
    assert capsys.readouterr().err == message
