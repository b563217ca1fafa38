"""What is known of the integers of several runtimes, as a table."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from xdsl_quant.diagnostics import table


@dataclass(frozen=True)
class Difference:
    """An input for which two runtimes have different results."""

    input: str
    """The input; for several operands separated by commas."""

    result: str
    """The result of the runtime."""

    expected: str
    """The result of the runtime that it is compared with."""


@dataclass(frozen=True)
class Match:
    """The options of compiled code that come nearest to a runtime."""

    options: Mapping[str, str]
    """Options and their values, without those that have their default."""

    differences: int
    """For how many inputs that are numbers the results still differ."""

    first: Difference | None = None
    """The first of them; expected is what compiled code computes."""

    is_same_for_nan: bool = True
    """Whether the results for NaN are those of the runtime."""

    def __str__(self) -> str:
        pairs = (f"{name}={value}" for name, value in self.options.items())
        text = " ".join(pairs) or "default"
        if (first := self.first) is not None:
            where = f"first {first.input}: {first.result}, not {first.expected}"
            return f"none; {self.differences:,} differ with {text}, {where}"
        return text if self.is_same_for_nan else f"{text}, but for NaN"


@dataclass(frozen=True)
class Row:
    """What a runtime computes."""

    runtime: str
    """The name of the runtime."""

    version: str
    """The version of its package; empty for formulas and for this package."""

    differences: int
    """For how many inputs that are numbers it differs."""

    first: Difference | None
    """The difference at the input with the smallest magnitude, the positive one first."""

    nan: str
    """The result for NaN: `undefined`, or empty where no input is NaN."""

    match: Match | None = None
    """What reproduces it; `None` for compiled code itself."""


@dataclass(frozen=True)
class RuntimeComparison:
    """The integers of several runtimes for the same inputs."""

    title: str
    """What is computed."""

    against: str
    """The name of the runtime that others are compared with."""

    inputs: int
    """How many inputs there are."""

    rows: Sequence[Row]

    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Runtimes without a row, and why."""

    def row(self, runtime: str) -> Row:
        """
        The row of a runtime.

        Raises:
            KeyError: if it has none.
        """
        for row in self.rows:
            if row.runtime == runtime:
                return row
        raise KeyError(runtime)

    def __str__(self) -> str:
        header = ("runtime", "differ", "input", "result", self.against, "NaN", _MATCH)
        rows = [header, *map(_row_cells, self.rows)]
        # Where nothing is NaN, or nothing reproduces anything, there is no column.
        is_shown = [
            i < 5 or any(row[i] for row in rows[1:]) for i in range(len(header))
        ]
        shown = [
            [cell or "-" for cell, is_ in zip(row, is_shown, strict=True) if is_]
            for row in rows
        ]
        lines = [f"{self.title}: {self.inputs:,} inputs, compared with {self.against}"]
        lines += [f"  {line}" for line in table(shown)]
        lines += [f"  left out: {each}" for each in self._left_out_texts()]
        return "\n".join(lines)

    def _left_out_texts(self) -> Iterable[str]:
        runtimes: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            runtimes.setdefault(reason, []).append(name)
        return (f"{', '.join(names)}: {reason}" for reason, names in runtimes.items())


_MATCH = "same as compiled with"


def _row_cells(row: Row) -> Sequence[str]:
    first = row.first
    found = (first.input, first.result, first.expected) if first else ("", "", "")
    match = "" if row.match is None else str(row.match)
    return row.runtime, f"{row.differences:,}", *found, row.nan, match


def comparisons_json(comparisons: Iterable[RuntimeComparison]) -> str:
    """Comparisons as JSON, with the names of the fields of these classes."""
    return json.dumps([asdict(each) for each in comparisons], indent=2) + "\n"
