"""Mutants by what they change, and those that may survive: `survivors.txt`."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

SURVIVORS = Path(__file__).with_name("survivors.txt")

ENTRY = re.compile(
    r"^(?:(?P<change>~ .*|(?:- .*\n)+(?:\+ .*\n)*)|(?P<function>[^#\s].*))",
    re.MULTILINE,
)
"""A change, or the name of the function of those that follow."""


class Mutant(NamedTuple):
    """A mutant, by what it changes: numbers of mutants change with the code."""

    function: str
    change: str
    """The removed and the added lines, without indentation."""


class Listed(NamedTuple):
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


def function_of(name: str) -> str:
    """The function of the mutant that mutmut calls so."""
    return re.sub(r"__mutmut_\d+$", "", name)


def mutant_of(name: str) -> Mutant:
    """The mutant that mutmut calls so."""
    # The command `mutmut show` takes a second for each.
    diff_of = import_module("mutmut.mutation.diff_apply").get_diff_for_mutant
    path = name.rpartition(".")[0].replace(".", "/") + ".py"
    return Mutant(function_of(name), _change(diff_of(name, path=path)))


def _change(diff: str) -> str:
    lines = [
        f"{line[0]} {line[1:].strip()}"
        for line in diff.splitlines()
        if line[:1] in ("-", "+") and not line.startswith(("---", "+++"))
    ]
    return "\n".join(lines)


@cache
def listed(path: Path = SURVIVORS) -> tuple[Listed, ...]:
    """What `survivors.txt` or another file lists: see its head for how it is written."""
    return tuple(_listed(path))


def _listed(path: Path) -> Iterator[Listed]:
    function = ""
    for line in ENTRY.finditer(path.read_text()):
        function = line["function"] or function
        if change := line["change"]:
            yield Listed(function, change.rstrip())


def entry_of(mutant: Mutant) -> Listed | None:
    """The first entry of `survivors.txt` that has the mutant."""
    return next((entry for entry in listed() if entry.has(mutant)), None)
