"""
Replace sub-channel and block-scaled types of tensors by equivalent simpler types.

A type with a single scale becomes per-tensor. A type becomes per-axis if it has one scale
for each index of one dimension. MLIR's pass ignores block sizes, so it may assign scales
to wrong indices if blocks contain several indices.

A block-scaled type becomes per-tensor, per-axis or sub-channel if MLIR's syntax can
express it.

The pass never fails, and never changes the value of an element.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    FloatData,
    IntAttr,
    IntegerType,
    ModuleOp,
    NoneAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    QuantizedType,
    StoredNumbersAttr,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.dialects.quant.storage_types import MLIRStorageType
from xdsl_quant.dialects.quant.types import UniformType, with_element_type
from xdsl_quant.transforms.building.checked_patterns import ModulePattern
from xdsl_quant.transforms.building.quantized_type_conversion import QuantizedTypePass
from xdsl_quant.transforms.building.type_replacement import TypeReplacement


def normalized(
    quantized_type: UniformQuantizedSubChannelType, *, is_ranked: bool = True
) -> UniformType:
    """
    Return the simplest equivalent type for the elements of a tensor, with the same scales.

    The result is per-tensor if there is one scale in total, and per-axis if only one
    dimension has several scales and its block size is 1.
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
    # Several scales along one dimension imply a single scale along all others.
    axis = next((a for a, block in blocks.items() if block == (count, 1)), None)
    rank = len(quantized_type.get_scales_shape())
    if axis is None or (is_ranked and axis >= rank):
        return quantized_type
    return UniformQuantizedPerAxisType.new(
        (*common, quantized_type.zero_points, IntAttr(axis), quantized_type.scales)
    )


MAX_UNIFORM_SCALES = 4096
"""Largest number of scales of block-scaled types that become `!quant.uniform`."""


def uniform_counterpart(
    quantized_type: BlockScaledQuantizedType, shape: Sequence[int] | None = None
) -> UniformType | None:
    """
    Return the `!quant.uniform` equivalent of a block-scaled type, or `None`.

    Casts must compute in the expressed type, and blocks must have no offsets. There may be
    at most 4,096 scales. Each scale must be a positive number of the expressed type, each
    zero point an integer of the storage type, and each dimension a multiple of its block
    size.

    Args:
        quantized_type: the type.
        shape: the shape of the tensor; `None` if it is unranked.
    """
    type_, blocks = quantized_type, quantized_type.get_blocks()
    are_whole = all(
        size == 1 or (shape is not None and shape[axis] == count * size)
        for axis, (count, size) in blocks.items()
    )
    if not are_whole or not _has_uniform_storage(type_):
        return None
    if math.prod(type_.get_scales_shape()) > MAX_UNIFORM_SCALES:
        return None
    if (parameters := _block_parameters(type_)) is None:
        return None
    counts = [count for count, _ in blocks.values()]
    if shape is not None:
        counts = [blocks.get(axis, (1, 0))[0] for axis in range(len(shape))]
    sub_channel = UniformQuantizedSubChannelType.new(
        UniformQuantizedSubChannelType.canonical_parameters(
            type_.common_parameters,
            *parameters,
            counts,
            [*blocks],
            [size for _, size in blocks.values()],
        )
    )
    return normalized(sub_channel, is_ranked=shape is not None)


def _has_uniform_storage(type_: BlockScaledQuantizedType) -> bool:
    """Return True if `!quant.uniform` supports the storage and block parameters."""
    scales, zero_points = type_.scales, type_.zero_points
    if (
        not isinstance(type_.storage_type, MLIRStorageType)
        or not isinstance(type_.offsets, NoneAttr)
        or not isinstance(scales.quantized_type, NoneAttr)
        or type_.expressed_type != type_.compute_type
    ):
        return False
    return not isinstance(zero_points, StoredNumbersAttr) or (
        isinstance(zero_points.element_type, IntegerType)
        and isinstance(zero_points.quantized_type, NoneAttr)
        and type_.has_integer_storage
    )


def _block_parameters(
    type_: BlockScaledQuantizedType,
) -> tuple[array[float], array[int]] | None:
    """Return scales and zero points of blocks; `None` if missing or out of range."""
    try:
        numbers = type_.get_numbers()
    except ValueError:
        # The data of a resource is missing.
        return None
    scales = array("d", numbers["scales"].tobytes())
    if float_format(type_.expressed_type).out_of_range(scales) is not None:
        return None
    if "zero_points" not in numbers:
        return scales, array("q", bytes(8 * len(scales)))
    low, high = type_.full_storage_range
    zero_points = numbers["zero_points"]
    if zero_points.min() < low or zero_points.max() > high:
        return None
    return scales, array("q", zero_points.astype("q").tobytes())


class _NormalizedTypes(TypeReplacement):
    """Replacement of tensor element types by simpler ones."""

    def replace_quantized(
        self, type_: Attribute, quantized_type: QuantizedType
    ) -> Attribute:
        if type_ is quantized_type:
            return type_
        is_ranked = isinstance(type_, TensorType)
        if isinstance(quantized_type, BlockScaledQuantizedType):
            shape = type_.get_shape() if is_ranked else None
            uniform = uniform_counterpart(quantized_type, shape)
            return type_ if uniform is None else with_element_type(type_, uniform)
        if not isinstance(quantized_type, UniformQuantizedSubChannelType):
            return type_
        return with_element_type(type_, normalized(quantized_type, is_ranked=is_ranked))


@dataclass(frozen=True)
class NormalizeQuantTypes(ModulePattern):
    """
    Replace sub-channel and block-scaled types by equivalent simpler types: in the
    results and block arguments of an op, and in the signature of a function.

    The users of the op are not updated, so apply the pattern to whole functions.
    """

    _types: _NormalizedTypes = field(
        default_factory=_NormalizedTypes, init=False, compare=False, repr=False
    )

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        types = op.result_types
        if replaced := self._types.replace_in_values(op):
            new_types = dict(zip(types, op.result_types, strict=True))
            # Some ops repeat the type of their result in a property.
            for name, value in op.properties.items():
                op.properties[name] = new_types.get(value, value)
        if isinstance(op, FuncOp):
            replaced |= self._types.replace_in_signature(op)
        if replaced:
            rewriter.notify_op_modified(op)

    def rewrite_module(self, module: ModuleOp) -> int:
        """Rewrite all ops of functions, and return the number of changed ops."""
        changed = 0
        for function in module.walk():
            for op in function.walk() if isinstance(function, FuncOp) else ():
                rewriter = PatternRewriter(op)
                self.match_and_rewrite(op, rewriter)
                changed += rewriter.has_done_action
        return changed


@dataclass(frozen=True)
class NormalizeQuantTypesPass(QuantizedTypePass):
    """
    Replace sub-channel types by equivalent per-tensor or per-axis types, and
    block-scaled types of at most 4,096 scales by equivalent per-tensor, per-axis or
    sub-channel types.

    The pass replaces tensor types of all values inside of `func.func`, and in
    signatures. Tuples and attributes are unchanged, except properties that repeat the type
    of a result.

    See external [documentation](https://mlir.llvm.org/docs/Passes/#-normalize-quant-types).
    """

    name = "normalize-quant-types"
    pattern_type = NormalizeQuantTypes
    expected = "a type that simplifies: sub-channel, or block-scaled of <= 4,096 scales"
