"""
Compare the search for bits with brute force, on the digits network of
`examples.classifiers` in StableHLO.

`python -m benchmarks.bit_search` prints the page; `--write docs/measured/bit_search.md`
also writes it. Brute force assigns 2, 4 or 8 bits to the weights of the four products in
all combinations, sets the bits by recipes, and measures each model. For several budgets,
the table compares the best assignment with the choice of the search, and counts the
measurements of the search, which it reuses for the next budget. The accuracy is that on
the other half of the samples. `--widths 4 8` tries 16 assignments instead of 81.
`--bias-correction` corrects biases, which is the default of recipes and takes three times
as long.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import add_write_option, print_page
from examples.classifiers.forms import stablehlo_text
from examples.classifiers.networks import Floats, Network, load_network
from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.dialects.quant.traits import (
    MultipliesAndAccumulates,
    has_quantization_trait,
)
from xdsl_quant.execution import compile
from xdsl_quant.quantizer import (
    BitSearchResult,
    MixedModel,
    Override,
    QuantizedModel,
    Recipe,
    SearchOptions,
    quantize,
)
from xdsl_quant.quantizer.recording import lower_stablehlo
from xdsl_quant.quantizer.report import stored_bytes
from xdsl_quant.runtime.loading import parse_module

_INTRODUCTION = """\
# Search for bits compared with brute force

```sh
python -m benchmarks.bit_search --write docs/measured/bit_search.md
```

Brute force quantizes the digits network in StableHLO with each assignment of {widths}
bits to its products, {bias} bias correction, and measures the SQNR on {samples}
calibration samples. {others} other samples measure the accuracy. The table compares, for
each budget, the best assignment with the assignment of the search. The last column
counts the assignments that the search measured for this budget and the budgets above
it.
"""

CALIBRATED = 128
"""Number of calibration and test samples."""

BYTE_BUDGETS = 6
LOSSES = (9.5, 12, 18)


class Measured(NamedTuple):
    """A measured assignment of bits."""

    size: int
    """Size of the constants in bytes."""

    sqnr: float
    """SQNR in dB, on the calibration samples."""

    accuracy: float
    """Accuracy on the other samples."""


Measurements: TypeAlias = "Mapping[Sequence[int | None], Measured]"
"""Measurements by the bits of the weights of the products."""


class Case:
    """The network and its samples."""

    def __init__(self, widths: Sequence[int], *, corrects_bias: bool) -> None:
        self.widths, self.corrects_bias = widths, corrects_bias
        self.network: Network = load_network("digits")
        rows, self.others = self.network.halves(0)
        self.text = stablehlo_text(self.network)
        self.samples = self.network.samples[rows[:CALIBRATED]]
        module = parse_module(self.text)
        self.locations = [
            location_prefix(op.location).removesuffix(": ")
            for op in module.walk()
            if has_quantization_trait(op, MultipliesAndAccumulates)
        ]
        lower_stablehlo(module)
        self.expected = self._results(compile(module), self.samples)

    @staticmethod
    def _results(run: Callable[[Floats], Floats], samples: Floats) -> Floats:
        return np.concatenate([run(row[None]) for row in samples])

    def quantized(self, bits: Sequence[int]) -> QuantizedModel:
        """Quantize the network with these bits, without a search."""
        overrides = tuple(
            Override(locations=[f"^{location}$"], weight_bits=width)
            for location, width in zip(self.locations, bits, strict=True)
        )
        recipe = Recipe(
            "fixed",
            targets=("stablehlo-mixed",),
            overrides=overrides,
            bias_correction=self.corrects_bias,
        )
        return quantize(self.text, self.samples, recipe)

    def search(self) -> BitSearchResult:
        """Create a search that has measured some budgets."""
        recipe = Recipe(
            "mixed",
            targets=("stablehlo-mixed",),
            bias_correction=self.corrects_bias,
            search=SearchOptions(self.widths),
        )
        model = quantize(self.text, self.samples, recipe)
        assert isinstance(model, MixedModel)
        return model.search

    def measured(self, model: QuantizedModel) -> Measured:
        """Measure a quantized model."""
        module = model.module.clone()
        lower_stablehlo(module)
        run = compile(module)
        actual = self._results(run, self.samples)
        others = self._results(run, self.network.samples[self.others])
        return Measured(
            stored_bytes(model.resolved),
            decibels(self.expected, actual),
            self.network.accuracy(others, self.others),
        )


def decibels(expected: Floats, actual: Floats) -> float:
    """Return the signal-to-quantization-noise ratio in dB."""
    wide: NDArray[np.float64] = expected.astype(np.float64)
    return 10 * math.log10(np.square(wide).sum() / np.square(wide - actual).sum())


def curve_of(measured: Sequence[Measured]) -> Sequence[Measured]:
    """Return the Pareto front, the smallest first."""
    curve: list[Measured] = []
    for each in sorted(measured, key=lambda each: (each.size, -each.sqnr)):
        if not curve or each.sqnr > curve[-1].sqnr:
            curve.append(each)
    return curve


def page(case: Case) -> Iterator[str]:
    """Yield the lines of the page."""
    yield _INTRODUCTION.format(
        widths=", ".join(map(str, case.widths)),
        bias="with" if case.corrects_bias else "without",
        samples=len(case.samples),
        others=len(case.others),
    )
    assignments = [*product(case.widths, repeat=len(case.locations))]
    measured: Measurements = {
        bits: case.measured(case.quantized(bits)) for bits in assignments
    }
    curve, widest = curve_of([*measured.values()]), measured[assignments[-1]]
    yield f"{len(measured)} assignments, {len(curve)} of them on the Pareto front:\n"
    yield "| budget | best | search | difference | measured |"
    yield "|---|---|---|---|---|"
    yield from _rows(case.search(), budgets(curve, widest), measured)


def budgets(
    curve: Sequence[Measured], widest: Measured
) -> Sequence[tuple[str, Measured]]:
    """Return budgets of bytes and of dB, with the best assignment for each."""
    step = (len(curve) - 1) / (BYTE_BUDGETS - 1)
    sizes = [curve[round(step * i)].size for i in range(BYTE_BUDGETS)]
    return [
        (f"{size} B", [m for m in curve if m.size <= size][-1]) for size in sizes
    ] + [
        (f"{loss} dB", next(m for m in curve if widest.sqnr - m.sqnr <= loss))
        for loss in LOSSES
    ]


def _rows(
    search: BitSearchResult,
    best_of_budgets: Sequence[tuple[str, Measured]],
    measured: Measurements,
) -> Iterator[str]:
    for budget, best in best_of_budgets:
        search = search.with_budget(budget)
        bits = tuple(each for each in search.chosen.weight_bits if each is not None)
        found = measured[bits]
        yield (
            f"| {budget} | {_text(best)} | {_text(found)} | "
            f"{found.size - best.size} bytes, {found.sqnr - best.sqnr:.1f} dB | "
            f"{len(search.measured)} |"
        )


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bias-correction", action="store_true")
    parser.add_argument("--widths", nargs="+", type=int, default=[2, 4, 8])
    add_write_option(parser)
    options = parser.parse_args()
    case = Case(sorted(options.widths), corrects_bias=options.bias_correction)
    print_page(page(case), options.write)


def _text(measured: Measured) -> str:
    return f"{measured.size} bytes, {measured.sqnr:.1f} dB, {measured.accuracy:.1%}"


if __name__ == "__main__":
    main()
