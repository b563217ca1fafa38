"""
Re-encoding of constants with 8-bit codes, so that loops decode them cheaply.

A float that a loop decodes from an 8-bit code has at most 256 values. If these values
are all 8-bit integers, or all f16 numbers with 2 mantissa bits, the constant stores
them as bytes in place of the codes. One vector conversion then decodes the bytes.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.arrays import Array, DType

from .. import mlir_bindings as mlir
from ..mlir_bindings import Op, arith, ir, memref
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


# Abstract interpretation of a decoded byte

_OPS: Mapping[str, Callable[..., Array]] = {
    "arith.andi": np.bitwise_and,
    "arith.extf": np.positive,
    "arith.extsi": np.positive,
    "arith.extui": np.positive,
    "arith.index_cast": np.positive,
    "arith.mulf": np.multiply,
    "arith.shli": np.left_shift,
    "arith.sitofp": np.positive,
    "arith.trunci": np.positive,
    "arith.uitofp": np.positive,
}
"""Supported ops; a result has the NumPy dtype of its MLIR type."""

_UNSIGNED = "arith.extui", "arith.uitofp"


_Numbers = tuple[ir.Value, Array]
"""SSA value, and its 256 numbers for the bytes 0 to 127, then -128 to -1."""


def decoding_chain(value: ir.Value, symbols: ir.SymbolTable) -> list[_Numbers]:
    """
    Return the f32 SSA values that a chain of single-use ops computes from a byte, each
    with its numbers for all bytes. Other operands must be constants or constant tables.
    """
    numbers: Array = np.arange(256).astype(np.uint8).view(np.int8)
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
    if op.name == "arith.bitcast":
        return _bitcast_numbers(op.results[0], value, numbers)
    if op.name == "memref.load":
        return _table_numbers(op, numbers, symbols)
    if (function := _OPS.get(op.name)) is None:
        return None
    if op.name in _UNSIGNED:
        numbers = numbers.astype(np.int64) & ((1 << mlir.bits(value.type)) - 1)
    operands: list[Array] = []
    for operand in op.operands:
        constant = mlir.number_of(operand)
        if operand != value and constant is None:
            return None
        dtype = _dtype(operand.type)
        if constant is not None and dtype is not None:
            operands.append(np.array(constant, dtype))
        else:
            operands.append(numbers)
    result = op.results[0]
    if (dtype := _dtype(result.type)) is None:
        return None
    with np.errstate(all="ignore"):
        return result, _sign_extended(function(*operands).astype(dtype), result.type)


def _table_numbers(
    load: ir.Operation, numbers: Array, symbols: ir.SymbolTable
) -> _Numbers | None:
    """Return the numbers loaded from a constant f16 or f32 table, or `None`."""
    table, *indices = load.operands
    constant = mlir.defining_op(table, "memref.get_global")
    is_known = isinstance(load.result.type, ir.F16Type | ir.F32Type)
    if constant is None or len(indices) != 1 or not is_known:
        return None
    floats = mlir.initial_value(symbols[mlir.symbol_of(constant, "name")])
    # Unused byte values may be out of bounds.
    return load.result, floats.take(numbers, mode="clip")


def _bitcast_numbers(
    result: ir.Value, value: ir.Value, numbers: Array
) -> _Numbers | None:
    dtype = _dtype(result.type)
    if dtype is None or dtype.itemsize != numbers.dtype.itemsize:
        return None
    return result, numbers.view(dtype)


def _sign_extended(numbers: Array, type_: ir.Type) -> Array:
    """Return integers sign-extended from the width of a type, and floats unchanged."""
    if not isinstance(type_, ir.IntegerType):
        return numbers
    unused = 8 * numbers.dtype.itemsize - type_.width
    return numbers << unused >> unused


def _dtype(type_: ir.Type) -> DType | None:
    if isinstance(type_, ir.IndexType):
        return np.dtype(np.int64)
    if isinstance(type_, ir.F16Type | ir.F32Type):
        return np.dtype(f"f{type_.width // 8}")
    width = getattr(type_, "width", 64)
    if width > 32 or width == 1:
        return None
    if isinstance(type_, ir.IntegerType):
        return np.dtype(f"i{next(n for n in (1, 2, 4) if width <= 8 * n)}")
    # Small floats are represented by their bits.
    return np.dtype(np.int8) if width <= 8 else None


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
