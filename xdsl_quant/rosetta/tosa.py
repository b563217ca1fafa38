"""TOSA's reference model and public converter, in an environment of their own."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_quant.numerics.arrays import Array, DType

from .own_process import LibraryProcess, ProcessEnded
from .runtimes import Unavailable

TOSA_PYTHON = Path(".venv-tosa/bin/python")
"""Python of the environment that `make tosa-tools` creates, with an old NumPy."""


class TosaTools(LibraryProcess):
    """Process in the environment of `tosa-tools`."""

    def __init__(self, python: Path = TOSA_PYTHON):
        worker = Path(__file__).with_name("tosa_worker.py")
        # The worker must not import packages of the current environment.
        environment = {"PATH": os.environ["PATH"]}
        super().__init__(python, worker, environment=environment)
        self.python = python

    @property
    def are_installed(self) -> bool:
        """True if the environment exists."""
        return self.python.exists()

    # The answers of the functions have several types.
    def call(self, name: str, *arguments: object) -> tuple[str, Any]:
        """
        Call a function of `tosa_worker` and return its status and answer. The status is
        `aborts` if the process ends.
        """
        try:
            return self.ask((name, arguments))
        except ProcessEnded:
            return "aborts", ""

    def run_file(
        self, file: bytes, runs: Sequence[Sequence[Array]], dtype: DType
    ) -> list[Array]:
        """
        Convert a `.tflite` file with one result to TOSA, run it on each list of
        arguments, and return the flattened results.

        Args:
            file: content of the file.
            runs: arguments of each run.
            dtype: dtype of the results.

        Raises:
            Unavailable: if the conversion fails, or results are undefined.
        """
        status, text = self.call("convert", file)
        if status != "ok":
            raise Unavailable(f"the converter failed: {text or status}".splitlines()[0])
        status, results = self.call(
            "run_all", text, [[*map(_signless, run)] for run in runs]
        )
        if status != "runs":
            raise Unavailable(f"{results or status}".splitlines()[0])
        return [np.asarray(result[0]).ravel().view(dtype) for result in results]


def _signless(array: Array) -> Array:
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array
