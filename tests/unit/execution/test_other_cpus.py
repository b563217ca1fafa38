"""Code for each CPU that there is code for, on any machine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from tests.cpus.foreign_code import foreign_code
from tests.unit.execution.other_cpus import (
    EMULATED,
    LoweredModule,
)
from tests.unit.execution.scheduling.test_byte_products import product, some
from tests.unit.execution.test_cpu import assembly, compiled_codes
from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution.cpu import CPU_LEVELS, Cpu
from xdsl_quant.frontends.stablehlo.lowering.convert_quantized_stablehlo_to_linalg import (
    ConvertQuantizedStableHLOToLinalgPass,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import (
    as_module,
    multiverse_context,
    parse_module,
)

FOLDER = Path(__file__).parent / "models"
NAMES = (
    *("gated.mlir", "sigmoid_classifier.mlir", "named_ops.mlir"),
    *("residual.tflite", "gru_gate.tflite"),
)

levels = pytest.mark.parametrize("cpu", CPU_LEVELS, ids=[c.name for c in CPU_LEVELS])
emulated = pytest.mark.parametrize("cpu", EMULATED, ids=[c.name for c in EMULATED])
models = pytest.mark.parametrize("name", NAMES)


def module_of(name: str) -> ModuleOp | str | Path:
    path = FOLDER / name
    if name != "gated.mlir":
        return path if path.suffix == ".tflite" else path.read_text()
    module = parse_module(path.read_text())
    ConvertQuantizedStableHLOToLinalgPass().apply(multiverse_context(), module)
    return module


@cache
def lowered(name: str) -> LoweredModule:
    return LoweredModule(module_of(name))


def arguments_of(name: str) -> list[NDArray[np.int8]]:
    random = np.random.default_rng(0)
    return [random.integers(-128, 128, s).astype(np.int8) for s in lowered(name).shapes]


def numbers(arrays: Sequence[Any]) -> list[Any]:
    return [array.tolist() for array in arrays]


@pytest.mark.sampled(6)
@models
@levels
def test_models_compile(name: str, cpu: Cpu):
    assert lowered(name).compiled(cpu).temporary_bytes >= 0


@models
@emulated
def test_results_of_models(name: str, cpu: Cpu):
    arguments = arguments_of(name)
    expected = run_function(as_module(module_of(name)), None, *arguments)
    with foreign_code():
        results: Any = lowered(name).compiled(cpu)(*arguments)
    actual = results if len(expected) > 1 else [results]
    assert numbers(actual) == numbers(expected)


@pytest.mark.parametrize("name", NAMES[3:])
def test_results_of_the_reference_kernels(name: str):
    arguments = arguments_of(name)
    expected = LiteRT((FOLDER / name).read_bytes()).run(*arguments)
    actual = run_function(as_module(FOLDER / name), None, *arguments)
    assert numbers(actual) == numbers(expected)


@pytest.mark.sampled(2)
@levels
def test_instructions(cpu: Cpu, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    codes = compiled_codes(monkeypatch)
    text = product((64, 128), some(128, 64), (64, 64))
    LoweredModule(text).compiled(cpu)
    (code,) = codes
    found = assembly(tmp_path / "code.o", code)
    assert ("tdpbssd" in found) == cpu.has_tiles
    assert ("vpdpbusd" in found) == (cpu.vnni_bits > 0 and not cpu.has_tiles)
    assert ("zmm" in found) == ("avx512f" in cpu.features)


@pytest.mark.sampled(2)
@emulated
def test_emulated_products(cpu: Cpu):
    weights, x = some(63, 40), some(8, 63)
    sums = np.arange(8 * 40, dtype=np.int32).reshape(8, 40)
    text = product(x.shape, weights, sums.shape, zero_points=(3, 0))
    expected = (x.astype(np.int32) - 3) @ weights.astype(np.int32) + sums
    with foreign_code():
        function = LoweredModule(text).compiled(cpu)
        assert np.array_equal(function(x, sums), expected)
