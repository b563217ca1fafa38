"""
Ops with quantization parameters beside those of the reference kernels, by all lowerings:
results are within one unit of the real numbers that the types name, or the op takes the
fallback, or it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import InterpretationError, PassFailedException

from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_tosa import (
    ConvertTFLToTosaPass,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

from .parameter_cases import SPECS, Case, cases_of
from .tosa_execution import run, validated

_TO_LINALG = "convert-quantized-stablehlo-to-linalg,convert-stablehlo-to-linalg"
PIPELINES = {
    "interpreter": "",
    "linalg": "convert-tfl-to-linalg",
    "stablehlo": f"convert-tfl-to-stablehlo,{_TO_LINALG}",
    "codegen": (
        "convert-tfl-to-stablehlo,quant-fuse-kernels{target=stablehlo-int8},"
        f"quant-constraints-to-specs,quant-export{{mode=codegen}},{_TO_LINALG}"
    ),
}

REFERENCE_IS_COARSE = {
    *((name, "i16") for name in ("exp", "gelu", "log", "rsqrt", "softmax")),
    *((name, "i16") for name in ("quantize", "resize_bilinear")),
    ("squared_difference", "i8"),
}
"""
Ops whose reference kernel takes the parameters, and is more than one unit off: tables of
513 numbers, sums that wrap around, differences in 128ths of the larger scale. Other tests
compare these with the kernel.
"""


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    with Mlir() as worker:
        yield worker


def sample(name: str, lowering: str, request: pytest.FixtureRequest) -> Sequence[Case]:
    """Some cases of an op: fixed ones, others for each lowering."""
    cases = [case for spec in SPECS[name] for case in cases_of(spec)]
    step = 5 if request.config.getoption("--all-cases") else len(cases) // 2
    return cases[crc32(f"{name} {lowering}".encode()) % step :: step]


def loaded(case: Case) -> ModuleOp | None:
    """The module of a case; `None` if the dialect does not have its types."""
    try:
        return parse_module(case.text)
    except IRError:
        return None


def assert_close(case: Case, results: Sequence[Any]):
    first = next(type_ for type_ in case.types if type_ is not None)
    if (case.spec.name, first.storage.name) in REFERENCE_IS_COARSE:
        return
    for result, real in zip(results, case.real_results(), strict=True):
        if case.spec.result != "quantized":
            np.testing.assert_array_equal(result, real, case.name)
            continue
        steps = case.result.steps(real)
        # Numbers of 32 bits are computed with floats that have 24.
        is_wide = case.result.storage.name == "i32"
        tolerance = 1.25 if not is_wide else 2**13
        far = np.abs(np.asarray(result).astype(np.float64) - np.round(steps))
        assert (np.isnan(steps) | (far <= tolerance)).all(), f"{case.name}: {far.max()}"


@pytest.mark.sampled(10)
@pytest.mark.parametrize("lowering", PIPELINES)
@pytest.mark.parametrize("name", SPECS)
def test_results(name: str, lowering: str, request: pytest.FixtureRequest):
    for case in sample(name, lowering, request):
        if (module := loaded(case)) is None:
            continue
        try:
            if pipeline := PIPELINES[lowering]:
                apply_passes(module, pipeline)
                module.verify()
            results = run_function(module, "main", *case.arguments())
        except (PassFailedException, InterpretationError, IRError):
            continue
        assert_close(case, results)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", SPECS)
def test_results_in_tosa(name: str, mlir: Mlir, request: pytest.FixtureRequest):
    for case in sample(name, "tosa", request):
        if (module := loaded(case)) is None:
            continue
        try:
            ConvertTFLToTosaPass().apply(Context(), module)
        except PassFailedException:
            continue
        module.verify()
        answer = validated(mlir, module)
        assert isinstance(answer, Accepted), f"{case.name}: {answer}"
        results = [np.asarray(x) for x in run(module, case.arguments())]
        if case.spec.result == "quantized":
            results = [x.view(case.result.storage.dtype) for x in results]
        assert_close(case, results)
