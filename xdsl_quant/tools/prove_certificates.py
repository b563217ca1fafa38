"""Certificates of `xdsl-quant prove --against`: bounds of the error of a model."""

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.proving.certificates import Certificate, Region, certify, witnesses
from xdsl_quant.proving.certificates.certificate import TITLES
from xdsl_quant.proving.certificates.readers import check_function
from xdsl_quant.quantizer.samples import batches_of
from xdsl_quant.runtime.batches import as_tuple
from xdsl_quant.runtime.entry_function import entry_function

from .array_files import check_files
from .failures import (
    Failure,
    naming_failures,
    print_results,
    read_module,
    write_text,
)
from .prove_claims import check_unused, given_options

_MOST_SHOWN = 64
"""Largest number of elements of an argument that a command shows."""


def print_certificate(options: argparse.Namespace) -> None:
    """
    Print the certificate that the options describe, and commands for refuted claims.

    Raises:
        Failure: if an option is missing or has no effect, or a model cannot be bounded.
    """
    _check_region(options)
    with naming_failures(options.module, ValueError):
        unused = given_options(options) - {"--entry", "--passes"}
        check_unused(options, unused, "with --against")
    modules = {"--against " + options.against: options.against}
    check_files(options, {"--json": options.json}, modules)
    quantized = read_module(options)
    own = {**vars(options), "module": options.against, "passes": ""}
    float_module = read_module(argparse.Namespace(**own))
    errors = ValueError, TypeError, OSError, PassFailedException
    with naming_failures(options.module, *errors):
        if options.samples is None:
            region = Region.calibrated(quantized, options.entry)
        else:
            region = _balls(options, entry_function(quantized, options.entry))
        tries = 100 if options.tries is None else options.tries
        found = certify(
            quantized, float_module, region, entry=options.entry, tries=tries
        )
    print_results([found, *_witness_commands(options, found)], options)
    write_text(options.json, found.json())


def _balls(options: argparse.Namespace, function: FuncOp) -> Region:
    """Return the balls around samples that the options describe."""
    check_function(function)
    batches, _ = batches_of(options.samples, function)
    samples = np.stack([np.asarray(as_tuple(batch)[0]) for batch in batches])
    radius, *limits = options.radius
    text = " ".join(f"{number:g}" for number in options.radius)
    with naming_failures(f"--radius {text}", ValueError):
        return Region.ball(samples, radius, (limits[0], limits[1]) if limits else None)


def _check_region(options: argparse.Namespace) -> None:
    """Check that samples and radius are given together, and the number of tries."""
    place = options.module
    if (options.samples is None) != (options.radius is None):
        missing = "--radius" if options.radius is None else "--samples"
        raise Failure(
            f"{place}: error: missing option {missing}; give --samples and --radius, or "
            "neither for all arguments that the model stores"
        )
    if options.radius is not None and len(options.radius) not in (1, 3):
        raise Failure(
            f"{place}: error: expected --radius R or --radius R LOW HIGH, found "
            f"{len(options.radius)} numbers"
        )
    if options.tries is not None and options.tries < 0:
        raise Failure(
            f"--tries {options.tries}: error: expected a number of at least 0"
        )
    if options.samples is not None and not Path(options.samples).is_file():
        raise Failure(f"--samples {options.samples}: error: no such file")


def _witness_commands(options: argparse.Namespace, found: Certificate) -> Sequence[str]:
    """Return a command for the first argument that refutes each claim."""
    lines: list[str] = []
    shown: set[str] = set()
    for number, claim, argument in witnesses(found):
        if claim in shown:
            continue
        shown.add(claim)
        lines.append(f"refuted in region {number}, {TITLES[claim]}:")
        if len(argument) > _MOST_SHOWN:
            key = f"regions[{number}].witnesses.{claim}"
            lines.append(f"by {len(argument)} numbers: see '{key}' of --json FILE")
            continue
        numbers = np.array([float(f"{x:.9g}") for x in argument])
        text = json.dumps(numbers.reshape(found.shape).tolist())
        models: list[list[str]] = []
        if claim != "quantized":
            models.append([options.against])
        if claim != "float":
            passes = ["-p", options.passes] if options.passes else []
            models.append([options.module, *passes])
        entry = ["--entry", options.entry] if options.entry else []
        lines += [
            shlex.join(["xdsl-quant", "run", *model, *entry, f"--input={text}"])
            for model in models
        ]
    return ["", *lines] if lines else []
