"""Lowering of tensor modules to machine code by MLIR passes and rewrites."""

import ctypes
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from xdsl_quant.runtime.host_functions import HostFunctions
from xdsl_quant.runtime.plugins import dialect_ops

from . import float_fixes, llvm_fixes, loop_fixes, runtime_library, tensor_fixes
from . import mlir_bindings as mlir
from .clock_reads import ClockReads
from .compilation_error import CompilationError
from .cpu import CodeOptions
from .exponentials import expand_exponentials
from .float_reductions import mark_sums_in_lanes, reduce_floats_in_lanes
from .local_buffers import free_local_buffers, hide_local_buffers
from .mlir_bindings import ir
from .runtime_library import ThreadFunctions, thread_calls_of
from .schedule import Schedule, StepError, schedule_for
from .size_checks import check_sizes

_TO_ONE_FUNCTION = (
    # Otherwise bufferization frees some block arguments too early.
    "lift-cf-to-scf",
    "inline",
    "symbol-dce",
    "canonicalize",
)

_TO_LINALG = (
    "func.func(shape-to-shape-lowering)",
    "convert-shape-to-std",
    "func.func(convert-elementwise-to-linalg)",
    # Otherwise mismatched argument sizes are undefined behavior.
    "generate-runtime-verification{verbose-level=0}",
    "resolve-shaped-type-result-dims",
    "canonicalize",
    "cse",
    # Fuse elementwise ops into one loop nest.
    "linalg-fuse-elementwise-ops",
    "canonicalize",
    "cse",
)

_TENSORS_TO_BUFFERS = (
    "one-shot-bufferize{bufferize-function-boundaries=true "
    "function-boundary-type-conversion=identity-layout-map "
    "allow-return-allocs-from-loops=true}",
    "canonicalize",
)

_FREE_BUFFERS = ("buffer-deallocation-pipeline", "canonicalize", "cse")

_BUFFERS_TO_LOOPS = ("func.func(convert-linalg-to-loops)", "lower-affine")

_TO_SUPPORTED_FLOATS = (
    # Arithmetic on bf16 becomes arithmetic on f32 with conversions.
    "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32}",
    "math-extend-to-supported-types{extra-types=f16 target-type=f32}",
)

_LOOPS_TO_LLVM = (
    # Recursive functions return clones of buffers.
    "convert-bufferization-to-memref",
    "convert-vector-to-llvm",
    "convert-scf-to-cf",
    "expand-strided-metadata",
    "lower-affine",
    "convert-math-to-llvm",
    "convert-math-to-libm",
    # LLVM has min and max, so convert them before expanding rounded divisions.
    "convert-arith-to-llvm",
    "arith-expand",
    "convert-arith-to-llvm",
    "convert-index-to-llvm",
    # LLVM loses the no-alias property of `malloc` if the result is aligned afterwards,
    # and does not vectorize loops that write to the buffer.
    "finalize-memref-to-llvm{use-aligned-alloc=true}",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "convert-ub-to-llvm",
    "canonicalize",
    "cse",
    "reconcile-unrealized-casts",
)

_lock = Lock()
"""Lock that serializes compilations."""


