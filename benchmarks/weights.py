"""
Accuracy of the networks of `examples.classifiers`, as StableHLO, before and after each
change of their weights.

`python -m benchmarks.weights [NETWORK ...]` prints the page; `--write
docs/measured/weights.md` also writes it. One half of the samples calibrates the models.
The signal-to-quantization-noise ratio of the logits, in dB, is that on the other half.
Biases are corrected only in the rows about bias correction.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from benchmarks.report import add_write_option, print_page, table
from examples.classifiers.forms import stablehlo_text
from examples.classifiers.networks import Dense, Floats, Network, load_network
from xdsl_quant.calibration import calibrate
from xdsl_quant.dialects.quant import StatisticsRefOp
from xdsl_quant.numerics import dequantize
from xdsl_quant.numerics import quantize as quantize_array
from xdsl_quant.numerics.gptq import gptq
from xdsl_quant.numerics.weights import weight_parameters
from xdsl_quant.quantizer import Override, Recipe, WeightOptions, quantize
from xdsl_quant.quantizer.errors import Error
from xdsl_quant.quantizer.recording import RecordedModule, record
from xdsl_quant.runtime.arrays import shape_of
from xdsl_quant.runtime.loading import apply_passes, parse_module
from xdsl_quant.transforms.statistics.quant_import_stats import ImportStatistics

INT8 = Recipe(bias_correction=False)


def weights(bits: int, *options: Any, rounding: Any = "nearest") -> Recipe:
    """Return a recipe that quantizes only weights."""
    return Recipe(
        mode="weight-only",
        weights=WeightOptions(bits, *options, rounding=rounding),
        bias_correction=False,
    )


Prepare: TypeAlias = Callable[[ModuleOp, Floats], None]
"""Function that changes a float model, with calibration samples."""


def fold(module: ModuleOp, samples: Floats) -> None:
    """Fold batch normalization."""
    apply_passes(module, "quant-fold-batch-norm")


def equalize(module: ModuleOp, samples: Floats) -> None:
    """Fold batch normalization, and equalize layers."""
    apply_passes(module, "quant-fold-batch-norm,quant-equalize-layers")


def smooth(module: ModuleOp, samples: Floats) -> None:
    """Fold batch normalization, and smooth activations along their last dimension."""
    apply_passes(module, "quant-fold-batch-norm,quant-insert-stats-refs")
    axes = {
        op.stats_key.data: len(shape) - 1
        for op in module.walk()
        if isinstance(op, StatisticsRefOp) and (shape := shape_of(op.input.type))
    }
    batches = [sample[np.newaxis] for sample in samples]
    statistics = calibrate(module, batches, axes=axes)
    ranges = {key: statistics.ranges(key) for key in statistics.observations}
    ImportStatistics(ranges, "calibration").rewrite_module(module)
    apply_passes(module, "quant-smooth-activations,quant-remove-instrumentation")


class Comparison(NamedTuple):
    """A comparison of two ways to quantize a network."""

    change: str
    setting: str
    before: Recipe
    after: Recipe
    networks: Sequence[str] = ("wine", "breast_cancer", "digits")

    prepare: tuple[Prepare, Prepare] = fold, fold
    """Change of the float model before quantization."""


INT4 = replace(
    INT8,
    targets=("stablehlo-mixed",),
    overrides=[Override(ops=["*"], weight_bits=4)],
)
GPTQ = WeightOptions(rounding="gptq")

WITH_BATCH_NORM = "wine_batch_norm", "digits_batch_norm"
ALL = *WITH_BATCH_NORM, "wine", "breast_cancer", "digits"
BLOCKS = weights(4, "block", 16)

COMPARISONS = (
    Comparison(
        "equalization",
        "8 bits, per-tensor",
        weights(8, "tensor"),
        weights(8, "tensor"),
        ALL,
        (fold, equalize),
    ),
    Comparison(
        "bias correction",
        "8 bits, activations too",
        INT8,
        replace(INT8, bias_correction=True),
    ),
    Comparison(
        "bias correction",
        "4 bits, per-axis",
        weights(4),
        replace(weights(4), bias_correction=True),
    ),
    Comparison(
        "SmoothQuant", "8 bits, activations too", INT8, INT8, ALL, (fold, smooth)
    ),
    Comparison(
        "mse, not min-max",
        "4 bits, blocks of 16",
        BLOCKS,
        weights(4, "block", 16, "mse"),
    ),
    Comparison("GPTQ", "4 bits, per-axis", weights(4), weights(4, rounding="gptq")),
    Comparison("GPTQ", "4 bits, activations with 8", INT4, replace(INT4, weights=GPTQ)),
    Comparison(
        "GPTQ",
        "4 bits, blocks of 16",
        BLOCKS,
        weights(4, "block", 16, rounding="gptq"),
    ),
)


def sqnr_of(network: Network, recipe: Recipe, prepare: Prepare) -> float:
    """Return the signal-to-quantization-noise ratio of the logits, in dB."""
    calibration, test = (network.samples[rows] for rows in network.halves(0))
    module = parse_module(stablehlo_text(network))
    prepare(module, calibration)
    (sqnr,) = quantize(module, calibration, recipe).report(test).outputs.values()
    return sqnr


def rows_of(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the rows of the first table."""
    for each in COMPARISONS:
        for name in each.networks:
            if name in names:
                network = load_network(name)
                before, after = map(
                    partial(sqnr_of, network), (each.before, each.after), each.prepare
                )
                numbers = f"{before:.1f}", f"{after:.1f}", f"{after - before:+.1f}"
                yield each.change, each.setting, name, *numbers


