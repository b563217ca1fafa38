"""Scheduling steps, by the level of the lowering at which they run."""

from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from xdsl_quant.runtime.host_functions import HostFunctions

from .. import mlir_bindings as mlir
from ..cpu import CodeOptions
from ..mlir_bindings import ir
from ..schedule import Schedule, StepError
from .block_products import call_block_products, mark_block_products
from .buffer_planning import plan_buffers
from .byte_functions import look_up_byte_functions
from .byte_products import call_byte_products, mark_byte_products
from .byte_sums import narrow_byte_sums
from .channel_multipliers import fold_constant_sums, merge_channels
from .channels_last import move_channels_last
from .collapsed_loops import collapse_contiguous_loops
from .constant_codes import decode_constants, look_up_whole_bytes, select_from_tables
from .destinations import lower_strided_copies, share_destinations
from .integer_extremes import compare_integers
from .loop_order import move_contiguous_loops_inside, store_window_inputs
from .narrow_factors import narrow_factors
from .outlining import (
    keep_small_loops_scalar,
    mark_buffers_as_distinct,
    outline_loops,
    outline_parts,
    share_functions,
)
from .packed_codes import pack_constants
from .reduce_min_max import reduce_min_max
from .rounding_conversions import round_in_f32, round_while_converting
from .shared_loops import share_loops
from .stored_terms import store_repeated_terms
from .streaming_stores import (
    mark_results,
    stream_marked_results,
    streamable_ops,
    writes_more_than_it_reads,
)
from .tiling import tile_contractions
from .transpositions import call_transpositions

_Arguments = TypeVarTuple("_Arguments")
_Result = TypeVar("_Result")

_STREAMING = "streaming_stores"
"""Common name of three steps that depend on each other, to skip them together."""


class FastSchedule(Schedule):
    """Scheduling steps of this package."""

    def __init__(self, kernel: str, functions: HostFunctions, options: CodeOptions):
        super().__init__()
        self._kernel = kernel
        self._functions = functions
        self._cpu = options.cpu
        self._stream = options.stream
        self._threads = options.threads

    def schedule_tensors(self, module: ir.Module) -> None:
        self._may_stream = self._run(
            writes_more_than_it_reads, module, self._kernel, name=_STREAMING
        )
        callbacks = self._run(reduce_min_max, module, self._functions)
        self.callbacks = callbacks or {}
        self._run(narrow_byte_sums, module)
        self._run(fold_constant_sums, module)
        self._run(compare_integers, module)
        # First, as these steps do not look behind stored values.
        if self._cpu.vnni_bits:
            self._run(narrow_factors, module)
            self._run(move_channels_last, module)
        self._run(store_repeated_terms, module)
        if self._cpu.vnni_bits:
            self._run(merge_channels, module)
            self._run(mark_byte_products, module)
            self._run(mark_block_products, module)
        self._run(store_window_inputs, module)
        self._run(move_contiguous_loops_inside, module)
        self._run(tile_contractions, module)

    def schedule_fused(self, module: ir.Module) -> None:
        if self.callbacks:
            self._run(share_loops, module)
            mlir.run_passes(module, ("canonicalize", "cse"))

    def schedule_destinations(self, module: ir.Module) -> None:
        self._run(share_destinations, module)

    def schedule_buffers(self, module: ir.Module) -> None:
        self._run(call_block_products, module, self._cpu.vnni_bits)
        called = self._run(call_byte_products, module, self._cpu, self._threads)
        self.thread_functions = called or {}
        if "avx512f" in self._cpu.features:
            self._run(call_transpositions, module)
        if "avx512vbmi" in self._cpu.features:
            self._run(look_up_byte_functions, module)
        self._run(collapse_contiguous_loops, module)
        # Here, as later steps take time for each op.
        shared = self._run(share_functions, module) or {}
        # Constants are distinct from all buffers.
        self._distinct = {name: count for name, count in shared.items() if count}
        can_stream = self._run(self._mark_streamable, module, name=_STREAMING)
        self.can_stream = bool(can_stream)
        self._run(lower_strided_copies, module)

    def _mark_streamable(self, module: ir.Module) -> bool:
        streamable = streamable_ops(module, self._kernel)
        if self._stream:
            mark_results(streamable)
        return bool(streamable and self._may_stream)

    def schedule_loops(self, module: ir.Module) -> None:
        if self._stream:
            self._run(stream_marked_results, module, self._kernel, name=_STREAMING)
        self._run(round_while_converting, module)
        self._run(round_in_f32, module)

    def schedule_bytes(self, module: ir.Module) -> None:
        has_avx512 = "avx512f" in self._cpu.features
        if has_avx512:
            self._run(pack_constants, module)
        self._run(decode_constants, module)
        if has_avx512:
            self._run(select_from_tables, module)
        self._run(look_up_whole_bytes, module)

    def schedule_kernel(self, module: ir.Module) -> None:
        # Code with host functions is compiled for a single use.
        if self._functions:
            self._run(keep_small_loops_scalar, module)
        outlined = self._run(outline_loops, module, self._kernel) or []
        self._run(share_functions, module, outlined)
        self._distinct |= dict.fromkeys([self._kernel, *outlined], 0)
        self._run(plan_buffers, module, self._kernel)
        self._run(outline_parts, module, self._kernel)

    def schedule_llvm(self, module: ir.Module) -> None:
        self._run(mark_buffers_as_distinct, module, self._distinct)

    def _run(
        self,
        step: Callable[[ir.Module, *_Arguments], _Result],
        module: ir.Module,
        *arguments: *_Arguments,
        name: str | None = None,
    ) -> _Result | None:
        """
        Run a step and verify the module, unless the step is skipped.

        Raises:
            StepError: if the step fails or makes the module invalid.
        """
        name = name or step.__name__
        if name in self.skipped_steps:
            return None
        try:
            result = step(module, *arguments)
            module.operation.verify()
        except Exception as e:  # Code is correct without the step.
            self.skipped_steps.add(name)
            raise StepError(name, e) from e
        return result
