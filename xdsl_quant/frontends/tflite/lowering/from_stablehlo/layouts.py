"""
Patterns that remove transposes and reshapes of `tfl` ops.

Transposes of constants are folded. Other transposes move down, past ops that compute or
move elements, until two of them cancel. The conversion of an NCHW network then has
transposes where images enter and leave it, and where dimensions are combined.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import (
    BoolAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f32,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint

from xdsl_quant.dialects.quant import QuantizedType, ScaledQuantizedType, uniform_type
from xdsl_quant.dialects.quant.types import PerTensorType, scalar_or_element_type
from xdsl_quant.dialects.verification import constant_integers
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.activations import ActivationOp, RectifierOp
from xdsl_quant.frontends.tflite.dialect.base import (
    FunctionOp,
    is_true,
    plain_attribute,
)
from xdsl_quant.frontends.tflite.dialect.elementwise import (
    MinMaxOp,
    PairOp,
    SelectionOp,
)
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import constant_elements, elements_attr
from xdsl_quant.transforms.building.builder import shape_of
from xdsl_quant.transforms.building.dequantize_fallback import replace_with_built

from .building import TFLBuilder, inverse, is_float

CONSTANTS = tfl.ConstOp | tfl.QConstOp

_MOVES = tfl.TransposeOp | tfl.ReshapeOp | tfl.ReverseV2Op


def rebuild_op(
    op: Operation,
    rewriter: PatternRewriter,
    build: Callable[[TFLBuilder], SSAValue],
) -> None:
    """Replace an op by what `build` builds; the new ops have its location."""
    replace_with_built(
        op,
        rewriter,
        lambda b: (build(TFLBuilder(b.insertion_point, location=op.location)),),
    )


def constant_source(value: SSAValue) -> tfl.ConstOp | tfl.QConstOp | None:
    """Return the constant that a value is, or that `tfl.dequantize` dequantizes."""
    op = value.owner
    if isinstance(op, tfl.DequantizeOp):
        op = op.input.owner
    return op if isinstance(op, CONSTANTS) else None


# Constants


def _dimension_after_move(
    move: _MOVES, axis: int, shape: Sequence[int], moved: Sequence[int]
) -> int | None:
    """Return the dimension of the result that corresponds to one of the operand."""
    if isinstance(move, tfl.ReverseV2Op):
        return None
    if isinstance(move, tfl.TransposeOp):
        order = constant_integers(move.perm)
        return None if order is None else [*order].index(axis)
    before = prod(shape[:axis])
    for index, size in enumerate(moved):
        if size == shape[axis] and prod(moved[:index]) == before:
            return index
    return None


def _moved_elements(move: _MOVES, elements: Array) -> Array | None:
    if isinstance(move, tfl.ReshapeOp):
        return elements.reshape(shape_of(move.output))
    numbers = constant_integers(move.operands[1])
    if numbers is None:
        return None
    if isinstance(move, tfl.TransposeOp):
        return elements.transpose(numbers)
    return np.flip(elements, (*numbers,))


def _moved_type(move: _MOVES, source: SSAValue) -> Attribute | None:
    """Return the type of a moved constant, whose quantized dimension moves, too."""
    type_ = scalar_or_element_type(source.type)
    shape = shape_of(move.output)
    if isinstance(type_, ScaledQuantizedType) and (axis := type_.axis) is not None:
        moved = _dimension_after_move(move, axis, shape_of(source), shape)
        if moved is None:
            return None
        parameters = QuantizationParameters.from_integer_type(type_)
        type_ = uniform_type(replace(parameters, quantized_dimension=moved))
    return TensorType(type_, shape)


class FoldMovedConstant(RewritePattern):
    """Fold a transpose, reshape or reversal of a constant or a dequantized constant."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, _MOVES):
            return
        if (constant := constant_source(op.input)) is None:
            return
        elements = constant_elements(constant.output)
        type_ = _moved_type(op, constant.output)
        assert elements is not None
        moved = _moved_elements(op, elements)
        if moved is None or type_ is None:
            return
        stored = scalar_or_element_type(constant.value.type)
        value = elements_attr(moved, stored)
        is_dequantized = isinstance(op.input.owner, tfl.DequantizeOp)

        def build(b: TFLBuilder) -> SSAValue:
            b.location = constant.location
            properties = {"value": value}
            if isinstance(constant, tfl.QConstOp):
                properties = {"qtype": type_, "value": value}
            result = b.op(type(constant), (), type_, properties)
            if not is_dequantized:
                return result
            return b.op(tfl.DequantizeOp, (result,), op.output.type)

        rebuild_op(op, rewriter, build)


