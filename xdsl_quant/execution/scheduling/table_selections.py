"""Numbers of small tables whose indices are bits of a byte."""

from __future__ import annotations

import numpy as np

from .. import mlir_bindings as mlir
from ..mlir_bindings import arith, ir
from .memrefs import read_global, with_elements

_MOST = 16
"""The size of the largest table: the numbers of one with 32 do not fit the registers."""


def select_from_tables(module: ir.Module) -> None:
    """
    Select numbers by the bits of a byte in place of loading them from a table.

    A CPU with AVX-512 selects 16 numbers at once by a mask, which takes less time than to
    load them one by one, as its instruction for 16 loads does.
    """
    symbols = ir.SymbolTable(module.operation)
    for load in mlir.ops_in(module, "memref.load"):
        table = mlir.made_by(load.operands[0], "memref.get_global")
        if table is None or mlir.shape(load.operands[0]) != [_MOST]:
            continue
        if (byte := byte_looked_up(load)) is None:
            continue
        numbers = mlir.initial_value(symbols[mlir.symbol_of(table, "name")]).tolist()
        with ir.InsertionPoint(load), load.location:
            selected = _selected_number(numbers, byte, load.result.type)
            load.result.replace_all_uses_with(selected)
        load.erase()


def _selected_number(numbers: list[float], byte: ir.Value, type_: ir.Type) -> ir.Value:
    """One of the numbers: each bit of the byte leaves half of them."""
    candidates = [arith.constant(type_, number) for number in numbers]
    zero = arith.constant(byte.type, 0)
    for bit in range(len(numbers).bit_length() - 1):
        mask = arith.constant(byte.type, 1 << bit)
        is_set = arith.cmpi(arith.CmpIPredicate.ne, arith.andi(byte, mask), zero)
        pairs = zip(candidates[::2], candidates[1::2], strict=True)
        candidates = [arith.select(is_set, odd, even) for even, odd in pairs]
    return candidates[0]


_BYTES = 256
_TABULATED = ir.F16Type, ir.F32Type, ir.F64Type
"""Types whose constants NumPy reads."""


def look_up_whole_bytes(module: ir.Module) -> None:
    """
    Look up the lowest bits of a byte as the whole byte, in a table that repeats the numbers
    of the given one.

    Without AVX-512, elements of a table are loaded one by one. LLVM masks their indices in
    a vector, and takes longer to get them out of it than to load them.
    """
    symbols = ir.SymbolTable(module.operation)
    repeated: dict[str, ir.Operation] = {}
    for load in mlir.ops_in(module, "memref.load"):
        table = mlir.made_by(load.operands[0], "memref.get_global")
        if table is None or (byte := byte_looked_up(load)) is None:
            continue
        name = mlir.symbol_of(table, "name")
        if name not in repeated:
            numbers = np.resize(mlir.initial_value(symbols[name]), _BYTES)
            type_ = mlir.element(load.operands[0])
            repeated[name] = with_elements(symbols, name, "of_bytes", numbers, type_)
        with ir.InsertionPoint(load), load.location:
            load.operands[0] = read_global(repeated[name])
            load.operands[1] = arith.index_castui(ir.IndexType.get(), byte)


def byte_looked_up(load: ir.Operation) -> ir.Value | None:
    """The byte of which as many bits are the index as a small table has; or `None`."""
    type_ = mlir.shaped_type(load.operands[0])
    size = type_.shape[0] if type_.rank == 1 else 0
    if not isinstance(type_.element_type, _TABULATED) or not 1 < size < _BYTES:
        return None
    index = mlir.made_by(load.operands[1], "arith.index_cast")
    masked = index and mlir.made_by(index.operands[0], "arith.andi")
    if not masked or size & (size - 1):
        return None
    if mlir.integer_of(masked.operands[1]) != size - 1:
        return None
    value = masked.operands[0]
    while mlir.bits(value.type) != 8:
        resized = mlir.made_by(value, "arith.trunci", "arith.extsi", "arith.extui")
        if resized is None or 1 << mlir.bits(resized.operands[0].type) < size:
            return None
        value = resized.operands[0]
    return value
