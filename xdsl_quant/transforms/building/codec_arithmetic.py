"""
How casts to and from codes of small floats, and indices of a table, become ops.

Arithmetic is that of casts of integers, and what is rounded at its end are not integers.
No op has a small float as its type but `arith.bitcast`: the conversions are those of
[`small_floats`][xdsl_quant.transforms.building.small_floats]. The nearest number of a table
is found by a binary search for the step that it belongs to. The module documentation of
`lower-quant-ops` says what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType, i32
from xdsl.ir import SSAValue

from xdsl_quant.dialects.quant import StoredQuantizedType
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
    Dequantization,
    IntegerStorage,
    StorageArithmetic,
    dense,
)
from .small_floats import decoded, encoded

_where = cast(Any, np).where


class FloatStorage(StorageArithmetic):
    """Numbers that are stored as small floats."""

    @cached_property
    def format(self) -> SmallFloat:
        """The format of stored values."""
        return small_float(self.casts.quantized_type.stored_type.name)

    def store(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        bounds = low, high = float_bounds(
            self.format, self.casts.quantized_type.storage_range
        )
        number = FloatExpression(builder, value)
        if self.casts.rounding.nan == "stored-zero" and low < 0:
            number = _where(number.is_nan(), min(0.0, high), number)
        # The maximum of NaN and a number is the number.
        number = number.number_maximum(low).number_minimum(high)
        if not low or not high:
            # Either of both zeros may be the maximum or minimum of them.
            number += 0.0
        number = FloatExpression(builder, number.value, bounds, may_be_nan=False)
        code = encoded(number, self.format, saturate=True)
        return builder.op(arith.BitcastOp, (code,), self.casts.element_type)

    def load(self, builder: LoweringBuilder, stored: SSAValue) -> SSAValue:
        code = builder.op(arith.BitcastOp, (stored,), self.casts.storage)
        return decoded(builder, code, self.format).as_float(self.casts.computed).value


class TableStorage(StorageArithmetic):
    """Numbers that are stored as indices of a table."""

    _outside: Sequence[SSAValue] = ()
    """The tables, while there is a loop around the ops."""

    @cached_property
    def _parameters(self) -> QuantizationParameters:
        return QuantizationParameters.from_type(self.casts.quantized_type)

    @cached_property
    def numbers(self) -> Floats:
        """
        The numbers of the table, in the type of the arithmetic.

        Raises:
            ValueError: if there is no such table.
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
        """Constants in which elements are looked up, while they are not outside."""
        if self._outside:
            return self._outside
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
        self._outside = ()
        if builder is not None:
            self._outside = self._tables(builder)

    def store(self, builder: LoweringBuilder, value: SSAValue) -> SSAValue:
        starts, *indices = self._tables(builder)
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
        low, high = self.casts.quantized_type.storage_range
        is_smallest = self.casts.rounding.nan == "storage-min"
        nan = low if is_smallest else min(max(0, low), high)
        # NaN is not beyond any step.
        if nan != known[0]:
            index = cast(IntegerExpression, _where(number.is_nan(), nan, index))
        return index.as_type(self.casts.storage)

    def load(self, builder: LoweringBuilder, stored: SSAValue) -> SSAValue:
        (table,) = self._tables(builder)
        width = self.casts.storage.width.data
        index = IntegerExpression(builder, stored, signed_bounds(width))
        if not self._parameters.is_signed:
            index = index & ((1 << width) - 1)
        # What is not stored for any value must not be read from beyond the table.
        index = index - self._parameters.table_min
        index = index.maximum(0).minimum(len(self.numbers) - 1)
        return _element(builder, table, index)


def _element(
    builder: LoweringBuilder, table: SSAValue, index: IntegerExpression
) -> SSAValue:
    type_ = cast(TensorType, table.type).element_type
    return builder.op(tensor.ExtractOp, (table, index.as_index()), type_)


def storage_arithmetic(
    quantized_type: StoredQuantizedType,
    rounding: Rounding,
    *,
    is_quantization: bool,
    has_zero_points: bool,
) -> tuple[type[StorageArithmetic], Rounding]:
    """
    Return how numbers of a type are stored, and the rounding of casts to it.

    Raises:
        ValueError: if nothing is rounded like this, or a table has indices that cannot be
            stored.
        ImportError: if a table is looked up in a type of `ml_dtypes`, which is not
            installed.
    """
    if quantized_type.has_integer_storage:
        return IntegerStorage, rounding
    name = quantized_type.short_storage_name
    if is_quantization and (
        reason := rounding.unsupported(name, False, has_zero_points)
    ):
        raise ValueError(reason)
    # Only what becomes of NaN is left to choose.
    rounding = Rounding(nan=rounding.nan)
    if not isinstance(quantized_type.storage_type, QuantileType):
        return FloatStorage, rounding
    casts = Dequantization(quantized_type, rounding, True, TableStorage)
    _ = cast(TableStorage, casts.stored).numbers
    return TableStorage, rounding
