"""
Copy functions so that each call has its own parameters during propagation, and merge
copies with the same specifications afterwards. A function with external callers keeps
an extra copy, whose arguments are unknown.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.diagnostics import location_prefix, warn
from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.dialects.quant.types import QuantizedType

from ..module_kernels import kernels_of, ops_outside_kernels
from ..port_ranges import PORT_STATS

_PRIVATE = StringAttr("private")


@dataclass
class SeparatedCalls:
    """Calls whose callee has no other caller."""

    calls: dict[CallOp, FuncOp] = field(default_factory=dict[CallOp, FuncOp])
    roots: dict[FuncOp, FuncOp] = field(default_factory=dict[FuncOp, FuncOp])
    """Original of each called function; an original maps to itself."""

    @contextmanager
    def undone_if_failed(self) -> Generator[None]:
        """Remove all copies if the body of the `with` statement raises."""
        try:
            yield
        except BaseException:
            for call, callee in self.calls.items():
                call.callee = SymbolRefAttr(self.roots[callee].sym_name)
            for function, root in self.roots.items():
                if function is not root:
                    Rewriter.erase_op(function)
            raise


def separate_calls(module: ModuleOp) -> SeparatedCalls:
    """
    Copy functions so that each has a single caller. If a function may be called from
    outside (not private, or used by other ops), all calls use copies. Recursive
    functions and their callees are not copied; their arguments are unknown.
    """
    functions = {
        op.sym_name.data: op
        for op in module.body.block.ops
        if isinstance(op, FuncOp) and not op.is_declaration
    }
    separated = SeparatedCalls()
    queue = _callers_first(functions)
    known = {*queue}
    called_elsewhere = _called_elsewhere(module, functions)
    # The loop appends copies to the list, since they contain calls themselves.
    for caller in queue:
        for call in _calls(caller):
            callee = functions.get(call.callee.string_value())
            if callee is None or callee not in known:
                continue
            root = callee
            if callee in separated.roots or callee in called_elsewhere:
                callee = _copy_function(callee, functions)
                call.callee = SymbolRefAttr(callee.sym_name)
                queue.append(callee)
            separated.calls[call] = callee
            separated.roots[callee] = root
    return separated


def _calls(function: FuncOp) -> Sequence[CallOp]:
    return [op for op in ops_outside_kernels(function) if isinstance(op, CallOp)]


def _called_elsewhere(module: ModuleOp, functions: Mapping[str, FuncOp]) -> set[FuncOp]:
    """Return the functions that may have callers other than calls in the module."""
    names = {name for name, op in functions.items() if op.sym_visibility != _PRIVATE}
    if len(names) < len(functions):
        names.update(
            name
            for op in module.walk()
            if not isinstance(op, CallOp)
            for attribute in (*op.attributes.values(), *op.properties.values())
            for name in _symbols(attribute)
        )
    return {functions[name] for name in names if name in functions}


def _symbols(attribute: Attribute) -> Iterator[str]:
    match attribute:
        case SymbolRefAttr():
            yield attribute.string_value()
        case ArrayAttr() | DictionaryAttr():
            inner = attribute.data
            for each in inner.values() if isinstance(inner, Mapping) else inner:
                yield from _symbols(each)
        case _:
            pass


def _callers_first(functions: Mapping[str, FuncOp]) -> list[FuncOp]:
    """Return the functions that no recursive function reaches, callers first."""
    callees = {
        function: [
            callee
            for call in _calls(function)
            if (callee := functions.get(call.callee.string_value())) is not None
        ]
        for function in functions.values()
    }
    # A function is appended after all of its callers, so never if it is in a cycle.
    waiting_for = Counter(chain.from_iterable(callees.values()))
    order = [function for function in callees if not waiting_for[function]]
    for caller in order:
        for callee in callees[caller]:
            waiting_for[callee] -= 1
            if not waiting_for[callee]:
                order.append(callee)
    return order


def _copy_function(function: FuncOp, functions: dict[str, FuncOp]) -> FuncOp:
    """Insert a private copy after a function, named with the first free number."""
    name, number = function.sym_name.data, 0
    while f"{name}_{number}" in functions:
        number += 1
    copy = function.clone()
    copy.sym_name = StringAttr(f"{name}_{number}")
    copy.sym_visibility = _PRIVATE
    functions[copy.sym_name.data] = copy
    Rewriter.insert_op(copy, InsertPoint.after(function))
    return copy


def merge_copies(separated: SeparatedCalls) -> Mapping[FuncOp, FuncOp]:
    """
    Merge copies of a function that have equal specifications, also with the original.
    Return the remaining copies, each mapped to its original.
    """
    merged: dict[FuncOp, FuncOp] = {}
    by_specs: dict[object, FuncOp] = {}

    def merge(function: FuncOp) -> FuncOp:
        if function not in merged:
            root = separated.roots.get(function, function)
            if root is not function:
                # Prefer the original to a copy.
                merge(root)
            key: list[object] = [root]
            for op in function.walk():
                if isinstance(op, RegionOp):
                    key += [op.input_specs, op.output_specs]
                    key.append(op.attributes.get(PORT_STATS))
                elif isinstance(op, CallOp) and op in separated.calls:
                    callee = merge(separated.calls[op])
                    op.callee = SymbolRefAttr(callee.sym_name)
                    key.append(callee)
            merged[function] = by_specs.setdefault(tuple(key), function)
        return merged[function]

    for call, callee in separated.calls.items():
        call.callee = SymbolRefAttr(merge(callee).sym_name)
    for function, representative in merged.items():
        if function is not representative:
            Rewriter.erase_op(function)
    return {
        function: root
        for function, root in separated.roots.items()
        if root is not function and merged[function] is function
    }


def warn_of_public_functions(copies: Mapping[FuncOp, FuncOp]) -> None:
    """
    Warn on standard error about functions that have external callers and fewer quantized
    ports than their copies. `copies` maps each copy to its original.
    """
    known = {
        function: sum(
            isinstance(spec, QuantizedType)
            for op in kernels_of(function)
            for spec in op.specs
        )
        for function in (*copies, *copies.values())
    }
    warned = {root: None for copy, root in copies.items() if known[root] < known[copy]}
    remedy = "make it private, or add statistics of its arguments"
    for function in warned:
        warn(
            f"public function '{function.sym_name.data}' ignores the constraints of its "
            f"calls, which use a copy; {remedy}",
            location_prefix(function.location),
        )
