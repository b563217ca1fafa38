"""
How often integer arithmetic gives another stored value than arithmetic with floats.

`python -m tests.agreement.stablehlo_distances` prints the first table of
`docs/measured/stablehlo.md`.
"""

from collections.abc import Iterator

import numpy as np

from tests.unit.frontends.stablehlo.lowering.stablehlo_evaluation import (
    FLOAT_MEANING,
    Array,
    evaluate,
)
from tests.unit.frontends.stablehlo.lowering.stablehlo_programs import (
    dot_general,
    elementwise,
    function,
    quantization,
    stored_values,
    tensor,
)
from xdsl_quant.numerics import QuantizationParameters

SIZE = 256

ZERO_POINTS = {
    "i4": (1, -2, 0),
    "i8": (3, -50, 7),
    "u8": (131, 9, 77),
    "i16": (-300, 0, 5),
}
"""For each storage type those of both operands and of the result."""

TO_INTEGER = "stablehlo-legalize-quant-to-integer"


def _counts(text: str, *arguments: Array) -> Array:
    """How many stored values are 0, 1, ... units apart."""
    (floats,) = evaluate(text, FLOAT_MEANING, *arguments)
    (integers,) = evaluate(text, TO_INTEGER, *arguments)
    distances = np.abs(integers.astype(np.int64) - floats.astype(np.int64))
    return np.bincount(distances.ravel(), minlength=2)


def _types(storage: str, *scales: float) -> list[QuantizationParameters]:
    return [
        quantization(storage, scale, zero_point)
        for scale, zero_point in zip(scales, ZERO_POINTS[storage], strict=True)
    ]


def _weights(storage: str) -> QuantizationParameters:
    return quantization(storage, np.linspace(0.01, 0.02, SIZE), axis=1)


def _elementwise(op: str, storage: str, *scales: float) -> Array:
    shape = (SIZE, SIZE)
    *operands, result = _types(storage, *scales)
    if op in ("negate", "uniform_quantize"):
        operands = operands[:1]
    stored = [stored_values(i, shape, p) for i, p in enumerate(operands)]
    return _counts(elementwise(op, shape, operands, result), *stored)


def _result_scale(storage: str, count: int) -> float:
    """A scale for sums of so many products of 0.3 and 0.02, few of which saturate."""
    rhs = quantization(storage, 1.0)
    mean = rhs.storage_max / 2 if storage == "u8" else 0.0
    spread = (rhs.storage_max - rhs.storage_min) / 12**0.5
    offset = ZERO_POINTS[storage][0] - (rhs.storage_max + rhs.storage_min + 1) / 2
    typical = (
        abs(offset) * (mean * count + spread * count**0.5) + spread**2 * count**0.5
    )
    return 0.3 * 0.02 * typical * 3 / rhs.storage_max


def _dot_general(storage: str) -> Array:
    lhs, _, result = _types(storage, 0.3, 1.0, _result_scale(storage, SIZE))
    rhs = _weights(storage)
    shape = (SIZE, SIZE)
    stored = stored_values(0, shape, lhs), stored_values(1, shape, rhs)
    return _counts(dot_general((SIZE, SIZE, SIZE), lhs, rhs, result), *stored)


def _convolution(storage: str) -> Array:
    lhs, _, result = _types(storage, 0.3, 1.0, _result_scale(storage, 144))
    rhs = quantization(storage, np.linspace(0.01, 0.02, 16), axis=3)
    shapes = (4, 32, 32, 16), (3, 3, 16, 16)
    text = function(
        [tensor(shapes[0], lhs), tensor(shapes[1], rhs)],
        tensor((4, 32, 32, 16), result),
        "stablehlo.convolution(%0, %1) "
        "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        "window = {pad = [[1, 1], [1, 1]]} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}",
    )
    stored = stored_values(0, shapes[0], lhs), stored_values(1, shapes[1], rhs)
    return _counts(text, *stored)


def distances() -> Iterator[tuple[str, str, Array]]:
    """Op, storage type, and how many of 65536 results are 0, 1, ... units apart."""
    for op in ("add", "subtract", "multiply", "maximum", "negate", "uniform_quantize"):
        for storage in ZERO_POINTS:
            largest = quantization(storage, 1.0).storage_max
            scale = 0.3 * 0.11 * largest if op == "multiply" else 0.37
            yield f"`{op}`", storage, _elementwise(op, storage, 0.3, 0.11, scale)
    for storage in ZERO_POINTS:
        yield "`dot_general`", storage, _dot_general(storage)
        yield "`convolution`", storage, _convolution(storage)
    # Every other result lies in the middle of two stored values.
    for op in ("add", "uniform_quantize"):
        name = f"`{op}`, scales 1 to 2"
        yield name, "i8", _elementwise(op, "i8", 1.0, 1.0, 2.0)


def _print_table() -> None:
    print("| op | storage | equal | 1 apart | more |")
    print("|---|---|---:|---:|---:|")
    for op, storage, counts in distances():
        print(f"| {op} | `{storage}` | {counts[0]} | {counts[1]} | {sum(counts[2:])} |")


if __name__ == "__main__":
    _print_table()
