"""
Accuracy of quantization with the ranges of the observers, compared with onnxruntime.

Each cell is the signal-to-quantization-noise ratio (SQNR) in dB of 200,000 values
quantized to `i8` with the range of the observer, widened to contain 0. The column
*onnxruntime* is the entropy calibration of onnxruntime with its default options, which
returns the range of all values here.

*One outlier* is the SQNR of 200,000 normal values without the outlier, for the range of
the 99.99th percentile of all values including it. *Exact* uses the exact percentiles of
NumPy.
"""

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Options, Target, main, number, table, targets
from tests.unit.numerics.distributions import distributions, onnxruntime_range
from xdsl_quant.numerics import choose_parameters, measure_error
from xdsl_quant.numerics.observers import parse_observer

_OBSERVERS = ("min-max", "percentile=99.99", "entropy", "mse")


def _observed_range(observer: str, values: NDArray[np.float32]) -> tuple[float, float]:
    known = parse_observer(observer)
    low, high = known.ranges(known.observe(values))
    return float(low), float(high)


def _sqnr(values: NDArray[np.float32], bounds: tuple[float, float]) -> float:
    low, high = bounds
    parameters = choose_parameters(min(low, 0.0), max(high, 0.0))
    return float(measure_error(values, parameters).sqnr)


def _distributions(options: Options) -> Iterator[str]:
    rows = {
        name: [_sqnr(values, _observed_range(each, values)) for each in _OBSERVERS]
        for name, values in distributions().items()
    }
    header = ["SQNR in dB", *_OBSERVERS]
    if not find_spec("onnxruntime"):
        yield table(header, ([name, *map(number, row)] for name, row in rows.items()))
        return
    for name, values in distributions().items():
        rows[name].append(_sqnr(values, onnxruntime_range(values)))
    yield table(
        [*header, "onnxruntime"],
        ([name, *map(number, row)] for name, row in rows.items()),
    )
    entropy = _OBSERVERS.index("entropy")
    worst = max(row[-1] - row[entropy] for row in rows.values())
    claim = "entropy: SQNR at most 0.5 dB less than that of onnxruntime"
    yield targets([Target(claim, worst, 0.5, " dB less")])


def _outliers(options: Options) -> Iterator[str]:
    values = distributions()["normal"]
    outliers = (4e3, 4e4, 4e5, 4e7)
    exact = tuple(np.percentile(values, [0.005, 99.995]).tolist())
    found = [
        _observed_range("percentile=99.99", np.append(values, np.float32(outlier)))
        for outlier in outliers
    ]
    yield table(
        ["one outlier", "exact", *(f"{outlier:g}" for outlier in outliers)],
        [["SQNR in dB", *(number(_sqnr(values, each)) for each in (exact, *found))]],
    )


def report(options: Options) -> Iterator[str]:
    """Yield all tables and targets."""
    yield from _distributions(options)
    yield from _outliers(options)


if __name__ == "__main__":
    main(__doc__, report)
