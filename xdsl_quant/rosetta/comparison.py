"""Results of comparing runtimes, printed as tables or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from xdsl_quant.diagnostics import table

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Difference:
    """An input for which two runtimes return different results."""

    input: str
    """Text of the input, with commas between operands."""

    result: str

    expected: str
    """Result of the reference runtime, which all others are compared with."""


@dataclass(frozen=True)
class Match:
    """Options of compiled code that best reproduce a runtime."""

    options: Mapping[str, str]
    """Options whose values differ from the default, by name."""

    differences: int
    """Number of inputs other than NaN whose results differ even with these options."""

    first: Difference | None = None
    """
    Difference at the input with the smallest magnitude; its `expected` is the result of
    the compiled code.
    """

    is_same_for_nan: bool = True
    """True if the compiled code and the runtime return equal results for NaN."""

    def __str__(self) -> str:
        pairs = (f"{name}={value}" for name, value in self.options.items())
        text = " ".join(pairs) or "default"
        if (first := self.first) is not None:
            where = f"first {first.input}: {first.result}, not {first.expected}"
            return f"none; {self.differences:,} differ with {text}, {where}"
        return text if self.is_same_for_nan else f"{text}, except for NaN"


@dataclass(frozen=True)
class Row:
    """Table row with the results of one runtime."""

    runtime: str

    version: str
    """Name and version of the runtime's package; empty if it needs none."""

    differences: int
    """Number of inputs other than NaN whose results differ from the reference."""

    first: Difference | None
    """Difference at the input with the smallest magnitude, positive before negative."""

    nan: str
    """Result for NaN, which may be `undefined`; empty if no input is NaN."""

    match: Match | None = None
    """Options that best reproduce the runtime; `None` for compiled code itself."""


@dataclass(frozen=True)
class RuntimeComparison:
    """Results of several runtimes for the same inputs."""

    title: str
    """Operation that is compared."""

    against: str
    """Name of the reference runtime, which all others are compared with."""

    inputs: int

    rows: Sequence[Row]

    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Runtimes without a row, with the reason."""

    def row(self, runtime: str) -> Row:
        """
        Return the row of a runtime.

        Raises:
            KeyError: if the runtime has no row.
        """
        for row in self.rows:
            if row.runtime == runtime:
                return row
        raise KeyError(runtime)

    def __str__(self) -> str:
        header = ("runtime", "differ", "input", "result", self.against, "NaN", _MATCH)
        rows = [header, *map(_row_cells, self.rows)]
        # Omit the columns for NaN and for matching options if they are empty.
        is_shown = [
            i < 5 or any(row[i] for row in rows[1:]) for i in range(len(header))
        ]
        shown = [
            [cell or "-" for cell, is_ in zip(row, is_shown, strict=True) if is_]
            for row in rows
        ]
        lines = [f"{self.title}: {self.inputs:,} inputs, compared with {self.against}"]
        lines += [f"  {line}" for line in table(shown)]
        lines += [f"  left out: {text}" for text in self._left_out_texts()]
        return "\n".join(lines)

    def _left_out_texts(self) -> Iterable[str]:
        runtimes: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            runtimes.setdefault(reason, []).append(name)
        return (f"{', '.join(names)}: {reason}" for reason, names in runtimes.items())


_MATCH = "same as compiled with"


def _row_cells(row: Row) -> Sequence[str]:
    first = row.first
    texts = (first.input, first.result, first.expected) if first else ("", "", "")
    match = "" if row.match is None else str(row.match)
    return row.runtime, f"{row.differences:,}", *texts, row.nan, match


def comparisons_json(comparisons: Iterable[DataclassInstance]) -> str:
    """Return comparisons as JSON, with the fields of their class as keys."""
    return json.dumps([asdict(item) for item in comparisons], indent=2) + "\n"
