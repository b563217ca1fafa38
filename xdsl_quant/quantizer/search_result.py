"""What a search for bits has found: the chosen assignment, and what others cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from html import escape

from xdsl_quant.diagnostics import shortened_text, table
from xdsl_quant.runtime.extras import display_function, notebook_html

from .recipe import Budget, parse_budget
from .signal_noise import decibels


@dataclass(frozen=True)
class Assignment:
    """Widths of all kernels that were searched, and what was measured with them."""

    weight_bits: Sequence[int | None]
    """The width of the weights of each kernel; `None` for those without weights."""

    activation_bits: Sequence[int | None]
    """The width of what each kernel takes and gives."""

    stored_bytes: int
    """The size of constants, without scales."""

    noise: float
    """
    Noise by signal: the sum of the squares of the differences to the results of the float
    model by that of the squares of these, the mean over the results of the model.
    """

    accuracy: float | None = None
    """The part of the samples with the right class, if there are labels."""

    @property
    def sqnr(self) -> float:
        """Signal to quantization noise ratio in dB: infinite if there is no difference."""
        return -10 * math.log10(self.noise) if self.noise else math.inf

    def loss(self, other: Assignment) -> float:
        """By how many dB the ratio is less than that of another assignment."""
        return 0.0 if self.noise == other.noise else other.sqnr - self.sqnr

    def points_lost(self, other: Assignment) -> float:
        """By how many percentage points the accuracy is less than that of another one."""
        assert self.accuracy is not None
        assert other.accuracy is not None
        # Differences of parts of one number of samples.
        return round(100 * (other.accuracy - self.accuracy), 9)

    @property
    def text(self) -> str:
        """What was measured, in words."""
        accuracy = "" if self.accuracy is None else f", {self.accuracy:.1%} accuracy"
        return f"{self.stored_bytes} bytes, {decibels(self.sqnr)} dB{accuracy}"


@dataclass(frozen=True)
class SearchedKernel:
    """What a kernel may store, and what was chosen for it."""

    kernel: str
    """The name of the kernel."""

    location: str
    """Where it is in the model; empty if that is not known."""

    widths: Sequence[str]
    """The bits of activations and weights, such as `16x8`, from narrow to wide."""

    losses: Sequence[float]
    """How many dB each of them loses if all other kernels have the widest one."""

    byte_differences: Sequence[int]
    """The size of constants with each of them, less that with the widest one."""

    chosen: int
    """Which one was chosen."""

    def row(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the losses with some widths as a row of a table."""
        losses = dict(zip(self.widths, map("{:.1f}".format, self.losses), strict=True))
        cells = (losses.get(name, "") for name in names)
        where = shortened_text(self.location)
        return self.kernel, where, *cells, self.widths[self.chosen]


@dataclass(frozen=True)
class BitSearchResult:
    """What a search has found."""

    budget: Budget
    kernels: Sequence[SearchedKernel]
    """The kernels that were searched, in the order of the text."""

    chosen: Assignment
    widest: Assignment
    measured: Sequence[Assignment]
    """All assignments that were measured."""

    search: Callable[[Budget], BitSearchResult] = field(repr=False, compare=False)
    """Searches with another budget."""

    def with_budget(self, budget: Budget | str) -> BitSearchResult:
        """
        What another budget chooses, such as `"20 kB"`. Assignments that were measured are
        not measured again. The model stays as it is: quantize it with that budget.

        Raises:
            ValueError: if it is no budget, or no assignment keeps it.
        """
        return self.search(parse_budget(budget) if isinstance(budget, str) else budget)

    @property
    def curve(self) -> Sequence[Assignment]:
        """
        The trade-off between bytes and noise: the measured assignments that no other one
        beats, from the smallest.
        """
        curve: list[Assignment] = []
        for each in sorted(self.measured, key=lambda a: (a.stored_bytes, a.noise)):
            if not curve or each.noise < curve[-1].noise:
                curve.append(each)
        return curve

    def content(self) -> dict[str, object]:
        """What JSON has of it."""
        return {
            "budget": str(self.budget),
            "kernels": [*map(asdict, self.kernels)],
            "chosen": asdict(self.chosen),
            "widest": asdict(self.widest),
            "measured": [*map(asdict, self.measured)],
        }

    def __str__(self) -> str:
        """Return the kernels and the curve as tables."""
        several = [kernel for kernel in self.kernels if len(kernel.widths) > 1]
        names = [*dict.fromkeys(w for kernel in several for w in kernel.widths)]
        rows = [("searched kernel", "where", *names, "chosen")]
        rows += [kernel.row(names) for kernel in several]
        accuracy = () if self.chosen.accuracy is None else ("accuracy",)
        curve = [("bytes", "SQNR", "loss", *accuracy, "")]
        # Another assignment may have less noise with wider activations.
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
        Return a picture of the trade-off, which takes the colour of the text around it.

        Raises:
            ImportError: if matplotlib is not installed.
        """
        return display_function("a plot", "figure_svg.search_svg")(self)

    def _repr_html_(self) -> str | None:
        """
        Return the picture and the tables, for notebooks; `None` without matplotlib.
        """
        return notebook_html(
            lambda: f"<div>{self.svg()}<pre>{escape(str(self))}</pre></div>"
        )
