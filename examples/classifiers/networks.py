"""The networks: layers, trained weights and samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]

DIRECTORY = Path(__file__).parent / "data"
"""Directory of the weights and samples, which `train.py` writes."""

Activation: TypeAlias = Literal["none", "relu", "relu6", "tanh"]


class Dense(NamedTuple):
    """Dense layer: matrix product, bias and activation."""

    units: int
    activation: Activation = "none"


class Convolution(NamedTuple):
    """Convolution with a 3 x 3 window and same padding."""

    channels: int
    activation: Activation = "none"


class Depthwise(NamedTuple):
    """Depthwise convolution with a 3 x 3 window and same padding."""

    activation: Activation = "none"


class Pointwise(NamedTuple):
    """1 x 1 convolution."""

    channels: int
    activation: Activation = "none"


class Scale(NamedTuple):
    """
    A factor and an offset for each channel: the inference form of batch normalization.
    """

    activation: Activation = "none"


class Pool(NamedTuple):
    """2 x 2 average pool, flattened."""


Layer: TypeAlias = Dense | Convolution | Depthwise | Pointwise | Scale | Pool


class Architecture(NamedTuple):
    """Input shape and layers of a network."""

    input_shape: Sequence[int]
    """Shape of an input, without the batch dimension."""

    layers: Sequence[Layer]


ARCHITECTURES: Mapping[str, Architecture] = {
    "wine": Architecture((13,), (Dense(32, "relu"), Dense(16, "relu"), Dense(3))),
    "breast_cancer": Architecture(
        (30,), (Dense(24, "relu"), Dense(12, "tanh"), Dense(2))
    ),
    "digits": Architecture(
        (8, 8, 1),
        (
            Convolution(8, "relu6"),
            Depthwise("relu"),
            Pointwise(16, "relu"),
            Pool(),
            Dense(10),
        ),
    ),
}
"""The networks by data set."""


WITH_BATCH_NORM: Mapping[str, Architecture] = {
    "wine_batch_norm": Architecture(
        (13,), (Dense(32), Scale("relu"), Dense(16), Scale("relu"), Dense(3))
    ),
    "digits_batch_norm": Architecture(
        (8, 8, 1),
        (
            Convolution(8),
            Scale("relu6"),
            Depthwise(),
            Scale("relu"),
            Pointwise(16),
            Scale("relu"),
            Pool(),
            Dense(10),
        ),
    ),
}
"""Variants of two networks with batch normalization."""


class Step(NamedTuple):
    """A layer with its shapes and weights."""

    layer: Layer
    shape: Sequence[int]
    """Shape of the input, without the batch dimension."""

    result_shape: Sequence[int]
    weights: Floats | None
    """
    Dense layer: inputs x outputs. Convolution: height x width x input channels x output
    channels. Depthwise convolution: height x width x channels. Scale: factors.
    """

    bias: Floats | None


def weight_shape(layer: Layer, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shape of the weights of a layer; `None` without weights."""
    channels = shape[-1]
    match layer:
        case Dense(units):
            return (int(np.prod(shape)), units)
        case Convolution(count):
            return (3, 3, channels, count)
        case Depthwise():
            return (3, 3, channels)
        case Pointwise(count):
            return (1, 1, channels, count)
        case Scale():
            return (channels,)
        case Pool():
            return None


def result_shape(layer: Layer, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of the result of a layer."""
    match layer:
        case Dense(units):
            return (units,)
        case Convolution(channels) | Pointwise(channels):
            return (*shape[:-1], channels)
        case Depthwise() | Scale():
            return (*shape,)
        case Pool():
            return (shape[0] // 2, shape[1] // 2, shape[2])


class Network(NamedTuple):
    """A trained network, and samples with labels."""

    name: str
    steps: Sequence[Step]
    samples: Floats
    labels: NDArray[np.uint8]

    @property
    def input_shape(self) -> Sequence[int]:
        """Shape of a sample."""
        return self.steps[0].shape

    def halves(self, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the indices of calibration samples and of test samples."""
        order = np.random.default_rng(seed).permutation(len(self.samples))
        return order[: len(order) // 2], order[len(order) // 2 :]

    def accuracy(self, logits: Floats, rows: NDArray[np.intp]) -> float:
        """Return the fraction of samples whose largest logit is that of the label."""
        return float(
            np.count_nonzero(logits.argmax(1) == self.labels[rows]) / len(rows)
        )


def steps_of(
    architecture: Architecture, arrays: Mapping[str, Floats]
) -> Iterator[Step]:
    """Yield the layers with their shapes and weights."""
    shape = architecture.input_shape
    for index, layer in enumerate(architecture.layers):
        result = result_shape(layer, shape)
        weights, bias = arrays.get(f"weights_{index}"), arrays.get(f"bias_{index}")
        yield Step(layer, shape, result, weights, bias)
        shape = result


def load_network(name: str) -> Network:
    """Load a network of `ARCHITECTURES` or `WITH_BATCH_NORM`."""
    arrays: dict[str, NDArray[Any]] = {}
    # The network without batch normalization has the same samples.
    for file_name in dict.fromkeys((name.removesuffix("_batch_norm"), name)):
        with np.load(DIRECTORY / f"{file_name}.npz") as file:
            arrays.update(file)
    steps = [*steps_of({**ARCHITECTURES, **WITH_BATCH_NORM}[name], arrays)]
    return Network(name, steps, arrays["samples"], arrays["labels"])
