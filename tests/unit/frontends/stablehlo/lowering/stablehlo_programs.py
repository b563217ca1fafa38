"""Functions of one quantized StableHLO op, and stored values for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from xdsl_quant.dialects.quant import uniform_type
from xdsl_quant.numerics import QuantizationParameters

Array = NDArray[Any]


def quantization(
    storage: str,
    scale: ArrayLike,
    zero_point: int = 0,
    *,
    axis: int | None = None,
    expressed: str = "f32",
    bounds: tuple[int, int] | None = None,
) -> QuantizationParameters:
    """A quantization; the zero point is that of all scales."""
    low, high = bounds or (None, None)
    return QuantizationParameters(
        scale,
        np.full_like(np.asarray(scale), zero_point, np.int64),
        storage=storage,
        storage_min=low,
        storage_max=high,
        expressed=expressed,
        quantized_dimension=axis,
    )


def tensor(shape: Sequence[int], quantized: QuantizationParameters) -> str:
    """The text of a tensor type."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{uniform_type(quantized)}>"


def function(operands: Sequence[str], result: str, op: str) -> str:
    """A function `f` with operands `%0`, `%1`, ... of an op given without its types."""
    parameters = ", ".join(f"%{i}: {type_}" for i, type_ in enumerate(operands))
    return (
        f"func.func @f({parameters}) -> {result} {{\n"
        f"  %r = {op} : ({', '.join(operands)}) -> {result}\n"
        f"  return %r : {result}\n}}\n"
    )


def elementwise(
    op: str,
    shape: Sequence[int],
    operands: Sequence[QuantizationParameters],
    result: QuantizationParameters,
) -> str:
    """`stablehlo.op %0, ...`"""
    names = ", ".join(f"%{i}" for i in range(len(operands)))
    return function(
        [tensor(shape, operand) for operand in operands],
        tensor(shape, result),
        f"stablehlo.{op} {names}",
    )


def dot_general(
    size: tuple[int, int, int],
    lhs: QuantizationParameters,
    rhs: QuantizationParameters,
    result: QuantizationParameters,
) -> str:
    """A product of matrices `m x k` and `k x n`, for a size of `m`, `k`, `n`."""
    m, k, n = size
    return function(
        [tensor((m, k), lhs), tensor((k, n), rhs)],
        tensor((m, n), result),
        "stablehlo.dot_general %0, %1, contracting_dims = [1] x [0]",
    )


@dataclass(frozen=True)
class Window:
    """The window of a convolution of `4x6x5x4` by `4x3x2x6`, and the result's shape."""

    text: str
    shape: tuple[int, int, int, int]
    kernel: tuple[int, int, int, int] = (3, 2, 4, 6)
    groups: tuple[int, int] = (1, 1)
    """Of features, and of the batch."""


INPUT_SHAPE = (4, 6, 5, 4)

WINDOWS = [
    Window("", (4, 4, 4, 6)),
    Window("stride = [2, 1], pad = [[1, 2], [0, 1]]", (4, 4, 5, 6)),
    Window("pad = [[-1, 2], [3, -2]], lhs_dilate = [2, 1]", (4, 10, 5, 6)),
    Window("pad = [[2, 2], [1, 1]], rhs_dilate = [2, 3], reverse = [true, false]",
           (4, 6, 4, 6)),
    Window("pad = [[1, 1], [0, 0]]", (4, 6, 4, 6), (3, 2, 2, 6), (2, 1)),
    Window("pad = [[1, 1], [0, 0]]", (2, 6, 4, 6), (3, 2, 4, 6), (1, 2)),
]  # fmt: skip


def convolution(
    window: Window,
    lhs: QuantizationParameters,
    rhs: QuantizationParameters,
    result: QuantizationParameters,
) -> str:
    """A convolution of `[b, 0, 1, f]` by `[0, 1, i, o]`."""
    features, batches = window.groups
    return function(
        [tensor(INPUT_SHAPE, lhs), tensor(window.kernel, rhs)],
        tensor(window.shape, result),
        "stablehlo.convolution(%0, %1) "
        "dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{{window.text}}} {{batch_group_count = {batches} : i64, "
        f"feature_group_count = {features} : i64}}",
    )


def stored_values(
    seed: int, shape: Sequence[int], quantized: QuantizationParameters
) -> Array:
    """Random stored values, the smallest and the largest one among them."""
    low, high = quantized.storage_min, quantized.storage_max
    values = np.random.default_rng(seed).integers(low, high + 1, shape)
    values.flat[:2] = low, high
    return values.astype(quantized.storage_dtype)
