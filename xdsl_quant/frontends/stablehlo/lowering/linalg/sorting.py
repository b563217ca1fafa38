"""
Lowering of `sort` and `top_k` to a bitonic sorting network.

The network exchanges indices, not elements, in `m * (m + 1) / 2` steps for `2**m` indices
or fewer. Each step is one `linalg.generic`. Equal elements are ordered by index, so sorting
is stable; indices out of range come last.

Source: K. Batcher, "Sorting networks and their applications", 1968.
"""

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, linalg, math, tensor
from xdsl.dialects.builtin import TensorType, i32, i64
from xdsl.ir import SSAValue

from xdsl_quant.frontends.stablehlo.dialect import SortOp
from xdsl_quant.frontends.stablehlo.dialect.chlo import TopKOp
from xdsl_quant.transforms.building.builder import (
    INDEX,
    LoweringBuilder,
    Size,
    element_type_of,
    shape_of,
    static_sizes,
)

from .elementwise import in_total_order
from .lowering import LinalgLowering, Values, is_floating, is_unsigned_type
from .reduction import inline_block
from .scatter import nested_loops
from .sizes import assert_size

_Comparator = Callable[[LoweringBuilder, Values], SSAValue]
"""Function of two elements of each tensor that builds whether the first comes first."""


class LowerSort(LinalgLowering[SortOp]):
    """Lower `stablehlo.sort`; see the module."""

    def lower(self, builder: LoweringBuilder, op: SortOp, args: Values) -> Values:
        def comes_first(body: LoweringBuilder, elements: Values) -> SSAValue:
            (result,) = inline_block(body, op.comparator.block, elements)
            return result

        dimension = op.dimension.value.data % max(len(shape_of(args[0])), 1)
        order = _sorted_indices(builder, args, dimension, comes_first)
        return [_gathered(builder, value, order, dimension) for value in args]


class LowerTopK(LinalgLowering[TopKOp]):
    """Lower `chlo.top_k`; see the module."""

    def lower(self, builder: LoweringBuilder, op: TopKOp, args: Values) -> Values:
        (value,) = args
        element_type = element_type_of(op.operand)
        predicate = "ugt" if is_unsigned_type(element_type) else "sgt"

        def is_larger(body: LoweringBuilder, elements: Values) -> SSAValue:
            if is_floating(element_type):
                elements = [in_total_order(body, element) for element in elements]
            first, second = elements
            return body.add(arith.CmpiOp(first, second, predicate))

        dimension = len(shape_of(value)) - 1
        order = _sorted_indices(builder, args, dimension, is_larger)
        sizes, count = builder.sizes(value), op.k.value.data
        problem = f"has fewer than {count} elements in its last dimension"
        if not isinstance(sizes[dimension], int):
            assert_size(builder, op, "uge", sizes[dimension], count, problem)
        sizes[dimension] = count
        largest = _gathered(builder, value, order, dimension, sizes)
        offsets, strides = [0] * len(sizes), [1] * len(sizes)
        return [largest, builder.extract_slice(order, offsets, sizes, strides)]


def _sorted_indices(
    builder: LoweringBuilder,
    values: Values,
    dimension: int,
    comes_first: _Comparator,
) -> SSAValue:
    """Return the index of each sorted element along `dimension`, padded to a power of 2."""
    sizes = builder.sizes(values[0])
    size = sizes[dimension]
    levels = _bit_length(builder, builder.at_least_zero(builder.plus(size, -1)))
    sizes[dimension] = (
        1 << levels
        if isinstance(levels, int)
        else builder.add(arith.ShLIOp(builder.index(1), levels))
    )
    type_ = TensorType(i32, static_sizes(sizes))

    def index(body: LoweringBuilder, _: Values) -> SSAValue:
        position = body.add(linalg.ops.IndexOp(dimension))
        return body.op(arith.IndexCastOp, (position,), i32)

    order = builder.map((), type_, sizes, index)
    if size == 0:
        return order

    def exchanged(
        builder: LoweringBuilder, order: SSAValue, run: SSAValue, distance: SSAValue
    ) -> SSAValue:
        """Order the pairs at a distance, in runs of alternating direction."""

        def element(body: LoweringBuilder, _: Values) -> SSAValue:
            network = _Exchange(body, values, dimension, size, comes_first)
            return network.exchanged_index(order, run, distance, len(sizes))

        return builder.map((), type_, sizes, element)

    return _network(builder, order, levels, exchanged)


def _bit_length(builder: LoweringBuilder, size: Size) -> Size:
    """Return the number of bits of a size, 0 for 0."""
    if isinstance(size, int):
        return size.bit_length()
    wide = builder.op(arith.IndexCastOp, (size,), i64)
    zeros = builder.add(math.CountLeadingZerosOp(wide))
    length = builder.add(arith.SubiOp(builder.number(64, i64), zeros))
    return builder.op(arith.IndexCastOp, (length,), INDEX)


_Step = Callable[[LoweringBuilder, SSAValue, SSAValue, SSAValue], SSAValue]


