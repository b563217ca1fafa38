"""Command line: accuracy of each variant of the networks."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics import dequantize, quantize

from .dataset import Digits, load_digits
from .networks import Network, load_networks
from .pipeline import (
    VARIANTS,
    Ranges,
    Variant,
    calibrate_network,
    compute_logits,
    count_correct,
    float_bytes,
    load_module,
    quantize_network,
    store_weights,
    stored_bytes,
    weight_parameters,
)


class Result(NamedTuple):
    """Size and accuracy of a variant of a network."""

    weight_bytes: int
    """Size of the weights and of their scales, in bytes."""

    weight_sqnr: float
    """Signal-to-quantization-noise ratio (SQNR) of the weights of all layers, in dB."""

    logit_sqnr: float
    """SQNR of the logits in dB; the noise is the difference from the float network."""

    qdq_correct: int
    """Number of correct digits with fake quantization (QDQ)."""

    stored_correct: int
    """Number of correct digits with integer weights and lowered casts."""


def main() -> None:
    """Run the command."""
    training, test = load_digits()
    print(f"{'SQNR in dB':>48}{f'correct of {len(test.labels)}':>23}")
    print("network      weights         bytes  weights  logits        QDQ  stored")
    for name, network in load_networks().items():
        for line in report(name, network, training, test):
            print(line)


def report(
    name: str, network: Network, training: Digits, test: Digits
) -> Iterator[str]:
    """Yield a line for the float network, and one for each variant."""
    logits = compute_logits(load_module(network), network, test.images)
    correct = count_correct(logits, test)
    count = len(test.labels)
    yield (
        f"{name:<11}  {'f32':<14}  {float_bytes(network):>6,}"
        f"{correct:>35}  {correct / count:>6.2%}"
    )
    ranges = calibrate_network(network, training.images)
    for variant in VARIANTS:
        result = measure_variant(network, ranges, variant, test)
        yield (
            f"{name:<11}  {variant!s:<14}  {result.weight_bytes:>6,}"
            f"  {result.weight_sqnr:>7.1f}  {result.logit_sqnr:>6.1f}"
            f"  {result.qdq_correct:>9}  {result.stored_correct:>6}"
            f"  {result.stored_correct / count:>6.2%}"
        )


def measure_variant(
    network: Network, ranges: Ranges, variant: Variant, test: Digits
) -> Result:
    """Quantize a network, run it, and measure the result."""
    exact = compute_logits(load_module(network), network, test.images)
    module = quantize_network(network, ranges, variant)
    parameters = weight_parameters(module, network)
    fake_quantized = compute_logits(module, network, test.images)
    store_weights(module)
    stored = compute_logits(module, network, test.images)
    expressed = [
        dequantize(quantize(weights.values, chosen), chosen)
        for weights, chosen in parameters
    ]
    return Result(
        weight_bytes=stored_bytes(parameters),
        weight_sqnr=_sqnr([weights.values for weights in network.weights], expressed),
        logit_sqnr=_sqnr([exact], [stored]),
        qdq_correct=count_correct(fake_quantized, test),
        stored_correct=count_correct(stored, test),
    )


def _sqnr(
    exact: list[NDArray[np.float32]], approximate: list[NDArray[np.float32]]
) -> float:
    signal, values = (
        np.concatenate([array.ravel().astype(np.float64) for array in arrays])
        for arrays in (exact, approximate)
    )
    noise = values - signal
    return float(10 * np.log10(signal @ signal / (noise @ noise)))
