"""
Compare a quantized model with its float model on samples. For each value that both models
contain, the table shows the signal-to-quantization-noise ratio (SQNR) in dB, and the lowest
SQNR of its inputs, the compared values from which it is computed. An op whose SQNR is lower
than that of its inputs adds error.

Values are matched by location name (tensor names of .tflite files), or by function, op name
and position.

examples:
  xdsl-quant-compare model.tflite quantized.tflite --data x.npz
  xdsl-quant-compare model.mlir quantized.mlir --data x.npy --json errors.json
"""

import argparse
import sys
from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.quantizer import DataError
from xdsl_quant.quantizer.comparison import compare
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import is_model_file

from .array_files import check_files
from .failures import exit_code, naming_failures, print_results, read_module, write_json
from .options import add_options, command_parser, shows_progress, with_progress


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = command_parser("xdsl-quant-compare", __doc__)
    for name, kind in (("module", "float"), ("quantized", "quantized")):
        parser.add_argument(
            name,
            metavar=kind,
            help=f"{kind} model: a file with MLIR text, or a .tflite file",
        )
    parser.add_argument(
        "--data",
        required=True,
        metavar="FILE",
        help="samples: rows of the arrays in a .npy or .npz file",
    )
    names = "--labels", "--json", "--entry", "--shape", "--static", "--no-progress"
    add_options(parser, *names)
    return exit_code(_compare_models, parser.parse_args(args))


def _compare_models(options: argparse.Namespace) -> None:
    options.inputs = [options.data]
    others = {"the quantized model": options.quantized}
    if options.labels is not None:
        others[f"--labels {options.labels}"] = options.labels
    check_files(options, "--data", {"--json": options.json}, others)
    float_module, quantized_module = (
        _read(options, path) for path in (options.module, options.quantized)
    )
    shown = shows_progress(options)
    errors = (ValueError, TypeError, ImportError, OSError)
    with (
        naming_failures(options.quantized, *errors),
        naming_failures(options.data, DataError),
    ):
        found = compare(
            float_module,
            quantized_module,
            options.data,
            entry=options.entry,
            progress=with_progress if shown else None,
            labels=options.labels,
        )
    print_results([found], options.json)
    write_json(options.json, found.json())


def _read(options: argparse.Namespace, path: str) -> ModuleOp:
    own = argparse.Namespace(**{**vars(options), "module": path, "passes": ""})
    if not is_model_file(own.module):
        # --shape and --static apply to model files only.
        own.shape, own.static = [], False
    module = read_module(own)
    with naming_failures(path, ValueError):
        entry_function(module, options.entry)
    return module


if __name__ == "__main__":
    sys.exit(main())
