"""The steps of scheduling, at the levels of a lowering at which they work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from xdsl_quant.runtime.host_functions import HostFunctions

from .. import mlir_bindings as mlir
from ..cpu import Cpu
from ..loop_fixes import look_up_whole_bytes
from ..mlir_bindings import ir
from ..thread_calls import ThreadCalls
from .byte_products import call_byte_products, keep_byte_products
from .channel_multipliers import merge_channels
from .constant_codes import decode_constants
from .constant_sums import fold_constant_sums
from .packed_codes import pack_constants
from .reduce_min_max import reduce_min_max
from .rounding_conversions import round_in_f32, round_while_converting
from .shared_loops import share_loops
from .small_loops import keep_small_loops_plain
from .streaming_stores import mark_results, stream_marked_results, streamable_ops
from .table_selections import select_from_tables
from .tiling import tile_contractions

_P = ParamSpec("_P")
_Result = TypeVar("_Result")

_STREAMING = "streaming_stores"
"""Steps at two levels, of which none works without the other."""


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
    The steps for one module; each method changes it at one level of its lowering.

    A step makes code fast and changes no number, so that the module can be compiled without
    it: methods raise a `StepError` if a step raises an error or makes the module invalid,
    and leave out the step when they are called again for the module as it was.
    """

    callbacks: dict[str, object]
    """What the module calls beside the given functions: ctypes callbacks, by symbols."""

    thread_calls: ThreadCalls
    """What several threads call."""

    can_stream: bool
    """Whether there is a result that the kernel streams if it is told to."""

    left_out: set[str]
    """The names of steps that failed. Methods skip them from then on."""

    def __init__(
        self,
        kernel: str,
        functions: HostFunctions,
        cpu: Cpu,
        *,
        stream: bool,
        threads: int,
    ):
        """
        Args:
            kernel: the name of the function that writes the results.
            functions: the Python functions that the module calls, by name.
            cpu: the instructions that there are.
            stream: whether the kernel streams results, where it can.
            threads: how many threads compute large products.
        """
        self.callbacks = {}
        self.thread_calls = ThreadCalls()
        self.can_stream = False
        self.left_out = set()
        self._kernel = kernel
        self._functions = functions
        self._cpu = cpu
        self._stream = stream
        self._threads = threads

    def schedule_tensors(self, module: ir.Module) -> None:
        """Work on ops on tensors, before loops are fused."""
        callbacks = self._run(reduce_min_max, module, self._functions)
        self.callbacks = callbacks or {}
        self._run(fold_constant_sums, module)
        if self._cpu.vnni_bits:
            self._run(merge_channels, module)
            self._run(keep_byte_products, module)
        self._run(tile_contractions, module)

    def schedule_fused(self, module: ir.Module) -> None:
        """Work on ops on tensors, after loops are fused."""
        if self.callbacks:
            self._run(share_loops, module)
            mlir.run_passes(module, ("canonicalize", "cse"))

    def schedule_buffers(self, module: ir.Module) -> None:
        """Work on ops on memrefs, before they become loops."""
        calls = self._run(call_byte_products, module, self._cpu, self._threads)
        self.thread_calls = calls or ThreadCalls()
        can_stream = self._run_as(_STREAMING, self._mark_streamable, module)
        self.can_stream = bool(can_stream)

    def _mark_streamable(self, module: ir.Module) -> bool:
        streamable = streamable_ops(module, self._kernel)
        if self._stream:
            mark_results(streamable)
        return bool(streamable)

    def schedule_loops(self, module: ir.Module) -> None:
        """Work on loops, before they become branches."""
        if self._stream:
            self._run_as(_STREAMING, stream_marked_results, module, self._kernel)
        self._run(round_while_converting, module)
        self._run(round_in_f32, module)

    def schedule_bytes(self, module: ir.Module) -> None:
        """Work on loops whose memory has whole bytes."""
        has_avx512 = "avx512f" in self._cpu.features
        if has_avx512:
            self._run(pack_constants, module)
        self._run(decode_constants, module)
        if has_avx512:
            self._run(select_from_tables, module)
        self._run(look_up_whole_bytes, module)

    def schedule_llvm(self, module: ir.Module) -> None:
        """Work on loops that nothing but LLVM changes any more."""
        # Such code is compiled for one use.
        if self._functions:
            self._run(keep_small_loops_plain, module)

    def _run(
        self,
        step: Callable[Concatenate[ir.Module, _P], _Result],
        module: ir.Module,
        *arguments: _P.args,
        **options: _P.kwargs,
    ) -> _Result | None:
        """Run a step under the name of its function."""
        return self._run_as(step.__name__, step, module, *arguments, **options)

    def _run_as(
        self,
        name: str,
        step: Callable[Concatenate[ir.Module, _P], _Result],
        module: ir.Module,
        *arguments: _P.args,
        **options: _P.kwargs,
    ) -> _Result | None:
        """
        Run a step, and verify the module, unless the step is left out.

        Raises:
            StepError: if the step raises an error, or makes the module invalid.
        """
        if name in self.left_out:
            return None
        try:
            result = step(module, *arguments, **options)
            module.operation.verify()
        except Exception as e:  # Whatever it is, code is correct without the step.
            self.left_out.add(name)
            raise StepError(name, e) from e
        return result
