"""Claims of `xdsl-quant prove`, selected by its options."""

import argparse
import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.proving import (
    RequantizationProver,
    Theorem,
    accumulators,
    preserved,
    provers,
)
from xdsl_quant.proving.modules import has_casts
from xdsl_quant.proving.pipelines import lowering
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.extras import slice_function
from xdsl_quant.runtime.loading import parse_type

from .failures import Failure, read_module, read_type_or_module
from .options import rounding_options, shows_progress, with_counted_progress

_Claims = Iterator[tuple[str, Iterator[Theorem]]]
"""Pairs of a title and its claims."""


def claims(options: argparse.Namespace) -> _Claims:
    """Yield the claims that the options select."""
    _check_options(options)
    if options.to is not None:
        yield _requantization_claims(options)
        return
    given = rounding_options(options)
    if "rounding_mode" in given:
        given["mode"] = given.pop("rounding_mode")
    rounding = Rounding(**given)
    if options.after is not None:
        if options.module.startswith("!"):
            raise Failure(
                f"{options.module}: error: --after needs a module, not a type"
            )
        yield _pipeline_claim(options, rounding)
        return
    source = read_type_or_module(options)
    if not isinstance(source, str):
        sums, has_more = [*accumulators(source)], has_casts(source)
        if sums and not has_more:
            check_unused(
                options, given_options(options) - {"--passes"}, "without casts"
            )
        if sums:
            yield f"{options.module}: products", (each.theorem() for each in sums)
            if not has_more:
                return
    yield from _cast_claims(options, source, rounding)


def _requantization_claims(
    options: argparse.Namespace,
) -> tuple[str, Iterator[Theorem]]:
    # The prover rejects types other than fixed-point types.
    source, target = map(cast(Any, parse_type), (options.module, options.to))
    prover = RequantizationProver(
        source, target, options.scale_rounding, options.seconds
    )
    return f"{source} to {target}: {prover.passes}", prover.theorems()


def _pipeline_claim(
    options: argparse.Namespace, rounding: Rounding
) -> tuple[str, Iterator[Theorem]]:
    if "convert-tfl-to-" in options.after:
        unused = given_options(options) - {"--after", "--passes"}
        check_unused(options, unused, "for kernels")
        # Loads MLIR and the recording of kernels.
        prove = slice_function("--after", "proving.kernels.kernel_theorems")
        title = f"{options.module}: {options.after}, kernel by kernel"
        return title, prove(read_module(options), options.after)
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
    return f"{options.module}: {options.after}", iter([theorem])


def _cast_claims(
    options: argparse.Namespace, source: str | ModuleOp, rounding: Rounding
) -> _Claims:
    scales = None if options.scales is None else tuple(options.scales)
    found = provers(
        source,
        rounding,
        fuse=options.fuse,
        scales=scales,
        seconds=options.seconds,
    )
    progress = with_counted_progress if shows_progress(options) else iter
    for prover in found:
        theorems = prover.theorems()
        if options.all_inputs:
            theorems = chain(theorems, prover.all_inputs(progress))
        yield f"{prover.cast.type}: {prover.passes}", theorems


def _commands(
    options: argparse.Namespace, inputs: Sequence[str], lowered_by: str
) -> str:
    """Return two commands that run `inputs`: without and with the passes of `--after`."""
    arguments = [f"--shape={shape}" for shape in options.shape]
    arguments += ["--static"] if options.static else []
    arguments += [] if options.entry is None else [f"--entry={options.entry}"]
    pipelines = [
        ",".join(filter(None, (options.passes, *passes, lowered_by)))
        for passes in ((), (options.after,))
    ]
    return "\n".join(
        shlex.join(
            ["xdsl-quant", "run", options.module, *arguments, *inputs, "-p", each]
        )
        for each in pipelines
    )


def _check_options(options: argparse.Namespace) -> None:
    """
    Check that the options can be combined.

    Raises:
        ValueError: if an option has no effect or an invalid value.
    """
    if not 0 < options.seconds < math.inf:
        raise ValueError(
            f"expected a positive number of --seconds, found {options.seconds:g}"
        )
    if options.to is not None:
        check_unused(
            options, given_options(options) - {"--scale-rounding", "--to"}, "with --to"
        )
        return
    if options.after is not None:
        check_unused(options, {"--all-inputs", "--scales"}, "with --after")
        return
    check_unused(options, {"--entry", "--scale-rounding"}, "without --after")
    if options.scales is not None:
        check_unused(options, {"--all-inputs"}, "with --scales")


def check_unused(options: argparse.Namespace, unused: set[str], where: str) -> None:
    """
    Raise a `ValueError` if an option in `unused` is set; `where` says why it has no effect.
    """
    for name in sorted(unused & given_options(options)):
        raise ValueError(f"option {name} has no effect {where}; remove it")


def given_options(options: argparse.Namespace) -> set[str]:
    """Return the options that differ from their default."""
    given = {
        "--after": options.after is not None,
        "--all-inputs": options.all_inputs,
        "--entry": options.entry is not None,
        "--fuse": options.fuse,
        "--passes": bool(options.passes),
        "--scale-rounding": options.scale_rounding != "single",
        "--scales": options.scales is not None,
        "--to": options.to is not None,
    }
    rounding = {f"--{name.replace('_', '-')}" for name in rounding_options(options)}
    return rounding | {name for name, is_given in given.items() if is_given}
