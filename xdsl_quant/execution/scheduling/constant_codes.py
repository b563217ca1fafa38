"""
Re-encoding of constants with 8-bit codes, so that loops decode them cheaply.

A float that a loop decodes from an 8-bit code has at most 256 values. If these values
are all 8-bit integers, or all f16 numbers with 2 mantissa bits, the constant stores
them as bytes in place of the codes. One vector conversion then decodes the bytes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.arrays import Array

from .. import mlir_bindings as mlir
from ..mlir_bindings import Op, arith, ir, memref
from .byte_values import BYTES, evaluated, repeated_number
from .memrefs import clone_global, read_global


class _Encoding(NamedTuple):
    """Encoding of floats as bytes."""

    name: str

    encode: Callable[[Array], Array]
    """Function from floats to bytes; any byte for floats without an encoding."""

    decode: Callable[[Array], Array]
    """Function from bytes to floats; inverts `encode` for floats with an encoding."""

    build: Callable[[ir.Value], ir.Value]
    """Function that builds the ops to decode a byte to f32."""


def _integer_codes(numbers: Array) -> Array:
    return numbers.astype(np.int8)


def _floats_of_integers(stored: Array) -> Array:
    return stored.astype(np.float32)


def _as_integer(byte: ir.Value) -> ir.Value:
    return arith.sitofp(ir.F32Type.get(), byte)


def _halves_of_f16(numbers: Array) -> Array:
    return (numbers.astype(np.float16).view(np.int16) >> 8).astype(np.int8)


def _floats_of_halves(stored: Array) -> Array:
    return (stored.astype(np.int16) << 8).view(np.float16).astype(np.float32)


def _as_part_of_f16(byte: ir.Value) -> ir.Value:
    i16 = ir.IntegerType.get_signless(16)
    bits = arith.shli(arith.extui(i16, byte), arith.constant(i16, 8))
    return arith.extf(ir.F32Type.get(), arith.bitcast(ir.F16Type.get(), bits))


_ENCODINGS = (
    _Encoding("integers", _integer_codes, _floats_of_integers, _as_integer),
    _Encoding("halves", _halves_of_f16, _floats_of_halves, _as_part_of_f16),
)


def decode_constants(module: ir.Module) -> None:
    """Re-encode constants that are decoded to f32 with one of `_ENCODINGS`."""
    symbols = ir.SymbolTable(module.operation)
    known: dict[tuple[str, bytes], tuple[_Encoding, ir.Operation] | None] = {}
    for load in mlir.ops_in(module, "memref.load"):
        table = mlir.defining_op(load.operands[0], "memref.get_global")
        if table is None or str(mlir.element(load.operands[0])) != "i8":
            continue
        name = mlir.symbol_of(table, "name")
        for decoded, numbers in reversed(decoding_chain(load.result, symbols)):
            key = name, numbers.tobytes()
            if key not in known:
                known[key] = _encoded(symbols, name, numbers)
            if (encoded := known[key]) is not None:
                _replace_decoded(load, decoded, *encoded)
                break


# Numbers decoded from a byte

_Numbers = tuple[ir.Value, Array]
"""SSA value, and its numbers for all bytes."""


def decoding_chain(value: ir.Value, symbols: ir.SymbolTable) -> list[_Numbers]:
    """
    Return the f32 SSA values that a chain of single-use ops computes from a byte, each
    with its numbers for all bytes. Other operands must be constants or constant tables.
    """
    numbers = BYTES
    chain: list[_Numbers] = []
    while (step := _next_numbers(value, numbers, symbols)) is not None:
        value, numbers = step
        if str(value.type) == "f32":
            chain.append(step)
    return chain


def _next_numbers(
    value: ir.Value, numbers: Array, symbols: ir.SymbolTable
) -> _Numbers | None:
    """Return the result of a value's only user, with its numbers; or `None`."""
    uses = [*value.uses]
    if len(uses) != 1:
        return None
    op = uses[0].owner.operation
    sources, table = [*op.operands], None
    if op.name == "memref.load":
        table = _float_table(sources.pop(0), symbols)
    known = [numbers if each == value else repeated_number(each) for each in sources]
    operands = [each for each in known if each is not None]
    if len(operands) < len(known):
        return None
    result = evaluated(op, operands, table)
    return None if result is None else (op.results[0], result)


def _float_table(table: ir.Value, symbols: ir.SymbolTable) -> Array | None:
    """Return the elements of a constant f16 or f32 table, or `None`."""
    constant = mlir.defining_op(table, "memref.get_global")
    if constant is None or not isinstance(mlir.element(table), ir.F16Type | ir.F32Type):
        return None
    return mlir.initial_value(symbols[mlir.symbol_of(constant, "name")])


