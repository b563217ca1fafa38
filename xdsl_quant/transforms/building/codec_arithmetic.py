"""
Lowering of casts whose stored values are small floats or table indices, and of
block-scaled casts with their scales, zero points and offsets.

The arithmetic is that of integer casts, except that the final rounding is to a small float
or to a table entry. `arith.bitcast` is the only op on small floats, because neither MLIR
nor LLVM converts all small float types. A binary search over the rounding boundaries finds
the nearest entry of a table. The documentation of `lower-quant-ops` defines the results.
"""

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
    f16,
    f32,
    f64,
    i16,
    i32,
)
from xdsl.ir import SSAValue

from xdsl_quant.dialects.quant import BlockScaledQuantizedType, ScaledQuantizedType
from xdsl_quant.dialects.quant.storage_types import QuantileType
from xdsl_quant.machines.arith import FloatExpression, IntegerExpression
from xdsl_quant.machines.expression import signed_bounds
from xdsl_quant.numerics.arrays import Floats, Integers
from xdsl_quant.numerics.codecs import float_bounds, nearest_steps
from xdsl_quant.numerics.float_dtypes import float_dtype, rounded
from xdsl_quant.numerics.parameters import QuantizationParameters
from xdsl_quant.numerics.small_floats import SmallFloat, small_float
from xdsl_quant.rounding_mode import Rounding

from .builder import LoweringBuilder
from .quantization_arithmetic import (
    CastArithmetic,
    Dequantization,
    IntegerStorage,
    Quantization,
    StorageArithmetic,
    dense,
)
from .tensor_traversal import ElementConversion, Layout, Operands

_where = cast(Any, np.where)


# Small floats


def encode_small_float(
    number: FloatExpression, format: SmallFloat, *, saturate: bool = False
) -> SSAValue:
    """
    Encode a number as a small float, with the result of
    [`SmallFloat.encode`][xdsl_quant.numerics.small_floats.SmallFloat.encode].

    Args:
        number: of type f16, bf16, f32 or f64; its bounds may exclude NaN, which saves
            ops.
        format: the small float format.
        saturate: clamp numbers and infinities to the range of the format first.

    Returns:
        The bit pattern, an integer with the bit width of the format.
    """
    is_double = number.type == f64
    floats = number if is_double else number.as_float(f32)
    code = cast(
        IntegerExpression,
        format.codes_of(floats, is_double=is_double, saturate=saturate),
    )
    return code.as_type(IntegerType(format.bits))


def decode_small_float(
    builder: LoweringBuilder, code: SSAValue, format: SmallFloat
) -> FloatExpression:
    """
    Decode a small float to f32, with the result of
    [`SmallFloat.decode`][xdsl_quant.numerics.small_floats.SmallFloat.decode].

    Args:
        builder: inserts the ops.
        code: the bit pattern, an integer with the bit width of the format.
        format: the small float format.

    Raises:
        ValueError: for `f8E5M2FNUZ`, where bit patterns of f16 infinities are numbers.
    """
    signed = IntegerExpression(builder, code, signed_bounds(format.bits))
    if not format.is_signed:
        return _power_of_two(signed)
    if not format.is_part_of_f16:
        raise ValueError(
            f"unsupported format {format.name}: codes cannot be extended to f16"
        )
    is_part = format.exponent_bits == 5
    number = _as_f16(builder, code, format).as_float(f32)
    value = number * math.ldexp(1.0, 15 - format.bias)
    if is_part or format.nan is None:
        return value
    magnitude = signed & (format.sign_bit - 1)
    is_nan = (
        signed == -format.sign_bit
        if format.nan == format.sign_bit
        else magnitude > format.largest_code
    )
    nan = FloatExpression(builder, builder.number(math.nan, f32))
    value = _where(is_nan, nan.copysign(value), value)
    if format.infinity is not None:
        value = _where(magnitude == format.infinity, number * math.inf, value)
    return value


def _as_f16(
    builder: LoweringBuilder, code: SSAValue, format: SmallFloat
) -> FloatExpression:
    """Widen a bit pattern to f16; its value is the number times a power of two."""
    # Move the sign bit to that of f16 and clear the bits in between.
    zeros = 10 - format.mantissa_bits
    mask = builder.number((format.sign_bit - 1 << zeros) - (1 << 15), i16)
    bits = builder.op(arith.ExtSIOp, (code,), i16)
    bits = builder.op(arith.ShLIOp, (bits, builder.number(zeros, i16)), i16)
    bits = builder.op(arith.AndIOp, (bits, mask), i16)
    return FloatExpression(builder, builder.op(arith.BitcastOp, (bits,), f16))


def _power_of_two(code: IntegerExpression) -> FloatExpression:
    unsigned = code & 255
    power = (unsigned << 23).bits_as_float(f32)
    power = _where(unsigned == 0, math.ldexp(1.0, -127), power)
    return _where(unsigned == 255, math.nan, power)


