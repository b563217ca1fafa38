"""
Quantize ONNX networks with this package and onnxruntime, and compare errors and times.

`python -m benchmarks.quantizers.onnx_networks [--models FOLDER] [NAME ...]` prints the
page; `--write docs/measured/onnx_quantizers.md` also writes it. FOLDER contains the
unpacked wheels of `public_models.py`. The networks `wine`, `breast_cancer` and `digits`
are those of `examples.classifiers`. onnxruntime runs all quantized files, and measures the
signal-to-quantization-noise ratio of the results on other samples.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from benchmarks.report import add_write_option, print_page
from examples.classifiers.forms import onnx_model
from examples.classifiers.networks import ARCHITECTURES, Floats, load_network
from xdsl_quant.execution import compile
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.quantizer import quantize

from .onnx_models import quantized_session, session_of
from .public_models import PUBLIC_MODELS

_INTRODUCTION = """\
# Comparison with onnxruntime's quantizer

```sh
python -m benchmarks.quantizers.onnx_networks {names} \\
  --write docs/measured/onnx_quantizers.md
```

`xdsl-quant quantize model.onnx --recipe int8` and onnxruntime's `quantize_static` quantize
each network with the same calibration samples, for three random choices of samples.
onnxruntime stores `u8` activations and `s8` weights with scales per channel, and calibrates
in three ways. onnxruntime runs the files, with its optimizer. Other samples measure the
SQNR, in dB. The last columns are times of the file that `quantize_static` writes, in
microseconds of CPU time on one thread: of onnxruntime, and of `compile` with
`kernels="onnxruntime"`.

`--models FOLDER` adds public models of text recognition, whose samples are images of
handwritten digits: see `benchmarks/quantizers/public_models.py`.

| network | this package | MinMax | Entropy | Percentile | us, onnxruntime | us, `compile` |
|---|---|---|---|---|---|---|"""

SEEDS = 3
CALIBRATION, TEST = 12, 24
"""Number of samples of public models."""

METHODS = "MinMax", "Entropy", "Percentile"


class Case(NamedTuple):
    """A model with one argument, and its samples."""

    model: onnx.ModelProto
    argument: str
    calibration: Sequence[Floats]
    test: Sequence[Floats]


def case_of(name: str, seed: int, folder: Path | None) -> Case:
    """Return a network with samples of a seed."""
    if (public := PUBLIC_MODELS.get(name)) is not None:
        if folder is None:
            raise SystemExit(f"--models: missing folder of the model '{name}'")
        samples = public.samples(seed, CALIBRATION + TEST)
        calibration, test = samples[:CALIBRATION], samples[CALIBRATION:]
        return Case(public.read(folder), public.argument, calibration, test)
    network = load_network(name)
    model = onnx_model(network)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    halves = network.halves(seed)
    calibration, test = (
        [network.samples[i][np.newaxis] for i in rows] for rows in halves
    )
    return Case(model, "x", calibration, test)


def results(session: Any, case: Case) -> NDArray[np.float64]:
    """Run the test samples, and return all results."""
    rows = [session.run(None, {case.argument: x})[0].ravel() for x in case.test]
    return np.concatenate(rows).astype(np.float64)


def decibels(expected: NDArray[np.float64], actual: NDArray[np.float64]) -> float:
    """Return the signal-to-quantization-noise ratio in dB."""
    noise = np.square(expected - actual).sum()
    return float(10 * np.log10(np.square(expected).sum() / noise))


def figures(case: Case, directory: Path) -> Iterator[tuple[str, float]]:
    """Yield the SQNR of each quantizer."""
    source, target = directory / "case.onnx", directory / "ours.onnx"
    source.write_bytes(case.model.SerializeToString())
    expected = results(session_of(source, optimizes=False), case)
    quantize(source, [(x,) for x in case.calibration]).save(target)
    yield "ours", decibels(expected, results(session_of(target), case))
    prepared = directory / "prepared.onnx"
    tools: Any = import_module("onnxruntime.quantization.shape_inference")
    tools.quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
    for method in METHODS:
        with redirect_stdout(StringIO()):
            session = quantized_session(
                prepared.read_bytes(),
                [{case.argument: x} for x in case.calibration],
                directory,
                activations="QUInt8",
                method=method,
            )
        yield method, decibels(expected, results(session, case))


def seconds_of(call: Callable[[], object], repeats: int = 40) -> float:
    """Return the least CPU time of a call in seconds, of `repeats` groups of calls."""
    call()
    count, best = 1, float("inf")
    while repeats:
        start = process_time()
        for _ in range(count):
            call()
        elapsed = process_time() - start
        if elapsed < 2e-3:
            count *= 2
            continue
        best, repeats = min(best, elapsed / count), repeats - 1
    return best


def times(case: Case, file: Path) -> tuple[float, float]:
    """Return the CPU seconds of onnxruntime and of compiled code for a quantized file."""
    x, session = case.test[0], session_of(file)
    compiled = compile(
        read_onnx(file, shapes={case.argument: x.shape}), kernels="onnxruntime"
    )
    return (
        seconds_of(lambda: session.run(None, {case.argument: x})),
        seconds_of(lambda: compiled(x)),
    )


def page(names: Sequence[str], folder: Path | None) -> Iterator[str]:
    """Yield the lines of the page."""
    yield _INTRODUCTION.format(names=" ".join(names))
    for name in names:
        found: dict[str, list[str]] = {}
        cases = [case_of(name, seed, folder) for seed in range(SEEDS)]
        with TemporaryDirectory() as temporary:
            for case in cases:
                for key, value in figures(case, Path(temporary)):
                    found.setdefault(key, []).append(f"{value:.1f}")
            both = times(cases[-1], Path(temporary, "quantized.onnx"))
        cells = [" / ".join(values) for values in found.values()]
        cells += [f"{1e6 * seconds:,.0f}" for seconds in both]
        yield f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="NAME")
    add_write_option(parser)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    names = options.names or [
        *ARCHITECTURES,
        *(PUBLIC_MODELS if options.models else ()),
    ]
    print_page(page(names, options.models), options.write)


if __name__ == "__main__":
    main()
