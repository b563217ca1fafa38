"""
Compare random StableHLO models with their conversions to TensorFlow Lite.

    python -m tests.oracles.stablehlo_to_tfl --models convolution,clamp --draws 200

Each model is interpreted, converted by `convert-stablehlo-to-tfl`, interpreted again, and
run by the reference kernels of LiteRT from a `.tflite` file. Floats may differ by 1e-6 of
the largest value of arguments and results (in LiteRT: 1e-5), stored values by one unit. The
exit code is 1 if a model differs more, is refused, or does not run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.unit.frontends.tflite.files.litert_process import LiteRTProcess
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.dialect import EluOp
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.loading import as_module

from .stablehlo_models import FLOAT_MODELS, QUANTIZED_MODELS, Model

_TOLERANCES = 1e-6, 1e-5
"""Largest difference of floats, relative to the largest value: interpreted, in LiteRT."""


@dataclass
class Differences:
    """Comparison of the models of a kind."""

    name: str
    draws: int = 0
    values: int = 0
    different: list[int] = field(default_factory=lambda: [0, 0])
    """Number of values that differ, of the interpreter and of LiteRT."""

    largest: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Largest differences: units of stored values, or relative to the largest float."""

    complaints: list[str] = field(default_factory=list[str])

    def add(self, runtime: int, found: Array, expected: Array, unit: float) -> None:
        """Count the values that differ by more than half a unit."""
        if found.shape != expected.shape:
            self.complaints.append(f"shape {found.shape}, expected {expected.shape}")
            return
        distance = np.abs(found.astype(np.float64) - expected) / unit
        distance = np.where(found == expected, 0, distance)
        self.different[runtime] += int((distance > 0.5).sum())
        self.largest[runtime] = max(self.largest[runtime], distance.max(initial=0))


def _units(model: Model, expected: Array) -> Sequence[float]:
    """Return units of the results for the interpreter and for LiteRT."""
    if model.unit is not None:
        return model.unit, model.unit
    # The terms of a sum may be larger than the sum.
    arrays = [expected, *model.arguments]
    largest = max(float(np.abs(array).max(initial=0)) for array in arrays) or 1.0
    return [2 * tolerance * largest for tolerance in _TOLERANCES]


def compare(process: LiteRTProcess, name: str, draws: int, seed: int) -> Differences:
    """Draw models and compare their results."""
    tally = Differences(name)
    draw = {**FLOAT_MODELS, **QUANTIZED_MODELS}[name]
    for index in range(draws):
        model = Model(np.random.default_rng([seed, index, *name.encode()]))
        module = model.module(draw(model))
        before = len(tally.complaints)
        _compare_model(process, tally, model, str(module))
        for position in range(before, len(tally.complaints)):
            tally.complaints[position] += f", draw {index}"
        tally.draws += 1
    return tally


def _compare_model(
    process: LiteRTProcess, tally: Differences, model: Model, text: str
) -> None:
    module = as_module(text)
    (expected,) = map(np.asarray, run_function(module, None, *model.arguments))
    tally.values += expected.size
    units = _units(model, expected)
    try:
        file = write_tflite(module)
    except ValueError as e:
        tally.complaints.append(str(e))
        return
    converted = read_tflite(file)
    (found,) = map(np.asarray, run_function(converted, None, *model.arguments))
    tally.add(0, found, expected, units[0])
    # LiteRT has no reference kernel of ELU.
    is_reference = not any(isinstance(op, EluOp) for op in converted.walk())
    run = process.run(file, model.arguments, is_reference)
    if run.outcome != "runs":
        tally.complaints.append(f"LiteRT {run.outcome}: {run.message}")
        return
    tally.add(1, run.results[0], expected, units[1])


def complaints(tally: Differences) -> Sequence[str]:
    """Return what is wrong with a kind of models."""
    found = [*tally.complaints]
    if tally.name in FLOAT_MODELS:
        if any(tally.different):
            found.append("floats differ by more than the tolerance")
    elif max(tally.largest) > 1.5:
        found.append("stored values differ by more than one unit")
    return found


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    names = [*FLOAT_MODELS, *QUANTIZED_MODELS]
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.stablehlo_to_tfl")
    parser.add_argument("--models", default=",".join(names), help="separated by ','")
    parser.add_argument("--draws", type=int, default=100, help="models of each kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(args)
    failures = 0
    print(f"{'model':25}{'draws':>6}{'values':>9}{'interpreted':>22}{'LiteRT':>22}")
    with LiteRTProcess() as process:
        for name in options.models.split(","):
            tally = compare(process, name, options.draws, options.seed)
            counts = "".join(
                f"{different:>9} max {largest:>8.2g}"
                for different, largest in zip(
                    tally.different, tally.largest, strict=True
                )
            )
            print(f"{name:25}{tally.draws:>6}{tally.values:>9}{counts}")
            found = complaints(tally)
            for text in found[:3]:
                print(f"    {text}")
            failures += bool(found)
            sys.stdout.flush()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
