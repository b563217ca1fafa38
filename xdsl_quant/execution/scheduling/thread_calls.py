"""Functions of compiled code that threads of Python call at the same time."""

import ctypes
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import Condition

from ..runtime_library import ThreadFunctions, attempt, callback


class ThreadCalls:
    """Calls that are made by several threads, each with a function of its own."""

    callbacks: Mapping[str, object]
    """What makes them: ctypes callbacks, by symbols."""

    def __init__(self, functions: ThreadFunctions):
        """
        Args:
            functions: for each function that calls others, and returns when all of these
                have returned: the number of its arguments, memrefs, and the names of the
                others, which have the same arguments and no results.
        """
        self._functions = functions
        self._linked: dict[str, Callable[[int], None]] = {}
        self.callbacks = {
            f"_mlir_ciface_{name}": callback(self._caller(names), argument_count)
            for name, (argument_count, names) in functions.items()
        }

    def _caller(self, names: Sequence[str]) -> Callable[..., None]:
        def called(*descriptors: int) -> None:
            attempt(lambda: self._call(names, descriptors))

        return called

    def link(self, function: Callable[[str], Callable[[int], None]]) -> None:
        """Look for the functions by their names, once there is code."""
        for _, names in self._functions.values():
            self._linked |= {name: function(name) for name in names}

    def _call(self, names: Sequence[str], descriptors: Sequence[int]) -> None:
        count = len(descriptors)
        # The addresses of pointers, and the pointers.
        words = (ctypes.c_int64 * (2 * count))()
        address = ctypes.addressof(words)
        size = ctypes.sizeof(ctypes.c_int64)
        words[:] = [address + size * (count + i) for i in range(count)] + [*descriptors]
        functions = [self._linked[name] for name in names]
        work = _Work(functions, address)
        try:
            # Without other threads, as at the end of the process, the caller does it all.
            with suppress(RuntimeError):
                pool = _pool(os.getpid(), len(functions) - 1)
                for _ in functions[1:]:
                    pool.submit(work.help)
            work.do()
        finally:
            work.wait()


class _Work:
    """Functions that are called by the caller and those who help."""

    def __init__(self, functions: Sequence[Callable[[int], None]], address: int):
        self._todo = deque(functions)
        self._address = address
        self._changed = Condition()
        self._helpers = 0

    def do(self) -> None:
        """Call the functions that nobody has called yet."""
        with suppress(IndexError):
            while True:
                self._todo.popleft()(self._address)

    def help(self) -> None:
        """The same in another thread. Who comes too late finds nothing left to do."""
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
        Wait until nobody helps: until then the memory of the caller is used. After an
        interruption, what is left is not done.
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
    """
    Return the threads of a process. After a fork there are none, so it needs its own.
    """
    return ThreadPoolExecutor(size, f"xdsl_quant_{process}")