# Transposes


def _permutation_of(value: SSAValue) -> tuple[int, ...] | None:
    """Return the permutation of a transpose, or `None` for another value."""
    if not isinstance(op := value.owner, tfl.TransposeOp):
        return None
    numbers = constant_integers(op.perm)
    return None if numbers is None else (*numbers,)


def _keeps_order(shape: Sequence[int], order: Sequence[int]) -> bool:
    """Return True if a transpose moves dimensions of size 1 only."""
    large = [d for d in order if shape[d] != 1]
    return large == sorted(large)


class MergeMoves(RewritePattern):
    """
    Merge two transposes, two reshapes, or a reshape and a transpose of dimensions of size
    1; remove moves that change nothing.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, tfl.TransposeOp | tfl.ReshapeOp):
            return
        if op.input.type == op.output.type and (
            isinstance(op, tfl.ReshapeOp)
            or _keeps_order(shape_of(op.input), _permutation_of(op.output) or ())
        ):
            rewriter.replace(op, (), (op.input,))
            return
        inner = op.input.owner
        if not isinstance(inner, tfl.TransposeOp | tfl.ReshapeOp):
            return
        source = inner.input
        orders = _permutation_of(op.output), _permutation_of(inner.output)
        if orders[0] is not None and orders[1] is not None:
            order = [orders[1][d] for d in orders[0]]
            rebuild_op(op, rewriter, lambda b: b.transpose(source, order))
            return
        are_reshapes = all(
            isinstance(move, tfl.ReshapeOp)
            or _keeps_order(shape_of(move.input), _permutation_of(move.output) or ())
            for move in (op, inner)
        )
        if are_reshapes:
            shape = shape_of(op.output)
            rebuild_op(op, rewriter, lambda b: b.reshape_to(source, shape))


class ReshapeUnitDimensions(RewritePattern):
    """Replace a transpose that moves dimensions of size 1 only by a reshape."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, tfl.TransposeOp):
            return
        order, shape = _permutation_of(op.output), shape_of(op.input)
        if order is not None and _keeps_order(shape, order):
            rebuild_op(
                op, rewriter, lambda b: b.reshape_to(op.input, shape_of(op.output))
            )


Sink: TypeAlias = Callable[
    [TFLBuilder, Operation, Sequence[int]], tuple[SSAValue, Sequence[int]] | None
]
"""
Function that rebuilds an op with the operands of transposes, given the permutation of
these. Returns the result and the permutation of its transpose, or `None`.
"""


def _rebuilt(
    b: TFLBuilder,
    op: Operation,
    operands: Sequence[SSAValue],
    shape: Sequence[int],
    properties: Mapping[str, Attribute] = {},
) -> SSAValue:
    """Build a copy of an op with other operands and another shape of the result."""
    element_type = cast(TensorType, op.results[0].type).element_type
    type_ = TensorType(element_type, shape)
    properties = {**op.properties, **properties}
    if "qtype" in properties:
        properties["qtype"] = type_
    return b.op(type(op), operands, type_, properties)


def _source_shape(op: Operation, order: Sequence[int]) -> Sequence[int]:
    """Return the shape of the result before its transpose."""
    shape = shape_of(op.results[0])
    return [shape[d] for d in inverse(order)]


