"""Options of the generation of code."""

from __future__ import annotations

from dataclasses import dataclass

from .cpu import Cpu


@dataclass(frozen=True)
class CodeOptions:
    """What the code of the same module may differ in; its results are the same."""

    schedule: bool
    """Whether it is made fast, beside what MLIR does."""

    cpu: Cpu
    """The instructions that it may use."""

    threads: int = 1
    """The number of threads that compute large products."""

    stream: bool = False
    """Whether the kernel streams results, where it can."""
