"""The op `Quant` of QONNX, with which Brevitas and FINN write integers of any width."""

from collections.abc import Mapping

import numpy as np
from xdsl.ir import SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .operand_checks import with_operand_checks
from .stored_values import clip_quantized, dequantize_stored, quantize_to_stored


def _storage_range(node: Node, bits: float) -> tuple[int, int]:
    """Return the smallest and the largest stored value."""
    width = int(bits)
    if width != bits or not 2 <= width <= 16:
        raise Unsupported(f"bit width is {bits:g}; expected an integer from 2 to 16")
    is_narrow = node.flag("narrow")
    if node.flag("signed", default=True):
        half = 1 << (width - 1)
        return is_narrow - half, half - 1
    return 0, (1 << width) - 1 - is_narrow


def _axis(shape: tuple[int, ...], rank: int) -> int | None:
    """Return the dimension of a scale that broadcasts to a tensor, `None` for one scale."""
    axes = [d + rank - len(shape) for d, size in enumerate(shape) if size != 1]
    if len(axes) > 1:
        raise Unsupported("has scales along several dimensions; expected one")
    return axes[0] if axes else None


def _stored_zero_points(zero_points: Array, low: int, high: int) -> Array:
    """Return zero points as integers of 8 or 16 bits, which contain the stored values."""
    if (zero_points % 2).any():
        raise Unsupported("has odd or fractional zero points; expected even numbers")
    dtype = np.dtype(f"{'i' if low < 0 else 'u'}{1 if high - low < 256 else 2}")
    info = np.iinfo(dtype)
    if not ((info.min <= zero_points) & (zero_points <= info.max)).all():
        raise Unsupported(
            f"has zero points out of range; expected {info.min} to {info.max}"
        )
    return zero_points.astype(dtype)


def _quant(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    scale: SSAValue,
    zero_point: SSAValue,
    bits: SSAValue,
) -> SSAValue:
    """Convert to two casts: QONNX adds the zero point before it rounds."""
    mode = node.text("rounding_mode", "ROUND").upper()
    if mode != "ROUND":
        raise Unsupported(f"unknown rounding_mode '{mode}'; expected ROUND")
    low, high = _storage_range(node, b.single_number(bits, "bit widths"))
    scales, zero_points = b.array(scale, "scales"), b.array(zero_point, "zero points")
    axis = _axis(scales.shape, len(shape_of(x)))
    scales = scales.reshape(() if axis is None else -1)
    try:
        zero_points = np.broadcast_to(zero_points.reshape(-1), scales.shape or 1)
    except ValueError:
        raise Unsupported("has other numbers of zero points and scales") from None
    zero_points = _stored_zero_points(zero_points.reshape(scales.shape), low, high)
    parameters = b.tensor(scales), b.tensor(zero_points)
    blocks = {} if axis is None else {axis: 1}
    element_type = element_type_of(parameters[1])
    stored = quantize_to_stored(b, x, element_type, *parameters, blocks)
    if (known := b.known(stored)) is not None:
        stored = b.tensor(np.clip(known, low, high).astype(zero_points.dtype))
    else:
        stored = clip_quantized(b, stored, low, high)
    if stored is None:
        raise Unsupported("has unsupported scales; expected positive normal numbers")
    return dequantize_stored(b, stored, *parameters, blocks)


QONNX: Mapping[str, Conversion] = {
    f"{domain}.Quant": with_operand_checks(_quant, (0, 1, 2, 3), 4)
    for domain in ("onnx.brevitas", "qonnx.custom_op.general")
}
"""Conversion of `Quant`, in its domains."""