def _source(value: SSAValue, order: Sequence[int]) -> SSAValue | None:
    """Return the operand of a transpose by `order`."""
    op = value.owner
    if _permutation_of(value) != (*order,):
        return None
    assert isinstance(op, tfl.TransposeOp)
    return op.input


def _untransposed(
    b: TFLBuilder, operands: Sequence[SSAValue], order: Sequence[int]
) -> Sequence[SSAValue] | None:
    """
    Return the values that the operands of an elementwise op are transposes of; constants
    are transposed. Return `None` if an operand is another value.
    """
    known = [_source(operand, order) for operand in operands]
    if any(
        source is None and shape_of(operand) and constant_source(operand) is None
        for source, operand in zip(known, operands, strict=True)
    ):
        return None
    return [
        source or _transposed_constant(b, operand, order)
        for source, operand in zip(known, operands, strict=True)
    ]


def _transposed_constant(
    b: TFLBuilder, value: SSAValue, order: Sequence[int]
) -> SSAValue:
    if not (shape := shape_of(value)):
        return value
    full = [1] * (len(order) - len(shape)) + [*shape]
    return b.transpose(b.reshape_to(value, full), inverse(order))


def _sink_elementwise(
    b: TFLBuilder, op: Operation, order: Sequence[int]
) -> tuple[SSAValue, Sequence[int]] | None:
    if len(shape_of(op.results[0])) != len(order):
        return None
    if (sources := _untransposed(b, op.operands, order)) is None:
        return None
    return _rebuilt(b, op, sources, _source_shape(op, order)), order


def _sink_concatenation(
    b: TFLBuilder, op: Operation, order: Sequence[int]
) -> tuple[SSAValue, Sequence[int]] | None:
    assert isinstance(op, tfl.ConcatenationOp)
    if (sources := _untransposed(b, op.values, order)) is None:
        return None
    axis = order[op.axis.value.data % len(order)]
    properties = {"axis": IntegerAttr(axis, i32)}
    return _rebuilt(b, op, sources, _source_shape(op, order), properties), order


def _sink_softmax(
    b: TFLBuilder, op: Operation, order: Sequence[int]
) -> tuple[SSAValue, Sequence[int]] | None:
    source = _source(op.operands[0], order)
    if source is None or order[-1] != len(order) - 1:
        return None
    return _rebuilt(b, op, (source,), _source_shape(op, order)), order


def _sink_rows(
    b: TFLBuilder, op: Operation, order: Sequence[int]
) -> tuple[SSAValue, Sequence[int]] | None:
    """Rebuild an op whose operands have a row for each dimension: padding, slices."""
    if isinstance(op, tfl.StridedSliceOp) and any(
        cast("IntegerAttr[IntegerType]", value).value.data
        for name, value in op.properties.items()
        if name.endswith("_mask")
    ):
        return None
    count = 2 if isinstance(op, tfl.PadOp | tfl.PadV2Op) else 3
    count = 4 if isinstance(op, tfl.StridedSliceOp) else count
    source, rows = _source(op.operands[0], order), op.operands[1:count]
    numbers = [constant_elements(row) for row in rows]
    if source is None:
        return None
    known = [elements for elements in numbers if elements is not None]
    if len(known) < len(numbers):
        return None
    moved = [
        b.array(elements[[*inverse(order)]], scalar_or_element_type(row.type))
        for row, elements in zip(rows, known, strict=True)
    ]
    operands = [source, *moved, *op.operands[count:]]
    return _rebuilt(b, op, operands, _source_shape(op, order)), order


def _sink_reduction(
    b: TFLBuilder, op: Operation, order: Sequence[int]
) -> tuple[SSAValue, Sequence[int]] | None:
    assert isinstance(op, _REDUCTIONS)
    source, axes = _source(op.operands[0], order), constant_integers(op.operands[1])
    if source is None or axes is None:
        return None
    reduced = sorted(order[axis] for axis in axes)
    axes_value = b.integers(reduced)
    if is_true(op.keep_dims):
        shape = _source_shape(op, order)
        return _rebuilt(b, op, (source, axes_value), shape), order
    kept = [d for d in order if d not in reduced]
    shape = [shape_of(source)[d] for d in sorted(kept)]
    new_order = [sorted(kept).index(d) for d in kept]
    return _rebuilt(b, op, (source, axes_value), shape), new_order


