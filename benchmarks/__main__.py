"""Run all benchmarks, and optionally write `docs/measured/benchmarks.md`."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from benchmarks import (
    calibration,
    casts_in_one_function,
    formats,
    integer_kernels,
    kernels,
    large_types,
    limits,
    models,
    observers,
    passes,
    propagation,
    start_up,
    tflite_fallback,
    tflite_files,
)
from benchmarks.report import Options, Report, add_options, environment
from xdsl_quant.runtime.atomic_files import write_text_atomically

SCRIPTS: tuple[tuple[str, ModuleType, Report], ...] = (
    ("Casts in one function", casts_in_one_function, casts_in_one_function.report),
    ("Large types", large_types, large_types.report),
    ("Passes on types", passes, passes.report),
    ("Files of TensorFlow Lite", tflite_files, tflite_files.report),
    ("Propagation", propagation, propagation.report),
    ("Start-up", start_up, start_up.report),
    ("Kernels", kernels, kernels.report),
    ("Formats", formats, formats.report),
    ("Integer kernels", integer_kernels, integer_kernels.report),
    ("Models", models, models.report),
    ("Calibration", calibration, calibration.report),
    ("Observers", observers, observers.report),
    ("Fallback of TensorFlow Lite's ops", tflite_fallback, tflite_fallback.report),
    ("Layers, types and float functions", limits, limits.report),
)

_INTRODUCTION = """\
# Benchmarks

Compile time and memory compared with MLIR, and kernels compared with onnxruntime and torch.
Each table is measured in one run: do not compare numbers of different tables. MLIR is C++
and xDSL is Python, so the targets for passes are linear time in the size of the input, and
no Python code that runs once per scale. The target for compiled kernels is memory
bandwidth.

`make bench` runs all benchmarks. `python -m benchmarks --write docs/measured/benchmarks.md`
also writes this page. The command in each section runs that section alone. `--quick` uses
small sizes. Targets are not tests: a target that does not hold is listed with the reason.

Machine: {environment} The MLIR of the wheel is built with assertions. Peak memory is that
of the process; an idle process takes 25 MiB with xDSL and 125 MiB with MLIR.
"""


def _paragraphs(options: Options) -> Iterator[str]:
    yield _INTRODUCTION.format(environment=environment())
    for title, module, report in SCRIPTS:
        name = module.__name__.rpartition(".")[2]
        yield f"## {title}"
        yield f"```sh\npython -m benchmarks.{name}\n```"
        yield (module.__doc__ or "").strip()
        yield from report(options)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="also write the output to a file",
    )
    arguments = parser.parse_args()
    written: list[str] = []
    for paragraph in _paragraphs(Options(arguments.quick, arguments.all)):
        print(f"{paragraph}\n", flush=True)
        written.append(paragraph.strip())
    if arguments.write is not None:
        write_text_atomically(arguments.write, "\n\n".join(written) + "\n")


if __name__ == "__main__":
    main()
