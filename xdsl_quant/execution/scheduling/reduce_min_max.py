"""
Min/max reductions in compiled code, in place of calls of Python functions that record
ranges: see [`MinMaxFunction`][xdsl_quant.runtime.host_functions.MinMaxFunction].

The reductions are fused with the loops that compute the values. They use the fastest
instructions, which ignore NaN. A third reduction therefore multiplies all values by
zero and sums the products: it is NaN if a value is NaN or infinite, and zero otherwise.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.runtime.entry_function import unused_prefix
from xdsl_quant.runtime.host_functions import HostFunctions, MinMaxFunction

from .. import mlir_bindings as mlir
from ..building import index
from ..mlir_bindings import FieldValue, Values, arith, func, ir, memref, scf, tensor
from ..runtime_library import array_at, call_unless_failed, callback
from .generic_ops import build_generic, splat_tensor

_FLOATS = ("f16", "bf16", "f32", "f64")

_Record = Callable[[NDArray[np.intp], NDArray[np.float64]], object]


def reduce_min_max(module: ir.Module, functions: HostFunctions) -> dict[str, object]:
    """
    Replace calls of host functions by reductions if the functions need only the min/max.
    Return the ctypes callbacks that receive the min/max, by symbol; keep them alive.
    """
    callbacks: dict[str, object] = {}
    taken = [*map(mlir.symbol_of, mlir.ops_in(module, "func.func"))]
    prefix = unused_prefix("reduce_min_max_", taken)
    for calls in _call_groups(module, functions):
        name = f"{prefix}{len(callbacks)}"
        group = [function for _, function in calls]
        counts = _call_with_min_max(name, calls)
        positions = [
            np.arange(function.position, function.position + count)
            for function, count in zip(group, counts, strict=True)
        ]
        all_positions = np.concatenate(positions)
        # The callback passes the same array each time.
        all_positions.flags.writeable = False
        symbol = f"_mlir_ciface_{name}"
        callbacks[symbol] = _callback(group[0].reduce_min_max, all_positions)
        _declare_callback(module, name, sum(counts))
        for call, _ in calls:
            call.erase()
    return callbacks


_Call = tuple[ir.Operation, MinMaxFunction]


def _call_groups(
    module: ir.Module, functions: HostFunctions
) -> Iterable[Sequence[_Call]]:
    """Return the calls, grouped by block and by the function that records the range."""
    groups: dict[tuple[ir.Block, *tuple[int, ...]], list[_Call]] = {}
    for call in mlir.ops_in(module, "func.call"):
        function = functions.get(mlir.symbol_of(call, "callee"))
        if isinstance(function, MinMaxFunction) and _has_min_max(call, function.axis):
            key = call.block, *_identity(function.reduce_min_max)
            groups.setdefault(key, []).append((call, function))
    return groups.values()


def _has_min_max(call: ir.Operation, axis: int | None) -> bool:
    """Return True if compiled code can compute the min/max of the call's argument."""
    if len(call.operands) != 1:
        return False
    type_ = mlir.shaped_type(call.operands[0])
    has_channels = axis is None or (0 <= axis < type_.rank and type_.shape[axis] > 0)
    return has_channels and str(type_.element_type) in _FLOATS


def _identity(function: _Record) -> tuple[int, ...]:
    """Return a key that distinguishes functions by identity."""
    if isinstance(function, MethodType):
        # Each access to a method creates a new object.
        return id(function.__self__), id(function.__func__)
    return (id(function),)


def _callback(record: _Record, positions: NDArray[np.intp]) -> object:
    dtype = np.dtype(np.float64)

    def called(address: int) -> None:
        call_unless_failed(lambda: record(positions, array_at(address, 2, dtype)))

    return callback(called, 1)


# Ops


class _MinMax(NamedTuple):
    """Min/max of a whole tensor (rank 0) or per channel (rank 1)."""

    low: FieldValue
    high: FieldValue

    check: FieldValue
    """NaN if a value is NaN or infinite, 0 otherwise."""

    @property
    def shape(self) -> Sequence[int]:
        """Shape of the min/max: number of channels, or empty."""
        return mlir.shape(self.low)


