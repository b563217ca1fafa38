"""Compiles a function of a module; the last results are cached."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp

from xdsl_quant import xdsl_patches
from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.rounding_mode import NanResult, Rounding, RoundingMode, ZeroPointOrder
from xdsl_quant.runtime.entry_function import check_function_name
from xdsl_quant.runtime.host_functions import HostFunctions, checked_host_functions
from xdsl_quant.runtime.loading import (
    IRError,
    as_module,
    is_model_file,
    read_model_file,
    verify_module,
)
from xdsl_quant.xdsl_patches.resources import resource_data

from . import disk_cache
from .compilation_error import CompilationError
from .compiled_function import CompiledFunction
from .cpu import CodeOptions, CpuName, cpu_named
from .entry_point import EntryWrapper
from .stored_code import Lowered, is_known, read_lowered, write_lowered

if TYPE_CHECKING:
    from .source_ops import Source

_MAX_CACHED = 256


class _Request(NamedTuple):
    """What is compiled of a module, and how."""

    entry: str | None
    rounding: Rounding
    fuse: bool
    code: CodeOptions

    def check(self) -> None:
        """
        Raises:
            TypeError: if an option has a wrong type.
            ValueError: if one has no such value.
        """
        if (mistake := self.rounding.mistake()) is not None:
            raise ValueError(mistake)
        check_function_name(self.entry, "entry")
        for option, value in (("fuse", self.fuse), ("schedule", self.code.schedule)):
            if not isinstance(cast(object, value), bool):
                raise TypeError(f"{option} must be True or False, not {value!r}")
        threads = self.code.threads
        if type(cast(object, threads)) is not int or threads < 1:
            raise ValueError(f"threads must be a positive int, not {threads!r}")


_Key = tuple[str, _Request, str]
"""A digest of the module, the request, and the path of a file, which is read again."""

_cache: OrderedDict[_Key, CompiledFunction] = OrderedDict()
"""The functions that were asked for last, the very last one at the end."""

_lock = Lock()


def compile(
    module: ModuleOp | str | Path,
    entry: str | None = None,
    *,
    rounding_mode: RoundingMode = "nearest-even",
    zero_point_order: ZeroPointOrder = "before-rounding",
    nan: NanResult = "storage-min",
    fuse: bool = True,
    schedule: bool = True,
    cpu: CpuName = "native",
    threads: int = 1,
    host_functions: HostFunctions | None = None,
) -> CompiledFunction:
    """
    Compile a function of a module, and all that it calls, to machine code.

    Casts are lowered by `lower-quant-ops`, each as it is written: a `quant.dcast` of a
    `quant.qcast` is computed and not folded away. The module may just as well be lowered
    already. Ops of `tfl` are lowered by `convert-tfl-to-linalg`; their state must be
    arguments and results: see [`StatefulFunction`][xdsl_quant.runtime.stateful_function].

    The last 256 results are kept, and the code for other processes in the folder
    `XDSL_QUANT_CACHE`, by default `~/.cache/xdsl-quant`. Any thread may call this.

    Args:
        module: a module or its text, in which all dialects that `xdsl-opt` finds may
            occur, or the path of a `.tflite` file, whose dynamic sizes become those for
            which it was written, mostly a batch size of 1: see
            [`read_tflite`][xdsl_quant.frontends.tflite.read_tflite]. It is not changed.
        entry: the name of the function; by default the only public one, or `main`.
        rounding_mode: how `lower-quant-ops` rounds. Its `truncate` is undefined for values
            that do not fit the storage type.
        zero_point_order: when `lower-quant-ops` adds the zero point.
        nan: what it makes of NaN in casts without an attribute `quant.nan`.
        fuse: whether each cast becomes one loop with its scales as constants.
        schedule: whether loops are made fast, which changes no number: contractions in
            tiles, stores past the cache, and min/max of values where these are computed.
        cpu: the instructions that code may use: all of this machine (`native`), or those
            of a CPU without some of them, which changes no number.
        threads: how many threads compute large products of 8-bit integers; others run in
            the thread of the call.
        host_functions: the Python functions that the module declares and calls: see
            [`host_functions`][xdsl_quant.runtime.host_functions]. Nothing is kept then.

    Raises:
        TypeError: if the module or another argument is something else.
        ValueError: if an option of the rounding or the CPU is unknown, or this machine
            has not all instructions of that CPU.
        CompilationError: if the module is invalid, has no such function, or contains what
            MLIR does not compile.
        ImportError: if MLIR, or a package for a type or a file, is not installed.

    Warns:
        RuntimeWarning: if a step of scheduling fails and is left out.
    """
    rounding = Rounding(rounding_mode, zero_point_order, nan)
    options = CodeOptions(schedule, cpu_named(cpu), threads)
    request = _Request(entry, rounding, fuse, options)
    request.check()
    return _cached_function(module, request, checked_host_functions(host_functions))


def _cached_function(
    module: ModuleOp | str | Path, request: _Request, host_functions: HostFunctions
) -> CompiledFunction:
    """Return a function, from the cache if it calls no Python."""
    path = str(module) if is_model_file(module) else ""
    if host_functions:
        digest = "" if isinstance(module, ModuleOp) else _module_digest(module)
        return _compile(module, digest, request, host_functions)
    key = _module_digest(module), request, path
    with _lock:
        if (known := _cache.pop(key, None)) is None:
            known = _compile(module, key[0], request, {})
        _cache[key] = known
        if len(_cache) > _MAX_CACHED:
            _cache.popitem(last=False)
    return known


def _compile(
    module: ModuleOp | str | Path,
    digest: str,
    request: _Request,
    host_functions: HostFunctions,
) -> CompiledFunction:
    # The caller may change the module that was given.
    given = module.clone() if isinstance(module, ModuleOp) else module

    @cache
    def load() -> ModuleOp:
        loaded = _loaded_module(given)
        if is_model_file(given) and _module_digest(given) != digest:
            raise CompilationError(
                f"{given}: error: the file has changed; compile it again"
            )
        return loaded

    def source() -> Source:
        # What is in the cache needs none of all that it imports.
        from .source_ops import Source

        entry, rounding, fuse, _ = request
        return Source(load, entry, host_functions.keys(), rounding, fuse)

    lowered = _lowered(source, digest, request, is_kept=not host_functions)
    return CompiledFunction(
        EntryWrapper(lowered.entry_point),
        lowered.text,
        lambda: source().numbered(),
        host_functions,
        request.code,
    )


def _lowered(
    source: Callable[[], Source], digest: str, request: _Request, *, is_kept: bool
) -> Lowered:
    """What is handed to MLIR, from the cache if it is there."""
    entry, rounding, fuse, _ = request
    stored = None
    if is_kept and xdsl_patches.are_on():
        stored = disk_cache.key_of("lowered", digest, repr(entry), rounding, fuse)
    if stored and (found := read_lowered(stored)):
        return found
    module = source().load()
    if not xdsl_patches.are_on():
        raise CompilationError(
            f"{location_prefix(module.location)}error: xDSL alone does not print all "
            f"constants as MLIR reads them{xdsl_patches.explanation()}"
        )
    entry_point = source().entry_point()
    lowered = Lowered(entry_point, source().lower(entry_point))
    if stored and is_known(module):
        write_lowered(stored, lowered)
    return lowered


def _module_digest(module: ModuleOp | str | Path) -> str:
    """Return a digest of all that is in a module, a text or a file."""
    if is_model_file(module):
        # If it is not there, loading says so.
        with suppress(OSError):
            content = Path(module).read_bytes()
            return f"file {sha256(content).hexdigest()}"
    digest = sha256(str(module).encode(errors="surrogatepass"))
    if isinstance(module, ModuleOp):
        for data in _resources(module):
            digest.update(data)
    return digest.hexdigest()


def _resources(module: ModuleOp) -> Iterator[bytes]:
    """Yield the data of constants that are printed as names."""
    for op in module.walk():
        for value in (*op.properties.values(), *op.attributes.values()):
            if isinstance(value, DenseResourceAttr):
                # If it is damaged, lowering says so.
                with suppress(ValueError):
                    yield resource_data(value) or b""


def _loaded_module(module: ModuleOp | str | Path) -> ModuleOp:
    try:
        if is_model_file(module):
            # Code needs to know the sizes of its operands.
            return read_model_file(module, static=True)
        loaded = as_module(module)
        if loaded is module:
            verify_module(loaded)
    except IRError as e:
        raise CompilationError(str(e)) from None
    return loaded
