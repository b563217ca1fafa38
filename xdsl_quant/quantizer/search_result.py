"""Result of a search for storage widths: the chosen and other measured assignments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from html import escape

from xdsl_quant.diagnostics import shortened_text, table
from xdsl_quant.runtime.extras import notebook_html, slice_function

from .recipe import Budget, parse_budget
from .signal_noise import decibels


@dataclass(frozen=True)
class Assignment:
    """Storage widths of all searched kernels, and the measured size and error."""

    weight_bits: Sequence[int | None]
    """Width of the weights of each kernel; `None` for kernels without weights."""

    activation_bits: Sequence[int | None]
    """Width of the non-constant operands and results of each kernel."""

    stored_bytes: int
    """Size of constants, without scales."""

    noise: float
    """
    Noise relative to the signal, averaged over the results of the model: the sum of squared
    differences from the float result, divided by the sum of squares of the float result.
    """

    accuracy: float | None = None
    """Fraction of samples with the right class, if there are labels."""

    @property
    def sqnr(self) -> float:
        """Signal-to-quantization-noise ratio in dB; infinite without noise."""
        return -10 * math.log10(self.noise) if self.noise else math.inf

    def loss(self, other: Assignment) -> float:
        """Return the loss of SQNR in dB compared with another assignment."""
        return 0.0 if self.noise == other.noise else other.sqnr - self.sqnr

    def points_lost(self, other: Assignment) -> float:
        """Return the loss of accuracy compared with `other` in percentage points."""
        assert self.accuracy is not None
        assert other.accuracy is not None
        # Removes the rounding error: accuracies are multiples of 1 / number of samples.
        return round(100 * (other.accuracy - self.accuracy), 9)

    @property
    def text(self) -> str:
        """Size, SQNR and accuracy as text."""
        accuracy = "" if self.accuracy is None else f", {self.accuracy:.1%} accuracy"
        return f"{self.stored_bytes} bytes, {decibels(self.sqnr)} dB{accuracy}"


@dataclass(frozen=True)
class SearchedKernel:
    """Tried widths of a kernel, and the chosen one."""

    kernel: str

    location: str
    """Location in the model; empty if unknown."""

    widths: Sequence[str]
    """Bits of activations and weights, such as `16x8`, from narrow to wide."""

    losses: Sequence[float]
    """SQNR loss in dB for each width, with all other kernels at their widest width."""

    byte_differences: Sequence[int]
    """Size of constants in bytes for each width, minus the size for the widest width."""

    chosen: int
    """Index of the chosen width."""

    def row(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return a table row with the loss of SQNR for each width in `names`."""
        losses = dict(zip(self.widths, map("{:.1f}".format, self.losses), strict=True))
        cells = (losses.get(name, "") for name in names)
        where = shortened_text(self.location)
        return self.kernel, where, *cells, self.widths[self.chosen]


@dataclass(frozen=True)
class BitSearchResult:
    """Result of a search for storage widths."""

    budget: Budget
    kernels: Sequence[SearchedKernel]

    chosen: Assignment
    widest: Assignment
    measured: Sequence[Assignment]

    search: Callable[[Budget], BitSearchResult] = field(repr=False, compare=False)
    """Function that repeats the search with another budget."""

    def with_budget(self, budget: Budget | str) -> BitSearchResult:
        """
        Return the result for another budget, such as `"20 kB"`. Measured assignments are
        reused. The model does not change: to apply the result, quantize with that budget.

        Raises:
            ValueError: if `budget` is not a budget, or no assignment is within it.
        """
        return self.search(parse_budget(budget) if isinstance(budget, str) else budget)

    @property
    def curve(self) -> Sequence[Assignment]:
        """
        Trade-off between bytes and noise: the Pareto front of the measured assignments,
        in order of size.
        """
        curve: list[Assignment] = []
        for each in sorted(self.measured, key=lambda a: (a.stored_bytes, a.noise)):
            if not curve or each.noise < curve[-1].noise:
                curve.append(each)
        return curve

    def content(self) -> dict[str, object]:
        """Return the fields of the JSON object."""
        return {
            "budget": str(self.budget),
            "kernels": [*map(asdict, self.kernels)],
            "chosen": asdict(self.chosen),
            "widest": asdict(self.widest),
            "measured": [*map(asdict, self.measured)],
        }

    def __str__(self) -> str:
        """Return the kernels and the trade-off as tables."""
        several = [kernel for kernel in self.kernels if len(kernel.widths) > 1]
        names = [*dict.fromkeys(w for kernel in several for w in kernel.widths)]
        rows = [("searched kernel", "where", *names, "chosen")]
        rows += [kernel.row(names) for kernel in several]
        accuracy = () if self.chosen.accuracy is None else ("accuracy",)
        curve = [("bytes", "SQNR", "loss", *accuracy, "")]
        # The chosen assignment is not on the curve if wider activations reduce noise.
        beside = () if self.chosen in self.curve else (self.chosen,)
        curve += [self._row(each) for each in (*self.curve, *beside)]
        end = f"budget: {self.budget}, measured assignments: {len(self.measured)}"
        return "\n".join([*table(rows), "", *table(curve), "", end])

    def _row(self, assignment: Assignment) -> tuple[str, ...]:
        accuracy = assignment.accuracy
        return (
            str(assignment.stored_bytes),
            decibels(assignment.sqnr),
            f"{assignment.loss(self.widest):.1f}",
            *(() if accuracy is None else (f"{accuracy:.1%}",)),
            "chosen" if assignment is self.chosen else "",
        )

    def svg(self) -> str:
        """
        Return an SVG plot of the trade-off, in the text color of the page.

        Raises:
            ImportError: if matplotlib is not installed.
        """
        return slice_function("a plot", "display.figure_svg.search_svg")(self)

    def _repr_html_(self) -> str | None:
        return notebook_html(
            lambda: f"<div>{self.svg()}<pre>{escape(str(self))}</pre></div>"
        )
