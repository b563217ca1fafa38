"""
The file checks of passes as tests of pytest, for mutants alone: a mutant is in one process.

`lit` runs them otherwise, which starts processes.
"""

import io
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from xdsl.dialect_interfaces.op_asm import OpAsmDialectInterface
from xdsl.dialects.builtin import Builtin
from xdsl.xdsl_opt_main import xDSLOptMain

FILES = Path(__file__).parents[1] / "filecheck" / "transforms"
RUN = re.compile(r"^// RUN: xdsl-opt ([^|\n]*)\| filecheck ([^|\n]*)$", re.MULTILINE)


def _runs() -> Iterator[object]:
    """Each run: a file, and the arguments of xdsl-opt and of filecheck."""
    for path in sorted(FILES.rglob("*.mlir")):
        name = str(path.relative_to(FILES))
        for i, run in enumerate(RUN.findall(path.read_text())):
            # Some need a file that a command before them writes, or are about messages.
            if "%t" not in run[0] and "2>" not in run[0]:
                yield pytest.param(name, *run, id=f"{name}-{i}")


@pytest.fixture(autouse=True)
def own_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names are global in a process: no test takes the names of another one."""
    interfaces = Builtin._interfaces  # pyright: ignore[reportPrivateUsage] no public way
    others = [i for i in interfaces if not isinstance(i, OpAsmDialectInterface)]
    fresh = [OpAsmDialectInterface(), *others]
    monkeypatch.setattr(Builtin, "_interfaces", fresh)


@pytest.mark.parametrize(("name", "xdsl_opt", "filecheck"), [*_runs()])
def test_filecheck(name: str, xdsl_opt: str, filecheck: str, tmp_path: Path):
    output = io.StringIO()
    with redirect_stdout(output):
        xDSLOptMain(args=_arguments(xdsl_opt, name)).run()
    printed = tmp_path / "output"
    printed.write_text(output.getvalue())
    options = ["filecheck", *_arguments(filecheck, name), f"--input-file={printed}"]
    assert Matcher.from_opts(parse_argv_options(options)).run() == 0


def _arguments(text: str, name: str) -> list[str]:
    return [str(FILES / name) if arg == "%s" else arg for arg in shlex.split(text)]
