"""
Calls of functions of Python that need no more than the ends of ranges: see
[`EndsFunction`][xdsl_quant.runtime.host_functions.EndsFunction].

Compiled code finds the smallest and the largest value while it computes the values. It
uses instructions that take no care of NaN, as these are the fastest. So it adds up the
products of all values with zero, too: the sum is NaN if a value is NaN or infinite, and
zero otherwise. It does not do so for terms and factors of a tensor whose ends are found for
the same call: where these are not finite, that is not either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MethodType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.runtime.host_functions import EndsFunction

from ..boundary import Boundary
from ..mlir_bindings import bindings, ops_in
from ..runtime_library import array_at, callback, guarded

_FLOATS = ("f16", "bf16", "f32", "f64")

_EndsCallback = Callable[[NDArray[np.intp], NDArray[np.float64]], object]


def have_ends(arguments: Sequence[Boundary], axis: int | None) -> bool:
    """Whether compiled code can find the ends of the range of an argument."""
    if len(arguments) != 1:
        return False
    shape = arguments[0].shape
    has_channels = axis is None or (0 <= axis < len(shape) and shape[axis] > 0)
    return has_channels and scalar_or_element_type(arguments[0].type_).name in _FLOATS


def find_ends(module: Any, functions: Mapping[str, EndsFunction]) -> dict[str, object]:
    """
    Let the code find ends of ranges in place of calling functions.

    Args:
        module: the module, which is changed.
        functions: the functions whose calls go.

    Returns:
        what is called in place of these: functions as ctypes has them, by symbols. They
        must stay alive.
    """
    callbacks: dict[str, object] = {}
    prefix = _unused_prefix(module)
    for calls in _groups(module, functions):
        group = [functions[call.attributes["callee"].value] for call in calls]
        name = f"{prefix}{len(callbacks)}"
        counts = _call_with_ends(name, calls, [function.axis for function in group])
        positions = [
            np.arange(function.position, function.position + count)
            for function, count in zip(group, counts, strict=True)
        ]
        all_positions = np.concatenate(positions)
        # It is the same array in each call.
        all_positions.flags.writeable = False
        symbol = f"_mlir_ciface_{name}"
        callbacks[symbol] = _callback(group[0].see_ends, all_positions)
        _declare(module, name, sum(counts))
        for call in calls:
            call.erase()
    for function in ops_in(module, "func.func"):
        if function.attributes["sym_name"].value in functions:
            function.erase()
    return callbacks


def _groups(
    module: Any, functions: Mapping[str, EndsFunction]
) -> Iterable[Sequence[Any]]:
    """Calls in the same block of functions with the same `see_ends`."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for call in ops_in(module, "func.call"):
        if (function := functions.get(call.attributes["callee"].value)) is not None:
            key = call.block, *_identity(function.see_ends)
            groups.setdefault(key, []).append(call)
    return groups.values()


def _identity(function: _EndsCallback) -> tuple[int, ...]:
    """What tells a function from others, also from others that are equal."""
    if isinstance(function, MethodType):
        # It is a new object whenever one asks for it.
        return id(function.__self__), id(function.__func__)
    return (id(function),)


def _unused_prefix(module: Any) -> str:
    """The beginning of names that no function has."""
    taken = [op.attributes["sym_name"].value for op in ops_in(module, "func.func")]
    prefix = "see_ends_"
    while any(name.startswith(prefix) for name in taken):
        prefix += "_"
    return prefix


def _callback(see_ends: _EndsCallback, positions: NDArray[np.intp]) -> object:
    dtype = np.dtype(np.float64)

    def called(address: int) -> None:
        guarded(lambda: see_ends(positions, array_at(address, 2, dtype)))

    return callback(called, 1)


# Ops


class _Ends(NamedTuple):
    """Tensors of rank 0, or with the channels as their only dimension."""

    low: Any

    high: Any

    check: Any = None
    """
    NaN if a value is NaN or infinite, and 0 otherwise. It is not there if the check of
    another value is enough.
    """


def _call_with_ends(
    name: str, calls: Sequence[Any], axes: Sequence[int | None]
) -> Sequence[int]:
    """
    Call a function with all ends behind the last of the calls in a block; the number of
    channels of each call.
    """
    ir, func, memref = bindings().ir, bindings().func, bindings().memref
    reductions: list[_Ends] = []
    values = {call.operands[0] for call in calls}
    for call, axis in zip(calls, axes, strict=True):
        with ir.InsertionPoint(call), call.location:
            is_checked = not _goes_into_one_of(values, call.operands[0])
            reductions.append(_reduction(call.operands[0], axis, is_checked))
    counts = [math.prod(reduction.low.type.shape) for reduction in reductions]
    last = calls[-1]
    # Whatever can share a loop comes before the end of the block.
    with ir.InsertionPoint.at_block_terminator(last.block), last.location:
        # Bufferization takes very long for a tensor that changes many times.
        ends = memref.alloc(_type_of_ends(sum(counts)), [], [])
        _store_all(reductions, ends)
        func.call([], name, [ends])
    return counts


