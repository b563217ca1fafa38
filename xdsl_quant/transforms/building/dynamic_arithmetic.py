"""
Lowering of casts whose scales and zero points are operands, and of
`quant.choose_parameters`.

The arithmetic of casts is that of `quantization_arithmetic`, with operands instead of
constants. Parameters are chosen at run time with the formulas of
[`choose_dynamic_parameters`][xdsl_quant.numerics.choose_dynamic_parameters].

A zero point may be any integer of the storage type, so the compute type represents all
of these integers. Scales may be zero, negative, infinite or NaN, so each rounding mode
clamps before the conversion to integers.
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
    IntegerType,
    TensorType,
    f32,
    f64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.diagnostics import refusing
from xdsl_quant.dialects.quant import (
    ChooseParametersOp,
    DynamicCastOp,
    DynamicQuantizeCastOp,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.machines.arith import FloatExpression
from xdsl_quant.numerics.choosing import range_scale, range_zero_point, symmetric_scale
from xdsl_quant.numerics.codecs import number_range
from xdsl_quant.numerics.parameters import QuantizationParameters, storage_arguments
from xdsl_quant.rounding_mode import Rounding

from .builder import (
    INDEX,
    PARALLEL,
    REDUCTION,
    Body,
    LoweringBuilder,
    Size,
    Values,
    dimensions,
    element_type_of,
    shape_of,
    static_sizes,
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
from .tensor_traversal import Layout, Operands, assert_holds, convert_value

_Plan: TypeAlias = "Callable[[LoweringBuilder], OperandParameters]"
"""Function that builds the arithmetic of a cast from its operands."""


@dataclass(frozen=True)
class LowerDynamicCast(RoundedCastPattern, CheckedPattern[_Plan]):
    """
    Lower `quant.dynamic_qcast` and `quant.dynamic_dcast` to arith, math, tensor and linalg.

    With `runtime_checks`, assert at run time that the numbers of scales and zero points
    match dynamic sizes.
    """

    def plan(self, op: Operation) -> _Plan | None:
        if not isinstance(op, DynamicCastOp):
            return None
        check_expressed_type(op, scalar_or_element_type(op.scale.type))
        rounding = self.rounding_of(op, op.storage)
        is_quantization = isinstance(op, DynamicQuantizeCastOp)
        with refusing(op, "cannot be lowered"):
            storage_kind, rounding = storage_arithmetic(
                _unit_type(op), rounding, is_quantization=is_quantization
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
    """Return a quantized type with the storage of a cast, scale 1 and zero point 0."""
    expressed = scalar_or_element_type(op.expressed.type)
    _, *common = op.storage.common_parameters
    return UniformQuantizedType.new((expressed, *common, IntAttr(0), FloatData(1.0)))


class OperandParameters(CastArithmetic):
    """Arithmetic of a cast whose scales and zero points are operands."""

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
        numbers, scale = _scalar_or_blocks(builder, op.scale, op.blocks)
        if self.computed != self.expressed:
            scale = numbers.elementwise(arith.ExtFOp, (scale,), self.computed)
        self._operands = {"scale": scale}
        if op.zero_point is not None:
            numbers, zero_point = _scalar_or_blocks(builder, op.zero_point, op.blocks)
            self._operands["zero_point"] = self.as_float(numbers, zero_point)

    @property
    def layout(self) -> Layout | None:
        if not (blocks := self._op.blocks):
            return None
        shape = shape_of(self._op.scale)
        is_compact = len(shape) == len(blocks)
        axes = blocks if is_compact else range(len(shape))
        counts = dict(zip(axes, shape, strict=True))
        rank = None if is_compact else len(shape)
        return Layout({axis: counts[axis] for axis in blocks}, blocks, rank)

    @property
    def zero_point_range(self) -> tuple[int, int]:
        if self._op.zero_point is None:
            return 0, 0
        return self.quantized_type.full_storage_range

    def constants(self, builder: LoweringBuilder) -> Operands:
        return self._operands

    def parameters(self, builder: LoweringBuilder, layout: Layout) -> Operands:
        return self._operands


class DynamicQuantization(OperandParameters, Quantization):
    """Quantization with operands as parameters."""


class DynamicDequantization(OperandParameters, Dequantization):
    """Dequantization with operands as parameters."""


def _scalar_or_blocks(
    builder: LoweringBuilder, value: SSAValue, blocks: Mapping[int, int]
) -> tuple[LoweringBuilder, SSAValue]:
    """Return a builder of elementwise ops on parameters, and the parameters for it."""
    if not isinstance(value.type, TensorType):
        return builder, value
    if blocks:
        return builder.on_tensors(cast(TensorType, value.type), ()), value
    indices = [builder.index(0)] * len(shape_of(value))
    operands = value, *indices
    return builder, builder.op(tensor.ExtractOp, operands, element_type_of(value))


def _assert_counts(builder: LoweringBuilder, op: DynamicCastOp) -> None:
    """Assert at run time that there is one scale and one zero point per block."""
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
                divisor = builder.index(block_size)
                size = builder.op(arith.CeilDivUIOp, (size, divisor), INDEX)
            reason = "" if block_size == 1 else f" divided by {block_size}, rounded up"
            message = f"number of {name} must be the size of dimension {axis}{reason}"
            assert_holds(builder, arith.CmpiOp(count, size, "eq"), message)


# Choice of parameters


@dataclass(frozen=True)
class LowerChooseParameters(CheckedPattern[ChooseParametersOp]):
    """Lower `quant.choose_parameters` to arith, math, tensor and linalg."""

    def plan(self, op: Operation) -> ChooseParametersOp | None:
        if not isinstance(op, ChooseParametersOp):
            return None
        check_expressed_type(op, scalar_or_element_type(op.scale.type))
        return op

    def rewrite(
        self, op: Operation, plan: ChooseParametersOp, rewriter: PatternRewriter
    ) -> None:
        builder = LoweringBuilder.before(op)
        arithmetic = _ParameterArithmetic(plan)
        map_blocks = partial(_map_blocks, builder, plan.blocks)
        ranges = _ranges(builder, plan.input, plan.blocks)
        results = [map_blocks(ranges, arithmetic.expressed, arithmetic.scale)]
        if plan.zero_point is not None:
            values = ranges[0], results[0]
            storage = plan.storage.signless_storage_type
            results.append(map_blocks(values, storage, arithmetic.zero_point))
        rewriter.replace(op, (), results)


@dataclass(eq=False)
class _ParameterArithmetic:
    """Arithmetic that chooses the scale and zero point of a block."""

    op: ChooseParametersOp

    def __post_init__(self) -> None:
        self.expressed = cast(AnyFloat, scalar_or_element_type(self.op.input.type))
        parameters = QuantizationParameters(1.0, **storage_arguments(self.op.storage))
        self._range = low, high = number_range(parameters)
        is_wide = self.expressed == f64 or max(-low, high) > 1 << 24
        self._computed = f64 if is_wide else f32

    def _floats(
        self, builder: LoweringBuilder, args: Values
    ) -> Sequence[FloatExpression]:
        return [FloatExpression(builder, a).as_float(self._computed) for a in args[:2]]

    def scale(self, builder: LoweringBuilder, args: Values) -> SSAValue:
        """Return the scale for the minimum and maximum in `args`."""
        first, last = self._floats(builder, args)
        low, high = self._range
        if self.op.zero_point is None:
            result = symmetric_scale(first, last, min(-low, high))
        else:
            result = range_scale(first, last, high - low)
        return cast(FloatExpression, result).as_float(self.expressed).value

    def zero_point(self, builder: LoweringBuilder, args: Values) -> SSAValue:
        """Return the zero point for the minimum and the scale in `args`."""
        first, scale = self._floats(builder, args)
        result = cast(FloatExpression, range_zero_point(first, scale, *self._range))
        integer = result.as_integer().value
        storage = self.op.storage.signless_storage_type
        if integer.type == storage:
            return integer
        return builder.op(arith.TruncIOp, (integer,), storage)


def _map_blocks(
    builder: LoweringBuilder,
    blocks: Mapping[int, int],
    values: Values,
    element_type: AnyFloat | IntegerType,
    body: Body,
) -> SSAValue:
    """Apply `body` to scalars or, if there are blocks, to the elements of tensors."""
    if not blocks:
        return body(builder, values)
    inputs = [(value, dimensions(range(len(blocks)))) for value in values]
    type_ = TensorType(element_type, shape_of(values[0]))
    return builder.map(inputs, type_, builder.sizes(values[0]), body)


def _ranges(
    builder: LoweringBuilder, value: SSAValue, blocks: Mapping[int, int]
) -> Values:
    """Return the minimum and maximum of each block, extended to include 0."""
    counts = [
        _block_count(builder, builder.size(value, d), s) for d, s in blocks.items()
    ]
    type_ = TensorType(element_type_of(value), static_sizes(counts))
    split = {axis: size for axis, size in blocks.items() if size != 1}
    value = _whole_blocks(builder, value, dict(zip(blocks, counts, strict=True)), split)
    # Positions of the block indices after the dimensions are split.
    axes = [axis + sum(split_axis < axis for split_axis in split) for axis in blocks]
    value = builder.split_dimensions(value, split)
    rank = len(shape_of(value))
    block_map = AffineMap(rank, 0, tuple(dimensions(axes)))

    def body(inner: LoweringBuilder, args: Values) -> Values:
        # `minnumf` returns the other operand for NaN, so the range ignores NaN.
        return [
            inner.op(op_type, (args[0], accumulator), accumulator.type)
            for op_type, accumulator in (
                (arith.MinnumfOp, args[1]),
                (arith.MaxnumfOp, args[2]),
            )
        ]

    results = builder.generics(
        [value],
        [builder.zeros(type_, counts) for _ in range(2)],
        [AffineMap.identity(rank), block_map, block_map],
        [PARALLEL if d in axes else REDUCTION for d in range(rank)],
        body,
    )
    if blocks:
        return results
    return [builder.op(tensor.ExtractOp, (r,), element_type_of(r)) for r in results]


def _block_count(builder: LoweringBuilder, size: Size, block_size: int) -> Size:
    """Return the number of blocks along a dimension; the last block may be shorter."""
    if isinstance(size, int):
        return -(-size // block_size)
    return builder.floor_divide(builder.plus(size, block_size - 1), block_size)


def _whole_blocks(
    builder: LoweringBuilder,
    value: SSAValue,
    counts: Mapping[int, Size],
    block_sizes: Mapping[int, int],
) -> SSAValue:
    """Pad the values with zeros to whole blocks; block ranges include 0 anyway."""
    sizes = builder.sizes(value)
    padded_sizes = [*sizes]
    for axis, block_size in block_sizes.items():
        padded_sizes[axis] = builder.times(counts[axis], block_size)
    if padded_sizes == sizes:
        return value
    type_ = TensorType(element_type_of(value), static_sizes(padded_sizes))
    into = builder.zeros(type_, padded_sizes)
    count = len(sizes)
    return builder.insert_slice(value, into, [0] * count, sizes, [1] * count)
