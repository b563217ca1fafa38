"""
Compare quantized ONNX models with onnxruntime without its optimizer: `make oracles`.

    python -m tests.oracles.onnx_quantized --models 200 --seed 0 --ops Conv Add

Each op is drawn as a float op between casts (QDQ), as a kernel of onnxruntime, or alone.
Integers of casts, sums of products and ops whose floats are rounded alike are equal;
others differ by at most 1. The exit code is 1 if more differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import DTypeLike

from tests.unit.frontends.onnx.onnxruntime_results import runtime_results
from tests.unit.frontends.onnx.quantized_models import (
    CASTS,
    DRAWS,
    EXACT,
    KERNELS,
    Graph,
    quantized_graph,
)
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.machines.numpy import run_function

_DTYPES = (np.uint8, np.int8)


@dataclass(frozen=True)
class Kind:
    """Models of one op in one form."""

    op_type: str
    form: str
    dtype: DTypeLike

    @property
    def tolerance(self) -> int:
        """Largest difference of integers."""
        is_exact = self.form == "alone" or (
            self.form == "QDQ" and self.op_type in EXACT
        )
        return 0 if is_exact else 1

    def generator(self, seed: int, index: int) -> Generator:
        return np.random.default_rng([seed, index, np.dtype(self.dtype).num])

    def graph(self, rng: Generator) -> Graph:
        if self.form == "alone":
            return CASTS[self.op_type](rng, self.dtype)
        drawn = DRAWS[self.op_type](rng, self.dtype)
        is_kernel = self.form == "kernel"
        return quantized_graph(drawn, rng, self.dtype, is_kernel=is_kernel)


def _kinds(ops: Sequence[str]) -> Iterator[Kind]:
    for form, known in (("alone", CASTS), ("QDQ", DRAWS), ("kernel", KERNELS)):
        for op_type in known:
            for dtype in _DTYPES:
                if not ops or op_type in ops:
                    yield Kind(op_type, form, dtype)


def _differences(graph: Graph) -> np.ndarray:
    """Return the difference of each value; of floats, 1 where bits differ."""
    (expected,) = runtime_results(graph.model(), graph.arguments)
    model = graph.model(expected.shape, expected.dtype)
    (result,) = run_function(read_onnx(model), None, *graph.arguments.values())
    result = np.asarray(result)
    if expected.dtype.kind == "f":
        return (result.view("i4") != expected.view("i4")).astype(int)
    result = result.view(expected.dtype)
    return np.abs(result.astype(np.int64) - expected.astype(np.int64))


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.onnx_quantized")
    parser.add_argument("--models", type=int, default=200, help="models of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", nargs="*", default=(), help="ops, by default all")
    options = parser.parse_args(args)
    failures = 0
    for kind in _kinds(options.ops):
        differences = np.concatenate(
            [
                _differences(kind.graph(kind.generator(options.seed, index))).reshape(
                    -1
                )
                for index in range(options.models)
            ]
        )
        largest = int(differences.max())
        is_wrong = largest > kind.tolerance
        failures += is_wrong
        print(
            f"{kind.op_type} {kind.form} {np.dtype(kind.dtype)}: "
            f"{np.count_nonzero(differences)} of {differences.size} values differ by at "
            f"most {largest}{': WRONG' if is_wrong else ''}",
            flush=True,
        )
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
