"""Fourier transforms, as products with constant matrices: `DFT` and `STFT`."""

from collections.abc import Mapping

import numpy as np
from xdsl.ir import SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .indexing import take


def _matrix(
    length: int, sizes: tuple[int, int], parts: tuple[int, int], *, is_inverse: bool
) -> Array:
    """
    Return the matrix of a transform.

    Args:
        length: length `N` of the transform.
        sizes: number of operand and of result elements.
        parts: number of real numbers of an operand and of a result element: 2, or 1 for
            real numbers.
        is_inverse: whether the transform is the inverse one, divided by `N`.

    Returns:
        `f64` array with operand parts as rows, and result parts as columns.
    """
    indices = np.multiply.outer(np.arange(sizes[0]), np.arange(sizes[1])) % length
    angles = 2 * np.pi * indices / length
    cosine, sine = np.cos(angles), (-1 if is_inverse else 1) * np.sin(angles)
    if is_inverse:
        weights = np.ones(sizes[0])
        if sizes[0] < length:
            # Each of the other elements also stands for its conjugate.
            weights[1 : (length + 1) // 2] = 2
        cosine, sine = (each * weights[:, None] / length for each in (cosine, sine))
    blocks = np.array([[cosine, -sine], [sine, cosine]])[: parts[0], : parts[1]]
    return blocks.transpose(2, 0, 3, 1).reshape(
        sizes[0] * parts[0], sizes[1] * parts[1]
    )


def _transform(
    b: GraphBuilder,
    x: SSAValue,
    axis: int,
    length: int,
    *,
    is_inverse: bool = False,
    is_onesided: bool = False,
) -> SSAValue:
    """Transform complex numbers, whose parts the last dimension has, along an axis."""
    rank, (*_, parts) = len(shape_of(x)), b.static_shape(x)
    order = [*(d for d in range(rank - 1) if d != axis), axis, rank - 1]
    value = b.permute(x, order)
    half = length // 2 + 1
    size = half if is_inverse and is_onesided else length
    count = half if is_onesided and not is_inverse else length
    result_parts = 1 if is_inverse and is_onesided else 2
    missing = size - shape_of(value)[-2]
    amounts = [missing if d == rank - 2 else 0 for d in range(rank)]
    zero = b.scalar(0, element_type_of(x))
    value = b.pad(value, zero, [0] * rank, amounts) if missing else value
    outer = shape_of(value)[:-2]
    b.check_count(size * parts * count * result_parts)
    matrix = _matrix(
        length, (size, count), (parts, result_parts), is_inverse=is_inverse
    )
    weights = b.convert(b.tensor(matrix), element_type_of(x))
    rows = b.reshape_to(value, (*outer, size * parts))
    numbers = stablehlo.DotDimensionNumbersAttr([], [], [len(outer)], [0])
    product = b.add(
        stablehlo.DotGeneralOp(rows, weights, dot_dimension_numbers=numbers)
    )
    product = b.reshape_to(product, (*outer, count, result_parts))
    return b.permute(product, [order.index(d) for d in range(rank)])


def _check_parts(b: GraphBuilder, x: SSAValue) -> None:
    *outer, parts = b.static_shape(x)
    if not outer or parts not in (1, 2):
        raise Unsupported(f"has numbers of {parts} parts; expected 1 or 2")


def _dft(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    length: SSAValue | None = None,
    axis: SSAValue | None = None,
) -> SSAValue:
    _check_parts(b, x)
    default = node.integer("axis", 1) if node.version < 20 else -2
    number = default if axis is None else int(b.single_number(axis, "axes"))
    (number,) = b.axes([number], len(shape_of(x)))
    is_inverse, is_onesided = node.flag("inverse"), node.flag("onesided")
    size = shape_of(x)[number]
    if is_inverse and is_onesided:
        size = 2 * (size - 1)
    count = size if length is None else int(b.single_number(length, "lengths"))
    if count < 1:
        raise Unsupported(f"has length {count}; expected a positive number")
    return _transform(
        b, x, number, count, is_inverse=is_inverse, is_onesided=is_onesided
    )


def _stft(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    step: SSAValue,
    window: SSAValue | None = None,
    frame_length: SSAValue | None = None,
) -> SSAValue:
    _check_parts(b, x)
    _, size, _ = b.static_shape(x)
    stride = int(b.single_number(step, "steps"))
    lengths = [] if window is None else [*b.static_shape(window)]
    if frame_length is not None:
        lengths.append(int(b.single_number(frame_length, "frame lengths")))
    length = lengths[-1] if lengths else size
    if stride < 1 or not 1 <= length <= size or len({*lengths}) > 1:
        raise Unsupported(
            f"has steps of {stride} and lengths {lengths} for {size} elements"
        )
    starts = np.arange(0, size - length + 1, stride)
    frames = take(b, x, b.tensor(starts[:, None] + np.arange(length)), 1)
    if window is not None:
        weights = b.broadcast(window, shape_of(frames), [2])
        frames = b.compute(stablehlo.MultiplyOp, frames, weights)
    is_onesided = node.flag("onesided", default=True)
    return _transform(b, frames, 2, length, is_onesided=is_onesided)


FOURIER: Mapping[str, Conversion] = {"DFT": _dft, "STFT": _stft}
"""Conversions of Fourier transforms, by op."""
