"""The steps of scheduling, at the levels of a lowering at which they work."""

from __future__ import annotations

from typing import Any

from xdsl_quant.runtime.host_functions import HostFunctions

from ..cpu import Cpu
from ..mlir_bindings import run_passes
from ..thread_calls import ThreadCalls
from .byte_products import call_byte_products, keep_byte_products
from .channel_multipliers import merge_channels
from .constant_codes import decode_constants
from .constant_sums import fold_constant_sums
from .packed_codes import pack_constants
from .reduce_min_max import reduce_min_max
from .rounding_conversions import round_in_f32, round_while_converting
from .shared_loops import share_loops
from .streaming_stores import mark_results, stream_marked_results, streamable_ops
from .table_selections import select_from_tables
from .tiling import tile_contractions


class Schedule:
    """What is done to one module; each method changes it at one level of its lowering."""

    callbacks: dict[str, object]
    """What the module calls beside the given functions: ctypes callbacks, by symbols."""

    thread_calls: ThreadCalls
    """What several threads call."""

    can_stream: bool
    """Whether there is a result that the kernel streams if it is told to."""

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
        self._kernel = kernel
        self._functions = functions
        self._cpu = cpu
        self._stream = stream
        self._threads = threads

    def schedule_tensors(self, module: Any) -> None:
        """Work on ops on tensors, before loops are fused."""
        self.callbacks = reduce_min_max(module, self._functions)
        fold_constant_sums(module)
        if self._cpu.vnni_bits:
            merge_channels(module)
            keep_byte_products(module)
        tile_contractions(module)

    def schedule_fused(self, module: Any) -> None:
        """Work on ops on tensors, after loops are fused."""
        if self.callbacks:
            share_loops(module)
            run_passes(module, ("canonicalize", "cse"))

    def schedule_buffers(self, module: Any) -> None:
        """Work on ops on memrefs, before they become loops."""
        self.thread_calls = call_byte_products(module, self._cpu, self._threads)
        streamable = streamable_ops(module, self._kernel)
        self.can_stream = bool(streamable)
        if self._stream:
            mark_results(streamable)

    def schedule_loops(self, module: Any) -> None:
        """Work on loops, before they become branches."""
        if self._stream:
            stream_marked_results(module, self._kernel)
        round_while_converting(module)
        round_in_f32(module)

    def schedule_bytes(self, module: Any) -> None:
        """Work on loops whose memory has whole bytes."""
        if "avx512f" in self._cpu.features:
            pack_constants(module)
        decode_constants(module)
        if "avx512f" in self._cpu.features:
            select_from_tables(module)
