"""Random quantization parameters and values for them."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.agreement.reference import DTYPES, Storage, edge_values
from xdsl_quant.numerics import QuantizationParameters

Draw = st.DrawFn


@st.composite
def shapes(draw: Draw) -> tuple[int, ...]:
    return tuple(draw(st.lists(st.integers(1, 6), max_size=4)))


def _block_sizes(draw: Draw, shape: tuple[int, ...]) -> dict[int, int]:
    return {
        dimension: draw(
            st.sampled_from([n for n in range(1, size + 1) if not size % n])
        )
        for dimension, size in enumerate(shape)
        if draw(st.booleans())
    }


@st.composite
def storages(draw: Draw) -> Storage:
    width = draw(st.sampled_from((8, 8, 16, 32, 4, *range(1, 33))))
    is_signed = draw(st.booleans())
    low = -(1 << (width - 1)) if is_signed else 0
    high = low + (1 << width) - 1
    name = f"{'i' if is_signed else 'u'}{width}"
    if draw(st.booleans()):
        return Storage(name, low, high)
    bounds = draw(st.sets(st.integers(low, high), min_size=2, max_size=2))
    return Storage(name, min(bounds), max(bounds))


def _scale(draw: Draw) -> float:
    exponent = draw(st.integers(-6, 4))
    return draw(st.sampled_from((1.0, 1.0, 1.37, 1.9375))) * 2.0**exponent


@st.composite
def parameters_for(
    draw: Draw,
    shape: tuple[int, ...],
    expressed: str,
    storage: Storage | None = None,
) -> QuantizationParameters:
    """Parameters of any kind that fit a shape."""
    storage = storage or draw(storages())
    kind = draw(st.sampled_from(("per-tensor", "per-axis", "sub-channel")))
    layout: dict[str, Any] = {}
    counts: tuple[int, ...] = ()
    if kind == "per-axis" and shape:
        dimension = draw(st.integers(0, len(shape) - 1))
        layout = {"quantized_dimension": dimension}
        counts = (shape[dimension],)
    elif kind == "sub-channel" and shape:
        sizes = _block_sizes(draw, shape)
        layout = {"block_sizes": sizes}
        counts = tuple(
            size // sizes.get(dimension, size) for dimension, size in enumerate(shape)
        )
    count = int(np.prod(counts))
    low = -(1 << (int(storage.name[1:]) - 1)) if storage.is_signed else 0
    zero_points = st.integers(low, low + (1 << storage.width) - 1)
    offsets = [0] * count
    if draw(st.booleans()):
        offsets = draw(st.lists(zero_points, min_size=count, max_size=count))
    return QuantizationParameters(
        np.reshape([_scale(draw) for _ in range(count)], counts),
        np.reshape(offsets, counts),
        storage=storage.name,
        storage_min=storage.low,
        storage_max=storage.high,
        expressed=expressed,
        **layout,
    )


def storage_of(parameters: QuantizationParameters) -> Storage:
    return Storage(parameters.storage, parameters.storage_min, parameters.storage_max)


def full(
    parameters: QuantizationParameters, shape: tuple[int, ...]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """A scale and a zero point for each value."""
    arrays: list[NDArray[Any]] = [parameters.scales, parameters.zero_points]
    if parameters.quantized_dimension is not None:
        axes = [1] * len(shape)
        axes[parameters.quantized_dimension] = -1
        arrays = [array.reshape(axes) for array in arrays]
    for dimension, size in dict(parameters.block_sizes or ()).items():
        arrays = [array.repeat(size, dimension) for array in arrays]
    scales, zero_points = (np.broadcast_to(array, shape) for array in arrays)
    return scales, zero_points


def expressed_values(
    parameters: QuantizationParameters, shape: tuple[int, ...], seed: int
) -> NDArray[Any]:
    """For each value one of those at which a quantization with its scale goes wrong."""
    random = np.random.default_rng(seed)
    scales, zero_points = full(parameters, shape)
    with np.errstate(all="ignore"):
        chosen = [
            random.choice(edge_values(scale, zero_point, storage_of(parameters)))
            for scale, zero_point in zip(
                scales.ravel().tolist(), zero_points.ravel().tolist(), strict=True
            )
        ]
        return np.reshape(chosen, shape).astype(DTYPES[parameters.expressed])


def stored_values(
    parameters: QuantizationParameters, shape: tuple[int, ...], seed: int
) -> NDArray[Any]:
    """Stored values from one end of the range to the other."""
    low, high = parameters.storage_min, parameters.storage_max
    values = np.random.default_rng(seed).integers(low, high + 1, shape)
    return np.asarray(values).astype(parameters.storage_dtype)


def in_memory(values: NDArray[Any], layout: str) -> NDArray[Any]:
    """The same array in another order in memory."""
    if layout == "C":
        return np.array(values, order="C")
    if layout == "F":
        return np.array(values, order="F")
    if layout == "reversed":
        backwards = (..., *[slice(None, None, -1)] * values.ndim)
        return np.array(values[backwards])[backwards]
    spread = np.zeros([2 * size for size in values.shape], values.dtype)
    view = spread[(..., *[slice(None, None, 2)] * values.ndim)]
    view[...] = values
    return view


LAYOUTS = ("C", "F", "reversed", "spread")
