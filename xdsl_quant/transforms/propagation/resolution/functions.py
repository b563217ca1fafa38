"""
Functions that are called: each call has a copy of its own while constraints are looked at,
because its values may have other parameters. A function that others may call has one for
them, of whose arguments nothing is known. Copies that are equal in the end become one
again.
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

from ..module_kernels import kernels_of
from ..port_ranges import PORT_STATS

_PRIVATE = StringAttr("private")


@dataclass
class SeparatedCalls:
    """Calls of functions that are called nowhere else."""

    calls: dict[CallOp, FuncOp] = field(default_factory=dict[CallOp, FuncOp])
    roots: dict[FuncOp, FuncOp] = field(default_factory=dict[FuncOp, FuncOp])
    """All called functions: those that are copies with what they were copied from."""

    @contextmanager
    def undone_if_failed(self) -> Generator[None]:
        """A context in which an exception removes all copies."""
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
    Copy the functions of a module so that each is called once, or never if others may call
    it: it is not private, or another op than a call names it. A function that calls itself,
    also through others, and what it calls stay as they are: nothing is known of their
    arguments.
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
    # Copies are added while the list is read: they have calls of their own.
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
    return [op for op in function.walk() if isinstance(op, CallOp)]


def _called_elsewhere(module: ModuleOp, functions: Mapping[str, FuncOp]) -> set[FuncOp]:
    """Return the functions that others than the calls of a module may call."""
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
    """Return the functions that are not called by one that calls itself."""
    callees = {
        function: [
            callee
            for call in _calls(function)
            if (callee := functions.get(call.callee.string_value())) is not None
        ]
        for function in functions.values()
    }
    # A function is taken when all that call it were taken: none of a cycle ever is.
    waiting_for = Counter(chain.from_iterable(callees.values()))
    order = [function for function in callees if not waiting_for[function]]
    for caller in order:
        for callee in callees[caller]:
            waiting_for[callee] -= 1
            if not waiting_for[callee]:
                order.append(callee)
    return order


def _copy_function(function: FuncOp, functions: dict[str, FuncOp]) -> FuncOp:
    """
    Return a private copy of a function, after it, with the first name that is free.
    """
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
    Replace copies that have the specifications of another copy, or of the original.

    Returns:
        The copies that are left, with what they were copied from.
    """
    merged: dict[FuncOp, FuncOp] = {}
    kept: dict[object, FuncOp] = {}

    def merge(function: FuncOp) -> FuncOp:
        if function not in merged:
            root = separated.roots.get(function, function)
            if root is not function:
                # The original is kept rather than a copy.
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
            merged[function] = kept.setdefault(tuple(key), function)
        return merged[function]

    for call, callee in separated.calls.items():
        call.callee = SymbolRefAttr(merge(callee).sym_name)
    for function, other in merged.items():
        if function is not other:
            Rewriter.erase_op(function)
    return {
        function: root
        for function, root in separated.roots.items()
        if root is not function and merged[function] is function
    }


def warn_of_public_functions(copies: Mapping[FuncOp, FuncOp]) -> None:
    """
    Say on standard error which functions know less than their copies, because others may
    call them.

    Args:
        copies: functions with what they were copied from.
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
            f"public function '{function.sym_name.data}' does not get the constraints of "
            f"its calls, which take a copy; {remedy}",
            location_prefix(function.location),
        )
