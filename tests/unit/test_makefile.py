"""What the Makefile runs. Nothing here runs it."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from xdsl_quant.xdsl_patches import NEWEST_TESTED_XDSL

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


def test_each_supported_release_of_xdsl_and_the_newest_are_tested():
    printed = commands("xdsl-versions", "--always-make")
    tested = re.findall(r"\.venv-xdsl-(\S+)/bin/lit ", printed)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (oldest,) = (d for d in project["dependencies"] if d.startswith("xdsl"))
    dev = project["optional-dependencies"]["dev"]
    (newest,) = (d for d in dev if d.startswith("xdsl<"))
    first, last = (int(d.partition("0.")[2]) for d in (oldest, newest))
    assert (oldest, newest) == (f"xdsl>=0.{first}", f"xdsl<0.{last}")
    assert NEWEST_TESTED_XDSL == (0, last - 1)
    assert tested == [*(f"0.{minor}" for minor in range(first, last)), "newest", "jax"]
    assert re.findall(r"'xdsl(\S*)' 'filecheck", printed) == [
        *(f"==0.{minor}.*" for minor in range(first, last)),
        "",
        "-jax==0.6.*",
    ]


def test_tests_check_the_pages():
    printed = commands("tests", "--old-file=.venv/.ready")
    assert "EXECUTE_NOTEBOOKS=false .venv/bin/mkdocs build --strict --site" in printed


def test_all_cases_are_run_before_a_release():
    printed = commands("oracles", "--old-file=.venv/.ready")
    assert "pytest -q -n auto --all-cases -m sampled" in printed
