"""
Softmax of 8-bit stored values with the integers of onnxruntime.

A table has the powers `exp((index - 255) * scale)`, scaled so that their sum fits 32 bits;
the largest value has the index 255. A result is a quotient of integers, rounded half up:
`(power * floor(1 / result_scale) + total / 2) / total + zero_point`.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, i32, i64
from xdsl.ir import SSAValue

from xdsl_quant.dialects.quant import ScaledQuantizedType, StorageCastOp
from xdsl_quant.dialects.quant.types import with_element_type
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.building import StableHLOBuilder
from xdsl_quant.frontends.stablehlo.dialect.elementwise import BinaryOp
from xdsl_quant.numerics.primitives import Integers
from xdsl_quant.runtime.arrays import elements_attr
from xdsl_quant.transforms.building.builder import element_type_of, shape_of

from .elementwise import storage_of, widen_stored

_LARGEST_TOTAL = 2**32 - 1


def _power_table(scale: float, count: int) -> Integers:
    exponents = (np.arange(256) - 255) * scale + np.log(_LARGEST_TOTAL / count)
    return np.rint(np.exp(exponents)).astype(np.int64)


def _f32_scale(type_: ScaledQuantizedType) -> float:
    return float(type_.get_scales().astype(np.float32))


def _broadcast_like(
    b: StableHLOBuilder, value: SSAValue, other: SSAValue, dimensions: Sequence[int]
) -> SSAValue:
    """Broadcast a value to the shape of another one, whose sizes may be dynamic."""
    shape = shape_of(other)
    if DYNAMIC_INDEX not in shape:
        return b.broadcast(value, shape, dimensions)
    sizes: list[SSAValue] = []
    for axis, size in enumerate(shape):
        if size != DYNAMIC_INDEX:
            sizes.append(b.splat(size, TensorType(i32, (1,))))
            continue
        dynamic = b.add(stablehlo.GetDimensionSizeOp(other, dimension=axis))
        sizes.append(b.reshape_to(dynamic, (1,)))
    return b.add(
        stablehlo.DynamicBroadcastInDimOp(
            value,
            b.concatenate(sizes, 0),
            result_types=[TensorType(element_type_of(value), shape)],
            broadcast_dimensions=dimensions,
        )
    )


def _integer_op(
    b: StableHLOBuilder, op_type: type[BinaryOp], value: SSAValue, other: SSAValue | int
) -> SSAValue:
    """Build an op on 64-bit integers, one of which may be constant."""
    if isinstance(other, int):
        is_static = DYNAMIC_INDEX not in (shape := shape_of(value))
        known = b.splat(other, TensorType(i64, shape if is_static else ()))
        other = _broadcast_like(b, known, value, ())
    return b.op(op_type, (value, other), value.type)


def _along_axis(
    b: StableHLOBuilder, op_type: type[BinaryOp], value: SSAValue, start: int, axis: int
) -> SSAValue:
    """Build a reduction, broadcast to the shape of its operand."""
    others = [d for d in range(len(shape_of(value))) if d != axis]
    return _broadcast_like(b, b.reduce(op_type, value, start, [axis]), value, others)


def _table_entries(b: StableHLOBuilder, table: Integers, indices: SSAValue) -> SSAValue:
    numbers = stablehlo.GatherDimensionNumbersAttr(
        [], [0], [], [], [0], len(shape_of(indices))
    )
    entries = b.add(stablehlo.ConstantOp(elements_attr(table, i64)))
    return b.add(
        stablehlo.GatherOp(entries, indices, dimension_numbers=numbers, slice_sizes=[1])
    )


def build_integer_softmax(
    b: StableHLOBuilder, operand: SSAValue, target: ScaledQuantizedType, axis: int
) -> SSAValue:
    """
    Build the stored values of a softmax.

    Args:
        b: insertion point.
        operand: tensor with one scale and 8-bit storage; the size of `axis` is static.
        target: per-tensor type of the result.
        axis: dimension along which the results sum to 1.
    """
    source, size = element_type_of(operand), shape_of(operand)[axis]
    assert isinstance(source, ScaledQuantizedType)
    stored = b.op(StorageCastOp, (operand,), storage_of(operand.type))
    type_ = with_element_type(operand.type, i64)
    x = b.op(arith.ExtSIOp, (widen_stored(b, stored, source),), type_)
    largest = _along_axis(b, stablehlo.MaximumOp, x, -256, axis)
    distances = _integer_op(b, stablehlo.SubtractOp, x, largest)
    indices = _integer_op(b, stablehlo.AddOp, distances, 255)
    powers = _table_entries(b, _power_table(_f32_scale(source), size), indices)
    total = _along_axis(b, stablehlo.AddOp, powers, 0, axis)
    factor = int(np.float32(1) / np.float32(_f32_scale(target)))
    scaled = _integer_op(b, stablehlo.MultiplyOp, powers, factor)
    half = _integer_op(b, stablehlo.DivideOp, total, 2)
    rounded = _integer_op(b, stablehlo.AddOp, scaled, half)
    quotients = _integer_op(b, stablehlo.DivideOp, rounded, total)
    zero_point = int(target.get_zero_points())
    result = _integer_op(b, stablehlo.AddOp, quotients, zero_point)
    result = b.clamp(result, *target.storage_range)
    return b.op(arith.TruncIOp, (result,), storage_of(operand.type))
