"""
Casts between floats and the stored values of a file, tensors of integers such as `ui8`.

`quant.scast` and `stablehlo.bitcast_convert` convert between stored values and quantized
values; `quant.qcast` and `quant.dcast` convert between quantized values and floats. Casts
are dynamic if scales or zero points depend on data, or if no `!quant.uniform` type can have
them: negative scales, a short last block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    bf16,
    f16,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    DequantizeCastOp,
    DynamicCastOp,
    DynamicDequantizeCastOp,
    DynamicQuantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
    uniform_type,
)
from xdsl_quant.dialects.quant.ops import rounding_attributes
from xdsl_quant.dialects.quant.storage_types import FloatStorageType
from xdsl_quant.dialects.quant.types import (
    UniformType,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.frontends.onnx.graph_builder import GraphBuilder
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.tensor_kinds import TENSOR_OR_PER_AXIS
from xdsl_quant.frontends.stablehlo.lowering.stablehlo_casts_to_quant import (
    ONNX_ROUNDING,
)
from xdsl_quant.numerics import QuantizationParameters, quantize
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import constant_attr, reinterpret_elements, shape_text
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.transforms.quant.quant_casts_from_dynamic import constant_type
from xdsl_quant.unsupported import Unsupported

from .element_types import convert_elements

Blocks: TypeAlias = "Mapping[int, int]"
"""Block size of each quantized dimension; empty for one scale."""


# Stored values


def as_signless(b: GraphBuilder, value: SSAValue) -> SSAValue:
    """Reinterpret integers without sign as signless ones."""
    type_ = element_type_of(value)
    if not isinstance(type_, IntegerType) or type_ == IntegerType(type_.bitwidth):
        return value
    type_ = IntegerType(type_.bitwidth)
    if isinstance(value.owner, stablehlo.ConstantOp):
        return b.add(
            stablehlo.ConstantOp(reinterpret_elements(value.owner.value, type_))
        )
    return b.op(
        stablehlo.BitcastConvertOp, (value,), TensorType(type_, shape_of(value))
    )


def _quantized_value(b: GraphBuilder, stored: SSAValue, type_: UniformType) -> SSAValue:
    """Return the quantized value with these stored values."""
    source = quantized_source(stored)
    result_type = with_element_type(stored.type, type_)
    if source is not None and _is_narrowed(element_type_of(source), type_):
        return source
    attribute = constant_attr(stored)
    if attribute is not None and TENSOR_OR_PER_AXIS.accepts(result_type):
        attribute = reinterpret_elements(attribute, type_.storage_type)
        return b.add(stablehlo.ConstantOp(attribute, result_type))
    return b.op(StorageCastOp, (as_signless(b, stored),), result_type)


def _is_narrowed(narrow: Attribute, type_: UniformType) -> bool:
    """Return True for a type, or the same type with a narrower storage range."""
    if narrow == type_:
        return True
    if not isinstance(narrow, UniformType) or not type_.has_integer_storage:
        return False
    (low, high), (narrow_low, narrow_high) = type_.storage_range, narrow.storage_range
    return (
        low <= narrow_low
        and narrow_high <= high
        and _with_storage_range(narrow, low, high) == type_
    )


def _with_storage_range(type_: UniformType, low: int, high: int) -> UniformType:
    """Return a type with another storage range."""
    parameters = QuantizationParameters.from_type(type_)
    return uniform_type(replace(parameters, storage_min=low, storage_max=high))


def clip_quantized(
    b: GraphBuilder, stored: SSAValue, low: float, high: float
) -> SSAValue | None:
    """
    Narrow the storage range of the cast that computes stored values, instead of clipping
    them.

    Args:
        b: insertion point.
        stored: the stored values.
        low: smallest stored value.
        high: largest stored value.

    Returns:
        The clipped stored values; `None` if no cast to an integer type computes them.
    """
    source = quantized_source(stored)
    if source is None or not isinstance(cast_op := source.owner, QuantizeCastOp):
        return None
    type_ = element_type_of(source)
    if not isinstance(type_, UniformType) or not type_.has_integer_storage:
        return None
    own_low, own_high = type_.storage_range
    low, high = max(int(low), own_low), min(int(high), own_high)
    if low >= high:
        return None
    result_type = with_element_type(source.type, _with_storage_range(type_, low, high))
    return stored_value(b, _add_cast(b, QuantizeCastOp(cast_op.input, result_type)))


def quantized_source(stored: SSAValue) -> SSAValue | None:
    """Return the quantized value whose stored values are these, or `None`."""
    if isinstance(stored.owner, stablehlo.BitcastConvertOp):
        stored = stored.owner.operand
    return stored.owner.input if isinstance(stored.owner, StorageCastOp) else None


def stored_value(b: GraphBuilder, quantized: SSAValue) -> SSAValue:
    """Return the stored values as the element type of a file, e.g. `ui8`."""
    type_ = cast(UniformType, element_type_of(quantized))
    stored = b.op(
        StorageCastOp,
        (quantized,),
        with_element_type(quantized.type, type_.stored_type),
    )
    return with_sign(b, stored, is_signed=type_.is_signed)


def with_sign(b: GraphBuilder, stored: SSAValue, *, is_signed: bool) -> SSAValue:
    """Reinterpret signless integers as those without sign, unless they are signed."""
    element_type = element_type_of(stored)
    if is_signed or not isinstance(element_type, IntegerType):
        return stored
    unsigned = IntegerType(element_type.bitwidth, Signedness.UNSIGNED)
    return b.op(
        stablehlo.BitcastConvertOp, (stored,), TensorType(unsigned, shape_of(stored))
    )


def _storage_of_file_type(element_type: Attribute) -> AnyQuantizedType | None:
    """Return the storage type for an element type of a file; `None` if there is none."""
    if isinstance(element_type, FloatStorageType):
        return AnyQuantizedType(element_type)
    if not isinstance(element_type, IntegerType) or element_type.bitwidth > 32:
        return None
    width = element_type.bitwidth
    return AnyQuantizedType(
        IntegerType(width), is_signed=element_type == IntegerType(width)
    )


# Casts


def dequantize_stored(
    b: GraphBuilder,
    stored: SSAValue,
    scale: SSAValue,
    zero_point: SSAValue | None = None,
    blocks: Blocks = {},
) -> SSAValue:
    """
    Dequantize stored values: `(stored - zero_point) * scale`.

    Args:
        b: insertion point.
        stored: integers, or floats of 4 or 8 bits.
        scale: one float for each block, of the type of the result.
        zero_point: one stored value, or float, for each block; `None` for zeros.
        blocks: block size of each quantized dimension.
    """
    element_type = element_type_of(stored)
    if isinstance(element_type, AnyFloat):
        # The zero point of floats is 0.
        zero_point = None
    elif zero_point is not None:
        _check_zero_point_type(zero_point, element_type)
    zero_point = _zero_points_per_scale(b, zero_point, scale)
    if (storage := _storage_of_cast(b, stored, zero_point)) is None:
        return _dequantize_with_plain_ops(b, stored, scale, zero_point, blocks)
    type_ = TensorType(element_type_of(scale), shape_of(stored))
    op = DynamicDequantizeCastOp(
        as_signless(b, stored), scale, zero_point, type_, storage, blocks
    )
    if (quantized_type := _type_of(op)) is None:
        return _add_cast(b, op)
    value = _quantized_value(b, stored, quantized_type)
    return _add_cast(b, DequantizeCastOp(value, type_))


def _divides_in_wider_type(expressed: Attribute, storage: AnyQuantizedType) -> bool:
    """Return True if `quant.qcast` divides in f32 because the type is too narrow."""
    return expressed == bf16 or (
        expressed == f16 and storage.storage_type_integral_width > 8
    )


def _storage_of_cast(
    b: GraphBuilder, stored: SSAValue, zero_point: SSAValue | None
) -> AnyQuantizedType | None:
    """
    Return the storage type of a dequantization; `None` if plain ops compute it. These
    round integers of 32 bits to f32 before they multiply, as onnxruntime does, which
    differs from `quant.dcast` for constants beyond 24 bits.
    """
    storage = _storage_of_file_type(element_type_of(stored))
    if zero_point is not None and isinstance(element_type_of(zero_point), AnyFloat):
        return None
    if storage is None or storage.storage_type_integral_width < 32:
        return storage
    known = b.known(stored)
    if known is None or zero_point is not None:
        return None
    is_exact = np.abs(known.astype(np.int64)).max(initial=0) <= 1 << 24
    return storage if is_exact else None


def quantize_to_stored(
    b: GraphBuilder,
    x: SSAValue,
    element_type: Attribute,
    scale: SSAValue,
    zero_point: SSAValue | None = None,
    blocks: Blocks = {},
    *,
    saturate: bool = True,
) -> SSAValue:
    """
    Quantize floats: `clamp(round(x / scale) + zero_point)`.

    Args:
        b: insertion point.
        x: floats.
        element_type: type of the result in a file, e.g. `ui8`.
        scale: one float for each block, in whose type the quotient is computed.
        zero_point: one stored value for each block; `None` for zeros.
        blocks: block size of each quantized dimension.
        saturate: whether 8-bit floats saturate; otherwise they become infinite or NaN.
    """
    x = b.convert(x, element_type_of(scale))
    storage = _storage_of_file_type(element_type)
    if storage is None or not storage.has_integer_storage:
        # `quant.qcast` has other results for NaN and infinities.
        x = _divide_by_scale(b, x, scale, blocks)
        return convert_elements(b, x, element_type, saturate=saturate)
    if _divides_in_wider_type(element_type_of(x), storage):
        x = b.convert(_divide_by_scale(b, x, scale, blocks), f32)
        scale = b.tensor(np.ones(shape_of(scale), np.float32))
    zero_point = _zero_points_per_scale(b, zero_point, scale)
    type_ = TensorType(storage.stored_type, shape_of(x))
    op = DynamicQuantizeCastOp(x, scale, zero_point, type_, storage, blocks)
    if (quantized_type := _type_of(op)) is None:
        return with_sign(b, _add_cast(b, op), is_signed=storage.is_signed)
    if (known := b.known(x)) is not None:
        return b.tensor(_quantize_constant(known, quantized_type), element_type)
    result_type = with_element_type(x.type, quantized_type)
    return stored_value(b, _add_cast(b, QuantizeCastOp(x, result_type)))


def _quantize_constant(x: Array, type_: UniformType) -> Array:
    parameters = QuantizationParameters.from_type(type_)
    return quantize(x, parameters, **ONNX_ROUNDING.arguments())


def _divide_by_scale(
    b: GraphBuilder, x: SSAValue, scale: SSAValue, blocks: Blocks
) -> SSAValue:
    factor = _repeat_parameters(b, scale, shape_of(x), blocks)
    return b.compute(stablehlo.DivideOp, x, factor)


def _type_of(op: DynamicCastOp) -> UniformType | None:
    """Return the type for the constant parameters of a cast, which is erased, or `None`."""
    op.verify_()
    if (type_ := constant_type(op)) is not None:
        op.erase()
    return type_


def _add_cast(b: GraphBuilder, op: Operation) -> SSAValue:
    """Insert a cast that states its rounding."""
    if isinstance(op, QuantizeCastOp | DynamicQuantizeCastOp):
        op.attributes |= rounding_attributes(ONNX_ROUNDING)
    elif scalar_or_element_type(op.results[0].type) != f32:
        # The rounding mode decides in which type narrow floats are computed.
        op.attributes["quant.rounding_mode"] = StringAttr(ONNX_ROUNDING.mode)
    return b.add(op)


def _dequantize_with_plain_ops(
    b: GraphBuilder,
    stored: SSAValue,
    scale: SSAValue,
    zero_point: SSAValue | None,
    blocks: Blocks,
) -> SSAValue:
    """Dequantize with plain ops; zero points may also be floats."""
    if zero_point is not None:
        if isinstance(type_ := element_type_of(zero_point), AnyFloat):
            stored = b.convert(stored, type_)
        zero_point = _repeat_parameters(b, zero_point, shape_of(stored), blocks)
        stored = b.compute(stablehlo.SubtractOp, stored, zero_point)
    numbers = b.convert(stored, element_type_of(scale))
    factor = _repeat_parameters(b, scale, shape_of(stored), blocks)
    return b.compute(stablehlo.MultiplyOp, numbers, factor)


def _repeat_parameters(
    b: GraphBuilder, parameter: SSAValue, shape: Sequence[int], blocks: Blocks
) -> SSAValue:
    """Repeat the parameters of blocks for all elements of the blocks."""
    if len(shape_of(parameter)) < len(shape):
        return b.broadcast(parameter, shape, [*blocks])
    for axis, size in blocks.items():
        if size == 1:
            continue
        *outer, count = shape_of(parameter)[: axis + 1]
        inner = shape_of(parameter)[axis + 1 :]
        rank = len(shape) + 1
        dimensions = [d for d in range(rank) if d != axis + 1]
        parameter = b.broadcast(parameter, (*outer, count, size, *inner), dimensions)
        parameter = b.reshape_to(parameter, (*outer, count * size, *inner))
        limits = (*outer, shape[axis], *inner)
        parameter = b.slice(parameter, [0] * len(shape), limits)
    return b.broadcast(parameter, shape)


# Parameters


def parameter_of(b: GraphBuilder, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """Return scales or zero points with another shape; a single one is repeated."""
    sizes = shape_of(value)
    if sizes == (*shape,):
        return value
    is_single = prod(sizes) == 1
    if not is_single and prod(sizes) != prod(shape):
        raise Unsupported(
            f"has scales or zero points of shape {shape_text(sizes)}; expected "
            f"{shape_text(shape)}"
        )
    if (known := b.known(value)) is not None:
        array = known.reshape(()) if is_single else known.reshape(shape)
        return b.tensor(np.broadcast_to(array, shape).copy(), element_type_of(value))
    if is_single:
        return b.broadcast(b.reshape_to(value, ()), shape, [])
    return b.reshape_to(value, shape)


def _check_zero_point_type(zero_point: SSAValue, storage: Attribute) -> None:
    type_ = element_type_of(zero_point)
    if type_ != storage and not isinstance(type_, AnyFloat):
        raise Unsupported(
            f"has zero points of type '{type_}' for stored values of type '{storage}'"
        )


def _zero_points_per_scale(
    b: GraphBuilder, zero_point: SSAValue | None, scale: SSAValue
) -> SSAValue | None:
    """Return the zero points as signless integers, one for each scale; `None` for zeros."""
    if zero_point is None:
        return None
    if (known := b.known(zero_point)) is not None and not known.any():
        return None
    return parameter_of(b, as_signless(b, zero_point), shape_of(scale))
