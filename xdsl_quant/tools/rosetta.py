"""
Compare the integers that runtimes compute for a quantized type: the definitions of ONNX and
StableHLO, onnxruntime, torch, LiteRT's kernels and XNNPACK, StableHLO's interpreter, MLIR's
own lowering, and compiled code with each of its options.

The table shows for each runtime the number of inputs whose result differs from that of the
reference runtime, the first such input, the stored value of NaN, and the options with which
compiled code computes the same. Runtimes that are not installed are skipped.

For a TensorFlow Lite model, the command compares each op on stored values: onnxruntime,
LiteRT's kernels, XNNPACK, TOSA's reference model, and compiled code with its options.

examples:
  xdsl-quant-rosetta '!quant.uniform<i8:f32, 0.5:3>'
  xdsl-quant-rosetta '!quant.uniform<u8:f16, 0.1:128>' --against onnxruntime
  xdsl-quant-rosetta model.mlir --runtimes onnx-definition,litert-xnnpack --json table.json
  xdsl-quant-rosetta model.tflite --static --ops add,conv_2d --against litert-reference
"""

import argparse
import sys
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.rosetta import (
    OP_RUNTIMES,
    RUNTIMES,
    RuntimeComparison,
    Unavailable,
    compare_ops,
    compare_runtimes,
)
from xdsl_quant.rosetta.comparison import comparisons_json
from xdsl_quant.runtime.loading import IRError

from .failures import exit_code, naming_failures, read_type_or_module, write_json
from .options import add_options, command_parser, shows_progress, with_counted_progress


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = command_parser("xdsl-quant-rosetta", __doc__)
    parser.add_argument(
        "module",
        metavar="type",
        help="a quantized type; or a file with a module, - for standard input, or a "
        ".tflite file, to compare the types of its casts, or its tfl ops",
    )
    parser.add_argument(
        "--against",
        metavar="RUNTIME",
        default="compiled",
        help="reference runtime (default: %(default)s)",
    )
    known = ", ".join(RUNTIMES)
    parser.add_argument(
        "--runtimes",
        metavar="NAMES",
        help=f"runtimes to compare, separated by commas (default for types: {known}; "
        f"for ops: {', '.join(OP_RUNTIMES)})",
    )
    parser.add_argument(
        "--ops",
        metavar="NAMES",
        help="ops to compare, separated by commas (default: all)",
    )
    parser.add_argument(
        "--all-inputs",
        action="store_true",
        help="quantize all 4,294,967,296 floats of 32 bits, which takes an hour",
    )
    names = "--json", "-p/--passes", "--no-progress", "--shape", "--static"
    add_options(parser, *names)
    return exit_code(_print_comparisons, parser.parse_args(args))


def _print_comparisons(options: argparse.Namespace) -> None:
    source = read_type_or_module(options)
    found: list[RuntimeComparison] = []
    with naming_failures(options.module, ValueError, Unavailable, IRError, ImportError):
        for comparison in _comparisons(source, options):
            print(comparison, flush=True)
            found.append(comparison)
    write_json(options.json, comparisons_json(found))


def _comparisons(
    source: ModuleOp | str, options: argparse.Namespace
) -> Iterator[RuntimeComparison]:
    names = None if options.runtimes is None else options.runtimes.split(",")
    if isinstance(source, ModuleOp) and any(
        op.name[:4] == "tfl." for op in source.walk()
    ):
        if options.all_inputs:
            raise ValueError("--all-inputs applies to types of casts, not to tfl ops")
        ops = None if options.ops is None else options.ops.split(",")
        yield from compare_ops(source, against=options.against, runtimes=names, ops=ops)
        return
    if options.ops is not None:
        raise ValueError("--ops applies to tfl ops, but the input has none")
    yield from compare_runtimes(
        source,
        against=options.against,
        runtimes=names,
        all_inputs=options.all_inputs,
        progress=with_counted_progress if shows_progress(options) else iter,
    )


if __name__ == "__main__":
    sys.exit(main())
