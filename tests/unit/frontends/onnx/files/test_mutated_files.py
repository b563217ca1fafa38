"""Damaged ONNX files are read, or refused with one sentence."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.unit.frontends.onnx.files.models import samples
from tests.unit.frontends.onnx.files.mutants import mutated
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.frontends.onnx.files.model_files import ONNXFileError


def read(path: Path) -> None:
    """Import a model; all unknown sizes are 1."""
    read_onnx(path, static=True)


@pytest.mark.parametrize("index", range(5))
def test_mutated_files(tmp_path: Path, index: int):
    sample = [*samples(tmp_path).values()][index]
    path = tmp_path / "model.onnx"
    messages: list[str] = []
    random = np.random.default_rng(index)
    for _ in range(60):
        path.write_bytes(mutated(sample, random))
        try:
            with warnings.catch_warnings():
                # Inputs may get the names of initializers.
                warnings.simplefilter("ignore")
                read(path)
        except ONNXFileError as e:
            messages.append(str(e))
    assert all(message.startswith(f"{path}: ") for message in messages)
    assert all(": error: " in message for message in messages)
    assert all(message.isprintable() for message in messages)
    assert 10 < len(messages) < 55
