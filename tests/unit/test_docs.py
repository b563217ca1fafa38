"""Every example in the README and the documentation prints what it says."""

import doctest
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest
from pygments.token import Comment, Generic, Keyword, Name, Number
from xdsl.tools import xdsl_opt

from docs.tooling.branches_picture import BRANCHES_PICTURE, branches_picture
from docs.tooling.grids_picture import GRIDS_PICTURE, element_grids, grids_picture
from docs.tooling.mlir_lexer import MLIRConsoleLexer, MLIRLexer
from docs.tooling.overview_picture import PICTURE, overview_picture
from tests.conformance.differences import DIFFERENCES
from xdsl_quant.frontends.stablehlo.lowering.linalg.elementwise import FORMULAS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())[
    "project"
]["scripts"]
CONSOLE = re.compile(
    r"^```console\n\$ (?P<command>.*)\n(?P<output>(?:.*\n)*?)```$", re.M
)
PYCON = re.compile(r"^```pycon\n(?P<session>(?:.*\n)*?)```$", re.M)
SLOW_COMMANDS = {
    "python -m examples.classifiers.recipes",
    "python -m examples.digits",
    "python -m examples.digits.one_call",
    "python -m examples.digits.propagation",
    "python -m examples.digits.stablehlo",
    "python -m examples.digits.weights",
    "xdsl-quant quantize docs/examples/wine.tflite --data "
    "docs/examples/wine_samples.npz --recipe mixed --budget '1000 B' "
    "-o wine_mixed.tflite",
    "xdsl-quant quantize docs/examples/wine.tflite --data "
    "docs/examples/wine_samples.npz --recipe dynamic-range --test-data "
    "docs/examples/wine_test.npz -o wine_dynamic_range.tflite",
    "xdsl-quant quantize docs/examples/jax_rnn.mlir --data docs/examples/jax_rnn.npy "
    "-o int8.mlir",
    "xdsl-quant quantize docs/examples/torch_mlp.mlir --data "
    "docs/examples/torch_samples.npy -o int8.mlir",
    "xdsl-quant rosetta '!quant.uniform<i8:f32, 0.3:5>' --runtimes "
    "onnxruntime,litert-reference,litert-xnnpack",
    "xdsl-quant rosetta docs/examples/layers_int8.tflite --static --data "
    "docs/examples/layers.npz --runtimes litert-optimized,litert-reference",
}
"""Commands that only `make oracles` runs."""

SLOW_SESSIONS = {
    "jax.md-0",
    "proving.md-1",
    "quantizer.md-0",
    "recipes.md-0",
    "rosetta.md-0",
}
"""Sessions that only `make oracles` runs."""


def _slow(is_slow: bool) -> list[pytest.MarkDecorator]:
    return [pytest.mark.sampled(0)] if is_slow else []


