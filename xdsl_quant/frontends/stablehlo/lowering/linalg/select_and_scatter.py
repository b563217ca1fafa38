"""
Lowering of `select_and_scatter` to loops: over the source and, for each of its elements,
over the window that the element is scattered into. The padding is never selected.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_quant.frontends.stablehlo.dialect import SelectAndScatterOp
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    Size,
    element_type_of,
    static_sizes,
)

from .data_movement import window_count
from .elementwise import convert_scalar
from .lowering import LinalgLowering, Values, stored_type
from .reduction import inline_block
from .scatter import if_else, is_in_bounds, nested_loops
from .sizes import assert_size


class LowerSelectAndScatter(LinalgLowering[SelectAndScatterOp]):
    """Lower `stablehlo.select_and_scatter`; see the module."""

    def lower(
        self, builder: LoweringBuilder, op: SelectAndScatterOp, args: Values
    ) -> Values:
        operand, source, init_value = args
        sizes, source_sizes = builder.sizes(operand), builder.sizes(source)
        for along, size, count in zip(op.window, sizes, source_sizes, strict=True):
            if not (isinstance(size, int) and isinstance(count, int)):
                padding = along.padding.low + along.padding.high
                positions = window_count(builder, along, builder.plus(size, padding))
                problem = "has another number of windows than elements of its source"
                assert_size(builder, op, "eq", positions, count, problem)
        result_type = stored_type(op.result.type)
        types = element_type_of(op.init_value), element_type_of(op.result)
        initial = builder.fill(
            TensorType(result_type.element_type, static_sizes(sizes)),
            sizes,
            init_value,
            lambda body, values: convert_scalar(body, values[0], *types),
        )

        def update(
            builder: LoweringBuilder, position: Values, results: Values
        ) -> Values:
            search = _WindowSearch(op, operand, sizes, position)
            has_any, selected = search.selected(builder)
            element = _element_at(builder, source, position)
            block = Block()
            inner = LoweringBuilder(
                InsertPoint.at_end(block), location=builder.location
            )
            result = _with_scattered(inner, op, results[0], element, selected)
            inner.insert(scf.YieldOp(result))
            return if_else(builder, has_any, (block, Block([scf.YieldOp(*results)])))

        return nested_loops(builder, source_sizes, [initial], update)


def _element_at(builder: LoweringBuilder, value: SSAValue, at: Values) -> SSAValue:
    """Return an element of a tensor."""
    return builder.op(tensor.ExtractOp, (value, *at), element_type_of(value))


@dataclass(frozen=True)
class _WindowSearch:
    """Search for the element of a window that `select` prefers to all others."""

    op: SelectAndScatterOp
    operand: SSAValue
    sizes: Sequence[Size]
    position: Values
    """Indices of the window, which are those of an element of the source."""

    def selected(self, builder: LoweringBuilder) -> tuple[SSAValue, Values]:
        """Return the indices of the selected element, and false if all is padding."""
        window, rank = self.op.window, len(self.position)
        none = builder.number(0, i1)
        zeros = [builder.index(0)] * rank
        value = builder.number(0, element_type_of(self.operand))
        sizes = [along.size for along in window]
        carried = (none, value, *zeros)
        has_any, _, *indices = nested_loops(builder, sizes, carried, self._step)
        return has_any, indices

    def _step(
        self, builder: LoweringBuilder, offsets: Values, current: Values
    ) -> Values:
        """Build the comparison of an element of the window with the current selection."""
        place: list[SSAValue] = []
        for along, start, offset in zip(
            self.op.window, self.position, offsets, strict=True
        ):
            start = builder.add(arith.MuliOp(start, builder.index(along.stride)))
            index = builder.add(arith.AddiOp(start, offset))
            low = builder.index(along.padding.low)
            place.append(builder.add(arith.SubiOp(index, low)))
        is_inside = is_in_bounds(builder, place, self.sizes)
        block = Block()
        inner = LoweringBuilder(InsertPoint.at_end(block), location=builder.location)
        element = _element_at(inner, self.operand, place)
        inner.insert(scf.YieldOp(*self._better(inner, current, place, element)))
        return if_else(builder, is_inside, (block, Block([scf.YieldOp(*current)])))

    def _better(
        self,
        builder: LoweringBuilder,
        current: Values,
        place: Values,
        element: SSAValue,
    ) -> Values:
        """Return the current selection if `select` prefers it, else the element."""
        has_any, value, *_ = current
        (is_preferred,) = inline_block(builder, self.op.select.block, (value, element))
        keeps = builder.add(arith.AndIOp(has_any, is_preferred))
        new = (builder.number(1, i1), element, *place)
        return [
            builder.add(arith.SelectOp(keeps, old, other))
            for old, other in zip(current, new, strict=True)
        ]


def _with_scattered(
    builder: LoweringBuilder,
    op: SelectAndScatterOp,
    result: SSAValue,
    element: SSAValue,
    place: Values,
) -> SSAValue:
    """Return the result with an element of the source combined at a place."""
    previous = _element_at(builder, result, place)
    sources = op.result, op.source
    scalars = [
        convert_scalar(builder, value, element_type_of(source), element_type_of(target))
        for value, source, target in zip(
            (previous, element), sources, op.scatter.block.args, strict=True
        )
    ]
    (combined,) = inline_block(builder, op.scatter.block, scalars)
    return builder.add(tensor.InsertOp(combined, result, place))
