"""
Compares compiled code with the interpreter for all cases, or for some of them:
`python -m tests.cpus --group casts --cpu avx512 --count 1000`.

Each process of `--jobs` runs its part of the cases in small modules. Where code ends a
process, the cases of that module are run one by one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tests.cpus.cases import GROUPS, Case, sample
from tests.cpus.comparison import differences
from tests.cpus.foreign_code import foreign_code, foreign_cpus
from xdsl_quant.execution.cpu import available_cpus
from xdsl_quant.execution.disk_cache import VARIABLE

BATCH = 8
"""Cases of a module; MLIR takes much longer for larger ones."""

_PART = 25 * BATCH
_SCHEDULES = "scheduled", "unscheduled"

_WITH_BYTE_PRODUCTS = "products", "windows"
"""Groups in which code for VNNI differs from that for the same CPU without it."""


def main() -> int:
    """Run the command and return its exit code."""
    arguments = _arguments()
    cases = {group: sample(group, arguments.count) for group in arguments.group}
    if arguments.part is not None:
        (group,) = cases
        start, stop, step = arguments.part
        _run_part(cases[group][start:stop], step, arguments)
        return 0
    parts = [
        (group, start, min(start + _PART, len(cases[group])))
        for group in cases
        for start in range(0, len(cases[group]), _PART)
    ]
    failures: list[str] = []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = pool.map(partial(_in_process, arguments, BATCH), parts)
        for (group, _, stop), lines in zip(parts, results, strict=True):
            print("".join(lines), end="", flush=True)
            print(f"{group}: {stop} of {len(cases[group])}", file=sys.stderr)
            failures += lines
    total = sum(map(len, cases.values()))
    print(f"{total} cases: {len(failures)} differences")
    return bool(failures)


def _arguments() -> Any:
    cpus = [*available_cpus(), *foreign_cpus()]
    parser = argparse.ArgumentParser("python -m tests.cpus")
    parser.add_argument("--group", nargs="+", choices=GROUPS, default=[*GROUPS])
    parser.add_argument("--cpu", nargs="+", choices=cpus, help="by default all")
    parser.add_argument("--schedule", choices=_SCHEDULES, default="scheduled")
    parser.add_argument("--count", type=int, help="cases of each group")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    # The first case, the last one, and those of a module.
    parser.add_argument("--part", nargs=3, type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def cpus_of(group: str) -> Sequence[str]:
    """Return the CPUs for which the code of a group may differ."""
    cpus = [*available_cpus(), *foreign_cpus()]
    if group in _WITH_BYTE_PRODUCTS:
        return cpus
    return [cpu for cpu in cpus if not cpu.endswith("-vnni")]


def _run_part(cases: Sequence[Case], step: int, arguments: Any) -> None:
    """Print the differences of cases, and how many are done."""
    cpus = arguments.cpu or cpus_of(arguments.group[0])
    is_scheduled = arguments.schedule == "scheduled"
    with tempfile.TemporaryDirectory() as folder, foreign_code():
        # Other CPUs find what is lowered.
        os.environ[VARIABLE] = folder
        for start in range(0, len(cases), step):
            batch = cases[start : start + step]
            for line in differences(batch, cpus, is_scheduled=is_scheduled):
                print(f"! {line}")
            print(start + len(batch), flush=True)


def _in_process(arguments: Any, step: int, part: tuple[str, int, int]) -> list[str]:
    """Run cases in a process of its own and return a line for each difference."""
    return [*_lines(arguments, step, *part)]


def _lines(
    arguments: Any, step: int, group: str, start: int, stop: int
) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.cpus", "--group", group]
    command += ["--schedule", arguments.schedule]
    if arguments.cpu:
        command += ["--cpu", *arguments.cpu]
    if arguments.count is not None:
        command += ["--count", str(arguments.count)]
    while start < stop:
        part = ["--part", str(start), str(stop), str(step)]
        result = subprocess.run([*command, *part], capture_output=True, text=True)
        lines = result.stdout.splitlines()
        yield from (f"{line[2:]}\n" for line in lines if line.startswith("!"))
        if result.returncode == 0:
            return
        start += int(next((n for n in reversed(lines) if n.isdecimal()), "0"))
        if step == 1:
            name = sample(group, arguments.count)[start].name
            reason = result.stderr.strip().rpartition("\n")[2]
            yield f"{name}: the process ends with {result.returncode}: {reason}\n"
        else:
            yield from _lines(arguments, 1, group, start, min(start + step, stop))
        start += step


if __name__ == "__main__":
    sys.exit(main())
