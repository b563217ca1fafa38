"""Lowering of constants, indices and data movement ops."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from xdsl_quant.frontends.stablehlo.dialect import (
    BroadcastInDimOp,
    ConcatenateOp,
    ConstantOp,
    DynamicGatherOp,
    GatherOp,
    GetDimensionSizeOp,
    IotaOp,
    OptimizationBarrierOp,
    PadOp,
    ReshapeOp,
    SetDimensionSizeOp,
    SliceOp,
    TransposeOp,
)
from xdsl_quant.frontends.stablehlo.dialect.constants_and_calls import ElementsAttr
from xdsl_quant.frontends.stablehlo.dialect.rules import Padding, WindowDimension
from xdsl_quant.transforms.building.builder import (
    INDEX,
    LoweringBuilder,
    Size,
    dimensions,
    element_type_of,
    shape_of,
    static_sizes,
)
from xdsl_quant.transforms.building.signless_types import signless

from .elementwise import convert_scalar
from .lowering import (
    LinalgLowering,
    Values,
    bit_width,
    is_unsigned_type,
    stored_type,
    without_linalg,
)
from .sizes import assert_broadcast, assert_size, last_start, run_time_numbers


class LowerConstant(LinalgLowering[ConstantOp]):
    """Lower `stablehlo.constant` to `arith.constant`."""

    def lower(self, builder: LoweringBuilder, op: ConstantOp, args: Values) -> Values:
        type_ = stored_type(op.output.type)
        return [builder.constant(elements_of_type(op.value, type_), type_)]


def elements_of_type(value: ElementsAttr, type_: TensorType) -> ElementsAttr:
    """Return elements with unchanged bits, reinterpreted as elements of `type_`."""
    if value.type == type_:
        return value
    if isinstance(value, DenseResourceAttr):
        return DenseResourceAttr(value.resource_handle, type_)
    integer_type = cast(TensorType[IntegerType], type_)
    width = bit_width(type_.element_type)
    if width in (8, 16, 32, 64):
        return DenseIntOrFPElementsAttr(integer_type, BytesAttr(value.data.data))
    half = 1 << (width - 1)
    integers = cast(Sequence[int], value.get_values())
    return DenseIntOrFPElementsAttr.from_list(
        integer_type, [(integer + half) % (2 * half) - half for integer in integers]
    )


class LowerIota(LinalgLowering[IotaOp]):
    """Lower `stablehlo.iota` to a `linalg.generic` with `linalg.index`."""

    def lower(self, builder: LoweringBuilder, op: IotaOp, args: Values) -> Values:
        sizes = shape_of(op.output)
        return [indices_along(builder, op.output, op.iota_dimension.value.data, sizes)]


def indices_along(
    builder: LoweringBuilder, result: SSAValue, dimension: int, sizes: Sequence[Size]
) -> SSAValue:
    """Return a tensor of the index of each element, with the element type of `result`."""
    element_type = element_type_of(result)

    def body(body: LoweringBuilder, _: Values) -> SSAValue:
        index = body.add(linalg.ops.IndexOp(dimension))
        number = body.op(arith.IndexCastOp, (index,), i64)
        return convert_scalar(body, number, i64, element_type)

    type_ = TensorType(signless(element_type), static_sizes(sizes))
    return builder.map((), type_, sizes, body)


class LowerGetDimensionSize(LinalgLowering[GetDimensionSizeOp]):
    """Lower `stablehlo.get_dimension_size` to a constant or `tensor.dim`."""

    def lower(
        self, builder: LoweringBuilder, op: GetDimensionSizeOp, args: Values
    ) -> Values:
        type_ = stored_type(op.result.type)
        size = builder.size_value(builder.size(args[0], op.dimension.value.data))
        number = builder.op(arith.IndexCastOp, (size,), type_.element_type)
        return [builder.op(tensor.FromElementsOp, (number,), type_)]


class LowerSetDimensionSize(LinalgLowering[SetDimensionSizeOp]):
    """Lower `stablehlo.set_dimension_size` to `tensor.extract_slice`."""

    def lower(
        self, builder: LoweringBuilder, op: SetDimensionSizeOp, args: Values
    ) -> Values:
        value, dimension = args[0], op.dimension.value.data
        element = builder.op(tensor.ExtractOp, args[1:], element_type_of(args[1]))
        size = builder.op(arith.IndexCastOp, (element,), INDEX)
        sizes, starts = builder.sizes(value), [0] * len(shape_of(value))
        problem = f"sets the size of dimension {dimension} beyond its bound"
        assert_size(builder, op, "ule", size, sizes[dimension], problem)
        if (static := shape_of(op.result)[dimension]) != DYNAMIC_INDEX:
            problem = f"sets dimension {dimension} to another size than its result has"
            assert_size(builder, op, "eq", size, static, problem)
            size = static
        sizes[dimension] = size
        return [builder.extract_slice(value, starts, sizes, [1] * len(sizes))]


# Shapes


class LowerReshape(LinalgLowering[ReshapeOp]):
    """Lower `stablehlo.reshape` to `tensor.reshape`."""

    def lower(self, builder: LoweringBuilder, op: ReshapeOp, args: Values) -> Values:
        type_ = stored_type(op.results[0].type)
        if DYNAMIC_INDEX in (shape := type_.get_shape()):
            raise without_linalg("has a result of unknown size")
        return [builder.reshape(args[0], type_, shape)]


class LowerTranspose(LinalgLowering[TransposeOp]):
    """Lower `stablehlo.transpose` to `linalg.transpose`."""

    def lower(self, builder: LoweringBuilder, op: TransposeOp, args: Values) -> Values:
        return [builder.transpose(args[0], op.permutation.get_values())]


class LowerBroadcastInDim(LinalgLowering[BroadcastInDimOp]):
    """Lower `stablehlo.broadcast_in_dim` to a `linalg.generic` over the result."""

    def lower(
        self, builder: LoweringBuilder, op: BroadcastInDimOp, args: Values
    ) -> Values:
        (value,), dimensions = args, op.broadcast_dimensions.get_values()
        return [broadcast(builder, op, value, dimensions, shape_of(op.result))]


def broadcast(
    builder: LoweringBuilder,
    op: Operation,
    value: SSAValue,
    along: Sequence[int],
    sizes: Sequence[Size],
) -> SSAValue:
    """
    Repeat a tensor along the dimensions where its size is 1.

    Args:
        builder: insertion point.
        op: op whose run-time errors name it.
        value: tensor.
        along: result dimension of each dimension of the tensor.
        sizes: sizes of the result.
    """
    own_sizes, bounds = builder.sizes(value), [sizes[d] for d in along]
    for d, (size, bound) in enumerate(zip(own_sizes, bounds, strict=True)):
        assert_broadcast(builder, op, d, size, bound)
    type_ = TensorType(element_type_of(value), static_sizes(sizes))
    if all(isinstance(size, int) for size in own_sizes):
        source: list[AffineExpr] = [
            AffineConstantExpr(0)
            if size == 1 and bound != 1
            else AffineExpr.dimension(dimension)
            for size, bound, dimension in zip(own_sizes, bounds, along, strict=True)
        ]
        return builder.rearrange(value, type_, sizes, source)
    last = [builder.size_value(builder.plus(size, -1)) for size in own_sizes]

    def body(body: LoweringBuilder, _: Values) -> SSAValue:
        # The index 0 is the last one of a dimension that is repeated.
        indices = [
            body.add(arith.MinSIOp(body.add(linalg.ops.IndexOp(d)), limit))
            for d, limit in zip(along, last, strict=True)
        ]
        return body.op(tensor.ExtractOp, (value, *indices), type_.element_type)

    return builder.map((), type_, sizes, body)


# Concatenation, slices and gather


class LowerConcatenate(LinalgLowering[ConcatenateOp]):
    """Lower `stablehlo.concatenate` to `tensor.concat`."""

    def lower(
        self, builder: LoweringBuilder, op: ConcatenateOp, args: Values
    ) -> Values:
        shape = op.inferred_type().get_shape()
        type_ = TensorType(element_type_of(args[0]), shape)
        return [builder.add(tensor.ConcatOp(args, op.dimension.value.data, type_))]


class LowerSlice(LinalgLowering[SliceOp]):
    """Lower `stablehlo.slice` to `tensor.extract_slice`."""

    def lower(self, builder: LoweringBuilder, op: SliceOp, args: Values) -> Values:
        sizes = op.inferred_type().get_shape()
        starts, strides = op.start_indices.get_values(), op.strides.get_values()
        return [builder.extract_slice(args[0], starts, sizes, strides)]


class LowerPad(LinalgLowering[PadOp]):
    """Lower `stablehlo.pad` to a `tensor.insert_slice` into a padded tensor."""

    def lower(self, builder: LoweringBuilder, op: PadOp, args: Values) -> Values:
        amounts = (op.edge_padding_low, op.edge_padding_high, op.interior_padding)
        values = (attribute.get_values() for attribute in amounts)
        paddings = [Padding(*numbers) for numbers in zip(*values, strict=True)]
        return [pad_tensor(builder, args[0], dict(enumerate(paddings)), args[1])]


class LowerOptimizationBarrier(LinalgLowering[OptimizationBarrierOp]):
    """Remove `stablehlo.optimization_barrier`: the order of ops is not observable."""

    def lower(
        self, builder: LoweringBuilder, op: OptimizationBarrierOp, args: Values
    ) -> Values:
        return args


class LowerGather(LinalgLowering[GatherOp | DynamicGatherOp]):
    """
    Lower `stablehlo.gather` and `stablehlo.dynamic_gather` to a `linalg.generic` with
    `tensor.extract` and clamped indices.
    """

    def lower(
        self, builder: LoweringBuilder, op: GatherOp | DynamicGatherOp, args: Values
    ) -> Values:
        slice_sizes: Sequence[Size] = (
            op.sizes()
            if isinstance(op, GatherOp)
            else run_time_numbers(builder, op.slice_sizes, args[2])
        )
        table, start_indices = args[:2]
        rank = len(shape_of(table))
        numbers, index_type = op.dimension_numbers, element_type_of(op.start_indices)
        offset_dims, collapsed, batching_dims, index_batching_dims, index_map = (
            numbers.numbers()
        )
        vector_dim = numbers.index_vector_dim.data
        index_sizes = builder.sizes(start_indices)
        del index_sizes[vector_dim : vector_dim + 1]
        result_rank = len(index_sizes) + len(offset_dims)
        batch_dims = [d for d in range(result_rank) if d not in offset_dims]
        dropped_dims = (*collapsed, *batching_dims)
        slice_dims = [d for d in range(rank) if d not in dropped_dims]
        # Result dimension that iterates over each dimension of the table.
        loops = dict(zip(slice_dims, offset_dims, strict=True))
        for d, index_dim in zip(batching_dims, index_batching_dims, strict=True):
            loops[d] = batch_dims[index_dim - (index_dim > vector_dim)]
        components: list[tuple[SSAValue, Sequence[AffineExpr]]] = []
        for number in range(len(index_map)):
            position = dimensions(batch_dims)
            position.insert(vector_dim, AffineConstantExpr(number))
            # Scalar indices have no dimension for index vectors.
            position = position[: len(shape_of(start_indices))]
            components.append((start_indices, position))
        last = {
            d: last_start(builder, op, d, builder.size(table, d), slice_sizes[d])
            for d in range(rank)
        }

        def body(body: LoweringBuilder, args: Values) -> SSAValue:
            indices = [
                body.add(linalg.ops.IndexOp(loops[d])) if d in loops else body.index(0)
                for d in range(rank)
            ]
            for d, start in zip(index_map, args, strict=False):
                start = clamped_index(body, start, index_type, last[d])
                indices[d] = body.add(arith.AddiOp(start, indices[d]))
            return body.op(tensor.ExtractOp, (table, *indices), element_type_of(table))

        sizes = dict(zip(batch_dims, index_sizes, strict=True))
        sizes.update((loops[d], slice_sizes[d]) for d in slice_dims)
        result_sizes = [sizes[d] for d in range(result_rank)]
        type_ = TensorType(element_type_of(table), static_sizes(result_sizes))
        return [builder.map(components, type_, result_sizes, body)]


def clamped_index(
    builder: LoweringBuilder, value: SSAValue, type_: Attribute, last: Size
) -> SSAValue:
    """Return an integer, clamped to the range 0 to `last`, as an index."""
    value = convert_scalar(builder, value, type_, i64)
    if isinstance(last, int):
        limit = builder.number(last, i64)
    else:
        limit = builder.op(arith.IndexCastOp, (last,), i64)
    if is_unsigned_type(type_):
        value = builder.add(arith.MinUIOp(value, limit))
    else:
        value = builder.add(arith.MaxSIOp(value, builder.number(0, i64)))
        value = builder.add(arith.MinSIOp(value, limit))
    return builder.op(arith.IndexCastOp, (value,), INDEX)


# Padding and windows


def window_count(builder: LoweringBuilder, along: WindowDimension, size: Size) -> Size:
    """Return the number of window positions along a padded dimension."""
    steps = builder.floor_divide(builder.plus(size, -along.extent), along.stride)
    return builder.at_least_zero(builder.plus(steps, 1))


def element_index(
    along: WindowDimension, position: AffineExpr, element: AffineExpr
) -> AffineExpr:
    """Return the index of a window element in the padded dimension."""
    return position * along.stride + element * along.dilation


class RunTimePadding(NamedTuple):
    """Padding whose amounts may be unknown; see `Padding`."""

    low: Size = 0
    high: Size = 0
    interior: Size = 0


def pad_tensor(
    builder: LoweringBuilder,
    value: SSAValue,
    paddings: Mapping[int, Padding | RunTimePadding],
    padding_value: SSAValue | None = None,
) -> SSAValue:
    """
    Return a tensor with padding.

    Args:
        builder: insertion point.
        value: tensor to pad.
        paddings: padding by dimension; other dimensions are not padded.
        padding_value: value of added elements, a tensor of rank 0; zero by default.
    """
    sizes = builder.sizes(value)
    padded_sizes, result_sizes = list[Size](), list[Size]()
    offsets, starts, steps = list[Size](), list[Size](), list[Size]()
    for d, size in enumerate(sizes):
        low, high, interior = paddings.get(d, Padding())
        steps.append(builder.plus(interior, 1))
        # An empty dimension has no gaps.
        gaps = 0 if interior == 0 else builder.at_least_zero(builder.plus(size, -1))
        dilated = builder.plus(size, builder.times(gaps, interior))
        before, after = builder.at_least_zero(low), builder.at_least_zero(high)
        padded_sizes.append(builder.plus(dilated, builder.plus(before, after)))
        # Offsets of empty slices must be in bounds.
        offsets.append(before if size != 0 else 0)
        result_sizes.append(padded_sizes[-1])
        if (before, after) != (low, high):
            rest = builder.plus(dilated, builder.plus(low, high))
            result_sizes[-1] = builder.at_least_zero(rest)
        start = builder.at_least_zero(builder.times(low, -1)) if before != low else 0
        starts.append(
            _start_in_bounds(builder, start, padded_sizes[-1], result_sizes[-1])
        )
    if padded_sizes != sizes:
        type_ = TensorType(element_type_of(value), static_sizes(padded_sizes))
        padding_value = padding_value or builder.zero(type_.element_type)
        filled = builder.fill(type_, padded_sizes, padding_value)
        value = builder.insert_slice(value, filled, offsets, sizes, steps)
    if result_sizes == padded_sizes:
        return value
    return builder.extract_slice(value, starts, result_sizes, [1] * len(result_sizes))


def _start_in_bounds(
    builder: LoweringBuilder, start: Size, bound: Size, size: Size
) -> Size:
    """Return the start of a slice of a size, in bounds if the slice is empty, too."""
    if start == 0 or size == 0:
        return 0
    if isinstance(start, int) and isinstance(bound, int):
        return start
    limits = builder.size_value(start), builder.size_value(bound)
    return builder.add(arith.MinSIOp(*limits))
