"""
Lowering of products with 4-bit weights of blocks to functions for AVX-512 VNNI or AVX-VNNI.

Such a product consists of two ops: a contraction that multiplies each block by the bytes
of a row, and an op that multiplies its sums by the scales of the blocks and adds them one
after the other. Together they become one function, whose weights have 4 bits in memory.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.arrays import Array

from .. import mlir_bindings as mlir
from ..building import indexing_maps, input_count, iterator_types_of
from ..mlir_bindings import FieldValue, Values, func, ir
from .block_code import GROUP_SIZE, BlockProduct, block_product_text
from .byte_products import add_text, memref_argument
from .contractions import Contraction, contraction_of
from .epilogues import can_be_delayed, reader_of
from .memrefs import constant_of, dimensions_by_loop, f32_constant_of, strides_by_loop
from .vector_code import Axis

_MARK = "xdsl_quant.blocks"


def mark_block_products(module: ir.Module) -> None:
    """Mark contractions for `call_block_products`, so that they are not tiled."""
    for op in mlir.ops_in(module, "linalg.generic"):
        if _scaled_sums(op) is None:
            continue
        for value in op.operands:
            owner = mlir.defining_op(value, "linalg.generic")
            if owner is not None and _weights_of(contraction_of(owner)) is not None:
                owner.attributes[_MARK] = ir.UnitAttr.get(module.context)


def is_block_product(op: ir.Operation) -> bool:
    """Return True if an op is marked by `mark_block_products`."""
    return _MARK in op.attributes


def call_block_products(module: ir.Module, bits: int) -> None:
    """
    Replace marked contractions on memrefs, and the ops that scale their sums, by calls of
    new functions for vector registers of `bits` bits.
    """
    names = mlir.unused_names(module, "block_product")
    for op in [*filter(is_block_product, mlir.ops_in(module, "linalg.generic"))]:
        contraction, reader = contraction_of(op), reader_of(op)
        if contraction is None or reader is None or reader.start != 0:
            continue
        found = _block_product_of(contraction, reader.op)
        if found is None:
            continue
        product, arguments = found
        name, memrefs = next(names), [*map(memref_argument, arguments)]
        add_text(module, block_product_text(name, memrefs, product, bits))
        location = ir.Location.fused([op.location, reader.op.location])
        with location, ir.InsertionPoint(reader.op):
            func.call([], name, arguments)
        sums = op.operands[2]
        op.erase()
        reader.erase(sums)


def _weights_of(contraction: Contraction | None) -> tuple[int, Array] | None:
    """Return the operand number and elements of 4-bit weights; `None` without them."""
    if contraction is None or contraction.sum_type != ir.IntegerType.get_signless(32):
        return None
    i8 = ir.IntegerType.get_signless(8)
    for factor, other in (
        (contraction.rhs, contraction.lhs),
        (contraction.lhs, contraction.rhs),
    ):
        are_signed = all(
            x.element_type == i8
            and x.conversion is not None
            and not (x.is_unsigned or x.zero_point)
            for x in (factor, other)
        )
        if not are_signed or (weights := constant_of(factor.value)) is None:
            continue
        if weights.ndim == 3 and -8 <= weights.min() and weights.max() <= 7:
            return [contraction.lhs, contraction.rhs].index(factor), weights
    return None


class _ScaledSums(NamedTuple):
    """Op that adds the products of integers and scales to its result."""

    op: ir.Operation

    sums: FieldValue
    """Argument of the body that holds a sum."""

    added: FieldValue | None
    """Value in the body that is added to a sum, or `None`."""

    scale: FieldValue
    """Value in the body that is multiplied by a sum."""

    @property
    def arguments(self) -> Values:
        return [*mlir.body_of(self.op).arguments]

    @property
    def number(self) -> int:
        """Number of the operand that holds the sums."""
        return self.arguments.index(self.sums)

    def numbers(self, value: ir.Value, loops: Sequence[int]) -> Array | None:
        """
        Return the numbers of a constant in the body, with one dimension per loop; the
        sizes of dimensions are 1 if the constant does not depend on the loop. Return
        `None` for values that are not constant.
        """
        if (number := mlir.number_of(value)) is not None:
            return np.full([1] * len(loops), number)
        if extension := mlir.defining_op(value, "arith.extsi"):
            value = extension.operands[0]
        if value not in self.arguments:
            return None
        position = self.arguments.index(value)
        operand = self.op.operands[position]
        array = constant_of(operand)
        if array is None:
            array = f32_constant_of(operand)
        results = indexing_maps(self.op)[position].results
        dimensions = dimensions_by_loop(results, mlir.shape(operand))
        if array is None or dimensions is None:
            return None
        dimensions = {i: d for i, d in dimensions.items() if array.shape[d] > 1}
        if not {*dimensions} <= {*loops}:
            return None
        order = [dimensions[loop] for loop in loops if loop in dimensions]
        others = [d for d in range(array.ndim) if d not in order]
        array = array.transpose(*others, *order)
        sizes = iter(array.shape[len(others) :])
        return array.reshape(
            [next(sizes) if loop in dimensions else 1 for loop in loops]
        )


def _scaled_sums(op: ir.Operation) -> _ScaledSums | None:
    """Return an op whose body is `fma(sitofp(sum + added), scale, result)`, or `None`."""
    block = mlir.body_of(op)
    *arguments, result = block.arguments
    if input_count(op) != len(arguments):
        return None
    yielded = [*mlir.yielded_values(block)]
    fma = mlir.defining_op(yielded[0], "math.fma") if len(yielded) == 1 else None
    if fma is None or fma.operands[2] != result:
        return None
    conversion = mlir.defining_op(fma.operands[0], "arith.sitofp")
    if conversion is None:
        return None
    total, scale, added = conversion.operands[0], fma.operands[1], None
    if addition := mlir.defining_op(total, "arith.addi"):
        total, added = addition.operands
    if total not in arguments:
        return None
    return _ScaledSums(op, total, added, scale)


def _block_product_of(
    contraction: Contraction, reader: ir.Operation
) -> tuple[BlockProduct, Values] | None:
    """Return a product and the memrefs of its bytes and result; `None` if unsupported."""
    scaled, found = _scaled_sums(reader), _weights_of(contraction)
    if scaled is None or found is None:
        return None
    position, weights = found
    bytes_, factor = contraction.lhs, contraction.rhs
    if not position:
        bytes_, factor = factor, bytes_
    loops = _loops_by_role(contraction, factor.indices, reader, scaled.number)
    if loops is None:
        return None
    result = reader.operands[len(reader.operands) - 1]
    lhs_steps = strides_by_loop(bytes_.indices, bytes_.value)
    result_steps = strides_by_loop(indexing_maps(reader)[-1].results, result)
    if lhs_steps is None or result_steps is None:
        return None
    block, row, column, inner = (lhs_steps.get(i, 0) for i in loops.contraction)
    row_step, column_step = (result_steps.get(i, 0) for i in loops.reader[1:])
    dimensions = dimensions_by_loop(factor.indices, weights.shape) or {}
    order = [dimensions[loops.contraction[i]] for i in (0, 3, 2)]
    weights = weights.transpose(order)
    scales = _scales_of(scaled, weights, [loops.reader[0], loops.reader[2]])
    if (column, inner, column_step) != (0, 1, 1) or scales is None:
        return None
    if not can_be_delayed(contraction.op, reader, result, []):
        return None
    rows = Axis(contraction.size(loops.contraction[1]), [row, 4 * row_step])
    product = BlockProduct(rows, block, weights.astype(np.int8), scales)
    return product, [bytes_.value, result]


def _scales_of(
    scaled: _ScaledSums, weights: Array, loops: Sequence[int]
) -> NDArray[np.float32] | None:
    """
    Return the scales `[blocks, columns]`; `None` if a function for products does not
    support them, or the sums, to which 128 times the weights must be added.

    Args:
        scaled: the op that scales the sums.
        weights: weights `[blocks, size, columns]`.
        loops: the op's loops over blocks and columns.
    """
    blocks, size, width = weights.shape
    added: Array | None = np.zeros((1, 1))
    if scaled.added is not None:
        added = scaled.numbers(scaled.added, loops)
    scales = scaled.numbers(scaled.scale, loops)
    if size % GROUP_SIZE or added is None or scales is None:
        return None
    scales = np.broadcast_to(scales, (blocks, width)).astype(np.float32)
    is_divisible = scales / np.float32(16) * np.float32(16) == scales
    is_unsigned = added == 128 * weights.sum(axis=1)
    return scales if is_divisible.all() and is_unsigned.all() else None


class _Loops(NamedTuple):
    """Corresponding loops of the two ops."""

    contraction: Sequence[int]
    """Loops over blocks, rows, columns, and the weights of a block."""

    reader: Sequence[int]
    """Loops over blocks, rows and columns."""


def _loops_by_role(
    contraction: Contraction,
    weights: Sequence[ir.AffineExpr],
    reader: ir.Operation,
    position: int,
) -> _Loops | None:
    """
    Return the loops of a product; `None` if they have other roles.

    Args:
        contraction: the contraction.
        weights: indices of its weights.
        reader: the op that scales its sums.
        position: number of the operand with the sums.
    """
    maps = indexing_maps(reader)
    sums = dimensions_by_loop(maps[position].results, contraction.shape)
    if sums is None or len(sums) != 3 or maps[-1].n_dims != 3:
        return None
    own_loops = {loop: contraction.result[d] for loop, d in sums.items()}
    kinds = iterator_types_of(reader)
    used = {index.position for index in weights if isinstance(index, ir.AffineDimExpr)}
    inner = used - {*contraction.result}
    blocks = [i for i in own_loops if "reduction" in kinds[i]]
    others = [i for i in own_loops if i not in blocks]
    columns = [i for i in others if own_loops[i] in used]
    rows = [i for i in others if i not in columns]
    # The third loop of the weights runs over blocks.
    if len(used) != 3 or not (
        len(inner) == len(blocks) == len(columns) == len(rows) == 1
    ):
        return None
    order = [*blocks, *rows, *columns]
    return _Loops([*(own_loops[i] for i in order), *inner], order)
