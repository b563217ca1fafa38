"""Machine code and lowered modules in the disk cache."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from xdsl_quant import xdsl_patches
from xdsl_quant.dialects.quant import Quant
from xdsl_quant.runtime.host_functions import HostFunctions

from . import disk_cache, runtime_library
from .cpu import CodeOptions
from .entry_point import Boundary, EntryPoint
from .llvm_library import LinkedObject, LinkError
from .runtime_library import thread_calls_of

if TYPE_CHECKING:
    from .clock_reads import ClockReads
    from .machine_code import MachineCode


class StoredCode:
    """Functions loaded from the disk cache: see `MachineCode`."""

    def __init__(self, entry: disk_cache.Entry, names: Sequence[str]):
        """
        Link the code.

        Raises:
            LinkError: if LLVM cannot link it.
        """
        self.can_stream: bool = entry.header["can_stream"]
        self.sizes_depend_on_shapes: bool = entry.header["sizes_depend_on_shapes"]
        self.temporary_bytes: int = entry.header["temporary_bytes"]
        # Callbacks must stay alive.
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
        """Return a compiled function: see `MachineCode.function`."""
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
    Return the code of a module, from the cache unless the code calls Python or reads
    the clock. The arguments are those of `MachineCode`.

    Raises:
        CompilationError: if MLIR cannot compile the module.
        ImportError: if MLIR is not installed.
    """
    # The operating system may deny a process the machine's AMX tiles.
    machine = options.cpu.name, options.cpu.has_tiles
    others = options.schedule, machine, options.threads, options.stream
    key = None
    if not host_functions and clock is None:
        key = disk_cache.key_of("code", text, names, *others)
    if key and (entry := disk_cache.read(key)):
        with suppress(LinkError):
            return StoredCode(entry, names)
    # Import here: this needs the extra `mlir`, which cached code does not.
    from .machine_code import MachineCode

    code = MachineCode(
        text, names, options, host_functions or {}, callbacks or {}, clock
    )
    if key and code.is_complete and not code.calls_python:
        header = {
            "can_stream": code.can_stream,
            "sizes_depend_on_shapes": code.sizes_depend_on_shapes,
            "temporary_bytes": code.temporary_bytes,
            "thread_functions": code.thread_functions,
        }
        disk_cache.write(key, disk_cache.Entry(header, code.object_code()))
    return code


# Lowered modules


_PACKAGES = {"xdsl", "xdsl_quant"}
"""Packages whose versions are part of each cache key."""


class Lowered(NamedTuple):
    """Function lowered to MLIR text."""

    entry_point: EntryPoint

    text: str
    """MLIR text of the function and its callees."""


def read_lowered(key: str) -> Lowered | None:
    """Return the cached function of a key, with an empty module in its entry point."""
    if (entry := disk_cache.read(key)) is None:
        return None
    header = entry.header
    arguments, results = (
        [Boundary.of(type_, name) for type_ in _parsed_types(header[name])]
        for name in ("arguments", "results")
    )
    entry_point = EntryPoint(
        header["name"],
        ModuleOp([]),
        header["symbols"],
        arguments,
        results,
        {},
    )
    return Lowered(entry_point, entry.content.decode())


def write_lowered(key: str, lowered: Lowered) -> None:
    """Store a function, if the types of its signature survive printing and parsing."""
    entry_point, text = lowered
    signature = {
        "arguments": [str(b.type_) for b in entry_point.arguments],
        "results": [str(b.type_) for b in entry_point.results],
    }
    types = [b.type_ for b in (*entry_point.arguments, *entry_point.results)]
    try:
        if [
            *_parsed_types(signature["arguments"]),
            *_parsed_types(signature["results"]),
        ] != types:
            return
    except ParseError:
        return
    header = {
        "name": entry_point.name,
        "symbols": [*entry_point.symbols],
        **signature,
    }
    disk_cache.write(key, disk_cache.Entry(header, text.encode()))


def _parsed_types(texts: Iterable[str]) -> Iterator[Attribute]:
    xdsl_patches.apply("builtin")
    ctx = Context()
    for dialect in (Builtin, Quant):
        ctx.load_dialect(dialect)
    for text in texts:
        yield Parser(ctx, text).parse_type()


def is_known(module: ModuleOp) -> bool:
    """Return True if all ops of a module are defined by xDSL or this package."""
    types = {type(op) for op in module.walk()}
    return {type_.__module__.partition(".")[0] for type_ in types} <= _PACKAGES
