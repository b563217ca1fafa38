"""
Start-up time that the plugin adds to `xdsl-opt`.

`xdsl-opt` runs alternately with and without the entry point of this package. Other
plugins are disabled in both cases. The rows are medians; *added* is their difference.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.report import Options, Target, main, number, table, targets

_ROOT = Path(__file__).parents[1]
_PLUGIN = "xdsl_quant"


class _Start(NamedTuple):
    wall: float
    """Wall time in milliseconds."""

    cpu: float
    """CPU time in milliseconds."""

    peak: float
    """Peak memory in MiB."""


def _start(hidden: Sequence[str], arguments: Sequence[str]) -> _Start:
    command = [sys.executable, "-m", "benchmarks.plugin_start", ",".join(hidden)]
    start = time.perf_counter()
    process = subprocess.Popen(
        [*command, *arguments], stdout=subprocess.DEVNULL, cwd=_ROOT
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError("xdsl-opt failed")
    cpu = usage.ru_utime + usage.ru_stime
    return _Start(wall * 1e3, cpu * 1e3, usage.ru_maxrss / 1024)


def _compare(
    arguments: Sequence[str], runs: int
) -> tuple[Sequence[_Start], Sequence[_Start]]:
    """Measure starts without and with the plugin."""
    others = [
        plugin.name
        for plugin in entry_points(group="xdsl.universe")
        if plugin.name not in ("xdsl", _PLUGIN)
    ]
    hidden = [*others, _PLUGIN], others
    starts: tuple[list[_Start], list[_Start]] = ([], [])
    for i in range(2 * runs):
        # Alternate which one starts first.
        with_plugin = (i + i // 2) % 2
        starts[with_plugin].append(_start(hidden[with_plugin], arguments))
    return starts


def _medians(starts: Sequence[_Start]) -> _Start:
    return _Start(*map(median, zip(*starts, strict=True)))


def report(options: Options) -> Iterator[str]:
    """Yield all tables."""
    runs = 1 if options.quick else 40
    rows: list[Sequence[str]] = []
    limits: list[Target] = []
    with TemporaryDirectory() as directory:
        empty = Path(directory) / "empty.mlir"
        empty.write_text("builtin.module {}")
        for label, arguments in (
            ("`xdsl-opt --version`", ["--version"]),
            ("`xdsl-opt` of an empty module", [str(empty)]),
        ):
            # Warm up: later starts find the files in memory.
            _compare(arguments, 1)
            without, with_plugin = map(_medians, _compare(arguments, runs))
            added = _Start(*(b - a for a, b in zip(without, with_plugin, strict=True)))
            for suffix, start in (
                ("without", without),
                ("with", with_plugin),
                ("added", added),
            ):
                rows.append([f"{label}, {suffix}", *map(number, start)])
            limits.append(
                Target(
                    f"the plugin adds at most 10 ms to {label}, CPU time",
                    added.cpu,
                    10,
                    " ms",
                )
            )
    yield table([f"median of {runs}", "wall ms", "CPU ms", "peak MiB"], rows)
    yield targets(limits)


if __name__ == "__main__":
    main(__doc__, report)
