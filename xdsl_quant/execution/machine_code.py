"""
Lowers tensors to machine code, with MLIR's passes and with rewrites between them for which
MLIR has no pass.
"""

import ctypes
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from xdsl_quant.runtime.host_functions import HostFunctions

from . import float_fixes, llvm_fixes, loop_fixes, runtime_library, tensor_fixes
from . import mlir_bindings as mlir
from .clock_reads import ClockReads
from .compilation_error import CompilationError
from .cpu import CodeOptions
from .mlir_bindings import ir
from .runtime_library import ThreadFunctions, thread_calls_of
from .schedule import Schedule, StepError, schedule_for
from .size_checks import check_sizes

_TO_ONE_FUNCTION = (
    # Of tensors that blocks pass on, bufferization frees some too early.
    "lift-cf-to-scf",
    "inline",
    "symbol-dce",
    "canonicalize",
)

_TO_LINALG = (
    "func.func(shape-to-shape-lowering)",
    "convert-shape-to-std",
    "func.func(convert-elementwise-to-linalg)",
    # What would be undefined if arguments had sizes that do not fit each other.
    "generate-runtime-verification{verbose-level=0}",
    "resolve-shaped-type-result-dims",
    "canonicalize",
    "cse",
    # One loop nest for what is computed in one go.
    "linalg-fuse-elementwise-ops",
    "canonicalize",
    "cse",
)

_TENSORS_TO_BUFFERS = (
    "one-shot-bufferize{bufferize-function-boundaries=true "
    "function-boundary-type-conversion=identity-layout-map "
    "allow-return-allocs-from-loops=true}",
    "canonicalize",
    "buffer-deallocation-pipeline",
    "canonicalize",
    "cse",
)

_BUFFERS_TO_LOOPS = ("func.func(convert-linalg-to-loops)", "lower-affine")

_TO_SUPPORTED_FLOATS = (
    # Arithmetic on bf16 becomes arithmetic on f32 with conversions.
    "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32}",
    "math-extend-to-supported-types{extra-types=f16 target-type=f32}",
)

_LOOPS_TO_LLVM = (
    "convert-vector-to-llvm",
    "convert-scf-to-cf",
    "expand-strided-metadata",
    "lower-affine",
    "convert-math-to-llvm",
    "convert-math-to-libm",
    # LLVM has minimum and maximum, but not all roundings of an integer division.
    "convert-arith-to-llvm",
    "arith-expand",
    "convert-arith-to-llvm",
    "convert-index-to-llvm",
    # LLVM does not know of what `malloc` returns and is aligned afterwards that nothing
    # else is there, and makes no vectors where a loop writes to it.
    "finalize-memref-to-llvm{use-aligned-alloc=true}",
    "convert-func-to-llvm",
    "convert-cf-to-llvm",
    "convert-ub-to-llvm",
    "canonicalize",
    "cse",
    "reconcile-unrealized-casts",
)

_lock = Lock()
"""Held while something is compiled."""