# One layer


BLOCK_SIZE = 32


class LayerData(NamedTuple):
    """A dense layer with its inputs."""

    weights: Floats
    """Weights, with a row for each input."""

    seen: Floats
    """Calibration inputs, with a row for each sample."""

    others: Floats
    """Test inputs."""


def dense_layer(network: Network, number: int) -> LayerData:
    """Return a dense layer and its inputs in the float model."""
    module = parse_module(stablehlo_text(network))
    products = [op for op in module.walk() if op.name == "stablehlo.dot_general"]
    record(products[number].operands[0], "inputs")
    recorded = RecordedModule.of(module, None)
    rows = [recorded.values(sample[None])["inputs"] for sample in network.samples]
    inputs = np.concatenate(rows).astype(np.float32)
    dense = [step for step in network.steps if isinstance(step.layer, Dense)]
    weights = dense[number].weights
    assert weights is not None
    calibration, test = network.halves(0)
    return LayerData(weights, inputs[calibration], inputs[test])


def of_onnxruntime(weights: Floats, *, is_symmetric: bool) -> Floats:
    """Return the weights that onnxruntime's default quantizer creates for `MatMulNBits`."""
    library: Any = import_module("onnxruntime.capi._pybind_state")
    inputs, outputs = weights.shape
    count = inputs // BLOCK_SIZE
    packed = np.zeros((outputs, count, BLOCK_SIZE // 2), np.uint8)
    scales = np.zeros((outputs, count), np.float32)
    zeros = np.zeros((outputs, (count + 1) // 2), np.uint8)
    arguments = BLOCK_SIZE, outputs, inputs, is_symmetric
    library.quantize_matmul_4bits(packed, weights, scales, zeros, *arguments)
    stored, zero_points = (
        np.stack([each & 15, each >> 4], -1).reshape(outputs, -1).astype(np.float32)
        for each in (packed, zeros)
    )
    middle = np.full((outputs, count), 8) if is_symmetric else zero_points[:, :count]
    blocks = stored.reshape(outputs, count, BLOCK_SIZE) - middle[..., np.newaxis]
    return (blocks * scales[..., np.newaxis]).reshape(outputs, inputs).T


def ours(layer: LayerData, *, rounding: str = "nearest", mse: bool = False) -> Floats:
    """Return the weights quantized by this package."""
    parameters = weight_parameters(
        layer.weights,
        (BLOCK_SIZE, 1),
        bits=4,
        weight_range="mse" if mse else "min-max",
    )
    stored = quantize_array(layer.weights, parameters)
    if rounding == "gptq":
        scales = dequantize(np.ones_like(stored), parameters)
        wide = layer.seen.astype(np.float64)
        limits = parameters.storage_min, parameters.storage_max
        stored = gptq(layer.weights, wide.T @ wide, scales, limits).astype(np.int8)
    return dequantize(stored, parameters)


def layer_rows(network: Network, number: int) -> Iterator[Sequence[str]]:
    """Yield the rows of the second table for a layer."""
    layer = dense_layer(network, number)
    exact = layer.others.astype(np.float64) @ layer.weights
    inputs, outputs = layer.weights.shape
    for name, weights in (
        ("onnxruntime, symmetric", of_onnxruntime(layer.weights, is_symmetric=True)),
        ("onnxruntime, zero points", of_onnxruntime(layer.weights, is_symmetric=False)),
        ("this package, min-max", ours(layer)),
        ("this package, mse", ours(layer, mse=True)),
        ("this package, min-max, GPTQ", ours(layer, rounding="gptq")),
        ("this package, mse, GPTQ", ours(layer, rounding="gptq", mse=True)),
    ):
        numbers: list[str] = []
        for expected, found in (
            (layer.weights, weights),
            (exact, layer.others.astype(np.float64) @ weights),
        ):
            error = Error()
            error.add(expected, found, None)
            numbers.append(f"{error.sqnr:.1f}")
        yield f"{network.name}, {inputs} x {outputs}", name, *numbers


LAYERS = ("wine", 1), ("digits", 0)
"""Dense layers of two networks, by their numbers."""


_INTRODUCTION = """\
# Passes and options for weights

```sh
python -m benchmarks.weights --write docs/measured/weights.md
```

The table compares the SQNR of the logits in dB before and after each change, for
networks of `examples/classifiers`. One half of the samples calibrates the networks, the
other half measures the SQNR. A positive gain is an improvement. Biases are corrected
only in the rows about bias correction. Batch norm is folded.
"""

_LAYERS_INTRODUCTION = """\

Single dense layers, on their inputs in the network. `onnxruntime` is the default
quantizer of its `MatMulNBits`: symmetric scales may be negative, with stored values from
-8 to 7; otherwise each block has a zero point. In this package, scales are positive, and
symmetric stored values are -7 to 7.
"""


def page(names: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the page."""
    known = dict.fromkeys(name for each in COMPARISONS for name in each.networks)
    header = "change", "weights", "network", "before", "after", "gain"
    yield _INTRODUCTION
    yield table(header, rows_of(names or [*known]), 3)
    rows = [
        row
        for name, number in LAYERS
        if not names or name in names
        for row in layer_rows(load_network(name), number)
    ]
    header = "layer", "4 bits, blocks of 32", "SQNR of weights", "of results"
    yield _LAYERS_INTRODUCTION
    yield table(header, rows, 2)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", help="by default all")
    add_write_option(parser)
    options = parser.parse_args()
    print_page(page(options.networks), options.write)


if __name__ == "__main__":
    main()
