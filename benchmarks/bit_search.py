"""
The search for bits compared with brute force, on the digits network of
`examples.classifiers` in StableHLO: 2, 4 or 8-bit weights of each of its four products.

`python -m benchmarks.bit_search` prints the tables of `docs/mixed_precision.md`. All 81
assignments are quantized and measured without the search: recipes say the bits of each
product. For some budgets, the best of them is compared with what the search finds, and with
how many assignments it measured for that. Accuracy is that on the other half of the
samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from examples.classifiers.forms import stablehlo_text
from examples.classifiers.networks import Floats, Network, load_network
from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.dialects.quant.traits import (
    MultipliesAndAccumulates,
    has_quantization_trait,
)
from xdsl_quant.execution import compile
from xdsl_quant.quantizer import Override, QuantizedModel, Recipe, quantize
from xdsl_quant.quantizer.recording import lower_stablehlo
from xdsl_quant.quantizer.report import stored_bytes
from xdsl_quant.runtime.loading import parse_module

WIDTHS = (2, 4, 8)
CALIBRATED = 128
"""How many samples are calibrated with, and compared."""

BYTE_BUDGETS = 6
LOSSES = (9.5, 12, 18)


class Measured(NamedTuple):
    """An assignment that was quantized, and run."""

    size: int
    """The constants in bytes."""

    sqnr: float
    """In dB, on the samples for calibration."""

    accuracy: float
    """On other samples."""


class Case:
    """The network and its samples."""

    def __init__(self) -> None:
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
        """The network with such weights of its products, without a search."""
        overrides = tuple(
            Override(locations=[f"^{location}$"], weight_bits=width)
            for location, width in zip(self.locations, bits, strict=True)
        )
        recipe = Recipe("fixed", targets=("stablehlo-mixed",), overrides=overrides)
        return quantize(self.text, self.samples, recipe)

    def measured(self, model: QuantizedModel) -> Measured:
        """What a quantized model is worth."""
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
    """The signal to quantization noise ratio."""
    wide: NDArray[np.float64] = expected.astype(np.float64)
    return 10 * math.log10(np.square(wide).sum() / np.square(wide - actual).sum())


def curve_of(measured: Sequence[Measured]) -> Sequence[Measured]:
    """Those that no other one beats, from the smallest."""
    curve: list[Measured] = []
    for each in sorted(measured, key=lambda each: (each.size, -each.sqnr)):
        if not curve or each.sqnr > curve[-1].sqnr:
            curve.append(each)
    return curve


def main() -> None:
    """Run the command."""
    case = Case()
    assignments = [*product(WIDTHS, repeat=len(case.locations))]
    measured = [case.measured(case.quantized(bits)) for bits in assignments]
    curve, widest = curve_of(measured), measured[-1]
    step = (len(curve) - 1) / (BYTE_BUDGETS - 1)
    sizes = [curve[round(step * i)].size for i in range(BYTE_BUDGETS)]
    budgets = [
        *(
            (f"{size} B", curve_of([m for m in measured if m.size <= size])[-1])
            for size in sizes
        ),
        *(
            (f"{loss} dB", min(m for m in measured if widest.sqnr - m.sqnr <= loss))
            for loss in LOSSES
        ),
    ]
    print(f"brute force: {len(measured)} assignments, {len(curve)} on the curve\n")
    print("| budget | best of all | search | difference | measured by the search |")
    print("|---|---|---|---|---|")
    for budget, best in budgets:
        model = quantize(case.text, case.samples, "mixed", budget=budget)
        assert model.search is not None
        found = case.measured(model)
        print(
            f"| {budget} | {_text(best)} | {_text(found)} | "
            f"{found.size - best.size} bytes, {found.sqnr - best.sqnr:.1f} dB | "
            f"{len(model.search.measured)} of {len(measured)} |",
            flush=True,
        )


def _text(measured: Measured) -> str:
    return f"{measured.size} bytes, {measured.sqnr:.1f} dB, {measured.accuracy:.1%}"


if __name__ == "__main__":
    main()
