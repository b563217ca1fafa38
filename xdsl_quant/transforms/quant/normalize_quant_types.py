"""
Replace sub-channel types of tensors by simpler types with the same meaning.

A type with a single scale is per-tensor. A type is per-axis if the scale changes along one
dimension only, and changes with each index of it: MLIR does not look at the size of the
blocks and, with blocks of more than one index, gives their scales to the first indices.

Nothing can fail, as the value of every element stays what it was.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    FloatData,
    IntAttr,
    ModuleOp,
    TensorType,
    UnrankedTensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from xdsl_quant.dialects.quant import (
    QuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.transforms.building.type_replacement import (
    TypeReplacement,
    defined_values,
    set_type,
)


def _quantized_axis(
    quantized_type: UniformQuantizedSubChannelType, is_ranked: bool
) -> int | None:
    """
    The only dimension along which the scale changes, if it has a scale for each index.
    """
    block_sizes = dict(quantized_type.block_size_info)
    shape = quantized_type.scales_shape.get_values()
    axes = range(len(shape))
    if not is_ranked and len(shape) == len(block_sizes):
        # On an unranked tensor scales need a dimension for each quantized one only.
        axes = sorted(block_sizes)
    changing = [axis for axis, count in zip(axes, shape, strict=True) if count != 1]
    if len(changing) != 1 or block_sizes.get(changing[0]) != 1:
        return None
    return changing[0]


def normalized(
    quantized_type: UniformQuantizedSubChannelType, *, is_ranked: bool = True
) -> (
    UniformQuantizedType | UniformQuantizedPerAxisType | UniformQuantizedSubChannelType
):
    """
    The simplest type with the meaning that `quantized_type` has as the element type of a
    ranked or unranked tensor.

    A dimension without a block size, or with one scale, is one block. So the result is
    per-tensor if there is one scale in total, and per-axis if one dimension only has
    several scales and its block size is 1. Scales are as they were: numbers of the
    expressed type.
    """
    common = quantized_type.common_parameters
    if len(quantized_type.scales) == 1:
        (scale,) = quantized_type.scale_array()
        zero_point, _ = quantized_type.zero_point_range
        return UniformQuantizedType.new(
            (*common, IntAttr(zero_point), FloatData(scale))
        )
    if (axis := _quantized_axis(quantized_type, is_ranked)) is None:
        return quantized_type
    return UniformQuantizedPerAxisType.new(
        (*common, quantized_type.zero_points, IntAttr(axis), quantized_type.scales)
    )


class _NormalizedTypes(TypeReplacement):
    """Sub-channel types of tensors replaced by simpler ones."""

    def replace_quantized(
        self, type_: Attribute, quantized_type: QuantizedType
    ) -> Attribute:
        if not isinstance(quantized_type, UniformQuantizedSubChannelType):
            return type_
        if isinstance(type_, UnrankedTensorType):
            return UnrankedTensorType(normalized(quantized_type, is_ranked=False))
        if isinstance(type_, TensorType):
            element_type = normalized(quantized_type)
            return TensorType(element_type, type_.shape, type_.encoding)
        return type_


@dataclass(frozen=True)
class NormalizeQuantTypesPass(ModulePass):
    """
    Replace sub-channel types that are equivalent to per-tensor or per-axis.

    The types of all values inside of `func.func` and the signatures of functions are
    replaced, provided that they are tensors. Tuples and attributes stay as they are.

    See external [documentation](https://mlir.llvm.org/docs/Passes/#-normalize-quant-types).
    """

    name = "normalize-quant-types"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        types = _NormalizedTypes()
        done: set[Operation] = set()
        for function in op.walk():
            if not isinstance(function, FuncOp) or function in done:
                continue
            for inner_op in function.walk():
                for value in defined_values(inner_op):
                    set_type(value, types.replace(value.type))
                if isinstance(inner_op, FuncOp):
                    types.replace_in_signature(inner_op)
                    done.add(inner_op)
