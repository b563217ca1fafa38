"""
Constant codes of at most 8 bits, stored such that few instructions decode them.

What a loop computes from a code and constants alone, e.g. the float that a code of 4 bits
stands for, is a function of 256 bytes. If all results are integers of 8 bits, or floats
with 2 bits of mantissa, these are stored in the place of the codes: one conversion of
vectors makes floats of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..mlir_bindings import arith, ir, made_by, memref, ops_in

_Array = NDArray[Any]


class _Encoding(NamedTuple):
    """How numbers are stored in bytes."""

    name: str

    encode: Callable[[_Array], _Array]
    """The bytes of floats; what has none becomes any byte."""

    decode: Callable[[_Array], _Array]
    """The floats of bytes, which tells what has none."""

    build: Callable[[Any], Any]
    """The ops that decode a byte to f32."""


def _integers(numbers: _Array) -> _Array:
    return numbers.astype(np.int8)


def _floats_of_integers(stored: _Array) -> _Array:
    return stored.astype(np.float32)


def _as_integer(byte: Any) -> Any:
    return arith.sitofp(ir.F32Type.get(), byte)


def _halves(numbers: _Array) -> _Array:
    return (numbers.astype(np.float16).view(np.int16) >> 8).astype(np.int8)


def _floats_of_halves(stored: _Array) -> _Array:
    return (stored.astype(np.int16) << 8).view(np.float16).astype(np.float32)


def _as_part_of_f16(byte: Any) -> Any:
    i16 = ir.IntegerType.get_signless(16)
    bits = arith.shli(arith.extui(i16, byte), arith.constant(i16, 8))
    return arith.extf(ir.F32Type.get(), arith.bitcast(ir.F16Type.get(), bits))


_ENCODINGS = (
    _Encoding("integers", _integers, _floats_of_integers, _as_integer),
    _Encoding("halves", _halves, _floats_of_halves, _as_part_of_f16),
)


def decode_constants(module: Any) -> None:
    """Store constants that are decoded to f32 in one of `_ENCODINGS`."""
    symbols = ir.SymbolTable(module.operation)
    known: dict[tuple[str, bytes], tuple[_Encoding, Any] | None] = {}
    for load in ops_in(module, "memref.load"):
        table = made_by(load.operands[0], "memref.get_global")
        if table is None or str(load.operands[0].type.element_type) != "i8":
            continue
        name = table.attributes["name"].value
        for decoded, numbers in reversed(decoded_from(load.result, symbols)):
            key = name, numbers.tobytes()
            if key not in known:
                known[key] = _encoded(symbols, name, numbers)
            if (found := known[key]) is not None:
                _replace(load, decoded, *found)
                break


# What a loop computes from a byte

_OPS: Mapping[str, Callable[..., _Array]] = {
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


def decoded_from(value: Any, symbols: Any) -> list[tuple[Any, _Array]]:
    """
    All f32 that are computed from a byte alone, or read from a constant of a module, one
    after the other; and what they are for each byte, from 0 to 127 and -128 to -1.
    """
    numbers: _Array = np.arange(256).astype(np.uint8).view(np.int8)
    found: list[tuple[Any, _Array]] = []
    while (step := _step(value, numbers, symbols)) is not None:
        value, numbers = step
        if str(value.type) == "f32":
            found.append(step)
    return found


def _step(value: Any, numbers: _Array, symbols: Any) -> tuple[Any, _Array] | None:
    """The only result that is computed from a value, and what it is, if it is known."""
    uses = [*value.uses]
    if len(uses) != 1:
        return None
    op = uses[0].owner
    if op.name == "arith.bitcast":
        return _bitcast(op.results[0], value, numbers)
    if op.name == "memref.load":
        return _looked_up(op, numbers, symbols)
    if (function := _OPS.get(op.name)) is None:
        return None
    if op.name in _UNSIGNED:
        numbers = numbers.astype(np.int64) & ((1 << value.type.width) - 1)
    operands: list[_Array] = []
    for operand in op.operands:
        constant = made_by(operand, "arith.constant")
        if operand != value and constant is None:
            return None
        dtype = _dtype(operand.type)
        if constant is not None and dtype is not None:
            operands.append(np.array(constant.attributes["value"].value, dtype))
        else:
            operands.append(numbers)
    result = op.results[0]
    if (dtype := _dtype(result.type)) is None:
        return None
    with np.errstate(all="ignore"):
        return result, _narrowed(function(*operands).astype(dtype), result.type)


def _looked_up(load: Any, numbers: _Array, symbols: Any) -> tuple[Any, _Array] | None:
    """What is read from a constant list, if it has floats that NumPy knows."""
    table, *indices = load.operands
    constant = made_by(table, "memref.get_global")
    is_known = isinstance(load.result.type, ir.F16Type | ir.F32Type)
    if constant is None or len(indices) != 1 or not is_known:
        return None
    floats = np.array(
        symbols[constant.attributes["name"].value].attributes["initial_value"]
    )
    # Bytes that do not occur may be no index.
    return load.result, floats.take(numbers, mode="clip")


def _bitcast(result: Any, value: Any, numbers: _Array) -> tuple[Any, _Array] | None:
    dtype = _dtype(result.type)
    if dtype is None or dtype.itemsize != numbers.dtype.itemsize:
        return None
    return result, numbers.view(dtype)


def _narrowed(numbers: _Array, type_: Any) -> _Array:
    """Numbers with the bits of an integer type, sign-extended; floats as they are."""
    if not isinstance(type_, ir.IntegerType):
        return numbers
    unused = 8 * numbers.dtype.itemsize - type_.width
    return numbers << unused >> unused


def _dtype(type_: Any) -> np.dtype[Any] | None:
    """The dtype of a type; `None` if there is none."""
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


def _encoded(symbols: Any, name: str, numbers: _Array) -> tuple[_Encoding, Any] | None:
    """A constant with other bytes, and how they are read; `None` for no such encoding."""
    codes = np.array(symbols[name].attributes["initial_value"]).view(np.uint8)
    is_present = np.zeros(256, np.bool_)
    is_present[codes] = True
    for encoding in _ENCODINGS:
        with np.errstate(all="ignore"):
            stored = encoding.encode(numbers)
        same = encoding.decode(stored).view(np.int32) == numbers.view(np.int32)
        if same[is_present].all():
            return encoding, with_bytes(
                symbols, name, f"as_{encoding.name}", stored[codes]
            )
    return None


def with_bytes(symbols: Any, name: str, suffix: str, data: _Array) -> Any:
    """A copy of a constant with other bytes, of another shape if the data has one."""
    constant, i8 = symbols[name], ir.IntegerType.get_signless(8)
    with ir.InsertionPoint(constant), constant.location:
        copy = constant.clone()
    copy.attributes["sym_name"] = ir.StringAttr.get(f"{name}_{suffix}")
    copy.attributes["type"] = ir.TypeAttr.get(ir.MemRefType.get(data.shape, i8))
    copy.attributes["initial_value"] = ir.DenseElementsAttr.get(
        np.ascontiguousarray(data), type=ir.RankedTensorType.get(data.shape, i8)
    )
    # It gets another name if a constant is decoded in several ways.
    symbols.insert(copy)
    return copy


def _replace(load: Any, decoded: Any, encoding: _Encoding, constant: Any) -> None:
    """Read the numbers of a constant in the place of what was computed from codes."""
    with ir.InsertionPoint(load), load.location:
        name = constant.attributes["sym_name"].value
        stored = memref.get_global(constant.attributes["type"].value, name)
        byte = memref.load(stored, [*load.operands][1:])
        decoded.replace_all_uses_with(encoding.build(byte))
