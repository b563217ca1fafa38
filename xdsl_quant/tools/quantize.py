"""
Quantize a float model: run it on samples to find the ranges of its values, choose
quantization parameters for a hardware target, and write the quantized model.

The table shows for each kernel the signal-to-quantization-noise ratio (SQNR) of its result
in dB, the SQNR if only this kernel is quantized (own), the SQNR of its weights, the
fraction of saturated values, and the size of its constants before and after quantization.

examples:
  xdsl-quant-quantize model.tflite --data x.npz -o quantized.tflite
  xdsl-quant-quantize model.mlir --data x.npy --recipe int8 -o quantized.mlir
  xdsl-quant-quantize model.tflite --data x.npz --recipe mine.toml \\
      --test-data y.npz --report report.html -o quantized.tflite
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.quantizer import Budget, MixedModel, Recipe, quantize, read_recipe
from xdsl_quant.quantizer.labels import Labels
from xdsl_quant.quantizer.recipe import parse_budget
from xdsl_quant.quantizer.recipe_files import RecipeError, recipe_names
from xdsl_quant.quantizer.samples import DataError, batches_of
from xdsl_quant.quantizer.weight_only import quantize_weights
from xdsl_quant.runtime.atomic_files import has_suffix
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.extras import check_packages
from xdsl_quant.runtime.loading import apply_passes, model_format
from xdsl_quant.runtime.plugins import ModelFileError, ModelFormat
from xdsl_quant.transforms.propagation.target_files import TargetError, read_target
from xdsl_quant.transforms.propagation.target_spec import TargetSpec
from xdsl_quant.transforms.statistics.quant_convert_const import QuantConvertConstPass

from .array_files import check_files
from .failures import (
    Failure,
    exit_code,
    failure_at,
    naming_failures,
    print_results,
    read_module,
    report_file,
)
from .options import add_options, command_parser, shows_progress, with_progress


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return exit_code(_quantize_model, _quantize_parser().parse_args(args))


def _quantize_parser() -> argparse.ArgumentParser:
    parser = command_parser("xdsl-quant-quantize", __doc__)
    parser.add_argument(
        "module",
        help="float model: a file with MLIR text, - for standard input, or a .tflite file",
    )
    parser.add_argument(
        "--data",
        dest="inputs",
        action="append",
        required=True,
        metavar="FILE",
        help="samples: a .npy file, or a .npz file with one array per argument of the "
        "function, in order; each row is a sample",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="FILE",
        help="file for the quantized model: .tflite or .mlir",
    )
    _add_recipe_options(parser)
    _add_report_options(parser)
    add_options(parser, "--checkpoint", "--entry", "-p/--passes", "--shape", "--static")
    add_options(parser, "--no-progress")
    return parser


def _add_recipe_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recipe",
        default="int8",
        help=f"a .toml file, or one of {', '.join(recipe_names())} (default: %(default)s)",
    )
    parser.add_argument(
        "--target",
        help="hardware target: a .toml file, or a name from 'xdsl-quant-target list' "
        "(default: the target of the recipe with most kernels for the model)",
    )
    parser.add_argument(
        "--budget",
        help="budget of a recipe that searches bit widths, such as 'mixed': size of the "
        "constants ('20 kB'), loss of SQNR ('6 dB'), or loss of accuracy in percentage "
        "points ('0.5 %%') (default: the budget of the recipe)",
    )


def _add_report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--test-data",
        metavar="FILE",
        help="samples for the report (default: the samples of --data)",
    )
    add_options(parser, "--labels")
    parser.add_argument(
        "--data-labels",
        metavar="FILE",
        help="class index of each sample of --data, for a budget of accuracy (default: "
        "--labels, if there is no --test-data)",
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="also write the report to this file: an HTML page if it ends with .html, "
        "else JSON",
    )
    parser.add_argument(
        "--times",
        action="store_true",
        help="measure the time of the model and of each kernel, float and quantized, as "
        "compiled code",
    )


def _quantize_model(options: argparse.Namespace) -> None:
    _check_files(options)
    recipe, budget, target = _read_recipe(options)
    is_page = _writes_page(options)
    if Path(options.output).suffix.lower() not in ("", ".mlir", ".tflite"):
        raise Failure(f"-o {options.output}: error: expected a .mlir or .tflite file")
    module = read_module(options)
    # Calibration may take long, so check samples and output first.
    batches, test_batches = _read_samples(options, module)
    if (file_format := model_format(options.output)) is not None:
        _check_has_file(file_format, module, recipe, options)
    data = options.inputs[0]
    with naming_failures(options.module, *_ERRORS), naming_failures(data, DataError):
        model = quantize(
            module,
            batches,
            recipe,
            target=target,
            budget=budget,
            labels=_data_labels(recipe, options),
            entry=options.entry,
            checkpoint=options.checkpoint,
            progress=with_progress if shows_progress(options) else None,
        )
    with (
        naming_failures(options.module, *_ERRORS),
        naming_failures(options.test_data or data, DataError),
    ):
        report = model.report(test_batches, options.labels, times=options.times)
    text = ""
    if options.report is not None:
        text = report.page(f"Quantized {options.module}") if is_page else report.json()
    search = (model.search, "") if isinstance(model, MixedModel) else ()
    print_results([*search, report], options.output)
    with report_file(options.report, text):
        with naming_failures(options.output, OSError, ModelFileError, ImportError):
            model.save(options.output)


_ERRORS = (ValueError, TypeError, PassFailedException, OSError)
"""Types of errors that the model may cause."""


def _check_files(options: argparse.Namespace) -> None:
    """Check that --data names one file, and that no output file is an input file."""
    outputs = {
        "-o": options.output,
        "--report": options.report,
        "--checkpoint": options.checkpoint,
    }
    data, *more = options.inputs
    if more:
        raise Failure(
            f"--data {more[0]}: error: expected one file with samples, found "
            f"{len(options.inputs)}; a .npz file has an array for each argument"
        )
    names = "test_data", "labels", "data_labels", "recipe", "target"
    read = {f"--{name.replace('_', '-')}": getattr(options, name) for name in names}
    read = {"--data": data, **read}
    others = {f"{name} {path}": path for name, path in read.items() if path is not None}
    check_files(options, "--data", outputs, others)


def _read_recipe(
    options: argparse.Namespace,
) -> tuple[Recipe, Budget | None, TargetSpec | None]:
    with naming_failures("--recipe", RecipeError):
        recipe = read_recipe(options.recipe)
    if options.checkpoint is not None and recipe.mode != "static":
        raise Failure(
            f"--checkpoint {options.checkpoint}: error: unsupported checkpoint in mode "
            f"'{recipe.mode}' of recipe '{recipe.name}'; leave it out"
        )
    with naming_failures("--budget", ValueError):
        budget = None if options.budget is None else parse_budget(options.budget)
    with naming_failures("--target", TargetError):
        target = None if options.target is None else read_target(options.target)
    return recipe, budget, target


def _writes_page(options: argparse.Namespace) -> bool:
    """Return True if the report is HTML; check that its packages are installed."""
    if options.report is None or not has_suffix(options.report, ".html", ".htm"):
        return False
    with naming_failures(f"--report {options.report}", ImportError):
        check_packages("a page")
    return True


def _read_samples(
    options: argparse.Namespace, module: ModuleOp
) -> tuple[Iterable[Batch], Iterable[Batch]]:
    """Read calibration and test samples, and check that labels match them."""
    with naming_failures(options.module, *_ERRORS):
        function = entry_function(module, options.entry)
    data = options.inputs[0]
    with naming_failures(data, DataError):
        batches = test_batches = batches_of(data, function)[0]
        if options.data_labels is not None:
            Labels.of(options.data_labels, batches)
    with naming_failures(options.test_data or data, DataError):
        if options.test_data is not None:
            test_batches, _ = batches_of(options.test_data, function)
        if options.labels is not None:
            Labels.of(options.labels, test_batches)
    return batches, test_batches


def _data_labels(recipe: Recipe, options: argparse.Namespace) -> str | None:
    """Return the file with the labels of the calibration samples, if any."""
    if options.data_labels is None and recipe.search and options.test_data is None:
        return options.labels
    return options.data_labels


def _check_has_file(
    file_format: ModelFormat,
    module: ModuleOp,
    recipe: Recipe,
    options: argparse.Namespace,
) -> None:
    """
    Check that the format of the output file supports the ops of the model.

    Raises:
        Failure: if it does not.
    """
    if recipe.mode != "static":
        with naming_failures(options.module, ValueError, PassFailedException):
            module = quantize_weights(module, recipe)
            apply_passes(module, [QuantConvertConstPass()])
    try:
        with naming_failures(options.output, ImportError):
            file_format.writer()(module)
    except ModelFileError as e:
        reason = failure_at(options.output, e)
        raise Failure(f"{reason}, or write a .mlir file") from None


if __name__ == "__main__":
    sys.exit(main())
