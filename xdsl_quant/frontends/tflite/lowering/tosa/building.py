"""
TOSA builder and operands with quantization parameters.

Stored values are signless: `tensor<4x!quant.uniform<i8:f32, 0.5>>` becomes
`tensor<4xi8>`. Ops compute `u8` stored values as `i8`, with 128 subtracted from stored
values and zero points.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import tosa
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
    f16,
    f32,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant.types import (
    ScaledQuantizedType,
    StoredQuantizedType,
    scalar_or_element_type,
)
from xdsl_quant.frontends.tflite.formulas.fixed_point import Multiplier
from xdsl_quant.frontends.tosa import ops as tosa_ops
from xdsl_quant.frontends.tosa.rescale import (
    DOUBLE_ROUND,
    SINGLE_ROUND,
    Rescale,
    constant,
)
from xdsl_quant.machines.expression import ANY_INTEGER, Bounds, signed_bounds
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    element_type_of,
    shape_of,
)
from xdsl_quant.unsupported import Unsupported

from ..fallbacks import SIZES_HINT
from ..kernels.computation import parameters_of

i48 = IntegerType(48)
LARGEST_FLOAT = float(np.finfo(np.float32).max)

ui8 = IntegerType(8, Signedness.UNSIGNED)


# Types


def is_unsigned(type_: Attribute) -> bool:
    """Return True if the (stored) elements of a tensor are unsigned."""
    element_type = scalar_or_element_type(type_)
    if isinstance(element_type, StoredQuantizedType):
        return not element_type.is_signed
    return element_type == ui8


def lowered_type(type_: Attribute) -> TensorType:
    """
    Return the TOSA type of the elements or stored values of a tensor.

    Raises:
        Unsupported: if TOSA does not support the type.
    """
    if not isinstance(type_, TensorType):
        raise Unsupported(f"has the type '{type_}', expected a ranked tensor")
    shape = type_.get_shape()
    if DYNAMIC_INDEX in shape:
        raise Unsupported(f"has the type '{type_}' with a dynamic shape; {SIZES_HINT}")
    if 0 in shape:
        raise Unsupported(f"has the type '{type_}', which is empty")
    element_type = cast(Attribute, type_.element_type)
    if isinstance(element_type, ScaledQuantizedType):
        if (reason := element_type.unsupported_storage) is not None:
            raise Unsupported(f"has the type '{type_}': {reason}")
        width = element_type.storage_type.bitwidth
        if not element_type.is_signed and width != 8:
            raise Unsupported(f"has unsigned storage of {width} bits, expected 8")
        element_type = i8 if width <= 8 else IntegerType(width)
    if element_type == ui8:
        element_type = i8
    if element_type not in (i1, i8, i16, i32, i64, f16, f32):
        raise Unsupported(
            f"has elements of type '{element_type}', expected i1, i8, i16, i32, "
            "i64, f16 or f32"
        )
    return TensorType(element_type, shape)


# Building


class TosaBuilder(LoweringBuilder):
    """Builder of TOSA ops on tensors with static shapes."""

    assumes_32_bits: bool = False
    """True to treat integers as 32-bit even if their computed bounds are larger."""

    def tosa(
        self,
        op_type: type[Operation],
        operands: Sequence[SSAValue],
        shape: Sequence[int],
        element_type: Attribute,
        **properties: Attribute,
    ) -> SSAValue:
        """Build an op with one result."""
        type_ = TensorType(element_type, shape)
        return self.op(op_type, operands, type_, properties)

    def array(self, values: Any, element_type: Attribute) -> SSAValue:
        return constant(self, values, element_type)

    def one(self, value: float, element_type: Attribute) -> SSAValue:
        """Return a constant tensor of shape `[1]`."""
        return self.array([value], element_type)

    def shape(self, sizes: Sequence[int]) -> SSAValue:
        return self.add(tosa_ops.ConstShapeOp([int(size) for size in sizes]))

    def rescale(
        self,
        value: SSAValue,
        multiplier: Multiplier,
        element_type: Attribute = i32,
        input_zp: int = 0,
        output_zp: int = 0,
    ) -> SSAValue:
        """
        Build a `tosa.rescale` that rounds as TensorFlow Lite does: twice for 32-bit
        values; once, with a 16-bit multiplier, for 48-bit sums.

        Args:
            value: integers.
            multiplier: per-tensor, or one for each index of the last dimension.
            element_type: type of the result, which saturates.
            input_zp: zero point that is subtracted first.
            output_zp: zero point that is added last.

        Raises:
            Unsupported: if TOSA does not support the multiplier or shift.
        """
        values, shifts = (np.atleast_1d(x) for x in (multiplier[0], 31 - multiplier[1]))
        is_wide = element_type_of(value) == i48
        if is_wide:
            values = np.where(values < 0x7FFF0000, (values + (1 << 15)) >> 16, 0x7FFF)
            shifts = shifts - 16
        if shifts.min() < 2 or shifts.max() > 62:
            raise Unsupported(
                f"has shifts from {shifts.min()} to {shifts.max()}, expected 2 to 62"
            )
        if values.min() < 0:
            raise Unsupported(
                f"has a multiplier of {values.min()}, expected at least 0"
            )
        # Zero-point-corrected 8-bit values have 9 bits; 16-bit ones have no zero point.
        type_ = element_type_of(value)
        needed = 1 << 8 if type_ == i8 else 1 << 15 if type_ == i16 else 0
        if (limit := 1 << (int(shifts.min()) - 1)) < needed:
            raise Unsupported(
                f"has a shift of {shifts.min()}, for which TOSA supports only "
                f"values below {limit}"
            )
        rescale = Rescale(
            values,
            shifts,
            input_zp,
            output_zp,
            SINGLE_ROUND if is_wide else DOUBLE_ROUND,
            scale32=not is_wide,
        )
        return rescale.build(self, value, TensorType(element_type, shape_of(value)))

    def reinterpret(self, value: SSAValue, *, to_signed: bool) -> SSAValue:
        """Reinterpret `u8` as `i8` by subtracting 128, or the inverse."""
        rescale = Rescale(
            np.array([1 << 30]),
            np.array([30]),
            128 if to_signed else 0,
            0 if to_signed else 128,
            input_unsigned=to_signed,
            output_unsigned=not to_signed,
        )
        return rescale.build(self, value, TensorType(i8, shape_of(value)))

    def cast_elements(self, value: SSAValue, element_type: Attribute) -> SSAValue:
        """Cast the elements with `tosa.cast`."""
        if element_type_of(value) == element_type:
            return value
        return self.tosa(tosa_ops.CastOp, (value,), shape_of(value), element_type)

    def clamp(self, value: SSAValue, low: float, high: float) -> SSAValue:
        type_ = element_type_of(value)
        if type_ == f32:
            limits = FloatAttr(low, f32), FloatAttr(high, f32)
        else:
            integer = cast(IntegerType, type_)
            limits = IntegerAttr(int(low), integer), IntegerAttr(int(high), integer)
        return self.tosa(
            tosa.ClampOp,
            (value,),
            shape_of(value),
            type_,
            max_val=limits[1],
            min_val=limits[0],
        )

    def clamp_stored(self, value: SSAValue, low: int, high: int) -> SSAValue:
        """Clamp stored values to `low` and `high` unless this is the range of the type."""
        width = cast(IntegerType, element_type_of(value)).bitwidth
        if low <= -(1 << (width - 1)) and high >= (1 << (width - 1)) - 1:
            return value
        return self.clamp(value, low, high)

    def binary(
        self,
        op_type: type[Operation],
        lhs: SSAValue,
        rhs: SSAValue,
        result_type: Attribute | None = None,
        **properties: Attribute,
    ) -> SSAValue:
        """Build an elementwise op on operands, broadcast as in NumPy."""
        shape = np.broadcast_shapes(shape_of(lhs), shape_of(rhs))
        lhs, rhs = (self.with_rank(operand, len(shape)) for operand in (lhs, rhs))
        type_ = result_type or element_type_of(lhs)
        return self.tosa(op_type, (lhs, rhs), shape, type_, **properties)

    # Shapes

    def with_shape(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        if shape_of(value) == tuple(shape):
            return value
        operands = value, self.shape(shape)
        return self.tosa(tosa_ops.ReshapeOp, operands, shape, element_type_of(value))

    def with_rank(self, value: SSAValue, rank: int) -> SSAValue:
        shape = shape_of(value)
        return self.with_shape(value, (*[1] * (rank - len(shape)), *shape))

    def permute(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        if [*order] == [*range(len(order))]:
            return value
        shape = shape_of(value)
        return self.tosa(
            tosa_ops.TransposeOp,
            (value,),
            [shape[axis] for axis in order],
            element_type_of(value),
            perms=DenseArrayBase.from_list(i32, [int(axis) for axis in order]),
        )

    def slice(
        self, value: SSAValue, start: Sequence[int], sizes: Sequence[int]
    ) -> SSAValue:
        if shape_of(value) == tuple(sizes):
            return value
        operands = value, self.shape(start), self.shape(sizes)
        return self.tosa(tosa_ops.SliceOp, operands, sizes, element_type_of(value))

    def tile(self, value: SSAValue, counts: Sequence[int]) -> SSAValue:
        if {*counts} <= {1}:
            return value
        shape = [a * b for a, b in zip(shape_of(value), counts, strict=True)]
        operands = value, self.shape(counts)
        return self.tosa(tosa_ops.TileOp, operands, shape, element_type_of(value))

    def pad(
        self, value: SSAValue, pads: Sequence[tuple[int, int]], fill: float
    ) -> SSAValue:
        if not any(map(any, pads)):
            return value
        shape = [s + sum(pad) for s, pad in zip(shape_of(value), pads, strict=True)]
        type_ = element_type_of(value)
        flat = [size for pad in pads for size in pad]
        operands = value, self.shape(flat), self.one(fill, type_)
        return self.tosa(tosa_ops.PadOp, operands, shape, type_)

    def concatenate(self, values: Sequence[SSAValue], axis: int) -> SSAValue:
        if len(values) == 1:
            return values[0]
        shape = [*shape_of(values[0])]
        shape[axis] = sum(shape_of(value)[axis] for value in values)
        return self.tosa(
            tosa.ConcatOp,
            values,
            shape,
            element_type_of(values[0]),
            axis=IntegerAttr(axis, i32),
        )

    def gather(self, value: SSAValue, indices: NDArray[Any]) -> SSAValue:
        """Gather elements by flat indices, in the shape of the indices."""
        size = int(np.prod(shape_of(value), dtype=np.int64))
        flat = self.with_shape(value, (1, size, 1))
        is_wide = element_type_of(value) == i64
        positions = self.array(indices.reshape(1, -1), i64 if is_wide else i32)
        return self.with_shape(self.gather_rows(flat, positions), indices.shape)

    def gather_rows(self, values: SSAValue, indices: SSAValue) -> SSAValue:
        """Gather rows of `[batch, row, column]` by `[batch, index]`."""
        type_ = element_type_of(values)
        if type_ == i1:
            # `tosa.gather` does not support i1.
            return self.cast_elements(
                self.gather_rows(self.cast_elements(values, i8), indices), i1
            )
        if type_ == i64:
            # Indices must have the width of the values.
            indices = self.cast_elements(indices, i64)
        shape = *shape_of(indices), shape_of(values)[2]
        return self.tosa(tosa_ops.GatherOp, (values, indices), shape, type_)

    def reduce(self, op_type: type[Operation], value: SSAValue, axis: int) -> SSAValue:
        """Build a reduction along `axis`; the result has size 1 there."""
        shape = [*shape_of(value)]
        shape[axis] = 1
        axis_attr = IntegerAttr(axis, i32)
        return self.tosa(
            op_type, (value,), shape, element_type_of(value), axis=axis_attr
        )


# Operands


@dataclass
class Operand:
    """Operand of the op being lowered."""

    builder: TosaBuilder

    type: Attribute
    """Type before the lowering."""

    value: SSAValue
    """Stored values, minus 128 for `u8`."""

    @property
    def bounds(self) -> Bounds:
        """Range of the (stored) integers."""
        if (parameters := parameters_of(self.type)) is not None:
            return parameters.storage_min, parameters.storage_max
        if is_unsigned(self.type):
            return 0, 255
        width = cast(IntegerType, element_type_of(self.value)).bitwidth
        return ANY_INTEGER if width >= 32 else signed_bounds(width)


def per_tensor(type_: Attribute) -> QuantizationParameters:
    """
    Return per-tensor quantization parameters.

    Raises:
        Unsupported: if the type is not quantized, or not per-tensor.
    """
    if (parameters := parameters_of(type_)) is None:
        raise Unsupported("has operands or results that are not quantized")
    if parameters.scales.ndim:
        raise Unsupported("has per-axis quantized values")
    return parameters