_ELEMENTWISE = (
    ActivationOp
    | FunctionOp
    | MinMaxOp
    | PairOp
    | RectifierOp
    | SelectionOp
    | tfl.CastOp
    | tfl.DequantizeOp
    | tfl.EqualOp
    | tfl.LogicalNotOp
    | tfl.QuantizeOp
)

_REDUCTIONS = (
    tfl.MeanOp | tfl.SumOp | tfl.ReduceMaxOp | tfl.ReduceMinOp | tfl.ReduceProdOp
)

_ROWS = tfl.PadOp | tfl.PadV2Op | tfl.SliceOp | tfl.StridedSliceOp


def _sink_of(op: Operation) -> Sink | None:
    if isinstance(op, _ELEMENTWISE):
        return _sink_elementwise
    if isinstance(op, tfl.ConcatenationOp):
        return _sink_concatenation
    if isinstance(op, tfl.SoftmaxOp):
        return _sink_softmax
    if isinstance(op, _REDUCTIONS):
        return _sink_reduction
    return _sink_rows if isinstance(op, _ROWS) else None


class SinkTranspose(RewritePattern):
    """Move the transposes of the operands of an op past it."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if (sink := _sink_of(op)) is None:
            return
        order = next(filter(None, map(_permutation_of, op.operands)), None)
        if order is None:
            return
        builder = TFLBuilder(InsertPoint.before(op), location=op.location)
        if (sunk := sink(builder, op, order)) is None:
            return
        value, new_order = sunk
        result = builder.transpose(value, new_order)
        result.name_hint = op.results[0].name_hint
        rewriter.replace(op, (), (result,))


class SinkReshape(RewritePattern):
    """
    Move reshapes that remove the height of one-dimensional images past an elementwise op,
    so that bias, activation and casts follow the convolution.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, _ELEMENTWISE):
            return
        values = (*op.operands, *op.results)
        sources = [*map(_image_with_height, op.operands)]
        if not any(sources) or any(map(_has_quantized_dimension, values)):
            return
        if any(
            source is None and constant_source(operand) is None
            for source, operand in zip(sources, op.operands, strict=True)
        ):
            return
        b = TFLBuilder(InsertPoint.before(op), location=op.location)
        operands = [
            source or _constant_with_height(b, operand)
            for source, operand in zip(sources, op.operands, strict=True)
        ]
        first, *others = shape = shape_of(op.results[0])
        value = _rebuilt(b, op, operands, [first, 1, *others])
        result = b.reshape_to(value, shape)
        result.name_hint = op.results[0].name_hint
        rewriter.replace(op, (), (result,))


def _image_with_height(value: SSAValue) -> SSAValue | None:
    """Return the image of rank 4 of which a reshape removes the height, if any."""
    op = value.owner
    if not isinstance(op, tfl.ReshapeOp) or not value.has_one_use():
        return None
    if not isinstance(
        op.input.owner, tfl.Conv2DOp | tfl.DepthwiseConv2DOp | _ELEMENTWISE
    ):
        return None
    first, *others = shape_of(value) or (0,)
    is_image = len(others) == 2 and shape_of(op.input) == (first, 1, *others)
    return op.input if is_image else None


def _constant_with_height(b: TFLBuilder, value: SSAValue) -> SSAValue:
    """Insert the height into a constant of rank 3; others broadcast as they are."""
    if len(shape := shape_of(value)) != 3:
        return value
    first, *others = shape
    return b.reshape_to(value, [first, 1, *others])


def _has_quantized_dimension(value: SSAValue) -> bool:
    type_ = scalar_or_element_type(value.type)
    return isinstance(type_, QuantizedType) and not isinstance(type_, PerTensorType)


