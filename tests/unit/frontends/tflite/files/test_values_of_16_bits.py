"""Scales of 16-bit values that kernels take for powers of two, and zero points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.conformance.real_mlir import Mlir
from tests.oracles.networks_in_tosa import tosa_steps
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.model import Model
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes

from .litert import LiteRT
from .test_modules import graph, op, scales, tensor

VALUES = np.random.default_rng(0).integers(-32768, 32768, (2, 2000)).astype(np.int16)


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    with Mlir() as worker:
        yield worker


def file_of(
    code: str,
    parameters: Sequence[float],
    zero_points: Sequence[int] = (),
    **options: Any,
) -> bytes:
    """A file of an op; the last parameters are those of the result."""
    zero_points = zero_points or [0] * len(parameters)
    tensors = [
        tensor(f"t{i}", "INT16", 2000, quantization=scales(scale, zero_point=zero))
        for i, (scale, zero) in enumerate(zip(parameters, zero_points, strict=True))
    ]
    *inputs, result = range(len(tensors))
    operator = op(code, inputs, [result], **options)
    return write_model(Model([graph(tensors, inputs, [result], operator)]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("code", "parameters"),
    [
        # Its logarithm differs by 4.6e-4.
        ("TANH", [0.0004884368, 2**-15]),
        ("TANH", [2**-12 * 2**0.0009, 2**-15]),
        ("TANH", [2**-12 * 2**0.0011, 2**-15]),
        ("TANH", [0.001, 2**-15 * 2**0.0009]),
        ("LOGISTIC", [2**-12 * 2**-0.0009, 2**-15]),
        ("LOGISTIC", [0.0004884368, 2**-15]),
        ("ADD", [2**-9 * 2**0.0009, 2**-10, 2**-9]),
        ("ADD", [2**-9, 2**-10 * 2**-0.0009, 2**-9 * 2**-0.0009]),
        ("ADD", [2**-9, 2**-10 * 2**-0.0011, 2**-9]),
        ("SUB", [2**-9 * 2**0.0009, 2**-11, 2**-9]),
    ],
)
def test_scales_near_powers_of_two(code: str, parameters: Sequence[float], mlir: Mlir):
    options: dict[str, Any] = {}
    if len(parameters) == 3:
        options["pot_scale_int16"] = True
    file = file_of(code, parameters, **options)
    inputs = VALUES[: len(parameters) - 1]
    (expected,) = LiteRT(file).run(*inputs)
    module = read_tflite(file)
    ways = {
        "interpreted": run_function(module, "main", *inputs)[0],
        "compiled": compile(module, "main")(*inputs),
        "TOSA": tosa_steps(mlir)(file)(*inputs)[0],
    }
    for way, result in ways.items():
        np.testing.assert_array_equal(result, expected, way)


def test_the_option_for_scales_near_powers_of_two():
    """It is kept where the runtime would shift."""
    near, far = (2**-9 * 2**exponent for exponent in (0.0009, 0.0011))
    for scale, is_kept in ((near, True), (far, False)):
        file = file_of("ADD", [scale, 2**-9, 2**-9], pot_scale_int16=False)
        assert ("pot_scale_int16 = false" in str(read_tflite(file))) == is_kept


def reciprocal_root(x: Any) -> Any:
    return 1 / np.sqrt(x)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


FUNCTIONS: Mapping[str, Any] = {
    "EXP": np.exp,
    "LOG": np.log,
    "RSQRT": reciprocal_root,
    "LOGISTIC": sigmoid,
    "TANH": np.tanh,
}


@pytest.mark.parametrize("code", FUNCTIONS)
def test_tables_have_no_zero_points(code: str):
    """They fall back to floats, and say so."""
    scale, zero_points = 0.01 if code == "EXP" else 0.001, [-78, 85]
    file = file_of(code, [0.0005, scale], zero_points)
    x = np.linspace(0, 13000, 2000).astype(np.int16)
    real = np.float64(np.float32(0.0005)) * (x.astype(np.int64) + 78)
    exact = np.clip(FUNCTIONS[code](real) / np.float32(scale) + 85, -32768, 32767)
    module = read_tflite(file)
    for result in (run_function(module, "main", x)[0], compile(module, "main")(x)):
        assert np.abs(np.asarray(result) - exact).max() < 0.51
    apply_passes(module, "convert-tfl-to-linalg")
    assert f'op = "tfl.{code.lower()}"' in str(module.attributes["tfl.fallback"])


def test_the_result_of_logistic_has_one_scale():
    """A scale that is near it is refused by the runtime."""
    module = read_tflite(file_of("LOGISTIC", [0.001, 2**-15 * 2**0.0009]))
    apply_passes(module, "convert-tfl-to-linalg")
    assert "has a result whose scale is not 2**-15" in str(
        module.attributes["tfl.fallback"]
    )
