"""Functions of compiled code that threads of Python call at the same time."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any

from .mlir_bindings import func, ir
from .runtime_library import attempt, callback


class ThreadCalls:
    """Calls that are made by several threads, each with a function of its own."""

    callbacks: dict[str, object]
    """What makes them: ctypes callbacks, by symbols."""

    def __init__(self):
        self.callbacks = {}
        self._functions: dict[str, Callable[[int], None]] = {}
        self._names: list[str] = []

    def add(
        self, module: Any, name: str, types: Sequence[Any], functions: Sequence[Any]
    ) -> None:
        """
        Declare a function that calls others of its module, and returns when all of these
        have returned.

        Args:
            module: the module.
            name: that of the new function.
            types: those of its arguments, memrefs.
            functions: the others; they have the same arguments and no results.
        """
        with ir.InsertionPoint(module.body):
            type_ = ir.FunctionType.get(types, [])
            new = func.FuncOp(name, type_, visibility="private")
        for function in (new, *functions):
            function.attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
        for function in functions:
            del function.attributes["sym_visibility"]
        names = [function.attributes["sym_name"].value for function in functions]
        self._names += names

        def called(*descriptors: int) -> None:
            attempt(lambda: self._call(names, descriptors))

        self.callbacks[f"_mlir_ciface_{name}"] = callback(called, len(types))

    def link(self, function: Callable[[str], Callable[[int], None]]) -> None:
        """Look for the functions by their names, once there is code."""
        self._functions = {name: function(name) for name in self._names}

    def _call(self, names: Sequence[str], descriptors: Sequence[int]) -> None:
        count = len(descriptors)
        # The addresses of pointers, and the pointers.
        words = (ctypes.c_int64 * (2 * count))()
        address = ctypes.addressof(words)
        size = ctypes.sizeof(ctypes.c_int64)
        words[:] = [address + size * (count + i) for i in range(count)] + [*descriptors]
        first, *others = (self._functions[name] for name in names)
        pool = _pool(os.getpid(), len(others))
        calls = [pool.submit(function, address) for function in others]
        try:
            first(address)
        finally:
            _wait_for(calls)


@cache
def _pool(process: int, size: int) -> ThreadPoolExecutor:
    """The threads of a process. After a fork there are none, so it needs its own."""
    return ThreadPoolExecutor(size, f"xdsl_quant_{process}")


def _wait_for(calls: Sequence[Future[None]]) -> None:
    """Wait until calls have returned: until then they use the memory of the caller."""
    try:
        wait(calls)
    except BaseException:
        _wait_for(calls)
        raise
