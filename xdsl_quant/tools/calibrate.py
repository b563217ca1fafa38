"""`xdsl-quant-calibrate`: run a module on samples and write the ranges of its values."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from xdsl_quant.calibration import Statistics, calibrate
from xdsl_quant.dialects.quant import StatisticsRefOp
from xdsl_quant.entry_function import entry_function
from xdsl_quant.loading import IRError, apply_passes, parse_module, parse_passes
from xdsl_quant.numerics.observers import parse_observer
from xdsl_quant.transforms.quant_insert_stats_refs import QuantInsertStatsRefsPass

from .failures import Failure, exit_code, failure, read_text, read_values

_DESCRIPTION = """\
Run a function of a module on samples, and write the ranges of its values to a JSON file
for the pass quant-import-stats.

Ranges are those of the values behind quant.stats_ref. If the module has none, it gets them
from the pass quant-insert-stats-refs, with the keys that the pass always gives."""

_EPILOG = """\
observers:
  min-max              from the smallest to the largest value
  moving-average=0.9   moving averages of the ends of the range of each batch
  percentile=99.99     the middle 99.99 percent of all values
  entropy=8            loses the least information if stored values have 8 bits
  mse=8                has the smallest squared error if stored values have 8 bits

examples:
  xdsl-quant-calibrate model.mlir --inputs data.npz -o stats.json
  xdsl-quant-calibrate model.mlir --inputs x.npy --batch-size 32 \\
      --observer percentile=99.99 --progress -o stats.json
  xdsl-quant-calibrate model.mlir --inputs x.npy --axis main:argument:0=1 -o stats.json"""

_BAR_LENGTH = 40


def main(args: Sequence[str] | None = None) -> int:
    """The exit code of the command: 0, or 1 after an error message."""
    return exit_code(_run, _parser().parse_args(args))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xdsl-quant-calibrate",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("module", help="file with the module, - for standard input")
    parser.add_argument(
        "--inputs",
        action="append",
        required=True,
        metavar="FILE",
        help="arguments of the function in their order: a .npy file, file.npz:key, or "
        "file.npz for all arrays in it; more than once for several",
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
        "--entry",
        metavar="NAME",
        help="the function; by default the only public one, or else 'main'",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        metavar="N",
        help="cut all arrays along their first dimension into batches of N, the last of "
        "which may be smaller; by default there is one batch of whole arrays",
    )
    parser.add_argument(
        "--axis",
        action="append",
        default=[],
        metavar="KEY=DIMENSION",
        help="a range for each index of a dimension, for the values of a key",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="where to keep what was observed, so that an interrupted run is resumed",
    )
    parser.add_argument(
        "-p",
        "--passes",
        default="",
        metavar="PIPELINE",
        help="passes to apply first, as for xdsl-opt",
    )
    parser.add_argument(
        "--progress",
        action="store_true",
        help="show how far it is, if standard error is a terminal",
    )
    return parser


def _run(options: argparse.Namespace) -> None:
    try:
        parse_observer(options.observer)
    except ValueError as error:
        raise failure("--observer", error) from error
    axes = dict(map(_axis, options.axis))
    if not Path(options.output).absolute().parent.is_dir():
        raise Failure(f"{options.output}: error: there is no such directory")
    module = _module(options)
    inputs = [
        np.asarray(value) for text in options.inputs for value in read_values(text)
    ]
    batches = _batches(inputs, options.batch_size)
    shown = options.progress and sys.stderr.isatty()
    try:
        statistics = calibrate(
            module,
            _with_progress(batches) if shown else batches,
            options.entry,
            options.observer,
            axes=axes,
            checkpoint=options.checkpoint,
        )
    except (TypeError, ValueError, ImportError, OSError) as error:
        raise failure(options.module, error) from error
    try:
        statistics.save(options.output)
    except OSError as error:
        raise failure(options.output, error) from error
    _print(statistics)


def _axis(text: str) -> tuple[str, int]:
    key, _, dimension = text.rpartition("=")
    if not key or not dimension.isdecimal():
        raise Failure(f"--axis {text}: error: it is no key, '=' and a dimension")
    return key, int(dimension)


# The module


def _module(options: argparse.Namespace) -> ModuleOp:
    """The module, with something to observe."""
    text = read_text(options.module)
    try:
        passes = parse_passes(options.passes)
        module = parse_module(text, options.module)
        apply_passes(module, passes)
        if not any(isinstance(op, StatisticsRefOp) for op in module.walk()):
            _insert_refs(module, options)
    except (IRError, ValueError) as error:
        raise failure(options.module, error) from error
    return module


def _insert_refs(module: ModuleOp, options: argparse.Namespace) -> None:
    function = entry_function(module, options.entry)
    name = function.sym_name.data
    apply_passes(module, [QuantInsertStatsRefsPass(symbols=(name,))])
    refs = [op for op in function.walk() if isinstance(op, StatisticsRefOp)]
    inner = [ref for ref in refs if ref.parent_op() is not function]
    for ref in inner:
        Rewriter.replace_op(ref, (), (ref.input,))
    if inner:
        keys = ", ".join(f"'{ref.stats_key.data}'" for ref in inner)
        print(
            f"{options.module}: warning: values in loops and branches are left out: {keys}",
            file=sys.stderr,
        )


# Samples


def _batches(
    arrays: Sequence[NDArray[Any]], size: int | None
) -> Sequence[tuple[NDArray[Any], ...]]:
    if size is None:
        return [tuple(arrays)]
    if size < 1:
        raise Failure(f"--batch-size {size}: error: it is not positive")
    counts = {len(array) if array.ndim else 0 for array in arrays}
    if len(counts) != 1:
        listed = ", ".join(str(array.shape) for array in arrays)
        raise Failure(
            "--inputs: error: arrays must have the same number of samples in their first "
            f"dimension, but have shapes {listed}"
        )
    starts = range(0, counts.pop(), size)
    return [tuple(array[i : i + size] for array in arrays) for i in starts]


def _with_progress(
    batches: Sequence[tuple[NDArray[Any], ...]],
) -> Iterator[tuple[NDArray[Any], ...]]:
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


# Results


def _print(statistics: Statistics) -> None:
    for key in sorted(statistics.observations):
        low, high = statistics.ranges(key).layer
        print(f"{key}: {low} to {high}")


if __name__ == "__main__":
    sys.exit(main())
