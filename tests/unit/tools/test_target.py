"""`xdsl-quant target`, in this process."""

from pathlib import Path

import pytest

from xdsl_quant.tools.target import main

TEXT = """\
description = "A target."

[[kernels]]
name = "dense"
patterns = ["tfl.fully_connected -> tfl.relu | tfl.relu6?"]
inputs = ["i8", "const i8:0", "i32"]
outputs = ["u8"]
constraints = [{ kind = "accumulator-scale", bias = 2 }, "power-of-two-scale"]

[[kernels]]
ops = ["tfl.transpose_conv", "tfl.ad", "my.op[tfl.addd]"]
inputs = ["i8", "..."]
outputs = ["any=i8"]

[[kernels]]
name = "free"
ops = ["tfl.reshape"]
constraints = []
inputs = ["i8"]
outputs = ["i8"]

[[kernels]]
name = "gated"
inputs = ["i8"]
outputs = ["i8"]
"""

TABLE = """\
mine: A target.
6 kernels, ranges by the rule 'exact'

kernel              ops                                         inputs               outputs  constraints
dense               tfl.fully_connected -> tfl.relu|tfl.relu6?  i8, const i8:0, i32  u8       accumulator-scale bias=2, power-of-two-scale
tfl.transpose_conv                                              i8, ...              any=i8   (accumulator-scale bias=3 factors=1/2, coefficient-axis dimension=0)
tfl.ad                                                          i8, ...              any=i8   (-)
my.op[tfl.addd]                                                 i8, ...              any=i8   (-)
free                tfl.reshape                                 i8                   i8       -
gated               -                                           i8                   i8       (-)
"""  # noqa: E501 lines of a table

WARNINGS = """\
mine.toml:11: warning: unknown op, found 'tfl.ad'; use 'tfl.pad'
mine.toml:11: warning: unknown dialect 'my' of op 'my.op'; install the plugin that defines it
mine.toml:11: warning: unknown op, found 'tfl.addd'; use 'tfl.add'
"""  # noqa: E501 lines of output


def test_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(TEXT)
    assert main(["check", "mine.toml"]) == 0
    captured = capsys.readouterr()
    assert captured.out == TABLE
    assert captured.err == WARNINGS


def test_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(TEXT.replace("inputs", "input", 1))
    assert main(["check", "mine.toml"]) == 1
    assert capsys.readouterr().err == (
        "mine.toml:6: error: unknown key, found 'input' in a kernel; use 'inputs'\n"
    )
    assert main(["check", "mine"]) == 1
    assert capsys.readouterr().err.startswith(
        "mine: error: unknown target 'mine', available: '"
    )


def test_list(capsys: pytest.CaptureFixture[str]):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        "tflite-int8        TensorFlow Lite with 8-bit activations and weights" in lines
    )
    assert [line.split()[0] for line in lines] == sorted(
        line.split()[0] for line in lines
    )
