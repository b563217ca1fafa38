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

from __future__ import annotations

import argparse
import math
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, cast, get_args

from xdsl_quant.diagnostics import counted
from xdsl_quant.rounding_mode import Rounding, ScaleRounding
from xdsl_quant.runtime.loading import IRError, parse_type

from .failures import (
    Failure,
    exit_code,
    read_module,
    read_type_or_module,
    reported,
)
from .options import (
    add_entry_option,
    add_passes_option,
    add_progress_option,
    add_rounding_options,
    add_size_options,
    command_parser,
    given_rounding,
    shows_progress,
)
from .progress import with_progress

if TYPE_CHECKING:
    from xdsl_quant.proving import Theorem


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
    add_entry_option(parser)
    add_rounding_options(parser, "casts")
    add_passes_option(parser)
    add_progress_option(parser)
    add_size_options(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    with reported(options.module, ImportError):
        from xdsl_quant.proving import UnsupportedError

    errors = (UnsupportedError, IRError, ValueError, ImportError)
    open_count = 0
    with reported(options.module, *errors):
        for title, theorems in _claims(options):
            print(title)
            for theorem in theorems:
                print(f"  {theorem}", flush=True)
                open_count += theorem.verdict != "proved"
    if open_count:
        raise Failure(
            f"{options.module}: error: {counted(open_count, 'claim')} not proved"
        )


def _claims(options: argparse.Namespace) -> Iterator[tuple[str, Iterator[Theorem]]]:
    """The claims about each type, and what they are about."""
    from xdsl_quant.proving import (
        RequantizationProver,
        accumulators,
        preserved,
        provers,
    )
    from xdsl_quant.proving.modules import has_casts
    from xdsl_quant.proving.pipelines import lowering

    _check_options(options)
    if options.to is not None:
        # The prover checks that they are fixed-point types.
        source, target = map(cast(Any, parse_type), (options.module, options.to))
        prover = RequantizationProver(
            source, target, options.scale_rounding, options.seconds
        )
        yield f"{source} to {target}: {prover.passes}", prover.theorems()
        return
    given = given_rounding(options)
    if "rounding_mode" in given:
        given["mode"] = given.pop("rounding_mode")
    rounding = Rounding(**given)
    if options.after is not None:
        lowered_by = lowering(
            rounding, fuse=options.fuse, scale_rounding=options.scale_rounding
        )
        theorem = preserved(
            read_module(options),
            options.after,
            lowered_by=lowered_by,
            entry=options.entry,
            seconds=options.seconds,
        )
        if theorem.inputs is not None:
            command = _commands(options, theorem.inputs, lowered_by)
            theorem = replace(theorem, command=command)
        yield f"{options.module}: {options.after}", iter([theorem])
        return
    source = read_type_or_module(options)
    if not isinstance(source, str):
        sums, has_more = [*accumulators(source)], has_casts(source)
        if sums and not has_more:
            _check_unused(options, _given(options) - {"--passes"}, "without casts")
        if sums:
            yield f"{options.module}: products", (each.theorem() for each in sums)
            if not has_more:
                return
    scales = None if options.scales is None else tuple(options.scales)
    found = provers(
        source,
        rounding,
        fuse=options.fuse,
        scales=scales,
        seconds=options.seconds,
    )
    progress = _chunks if shows_progress(options) else iter
    for prover in found:
        theorems = prover.theorems()
        if options.all_inputs:
            theorems = chain(theorems, prover.all_inputs(progress))
        yield f"{prover.cast.type}: {prover.passes}", theorems


def _commands(
    options: argparse.Namespace, inputs: Sequence[str], lowered_by: str
) -> str:
    """What shows the results for inputs, before and after the passes of `--after`."""
    arguments = [f"--shape={shape}" for shape in options.shape]
    arguments += ["--static"] if options.static else []
    arguments += [] if options.entry is None else [f"--entry={options.entry}"]
    pipelines = [
        ",".join(filter(None, (options.passes, *passes, lowered_by)))
        for passes in ((), (options.after,))
    ]
    return "\n".join(
        shlex.join(["xdsl-quant-run", options.module, *arguments, *inputs, "-p", each])
        for each in pipelines
    )


def _check_options(options: argparse.Namespace) -> None:
    """
    Raises:
        ValueError: if an option has no meaning, alone or with others.
    """
    if not 0 < options.seconds < math.inf:
        raise ValueError(
            f"expected a positive number of --seconds, found {options.seconds:g}"
        )
    if options.to is not None:
        _check_unused(options, _given(options) - {"--scale-rounding"}, "with --to")
        return
    if options.after is not None:
        _check_unused(options, {"--all-inputs", "--scales"}, "with --after")
        return
    _check_unused(options, {"--entry", "--scale-rounding"}, "without --after")
    if options.scales is not None:
        _check_unused(options, {"--all-inputs"}, "with --scales")


def _check_unused(options: argparse.Namespace, unused: set[str], where: str) -> None:
    """
    Raises:
        ValueError: if an option is given that is not used.
    """
    for name in sorted(unused & _given(options)):
        raise ValueError(f"option {name} has no meaning {where}; leave it out")


def _given(options: argparse.Namespace) -> set[str]:
    """The options that are not as by default."""
    given = {
        "--after": options.after is not None,
        "--all-inputs": options.all_inputs,
        "--entry": options.entry is not None,
        "--fuse": options.fuse,
        "--passes": bool(options.passes),
        "--scale-rounding": options.scale_rounding != "single",
        "--scales": options.scales is not None,
    }
    rounding = {f"--{name.replace('_', '-')}" for name in given_rounding(options)}
    return rounding | {name for name, is_given in given.items() if is_given}


def _chunks(chunks: Iterable[int]) -> Iterator[int]:
    known = [*chunks]
    return with_progress(known, len(known))


if __name__ == "__main__":
    sys.exit(main())
