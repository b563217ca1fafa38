"""
Split float contractions into partial sums, one per vector lane.

Compilers must not reorder float additions, so each addition of a sequential sum waits for
the previous one. This pass permits reordering: with 32 lanes, a sum of 4096 products
becomes 32 sums of 128 products, where lane `j` has products `j`, `j + 32`, `j + 64`, ...
The lanes are then added in order to the initial value of the result. In f32, `math.fma`
adds products without rounding them.

If weights are dequantized, [`compile`][xdsl_quant.execution.compile] fuses dequantization
into the loop of the partial sums, so dequantized weights are never stored in memory.

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

becomes a loop nest `(n, b, j)` that computes a `64x32` tensor of partial sums, and a loop
nest that adds them.
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
    """A float contraction over one loop."""

    factors: Values
    """Left and right factor."""

    maps: Sequence[Sequence[int]]
    """Loops that index the dimensions of each factor, then those of the result."""

    loop: int

    size: int
    """Iteration count of the reduction loop."""


def _contraction_of(op: linalg.ops.GenericOp) -> _Contraction | None:
    """Return an op as a float contraction over a loop of static size, or `None`."""
    # Ops on buffers have no results.
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
    # Unknown sizes are -1.
    size = min(
        shape_of(factor)[loops.index(loop)]
        for factor, loops in zip(op.inputs, maps, strict=False)
    )
    return _Contraction([*op.inputs], maps, loop, size)


def _loops(indices: AffineMap) -> Sequence[int] | None:
    """Return the loop of each index, or `None` if an index is not a plain loop index."""
    loops = [e.position for e in indices.results if isinstance(e, AffineDimExpr)]
    is_plain = len({*loops}) == len(indices.results) and not indices.num_symbols
    return loops if is_plain else None


@dataclass(frozen=True)
class SplitReduction(RewritePattern):
    """Split each sum of a multiple of `lanes` float products into partial sums."""

    lanes: int

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: linalg.ops.GenericOp, rewriter: PatternRewriter):
        contraction = _contraction_of(op)
        if (
            contraction is None
            or contraction.size <= self.lanes
            or contraction.size % self.lanes
        ):
            return
        builder = LoweringBuilder.before(op)
        sums = self._partial_sums(builder, op, contraction)
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
        self,
        builder: LoweringBuilder,
        op: linalg.ops.GenericOp,
        contraction: _Contraction,
    ) -> SSAValue:
        """Build the partial sums, with the lanes as an additional last dimension."""
        loops = dimensions(range(len(op.iterator_types)))
        lane = AffineDimExpr(len(loops))
        numbers = [*loops]
        reduced = contraction.loop
        numbers[reduced] = loops[reduced] * self.lanes + lane
        # Split the smaller factor: its dimensions define the sizes of both new loops.
        first, second = map(_size_or_infinity, contraction.factors[:2])
        split = 0 if first < second else 1
        inputs: list[SSAValue] = []
        indices: list[Sequence[AffineExpr]] = []
        factors = zip(contraction.factors, contraction.maps, strict=False)
        for i, (factor, own) in enumerate(factors):
            if i == split:
                at = own.index(reduced)
                factor = builder.split_dimensions(factor, {at: self.lanes})
                exprs = [loops[loop] for loop in own]
                exprs.insert(at + 1, lane)
            else:
                exprs = [numbers[loop] for loop in own]
            inputs.append(factor)
            indices.append(exprs)
        sizes = [*builder.sizes(op.outputs[0]), self.lanes]
        type_ = TensorType(element_type_of(op.outputs[0]), static_sizes(sizes))
        indices.append([*(loops[loop] for loop in contraction.maps[2]), lane])

        kinds = [REDUCTION if i == reduced else PARALLEL for i in range(len(loops))]
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


def _size_or_infinity(value: SSAValue) -> float:
    return prod(size if size >= 0 else inf for size in shape_of(value))


@dataclass(frozen=True)
class QuantSplitReductionsPass(CountingPass):
    """
    Split float contractions into partial sums, one per vector lane, so that computation
    keeps up with reading and dequantizing weights.

    Run the pass after all contractions are lowered to `linalg.generic`. It splits sums
    whose term count is static and a multiple of the lanes; others stay unchanged.
    """

    name = "quant-split-reductions"

    lanes: int = 32
    """Number of partial sums per result."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        if self.lanes < 2:
            raise PassFailedException(f"expected at least 2 lanes, found {self.lanes}")
        generics = [o for o in op.walk() if isinstance(o, linalg.ops.GenericOp)]
        PatternRewriteWalker(
            SplitReduction(self.lanes), apply_recursively=False
        ).rewrite_module(op)
        return PassOutcome(
            generics,
            sum(each.parent is None for each in generics),
            f"contractions of {2 * self.lanes}, {3 * self.lanes}, ... products",
        )
