"""
Functions that compiled code calls: those of MLIR's runtime library, and callbacks.

Exceptions must not propagate through compiled code. The first exception is stored and
raised after the code returns; until then, no more callbacks run.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FunctionType
from typing import Protocol, TypeAlias, cast
from weakref import WeakSet

import numpy as np

from xdsl_quant.numerics.arrays import Array, DType


def _words_at(address: int, count: int) -> list[int]:
    return (ctypes.c_int64 * count).from_address(address)[:]


def _described_array(descriptor: int, rank: int, dtype: DType) -> Array:
    # { allocated, aligned, offset, sizes, strides }
    _, aligned, offset, *rest = _words_at(descriptor, 3 + 2 * rank)
    sizes, strides = rest[:rank], rest[rank:]
    last = sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    size = dtype.itemsize
    # This takes a third of the time of `__array_interface__`.
    bytes_type = ctypes.c_char * (0 if 0 in sizes else size * (last + 1))
    # NumPy's stubs do not accept ctypes memory.
    memory = cast("memoryview", bytes_type.from_address(aligned + offset * size))
    return np.ndarray(sizes, dtype, memory, 0, [stride * size for stride in strides])


def array_at(descriptor: int, rank: int, dtype: DType) -> Array:
    """Return a read-only array on a memref; it is valid until the callback returns."""
    array = _described_array(descriptor, rank, dtype)
    array.flags.writeable = False
    return array


def _unranked(item_size: int, memref: int) -> Array:
    # { rank, pointer to a descriptor }
    rank, descriptor = _words_at(memref, 2)
    return _described_array(descriptor, rank, np.dtype(f"V{item_size}"))


_MAX_DEPTH = 32
"""Maximum nesting depth of compiled calls."""

_VERIFICATION = "ERROR: Runtime op verification failed"


class _Thread(threading.local):
    """State of a thread that runs compiled code."""

    failure: str | BaseException | None = None

    depth: int = 0
    """Number of compiled calls that have not returned yet."""

    is_muted: bool = False


_thread = _Thread()


def _keep(failure: str | BaseException) -> None:
    if _thread.failure is None:
        _thread.failure = failure


def _memref_copy(item_size: int, source: int, target: int) -> None:
    # ctypes would print an exception and continue.
    try:
        _unranked(item_size, target)[...] = _unranked(item_size, source)
    except Exception as e:
        _keep(f"invalid sizes or indices: {e}")
    except BaseException as e:
        _keep(e)


def _note_failure(message: bytes) -> None:
    text = message.decode()
    if text.startswith(_VERIFICATION):
        # The second line of MLIR's message is the reason.
        reason = text.splitlines()[1].removeprefix("^ ")
        text = f"invalid sizes or indices: {reason}"
    _keep(text)


def begin_call(name: str) -> None:
    """
    Enter a compiled call.

    Raises:
        RecursionError: if compiled calls are nested too deeply.
    """
    # At Python's own recursion limit, an exception in a callback would be lost.
    if _thread.depth == _MAX_DEPTH:
        raise RecursionError(
            f"maximum depth of {_MAX_DEPTH} nested compiled calls exceeded in '{name}'"
        )
    _thread.depth += 1


def end_call() -> str | BaseException | None:
    """Leave a compiled call and return its failure or `None`."""
    _thread.depth -= 1
    return take_failure()


def take_failure() -> str | BaseException | None:
    """Return and clear the failure of the last compiled call in this thread."""
    failure = _thread.failure
    _thread.failure = None
    return failure


def call_unless_failed(function: Callable[[], object]) -> None:
    """As `call_and_keep_failure`, unless a failure is pending or this thread is muted."""
    if not _thread.is_muted and _thread.failure is None:
        call_and_keep_failure(function)


def call_and_keep_failure(function: Callable[[], object]) -> None:
    """Call a Python function for compiled code, and store its exception."""
    try:
        function()
    # Interruptions must not propagate either.
    except BaseException as e:
        _keep(e)


_callbacks_of_users: WeakSet[Callable[..., None]] = WeakSet()


def callback(function: Callable[..., None], argument_count: int) -> object:
    """
    Return a ctypes callback that takes addresses. The function must use one of the two
    functions above; the unraisable hook stores interruptions that occur before that.
    """
    _callbacks_of_users.add(function)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * argument_count)(function)


class _Hook:
    """Unraisable hook that stores exceptions of callbacks and forwards all others."""

    def __init__(self, before: Callable[[sys.UnraisableHookArgs], object]):
        self._before = before

    def __call__(self, unraisable: sys.UnraisableHookArgs) -> None:
        function = unraisable.object
        # Other callables may be unhashable.
        if isinstance(function, FunctionType) and function in _callbacks_of_users:
            _keep(unraisable.exc_value or KeyboardInterrupt())
        else:
            self._before(unraisable)


@contextmanager
def mute_host_functions() -> Generator[None]:
    """Disable host functions in compiled code of this thread."""
    _thread.is_muted = True
    try:
        yield
    finally:
        _thread.is_muted = False


FAIL = "xdsl_quant_fail"
"""Symbol of the function that takes the message of a failed assertion."""

_CALLBACKS = {
    "memrefCopy": ctypes.CFUNCTYPE(
        None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
    )(_memref_copy),
    FAIL: ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_note_failure),
}


def _address(callback: object) -> int:
    # ctypes' function pointer types are private.
    pointer = cast("ctypes.c_void_p", callback)
    address = ctypes.cast(pointer, ctypes.c_void_p).value
    assert address is not None
    return address


def addresses(more: Mapping[str, object]) -> dict[str, int]:
    """
    Return the addresses of all functions that compiled code may call, by symbol. This
    includes the ctypes callbacks in `more`, which must stay alive.
    """
    if more and not isinstance(sys.unraisablehook, _Hook):
        sys.unraisablehook = _Hook(sys.unraisablehook)
    return {name: _address(value) for name, value in {**_CALLBACKS, **more}.items()}


class _Engine(Protocol):
    def raw_register_runtime(self, name: str, callback: ctypes.c_void_p, /) -> None: ...


def register(engine: _Engine, more: Mapping[str, object]) -> None:
    """Register the functions of `addresses` in an `ExecutionEngine`."""
    for name, address in addresses(more).items():
        engine.raw_register_runtime(name, ctypes.c_void_p(address))


# Threads

ThreadFunctions: TypeAlias = Mapping[str, tuple[int, Sequence[str]]]
"""Argument count and names of the functions that run on threads, by called symbol."""


_THREAD_CALLS = "xdsl_quant.execution.scheduling.thread_calls"


class CallsByThreads(Protocol):
    """Dispatcher that calls functions on several threads."""

    @property
    def callbacks(self) -> Mapping[str, object]:
        """Ctypes callbacks that the code calls, by symbol."""
        ...

    def link(self, function: Callable[[str], Callable[[int], None]]) -> None:
        """Look up the compiled functions to dispatch; `function` returns one by name."""


def thread_calls_of(functions: ThreadFunctions) -> CallsByThreads | None:
    """Return the dispatcher of functions, or `None` if there are none."""
    if not functions:
        return None
    return import_module(_THREAD_CALLS).ThreadCalls(functions)
