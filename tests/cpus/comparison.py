"""Compiles many cases in one module and compares their results with the interpreter's."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from tests.cpus.cases import Case, module_of
from xdsl_quant.execution import CompilationError, CompiledFunction, compile
from xdsl_quant.execution.cpu import CpuName
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module

_UNTOUCHED = 0x5A
_NONE, _READ_WRITE = 0, 3


class GuardedArray:
    """An array between two pages that may not be read or written."""

    def __init__(self, shape: Sequence[int], dtype: Any, *, is_at_end: bool):
        """
        Args:
            shape: the shape of the array.
            dtype: its dtype.
            is_at_end: whether its last byte is the last one before a page, instead of the
                first one after a page.
        """
        page, size = mmap.PAGESIZE, int(np.prod(shape)) * np.dtype(dtype).itemsize
        room = -(-size // page) * page
        self._pages = mmap.mmap(-1, room + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        protect = ctypes.CDLL(None).mprotect
        for address in (start, start + page + room):
            assert protect(ctypes.c_void_p(address), page, _NONE) == 0
        self._memory = np.frombuffer(self._pages, np.uint8, room, page)
        self._memory.fill(_UNTOUCHED)
        first = room - size if is_at_end else 0
        self._around = np.concatenate([np.arange(first), np.arange(first + size, room)])
        data = self._memory[first : first + size]
        self.array: NDArray[Any] = data.view(dtype).reshape(shape)

    def is_intact(self) -> bool:
        """Whether nothing was written around the array."""
        return bool((self._memory[self._around] == _UNTOUCHED).all())


def differences(
    cases: Sequence[Case], cpus: Iterable[str], *, is_scheduled: bool = True
) -> list[str]:
    """
    Compare the results of compiled code with those of the interpreter.

    Returns:
        a line for each CPU and case with a difference.
    """
    module = parse_module(module_of(cases))
    runs = [_Run(module, cases, has_specials) for has_specials in (False, True)]
    found: list[str] = []
    for cpu in cpus:
        try:
            function = compile(
                module, "main", cpu=cast(CpuName, cpu), schedule=is_scheduled
            )
        except CompilationError as e:
            if len(cases) == 1:
                found.append(f"{cpu} {cases[0].name}: {e}")
            else:
                for case in cases:
                    found += differences([case], [cpu], is_scheduled=is_scheduled)
            continue
        for run in runs:
            found += (f"{cpu} {line}" for line in run.differences(function))
    return found


class _Run:
    """Operands of all cases and what the interpreter makes of them."""

    def __init__(self, module: ModuleOp, cases: Sequence[Case], has_specials: bool):
        self.cases = cases
        # Memory before and behind arrays is checked in different runs.
        self.is_at_end = not has_specials
        arrays = [case.arrays(has_specials=has_specials) for case in cases]
        self.operands = [array for group in arrays for array in group]
        self.expected = run_function(module, "main", *self.operands)

    def differences(self, function: CompiledFunction) -> Iterator[str]:
        """Yield a line for each case with other results or writes around them."""
        inputs, outputs = (
            [GuardedArray(a.shape, a.dtype, is_at_end=self.is_at_end) for a in arrays]
            for arrays in (self.operands, self.expected)
        )
        for copy, array in zip(inputs, self.operands, strict=True):
            copy.array[...] = array
        function(*(i.array for i in inputs), out=tuple(o.array for o in outputs))
        for case, output, expected in zip(
            self.cases, outputs, self.expected, strict=True
        ):
            if not output.is_intact():
                yield f"{case.name}: writes around the result"
            if not _is_same(case, output.array, expected):
                yield f"{case.name}: {_first(output.array, expected)}"


def _is_same(case: Case, found: NDArray[Any], expected: NDArray[Any]) -> bool:
    """Whether results have the same bits, but for those of NaN and some signs of zero."""
    if found.dtype.kind in "iub":
        return bool((found == expected).all())
    is_nan = np.isnan(expected)
    same = (found == expected) | (is_nan & np.isnan(found))
    if "num" not in case.body and "choose" not in case.body:
        same &= is_nan | (np.signbit(found) == np.signbit(expected))
    return bool(same.all())


def _first(found: NDArray[Any], expected: NDArray[Any]) -> str:
    """The first difference of two arrays."""
    differs = (found != expected) & ~((found != found) & (expected != expected))
    index = tuple(np.argwhere(differs)[0].tolist()) if differs.any() else ()
    return f"{found[index]!r} at {index}, not {expected[index]!r}"
