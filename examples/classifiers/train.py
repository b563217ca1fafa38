"""
Train the networks: `pip install jax scikit-learn`, then
`python -m examples.classifiers.train`. It writes all files in the folder `data`.
"""

from importlib import import_module
from typing import Any

import numpy as np

from .networks import (
    ARCHITECTURES,
    DIRECTORY,
    WITH_BATCH_NORM,
    Architecture,
    Convolution,
    Dense,
    Depthwise,
    Floats,
    Layer,
    Pointwise,
    Pool,
    Scale,
    result_shape,
    weight_shape,
)

SEED = 0
STEPS = 1500
LEARNING_RATE = 3e-3
EPSILON = 1e-3


def samples_of(name: str) -> tuple[Floats, Any]:
    """Load samples and labels of a scikit-learn data set."""
    datasets = import_module("sklearn.datasets")
    data = getattr(datasets, f"load_{name}")()
    samples = data.data.astype(np.float32)
    if name == "digits":
        return samples.reshape(-1, 8, 8, 1) / np.float32(16), data.target
    return (samples - samples.mean(0)) / samples.std(0), data.target


def initial_arrays(architecture: Architecture) -> dict[str, Floats]:
    """Return random weights, and biases of 0."""
    rng = np.random.default_rng(SEED)
    shape, arrays = architecture.input_shape, dict[str, Floats]()
    for index, layer in enumerate(architecture.layers):
        weights = weight_shape(layer, shape)
        shape = result_shape(layer, shape)
        if weights is not None:
            is_depthwise = isinstance(layer, Depthwise)
            inputs = np.prod(weights if is_depthwise else weights[:-1])
            inputs = inputs / weights[-1] if is_depthwise else inputs
            values = rng.normal(0, np.sqrt(2 / inputs), weights)
            if isinstance(layer, Scale):
                values = np.ones(weights)
            arrays[f"weights_{index}"] = values.astype(np.float32)
            arrays[f"bias_{index}"] = np.zeros(weights[-1], np.float32)
    return arrays


def forward(jax: Any, layer: Layer, x: Any, weights: Any, bias: Any) -> Any:
    """Compute the result of a layer for a batch."""
    numpy = jax.numpy
    match layer:
        case Dense():
            x = x.reshape(len(x), -1) @ weights + bias
        case Convolution() | Pointwise():
            x = _convolution(jax, x, weights, 1) + bias
        case Depthwise():
            x = _convolution(jax, x, weights[:, :, None], x.shape[-1]) + bias
        case Scale():
            mean, variance = moments(x)
            x = (x - mean) / numpy.sqrt(variance + EPSILON) * weights + bias
        case Pool():
            n, height, width, channels = x.shape
            return x.reshape(n, height // 2, 2, width // 2, 2, channels).mean((2, 4))
    match layer.activation:
        case "relu":
            return numpy.maximum(x, 0)
        case "relu6":
            return numpy.clip(x, 0, 6)
        case "tanh":
            return numpy.tanh(x)
        case "none":
            return x


def _convolution(jax: Any, x: Any, weights: Any, groups: int) -> Any:
    return jax.lax.conv_general_dilated(
        x,
        weights,
        (1, 1),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def moments(x: Any) -> tuple[Any, Any]:
    """Return the mean and the variance of each channel."""
    axes = tuple(range(x.ndim - 1))
    return x.mean(axes), x.var(axes)


def with_factors(
    jax: Any, architecture: Architecture, arrays: dict[str, Any], x: Any
) -> dict[str, Any]:
    """Convert batch normalization to a factor and an offset for each channel."""
    arrays = dict(arrays)
    for index, layer in enumerate(architecture.layers):
        names = f"weights_{index}", f"bias_{index}"
        weights, bias = (arrays.get(name) for name in names)
        if isinstance(layer, Scale):
            assert weights is not None
            mean, variance = moments(x)
            factors = weights / np.sqrt(variance + EPSILON)
            numbers = factors, bias - mean * factors
            arrays.update(
                (key, np.asarray(each, np.float32))
                for key, each in zip(names, numbers, strict=True)
            )
        x = forward(jax, layer, x, weights, bias)
    return arrays


def trained(name: str) -> dict[str, Any]:
    """Train a network on every other sample; return its weights and all samples."""
    jax: Any = import_module("jax")
    import_module("jax.numpy")
    architecture = {**ARCHITECTURES, **WITH_BATCH_NORM}[name]
    samples, labels = samples_of(name.removesuffix("_batch_norm"))

    def loss(arrays: dict[str, Any], x: Any, y: Any) -> Any:
        for index, layer in enumerate(architecture.layers):
            weights = arrays.get(f"weights_{index}")
            x = forward(jax, layer, x, weights, arrays.get(f"bias_{index}"))
        log = jax.nn.log_softmax(x)
        return -log[jax.numpy.arange(len(y)), y].mean()

    gradient = jax.jit(jax.grad(loss))
    arrays: dict[str, Any] = initial_arrays(architecture)
    mean = {key: np.zeros_like(value) for key, value in arrays.items()}
    square = {key: np.zeros_like(value) for key, value in arrays.items()}
    rng = np.random.default_rng(SEED)
    rows = np.arange(0, len(samples), 2)
    for step in range(1, STEPS + 1):
        batch = rng.choice(rows, 64)
        slopes = gradient(arrays, samples[batch], labels[batch])
        for key, slope in slopes.items():
            slope = np.asarray(slope)
            mean[key] = 0.9 * mean[key] + 0.1 * slope
            square[key] = 0.999 * square[key] + 0.001 * slope**2
            rate = LEARNING_RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            change = rate * mean[key] / (np.sqrt(square[key]) + 1e-8)
            arrays[key] = (arrays[key] * (1 - 1e-4) - change).astype(np.float32)
    if name in WITH_BATCH_NORM:
        return with_factors(jax, architecture, arrays, samples[rows])
    return {**arrays, "samples": samples, "labels": labels.astype(np.uint8)}


def main() -> None:
    """Train all networks."""
    for name in (*ARCHITECTURES, *WITH_BATCH_NORM):
        np.savez_compressed(DIRECTORY / f"{name}.npz", **trained(name))


if __name__ == "__main__":
    main()
