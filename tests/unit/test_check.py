"""Tests that `make check` chooses, and numbers that `make costs` prints."""

from pathlib import Path

import pytest

from tests.check import tests_of as files_with_tests_of
from tests.costs import own_lines, seconds_of_tests


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("xdsl_quant/quantizer/samples.py", {"tests/unit/quantizer/test_samples.py"}),
        (
            "xdsl_quant/runtime/array_archives.py",
            {
                "tests/unit/quantizer/test_samples.py",
                "tests/unit/test_check.py",
                "tests/unit/tools/test_run.py",
            },
        ),
        ("tests/unit/test_makefile.py", {"tests/unit/test_makefile.py"}),
        ("tests/unit/conftest.py", set[str]()),
    ],
)
def test_tests_of_a_file(file: str, tests: set[str]):
    # This file names the module `xdsl_quant.runtime.array_archives`, too.
    assert {*map(str, files_with_tests_of([Path(file)]))} == tests


def test_seconds_are_those_of_all_cases(tmp_path: Path):
    report = tmp_path / "report.xml"
    report.write_text(
        "<testsuites><testsuite>"
        '<testcase classname="tests.a" name="test_x[1]" time="0.25"/>'
        '<testcase classname="tests.a" name="test_x[2]" time="0.5"/>'
        '<testcase classname="tests.a" name="test_y" time="1.0"/>'
        "</testsuite></testsuites>"
    )
    assert seconds_of_tests(report) == {"tests.a.test_x": 0.75, "tests.a.test_y": 1.0}


def test_a_line_belongs_to_a_test_if_no_other_reaches_it():
    assert own_lines([["x"], ["x"], ["y", "x"], ["", "y"], [""], ["y"]]) == {
        "x": 2,
        "y": 1,
        "": 1,
    }
