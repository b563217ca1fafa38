"""`xdsl-quant-calibrate`: run a module on samples and write the ranges of its values."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute

from xdsl_quant.calibration import Statistics, calibrate
from xdsl_quant.calibration.evaluation import evaluate, suggested_types
from xdsl_quant.dialects.quant import StatisticsRefOp
from xdsl_quant.display import CalibrationReport
from xdsl_quant.numerics.observers import parse_observer
from xdsl_quant.runtime.entry_function import (
    check_argument_count,
    entry_function,
    functions_run,
)
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_passes
from xdsl_quant.transforms.statistics.quant_calibrated_to_uniform import (
    QuantCalibratedToUniformPass,
)
from xdsl_quant.transforms.statistics.quant_insert_stats_refs import (
    QuantInsertStatsRefsPass,
)
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics

from .array_files import check_files
from .failures import (
    Failure,
    exit_code,
    module_parser,
    read_module,
    read_values,
    reported,
)

_DESCRIPTION = """\
Run a function of a module on samples, and write the ranges of its values to a JSON file
for the pass quant-import-stats.

Ranges are those of the values behind quant.stats_ref. If the module has none, it gets them
from the pass quant-insert-stats-refs, with the keys that the pass always gives."""

_EPILOG = """\
observers:
  min-max              from the smallest to the largest value
  moving-average=0.9   moving averages of min and max of each batch
  percentile=99.99     the middle 99.99 percent of all values
  entropy=8            loses the least information if stored values have 8 bits
  mse=8                has the smallest squared error if stored values have 8 bits
                       (mse=8,symmetric and entropy=8,symmetric: for types with the zero
                       point in the middle)

