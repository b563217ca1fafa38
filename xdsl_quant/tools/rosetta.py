"""
Compare which integers runtimes compute for a quantized type: the definitions of ONNX and
StableHLO, onnxruntime, torch, LiteRT's kernels and XNNPACK, StableHLO's interpreter, MLIR's
own lowering, and compiled code with each of its options.

For each runtime: for how many inputs its result differs from that of the runtime that all
are compared with, the first of these inputs, what NaN becomes, and the options with which
compiled code computes the same. Runtimes that are not installed are left out.

Of a TensorFlow Lite model each op that computes with stored values is compared: by
onnxruntime, by LiteRT's kernels and XNNPACK, by TOSA's reference model, and by compiled
code with its options.

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
    Comparison,
    Unavailable,
    compare_ops,
    compare_runtimes,
)
from xdsl_quant.rosetta.comparison import comparisons_json
from xdsl_quant.runtime.loading import IRError

from .failures import exit_code, read_type_or_module, reported, write_json
from .options import (
    add_options,
    command_parser,
    shows_progress,
    with_counted_progress,
)


def main(args: Sequence[str] | None = None) -> int:
    """The exit code of the command: 0, or 1 after an error message."""
    parser = command_parser("xdsl-quant-rosetta", __doc__)
    parser.add_argument(
        "module",
        metavar="type",
        help="a quantized type; or a file with a module, - for standard input, or a "
        ".tflite file, for the types of all its casts, or for its ops of tfl",
    )
    parser.add_argument(
        "--against",
        metavar="RUNTIME",
        default="compiled",
        help="what all others are compared with (default: %(default)s)",
    )
    known = ", ".join(RUNTIMES)
    parser.add_argument(
        "--runtimes",
        metavar="NAMES",
        help=f"what is compared, separated by commas; by default all of: {known}; "
        f"of ops all of: {', '.join(OP_RUNTIMES)}",
    )
    parser.add_argument(
        "--ops",
        metavar="NAMES",
        help="the ops of a model that are compared, separated by commas; by default all",
    )
    parser.add_argument(
        "--all-inputs",
        action="store_true",
        help="quantize all floats of 32 bits, 4,294,967,296, which takes an hour",
    )
    names = "--json", "-p/--passes", "--no-progress", "--shape", "--static"
    add_options(parser, *names)
    return exit_code(_print_comparisons, parser.parse_args(args))


def _print_comparisons(options: argparse.Namespace) -> None:
    source = read_type_or_module(options)
    found: list[Comparison] = []
    with reported(options.module, ValueError, Unavailable, IRError, ImportError):
        for comparison in _comparisons(source, options):
            print(comparison, flush=True)
            found.append(comparison)
    write_json(options.json, comparisons_json(found))


def _comparisons(
    source: ModuleOp | str, options: argparse.Namespace
) -> Iterator[Comparison]:
    names = None if options.runtimes is None else options.runtimes.split(",")
    if isinstance(source, ModuleOp) and any(
        op.name[:4] == "tfl." for op in source.walk()
    ):
        if options.all_inputs:
            raise ValueError("--all-inputs is for types of casts, not for ops of tfl")
        ops = None if options.ops is None else options.ops.split(",")
        yield from compare_ops(source, against=options.against, runtimes=names, ops=ops)
        return
    if options.ops is not None:
        raise ValueError("--ops is for ops of tfl, which are not in it")
    yield from compare_runtimes(
        source,
        against=options.against,
        runtimes=names,
        all_inputs=options.all_inputs,
        progress=with_counted_progress if shows_progress(options) else iter,
    )


if __name__ == "__main__":
    sys.exit(main())
