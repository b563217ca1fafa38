"""Certificates of `xdsl-quant prove --against`: bounds of the error of a model."""

import argparse
import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.proving.certificates import Certificate, Region, certify, witnesses
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
            function = entry_function(quantized, options.entry)
            check_function(function)
            batches, _ = batches_of(options.samples, function)
            samples = np.stack([np.asarray(as_tuple(batch)[0]) for batch in batches])
            radius, *limits = options.radius
            ends = (limits[0], limits[1]) if limits else None
            region = Region.ball(samples, radius, ends)
        tries = 100 if options.tries is None else options.tries
        found = certify(
            quantized, float_module, region, entry=options.entry, tries=tries
        )
    print_results([found, *_witness_commands(options, found)], options)
    write_text(options.json, found.json())


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
    for _, number, claim, argument in witnesses(found):
        if claim in shown or len(argument) > _MOST_SHOWN:
            continue
        shown.add(claim)
        array = np.array(argument).astype(np.float32).reshape(found.shape)
        text = json.dumps([float(f"{x:.9g}") for x in array.ravel().tolist()])
        text = json.dumps(np.array(json.loads(text)).reshape(found.shape).tolist())
        lines.append(f"refuted in region {number}, {_NAMES[claim]}:")
        models = {
            "float": [options.against],
            "quantized": [options.module],
            "agreement": [options.against, options.module],
        }
        lines += [
            shlex.join(["xdsl-quant", "run", model, f"--input={text}"])
            for model in models[claim]
        ]
    return ["", *lines] if lines else []


_NAMES = {
    "float": "float model",
    "quantized": "quantized model",
    "agreement": "both models",
}
