"""
How casts to and from codes of small floats, and indices of a table, become ops.

Arithmetic is that of casts of integers, and what is rounded at its end are not integers.
No op has a small float as its type but `arith.bitcast`: the conversions are those of
[`small_floats`][xdsl_quant.transforms.building.small_floats]. The nearest number of a table
is found by a binary search for the step that it belongs to. The module documentation of
`lower-quant-ops` says what is computed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType, i32
from xdsl.ir import SSAValue

from xdsl_quant.dialects.quant import ScaledQuantizedType
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
    Quantization,
    dense,
)
from .small_floats import decoded, encoded
from .tensor_traversal import Layout

_where = cast(Any, np).where


class _FloatCast(CastArithmetic):
    @cached_property
    def format(self) -> SmallFloat:
        """The format of stored values."""
        return small_float(self.quantized_type.stored_type.name)


class FloatQuantization(_FloatCast, Quantization):
    """Small floats for expressed values."""

    def store(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        bounds = low, high = float_bounds(
            self.format, self.quantized_type.storage_range
        )
        number = FloatExpression(builder, value)
        if self.rounding.nan == "stored-zero" and low < 0:
            number = _where(number.is_nan(), min(0.0, high), number)
        # The maximum of NaN and a number is the number.
        number = number.number_maximum(low).number_minimum(high)
        if not low or not high:
            # Either of both zeros may be the maximum or minimum of them.
            number += 0.0
        number = FloatExpression(builder, number.value, bounds, may_be_nan=False)
        code = encoded(number, self.format, saturate=True)
        return builder.op(arith.BitcastOp, (code,), self.element_type)


class FloatDequantization(_FloatCast, Dequantization):
    """Expressed values of small floats."""

    def load(self, builder: LoweringBuilder, stored: SSAValue) -> SSAValue:
        code = builder.op(arith.BitcastOp, (stored,), self.storage)
        return decoded(builder, code, self.format).as_float(self._compute).value


class _TableCast(CastArithmetic):
    _constants_outside: Sequence[SSAValue] = ()
    """The tables, while there is a loop around the ops."""

    @cached_property
    def _parameters(self) -> QuantizationParameters:
        return QuantizationParameters.from_type(self.quantized_type)

    @cached_property
    def numbers(self) -> Floats:
        """The numbers of the table, in the type of the arithmetic."""
        dtype = float_dtype(self._compute.name)
        return rounded(cast(Floats, self._parameters.table), dtype).astype(np.float64)

    def check(self) -> None:
        """Raise a `ValueError` if there is no such table."""
        _ = self.numbers

    @abstractmethod
    def tables(self, builder: LoweringBuilder) -> Sequence[SSAValue]:
        """Constants in which elements are looked up."""

    def convert_tensor(
        self, builder: LoweringBuilder, value: SSAValue, layout: Layout | None
    ) -> SSAValue:
        self._constants_outside = self.tables(builder)
        result = super().convert_tensor(builder, value, layout)
        self._constants_outside = ()
        return result

    def known_tables(self, builder: LoweringBuilder) -> Sequence[SSAValue]:
        """The tables of a loop that is being built, or of a scalar."""
        return self._constants_outside or self.tables(builder)

    def constant_table(
        self,
        builder: LoweringBuilder,
        values: Sequence[float],
        type_: AnyFloat | IntegerType,
    ) -> SSAValue:
        """A constant with one dimension."""
        attr = dense(values, type_, [len(values)])
        return builder.constant(attr, attr.type)


def _element(
    builder: LoweringBuilder, table: SSAValue, index: IntegerExpression
) -> SSAValue:
    type_ = cast(TensorType, table.type).element_type
    return builder.op(tensor.ExtractOp, (table, index.as_index()), type_)


class TableQuantization(_TableCast, Quantization):
    """Indices of a table for expressed values."""

    @cached_property
    def _steps(self) -> tuple[Floats, Integers]:
        parameters = self._parameters
        first = parameters.table_min
        part = self.numbers[
            parameters.storage_min - first : parameters.storage_max - first + 1
        ]
        starts, indices = nearest_steps(part, float_dtype(self._compute.name))
        return starts, indices + parameters.storage_min

    @property
    def _is_ascending(self) -> bool:
        _, indices = self._steps
        return bool((np.diff(indices) == 1).all())

    def tables(self, builder: LoweringBuilder) -> Sequence[SSAValue]:
        starts, indices = self._steps
        size = (1 << len(starts).bit_length()) - 1
        padded = np.pad(starts, (0, size - len(starts)), constant_values=np.inf)
        tables = [self.constant_table(builder, padded.tolist(), self._compute)]
        if not self._is_ascending:
            tables.append(self.constant_table(builder, indices.tolist(), i32))
        return tables

    def store(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        starts, *indices = self.known_tables(builder)
        number = FloatExpression(builder, value)
        known = self._steps[1].tolist()
        place = IntegerExpression(builder, builder.number(0, i32), (0, 0))
        for bit in reversed(range(len(self._steps[0]).bit_length())):
            middle = place + ((1 << bit) - 1)
            start = FloatExpression(builder, _element(builder, starts, middle))
            place = place + ((number > start).number << bit)
        place = IntegerExpression(builder, place.value, (0, len(known) - 1))
        index = place + known[0]
        if indices:
            value = _element(builder, indices[0], place)
            index = IntegerExpression(builder, value, (min(known), max(known)))
        low, high = self.quantized_type.storage_range
        nan = low if self.rounding.nan == "storage-min" else min(max(0, low), high)
        # NaN is not beyond any step.
        if nan != known[0]:
            index = cast(IntegerExpression, _where(number.is_nan(), nan, index))
        return index.as_type(self.storage)


class TableDequantization(_TableCast, Dequantization):
    """Expressed values of indices of a table."""

    def tables(self, builder: LoweringBuilder) -> Sequence[SSAValue]:
        values = self.numbers.tolist()
        return [self.constant_table(builder, values, self._compute)]

    def load(self, builder: LoweringBuilder, stored: SSAValue) -> SSAValue:
        (table,) = self.known_tables(builder)
        width = self.storage.width.data
        index = IntegerExpression(builder, stored, signed_bounds(width))
        if not self._parameters.is_signed:
            index = index & ((1 << width) - 1)
        # What is not stored for any value must not be read from beyond the table.
        index = index - self._parameters.table_min
        index = index.maximum(0).minimum(len(self.numbers) - 1)
        return _element(builder, table, index)


def codec_cast(
    quantized_type: ScaledQuantizedType, rounding: Rounding, is_quantization: bool
) -> CastArithmetic:
    """
    What becomes of an element that is cast to or from a type whose stored values are floats
    or indices.

    Raises:
        ValueError: if nothing is rounded like this, or a table has indices that cannot be
            stored.
        ImportError: if a table is looked up in a type of `ml_dtypes`, which is not
            installed.
    """
    has_zero_points = quantized_type.zero_point_range != (0, 0)
    name = quantized_type.short_storage_name
    if is_quantization and (
        reason := rounding.unsupported(name, False, has_zero_points)
    ):
        raise ValueError(reason)
    # Only what becomes of NaN is left to choose.
    rounding = Rounding(nan=rounding.nan)
    if isinstance(quantized_type.storage_type, QuantileType):
        kind = TableQuantization if is_quantization else TableDequantization
        found = kind(quantized_type, rounding, fuse=True)
        found.check()
        return found
    kind = FloatQuantization if is_quantization else FloatDequantization
    return kind(quantized_type, rounding, fuse=True)
