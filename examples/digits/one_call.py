"""
Quantize the networks in one call, as linalg and as StableHLO, with several recipes.

Run `python -m examples.digits.one_call`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from xdsl_quant.execution import compile
from xdsl_quant.quantizer import QuantizedModel, quantize
from xdsl_quant.runtime.loading import apply_passes

from .dataset import Digits, load_digits
from .networks import load_networks
from .pipeline import count_correct, network_inputs
from .propagation import LINALG_INT8, LOWER, Dialect, Floats, float_module

_BATCH = 29
"""Batch size; the test half of 899 images has 31 batches."""


class Way(NamedTuple):
    """Dialect, recipe and target of a quantized network."""

    dialect: Dialect
    recipe: str

    target: str | None = None
    """A hardware target; `None` for the default of the recipe."""


WAYS = (
    Way("linalg", "int8", LINALG_INT8),
    Way("linalg", "int8-weights"),
    Way("linalg", "int4-weights"),
    Way("stablehlo", "int8"),
    Way("stablehlo", "int8-weights"),
    Way("stablehlo", "int4-weights"),
)


def quantized(name: str, way: Way, training: Digits) -> QuantizedModel:
    """Quantize a network, calibrated with the training half."""
    module = float_module(name, way.dialect, _BATCH)
    inputs = network_inputs(load_networks()[name], training.images)
    samples = inputs[: len(inputs) // _BATCH * _BATCH]
    return quantize(module, samples, way.recipe, target=way.target)


def logits(model: QuantizedModel, name: str, images: Floats) -> Floats:
    """Run a quantized network in batches and return the logits."""
    module = model.module.clone()
    apply_passes(module, LOWER, is_routine=True)
    run = compile(module, "main")
    inputs = network_inputs(load_networks()[name], images)
    batches = np.split(inputs, len(inputs) // _BATCH)
    return np.concatenate([run(batch) for batch in batches])


def report(name: str, training: Digits, test: Digits) -> Iterator[str]:
    """Yield a line for each quantized form of a network."""
    inputs = network_inputs(load_networks()[name], test.images)
    for way in WAYS:
        model = quantized(name, way, training)
        (sqnr,) = model.report(inputs).outputs.values()
        correct = count_correct(logits(model, name, test.images), test)
        yield (
            f"{name:<11}  {way.dialect:<9}  {way.recipe:<12}  {sqnr:>4.1f}  {correct}"
        )


def main() -> None:
    """Run the command."""
    training, test = load_digits()
    print("network      dialect    recipe        SQNR  correct")
    for name in load_networks():
        for line in report(name, training, test):
            print(line)


if __name__ == "__main__":
    main()
