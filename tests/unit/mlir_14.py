"""MLIR 14: later versions do not have the ops for fake quantization and statistics."""

import shutil

import pytest

MLIR_OPT_14 = shutil.which("mlir-opt-14")

needs_mlir_14 = pytest.mark.skipif(
    MLIR_OPT_14 is None,
    reason="later versions of MLIR do not have this: apt-get install mlir-14-tools",
)
