"""
Train the networks: `pip install scikit-learn`, then `python -m examples.digits.train`.

It takes some seconds and writes all files in the folder `data`. On the same machine, each
run writes the same bytes.

Every layer is a convolution: the window of a dense layer has the size of its input.
"""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .dataset import DIRECTORY, load_digits

Array = NDArray[np.float32]

SEED = 0
EPOCHS = 40
BATCH_SIZE = 32
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-4


class Layer(NamedTuple):
    """A convolution, with ReLU except in the last layer."""

    weights: Array
    """Height and width of the window, input channels, output channels."""

    bias: Array

    stride: int


# The networks


class Architecture(NamedTuple):
    """The shapes and strides of a network."""

    shapes: Sequence[tuple[int, int, int, int]]
    """Shape of the weights of each layer."""

    strides: Sequence[int]

    stored_shapes: Sequence[tuple[int, ...]]
    """Shapes of the weights in the file; matrices for dense layers."""

    shifts: Sequence[int]
    """Data augmentation: shifts of copies of the images to the right, in pixels."""


ARCHITECTURES = {
    "mlp": Architecture(
        shapes=[(8, 8, 1, 64), (1, 1, 64, 32), (1, 1, 32, 10)],
        strides=[1, 1, 1],
        stored_shapes=[(64, 64), (64, 32), (32, 10)],
        shifts=[0],
    ),
    "convolution": Architecture(
        shapes=[(3, 3, 1, 16), (2, 2, 16, 32), (3, 3, 32, 10)],
        strides=[1, 2, 1],
        stored_shapes=[(3, 3, 1, 16), (2, 2, 16, 32), (288, 10)],
        shifts=[-1, 0, 1],
    ),
}


def initial_layers(
    architecture: Architecture, generator: np.random.Generator
) -> list[Layer]:
    """Return layers with random weights."""
    return [
        Layer(
            (generator.normal(size=shape) * np.sqrt(2 / np.prod(shape[:-1]))).astype(
                np.float32
            ),
            np.zeros(shape[-1], np.float32),
            stride,
        )
        for shape, stride in zip(architecture.shapes, architecture.strides, strict=True)
    ]


# Forward and backward


def _window(layer: Layer, x: Array) -> Iterator[tuple[tuple[int, int], Any]]:
    """Yield each window position with the index of its elements in `x`."""
    height, width, _, _ = layer.weights.shape
    stride = layer.stride
    rows = (x.shape[1] - height) // stride * stride + 1
    columns = (x.shape[2] - width) // stride * stride + 1
    for i, j in np.ndindex(height, width):
        index = np.s_[:, i : i + rows : stride, j : j + columns : stride]
        yield (i, j), index


def forward(layers: Sequence[Layer], images: Array) -> list[Array]:
    """Return the input of each layer, and the logits."""
    values = [images]
    for layer in layers:
        x = values[-1]
        y = sum(x[index] @ layer.weights[at] for at, index in _window(layer, x))
        y = np.asarray(y, np.float32) + layer.bias
        values.append(y if layer is layers[-1] else np.maximum(y, 0))
    return values


def gradients(
    layers: Sequence[Layer], images: Array, labels: NDArray[np.uint8]
) -> list[Array]:
    """Return the gradients of the cross entropy for weights and bias of each layer."""
    *values, logits = forward(layers, images)
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    gradient = exponentials / exponentials.sum(-1, keepdims=True)
    gradient[np.arange(len(labels)), 0, 0, labels] -= 1
    gradient /= len(labels)
    result: list[Array] = []
    for layer, x in zip(reversed(layers), reversed(values), strict=True):
        for_weights, for_x = np.zeros_like(layer.weights), np.zeros_like(x)
        for at, index in _window(layer, x):
            for_weights[at] = np.tensordot(x[index], gradient, ((0, 1, 2), (0, 1, 2)))
            for_x[index] += gradient @ layer.weights[at].T
        result += [gradient.sum((0, 1, 2)), for_weights]
        # The gradient of ReLU: 1 where its result, the input of the layer, is positive.
        gradient = for_x * (x > 0)
    return result[::-1]


def train(
    architecture: Architecture, images: Array, labels: NDArray[np.uint8]
) -> list[Layer]:
    """
    Train a network with [Adam](https://arxiv.org/abs/1412.6980), whose learning rate
    decreases to 0.
    """
    generator = np.random.default_rng(SEED)
    layers = initial_layers(architecture, generator)
    images = np.concatenate([_shifted(images, shift) for shift in architecture.shifts])
    labels = np.tile(labels, len(architecture.shifts))
    batches = _batches(len(images), generator)
    parameters = [array for layer in layers for array in (layer.weights, layer.bias)]
    means, squares = ([np.zeros_like(p) for p in parameters] for _ in range(2))
    for step, batch in enumerate(batches, 1):
        rate = LEARNING_RATE * (1 - step / len(batches))
        found = gradients(layers, images[batch], labels[batch])
        for parameter, gradient, mean, square in zip(
            parameters, found, means, squares, strict=True
        ):
            gradient += WEIGHT_DECAY * parameter
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            size = np.sqrt(square / (1 - 0.999**step)) + 1e-8
            parameter -= rate * mean / (1 - 0.9**step) / size
    return layers


def _batches(count: int, generator: np.random.Generator) -> list[NDArray[np.int64]]:
    """Yield the indices of the images of each batch."""
    cuts = range(BATCH_SIZE, count, BATCH_SIZE)
    orders = [generator.permutation(count) for _ in range(EPOCHS)]
    return [batch for order in orders for batch in np.split(order, cuts)]


def _shifted(images: Array, shift: int) -> Array:
    """Shift images to the right by `shift` pixels and pad with zeros."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (0, 0)))
    return padded[:, :, 1 - shift : 9 - shift]


# Files


def write_digits() -> None:
    """Write `digits.npz`."""
    # scikit-learn has no type annotations.
    bunch: Any = import_module("sklearn.datasets").load_digits()
    order = np.random.default_rng(SEED).permutation(len(bunch.target))
    np.savez_compressed(
        DIRECTORY / "digits.npz",
        images=bunch.images[order].astype(np.uint8),
        labels=bunch.target[order].astype(np.uint8),
    )


def write_network(name: str, layers: Sequence[Layer]) -> None:
    """Write the weights and biases of a network."""
    arrays: dict[str, Any] = {}
    shapes = ARCHITECTURES[name].stored_shapes
    for index, (layer, shape) in enumerate(zip(layers, shapes, strict=True)):
        arrays[f"weights_{index}"] = layer.weights.reshape(shape)
        arrays[f"bias_{index}"] = layer.bias
    np.savez_compressed(DIRECTORY / f"{name}.npz", **arrays)


def main() -> None:
    """Write all files, and print the accuracy of the networks."""
    write_digits()
    training, test = load_digits()
    for name, architecture in ARCHITECTURES.items():
        layers = train(architecture, training.images, training.labels)
        write_network(name, layers)
        for half in (training, test):
            *_, logits = forward(layers, half.images)
            correct = int((logits[:, 0, 0].argmax(-1) == half.labels).sum())
            print(f"{name:<11}  {correct} of {len(half.labels)}")


if __name__ == "__main__":
    main()
