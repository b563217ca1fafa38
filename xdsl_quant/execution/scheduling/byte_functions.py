"""
Functions of bytes as tables in vector registers.

An elementwise op on a single 8-bit operand is a function of 256 values, such as a
requantization or an activation. It is evaluated at compile time. AVX-512 VBMI selects 64
results from half of the table with one instruction.
"""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from .. import mlir_bindings as mlir
from ..building import (
    has_identity_layout,
    index,
    indexing_maps,
    is_dynamic,
    iterator_types_of,
)
from ..mlir_bindings import arith, ir, llvm, memref, scf, vector
from .memrefs import constant_of

_Numbers = NDArray[np.int64]

_BYTES = 64
"""Bytes per vector."""

_MIN_OPS = 3
"""Minimum number of ops per element that takes longer than a lookup."""

_MAX_SIZE = 1 << 20
"""Maximum number of elements; larger results may be streamed instead."""

_OPS: Mapping[str, Callable[..., _Numbers]] = {
    "arith.addi": np.add,
    "arith.andi": np.bitwise_and,
    "arith.extsi": np.positive,
    "arith.index_cast": np.positive,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.muli": np.multiply,
    "arith.ori": np.bitwise_or,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.subi": np.subtract,
    "arith.trunci": np.positive,
    "arith.xori": np.bitwise_xor,
}
"""Functions of sign-extended integers; results wrap to the width of their type."""

_COMPARISONS = (
    *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal),
)
"""Signed comparisons, by the number of their predicate."""


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


def _table_of(op: ir.Operation) -> _Numbers | None:
    """Return the results for the bytes 0 to 127, then -128 to -1; or `None`."""
    block = mlir.body_of(op)
    bytes_: _Numbers = np.arange(256).astype(np.uint8).view(np.int8).astype(np.int64)
    known: dict[ir.Value, _Numbers] = {block.arguments[0]: bytes_}

    def numbers_of(value: ir.Value) -> _Numbers | None:
        if value in known:
            return known[value]
        number = mlir.integer_of(value)
        return None if number is None else np.full(256, number)

    *ops, end = mlir.operations_of(block)
    for inner in ops:
        if inner.name == "arith.constant":
            continue
        if inner.name == "cf.assert":
            condition = numbers_of(inner.operands[0])
            if condition is None or not condition.all():
                return None
            continue
        if inner.name == "memref.load":
            table = constant_of(inner.operands[0])
            operands = [numbers_of(value) for value in [*inner.operands][1:]]
        else:
            table, operands = None, [numbers_of(value) for value in inner.operands]
        numbers = [n for n in operands if n is not None]
        if len(numbers) != len(operands) or len(inner.results) != 1:
            return None
        result = _evaluated(inner, numbers, table)
        if result is None:
            return None
        known[inner.results[0]] = _wrapped(result, inner.results[0].type)
    return numbers_of(end.operands[0])


def _evaluated(
    op: ir.Operation, numbers: list[_Numbers], table: _Numbers | None
) -> _Numbers | None:
    """Return the results of an op for 256 values of its operands; or `None`."""
    if op.name == "memref.load":
        if table is None or not table.ndim == len(numbers) == 1:
            return None
        return table.take(numbers[0], mode="clip")
    if op.name == "arith.select":
        return np.where(numbers[0] != 0, numbers[1], numbers[2])
    if op.name == "arith.extui":
        return numbers[0] & ((1 << mlir.bits(op.operands[0].type)) - 1)
    if op.name == "arith.cmpi":
        predicate = mlir.attribute_of(op, "predicate", ir.IntegerAttr).value
        if predicate >= len(_COMPARISONS):
            return None
        return _COMPARISONS[predicate](*numbers).astype(np.int64)
    if op.name in ("arith.shli", "arith.shrsi"):
        width = mlir.bits(op.results[0].type)
        if numbers[1].min() < 0 or numbers[1].max() >= width:
            return None
    function = _OPS.get(op.name)
    return None if function is None else function(*numbers)


def _wrapped(numbers: _Numbers, type_: ir.Type) -> _Numbers:
    """Return integers sign-extended from the width of their type."""
    unused = 64 - (64 if isinstance(type_, ir.IndexType) else mlir.bits(type_))
    return numbers << unused >> unused


# Building


def _look_up(source: ir.Value, target: ir.Value, table: _Numbers) -> None:
    """Build loops that store the table entry of each byte."""
    size = prod(mlir.shape(source))
    source, target = (_one_dimensional(value, size) for value in (source, target))
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


def _one_dimensional(value: ir.Value, size: int) -> ir.Value:
    rank = len(mlir.shape(value))
    if rank == 1:
        return value
    type_ = ir.MemRefType.get([size], mlir.element(value))
    return memref.collapse_shape(type_, value, [[*range(rank)]])


def _copy_selected(
    source: ir.Value, target: ir.Value, start: ir.Value, count: int, table: _Numbers
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