# Storage


class FloatStorage(StorageArithmetic):
    """Small floats as stored values."""

    @cached_property
    def format(self) -> SmallFloat:
        """Format of the stored values."""
        return small_float(self.casts.quantized_type.stored_type.name)

    def store(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        bounds = low, high = float_bounds(
            self.format, self.casts.quantized_type.storage_range
        )
        number = FloatExpression(builder, value)
        if self.casts.rounding.nan == "stored-zero" and low < 0:
            number = _where(number.is_nan(), min(0.0, high), number)
        # `maxnumf` returns the other operand for NaN, so NaN becomes the lower limit.
        number = number.number_maximum(low).number_minimum(high)
        if not low or not high:
            # The result may be a zero of either sign: make it +0.
            number += 0.0
        number = FloatExpression(builder, number.value, bounds, may_be_nan=False)
        code = encode_small_float(number, self.format, saturate=True)
        return builder.op(arith.BitcastOp, (code,), self.casts.element_type)

    def load(self, builder: LoweringBuilder, stored: SSAValue) -> SSAValue:
        code = builder.op(arith.BitcastOp, (stored,), self.casts.storage)
        return (
            decode_small_float(builder, code, self.format)
            .as_float(self.casts.computed)
            .value
        )


class TableStorage(StorageArithmetic):
    """Table indices as stored values."""

    _hoisted_tables: Sequence[SSAValue] = ()
    """Tables built before the enclosing loop; empty outside of loops."""

    @cached_property
    def _parameters(self) -> QuantizationParameters:
        return QuantizationParameters.from_type(self.casts.quantized_type)

    @cached_property
    def numbers(self) -> Floats:
        """
        Entries of the table, rounded to the compute type.

        Raises:
            ValueError: if the table is missing.
        """
        dtype = float_dtype(self.casts.computed.name)
        return rounded(cast(Floats, self._parameters.table), dtype).astype(np.float64)

    @cached_property
    def _steps(self) -> tuple[Floats, Integers]:
        parameters = self._parameters
        first = parameters.table_min
        part = self.numbers[
            parameters.storage_min - first : parameters.storage_max - first + 1
        ]
        starts, indices = nearest_steps(part, float_dtype(self.casts.computed.name))
        return starts, indices + parameters.storage_min

    def _tables(self, builder: LoweringBuilder) -> Sequence[SSAValue]:
        """Return the lookup tables, built now unless they were built before the loop."""
        if self._hoisted_tables:
            return self._hoisted_tables
        if isinstance(self.casts, Dequantization):
            return [self._table(builder, self.numbers, self.casts.computed)]
        starts, indices = self._steps
        size = (1 << len(starts).bit_length()) - 1
        padded = np.pad(starts, (0, size - len(starts)), constant_values=np.inf)
        tables = [self._table(builder, padded, self.casts.computed)]
        if (np.diff(indices) != 1).any():
            tables.append(self._table(builder, indices, i32))
        return tables

    def _table(
        self,
        builder: LoweringBuilder,
        values: Floats | Integers,
        type_: AnyFloat | IntegerType,
    ) -> SSAValue:
        attr = dense(values.tolist(), type_, [len(values)])
        return builder.constant(attr, attr.type)

    def enter_loop(self, builder: LoweringBuilder | None) -> None:
        self._hoisted_tables = ()
        if builder is not None:
            self._hoisted_tables = self._tables(builder)

    def store(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        starts, *indices = self._tables(builder)
        number = FloatExpression(builder, value)
        stored_indices = self._steps[1].tolist()
        position = IntegerExpression(builder, builder.number(0, i32), (0, 0))
        for bit in reversed(range(len(self._steps[0]).bit_length())):
            middle = position + ((1 << bit) - 1)
            start = FloatExpression(builder, _element(builder, starts, middle))
            position = position + ((number > start).number << bit)
        position = IntegerExpression(
            builder, position.value, (0, len(stored_indices) - 1)
        )
        index = position + stored_indices[0]
        if indices:
            value = _element(builder, indices[0], position)
            index = IntegerExpression(
                builder, value, (min(stored_indices), max(stored_indices))
            )
        low, high = self.casts.quantized_type.storage_range
        is_smallest = self.casts.rounding.nan == "storage-min"
        nan = low if is_smallest else min(max(0, low), high)
        # NaN exceeds no boundary, so the search ends at the first index.
        if nan != stored_indices[0]:
            index = cast(IntegerExpression, _where(number.is_nan(), nan, index))
        return index.as_type(self.casts.storage)

    def load(self, builder: LoweringBuilder, stored: SSAValue) -> SSAValue:
        (table,) = self._tables(builder)
        width = self.casts.storage.width.data
        index = IntegerExpression(builder, stored, signed_bounds(width))
        if not self._parameters.is_signed:
            index = index & ((1 << width) - 1)
        # A value out of the storage range must not read beyond the table.
        index = index - self._parameters.table_min
        index = index.maximum(0).minimum(len(self.numbers) - 1)
        return _element(builder, table, index)


def _element(
    builder: LoweringBuilder, table: SSAValue, index: IntegerExpression
) -> SSAValue:
    type_ = cast(TensorType, table.type).element_type
    return builder.op(tensor.ExtractOp, (table, index.as_index()), type_)


def storage_arithmetic(
    quantized_type: ScaledQuantizedType,
    rounding: Rounding,
    *,
    is_quantization: bool,
    has_zero_points: bool = False,
) -> tuple[type[StorageArithmetic], Rounding]:
    """
    Return the class of a type's storage arithmetic, and the rounding of casts.

    Raises:
        ValueError: for an unsupported rounding, or a table with indices out of range.
        ImportError: if the table needs a type of `ml_dtypes`, which is not installed.
    """
    if quantized_type.has_integer_storage:
        return IntegerStorage, rounding
    name = quantized_type.short_storage_name
    has_zero_points |= quantized_type.zero_point_range != (0, 0)
    if is_quantization and (
        reason := rounding.unsupported(name, False, has_zero_points)
    ):
        raise ValueError(reason)
    # For these types only the result for NaN can be chosen.
    rounding = Rounding(nan=rounding.nan)
    if not isinstance(quantized_type.storage_type, QuantileType):
        return FloatStorage, rounding
    casts = Dequantization(quantized_type, rounding, True, TableStorage)
    _ = cast(TableStorage, casts.stored).numbers
    return TableStorage, rounding


# Blocks


class BlockScaledArithmetic(CastArithmetic, ABC):
    """
    Arithmetic shared by casts to and from a block-scaled type.

    Scales, zero points and offsets of blocks are constants of the compute type, which
    represents them exactly.

    Args:
        quantized_type: the type.
        rounding: the rounding of quantization.

    Raises:
        ValueError: for an unsupported rounding, or a missing or damaged resource.
        ImportError: if a package is missing.
    """

    def __init__(self, quantized_type: BlockScaledQuantizedType, rounding: Rounding):
        self.blocks = quantized_type.get_blocks()
        self.numbers = quantized_type.get_numbers()
        """Arrays of block parameters: scales, and zero points and offsets if any."""
        elements = quantized_type.element_quantized_type
        storage_kind, rounding = storage_arithmetic(
            elements,
            rounding,
            is_quantization=isinstance(self, Quantization),
            has_zero_points="zero_points" in self.numbers,
        )
        super().__init__(elements, rounding, True, storage_kind)
        self.expressed = quantized_type.expressed_type
        self.multiplies = False

    @property
    def layout(self) -> Layout | None:
        if not self.blocks:
            return None
        counts = {axis: count for axis, (count, _) in self.blocks.items()}
        sizes = {axis: size for axis, (_, size) in self.blocks.items()}
        return Layout(counts, sizes, last_may_be_shorter=True)

    def constants(self, builder: LoweringBuilder) -> Operands:
        numbers = self.numbers.items()
        return {name: self.number(builder, n.item()) for name, n in numbers}

    def constant_tensors(
        self, shape: tuple[int, ...]
    ) -> Mapping[str, DenseIntOrFPElementsAttr]:
        return {
            name: dense(numbers.ravel().tolist(), self.computed, shape)
            for name, numbers in self.numbers.items()
        }


class BlockDequantization(BlockScaledArithmetic, Dequantization):
    """Dequantization of a block-scaled type."""


class BlockQuantization(BlockScaledArithmetic, Quantization):
    """Quantization to a block-scaled type. Quotients by a scale of 0 are 0."""

    def quotient(
        self, builder: LoweringBuilder, value: SSAValue, scale: SSAValue
    ) -> SSAValue:
        value = super().quotient(builder, value, scale)
        if self.numbers["scales"].all():
            return value
        zero = self.number(builder, 0.0)
        is_zero = builder.add(arith.CmpfOp(scale, zero, "oeq"))
        return self.float_op(builder, arith.SelectOp, is_zero, zero, value)


def block_or_codec_cast(
    quantized_type: ScaledQuantizedType | BlockScaledQuantizedType,
    rounding: Rounding,
    is_quantization: bool,
) -> ElementConversion:
    """
    Return the conversion to or from a block-scaled type, or a type whose stored values
    are small floats or table indices.

    Raises:
        ValueError: for an unsupported rounding or table, or a missing resource.
        ImportError: if a package is missing.
    """
    if isinstance(quantized_type, BlockScaledQuantizedType):
        kind = BlockQuantization if is_quantization else BlockDequantization
        return kind(quantized_type, rounding)
    storage_kind, rounding = storage_arithmetic(
        quantized_type, rounding, is_quantization=is_quantization
    )
    kind = Quantization if is_quantization else Dequantization
    return kind(quantized_type, rounding, True, storage_kind)