examples:
  xdsl-quant-calibrate model.mlir --inputs data.npz -o stats.json
  xdsl-quant-calibrate model.mlir --inputs x.npy --batch-size 32 \\
      --observer percentile=99.99 -o stats.json
  xdsl-quant-calibrate model.mlir --inputs x.npy --inputs weights.npy \\
      --batch-size 32 --whole 1 -o stats.json
  xdsl-quant-calibrate model.mlir --inputs x.npy --axis main:argument:0=1 -o stats.json
  xdsl-quant-calibrate model.mlir --inputs x.npy -o stats.json \\
      --report report.html --types 'bits=4 symmetric=true'"""

_BAR_LENGTH = 40


def main(args: Sequence[str] | None = None) -> int:
    """The exit code of the command: 0, or 1 after an error message."""
    return exit_code(_run, _parser().parse_args(args))


def _parser() -> argparse.ArgumentParser:
    parser = module_parser("xdsl-quant-calibrate", _DESCRIPTION, _EPILOG)
    parser.add_argument(
        "--inputs",
        action="append",
        required=True,
        metavar="FILE",
        help="arguments of the function in their order: a .npy file, file.npz:key, "
        "file.npz for all arrays in it, a number, or a list of numbers; more than once for "
        "several",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="the JSON file to write"
    )
    parser.add_argument(
        "--observer",
        default="min-max",
        help="how ranges are found, see below (default: %(default)s)",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        metavar="N",
        help="cut arrays along their first dimension into batches of N, the last of which "
        "may be smaller; by default there is one batch of whole arrays. Every batch gets "
        "the whole of a scalar, and of an array whose first dimension has the size that "
        "the function says, such as weights",
    )
    parser.add_argument(
        "--whole",
        type=int,
        action="append",
        default=[],
        metavar="ARGUMENT",
        help="the number of an argument, from 0, of which every batch gets the whole; more "
        "than once for several",
    )
    parser.add_argument(
        "--axis",
        action="append",
        default=[],
        metavar="KEY=DIMENSION",
        help="a range for each index of a dimension, for the values of a key",
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        help="an HTML page to write: for each key a histogram, the type that the range "
        "leads to, and what quantization to it costs; the worst first",
    )
    parser.add_argument(
        "--types",
        default="",
        metavar="OPTIONS",
        help="options of quant-calibrated-to-uniform for the types in the report, e.g. "
        "'bits=4 symmetric=true'",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="where to keep what was observed, so that an interrupted run of the same "
        "inputs is resumed",
    )
    parser.add_argument(
        "--no-progress",
        action="store_false",
        dest="progress",
        help="do not show how far it is, which is shown if standard error is a terminal",
    )
    return parser


def _run(options: argparse.Namespace) -> None:
    with reported("--observer", ValueError):
        parse_observer(options.observer)
    axes = _axes(options.axis)
    outputs = {
        "-o": options.output,
        "--report": options.report,
        "--checkpoint": options.checkpoint,
    }
    with reported("-o", ValueError):
        check_files(options.module, ("--inputs", options.inputs), outputs)
    conversion = _conversion(options)
    module = read_module(options)
    with reported(options.module, ValueError):
        _insert_refs(module, options)
    inputs = [value for text in options.inputs for value in read_values(text)]
    batches = _batches(inputs, options, module)
    shown = options.progress and sys.stderr.isatty()
    with reported(options.module, TypeError, ValueError, ImportError, OSError):
        statistics = calibrate(
            module,
            _with_progress(batches) if shown else batches,
            options.entry,
            options.observer,
            axes=axes,
            checkpoint=options.checkpoint,
            histograms=options.report is not None,
            missing="keep",
        )
    _warn_of_missing(options, statistics, module)
    with reported(options.output, OSError):
        statistics.save(options.output)
    if options.report is not None:
        with reported(options.report, OSError, ValueError):
            evaluations = evaluate(statistics, conversion, module)
            report = CalibrationReport(evaluations, statistics, conversion)
            report.save(options.report, f"Calibration of {options.module}")
    for key in sorted(statistics.observations):
        low, high = statistics.ranges(key).layer
        print(f"{key}: {low} to {high}")


def _axes(texts: Sequence[str]) -> dict[str, int]:
    """The dimensions of keys."""
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


def _conversion(options: argparse.Namespace) -> QuantCalibratedToUniformPass:
    """The pass that chooses the types in the report. It must be able to choose some."""
    if options.types and options.report is None:
        raise Failure(
            "--types: error: it is for types in a report, so use --report, too"
        )
    pipeline = f"{QuantCalibratedToUniformPass.name}{{{options.types}}}"
    try:
        conversion, *others = parse_passes(pipeline)
        if others or not isinstance(conversion, QuantCalibratedToUniformPass):
            raise ValueError("these are not only options")
        suggested_types({"": KeyStatistics((-1.0, 1.0))}, conversion)
    except (IRError, ValueError) as error:
        # An error of a pipeline says where in it, which is not what the user wrote.
        reason = str(error).rpartition("error: ")[2]
        raise Failure(f"--types {options.types}: error: {reason}") from error
    return conversion


# The module


def _insert_refs(module: ModuleOp, options: argparse.Namespace) -> None:
    """Let there be something to observe."""
    if any(isinstance(op, StatisticsRefOp) for op in module.walk()):
        return
    functions = functions_run(module, entry_function(module, options.entry))
    names = tuple(function.sym_name.data for function in functions)
    apply_passes(module, [QuantInsertStatsRefsPass(symbols=names)])


def _warn_of_missing(
    options: argparse.Namespace, statistics: Statistics, module: ModuleOp
) -> None:
    missing = [
        f"'{op.stats_key.data}'"
        for function in functions_run(module, entry_function(module, options.entry))
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

Rows = NDArray[Any] | list[Any]
"""What can be cut into batches."""


def _batches(
    inputs: Sequence[ArrayLike], options: argparse.Namespace, module: ModuleOp
) -> Sequence[tuple[ArrayLike, ...]]:
    """The arguments for each batch. Lists stay lists: arguments say what they become."""
    size = options.batch_size
    if size is None:
        if options.whole:
            raise Failure("--whole: error: unknown batches, add --batch-size")
        return [tuple(inputs)]
    if size < 1:
        raise Failure(f"--batch-size {size}: error: it is not positive")
    rows = _rows_to_cut(inputs, options, module)
    return [
        tuple(
            rows[i][start : start + size] if i in rows else value
            for i, value in enumerate(inputs)
        )
        for start in range(0, _sample_count(inputs, rows, size), size)
    ]


def _sample_count(
    inputs: Sequence[ArrayLike], rows: Mapping[int, Rows], size: int
) -> int:
    """
    The number of samples in arrays that are cut.

    Raises:
        Failure: if they do not have the same number, or none.
    """
    counts = [len(these) for these in rows.values()]
    if not counts:
        if size in (len(these) for these in map(_rows, inputs) if these is not None):
            # The function takes just as many samples as there are.
            return size
        raise Failure(
            f"--batch-size {size}: error: no input is cut, each is named by --whole or has "
            "the size that the function says; leave the option out"
        )
    if len(set(counts)) > 1:
        raise Failure(
            "--inputs: error: arrays that are cut must have the same number of samples in "
            f"their first dimension, found {', '.join(map(str, counts))}; name those that "
            "are not cut with --whole"
        )
    if not counts[0]:
        raise Failure("--inputs: error: there are no samples")
    return counts[0]


def _rows_to_cut(
    inputs: Sequence[ArrayLike], options: argparse.Namespace, module: ModuleOp
) -> dict[int, Rows]:
    """
    The inputs that are cut into batches, by the numbers of their arguments.

    Raises:
        Failure: if the function takes other arguments.
    """
    with reported(options.module, TypeError, ValueError):
        function = entry_function(module, options.entry)
        name, types = function.sym_name.data, function.function_type.inputs.data
        check_argument_count(name, len(types), len(inputs))
    for index in options.whole:
        if not 0 <= index < len(types):
            raise Failure(
                f"--whole {index}: error: unknown argument, function '{name}' has "
                f"{len(types)}; count them from 0"
            )
    return {
        index: rows
        for index, (value, type_) in enumerate(zip(inputs, types, strict=True))
        if index not in options.whole
        and (rows := _rows(value)) is not None
        and not _is_whole(rows, type_)
    }


def _is_whole(rows: Rows, type_: Attribute) -> bool:
    """Whether the type of an argument says that it takes so many rows."""
    return isinstance(type_, TensorType) and type_.get_shape()[:1] == (len(rows),)


def _rows(value: ArrayLike) -> Rows | None:
    """An input as what can be cut."""
    if isinstance(value, list):
        return cast("list[Any]", value)
    if isinstance(value, np.ndarray) and value.ndim:
        return cast("NDArray[Any]", value)
    return None


def _with_progress(
    batches: Sequence[tuple[ArrayLike, ...]],
) -> Iterator[tuple[ArrayLike, ...]]:
    try:
        for done, batch in enumerate(batches):
            _show(done, len(batches))
            yield batch
        _show(len(batches), len(batches))
    finally:
        print(file=sys.stderr)


def _show(done: int, count: int) -> None:
    bar = "#" * (done * _BAR_LENGTH // max(count, 1))
    text = f"\r[{bar:<{_BAR_LENGTH}}] {done}/{count} batches"
    print(text, end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
