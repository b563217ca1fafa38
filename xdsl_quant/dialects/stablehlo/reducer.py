"""
When a region can reduce tensors: it takes and gives scalars, whose element types may be
wider than those of the tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    IntegerType,
    ShapedType,
    TensorType,
)
from xdsl.ir import Attribute, Block
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import StoredQuantizedType

from .compatibility import RankedTensor, are_compatible_shapes, are_compatible_sizes


def _is_promotable(a: Attribute, b: Attribute) -> bool:
    """
    Whether `b` is of the kind of `a` and not narrower. All floats are taken for equally
    wide.
    """
    if isinstance(a, AnyFloat) and isinstance(b, AnyFloat):
        return True
    if isinstance(a, IntegerType) and isinstance(b, IntegerType):
        return a.bitwidth <= b.bitwidth
    if isinstance(a, StoredQuantizedType) and isinstance(b, StoredQuantizedType):
        a_width, b_width = a.storage_type_integral_width, b.storage_type_integral_width
        return a.expressed_type == b.expressed_type and a_width <= b_width
    if isinstance(a, ComplexType) and isinstance(b, ComplexType):
        a_part = cast(ComplexType[AnyFloat], a).element_type
        b_part = cast(ComplexType[AnyFloat], b).element_type
        return a_part.bitwidth <= b_part.bitwidth
    return False


def _are_same_elements(a: Attribute, b: Attribute, ignore_precision: bool) -> bool:
    if ignore_precision and isinstance(a, AnyFloat) and isinstance(b, AnyFloat):
        return True
    return a == b


def verify_reducer(
    block: Block,
    input_types: Sequence[RankedTensor],
    init_types: Sequence[RankedTensor],
    allowed_dimensions: Sequence[int],
) -> None:
    """Verify that a block can reduce the inputs; dimensions are those that stay."""
    count = len(input_types)
    if len(block.args) != 2 * count:
        raise VerifyException(
            f"Reduction-region must take {2 * count} parameters, but takes "
            f"{len(block.args)} parameter(s)"
        )
    assert block.last_op is not None
    returned = block.last_op.operand_types
    if not returned:
        raise VerifyException("The reduction-region expected to return some value(s)")
    if len(returned) != count:
        raise VerifyException(
            f"Reduction-region here must produce {count} tensors, but produces "
            f"{len(returned)} instead"
        )
    for type_ in returned:
        if not isinstance(type_, ShapedType):
            raise VerifyException(
                "Reduction-region here must produce tensor-typed result(s), but produces "
                f"'{type_}' instead"
            )
    for index, (input_type, init_type, result_type) in enumerate(
        zip(input_types, init_types, returned, strict=True)
    ):
        _verify_parameter(block, index, result_type, ignore_precision=False)
        _verify_parameter(block, index + count, result_type, ignore_precision=True)
        assert isinstance(result_type, TensorType)
        _verify_init(index, cast(RankedTensor, result_type), init_type)
        _verify_input(block, index, count, input_type, allowed_dimensions)


def _verify_parameter(
    block: Block, index: int, result_type: Attribute, *, ignore_precision: bool
) -> None:
    """Verify that a parameter of the region has the type of the result that it becomes."""
    type_ = block.args[index].type
    if (
        not isinstance(type_, TensorType)
        or not isinstance(result_type, TensorType)
        or not are_compatible_shapes(type_.get_shape(), result_type.get_shape())
        or not _are_same_elements(
            cast(Attribute, type_.element_type),
            cast(Attribute, result_type.element_type),
            ignore_precision,
        )
    ):
        raise VerifyException(
            f"The type of reduction-region's parameter at index {index} is different "
            f"than the corresponding result type: '{type_}' vs '{result_type}'"
        )


def _verify_init(
    index: int, result_type: RankedTensor, init_type: RankedTensor
) -> None:
    if not are_compatible_shapes(result_type.get_shape(), init_type.get_shape()):
        raise VerifyException(
            f"The shape of reduction-region's result type at index {index} differs from "
            f"the op's corresponding init-value type: '{result_type}' vs '{init_type}'"
        )
    if not _is_promotable(init_type.element_type, result_type.element_type):
        raise VerifyException(
            f"The element-type of reduction-region's result type at index {index} is "
            "expected to be promotable from the op's corresponding init-value "
            f"element-type: '{result_type}' vs '{init_type}'"
        )


def _verify_input(
    block: Block,
    index: int,
    count: int,
    input_type: RankedTensor,
    allowed_dimensions: Sequence[int],
) -> None:
    parameter = count + index
    type_ = cast(RankedTensor, block.args[parameter].type)
    if not _is_promotable(input_type.element_type, type_.element_type):
        raise VerifyException(
            f"The element-type of reduction-region's argument at index {parameter} is "
            f"expected to be promotable from '{input_type.element_type}', but got "
            f"'{type_.element_type}'"
        )
    shape = type_.get_shape()
    if len(shape) > len(allowed_dimensions):
        raise VerifyException(
            f"The rank of reduction-region's argument at index {parameter} is expected "
            f"to be <= {len(allowed_dimensions)}, got {len(shape)}"
        )
    remaining = list(shape)
    for size in allowed_dimensions:
        if remaining and are_compatible_sizes(size, remaining[0]):
            del remaining[0]
    if remaining:
        raise VerifyException(
            f"The shape of reduction-region's argument at index {parameter} is not "
            f"compatible with that of reduce-op's input-parameter at index {index}"
        )
