"""The networks: layers, trained weights, and samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]

DIRECTORY = Path(__file__).parent / "data"
"""Weights and samples. `train.py` writes them."""

Activation: TypeAlias = Literal["none", "relu", "relu6", "tanh"]


class Dense(NamedTuple):
    """A product with a matrix, a bias, and an activation."""

    units: int
    activation: Activation = "none"


class Convolution(NamedTuple):
    """A window of three by three pixels that moves over padded images."""

    channels: int
    activation: Activation = "none"


class Depthwise(NamedTuple):
    """The same for each channel on its own."""

    activation: Activation = "none"


class Pointwise(NamedTuple):
    """A window of one pixel."""

    channels: int
    activation: Activation = "none"


class Scale(NamedTuple):
    """
    A factor and a term for each channel, which is what batch normalization is once a
    network is trained.
    """

    activation: Activation = "none"


class Pool(NamedTuple):
    """The mean of two by two pixels; what follows sees one row of numbers."""


Layer: TypeAlias = Dense | Convolution | Depthwise | Pointwise | Scale | Pool


class Architecture(NamedTuple):
    """What a network takes, and its layers."""

    input_shape: Sequence[int]
    """Without the batch."""

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
"""The networks by the data set that they are for."""


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
"""Two of them, with batch normalization."""


class Step(NamedTuple):
    """A layer with what it takes and its weights."""

    layer: Layer
    shape: Sequence[int]
    """The shape of what it takes, without the batch."""

    result_shape: Sequence[int]
    weights: Floats | None
    """
    Of a dense layer a row for each input; of a window height, width, input channels,
    output channels, and of a depthwise one height, width, channels; of a scale the factors.
    """

    bias: Floats | None


def weight_shape(layer: Layer, shape: Sequence[int]) -> tuple[int, ...] | None:
    """The shape of the weights of a layer; `None` if it has none."""
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
    """The shape of what a layer gives."""
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
        """The shape of a sample."""
        return self.steps[0].shape

    def halves(self, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Samples to calibrate with, and others to test with."""
        order = np.random.default_rng(seed).permutation(len(self.samples))
        return order[: len(order) // 2], order[len(order) // 2 :]

    def accuracy(self, logits: Floats, rows: NDArray[np.intp]) -> float:
        """The part of these samples whose largest number is at the index of the label."""
        return float(
            np.count_nonzero(logits.argmax(1) == self.labels[rows]) / len(rows)
        )


def steps_of(
    architecture: Architecture, arrays: Mapping[str, Floats]
) -> Iterator[Step]:
    """The layers with their shapes and weights."""
    shape = architecture.input_shape
    for index, layer in enumerate(architecture.layers):
        result = result_shape(layer, shape)
        weights, bias = arrays.get(f"weights_{index}"), arrays.get(f"bias_{index}")
        yield Step(layer, shape, result, weights, bias)
        shape = result


def load_network(name: str) -> Network:
    """One of the networks in `ARCHITECTURES` or `WITH_BATCH_NORM`."""
    arrays: dict[str, NDArray[Any]] = {}
    # Samples are those of the network without batch normalization.
    for file_name in dict.fromkeys((name.removesuffix("_batch_norm"), name)):
        with np.load(DIRECTORY / f"{file_name}.npz") as file:
            arrays.update(file)
    steps = [*steps_of({**ARCHITECTURES, **WITH_BATCH_NORM}[name], arrays)]
    return Network(name, steps, arrays["samples"], arrays["labels"])
