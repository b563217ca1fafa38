"""Masked arrays are refused wherever arrays are taken, as their masks would not count."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.numerics.test_masked_arrays import (
    ADVICE,
    FLOATS,
    PARAMETERS,
    PLAIN,
    UNMASKED,
)
from xdsl_quant.calibration import calibrate
from xdsl_quant.display import plot_error
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import parse_module

TEXT = """
func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = quant.stats_ref %x "x" : tensor<?xf32>
  return %y : tensor<?xf32>
}
"""

CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "plot_error": (lambda: plot_error(FLOATS, PARAMETERS), "expressed values"),
    "run_function": (
        lambda: run_function(parse_module(TEXT), "f", FLOATS),
        "argument 0 (%x)",
    ),
    "run_function, list": (
        lambda: run_function(parse_module(TEXT), "f", [FLOATS[2], 1.0]),
        "argument 0 (%x)",
    ),
    "compiled": (lambda: compile(TEXT)(FLOATS), "argument 0"),
    "compiled, out": (
        lambda: compile(TEXT)(PLAIN, out=FLOATS.copy()),
        "out",
    ),
    "bound": (lambda: compile(TEXT).bind(FLOATS), "argument 0"),
    "calibrate": (lambda: calibrate(TEXT, [PLAIN, FLOATS]), "batch 1: argument 0"),
}


@pytest.mark.parametrize("name", CALLS)
def test_refusal(name: str):
    call, what = CALLS[name]
    with pytest.raises(TypeError) as info:
        call()
    prefix, _, subject = what.rpartition(": ")
    expected = f"unsupported masked array in {subject}{ADVICE}"
    assert str(info.value) == (f"{prefix}: " if prefix else "") + expected


def test_resuming_with_a_mask(tmp_path: Path):
    """The data is that of the checkpoint."""
    file = tmp_path / "checkpoint.json"
    calibrate(TEXT, [PLAIN], checkpoint=file)
    with pytest.raises(ValueError, match="belongs to other inputs; delete it"):
        calibrate(TEXT, [UNMASKED], checkpoint=file)
