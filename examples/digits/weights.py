"""
Accuracy of the networks with integer weights and float activations, on the test half.

Run `python -m examples.digits.weights`.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.execution import compile
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

Floats = NDArray[np.float32]


def logits(name: str, images: Floats, passes: str = "") -> Floats:
    """Apply passes to a network and return its logits."""
    module = parse_module(float_stablehlo(name, len(images)))
    lowering = f"{passes},quant-convert-const,{LOWER}" if passes else LOWER
    apply_passes(module, lowering, is_routine=True)
    return compile(module)(images)


def sqnr(expected: Floats, actual: Floats) -> float:
    """Return the signal-to-quantization-noise ratio in dB."""
    noise = np.square(expected.astype(np.float64) - actual).sum()
    return 10 * float(np.log10(np.square(expected.astype(np.float64)).sum() / noise))


def report(test: Digits) -> Iterator[str]:
    """Yield the lines of the table of options."""
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


def main() -> None:
    """Print the table."""
    _, test = load_digits()
    print(*report(test), sep="\n")


if __name__ == "__main__":
    main()
