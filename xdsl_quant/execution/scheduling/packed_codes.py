"""
Packing of constants with at most 16 distinct decoded values, two codes per byte.

An AVX-512 register holds 16 numbers of 32 bits, and `vpermps` selects one of them per lane.
The lower half of a byte is the code of one lane, the upper half the code of the lane 16
positions later. This takes fewer instructions than any conversion, and half of the memory.
"""

from itertools import chain
from typing import NamedTuple

import numpy as np

from xdsl_quant.numerics.arrays import Array

from .. import mlir_bindings as mlir
from ..mlir_bindings import arith, ir, llvm, vector
from .constant_codes import codes_of, decoding_chain
from .lane_loops import LaneIndex, LaneLoop, has_lanes
from .memrefs import clone_global, read_global
from .vector_code import LANES

_PAIR = 2 * LANES
"""Number of lanes of two adjacent vectors, whose codes share bytes."""


def pack_constants(module: ir.Module) -> None:
    """Pack constants that lane loops decode to f32, and vectorize these loops."""
    loops = filter(has_lanes, mlir.ops_in(module, "scf.for"))
    loads = chain(*(mlir.ops_in(loop, "memref.load") for loop in loops))
    if not any(map(_packable_constant, loads)):
        return
    # Prove that indices are nonnegative and in bounds: this simplifies divisions and
    # removes checks.
    mlir.run_passes(
        module, ("func.func(int-range-optimizations)", "canonicalize", "cse")
    )
    symbols = ir.SymbolTable(module.operation)
    packed: dict[tuple[str, bytes], _Packed | None] = {}
    for op in mlir.ops_in(module, "scf.for"):
        if (loop := LaneLoop.of(op)) is None:
            continue
        decoded_values: list[ir.Value] = []
        for load in loop.loads:
            if (name := _packable_constant(load)) is None or not _can_be_packed(
                loop, load
            ):
                continue
            for decoded, numbers in reversed(decoding_chain(load.result, symbols)):
                key = name, numbers.tobytes()
                if key not in packed:
                    packed[key] = _packed_constant(symbols, name, numbers)
                if (codes := packed[key]) is not None:
                    decoded_values.append(decoded)
                    loop.define(decoded, _Selection(loop, load, codes).vector)
                    break
        if decoded_values and loop.is_supported():
            loop.replace()


def _packable_constant(load: ir.Operation) -> str | None:
    """Return the name of the i8 constant that is loaded, or `None`."""
    constant = mlir.defining_op(load.operands[0], "memref.get_global")
    if constant is None or str(mlir.element(constant.result)) != "i8":
        return None
    return mlir.symbol_of(constant, "name")


def _can_be_packed(loop: LaneLoop, load: ir.Operation) -> bool:
    """Return True if lanes read consecutive elements, aligned to a pair of vectors."""
    operands = [*load.operands]
    if not loop.can_access(operands, steps=(1,)):
        return False
    last = loop.index(operands[-1])
    return (
        last is not None
        and not mlir.shape(operands[0])[-1] % _PAIR
        and not any(factor % _PAIR for factor in last.terms.values())
        and not (last.numbers[::LANES] % LANES).any()
    )


class _Packed(NamedTuple):
    """Constant with two codes per byte."""

    constant: ir.Operation

    numbers: Array
    """Decoded f32 of each code."""


def _packed_constant(
    symbols: ir.SymbolTable, name: str, numbers: Array
) -> _Packed | None:
    """Return the packed constant; `None` if it decodes to more than 16 numbers."""
    codes, is_present = codes_of(symbols[name])
    present = numbers.view(np.int32)[is_present]
    distinct, short = np.unique(present, return_inverse=True)
    if distinct.size > LANES:
        return None
    shortened = np.zeros(256, np.uint8)
    shortened[is_present] = short
    low, high = np.moveaxis(shortened[codes].reshape(-1, 2, LANES), 1, 0)
    table = np.resize(distinct, LANES).view(np.float32)
    shape = [*codes.shape[:-1], codes.shape[-1] // 2]
    data = (low | high << 4).view(np.int8).reshape(shape)
    return _Packed(clone_global(symbols, name, "packed", data), table)


class _Selection(NamedTuple):
    """Vectors decoded from a packed constant in place of a load."""

    loop: LaneLoop
    load: ir.Operation
    packed: _Packed

    def vector(self, lane: int) -> ir.Value:
        """Return the decoded vector that starts at a lane."""
        _, *indices = self.load.operands
        *others, last = [found for each in indices if (found := self.loop.index(each))]
        half = int(last.numbers[lane]) // LANES % 2
        bytes_ = read_global(self.packed.constant)
        at = [*(other.build(lane) for other in others), _halved(last, lane, half)]
        i8, i32, f32 = (
            mlir.vector_type(LANES, type_)
            for type_ in (
                ir.IntegerType.get_signless(8),
                ir.IntegerType.get_signless(32),
                ir.F32Type.get(),
            )
        )
        selecting = arith.extui(i32, vector.load(i8, bytes_, at))
        if half:
            fours = mlir.dense_attr(np.full(LANES, 4, np.int32), i32)
            selecting = arith.shrui(selecting, arith.constant(i32, fours))
        table = arith.constant(f32, mlir.dense_attr(self.packed.numbers, f32))
        # The instruction ignores the upper bits.
        return llvm.call_intrinsic(
            f32, "llvm.x86.avx512.permvar.sf.512", [table, selecting], [], []
        )


def _halved(last: LaneIndex, lane: int, half: int) -> ir.Value:
    """Return the index of the byte that holds the code of a lane."""
    terms = {value: factor // 2 for value, factor in last.terms.items()}
    numbers = (last.numbers - half * LANES) // 2
    return LaneIndex(terms, numbers).build(lane)
