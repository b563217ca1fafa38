"""
Calls of Python functions that need no more than the min/max of a tensor: see
[`MinMaxFunction`][xdsl_quant.runtime.host_functions.MinMaxFunction].

Compiled code finds the smallest and the largest value while it computes the values. It
uses instructions that ignore NaN, as these are the fastest. So it adds up the products of
all values with zero, too: the sum is NaN if a value is NaN or infinite, and zero
otherwise. It does not do so for terms and factors of a tensor whose min/max are found for
the same call: where these are not finite, that is not either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from types import MethodType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.runtime.entry_function import unused_prefix
from xdsl_quant.runtime.host_functions import HostFunctions, MinMaxFunction

from ..building import (
    filled,
    generic,
    index,
    is_dynamic,
    reshaped,
    sizes_of,
)
from ..mlir_bindings import arith, func, ir, memref, ops_in, scf, tensor
from ..runtime_library import array_at, callback, guarded

_FLOATS = ("f16", "bf16", "f32", "f64")

_Record = Callable[[NDArray[np.intp], NDArray[np.float64]], object]


def reduce_min_max(module: Any, functions: HostFunctions) -> dict[str, object]:
    """
    Let the code find min/max in place of calling functions that need no more.

    Args:
        module: the module, which is changed.
        functions: the Python functions that it calls, by name.

    Returns:
        what is called in place of these: ctypes callbacks by symbols, which must stay
        alive.
    """
    callbacks: dict[str, object] = {}
    taken = [op.attributes["sym_name"].value for op in ops_in(module, "func.func")]
    prefix = unused_prefix("reduce_min_max_", taken)
    for calls in _groups(module, functions):
        name = f"{prefix}{len(callbacks)}"
        group = [function for _, function in calls]
        counts = _call_with_min_max(name, calls)
        positions = [
            np.arange(function.position, function.position + count)
            for function, count in zip(group, counts, strict=True)
        ]
        all_positions = np.concatenate(positions)
        # It is the same array in each call.
        all_positions.flags.writeable = False
        symbol = f"_mlir_ciface_{name}"
        callbacks[symbol] = _callback(group[0].reduce_min_max, all_positions)
        _declare(module, name, sum(counts))
        for call, _ in calls:
            call.erase()
    return callbacks


_Call = tuple[Any, MinMaxFunction]


def _groups(module: Any, functions: HostFunctions) -> Iterable[Sequence[_Call]]:
    """Calls in the same block that can record min/max with the same function."""
    groups: dict[tuple[Any, ...], list[_Call]] = {}
    for call in ops_in(module, "func.call"):
        function = functions.get(call.attributes["callee"].value)
        if isinstance(function, MinMaxFunction) and _has_min_max(call, function.axis):
            key = call.block, *_identity(function.reduce_min_max)
            groups.setdefault(key, []).append((call, function))
    return groups.values()


def _has_min_max(call: Any, axis: int | None) -> bool:
    """Whether compiled code can find the min/max of the argument of a call."""
    if len(call.operands) != 1:
        return False
    type_ = call.operands[0].type
    has_channels = axis is None or (0 <= axis < type_.rank and type_.shape[axis] > 0)
    return has_channels and str(type_.element_type) in _FLOATS


def _identity(function: _Record) -> tuple[int, ...]:
    """Distinguishes a function from all others, also from equal ones."""
    if isinstance(function, MethodType):
        # Each access to a method creates a new object.
        return id(function.__self__), id(function.__func__)
    return (id(function),)


def _callback(record: _Record, positions: NDArray[np.intp]) -> object:
    dtype = np.dtype(np.float64)

    def called(address: int) -> None:
        guarded(lambda: record(positions, array_at(address, 2, dtype)))

    return callback(called, 1)


# Ops


class _MinMax(NamedTuple):
    """Tensors of rank 0, or with the channels as their only dimension."""

    low: Any
    high: Any

    check: Any = None
    """
    NaN if a value is NaN or infinite, and 0 otherwise. It is not there if the check of
    another value is enough.
    """


def _call_with_min_max(name: str, calls: Sequence[_Call]) -> Sequence[int]:
    """
    Call a function with the min/max of the arguments of all calls in a block, at the end
    of the block; the number of channels of each call.
    """
    reductions: list[_MinMax] = []
    values = {call.operands[0] for call, _ in calls}
    for call, function in calls:
        with ir.InsertionPoint(call), call.location:
            is_checked = not _goes_into_one_of(values, call.operands[0])
            reductions.append(_reduction(call.operands[0], function.axis, is_checked))
    counts = [math.prod(reduction.low.type.shape) for reduction in reductions]
    last, _ = calls[-1]
    # Whatever can share a loop comes before the end of the block.
    with ir.InsertionPoint.at_block_terminator(last.block), last.location:
        # Bufferization takes very long for a tensor that changes many times.
        buffer = memref.alloc(_buffer_type(sum(counts)), [], [])
        _store_all(reductions, buffer)
        func.call([], name, [buffer])
    return counts


def _goes_into_one_of(values: Collection[Any], value: Any) -> bool:
    """Whether a value is a term or a factor of one of these."""
    no_fastmath = ir.Attribute.parse("#arith.fastmath<none>")
    return any(
        use.owner.name in ("arith.addf", "arith.subf", "arith.mulf")
        and use.owner.attributes["fastmath"] == no_fastmath
        and use.owner.results[0] in values
        for use in value.uses
    )


def _buffer_type(count: int) -> Any:
    return ir.MemRefType.get([2, count], ir.F64Type.get())


def _declare(module: Any, name: str, count: int) -> None:
    type_ = _buffer_type(count)
    with ir.InsertionPoint.at_block_begin(module.body):
        function = func.FuncOp(name, ([type_], []), visibility="private")
    function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()


def _store_all(reductions: Sequence[_MinMax], buffer: Any) -> None:
    """Store the min/max of all calls side by side."""
    start = 0
    for reduction in reductions:
        if not (shape := reduction.low.type.shape):
            _store_at(reduction, [], buffer, index(start))
        else:
            for channel in scf.for_(*shape):
                position = arith.addi(channel, index(start))
                _store_at(reduction, [channel], buffer, position)
                scf.yield_([])
        start += math.prod(shape)


def _store_at(
    reduction: _MinMax, channel: Sequence[Any], buffer: Any, position: Any
) -> None:
    low, high, *checks = (
        tensor.extract(value, channel) for value in reduction if value is not None
    )
    for row, value in enumerate((low, high)):
        for check in checks:
            is_nan = arith.cmpf(arith.CmpFPredicate.UNO, check, check)
            value = arith.select(is_nan, check, value)
        if value.type != (f64 := ir.F64Type.get()):
            value = arith.extf(f64, value)
        memref.store(value, buffer, [index(row), position])


_SHORT = 64
"""
In rows with fewer elements LLVM spends most of the time on their ends, which is more than
reading all values from memory once more.
"""


def _in_one_row(values: Any) -> Any:
    """
    Values in one dimension, if the last one is static and short, or if what computes them
    and what is computed of them has other loops, which cannot be shared.
    """
    shape = values.type.shape
    if len(shape) < 2 or is_dynamic(shape[-1]):
        return values
    ops = [use.owner for use in values.uses]
    if isinstance(values, ir.OpResult):
        ops.append(values.owner)
    has_own_loops = not any(op.name.startswith(("arith.", "math.")) for op in ops)
    if shape[-1] >= _SHORT and not has_own_loops:
        return values
    if values.type.has_static_shape:
        return reshaped(values, [math.prod(shape)])
    return reshaped(values, [reduce(arith.muli, sizes_of(values))])


def _reduction(values: Any, axis: int | None, is_checked: bool) -> _MinMax:
    if axis is None:
        values = _in_one_row(values)
    rank = values.type.rank
    f32, f64 = ir.F32Type.get(), ir.F64Type.get()
    type_ = f64 if values.type.element_type == f64 else f32
    sizes = [] if axis is None else [values.type.shape[axis]]
    starts = (math.inf, -math.inf, 0.0) if is_checked else (math.inf, -math.inf)
    kept = [] if axis is None else [ir.AffineExpr.get_dim(axis)]
    reduced = ir.AffineMap.get(rank, 0, kept)

    def body(arguments: Sequence[Any]) -> Sequence[Any]:
        value, *so_far = arguments
        if value.type != type_:
            value = arith.extf(type_, value)
        return _combined(value, *so_far)

    results = generic(
        [values],
        [filled(sizes, type_, start) for start in starts],
        [ir.AffineMap.get_identity(rank), *[reduced] * len(starts)],
        ["parallel" if i == axis else "reduction" for i in range(rank)],
        body,
    )
    return _MinMax(*results)


def _combined(value: Any, low: Any, high: Any, check: Any = None) -> Sequence[Any]:
    """What is known with one value more."""
    flags = arith.FastMathFlags
    # Vectors, which compute sums in another order, are one instruction each.
    any_order = {"fastmath": flags.nnan | flags.nsz}
    min_max = [
        arith.minnumf(low, value, **any_order),
        arith.maxnumf(high, value, **any_order),
    ]
    if check is None:
        return min_max
    zero = arith.constant(value.type, 0.0)
    product = arith.mulf(value, zero, fastmath=flags.contract)
    total = arith.addf(check, product, fastmath=flags.contract | flags.reassoc)
    return [*min_max, total]