def _network(
    builder: LoweringBuilder, order: SSAValue, levels: Size, step: _Step
) -> SSAValue:
    """Build the loops over the lengths of sorted runs, and over halved distances."""
    one = builder.index(1)

    def outer(builder: LoweringBuilder, indices: Values, order: Values) -> Values:
        (level,) = indices
        count = builder.add(arith.AddiOp(level, one))
        run = builder.add(arith.ShLIOp(one, count))

        def inner(builder: LoweringBuilder, indices: Values, order: Values) -> Values:
            (number,), (indices_in_order,) = indices, order
            shift = builder.add(arith.SubiOp(level, number))
            distance = builder.add(arith.ShLIOp(one, shift))
            return [step(builder, indices_in_order, run, distance)]

        return nested_loops(builder, [count], order, inner)

    (result,) = nested_loops(builder, [levels], [order], outer)
    return result


class _Exchange:
    """Builder of one element of a step of the network."""

    def __init__(
        self,
        body: LoweringBuilder,
        values: Values,
        dimension: int,
        size: Size,
        comes_first: _Comparator,
    ):
        self.body = body
        self.values = values
        self.dimension = dimension
        last = body.at_least_zero(body.plus(size, -1))
        self.size = body.op(arith.IndexCastOp, (body.size_value(size),), i32)
        self.last = body.op(arith.IndexCastOp, (body.size_value(last),), i32)
        self.comes_first = comes_first

    def exchanged_index(
        self, order: SSAValue, run: SSAValue, distance: SSAValue, rank: int
    ) -> SSAValue:
        """Return the index that a position has after the step."""
        body = self.body
        positions = [body.add(linalg.ops.IndexOp(d)) for d in range(rank)]
        own = positions[self.dimension]
        other = body.add(arith.XOrIOp(own, distance))
        first, second = (
            body.op(tensor.ExtractOp, (order, *self._position(positions, place)), i32)
            for place in (own, other)
        )
        is_first = self._is_less(positions, first, second)
        zero = body.index(0)
        descends = body.add(arith.CmpiOp(body.add(arith.AndIOp(own, run)), zero, "ne"))
        is_upper = body.add(arith.CmpiOp(own, other, "ugt"))
        wants_last = body.add(arith.XOrIOp(descends, is_upper))
        keeps = body.add(arith.XOrIOp(is_first, wants_last))
        return body.add(arith.SelectOp(keeps, first, second))

    def _position(
        self, positions: Sequence[SSAValue], place: SSAValue
    ) -> Sequence[SSAValue]:
        return [
            place if d == self.dimension else position
            for d, position in enumerate(positions)
        ]

    def _element(
        self, value: SSAValue, positions: Sequence[SSAValue], index: SSAValue
    ) -> SSAValue:
        body = self.body
        bounded = body.add(arith.MinSIOp(index, self.last))
        place = body.op(arith.IndexCastOp, (bounded,), INDEX)
        indices = self._position(positions, place)
        return body.op(tensor.ExtractOp, (value, *indices), element_type_of(value))

    def _is_less(
        self, positions: Sequence[SSAValue], first: SSAValue, second: SSAValue
    ) -> SSAValue:
        """Compare the elements with two indices, and equal elements by index."""
        body = self.body
        pairs = [
            [self._element(value, positions, index) for index in (first, second)]
            for value in self.values
        ]
        forward = self.comes_first(body, [e for pair in pairs for e in pair])
        backward = self.comes_first(body, [e for pair in pairs for e in pair[::-1]])
        true = body.number(1, forward.type)
        is_equal = body.add(arith.XOrIOp(backward, true))
        is_before = body.add(arith.CmpiOp(first, second, "slt"))
        tie = body.add(arith.AndIOp(is_equal, is_before))
        is_less = body.add(arith.OrIOp(forward, tie))
        # Indices out of range are the largest ones.
        in_range = body.add(arith.CmpiOp(first, self.size, "slt"))
        other_in_range = body.add(arith.CmpiOp(second, self.size, "slt"))
        both = body.add(arith.AndIOp(in_range, other_in_range))
        return body.add(arith.SelectOp(both, is_less, is_before))


def _gathered(
    builder: LoweringBuilder,
    value: SSAValue,
    order: SSAValue,
    dimension: int,
    sizes: Sequence[Size] | None = None,
) -> SSAValue:
    """Return the elements of a tensor in a given order along a dimension."""
    sizes = builder.sizes(value) if sizes is None else sizes
    rank = len(sizes)

    def body(body: LoweringBuilder, _: Values) -> SSAValue:
        indices = [body.add(linalg.ops.IndexOp(d)) for d in range(rank)]
        place = body.op(tensor.ExtractOp, (order, *indices), i32)
        indices[dimension] = body.op(arith.IndexCastOp, (place,), INDEX)
        return body.op(tensor.ExtractOp, (value, *indices), element_type_of(value))

    type_ = TensorType(element_type_of(value), static_sizes(sizes))
    return builder.map((), type_, sizes, body)
