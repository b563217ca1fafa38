"""Measure the accuracy of each recipe: `python -m examples.classifiers.recipes`."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.execution import compile
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import parse_module

from .forms import tfl_text
from .networks import Floats, Network, load_network

RECIPES = (
    "int8",
    "int16x8",
    "mixed",
    "dynamic-range",
    "int8-weights",
    "int4-weights",
)


def results(module: ModuleOp, samples: Floats, batch: int = 1) -> Floats:
    """Run a model on samples in batches."""
    run = compile(module)
    batches = np.split(samples, len(samples) // batch)
    return np.concatenate([run(each) for each in batches])


def table(network: Network, batch: int = 1) -> str:
    """
    Return a table of SQNR and accuracy on the test half, of the float model and of each
    recipe. The number of test samples is a multiple of the batch size.
    """
    calibration, test = network.halves(0)
    calibration = calibration[: len(calibration) // batch * batch]
    samples = network.samples[test]
    text = tfl_text(network, batch)

    def accuracy(module: ModuleOp) -> str:
        found = results(module, samples, batch)
        return f"{network.accuracy(found, test):.2%}"

    lines = ["recipe         SQNR  accuracy"]
    lines.append(f"{'-':<13}  {'':>4}  {accuracy(parse_module(text))}")
    for recipe in RECIPES:
        model = quantize(text, network.samples[calibration], recipe)
        (sqnr,) = model.report(samples).outputs.values()
        lines.append(f"{recipe:<13}  {sqnr:>4.1f}  {accuracy(model.module)}")
    return "\n".join(lines)


def main() -> None:
    """Run the command."""
    for name in ("wine", "breast_cancer"):
        print(f"{name}\n{table(load_network(name))}\n")


if __name__ == "__main__":
    main()
