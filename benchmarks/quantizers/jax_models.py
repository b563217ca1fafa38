"""Networks of jax and flax with random weights, and their samples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

SAMPLES = 64

# Not among the requirements of the tests, and without type information there.
jax: Any = import_module("jax")
jnp: Any = jax.numpy
nn: Any = import_module("flax.linen")


@dataclass(frozen=True)
class JaxNetwork:
    """A network and its samples."""

    function: Callable[..., Any]
    """Function of arrays whose first dimension is a batch."""

    arguments: Sequence[Array]
    """Samples of each argument: (samples, ...)."""

    twin: Callable[..., Any] | None = None
    """The function in ops that `.onnx` and `.tflite` files have, if it has others."""

    is_dynamic: bool = False
    """True to export the network for any batch size."""

    def samples(self) -> Iterator[tuple[Array, ...]]:
        """Yield the arguments of each sample, with a batch size of 1."""
        for i in range(SAMPLES):
            yield tuple(array[i : i + 1] for array in self.arguments)

    def twin_text(self) -> str:
        """Return the StableHLO module of the twin, for a batch size of 1."""
        function = jax.jit(self.twin or self.function)
        text = function.lower(*next(self.samples())).as_text()
        return re.sub(
            r"chlo.square (%\w+) : (\S+) -> \S+",
            r"stablehlo.multiply \1, \1 : \2",
            text,
        )

    def text(self) -> str:
        """Return the StableHLO module that jax prints."""
        function, arguments = jax.jit(self.function), next(self.samples())
        if not self.is_dynamic:
            return function.lower(*arguments).as_text()
        (size,) = jax.export.symbolic_shape("batch")
        shapes = [
            jax.ShapeDtypeStruct((size, *array.shape[1:]), array.dtype)
            for array in arguments
        ]
        return str(jax.export.export(function)(*shapes).mlir_module())

    def results(self) -> list[Array]:
        """Return jax's results of all samples: (samples, ...) each."""
        run = jax.jit(self.function)
        return joined(run(*arguments) for arguments in self.samples())


def joined(results: Iterator[Any]) -> list[Array]:
    """Concatenate the results of samples, each an array or a sequence of arrays."""
    rows: Iterator[Sequence[Any]] = (
        cast(Sequence[Any], row) if isinstance(row, tuple | list) else [row]
        for row in results
    )
    columns: Iterator[tuple[Any, ...]] = zip(*rows, strict=True)
    return [np.concatenate([*map(np.asarray, column)]) for column in columns]


