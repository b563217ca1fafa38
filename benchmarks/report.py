"""What a benchmark prints: Markdown tables, and whether targets hold."""

import argparse
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version


@dataclass(frozen=True)
class Options:
    """What a benchmark is asked for."""

    quick: bool
    """Small sizes, to see that the benchmark works."""

    all: bool
    """Also what takes many minutes."""


Report = Callable[[Options], Iterator[str]]
"""A benchmark: it yields paragraphs of Markdown, each as soon as it is measured."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command line arguments that all benchmarks have."""
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--all", action="store_true", help="also what takes minutes")


def main(title: str | None, report: Report) -> None:
    """Run one benchmark as a script."""
    parser = argparse.ArgumentParser(description=title)
    add_options(parser)
    arguments = parser.parse_args()
    print(f"{environment()}\n")
    for paragraph in report(Options(arguments.quick, arguments.all)):
        print(f"{paragraph}\n", flush=True)


def environment() -> str:
    """What the numbers depend on."""
    return (
        f"{os.cpu_count()}-core {platform.machine()}, {platform.system()}, Python "
        f"{platform.python_version()}, xDSL {version('xdsl')}, MLIR "
        f"{version('xtc-mlir-python-bindings')} (its Python bindings)."
    )


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; the first column is text and the others are numbers."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def number(value: float) -> str:
    """A number with three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = 3 if abs(value) < 1 else 2 if abs(value) < 10 else 1
    return f"{value:.{digits}f}"


def ratio(ours: float, theirs: float) -> str:
    """How many times ours is theirs, e.g. `1.50x`."""
    return f"{number(ours / theirs)}x" if theirs else "-"


def target(claim: str, measured: float, limit: float, unit: str, why: str = "") -> str:
    """
    Whether a target holds: `measured` must be at most `limit`. `why` says what makes it
    hard, and is printed if it does not hold.
    """
    holds = measured <= limit
    verdict = "holds" if holds else "**does not hold**"
    remark = f" {why}" if why and not holds else ""
    return f"* {claim}: {verdict}, {number(measured)}{unit}.{remark}"