class MachineCode:
    """Functions on memrefs, compiled in this process."""

    can_stream: bool
    """True if the kernel has a result that it can store with streaming stores."""

    temporary_bytes: int
    """Bytes of statically sized intermediate values that a call allocates."""

    sizes_depend_on_shapes: bool
    """True if all functions except the kernel depend only on argument shapes."""

    calls_python: bool
    """True if the code calls host functions, or callbacks that record min/max."""

    thread_functions: ThreadFunctions
    """Functions to run on several threads, by dispatch symbol."""

    is_complete: bool
    """True if all scheduling steps succeeded."""

    def __init__(
        self,
        text: str,
        names: Sequence[str],
        options: CodeOptions,
        host_functions: HostFunctions,
        callbacks: Mapping[str, object],
        clock: ClockReads | None = None,
    ):
        """
        Args:
            text: MLIR text of the module.
            names: names of the public functions, the kernel first.
            options: code generation options.
            host_functions: Python functions that the module calls, by name.
            callbacks: ctypes callbacks of the host functions, by symbol.
            clock: clock reads to insert into the kernel.

        Raises:
            CompilationError: if MLIR cannot compile the module.
            ImportError: if MLIR is not installed.

        Warns:
            RuntimeWarning: if a scheduling step fails and is skipped.
        """
        schedule = schedule_for(names[0], host_functions, options)
        context = mlir.new_context()
        try:
            with _lock, context, ir.Location.unknown(context):
                module = self._lowered(text, names, schedule, clock)
                llvm_fixes.generate_for_cpu(module, options.cpu)
                self._keep(schedule, callbacks, clock)
                self._compile(module, names)
                if self._thread_calls:
                    self._thread_calls.link(self.function)
        except mlir.MLIRError as e:
            message, place = mlir.first_diagnostic(e), mlir.first_location(e)
            raise CompilationError(f"MLIR: {message}", place) from None

    def _lowered(
        self,
        text: str,
        names: Sequence[str],
        schedule: Schedule,
        clock: ClockReads | None,
    ) -> ir.Module:
        """
        Return the module lowered to the LLVM dialect. If a scheduling step fails, the
        module is unusable: warn, and restart without the step.
        """
        while True:
            module = ir.Module.parse(text)
            try:
                _lower_tensors(module, schedule)
                mlir.run_passes(module, _BUFFERS_TO_LOOPS)
                self.sizes_depend_on_shapes = loop_fixes.depends_on_shapes_alone(
                    module, names[1:]
                )
                _lower_numbers(module, schedule)
                if clock:
                    clock.insert(module, names[0])
                schedule.schedule_kernel(module)
                self.temporary_bytes = loop_fixes.allocated_bytes(module, names[0])
                _lower_loops(module, names)
                schedule.schedule_llvm(module)
            except StepError as e:
                warnings.warn(
                    f"{e}; compiled code has the same results without it, but may be "
                    "slower; please report the module",
                    RuntimeWarning,
                    stacklevel=2,
                )
            else:
                return module

    def _keep(
        self,
        schedule: Schedule,
        callbacks: Mapping[str, object],
        clock: ClockReads | None,
    ) -> None:
        """Keep callbacks alive and record the properties of the code."""
        self.thread_functions = schedule.thread_functions
        self._thread_calls = thread_calls_of(schedule.thread_functions)
        self._callbacks = {**callbacks, **schedule.callbacks}
        self.calls_python = bool(self._callbacks)
        if self._thread_calls:
            self._callbacks |= self._thread_calls.callbacks
        # The code writes to the clock's array.
        self._clock = clock
        if clock:
            self._callbacks |= clock.callbacks
        self.can_stream = schedule.can_stream
        self.is_complete = not schedule.skipped_steps

    def _compile(self, module: ir.Module, names: Sequence[str]) -> None:
        try:
            engine = mlir.new_engine(module)
            runtime_library.register(engine, self._callbacks)
            # The first lookup compiles the module.
            for name in names:
                if not engine.raw_lookup(f"_mlir_ciface_{name}"):
                    raise CompilationError(
                        "LLVM: missing definition of a called function"
                    )
        except RuntimeError as e:
            raise CompilationError(f"LLVM: {e}") from None
        self._engine = engine

    def object_code(self) -> bytes:
        """Return the ELF relocatable object that LLVM generated."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "code.o")
            self._engine.dump_to_object_file(str(path))
            return path.read_bytes()

    def function(self, name: str) -> Callable[[int], None]:
        """
        Return a compiled function. It takes the address of an array that holds, for
        each argument, the address of a pointer to its memref descriptor.
        """
        address = self._engine.raw_lookup(f"_mlir_ciface_{name}")
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)


def scheduled_tensors(text: str, names: Sequence[str], options: CodeOptions) -> str:
    """
    Return the text of a module after the scheduling of its ops on tensors.

    Args:
        text: MLIR text of the module.
        names: names of the public functions, the kernel first.
        options: code generation options.

    Raises:
        StepError: if a scheduling step fails.
    """
    context = mlir.new_context()
    with _lock, context, ir.Location.unknown(context):
        module = ir.Module.parse(text)
        _schedule_tensors(module, schedule_for(names[0], {}, options))
        return str(module)


def _schedule_tensors(module: ir.Module, schedule: Schedule) -> None:
    tensor_fixes.check_has_no_llvm(module)
    dialects = {op.name.partition(".")[0] for op in mlir.ops_in(module)}
    for dialect in sorted(dialects):
        if passes := dialect_ops(dialect).mlir_passes:
            mlir.run_passes(module, passes)
    # Check first: inlining may remove ops that the checks need.
    check_sizes(module)
    mlir.run_passes(module, _TO_ONE_FUNCTION)
    tensor_fixes.define_undefined_tensors(module)
    mark_sums_in_lanes(module)
    schedule.schedule_tensors(module)


def _lower_tensors(module: ir.Module, schedule: Schedule) -> None:
    """Lower ops on tensors to ops on memrefs."""
    _schedule_tensors(module, schedule)
    tensor_fixes.read_initial_values_as_inputs(module)
    mlir.run_passes(module, _TO_LINALG)
    schedule.schedule_fused(module)
    tensor_fixes.reshape_dynamic_expansions(module)
    tensor_fixes.copy_loop_carried_tensors(module)
    schedule.schedule_destinations(module)
    mlir.run_passes(module, _TENSORS_TO_BUFFERS)
    hide_local_buffers(module)
    mlir.run_passes(module, _FREE_BUFFERS)
    free_local_buffers(module)
    schedule.schedule_buffers(module)


def _lower_numbers(module: ir.Module, schedule: Schedule) -> None:
    """Lower number types and arithmetic to types and ops that the machine supports."""
    float_fixes.convert_integers_to_bf16(module)
    mlir.run_passes(module, _TO_SUPPORTED_FLOATS)
    schedule.schedule_loops(module)
    expand_exponentials(module)
    reduce_floats_in_lanes(module)
    loop_fixes.check_divisions(module)
    float_fixes.call_libm(module)
    loop_fixes.store_whole_bytes(module)
    schedule.schedule_bytes(module)
    float_fixes.convert_floats_exactly(module)
    loop_fixes.disable_unsafe_vectorization(module)


def _lower_loops(module: ir.Module, names: Sequence[str]) -> None:
    """Lower loops to the LLVM dialect."""
    loop_fixes.free_where_assertions_fail(module)
    mlir.run_passes(module, _LOOPS_TO_LLVM)
    llvm_fixes.check_is_llvm(module)
    llvm_fixes.move_bf16_as_integers(module)
    llvm_fixes.reduce_with_ordered_zeros(module)
    llvm_fixes.return_where_assertions_fail(module, names)
    llvm_fixes.hide_functions(module)
