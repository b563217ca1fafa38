"""
Patterns that prepare `tfl` ops between casts for `tfl-fuse-qdq`, and types of arguments.

`tfl.dequantize` moves down past data movement ops, which then move stored values. Biases of
contractions are stored in 32 bits with the product of the other scales. Stored values of
`u8` become those of `i8` if a model has both: LiteRT has no kernels for mixtures, nor for
`u16`.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import FunctionType, IntegerType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue, TypeAttribute
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.dialects.quant import ScaledQuantizedType, StorageCastOp, uniform_type
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    FixedResultUniformScale,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import (
    PerTensorType,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import constant_elements, elements_attr, stored_elements
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.transforms.building.type_replacement import set_type

from ..tfl_fuse_qdq import unsupported_kernel_reason
from .building import TFLBuilder, is_float
from .layouts import constant_source, rebuild_op

# Casts


class CancelCasts(RewritePattern):
    """Remove a `tfl.quantize` of a dequantized value with the same type."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, tfl.QuantizeOp):
            return
        inner = op.input.owner
        if isinstance(inner, tfl.DequantizeOp) and inner.input.type == op.output.type:
            rewriter.replace(op, (), (inner.input,))


_MOVERS = (
    tfl.BroadcastToOp
    | tfl.ConcatenationOp
    | tfl.GatherOp
    | tfl.MaxPool2DOp
    | tfl.PadOp
    | tfl.PadV2Op
    | tfl.ReshapeOp
    | tfl.ReverseV2Op
    | tfl.SliceOp
    | tfl.StridedSliceOp
    | tfl.TransposeOp
)
"""Ops that commute with the dequantization of their operands."""


def _operand_of_type(
    b: TFLBuilder, value: SSAValue, type_: PerTensorType
) -> SSAValue | None:
    """Return the stored values of a type that `value` dequantizes, or `None`."""
    op = value.owner
    if isinstance(op, tfl.DequantizeOp):
        is_same = scalar_or_element_type(op.input.type) == type_
        return op.input if is_same else None
    if not isinstance(op, tfl.ConstOp) or not is_float(value):
        return None
    parameters = QuantizationParameters.from_integer_type(type_)
    elements = constant_elements(value)
    assert elements is not None
    stored = quantize(elements, parameters)
    if not np.array_equal(dequantize(stored, parameters), elements):
        return None
    return _constant_of_stored(b, stored, type_)


def _constant_of_stored(
    b: TFLBuilder, stored: Array, type_: ScaledQuantizedType
) -> SSAValue:
    tensor = TensorType(type_, stored.shape)
    value = elements_attr(stored, type_.storage_type)
    return b.op(tfl.QConstOp, (), tensor, {"qtype": tensor, "value": value})


class SinkDequantize(RewritePattern):
    """Move `tfl.dequantize` of per-tensor values past an op that moves elements."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, _MOVERS):
            return
        casts = [x.owner for x in op.operands if isinstance(x.owner, tfl.DequantizeOp)]
        if not casts:
            return
        type_ = scalar_or_element_type(casts[0].input.type)
        if not isinstance(type_, PerTensorType) or not type_.has_integer_storage:
            return
        b = TFLBuilder(InsertPoint.before(op), location=op.location)
        operands = [
            _operand_of_type(b, x, type_) if is_float(x) else x for x in op.operands
        ]
        known = [x for x in operands if x is not None]
        if len(known) < len(operands):
            return
        moved = type(op).create(
            operands=known,
            result_types=[with_element_type(op.results[0].type, type_)],
            properties=op.properties,
            location=op.location,
        )
        if unsupported_kernel_reason(moved) is not None:
            moved.erase()
            return
        b.add(moved)
        result = b.op(tfl.DequantizeOp, moved.results, op.results[0].type)
        result.name_hint = op.results[0].name_hint
        rewriter.replace(op, (), (result,))


class HoistQuantize(RewritePattern):
    """
    Move `tfl.quantize` before a concatenation of values with other scales: LiteRT's kernel
    requires that all scales are equal.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, tfl.ConcatenationOp):
            return
        users = [use.operation for use in op.output.uses]
        casts = [user for user in users if isinstance(user, tfl.QuantizeOp)]
        types = {cast.output.type for cast in casts}
        is_dequantized = any(isinstance(x.owner, tfl.DequantizeOp) for x in op.values)
        if len(types) != 1 or len(casts) < len(users) or not is_dequantized:
            return
        element_type = scalar_or_element_type(types.pop())
        if not isinstance(element_type, PerTensorType):
            return
        b = TFLBuilder(InsertPoint.before(op), location=op.location)
        operands: list[SSAValue] = []
        for value in op.values:
            type_ = with_element_type(value.type, element_type)
            cast = value.owner
            source = cast.input if isinstance(cast, tfl.DequantizeOp) else value
            if source.type != type_:
                source = b.op(tfl.QuantizeOp, (source,), type_, {"qtype": type_})
            operands.append(source)
        result = b.op(
            tfl.ConcatenationOp, operands, casts[0].output.type, op.properties
        )
        result.name_hint = op.output.name_hint
        for cast in casts:
            rewriter.replace(cast, (), (result,))
        rewriter.erase(op)


