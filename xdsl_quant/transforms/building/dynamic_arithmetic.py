"""
How the casts whose scales and zero points are operands become ops on numbers: those of
[`quantization_arithmetic`][xdsl_quant.transforms.building.quantization_arithmetic], with
operands in the place of constants.

A zero point may be any integer of the storage type, and what is computed in is wide enough
for all of them. Scales may be zero, negative, infinite or NaN, so each rounding mode clamps
before it converts to an integer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import cast

from xdsl.dialects import arith, cf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FloatData,
    IntAttr,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    DynamicCastOp,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.rounding_mode import Rounding

from .builder import (
    INDEX,
    LoweringBuilder,
    TensorwiseBuilder,
    element_type_of,
    shape_of,
)
from .quantization_arithmetic import CastArithmetic, Dequantization, Quantization
from .tensor_traversal import Layout, convert_value


def lowered_dynamic_cast(
    op: DynamicCastOp,
    conversion_type: type[OperandParameters],
    rounding: Rounding,
    fuse: bool,
    runtime_checks: bool,
) -> SSAValue:
    """
    The result of a cast, computed by ops before it.

    Args:
        op: the cast.
        conversion_type: what becomes of an element, given operands.
        rounding: how expressed values are rounded.
        fuse: whether a ranked tensor is computed by one `linalg.generic`.
        runtime_checks: whether the number of scales is asserted where it or the size of
            the values is not known.
    """
    builder = LoweringBuilder.before(op)
    if runtime_checks:
        _assert_counts(builder, op)
    conversion = conversion_type(op, rounding, fuse, builder)
    return convert_value(builder, conversion, op.input, op.result.type, False)


def unit_type(storage: AnyQuantizedType, expressed: Attribute) -> UniformQuantizedType:
    """The type of values that are stored in this way with a scale of 1."""
    _, *common = storage.common_parameters
    return UniformQuantizedType.new((expressed, *common, IntAttr(0), FloatData(1.0)))


class OperandParameters(CastArithmetic):
    """Scales and zero points that are operands."""

    def __init__(
        self,
        op: DynamicCastOp,
        rounding: Rounding,
        fuse: bool,
        builder: LoweringBuilder,
    ):
        self._op = op
        expressed = scalar_or_element_type(op.expressed.type)
        super().__init__(unit_type(op.storage, expressed), rounding, fuse)
        self._as_mlir = False
        self._saturates = True
        self._clamped = self._compute_type("nearest-even")
        self._operands = {"scale": self._scale(builder)}
        if op.zero_point is not None:
            zero_point = _operand(builder, op.zero_point, op.blocks)
            on_numbers = _builder_for(builder, zero_point)
            self._operands["zero_point"] = self._as_float(on_numbers, zero_point)

    def _scale(self, builder: LoweringBuilder) -> SSAValue:
        scale = _operand(builder, self._op.scale, self._op.blocks)
        if self._compute == self.expressed:
            return scale
        on_numbers = _builder_for(builder, scale)
        return on_numbers.elementwise(arith.ExtFOp, (scale,), self._compute)

    @cached_property
    def _has_exact_reciprocals(self) -> bool:
        return False

    @property
    def layout(self) -> Layout | None:
        if not (blocks := self._op.blocks):
            return None
        shape = shape_of(self._op.scale)
        is_compact = len(shape) == len(blocks)
        axes = blocks if is_compact else range(len(shape))
        counts = dict(zip(axes, shape, strict=True))
        return Layout(
            {axis: counts[axis] for axis in blocks},
            blocks,
            None if is_compact else len(shape),
        )

    @property
    def zero_point_range(self) -> tuple[int, int]:
        if self._op.zero_point is None:
            return 0, 0
        return self.quantized_type.full_storage_range

    def _constants(self, builder: LoweringBuilder) -> Sequence[SSAValue]:
        return [*self._operands.values()]

    def parameters(
        self, builder: LoweringBuilder, layout: Layout
    ) -> Mapping[str, SSAValue]:
        return self._operands


class DynamicQuantization(OperandParameters, Quantization):
    """Stored values for expressed ones."""


class DynamicDequantization(OperandParameters, Dequantization):
    """Expressed values of stored ones."""


def _operand(
    builder: LoweringBuilder, value: SSAValue, blocks: Mapping[int, int]
) -> SSAValue:
    """Scales or zero points: a number if there is one for all values."""
    if blocks or not isinstance(value.type, TensorType):
        return value
    indices = [builder.index(0)] * len(shape_of(value))
    return builder.op(tensor.ExtractOp, (value, *indices), element_type_of(value))


def _builder_for(builder: LoweringBuilder, value: SSAValue) -> LoweringBuilder:
    """A builder of elementwise ops on a number, or on tensors of one type."""
    if not isinstance(value.type, TensorType):
        return builder
    return TensorwiseBuilder(
        builder.insertion_point,
        location=builder.location,
        container=cast("TensorType[AnyFloat]", value.type),
        dynamic_sizes=(),
    )


def _assert_counts(builder: LoweringBuilder, op: DynamicCastOp) -> None:
    """Assert that there are as many scales and zero points as blocks."""
    if not (blocks := op.blocks):
        return
    operands = {"scales": op.scale, "zero points": op.zero_point}
    shape = shape_of(op.input)
    axes = [*blocks] if len(shape_of(op.scale)) == len(blocks) else [*range(len(shape))]
    for name, value in operands.items():
        if value is None:
            continue
        for axis, block_size in blocks.items():
            position = axes.index(axis)
            if DYNAMIC_INDEX not in (shape[axis], shape_of(value)[position]):
                continue
            size = builder.size_value(builder.size(op.input, axis))
            count = builder.size_value(builder.size(value, position))
            if block_size != 1:
                size = builder.op(
                    arith.CeilDivUIOp, (size, builder.index(block_size)), INDEX
                )
            holds = builder.add(arith.CmpiOp(count, size, "eq"))
            reason = "" if block_size == 1 else f" divided by {block_size}, rounded up"
            assertion = cf.AssertOp(
                holds,
                f"number of {name} must be the size of dimension {axis}{reason}",
            )
            assertion.location = builder.location
            builder.insert(assertion)
