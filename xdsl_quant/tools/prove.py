"""
Prove properties of lowered casts for all inputs, or find a counterexample.

The command lowers casts of scalars, for one type or for all types in a module. The solver
Bitwuzla decides for all inputs whether results are defined and equal to the formula of the
type, whether qcast is monotone, and whether qcast(dcast(q)) = q. For a refuted claim, the
command prints an input and, where possible, a command that runs it. For matrix products and
convolutions in a module, it computes the bounds of their sums.

With --after, the command compares a module of scalars and small tensors before and after
passes: both versions are lowered and must compute the same results for all inputs.

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

from .failures import Failure, exit_code, naming_failures
from .options import add_options, add_rounding_options, command_parser


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 1 if a claim is not proved."""
    return exit_code(_prove_claims, _prove_parser().parse_args(args))


def _prove_parser() -> argparse.ArgumentParser:
    parser = command_parser("xdsl-quant-prove", __doc__)
    parser.add_argument(
        "module",
        metavar="type",
        help="a quantized type, a file with a module, or - for standard input",
    )
    parser.add_argument(
        "--fuse", action="store_true", help="lower with the option fuse=true"
    )
    parser.add_argument(
        "--scales",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="prove the claims for all scales from LOW to HIGH, instead of the scales of "
        "the types",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="time limit of the solver for each claim (default: %(default)g)",
    )
    parser.add_argument(
        "--all-inputs",
        action="store_true",
        help="also run compiled code and NumPy on all expressed values (4,294,967,296 for "
        "f32)",
    )
    parser.add_argument(
        "--to",
        metavar="TYPE",
        help="prove requantization from a !quant.fixed_point type to this type",
    )
    parser.add_argument(
        "--scale-rounding",
        choices=get_args(ScaleRounding),
        default="single",
        help="rounding of requantization (default: %(default)s)",
    )
    parser.add_argument(
        "--after",
        metavar="PIPELINE",
        help="prove that these passes preserve the results of the module",
    )
    add_options(parser, "--entry")
    add_rounding_options(parser, "casts")
    add_options(parser, "-p/--passes", "--no-progress", "--shape", "--static")
    return parser


def _prove_claims(options: argparse.Namespace) -> None:
    with naming_failures(options.module, ImportError):
        # Needs the extra `prove`.
        from xdsl_quant.proving import UnsupportedError

        from .prove_claims import claims

    errors = (UnsupportedError, IRError, ValueError, ImportError)
    open_count = 0
    with naming_failures(options.module, *errors):
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