class StoreBound(RewritePattern):
    """
    Quantize the constant of a maximum or minimum between casts of one type. The result is
    the same: rounding is monotonic.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, tfl.MaximumOp | tfl.MinimumOp):
            return
        users = [use.operation for use in op.results[0].uses]
        types = {
            user.results[0].type for user in users if isinstance(user, tfl.QuantizeOp)
        }
        if len(types) != 1 or not all(isinstance(u, tfl.QuantizeOp) for u in users):
            return
        type_ = scalar_or_element_type(types.pop())
        for index, bound in enumerate(op.operands):
            other = _type_before_dequantize(op.operands[1 - index])
            is_constant = isinstance(bound.owner, tfl.ConstOp)
            if (
                not is_constant
                or type_ != other
                or not isinstance(type_, PerTensorType)
            ):
                continue
            elements = constant_elements(bound)
            assert elements is not None
            parameters = QuantizationParameters.from_integer_type(type_)
            b = TFLBuilder(InsertPoint.before(op), location=op.location)
            constant = _constant_of_stored(b, quantize(elements, parameters), type_)
            op.operands[index] = b.op(tfl.DequantizeOp, (constant,), bound.type)
            rewriter.notify_op_modified(op)


class FixResultScale(RewritePattern):
    """
    Requantize the result of an op with a fixed result scale, such as 1/256 of
    `tfl.softmax`, if the casts of the result have other scales.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        trait = quantization_trait(op, FixedResultUniformScale)
        if trait is None or not op.name.startswith("tfl."):
            return
        (source,), (result,) = op.operands, op.results
        casts = [use.operation for use in result.uses]
        types = {
            c.output.type if isinstance(c, tfl.QuantizeOp) else None for c in casts
        }
        if len(types) != 1 or (type_ := types.pop()) is None:
            return
        element_type = scalar_or_element_type(type_)
        if _type_before_dequantize(source) is None or not (
            isinstance(element_type, PerTensorType) and element_type.has_integer_storage
        ):
            return
        scale, zero_point = trait.parameters(element_type)
        parameters = QuantizationParameters.from_integer_type(element_type)
        fixed = QuantizationParameters(scale, zero_point, storage=parameters.storage)
        fixed_type = with_element_type(type_, uniform_type(fixed))
        if _may_have_type(op, type_) or not _may_have_type(op, fixed_type):
            return
        b = TFLBuilder(InsertPoint.after(op), location=op.location)
        for cast in casts:
            stored = b.op(tfl.QuantizeOp, (result,), fixed_type, {"qtype": fixed_type})
            cast.operands[0] = b.op(tfl.DequantizeOp, (stored,), result.type)
        rewriter.notify_op_modified(op)


def _may_have_type(op: Operation, type_: Attribute) -> bool:
    """Return True if an op of a dequantized value may have a quantized result type."""
    source = op.operands[0].owner
    assert isinstance(source, tfl.DequantizeOp)
    kernel = type(op).create(
        operands=[source.input], result_types=[type_], properties=op.properties
    )
    reason = unsupported_kernel_reason(kernel)
    kernel.erase()
    return reason is None


# Biases


def _type_before_dequantize(value: SSAValue) -> ScaledQuantizedType | None:
    op = value.owner
    if not isinstance(op, tfl.DequantizeOp):
        return None
    type_ = scalar_or_element_type(op.input.type)
    return type_ if isinstance(type_, ScaledQuantizedType) else None