# Constants


def _encoded(
    symbols: ir.SymbolTable, name: str, numbers: Array
) -> tuple[_Encoding, ir.Operation] | None:
    """Return an exact encoding and the re-encoded constant, or `None`."""
    codes, is_present = codes_of(symbols[name])
    for encoding in _ENCODINGS:
        with np.errstate(all="ignore"):
            stored = encoding.encode(numbers)
        same = encoding.decode(stored).view(np.int32) == numbers.view(np.int32)
        if same[is_present].all():
            return encoding, clone_global(
                symbols, name, f"as_{encoding.name}", stored[codes]
            )
    return None


def codes_of(constant: Op) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return the bytes of a constant, and a mask of the byte values that occur."""
    codes = mlir.initial_value(constant).view(np.uint8)
    is_present = np.zeros(256, np.bool_)
    is_present[codes] = True
    return codes, is_present


def _replace_decoded(
    load: ir.Operation, decoded: ir.Value, encoding: _Encoding, constant: ir.Operation
) -> None:
    """Replace `decoded` by a value that is decoded from the re-encoded `constant`."""
    with ir.InsertionPoint(load), load.location:
        byte = memref.load(read_global(constant), [*load.operands][1:])
        decoded.replace_all_uses_with(encoding.build(byte))


# Small tables indexed by bits of a byte


_TABLE_SIZE = 16
"""Supported table size: 32 values would exceed the registers."""


def select_from_tables(module: ir.Module) -> None:
    """
    Replace loads from tables of 16 values by selects on the bits of the index. One
    AVX-512 instruction selects in 16 lanes, so this is faster than a gather, which
    loads its elements one by one.
    """
    symbols = ir.SymbolTable(module.operation)
    for load in mlir.ops_in(module, "memref.load"):
        table = mlir.defining_op(load.operands[0], "memref.get_global")
        if table is None or mlir.shape(load.operands[0]) != [_TABLE_SIZE]:
            continue
        if (byte := byte_index_of(load)) is None:
            continue
        numbers = mlir.initial_value(symbols[mlir.symbol_of(table, "name")]).tolist()
        with ir.InsertionPoint(load), load.location:
            mlir.replace_op(load, _selected_number(numbers, byte, load.result.type))


def _selected_number(numbers: list[float], byte: ir.Value, type_: ir.Type) -> ir.Value:
    """Select the number at index `byte`: each bit halves the candidates."""
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
"""Supported element types of tables, which have a NumPy dtype."""


def look_up_whole_bytes(module: ir.Module) -> None:
    """
    Repeat tables to 256 elements, and index them by a whole byte instead of its masked
    low bits. Without AVX-512, table elements are loaded one by one: LLVM would mask the
    indices in a vector, and extracting them takes longer than the loads.
    """
    symbols = ir.SymbolTable(module.operation)
    repeated: dict[str, ir.Operation] = {}
    for load in mlir.ops_in(module, "memref.load"):
        table = mlir.defining_op(load.operands[0], "memref.get_global")
        if table is None or (byte := byte_index_of(load)) is None:
            continue
        name = mlir.symbol_of(table, "name")
        if name not in repeated:
            numbers = np.resize(mlir.initial_value(symbols[name]), _BYTES)
            type_ = mlir.element(load.operands[0])
            repeated[name] = clone_global(symbols, name, "of_bytes", numbers, type_)
        with ir.InsertionPoint(load), load.location:
            load.operands[0] = read_global(repeated[name])
            load.operands[1] = arith.index_castui(ir.IndexType.get(), byte)


def byte_index_of(load: ir.Operation) -> ir.Value | None:
    """Return the byte whose low bits index a small table, or `None`."""
    type_ = mlir.shaped_type(load.operands[0])
    size = type_.shape[0] if type_.rank == 1 else 0
    if not isinstance(type_.element_type, _TABULATED) or not 1 < size < _BYTES:
        return None
    index = mlir.defining_op(load.operands[1], "arith.index_cast")
    masked = index and mlir.defining_op(index.operands[0], "arith.andi")
    if not masked or size & (size - 1):
        return None
    if mlir.integer_of(masked.operands[1]) != size - 1:
        return None
    value = masked.operands[0]
    while mlir.bits(value.type) != 8:
        resized = mlir.defining_op(value, "arith.trunci", "arith.extsi", "arith.extui")
        if resized is None or 1 << mlir.bits(resized.operands[0].type) < size:
            return None
        value = resized.operands[0]
    return value
