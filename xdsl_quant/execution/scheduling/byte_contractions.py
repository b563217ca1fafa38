"""Contractions of 8-bit integers that VNNI or AMX can compute, and their loops."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import mlir_bindings as mlir
from ..mlir_bindings import FieldValue, ir
from .contractions import Contraction, Factor
from .memrefs import constant_of, dimensions_by_loop, strides_by_loop
from .packing import Packing, Transposition
from .vector_code import LANES, Axis, coalesce_loops
from .vnni_code import ChannelProduct, Product, RuntimeMatrix

_MAX_GROUPS = 32
"""Maximum number of groups of up to four window elements; it limits the code size."""

_MIN_ROWS = 2
"""Minimum number of rows that pays for packing a matrix at run time."""


class BytesOperand(NamedTuple):
    """Memref operand of a product."""

    value: FieldValue

    steps: Mapping[int, int]
    """Maps dimensions of the sums to byte strides of this memref."""


@dataclass(frozen=True)
class ByteContraction:
    """Contraction that is computed as a product of bytes."""

    source: Contraction

    lhs: Factor
    rhs: Factor

    product: Product | ChannelProduct
    """Product whose loops over rows are not set: see `with_loops`."""

    column: int
    """Dimension of the sums that holds the columns."""

    lhs_steps: Mapping[int, int]
    """Maps loops to byte strides of the left factor, after any transposition."""

    transposition: Transposition | None = None
    """Transposition of the left factor at run time."""

    packing: Packing | None = None
    """Packing of the right factor at run time, without batch loops."""

    @cached_property
    def batches(self) -> Sequence[int]:
        """Batch dimensions of the sums: each of their indices has its own right matrix."""
        if self.packing is None:
            return []
        return [d for d in self._others if self.matrix.steps[d]]

    @cached_property
    def rows(self) -> Sequence[int]:
        """Dimensions of the sums that are neither batches nor columns."""
        return [d for d in self._others if d not in self.batches]

    @property
    def _others(self) -> Sequence[int]:
        return [d for d in range(len(self.source.shape)) if d != self.column]

    @property
    def bytes(self) -> BytesOperand:
        """Memref and strides of the left factor."""
        return BytesOperand(self.lhs.value, self._by_dimension(self.lhs_steps))

    @cached_property
    def matrix(self) -> BytesOperand:
        """Memref and strides of the right factor."""
        steps = strides_by_loop(self.rhs.indices, self.rhs.value) or {}
        return BytesOperand(self.rhs.value, self._by_dimension(steps))

    def _by_dimension(self, steps: Mapping[int, int]) -> Mapping[int, int]:
        return {d: steps.get(i, 0) for d, i in enumerate(self.source.result)}

    def loops(
        self, dimensions: Sequence[int], operands: Sequence[BytesOperand]
    ) -> list[Axis]:
        """Return the loops over dimensions of the sums, with strides per operand."""
        loops = [
            Axis(
                self.source.shape[d],
                [operand.steps.get(d, 0) for operand in operands],
            )
            for d in dimensions
        ]
        return coalesce_loops(loops, len(operands))

    def with_loops(self, operands: Sequence[BytesOperand]) -> Product | ChannelProduct:
        """Return the product with loops over the batches and rows of `operands`."""
        batches = self.loops(self.batches, operands) if self.batches else []
        rows = self.loops(self.rows, operands)
        return replace(self.product, rows=rows, batches=batches)


def byte_contraction_of(contraction: Contraction | None) -> ByteContraction | None:
    """Return a contraction as a product of bytes, or `None` if it is unsupported."""
    if contraction is None:
        return None
    factors = contraction.lhs, contraction.rhs
    i32 = ir.IntegerType.get_signless(32)
    if contraction.total.results[0].type != i32 or not any(map(_has_bytes, factors)):
        return None
    orders = (factors, factors[::-1])
    for lhs, rhs in orders:
        if not _has_bytes(lhs) or (weights := constant_of(rhs.value)) is None:
            continue
        # Zero-point-corrected constants may need more than 8 bits.
        if not _has_bytes(rhs) and (rhs.is_unsigned or np.ptp(weights) > 255):
            continue
        if result := _with_constant(contraction, lhs, rhs, weights):
            return result
    if not all(map(_has_bytes, factors)):
        return None
    result = (_with_runtime_matrix(contraction, lhs, rhs) for lhs, rhs in orders)
    return next(filter(None, result), None)


def _has_bytes(factor: Factor) -> bool:
    is_byte = factor.element_type == ir.IntegerType.get_signless(8)
    return is_byte and factor.conversion is not None


def _with_constant(
    contraction: Contraction, lhs: Factor, rhs: Factor, weights: NDArray[np.int64]
) -> ByteContraction | None:
    """Return the product with a constant matrix, or `None` if it is unsupported."""
    lhs, repeats = _without_quotient(lhs)
    lhs_steps = strides_by_loop(lhs.indices, lhs.value)
    dimensions = dimensions_by_loop(rhs.indices, weights.shape)
    sizes = dict(zip(contraction.result, contraction.shape, strict=True))
    reductions = [i for i in range(contraction.loop_count) if i not in sizes]
    if lhs_steps is None or dimensions is None or not {*reductions} <= {*dimensions}:
        return None
    columns = [i for i in sizes if i in dimensions and sizes[i] > 1]
    if len(columns) != 1 or 0 in (*weights.shape, *sizes.values()):
        return None
    (column,) = columns
    dimension, column_step = contraction.result.index(column), lhs_steps.get(column, 0)
    if column_step not in (0, 1) or not _is_contiguous_in(contraction, dimension):
        return None
    if repeats > 1 and (
        lhs.indices[-1] != ir.AffineExpr.get_dim(column)
        or LANES % repeats
        or sizes[column] % repeats
    ):
        return None
    sizes |= {loop: weights.shape[dimensions[loop]] for loop in reductions}
    transposition = None
    if not column_step:
        transposition, lhs_steps = _row_major(contraction, lhs, lhs_steps, sizes)
    reductions.sort(key=lambda loop: -lhs_steps.get(loop, 0))
    loops = [Axis(sizes[loop], [lhs_steps.get(loop, 0)]) for loop in reductions]
    order = [dimensions[loop] for loop in (*reductions, column)]
    matrix = _matrix_of(weights, rhs, order)
    product = (
        _product_of_channels(lhs, matrix, loops, repeats)
        if column_step
        else _product_of_rows(lhs, matrix, loops)
    )
    return product and ByteContraction(
        contraction, lhs, rhs, product, dimension, lhs_steps, transposition
    )


def _is_contiguous_in(contraction: Contraction, dimension: int) -> bool:
    """Return True if the sums are contiguous along a dimension."""
    identity = ir.AffineMap.get_identity(len(contraction.result))
    steps = strides_by_loop(identity.results, contraction.op.operands[2])
    return steps is not None and steps[dimension] == 1


def _matrix_of(
    weights: NDArray[np.int64], rhs: Factor, order: Sequence[int]
) -> NDArray[np.int64]:
    """Return the zero-point-corrected weights as a matrix with columns last."""
    numbers = weights & 0xFF if rhs.is_unsigned else weights
    others = [i for i in range(weights.ndim) if i not in order]
    width = weights.shape[order[-1]]
    return numbers.transpose(*others, *order).reshape(-1, width) - rhs.zero_point


def _product_of_rows(
    lhs: Factor, matrix: NDArray[np.int64], loops: Sequence[Axis]
) -> Product | None:
    """Return the product if the bytes of a row are contiguous; otherwise `None`."""
    zero_point = 0
    if matrix.min() < -128 or matrix.max() > 127:
        zero_point = -128 - int(matrix.min())
    stored = (matrix + zero_point).astype(np.int8)
    signs, reductions = (not lhs.is_unsigned, lhs.zero_point), coalesce_loops(loops, 1)
    product = Product([], stored, *signs, reductions, weights_zero_point=zero_point)
    return product if reductions[-1].steps == [1] else None


def _product_of_channels(
    lhs: Factor, matrix: NDArray[np.int64], loops: Sequence[Axis], repeats: int
) -> ChannelProduct | None:
    """
    Return the depthwise product, or `None` for too many groups. A group has up to four
    window elements; adjacent result rows share them. Weights outside i8 are split into
    several i8 terms.
    """
    loops = [loop for loop in loops if loop.size > 1] or [Axis(1, [0])]
    offsets: NDArray[np.int64] = np.zeros((), np.int64)
    for size, (step,) in loops:
        offsets = np.add.outer(offsets, step * np.arange(size))
    taps = np.arange(offsets.size).reshape([loop.size for loop in loops])
    # A group has one index of the last loop, along which windows overlap.
    lines = taps.T.reshape(loops[-1].size if len(loops) > 1 else 1, -1)
    groups = [
        line[start : start + 4] for line in lines for start in range(0, line.size, 4)
    ]
    parts: list[NDArray[np.int8]] = []
    rest = matrix[np.concatenate(groups)]
    while not parts or rest.any():
        if len(groups) * (len(parts) + 1) > _MAX_GROUPS:
            return None
        parts.append(rest.clip(-128, 127).astype(np.int8))
        rest = rest - parts[-1]
    distances = [offsets.ravel()[group].tolist() for group in groups] * len(parts)
    signs = not lhs.is_unsigned, lhs.zero_point
    return ChannelProduct([], np.concatenate(parts), *signs, distances, repeats)


def _with_runtime_matrix(
    contraction: Contraction, lhs: Factor, rhs: Factor
) -> ByteContraction | None:
    """Return the product with a matrix packed at run time; `None` if unsupported."""
    sizes, result = contraction.sizes, contraction.result
    reductions = [i for i in range(contraction.loop_count) if i not in result]
    lhs_steps, rhs_steps = (
        strides_by_loop(factor.indices, factor.value) for factor in (lhs, rhs)
    )
    if lhs_steps is None or rhs_steps is None or 0 in sizes.values():
        return None
    if dimensions_by_loop(rhs.indices, mlir.shape(rhs.value)) is None:
        return None
    columns = [
        d
        for d, loop in enumerate(result)
        if sizes[loop] > 1 and _is_contiguous_in(contraction, d)
    ]
    if len(columns) != 1:
        return None
    if not {*reductions} <= sizes.keys() & lhs_steps.keys() & rhs_steps.keys():
        return None
    (column,) = columns
    loop = result[column]
    transposition, lhs_steps = _row_major(contraction, lhs, lhs_steps, sizes)
    reductions.sort(key=lambda i: -lhs_steps[i])
    loops = coalesce_loops(
        [Axis(sizes[i], [lhs_steps[i], rhs_steps[i]]) for i in reductions], 2
    )
    run, column_step = loops[-1], rhs_steps.get(loop, 0)
    if lhs_steps.get(loop) or run.steps[0] != 1 or 1 not in (column_step, run.steps[1]):
        return None
    product, packing = _packed_product(lhs, rhs, loops, sizes[loop], column_step)
    byte_contraction = ByteContraction(
        contraction, lhs, rhs, product, column, lhs_steps, transposition, packing
    )
    rows = math.prod(contraction.shape[d] for d in byte_contraction.rows)
    return byte_contraction if column_step and rows >= _MIN_ROWS else None


def _packed_product(
    lhs: Factor, rhs: Factor, loops: Sequence[Axis], width: int, column_step: int
) -> tuple[Product, Packing]:
    """Return a product with a matrix that is packed at run time, and the packing."""
    depth = math.prod(loop.size for loop in loops)
    low = -128 * (not rhs.is_unsigned) - rhs.zero_point
    product = Product(
        [],
        RuntimeMatrix((depth, width), max(abs(low), abs(low + 255))),
        not lhs.is_unsigned,
        lhs.zero_point,
        loops,
        weights_zero_point=rhs.zero_point - 128 * rhs.is_unsigned,
    )
    packing = Packing([], loops, width, column_step, rhs.is_unsigned, product.offset, 0)
    return product, packing


def _row_major(
    contraction: Contraction,
    factor: Factor,
    steps: Mapping[int, int],
    sizes: Mapping[int, int],
) -> tuple[Transposition | None, Mapping[int, int]]:
    """
    Return the transposition that makes a reduced dimension of a factor contiguous
    (`None` if unneeded or unsupported), and the resulting byte strides by loop.
    """
    summed = [i for i in sizes if i not in contraction.result and sizes[i] > 1]
    if not summed or 1 in (steps.get(i) for i in summed):
        return None, steps
    if dimensions_by_loop(factor.indices, mlir.shape(factor.value)) is None:
        return None, steps
    loops = sorted((i for i in steps if sizes[i] > 1), key=lambda i: -steps[i])
    rows = [i for i in loops if steps[i] == 1]
    columns = [i for i in loops if i not in contraction.result]
    if len(rows) != 1 or not columns:
        return None, steps
    row, column = rows[0], columns[-1]
    others = [i for i in loops if i not in (row, column)]
    size = -(-sizes[column] // 64) * 64
    strides = {column: 1, row: size}
    size *= sizes[row]
    for i in reversed(others):
        strides[i] = size
        size *= sizes[i]
    axes = {i: Axis(sizes[i], [steps[i], strides[i]]) for i in loops}
    batches = [axes[i] for i in others]
    transposition = Transposition(batches, axes[row], axes[column], size)
    return transposition, {i: strides.get(i, 0) for i in steps}


def _without_quotient(lhs: Factor) -> tuple[Factor, int]:
    """
    Replace a quotient in the last index of a factor by its dividend. Return the factor
    and the divisor, or 1 without a quotient. Quotients come from `merge_channels`.
    """
    *indices, last = lhs.indices or [None]
    if isinstance(last, ir.AffineFloorDivExpr):
        assert isinstance(last.rhs, ir.AffineConstantExpr)
        return lhs._replace(indices=[*indices, last.lhs]), last.rhs.value
    return lhs, 1
