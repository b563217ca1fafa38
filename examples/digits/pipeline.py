"""
Quantize a float network to integer weights, step by step.

```python
training, test = load_digits()
network = load_mlp()
ranges = calibrate_network(network, training.images)
module = quantize_network(network, ranges, Variant(8, "per-axis"))
store_weights(module)
logits = compute_logits(module, network, test.images)
print(count_correct(logits, test))
```
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.rewriter import Rewriter

from xdsl_quant.calibration import Statistics, calibrate
from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    StatisticsRefOp,
    uniform_type,
)
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters, choose_parameters
from xdsl_quant.runtime.loading import apply_passes, parse_module

from .dataset import Digits
from .networks import Network, Weights

BATCH_SIZE = 128

Granularity = Literal["per-tensor", "per-axis", "sub-channel"]


class Variant(NamedTuple):
    """Storage of the weights. Activations always have 8 bits and one scale."""

    bits: int

    granularity: Granularity

    def __str__(self) -> str:
        return f"i{self.bits} {self.granularity}"


VARIANTS = (
    Variant(8, "per-tensor"),
    Variant(8, "per-axis"),
    Variant(4, "per-tensor"),
    Variant(4, "per-axis"),
    Variant(4, "sub-channel"),
)


WeightParameters = Sequence[tuple[Weights, QuantizationParameters]]
"""The weights of each layer, and their quantization parameters."""


class Ranges(NamedTuple):
    """Results of calibration."""

    weights: Statistics
    """Ranges of the weights, per tensor and per output channel."""

    activations: Statistics


# Running


def load_module(network: Network) -> ModuleOp:
    """Parse the float network."""
    return parse_module(network.text)


def network_inputs(
    network: Network, images: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Reshape images to the input shape of a network."""
    return images.reshape(-1, *network.image_shape)


def compute_logits(
    module: ModuleOp,
    network: Network,
    images: NDArray[np.float32],
    *,
    interpreted: bool = False,
) -> NDArray[np.float32]:
    """Return the logits of images, shape `(n, 10)`, compiled or interpreted."""
    inputs = network_inputs(network, images)
    if interpreted:
        return run_function(module, "main", inputs)[0]
    return compile(module, "main")(inputs)


def count_correct(
    logits: NDArray[np.float32] | NDArray[np.int8], digits: Digits
) -> int:
    """Return the number of digits whose largest logit is at the index of the label."""
    return int(np.count_nonzero(logits.argmax(axis=1) == digits.labels))


# Calibration


def _instrument(module: ModuleOp, keys: Iterable[str]) -> None:
    """Insert a `quant.stats_ref` after each value with one of these keys."""
    apply_passes(module, f'quant-insert-stats-refs{{keys="{"|".join(keys)}"}}')


def _weight_keys(network: Network) -> list[str]:
    return [weights.key for weights in network.weights]


def calibrate_network(
    network: Network, images: NDArray[np.float32], observer: str = "min-max"
) -> Ranges:
    """
    Return the ranges of the weights, and of the activations on these images.

    Args:
        network: the network.
        images: samples.
        observer: the observer of the activations; see
            [`calibrate`][xdsl_quant.calibration.calibrate].
    """
    inputs = network_inputs(network, images)
    batches = [
        inputs[start : start + BATCH_SIZE]
        for start in range(0, len(inputs), BATCH_SIZE)
    ]
    with_weights, with_activations = load_module(network), load_module(network)
    _instrument(with_weights, _weight_keys(network))
    _instrument(with_activations, network.activation_keys)
    axes = {weights.key: weights.channel_axis for weights in network.weights}
    return Ranges(
        # The weights are the same in each batch.
        calibrate(with_weights, batches[:1], axes=axes),
        calibrate(with_activations, batches, observer=observer),
    )


# Quantization


