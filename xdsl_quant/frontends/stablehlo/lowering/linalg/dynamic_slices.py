"""Lowering of slices at indices that are known at run time, and of `reverse`."""

from collections.abc import Sequence

from xdsl.dialects import tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo.dialect import (
    DynamicSliceOp,
    DynamicUpdateSliceOp,
    ReverseOp,
)
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    dimensions,
    element_type_of,
    shape_of,
)

from .data_movement import clamped_index
from .lowering import LinalgLowering, Values, stored_type, without_linalg


class LowerReverse(LinalgLowering[ReverseOp]):
    """Lower `stablehlo.reverse` to a `linalg.generic` that reads elements backward."""

    op_type = ReverseOp

    def lower(self, builder: LoweringBuilder, op: ReverseOp, args: Values) -> Values:
        (value,) = args
        shape, reversed_ = shape_of(value), op.dimensions.get_values()
        if any(shape[d] == DYNAMIC_INDEX for d in reversed_):
            raise without_linalg("reverses a dimension of unknown size")
        source: list[AffineExpr] = [
            index * -1 + (shape[d] - 1) if d in reversed_ else index
            for d, index in enumerate(dimensions(range(len(shape))))
        ]
        type_ = stored_type(op.operand.type)
        return [builder.rearrange(value, type_, builder.sizes(value), source)]


def _start_indices(
    builder: LoweringBuilder,
    op: DynamicSliceOp | DynamicUpdateSliceOp,
    indices: Values,
    bounds: Sequence[int],
    sizes: Sequence[int],
) -> list[SSAValue]:
    """Return indices, clamped so that a slice of `sizes` is within `bounds`."""
    if DYNAMIC_INDEX in (*bounds, *sizes):
        raise without_linalg("has an operand of unknown size")
    starts: list[SSAValue] = []
    for index, bound, size in zip(indices, bounds, sizes, strict=True):
        scalar = builder.op(tensor.ExtractOp, (index,), element_type_of(index))
        # Signed or unsigned, unlike the type of the scalar.
        type_ = scalar_or_element_type(op.start_indices[0].type)
        starts.append(clamped_index(builder, scalar, type_, bound - size))
    return starts


class LowerDynamicSlice(LinalgLowering[DynamicSliceOp]):
    """Lower `stablehlo.dynamic_slice` to `tensor.extract_slice` at clamped indices."""

    op_type = DynamicSliceOp

    def lower(
        self, builder: LoweringBuilder, op: DynamicSliceOp, args: Values
    ) -> Values:
        value, *indices = args
        sizes = op.slice_sizes.get_values()
        starts = _start_indices(builder, op, indices, shape_of(value), sizes)
        return [builder.extract_slice(value, starts, sizes, [1] * len(sizes))]


class LowerDynamicUpdateSlice(LinalgLowering[DynamicUpdateSliceOp]):
    """Lower `stablehlo.dynamic_update_slice` to `tensor.insert_slice`."""

    op_type = DynamicUpdateSliceOp

    def lower(
        self, builder: LoweringBuilder, op: DynamicUpdateSliceOp, args: Values
    ) -> Values:
        value, update, *indices = args
        sizes = shape_of(update)
        starts = _start_indices(builder, op, indices, shape_of(value), sizes)
        return [builder.insert_slice(update, value, starts, sizes, [1] * len(sizes))]
