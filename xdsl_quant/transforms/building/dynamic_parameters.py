"""
How scales and zero points that are chosen for values at run time are computed: with the
formulas of [`choose_dynamic_parameters`][xdsl_quant.numerics.choose_dynamic_parameters].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType, f32, f64
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.dialects.quant import ChooseParametersOp
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.machines.arith import FloatExpression
from xdsl_quant.numerics.choosing import (
    range_scale,
    range_zero_point,
    symmetric_scale,
)
from xdsl_quant.numerics.codecs import number_range
from xdsl_quant.numerics.parameters import QuantizationParameters, storage_arguments

from .builder import (
    PARALLEL,
    REDUCTION,
    Body,
    LoweringBuilder,
    Size,
    dimensions,
    element_type_of,
    shape_of,
    static_sizes,
)
from .checked_patterns import CheckedPattern
from .quantization_arithmetic import check_expressed_type


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
        smallest, largest = _ranges(builder, plan.input, plan.blocks)
        results = [
            _of_blocks(
                builder,
                plan.blocks,
                (smallest, largest),
                arithmetic.expressed,
                arithmetic.scale,
            )
        ]
        if plan.zero_point is not None:
            values = (smallest, results[0])
            storage = plan.storage.signless_storage_type
            results.append(
                _of_blocks(builder, plan.blocks, values, storage, arithmetic.zero_point)
            )
        rewriter.replace(op, (), results)


@dataclass(eq=False)
class _ParameterArithmetic:
    """The scale and the zero point of a block."""

    op: ChooseParametersOp

    def __post_init__(self) -> None:
        self.expressed = cast(AnyFloat, scalar_or_element_type(self.op.input.type))
        parameters = QuantizationParameters(1.0, **storage_arguments(self.op.storage))
        self._range = low, high = number_range(parameters)
        is_wide = self.expressed == f64 or max(-low, high) > 1 << 24
        self._computed = f64 if is_wide else f32

    def _floats(
        self, builder: LoweringBuilder, args: Sequence[SSAValue]
    ) -> Sequence[FloatExpression]:
        return [FloatExpression(builder, a).as_float(self._computed) for a in args[:2]]

    def scale(self, builder: LoweringBuilder, args: Sequence[SSAValue]) -> SSAValue:
        """The scale for the smallest and the largest value."""
        first, last = self._floats(builder, args)
        low, high = self._range
        if self.op.zero_point is None:
            result = symmetric_scale(first, last, min(-low, high))
        else:
            result = range_scale(first, last, high - low)
        return cast(FloatExpression, result).as_float(self.expressed).value

    def zero_point(
        self, builder: LoweringBuilder, args: Sequence[SSAValue]
    ) -> SSAValue:
        """The zero point for the smallest value and the scale."""
        first, scale = self._floats(builder, args)
        result = cast(FloatExpression, range_zero_point(first, scale, *self._range))
        integer = result.as_integer().value
        storage = self.op.storage.signless_storage_type
        if integer.type == storage:
            return integer
        return builder.op(arith.TruncIOp, (integer,), storage)


def _of_blocks(
    builder: LoweringBuilder,
    blocks: Mapping[int, int],
    values: Sequence[SSAValue],
    element_type: AnyFloat | IntegerType,
    body: Body,
) -> SSAValue:
    """Compute one number from `values`, or a tensor of one for each block."""
    if not blocks:
        return body(builder, values)
    inputs = [(value, dimensions(range(len(blocks)))) for value in values]
    type_ = TensorType(element_type, shape_of(values[0]))
    return builder.map(inputs, type_, builder.sizes(values[0]), body)


def _ranges(
    builder: LoweringBuilder, value: SSAValue, blocks: Mapping[int, int]
) -> Sequence[SSAValue]:
    """The smallest and the largest value, 0 included, of each block."""
    counts = [
        _block_count(builder, builder.size(value, d), s) for d, s in blocks.items()
    ]
    type_ = TensorType(element_type_of(value), static_sizes(counts))
    split = {axis: size for axis, size in blocks.items() if size != 1}
    value = _whole_blocks(builder, value, dict(zip(blocks, counts, strict=True)), split)
    # Where the dimensions of blocks are, now that elements of blocks have some, too.
    axes = [axis + sum(other < axis for other in split) for axis in blocks]
    value = builder.split_dimensions(value, split)
    rank = len(shape_of(value))
    kept = AffineMap(rank, 0, tuple(dimensions(axes)))

    def body(inner: LoweringBuilder, args: Sequence[SSAValue]) -> Sequence[SSAValue]:
        # The minimum of NaN and a number is the number.
        return [
            inner.op(op_type, (args[0], so_far), so_far.type)
            for op_type, so_far in (
                (arith.MinnumfOp, args[1]),
                (arith.MaxnumfOp, args[2]),
            )
        ]

    results = builder.generics(
        [value],
        [builder.zeros(type_, counts) for _ in range(2)],
        [AffineMap.identity(rank), kept, kept],
        [PARALLEL if d in axes else REDUCTION for d in range(rank)],
        body,
    )
    if blocks:
        return results
    return [builder.op(tensor.ExtractOp, (r,), element_type_of(r)) for r in results]


def _block_count(builder: LoweringBuilder, size: Size, block_size: int) -> Size:
    """The number of blocks along a dimension, of which the last one may be shorter."""
    if isinstance(size, int):
        return -(-size // block_size)
    return builder.floor_divided(builder.plus(size, block_size - 1), block_size)


def _whole_blocks(
    builder: LoweringBuilder,
    value: SSAValue,
    counts: Mapping[int, Size],
    block_sizes: Mapping[int, int],
) -> SSAValue:
    """
    The values, with zeros after them if the last blocks are or may be shorter. Zero is in
    each range.
    """
    sizes = builder.sizes(value)
    padded = [*sizes]
    for axis, block_size in block_sizes.items():
        padded[axis] = builder.times(counts[axis], block_size)
    if padded == sizes:
        return value
    type_ = TensorType(element_type_of(value), static_sizes(padded))
    into = builder.zeros(type_, padded)
    count = len(sizes)
    return builder.inserted(value, into, [0] * count, sizes, [1] * count)
