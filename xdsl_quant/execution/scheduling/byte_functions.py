"""
Functions of bytes as tables in vector registers.

An elementwise op on a single 8-bit operand is a function of 256 values, such as a
requantization or an activation. It is evaluated at compile time. AVX-512 VBMI selects 64
results from half of the table with one instruction.
"""

from math import prod

import numpy as np

from xdsl_quant.numerics.arrays import Array

from .. import mlir_bindings as mlir
from ..building import (
    has_identity_layout,
    index,
    indexing_maps,
    is_dynamic,
    iterator_types_of,
)
from ..mlir_bindings import arith, ir, llvm, scf, vector
from .byte_values import BYTES, values_in
from .collapsed_loops import flat_memref

_BYTES = 64
"""Bytes per vector."""

_MIN_OPS = 3
"""Minimum number of ops per element that takes longer than a lookup."""

_MAX_SIZE = 1 << 20
"""Maximum number of elements; larger results may be streamed instead."""


def look_up_byte_functions(module: ir.Module) -> None:
    """Replace elementwise functions of one byte on memrefs by table lookups."""
    for op in mlir.ops_in(module, "linalg.generic"):
        if _maps_bytes(op) and (table := _table_of(op)) is not None:
            with ir.InsertionPoint(op), op.location:
                _look_up(op.operands[0], op.operands[1], table)
            op.erase()


def _maps_bytes(op: ir.Operation) -> bool:
    """Return True for an elementwise op from a contiguous memref of bytes to another."""
    operands = [*op.operands]
    if len(operands) != 2 or any("parallel" not in k for k in iterator_types_of(op)):
        return False
    types = [operand.type for operand in operands]
    if not all(map(has_identity_layout, types)):
        return False
    shapes = [mlir.shape(operand) for operand in operands]
    maps = indexing_maps(op)
    identity = ir.AffineMap.get_identity(maps[0].n_dims)
    i8 = ir.IntegerType.get_signless(8)
    return (
        maps == [identity] * 2
        and shapes[0] == shapes[1] != []
        and not any(map(is_dynamic, shapes[0]))
        and _BYTES <= prod(shapes[0]) <= _MAX_SIZE
        and all(mlir.element(operand) == i8 for operand in operands)
        and len(mlir.operations_of(mlir.body_of(op))) > _MIN_OPS
    )


def _table_of(op: ir.Operation) -> Array | None:
    """Return the results for all bytes, or `None` if an op is unsupported."""
    block = mlir.body_of(op)
    values = values_in(block, {block.arguments[0]: BYTES})
    (result,) = mlir.yielded_values(block)
    return values.get(result) if values else None


# Building


def _look_up(source: ir.Value, target: ir.Value, table: Array) -> None:
    """Build loops that store the table entry of each byte."""
    size = prod(mlir.shape(source))
    source, target = flat_memref(source), flat_memref(target)
    rest = size % _BYTES
    loop = scf.ForOp(index(0), index(size - rest), index(_BYTES))
    block = mlir.body_of(loop)
    with ir.InsertionPoint(block):
        _copy_selected(source, target, block.arguments[0], _BYTES, table)
        scf.yield_([])
    count = _BYTES
    start = size - rest
    while count := count // 2:
        if rest & count:
            _copy_selected(source, target, index(start), count, table)
            start += count


def _copy_selected(
    source: ir.Value, target: ir.Value, start: ir.Value, count: int, table: Array
) -> None:
    """Store the table entries of up to 64 bytes."""
    i8 = mlir.element(source)
    bytes_ = vector.load(mlir.vector_type(count, i8), source, [start])
    if count < _BYTES:
        lanes = [i % count for i in range(_BYTES)]
        bytes_ = vector.shuffle(bytes_, bytes_, lanes)
    whole = mlir.vector_type(_BYTES, i8)
    quarters = [
        arith.constant(whole, mlir.dense_attr(part, whole))
        for part in table.astype(np.int8).reshape(4, _BYTES)
    ]
    positive, negative = (
        llvm.call_intrinsic(
            whole, "llvm.x86.avx512.vpermi2var.qi.512", [low, bytes_, high], [], []
        )
        for low, high in (quarters[:2], quarters[2:])
    )
    zeros = arith.constant(whole, mlir.dense_attr(np.zeros(_BYTES, np.int8), whole))
    is_negative = arith.cmpi(arith.CmpIPredicate.slt, bytes_, zeros)
    result = arith.select(is_negative, negative, positive)
    if count < _BYTES:
        result = vector.shuffle(result, result, [*range(count)])
    vector.store(result, target, [start])