def quantize_network(network: Network, ranges: Ranges, variant: Variant) -> ModuleOp:
    """
    Insert fake quantization (QDQ): casts of weights and activations to quantized types
    and back.
    """
    module = load_module(network)
    _instrument(module, _weight_keys(network))
    if variant.granularity == "sub-channel":
        _fake_quantize_blocks(module, network, variant.bits)
    else:
        per_axis = "auto" if variant.granularity == "per-axis" else "never"
        storage = f"bits={variant.bits} symmetric=true narrow-range=true"
        _fake_quantize(module, ranges.weights, f"{storage} per-axis={per_axis}")
    _instrument(module, network.activation_keys)
    _fake_quantize(module, ranges.activations, "bits=8")
    return module


def _fake_quantize(module: ModuleOp, statistics: Statistics, storage: str) -> None:
    """Replace each `quant.stats_ref` by a `quant.qcast` and a `quant.dcast`."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "stats.json"
        statistics.save(path)
        apply_passes(module, f'quant-import-stats{{file="{path}"}}')
    apply_passes(
        module, f"quant-stats-to-calibrated,quant-calibrated-to-uniform{{{storage}}}"
    )


def _fake_quantize_blocks(module: ModuleOp, network: Network, bits: int) -> None:
    """Insert fake quantization of weights with sub-channel types, which no pass chooses."""
    by_key = {weights.key: weights for weights in network.weights}
    refs = [op for op in module.walk() if isinstance(op, StatisticsRefOp)]
    for ref in refs:
        weights = by_key[ref.stats_key.data]
        element_type = uniform_type(choose_block_parameters(weights, bits))
        quantize = QuantizeCastOp(
            ref.input, TensorType(element_type, weights.values.shape)
        )
        Rewriter.replace_op(ref, (quantize, DequantizeCastOp(quantize, ref.input.type)))


def choose_block_parameters(weights: Weights, bits: int) -> QuantizationParameters:
    """Return parameters with a scale for each block of weights."""
    values, block_shape = weights.values, weights.block_shape
    counts = [n // size for n, size in zip(values.shape, block_shape, strict=True)]
    # Split each dimension into the index of the block and the index inside the block.
    split = [n for pair in zip(counts, block_shape, strict=True) for n in pair]
    blocks = values.reshape(split)
    inner = tuple(range(1, blocks.ndim, 2))
    # choose_parameters treats each block as a channel.
    chosen = choose_parameters(
        blocks.min(inner).ravel(),
        blocks.max(inner).ravel(),
        storage=f"i{bits}",
        symmetric=True,
        narrow_range=True,
        quantized_dimension=0,
    )
    return QuantizationParameters(
        chosen.scales.reshape(counts),
        storage=chosen.storage,
        storage_min=chosen.storage_min,
        storage_max=chosen.storage_max,
        block_sizes=enumerate(block_shape),
    )


def store_weights(module: ModuleOp) -> None:
    """
    Convert the weights of a network with fake quantization to integers, and lower all
    casts. Activations are rounded as before.
    """
    apply_passes(
        module,
        "quant-convert-const,"
        "lower-quant-ops{rounding-mode=nearest-even fuse=true},"
        "strip-func-quant-types,canonicalize",
        is_routine=True,
    )


# Weights


def float_bytes(network: Network) -> int:
    """Return the size of the f32 weights in bytes."""
    return sum(weights.values.nbytes for weights in network.weights)


def stored_bytes(parameters: WeightParameters) -> int:
    """
    Return the size of quantized weights in bytes: the integers (two 4-bit integers per
    byte) and the f32 scales.
    """
    bits = sum(
        weights.values.size * chosen.storage_width + 32 * chosen.scales.size
        for weights, chosen in parameters
    )
    return bits // 8


def weight_parameters(module: ModuleOp, network: Network) -> WeightParameters:
    """Return the weights of a network with fake quantization, and their parameters."""
    element_types = [
        cast("TensorType[UniformType]", op.result.type).element_type
        for op in module.walk()
        if isinstance(op, QuantizeCastOp) and isinstance(op.input.owner, ConstantOp)
    ]
    parameters = map(QuantizationParameters.from_type, element_types)
    return [*zip(network.weights, parameters, strict=True)]
