"""Values of many distributions, and the ranges that onnxruntime finds for them."""

import contextlib
import io
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray


def distributions(size: int = 200_000) -> dict[str, NDArray[np.float32]]:
    """Values that activations may have, by the names of their distributions."""
    random = np.random.default_rng(0)
    values = {
        "normal": random.standard_normal(size),
        "laplace": random.laplace(size=size),
        "t3": random.standard_t(3, size),
        "t2": random.standard_t(2, size),
        "lognormal": random.lognormal(size=size),
    }
    for name in tuple(values):
        values[f"relu({name})"] = np.maximum(values[name], 0)
        values[f"relu({name} - 1)"] = np.maximum(values[name] - 1, 0)
    is_zero = random.random(size) < 0.99
    values["99 % zeros"] = np.where(is_zero, 0, random.standard_normal(size))
    values["softmax"] = _softmax(2 * random.standard_normal((size // 100, 100)))
    return {name: array.astype(np.float32) for name, array in values.items()}


def _softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return (powers / powers.sum(axis=1, keepdims=True)).ravel()


def onnxruntime_range(values: NDArray[np.float32]) -> tuple[float, float]:
    """The range that the entropy calibration of onnxruntime finds by default."""
    calibrate: Any = import_module("onnxruntime.quantization.calibrate")
    collector = calibrate.HistogramCollector(
        method="entropy",
        symmetric=False,
        num_bins=128,
        num_quantized_bins=128,
        percentile=99.999,
        scenario="same",
    )
    # It prints how far it is.
    with contextlib.redirect_stdout(io.StringIO()):
        collector.collect({"values": [values]})
        low, high, *_ = collector.compute_collection_result()["values"]
    return float(low), float(high)
