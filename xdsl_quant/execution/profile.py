"""Per-op profiles of compiled code."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.diagnostics import counted, shortened_text, table
from xdsl_quant.runtime.extras import notebook_html, slice_function

if TYPE_CHECKING:
    from .source_ops import SourceOp

_SECONDS, _MIN_CALLS, _MAX_CALLS = 0.25, 5, 1000
"""Duration of a profile in seconds, and range of its number of calls."""

MAX_SHOWN = 50
"""Maximum number of rows in a printed table or a notebook."""


def _microseconds(seconds: float) -> str:
    microseconds = 1e6 * seconds
    return f"{microseconds:,.1f}" if microseconds >= 1 else f"{microseconds:.3f}"


@dataclass(frozen=True)
class ProfileRow:
    """Duration of the code for an op and for the ops fused with this op."""

    number: int
    """Row number, from 1."""

    ops: Sequence[SourceOp]
    """
    First the op that names the code, then ops that are fused only with this op. Empty
    for code that converts arguments and results.
    """

    parts: Sequence[int]
    """Numbers of other rows: the code of this row computes some of their ops in part."""

    seconds: float
    """Median duration of the code in a call, in seconds; 0 without code."""

    products: int
    """Number of multiply-accumulates; 0 if none or unknown."""

    steps: int
    """Number of loop nests, copies and function calls in the code."""

    @property
    def giga_ops_per_second(self) -> float:
        """Multiplications and additions per nanosecond; NaN without any."""
        if not self.products or not self.seconds:
            return math.nan
        return 2e-9 * self.products / self.seconds

    @property
    def name(self) -> str:
        return self.ops[0].name if self.ops else "arguments and results"

    @property
    def location(self) -> str:
        """Source location of the op; empty if unknown."""
        return self.ops[0].location if self.ops else ""

    @property
    def result_type(self) -> str:
        """Storage type of the result."""
        return self.ops[0].result_type if self.ops else ""

    @property
    def fused(self) -> str:
        """Names of fused ops and numbers of `parts`, e.g. `tfl.add, part of 3`."""
        names = [op.name for op in self.ops[1:]]
        return ", ".join([*names, *(f"part of {number}" for number in self.parts)])


@dataclass(frozen=True, repr=False)
class Profile:
    """
    Duration of each op of a module in compiled code.

    Created by [`CompiledFunction.profile`][xdsl_quant.execution.CompiledFunction.profile].
    Prints as a table; notebooks also show bars.
    """

    name: str

    rows: Sequence[ProfileRow]
    """Rows in module order. Each op, except for constants, is in exactly one row."""

    calls: int

    @property
    def seconds(self) -> float:
        """Sum over all rows: duration of a call in seconds, without Python overhead."""
        return math.fsum(row.seconds for row in self.rows)

    @property
    def longest(self) -> Sequence[ProfileRow]:
        """Slowest rows, at most 50, in module order."""
        longest = sorted(self.rows, key=lambda row: row.seconds, reverse=True)
        return sorted(longest[:MAX_SHOWN], key=lambda row: row.number)

    @property
    def summary(self) -> str:
        """Duration of a call and the number of measured calls, as text."""
        return (
            f"a call takes {_microseconds(self.seconds)} us, the median of "
            f"{counted(self.calls, 'call')}"
        )

    def share(self, row: ProfileRow) -> float:
        """Return the fraction of a call's duration that a row takes."""
        return row.seconds / self.seconds if self.seconds else 0.0

    def cells(self, row: ProfileRow) -> Sequence[str]:
        """Return the table cells of a row: microseconds, share, products, GOP/s."""
        speed = row.giga_ops_per_second
        return (
            _microseconds(row.seconds) if row.steps else "-",
            f"{self.share(row):.1%}" if row.steps else "-",
            f"{row.products:,}" if row.products else "-",
            "-" if math.isnan(speed) else f"{speed:,.1f}",
        )

    def __repr__(self) -> str:
        header = (
            "#",
            "op",
            "where",
            "result",
            "us",
            "share",
            "products",
            "GOP/s",
            "with",
        )
        shown = self.longest
        lines = [
            (
                str(row.number),
                row.name,
                shortened_text(row.location),
                row.result_type,
                *self.cells(row),
                shortened_text(row.fused),
            )
            for row in shown
        ]
        more = len(self.rows) - len(shown)
        others = [f"... and {counted(more, 'row')} that take less"] if more else []
        end = f"{self.name}: {self.summary}"
        return "\n".join([*table([header, *lines]), *others, "", end])

    def _repr_html_(self) -> str | None:
        return notebook_html(self._html)

    def _html(self) -> str:
        render = slice_function("a table", "display.pages.render")
        return render("profile_table.html", profile=self)


def measure_steps(
    call: Callable[[], object], last_seconds: Callable[[], NDArray[np.float64]]
) -> tuple[NDArray[np.float64], int]:
    """
    Return the median duration of each step of a call, and the number of calls;
    `last_seconds` returns the durations in the last call.
    """
    # The first call includes page faults.
    call()
    seconds: list[NDArray[np.float64]] = []
    start = time.perf_counter()
    while len(seconds) < _MIN_CALLS or (
        len(seconds) < _MAX_CALLS and time.perf_counter() < start + _SECONDS
    ):
        call()
        seconds.append(last_seconds())
    return np.median(seconds, axis=0), len(seconds)


def rows_of(
    ops: Sequence[SourceOp],
    products: Mapping[int, int],
    steps: Sequence[Sequence[int]],
    seconds: Sequence[float],
) -> Sequence[ProfileRow]:
    """
    Return the rows of a profile. `products` maps op indices to numbers of
    multiply-accumulates. A step is a list of op indices: the first one is the op that
    names the step, for fused loops their last op.

    Each step belongs to the row of the op that names it. An op that names no step joins
    the row of the first step that contains the op. An op in no step gets its own row.
    """
    owners = [step[0] if step else None for step in steps]
    row_of = _row_owners(len(ops), owners, steps)
    firsts: list[int | None] = [i for i in range(len(ops)) if row_of[i] == i]
    firsts += [None] if None in owners else []
    numbers = {first: number for number, first in enumerate(firsts, 1)}
    rows: list[ProfileRow] = []
    for first, number in numbers.items():
        own = [i for i, owner in enumerate(owners) if owner == first]
        fused = [i for i in range(len(ops)) if row_of[i] == first != i]
        inside = fused if first is None else [first, *fused]
        related_rows = {numbers[row_of[index]] for i in own for index in steps[i]}
        rows.append(
            ProfileRow(
                number,
                [ops[index] for index in inside],
                sorted(related_rows - {number}),
                math.fsum(seconds[i] for i in own),
                sum(products.get(index, 0) for index in inside),
                len(own),
            )
        )
    return rows


def _row_owners(
    count: int, owners: Sequence[int | None], steps: Sequence[Sequence[int]]
) -> Mapping[int | None, int | None]:
    """Map each op index to the index of the op that names its row, or to `None`."""
    row_of: dict[int | None, int | None] = {owner: owner for owner in owners}
    for owner, step in zip(owners, steps, strict=True):
        for index in step:
            row_of.setdefault(index, owner)
    for index in range(count):
        row_of.setdefault(index, index)
    return row_of
