"""
Mutate the arithmetic, and compare the mutants that no test kills with `survivors.txt`.

`make mutants` runs this. [mutmut](https://mutmut.readthedocs.io) makes the mutants, runs
for each one the tests that reach it (see `runner.py`), and remembers results in the folder
`mutants/`. It notices tests that are new, but neither those that reach more than before nor
files that are no Python: without the folder, all begins anew. What is mutated is in
`pyproject.toml`. Arguments are names of mutants, with `*`, e.g.
`xdsl_quant.numerics.fixed_point.*`: without any all are run.
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from tests.mutants.survivors import (
    SURVIVORS,
    Listed,
    Mutant,
    entry_of,
    listed,
    mutant_of,
)

KILLED = ("timeout", "segfault")
"""How else than by a test that fails a mutant is noticed."""


def survivors(names: Sequence[str]) -> Iterator[Mutant]:
    """The mutants that the last run did not kill, of those with one of these names."""
    command = [sys.executable, "-m", "mutmut", "results"]
    results = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    for line in results.stdout.splitlines():
        name, _, status = line.strip().partition(": ")
        is_asked_for = any(fnmatchcase(name, pattern) for pattern in names or "*")
        if is_asked_for and name and status not in KILLED:
            yield mutant_of(name)


def main() -> None:
    names = sys.argv[1:]
    command = [sys.executable, "-m", "tests.mutants.runner", "run", *names]
    if code := subprocess.run(command, check=False).returncode:
        sys.exit(code)
    uses: Counter[Listed] = Counter()
    new: list[Mutant] = []
    for mutant in survivors(names):
        if (entry := entry_of(mutant)) is None:
            new.append(mutant)
        else:
            uses[entry] += 1
    for function, change in new:
        print(f"{function}\n{change}\n")
    if not names:
        for entry in [entry for entry in listed() if not uses[entry]]:
            print(f"listed, but killed:\n{entry.function}\n{entry.change}\n")
    if new:
        sys.exit(f"{len(new)} mutants survive and are not in {SURVIVORS}")
    print(f"All {sum(uses.values())} mutants that survive are listed.")


if __name__ == "__main__":
    main()
