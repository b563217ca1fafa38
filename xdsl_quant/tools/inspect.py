"""
Print the quantized tensors of a module or of a TensorFlow Lite file as a table: the op
that gives each of them, its type with the range of its scales and zero points, and for a
constant the smallest and the largest stored value, and the part of its elements that has
a bound of the storage range.

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
    """The exit code of the command: 0, or 1 after an error message."""
    parser = command_parser("xdsl-quant-inspect", __doc__)
    add_options(parser, "module")
    parser.add_argument(
        "--sort",
        choices=SORT_NAMES,
        default=SORT_NAMES[0],
        help="what to sort by: the largest scale, size or part first; by default in the "
        "order of the module",
    )
    add_options(parser, "--json", "-p/--passes", "--shape", "--static")
    return exit_code(_inspect, parser.parse_args(args))


def _inspect(options: argparse.Namespace) -> None:
    check_files(options, "", {"--json": options.json})
    ctx = multiverse_context()
    # Ops of dialects that are not installed have types, too.
    ctx.allow_unregistered = True
    found = inspect(read_module(options, ctx)).sorted_by(options.sort)
    text = found if found.tensors else f"{options.module}: {found}"
    print_results([text], options.json)
    write_json(options.json, found.json())


if __name__ == "__main__":
    sys.exit(main())
