"""
Quantize ONNX networks with this package and onnxruntime, and compare errors and times.

`python -m benchmarks.quantizers.onnx_networks [--models FOLDER] [--litert PYTHON] [NAME
...]` prints the page; `--write docs/measured/onnx_quantizers.md` also writes it. FOLDER
contains the unpacked wheels of `public_models.py`. PYTHON is the interpreter of an
environment that contains litert-quantizer. The networks `wine`, `breast_cancer` and
`digits` are those of `examples.classifiers`. onnxruntime runs all quantized `.onnx` files,
and measures the signal-to-quantization-noise ratio of the results on other samples.
"""

from __future__ import annotations

import argparse
import logging
import math
import subprocess
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
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnitAttr,
)

from benchmarks.report import add_write_option, print_page
from examples.classifiers.forms import onnx_model
from examples.classifiers.networks import ARCHITECTURES, Floats, load_network
from xdsl_quant.execution import compile
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.frontends.tflite.dialect.signatures import INDEX_PATH
from xdsl_quant.frontends.tflite.files import write_tflite
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import apply_passes

from .__main__ import WORKER, run_litert
from .onnx_models import quantized_session, session_of
from .public_models import PUBLIC_MODELS

_INTRODUCTION = """\
# Comparison with onnxruntime's quantizer

```sh
python -m benchmarks.quantizers.onnx_networks --models FOLDER \\
  --litert .venv-litert/bin/python --write docs/measured/onnx_quantizers.md
```

`xdsl-quant quantize model.onnx --recipe int8` and onnxruntime's `quantize_static` quantize
each network with the same calibration samples, for three random choices of samples.
onnxruntime stores `u8` activations and `s8` weights with scales per channel, and calibrates
in three ways. onnxruntime runs the files, with its optimizer. litert-quantizer quantizes
the `.tflite` file that `xdsl-quant import` writes, with the min and max of the samples;
LiteRT's reference kernels run the result. Other samples measure the SQNR, in dB.

The first three networks are those of `examples/classifiers`. The others are public models:
direction of a line of text (400 test samples, because it has two results), and recognition
of text in two ways (24 test samples, with many results each). Their samples are images of
handwritten digits, 12 for calibration: see `benchmarks/quantizers/public_models.py`.

| network | this package | MinMax | Entropy | Percentile | litert-quantizer |
|---|---|---|---|---|---|"""

_TIMES = """
Times of the file that `quantize_static` writes (Percentile), in microseconds of CPU time on
one thread: of onnxruntime, and of `compile` with `kernels="onnxruntime"`.

| network | onnxruntime | `compile` |
|---|---|---|"""

SEEDS = 3
CALIBRATION = 12
"""Number of calibration samples of public models."""

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
        samples = public.samples(seed, CALIBRATION + public.test_count)
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


def figures(
    case: Case, directory: Path, python: str | None
) -> Iterator[tuple[str, float]]:
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
    if python is not None:
        yield "litert-quantizer", litert_figure(case, expected, python, directory)


def twin_of(source: Path) -> bytes:
    """Convert a model to a `.tflite` file with a signature and unique names."""
    module = read_onnx(source)
    function = entry_function(module)
    module.attributes["tf_saved_model.semantics"] = UnitAttr()
    function.attributes["tf_saved_model.exported_names"] = ArrayAttr(
        [StringAttr("serving_default")]
    )
    function.arg_attrs, function.res_attrs = (
        ArrayAttr([DictionaryAttr({INDEX_PATH: ArrayAttr([StringAttr(name)])})])
        for name in "xy"
    )
    apply_passes(module, "convert-stablehlo-to-tfl")
    for index, op in enumerate(module.walk()):
        op.location = NameLoc(StringAttr(f"op{index}"), NoneAttr())
    return write_tflite(module)


def litert_figure(
    case: Case, expected: NDArray[np.float64], python: str, directory: Path
) -> float:
    """Return the SQNR of litert-quantizer; NaN if it cannot quantize the model."""
    file = directory / "twin.tflite"
    file.write_bytes(twin_of(directory / "case.onnx"))
    rows, test = (np.concatenate(each) for each in (case.calibration, case.test))
    command = [python, str(WORKER), str(file), "x.npz", "litert.tflite", "min-max"]
    np.savez(directory / "x.npz", x=rows)
    command[3:5] = (str(directory / name) for name in command[3:5])
    if subprocess.run(command, capture_output=True).returncode:
        return float("nan")
    run = run_litert((directory / "litert.tflite").read_bytes())
    return decibels(expected, run(test).ravel().astype(np.float64))


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


def page(
    names: Sequence[str], folder: Path | None, python: str | None
) -> Iterator[str]:
    """Yield the lines of the page."""
    yield _INTRODUCTION
    rows: list[str] = []
    for name in names:
        found: dict[str, list[str]] = {}
        cases = [case_of(name, seed, folder) for seed in range(SEEDS)]
        with TemporaryDirectory() as temporary:
            for case in cases:
                for key, value in figures(case, Path(temporary), python):
                    text = "-" if math.isnan(value) else f"{value:.1f}"
                    found.setdefault(key, []).append(text)
            both = times(cases[-1], Path(temporary, "quantized.onnx"))
        cells = [" / ".join(values) for values in found.values()]
        yield f"| {' | '.join([name, *cells])} |"
        both_texts = (f"{1e6 * seconds:,.0f}" for seconds in both)
        rows.append(f"| {' | '.join([name, *both_texts])} |")
    yield from (_TIMES, *rows)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, metavar="FOLDER")
    parser.add_argument("--litert", metavar="PYTHON")
    parser.add_argument("names", nargs="*", metavar="NAME")
    add_write_option(parser)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    names = options.names or [
        *ARCHITECTURES,
        *(PUBLIC_MODELS if options.models else ()),
    ]
    print_page(page(names, options.models, options.litert), options.write)


if __name__ == "__main__":
    main()