class Weights:
    """Draws weights of layers."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)

    def matrix(self, *shape: int) -> Any:
        """Draw a matrix whose products keep the variance of their inputs."""
        return self.normal(*shape) / np.float32(np.sqrt(shape[-2]))

    def normal(self, *shape: int) -> Any:
        """Draw standard normal numbers."""
        return self.random.standard_normal(shape).astype(np.float32)

    def uniform(self, low: float, high: float, shape: Sequence[int]) -> Any:
        """Draw uniform numbers."""
        return self.random.uniform(low, high, shape).astype(np.float32)

    def dense(self, inputs: int, outputs: int) -> Callable[[Any], Any]:
        """Return a layer with a bias."""
        weight, bias = self.matrix(inputs, outputs), 0.1 * self.normal(outputs)
        return lambda x: x @ weight + bias


def _mlp(
    activation: Callable[[Any], Any], twin: Callable[[Any], Any] | None = None
) -> JaxNetwork:
    draw = Weights(1)
    layers = [draw.dense(16, 32), draw.dense(32, 32), draw.dense(32, 10)]

    def mlp(activation: Callable[[Any], Any], x: Any) -> Any:
        first, second, last = layers
        return last(activation(second(activation(first(x)))))

    function = partial(mlp, activation)
    return JaxNetwork(
        function,
        [draw.normal(SAMPLES, 16)],
        partial(mlp, twin) if twin else None,
    )


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + jax.lax.erf(x * np.float32(np.sqrt(0.5))))


def _softplus(x: Any) -> Any:
    return jnp.maximum(x, 0) + jnp.log(1 + jnp.exp(-jnp.abs(x)))


class _Cnn(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        norm = partial(nn.BatchNorm, use_running_average=True)
        x = nn.relu(norm()(nn.Conv(8, (3, 3))(x)))
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.Conv(8, (3, 3), feature_group_count=8, use_bias=False)(x)
        x = nn.relu6(norm()(x))
        x = nn.silu(nn.Conv(16, (1, 1))(x))
        squeezed = nn.relu(nn.Dense(4)(x.mean((1, 2))))
        x = x * nn.sigmoid(nn.Dense(16)(squeezed))[:, None, None]
        x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        return nn.Dense(10)(x.reshape(x.shape[0], -1))


class _ResNet(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.relu(nn.Conv(8, (3, 3))(x))
        y = nn.relu(nn.GroupNorm(num_groups=2)(nn.Conv(8, (3, 3), use_bias=False)(x)))
        y = nn.GroupNorm(num_groups=2)(nn.Conv(8, (3, 3), use_bias=False)(y))
        return nn.Dense(10)(nn.relu(x + y).mean((1, 2)))


def _flax(module: Any, seed: int) -> JaxNetwork:
    draw = Weights(seed)
    images = draw.normal(SAMPLES, 8, 8, 3)
    variables = module.init(jax.random.key(seed), images[:1])

    def trained(path: Any, value: Any) -> Any:
        """Give norms and biases other values than 0 and 1."""
        name = path[-1].key
        if name in ("scale", "var"):
            return draw.uniform(0.5, 1.5, value.shape)
        if name in ("bias", "mean"):
            return draw.uniform(-0.2, 0.2, value.shape)
        return np.asarray(value)

    variables = jax.tree_util.tree_map_with_path(trained, variables)
    return JaxNetwork(partial(module.apply, variables), [images])


def _layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    variance = (centered * centered).mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt(variance + 1e-5) * scale + bias


def _rotated(x: Any, position: Any) -> Any:
    """Rotary embedding; position: (..., length), x: (..., length, heads, channels)."""
    half: int = x.shape[-1] // 2
    angles: Any = position[..., None, None] / 100.0 ** (np.arange(half) / half)
    cosine, sine = jnp.cos(angles), jnp.sin(angles)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)


_LENGTH, _WIDTH, _HEADS = 6, 16, 2


def _heads(x: Any) -> Any:
    return x.reshape(*x.shape[:-1], _HEADS, _WIDTH // _HEADS)


class _Block:
    """Transformer block: attention and a layer with GELU, each after a layer norm."""

    def __init__(self, draw: Weights):
        self.norms = [
            (1 + 0.2 * draw.normal(_WIDTH), 0.2 * draw.normal(_WIDTH)) for _ in range(2)
        ]
        self.q, self.k, self.v, self.out = (
            draw.dense(_WIDTH, _WIDTH) for _ in range(4)
        )
        self.up, self.down = draw.dense(_WIDTH, 64), draw.dense(64, _WIDTH)

    def projected(self, x: Any, position: Any) -> tuple[Any, Any, Any]:
        """Return queries, keys and values."""
        normal = _layer_norm(x, *self.norms[0])
        q, k, v = (_heads(layer(normal)) for layer in (self.q, self.k, self.v))
        return _rotated(q, position), _rotated(k, position), v

    def attended(self, x: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
        """Return the block's result."""
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(q.shape[-1]))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
        x = x + self.out(jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape))
        return x + self.down(jax.nn.gelu(self.up(_layer_norm(x, *self.norms[1]))))


def _transformer() -> JaxNetwork:
    draw = Weights(4)
    block, position = _Block(draw), np.arange(_LENGTH, dtype=np.float32)
    mask = np.tril(np.ones((_LENGTH, _LENGTH), bool))

    def transformer(x: Any) -> Any:
        return block.attended(x, *block.projected(x, position), mask)

    return JaxNetwork(transformer, [draw.normal(SAMPLES, _LENGTH, _WIDTH)])


