"""The places between the passes of a lowering where code is made fast."""

from importlib import import_module

from xdsl_quant.runtime.host_functions import HostFunctions

from . import mlir_bindings as mlir
from .cpu import CodeOptions
from .mlir_bindings import ir
from .runtime_library import ThreadFunctions


class StepError(Exception):
    """Raised when a step fails. The module is of no use then."""

    def __init__(self, step: str, error: Exception):
        reason = (
            f"invalid module, {mlir.first_diagnostic(error)}"
            if isinstance(error, mlir.MLIRError)
            else f"{type(error).__name__}: {error}"
        )
        super().__init__(f"scheduling step '{step}' failed: {reason}")


class Schedule:
    """
    The steps for one module; each method changes it at one level of its lowering. These
    do nothing.

    A step makes code fast and changes no number, so that the module can be compiled without
    it: methods raise a `StepError` if a step raises an error or makes the module invalid,
    and leave out the step when they are called again for the module as it was.
    """

    callbacks: dict[str, object]
    """What the module calls beside the given functions: ctypes callbacks, by symbols."""

    thread_functions: ThreadFunctions
    """What several threads call."""

    can_stream: bool
    """True if there is a result that the kernel streams if it is told to."""

    left_out: set[str]
    """The names of steps that failed. Methods skip them from then on."""

    def __init__(self):
        self.callbacks = {}
        self.thread_functions = {}
        self.can_stream = False
        self.left_out = set()

    def schedule_tensors(self, module: ir.Module) -> None:
        """Work on ops on tensors, before loops are fused."""

    def schedule_fused(self, module: ir.Module) -> None:
        """Work on ops on tensors, after loops are fused."""

    def schedule_destinations(self, module: ir.Module) -> None:
        """Work on ops on tensors, before bufferization."""

    def schedule_buffers(self, module: ir.Module) -> None:
        """Work on ops on memrefs, before they become loops."""

    def schedule_loops(self, module: ir.Module) -> None:
        """Work on loops, before they become branches."""

    def schedule_bytes(self, module: ir.Module) -> None:
        """Work on loops whose memory has whole bytes."""

    def schedule_kernel(self, module: ir.Module) -> None:
        """Work on the loops and buffers of the kernel, before they become LLVM's."""

    def schedule_llvm(self, module: ir.Module) -> None:
        """Work on functions of the LLVM dialect."""


_SCHEDULING = "xdsl_quant.execution.scheduling"


def schedule_for(
    kernel: str, functions: HostFunctions, options: CodeOptions
) -> Schedule:
    """
    Return the steps of `execution.scheduling`, if that is there and code is made fast.

    Args:
        kernel: the name of the function that writes the results.
        functions: the Python functions that the module calls, by name.
        options: how the code is generated.
    """
    if not options.schedule:
        return Schedule()
    try:
        import_module(_SCHEDULING)
    except ModuleNotFoundError as e:
        if e.name != _SCHEDULING:
            raise
        return Schedule()
    steps = import_module(f"{_SCHEDULING}.schedule")
    return steps.FastSchedule(kernel, functions, options)
