"""
Tiling of contractions so that the accumulators stay in registers.

Without tiles each sum is loaded and stored for every product. The two innermost loops
run over a tile of the result, up to 8 rows of 32 columns, with static sizes: LLVM
unrolls them and keeps the tile in registers throughout the reduction loops. The right
factor is packed first, so that the columns of a tile are contiguous.

Other contractions get a loop order whose innermost loop runs over contiguous elements.
The products of each result element are always accumulated in their original order.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from .. import mlir_bindings as mlir
from ..building import loops_in, mixed_sizes, reshape_tensor
from ..mlir_bindings import Sizes, ir, linalg, tensor
from .block_products import is_block_product
from .byte_products import is_byte_product
from .contractions import Contraction, Factor, contraction_of
from .generic_ops import build_generic

_COLUMNS = 32
_MAX_ROWS = 8

_MIN_REUSE = 256
"""Minimum number of uses per element that pays for packing."""


def tile_contractions(module: ir.Module) -> None:
    """Rewrite all contractions on tensors."""
    # Ops in a body are erased with their parent op.
    structured = [
        op
        for op in mlir.ops_in(module)
        if op.name.startswith("linalg.") and len(op.regions) == 1
    ]
    for op in structured:
        if is_byte_product(op) or is_block_product(op):
            continue
        if op.results and (contraction := contraction_of(op)) is not None:
            tiled = _TiledContraction(**vars(contraction))
            with ir.InsertionPoint(op), op.location:
                mlir.replace_op(op, tiled.rewrite())


# Rewriting

_PARALLEL = "parallel"


class _TiledContraction(Contraction):
    """Contraction with reordered and tiled loops."""

    # Loops

    @cached_property
    def column(self) -> int | None:
        """Loop over contiguous elements of the result."""
        loops = (loop for loop in reversed(self.result) if self.size(loop) != 1)
        return next(loops, None)

    @cached_property
    def column_dimension(self) -> int | None:
        """Unique dimension of the right factor that the column loop indexes, or `None`."""
        used = [self.column in loops_in(index) for index in self.rhs.indices]
        return used.index(True) if used.count(True) == 1 else None

    @cached_property
    def _tile_sizes(self) -> Mapping[int, int]:
        """Tile sizes by loop, provided that columns are contiguous."""
        rows = [loop for loop in self.result if loop not in self.rhs.loops]
        if not rows or self.column is None or self.column_dimension is None:
            return {}
        index = self.rhs.indices[self.column_dimension]
        if not isinstance(index, ir.AffineDimExpr):
            return {}
        row_count, column_count = self.size(rows[-1]), self.size(self.column)
        divisors = [n for n in range(_MAX_ROWS, 1, -1) if not row_count % n]
        has_tiles = not column_count % _COLUMNS and self.column not in self.lhs.loops
        if not divisors or not has_tiles or min(row_count, column_count) <= 0:
            return {}
        return {rows[-1]: divisors[0], self.column: _COLUMNS}

    @cached_property
    def is_transposed(self) -> bool:
        """True if the right factor is transposed to make columns contiguous."""
        if self.column_dimension in (None, len(self.rhs.indices) - 1):
            return False
        reuse = self.reuse(self.rhs)
        is_integer = self.product.name == "arith.muli"
        if is_integer and self.lhs.indices[-1:] == self.rhs.indices[-1:]:
            # Integers that are contiguous along the reduction can be summed in vectors
            # instead.
            return bool(self._tile_sizes) and reuse >= _MIN_REUSE
        return reuse > 1

    @cached_property
    def tiles(self) -> Mapping[int, int]:
        """Tile sizes by loop: rows, then columns; empty if untiled."""
        is_contiguous = self.column_dimension == len(self.rhs.indices) - 1
        return self._tile_sizes if is_contiguous or self.is_transposed else {}

    @cached_property
    def order(self) -> Sequence[int]:
        """Loops outside a tile, the outermost first."""
        reductions = [
            loop for loop in range(self.loop_count) if loop not in self.result
        ]
        outer = [loop for loop in self.result if loop not in self.tiles]
        if self.tiles:
            row, column = self.tiles
            in_rhs = self.rhs.loops
            # Finish all rows for some columns before the next columns.
            return [
                *(loop for loop in outer if loop in in_rhs),
                column,
                *(loop for loop in outer if loop not in in_rhs),
                row,
                *reductions,
            ]
        contiguous = loops_in(*self.lhs.indices[-1:], *self.rhs.indices[-1:])
        if self.column is not None and (
            self.is_transposed or self.column in contiguous
        ):
            outer.remove(self.column)
            return [*outer, *reductions, self.column]
        return [*outer, *reductions]

    @cached_property
    def loops(self) -> ir.AffineMap:
        """Map from the new loops, tile loops last, to the original loops."""
        loops: list[ir.AffineExpr] = [
            ir.AffineExpr.get_dim(self.order.index(i)) for i in range(self.loop_count)
        ]
        for inner, (loop, size) in enumerate(self.tiles.items(), self.loop_count):
            loops[loop] = loops[loop] * size + ir.AffineExpr.get_dim(inner)
        return mlir.affine_map(self.loop_count + len(self.tiles), loops)

    # Ops

    def rewrite(self) -> ir.Value:
        """Build the tiled op and return its result."""
        total = self.op.operands[2]
        sizes = mixed_sizes(total)
        lhs, rhs = (
            factor._replace(indices=[i.compose(self.loops) for i in factor.indices])
            for factor in (self.lhs, self.rhs)
        )
        if self.tiles:
            lhs, rhs = (factor.as_numbers(self.sum_type) for factor in (lhs, rhs))
        if self.tiles or (self.reuse(self.lhs) > 1 and lhs.is_computed):
            lhs = lhs.prevent_fusion()
        if self.tiles or self.is_transposed:
            rhs = self._packed(rhs)
        elif self.reuse(self.rhs) > 1 and rhs.is_computed:
            rhs = rhs.prevent_fusion()
        result_sizes, result_loops = self._tiled_result(sizes)
        indices = lhs.indices, rhs.indices, map(ir.AffineExpr.get_dim, result_loops)
        loop_count = self.loops.n_dims
        (result,) = build_generic(
            [lhs.value, rhs.value],
            [reshape_tensor(total, result_sizes)],
            [mlir.affine_map(loop_count, i) for i in indices],
            [
                _PARALLEL if i in result_loops else "reduction"
                for i in range(loop_count)
            ],
            self.body(lhs, rhs),
        )
        return reshape_tensor(result, sizes)

    def _tiled_result(self, sizes: Sizes) -> tuple[Sizes, Sequence[int]]:
        """Return the tiled result shape, and the loop of each dimension."""
        result_sizes: list[int | ir.Value] = []
        result_loops: list[int] = []
        for loop, size in zip(self.result, sizes, strict=True):
            result_loops.append(self.order.index(loop))
            if (tile := self.tiles.get(loop)) and isinstance(size, int):
                result_loops.append(self.loop_count + [*self.tiles].index(loop))
                result_sizes += [size // tile, tile]
            else:
                result_sizes.append(size)
        return result_sizes, result_loops

    def _packed(self, rhs: Factor) -> Factor:
        """Return the right factor with the columns of each tile contiguous."""
        column, dimension = self.column, self.column_dimension
        assert column is not None
        assert dimension is not None
        sizes, indices = mixed_sizes(rhs.value), [*rhs.indices]
        others = [i for i in range(len(sizes)) if i != dimension]
        if self.is_transposed:
            loops = [loops_in(index) for index in self.rhs.indices]
            others.sort(key=lambda i: max(map(self.order.index, loops[i]), default=0))
        permutation = [*others, dimension]
        if self.tiles:
            dim = ir.AffineExpr.get_dim
            in_tile = dim(self.loops.n_dims - 1)
            indices[dimension : dimension + 1] = [
                dim(self.order.index(column)),
                in_tile,
            ]
            sizes[dimension : dimension + 1] = [sizes[dimension] // _COLUMNS, _COLUMNS]
            others = [i + (i > dimension) for i in others]
            permutation = [dimension, *others, dimension + 1]
        target = tensor.empty([sizes[i] for i in permutation], rhs.element_type)
        value = linalg.transpose(
            reshape_tensor(rhs.value, sizes), outs=[target], permutation=permutation
        )
        return rhs._replace(value=value, indices=[indices[i] for i in permutation])
