"""
Quantize the networks of `examples.classifiers` to 8 bits with this package,
litert-quantizer and onnxruntime, with the same samples, and compare the results on other
samples.

`make quantizers` runs `python -m benchmarks.quantizers --litert PYTHON`. PYTHON is the
interpreter of an environment that contains litert-quantizer. `--write
docs/measured/quantizers.md` also writes the page.

The float model is a `.tflite` file that `litert-converter` creates from text, and its
ONNX twin. All quantizers calibrate with the same half of the samples, one sample at a
time in the same order. The results are compared on the other half. Files run in LiteRT's
reference kernels.
"""

from __future__ import annotations

import argparse
import base64
import logging
import math
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import add_write_option, print_page
from examples.classifiers.forms import onnx_model, stablehlo_text, tfl_text
from examples.classifiers.networks import ARCHITECTURES, Floats, Network, load_network
from tests.conformance.answers import Accepted
from tests.conformance.real_mlir import Mlir
from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import compile
from xdsl_quant.quantizer import quantize
from xdsl_quant.quantizer.recording import lower_stablehlo

from .onnx_models import quantized_session

_INTRODUCTION = """\
# Comparison with other quantizers

```sh
make quantizers  # prints this page
python -m benchmarks.quantizers --litert .venv-litert/bin/python \\
  --write docs/measured/quantizers.md
```

Each quantizer quantizes three networks to 8 bits with the same calibration samples: one
half of the samples. The other half measures SQNR and accuracy. Each cell has the figures
for three random halves. The float model is a `.tflite` file that litert-converter writes,
and an equivalent ONNX model. LiteRT's reference kernels run the `.tflite` files. For the
files of this package, its compiled code returns the same integers.

By default, litert-quantizer averages the min and max of batches, which clips values if
a batch has one sample; `min-max` uses the min and max of all samples. onnxruntime and
litert-quantizer run without further options. The networks are small: accuracies differ
by a few samples.

| network | quantizer | SQNR in dB | accuracy |
|---|---|---|---|"""

SEEDS = 3
"""Number of random halves of the samples."""

_TEMPLATE = Path("docs/examples/dense.tflite")
"""A file for the exporter, which replaces the model in it."""

WORKER = Path(__file__).with_name("litert_worker.py")

Run: TypeAlias = Callable[[Floats], Floats]
"""Computes the results of samples."""


class Case(NamedTuple):
    """A network and its calibration samples."""

    network: Network
    file: Path
    """File of the float model."""

    calibration: Floats
    directory: Path


# Quantizers


def run_litert(file: bytes) -> Run:
    """Run a file; its arguments and results are floats or stored values."""
    interpreter = LiteRT(file)
    details: Any = interpreter.details()

    def run(samples: Floats) -> Floats:
        scale, zero_point = details[0]["quantization"]
        rows: NDArray[Any] = samples
        if scale:
            stored = np.round(samples / np.float32(scale)) + zero_point
            rows = np.clip(stored, -128, 127).astype(np.int8)
        results = np.concatenate([interpreter.run(row[None])[0] for row in rows])
        scale, zero_point = details[1]["quantization"]
        return (results - np.float32(zero_point)) * np.float32(scale or 1)

    return run


def ours_tflite(case: Case) -> Run:
    """Quantize with this package, from file to file."""
    target = case.directory / "ours.tflite"
    model = quantize(case.file, case.calibration)
    model.save(target)
    run, compiled = run_litert(target.read_bytes()), compile(model.module)
    sample = case.calibration[:1]
    if not np.array_equal(run(sample), compiled(sample)):
        raise AssertionError("LiteRT and compiled code differ")
    return run


def ours_stablehlo(case: Case) -> Run:
    """Quantize with this package, from StableHLO to integers."""
    module = quantize(stablehlo_text(case.network), case.calibration).module
    lower_stablehlo(module)
    compiled = compile(module)
    return lambda samples: np.concatenate([compiled(row[None]) for row in samples])


def litert_quantizer(python: str, case: Case, ranges: str) -> Run:
    """Quantize with litert-quantizer's recipe of 8-bit weights and activations."""
    samples, target = case.directory / "x.npz", case.directory / "theirs.tflite"
    np.savez(samples, x=case.calibration)
    command = [python, str(WORKER), str(case.file), str(samples), str(target), ranges]
    subprocess.run(command, check=True, capture_output=True)
    return run_litert(target.read_bytes())


def onnxruntime(case: Case) -> Run:
    """Quantize with onnxruntime: static quantization to QDQ, per-channel."""
    model = onnx_model(case.network).SerializeToString()
    rows = ({"x": row[None]} for row in case.calibration)
    session = quantized_session(model, rows, case.directory)
    return lambda samples: session.run(None, {"x": samples})[0]


# Comparison


class Result(NamedTuple):
    """The result of a quantizer for a network."""

    sqnr: float
    """SQNR in dB, on samples outside of calibration."""

    accuracy: float


def decibels(expected: Floats, actual: Floats) -> float:
    """Return the signal-to-quantization-noise ratio in dB."""
    wide = expected.astype(np.float64)
    return 10 * math.log10(np.square(wide).sum() / np.square(wide - actual).sum())


def results(
    network: Network, file: Path, python: str, directory: Path
) -> Iterator[Mapping[str, Result]]:
    """Run all quantizers on a network, for each half of the samples."""
    exact = run_litert(file.read_bytes())
    for seed in range(SEEDS):
        rows, others = network.halves(seed)
        case = Case(network, file, network.samples[rows], directory)
        samples = network.samples[others]
        expected = exact(samples)
        runs = {
            "float": exact,
            "this package, .tflite": ours_tflite(case),
            "this package, StableHLO": ours_stablehlo(case),
            "onnxruntime": onnxruntime(case),
            "litert-quantizer": litert_quantizer(python, case, "average"),
            "litert-quantizer, min-max": litert_quantizer(python, case, "min-max"),
        }
        found: dict[str, Result] = {}
        for name, run in runs.items():
            actual = run(samples)
            sqnr = math.inf if name == "float" else decibels(expected, actual)
            found[name] = Result(sqnr, network.accuracy(actual, others))
        yield found


def table(name: str, found: Sequence[Mapping[str, Result]]) -> Iterator[str]:
    """Yield the rows of a network, with the figures for each half of the samples."""
    for quantizer in found[0]:
        sqnr = " / ".join(
            "exact" if quantizer == "float" else f"{each[quantizer].sqnr:.1f}"
            for each in found
        )
        accuracy = " / ".join(f"{each[quantizer].accuracy:.1%}" for each in found)
        yield f"| {name} | {quantizer} | {sqnr} | {accuracy} |"


def page(python: str) -> Iterator[str]:
    """Yield the lines of the page."""
    yield _INTRODUCTION
    with (
        Mlir(package="litert_converter.mlir") as converter,
        TemporaryDirectory() as temporary,
    ):
        for name in ARCHITECTURES:
            network, file = load_network(name), Path(temporary, f"{name}.tflite")
            exported = converter.exported(tfl_text(network), _TEMPLATE.read_bytes())
            if not isinstance(exported, Accepted):
                raise TypeError(f"litert-converter refuses the network: {exported}")
            file.write_bytes(base64.b64decode(exported.text))
            found = [*results(network, file, python, Path(temporary))]
            yield from table(name, found)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--litert", required=True, help="the interpreter")
    add_write_option(parser)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    print_page(page(options.litert), options.write)


if __name__ == "__main__":
    main()
