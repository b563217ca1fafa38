"""What the Makefile runs. Nothing here runs it."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def commands(target: str, *options: str, **variables: str) -> str:
    """The commands that `make` would run for a target."""
    # Options of a `make` that runs the tests are none of this one.
    environment = {name: os.environ[name] for name in os.environ if name[:4] != "MAKE"}
    return subprocess.run(
        ["make", "--dry-run", "--no-print-directory", *options, target],
        cwd=ROOT,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    ("user", "end"),
    [("0", "docs/notebooks --allow-root"), ("1000", "docs/notebooks"), ("10", "books")],
)
def test_notebooks_as_root(user: str, end: str, tmp_path: Path):
    program = tmp_path / "id"
    program.write_text(f"#!/bin/sh\necho {user}\n")
    program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    printed = commands("notebook", "--old-file=.venv/.ready", PATH=path)
    assert printed.splitlines()[-1].strip().endswith(end)


def test_installing_says_what_it_does():
    printed = commands("demo", "--always-make").replace("\\\n", "")
    said, _, others = printed.partition(" -m venv .venv")
    assert 'echo "Installing ' in said
    (install,) = (line for line in others.splitlines() if "'.[dev]'" in line)
    assert "--quiet" not in install


def test_each_release_of_xdsl_that_is_allowed_is_tested():
    printed = commands("xdsl-versions", "--always-make")
    tested = re.findall(r"\.venv-xdsl-0\.(\d+)/bin/lit ", printed)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (xdsl,) = (d for d in project["dependencies"] if d.startswith("xdsl"))
    first, last = re.findall(r"0\.(\d+)", xdsl)
    assert [*map(int, tested)] == [*range(int(first), int(last))]


def test_tests_check_the_pages():
    printed = commands("tests", "--old-file=.venv/.ready")
    assert "EXECUTE_NOTEBOOKS=false .venv/bin/mkdocs build --strict --site" in printed


def test_all_cases_are_run_before_a_release():
    printed = commands("oracles", "--old-file=.venv/.ready")
    assert "pytest -q -n auto --all-cases -m sampled" in printed
