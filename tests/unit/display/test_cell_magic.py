"""The cell magic `%%quant`, in an IPython shell of its own."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from xdsl_quant.display import IRComparison, IRView, load_ipython_extension
from xdsl_quant.display.cell_magic import QuantMagicError

IR = """\
func.func @f(%x: f32) -> !quant.uniform<i8:f32, 0.5> {
  %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 0.5>
  return %0 : !quant.uniform<i8:f32, 0.5>
}
"""
BEFORE = """\
!q0 = !quant.uniform<i8:f32, 5.000000e-01>
builtin.module {
  func.func @f(%x: f32) -> !q0 {
    %0 = quant.qcast %x : f32 to !q0
    func.return %0 : !q0
  }
}"""
LOWERED = """\
!q0 = !quant.uniform<i8:f32, 5.000000e-01>
builtin.module {
  func.func @f(%x: f32) -> !q0 {
    %0 = arith.constant 2.000000e+00 : f32
    %1 = arith.mulf %x, %0 : f32
    %2 = math.roundeven %1 : f32
    %3 = arith.constant -1.280000e+02 : f32
    %4 = arith.constant 1.270000e+02 : f32
    %5 = arith.maxnumf %2, %3 : f32
    %6 = arith.minnumf %5, %4 : f32
    %7 = arith.fptosi %6 : f32 to i32
    %8 = arith.trunci %7 : i32 to i8
    %9 = quant.scast %8 : i8 to !q0
    func.return %9 : !q0
  }
}"""


@pytest.fixture(scope="module")
def shell() -> Iterator[Any]:
    config = Config()
    config.HistoryManager.enabled = False
    shell: Any = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "xdsl_quant.display")
    yield shell
    InteractiveShell.clear_instance()


def _result(shell: Any, line: str, cell: str = IR) -> Any:
    return shell.run_cell(f"%%quant {line}\n{cell}").result


def test_before_and_after(shell: Any):
    view = _result(
        shell, "-p 'lower-quant-ops{rounding-mode=nearest-even fuse=true},canonicalize'"
    )
    assert isinstance(view, IRComparison)
    assert view.before == BEFORE
    assert view.after == LOWERED


def test_braces_around_the_name_of_a_variable_stay(
    shell: Any, capsys: pytest.CaptureFixture[str]
):
    # IPython replaces them by the value in the line of other magics.
    shell.user_ns["fuse"] = "{fuse=true}"
    shell.run_cell("%%quant -p lower-quant-ops{fuse}\n" + IR)
    assert "fuse must be true or false, but has no value" in capsys.readouterr().out


def test_without_passes(shell: Any):
    view = _result(shell, "")
    assert isinstance(view, IRView)
    assert view.text == BEFORE


@pytest.mark.parametrize("line", ["--no-aliases", "-p cse --no-aliases"])
def test_without_aliases(shell: Any, line: str):
    text = repr(_result(shell, line))
    assert "!q0" not in text
    assert "%x : f32 to !quant.uniform<i8:f32, 5.000000e-01>" in text


def _error(shell: Any, capsys: pytest.CaptureFixture[str], line: str, cell: str) -> str:
    """What is printed, which must be one line, for a cell that fails."""
    capsys.readouterr()
    result = shell.run_cell(f"%%quant {line}\n{cell}")
    assert isinstance(result.error_in_exec, QuantMagicError)
    printed = capsys.readouterr()
    assert not printed.err
    assert printed.out == f"\x1b[31m{result.error_in_exec}\x1b[0m\n"
    return str(result.error_in_exec)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "-p nope",
            "pass-pipeline: error: unknown pass 'nope'; xdsl-opt --help lists all passes",
        ),
        (
            "-p 'lower-quant-ops{'",
            "pass-pipeline:1:17: error: Expected argument name here",
        ),
        ("-p 'cse", "%%quant: No closing quotation"),
        ("-p", "%%quant: argument -p/--passes: expected one argument"),
        ("--nope", "%%quant: unrecognized arguments: --nope"),
        (
            "canonicalize cse",
            "%%quant: unrecognized arguments: canonicalize cse (pass pipelines follow -p, "
            "in quotes if they contain a space: -p 'cse,canonicalize')",
        ),
        (
            "-p lower-quant-ops{rounding-mode=truncate fuse=true}",
            "%%quant: unrecognized arguments: fuse=true} (pass pipelines follow -p, in "
            "quotes if they contain a space: -p 'cse,canonicalize')",
        ),
    ],
)
def test_error_in_the_line(
    shell: Any, capsys: pytest.CaptureFixture[str], line: str, message: str
):
    assert _error(shell, capsys, line, IR) == message


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            "func.func @f(%x: f32) {\n  %0 = test.nope %x\n}",
            "<cell>:3:18: error: Operation test.nope is not registered",
        ),
        ("\x00", "<cell>:2:1: error: Unexpected character: \x00"),
        (
            "func.func private @f() attributes {a = 300 : i8}",
            "<cell>: error: Integer value 300 is out of range for type i8 which supports "
            "values in the range [-128, 256)",
        ),
        (
            "func.func @f(%x: f32) {\n"
            "  %0 = quant.qcast %x : f32 to !quant.any<i8:f16>\n"
            "  return\n}",
            "<cell>:3:3: error: 'quant.qcast' op expressed type in quantized type "
            "expected to match float type",
        ),
        (
            "func.func @f(%x: f32) {\n  %0 = arith.addf %x, %x : f32\n}",
            "<cell>:3:3: error: Operation arith.addf terminates block in single-block "
            "region but is not a terminator",
        ),
        (
            "func.func @f(%x: f32) {\n"
            "  %0 = quant.qcast %x : f32 to !quant.any<i8:f32>\n"
            "  return\n}",
            "<cell>:3:3: error: 'quant.qcast' op cannot be lowered: type "
            "'!quant.any<i8:f32>' has no scale (in the pass lower-quant-ops)",
        ),
    ],
)
def test_error_in_the_cell(
    shell: Any, capsys: pytest.CaptureFixture[str], cell: str, message: str
):
    assert _error(shell, capsys, "-p lower-quant-ops", cell) == message


@pytest.mark.parametrize("line", ["-h", "--help", "-p cse --help"])
def test_help(shell: Any, capsys: pytest.CaptureFixture[str], line: str):
    capsys.readouterr()
    result = shell.run_cell(f"%%quant {line}\nno module")
    assert result.success
    assert result.result is None
    text = capsys.readouterr().out
    assert text.startswith("Run passes on the IR in this cell")
    assert "\nUsage: %%quant [-h] [-p PASSES] [--no-aliases]\n" in text


# Loading


def test_without_ipython(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "IPython.core.interactiveshell", None)
    with pytest.raises(ImportError) as e:
        load_ipython_extension(None)
    assert str(e.value) == (
        "%%quant needs IPython, which is not installed; run pip install '.[notebook]' in a "
        "checkout of xdsl-quant"
    )


def test_what_is_no_shell():
    with pytest.raises(TypeError) as e:
        load_ipython_extension(None)
    assert str(e.value) == (
        "expected an IPython shell, found NoneType; use '%load_ext xdsl_quant.display' "
        "in IPython or a notebook"
    )
