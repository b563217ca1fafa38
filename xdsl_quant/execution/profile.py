"""How long each op of a module takes in compiled code."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.diagnostics import counted, shortened_text, table
from xdsl_quant.runtime.extras import display_function, notebook_html

if TYPE_CHECKING:
    from .source_ops import SourceOp

_SECONDS, _MIN_CALLS, _MAX_CALLS = 0.25, 5, 1000
"""A profile takes so long, unless these are too few or too many calls."""

MAX_SHOWN = 50
"""Rows of a table that is printed, or shown in a notebook."""


@dataclass(frozen=True)
class ProfileRow:
    """Ops that share code, and how long it takes."""

    number: int
    """The number of the row, from 1."""

    ops: Sequence[SourceOp]
    """
    The op that the code is named after, and those that are fused with it and have no other
    code; none for what only arguments and results need.
    """

    parts: Sequence[int]
    """The numbers of rows of ops of which a part is computed here."""

    seconds: float
    """The time of a call, the median of all calls; 0 if there is no code."""

    products: int
    """The number of products that are added up; 0 if there are none or it is not known."""

    steps: int
    """The number of loop nests, copies and calls of functions that the code consists of."""

    @property
    def giga_ops_per_second(self) -> float:
        """Multiplications and additions in billions a second; NaN without products."""
        if not self.products or not self.seconds:
            return math.nan
        return 2e-9 * self.products / self.seconds

    @property
    def name(self) -> str:
        """The name of the op."""
        return self.ops[0].name if self.ops else "arguments and results"

    @property
    def location(self) -> str:
        """Where the op is; empty if that is not known."""
        return self.ops[0].location if self.ops else ""

    @property
    def result_type(self) -> str:
        """The type of the result as stored."""
        return self.ops[0].result_type if self.ops else ""

    @property
    def fused(self) -> str:
        """The other ops in the code, e.g. `tfl.add, part of 3`; empty without any."""
        names = [op.name for op in self.ops[1:]]
        return ", ".join([*names, *(f"part of {number}" for number in self.parts)])


@dataclass(frozen=True, repr=False)
class Profile:
    """
    How long each op of a module takes in compiled code.

    [`CompiledFunction.profile`][xdsl_quant.execution.CompiledFunction.profile] makes it.
    Printed it is a table, in a notebook one with bars.
    """

    name: str
    """The name of the function."""

    rows: Sequence[ProfileRow]
    """In the order of the module. Each op but constants is in one of them."""

    calls: int
    """The number of calls that were measured."""

    @property
    def seconds(self) -> float:
        """The time of a call, without the way from Python and back: that of all rows."""
        return math.fsum(row.seconds for row in self.rows)

    @property
    def longest(self) -> Sequence[ProfileRow]:
        """The rows that take longest, at most 50, in the order of the module."""
        longest = sorted(self.rows, key=lambda row: row.seconds, reverse=True)
        return sorted(longest[:MAX_SHOWN], key=lambda row: row.number)

    @property
    def summary(self) -> str:
        """The time of a call, and what it is the median of."""
        return (
            f"a call takes {1e6 * self.seconds:,.1f} us, the median of "
            f"{counted(self.calls, 'call')}"
        )

    def share(self, row: ProfileRow) -> float:
        """Return the part of the time of a call that a row takes."""
        return row.seconds / self.seconds if self.seconds else 0.0

    def cells(self, row: ProfileRow) -> Sequence[str]:
        """Return the texts of a row: microseconds, share, products, GOP/s."""
        speed = row.giga_ops_per_second
        return (
            f"{1e6 * row.seconds:,.1f}" if row.steps else "-",
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
        render = display_function("a table", "pages.render")
        return render("profile_table.html", profile=self)


def measure_steps(
    call: Callable[[], object], last_seconds: Callable[[], NDArray[np.float64]]
) -> tuple[NDArray[np.float64], int]:
    """
    Return the median time of each step, and the number of calls.

    Args:
        call: makes a call.
        last_seconds: how long each step of the last call took.
    """
    # The first call pays for memory that is touched for the first time.
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
    Return the rows of a profile.

    An op has the steps that are named after it: loops that are fused are named after the
    last of the ops. If there are none, the op is in the row of the first step with a part
    of it; and if there is none of these, it has a row without code.

    Args:
        ops: the ops of the module.
        products: the number of products of ops, by their indices.
        steps: the indices of the ops of each step, those that it is named after first.
        seconds: the time of each step.
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
        found = {numbers[row_of[index]] for i in own for index in steps[i]}
        rows.append(
            ProfileRow(
                number,
                [ops[index] for index in inside],
                sorted(found - {number}),
                math.fsum(seconds[i] for i in own),
                sum(products.get(index, 0) for index in inside),
                len(own),
            )
        )
    return rows


def _row_owners(
    count: int, owners: Sequence[int | None], steps: Sequence[Sequence[int]]
) -> Mapping[int | None, int | None]:
    """For each op, and for what is of no op, the first op of its row."""
    row_of: dict[int | None, int | None] = {owner: owner for owner in owners}
    for owner, step in zip(owners, steps, strict=True):
        for index in step:
            row_of.setdefault(index, owner)
    for index in range(count):
        row_of.setdefault(index, index)
    return row_of
