"""View ops as loop nests over elements, and read their constant operands."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    dimensions,
    shape_of,
)
from xdsl_quant.transforms.statistics.ranges.float_constants import float_numbers
from xdsl_quant.unsupported import Unsupported

from .loops import ELEMENTWISE


@dataclass(frozen=True)
class RealConstant:
    """Constant: a single real number, or an array with the shape of the tensor."""

    values: Array | float

    @property
    def is_one_number(self) -> bool:
        """True if all numbers are equal."""
        array = np.asarray(self.values)
        return bool(array.size and (array == array.flat[0]).all())

    @property
    def number(self) -> float:
        """The single number."""
        if not self.is_one_number:
            raise Unsupported("a constant inside the kernel is not a splat")
        return float(np.asarray(self.values).flat[0])


class EmptyTensor:
    """Tensor with undefined elements."""


def constant_or_empty(op: Operation | Block) -> RealConstant | EmptyTensor | None:
    """Return the result of an op if it is constant or undefined, else `None`."""
    match op:
        case tensor.EmptyOp():
            return EmptyTensor()
        case linalg.ops.FillOp() | tensor.SplatOp():
            return constant_or_empty(op.operands[0].owner)
        case Operation() if (numbers := known_numbers(op)) is not None:
            return RealConstant(numbers)
        case _:
            return None


def known_numbers(op: Operation) -> Array | float | None:
    """
    Return the numbers of a float constant, or `None`.

    Raises:
        Unsupported: if they are not representable in NumPy.
    """
    if op.name not in ("arith.constant", "stablehlo.constant"):
        return None
    try:
        numbers = float_numbers(op.properties.get("value"))
    except ValueError as e:
        raise Unsupported(str(e)) from None
    if numbers is None or isinstance(numbers, float):
        return numbers
    return np.asarray(numbers, np.float64)


MAXIMA = "arith.maximumf", "arith.maxnumf"
_REDUCTIONS = ("arith.addf", *MAXIMA, "arith.minimumf", "arith.minnumf")


@dataclass(frozen=True)
class LoopNest:
    """Op with one result, viewed as loops that compute its elements."""

    op: Operation
    maps: Sequence[AffineMap]
    """Map from loop indices to the indices of each operand's element."""

    kinds: Sequence[IteratorTypeAttr]
    arguments: Sequence[SSAValue]
    """Values in the body that represent the operand elements."""

    ops: Sequence[Operation]

    result: SSAValue

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def shape(self) -> Sequence[int]:
        return shape_of(self.op.results[0])

    @property
    def indices(self) -> Sequence[AffineExpr]:
        """Indices of the result element as expressions of the loop indices."""
        return self.maps[-1].results

    def loop_sizes(self) -> Sequence[int]:
        """Iteration counts of the loops, `DYNAMIC_INDEX` if dynamic."""
        sizes = [DYNAMIC_INDEX] * len(self.kinds)
        for map_, value in zip(self.maps, self.op.operands, strict=True):
            shape = shape_of(value) if map_.results else ()
            for index, size in zip(map_.results, shape, strict=True):
                if isinstance(index, AffineDimExpr) and size != DYNAMIC_INDEX:
                    sizes[index.position] = size
        return sizes

    def combined(self) -> tuple[str, Sequence[SSAValue]] | None:
        """
        Return the name of the op that combines the accumulator with an input, and the
        input. If the body adds a product, return `arith.mulf` and the two factors.
        Return `None` for other bodies.
        """
        if not isinstance(op := self.result.owner, Operation) or op not in self.ops:
            return None
        *inputs, accumulator = self.arguments
        terms = [value for value in op.operands if value is not accumulator]
        if len(terms) != 1 or len(op.operands) != 2:
            return None
        product = terms[0].owner
        if len(self.ops) == 1 and terms[0] in inputs and op.name in _REDUCTIONS:
            return op.name, terms
        if (
            len(self.ops) == 2
            and isinstance(product, Operation)
            and (op.name, product.name) == ("arith.addf", "arith.mulf")
            and all(value in inputs for value in product.operands)
        ):
            return product.name, [*product.operands]
        return None


def loop_nest_of(op: Operation) -> LoopNest | None:
    """View an op as a loop nest; return `None` if that is impossible."""
    if (parts := _loop_parts(op)) is None:
        return None
    maps, kinds, block = parts
    if block is None:
        nest = LoopNest(op, maps, kinds, op.operands, [op], op.results[0])
    else:
        *ops, last = block.ops
        nest = LoopNest(op, maps, kinds, block.args, ops, last.operands[0])
    positions = [x.position for x in nest.indices if isinstance(x, AffineDimExpr)]
    parallel = [d for d, kind in enumerate(kinds) if kind == PARALLEL]
    if sorted(positions) != parallel or len(positions) != len(nest.shape):
        return None
    return nest


def _loop_parts(
    op: Operation,
) -> tuple[Sequence[AffineMap], Sequence[IteratorTypeAttr], Block | None] | None:
    """Return indexing maps, iterator types and body (`None` for elementwise ops)."""
    rank = len(shape_of(op.results[0]))
    identity = AffineMap.identity(rank)
    match op:
        case LinalgStructuredOperation():
            maps = [attribute.data for attribute in op.get_indexing_maps()]
            return maps, [*op.get_iterator_types()], op.body.block
        case linalg.ops.BroadcastOp():
            new = op.dimensions.get_values()
            kept = dimensions(d for d in range(rank) if d not in new)
            maps = [AffineMap(rank, 0, tuple(kept)), identity]
            return maps, [PARALLEL] * rank, op.hidden_region.block
        case linalg.ops.ReduceOp() if len(op.operands) == 2:
            sizes = len(shape_of(op.operands[0]))
            reduced = op.dimensions.get_values()
            kept = dimensions(d for d in range(sizes) if d not in reduced)
            kinds = [REDUCTION if d in reduced else PARALLEL for d in range(sizes)]
            maps = [AffineMap.identity(sizes), AffineMap(sizes, 0, tuple(kept))]
            return maps, kinds, op.region.block
        case Operation() if op.name in ELEMENTWISE:
            number = AffineMap(rank, 0, ())
            maps = [
                identity if isinstance(value.type, TensorType) else number
                for value in op.operands
            ]
            return maps, [PARALLEL] * rank, None
        case _:
            return None
