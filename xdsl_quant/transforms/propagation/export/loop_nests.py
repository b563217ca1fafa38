"""Ops of linalg, and elementwise ops on tensors, as loops that compute elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import linalg
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    dimensions,
    shape_of,
)

from .loops import ELEMENTWISE

MAXIMA = "arith.maximumf", "arith.maxnumf"
_REDUCTIONS = ("arith.addf", *MAXIMA, "arith.minimumf", "arith.minnumf")


@dataclass(frozen=True)
class LoopNest:
    """An op with one result as loops that compute elements of it."""

    name: str
    maps: Sequence[AffineMap]
    """Which element of an operand an iteration looks at: those of inputs and output."""

    kinds: Sequence[IteratorTypeAttr]
    arguments: Sequence[SSAValue]
    """What stands for the elements."""

    ops: Sequence[Operation]
    """What is computed with them."""

    result: SSAValue
    result_map: AffineMap
    shape: Sequence[int]
    shapes: Sequence[Sequence[int]]

    def loop_sizes(self) -> Sequence[int]:
        """How many iterations loops have, `DYNAMIC_INDEX` where it is not known."""
        sizes: dict[int, int] = {}
        for map_, shape in zip(
            (*self.maps, self.result_map), (*self.shapes, self.shape), strict=True
        ):
            for index, size in zip(map_.results, shape, strict=True):
                if isinstance(index, AffineDimExpr) and (
                    sizes.get(index.position, DYNAMIC_INDEX) == DYNAMIC_INDEX
                ):
                    sizes[index.position] = size
        return [sizes[d] for d in range(len(self.kinds))]

    def combined(self) -> tuple[str, Sequence[SSAValue]] | None:
        """
        How an iteration changes an element of the result: the name of an op, and the
        arguments that it combines the element with. That of `arith.mulf` adds a product.
        """
        if not isinstance(op := self.result.owner, Operation) or op not in self.ops:
            return None
        so_far = self.arguments[-1]
        others = [value for value in op.operands if value is not so_far]
        inputs = self.arguments[:-1]
        if len(others) != 1 or len(op.operands) != 2:
            return None
        (other,) = others
        if len(self.ops) == 1 and other in inputs:
            if op.name in _REDUCTIONS:
                return op.name, others
        product = other.owner
        if len(self.ops) != 2 or not isinstance(product, Operation):
            return None
        if (op.name, product.name) != ("arith.addf", "arith.mulf"):
            return None
        if any(value not in inputs for value in product.operands):
            return None
        return product.name, [*product.operands]


def loop_nest_of(op: Operation) -> LoopNest | None:
    """An op as a loop nest; `None` if it is none."""
    if (parts := _combined_parts(op)) is None:
        return None
    maps, kinds, block, input_count = parts
    result = op.results[0]
    shape = shape_of(result)
    shapes = [
        shape_of(value) if isinstance(value.type, TensorType) else ()
        for value in op.operands
    ]
    if block is None:
        arguments, ops, yielded = op.operands, [op], result
    else:
        *ops, last = block.ops
        arguments, yielded = block.args, last.operands[0]
    result_map = maps[input_count] if input_count < len(maps) else maps[-1]
    positions = [
        index.position
        for index in result_map.results
        if isinstance(index, AffineDimExpr)
    ]
    parallel = [d for d, kind in enumerate(kinds) if kind == PARALLEL]
    if sorted(positions) != parallel or len(positions) != len(shape):
        return None
    return LoopNest(
        op.name, maps, kinds, arguments, ops, yielded, result_map, shape, shapes
    )


def _combined_parts(
    op: Operation,
) -> tuple[Sequence[AffineMap], Sequence[IteratorTypeAttr], Block | None, int] | None:
    """Maps and kinds of loops, the body, and the number of inputs."""
    rank = len(shape_of(op.results[0]))
    identity = AffineMap.identity(rank)
    if isinstance(op, LinalgStructuredOperation):
        maps = [attribute.data for attribute in op.get_indexing_maps()]
        kinds = [*op.get_iterator_types()]
        return maps, kinds, op.body.block, len(op.inputs)
    if isinstance(op, linalg.ops.BroadcastOp):
        new = op.dimensions.get_values()
        kept = [d for d in range(rank) if d not in new]
        maps = [AffineMap(rank, 0, tuple(dimensions(kept))), identity]
        return maps, [PARALLEL] * rank, op.hidden_region.block, 1
    if isinstance(op, linalg.ops.ReduceOp) and len(op.operands) == 2:
        sizes = len(shape_of(op.operands[0]))
        reduced = op.dimensions.get_values()
        kept = [d for d in range(sizes) if d not in reduced]
        kinds = [REDUCTION if d in reduced else PARALLEL for d in range(sizes)]
        maps = [AffineMap.identity(sizes), AffineMap(sizes, 0, tuple(dimensions(kept)))]
        return maps, kinds, op.region.block, 1
    if op.name in ELEMENTWISE:
        number = AffineMap(rank, 0, ())
        maps = [
            identity if isinstance(value.type, TensorType) else number
            for value in op.operands
        ]
        return maps, [PARALLEL] * rank, None, len(op.operands)
    return None
