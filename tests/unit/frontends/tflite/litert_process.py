"""LiteRT in a process of its own, because some files abort it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import pytest
from numpy.typing import NDArray

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


class LiteRTProcess:
    """A process that runs files, and is started again after one that aborted it."""

    def __init__(self):
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> str:
        """End the process; its exit code."""
        if (process := self._process) is None:
            return ""
        self._process = None
        process.communicate()
        return str(process.returncode)

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
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        pickle.dump((file, steps, is_reference), stdin)
        stdin.flush()
        try:
            return Run(*pickle.load(stdout))
        except EOFError:
            return Run("aborts", self._close(), ())


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


def _run(file: bytes, steps: Sequence[Sequence[Array]], is_reference: bool) -> Any:
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


def main() -> None:
    """Answer each file from the standard input on the standard output."""
    # What LiteRT prints does not get among the results.
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(_run(*request), stdout)
        stdout.flush()


if __name__ == "__main__":
    main()