def _cache_step() -> JaxNetwork:
    draw = Weights(5)
    block, zero = _Block(draw), jnp.int32(0)

    def updated(cache: Any, row: Any, position: Any) -> Any:
        place = (zero, position[0], zero, zero)
        return jax.lax.dynamic_update_slice(cache, row, place)

    def selected(cache: Any, row: Any, position: Any) -> Any:
        is_row = jnp.arange(_LENGTH)[:, None, None] == position[0]
        return jnp.where(is_row, row, cache)

    def step(update: Any, x: Any, keys: Any, values: Any, position: Any) -> Any:
        q, k, v = block.projected(x, position[:, None].astype(jnp.float32))
        keys, values = update(keys, k, position), update(values, v, position)
        mask = jnp.arange(_LENGTH) <= position[0]
        return block.attended(x, q, keys, values, mask), keys, values

    cache = (SAMPLES, _LENGTH, _HEADS, _WIDTH // _HEADS)
    positions = draw.random.integers(0, _LENGTH, SAMPLES).astype(np.int32)
    return JaxNetwork(
        partial(step, updated),
        [
            draw.normal(SAMPLES, 1, _WIDTH),
            draw.normal(*cache),
            draw.normal(*cache),
            positions,
        ],
        partial(step, selected),
    )


def _scanned(cell: Callable[..., Any], head: Callable[[Any], Any], states: int) -> Any:
    def network(x: Any, *, unroll: bool) -> Any:
        start = (jnp.zeros((x.shape[0], 12), jnp.float32),) * states
        final, _ = jax.lax.scan(cell, start, x.swapaxes(0, 1), unroll=unroll)
        return head(final[0])

    return network


def _gru() -> JaxNetwork:
    draw = Weights(6)
    gates, new_x = draw.dense(18, 24), draw.dense(6, 12)
    new_h, head = draw.dense(12, 12), draw.dense(12, 4)

    def cell(state: Any, x: Any) -> Any:
        (h,) = state
        r, z = jnp.split(jax.nn.sigmoid(gates(jnp.concatenate([x, h], -1))), 2, -1)
        return ((1 - z) * jnp.tanh(new_x(x) + r * new_h(h)) + z * h,), None

    return _recurrent(_scanned(cell, head, 1), draw)


def _lstm() -> JaxNetwork:
    draw = Weights(7)
    gates, head = draw.dense(18, 48), draw.dense(12, 4)

    def cell(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(gates(jnp.concatenate([x, h], -1)), 4, -1)
        sigmoid = jax.nn.sigmoid
        c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
        return (sigmoid(o) * jnp.tanh(c), c), None

    return _recurrent(_scanned(cell, head, 2), draw)


def _recurrent(network: Callable[..., Any], draw: Weights) -> JaxNetwork:
    return JaxNetwork(
        partial(network, unroll=False),
        [draw.normal(SAMPLES, 5, 6)],
        twin=partial(network, unroll=True),
    )


def _embedding() -> JaxNetwork:
    draw = Weights(8)
    table, layer, head = draw.normal(50, 16), draw.dense(16, 16), draw.dense(16, 5)

    def embedding(tokens: Any) -> Any:
        x = jnp.take(jnp.asarray(table), tokens, axis=0, mode="clip")
        return head(jnp.tanh(layer(x)).mean(1))

    tokens = draw.random.integers(0, 50, (SAMPLES, 7)).astype(np.int32)
    return JaxNetwork(embedding, [tokens])


def _classifier(
    last: Callable[[Any], Any],
    twin: Callable[[Any], Any] | None = None,
    *,
    is_dynamic: bool = False,
) -> JaxNetwork:
    draw = Weights(9)
    first, second = draw.dense(16, 32), draw.dense(32, 10)

    def classifier(last: Callable[[Any], Any], x: Any) -> Any:
        return last(second(jax.nn.relu(first(x))))

    return JaxNetwork(
        partial(classifier, last),
        [draw.normal(SAMPLES, 16)],
        partial(classifier, twin) if twin else None,
        is_dynamic,
    )


NETWORKS: Mapping[str, Callable[[], JaxNetwork]] = {
    "MLP, tanh": partial(_mlp, jnp.tanh),
    "MLP, GELU": partial(_mlp, partial(jax.nn.gelu, approximate=False), _gelu),
    "MLP, approximate GELU": partial(_mlp, jax.nn.gelu),
    "MLP, SiLU": partial(_mlp, jax.nn.silu),
    "MLP, softplus": partial(_mlp, jax.nn.softplus, _softplus),
    "CNN": partial(_flax, _Cnn(), 2),
    "ResNet block": partial(_flax, _ResNet(), 3),
    "transformer block": _transformer,
    "KV cache step": _cache_step,
    "GRU": _gru,
    "LSTM": _lstm,
    "embedding": _embedding,
    "argmax": partial(_classifier, lambda x: (x, jnp.argmax(x, -1)), twin=lambda x: x),
    "top-k": partial(_classifier, lambda x: jax.lax.top_k(x, 3)),
    "dynamic batch, softmax": partial(_classifier, jax.nn.softmax, is_dynamic=True),
}
"""Networks by name."""
