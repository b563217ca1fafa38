"""
Compare integers of `kernels=onnxruntime` with onnxruntime, which fuses float ops between
casts to kernels on stored values: `make oracles`.

    python -m tests.oracles.onnx_kernels --models 200 --seed 0 --ops Conv Add

onnxruntime runs with its optimizer, with one thread, and is told to fuse ops on signed
tensors, too. Weights have 7 bits: on CPUs with AVX2 but without VNNI, its products of
unsigned activations and signed weights saturate sums of two products at 16 bits (its
quantizer has the option `reduce_range` for them). The exit code is 1 if more differs than
is allowed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tests.unit.frontends.onnx.quantized_models import DRAWS, Graph, quantized_graph
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.loading import apply_passes

ALLOWED: Mapping[str, float] = {"Softmax": 50e-6}
"""Share of values that may differ by 1, by op; 0 for other ops."""


def fused_results(model: bytes, arguments: Mapping[str, Array]) -> Sequence[Array]:
    """Return the results of onnxruntime with its optimizer."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.qdqisint8allowed", "1")
    session = runtime.InferenceSession(model, options)
    return session.run(None, dict(arguments))


def kernel_differences(graph: Graph, dtype: DTypeLike) -> NDArray[np.int64]:
    """Return the absolute difference of each stored value."""
    (expected,) = fused_results(graph.model(), graph.arguments)
    module = read_onnx(graph.model(expected.shape, expected.dtype))
    if np.dtype(dtype).kind == "i":
        passes = "stablehlo-legalize-qdq-to-integer{signed=true}"
        apply_passes(module, passes, is_routine=True)
    arguments = graph.arguments.values()
    (result,) = run_function(module, None, *arguments, kernels="onnxruntime")
    found = np.asarray(result).view(expected.dtype)
    return np.abs(found.astype(np.int64) - expected.astype(np.int64)).reshape(-1)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.onnx_kernels")
    parser.add_argument("--models", type=int, default=200, help="models of each kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", nargs="*", default=[*DRAWS], choices=[*DRAWS])
    options = parser.parse_args(args)
    failures = 0
    for op_type in options.ops:
        for dtype in (np.uint8, np.int8):
            graphs = (
                quantized_graph(DRAWS[op_type](rng, dtype), rng, dtype)
                for index in range(options.models)
                for rng in [np.random.default_rng([options.seed, index])]
            )
            found = np.concatenate([kernel_differences(g, dtype) for g in graphs])
            count, largest = np.count_nonzero(found), int(found.max())
            allowed = ALLOWED.get(op_type, 0) * found.size
            is_wrong = count > allowed or largest > 1
            failures += is_wrong
            print(
                f"{op_type} {np.dtype(dtype)}: {count} of {found.size} values differ by "
                f"at most {largest}{': WRONG' if is_wrong else ''}",
                flush=True,
            )
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