def _goes_into_one_of(values: Collection[Any], value: Any) -> bool:
    """Whether a value is a term or a factor of one of these."""
    no_fastmath = bindings().ir.Attribute.parse("#arith.fastmath<none>")
    return any(
        use.owner.name in ("arith.addf", "arith.subf", "arith.mulf")
        and use.owner.attributes["fastmath"] == no_fastmath
        and use.owner.results[0] in values
        for use in value.uses
    )


def _type_of_ends(count: int) -> Any:
    ir = bindings().ir
    return ir.MemRefType.get([2, count], ir.F64Type.get())


def _declare(module: Any, name: str, count: int) -> None:
    ir, type_ = bindings().ir, _type_of_ends(count)
    with ir.InsertionPoint.at_block_begin(module.body):
        function = bindings().func.FuncOp(name, ([type_], []), visibility="private")
    function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()


def _store_all(reductions: Sequence[_Ends], ends: Any) -> None:
    """Store the ends of all calls side by side."""
    arith, scf = bindings().arith, bindings().scf
    by_count: dict[int, list[tuple[_Ends, int]]] = {}
    start = 0
    for reduction in reductions:
        shape = reduction.low.type.shape
        if shape:
            by_count.setdefault(shape[0], []).append((reduction, start))
        else:
            _store_at(reduction, [], ends, _index(start))
        start += math.prod(shape)
    for count, group in by_count.items():
        for channel in scf.for_(count):
            for reduction, start in group:
                position = arith.addi(channel, _index(start))
                _store_at(reduction, [channel], ends, position)
            scf.yield_([])


def _store_at(
    reduction: _Ends, channel: Sequence[Any], ends: Any, position: Any
) -> None:
    ir, arith, memref = bindings().ir, bindings().arith, bindings().memref
    low, high, *checks = (
        bindings().tensor.extract(value, channel)
        for value in reduction
        if value is not None
    )
    for row, value in enumerate((low, high)):
        for check in checks:
            is_nan = arith.cmpf(arith.CmpFPredicate.UNO, check, check)
            value = arith.select(is_nan, check, value)
        if value.type != (f64 := ir.F64Type.get()):
            value = arith.extf(f64, value)
        memref.store(value, ends, [_index(row), position])


def _index(number: int) -> Any:
    return bindings().arith.constant(bindings().ir.IndexType.get(), number)


def _reduction(values: Any, axis: int | None, is_checked: bool) -> _Ends:
    ir, arith, linalg = bindings().ir, bindings().arith, bindings().linalg
    rank = values.type.rank
    f32, f64 = ir.F32Type.get(), ir.F64Type.get()
    type_ = f64 if values.type.element_type == f64 else f32
    sizes = [] if axis is None else [values.type.get_dim_size(axis)]
    starts = (math.inf, -math.inf, 0.0) if is_checked else (math.inf, -math.inf)
    outs = [_filled(sizes, type_, start) for start in starts]
    identity = ir.AffineMap.get_identity(rank)
    kept = [] if axis is None else [ir.AffineExpr.get_dim(axis)]
    reduced = ir.AffineMap.get(rank, 0, kept)
    kinds = ("parallel" if i == axis else "reduction" for i in range(rank))
    generic = linalg.GenericOp(
        [out.type for out in outs],
        [values],
        outs,
        ir.ArrayAttr.get(
            [ir.AffineMapAttr.get(m) for m in (identity, *[reduced] * len(outs))]
        ),
        ir.ArrayAttr.get(
            [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
        ),
    )
    elements = [values.type.element_type, *[type_] * len(outs)]
    block = generic.regions[0].blocks.append(
        *elements, arg_locs=[generic.location] * len(elements)
    )
    with ir.InsertionPoint(block):
        value, *sofar = block.arguments
        if value.type != type_:
            value = arith.extf(type_, value)
        linalg.YieldOp(_combined(value, *sofar))
    return _Ends(*generic.results)


def _combined(value: Any, low: Any, high: Any, check: Any = None) -> Sequence[Any]:
    """What is known with one value more."""
    arith = bindings().arith
    flags = arith.FastMathFlags
    # Vectors, which compute sums in another order, are one instruction each.
    extremes = {"fastmath": flags.nnan | flags.nsz}
    ends = [
        arith.minnumf(low, value, **extremes),
        arith.maxnumf(high, value, **extremes),
    ]
    if check is None:
        return ends
    zero = arith.constant(value.type, 0.0)
    product = arith.mulf(value, zero, fastmath=flags.contract)
    total = arith.addf(check, product, fastmath=flags.contract | flags.reassoc)
    return [*ends, total]


def _filled(sizes: Sequence[int], type_: Any, start: float) -> Any:
    empty = bindings().tensor.empty(sizes, type_)
    return bindings().linalg.fill(bindings().arith.constant(type_, start), outs=[empty])
