"""Every example in the README and the documentation prints what it says."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.differences import DIFFERENCES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
CONSOLE = re.compile(
    r"^```console\n\$ (?P<command>.*)\n(?P<output>(?:.*\n)*?)```$", re.M
)
PYCON = re.compile(r"^```pycon\n(?P<session>(?:.*\n)*?)```$", re.M)
CONSOLE_EXAMPLES = [
    pytest.param(
        match["command"], match["output"], id=f"{page.name}-{match['command']}"
    )
    for page in PAGES
    for match in CONSOLE.finditer(page.read_text())
    if not match["command"].startswith("make")
]
DEMO_EXAMPLES = [
    pytest.param(match["output"], id=page.name)
    for page in PAGES
    for match in CONSOLE.finditer(page.read_text())
    if match["command"] == "make demo"
]
PYTHON_EXAMPLES = [
    pytest.param(match["session"], id=f"{page.name}-{i}")
    for page in PAGES
    for i, match in enumerate(PYCON.finditer(page.read_text()))
]


def _run(command: str) -> str:
    program, *arguments = shlex.split(command)
    executable = Path(sys.executable).parent / program
    result = subprocess.run(
        [str(executable), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout


@pytest.mark.parametrize(("command", "output"), CONSOLE_EXAMPLES)
def test_command_prints_what_the_documentation_shows(command: str, output: str):
    assert _run(command).strip() == output.strip()


@pytest.mark.parametrize("output", DEMO_EXAMPLES)
def test_demo_prints_the_lines_that_the_documentation_shows(output: str):
    printed = _run("python -m examples.wake_word").splitlines()
    # Times differ from run to run, and dots stand for lines that are left out.
    shown = [
        line for line in output.splitlines() if not line.startswith(("seconds:", "..."))
    ]
    assert shown
    assert [line for line in printed if line in shown] == shown


@pytest.mark.parametrize("session", PYTHON_EXAMPLES)
def test_python_session_prints_what_the_documentation_shows(session: str):
    parser = doctest.DocTestParser()
    test = parser.get_doctest(session, {}, "documentation", None, None)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test)
    assert not runner.summarize(verbose=False).failed


def test_differences_are_documented():
    page = (ROOT / "docs" / "differences.md").read_text()
    for difference in DIFFERENCES:
        assert f"| {difference.name} | {difference.reason} |" in page


def test_there_are_examples():
    assert len(CONSOLE_EXAMPLES) >= 4
    assert DEMO_EXAMPLES
    assert PYTHON_EXAMPLES
