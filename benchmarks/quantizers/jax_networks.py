"""
Quantize networks of jax and flax with this package, and twins with the same weights with
onnxruntime and litert-quantizer.

`python -m benchmarks.quantizers.jax_networks [--litert PYTHON] [NAME ...]` prints the table
of `docs/jax.md`. The environment needs jax and flax; PYTHON is the interpreter of one that
contains litert-quantizer. The exit code is 1 if the compiled float module differs from jax
by more than 2e-6 of the largest result, a kernel stays in floating point, or the SQNR is
more than 1 dB below that of another quantizer.
"""

from __future__ import annotations

import argparse
import logging
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import onnx

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.frontends.onnx import ONNXFileError, write_onnx
from xdsl_quant.frontends.tflite.files import TFLiteFileError, write_tflite
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import as_module

from .jax_models import NETWORKS, Array, JaxNetwork, joined
from .onnx_models import quantized_session

TOLERANCE, MOST_LOST = 2e-6, 1.0

_WORKER = Path(__file__).with_name("litert_worker.py")

Results: TypeAlias = Sequence[Array]


def difference(expected: Results, actual: Results) -> float:
    """Return the largest difference, relative to the largest value of each result."""
    return max(
        float(np.abs(a - e).max() / max(np.abs(e).max(), 1))
        for e, a in zip(expected, actual, strict=True)
    )


def sqnr(expected: Results, actual: Results) -> float:
    """Return the SQNR of the first result in dB."""
    wide = expected[0].astype(np.float64)
    noise = np.square(wide - actual[0]).sum()
    return 10 * math.log10(np.square(wide).sum() / noise)


def ours(network: JaxNetwork) -> tuple[Results, int]:
    """Return the results of the int8 model, and the number of kernels in floats."""
    samples = [*network.samples()]
    model = quantize(network.text(), samples)
    run = compile(model.module)
    in_float = [k for k in model.report(samples).kernels if not k.result_type]
    return joined(run(*arguments) for arguments in samples), len(in_float)


def with_signature(text: str) -> str:
    """Name the arguments and results of jax's `main`, as files of LiteRT do."""
    path = '{{tf_saved_model.index_path = ["{}"]}}'
    head, rest = text.split("@main", 1)
    header, body = rest.split(" {\n", 1)
    header = re.sub(
        r"(%(arg\d+): tensor<[^>]*>)", lambda m: f"{m[1]} {path.format(m[2])}", header
    )
    header = re.sub(
        r'{jax.result_info = "([^"]*)"}', lambda m: path.format(m[1]), header
    )
    names = '{tf_saved_model.exported_names = ["serving_default"]}'
    head = head.replace(" attributes {", " attributes {tf_saved_model.semantics, ")
    return f"{head}@main{header} attributes {names} {{\n{body}"


def onnxruntime(network: JaxNetwork, directory: Path) -> Results | None:
    """Quantize the twin with onnxruntime; return `None` if no file can be written."""
    try:
        file = write_onnx(as_module(network.twin_text()))
    except ONNXFileError as e:
        print(e, file=sys.stderr)
        return None
    names = [value.name for value in onnx.load_from_string(file).graph.input]
    feeds = [dict(zip(names, row, strict=True)) for row in network.samples()]
    session = quantized_session(file, feeds, directory, activations="QUInt8")
    return joined(session.run(None, feed) for feed in feeds)


def litert(python: str, network: JaxNetwork, directory: Path) -> Results | None:
    """Quantize the twin with litert-quantizer; return `None` if it cannot."""
    source, samples, target = (
        directory / name for name in ("float.tflite", "x.npz", "quantized.tflite")
    )
    try:
        module = as_module(with_signature(network.twin_text()))
        source.write_bytes(write_tflite(module))
    except TFLiteFileError as e:
        print(e, file=sys.stderr)
        return None
    arrays: dict[str, Any] = {f"arg{i}": x for i, x in enumerate(network.arguments)}
    np.savez(samples, **arrays)
    command = [python, str(_WORKER), str(source), str(samples), str(target), "min-max"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return None
    run = run_litert(target.read_bytes())
    return joined(run(arguments) for arguments in network.samples())


def run_litert(file: bytes) -> Callable[[Sequence[Array]], Results]:
    """Return a function that runs a file; its arguments and results are floats."""
    interpreter = LiteRT(file)
    inputs, outputs = interpreter.details_of_all()

    def stored(array: Array, detail: Any) -> Array:
        scale, zero_point = detail["quantization"]
        if not scale:
            return array
        rounded = np.round(array / np.float32(scale)) + zero_point
        return np.clip(rounded, -128, 127).astype(detail["dtype"])

    def value(array: Array, detail: Any) -> Array:
        scale, zero_point = detail["quantization"]
        return (array - np.float32(zero_point)) * np.float32(scale) if scale else array

    def run(arguments: Sequence[Array]) -> Results:
        results = interpreter.run(*map(stored, arguments, inputs))
        return [*map(value, results, outputs)]

    return run


def row(name: str, python: str | None) -> tuple[str, bool]:
    """Return the row of a network, and True if it is as required."""
    network = NETWORKS[name]()
    expected = network.results()
    run = compile(as_module(network.text()))
    error = difference(expected, joined(run(*row) for row in network.samples()))
    results, in_float = ours(network)
    with TemporaryDirectory() as temporary:
        directory = Path(temporary)
        twins = [onnxruntime(network, directory)]
        twins += [litert(python, network, directory)] if python else []
    own = sqnr(expected, results)
    others = [None if twin is None else sqnr(expected, twin) for twin in twins]
    cells = ["" if other is None else f"{other:.1f}" for other in others]
    text = f"| {name} | {error:.1e} | {own:.1f} | {' | '.join(cells)} |"
    lost = max((other - own for other in others if other is not None), default=0)
    return text, error <= TOLERANCE and not in_float and lost <= MOST_LOST


def rows(names: Sequence[str], python: str | None) -> Iterator[tuple[str, bool]]:
    """Yield the rows of networks."""
    for name in names:
        yield row(name, python)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--litert", help="the interpreter that has litert-quantizer")
    parser.add_argument("names", nargs="*", metavar="NAME", default=[*NETWORKS])
    options = parser.parse_args(args)
    logging.disable(logging.WARNING)
    failed = False
    for text, is_good in rows(options.names, options.litert):
        print(text, flush=True)
        failed |= not is_good
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
