"""Output of a benchmark: Markdown tables and the results of its targets."""

import argparse
import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from xdsl_quant.runtime.atomic_files import write_text_atomically


@dataclass(frozen=True)
class Options:
    """Command line options of a benchmark."""

    quick: bool
    """Small sizes: a smoke test of the benchmark."""

    all: bool
    """Include measurements that take minutes."""


Report = Callable[[Options], Iterator[str]]
"""A benchmark: it yields paragraphs of Markdown, each as soon as it is measured."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command line arguments of all benchmarks."""
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument(
        "--all", action="store_true", help="include measurements that take minutes"
    )


def add_write_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for the page to write."""
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="also write the output to a file",
    )


def print_page(lines: Iterable[str], path: Path | None) -> None:
    """Print each line as soon as it is available; write all lines to `path` if given."""
    written: list[str] = []
    for line in lines:
        print(line, flush=True)
        written.append(line)
    if path is not None:
        write_text_atomically(path, "\n".join(written) + "\n")


def main(title: str | None, report: Report) -> None:
    """Run one benchmark as a script."""
    parser = argparse.ArgumentParser(description=title)
    add_options(parser)
    arguments = parser.parse_args()
    print(f"{environment()}\n")
    for paragraph in report(Options(arguments.quick, arguments.all)):
        print(f"{paragraph}\n", flush=True)


def environment() -> str:
    """Return the machine and the versions."""
    return (
        f"{os.cpu_count()}-core {platform.machine()}, {platform.system()}, Python "
        f"{platform.python_version()}, xDSL {version('xdsl')}, MLIR "
        f"{version('xtc-mlir-python-bindings')} (its Python bindings)."
    )


def cpu() -> str:
    """Return the name of the CPU, on Linux with its model."""
    path = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", path.read_text() if path.exists() else "")
    return found[1] if found else platform.processor() or platform.machine()


def table(header: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Return a Markdown table; the first `texts` columns are text, the others numbers."""
    lines = [header, ["---"] * texts + ["---:"] * (len(header) - texts), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(value: float) -> str:
    """Format a number with three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1
    return f"{value:.{digits}f}"


def ratio(ours: float, theirs: float) -> str:
    """Format the quotient of two numbers, e.g. `1.50x`."""
    return f"{number(ours / theirs)}x" if theirs else "-"


class Target(NamedTuple):
    """A claim that a measured number does not exceed a limit."""

    claim: str
    """The claim as `subject: claim`; the subject is optional."""

    measured: float

    limit: float

    unit: str

    why: str = ""
    """Reason, printed if the target does not hold."""

    @property
    def holds(self) -> bool:
        """True if the measured number is at most the limit."""
        return self.measured <= self.limit

    def __str__(self) -> str:
        result = "holds" if self.holds else "**does not hold**"
        remark = f" {self.why}" if self.why and not self.holds else ""
        return f"* {self.claim}: {result}, {number(self.measured)}{self.unit}.{remark}"


_MAX_LISTED = 3
"""Maximum number of targets for which all are listed."""


def targets(all_targets: Iterable[Target]) -> str:
    """
    Return the results of targets: one line for each. For more than three targets, return
    the number that hold, and the targets that do not hold.
    """
    listed = list(all_targets)
    if len(listed) <= _MAX_LISTED:
        return "\n".join(map(str, listed))
    claims = dict.fromkeys(target.claim.rpartition(": ")[2] for target in listed)
    exceeded = [target for target in listed if not target.holds]
    count = len(listed) - len(exceeded)
    summary = f"{count} of {len(listed)} targets hold ({'; '.join(claims)})."
    return "\n".join([summary, *([""] if exceeded else []), *map(str, exceeded)])
