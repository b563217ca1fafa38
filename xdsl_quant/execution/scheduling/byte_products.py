"""
Products of 8-bit integers with constants, by the instructions of AVX-512 VNNI.

`vpdpbusd` multiplies 64 unsigned bytes by 64 signed ones and adds the products, four by
four, to 16 sums of 32 bits. Here four consecutive bytes of the left factor meet those of 16
columns of the right one, which is packed so that they are beside each other. Windows that
move over an image are products, too: the left factor is read where it is.

The left factor is not negative: signed bytes are read with 128 added, which is one bit
flipped. What that and the zero point make too much of a column is a constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..building import is_dynamic
from ..mlir_bindings import func, ir, made_by, ops_in
from .contractions import Contraction, Factor, contraction_of
from .vnni_code import Loop, Product, merged, product_text

_MARK = "xdsl_quant.bytes"


def keep_byte_products(module: Any) -> None:
    """
    Keep products on tensors as they are, so that `call_byte_products` finds them: mark them
    and have what they multiply in memory.
    """
    for op in ops_in(module, "linalg.generic"):
        contraction = contraction_of(op)
        if contraction is None or _product(contraction) is None:
            continue
        op.attributes[_MARK] = ir.UnitAttr.get(module.context)
        for factor in (contraction.lhs, contraction.rhs):
            if factor.is_computed:
                _keep_in_memory(op, factor)


def is_kept(op: Any) -> bool:
    """Whether `keep_byte_products` has marked an op."""
    return _MARK in op.attributes


def _keep_in_memory(op: Any, factor: Factor) -> None:
    index = [*op.operands].index(factor.value)
    with ir.InsertionPoint(op), op.location:
        kept = factor.in_memory()
    op.operands[index] = kept.value
    maps = [*op.attributes["indexing_maps"]]
    loops = maps[index].value.n_dims
    maps[index] = ir.AffineMapAttr.get(ir.AffineMap.get(loops, 0, [*kept.indices]))
    op.attributes["indexing_maps"] = ir.ArrayAttr.get(maps)


def call_byte_products(module: Any) -> None:
    """Replace the products on memrefs by calls of functions that compute them."""
    taken = {op.attributes["sym_name"].value for op in module.body.operations}
    names = (name for i in count() if (name := f"byte_product_{i}") not in taken)
    for op in filter(is_kept, ops_in(module, "linalg.generic")):
        contraction = contraction_of(op)
        found = _product(contraction) if contraction is not None else None
        if found is None:
            continue
        lhs, product = found
        result, name = op.operands[2], next(names)
        with op.location:
            text = product_text(name, _place(lhs.value), _place(result), product)
            for part in ir.Module.parse(text).body.operations:
                module.body.append(part.detach_from_parent())
            with ir.InsertionPoint(op):
                func.call([], name, [lhs.value, result])
        op.erase()


def _place(memref: Any) -> tuple[str, int]:
    """The text of the type of a memref, and its offset."""
    _, offset = memref.type.get_strides_and_offset()
    return str(memref.type), offset


def _constant(value: Any) -> NDArray[np.int8] | None:
    """The elements of a constant of 8-bit integers."""
    if op := made_by(value, "arith.constant"):
        attribute = op.attributes["value"]
    elif op := made_by(value, "memref.get_global"):
        name = op.attributes["name"].value
        symbols = ir.SymbolTable(_module_of(op))
        attribute = symbols[name].attributes["initial_value"]
    else:
        return None
    if not isinstance(attribute, ir.DenseElementsAttr):
        return None
    if attribute.is_splat:
        splat = ir.IntegerAttr(attribute.get_splat_value()).value
        return np.full(attribute.type.shape, splat).astype(np.int8)
    return np.array(attribute).view(np.int8)


def _module_of(op: Any) -> Any:
    while op.name != "builtin.module":
        op = op.parent
    return op


def _product(contraction: Contraction) -> tuple[Factor, Product] | None:
    """The factor that is not constant, and the product, if it is one that is done here."""
    i8, i32 = (ir.IntegerType.get_signless(width) for width in (8, 32))
    factors = contraction.lhs, contraction.rhs
    if contraction.total.results[0].type != i32 or any(
        factor.element_type != i8 or factor.conversion is None for factor in factors
    ):
        return None
    for lhs, rhs in (factors, factors[::-1]):
        if (weights := _constant(rhs.value)) is not None:
            product = _with_constant(contraction, lhs, rhs, weights)
            return None if product is None else (lhs, product)
    return None


def _with_constant(
    contraction: Contraction, lhs: Factor, rhs: Factor, weights: NDArray[np.int8]
) -> Product | None:
    """The product with a constant, if it is one that is done here."""
    result = contraction.op.operands[2]
    lhs_steps = _steps(lhs.indices, lhs.value.type)
    result_steps = _steps(map(ir.AffineExpr.get_dim, contraction.result), result.type)
    dimensions = _dimensions(rhs.indices, weights.shape)
    if None in (lhs_steps, result_steps, dimensions):
        return None
    assert lhs_steps is not None
    assert result_steps is not None
    assert dimensions is not None
    sizes = dict(zip(contraction.result, result.type.shape, strict=True))
    reductions = [i for i in range(contraction.count) if i not in sizes]
    columns = [i for i in sizes if i in dimensions and sizes[i] > 1]
    if len(columns) != 1 or not {*reductions} <= dimensions.keys():
        return None
    if 0 in (*weights.shape, *sizes.values()):
        return None
    (column,) = columns
    if lhs_steps.get(column) or result_steps[column] != 1:
        return None
    reductions.sort(key=lambda loop: -lhs_steps.get(loop, 0))
    sums = merged(
        [
            Loop(weights.shape[dimensions[loop]], lhs_steps.get(loop, 0), 0)
            for loop in reductions
        ]
    )
    numbers = weights.view(np.uint8) if rhs.is_unsigned else weights
    order = [dimensions[loop] for loop in (*reductions, column)]
    others = [i for i in range(weights.ndim) if i not in order]
    matrix = numbers.transpose(*others, *order).reshape(-1, sizes[column])
    matrix = matrix.astype(np.int64) - rhs.zero_point
    if sums[-1].lhs != 1 or matrix.min() < -128 or matrix.max() > 127:
        return None
    rows = [
        Loop(size, lhs_steps.get(loop, 0), result_steps[loop])
        for loop, size in sizes.items()
        if loop != column
    ]
    return Product(
        merged(rows), sums, matrix.astype(np.int8), not lhs.is_unsigned, lhs.zero_point
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


def _steps(indices: Iterable[Any], type_: Any) -> dict[int, int] | None:
    """
    For each loop the distance in memory of what two iterations need; `None` if that is not
    constant. Tensors will be contiguous.
    """
    if any(map(is_dynamic, type_.shape)):
        return None
    if isinstance(type_, ir.MemRefType):
        strides, offset = type_.get_strides_and_offset()
        if any(is_dynamic(number) for number in (*strides, offset)):
            return None
    else:
        sizes = [*type_.shape]
        strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    steps: dict[int, int] = {}
    for index, stride in zip(indices, strides, strict=True):
        if (terms := _linear(index)) is None:
            return None
        for loop, factor in terms:
            steps[loop] = steps.get(loop, 0) + factor * stride
    return steps


def _linear(index: Any) -> list[tuple[int, int]] | None:
    """
    The loops that an expression adds up, with their factors; `None` if it is another
    expression.
    """
    match index:
        case ir.AffineDimExpr():
            return [(index.position, 1)]
        case ir.AffineConstantExpr() if not index.value:
            return []
        case ir.AffineAddExpr():
            terms = _linear(index.lhs), _linear(index.rhs)
            return None if None in terms else [*(terms[0] or ()), *(terms[1] or ())]
        case ir.AffineMulExpr() if isinstance(index.rhs, ir.AffineConstantExpr):
            terms = _linear(index.lhs)
            factor = index.rhs.value
            return terms and [(loop, n * factor) for loop, n in terms]
        case _:
            return None
