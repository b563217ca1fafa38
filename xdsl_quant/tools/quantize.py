"""The command `xdsl-quant quantize`: a quantized model and its report."""

import argparse
import sys
from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.calibration.checkpoint import CheckpointError
from xdsl_quant.quantizer import (
    Budget,
    MixedModel,
    ModelReport,
    QuantizedModel,
    Recipe,
    quantize,
    read_recipe,
)
from xdsl_quant.quantizer.dynamic_ranges import quantize_activations
from xdsl_quant.quantizer.labels import Labels
from xdsl_quant.quantizer.recipe import parse_budget
from xdsl_quant.quantizer.recipe_files import RecipeError, with_target_of_file
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

from .array_files import (
    check_files,
    check_model_output,
    check_report,
    data_file,
    read_samples,
)
from .commands import parse_arguments
from .failures import (
    Failure,
    exit_code,
    failure_at,
    naming_failures,
    print_results,
    read_module,
    report_file,
)
from .options import shows_progress, with_progress


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return exit_code(_quantize_model, parse_arguments("quantize", args))


def _quantize_model(options: argparse.Namespace) -> None:
    _check_files(options)
    recipe, budget, target = _read_recipe(options)
    is_page = _writes_page(options)
    check_model_output(options.output)
    # Kernels that targets match have static sizes.
    options.static |= has_suffix(options.module, ".onnx")
    module = read_module(options)
    # Calibration may take long, so check samples and output first.
    batches, test_batches = _read_samples(options, module)
    if (file_format := model_format(options.output)) is not None:
        _check_has_file(file_format, module, recipe, options)
    data = data_file(options)
    with (
        naming_failures(options.module, *_ERRORS),
        naming_failures(data, DataError),
        naming_failures(f"--checkpoint {options.checkpoint}", CheckpointError),
    ):
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
    _write_outputs(options, model, report, is_page=is_page)


def _write_outputs(
    options: argparse.Namespace,
    model: QuantizedModel,
    report: ModelReport,
    *,
    is_page: bool,
) -> None:
    text = ""
    if options.report is not None:
        text = report.page(f"Quantized {options.module}") if is_page else report.json()
    search = (model.search, "") if isinstance(model, MixedModel) else ()
    print_results([*search, report], options)
    with (
        report_file(options.report, text),
        report_file(options.json, report.json()),
        naming_failures(options.output, OSError, ModelFileError, ImportError),
    ):
        if options.output == "-":
            print(model.module)
        else:
            model.save(options.output)


_ERRORS = (ValueError, TypeError, PassFailedException, OSError)
"""Types of errors that the model may cause."""


def _check_files(options: argparse.Namespace) -> None:
    """Check the suffix of the report, and that no output file is an input file."""
    outputs = {
        "-o": options.output,
        "--report": options.report,
        "--json": options.json,
        "--checkpoint": options.checkpoint,
    }
    names = "test_data", "labels", "data_labels", "recipe", "target"
    read = {f"--{name.replace('_', '-')}": getattr(options, name) for name in names}
    others = {f"{name} {path}": path for name, path in read.items() if path is not None}
    check_files(options, outputs, others)
    check_report(options.report, ".html", ".htm", ".json")


def _read_recipe(
    options: argparse.Namespace,
) -> tuple[Recipe, Budget | None, TargetSpec | None]:
    with naming_failures("--recipe", RecipeError):
        recipe = with_target_of_file(
            read_recipe(options.recipe), options.recipe, options.module
        )
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
    if options.report is None or has_suffix(options.report, ".json"):
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
    data = data_file(options)
    with naming_failures(data, DataError):
        batches = test_batches = batches_of(read_samples(data), function)[0]
        if options.data_labels is not None:
            Labels.of(options.data_labels, batches)
    with naming_failures(options.test_data or data, DataError):
        if options.test_data is not None:
            test_batches, _ = batches_of(read_samples(options.test_data), function)
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
            quantize_activations(module)
            apply_passes(module, [QuantConvertConstPass()], is_routine=True)
    try:
        with naming_failures(options.output, ImportError):
            file_format.writer()(module)
    except ModelFileError as e:
        reason = failure_at(options.output, e)
        raise Failure(f"{reason}, or write a .mlir file") from None


if __name__ == "__main__":
    sys.exit(main())
