"""
The rules of single ops for quantized operands and results.

A rule is called here as it is in StableHLO's specification: `C4` of `add`.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import (
    FixedPointQuantizedPerAxisType,
    FixedPointQuantizedType,
    QuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.fixed_point_types import FixedPointType
from xdsl_quant.dialects.quant.types import float_array, int_array

from .compatibility import RankedTensor
from .tensor_kinds import PerAxisType, PerTensorType, QuantizedElementType


def has_quantized(types: Sequence[RankedTensor]) -> bool:
    """Whether one of the tensors is quantized."""
    return any(isinstance(type_.element_type, QuantizedType) for type_ in types)


def verify_quantized_add(lhs: Attribute, rhs: Attribute, result: Attribute) -> None:
    """C2 to C7 of `add`, on element types of which one is quantized."""
    if (
        not isinstance(lhs, QuantizedElementType)
        or not isinstance(rhs, QuantizedElementType)
        or not isinstance(result, QuantizedElementType)
    ):
        raise VerifyException(
            "expects  all operands and results to be either quantized or non-quantized"
        )
    if not lhs.storage_type == rhs.storage_type == result.storage_type:
        raise VerifyException(
            "mismatched operands and result quantization storage types"
        )
    if not lhs.expressed_type == rhs.expressed_type == result.expressed_type:
        raise VerifyException(
            "mismatched operands and result quantization expressed types"
        )
    per_axis = [
        (name, type_)
        for name, type_ in (("lhs", lhs), ("rhs", rhs))
        if isinstance(type_, PerAxisType)
    ]
    if not isinstance(result, PerAxisType):
        if per_axis:
            raise VerifyException("result is not per_axis quantized but lhs or rhs are")
        return
    if not per_axis:
        raise VerifyException(
            "result per_axis quantized but none from rhs and lhs are per_axis quantized"
        )
    for name, type_ in per_axis:
        if type_.quantized_dimension != result.quantized_dimension:
            raise VerifyException(
                f"quantization_dimension of {name} and result are not same '{type_}' vs "
                f"'{result}'"
            )


def verify_same_parameters(operand: RankedTensor, result: RankedTensor) -> None:
    """
    C1 of `reshape` and `transpose`: what is stored keeps its meaning. The quantized
    dimension may be another one.
    """
    a, b = operand.element_type, result.element_type
    if isinstance(a, PerTensorType) and isinstance(b, PerTensorType):
        verify_same_scale(operand, result)
        return
    if (
        isinstance(a, PerAxisType)
        and isinstance(b, PerAxisType)
        and not _have_same_scales(a, b)
    ):
        raise VerifyException(
            f"expect same quantization scales and zero_points but got '{operand}' vs "
            f"'{result}'"
        )


def verify_same_scale(operand: RankedTensor, result: RankedTensor) -> None:
    """C1 of `broadcast_in_dim`: a per-tensor type stays as it is."""
    a, b = operand.element_type, result.element_type
    if isinstance(a, PerTensorType) and isinstance(b, PerTensorType) and a != b:
        raise VerifyException(
            f"expect same quantization scale and zero_point but got '{operand}' vs "
            f"'{result}'"
        )


def _as_uniform(type_: PerAxisType) -> UniformQuantizedPerAxisType:
    return type_.to_uniform() if isinstance(type_, FixedPointType) else type_


def _have_same_scales(one: PerAxisType, other: PerAxisType) -> bool:
    """
    Whether scales and zero points are equal as far as both have them: if one has more,
    the sizes of the quantized dimensions differ, which has a message of its own.
    """
    a, b = _as_uniform(one), _as_uniform(other)
    size = 8 * min(len(a.scales), len(b.scales))
    return (
        a.scales.data.data[:size] == b.scales.data.data[:size]
        and a.zero_points.data.data[:size] == b.zero_points.data.data[:size]
    )


def verify_reshaped_dimension(operand: RankedTensor, result: RankedTensor) -> None:
    """C3 of `reshape`: the quantized dimension is there before and after."""
    a, b = operand.element_type, result.element_type
    if not isinstance(a, PerAxisType) or not isinstance(b, PerAxisType):
        return
    operand_shape, result_shape = operand.get_shape(), result.get_shape()
    operand_dimension = a.quantized_dimension.data
    result_dimension = b.quantized_dimension.data
    if operand_shape[operand_dimension] != result_shape[result_dimension]:
        raise VerifyException(
            "expect same quantization dimension size for operand and result "
            f"'{operand}' and '{result}'"
        )
    before_operand = math.prod(operand_shape[:operand_dimension])
    before_result = math.prod(result_shape[:result_dimension])
    if before_operand != before_result:
        raise VerifyException(
            "product of dimensions before quantization dimension must match between "
            f"operand and result for {before_operand} and {before_result}"
        )


def verify_transposed_dimension(
    operand: Attribute, result: Attribute, permutation: Sequence[int]
) -> None:
    """C4 of `transpose`: the quantized dimension goes where the permutation says."""
    if not isinstance(operand, PerAxisType) or not isinstance(result, PerAxisType):
        return
    before, after = operand.quantized_dimension.data, result.quantized_dimension.data
    # A permutation that is too short is an error of its own.
    if after < len(permutation) and permutation[after] != before:
        raise VerifyException(
            f"operand quantization_dimension {before} is not same as "
            f"permutation[{after}] = {permutation[after]}"
        )


def verify_broadcast_dimension(
    operand: RankedTensor, result: RankedTensor, dimensions: Sequence[int]
) -> None:
    """
    C6 of `broadcast_in_dim`: the quantized dimension goes where `dimensions` says, and
    has the same scale everywhere if there was one.
    """
    a, b = operand.element_type, result.element_type
    if not isinstance(a, PerAxisType) or not isinstance(b, PerAxisType):
        return
    before, after = a.quantized_dimension.data, b.quantized_dimension.data
    if dimensions[before] != after:
        raise VerifyException(
            f"result quantization_dimension {after} not same as "
            f"broadcast_dimensions[{before}] = {dimensions[before]}"
        )
    if operand.get_shape()[before] == 1:
        _verify_repeated(_as_uniform(a), _as_uniform(b))


def _verify_repeated(
    operand: UniformQuantizedPerAxisType, result: UniformQuantizedPerAxisType
) -> None:
    scale, zero_point = (
        float_array(operand.scales)[0],
        int_array(operand.zero_points)[0],
    )
    scales, zero_points = float_array(result.scales), int_array(result.zero_points)
    count = len(scales)
    if scales == array("d", [scale]) * count and (
        zero_points == array("q", [zero_point]) * count
    ):
        return
    for index, (other_scale, other_zero_point) in enumerate(
        zip(scales, zero_points, strict=True)
    ):
        if other_scale != scale:
            raise VerifyException(
                f"mismatch result scale {index} ({other_scale:e}) and operand scale 0 "
                f"({scale:e})"
            )
        if other_zero_point != zero_point:
            raise VerifyException(
                f"mismatch result zero_point {index} ({other_zero_point}) and operand "
                f"zero_point 0 ({zero_point})"
            )


def verify_rhs_of_dot(rhs: Attribute, contracting_dimensions: Sequence[int]) -> None:
    """C15 and C16 of `dot_general`."""
    match rhs:
        case UniformQuantizedType() | FixedPointQuantizedType():
            if rhs.zero_point.data:
                raise VerifyException("Zero point of rhs should be 0")
        case UniformQuantizedPerAxisType() | FixedPointQuantizedPerAxisType():
            if any(rhs.zero_points.data.data):
                raise VerifyException("Zero points of rhs should be 0")
            if rhs.quantized_dimension.data in contracting_dimensions:
                raise VerifyException(
                    "Quantization dimension of rhs should not be in the contracting "
                    "dimension of rhs"
                )
        case _:
            pass


def verify_features_of_convolution(
    rhs: Attribute,
    result: Attribute,
    kernel_output_feature_dimension: int,
    output_feature_dimension: int,
) -> None:
    """C29 and C30 of `convolution`."""
    if (
        isinstance(rhs, PerAxisType)
        and rhs.quantized_dimension.data != kernel_output_feature_dimension
    ):
        raise VerifyException(
            "quantization dimension of rhs should be same with "
            "kernel_output_feature_dimension"
        )
    if (
        isinstance(result, PerAxisType)
        and result.quantized_dimension.data != output_feature_dimension
    ):
        raise VerifyException(
            "quantization dimension of result should be same with "
            "output_feature_dimension"
        )


def verify_quantized_product(lhs: Attribute, rhs: Attribute, result: Attribute) -> None:
    """
    C14 and C17 to C20 of `dot_general`, which are C28 and C31 to C34 of `convolution`, on
    element types of which one is quantized.

    Hybrid is what has a quantized `rhs` alone.
    """
    is_hybrid = not isinstance(lhs, QuantizedElementType)
    if not isinstance(rhs, QuantizedElementType) or is_hybrid == isinstance(
        result, QuantizedElementType
    ):
        raise VerifyException(
            "rhs should be quantized for quantized operations and "
            "is_quantized(lhs)=is_quantized(result) should hold"
        )
    if is_hybrid:
        if not lhs == rhs.expressed_type == result:
            raise VerifyException(
                "mismatched rhs quantization expressed type and lhs and result element "
                "type"
            )
        return
    assert isinstance(result, QuantizedElementType)
    if lhs.storage_type != rhs.storage_type:
        raise VerifyException("mismatched lhs and rhs quantization storage types")
    if not lhs.expressed_type == rhs.expressed_type == result.expressed_type:
        raise VerifyException(
            "mismatched lhs, rhs and result quantization expressed types"
        )
    if isinstance(rhs, PerTensorType) and not isinstance(result, PerTensorType):
        raise VerifyException("mismatched rhs and result quantization granularity")
