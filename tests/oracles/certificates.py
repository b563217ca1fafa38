"""
Certificates of networks, compared with errors of drawn inputs.

`python -m tests.oracles.certificates --inputs 10000000` draws corners, random points and
points between stored values of regions of fourteen networks, and counts inputs whose error
exceeds the certified bound, or whose class differs although it is certified.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from examples.classifiers.forms import stablehlo_text, tfl_text
from examples.classifiers.networks import load_network
from examples.digits.dataset import load_digits
from examples.digits.networks import load_networks
from examples.digits.pipeline import network_inputs
from examples.digits.propagation import float_stablehlo
from xdsl_quant.proving import Certificate, Region, certify
from xdsl_quant.proving.certificates.attacks import runner
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import parse_module

from .certificate_networks import (
    LENGTH,
    WIDTH,
    TextLines,
    stablehlo_attention_text,
    tfl_attention_text,
)

Floats = NDArray[np.float64]

BATCH = 256
"""Number of inputs that one call of the batched models runs."""


@dataclass(frozen=True)
class CertifiedNetwork:
    """A float network in text, its calibration samples, and the regions to certify."""

    text: Callable[[int], str]
    """Function from the batch size to the text of the network."""

    samples: NDArray[np.float32]
    centers: NDArray[np.float32]
    radius: float
    limits: tuple[float, float] | None = None

    rows: int = BATCH
    """
    Calibration uses a multiple of this number of samples: a multiple of all batch sizes, so
    that all have the same parameters.
    """

    def modules(self, batch: int) -> tuple[ModuleOp, ModuleOp]:
        """Return the quantized and the float network for a batch size."""
        module = parse_module(self.text(batch))
        rows = max(len(self.samples) // self.rows * self.rows, self.rows)
        samples = np.resize(self.samples, (rows, *self.samples.shape[1:]))
        return quantize(module.clone(), samples).module, module

    @property
    def region(self) -> Region:
        return Region.ball(self.centers, self.radius, self.limits)


# Networks


_CONVOLUTION = (
    "{dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, stride_h = %d : i32, "
    'stride_w = %d : i32, padding = "%s", fused_activation_function = "%s"%s}'
)
_POOL = (
    "{filter_height = 2 : i32, filter_width = 2 : i32, stride_h = %d : i32, "
    'stride_w = %d : i32, padding = "%s", fused_activation_function = "%s"}'
)


def residual_text(batch: int, seed: int = 0) -> str:
    """
    Return a network with the ops of small image models: convolutions, pooling, padding,
    a residual sum, concatenation, products with constants, logistic, tanh and GELU.
    """
    lines = TextLines("tfl", np.random.default_rng(seed))

    def image(*sizes: int) -> str:
        return f"tensor<{batch}x{''.join(f'{size}x' for size in sizes)}f32>"

    add, x = lines.add, image(6, 6, 3)
    convolution = "conv_2d " + _CONVOLUTION % (1, 1, "SAME", "RELU6", "")
    factors = [lines.weights(8, 3, 2, 3), lines.weights(8)]
    a = add(convolution, [("%x", x), *factors], image(6, 6, 8))
    wide = image(6, 6, 8)
    more = ", depth_multiplier = 1 : i32"
    depthwise = "depthwise_conv_2d " + _CONVOLUTION % (1, 1, "SAME", "NONE", more)
    b = add(depthwise, [(a, wide), lines.weights(1, 2, 3, 8), lines.weights(8)], wide)
    b = add("logistic {}", [(b, wide)], wide)
    activation = '{fused_activation_function = "NONE"}'
    c = add(f"add {activation}", [(a, wide), (b, wide)], wide)
    c = add(f"mul {activation}", [(c, wide), lines.weights(8)], wide)
    c = add(f"sub {activation}", [(c, wide), lines.weights(8)], wide)
    pool = "max_pool_2d " + _POOL % (2, 2, "VALID", "RELU")
    pads = lines.constant(np.array([[0, 0], [1, 1], [0, 2], [0, 0]], "<i4"), "i32")
    c = add("pad {}", [(c, wide), pads], image(8, 8, 8))
    small = image(4, 4, 8)
    c = add(pool, [(c, image(8, 8, 8))], small)
    pool = "average_pool_2d " + _POOL % (1, 1, "SAME", "NONE")
    d = add(pool, [(c, small)], small)
    d = add("gelu {approximate = false}", [(d, small)], small)
    e = add("tanh {}", [(c, small)], small)
    joined = '{axis = 3 : i32, fused_activation_function = "NONE"}'
    f = add(f"concatenation {joined}", [(d, small), (e, small)], image(4, 4, 16))
    axes = lines.constant(np.array([1, 2], "<i4"), "i32")
    g = add("mean {keep_dims = false}", [(f, image(4, 4, 16)), axes], image(16))
    dense = '{keep_num_dims = false, weights_format = "DEFAULT", '
    dense += 'fused_activation_function = "NONE"}'
    factors = [lines.weights(4, 16), lines.weights(4)]
    h = add(f"fully_connected {dense}", [(g, image(16)), *factors], image(4))
    return lines.function(x, image(4), h)


def networks() -> Mapping[str, Callable[[], CertifiedNetwork]]:
    """Return functions that load the networks, by name."""
    found: dict[str, Callable[[], CertifiedNetwork]] = {}
    forms = {"tfl": tfl_text, "stablehlo": stablehlo_text}
    for name in ("wine", "breast_cancer", "digits"):
        for form in forms:
            found[f"{name} {form}"] = partial(_classifier, name, forms[form])
    for name in ("wine_batch_norm", "digits_batch_norm"):
        found[f"{name} tfl"] = partial(_classifier, name, tfl_text)
    for name in load_networks():
        found[f"digits {name} stablehlo"] = partial(_digits, name)
    found["wine_saturated tfl"] = _saturated
    found["residual tfl"] = residual
    found["attention tfl"] = partial(_attention, tfl_attention_text)
    found["attention stablehlo"] = partial(_attention, stablehlo_attention_text)
    return found


def _classifier(name: str, form: Callable[..., str]) -> CertifiedNetwork:
    network = load_network(name)
    first, second = network.halves(0)
    is_image = name.startswith("digits")
    return CertifiedNetwork(
        lambda batch: form(network, batch),
        network.samples[first],
        network.samples[second][:20],
        1 / 16 if is_image else 0.05,
        (0.0, 1.0) if is_image else None,
    )


def _saturated() -> CertifiedNetwork:
    """Return a classifier of arguments around the ends of the calibrated range."""
    network = _classifier("wine", tfl_text)
    ends = network.samples.min(), network.samples.max()
    shape = 20, *network.samples.shape[1:]
    centers = np.random.default_rng(1).choice(ends, shape).astype(np.float32)
    return replace(network, centers=centers, radius=0.3)


def _digits(name: str) -> CertifiedNetwork:
    training, test = load_digits()
    inputs = [
        network_inputs(load_networks()[name], each.images) for each in (training, test)
    ]
    return CertifiedNetwork(
        lambda batch: float_stablehlo(name, batch),
        inputs[0],
        inputs[1][:100],
        1 / 16,
        (0.0, 1.0),
    )


def residual() -> CertifiedNetwork:
    """Return the network of [`residual_text`][..residual_text]."""
    samples = np.random.default_rng(1).normal(size=(600, 6, 6, 3)).astype(np.float32)
    return CertifiedNetwork(residual_text, samples, samples[:20], 0.05)


def _attention(text: Callable[[int], str]) -> CertifiedNetwork:
    shape = 600, LENGTH, WIDTH
    samples = np.random.default_rng(1).uniform(-2, 2, shape).astype(np.float32)
    return CertifiedNetwork(text, samples, samples[:20], 0.001)


# Inputs


def drawn_inputs(
    low: Floats, high: Floats, step: float, count: int, rng: np.random.Generator
) -> Floats:
    """Draw corners, points, points between stored values, and mixtures of a region."""
    shape = count, low.size
    share = rng.random(shape)
    corners = np.rint(share)
    is_corner = rng.random(shape) < rng.choice([0.0, 0.5, 1.0], (count, 1))
    points = low + np.where(is_corner, corners, share) * (high - low)
    if step:
        side = rng.choice([-1e-3, 1e-3], shape) * step
        between = (np.floor(points / step) + 0.5) * step + side
        is_between = rng.random(shape) < rng.choice([0.0, 0.5, 1.0], (count, 1))
        points = np.where(is_between, between, points)
    rounded = points.astype(np.float32).astype(np.float64)
    return np.clip(rounded, low, high)


def violations(
    network: CertifiedNetwork,
    modules: tuple[ModuleOp, ModuleOp],
    found: Certificate,
    inputs: int,
    seed: int,
    batch: int = BATCH,
) -> tuple[int, float]:
    """
    Return the number of inputs that violate a certificate, and the largest part of a
    bound that an error reaches.

    Args:
        network: the network with the regions of `found`.
        modules: the quantized and the float network for `batch` arguments.
        found: the certificate.
        inputs: number of inputs to draw.
        seed: seed of the draws.
        batch: number of arguments of a call.
    """
    shape = batch, *network.centers.shape[1:]
    runs = [runner(module, None, shape) for module in modules]
    size = int(np.prod(shape[1:]))
    low, high = network.region.float_ends(size)
    rng = np.random.default_rng(seed)
    count, largest = 0, 0.0
    step = 1 / 255 if network.limits else 0.0
    for index in range(max(inputs // batch, 1)):
        region = index % len(low)
        drawn = drawn_inputs(low[region], high[region], step, batch, rng)
        results = [run(drawn.ravel()).reshape(batch, -1) for run in runs]
        certificate = found.regions[region]
        errors = np.abs(results[0] - results[1])
        is_wrong = np.any(errors > np.array(certificate.errors), axis=1)
        largest = max(largest, float((errors / np.array(certificate.errors)).max()))
        tops = [each.argmax(axis=1) for each in results]
        verdicts, classes = certificate.verdicts, certificate.classes
        if verdicts.get("float") == "certified":
            is_wrong |= tops[1] != classes[0]
        if verdicts.get("quantized") == "certified":
            is_wrong |= tops[0] != classes[1]
        if verdicts.get("agreement") == "certified":
            is_wrong |= tops[0] != tops[1]
        count += int(is_wrong.sum())
    return count, largest


def _rows(
    names: Sequence[str], inputs: int, seed: int, tries: int, regions: int
) -> Iterator[tuple[str, int]]:
    chosen = {
        name: load
        for name, load in networks().items()
        if not names or any(name.startswith(each) for each in names)
    }
    for name, load in chosen.items():
        network = load()
        network = replace(network, centers=network.centers[:regions])
        start = time.process_time()
        found = certify(*network.modules(1), network.region, tries=tries)
        total = time.process_time() - start
        wrong, part = violations(
            network, network.modules(BATCH), found, inputs // len(chosen), seed
        )
        counts = [found.count(claim, "certified") for claim in ("float", "agreement")]
        yield (
            f"{name:<30} {found.error:>8.3f} {found.observed:>8.3f} {found.ratio:>6.1f} "
            f"{found.error / found.observed:>6.1f} {found.seconds:>8.2f} {total:>6.1f} "
            f"{counts[0]:>3} {counts[1]:>3} {part:>6.2f} {wrong:>5}",
            wrong,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each network; return 1 if an input violates a certificate."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="beginnings of names of networks")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument(
        "--regions", type=int, default=20, help="at most 100 for digits"
    )
    options = parser.parse_args(arguments)
    print(
        f"{'network':<30} {'at most':>8} {'found':>8} {'median':>6} {'ratio':>6} "
        f"{'seconds':>8} {'search':>6} {'float':>3} {'both':>3} {'part':>6} wrong"
    )
    total = 0
    chosen = options.names, options.inputs, options.seed, options.tries
    for line, wrong in _rows(*chosen, options.regions):
        print(line, flush=True)
        total += wrong
    print(f"{total} violations")
    return int(total > 0)


if __name__ == "__main__":
    sys.exit(main())
