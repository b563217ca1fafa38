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
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

SURVIVORS = Path(__file__).with_name("survivors.txt")

ENTRY = re.compile(
    r"^(?:(?P<change>~ .*|(?:- .*\n)+(?:\+ .*\n)*)|(?P<function>[^#\s].*))",
    re.MULTILINE,
)
"""A change, or the name of the function of those that follow."""

KILLED = ("timeout", "segfault")
"""How else than by a test that fails a mutant is noticed."""


class Mutant(NamedTuple):
    """A mutant, by what it changes: numbers of mutants change with the code."""

    function: str
    change: str
    """The removed and the added lines, without indentation."""


class Accepted(NamedTuple):
    """Mutants that may survive."""

    function: str
    """The name of the function, with `*`."""

    change: str
    """The change, or after `~ ` a regular expression that is found in it."""

    def has(self, mutant: Mutant) -> bool:
        if not fnmatchcase(mutant.function, self.function):
            return False
        if self.change.startswith("~ "):
            return bool(re.search(self.change[2:], mutant.change, re.MULTILINE))
        return mutant.change == self.change


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


def survivors(names: Sequence[str]) -> Iterator[Mutant]:
    """The mutants that the last run did not kill, of those with one of these names."""
    # The command `mutmut show` takes a second for each.
    diff_of = import_module("mutmut.mutation.diff_apply").get_diff_for_mutant
    for line in _mutmut("results").splitlines():
        name, _, status = line.strip().partition(": ")
        is_asked_for = any(fnmatchcase(name, pattern) for pattern in names or "*")
        if is_asked_for and name and status not in KILLED:
            path = name.rpartition(".")[0].replace(".", "/") + ".py"
            function = re.sub(r"__mutmut_\d+$", "", name)
            yield Mutant(function, _change(diff_of(name, path=path)))


def accepted() -> Iterator[Accepted]:
    """The mutants that may survive: see the head of the file for how it is written."""
    function = ""
    for line in ENTRY.finditer(SURVIVORS.read_text()):
        function = line["function"] or function
        if change := line["change"]:
            yield Accepted(function, change.rstrip())


def main() -> None:
    names = sys.argv[1:]
    _mutmut("run", *names)
    known = [*accepted()]
    uses: Counter[Accepted] = Counter()
    new: list[Mutant] = []
    for mutant in survivors(names):
        if (entry := next((e for e in known if e.has(mutant)), None)) is None:
            new.append(mutant)
        else:
            uses[entry] += 1
    for function, change in new:
        print(f"{function}\n{change}\n")
    if not names:
        for entry in [entry for entry in known if not uses[entry]]:
            print(f"listed, but killed:\n{entry.function}\n{entry.change}\n")
    if new:
        sys.exit(f"{len(new)} mutants survive and are not in {SURVIVORS}")
    print(f"All {sum(uses.values())} mutants that survive are listed.")


if __name__ == "__main__":
    main()
