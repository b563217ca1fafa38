"""
Print the quantized tensors of a module or a TensorFlow Lite file as a table: defining op,
type, range of scales and zero points; for constants also the smallest and largest stored
value, and the fraction of elements at a bound of the storage range.

examples:
  xdsl-quant-inspect model.tflite
  xdsl-quant-inspect model.tflite --sort bytes --json tensors.json
  xdsl-quant-inspect model.mlir -p normalize-quant-types --sort scale
"""

import argparse
import sys
from collections.abc import Sequence

from xdsl_quant.quantizer.inspection import SORT_NAMES, inspect
from xdsl_quant.runtime.loading import multiverse_context

from .array_files import check_files
from .failures import exit_code, print_results, read_module, write_json
from .options import add_options, command_parser


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = command_parser("xdsl-quant-inspect", __doc__)
    add_options(parser, "module")
    parser.add_argument(
        "--sort",
        choices=SORT_NAMES,
        default=SORT_NAMES[0],
        help="sort key; the largest scale, size or fraction comes first (default: order of "
        "the module)",
    )
    add_options(parser, "--json", "-p/--passes", "--shape", "--static")
    return exit_code(_inspect, parser.parse_args(args))


def _inspect(options: argparse.Namespace) -> None:
    check_files(options, "", {"--json": options.json})
    ctx = multiverse_context()
    # Types are of interest even in ops of missing dialects.
    ctx.allow_unregistered = True
    found = inspect(read_module(options, ctx)).sorted_by(options.sort)
    text = found if found.tensors else f"{options.module}: {found}"
    print_results([text], options.json)
    write_json(options.json, found.json())


if __name__ == "__main__":
    sys.exit(main())
