"""
Replace sub-channel types of tensors by simpler types with the same meaning.

A type with a single scale is per-tensor. A type is per-axis if the scale changes along one
dimension only, and changes with each index of it: MLIR does not look at the size of the
blocks and, with blocks of more than one index, gives their scales to the first indices.

Nothing can fail, as the value of every element stays what it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import FloatData, IntAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from xdsl_quant.dialects.quant import (
    QuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.types import UniformType, with_element_type
from xdsl_quant.transforms.building.type_replacement import TypeReplacement


def normalized(
    quantized_type: UniformQuantizedSubChannelType, *, is_ranked: bool = True
) -> UniformType:
    """
    The simplest type with the meaning that `quantized_type` has as the element type of a
    ranked or unranked tensor.

    A dimension without a block size, or with one scale, is one block. So the result is
    per-tensor if there is one scale in total, and per-axis if one dimension only has
    several scales and its block size is 1. Scales are as they were: numbers of the
    expressed type.
    """
    common = quantized_type.common_parameters
    count = len(quantized_type.scales)
    if count == 1:
        (scale,) = quantized_type.scale_array()
        zero_point, _ = quantized_type.zero_point_range
        return UniformQuantizedType.new(
            (*common, IntAttr(zero_point), FloatData(scale))
        )
    blocks = quantized_type.get_blocks()
    # There is no other dimension along which the scale changes.
    axis = next((a for a, block in blocks.items() if block == (count, 1)), None)
    rank = len(quantized_type.get_scales_shape())
    if axis is None or (is_ranked and axis >= rank):
        return quantized_type
    return UniformQuantizedPerAxisType.new(
        (*common, quantized_type.zero_points, IntAttr(axis), quantized_type.scales)
    )


class _NormalizedTypes(TypeReplacement):
    """Sub-channel types of tensors replaced by simpler ones."""

    def replace_quantized(
        self, type_: Attribute, quantized_type: QuantizedType
    ) -> Attribute:
        is_sub_channel = isinstance(quantized_type, UniformQuantizedSubChannelType)
        if not is_sub_channel or type_ is quantized_type:
            return type_
        is_ranked = isinstance(type_, TensorType)
        return with_element_type(type_, normalized(quantized_type, is_ranked=is_ranked))


@dataclass(frozen=True)
class NormalizeQuantTypes(RewritePattern):
    """
    Replace sub-channel types that are equivalent to per-tensor or per-axis in the types of
    the values that an op defines, and in the signature of a function.

    The users of a value are ops of their own: the pattern is for whole functions.
    """

    _types: _NormalizedTypes = field(
        default_factory=_NormalizedTypes, init=False, compare=False, repr=False
    )

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        replaced = self._types.replace_in_values(op)
        if isinstance(op, FuncOp):
            replaced |= self._types.replace_in_signature(op)
        if replaced:
            rewriter.notify_op_modified(op)


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
        pattern = NormalizeQuantTypes()
        for function in op.walk():
            if isinstance(function, FuncOp):
                for inner_op in function.walk():
                    pattern.match_and_rewrite(inner_op, PatternRewriter(inner_op))