def _bias_elements(bias: SSAValue, channels: int) -> Array | None:
    """Return a bias as floats; zeros if it is absent, `None` if it is not constant."""
    if isinstance(bias.owner, tfl.NoValueOp):
        return np.zeros(channels, np.float32)
    if (constant := constant_source(bias)) is None:
        return None
    elements = constant_elements(constant.output)
    type_ = scalar_or_element_type(constant.output.type)
    if elements is None or not isinstance(type_, ScaledQuantizedType):
        return elements
    parameters = QuantizationParameters.from_integer_type(type_)
    return dequantize(stored_elements(elements, type_), parameters)


class StoreBias(RewritePattern):
    """
    Quantize the constant bias of a contraction between casts to `i32`, with the product of
    the scales of its operands; add a bias of zeros if there is none.

    The sum of products has this scale, so rounding the bias changes the sum by half a unit
    at most.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        trait = quantization_trait(op, AccumulatorUniformScale)
        if trait is None or not op.name.startswith("tfl."):
            return
        (result, *_), bias = op.results, op.operands[trait.bias]
        users = [use.operation for use in result.uses]
        if not users or not all(isinstance(user, tfl.QuantizeOp) for user in users):
            return
        types = [
            _type_before_dequantize(op.operands[factor]) for factor in trait.factors
        ]
        known = _type_before_dequantize(bias)
        elements = _bias_elements(bias, shape_of(result)[-1])
        if (parameters := _bias_parameters(types)) is None or elements is None:
            return
        if known is not None and _has_scales(known, parameters):
            return
        if np.abs(elements / parameters.scales).max(initial=0) >= 1 << 31:
            return
        b = TFLBuilder(InsertPoint.before(op), location=op.location)
        stored = quantize(elements, parameters)
        constant = _constant_of_stored(b, stored, uniform_type(parameters))
        type_ = TensorType(element_type_of(result), stored.shape)
        op.operands[trait.bias] = b.op(tfl.DequantizeOp, (constant,), type_)
        rewriter.notify_op_modified(op)


def _bias_parameters(
    types: Sequence[ScaledQuantizedType | None],
) -> QuantizationParameters | None:
    """Return the parameters of the sums of products of two quantized types."""
    scales = [np.float32(type_.get_scales()) for type_ in types if type_ is not None]
    if len(scales) < len(types) or any(each.ndim > 1 for each in scales):
        return None
    product = np.prod(np.broadcast_arrays(*scales), axis=0)
    dimension = 0 if product.ndim else None
    return QuantizationParameters(product, storage="i32", quantized_dimension=dimension)


def _has_scales(type_: ScaledQuantizedType, parameters: QuantizationParameters) -> bool:
    """Return True for an `i32` type with scales that are equal up to rounding."""
    scales = type_.get_scales()
    return (
        type_.storage_type_integral_width == 32
        and not type_.get_zero_points().any()
        and scales.size in (1, parameters.scales.size)
        and np.allclose(scales, parameters.scales, rtol=1e-6, atol=0)
    )


class FoldAccumulatorConstant(RewritePattern):
    """
    Replace a `tfl.dequantize` of a constant of 32 bits, for which LiteRT has no kernel, by
    a constant of floats.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, tfl.DequantizeOp):
            return
        type_ = _type_before_dequantize(op.output)
        if type_ is None or type_.storage_type_integral_width != 32:
            return
        if not isinstance(op.input.owner, tfl.QConstOp):
            return
        elements = _bias_elements(op.output, 0)
        assert elements is not None
        rebuild_op(
            op, rewriter, lambda b: b.array(elements, element_type_of(op.output))
        )


# Signedness


def _width_of_storage(value: SSAValue, *, is_signed: bool) -> int | None:
    type_ = scalar_or_element_type(value.type)
    if not isinstance(type_, ScaledQuantizedType) or type_.is_signed != is_signed:
        return None
    return type_.storage_type_integral_width


def _signed_type(type_: Attribute) -> TypeAttribute:
    """Return the type of unsigned values that are reduced by half of their range."""
    element_type = scalar_or_element_type(type_)
    assert isinstance(element_type, ScaledQuantizedType)
    width = element_type.storage_type_integral_width
    offset = 1 << (width - 1)
    parameters = QuantizationParameters.from_integer_type(element_type)
    signed = replace(
        parameters,
        storage=f"i{width}",
        storage_min=parameters.storage_min - offset,
        storage_max=parameters.storage_max - offset,
        zero_points=parameters.zero_points - offset,
    )
    return with_element_type(type_, uniform_type(signed))


