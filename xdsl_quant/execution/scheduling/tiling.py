"""
Contractions, that is sums of products, in tiles whose sums stay in registers.

Without tiles each sum is read and written again for every product. With them the two
innermost loops are over a tile of the result, up to 8 rows of 32 columns, and both have
sizes that are known: LLVM unrolls them and keeps the tile in registers all through the
loops over what is summed up. The right factor is packed first, so that the elements for
the columns of a tile are contiguous.

Products of 8-bit integers fit 16 bits, where a processor multiplies twice as many at once
as in 32. For sums of 32 bits there is something better: instructions that multiply 16-bit
integers and add up products of 32 bits. LLVM takes them if it knows that a factor is not
negative and has 15 bits. So signed elements of the left factor are stored with 128 added,
and the sums begin with what has to be subtracted for that.

A contraction without tiles gets its loops in an order in which the innermost one is over
contiguous elements. In any order the products for one element of the result are added up
in the order in which the given loops do so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from .. import mlir_bindings as mlir
from ..building import (
    elementwise_generic,
    filled,
    generic,
    mixed_sizes,
    reshaped_tensor,
)
from ..mlir_bindings import Sizes, Values, arith, ir, linalg, tensor
from .byte_products import is_kept
from .contractions import Contraction, Factor, contraction_of, loops_in

_COLUMNS = 32
_MAX_ROWS = 8

_MIN_REUSE = 256
"""How often elements are used if packing them costs less than tiles save."""

_OFFSET = 128
"""What is added to a signed 8-bit integer so that it is not negative."""


def tile_contractions(module: ir.Module) -> None:
    """Rewrite all contractions on tensors in a module."""
    # Ops in a body are gone with the op that it is of.
    structured = [
        op
        for op in mlir.ops_in(module)
        if op.name.startswith("linalg.") and len(op.regions) == 1
    ]
    for op in structured:
        if is_kept(op):
            continue
        if op.results and (contraction := contraction_of(op)) is not None:
            tiled = _TiledContraction(**vars(contraction))
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(tiled.rewritten())
            op.erase()


# Rewriting

_PARALLEL = "parallel"


class _TiledContraction(Contraction):
    """A contraction in other loops."""

    # Loops

    @cached_property
    def column(self) -> int | None:
        """The loop over contiguous elements of the result."""
        loops = (loop for loop in reversed(self.result) if self.size(loop) != 1)
        return next(loops, None)

    @cached_property
    def column_dimension(self) -> int | None:
        """The dimension of the right factor that depends on the column, if one does."""
        used = [self.column in loops_in(index) for index in self.rhs.indices]
        return used.index(True) if used.count(True) == 1 else None

    @cached_property
    def _tile_sizes(self) -> Mapping[int, int]:
        """The sizes that tiles could have, if columns were contiguous."""
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
        """Whether the right factor is transposed, so that columns are contiguous."""
        if self.column_dimension in (None, len(self.rhs.indices) - 1):
            return False
        reuse = self.reuse(self.rhs)
        is_integer = self.product.name == "arith.muli"
        if is_integer and self.lhs.indices[-1:] == self.rhs.indices[-1:]:
            # Integers that are contiguous for each sum can be added up in vectors.
            return bool(self._tile_sizes) and reuse >= _MIN_REUSE
        return reuse > 1

    @cached_property
    def tiles(self) -> Mapping[int, int]:
        """The number of rows and then of columns of a tile, by their loops."""
        is_contiguous = self.column_dimension == len(self.rhs.indices) - 1
        return self._tile_sizes if is_contiguous or self.is_transposed else {}

    @cached_property
    def order(self) -> Sequence[int]:
        """The loops around a tile, from the outermost on."""
        reductions = [loop for loop in range(self.count) if loop not in self.result]
        outer = [loop for loop in self.result if loop not in self.tiles]
        if self.tiles:
            row, column = self.tiles
            in_rhs = self.rhs.loops
            # What belongs to some columns is used for all rows before the next ones.
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
        """The map from the new loops, with those in a tile last, to the given ones."""
        loops: list[ir.AffineExpr] = [
            ir.AffineExpr.get_dim(self.order.index(i)) for i in range(self.count)
        ]
        for inner, (loop, size) in enumerate(self.tiles.items(), self.count):
            loops[loop] = loops[loop] * size + ir.AffineExpr.get_dim(inner)
        return mlir.affine_map(self.count + len(self.tiles), loops)

    # Ops

    def rewritten(self) -> ir.Value:
        """The result of the op, from new loops."""
        total = self.op.operands[2]
        sizes = mixed_sizes(total)
        lhs, rhs = (
            factor._replace(indices=[i.compose(self.loops) for i in factor.indices])
            for factor in (self.lhs, self.rhs)
        )
        if self.tiles and self._has_bytes:
            total = self._less_offset(total)
            lhs, rhs = _as_bytes(lhs), _as_words(rhs)
        elif self.tiles:
            lhs, rhs = (_as_numbers(factor, self.sum_type) for factor in (lhs, rhs))
        if self.tiles or (self.reuse(self.lhs) > 1 and lhs.is_computed):
            lhs = lhs.in_memory()
        if self.tiles or self.is_transposed:
            rhs = self._packed(rhs)
        elif self.reuse(self.rhs) > 1 and rhs.is_computed:
            rhs = rhs.in_memory()
        result_sizes, result_loops = self._tiled_result(sizes)
        indices = lhs.indices, rhs.indices, map(ir.AffineExpr.get_dim, result_loops)
        loop_count = self.loops.n_dims
        (result,) = generic(
            [lhs.value, rhs.value],
            [reshaped_tensor(total, result_sizes)],
            [mlir.affine_map(loop_count, i) for i in indices],
            [
                _PARALLEL if i in result_loops else "reduction"
                for i in range(loop_count)
            ],
            self.body(lhs, rhs),
        )
        return reshaped_tensor(result, sizes)

    def _tiled_result(self, sizes: Sizes) -> tuple[Sizes, Sequence[int]]:
        """The sizes of the result, of which some are those of tiles, and its loops."""
        result_sizes: list[int | ir.Value] = []
        result_loops: list[int] = []
        for loop, size in zip(self.result, sizes, strict=True):
            result_loops.append(self.order.index(loop))
            if (tile := self.tiles.get(loop)) and isinstance(size, int):
                result_loops.append(self.count + [*self.tiles].index(loop))
                result_sizes += [size // tile, tile]
            else:
                result_sizes.append(size)
        return result_sizes, result_loops

    @cached_property
    def _has_bytes(self) -> bool:
        """Whether 8-bit factors are summed up in 32 bits."""
        types = [self.lhs.element_type, self.rhs.element_type]
        return (
            self.total.results[0].type == ir.IntegerType.get_signless(32)
            and all(1 < mlir.bits(type_) <= 8 for type_ in types)
            and all(
                _position(i) is not None or _is_zero_index(i) for i in self.rhs.indices
            )
            and abs(self.rhs.zero_point) < 256
            and {*range(self.count)} - {*self.result} <= self.rhs.loops
        )

    def _less_offset(self, total: ir.Value) -> ir.Value:
        """
        The initial sums, less what is too much if the left factor is not converted to the
        number that is multiplied, but to an integer that is not negative.
        """
        offset = self.lhs.zero_point + (0 if self.lhs.is_unsigned else _OFFSET)
        if not offset:
            return total
        value = self.rhs.value
        dim, i32 = ir.AffineExpr.get_dim, mlir.element(total)
        loops = [*map(_position, self.rhs.indices)]
        kept = [i for i, loop in enumerate(loops) if loop in self.result]
        sizes = mixed_sizes(value)

        def subtract(arguments: Values) -> Values:
            element, so_far = arguments
            excess = arith.muli(
                self.rhs.convert(element, i32), arith.constant(i32, -offset)
            )
            return [arith.addi(so_far, excess)]

        identity = ir.AffineMap.get_identity(len(loops))
        (offsets,) = generic(
            [value],
            [filled([sizes[i] for i in kept], i32, 0)],
            [identity, mlir.affine_map(len(loops), map(dim, kept))],
            [_PARALLEL if i in kept else "reduction" for i in range(len(loops))],
            subtract,
        )
        rank = len(self.result)
        places = [dim(self.result.index(loops[i])) for i in kept]
        maps = [ir.AffineMap.get_identity(rank), mlir.affine_map(rank, places)]
        return elementwise_generic(
            [total, offsets], i32, lambda args: arith.addi(*args), maps
        )

    def _packed(self, rhs: Factor) -> Factor:
        """The right factor with columns last, and with the columns of a tile together."""
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
            reshaped_tensor(rhs.value, sizes), outs=[target], permutation=permutation
        )
        return rhs._replace(value=value, indices=[indices[i] for i in permutation])


def _position(index: ir.AffineExpr) -> int | None:
    """The loop that an affine expression is."""
    return index.position if isinstance(index, ir.AffineDimExpr) else None


def _is_zero_index(index: ir.AffineExpr) -> bool:
    return isinstance(index, ir.AffineConstantExpr) and not index.value


def _as_numbers(factor: Factor, type_: ir.Type) -> Factor:
    """The factor with numbers of the type in which they are multiplied."""
    if factor.element_type == type_:
        return factor
    return factor.stored_as(type_, factor.convert, lambda value, _: value)


def _as_bytes(factor: Factor) -> Factor:
    """Elements of up to 8 bits as 32-bit integers that are known to be from 0 to 255."""
    i8, i32 = (ir.IntegerType.get_signless(width) for width in (8, 32))

    def store(element: ir.Value, type_: ir.Type) -> ir.Value:
        value = factor.extend(element, type_)
        if factor.is_unsigned:
            return value
        return arith.addi(value, arith.constant(type_, _OFFSET))

    def load(value: ir.Value, type_: ir.Type) -> ir.Value:
        return arith.extui(type_, arith.trunci(i8, value))

    return factor.stored_as(i32, store, load)


def _as_words(factor: Factor) -> Factor:
    """Elements of up to 8 bits as 16-bit integers."""
    i16 = ir.IntegerType.get_signless(16)
    return factor.stored_as(
        i16, factor.convert, lambda value, type_: arith.extsi(type_, value)
    )
