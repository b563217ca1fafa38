"""
Split sums of products of floats into partial sums, one for each lane of a vector.

A product that is summed up in order is as slow as the additions wait for each other: floats
may not be added in another order unless somebody says so. This pass says so. With 32 lanes
the sum of 4096 products becomes 32 sums of 128 products each, of which lane `j` has those
with the numbers `j`, `j + 32`, `j + 64`, ...; then the lanes are added in order to what the
result is at first. In f32, products are added by `math.fma`, which does not round them.

Where weights are dequantized, [`compile`][xdsl_quant.execution.compile] does that in the
loop of the partial sums, and no tensor of dequantized weights is in memory.

Example:

```mlir
%y = linalg.generic {
    indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (k)>,
                     affine_map<(n, k) -> (n)>],
    iterator_types = ["parallel", "reduction"]
} ins(%w, %x : tensor<64x4096xf32>, tensor<4096xf32>) outs(%b : tensor<64xf32>) {
^bb0(%w_nk: f32, %x_k: f32, %sum: f32):
  %p = arith.mulf %w_nk, %x_k : f32
  %s = arith.addf %sum, %p : f32
  linalg.yield %s : f32
} -> tensor<64xf32>
```

becomes a loop nest `(n, b, j)` over a tensor `64x32` of partial sums, and one that adds
them up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects import arith, linalg, math
from xdsl.dialects.builtin import Float32Type, ModuleOp, TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    Values,
    dimensions,
    element_type_of,
    shape_of,
    static_sizes,
)
from xdsl_quant.transforms.propagation.export.loop_nests import loop_nest_of


class _Contraction(NamedTuple):
    """A sum of products of floats over one loop."""

    factors: Values
    """The left and the right factor."""

    maps: Sequence[Sequence[int]]
    """The loops that are the indices of the factors and of the result."""

    loop: int
    """The loop that is summed up."""

    size: int
    """How often that loop runs."""


def _contraction_of(op: linalg.ops.GenericOp) -> _Contraction | None:
    """
    Return an op as a sum of products of floats over a loop of known size, if it is one.
    """
    # On buffers there is no result.
    nest = loop_nest_of(op) if op.results else None
    if nest is None or (len(op.inputs), nest.kinds.count(REDUCTION)) != (2, 1):
        return None
    loop = nest.kinds.index(REDUCTION)
    maps = [loops for map_ in nest.maps if (loops := _loops(map_)) is not None]
    if len(maps) != 3 or [loop in loops for loops in maps] != [True, True, False]:
        return None
    name, factors = nest.combined() or ("", ())
    if name != "arith.mulf" or {*factors} != {*nest.arguments[:2]}:
        return None
    # If it is not known for one of them, it is -1.
    size = min(
        shape_of(factor)[loops.index(loop)]
        for factor, loops in zip(op.inputs, maps, strict=False)
    )
    return _Contraction([*op.inputs], maps, loop, size)


def _loops(indices: AffineMap) -> Sequence[int] | None:
    """
    Return the loops that are the indices of an element; `None` if others are
    calculated.
    """
    loops = [e.position for e in indices.results if isinstance(e, AffineDimExpr)]
    is_plain = len({*loops}) == len(indices.results) and not indices.num_symbols
    return loops if is_plain else None


@dataclass(frozen=True)
class SplitReduction(RewritePattern):
    """Split a sum of products of floats into `lanes` partial sums, if they divide it."""

    lanes: int

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: linalg.ops.GenericOp, rewriter: PatternRewriter):
        found = _contraction_of(op)
        if found is None or found.size <= self.lanes or found.size % self.lanes:
            return
        builder = LoweringBuilder.before(op)
        sums = self._partial_sums(builder, op, found)
        rank = len(shape_of(sums))
        result = builder.generic(
            [sums],
            [op.outputs[0]],
            [
                AffineMap.identity(rank),
                AffineMap(rank, 0, (*dimensions(range(rank - 1)),)),
            ],
            [*[PARALLEL] * (rank - 1), REDUCTION],
            lambda b, args: b.add(arith.AddfOp(args[1], args[0])),
        )
        rewriter.replace(op, (), [result])

    def _partial_sums(
        self, builder: LoweringBuilder, op: linalg.ops.GenericOp, found: _Contraction
    ) -> SSAValue:
        """
        Return a tensor like the result with one more dimension, that of the lanes.
        """
        loops = dimensions(range(len(op.iterator_types)))
        lane = AffineDimExpr(len(loops))
        numbers = [*loops]
        numbers[found.loop] = loops[found.loop] * self.lanes + lane
        # The sizes of all loops are those of a tensor.
        first, second = map(_element_total, found.factors[:2])
        split = 0 if first < second else 1
        inputs: list[SSAValue] = []
        indices: list[Sequence[AffineExpr]] = []
        for i, (factor, own) in enumerate(zip(found.factors, found.maps, strict=False)):
            if i == split:
                at = own.index(found.loop)
                factor = builder.split_dimensions(factor, {at: self.lanes})
                exprs = [loops[loop] for loop in own]
                exprs.insert(at + 1, lane)
            else:
                exprs = [numbers[loop] for loop in own]
            inputs.append(factor)
            indices.append(exprs)
        sizes = [*builder.sizes(op.outputs[0]), self.lanes]
        type_ = TensorType(element_type_of(op.outputs[0]), static_sizes(sizes))
        indices.append([*(loops[loop] for loop in found.maps[2]), lane])

        kinds = [REDUCTION if i == found.loop else PARALLEL for i in range(len(loops))]
        return builder.generic(
            inputs,
            [builder.zeros(type_, sizes)],
            [AffineMap(len(loops) + 1, 0, (*exprs,)) for exprs in indices],
            [*kinds, PARALLEL],
            _multiplied_and_added,
        )


def _multiplied_and_added(builder: LoweringBuilder, args: Values) -> SSAValue:
    if isinstance(args[0].type, Float32Type):
        return builder.add(math.FmaOp(args[0], args[1], args[2]))
    product = builder.add(arith.MulfOp(args[0], args[1]))
    return builder.add(arith.AddfOp(args[2], product))


def _element_total(value: SSAValue) -> float:
    """Return the number of elements of a tensor."""
    return prod(size if size >= 0 else inf for size in shape_of(value))


@dataclass(frozen=True)
class QuantSplitReductionsPass(CountingPass):
    """
    Split sums of products of floats into partial sums, one for each lane of a vector, so
    that they are computed as fast as weights are read and dequantized.

    It is applied after all products are `linalg.generic`. What is summed up must be of a
    known size that the lanes divide; other products stay as they are.
    """

    name = "quant-split-reductions"

    lanes: int = 32
    """The number of partial sums."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        if self.lanes < 2:
            raise PassFailedException(
                f"option lanes of {self.name} must be at least 2, not {self.lanes}"
            )
        found = [o for o in op.walk() if isinstance(o, linalg.ops.GenericOp)]
        PatternRewriteWalker(
            SplitReduction(self.lanes), apply_recursively=False
        ).rewrite_module(op)
        return PassOutcome(
            found,
            sum(each.parent is None for each in found),
            f"contractions over a size that is a multiple of {self.lanes} and larger",
        )
