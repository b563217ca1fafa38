"""
Run the unit tests and the type checker on the files that changed since a commit.

`make check` runs it, and ruff on all files. The tests of a file are those in the place that
mirrors it, or else all unit tests that name its module. `make tests` runs all tests.
"""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "tests" / "unit"


def changed_files(base: str) -> list[Path]:
    """Python files that differ from those of a commit, or that git does not know."""
    changed = ("git", "diff", "--name-only", "--diff-filter=d", "--relative", base)
    unknown = ("git", "ls-files", "--others", "--exclude-standard")
    names = [
        name
        for command in (changed, unknown)
        for name in subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
    ]
    return sorted({Path(name) for name in names if name.endswith(".py")})


def tests_of(files: Iterable[Path]) -> Iterator[Path]:
    """The files with unit tests of files, which are relative to the root."""
    for file in files:
        if file.name.startswith("test_"):
            yield file
        if file.parts[0] != "xdsl_quant" or file.name == "__init__.py":
            continue
        mirrored = Path("tests", "unit", *file.parts[1:-1], f"test_{file.name}")
        if (ROOT / mirrored).exists():
            yield mirrored
            continue
        module = ".".join(file.with_suffix("").parts)
        for test in UNIT.rglob("test_*.py"):
            if module in test.read_text():
                yield test.relative_to(ROOT)


def main(base: str) -> int:
    """Return the exit code: 0 if all tests pass and the types are right."""
    files = changed_files(base)
    if not files:
        print(f"no Python file changed since {base}")
        return 0
    tests = sorted({*map(str, tests_of(files))})
    print(f"types of {len(files)} files, tests of {len(tests)}", flush=True)
    types = subprocess.Popen(("basedpyright", *map(str, files)), cwd=ROOT)
    command = (sys.executable, "-m", "pytest", "-q", "-n", "auto", *tests)
    code = subprocess.run(command, cwd=ROOT).returncode if tests else 0
    return code or types.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "HEAD"))
