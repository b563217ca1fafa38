"""
Quantize a float model: observe the ranges of its values on samples, choose quantization
parameters for a hardware target, and write the quantized model. What is printed tells what
this costs, kernel by kernel: the signal to quantization noise ratio (SQNR) of each result
in dB, that which it has if no other kernel is quantized (own), that of the weights, and
the part of the values that is saturated.

Samples are the rows of arrays. A recipe says what to quantize, and how.

examples:
  xdsl-quant-quantize model.tflite --data x.npz -o quantized.tflite
  xdsl-quant-quantize model.mlir --data x.npy --recipe int8 -o quantized.mlir
  xdsl-quant-quantize model.tflite --data x.npz --recipe mine.toml \\
      --test-data y.npz --report report.json -o quantized.tflite
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.quantizer import QuantizedModel, quantize, read_recipe
from xdsl_quant.quantizer.recipe_files import RecipeError, recipe_names
from xdsl_quant.runtime.atomic_files import write_text_atomically
from xdsl_quant.runtime.loading import is_tflite_file

from .array_files import check_files
from .failures import exit_code, module_parser, read_module, reported
from .progress import with_progress


def main(args: Sequence[str] | None = None) -> int:
    """The exit code of the command: 0, or 1 after an error message."""
    return exit_code(_run, _parser().parse_args(args))


def _parser() -> argparse.ArgumentParser:
    parser = module_parser("xdsl-quant-quantize", __doc__, "--data", required=True)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="the quantized model: a .tflite file, or the text of a module",
    )
    parser.add_argument(
        "--recipe",
        default="int8",
        help=f"a .toml file, or one of {', '.join(recipe_names())} (default: %(default)s)",
    )
    parser.add_argument(
        "--target",
        help="a hardware target: a .toml file, or a name that xdsl-quant-target lists; by "
        "default the one of the recipe that has most kernels for the model",
    )
    parser.add_argument(
        "--test-data",
        metavar="FILE",
        help="samples to measure errors with; by default those of --data",
    )
    parser.add_argument(
        "--report", metavar="FILE", help="where to write what is printed, as JSON"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="where to keep what was observed, so that an interrupted run of the same "
        "samples is resumed",
    )
    parser.add_argument(
        "--no-progress",
        action="store_false",
        dest="progress",
        help="do not show how far it is, which is shown if standard error is a terminal",
    )
    return parser


def _run(options: argparse.Namespace) -> None:
    outputs = {
        "-o": options.output,
        "--report": options.report,
        "--checkpoint": options.checkpoint,
    }
    check_files(options, "--data", outputs)
    with reported("--recipe", RecipeError):
        recipe = read_recipe(options.recipe)
    module = read_module(options)
    shown = options.progress and sys.stderr.isatty()
    with reported(options.module, ValueError, TypeError, PassFailedException, OSError):
        model = quantize(
            module,
            options.inputs[0],
            recipe,
            target=options.target,
            entry=options.entry,
            checkpoint=options.checkpoint,
            progress=with_progress if shown else None,
        )
        report = model.report(options.test_data or options.inputs[0])
    _save(model, options)
    if options.report is not None:
        with reported(options.report, OSError):
            write_text_atomically(options.report, report.json())
    print(report)


def _save(model: QuantizedModel, options: argparse.Namespace) -> None:
    if is_tflite_file(options.output):
        from xdsl_quant.frontends.tflite import TFLiteFileError

        with reported(options.output, OSError, TFLiteFileError, ImportError):
            model.save(options.output)
        return
    with reported(options.output, OSError):
        model.save(options.output)


if __name__ == "__main__":
    sys.exit(main())