def make_signed(function: FuncOp) -> None:
    """
    Store the `u8` values of a function as `i8`, reduced by 128, if it also has `i8` values,
    and `u16` values as `i16`, reduced by 32768. Arguments and results keep their types.
    """
    ops = [*function.body.block.ops]
    values = [*function.args, *(result for op in ops for result in op.results)]
    has_bytes = any(_width_of_storage(v, is_signed=True) == 8 for v in values)
    widths = (8, 16) if has_bytes else (16,)
    unsigned = [v for v in values if _width_of_storage(v, is_signed=False) in widths]
    returned = function.body.block.last_op
    assert returned is not None
    types = [*returned.operand_types]
    start = InsertPoint.at_start(function.body.block)
    for value in unsigned:
        type_ = _signed_type(value.type)
        if isinstance(value, BlockArgument):
            b = TFLBuilder(start, location=function.location)
            signed = b.op(tfl.QuantizeOp, (value,), type_, {"qtype": type_})
            value.replace_uses_with_if(
                signed, lambda use: not isinstance(use.operation, tfl.QuantizeOp)
            )
        else:
            _set_signed_type(value, type_)
    b = TFLBuilder(InsertPoint.before(returned), location=function.location)
    for index, type_ in enumerate(types):
        value = returned.operands[index]
        if value.type != type_:
            cast = b.op(tfl.QuantizeOp, (value,), type_, {"qtype": type_})
            returned.operands[index] = cast


def _set_signed_type(value: SSAValue, type_: TypeAttribute) -> None:
    """Set the type of a result; shift the stored values of a constant."""
    op = value.owner
    assert isinstance(op, Operation)
    set_type(value, type_)
    if "qtype" in op.properties:
        op.properties["qtype"] = type_
    if isinstance(op, tfl.QConstOp):
        stored = constant_elements(value)
        assert stored is not None
        width = 8 * stored.dtype.itemsize
        shifted = stored.astype(np.int64) - (1 << (width - 1))
        op.properties["value"] = elements_attr(
            shifted.astype(f"i{stored.dtype.itemsize}"), IntegerType(width)
        )


# Arguments and results


def _reinterpreted(value: SSAValue) -> SSAValue | None:
    """Return the quantized value of which an integer result has the stored values."""
    op = value.owner
    if isinstance(op, stablehlo.BitcastConvertOp):
        op = op.operands[0].owner
    if not isinstance(op, StorageCastOp):
        return None
    stored = scalar_or_element_type(op.operands[0].type)
    return op.operands[0] if isinstance(stored, ScaledQuantizedType) else None


def _stored_casts(value: SSAValue) -> Sequence[StorageCastOp]:
    """Return the casts of an integer argument to a quantized type; `()` with other uses."""
    casts: list[StorageCastOp] = []
    for user in [use.operation for use in value.uses]:
        inner = [user]
        if isinstance(user, stablehlo.BitcastConvertOp):
            inner = [use.operation for use in user.results[0].uses]
        for op in inner:
            if not isinstance(op, StorageCastOp):
                return ()
            casts.append(op)
    return casts if len({cast.results[0].type for cast in casts}) == 1 else ()


def quantize_signature(function: FuncOp) -> None:
    """Give quantized types to arguments and results that are stored values."""
    block = function.body.block
    for argument in function.args:
        if not (casts := _stored_casts(argument)):
            continue
        set_type(argument, casts[0].results[0].type)
        for op in casts:
            between = op.operands[0].owner
            Rewriter.replace_op(op, (), (argument,))
            if isinstance(between, Operation) and not between.results[0].first_use:
                Rewriter.erase_op(between)
    end = block.last_op
    assert end is not None
    for index, value in enumerate(end.operands):
        if (stored := _reinterpreted(value)) is not None:
            end.operands[index] = stored
    function.function_type = FunctionType.from_lists(block.arg_types, end.operand_types)


CAST_PATTERNS: Sequence[RewritePattern] = (
    CancelCasts(),
    SinkDequantize(),
    HoistQuantize(),
    StoreBound(),
    FixResultScale(),
    StoreBias(),
)
"""Patterns that prepare ops between casts for their fusion."""
