"""
The rules of single ops for quantized operands and results.

A rule is called here as it is in StableHLO's specification: `C4` of `add`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import QuantizedType, ScaledQuantizedType
from xdsl_quant.dialects.quant.types import PerAxisType, PerTensorType
from xdsl_quant.dialects.verification import RankedTensor, require


def has_quantized(types: Sequence[RankedTensor]) -> bool:
    """Whether one of the tensors is quantized."""
    return any(isinstance(type_.element_type, QuantizedType) for type_ in types)


def verify_quantized_add(lhs: Attribute, rhs: Attribute, result: Attribute) -> None:
    """C2 to C7 of `add`, on element types of which one is quantized."""
    if (
        not isinstance(lhs, ScaledQuantizedType)
        or not isinstance(rhs, ScaledQuantizedType)
        or not isinstance(result, ScaledQuantizedType)
    ):
        raise VerifyException(
            "expects  all operands and results to be either quantized or non-quantized"
        )
    require(
        lhs.storage_type == rhs.storage_type == result.storage_type,
        "mismatched operands and result quantization storage types",
    )
    require(
        lhs.expressed_type == rhs.expressed_type == result.expressed_type,
        "mismatched operands and result quantization expressed types",
    )
    per_axis = {
        name: type_
        for name, type_ in (("lhs", lhs), ("rhs", rhs))
        if isinstance(type_, PerAxisType)
    }
    if not isinstance(result, PerAxisType):
        require(not per_axis, "result is not per_axis quantized but lhs or rhs are")
        return
    require(
        bool(per_axis),
        "result per_axis quantized but none from rhs and lhs are per_axis quantized",
    )
    for name, type_ in per_axis.items():
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
    verify_same_scale(operand, result)
    if (axes := _per_axis_types(operand, result)) is None:
        return
    # If there are more of them on one side, the sizes of the quantized dimensions differ,
    # which has a message of its own.
    for a, b in zip(*((axis.scale_array(), axis.zero_point_array()) for axis in axes)):
        if (count := min(len(a), len(b))) and a[:count] != b[:count]:
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


def _per_axis_types(
    operand: RankedTensor, result: RankedTensor
) -> tuple[PerAxisType, PerAxisType] | None:
    a, b = operand.element_type, result.element_type
    if isinstance(a, PerAxisType) and isinstance(b, PerAxisType):
        return a, b
    return None


def verify_reshaped_dimension(operand: RankedTensor, result: RankedTensor) -> None:
    """C3 of `reshape`: the quantized dimension is there before and after."""
    if (axes := _per_axis_types(operand, result)) is None:
        return
    before, after = (axis.quantized_dimension.data for axis in axes)
    operand_shape, result_shape = operand.get_shape(), result.get_shape()
    if operand_shape[before] != result_shape[after]:
        raise VerifyException(
            "expect same quantization dimension size for operand and result "
            f"'{operand}' and '{result}'"
        )
    sizes = math.prod(operand_shape[:before]), math.prod(result_shape[:after])
    require(
        sizes[0] == sizes[1],
        "product of dimensions before quantization dimension must match between operand "
        f"and result for {sizes[0]} and {sizes[1]}",
    )


def verify_transposed_dimension(
    operand: RankedTensor, result: RankedTensor, permutation: Sequence[int]
) -> None:
    """C4 of `transpose`: the quantized dimension goes where the permutation says."""
    if (axes := _per_axis_types(operand, result)) is None:
        return
    before, after = (axis.quantized_dimension.data for axis in axes)
    # A permutation that is too short is an error of its own.
    for source in permutation[after : after + 1]:
        require(
            source == before,
            f"operand quantization_dimension {before} is not same as "
            f"permutation[{after}] = {source}",
        )


def verify_broadcast_dimension(
    operand: RankedTensor, result: RankedTensor, dimensions: Sequence[int]
) -> None:
    """
    C6 of `broadcast_in_dim`: the quantized dimension goes where `dimensions` says, and
    has the same scale everywhere if there was one.
    """
    if (axes := _per_axis_types(operand, result)) is None:
        return
    before, after = (axis.quantized_dimension.data for axis in axes)
    require(
        dimensions[before] == after,
        f"result quantization_dimension {after} not same as "
        f"broadcast_dimensions[{before}] = {dimensions[before]}",
    )
    if operand.get_shape()[before] != 1:
        return
    a, b = axes
    scale, zero_point = a.scale_array()[0], a.zero_point_array()[0]
    others = zip(b.scale_array(), b.zero_point_array(), strict=True)
    for index, (other_scale, other_zero_point) in enumerate(others):
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
    if not isinstance(rhs, ScaledQuantizedType):
        return
    is_per_axis = isinstance(rhs, PerAxisType)
    points = "Zero points" if is_per_axis else "Zero point"
    require(rhs.is_fixed_point, f"{points} of rhs should be 0")
    require(
        not is_per_axis or rhs.quantized_dimension.data not in contracting_dimensions,
        "Quantization dimension of rhs should not be in the contracting dimension of rhs",
    )


def verify_quantized_product(lhs: Attribute, rhs: Attribute, result: Attribute) -> None:
    """
    C14 and C17 to C20 of `dot_general`, which are C28 and C31 to C34 of `convolution`, on
    element types of which one is quantized.

    Hybrid is what has a quantized `rhs` alone.
    """
    is_hybrid = not isinstance(lhs, ScaledQuantizedType)
    if not isinstance(rhs, ScaledQuantizedType) or is_hybrid == isinstance(
        result, ScaledQuantizedType
    ):
        raise VerifyException(
            "rhs should be quantized for quantized operations and "
            "is_quantized(lhs)=is_quantized(result) should hold"
        )
    if is_hybrid:
        require(
            lhs == rhs.expressed_type == result,
            "mismatched rhs quantization expressed type and lhs and result element type",
        )
        return
    assert isinstance(result, ScaledQuantizedType)
    require(
        lhs.storage_type == rhs.storage_type,
        "mismatched lhs and rhs quantization storage types",
    )
    require(
        lhs.expressed_type == rhs.expressed_type == result.expressed_type,
        "mismatched lhs, rhs and result quantization expressed types",
    )
    require(
        not isinstance(rhs, PerTensorType) or isinstance(result, PerTensorType),
        "mismatched rhs and result quantization granularity",
    )
