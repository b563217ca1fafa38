"""
What weights of fewer bits cost, and what makes it less: the networks with integer weights
and floating-point activations, on the test half of the digits.

Run `python -m examples.digits.weights`.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.execution import compile
from xdsl_quant.quantizer import Recipe, WeightOptions, quantize
from xdsl_quant.runtime.loading import apply_passes, parse_module

from .dataset import Digits, load_digits
from .networks import load_networks
from .propagation import LOWER, float_stablehlo

WEIGHTS = (
    "bits=8 granularity=tensor",
    "bits=8 granularity=axis",
    "bits=4 granularity=tensor",
    "bits=4 granularity=tensor range=mse",
    "bits=4 granularity=axis",
    "bits=4 granularity=axis range=mse",
    "bits=4 granularity=block",
    "bits=4 granularity=block range=mse",
    "bits=4 granularity=block block-size=16 range=mse",
)
"""Options of `quant-quantize-weights`."""

IMPROVEMENTS = (
    "",
    "quant-equalize-layers",
    "quant-equalize-layers{factors=power-of-two}",
)
"""Passes that come before it."""

CORRECTED = (
    WeightOptions(8, "tensor"),
    WeightOptions(4, "tensor"),
    WeightOptions(4, "axis"),
    WeightOptions(4, "axis", range="mse"),
    WeightOptions(4, "block"),
    WeightOptions(4, "block", range="mse"),
)
"""How weights are stored in models whose biases are corrected."""

_BATCH = 29
"""Images of a batch; 899 of them, the test half, are 31 batches."""

Floats = NDArray[np.float32]


def logits(name: str, images: Floats, passes: str = "") -> Floats:
    """What a network computes after some passes."""
    module = parse_module(float_stablehlo(name, len(images)))
    apply_passes(module, f"{passes},quant-convert-const,{LOWER}" if passes else LOWER)
    return compile(module)(images)


def sqnr(expected: Floats, actual: Floats) -> float:
    """The signal to quantization noise ratio in dB."""
    noise = np.square(expected.astype(np.float64) - actual).sum()
    return 10 * float(np.log10(np.square(expected.astype(np.float64)).sum() / noise))


def report(test: Digits) -> Iterator[str]:
    """The lines of the table of options."""
    yield f"{'network':<11}  {'weights':<48}  {'SQNR':>4}  correct"
    for name, network in load_networks().items():
        images = test.images.reshape(-1, *network.image_shape)
        expected = logits(name, images)
        correct = int((expected.argmax(1) == test.labels).sum())
        yield f"{name:<11}  {'f32':<48}  {'':>4}  {correct}"
        for options in WEIGHTS:
            actual = logits(name, images, f"quant-quantize-weights{{{options}}}")
            correct = int((actual.argmax(1) == test.labels).sum())
            yield f"{name:<11}  {options:<48}  {sqnr(expected, actual):4.1f}  {correct}"


def equalization(test: Digits) -> Iterator[str]:
    """The lines of the table of equalization, with one scale for all weights."""
    yield f"{'network':<11}  {'before':<43}  {'floats':>7}  8 bits  4 bits"
    for name, network in load_networks().items():
        images = test.images.reshape(-1, *network.image_shape)
        expected = logits(name, images)
        for passes in IMPROVEMENTS:
            floats = logits(name, images, passes)
            change = np.abs(floats - expected).max() / np.abs(expected).max()
            ratios: list[float] = []
            for bits in (8, 4):
                last = f"quant-quantize-weights{{bits={bits} granularity=tensor}}"
                both = f"{passes},{last}" if passes else last
                ratios.append(sqnr(expected, logits(name, images, both)))
            numbers = "  ".join(f"{each:6.1f}" for each in ratios)
            yield f"{name:<11}  {passes or '-':<43}  {change:7.1g}  {numbers}"


def correction(training: Digits, test: Digits) -> Iterator[str]:
    """The lines of the table of bias correction, which is measured on training images."""
    yield f"{'network':<11}  {'weights':<36}  before  after"
    for name, network in load_networks().items():
        samples, images = (
            half.images.reshape(-1, *network.image_shape) for half in (training, test)
        )
        text = float_stablehlo(name, _BATCH)
        for options in CORRECTED:
            ratios: list[float] = []
            for correct in (False, True):
                recipe = Recipe(
                    mode="weight-only", weights=options, bias_correction=correct
                )
                model = quantize(text, samples[: 30 * _BATCH], recipe)
                (ratio,) = model.report(images).outputs.values()
                ratios.append(ratio)
            what = f"{options.bits} bits, {options.granularity}, {options.range}"
            numbers = "  ".join(f"{each:6.1f}" for each in ratios)
            yield f"{name:<11}  {what:<36}  {numbers}"


def main() -> None:
    """Print the table."""
    training, test = load_digits()
    tables = report(test), equalization(test), correction(training, test)
    for number, lines in enumerate(tables):
        print(*([""] if number else []), *lines, sep="\n")


if __name__ == "__main__":
    main()