CONSOLE_EXAMPLES = [
    pytest.param(
        match["command"],
        match["output"],
        id=f"{page.name}-{match['command']}",
        marks=_slow(match["command"] in SLOW_COMMANDS),
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
    pytest.param(
        match["session"],
        id=f"{page.name}-{i}",
        marks=_slow(f"{page.name}-{i}" in SLOW_SESSIONS),
    )
    for page in PAGES
    for i, match in enumerate(PYCON.finditer(page.read_text()))
]


def _run(command: str, directory: Path = ROOT) -> str:
    """What a command prints; with `2>&1` at its end, also to standard error."""
    program, *arguments = shlex.split(command)
    has_errors = arguments[-1] == "2>&1"
    if has_errors:
        del arguments[-1]
    if program in SCRIPTS:
        module, _, function = SCRIPTS[program].partition(":")
        main = getattr(import_module(module), function)
        return _run_here(main, arguments, directory, has_errors)
    if arguments[:1] == ["-m"]:
        run = partial(runpy.run_module, arguments[1], run_name="__main__")
        return _run_here(run, arguments[2:], directory, has_errors)
    # What is written to /dev/stdout goes past this process's `sys.stdout`.
    if program == "xdsl-opt" and not has_errors and "/dev/stdout" not in command:
        return _run_here(xdsl_opt.main, arguments, directory, False)
    result = subprocess.run(
        [str(Path(sys.executable).parent / program), *arguments],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if has_errors else subprocess.PIPE,
        text=True,
        check=False,
    )
    return result.stdout


def _run_here(
    main: Callable[[], object],
    arguments: Sequence[str],
    directory: Path,
    has_errors: bool,
) -> str:
    """What a command prints, in this process, which has imported it."""
    output = StringIO()
    with (
        chdir(directory),
        redirect_stdout(output),
        redirect_stderr(output if has_errors else StringIO()),
        warnings.catch_warnings(),
        patch("sys.argv", ["", *arguments]),
        patch.dict(os.environ, COLUMNS="80"),
    ):
        warnings.simplefilter("default")
        with suppress(SystemExit):
            main()
    return output.getvalue()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory like that of a checkout, to which examples may write."""
    for name in ("docs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


@pytest.mark.parametrize(("command", "output"), CONSOLE_EXAMPLES)
def test_command_prints_what_the_documentation_shows(
    command: str, output: str, checkout: Path
):
    assert _run(command, checkout).strip() == output.strip()


@pytest.mark.sampled(0)
@pytest.mark.parametrize("output", DEMO_EXAMPLES)
def test_demo_prints_the_lines_that_the_documentation_shows(output: str):
    commands = "python -m examples.wake_word", "python -m examples.classifiers"
    printed = "".join(map(_run, commands)).splitlines()
    # Times differ from run to run.
    shown = [line for line in output.splitlines() if not line.startswith("times of ")]
    assert shown
    assert [line for line in printed if line in shown] == shown


@pytest.mark.parametrize("session", PYTHON_EXAMPLES)
def test_python_session_prints_what_the_documentation_shows(
    session: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(checkout)
    parser = doctest.DocTestParser()
    test = parser.get_doctest(session, {}, "documentation", None, None)
    runner = doctest.DocTestRunner(verbose=False)
    # An example adds a formula, which other tests do not expect.
    with patch.dict(FORMULAS):
        runner.run(test)
    assert not runner.summarize(verbose=False).failed


def test_differences_are_documented():
    page = (ROOT / "docs" / "background" / "differences.md").read_text()
    for difference in DIFFERENCES:
        row = f"| {difference.name} | {difference.reason} | {difference.main} |"
        assert row in page


def test_slow_examples_exist():
    assert {example.values[0] for example in CONSOLE_EXAMPLES} >= SLOW_COMMANDS
    assert {example.id for example in PYTHON_EXAMPLES} >= SLOW_SESSIONS


def test_there_are_examples():
    assert len(CONSOLE_EXAMPLES) >= 4
    assert DEMO_EXAMPLES
    assert PYTHON_EXAMPLES


MLIR = """\
!q = !quant.uniform<i8:f32:0, {0.5, 0.25:3}>  // alias
%q = quant.qcast %x : tensor<2x?xf32> to tensor<2x?x!q>
"""


def test_every_character_of_mlir_is_in_a_token():
    tokens = list(MLIRLexer().get_tokens(MLIR))
    assert "".join(text for _, text in tokens) == MLIR
    assert (Keyword.Type, "!quant.uniform<i8:f32:0, {0.5, 0.25:3}>") in tokens
    assert (Comment.Single, "// alias") in tokens
    assert (Name.Function, "quant.qcast") in tokens
    assert (Name.Variable, "%x") in tokens


def test_output_of_a_command_is_highlighted_if_it_is_mlir():
    lexer = MLIRConsoleLexer()
    session = f"$ xdsl-opt x.mlir -p 'cse,dce'\n{MLIR}"
    tokens = list(lexer.get_tokens(session))
    assert "".join(text for _, text in tokens) == session
    assert tokens[0] == (Generic.Prompt, "$ ")
    assert (Name.Function, "quant.qcast") in tokens
    tokens = list(lexer.get_tokens("$ xdsl-quant run x.mlir\nresult0: int8 1 2\n"))
    assert tokens[-1] == (Generic.Output, "result0: int8 1 2\n")
    assert all(token is not Number for token, _ in tokens)


def test_picture_is_what_its_script_draws():
    assert PICTURE.read_text() == overview_picture()
    assert GRIDS_PICTURE.read_text() == grids_picture()
    assert BRANCHES_PICTURE.read_text() == branches_picture()


def test_picture_of_grids_has_the_numbers_of_each_type():
    grids = {grid.name: grid for grid in element_grids()}
    assert grids["i4"].numbers.tolist() == [*range(-8, 8)]
    assert grids["u2"].numbers.tolist() == [0, 1, 2, 3]
    positive = [0.5, 1, 1.5, 2, 3, 4, 6]
    negative = [-x for x in reversed(positive)]
    assert grids["f4E2M1FN"].numbers.tolist() == [*negative, 0, *positive]
    assert grids["f4E2M1FN"].formats == ("MXFP4", "NVFP4", "GGUF_MXFP4")
    assert grids["NF4 table"].numbers[[0, 7, 15]].tolist() == [-1, 0, 1]


LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_files_that_are_linked_exist(name: str):
    # mkdocs checks the links of the other pages.
    links = LINK.findall((ROOT / name).read_text())
    assert [link for link in links if not (ROOT / link).exists()] == []
    assert links or name != "README.md"


def test_the_op_of_contributing_is_in_the_package():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    declaration, formula = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    folder = ROOT / "xdsl_quant" / "frontends" / "tflite"
    assert declaration in (folder / "dialect" / "elementwise.py").read_text()
    kernels = folder / "lowering" / "kernels" / "elementwise.py"
    assert formula in kernels.read_text()


FOLDERS = re.compile(r"^\| (`[^|]*`) \|", re.M)
FOLDER = re.compile(r"`([\w/.]+)`")


def test_every_room_is_in_the_table_of_contributing():
    cells = FOLDERS.findall((ROOT / "CONTRIBUTING.md").read_text())
    named = {*FOLDER.findall("".join(cells))}
    assert [path for path in named if not (ROOT / path).exists()] == []
    package = ROOT / "xdsl_quant"
    rooms = {
        f"xdsl_quant/{path.name}{'/' if path.is_dir() else ''}"
        for path in package.iterdir()
        if not path.name.startswith("__") and path.name != "py.typed"
    }
    # Of these each folder has a row.
    rooms -= {"xdsl_quant/dialects/", "xdsl_quant/transforms/"}
    for parent in ("dialects", "transforms"):
        rooms |= {
            f"xdsl_quant/{parent}/{path.name}/"
            for path in (package / parent).iterdir()
            if (path / "__init__.py").exists()
        }
    assert rooms - named == set()
