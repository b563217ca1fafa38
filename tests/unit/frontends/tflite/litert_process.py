"""LiteRT in a process of its own for each file, because some files abort it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from numpy.typing import NDArray

from .litert import LiteRT

Array = NDArray[Any]


class Run(NamedTuple):
    """What became of a file."""

    outcome: str
    """`runs`, `refused` when it is loaded, `fails` when it is run, or `aborts`."""

    message: str
    results: Sequence[Array]


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
    process = subprocess.run(
        [sys.executable, "-m", __name__],
        input=pickle.dumps((files, is_reference)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return [Run(*fields) for fields in pickle.loads(process.stdout)]


def _run(file: bytes, inputs: Sequence[Array], is_reference: bool) -> Any:
    try:
        model = LiteRT(file, is_reference)
    except (RuntimeError, ValueError) as e:
        return "refused", str(e), ()
    try:
        return "runs", "", model.run(*inputs)
    except RuntimeError as e:
        return "fails", str(e), ()


def _run_in_child(*arguments: Any) -> Any:
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(_run(*arguments), pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return pickle.loads(data) if status == 0 else ("aborts", str(status), ())


if __name__ == "__main__":
    # What LiteRT prints does not get among the results.
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # It is loaded once, before there are children.

    files, is_reference = pickle.load(sys.stdin.buffer)
    with stdout:
        pickle.dump([_run_in_child(*file, is_reference) for file in files], stdout)
