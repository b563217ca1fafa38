"""
The functions around an entry point whose arguments and results are plain arrays.

There are two, as text of MLIR:

* The kernel writes all results to buffers that the caller provides. It is marked in such
  a way that bufferization writes nothing else, and that LLVM takes the widest vectors.
* If a result has a dynamic size, another function finds out all such sizes. It, too,
  calls the entry point, but MLIR throws away what is not needed for the sizes: usually all
  but the sizes of arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import SymbolRefAttr

from xdsl_quant.runtime.entry_function import unused_prefix

from .boundary import OpLines
from .entry_point import EntryPoint


@dataclass(frozen=True)
class EntryWrapper:
    """The functions around an entry point, as MLIR text."""

    entry: EntryPoint

    @cached_property
    def kernel_name(self) -> str:
        """The function that takes the arrays of all arguments and then of all results."""
        return unused_prefix("xdsl_quant_kernel", self.entry.symbols)

    @property
    def dynamic_size_count(self) -> int:
        """The number of dynamic sizes of all results."""
        return sum(len(result.dynamic_dimensions) for result in self.entry.results)

    @property
    def sizes_name(self) -> str | None:
        """
        The function that takes the arrays of all arguments and an array of i64, to which
        it writes the dynamic sizes of all results; `None` if there are none.
        """
        return f"{self.kernel_name}_result_sizes" if self.dynamic_size_count else None

    @property
    def names(self) -> Sequence[str]:
        """The functions that there are."""
        if self.sizes_name is None:
            return (self.kernel_name,)
        return self.kernel_name, self.sizes_name

    @property
    def writes_more_than_it_reads(self) -> bool:
        """Whether results have more bytes than arguments."""
        read = sum(argument.estimated_bytes for argument in self.entry.arguments)
        written = sum(result.estimated_bytes for result in self.entry.results)
        return written > read

    # Text

    @property
    def text(self) -> str:
        """The functions."""
        return f"{self._kernel_text()}\n{self._sizes_text()}"

    def _kernel_text(self) -> str:
        code = OpLines()
        buffers = [f"%out{i}: {b.memref}" for i, b in enumerate(self.entry.results)]
        for i, value in enumerate(self._call(code)):
            self.entry.results[i].leave(code, value, f"%out{i}")
        return self._function(self.kernel_name, buffers, code)

    def _sizes_text(self) -> str:
        if self.sizes_name is None:
            return ""
        code = OpLines()
        type_ = f"memref<{self.dynamic_size_count}xi64>"
        sizes: list[str] = []
        for value, result in zip(self._call(code), self.entry.results, strict=True):
            for dimension in result.dynamic_dimensions:
                index = code.add(f"arith.constant {dimension} : index")
                size = code.add(f"tensor.dim {value}, {index} : {result.inner}")
                sizes.append(code.add(f"arith.index_cast {size} : index to i64"))
        for i, size in enumerate(sizes):
            index = code.add(f"arith.constant {i} : index")
            code.lines.append(f"memref.store {size}, %sizes[{index}] : {type_}")
        return self._function(self.sizes_name, [f"%sizes: {type_}"], code)

    def _call(self, code: OpLines) -> Sequence[str]:
        """Call the entry point; the names of its results."""
        values = [a.enter(code, f"%in{i}") for i, a in enumerate(self.entry.arguments)]
        call = (
            f"func.call {SymbolRefAttr(self.entry.name)}({', '.join(values)}) : "
            f"({', '.join(a.inner for a in self.entry.arguments)}) -> "
            f"({', '.join(r.inner for r in self.entry.results)})"
        )
        if not self.entry.results:
            code.lines.append(call)
            return ()
        code.lines.append(f"%results:{len(self.entry.results)} = {call}")
        return [f"%results#{i}" for i in range(len(self.entry.results))]

    def _function(self, name: str, buffers: Sequence[str], code: OpLines) -> str:
        arrays = [
            # Or intermediate values are put into the arrays of the caller.
            f"%in{i}: {argument.tensor} {{bufferization.writable = false}}"
            for i, argument in enumerate(self.entry.arguments)
        ]
        lines = "\n  ".join((*code.lines, "func.return"))
        # Inlined into what calls it, the function would lose the width of vectors.
        return (
            f"func.func @{name}({', '.join((*arrays, *buffers))}) attributes "
            "{llvm.emit_c_interface, passthrough = "
            '["noinline", ["prefer-vector-width", "512"]]} {\n'
            f"  {lines}\n}}"
        )
