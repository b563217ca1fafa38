"""How the scales, zero points and offsets of blocks become ops on numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    ScaledQuantizedType,
    StoredNumbersAttr,
)
from xdsl_quant.rounding_mode import Rounding

from .builder import LoweringBuilder
from .codec_arithmetic import codec_cast
from .quantization_arithmetic import CastArithmetic, Dequantization, Quantization
from .tensor_traversal import ElementConversion, Layout

_ROUNDING_OPS: Mapping[str, type[Operation]] = {
    "nearest-even": math_dialect.RoundEvenOp,
    "nearest-away": math_dialect.RoundOp,
}


@dataclass(eq=False)
class BlockScaledArithmetic(ElementConversion, ABC):
    """
    What casts to and from a block-scaled type have in common.

    Numbers of blocks are constants of the type to compute in. All of them are exact in it.
    """

    quantized_type: BlockScaledQuantizedType
    rounding: Rounding

    _constants: dict[tuple[int, ...], Mapping[str, DenseIntOrFPElementsAttr]] = field(
        default_factory=dict[tuple[int, ...], Mapping[str, DenseIntOrFPElementsAttr]],
        init=False,
    )

    def __post_init__(self) -> None:
        self.expressed = self.quantized_type.expressed_type
        self.computed = self.quantized_type.compute_type

    @property
    def layout(self) -> Layout | None:
        blocks = self.quantized_type.get_blocks()
        if not blocks:
            return None
        counts = {axis: count for axis, (count, _) in blocks.items()}
        sizes = {axis: size for axis, (_, size) in blocks.items()}
        return Layout(counts, sizes, last_may_be_shorter=True)

    @cached_property
    def numbers(self) -> Mapping[str, NDArray[np.float64]]:
        """
        What each block has.

        Raises:
            ValueError: if it is in a resource that is missing or damaged.
        """
        return self.quantized_type.get_numbers()

    def parameters(
        self, builder: LoweringBuilder, layout: Layout
    ) -> Mapping[str, SSAValue]:
        shape = layout.shape
        if shape not in self._constants:
            self._constants[shape] = {
                name: _dense(numbers, self.computed, shape)
                for name, numbers in self.numbers.items()
            }
        return builder.constants(self._constants[shape])

    @cached_property
    @abstractmethod
    def elements(self) -> CastArithmetic:
        """
        How elements are stored.

        Raises:
            ValueError: if nothing is rounded like this.
            ImportError: if a package is missing.
        """

    def cast_of_elements(
        self, integer_cast: type[Quantization | Dequantization]
    ) -> CastArithmetic:
        """The cast of what is stored, without what blocks have."""
        type_ = self.quantized_type.element_quantized_type
        if type_.has_integer_storage:
            return integer_cast(type_, self.rounding, fuse=True)
        is_quantization = integer_cast is Quantization
        if is_quantization and (
            reason := self.rounding.unsupported(
                type_.short_storage_name,
                False,
                isinstance(self.quantized_type.zero_points, StoredNumbersAttr),
            )
        ):
            raise ValueError(reason)
        return codec_cast(type_, self.rounding, is_quantization)

    def operands(
        self, builder: LoweringBuilder, parameters: Sequence[SSAValue]
    ) -> Mapping[str, SSAValue]:
        """What the block of an element has, which is known for a type with one block."""
        if parameters:
            return dict(zip(self.numbers, parameters, strict=True))
        return {
            name: builder.number(float(number), self.computed)
            for name, number in self.numbers.items()
        }

    def float_op(
        self, builder: LoweringBuilder, op_type: type[Operation], *operands: SSAValue
    ) -> SSAValue:
        return builder.op(op_type, operands, self.computed)

    def as_type(
        self, builder: LoweringBuilder, value: SSAValue, type_: AnyFloat
    ) -> SSAValue:
        """A float, rounded to another type."""
        source = cast(AnyFloat, value.type)
        if source == type_:
            return value
        is_wider = type_.bitwidth > source.bitwidth
        return builder.op(arith.ExtFOp if is_wider else arith.TruncFOp, (value,), type_)


def _dense(
    numbers: NDArray[np.float64], element_type: AnyFloat, shape: Sequence[int]
) -> DenseIntOrFPElementsAttr:
    """Numbers that are exact in a type of 16, 32 or 64 bits."""
    if isinstance(element_type, BFloat16Type):
        data = (numbers.astype("<f4").view("<u4") >> 16).astype("<u2")
    else:
        data = numbers.astype(f"<f{element_type.bitwidth // 8}")
    type_ = TensorType(element_type, shape)
    return DenseIntOrFPElementsAttr(type_, BytesAttr(data.tobytes()))


class BlockDequantization(BlockScaledArithmetic):
    """Expressed values of stored ones."""

    @cached_property
    def elements(self) -> CastArithmetic:
        return self.cast_of_elements(Dequantization)

    @property
    def element_type(self) -> Attribute:
        return self.expressed

    def convert(
        self, builder: LoweringBuilder, number: SSAValue, parameters: Sequence[SSAValue]
    ) -> SSAValue:
        operands = self.operands(builder, parameters)
        value = self.elements.convert(builder, number, ())
        if (zero_point := operands.get("zero_points")) is not None:
            value = self.float_op(builder, arith.SubfOp, value, zero_point)
        value = self.float_op(builder, arith.MulfOp, value, operands["scales"])
        if (offset := operands.get("offsets")) is not None:
            value = self.float_op(builder, arith.AddfOp, value, offset)
        return self.as_type(builder, value, self.expressed)


class BlockQuantization(BlockScaledArithmetic):
    """Stored values for expressed ones."""

    @cached_property
    def elements(self) -> CastArithmetic:
        return self.cast_of_elements(Quantization)

    @property
    def element_type(self) -> Attribute:
        return self.elements.element_type

    def convert(
        self, builder: LoweringBuilder, number: SSAValue, parameters: Sequence[SSAValue]
    ) -> SSAValue:
        operands = self.operands(builder, parameters)
        value = self.as_type(builder, number, self.computed)
        if (offset := operands.get("offsets")) is not None:
            value = self.float_op(builder, arith.SubfOp, value, offset)
        value = self._quotient(builder, value, operands["scales"])
        if (zero_point := operands.get("zero_points")) is not None:
            if self.rounding.zero_point_order == "after-rounding":
                round_op = _ROUNDING_OPS[self.rounding.mode]
                value = self.float_op(builder, round_op, value)
            value = self.float_op(builder, arith.AddfOp, value, zero_point)
        return self.elements.convert(builder, value, ())

    def _quotient(
        self, builder: LoweringBuilder, value: SSAValue, scale: SSAValue
    ) -> SSAValue:
        value = self.float_op(builder, arith.DivfOp, value, scale)
        if self.numbers["scales"].all():
            return value
        zero = builder.number(0.0, self.computed)
        is_zero = builder.add(arith.CmpfOp(scale, zero, "oeq"))
        return self.float_op(builder, arith.SelectOp, is_zero, zero, value)


def block_or_codec_cast(
    quantized_type: ScaledQuantizedType | BlockScaledQuantizedType,
    rounding: Rounding,
    is_quantization: bool,
) -> ElementConversion:
    """
    Return the conversion of an element to or from a type that is block-scaled, or whose
    stored values are floats or indices of a table.

    Raises:
        ValueError: for an unsupported rounding or table, or a missing resource.
        ImportError: if a package is missing.
    """
    if isinstance(quantized_type, ScaledQuantizedType):
        return codec_cast(quantized_type, rounding, is_quantization)
    conversion_type = BlockQuantization if is_quantization else BlockDequantization
    conversion = conversion_type(quantized_type, rounding)
    # The bytes of resources are read now, before any op changes.
    _ = conversion.numbers, conversion.elements
    return conversion
