"""The command `xdsl-quant calibrate`: ranges of the values of a model on samples."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp

from xdsl_quant.calibration import Statistics, calibrate
from xdsl_quant.calibration.checkpoint import CheckpointError
from xdsl_quant.dialects.quant import StatisticsRefOp
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.observers import parse_observer
from xdsl_quant.quantizer.samples import Batches, DataError, batches_of
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.runtime.entry_function import (
    check_argument_count,
    entry_function,
    reachable_functions,
)
from xdsl_quant.runtime.extras import check_packages, slice_function
from xdsl_quant.runtime.loading import apply_passes, parse_passes
from xdsl_quant.transforms.statistics.quant_calibrated_to_uniform import (
    QuantCalibratedToUniformPass,
)
from xdsl_quant.transforms.statistics.quant_insert_stats_refs import (
    QuantInsertStatsRefsPass,
)
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics

from .array_files import check_files, check_report, data_file, read_samples, read_values
from .commands import parse_arguments
from .failures import (
    Failure,
    exit_code,
    naming_failures,
    print_results,
    read_module,
    report_file,
    write_text,
)
from .options import shows_progress, with_progress

_REPORT = "a report"


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return exit_code(_calibrate, parse_arguments("calibrate", args))


def _calibrate(options: argparse.Namespace) -> None:
    with naming_failures("--observer", ValueError):
        parse_observer(options.observer)
    axes = _key_dimensions(options.axis)
    outputs = {
        "-o": options.output,
        "--report": options.report,
        "--checkpoint": options.checkpoint,
    }
    check_files(options, outputs)
    check_report(options.report, ".html", ".htm")
    conversion = _conversion(options)
    module = read_module(options)
    functions = _instrument(module, options)
    batches = _batches(options, functions[0])
    with (
        naming_failures(options.module, *_ERRORS),
        naming_failures(f"--checkpoint {options.checkpoint}", CheckpointError),
    ):
        statistics = calibrate(
            module,
            _with_progress(batches, options),
            options.entry,
            options.observer,
            axes=axes,
            checkpoint=options.checkpoint,
            histograms=options.report is not None,
            missing="keep",
        )
    _warn_of_missing(options, statistics, functions)
    page = ""
    if conversion is not None:
        with naming_failures(str(options.report), ValueError):
            name = "display.calibration_report.calibration_page"
            make_page = slice_function(_REPORT, name)
            title = f"Calibration of {options.module}"
            page = make_page(title, statistics, conversion, module)
    ranges = [(k, *statistics.ranges(k).layer) for k in sorted(statistics.observations)]
    print_results((f"{k}: {low} to {high}" for k, low, high in ranges), options)
    with report_file(options.report, page):
        write_text(options.output, statistics.to_text())


_ERRORS = TypeError, ValueError, ImportError, OSError
"""Types of errors that the model may cause."""


def _with_progress(
    batches: Sequence[Batch] | Batches, options: argparse.Namespace
) -> Iterable[Batch]:
    return with_progress(batches, len(batches)) if shows_progress(options) else batches


def _instrument(module: ModuleOp, options: argparse.Namespace) -> Sequence[FuncOp]:
    """
    Add a `quant.stats_ref` to each value if the module has no such op. Return the entry
    function, followed by the functions that it reaches.
    """
    with naming_failures(options.module, ValueError):
        functions = reachable_functions(module, entry_function(module, options.entry))
        if not any(isinstance(op, StatisticsRefOp) for op in module.walk()):
            names = tuple(function.sym_name.data for function in functions)
            passes = [QuantInsertStatsRefsPass(symbols=names)]
            apply_passes(module, passes, is_routine=True)
    return functions


def _key_dimensions(texts: Sequence[str]) -> dict[str, int]:
    """Return the channel dimension by key from the values of `--axis`."""
    axes: dict[str, int] = {}
    for text in texts:
        key, _, dimension = text.rpartition("=")
        if not key or not dimension.removeprefix("-").isdecimal():
            raise Failure(f"--axis {text}: error: expected KEY=DIMENSION")
        if dimension.startswith("-"):
            raise Failure(f"--axis {text}: error: dimensions count from 0")
        if (known := axes.get(key)) is not None:
            raise Failure(
                f"--axis {text}: error: key '{key}' has dimension {known} already"
            )
        axes[key] = int(dimension)
    return axes


def _conversion(options: argparse.Namespace) -> QuantCalibratedToUniformPass | None:
    """Return the pass that chooses types for the report; `None` without a report."""
    if options.report is None:
        if options.types:
            raise Failure(
                "--types: error: option applies to the report only; add --report"
            )
        return None
    with naming_failures(f"--report {options.report}", ImportError):
        check_packages(_REPORT, "Jinja2")
    types_of = slice_function(_REPORT, "display.evaluation.suggested_types")
    pipeline = f"{QuantCalibratedToUniformPass.name}{{{options.types}}}"
    try:
        conversion, *others = parse_passes(pipeline)
        if others or not isinstance(conversion, QuantCalibratedToUniformPass):
            raise ValueError("expected pass options only")
        types_of({"": KeyStatistics((-1.0, 1.0))}, conversion)
    except ValueError as error:
        # Drop the position, which refers to the pipeline, not to the option.
        reason = str(error).rpartition("error: ")[2]
        raise Failure(f"--types {options.types}: error: {reason}") from error
    return conversion


def _warn_of_missing(
    options: argparse.Namespace, statistics: Statistics, functions: Sequence[FuncOp]
) -> None:
    missing = [
        f"'{op.stats_key.data}'"
        for function in functions
        for op in function.walk()
        if isinstance(op, StatisticsRefOp)
        and op.stats_key.data not in statistics.observations
    ]
    if missing:
        print(
            f"{options.module}: warning: no batch reached these keys: "
            f"{', '.join(missing)}; add inputs that take this path",
            file=sys.stderr,
        )


# Samples


def _batches(
    options: argparse.Namespace, function: FuncOp
) -> Sequence[Batch] | Batches:
    """Return the arguments of each batch. Lists stay lists until their dtype is known."""
    if options.data:
        if options.batch_size is not None or options.whole:
            raise Failure("--batch-size, --whole: error: options apply to --input only")
        data = data_file(options)
        with naming_failures(data, DataError):
            batches, _ = batches_of(read_samples(data), function)
            assert isinstance(batches, Batches)
            return batches
    return _split(read_values(options), options, function)


def _split(
    inputs: Sequence[ArrayLike], options: argparse.Namespace, function: FuncOp
) -> Sequence[tuple[ArrayLike, ...]]:
    """Split the inputs into batches of `--batch-size`."""
    size = options.batch_size
    if size is None:
        if options.whole:
            raise Failure("--whole: error: missing option --batch-size")
        return [tuple(inputs)]
    if size < 1:
        raise Failure(f"--batch-size {size}: error: expected a positive number")
    counts = _sample_counts(inputs, options, function)
    if not counts:
        if (size,) in map(_rows, inputs):
            # The function takes all samples at once.
            return [tuple(inputs)]
        raise Failure(
            f"--batch-size {size}: error: no input can be split: all are named by --whole "
            "or have a static first dimension; remove the option"
        )
    first, *others = counts.values()
    if any(count != first for count in others):
        raise Failure(
            "--input: error: expected the same number of samples in all arrays, found "
            f"{', '.join(map(str, counts.values()))}; use --whole for arrays to pass whole "
            "to every batch"
        )
    if not first:
        raise Failure("--input: error: expected at least one sample, found none")
    return [
        tuple(
            cast("Array", value)[start : start + size] if index in counts else value
            for index, value in enumerate(inputs)
        )
        for start in range(0, first, size)
    ]


def _sample_counts(
    inputs: Sequence[ArrayLike], options: argparse.Namespace, function: FuncOp
) -> dict[int, int]:
    """
    Map the index of each input that is split into batches to its number of samples.

    Raises:
        Failure: if the arguments do not match the function.
    """
    name, types = function.sym_name.data, function.function_type.inputs.data
    with naming_failures(options.module, TypeError):
        check_argument_count(name, len(types), len(inputs))
    for index in options.whole:
        if not 0 <= index < len(types):
            raise Failure(
                f"--whole {index}: error: unknown argument, function '{name}' has "
                f"{len(types)}; count them from 0"
            )
    return {
        index: rows[0]
        for index, (value, type_) in enumerate(zip(inputs, types, strict=True))
        if index not in options.whole
        and (rows := _rows(value))
        # An argument whose static first dimension equals the row count is not split.
        and not (isinstance(type_, TensorType) and type_.get_shape()[:1] == rows)
    }


def _rows(value: ArrayLike) -> tuple[int, ...]:
    """Return a tuple with the size of the first dimension of an input, empty for rank 0."""
    if isinstance(value, list):
        return (len(cast("list[object]", value)),)
    return np.shape(value)[:1]


if __name__ == "__main__":
    sys.exit(main())
