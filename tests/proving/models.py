"""
Validate three pipelines on the seven models of `benchmarks/models.py`, kernel by kernel,
and print a table.

    python -m tests.proving.models [MODEL ...]

A kernel is proved, differs by a bounded number of units, is refuted without a bound, or
is open; the last two are printed with their reason. *Scheduled* counts the kernels whose
code is analyzed after the scheduling of ops on tensors, and *CPU s* is the CPU time of all
kernels.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.models import MODELS
from examples.wake_word.models import model_paths
from tests.proving.kernel_mutants import PIPELINES
from xdsl_quant.diagnostics import table
from xdsl_quant.proving.kernels import kernel_theorems
from xdsl_quant.proving.theorems import Theorem
from xdsl_quant.runtime.loading import as_module

TITLES = (
    *("model", "code", "kernels", "proved", "at most 1 unit", "others", "scheduled"),
    "CPU s",
)


def files(names: Sequence[str], folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield models by name; write those of the benchmarks to a folder."""
    for name, network in MODELS.items():
        if not names or name in names:
            path = folder / f"{name}.tflite"
            network().save(path)
            yield name, path
    for name, path in model_paths().items():
        if not names or name in names:
            yield name, path


def row(theorems: Sequence[Theorem]) -> Sequence[str]:
    """Return the counts of a row."""
    verdicts = [
        "near" if theorem.details.startswith("at most 1 unit:") else theorem.verdict
        for theorem in theorems
    ]
    total, proved, near = (
        len(verdicts),
        verdicts.count("proved"),
        verdicts.count("near"),
    )
    scheduled = sum(not t.method.endswith("before scheduling") for t in theorems)
    return [*map(str, (total, proved, near, total - proved - near, scheduled))]


def main() -> int:
    """Print the table; return 1 if a kernel is refuted without a bound of 1 unit."""
    rows: list[Sequence[str]] = [TITLES]
    open_kernels: list[str] = []
    with TemporaryDirectory() as folder:
        for name, path in files(sys.argv[1:], Path(folder)):
            for code, pipeline in PIPELINES.items():
                start = time.process_time()
                found = [*kernel_theorems(as_module(path), pipeline)]
                seconds = time.process_time() - start
                rows.append((name, code, *row(found), f"{seconds:.1f}"))
                open_kernels += [
                    f"{name}, {code}: {theorem}"
                    for theorem in found
                    if row([theorem])[3] != "0"
                ]
    print("\n".join([*table(rows), "", *open_kernels]))
    return int(any("refuted" in text for text in open_kernels))


if __name__ == "__main__":
    sys.exit(main())