class KeepReducedDimensions(RewritePattern):
    """Let a reduction keep its dimensions, if a reshape restores them."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, tfl.ReshapeOp):
            return
        reduction = op.input.owner
        if not isinstance(reduction, _REDUCTIONS) or is_true(reduction.keep_dims):
            return
        axes = constant_integers(reduction.operands[1])
        if axes is None:
            return
        shape = shape_of(reduction.operands[0])
        axes = [axis % len(shape) for axis in axes]
        kept = [1 if d in axes else n for d, n in enumerate(shape)]
        if [*shape_of(op.output)] != kept:
            return
        properties = {"keep_dims": BoolAttr.from_bool(True)}
        rebuild_op(
            op,
            rewriter,
            lambda b: _rebuilt(b, reduction, reduction.operands, kept, properties),
        )


# Fusion


_PRODUCTS = tfl.Conv2DOp | tfl.DepthwiseConv2DOp | tfl.FullyConnectedOp


class FuseBias(RewritePattern):
    """Fuse the addition of a constant for each channel to a contraction without bias."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, tfl.AddOp) or op.fused_activation_function.data != "NONE":
            return
        for value, bias in (op.operands, op.operands[::-1]):
            product = value.owner
            if not isinstance(product, _PRODUCTS) or constant_source(bias) is None:
                continue
            channels, shape = shape_of(value)[-1], shape_of(bias)
            if (
                value.has_one_use()
                and isinstance(product.bias.owner, tfl.NoValueOp)
                and product.fused_activation_function.data == "NONE"
                and value.type == op.output.type
                and prod(shape) == channels
                and (channels == 1 or shape[-1] == channels)
            ):
                rebuild_op(op, rewriter, lambda b: _biased(b, product, bias, channels))
                return


def _biased(
    b: TFLBuilder, product: Operation, bias: SSAValue, channels: int
) -> SSAValue:
    operands = [*product.operands[:2], b.reshape_to(bias, [channels])]
    return _rebuilt(b, product, operands, shape_of(product.results[0]))


class AddZeroBias(RewritePattern):
    """Add a bias of zeros to a float convolution, whose kernel requires one."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, tfl.Conv2DOp | tfl.DepthwiseConv2DOp):
            return
        if not isinstance(op.bias.owner, tfl.NoValueOp) or not is_float(op.output):
            return
        b = TFLBuilder(InsertPoint.before(op), location=op.location)
        zeros = np.zeros(shape_of(op.output)[-1:], np.float32)
        op.operands[2] = b.array(zeros, f32)
        rewriter.notify_op_modified(op)


_ACTIVATIONS: Mapping[type[Operation], str] = {
    tfl.ReluOp: "RELU",
    tfl.Relu6Op: "RELU6",
    tfl.Relu1Op: "RELU_N1_TO_1",
}
"""Activation functions that other ops have as an attribute."""


class FuseActivation(RewritePattern):
    """Fuse a clamp to the op that computes its operand."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if (activation := _ACTIVATIONS.get(type(op))) is None:
            return
        value = op.operands[0]
        inner = value.owner
        if (
            not isinstance(inner, Operation)
            or isinstance(inner, tfl.ConcatenationOp)
            or not value.has_one_use()
            or value.type != op.results[0].type
        ):
            return
        attribute = plain_attribute("NONE")
        if inner.properties.get("fused_activation_function") != attribute:
            return
        properties = {"fused_activation_function": plain_attribute(activation)}
        rebuild_op(
            op,
            rewriter,
            lambda b: _rebuilt(b, inner, inner.operands, shape_of(value), properties),
        )


SIMPLIFICATIONS: Sequence[RewritePattern] = (
    FoldMovedConstant(),
    MergeMoves(),
    KeepReducedDimensions(),
    SinkTranspose(),
    SinkReshape(),
    FuseBias(),
    FuseActivation(),
)
"""Patterns that remove transposes, and fuse biases and activation functions."""
