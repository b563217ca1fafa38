"""TOSA's reference model and the public converter, in an environment of their own."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .runtimes import Unavailable

Array = NDArray[Any]

TOSA_PYTHON = Path(".venv-tosa/bin/python")
"""The Python of the environment of `make tosa-tools`, which needs an old NumPy."""


class TosaTools:
    """A process of the environment of `tosa-tools`."""

    def __init__(self, python: Path = TOSA_PYTHON):
        self.python = python
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def are_installed(self) -> bool:
        """Whether the environment is there."""
        return self.python.exists()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if (process := self._process) is not None:
            # Both pipes are closed, and the end of its input ends the process.
            process.communicate()
            self._process = None

    def ask(self, name: str, *arguments: Any) -> tuple[str, Any]:
        """What a function of `tosa_worker` returns; `aborts` if it ends the process."""
        if self._process is None:
            self._process = subprocess.Popen(
                [self.python, Path(__file__).with_name("tosa_worker.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # Nothing of the environment of this package is found there.
                env={"PATH": os.environ["PATH"]},
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump((name, arguments), process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (BrokenPipeError, EOFError):
            process.kill()
            self._close()
            return "aborts", ""

    def run_file(
        self, file: bytes, runs: Sequence[Sequence[Array]], dtype: np.dtype[Any]
    ) -> list[Array]:
        """
        The flat results of a `.tflite` file with one result, as the public converter
        makes TOSA of it.

        Args:
            file: its content.
            runs: the arguments of each run.
            dtype: that of the results.

        Raises:
            Unavailable: if it is not converted, or results are not defined.
        """
        status, text = self.ask("convert", file)
        if status != "ok":
            raise Unavailable(f"the converter fails: {text or status}".splitlines()[0])
        status, results = self.ask(
            "run_all", text, [[*map(_signless, run)] for run in runs]
        )
        if status != "runs":
            raise Unavailable(f"{results or status}".splitlines()[0])
        return [np.asarray(each[0]).ravel().view(dtype) for each in results]


def _signless(array: Array) -> Array:
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array
