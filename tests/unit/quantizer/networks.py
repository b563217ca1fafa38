"""Float networks of 3 to 40 kernels with the structures of real ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from .network_builders import (
    Builder,
    Floats,
    Network,
    StableHLOBuilder,
    TFLiteBuilder,
    Value,
    text_of_network,
)


class Model(NamedTuple):
    """A network, and samples that are as large as natural ones."""

    network: Network
    shape: tuple[int, ...]
    """The shape of the input, of one sample."""

    is_image: bool = False
    """Whether neighbours are alike and values are not negative."""

    def tfl_text(self) -> str:
        """The network as ops of TensorFlow Lite."""
        return text_of_network(self.network, self.shape, TFLiteBuilder())

    def stablehlo_text(self) -> str:
        """The network as ops of StableHLO."""
        return text_of_network(self.network, self.shape, StableHLOBuilder())

    def samples(self, count: int, seed: int = 0) -> Floats:
        """Samples, with a row for each."""
        random = np.random.default_rng([seed, *self.shape])
        shape = (count, *self.shape[1:])
        if not self.is_image:
            return random.normal(size=shape).astype(np.float32)
        rows, columns = (np.arange(size) for size in shape[1:3])
        waves = random.uniform(0.1, 1, (3, count, 1, 1, shape[-1]))
        phases = waves[0] * rows[:, None, None] + waves[1] * columns[:, None]
        return (0.5 + 0.5 * np.sin(phases + 6 * waves[2])).astype(np.float32)


def _head(net: Builder, x: Value, classes: int = 5) -> Value:
    """The mean over an image, and scores of classes."""
    x = net.mean(x, (1, 2))
    return net.dense(net.reshape(x, (1, x.shape[-1])), classes)


def residual_cnn(net: Builder, x: Value, blocks: int = 4) -> Value:
    """Blocks of two convolutions whose input is added to their result."""
    x = net.convolution(x, 8)
    for _ in range(blocks):
        y = net.convolution(net.convolution(x, 8), 8, activation="none")
        x = net.unary("relu", net.binary("add", x, y))
    return _head(net, x)


def depthwise_cnn(net: Builder, x: Value, widths: Sequence[int] = (8, 16, 16)) -> Value:
    """Convolutions of channels, and of pixels, in turns."""
    x = net.convolution(x, 8, stride=2)
    for channels in widths:
        x = net.convolution(net.depthwise(x), channels, size=1)
    return _head(net, x)


def deep_depthwise_cnn(net: Builder, x: Value) -> Value:
    """The same with as many layers as MobileNet."""
    x = net.convolution(x, 8)
    for number in range(13):
        x = net.depthwise(x, stride=2 if number == 5 else 1, activation="relu6")
        x = net.convolution(x, 8 if number < 5 else 16, size=1, activation="relu6")
    return _head(net, x)


def plain_cnn(net: Builder, x: Value) -> Value:
    """Twenty convolutions one after the other."""
    for number in range(20):
        x = net.convolution(x, 12, stride=2 if number in (4, 10) else 1)
    return _head(net, x)


def squeeze_cnn(net: Builder, x: Value, blocks: int = 2) -> Value:
    """Channels that are scaled by what the mean of the image says (SE block)."""
    x = net.convolution(x, 8)
    for _ in range(blocks):
        x = net.convolution(x, 8)
        y = net.convolution(net.mean(x, (1, 2)), 4, size=1)
        y = net.convolution(y, 8, size=1, activation="none")
        x = net.binary("mul", x, net.unary("logistic", y))
    return _head(net, x)


def silu_cnn(net: Builder, x: Value, blocks: int = 3) -> Value:
    """Convolutions with SiLU."""
    for _ in range(blocks):
        x = net.silu(net.convolution(x, 8, activation="none"))
    return _head(net, x)


def gelu_mlp(net: Builder, x: Value, blocks: int = 2) -> Value:
    """Dense layers with GELU, added to their normalized input."""
    for _ in range(blocks):
        y = net.dense(net.layer_norm(x), 32)
        x = net.binary("add", x, net.dense(net.gelu(y), x.shape[-1]))
    return net.dense(x, 4)


def _attended(net: Builder, x: Value, mask: Floats | None) -> Value:
    """Attention with one head."""
    size = x.shape[-1]
    query, key, value = (net.dense(x, size) for _ in range(3))
    scores = net.batch_product(query, key, transposed=True)
    scores = net.binary("mul", scores, net.constant(size**-0.5 / 4))
    if mask is not None:
        scores = net.binary("add", scores, net.constant(mask))
    y = net.batch_product(net.softmax(scores), value, transposed=False)
    return net.binary("add", x, net.dense(y, size))


def attention(net: Builder, x: Value) -> Value:
    """Attention, and a dense layer for each position."""
    x = _attended(net, x, None)
    return net.dense(net.dense(x, 16, "relu"), 4)


def masked_attention(net: Builder, x: Value) -> Value:
    """The same, of earlier positions only."""
    mask = -8 * np.triu(np.ones((x.shape[1], x.shape[1]), np.float32), 1)
    x = _attended(net, x, mask)
    return net.dense(net.dense(x, 16, "relu"), 4)


def lstm(net: Builder, x: Value, steps: int = 3) -> Value:
    """Unrolled steps of an LSTM."""
    size = 8
    width = x.shape[-1] // steps
    weights = net.weights((4 * size, width + size), 4 * (width + size))
    bias = net.bias(4 * size)
    state = output = net.constant(np.zeros((1, size), np.float32))
    for step in range(steps):
        inputs = net.slice(x, step * width, (step + 1) * width)
        both = net.concatenate([inputs, output])
        gates = net.product(both, weights, bias, "none")
        parts = [net.slice(gates, i * size, (i + 1) * size) for i in range(4)]
        kept, new, shown = (net.unary("logistic", part) for part in parts[:3])
        change = net.binary("mul", new, net.unary("tanh", parts[3]))
        state = net.binary("add", net.binary("mul", kept, state), change)
        output = net.binary("mul", shown, net.unary("tanh", state))
    return net.dense(output, 4)


def autoencoder(
    net: Builder,
    x: Value,
    widths: Sequence[int] = (32, 32, 32, 32, 8, 32, 32, 32, 32),
) -> Value:
    """Dense layers that become narrow, and wide again."""
    size = x.shape[-1]
    for units in widths:
        x = net.dense(x, units, "relu")
    return net.dense(x, size)


def mlp(net: Builder, x: Value) -> Value:
    """Three dense layers."""
    return net.dense(net.dense(net.dense(x, 24, "relu"), 24, "relu"), 6)


def deep_mlp(net: Builder, x: Value) -> Value:
    """Thirty-nine dense layers."""
    for _ in range(39):
        x = net.dense(x, 16, "relu")
    return net.dense(x, 6)


def deep_residual_cnn(net: Builder, x: Value) -> Value:
    """Twelve residual blocks."""
    x = net.convolution(x, 8)
    for _ in range(12):
        y = net.convolution(net.convolution(x, 8), 8, activation="none")
        x = net.unary("relu", net.binary("add", x, y))
    return _head(net, x)


def inverted_residual_cnn(net: Builder, x: Value) -> Value:
    """Blocks as in MobileNetV2, whose narrow ends are added."""
    x = net.convolution(x, 8, activation="relu6")
    for _ in range(5):
        y = net.convolution(x, 24, size=1, activation="relu6")
        y = net.depthwise(y, activation="relu6")
        x = net.binary("add", x, net.convolution(y, 8, size=1, activation="none"))
    return _head(net, x)


_IMAGE = (1, 12, 12, 3)

STRUCTURES = {
    "residual_cnn": Model(residual_cnn, _IMAGE, is_image=True),
    "depthwise_cnn": Model(depthwise_cnn, _IMAGE, is_image=True),
    "squeeze_cnn": Model(squeeze_cnn, _IMAGE, is_image=True),
    "silu_cnn": Model(silu_cnn, _IMAGE, is_image=True),
    "gelu_mlp": Model(gelu_mlp, (1, 16)),
    "attention": Model(attention, (1, 6, 8)),
    "masked_attention": Model(masked_attention, (1, 6, 8)),
    "lstm": Model(lstm, (1, 12)),
    "autoencoder": Model(autoencoder, (1, 64)),
}
"""Networks with the structures of real ones."""

_SMALL_IMAGE = (1, 6, 6, 2)

SMALL_STRUCTURES = {
    "residual_cnn": Model(partial(residual_cnn, blocks=1), _SMALL_IMAGE, is_image=True),
    "depthwise_cnn": Model(
        partial(depthwise_cnn, widths=(8,)), _SMALL_IMAGE, is_image=True
    ),
    "squeeze_cnn": Model(partial(squeeze_cnn, blocks=1), _SMALL_IMAGE, is_image=True),
    "silu_cnn": Model(partial(silu_cnn, blocks=1), _SMALL_IMAGE, is_image=True),
    "gelu_mlp": Model(partial(gelu_mlp, blocks=1), (1, 8)),
    "attention": Model(attention, (1, 4, 4)),
    "masked_attention": Model(masked_attention, (1, 4, 4)),
    "lstm": Model(partial(lstm, steps=2), (1, 8)),
    "autoencoder": Model(partial(autoencoder, widths=(16, 8)), (1, 16)),
}
"""The same structures with fewer layers and smaller inputs."""

NETWORKS = STRUCTURES | {
    "mlp": Model(mlp, (1, 16)),
    "deep_mlp": Model(deep_mlp, (1, 16)),
    "plain_cnn": Model(plain_cnn, _IMAGE, is_image=True),
    "deep_depthwise_cnn": Model(deep_depthwise_cnn, _IMAGE, is_image=True),
    "deep_residual_cnn": Model(deep_residual_cnn, _IMAGE, is_image=True),
    "inverted_residual_cnn": Model(inverted_residual_cnn, _IMAGE, is_image=True),
}
"""All networks, of 3 to 40 kernels."""
