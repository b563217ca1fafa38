"""
Products of activations that are quantized at run time, and constant integer weights: ONNX's
`DynamicQuantizeLinear` with `MatMulInteger` or `ConvInteger`, and the recipe
`dynamic-range`. They become kernels of TensorFlow Lite that do the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from xdsl.dialects.builtin import BoolAttr, ModuleOp, TensorType
from xdsl.dialects.tensor import FromElementsOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.dead_code_elimination import dce

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    ScaledQuantizedType,
    uniform_type,
)
from xdsl_quant.dialects.quant.dynamic_ops import (
    ChooseParametersOp,
    DynamicQuantizeCastOp,
)
from xdsl_quant.dialects.quant.types import PerTensorType, scalar_or_element_type
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.reduction import region_op
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import constant_elements, elements_attr
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    element_type_of,
    shape_of,
)

from ..kernels import has_hybrid_kernel
from .building import known_elements

_Product = stablehlo.ConvolutionOp | stablehlo.DotGeneralOp

_WeightKey: TypeAlias = tuple[bytes, bytes]
"""Scales, and sorted stored values."""


class _DynamicRange(NamedTuple):
    """A value that is quantized at run time, and its scale."""

    source: SSAValue
    scale: SSAValue
    has_zero_point: bool

    dimensions: Sequence[int] = ()
    """Dimensions of the value along which scales vary."""


def _before_ops(value: SSAValue, *op_types: type[Operation]) -> SSAValue:
    """Return the first operand of a chain of ops of these types, or the value."""
    while isinstance(value.owner, op_types):
        value = value.owner.operands[0]
    return value


def _chosen_parameter(value: SSAValue) -> SSAValue:
    """Return the number that ops broadcast, convert or make a tensor."""
    return _before_ops(
        value,
        stablehlo.BroadcastInDimOp,
        stablehlo.BitcastConvertOp,
        stablehlo.ConvertOp,
        FromElementsOp,
    )


def _dynamic_range(value: SSAValue) -> _DynamicRange | None:
    """
    Return the activations of an integer product, less their zero points; `None` if kernels
    of TensorFlow Lite quantize them in another way.
    """
    moves = stablehlo.ConvertOp, stablehlo.BitcastConvertOp
    value, zero_point = _before_ops(value, *moves), None
    if isinstance(difference := value.owner, stablehlo.SubtractOp):
        value = _before_ops(difference.lhs, *moves)
        zero_point = _chosen_parameter(difference.rhs)
    op = value.owner
    if isinstance(op, DynamicQuantizeCastOp):
        chosen = _chosen_parameter(op.scale).owner
        own = None if op.zero_point is None else _chosen_parameter(op.zero_point)
        if (
            isinstance(chosen, ChooseParametersOp)
            and chosen.input is op.input
            and chosen.zero_point is own is zero_point
            and chosen.storage.storage_type_integral_width == 8
            and not chosen.blocks
        ):
            return _DynamicRange(op.input, op.scale, own is not None)
    if isinstance(op, stablehlo.ClampOp) and zero_point is None:
        return _symmetric_range(op)
    return None


def _symmetric_range(clamp: stablehlo.ClampOp) -> _DynamicRange | None:
    """Return the activations that are divided by `max(abs(x)) / 127` and rounded."""
    bounds = known_elements(clamp.min), known_elements(clamp.max)
    rounded = clamp.operand.owner
    if not isinstance(rounded, stablehlo.RoundNearestEvenOp) or not isinstance(
        quotient := rounded.operand.owner, stablehlo.DivideOp
    ):
        return None
    scale = _before_ops(quotient.rhs, stablehlo.BroadcastInDimOp)
    ratio = scale.owner
    if isinstance(ratio, stablehlo.MaximumOp) and known_elements(ratio.rhs) is not None:
        ratio = ratio.lhs.owner
    if not isinstance(ratio, stablehlo.DivideOp):
        return None
    largest, steps = ratio.lhs.owner, known_elements(ratio.rhs)
    if (
        not isinstance(largest, stablehlo.ReduceOp)
        or not isinstance(region_op(largest), stablehlo.MaximumOp)
        or not isinstance(magnitudes := largest.inputs[0].owner, stablehlo.AbsOp)
        or magnitudes.operand is not quotient.lhs
    ):
        return None
    reduced = largest.dimensions.get_values()
    kept = [d for d in range(len(shape_of(quotient.lhs))) if d not in reduced]
    if kept and not _varies_along(quotient.rhs, scale, kept):
        return None
    limits = *bounds, steps
    is_filled = all(
        array is not None and bool((array == limit).all())
        for array, limit in zip(limits, (-127, 127, 127), strict=True)
    )
    return _DynamicRange(quotient.lhs, scale, False, kept) if is_filled else None


def _varies_along(
    value: SSAValue, scale: SSAValue, dimensions: Sequence[int | None]
) -> bool:
    """Return True if a value contains scales along dimensions."""
    op = value.owner
    return (
        isinstance(op, stablehlo.BroadcastInDimOp)
        and op.operand is scale
        and [*op.broadcast_dimensions.get_values()] == [*dimensions]
    )


def _scaled_product(value: SSAValue) -> tuple[_Product, Sequence[SSAValue]] | None:
    """Return the product of integers that is converted and scaled, and its factors."""
    op = value.owner
    if isinstance(op, stablehlo.ConvertOp):
        product = op.operand.owner
        return (product, []) if isinstance(product, _Product) else None
    if isinstance(op, stablehlo.MultiplyOp):
        for inner, factor in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if (found := _scaled_product(inner)) is not None:
                return found[0], [*found[1], factor]
    return None


def _is_aligned(value: SSAValue) -> bool:
    """Return True if a value is broadcast as NumPy does, or not at all."""
    op = value.owner
    if isinstance(op, stablehlo.ConvertOp):
        return _is_aligned(op.operand)
    if isinstance(op, stablehlo.BroadcastInDimOp):
        rank, own = len(shape_of(value)), len(shape_of(op.operand))
        is_aligned = op.broadcast_dimensions.get_values() == (*range(rank - own, rank),)
        return is_aligned and _is_aligned(op.operand)
    return not isinstance(op, stablehlo.ReshapeOp) or not shape_of(op.operand)


def _weight_scales(
    factors: Sequence[SSAValue], scale: SSAValue, dimensions: Sequence[int | None]
) -> Array | None:
    """
    Return the product of the constant factors, which broadcasts to the result; `None` if
    the others are not exactly the scales of the activations, along these dimensions.
    """
    scales, pending = np.ones((), np.float32), [*factors]
    dynamic: list[SSAValue] = []
    while pending:
        factor = pending.pop()
        if (array := known_elements(factor)) is not None:
            scales = scales * array
            continue
        inner = _before_ops(factor, stablehlo.BroadcastInDimOp, stablehlo.ReshapeOp)
        if isinstance(inner.owner, stablehlo.MultiplyOp) and _is_aligned(factor):
            pending += inner.owner.operands
        elif dimensions and not _varies_along(factor, scale, dimensions):
            return None
        else:
            dynamic.append(inner)
    return scales if dynamic == [scale] else None


def _channel_scales(scales: Array, rank: int, channels: int) -> Array | None:
    """Return the factors as one number, or a vector with one for each channel."""
    if scales.size == 1:
        return scales.reshape(())
    wide = scales.reshape([1] * (rank - scales.ndim) + [*scales.shape])
    first = wide[tuple(slice(None) if d == channels else slice(1) for d in range(rank))]
    is_equal = np.array_equal(np.broadcast_to(first, wide.shape), wide)
    return first.reshape(-1 if first.size > 1 else ()) if is_equal else None


def _weights(value: SSAValue) -> tuple[Array, Array] | None:
    """Return constant weights as `i8`, and one zero point, or a vector for the columns."""
    zero_points = np.zeros((), np.int64)
    value = _before_ops(value, stablehlo.ConvertOp)
    if isinstance(op := value.owner, stablehlo.SubtractOp):
        if not _is_aligned(op.rhs):
            return None
        known = constant_elements(
            _before_ops(op.rhs, stablehlo.BroadcastInDimOp, stablehlo.ConvertOp)
        )
        if known is None or not known.size or known.ndim > 1:
            return None
        is_equal = bool((known == known.flat[0]).all())
        zero_points = (known.flat[0] if is_equal else known).astype(np.int64)
        value = _before_ops(op.lhs, stablehlo.ConvertOp)
    elements = constant_elements(value)
    if elements is None or elements.dtype.name not in ("int8", "uint8"):
        return None
    weights = elements.astype(np.int64)
    if np.abs(weights - zero_points).max(initial=0) < 128:
        weights, zero_points = weights - zero_points, np.zeros((), np.int64)
    elif elements.dtype.name == "uint8":
        weights, zero_points = weights - 128, zero_points - 128
    return weights.astype(np.int8), zero_points


def _channel_dimensions(op: _Product) -> tuple[int, int]:
    """Return the dimension of the channels of the result, and of the weights."""
    if isinstance(op, stablehlo.ConvolutionOp):
        tensors = op.dimension_numbers.by_tensor()
        return tensors["output"][1], tensors["kernel"][1]
    batching, contracting = op.dot_dimension_numbers.pairs()
    rank = len(shape_of(op.rhs))
    free = [d for d in range(rank) if d not in (*batching[1], *contracting[1])]
    return len(shape_of(op.result)) - 1, free[-1] if free else rank - 1


def restore_dynamic_ranges(module: ModuleOp) -> Sequence[RewritePattern]:
    """
    Replace integer products by float products of dequantized weights: their activations
    were quantized at run time.

    Returns:
        Patterns for the converted module, whose kernels quantize the activations.
    """
    # A product is scaled by several factors: the last multiplication comes first.
    found = [
        _restore_product(op)
        for op in reversed([*module.walk()])
        if op.parent is not None
    ]
    zero_points = dict(each for each in found if each is not None)
    if not zero_points:
        return ()
    dce(module)
    return (UseStoredWeights(zero_points),)


def _weight_key(type_: ScaledQuantizedType, stored: Array) -> _WeightKey:
    """Return a key of weights that is the same after data movement."""
    return type_.get_scales().tobytes(), np.sort(stored, axis=None).tobytes()


def _stored_weight_type(
    op: Operation, product: _Product, scales: Array | None, weights: tuple[Array, Array]
) -> ScaledQuantizedType | None:
    """
    Return the type of the weights of a product; `None` if none exists.

    Args:
        op: the multiplication of the product by the scales.
        product: the integer product.
        scales: the scales of the weights.
        weights: stored values and zero points.
    """
    channels, axis = _channel_dimensions(product)
    if scales is not None:
        scales = _channel_scales(scales, len(shape_of(op.results[0])), channels)
    if scales is None or not (0 < scales.min() <= scales.max() < np.inf):
        return None
    stored, zero_points = weights
    if (
        isinstance(product, stablehlo.ConvolutionOp)
        and product.feature_group_count.value.data > 1
    ):
        # The kernels have a scale for each channel.
        scales = np.broadcast_to(scales, stored.shape[axis])
    if zero_points.ndim and axis != stored.ndim - 1:
        return None
    scales, zero_points = np.broadcast_arrays(scales, zero_points)
    dimension = axis if scales.ndim else None
    return uniform_type(
        QuantizationParameters(
            scales, zero_points, storage="i8", quantized_dimension=dimension
        )
    )


def _restore_product(op: Operation) -> tuple[_WeightKey, bool] | None:
    """
    Restore a product. Return the key of its weights, and True if its activations have zero
    points; `None` for other ops.
    """
    if not isinstance(op, stablehlo.MultiplyOp):
        return None
    if (matched := _scaled_product(op.result)) is None:
        return None
    product, factors = matched
    activations, weights = _dynamic_range(product.lhs), _weights(product.rhs)
    if activations is None or weights is None:
        return None
    positions, _ = product.result_dimensions()
    rows = [positions.get(d) for d in activations.dimensions]
    type_ = _stored_weight_type(
        op, product, _weight_scales(factors, activations.scale, rows), weights
    )
    if type_ is None:
        return None
    b = LoweringBuilder(InsertPoint.before(op), location=product.location)
    constant = stablehlo.ConstantOp(
        elements_attr(weights[0], type_.storage_type),
        TensorType(type_, weights[0].shape),
    )
    expressed = TensorType(element_type_of(op.result), weights[0].shape)
    operands = (
        activations.source,
        b.op(DequantizeCastOp, (b.add(constant),), expressed),
    )
    value = b.op(type(product), operands, op.result.type, product.properties)
    Rewriter.replace_op(op, (), (value,))
    return _weight_key(type_, weights[0]), activations.has_zero_point


@dataclass(frozen=True)
class UseStoredWeights(RewritePattern):
    """
    Let a product of floats and dequantized weights use the stored weights: its kernel
    quantizes the activations. LiteRT's kernels overflow for weights of -128.
    """

    zero_points: Mapping[_WeightKey, bool]
    """
    Weights of products whose activations are quantized at run time, with True for
    activations with zero points. Other products keep float activations.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(
            op, tfl.FullyConnectedOp | tfl.Conv2DOp | tfl.DepthwiseConv2DOp
        ):
            return
        cast = op.operands[1].owner
        if not isinstance(cast, tfl.DequantizeOp) or not isinstance(
            cast.input.owner, tfl.QConstOp
        ):
            return
        type_ = scalar_or_element_type(cast.input.type)
        is_refused = isinstance(op, tfl.DepthwiseConv2DOp) and isinstance(
            type_, PerTensorType
        )
        assert isinstance(type_, ScaledQuantizedType)
        if is_refused or type_.get_zero_points().any() or not has_hybrid_kernel(op):
            return
        stored = constant_elements(cast.input)
        if stored is None or stored.min(initial=0) == -128:
            return
        has_zero_point = self.zero_points.get(_weight_key(type_, stored))
        if has_zero_point is None:
            return
        op.operands[1] = cast.input
        if isinstance(op, tfl.FullyConnectedOp):
            op.asymmetric_quantize_inputs = BoolAttr.from_bool(has_zero_point)
        rewriter.notify_op_modified(op)
