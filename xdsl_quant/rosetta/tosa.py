"""TOSA's reference model and the public converter, in an environment of their own."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_quant.numerics.arrays import Array, DType

from .own_process import OwnProcess, ProcessEnded
from .runtimes import Unavailable

TOSA_PYTHON = Path(".venv-tosa/bin/python")
"""The Python of the environment of `make tosa-tools`, which needs an old NumPy."""


class TosaTools(OwnProcess):
    """A process of the environment of `tosa-tools`."""

    def __init__(self, python: Path = TOSA_PYTHON):
        worker = Path(__file__).with_name("tosa_worker.py")
        # Nothing of the environment of this package is found there.
        environment = {"PATH": os.environ["PATH"]}
        super().__init__(python, worker, environment=environment)
        self.python = python

    @property
    def are_installed(self) -> bool:
        """Whether the environment is there."""
        return self.python.exists()

    # The answers of the functions have several types.
    def call(self, name: str, *arguments: object) -> tuple[str, Any]:
        """What a function of `tosa_worker` returns; `aborts` if it ends the process."""
        try:
            return self.ask((name, arguments))
        except ProcessEnded:
            return "aborts", ""

    def run_file(
        self, file: bytes, runs: Sequence[Sequence[Array]], dtype: DType
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
        status, text = self.call("convert", file)
        if status != "ok":
            raise Unavailable(f"the converter fails: {text or status}".splitlines()[0])
        status, results = self.call(
            "run_all", text, [[*map(_signless, run)] for run in runs]
        )
        if status != "runs":
            raise Unavailable(f"{results or status}".splitlines()[0])
        return [np.asarray(each[0]).ravel().view(dtype) for each in results]


def _signless(array: Array) -> Array:
    return array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array
