"""Compilation of a function of a module, with a cache of the latest results."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp

from xdsl_quant import xdsl_patches
from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.kernel_set import KernelSet
from xdsl_quant.rounding_mode import NanResult, Rounding, RoundingMode, ZeroPointOrder
from xdsl_quant.runtime.argument_shapes import with_argument_shapes
from xdsl_quant.runtime.entry_function import check_function_name
from xdsl_quant.runtime.host_functions import HostFunctions, checked_host_functions
from xdsl_quant.runtime.kernel_sets import check_kernel_set, select_kernels
from xdsl_quant.runtime.loading import (
    IRError,
    Model,
    as_module,
    model_path,
    verify_module,
)
from xdsl_quant.xdsl_patches.resources import ResourceData, resource_data

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
    """Entry point and options of a compilation."""

    entry: str | None
    rounding: Rounding
    fuse: bool
    code: CodeOptions
    kernels: KernelSet | None = None

    def check(self) -> None:
        """
        Validate the options.

        Raises:
            TypeError: if an option has a wrong type.
            ValueError: if an option has an unsupported value.
        """
        if (mistake := self.rounding.error_message()) is not None:
            raise ValueError(mistake)
        if self.kernels is not None:
            check_kernel_set(self.kernels)
        check_function_name(self.entry, "entry")
        for option, value in (("fuse", self.fuse), ("schedule", self.code.schedule)):
            if not isinstance(cast(object, value), bool):
                raise TypeError(f"{option} must be True or False, not {value!r}")
        threads = self.code.threads
        if type(cast(object, threads)) is not int or threads < 1:
            raise ValueError(f"threads must be a positive int, not {threads!r}")


_Key = tuple[str, _Request, str]
"""Digest of the module, request, path of a model file (empty for other modules)."""

_cache: OrderedDict[_Key, CompiledFunction] = OrderedDict()
"""Compiled functions, the least recently used first."""

_lock = Lock()


def compile(
    module: Model,
    entry: str | None = None,
    *,
    rounding_mode: RoundingMode = "nearest-even",
    zero_point_order: ZeroPointOrder = "before-rounding",
    nan: NanResult = "storage-min",
    kernels: KernelSet | None = None,
    fuse: bool = True,
    schedule: bool = True,
    cpu: CpuName = "native",
    threads: int = 1,
    host_functions: HostFunctions | None = None,
) -> CompiledFunction:
    """
    Compile a function of a module, and all functions that it calls, to machine code.

    `lower-quant-ops` lowers casts one by one: a `quant.dcast` of a `quant.qcast` is
    computed, not folded. `convert-tfl-to-linalg` lowers `tfl` ops; see
    [`StatefulFunction`][xdsl_quant.runtime.stateful_function] for `tfl` ops with state.
    Modules that are already lowered are supported too.

    The last 256 functions are cached in memory, and machine code also on disk, in the
    folder `XDSL_QUANT_CACHE` (default: `~/.cache/xdsl-quant`). Thread-safe.

    Args:
        module: a module, its text or bytes, or the path of a file; not modified. It
            may use every dialect that `xdsl-opt` loads. Dynamic sizes of the arguments
            of a TensorFlow Lite model are fixed to the sizes stored in its file, or 1:
            see [`read_tflite`][xdsl_quant.frontends.tflite.read_tflite].
        entry: function name; by default the only public function, or else `main`.
        rounding_mode: rounding mode of `lower-quant-ops`. With `truncate`, casts of
            values outside the storage type are undefined.
        zero_point_order: whether zero points are added before or after rounding.
        nan: result of casting NaN, for casts without an attribute `quant.nan`.
        kernels: kernels whose results ops have; see
            [`kernel_sets`][xdsl_quant.runtime.kernel_sets].
        fuse: whether to lower each cast to one loop with constant scales.
        schedule: whether to optimize the code beyond MLIR's passes.
        cpu: CPU features to use: those of this machine (`native`), or those of a named
            CPU with fewer features. Neither `cpu` nor `schedule` changes results.
        threads: number of threads for large matrix products of 8-bit integers.
        host_functions: Python functions that the module declares and calls: see
            [`host_functions`][xdsl_quant.runtime.host_functions]. Disables caching.

    Raises:
        TypeError: if an argument has a wrong type.
        ValueError: if an option is unsupported, or this machine lacks a CPU feature.
        CompilationError: if the module is invalid, lacks the function, or has
            unsupported ops.
        ImportError: if MLIR, or the package for a type or file format, is missing.

    Warns:
        RuntimeWarning: if a scheduling step fails and is skipped.
    """
    rounding = Rounding(rounding_mode, zero_point_order, nan)
    options = CodeOptions(schedule, cpu_named(cpu), threads)
    request = _Request(entry, rounding, fuse, options, kernels)
    request.check()
    return _cached_function(module, request, checked_host_functions(host_functions))


def _cached_function(
    module: Model, request: _Request, host_functions: HostFunctions
) -> CompiledFunction:
    """Return a compiled function, from the cache if it calls no host functions."""
    path = str(model_path(module) or "")
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
    module: Model, digest: str, request: _Request, host_functions: HostFunctions
) -> CompiledFunction:
    # The caller may modify the module later.
    given = module.clone() if isinstance(module, ModuleOp) else module

    @cache
    def load() -> ModuleOp:
        loaded = _loaded_module(given, request.entry)
        select_kernels(loaded, request.kernels)
        if model_path(given) is not None and _module_digest(given) != digest:
            raise CompilationError(
                f"{given}: error: the file has changed since compilation started; "
                "compile it again"
            )
        return loaded

    def source() -> Source:
        # Import here: a cached result does not need it.
        from .source_ops import Source

        entry, rounding, fuse, *_ = request
        return Source(load, entry, host_functions.keys(), rounding, fuse)

    lowered = _lowered(source, digest, request, is_kept=not host_functions)
    return CompiledFunction(
        EntryWrapper(lowered.entry_point),
        lowered.text,
        lambda: source().with_op_numbers(),
        host_functions,
        request.code,
    )


def _lowered(
    source: Callable[[], Source], digest: str, request: _Request, *, is_kept: bool
) -> Lowered:
    """Return the lowered function, from the disk cache if possible."""
    entry, rounding, fuse, _, kernels = request
    stored = None
    if is_kept and xdsl_patches.are_on():
        options = repr(entry), rounding, fuse, kernels
        stored = disk_cache.key_of("lowered", digest, *options)
    if stored and (cached := read_lowered(stored)):
        return cached
    module = source().load()
    if not xdsl_patches.are_on():
        raise CompilationError(
            f"{location_prefix(module.location)}error: unpatched xDSL does not print "
            f"all constants in MLIR's syntax{xdsl_patches.explanation()}"
        )
    entry_point = source().entry_point()
    lowered = Lowered(entry_point, source().lower(entry_point))
    if stored and is_known(module):
        write_lowered(stored, lowered)
    return lowered


def _module_digest(module: Model) -> str:
    """Return a digest of a file's content, a text, or a module and its resources."""
    if (path := model_path(module)) is not None:
        # Ignore a missing file here: loading reports it.
        with suppress(OSError):
            return f"file {sha256(path.read_bytes()).hexdigest()}"
    if isinstance(module, bytes):
        return f"bytes {sha256(module).hexdigest()}"
    digest = sha256(str(module).encode(errors="surrogatepass"))
    if isinstance(module, ModuleOp):
        for data in _resources(module):
            digest.update(data)
    return digest.hexdigest()


def _resources(module: ModuleOp) -> Iterator[ResourceData]:
    """Yield the data of `dense_resource` constants, which the text does not contain."""
    for op in module.walk():
        for value in (*op.properties.values(), *op.attributes.values()):
            if isinstance(value, DenseResourceAttr):
                # Ignore damaged data here: lowering reports it.
                with suppress(ValueError):
                    yield resource_data(value) or b""


def _loaded_module(module: Model, entry: str | None) -> ModuleOp:
    try:
        # Lowered ops need static operand sizes.
        loaded = as_module(module, static=True)
        if loaded is module:
            verify_module(loaded)
    except IRError as e:
        raise CompilationError(str(e)) from None
    try:
        return with_argument_shapes(loaded, entry)
    except ValueError:
        # Looking up the function reports it.
        return loaded
