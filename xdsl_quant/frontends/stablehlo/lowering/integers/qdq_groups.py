"""
Groups of float ops between casts that onnxruntime replaces by kernels on stored values:
contractions with or without bias, sums and products of two tensors, means, the logistic
function and softmax.

A group starts at dequantizations, which data movement may follow, and ends at a
quantization. Clamps before it belong to the group if the quantization saturates likewise.
onnxruntime computes all other ops between casts as floats, or looks their results up in
tables of floats.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, f32, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xdsl_quant.diagnostics import location_prefix, warn
from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    ScaledQuantizedType,
    StorageCastOp,
    uniform_type,
)
from xdsl_quant.dialects.quant.types import with_element_type
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.building import StableHLOBuilder
from xdsl_quant.frontends.stablehlo.dialect.products import ProductOp
from xdsl_quant.frontends.stablehlo.softmax import match_softmax
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.runtime.arrays import constant_elements, elements_attr
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    element_type_of,
    shape_of,
)
from xdsl_quant.transforms.building.type_replacement import set_type

from .elementwise import quantized_type_of, storage_of
from .integer_softmax import build_integer_softmax
from .partial_sums import applies_one_op

QuantizeOp = QuantizeCastOp | stablehlo.UniformQuantizeOp
_DequantizeOp = DequantizeCastOp | stablehlo.UniformDequantizeOp
_Reduction = stablehlo.ReduceOp | stablehlo.ReduceWindowOp
_Broadcast = stablehlo.BroadcastInDimOp | stablehlo.DynamicBroadcastInDimOp
_Reshape = stablehlo.ReshapeOp | stablehlo.DynamicReshapeOp
_Move = _Broadcast | _Reshape | stablehlo.TransposeOp

_BIAS_SCALE_TOLERANCE = 1e-4
"""Relative difference of the scale of a bias up to which onnxruntime fuses `Conv`."""


# Operands


@dataclass(frozen=True)
class GroupOperand:
    """Quantized operand of a group: a dequantization, followed by data movement."""

    cast: Operation
    """Op on a quantized tensor, or on the stored values of a bias."""

    moves: Sequence[Operation]

    quantized_type: ScaledQuantizedType
    """Type after data movement."""

    @staticmethod
    def of(value: SSAValue) -> "GroupOperand | None":
        """Return the operand, or `None` if the value is not a quantized tensor."""
        moves: list[_Move] = []
        while isinstance(op := value.owner, _Move):
            moves.insert(0, op)
            value = op.operands[0]
        if isinstance(op, _DequantizeOp):
            type_ = quantized_type_of(op.operands[0].type)
        elif (bias := _dequantized_bias(op)) is not None:
            op, type_ = bias
        else:
            return None
        if not isinstance(type_, ScaledQuantizedType):
            return None
        if type_.granularity == "sub-channel":
            return None
        axis = type_.axis
        for move in moves:
            if axis is not None and (axis := _axis_after_move(move, axis)) is None:
                return None
        if axis != type_.axis:
            parameters = QuantizationParameters.from_integer_type(type_)
            type_ = uniform_type(replace(parameters, quantized_dimension=axis))
        return GroupOperand(op, moves, type_)

    def build(self, builder: LoweringBuilder) -> SSAValue:
        """Build the quantized tensor."""
        if not self.moves:
            return self.cast.operands[0]
        stored = self.build_stored(builder)
        result_type = with_element_type(stored.type, self.quantized_type)
        return builder.op(StorageCastOp, (stored,), result_type)

    def build_stored(self, builder: LoweringBuilder) -> SSAValue:
        """Build the tensor of stored values."""
        value = self.cast.operands[0]
        if quantized_type_of(value.type) is not None:
            value = builder.op(StorageCastOp, (value,), storage_of(value.type))
        for move in self.moves:
            moved_type = with_element_type(
                move.results[0].type, cast(IntegerType, element_type_of(value))
            )
            operands = value, *move.operands[1:]
            (value,) = builder.same_op(move, operands, [moved_type])
        return value


def _dequantized_bias(op: object) -> tuple[Operation, ScaledQuantizedType] | None:
    """
    Return the conversion of constant stored values of 32 bits to floats, and their type, if
    the op multiplies these by scales. Plain ops round integers beyond 24 bits, which
    `quant.dcast` does not.
    """
    if not isinstance(op, stablehlo.MultiplyOp):
        return None
    convert, scales = op.lhs.owner, constant_elements(op.rhs)
    if not isinstance(convert, stablehlo.ConvertOp) or scales is None:
        return None
    stored = convert.operands[0]
    is_constant = isinstance(stored.owner, stablehlo.ConstantOp)
    types = element_type_of(stored), element_type_of(op.rhs)
    if not is_constant or types != (i32, f32) or scales.ndim > 1:
        return None
    if not 0 < scales.min() <= scales.max() < np.inf:
        return None
    axis = 0 if scales.min() < scales.max() else None
    scales = scales if axis == 0 else scales.max()
    parameters = QuantizationParameters(scales, storage="i32", quantized_dimension=axis)
    return convert, uniform_type(parameters)


def _axis_after_move(move: _Move, axis: int) -> int | None:
    """Return the quantized dimension after data movement; `None` if there is none."""
    if isinstance(move, stablehlo.TransposeOp):
        return move.permutation.get_values().index(axis)
    if isinstance(move, _Broadcast):
        return move.broadcast_dimensions.get_values()[axis]
    before, after = shape_of(move.operands[0]), shape_of(move.results[0])
    found = (
        d
        for d, size in enumerate(after)
        if size == before[axis] and prod(after[:d]) == prod(before[:axis])
    )
    return next(found, None)


# Groups


@dataclass(frozen=True)
class QDQGroup:
    """Float op between casts that becomes integer arithmetic."""

    op: Operation
    operands: Sequence[GroupOperand]

    target: ScaledQuantizedType
    """Type of the quantized result."""

    bias: GroupOperand | None = None

    divisor: float = 1
    """Number of terms of a mean; NaN if it is not the same for all elements."""

    moves: Sequence[Operation] = ()
    """Data movement of the result."""

    axis: int | None = None
    """Dimension of a softmax."""

    @property
    def is_float(self) -> bool:
        """
        True for means of windows, which onnxruntime computes with floats. It adds the zero
        point before it rounds.
        """
        return isinstance(self.op, stablehlo.ReduceWindowOp)

    def build(self, builder: StableHLOBuilder) -> tuple[SSAValue, Sequence[Operation]]:
        """
        Build ops on quantized tensors.

        Returns:
            The result, and the ops to replace by their integer form. Types that StableHLO
            forbids, e.g. different storage types of factors, are replaced with them.
        """
        operands = [operand.build(builder) for operand in self.operands]
        result_type = with_element_type(self.op.results[0].type, self.target)
        if self.axis is not None:
            stored = build_integer_softmax(builder, operands[0], self.target, self.axis)
            value, ops = builder.op(StorageCastOp, (stored,), result_type), []
        elif isinstance(self.op, stablehlo.ReduceOp):
            value, ops = self._mean(builder, operands[0], result_type)
        elif self.bias is None:
            value = builder.op(type(self.op), operands, result_type, self.op.properties)
            ops = [value.owner]
        else:
            value, ops = self._biased_product(builder, operands, result_type)
        for move in self.moves:
            type_ = with_element_type(move.results[0].type, self.target)
            (value,) = builder.same_op(move, (value, *move.operands[1:]), [type_])
        return value, [op for op in ops if isinstance(op, Operation)]

    def _biased_product(
        self, builder: LoweringBuilder, operands: Sequence[SSAValue], type_: Attribute
    ) -> tuple[SSAValue, Sequence[Operation | Block]]:
        assert isinstance(self.op, ProductOp)
        assert self.bias is not None
        accumulator = accumulator_type(self.op, self.operands)
        sums_type = with_element_type(type_, accumulator)
        product = builder.op(type(self.op), operands, sums_type, self.op.properties)
        stored_type = storage_of(sums_type)
        products = builder.op(StorageCastOp, (product,), stored_type)
        # Overflow wraps, as in onnxruntime.
        terms = products, self.bias.build_stored(builder)
        stored = builder.op(stablehlo.AddOp, terms, stored_type)
        total = builder.op(StorageCastOp, (stored,), sums_type)
        result = builder.op(stablehlo.UniformQuantizeOp, (total,), type_)
        return result, [product.owner, result.owner]

    def _mean(
        self, builder: LoweringBuilder, operand: SSAValue, type_: Attribute
    ) -> tuple[SSAValue, Sequence[Operation | Block]]:
        total, ops = self._sums(builder, operand)
        divided_type = with_element_type(type_, self._divided_target())
        divided = builder.op(stablehlo.UniformQuantizeOp, (total,), divided_type)
        stored = builder.op(StorageCastOp, (divided,), storage_of(divided.type))
        result = builder.op(StorageCastOp, (stored,), type_)
        return result, [*ops, divided.owner]

    def _divided_target(self) -> ScaledQuantizedType:
        """Return the type of a sum that has the stored values of the mean."""
        parameters = QuantizationParameters.from_integer_type(self.target)
        scales = parameters.scales.astype(np.float32) * np.float32(self.divisor)
        return uniform_type(replace(parameters, scales=scales))

    def _sums(
        self, builder: LoweringBuilder, operand: SSAValue
    ) -> tuple[SSAValue, Sequence[Operation | Block]]:
        """Build a reduction with 32-bit accumulators, and the addition in its region."""
        scales = self.operands[0].quantized_type.get_scales()
        type_ = uniform_type(QuantizationParameters(scales, storage="i32"))
        region = self.op.regions[0].clone()
        addition = region.block.first_op
        assert addition is not None
        for value in (*region.block.args, *addition.results):
            set_type(value, with_element_type(value.type, type_))
        zero_type = with_element_type(self.op.operands[1].type, type_)
        elements = elements_attr(np.zeros((), np.int32), i32)
        zero = builder.op(stablehlo.ConstantOp, (), zero_type, {"value": elements})
        result_type = with_element_type(self.op.results[0].type, type_)
        (value,) = builder.same_op(self.op, (operand, zero), [result_type], [region])
        return value, [zero.owner, value.owner, addition]


def accumulator_type(
    op: ProductOp, operands: Sequence[GroupOperand]
) -> ScaledQuantizedType:
    """Return the 32-bit type of sums of products, which has the products of scales."""
    lhs, rhs = (operand.quantized_type for operand in operands)
    scales = [type_.get_scales().astype(np.float32) for type_ in (lhs, rhs)]
    _, positions = op.result_dimensions()
    axis = None if rhs.axis is None else positions[rhs.axis]
    return uniform_type(
        QuantizationParameters(
            np.multiply(*scales), storage="i32", quantized_dimension=axis
        )
    )


def qdq_group(op: Operation, *, allows_signed: bool = False) -> QDQGroup | None:
    """
    Return the group that ends at a quantization, or `None`.

    Args:
        op: the quantization.
        allows_signed: True to accept signed activations, as onnxruntime's session option
            `session.qdqisint8allowed`.
    """
    if not isinstance(op, QuantizeOp):
        return None
    target = quantized_type_of(op.results[0].type)
    if not isinstance(target, ScaledQuantizedType) or not target.is_per_tensor:
        return None
    if not _is_8_bit(target) or (target.is_signed and not allows_signed):
        return None
    value, moves, divisor = op.operands[0], list[Operation](), 0.0
    while _is_used_once(value):
        inner = value.owner
        if isinstance(inner, _Reshape | stablehlo.TransposeOp):
            moves.insert(0, inner)
            value = inner.operands[0]
        elif isinstance(inner, stablehlo.DivideOp) and match_softmax(inner):
            break
        elif isinstance(inner, stablehlo.DivideOp) and not divisor:
            divisor, value = _equal_element(inner.rhs) or math.nan, inner.lhs
        elif not divisor and (clamped := _saturated_clamp(inner, target)) is not None:
            value = clamped
        else:
            break
    inner = value.owner
    if not _is_used_once(value) or not isinstance(inner, Operation):
        return None
    group = (
        _mean_group(inner, target, divisor)
        if divisor
        else _computing_group(inner, target)
    )
    return group and replace(group, divisor=divisor or 1, moves=moves)


def _computing_group(op: Operation, target: ScaledQuantizedType) -> QDQGroup | None:
    if isinstance(op, ProductOp):
        return _product_group(op, target)
    if isinstance(op, stablehlo.DivideOp):
        return _softmax_group(op, target)
    if not isinstance(
        op, stablehlo.AddOp | stablehlo.MultiplyOp | stablehlo.LogisticOp
    ):
        return None
    operands = [*map(GroupOperand.of, op.operands)]
    if all(x and _has_activation_type(x, target) for x in operands):
        return QDQGroup(op, cast(Sequence[GroupOperand], operands), target)
    if isinstance(op, stablehlo.AddOp):
        for value, bias in zip(op.operands, reversed(operands), strict=True):
            if bias and isinstance(value.owner, ProductOp) and _is_used_once(value):
                return _biased_group(value.owner, bias, target)
    return None


def _softmax_group(
    op: stablehlo.DivideOp, target: ScaledQuantizedType
) -> QDQGroup | None:
    if (softmax := match_softmax(op)) is None:
        return None
    if shape_of(softmax.operand)[softmax.axis] == DYNAMIC_INDEX:
        return None
    operand = GroupOperand.of(softmax.operand)
    if operand is None or not _has_activation_type(operand, target):
        return None
    return QDQGroup(op, [operand], target, axis=softmax.axis)


def _product_group(op: ProductOp, target: ScaledQuantizedType) -> QDQGroup | None:
    lhs, rhs = GroupOperand.of(op.lhs), GroupOperand.of(op.rhs)
    if lhs is None or rhs is None or not _has_activation_type(lhs, target):
        return None
    weights = rhs.quantized_type
    if not _is_8_bit(weights) or (target.is_signed and not weights.is_signed):
        return None
    _, positions = op.result_dimensions()
    if weights.axis is not None and weights.axis not in positions:
        return None
    return None if _is_dynamic(op.rhs) else QDQGroup(op, [lhs, rhs], target)


def _biased_group(
    product: ProductOp, bias: GroupOperand, target: ScaledQuantizedType
) -> QDQGroup | None:
    """Return the group of a contraction and a bias whose scale is that of the products."""
    if (group := _product_group(product, target)) is None:
        return None
    type_ = bias.quantized_type
    if type_.storage_type_integral_width != 32 or not type_.is_fixed_point:
        return None
    sums = accumulator_type(product, group.operands)
    if None not in (type_.axis, sums.axis) and type_.axis != sums.axis:
        return None
    found, expected = type_.get_scales(), sums.get_scales()
    if np.allclose(found, expected, rtol=_BIAS_SCALE_TOLERANCE, atol=0):
        return replace(group, bias=bias)
    if isinstance(product, stablehlo.DotGeneralOp):
        warn(
            f"scale of a bias is not the product of scales: found {found.flat[0]:.6g}, "
            f"expected {expected.flat[0]:.6g}; the op is computed with floats, while "
            "onnxruntime reinterprets the bias",
            location_prefix(product.location),
        )
    return None


def _mean_group(
    op: Operation, target: ScaledQuantizedType, divisor: float
) -> QDQGroup | None:
    if not isinstance(op, _Reduction) or not applies_one_op(op):
        return None
    if not isinstance(op.body.block.first_op, stablehlo.AddOp):
        return None
    operand = GroupOperand.of(op.operands[0])
    if operand is None or not _has_activation_type(operand, target):
        return None
    is_zero = _equal_element(op.operands[1]) == 0
    if isinstance(op, stablehlo.ReduceOp) and math.isnan(divisor):
        return None
    return QDQGroup(op, [operand], target) if is_zero and not _is_dynamic(op) else None


# Conditions


def _is_8_bit(type_: ScaledQuantizedType) -> bool:
    return type_.storage_type_integral_width == 8


def _has_activation_type(operand: GroupOperand, target: ScaledQuantizedType) -> bool:
    """Return True for a per-tensor operand with the storage type of the result."""
    type_ = operand.quantized_type
    is_same_storage = type_.is_signed == target.is_signed and _is_8_bit(type_)
    return type_.is_per_tensor and is_same_storage


def _is_dynamic(value: SSAValue | Operation) -> bool:
    values = value.operands if isinstance(value, Operation) else (value,)
    return any(DYNAMIC_INDEX in shape_of(v) for v in values)


def _is_used_once(value: SSAValue) -> bool:
    """Return True for one use; reading a size does not count."""
    uses = [use.operation for use in value.uses]
    return sum(not isinstance(op, stablehlo.GetDimensionSizeOp) for op in uses) == 1


def _equal_element(value: SSAValue) -> float | None:
    """Return the element of a constant with equal elements, which may be broadcast."""
    while isinstance(value.owner, _Broadcast):
        value = value.owner.operands[0]
    elements = constant_elements(value)
    if (
        elements is None
        or not elements.size
        or not (elements == elements.flat[0]).all()
    ):
        return None
    return float(elements.flat[0])


def _saturated_clamp(op: object, target: ScaledQuantizedType) -> SSAValue | None:
    """Return the clamped value if quantization to `target` saturates at its bounds."""
    if isinstance(op, stablehlo.ClampOp):
        value, bounds = op.operand, (_equal_element(op.min), _equal_element(op.max))
    elif isinstance(op, stablehlo.MaximumOp):
        value, bounds = op.lhs, (_equal_element(op.rhs), np.inf)
    elif isinstance(op, stablehlo.MinimumOp):
        value, bounds = op.lhs, (-np.inf, _equal_element(op.rhs))
    else:
        return None
    low, high = target.storage_range
    scale, zero_point = (
        float(numbers) for numbers in (target.get_scales(), target.get_zero_points())
    )
    least, most = bounds
    if least is None or most is None:
        return None
    is_saturated = (
        np.rint(least / scale) + zero_point <= low
        and np.rint(most / scale) + zero_point >= high
    )
    return value if is_saturated else None