def _call_with_min_max(name: str, calls: Sequence[_Call]) -> Sequence[int]:
    """
    Compute the min/max of the argument of each call, and pass all to the function
    `name` at the end of the block. Return the number of channels of each call.
    """
    reductions: list[_MinMax] = []
    for call, function in calls:
        with ir.InsertionPoint(call), call.location:
            reductions.append(_min_max_of(call.operands[0], function.axis))
    counts = [math.prod(reduction.shape) for reduction in reductions]
    last, _ = calls[-1]
    # All ops that can share a loop come before the end of the block.
    with ir.InsertionPoint.at_block_terminator(last.block), last.location:
        # Bufferization is slow for a tensor with many updates.
        buffer = memref.alloc(_buffer_type(sum(counts)), [], [])
        _store_all(reductions, buffer)
        func.call([], name, [buffer])
    return counts


def _buffer_type(count: int) -> ir.Type:
    return ir.MemRefType.get([2, count], ir.F64Type.get())


def _declare_callback(module: ir.Module, name: str, count: int) -> None:
    type_ = _buffer_type(count)
    with ir.InsertionPoint.at_block_begin(module.body):
        function = mlir.declare(name, [type_])
    function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()


def _store_all(reductions: Sequence[_MinMax], buffer: ir.Value) -> None:
    """Store the min/max of all calls in adjacent columns."""
    start = 0
    for reduction in reductions:
        if not reduction.shape:
            _store_at(reduction, [], buffer, index(start))
        else:
            (count,) = reduction.shape
            loop = scf.ForOp(index(0), index(count), index(1))
            with ir.InsertionPoint(mlir.body_of(loop)):
                channel = mlir.body_of(loop).arguments[0]
                position = arith.addi(channel, index(start))
                _store_at(reduction, [channel], buffer, position)
                scf.yield_([])
        start += math.prod(reduction.shape)


def _store_at(
    reduction: _MinMax, channel: Values, buffer: ir.Value, position: ir.Value
) -> None:
    low, high, check = (tensor.extract(value, channel) for value in reduction)
    for row, value in enumerate((low, high)):
        is_nan = arith.cmpf(arith.CmpFPredicate.UNO, check, check)
        value = arith.select(is_nan, check, value)
        if value.type != (f64 := ir.F64Type.get()):
            value = arith.extf(f64, value)
        memref.store(value, buffer, [index(row), position])


def _min_max_of(values: ir.Value, axis: int | None) -> _MinMax:
    tensor_type = mlir.shaped_type(values)
    rank = tensor_type.rank
    f32, f64 = ir.F32Type.get(), ir.F64Type.get()
    type_ = f64 if tensor_type.element_type == f64 else f32
    sizes = [] if axis is None else [tensor_type.shape[axis]]
    starts = math.inf, -math.inf, 0.0
    kept = [] if axis is None else [ir.AffineExpr.get_dim(axis)]
    reduced = mlir.affine_map(rank, kept)

    def body(arguments: Values) -> Values:
        value, *so_far = arguments
        if value.type != type_:
            value = arith.extf(type_, value)
        return _combined(value, *so_far)

    results = build_generic(
        [values],
        [splat_tensor(sizes, type_, start) for start in starts],
        [ir.AffineMap.get_identity(rank), *[reduced] * len(starts)],
        ["parallel" if i == axis else "reduction" for i in range(rank)],
        body,
    )
    return _MinMax(*results)


def _combined(
    value: ir.Value, low: ir.Value, high: ir.Value, check: ir.Value
) -> Values:
    """Return the accumulators after one more value."""
    flags = arith.FastMathFlags
    # Vector instructions may reorder the accumulation.
    any_order = flags.nnan | flags.nsz
    min_max = [
        arith.minnumf(low, value, fastmath=any_order),
        arith.maxnumf(high, value, fastmath=any_order),
    ]
    zero = arith.constant(value.type, 0.0)
    product = arith.mulf(value, zero, fastmath=flags.contract)
    total = arith.addf(check, product, fastmath=flags.contract | flags.reassoc)
    return [*min_max, total]
