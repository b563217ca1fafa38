"""
Functions that compiled code calls: those of MLIR's own runtime library, and callbacks that
a user of compiled code adds.

No exception may propagate through compiled code. So the first one is kept, and raised when
the code has returned; until then no more callbacks run.
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
    # This takes a third of the time of an `__array_interface__`.
    bytes_type = ctypes.c_char * (0 if 0 in sizes else size * (last + 1))
    # NumPy's stubs do not have the memory of ctypes.
    memory = cast("memoryview", bytes_type.from_address(aligned + offset * size))
    return np.ndarray(sizes, dtype, memory, 0, [stride * size for stride in strides])


def array_at(descriptor: int, rank: int, dtype: DType) -> Array:
    """
    Return the array that the descriptor of a memref describes, read-only. Its memory is
    there until the callback returns.
    """
    array = _described_array(descriptor, rank, dtype)
    array.flags.writeable = False
    return array


def _unranked(item_size: int, memref: int) -> Array:
    # { rank, pointer to a descriptor }
    rank, descriptor = _words_at(memref, 2)
    return _described_array(descriptor, rank, np.dtype(f"V{item_size}"))


_MAX_DEPTH = 32
"""How many calls of compiled code there may be inside each other."""

_VERIFICATION = "ERROR: Runtime op verification failed"


class _Thread(threading.local):
    """What a thread must know while it runs compiled code."""

    failure: str | BaseException | None = None

    depth: int = 0
    """How many calls of compiled code have not returned yet."""

    is_muted: bool = False


_thread = _Thread()


def _keep(failure: str | BaseException) -> None:
    if _thread.failure is None:
        _thread.failure = failure


def _memref_copy(item_size: int, source: int, target: int) -> None:
    # Python would print what is raised here, and go on.
    try:
        _unranked(item_size, target)[...] = _unranked(item_size, source)
    except Exception as e:
        _keep(f"sizes or indices do not fit each other: {e}")
    except BaseException as e:
        _keep(e)


def _note_failure(message: bytes) -> None:
    text = message.decode()
    if text.startswith(_VERIFICATION):
        # Of what MLIR says, the second line is the reason.
        reason = text.splitlines()[1].removeprefix("^ ")
        text = f"sizes or indices do not fit each other: {reason}"
    _keep(text)


def begin(name: str) -> None:
    """
    Note that compiled code is called.

    Raises:
        RecursionError: if it is called from functions that it calls, again and again.
    """
    # Where Python itself has no room left, an exception in a callback would be lost.
    if _thread.depth == _MAX_DEPTH:
        raise RecursionError(
            f"'{name}' is called from a Python function that compiled code calls, in "
            f"{_MAX_DEPTH} levels"
        )
    _thread.depth += 1


def end() -> str | BaseException | None:
    """Note that compiled code has returned; the `failure` of the call."""
    _thread.depth -= 1
    return take_failure()


def take_failure() -> str | BaseException | None:
    """
    Why the last call of compiled code in this thread was given up, or what a function
    raised; asked only once.
    """
    found = _thread.failure
    _thread.failure = None
    return found


def guarded(function: Callable[[], object]) -> None:
    """Call a function from compiled code, unless there was a failure before."""
    if not _thread.is_muted and _thread.failure is None:
        attempt(function)


def attempt(function: Callable[[], object]) -> None:
    """Call a function from compiled code, and keep what it raises."""
    try:
        function()
    # An interruption, too, must not pass.
    except BaseException as e:
        _keep(e)


_callbacks_of_users: WeakSet[Callable[..., None]] = WeakSet()


def callback(function: Callable[..., None], argument_count: int) -> object:
    """
    Return a function as compiled code calls it, with addresses. It must be `guarded`
    inside.

    An interruption that comes before its first line is not lost, either.
    """
    _callbacks_of_users.add(function)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * argument_count)(function)


class _Hook:
    """
    Keeps an exception that ctypes tells of and ignores, as it came from a callback of a
    user. Of others the hook before tells.
    """

    def __init__(self, before: Callable[[sys.UnraisableHookArgs], object]):
        self._before = before

    def __call__(self, unraisable: sys.UnraisableHookArgs) -> None:
        function = unraisable.object
        # Others may have no hash.
        if isinstance(function, FunctionType) and function in _callbacks_of_users:
            _keep(unraisable.exc_value or KeyboardInterrupt())
        else:
            self._before(unraisable)


@contextmanager
def muted() -> Generator[None]:
    """Let compiled code of this thread run without calling the functions of a user."""
    _thread.is_muted = True
    try:
        yield
    finally:
        _thread.is_muted = False


FAIL = "xdsl_quant_fail"
"""The function that takes the message of an assertion that does not hold."""

_CALLBACKS = {
    "memrefCopy": ctypes.CFUNCTYPE(
        None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
    )(_memref_copy),
    FAIL: ctypes.CFUNCTYPE(None, ctypes.c_char_p)(_note_failure),
}


def _address(callback: object) -> int:
    # The types of pointers to functions are private.
    pointer = cast("ctypes.c_void_p", callback)
    address = ctypes.cast(pointer, ctypes.c_void_p).value
    assert address is not None
    return address


def addresses(more: Mapping[str, object]) -> dict[str, int]:
    """
    Return the addresses of the functions that code may call, by their names: those that
    all code may call, and `more` of them, callbacks of ctypes that must stay alive.
    """
    if more and not isinstance(sys.unraisablehook, _Hook):
        sys.unraisablehook = _Hook(sys.unraisablehook)
    return {name: _address(value) for name, value in {**_CALLBACKS, **more}.items()}


class _Engine(Protocol):
    def raw_register_runtime(self, name: str, callback: ctypes.c_void_p, /) -> None: ...


def register(engine: _Engine, more: Mapping[str, object]) -> None:
    """Let the code of an `ExecutionEngine` call the functions of `addresses`."""
    for name, address in addresses(more).items():
        engine.raw_register_runtime(name, ctypes.c_void_p(address))


# Threads

ThreadFunctions: TypeAlias = Mapping[str, tuple[int, Sequence[str]]]
"""For each name that code calls, its number of arguments and what threads call for it."""


_THREAD_CALLS = "xdsl_quant.execution.scheduling.thread_calls"


class CallsByThreads(Protocol):
    """Makes calls of functions by several threads."""

    @property
    def callbacks(self) -> Mapping[str, object]:
        """What the code calls: ctypes callbacks, by symbols."""
        ...

    def link(self, function: Callable[[str], Callable[[int], None]]) -> None:
        """Look for the functions by their names, once there is code."""


def thread_calls_of(functions: ThreadFunctions) -> CallsByThreads | None:
    """Return what makes the calls of several threads, if there are any."""
    if not functions:
        return None
    return import_module(_THREAD_CALLS).ThreadCalls(functions)
