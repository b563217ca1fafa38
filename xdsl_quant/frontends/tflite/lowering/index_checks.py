"""
Assertions that gather indices are in range: the interpreter and TensorFlow Lite check
them, too. Without assertions, lowered gathers clamp the indices.
"""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, cf, tensor
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.traits import ConstantLike
from xdsl.utils.hints import isa

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    dimensions,
    element_type_of,
    integer_attr,
    shape_of,
)


def check_indices(module: ModuleOp) -> None:
    """Assert before each TensorFlow Lite gather that its indices are in range."""
    for op in [*module.walk()]:
        if isinstance(op, tfl.GatherOp):
            _check(op, op.indices, op.params, [op.axis.value.data], has_tuples=False)
        elif isinstance(op, tfl.EmbeddingLookupOp):
            _check(op, op.lookup, op.value, [0], has_tuples=False)
        elif isinstance(op, tfl.GatherNdOp):
            shape = shape_of(op.indices) if _is_static(op.indices) else (0,)
            _check(op, op.indices, op.params, [*range(shape[-1])], has_tuples=True)


def _check(
    op: Operation,
    indices: SSAValue,
    values: SSAValue,
    axes: Sequence[int],
    *,
    has_tuples: bool,
) -> None:
    """
    Assert that indices are in range.

    Args:
        op: gather op.
        indices: indices; constants need no assertion, because the kernel checks them.
        values: indexed tensor.
        axes: indexed dimensions.
        has_tuples: True if the last dimension of `indices` has one index for each axis.
    """
    # Lowering refuses dynamic shapes.
    if not _is_static(indices) or not _is_static(values) or 0 in shape_of(indices):
        return
    if isinstance(owner := indices.owner, Operation) and owner.has_trait(ConstantLike):
        return
    builder = LoweringBuilder.before(op)
    largest = _largest(builder, indices, has_tuples=has_tuples)
    type_ = cast(IntegerType, element_type_of(indices))
    for i, axis in enumerate(axes):
        position = [builder.index(i)] if has_tuples else []
        value = builder.op(tensor.ExtractOp, (largest, *position), type_)
        size, width = shape_of(values)[axis], type_.bitwidth
        # Unsigned indices of this value or more would be negative in their signed type.
        limit = integer_attr(min(size, 1 << (width - 1)), width)
        is_in_range = arith.CmpiOp(value, builder.constant(limit, type_), "ult")
        assertion = cf.AssertOp(
            builder.add(is_in_range),
            f"'{op.name}' op has an index out of range of dimension {axis}, whose size "
            f"is {size}",
        )
        assertion.location = op.location
        builder.insert(assertion)


def _is_static(value: SSAValue) -> bool:
    return isa(value.type, TensorType) and value.type.has_static_shape()


def _largest(
    builder: LoweringBuilder, indices: SSAValue, *, has_tuples: bool
) -> SSAValue:
    """Return the maximum index of each axis, with indices compared as unsigned."""
    rank = len(shape := shape_of(indices))
    kept_axes = [rank - 1] if has_tuples else []
    sizes = [shape[i] for i in kept_axes]
    start = builder.zeros(TensorType(element_type_of(indices), sizes), sizes)
    maps = AffineMap.identity(rank), AffineMap(rank, 0, tuple(dimensions(kept_axes)))
    iterator_types = [PARALLEL if i in kept_axes else REDUCTION for i in range(rank)]
    return builder.generic(
        [indices],
        [start],
        maps,
        iterator_types,
        lambda body, numbers: body.add(arith.MaxUIOp(numbers[0], numbers[1])),
    )
