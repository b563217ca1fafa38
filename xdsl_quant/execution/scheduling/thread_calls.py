"""Concurrent calls of compiled functions by Python threads."""

import ctypes
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import Condition

from ..runtime_library import ThreadFunctions, call_and_keep_failure, callback


class ThreadCalls:
    """Dispatcher that calls groups of functions on several threads."""

    callbacks: Mapping[str, object]
    """Ctypes callbacks that dispatch the calls, by symbol."""

    def __init__(self, functions: ThreadFunctions):
        """
        Register functions by the symbol that code calls to run them. They return
        nothing and get the memrefs of that call, which waits for all of them.
        """
        self._functions = functions
        self._linked: dict[str, Callable[[int], None]] = {}
        self.callbacks = {
            f"_mlir_ciface_{name}": callback(self._caller(names), argument_count)
            for name, (argument_count, names) in functions.items()
        }

    def _caller(self, names: Sequence[str]) -> Callable[..., None]:
        def called(*descriptors: int) -> None:
            call_and_keep_failure(lambda: self._call(names, descriptors))

        return called

    def link(self, function: Callable[[str], Callable[[int], None]]) -> None:
        """Look up the compiled functions to dispatch; `function` returns one by name."""
        for _, names in self._functions.values():
            self._linked |= {name: function(name) for name in names}

    def _call(self, names: Sequence[str], descriptors: Sequence[int]) -> None:
        count = len(descriptors)
        # First the address of each pointer, then the pointers.
        words = (ctypes.c_int64 * (2 * count))()
        address = ctypes.addressof(words)
        size = ctypes.sizeof(ctypes.c_int64)
        words[:] = [address + size * (count + i) for i in range(count)] + [*descriptors]
        functions = [self._linked[name] for name in names]
        work = _Work(functions, address)
        try:
            # At process exit no threads can be started, and the caller does all the
            # work.
            with suppress(RuntimeError):
                pool = _pool(os.getpid(), len(functions) - 1)
                for _ in functions[1:]:
                    pool.submit(work.help)
            work.do()
        finally:
            work.wait()


class _Work:
    """Queue of functions that the caller and helper threads call."""

    def __init__(self, functions: Sequence[Callable[[int], None]], address: int):
        self._todo = deque(functions)
        self._address = address
        self._changed = Condition()
        self._helpers = 0

    def do(self) -> None:
        """Call functions until the queue is empty."""
        with suppress(IndexError):
            while True:
                self._todo.popleft()(self._address)

    def help(self) -> None:
        """Call functions in a helper thread, unless the queue is empty."""
        with self._changed:
            if not self._todo:
                return
            self._helpers += 1
        try:
            self.do()
        finally:
            with self._changed:
                self._helpers -= 1
                self._changed.notify_all()

    def wait(self) -> None:
        """
        Wait for all helpers, which use the caller's memory. After an interruption,
        discard the remaining functions.
        """
        try:
            with self._changed:
                self._todo.clear()
                self._changed.wait_for(lambda: not self._helpers)
        except BaseException:
            self.wait()
            raise


@cache
def _pool(process: int, size: int) -> ThreadPoolExecutor:
    """Return the thread pool of a process; a forked process needs its own."""
    return ThreadPoolExecutor(size, f"xdsl_quant_{process}")
