"""
Sums of products in tiles whose sums stay in the registers of a processor.

Without tiles each sum is read and written again for every product. With them the two
innermost loops are over a tile of the result, up to 8 rows of 32 columns, and both have
sizes that are known: a compiler unrolls them and keeps the tile in registers all through
the loops over what is summed up. The right operand is packed first, so that what belongs
to the columns of a tile lies side by side.

Products of 8-bit integers fit 16 bits, where a machine multiplies twice as many at once
as in 32. For sums of 32 bits there is something better: instructions that multiply 16-bit
integers and add up products of 32 bits. A compiler takes them if it knows that a factor is
not negative and has 15 bits. So signed values of the left operand are stored with 128 more,
and the sums begin with what that is too much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from xdsl.dialects.builtin import IntegerType, Signedness, TensorType, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    dimensions,
    element_type_of,
    static_sizes,
)

from .conversions import converted
from .element_types import is_unsigned, signless
from .loops import Contraction, Loop, Operand, computed_once, used_loops
from .scalars import product, total

_COLUMNS = 32
_MOST_ROWS = 8


def tiled(
    builder: LoweringBuilder, contraction: Contraction, sum_type: Attribute
) -> Contraction | None:
    """
    The same sums in tiles, with two dimensions of the result for each of the two that
    the tiles are parts of; `None` if there are no tiles.

    Args:
        builder: where the ops are inserted.
        contraction: what is summed up.
        sum_type: the type of the sums, with its sign.
    """
    row, rows = _rows(contraction)
    if rows == 1 or not _has_column_tiles(contraction):
        return None
    tiling = _Tiling(contraction, row, rows)
    product_type = _product_type(contraction, sum_type)
    if product_type != sum_type and _may_have_bytes(contraction, sum_type):
        return tiling.of_bytes(builder)
    return tiling.of_type(builder, product_type)


def _rows(contraction: Contraction) -> tuple[int, int]:
    """The loop that is over the rows of tiles, and how many rows a tile has."""
    used = used_loops(contraction.rhs.indices)
    for loop in reversed(contraction.result):
        size = contraction.loops[loop].size
        if loop not in used and isinstance(size, int):
            rows = (
                rows for rows in range(_MOST_ROWS, 1, -1) if size and not size % rows
            )
            return loop, next(rows, 1)
    return 0, 1


def _has_column_tiles(contraction: Contraction) -> bool:
    """Whether the innermost loop is over the last dimension of result and right operand."""
    column = len(contraction.loops) - 1
    if column not in contraction.result[-1:]:
        return False
    *others, last = contraction.rhs.indices or [AffineConstantExpr(0)]
    size = contraction.loops[column].size
    return (
        last == AffineDimExpr(column)
        and column not in used_loops([*others, *contraction.lhs.indices])
        and isinstance(size, int)
        and size > 0
        and size % _COLUMNS == 0
    )


def _product_type(contraction: Contraction, sum_type: Attribute) -> Attribute:
    types = (contraction.lhs.element_type, contraction.rhs.element_type)
    if not all(isinstance(type_, IntegerType) for type_ in (*types, sum_type)):
        return sum_type
    *factors, total = (
        cast(IntegerType, type_).bitwidth for type_ in (*types, sum_type)
    )
    if max(factors) > 8 or 1 in factors or total <= 16:
        return sum_type
    if all(map(is_unsigned, types)):
        return IntegerType(16, Signedness.UNSIGNED)
    return IntegerType(16)


_BYTE = IntegerType(8, Signedness.UNSIGNED)
_OFFSET = 128
"""What signed 8-bit values have to be increased by to be bytes."""


def _may_have_bytes(contraction: Contraction, sum_type: Attribute) -> bool:
    """Whether sums have 32 bits, and those of the right operand are simple ones."""
    indices = contraction.rhs.indices
    return cast(IntegerType, sum_type).bitwidth == 32 and all(
        isinstance(index, AffineDimExpr) for index in indices
    )


@dataclass(frozen=True)
class _Tiling:
    contraction: Contraction
    row: int
    rows: int

    @property
    def column(self) -> int:
        """The loop over the columns of tiles."""
        return len(self.contraction.loops) - 1

    @cached_property
    def order(self) -> Sequence[int]:
        """The loops around a tile, from the outermost on."""
        loops = self.contraction.loops
        outer = [
            loop
            for loop in range(self.column)
            if loops[loop].kind is PARALLEL and loop != self.row
        ]
        # What belongs to some columns is used for all rows before the next ones.
        in_rhs = used_loops(self.contraction.rhs.indices)
        return [
            *(loop for loop in outer if loop in in_rhs),
            self.column,
            *(loop for loop in outer if loop not in in_rhs),
            self.row,
            *(loop for loop in range(self.column) if loops[loop].kind is REDUCTION),
        ]

    @cached_property
    def inner(self) -> Mapping[int, tuple[int, int]]:
        """For the row and the column the loop in the tile, and its size."""
        count = len(self.order)
        return {self.row: (count, self.rows), self.column: (count + 1, _COLUMNS)}

    def of_type(self, builder: LoweringBuilder, product_type: Attribute) -> Contraction:
        """The tiled loops, with products of this type."""
        operands = (
            Operand(
                _converted(builder, operand, product_type),
                product_type,
                operand.indices,
            )
            for operand in (self.contraction.lhs, self.contraction.rhs)
        )
        return self._tiles(builder, *operands)._replace(product_type=product_type)

    def of_bytes(self, builder: LoweringBuilder) -> Contraction:
        """The tiled loops, with products of bytes by 16-bit integers."""
        lhs, rhs, *_ = self.contraction
        words = IntegerType(16)
        tiles = self._tiles(
            builder,
            Operand(_bytes(builder, lhs), i32, lhs.indices),
            Operand(_converted(builder, rhs, words), words, rhs.indices),
        )._replace(product_type=i32, lhs_range=_BYTE)
        if is_unsigned(lhs.element_type):
            return tiles
        return tiles._replace(initial=self._initial(builder, tiles))

    def _initial(self, builder: LoweringBuilder, tiles: Contraction) -> SSAValue:
        """The sums of the right operand, times what the left one has too much."""
        rhs = self.contraction.rhs
        loops = [cast(AffineDimExpr, index).position for index in rhs.indices]
        kinds = [self.contraction.loops[loop].kind for loop in loops]
        kept = [at for at, kind in enumerate(kinds) if kind is PARALLEL]
        sizes = builder.sizes(rhs.value)
        kept_sizes = [sizes[at] for at in kept]
        sums_type = TensorType(i32, static_sizes(kept_sizes))

        def body(body: LoweringBuilder, args: Sequence[SSAValue]) -> SSAValue:
            value = converted(body, args[0], rhs.element_type, i32)
            return total(
                body, args[1], product(body, value, body.number(-_OFFSET, i32))
            )

        sums = builder.generic(
            [rhs.value],
            [builder.zeros(sums_type, kept_sizes)],
            [
                AffineMap(len(loops), 0, tuple(dimensions(range(len(loops))))),
                AffineMap(len(loops), 0, tuple(dimensions(kept))),
            ],
            kinds,
            body,
        )
        # Loops of the tiles as dimensions of the result.
        places = [
            AffineDimExpr(tiles.result.index(loop) if loop in tiles.result else 0)
            for loop in range(len(tiles.loops))
        ]
        source = self._indices([AffineDimExpr(loops[at]) for at in kept])
        result_sizes = tiles.result_sizes
        return builder.rearranged(
            sums,
            TensorType(i32, static_sizes(result_sizes)),
            result_sizes,
            [index.replace_dims_and_symbols(places, ()) for index in source],
        )

    def _tiles(
        self, builder: LoweringBuilder, lhs: Operand, rhs: Operand
    ) -> Contraction:
        """The tiled loops, with the right operand packed."""
        packed = [
            AffineDimExpr(self.order.index(self.column)),
            *self._indices(rhs.indices[:-1]),
            AffineDimExpr(self.inner[self.column][0]),
        ]
        return Contraction(
            computed_once(builder, lhs._replace(indices=self._indices(lhs.indices))),
            Operand(_packed(builder, rhs.value), rhs.element_type, packed),
            [
                *(self._outer_loop(loop) for loop in self.order),
                Loop(self.rows, PARALLEL),
                Loop(_COLUMNS, PARALLEL),
            ],
            [new for loop in self.contraction.result for new in self._loops_for(loop)],
        )

    def _loops_for(self, loop: int) -> Sequence[int]:
        outer = self.order.index(loop)
        return [outer, self.inner[loop][0]] if loop in self.inner else [outer]

    def _outer_loop(self, loop: int) -> Loop:
        size, kind = self.contraction.loops[loop]
        if loop in self.inner:
            size = cast(int, size) // self.inner[loop][1]
        return Loop(size, kind)

    def _indices(self, indices: Sequence[AffineExpr]) -> list[AffineExpr]:
        """Indices in the new loops."""
        new: list[AffineExpr] = []
        for loop in range(len(self.contraction.loops)):
            index = AffineDimExpr(self.order.index(loop))
            if loop in self.inner:
                position, size = self.inner[loop]
                index = index * size + AffineDimExpr(position)
            new.append(index)
        return [index.replace_dims_and_symbols(new, ()) for index in indices]


def _converted(
    builder: LoweringBuilder, operand: Operand, type_: Attribute
) -> SSAValue:
    if operand.element_type == type_:
        return operand.value
    sizes = builder.sizes(operand.value)
    return builder.rearranged(
        operand.value,
        TensorType(signless(type_), static_sizes(sizes)),
        sizes,
        dimensions(range(len(sizes))),
        lambda body, args: converted(body, args[0], operand.element_type, type_),
    )


def _bytes(builder: LoweringBuilder, operand: Operand) -> SSAValue:
    """Values of up to 8 bits as 32-bit integers from 0 to 255."""
    sizes = builder.sizes(operand.value)
    type_ = operand.element_type

    def body(body: LoweringBuilder, args: Sequence[SSAValue]) -> SSAValue:
        value = converted(body, args[0], type_, i32)
        if is_unsigned(type_):
            return value
        return total(body, value, body.number(_OFFSET, i32))

    return builder.rearranged(
        operand.value,
        TensorType(i32, static_sizes(sizes)),
        sizes,
        dimensions(range(len(sizes))),
        body,
    )


def _packed(builder: LoweringBuilder, value: SSAValue) -> SSAValue:
    """A right operand with the columns of a tile last and the tiles first."""
    *sizes, columns = builder.sizes(value)
    tile_sizes = [*sizes, cast(int, columns) // _COLUMNS, _COLUMNS]
    tile_type = TensorType(element_type_of(value), static_sizes(tile_sizes))
    tiles = builder.reshaped(value, tile_type, tile_sizes)
    rank = len(sizes)
    return builder.transposed(tiles, [rank, *range(rank), rank + 1])
