"""
Run the unit tests of the core with each slice deleted: `python -m tests.slices [SLICES]`.

A slice is deleted for a process by making its modules impossible to import. Tests need the
slice if their file, or a file of `tests` that it imports, names it; they are skipped.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.house import SLICES

ROOT = Path(__file__).parents[1]

NAMES = {
    "display": r"display|html|page|plot|magic",
    "execution.scheduling": r"schedul|unscheduled",
    "frontends.linalg_named_ops": r"linalg\.ops|named_op|conv_2d|batch_matmul|type_fn",
    "frontends.onnx": r"onnx",
    "frontends.stablehlo": r"stablehlo",
    "frontends.tflite": r"tfl|litert|lite\b",
    "frontends.tosa": r"tosa",
    "inspecting": (
        r"\binspect|golden|verify.quant|--times|tools[. ](compare|target)|\"compare\""
    ),
    "numerics.formats": r"formats|nf4|gguf|\bmx",
    "proving": r"prov(e|ing)\b",
    "quantizer.bit_search": r"bit_search|budget|\bmixed|search",
    "rosetta": r"rosetta",
    "transforms.composites": r"composite|inlin",
    "transforms.float_layers": (
        r"float_layers|(fold|equalize|smooth|split)-(batch|layers|activations|reductions)"
    ),
}
"""Slices that can be deleted, and patterns of the texts that name them."""

_OF_ALL = r"documented|documentation_of|benchmarks|mac-array|def test_list"
"""Pattern of the texts of tests that are about the whole package."""

_OPTIONS = ("-q", "-n", "auto", "-p", "tests.slices", "-W", "ignore:unknown target")
"""The recipes of the package name targets of all slices, and warn of missing ones."""

_VARIABLE = "XDSL_QUANT_TESTS_WITHOUT"


class _Deleted:
    """A finder before all others that finds no module of a slice."""

    def __init__(self, name: str):
        self.prefix = f"xdsl_quant.{name}."

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if f"{name}.".startswith(self.prefix):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def delete(name: str) -> None:
    """Make the modules of a slice impossible to import."""
    sys.meta_path.insert(0, _Deleted(name))


@cache
def _imported_files(path: Path) -> Sequence[Path]:
    """Files of `tests` that a file imports at module level, and the file."""
    found = [path]
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
            module = ROOT.joinpath(*(node.module or "").split("."))
            candidates = [module, *(module / alias.name for alias in node.names)]
            files = [candidate.with_suffix(".py") for candidate in candidates]
            found += [
                f for file in files if file.exists() for f in _imported_files(file)
            ]
    return found


def core_tests(name: str) -> Iterator[Path]:
    """Yield the files of unit tests of the core that do not need a slice."""
    named = re.compile(f"{NAMES[name]}|{_OF_ALL}", re.IGNORECASE)
    tests = ROOT / "tests" / "unit"
    slices = [tests.joinpath(*slice_.split(".")) for slice_ in SLICES]
    for path in sorted(tests.rglob("test_*.py")):
        if any(folder in path.parents for folder in slices):
            continue
        texts = (file.read_text() for file in _imported_files(path))
        if not any(map(named.search, texts)):
            yield path


def main(names: Sequence[str] = ()) -> int:
    """Run the tests for the named slices, or all; return 1 if a run failed, else 0."""
    codes: list[int] = []
    for name in names or NAMES:
        files = [str(path.relative_to(ROOT)) for path in core_tests(name)]
        print(f"Without {name}: {len(files)} files of tests", flush=True)
        command = (sys.executable, "-m", "pytest", *_OPTIONS, *files)
        environment = {**os.environ, _VARIABLE: name}
        run = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        codes.append(run.returncode)
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

if _VARIABLE in os.environ:
    delete(os.environ[_VARIABLE])