class MachineCode:
    """Functions of memrefs that are compiled in this process."""

    can_stream: bool
    """True if there is a result that the kernel streams if it is told to."""

    temporary_bytes: int
    """The bytes of intermediate values of static sizes that a call allocates."""

    has_sizes_of_shapes: bool
    """True if all but the kernel do the same for all arguments of the same shapes."""

    calls_python: bool
    """True if it calls Python functions of a user or those that record values."""

    thread_functions: ThreadFunctions
    """What several threads call."""

    is_complete: bool
    """True if no step of scheduling was left out because it failed."""

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
            text: the module.
            names: its public functions, the kernel first.
            options: how the code is generated.
            host_functions: the Python functions that the module calls, by name.
            callbacks: these as ctypes callbacks, by symbols.
            clock: what reads the clock in the kernel.

        Raises:
            CompilationError: if MLIR does not compile the module.
            ImportError: if MLIR is not installed.

        Warns:
            RuntimeWarning: if a step of scheduling fails and is left out.
        """
        schedule = schedule_for(names[0], host_functions, options)
        context = mlir.new_context()
        try:
            with _lock, context, ir.Location.unknown(context):
                module = self._lowered(text, names, schedule, clock)
                llvm_fixes.generate_for_cpu(module, options.cpu)
                self._keep(schedule, callbacks, clock)
                self._start(module, names)
                if self._thread_calls:
                    self._thread_calls.link(self.function)
        except mlir.MLIRError as e:
            raise CompilationError(f"MLIR: {mlir.first_diagnostic(e)}") from None

    def _lowered(
        self,
        text: str,
        names: Sequence[str],
        schedule: Schedule,
        clock: ClockReads | None,
    ) -> ir.Module:
        """
        Return a module of the LLVM dialect. If a step of scheduling fails, start again
        without it, as it leaves a module of no use, and warn.
        """
        while True:
            module = ir.Module.parse(text)
            try:
                _lower_tensors(module, schedule)
                mlir.run_passes(module, _BUFFERS_TO_LOOPS)
                self.has_sizes_of_shapes = loop_fixes.depends_on_shapes_alone(
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
                    "slower: please report the module",
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
        """Keep what code calls, and what is known of it."""
        self.thread_functions = schedule.thread_functions
        self._thread_calls = thread_calls_of(schedule.thread_functions)
        self._callbacks = {**callbacks, **schedule.callbacks}
        self.calls_python = bool(self._callbacks)
        if self._thread_calls:
            self._callbacks |= self._thread_calls.callbacks
        # Code writes to the memory of the times.
        self._clock = clock
        if clock:
            self._callbacks |= clock.callbacks
        self.can_stream = schedule.can_stream
        self.is_complete = not schedule.left_out

    def _start(self, module: ir.Module, names: Sequence[str]) -> None:
        """Let LLVM compile a module."""
        try:
            engine = mlir.new_engine(module)
            runtime_library.register(engine, self._callbacks)
            # The first look for a function compiles the module.
            for name in names:
                if not engine.raw_lookup(f"_mlir_ciface_{name}"):
                    raise CompilationError(
                        "LLVM does not find a function that the code calls"
                    )
        except RuntimeError as e:
            raise CompilationError(f"LLVM: {e}") from None
        self._engine = engine

    def object_code(self) -> bytes:
        """Return the file that LLVM generated: an ELF relocatable object."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "code.o")
            self._engine.dump_to_object_file(str(path))
            return path.read_bytes()

    def function(self, name: str) -> Callable[[int], None]:
        """
        Return a compiled function. It takes the address of an array with, for each
        argument, the address of a pointer to the descriptor of a memref.
        """
        address = self._engine.raw_lookup(f"_mlir_ciface_{name}")
        return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)


def _lower_tensors(module: ir.Module, schedule: Schedule) -> None:
    """Let a module of tensors be one of ops on memrefs."""
    tensor_fixes.check_has_no_llvm(module)
    # Inlining may leave out what is only needed to find sizes wrong.
    check_sizes(module)
    mlir.run_passes(module, _TO_ONE_FUNCTION)
    tensor_fixes.define_undefined_tensors(module)
    schedule.schedule_tensors(module)
    tensor_fixes.read_initial_values_as_inputs(module)
    mlir.run_passes(module, _TO_LINALG)
    schedule.schedule_fused(module)
    tensor_fixes.reshape_where_sizes_are_dynamic(module)
    tensor_fixes.copy_what_while_loops_carry(module)
    schedule.schedule_destinations(module)
    mlir.run_passes(module, _TENSORS_TO_BUFFERS)
    schedule.schedule_buffers(module)


def _lower_numbers(module: ir.Module, schedule: Schedule) -> None:
    """Let loops have the numbers and the arithmetic of the machine."""
    float_fixes.convert_integers_to_bf16(module)
    mlir.run_passes(module, _TO_SUPPORTED_FLOATS)
    schedule.schedule_loops(module)
    loop_fixes.check_divisions(module)
    float_fixes.call_libm(module)
    loop_fixes.store_whole_bytes(module)
    schedule.schedule_bytes(module)
    float_fixes.convert_floats_exactly(module)
    loop_fixes.keep_vectors_whole(module)


def _lower_loops(module: ir.Module, names: Sequence[str]) -> None:
    """Let a module of loops be one of the LLVM dialect."""
    loop_fixes.free_where_assertions_fail(module)
    mlir.run_passes(module, _LOOPS_TO_LLVM)
    llvm_fixes.check_is_llvm(module)
    llvm_fixes.move_bf16_as_integers(module)
    llvm_fixes.reduce_with_ordered_zeros(module)
    llvm_fixes.return_where_assertions_fail(module, names)
