"""
How the casts whose scales and zero points are operands become ops on numbers: those of
`quantization_arithmetic`, with operands in the place of constants.

A zero point may be any integer of the storage type, and what is computed in is wide enough
for all of them. Scales may be zero, negative, infinite or NaN, so each rounding mode clamps
before it converts to an integer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FloatData,
    IntAttr,
    TensorType,
)
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.diagnostics import refusing
from xdsl_quant.dialects.quant import (
    DynamicCastOp,
    DynamicQuantizeCastOp,
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
from .checked_patterns import CheckedPattern
from .codec_arithmetic import storage_arithmetic
from .quantization_arithmetic import (
    CastArithmetic,
    Dequantization,
    IntegerStorage,
    Quantization,
    RoundedCastPattern,
    StorageArithmetic,
    check_expressed_type,
)
from .tensor_traversal import Layout, assert_holds, convert_value

_Plan: TypeAlias = "Callable[[LoweringBuilder], OperandParameters]"
"""Builds the arithmetic of a cast from its operands."""


@dataclass(frozen=True)
class LowerDynamicCast(RoundedCastPattern, CheckedPattern[_Plan]):
    """
    Lower `quant.dynamic_qcast` and `quant.dynamic_dcast` to arith, math, tensor and linalg.

    With `runtime_checks` the number of scales is asserted where it or the size of the
    values is dynamic.
    """

    def plan(self, op: Operation) -> _Plan | None:
        """The arithmetic that a cast is lowered to."""
        if not isinstance(op, DynamicCastOp):
            return None
        check_expressed_type(op, scalar_or_element_type(op.scale.type))
        rounding = self.rounding_of(op, op.storage)
        is_quantization = isinstance(op, DynamicQuantizeCastOp)
        with refusing(op, "cannot be lowered"):
            storage_kind, rounding = storage_arithmetic(
                _unit_type(op),
                rounding,
                is_quantization=is_quantization,
                has_zero_points=False,
            )
        kind = DynamicQuantization if is_quantization else DynamicDequantization
        fuse = self.fuse or storage_kind is not IntegerStorage
        return partial(kind, op, rounding, fuse, storage_kind)

    def rewrite(self, op: Operation, plan: _Plan, rewriter: PatternRewriter) -> None:
        op = cast(DynamicCastOp, op)
        builder = LoweringBuilder.before(op)
        if self.runtime_checks:
            _assert_counts(builder, op)
        result = convert_value(builder, plan(builder), op.input, op.result.type, False)
        rewriter.replace(op, (), (result,))


def _unit_type(op: DynamicCastOp) -> UniformQuantizedType:
    """The type of values that are stored in the same way with a scale of 1."""
    expressed = scalar_or_element_type(op.expressed.type)
    _, *common = op.storage.common_parameters
    return UniformQuantizedType.new((expressed, *common, IntAttr(0), FloatData(1.0)))


class OperandParameters(CastArithmetic):
    """Scales and zero points that are operands."""

    def __init__(
        self,
        op: DynamicCastOp,
        rounding: Rounding,
        fuse: bool,
        storage_kind: type[StorageArithmetic],
        builder: LoweringBuilder,
    ):
        self._op = op
        super().__init__(_unit_type(op), rounding, fuse, storage_kind)
        self.as_mlir = self.multiplies = False
        self.saturates = True
        self.clamped = self.compute_type("nearest-even")
        scale = _scalar_or_blocks(builder, op.scale, op.blocks)
        if self.computed != self.expressed:
            on_numbers = _builder_for(builder, scale)
            scale = on_numbers.elementwise(arith.ExtFOp, (scale,), self.computed)
        self._operands = {"scale": scale}
        if op.zero_point is not None:
            zero_point = _scalar_or_blocks(builder, op.zero_point, op.blocks)
            on_numbers = _builder_for(builder, zero_point)
            self._operands["zero_point"] = self.as_float(on_numbers, zero_point)

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

    def constants(self, builder: LoweringBuilder) -> Sequence[SSAValue]:
        return [*self._operands.values()]

    def parameters(
        self, builder: LoweringBuilder, layout: Layout
    ) -> Mapping[str, SSAValue]:
        return self._operands


class DynamicQuantization(OperandParameters, Quantization):
    """Stored values for expressed ones."""


class DynamicDequantization(OperandParameters, Dequantization):
    """Expressed values of stored ones."""


def _scalar_or_blocks(
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
            reason = "" if block_size == 1 else f" divided by {block_size}, rounded up"
            message = f"number of {name} must be the size of dimension {axis}{reason}"
            assert_holds(builder, arith.CmpiOp(count, size, "eq"), message)
