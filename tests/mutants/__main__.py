"""
Mutate the arithmetic, and compare the mutants that no test kills with `survivors.txt`.

`make mutants` runs this. [mutmut](https://mutmut.readthedocs.io) makes the mutants, runs
for each one the tests that reach it, and remembers results in the folder `mutants/`. What
is mutated is in `pyproject.toml`. Arguments are names of mutants, with `*`, e.g.
`xdsl_quant.numerics.fixed_point.*`: without any all are run.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SURVIVORS = Path(__file__).with_name("survivors.txt")


class Mutant(NamedTuple):
    """A mutant, by what it changes: numbers of mutants change with the code."""

    function: str
    change: str
    """The removed and the added lines, without indentation."""


def _mutmut(*arguments: str) -> str:
    command = [sys.executable, "-m", "mutmut", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"{' '.join(command)}:\n{result.stdout[-3000:]}{result.stderr}")
    return result.stdout


def _change(diff: str) -> str:
    lines = [
        f"{line[0]} {line[1:].strip()}"
        for line in diff.splitlines()
        if line[:1] in ("-", "+") and not line.startswith(("---", "+++"))
    ]
    return "\n".join(lines)


def survivors() -> Iterator[Mutant]:
    """The mutants that the last run did not kill."""
    for line in _mutmut("results").splitlines():
        name, _, status = line.strip().partition(": ")
        if status in ("survived", "no tests"):
            function = re.sub(r"__mutmut_\d+$", "", name)
            yield Mutant(function, _change(_mutmut("show", name)))


def accepted() -> Iterator[Mutant]:
    """The mutants that may survive: see the head of the file for how it is written."""
    for entry in SURVIVORS.read_text().split("\n\n"):
        lines = [line for line in entry.splitlines() if not line.startswith("#")]
        if lines:
            yield Mutant(lines[0], "\n".join(lines[1:]))


def main() -> None:
    _mutmut("run", *sys.argv[1:])
    known = {*accepted()}
    new = [mutant for mutant in survivors() if mutant not in known]
    for function, change in new:
        print(f"{function}\n{change}\n")
    if new:
        sys.exit(f"{len(new)} mutants survive and are not in {SURVIVORS}")
    print("All mutants that survive are listed.")


if __name__ == "__main__":
    main()
