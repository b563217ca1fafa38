"""Machine code that is taken from the cache, or compiled and kept there."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from xdsl_quant.runtime.host_functions import HostFunctions

from . import disk_cache, runtime_library
from .cpu import CodeOptions
from .llvm_library import LinkedObject, LinkError
from .runtime_library import thread_calls_of

if TYPE_CHECKING:
    from .clock_reads import ClockReads
    from .machine_code import MachineCode


class StoredCode:
    """Functions that another process compiled: see `MachineCode`."""

    def __init__(self, entry: disk_cache.Entry, names: Sequence[str]):
        """
        Raises:
            LinkError: if LLVM does not link them.
        """
        self.can_stream: bool = entry.header["can_stream"]
        self.has_sizes_of_shapes: bool = entry.header["has_sizes_of_shapes"]
        self.temporary_bytes: int = entry.header["temporary_bytes"]
        # They must stay alive.
        self._thread_calls = calls = thread_calls_of(entry.header["thread_functions"])
        addresses = runtime_library.addresses(calls.callbacks if calls else {})
        self._object = LinkedObject(entry.content, addresses)
        for name in names:
            self._address(name)
        if calls:
            calls.link(self.function)

    def _address(self, name: str) -> int:
        return self._object.address(f"_mlir__mlir_ciface_{name}")

    def function(self, name: str) -> Callable[[int], None]:
        """A function, as of `MachineCode`."""
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._address(name))


def code_of(
    text: str,
    names: Sequence[str],
    options: CodeOptions,
    host_functions: HostFunctions | None = None,
    callbacks: Mapping[str, object] | None = None,
    clock: ClockReads | None = None,
) -> MachineCode | StoredCode:
    """
    The code of a module. The arguments are those of `MachineCode`. What calls Python or
    reads the clock is compiled anew.

    Raises:
        CompilationError: if MLIR does not compile the module.
        ImportError: if MLIR is not installed.
    """
    # Not every process may use what the machine has.
    machine = options.cpu.name, options.cpu.has_tiles
    others = options.schedule, machine, options.threads, options.stream
    key = None
    if not host_functions and clock is None:
        key = disk_cache.key_of("code", text, names, *others)
    if key and (entry := disk_cache.read(key)):
        with suppress(LinkError):
            return StoredCode(entry, names)
    # Needs the extra `mlir`, which code from the cache does not.
    from .machine_code import MachineCode

    code = MachineCode(
        text, names, options, host_functions or {}, callbacks or {}, clock
    )
    if key and code.is_complete and not code.calls_python:
        header = {
            "can_stream": code.can_stream,
            "has_sizes_of_shapes": code.has_sizes_of_shapes,
            "temporary_bytes": code.temporary_bytes,
            "thread_functions": code.thread_functions,
        }
        disk_cache.write(key, disk_cache.Entry(header, code.object_code()))
    return code
