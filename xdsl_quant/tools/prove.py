"""
Prove what holds of lowered casts for all inputs, or find an input for which it does not.

The casts of a type, or of all types in a module, are lowered by lower-quant-ops, as
scalars. The solver Bitwuzla decides: results are defined for all inputs, whatever they are,
and are those of the formula; qcast is monotone; and qcast(dcast(q)) = q. What is refuted
has inputs, and a command that shows it if one can. Of products in a module it says how
large their sums become.

With --after, a module of functions of scalars and small tensors is compared with what
passes make of it: both are lowered, and compute the same for all inputs.

examples:
  xdsl-quant-prove '!quant.uniform<i8:f32, 0.3:5>'
  xdsl-quant-prove '!quant.uniform<i8:f32, 0.3:5>' --rounding-mode truncate
  xdsl-quant-prove '!quant.uniform<i8:f32, 1.0>' --scales 1e-30 1e30
  xdsl-quant-prove model.mlir --all-inputs
  xdsl-quant-prove model.mlir --after canonicalize
  xdsl-quant-prove '!quant.fixed_point<i32:f32, 1518500250p-37>' \\
      --to '!quant.fixed_point<i8:f32, 1173741824p-30:3>'
"""

import argparse
import sys
from collections.abc import Sequence
from typing import get_args

from xdsl_quant.diagnostics import counted
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.runtime.loading import IRError

from .failures import Failure, exit_code, reported
from .options import add_options, add_rounding_options, command_parser


def main(args: Sequence[str] | None = None) -> int:
    """The exit code of the command: 0 if all is proved, or 1 after an error message."""
    return exit_code(_prove_claims, _prove_parser().parse_args(args))


def _prove_parser() -> argparse.ArgumentParser:
    parser = command_parser("xdsl-quant-prove", __doc__)
    parser.add_argument(
        "module",
        metavar="type",
        help="a quantized type; or a file with a module, - for standard input",
    )
    parser.add_argument(
        "--fuse", action="store_true", help="lower with the option fuse=true"
    )
    parser.add_argument(
        "--scales",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="prove it for all scales from one to another, in place of those of the types",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="how long the solver may take for a claim (default: %(default)g)",
    )
    parser.add_argument(
        "--all-inputs",
        action="store_true",
        help="also give compiled code and NumPy all expressed values, 4,294,967,296 of f32",
    )
    parser.add_argument(
        "--to",
        metavar="TYPE",
        help="prove what holds of requantization from one !quant.fixed_point type to this",
    )
    parser.add_argument(
        "--scale-rounding",
        choices=get_args(ScaleRounding),
        default="single",
        help="how requantization rounds (default: %(default)s)",
    )
    parser.add_argument(
        "--after",
        metavar="PIPELINE",
        help="prove that a module computes the same after these passes",
    )
    add_options(parser, "--entry")
    add_rounding_options(parser, "casts")
    add_options(parser, "-p/--passes", "--no-progress", "--shape", "--static")
    return parser


def _prove_claims(options: argparse.Namespace) -> None:
    with reported(options.module, ImportError):
        # They need the extra `prove`.
        from xdsl_quant.proving import UnsupportedError

        from .prove_claims import claims

    errors = (UnsupportedError, IRError, ValueError, ImportError)
    open_count = 0
    with reported(options.module, *errors):
        for title, theorems in claims(options):
            print(title)
            for theorem in theorems:
                print(f"  {theorem}", flush=True)
                open_count += theorem.verdict != "proved"
    if open_count:
        raise Failure(
            f"{options.module}: error: {counted(open_count, 'claim')} not proved"
        )


if __name__ == "__main__":
    sys.exit(main())
