"""Lowering of slices at indices that are known at run time, and of `reverse`."""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, linalg, tensor
from xdsl.ir import SSAValue

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo.dialect import (
    DynamicSliceOp,
    DynamicUpdateSliceOp,
    ReverseOp,
)
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    Size,
    dimensions,
    element_type_of,
)

from .data_movement import clamped_index
from .lowering import LinalgLowering, Values, stored_type
from .sizes import last_start


class LowerReverse(LinalgLowering[ReverseOp]):
    """Lower `stablehlo.reverse` to a `linalg.generic` that reads elements backward."""

    def lower(self, builder: LoweringBuilder, op: ReverseOp, args: Values) -> Values:
        (value,) = args
        sizes, reversed_ = builder.sizes(value), op.dimensions.get_values()
        last = {d: builder.plus(sizes[d], -1) for d in reversed_}

        def body(body: LoweringBuilder, _: Values) -> SSAValue:
            indices: list[SSAValue] = []
            for d in range(len(sizes)):
                index = body.add(linalg.ops.IndexOp(d))
                if d in last:
                    index = body.add(arith.SubiOp(body.size_value(last[d]), index))
                indices.append(index)
            return body.op(tensor.ExtractOp, (value, *indices), element_type_of(value))

        type_ = stored_type(op.operand.type)
        if not all(isinstance(size, int) for size in last.values()):
            return [builder.map((), type_, sizes, body)]
        source = dimensions(range(len(sizes)))
        for d, index in last.items():
            source[d] = source[d] * -1 + cast(int, index)
        return [builder.rearrange(value, type_, sizes, source)]


def _start_indices(
    builder: LoweringBuilder,
    op: DynamicSliceOp | DynamicUpdateSliceOp,
    indices: Values,
    value: SSAValue,
    sizes: Sequence[Size],
) -> list[SSAValue]:
    """Return indices, clamped so that a slice of `sizes` is within a tensor."""
    starts: list[SSAValue] = []
    for d, (index, size) in enumerate(zip(indices, sizes, strict=True)):
        scalar = builder.op(tensor.ExtractOp, (index,), element_type_of(index))
        # Signed or unsigned, unlike the type of the scalar.
        type_ = scalar_or_element_type(op.start_indices[0].type)
        last = last_start(builder, op, d, builder.size(value, d), size)
        starts.append(clamped_index(builder, scalar, type_, last))
    return starts


class LowerDynamicSlice(LinalgLowering[DynamicSliceOp]):
    """Lower `stablehlo.dynamic_slice` to `tensor.extract_slice` at clamped indices."""

    def lower(
        self, builder: LoweringBuilder, op: DynamicSliceOp, args: Values
    ) -> Values:
        value, *indices = args
        sizes = op.slice_sizes.get_values()
        starts = _start_indices(builder, op, indices, value, sizes)
        return [builder.extract_slice(value, starts, sizes, [1] * len(sizes))]


class LowerDynamicUpdateSlice(LinalgLowering[DynamicUpdateSliceOp]):
    """Lower `stablehlo.dynamic_update_slice` to `tensor.insert_slice`."""

    def lower(
        self, builder: LoweringBuilder, op: DynamicUpdateSliceOp, args: Values
    ) -> Values:
        value, update, *indices = args
        sizes = builder.sizes(update)
        starts = _start_indices(builder, op, indices, value, sizes)
        return [builder.insert_slice(update, value, starts, sizes, [1] * len(sizes))]
