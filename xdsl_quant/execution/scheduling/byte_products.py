"""
Products of 8-bit integers with constants, by the instructions of AVX-512 VNNI or AVX-VNNI.

`vpdpbusd` multiplies 64 unsigned bytes by 64 signed ones and adds the products, four by
four, to 16 sums of 32 bits. Here four consecutive bytes of the left factor meet those of 16
columns of the right one, which is packed so that they are beside each other. Windows that
move over an image are products, too: the left factor is read where it is.

The left factor is not negative: signed bytes are read with 128 added, which is one bit
flipped. What that and the zero point make too much of a column is a constant.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..mlir_bindings import func, functions_in, ir, made_by, ops_in
from ..thread_calls import ThreadCalls
from .contractions import Contraction, Factor, contraction_of
from .epilogues import Epilogue, epilogue_of
from .memrefs import constant_of, steps_of
from .vector_code import LANES, Loop, Memref, merged
from .vnni_code import ChannelProduct, Product, Weighted, product_text

_MARK = "xdsl_quant.bytes"

_LARGE = 1 << 25
"""So many products take longer than it takes to let another thread compute some of them."""


def keep_byte_products(module: Any) -> None:
    """
    Keep products on tensors as they are, so that `call_byte_products` finds them: mark them
    and have what they multiply in memory. What is made of their sums element by element is
    kept out of other loops.
    """
    generic = ops_in(module, "linalg.generic")
    for op in generic:
        contraction = contraction_of(op)
        if contraction is None or _product(contraction) is None:
            continue
        op.attributes[_MARK] = ir.UnitAttr.get(module.context)
        for factor in (contraction.lhs, contraction.rhs):
            if factor.is_computed:
                _keep_in_memory(op, [*op.operands].index(factor.value))
    for op in generic:
        if not is_kept(op) and not _is_elementwise(op):
            inputs = op.attributes["operandSegmentSizes"][0]
            for i, value in enumerate([*op.operands][:inputs]):
                if _is_made_of_sums(value):
                    _keep_in_memory(op, i)


def _is_elementwise(op: Any) -> bool:
    return all("parallel" in str(kind) for kind in op.attributes["iterator_types"])


def _is_made_of_sums(value: Any) -> bool:
    """Whether an elementwise op makes a tensor of the sums of a product."""
    op = made_by(value, "linalg.generic")
    if not op or not _is_elementwise(op):
        return False
    return any(
        (made := made_by(operand, "linalg.generic"))
        and (is_kept(made) or _is_made_of_sums(operand))
        for operand in op.operands
    )


def is_kept(op: Any) -> bool:
    """Whether `keep_byte_products` has marked an op."""
    return _MARK in op.attributes


def _keep_in_memory(op: Any, operand: int) -> None:
    """Have an operand in memory before the loops of an op."""
    maps = [*op.attributes["indexing_maps"]]
    indices = maps[operand].value.results
    with ir.InsertionPoint(op), op.location:
        kept = Factor(op.operands[operand], indices, None).in_memory()
    op.operands[operand] = kept.value
    loops = maps[operand].value.n_dims
    maps[operand] = ir.AffineMapAttr.get(ir.AffineMap.get(loops, 0, [*kept.indices]))
    op.attributes["indexing_maps"] = ir.ArrayAttr.get(maps)


def call_byte_products(module: Any, bits: int, threads: int) -> ThreadCalls:
    """
    Replace the products on memrefs, and what only makes something of each of their sums, by
    calls of functions that compute them.

    Args:
        module: where they are.
        bits: those of a register.
        threads: so many threads compute large products.

    Returns:
        the calls by several threads.
    """
    calls = ThreadCalls()
    taken = {op.attributes["sym_name"].value for op in module.body.operations}
    names = (name for i in count() if (name := f"byte_product_{i}") not in taken)
    for op in [*filter(is_kept, ops_in(module, "linalg.generic"))]:
        contraction = contraction_of(op)
        found = _product(contraction) if contraction is not None else None
        if contraction is None or found is None:
            continue
        product, values = found.product, [found.lhs.value, op.operands[2]]
        epilogue = epilogue_of(op, found.column)
        if epilogue is not None:
            types = [memref.type.element_type for memref in epilogue.memrefs]
            results = [*zip(epilogue.steps, types, strict=True)]
            product = replace(product, rows=found.rows(contraction, results))
            values = [found.lhs.value, *epilogue.memrefs]
        if isinstance(product, ChannelProduct):
            sizes = [value.type.element_type.width // 8 for value in values]
            product, epilogue = _with_pixels(product, epilogue, sizes)
        last = epilogue.op if epilogue else op
        ops = [op, *(ops_in(epilogue.op) if epilogue else ())]
        parts = _parts(product, [*map(_memref, values)], threads)
        functions = {name: part for part, name in zip(parts, names, strict=False)}
        with ir.Location.fused([each.location for each in ops]):
            for name, part in functions.items():
                _add_text(module, product_text(name, *part, epilogue, bits))
            if len(functions) > 1:
                types = [value.type for value in values]
                parts = functions_in(module, functions)
                calls.add(module, name := next(names), types, parts)
            with ir.InsertionPoint(last):
                func.call([], name, values)
        op.erase()
        if epilogue is not None:
            epilogue.erase()
    return calls


def _add_text(module: Any, text: str) -> None:
    for op in ir.Module.parse(text).body.operations:
        module.body.append(op.detach_from_parent())


def _parts(
    product: Weighted, memrefs: Sequence[Memref], threads: int
) -> Sequence[tuple[Sequence[Memref], Weighted]]:
    """A product as several ones of some rows each, if it is large."""
    first, *inner = product.rows
    size = math.prod(loop.size for loop in product.rows) * product.weights.size
    count = min(threads, first.size) if size >= _LARGE else 1
    ends = [first.size * i // count for i in range(count + 1)]
    return [
        (
            [
                memref._replace(offset=memref.offset + start * step)
                for memref, step in zip(memrefs, first.steps, strict=True)
            ],
            replace(product, rows=[Loop(end - start, first.steps), *inner]),
        )
        for start, end in pairwise(ends)
    ]


def _with_pixels(
    product: ChannelProduct, epilogue: Epilogue | None, sizes: Sequence[int]
) -> tuple[ChannelProduct, Epilogue | None]:
    """
    The same with several pixels as columns, if they are beside each other and have few
    channels. `sizes` are the bytes of elements of the memrefs.
    """
    width, row = product.weights.shape[1], product.rows[-1]
    count, rest = divmod(LANES, width)
    is_contiguous = [*row.steps] == [width * size for size in sizes]
    if count < 2 or rest or row.size % count or not is_contiguous:
        return product, epilogue
    pixels = Loop(row.size // count, [count * step for step in row.steps])
    product = replace(
        product,
        rows=[*product.rows[:-1], pixels],
        weights=np.tile(product.weights, count),
    )
    return product, epilogue and epilogue.repeated(count)


def _memref(value: Any) -> Memref:
    """What a function needs to know of a memref."""
    _, offset = value.type.get_strides_and_offset()
    element = value.type.element_type
    return Memref(str(value.type), str(element), offset * element.width // 8)


class _Found(NamedTuple):
    """A contraction as a product of bytes with a constant."""

    lhs: Factor
    """The bytes."""

    product: Product | ChannelProduct

    column: int
    """The dimension of the sums with columns."""

    def rows(
        self, contraction: Contraction, results: Sequence[tuple[Mapping[int, int], Any]]
    ) -> Sequence[Loop]:
        """
        The loops over rows.

        Args:
            contraction: the contraction.
            results: of the bytes that are read and written beside the factors: for each
                dimension of the sums the distance of neighbours, and the element type.
        """
        lhs_steps = steps_of(self.lhs.indices, self.lhs.value.type) or {}
        sizes = contraction.op.operands[2].type.shape
        loops = [
            Loop(
                size,
                [
                    lhs_steps.get(contraction.result[dimension], 0),
                    *(
                        steps.get(dimension, 0) * element.width // 8
                        for steps, element in results
                    ),
                ],
            )
            for dimension, size in enumerate(sizes)
            if dimension != self.column
        ]
        return merged(loops, 1 + len(results))


def _product(contraction: Contraction) -> _Found | None:
    """A contraction as a product, if it is one that is done here."""
    i8, i32 = (ir.IntegerType.get_signless(width) for width in (8, 32))
    factors = contraction.lhs, contraction.rhs
    if contraction.total.results[0].type != i32 or any(
        factor.element_type != i8 or factor.conversion is None for factor in factors
    ):
        return None
    for lhs, rhs in (factors, factors[::-1]):
        if (weights := constant_of(rhs.value)) is not None:
            return _with_constant(contraction, lhs, rhs, weights)
    return None


def _with_constant(
    contraction: Contraction, lhs: Factor, rhs: Factor, weights: NDArray[np.int64]
) -> _Found | None:
    """The product with a constant, if it is one that is done here."""
    result = contraction.op.operands[2]
    lhs_steps = steps_of(lhs.indices, lhs.value.type)
    identity = ir.AffineMap.get_identity(result.type.rank)
    result_steps = steps_of(identity.results, result.type)
    dimensions = _dimensions(rhs.indices, weights.shape)
    if lhs_steps is None or result_steps is None or dimensions is None:
        return None
    sizes = dict(zip(contraction.result, result.type.shape, strict=True))
    reductions = [i for i in range(contraction.count) if i not in sizes]
    columns = [i for i in sizes if i in dimensions and sizes[i] > 1]
    if len(columns) != 1 or not {*reductions} <= dimensions.keys():
        return None
    if 0 in (*weights.shape, *sizes.values()):
        return None
    (column,) = columns
    dimension = contraction.result.index(column)
    if lhs_steps.get(column, 0) not in (0, 1) or result_steps[dimension] != 1:
        return None
    reductions.sort(key=lambda loop: -lhs_steps.get(loop, 0))
    loops = [
        Loop(weights.shape[dimensions[loop]], [lhs_steps.get(loop, 0)])
        for loop in reductions
    ]
    numbers = weights & 0xFF if rhs.is_unsigned else weights
    order = [dimensions[loop] for loop in (*reductions, column)]
    others = [i for i in range(weights.ndim) if i not in order]
    matrix = numbers.transpose(*others, *order).reshape(-1, sizes[column])
    matrix = matrix - rhs.zero_point
    if matrix.min() < -128 or matrix.max() > 127:
        return None
    signs = not lhs.is_unsigned, lhs.zero_point
    stored = matrix.astype(np.int8)
    if lhs_steps.get(column):
        product = _of_channels(ChannelProduct([], stored, *signs, []), loops)
    else:
        product = Product([], stored, *signs, merged(loops, 1))
        product = product if product.reductions[-1].steps == [1] else None
    if product is None:
        return None
    found = _Found(lhs, product, dimension)
    rows = found.rows(contraction, [(result_steps, result.type.element_type)])
    return found._replace(product=replace(product, rows=rows))


_MOST_GROUPS = 32
"""More groups of products make more code than a window is worth."""


def _of_channels(
    product: ChannelProduct, loops: Sequence[Loop]
) -> ChannelProduct | None:
    """A product with bytes in groups that neighbouring rows of the result share."""
    loops = [loop for loop in loops if loop.size > 1] or [Loop(1, [0])]
    offsets: NDArray[np.int64] = np.zeros((), np.int64)
    for size, (step,) in loops:
        offsets = np.add.outer(offsets, step * np.arange(size))
    taps = np.arange(offsets.size).reshape([loop.size for loop in loops])
    # Windows overlap along the last loop.
    lines = taps.T.reshape(loops[-1].size if len(loops) > 1 else 1, -1)
    groups = [
        line[start : start + 4] for line in lines for start in range(0, line.size, 4)
    ]
    if len(groups) > _MOST_GROUPS:
        return None
    return replace(
        product,
        weights=product.weights[np.concatenate(groups)],
        groups=[offsets.ravel()[group].tolist() for group in groups],
    )


def _dimensions(indices: Sequence[Any], shape: Sequence[int]) -> dict[int, int] | None:
    """For each loop the dimension that it is the index of; `None` if others are larger."""
    positions = {
        index.position: dimension
        for dimension, index in enumerate(indices)
        if isinstance(index, ir.AffineDimExpr)
    }
    others = {*range(len(shape))} - {*positions.values()}
    return positions if all(shape[dimension] == 1 for dimension in others) else None
