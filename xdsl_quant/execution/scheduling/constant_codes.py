"""
Constant codes of at most 8 bits, stored such that few instructions decode them.

What a loop computes from a code and constants alone, e.g. the float that a code of 4 bits
stands for, is a function of 256 bytes. If all results are integers of 8 bits, or floats
with 2 bits of mantissa, these are stored in the place of the codes: one conversion of
vectors makes floats of them.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.arrays import Array, DType

from .. import mlir_bindings as mlir
from ..mlir_bindings import Op, arith, ir, memref
from .memrefs import read_global, with_elements


class _Encoding(NamedTuple):
    """How numbers are stored in bytes."""

    name: str

    encode: Callable[[Array], Array]
    """The bytes of floats; what has none becomes any byte."""

    decode: Callable[[Array], Array]
    """The floats of bytes, which tells what has none."""

    build: Callable[[ir.Value], ir.Value]
    """The ops that decode a byte to f32."""


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
    """Store constants that are decoded to f32 in one of `_ENCODINGS`."""
    symbols = ir.SymbolTable(module.operation)
    known: dict[tuple[str, bytes], tuple[_Encoding, ir.Operation] | None] = {}
    for load in mlir.ops_in(module, "memref.load"):
        table = mlir.made_by(load.operands[0], "memref.get_global")
        if table is None or str(mlir.element(load.operands[0])) != "i8":
            continue
        name = mlir.symbol_of(table, "name")
        for decoded, numbers in reversed(decoded_from(load.result, symbols)):
            key = name, numbers.tobytes()
            if key not in known:
                known[key] = _encoded(symbols, name, numbers)
            if (found := known[key]) is not None:
                _replace_decoded(load, decoded, *found)
                break


# What a loop computes from a byte

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
"""The ops that are followed; results have the dtype of their type."""

_UNSIGNED = "arith.extui", "arith.uitofp"


_Numbers = tuple[ir.Value, Array]
"""A value, and what it is for each byte, from 0 to 127 and -128 to -1."""


def decoded_from(value: ir.Value, symbols: ir.SymbolTable) -> list[_Numbers]:
    """
    Return all f32 that are computed from a byte alone, or read from a constant of a
    module, one after the other.
    """
    numbers: Array = np.arange(256).astype(np.uint8).view(np.int8)
    found: list[_Numbers] = []
    while (step := _next_numbers(value, numbers, symbols)) is not None:
        value, numbers = step
        if str(value.type) == "f32":
            found.append(step)
    return found


def _next_numbers(
    value: ir.Value, numbers: Array, symbols: ir.SymbolTable
) -> _Numbers | None:
    """
    Return the only result that is computed from a value, and what it is, if it is
    known.
    """
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
    """What is read from a constant list, if it has floats that NumPy knows."""
    table, *indices = load.operands
    constant = mlir.made_by(table, "memref.get_global")
    is_known = isinstance(load.result.type, ir.F16Type | ir.F32Type)
    if constant is None or len(indices) != 1 or not is_known:
        return None
    floats = mlir.initial_value(symbols[mlir.symbol_of(constant, "name")])
    # Bytes that do not occur may be no index.
    return load.result, floats.take(numbers, mode="clip")


def _bitcast_numbers(
    result: ir.Value, value: ir.Value, numbers: Array
) -> _Numbers | None:
    dtype = _dtype(result.type)
    if dtype is None or dtype.itemsize != numbers.dtype.itemsize:
        return None
    return result, numbers.view(dtype)


def _sign_extended(numbers: Array, type_: ir.Type) -> Array:
    """Numbers with the bits of an integer type, sign-extended; floats as they are."""
    if not isinstance(type_, ir.IntegerType):
        return numbers
    unused = 8 * numbers.dtype.itemsize - type_.width
    return numbers << unused >> unused


def _dtype(type_: ir.Type) -> DType | None:
    """Return the dtype of a type; `None` if there is none."""
    if isinstance(type_, ir.IndexType):
        return np.dtype(np.int64)
    if isinstance(type_, ir.F16Type | ir.F32Type):
        return np.dtype(f"f{type_.width // 8}")
    width = getattr(type_, "width", 64)
    if width > 32 or width == 1:
        return None
    if isinstance(type_, ir.IntegerType):
        return np.dtype(f"i{next(n for n in (1, 2, 4) if width <= 8 * n)}")
    # A small float, of which only the bits are known.
    return np.dtype(np.int8) if width <= 8 else None


# Constants


def _encoded(
    symbols: ir.SymbolTable, name: str, numbers: Array
) -> tuple[_Encoding, ir.Operation] | None:
    """
    Return a constant with other bytes, and how they are read; `None` for no such
    encoding.
    """
    codes, is_present = codes_of(symbols[name])
    for encoding in _ENCODINGS:
        with np.errstate(all="ignore"):
            stored = encoding.encode(numbers)
        same = encoding.decode(stored).view(np.int32) == numbers.view(np.int32)
        if same[is_present].all():
            return encoding, with_elements(
                symbols, name, f"as_{encoding.name}", stored[codes]
            )
    return None


def codes_of(constant: Op) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return the bytes of a constant, and which of all bytes it has."""
    codes = mlir.initial_value(constant).view(np.uint8)
    is_present = np.zeros(256, np.bool_)
    is_present[codes] = True
    return codes, is_present


def _replace_decoded(
    load: ir.Operation, decoded: ir.Value, encoding: _Encoding, constant: ir.Operation
) -> None:
    """Read the numbers of a constant in the place of what was computed from codes."""
    with ir.InsertionPoint(load), load.location:
        byte = memref.load(read_global(constant), [*load.operands][1:])
        decoded.replace_all_uses_with(encoding.build(byte))


# Numbers of small tables whose indices are bits of a byte


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
            mlir.replace_op(load, _selected_number(numbers, byte, load.result.type))


def _selected_number(numbers: list[float], byte: ir.Value, type_: ir.Type) -> ir.Value:
    """Return one of the numbers: each bit of the byte leaves half of them."""
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
    """
    Return the byte of which as many bits are the index as a small table has; or `None`.
    """
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
