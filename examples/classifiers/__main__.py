"""
Quantize the network on digits in one call, by each of several recipes; print what that
costs, and write the file of the first one: `python -m examples.classifiers [FILE]`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.execution import compile
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import parse_module

from .forms import tfl_text
from .networks import Floats, Network, load_network

FILE = "build/digits_int8.tflite"

RECIPES = (
    "int8",
    "int16x8",
    "mixed",
    "dynamic-range",
    "int8-weights",
    "int4-weights",
)

_BATCH = 29
"""Images of a batch; 899 of them, the test half, are 31 batches."""


def results(module: ModuleOp, samples: Floats, batch: int = 1) -> Floats:
    """What a model gives for samples, of which it takes so many at once."""
    run = compile(module)
    batches = np.split(samples, len(samples) // batch)
    return np.concatenate([run(each) for each in batches])


def rows(network: Network) -> Iterator[str]:
    """A line for the floats, and for each recipe."""
    calibration, test = network.halves(0)
    calibration = calibration[: len(calibration) // _BATCH * _BATCH]
    samples = network.samples[test]
    text = tfl_text(network, _BATCH)
    accuracy = network.accuracy(results(parse_module(text), samples, _BATCH), test)
    yield f"{'-':<13}  {'':>4}  {accuracy:.2%}"
    for recipe in RECIPES:
        model = quantize(text, network.samples[calibration], recipe)
        (sqnr,) = model.report(samples).outputs.values()
        accuracy = network.accuracy(results(model.module, samples, _BATCH), test)
        yield f"{recipe:<13}  {sqnr:>4.1f}  {accuracy:.2%}"


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    path = Path(*arguments or [FILE])
    network = load_network("digits")
    calibration, test = network.halves(0)
    text = tfl_text(network)
    model = quantize(text, network.samples[calibration])
    print(model.report(network.samples[test]))
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)
    accuracy = [
        network.accuracy(results(module, network.samples[test]), test)
        for module in (parse_module(text), model.module)
    ]
    print(
        f"accuracy on {len(test)} other samples: {accuracy[0]:.2%} in floats, "
        f"{accuracy[1]:.2%} in integers"
    )
    print(f"{path}: {path.stat().st_size:,} bytes\n")
    print("recipe         SQNR  accuracy")
    for row in rows(network):
        print(row)


if __name__ == "__main__":
    main(sys.argv[1:])
