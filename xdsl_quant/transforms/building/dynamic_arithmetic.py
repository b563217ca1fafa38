"""
How the casts whose scales and zero points are operands become ops on numbers: those of
`quantization_arithmetic`, with operands in the place of constants.

A zero point may be any integer of the storage type, and what is computed in is wide enough
for all of them. Scales may be zero, negative, infinite or NaN, so each rounding mode clamps
before it converts to an integer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

from xdsl.dialects import arith, cf, tensor
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
from xdsl_quant.dialects.quant.storage_types import QuantileType
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
from .codec_arithmetic import (
    FloatDequantization,
    FloatQuantization,
    TableDequantization,
    TableQuantization,
    codec_cast,
)
from .quantization_arithmetic import (
    CastArithmetic,
    Dequantization,
    Quantization,
    RoundedCastPattern,
    check_expressed_type,
)
from .tensor_traversal import Layout, convert_value


class _DynamicCast(NamedTuple):
    """The arithmetic that a cast is lowered to."""

    conversion_type: type[OperandParameters]
    rounding: Rounding
    fuse: bool


@dataclass(frozen=True)
class LowerDynamicCast(RoundedCastPattern, CheckedPattern[_DynamicCast]):
    """
    Lower `quant.dynamic_qcast` and `quant.dynamic_dcast` to arith, math, tensor and linalg.

    With `runtime_checks` the number of scales is asserted where it or the size of the
    values is dynamic.
    """

    def plan(self, op: Operation) -> _DynamicCast | None:
        if not isinstance(op, DynamicCastOp):
            return None
        check_expressed_type(op, scalar_or_element_type(op.scale.type))
        rounding = self.rounding_of(op, op.storage)
        is_quantization = isinstance(op, DynamicQuantizeCastOp)
        if op.storage.has_integer_storage:
            kind = DynamicQuantization if is_quantization else DynamicDequantization
            return _DynamicCast(kind, rounding, self.fuse)
        with refusing(op, "cannot be lowered"):
            codec_cast(_unit_type(op), rounding, is_quantization)
        is_table = isinstance(op.storage.storage_type, QuantileType)
        kind = _DYNAMIC_CODECS[is_table, is_quantization]
        # Only what becomes of NaN is left to choose.
        return _DynamicCast(kind, Rounding(nan=rounding.nan), fuse=True)

    def rewrite(
        self, op: Operation, plan: _DynamicCast, rewriter: PatternRewriter
    ) -> None:
        op = cast(DynamicCastOp, op)
        builder = LoweringBuilder.before(op)
        if self.runtime_checks:
            _assert_counts(builder, op)
        conversion = plan.conversion_type(op, plan.rounding, plan.fuse, builder)
        result = convert_value(builder, conversion, op.input, op.result.type, False)
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
        builder: LoweringBuilder,
    ):
        self._op = op
        super().__init__(_unit_type(op), rounding, fuse)
        self._as_mlir = False
        self._saturates = True
        self._clamped = self._compute_type("nearest-even")
        self._operands = {"scale": self._scale(builder)}
        if op.zero_point is not None:
            zero_point = _scalar_or_blocks(builder, op.zero_point, op.blocks)
            on_numbers = _builder_for(builder, zero_point)
            self._operands["zero_point"] = self._as_float(on_numbers, zero_point)

    def _scale(self, builder: LoweringBuilder) -> SSAValue:
        scale = _scalar_or_blocks(builder, self._op.scale, self._op.blocks)
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


class _DynamicFloatQuantization(OperandParameters, FloatQuantization):
    """Small floats for expressed values and operands."""


class _DynamicFloatDequantization(OperandParameters, FloatDequantization):
    """Expressed values of small floats and operands."""


class _DynamicTableQuantization(OperandParameters, TableQuantization):
    """Indices of a table for expressed values and operands."""


class _DynamicTableDequantization(OperandParameters, TableDequantization):
    """Expressed values of indices of a table and operands."""


_DYNAMIC_CODECS: Mapping[tuple[bool, bool], type[OperandParameters]] = {
    (False, False): _DynamicFloatDequantization,
    (False, True): _DynamicFloatQuantization,
    (True, False): _DynamicTableDequantization,
    (True, True): _DynamicTableQuantization,
}
"""The casts of storage that is a table or not, to it or from it."""


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
            holds = builder.add(arith.CmpiOp(count, size, "eq"))
            reason = "" if block_size == 1 else f" divided by {block_size}, rounded up"
            assertion = cf.AssertOp(
                holds,
                f"number of {name} must be the size of dimension {axis}{reason}",
            )
            assertion.location = builder.location
            builder.insert(assertion)
