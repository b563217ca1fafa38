"""
Numbers of small tables that are selected by the bits of their indices.

A CPU with AVX-512 selects 16 numbers at once by a mask, which takes less time than to load
them one by one, as its instruction for 16 loads does.
"""

from __future__ import annotations

from .. import mlir_bindings as mlir
from ..loop_fixes import byte_looked_up
from ..mlir_bindings import arith, ir

_MOST = 16
"""The size of the largest table: the numbers of one with 32 do not fit the registers."""


def select_from_tables(module: ir.Module) -> None:
    """Replace loads from constants whose index is the lowest bits of a byte."""
    constants = {mlir.symbol_of(op): op for op in mlir.ops_in(module, "memref.global")}
    for load in mlir.ops_in(module, "memref.load"):
        table = mlir.made_by(load.operands[0], "memref.get_global")
        if table is None or mlir.shaped_type(load.operands[0]).shape != [_MOST]:
            continue
        if (byte := byte_looked_up(load)) is None:
            continue
        numbers = mlir.initial_value(constants[mlir.symbol_of(table, "name")]).tolist()
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
