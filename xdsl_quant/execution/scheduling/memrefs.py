"""Memory layout, aliasing and constants of tensors and memrefs."""

import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.arrays import Array

from .. import mlir_bindings as mlir
from ..building import is_dynamic
from ..mlir_bindings import ir, memref


def is_distinct_buffer(memref: ir.Value) -> bool:
    """Return True for buffers that do not alias: allocations, globals, arguments."""
    if (block := mlir.argument_block(memref)) is not None:
        return block.owner.operation.name == "func.func"
    return bool(
        mlir.defining_op(memref, "memref.alloc", "memref.alloca", "memref.get_global")
    )


def constant_of(value: ir.Value) -> NDArray[np.int64] | None:
    """Return the sign-extended elements of an integer constant, or `None`."""
    if (attribute := _initial_value(value)) is None:
        return None
    tensor_type = mlir.shaped_type(attribute)
    type_ = tensor_type.element_type
    if not isinstance(type_, ir.IntegerType) or type_.width not in (8, 16, 32, 64):
        return None
    if attribute.is_splat:
        splat = ir.IntegerAttr(attribute.get_splat_value()).value
        return np.full(tensor_type.shape, splat, np.int64)
    numbers: NDArray[np.integer] = np.array(attribute)
    # NumPy may read signless integers as unsigned.
    unused = 64 - type_.width
    return numbers.astype(np.int64) << unused >> unused


def f32_constant_of(value: ir.Value) -> NDArray[np.float32] | None:
    """Return the elements of an `f32` constant, or `None`."""
    attribute = _initial_value(value)
    if attribute is None or mlir.element(value) != ir.F32Type.get():
        return None
    return np.array(attribute)


_symbols: ContextVar[ir.SymbolTable | None] = ContextVar("symbols", default=None)


@contextmanager
def shared_symbol_table(module: ir.Module) -> Generator[None]:
    """
    Look up constants in one table inside the `with` statement, which may add globals but
    not erase or change them: making a table takes linear time.
    """
    token = _symbols.set(ir.SymbolTable(module.operation))
    try:
        yield
    finally:
        _symbols.reset(token)


def _initial_value(value: ir.Value) -> ir.DenseElementsAttr | None:
    if op := mlir.defining_op(value, "arith.constant"):
        attribute = op.attributes["value"]
    elif op := mlir.defining_op(value, "memref.get_global"):
        name = mlir.symbol_of(op, "name")
        if (symbols := _symbols.get()) is None or name not in symbols:
            symbols = ir.SymbolTable(_top_op(op))
        attribute = symbols[name].attributes["initial_value"]
    else:
        return None
    return attribute if isinstance(attribute, ir.DenseElementsAttr) else None


def clone_global(
    symbols: ir.SymbolTable,
    name: str,
    suffix: str,
    numbers: Array,
    element_type: ir.Type | None = None,
) -> ir.Operation:
    """Clone a global with new elements and shape; by default the elements are i8."""
    constant, type_ = symbols[name], element_type or ir.IntegerType.get_signless(8)
    with ir.InsertionPoint(constant), constant.location:
        copy = constant.clone()
    copy.attributes["sym_name"] = ir.StringAttr.get(f"{name}_{suffix}")
    copy.attributes["type"] = ir.TypeAttr.get(ir.MemRefType.get(numbers.shape, type_))
    copy.attributes["initial_value"] = mlir.dense_attr(
        np.ascontiguousarray(numbers), ir.RankedTensorType.get(numbers.shape, type_)
    )
    # The symbol table makes the name unique.
    symbols.insert(copy)
    return copy


def read_global(constant: ir.Operation) -> ir.Value:
    return memref.get_global(mlir.type_of(constant), mlir.symbol_of(constant))


def _top_op(op: ir.Operation) -> ir.Operation:
    while (parent := op.parent) is not None:
        op = parent
    return op


def strides_by_loop(
    indices: Iterable[ir.AffineExpr], value: ir.Value
) -> dict[int, int] | None:
    """
    Map loops to the element strides of an access with affine indices; `None` if a
    stride is not constant. Tensors are assumed to be contiguous.
    """
    type_ = mlir.shaped_type(value)
    if any(map(is_dynamic, type_.shape)):
        return None
    if isinstance(type_, ir.MemRefType):
        strides, offset = type_.get_strides_and_offset()
        if any(is_dynamic(number) for number in (*strides, offset)):
            return None
    else:
        strides = [math.prod(type_.shape[i + 1 :]) for i in range(type_.rank)]
    steps: dict[int, int] = {}
    for index, stride in zip(indices, strides, strict=True):
        if (terms := _linear_terms(index)) is None:
            return None
        for loop, factor in terms:
            steps[loop] = steps.get(loop, 0) + factor * stride
    return steps


def dimensions_by_loop(
    indices: Sequence[ir.AffineExpr], shape: Sequence[int]
) -> dict[int, int] | None:
    """Map loops to the dimensions they index; `None` if another dimension exceeds 1."""
    positions = {
        index.position: dimension
        for dimension, index in enumerate(indices)
        if isinstance(index, ir.AffineDimExpr)
    }
    others = {*range(len(shape))} - {*positions.values()}
    return positions if all(shape[dimension] == 1 for dimension in others) else None


def _linear_terms(index: ir.AffineExpr) -> list[tuple[int, int]] | None:
    """Return the terms (loop, factor) of a linear expression, or `None`."""
    match index:
        case ir.AffineDimExpr():
            return [(index.position, 1)]
        case ir.AffineConstantExpr() if not index.value:
            return []
        case ir.AffineAddExpr():
            terms = _linear_terms(index.lhs), _linear_terms(index.rhs)
            return None if None in terms else [*(terms[0] or ()), *(terms[1] or ())]
        case ir.AffineMulExpr() if isinstance(index.rhs, ir.AffineConstantExpr):
            terms = _linear_terms(index.lhs)
            factor = index.rhs.value
            return terms and [(loop, n * factor) for loop, n in terms]
        case _:
            return None
