"""Scheduling hooks between the passes of a lowering."""

from xdsl_quant.runtime.host_functions import HostFunctions
from xdsl_quant.runtime.plugins import optional_module

from . import mlir_bindings as mlir
from .cpu import CodeOptions
from .mlir_bindings import ir
from .runtime_library import ThreadFunctions


class StepError(Exception):
    """Raised when a scheduling step fails, which makes the module unusable."""

    def __init__(self, step: str, error: Exception):
        reason = (
            f"invalid module, {mlir.first_diagnostic(error)}"
            if isinstance(error, mlir.MLIRError)
            else f"{type(error).__name__}: {error}"
        )
        super().__init__(f"scheduling step '{step}' failed: {reason}")


class Schedule:
    """
    Scheduling steps of one module; the methods of this base class do nothing.

    Each method rewrites the module at one level of its lowering. Steps optimize code
    without changing results, so they can be skipped: if a step fails, the method raises
    a `StepError` and skips the step from then on. Compilation restarts from the
    original module.
    """

    callbacks: dict[str, object]
    """Ctypes callbacks that scheduling adds to the module, by symbol."""

    thread_functions: ThreadFunctions
    """Functions to run on several threads, by dispatch symbol."""

    can_stream: bool
    """True if the kernel has a result that it can store with streaming stores."""

    skipped_steps: set[str]
    """Names of failed steps, which methods skip."""

    def __init__(self):
        self.callbacks = {}
        self.thread_functions = {}
        self.can_stream = False
        self.skipped_steps = set()

    def schedule_tensors(self, module: ir.Module) -> None:
        """Rewrite ops on tensors, before loop fusion."""

    def schedule_fused(self, module: ir.Module) -> None:
        """Rewrite ops on tensors, after loop fusion."""

    def schedule_destinations(self, module: ir.Module) -> None:
        """Rewrite ops on tensors, before bufferization."""

    def schedule_buffers(self, module: ir.Module) -> None:
        """Rewrite ops on memrefs, before they are lowered to loops."""

    def schedule_loops(self, module: ir.Module) -> None:
        """Rewrite structured loops."""

    def schedule_bytes(self, module: ir.Module) -> None:
        """Rewrite loops on memrefs whose elements are whole bytes."""

    def schedule_kernel(self, module: ir.Module) -> None:
        """Rewrite loops and buffers of the kernel, before they are lowered to LLVM."""

    def schedule_llvm(self, module: ir.Module) -> None:
        """Rewrite functions of the LLVM dialect."""


def schedule_for(
    kernel: str, functions: HostFunctions, options: CodeOptions
) -> Schedule:
    """Return the steps of `execution.scheduling`, or no steps without that package."""
    if not options.schedule:
        return Schedule()
    steps = optional_module("execution.scheduling.schedule")
    return steps.FastSchedule(kernel, functions, options) if steps else Schedule()
