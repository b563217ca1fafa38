"""
Prove what holds of lowered casts for all inputs, or find an input for which it does not.

The casts of a type, or of all types in a module, are lowered by lower-quant-ops, as
scalars. The solver Bitwuzla decides: results are defined for all inputs, whatever they are,
and are those of the formula; qcast is monotone; and qcast(dcast(q)) = q. What is refuted
has a command that shows it.

examples:
  xdsl-quant-prove '!quant.uniform<i8:f32, 0.3:5>'
  xdsl-quant-prove '!quant.uniform<i8:f32, 0.3:5>' --rounding-mode truncate
  xdsl-quant-prove '!quant.uniform<i8:f32, 1.0>' --scales 1e-30 1e30
  xdsl-quant-prove model.mlir --all-inputs
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence

from xdsl_quant.diagnostics import counted
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.loading import IRError

from .failures import Failure, exit_code, read_module, reported
from .options import (
    add_passes_option,
    add_progress_option,
    add_rounding_options,
    command_parser,
    given_rounding,
    shows_progress,
)
from .progress import with_progress


def main(args: Sequence[str] | None = None) -> int:
    """The exit code of the command: 0 if all is proved, or 1 after an error message."""
    return exit_code(_run, _parser().parse_args(args))


def _parser() -> argparse.ArgumentParser:
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
    add_rounding_options(parser, "casts")
    add_passes_option(parser)
    add_progress_option(parser)
    parser.set_defaults(shape=[], static=False)
    return parser


def _run(options: argparse.Namespace) -> None:
    with reported(options.module, ImportError):
        from xdsl_quant.proving import CastProver, Theorem, UnsupportedError, provers

    errors = (UnsupportedError, IRError, ValueError, ImportError)
    is_type = options.module.startswith("!")
    source = options.module if is_type else read_module(options)
    given = given_rounding(options)
    if "rounding_mode" in given:
        given["mode"] = given.pop("rounding_mode")
    scales = None if options.scales is None else tuple(options.scales)
    with reported(options.module, *errors):
        found = provers(
            source,
            Rounding(**given),
            fuse=options.fuse,
            scales=scales,
            seconds=options.seconds,
        )

    def claims(prover: CastProver) -> Iterator[Theorem]:
        yield from prover.theorems()
        if options.all_inputs:
            yield from prover.all_inputs(_chunks if shows_progress(options) else iter)

    open_count = 0
    for prover in found:
        print(f"{prover.cast.type}: {prover.passes}")
        with reported(options.module, *errors):
            for theorem in claims(prover):
                print(f"  {theorem}", flush=True)
                open_count += theorem.verdict != "proved"
    if open_count:
        raise Failure(
            f"{options.module}: error: {counted(open_count, 'claim')} not proved"
        )


def _chunks(chunks: Iterable[int]) -> Iterator[int]:
    known = [*chunks]
    return with_progress(known, len(known))


if __name__ == "__main__":
    sys.exit(main())
