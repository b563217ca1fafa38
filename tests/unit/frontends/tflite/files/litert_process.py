"""LiteRT in a process of its own, because some files abort it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from numpy.typing import NDArray

from xdsl_quant.rosetta.own_process import LibraryProcess, ProcessEnded, answer_all

from .litert import LiteRT

Array = NDArray[Any]


class Run(NamedTuple):
    """What became of a file."""

    outcome: str
    """`runs`, `refused` when it is loaded, `fails` when it is run, or `aborts`."""

    message: str
    steps: Sequence[Sequence[Array]]
    """The results of each step."""

    @property
    def results(self) -> Sequence[Array]:
        """Those of the first step; none if it did not run."""
        return self.steps[0] if self.steps else ()


class LiteRTProcess(LibraryProcess):
    """A process that runs files, and is started again after one that aborted it."""

    def __init__(self):
        super().__init__(sys.executable, "-m", __name__)

    def run(
        self, file: bytes, inputs: Sequence[Array], is_reference: bool = True
    ) -> Run:
        """
        Run a file by the reference kernels, or by the built-in ones.

        Args:
            file: its content.
            inputs: the values of inputs.
            is_reference: whether to take the reference kernels.
        """
        return self.run_steps(file, [inputs], is_reference)

    def run_steps(
        self, file: bytes, steps: Sequence[Sequence[Array]], is_reference: bool = True
    ) -> Run:
        """The same for several steps, with the state that the steps before have left."""
        try:
            return Run(*self.ask((file, steps, is_reference)))
        except ProcessEnded as e:
            return Run("aborts", str(e), ())


def runs(
    files: Sequence[tuple[bytes, Sequence[Array]]], is_reference: bool = True
) -> Sequence[Run]:
    """
    Run files by the reference kernels; a test is skipped without LiteRT.

    Args:
        files: contents and the values of inputs.
        is_reference: whether to take the reference kernels, else the built-in ones.
    """
    pytest.importorskip("ai_edge_litert", reason="pip install ai-edge-litert")
    with LiteRTProcess() as process:
        return [process.run(*file, is_reference) for file in files]


_Request = tuple[bytes, Sequence[Sequence[Array]], bool]


def _run(request: _Request) -> object:
    file, steps, is_reference = request
    try:
        model = LiteRT(file, is_reference)
    except (RuntimeError, ValueError) as e:
        return "refused", str(e), ()
    try:
        # Arrays of the interpreter's are views of its memory.
        results = [[array.copy() for array in model.run(*inputs)] for inputs in steps]
    except RuntimeError as e:
        return "fails", str(e), ()
    return "runs", "", results


if __name__ == "__main__":
    answer_all(_run)
