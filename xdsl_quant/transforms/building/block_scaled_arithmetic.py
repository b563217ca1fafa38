"""How the scales, zero points and offsets of blocks become ops on numbers."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import SSAValue

from xdsl_quant.dialects.quant import BlockScaledQuantizedType, ScaledQuantizedType
from xdsl_quant.rounding_mode import Rounding

from .builder import LoweringBuilder
from .codec_arithmetic import storage_arithmetic
from .quantization_arithmetic import (
    CastArithmetic,
    Dequantization,
    Quantization,
    dense,
)
from .tensor_traversal import ElementConversion, Layout


class BlockScaledArithmetic(CastArithmetic, ABC):
    """
    What casts to and from a block-scaled type have in common.

    Numbers of blocks are constants of the type to compute in. All of them are exact in it.

    Args:
        quantized_type: the type.
        rounding: the rounding of quantization.

    Raises:
        ValueError: if nothing is rounded like this, or a resource is missing or damaged.
        ImportError: if a package is missing.
    """

    def __init__(self, quantized_type: BlockScaledQuantizedType, rounding: Rounding):
        self.blocks = quantized_type.get_blocks()
        self.numbers = quantized_type.get_numbers()
        """What each block has."""
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

    @property
    def roles(self) -> Sequence[str]:
        return [name.removesuffix("s") for name in self.numbers]

    def constants(self, builder: LoweringBuilder) -> Sequence[SSAValue]:
        return [self.number(builder, n.item()) for n in self.numbers.values()]

    def constant_tensors(
        self, shape: tuple[int, ...]
    ) -> Mapping[str, DenseIntOrFPElementsAttr]:
        return {
            name: dense(numbers.ravel().tolist(), self.computed, shape)
            for name, numbers in self.numbers.items()
        }


class BlockDequantization(BlockScaledArithmetic, Dequantization):
    """Expressed values of stored ones."""


class BlockQuantization(BlockScaledArithmetic, Quantization):
    """Stored values for expressed ones."""

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
    Return the conversion of an element to or from a type that is block-scaled, or whose
    stored values are floats or indices of a table.

    Raises:
        ValueError: for an unsupported rounding or table, or a missing resource.
        ImportError: if a package is missing.
    """
    if isinstance(quantized_type, BlockScaledQuantizedType):
        kind = BlockQuantization if is_quantization else BlockDequantization
        return kind(quantized_type, rounding)
    storage_kind, rounding = storage_arithmetic(
        quantized_type,
        rounding,
        is_quantization=is_quantization,
        has_zero_points=quantized_type.zero_point_range != (0, 0),
    )
    kind = Quantization if is_quantization else Dequantization
    return kind(quantized_type, rounding, True, storage_kind)
