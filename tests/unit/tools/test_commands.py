"""The command line of `xdsl-quant`: the same names in all commands, help in one screen."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from xdsl_quant.inspecting.inspection import SORT_NAMES as INSPECTION_SORT_NAMES
from xdsl_quant.quantizer.recipe_files import recipe_names
from xdsl_quant.tools import entry_points
from xdsl_quant.tools.commands import COMMANDS, SORT_NAMES, parse_arguments

FORMER_SCRIPTS = {
    f"xdsl-quant-{name}": "import_model" if name == "import" else name
    for name in COMMANDS
}


def _help_text(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as caught:
        parse_arguments(name, ["--help"])
    assert caught.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen(name: str, capsys: pytest.CaptureFixture[str]):
    lines = _help_text(name, capsys).splitlines()
    assert lines[0].startswith(f"usage: xdsl-quant {name} [options] ")
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith(f"  xdsl-quant {name} ") for line in lines) == 3


def test_help_of_the_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("sys.argv", ["xdsl-quant", "--help"])
    with pytest.raises(SystemExit) as caught:
        entry_points.main()
    assert caught.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line[:2] == "  "] == [*COMMANDS]


@pytest.mark.parametrize("arguments", [[], ["quantise"], ["run"], ["run", "m", "--no"]])
def test_usage_errors(
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr("sys.argv", ["xdsl-quant", *arguments])
    with pytest.raises(SystemExit) as caught:
        entry_points.main()
    assert caught.value.code == 2
    usage, error = capsys.readouterr().err.splitlines()
    program = " ".join(
        ["xdsl-quant", *arguments[:1]] if "run" in arguments else ["xdsl-quant"]
    )
    assert usage.startswith(f"usage: {program} ")
    assert error.startswith(f"{program}: error: ")


def test_names_of_other_modules(capsys: pytest.CaptureFixture[str]):
    assert SORT_NAMES == INSPECTION_SORT_NAMES
    words = _help_text("quantize", capsys).replace(",", " ").replace(".", " ").split()
    # Of recipes with blocks, one size is named.
    names = {re.sub(r"(?<=blocks-)\d+", "32", name) for name in recipe_names()}
    assert names <= {*words}


@pytest.mark.parametrize(
    ("name", "arguments", "former_arguments"),
    [
        (
            "run",
            "m --input 1 -o y.npy -p cse",
            "m --inputs 1 --output y.npy --passes cse",
        ),
        ("calibrate", "m --input 1 -o s.json", "m --inputs 1 --output s.json"),
        ("import", "m -o y.mlir -p cse", "m --output y.mlir --passes cse"),
    ],
)
def test_former_flags(name: str, arguments: str, former_arguments: str):
    options, former = (
        parse_arguments(name, text.split()) for text in (arguments, former_arguments)
    )
    assert options == former


@pytest.mark.parametrize("arguments", ["--help", "run --help", "quantize --no"])
def test_usage_imports_no_libraries(arguments: str):
    script = (
        "import atexit, sys; from xdsl_quant.tools.entry_points import main; "
        "atexit.register(lambda: print({'xdsl', 'numpy'} & {*sys.modules})); main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments.split()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout.splitlines()[-1] == "set()"


@pytest.mark.parametrize("name", FORMER_SCRIPTS.values())
def test_former_commands(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """They are the commands of `xdsl-quant`. Some need a slice that may be deleted."""
    module = pytest.importorskip(f"xdsl_quant.tools.{name}")
    monkeypatch.setattr("sys.argv", [f"xdsl-quant-{name}", "--help"])
    with pytest.raises(SystemExit):
        getattr(entry_points, name)()
    own = capsys.readouterr().out
    with pytest.raises(SystemExit):
        module.main(["--help"])
    assert own == capsys.readouterr().out


def test_pages_show_the_present_commands():
    root = Path(__file__).parents[3]
    pages = {
        *root.glob("*.md"),
        *root.glob("docs/**/*.md"),
        *root.glob("examples/*/*.md"),
    }
    names = "|".join(COMMANDS)
    former = re.compile(rf"(?<![#\w-])xdsl-quant-({names})\b")
    found = {page.name for page in pages if former.search(page.read_text())}
    # These say that the former commands keep working.
    assert found == {"CHANGELOG.md", "commands.md"}
